/** Whether the work of a stream is done: the query, the wait that blocks and the one that does not. */
import { reportedWhileWaiting } from '../../foundation/base/errors.js'
import { pollsInVain, warnOfPolling } from '../../foundation/base/warnings.js'
import { finished, type WaitOptions } from '../../foundation/driver/finished.js'
import { following, throwRejected } from '../../foundation/driver/promise-waits.js'
import { type StreamImpl, streamImplOf } from './stream-impl.js'

/** Whether all work of the stream is done. Warns of a program that polls for seconds. */
export function isDone(impl: StreamImpl): boolean {
  try {
    const done = impl.driver.streams.query(impl.handle, impl.isKnownIdle)
    if (done) impl.markIdle(impl.queuedCalls)
    if (!done && pollsInVain()) warnOfPolling('stream.query()', impl, impl.driver.streams.blockedBy(impl.handle))
    return done
  } catch (error) {
    throw reportedWhileWaiting(error, describeWait(impl))
  }
}

/** Blocks until all work of the stream is done. */
export function waitUntilDone(impl: StreamImpl): void {
  // A query costs less than a wait, if there is probably nothing to wait for.
  if (!(impl.isUnusedSinceIdle && isDoneNow(impl))) {
    const { queuedCalls } = impl
    try {
      impl.driver.streams.synchronize(impl.handle)
    } catch (error) {
      throw reportedWhileWaiting(error, describeWait(impl))
    }
    impl.markIdle(queuedCalls)
  }
  throwRejected(impl.promises)
}

/** Resolves when all work is done that is queued now. `open` throws if the receiver is no open stream. */
export function whenDone(
  stream: unknown,
  open: (stream: unknown) => StreamImpl,
  options: WaitOptions | undefined,
): Promise<void> {
  return finished(
    options,
    () => describeWait(streamImplOf(stream)),
    (settle) => {
      const { driver, handle, context, promises } = open(stream)
      return following(promises, settle, (settleWait) => driver.streams.finished(handle, context, settleWait))
    },
  )
}

/** What is waited for, as errors name it. */
function describeWait(impl: StreamImpl | undefined): string {
  if (impl === undefined) return 'a stream'
  return impl.lastWork === undefined ? `${impl}` : `${impl}; the last operation queued there was ${impl.lastWork}`
}

/** False if the driver refuses the query: the call that the program made is the one to throw. */
function isDoneNow(stream: StreamImpl): boolean {
  try {
    return stream.driver.streams.query(stream.handle, stream.isKnownIdle)
  } catch {
    return false
  }
}
