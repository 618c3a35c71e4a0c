/** The promise of `finished()` of streams, events and devices. Errors reject the promise, and nothing is thrown. */
import { checkSignal, readOptions } from '../base/arguments.js'
import { CudaError, reportedWhileWaiting } from '../base/errors.js'
import type { Cancel, Settle } from './event-driver.js'

/** How `finished()` waits. */
export interface WaitOptions {
  /** Gives up the wait: the promise rejects with the signal's reason. The GPU's work goes on. */
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
    if (signal?.aborted) throw signal.reason
    try {
      if (signal === undefined) start(settle)
      else startUntil(signal, start, settle, fail)
    } catch (error) {
      reject(error)
    }
  })
}

function startUntil(
  signal: AbortSignal,
  start: (settle: Settle) => Cancel,
  settle: Settle,
  fail: (reason: unknown) => void,
): void {
  let forget: (() => void) | undefined
  let isSettled = false
  const cancel = start((error) => {
    isSettled = true
    forget?.()
    settle(error)
  })
  if (isSettled) return
  forget = whenAborted(signal, () => {
    cancel()
    fail(signal.reason)
  })
}
