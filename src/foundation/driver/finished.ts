/** The promise of `finished()` of streams, events and devices. Errors reject the promise, and nothing is thrown. */
import { checkSignal, readOptions } from '../base/arguments.js'
import { CudaError, reportedWhileWaiting } from '../base/errors.js'
import { monotonicTime } from '../base/event-loop.js'
import type { Cancel, Settle } from './event-driver.js'

/** How `finished()` waits. */
export interface WaitOptions {
  /**
   * Gives up the wait: the promise rejects with the signal's reason. The TimeoutError or AbortError of a signal without a reason of the program's is
   * the `cause` of one of that name, which says what was waited for. The GPU's work goes on.
   */
  readonly signal?: AbortSignal | undefined
}

interface Waiting {
  readonly calls: Set<() => void>
  readonly end: () => void
}

/**
 * The calls to make when a signal is aborted. Each signal has one listener only: Node warns of a leak where it has
 * many.
 */
const aborts = new WeakMap<AbortSignal, Waiting>()

/** Calls the function when the signal is aborted, unless the result is called before. */
export function whenAborted(signal: AbortSignal, abort: () => void): () => void {
  const waiting = aborts.get(signal) ?? listen(signal)
  waiting.calls.add(abort)
  return () => {
    waiting.calls.delete(abort)
    if (waiting.calls.size === 0) waiting.end()
  }
}

function listen(signal: AbortSignal): Waiting {
  const calls = new Set<() => void>()
  const onAbort = (): void => {
    end()
    for (const abort of calls) abort()
  }
  const end = (): void => {
    if (aborts.get(signal) !== waiting) return
    aborts.delete(signal)
    signal.removeEventListener('abort', onAbort)
  }
  const waiting = { calls, end }
  aborts.set(signal, waiting)
  signal.addEventListener('abort', onAbort)
  return waiting
}

/**
 * What a wait rejects with that a signal gives up: the signal's reason. Those that `AbortSignal.timeout()` and `abort()` make say nothing of the
 * wait: an error of the same name, whose cause they are, says what was waited for, and for how long since `began`; undefined: not at all.
 */
export function givenUpFor({ reason }: AbortSignal, whom: () => string, began: number | undefined): unknown {
  if (!(reason instanceof DOMException) || !/^(?:Abort|Timeout)Error$/.test(reason.name)) return reason
  const seconds = began === undefined ? 0 : (monotonicTime() - began) / 1000
  const when = began === undefined ? 'before the wait' : `after ${seconds.toFixed(seconds < 1 ? 3 : 1)} s of waiting`
  const error = new DOMException(`${reason.message}: ${when} for ${whom()}`, reason.name)
  Object.defineProperty(error, 'cause', { value: reason, configurable: true, writable: true })
  return error
}

/** `whom` names the awaited work in errors. */
export function finished(
  options: WaitOptions | undefined,
  whom: () => string,
  start: (settle: Settle) => Cancel,
): Promise<void> {
  return new Promise((resolve, fail) => {
    const reject = (error: unknown): void =>
      fail(error instanceof CudaError ? reportedWhileWaiting(error, whom()) : error)
    const settle: Settle = (error) => (error === undefined ? resolve() : reject(error))
    const signal = checkSignal(readOptions(options, ['signal']).signal)
    if (signal?.aborted) throw givenUpFor(signal, whom, undefined)
    try {
      if (signal === undefined) start(settle)
      else startUntil(signal, whom, start, settle, fail)
    } catch (error) {
      reject(error)
    }
  })
}

function startUntil(
  signal: AbortSignal,
  whom: () => string,
  start: (settle: Settle) => Cancel,
  settle: Settle,
  fail: (reason: unknown) => void,
): void {
  let forget: (() => void) | undefined
  let isSettled = false
  const began = monotonicTime()
  const cancel = start((error) => {
    isSettled = true
    forget?.()
    settle(error)
  })
  if (isSettled) return
  forget = whenAborted(signal, () => {
    cancel()
    fail(givenUpFor(signal, whom, began))
  })
}
