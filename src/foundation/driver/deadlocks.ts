/** Errors and warnings of both backends for waits that cannot end. */

import { stateError } from '../base/errors.js'
import { monotonicTime } from '../base/event-loop.js'
import { seconds, warnAfter, warnOnce } from '../base/warnings.js'

/**
 * Host functions that may wait one inside the other. They share one JavaScript stack, and one that has run over takes the
 * process with it: six hundred of the smallest fit into Node's usual stack.
 */
export const MOST_NESTED = 200

export const comesAfterItself =
  'it was called inside a host function, and what it waits for comes after that host function. Return from the host function first, or await finished() instead'

export const tooDeep = `${MOST_NESTED} host functions wait one inside the other, which is as many as fit into JavaScript's stack. Return from the host function first, or await finished() instead`

/** `promise` is the description of the promise that `blockedBy` returns. */
export const behindPromise = (promise: string): string =>
  `it comes after ${promise}, and no promise settles while this thread blocks. Await finished() instead`

/** Calls for which CUDA waits for the whole device, in native code where no JavaScript runs. */
export const SPLITTING = 'splitting a device, for which CUDA waits for it,'
export const LOADING = 'loading a module, in which CUDA waits for the whole device,'
export const LIBRARY_CALL = 'this call, which may wait for the whole device,'

export function deadlock(what: string, why: string): Error {
  return stateError('ERR_DEADLOCK', `${what} would wait forever: ${why}`)
}

/**
 * Returns a function that reports whether a drain is complete, by calling `isComplete`. It warns if all host functions that were
 * pending at first ran long ago: then the host functions queue each other, and the drain may never end.
 */
export function drained(isComplete: () => boolean, haveFirstRun: () => boolean): () => boolean {
  const begun = monotonicTime()
  return () => {
    if (isComplete()) return true
    if (monotonicTime() - begun > warnAfter() && haveFirstRun()) warnOnce('CUDA_STREAMS_DRAIN', endless(warnAfter()))
    return false
  }
}

const endless = (milliseconds: number): string =>
  `device.drainHostFunctions() has run host functions for ${seconds(milliseconds)}. Those that were pending at first have run, and others are pending that they have queued: it returns only when none is. Let them stop queuing the next one before you drain them`
