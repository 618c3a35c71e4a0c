/** The promise of `finished()`, for streams, events and devices alike: it rejects where others would throw. */
import { checkOptions, checkSignal } from './arguments.js'
import type { Cancel, Settle } from './driver/driver.js'
import { heardFrom } from './errors.js'

/** How `finished()` waits. */
export interface WaitOptions {
  /** Gives up the wait: the promise rejects with the signal's reason. The GPU's work goes on. */
  readonly signal?: AbortSignal | undefined
}

/** What is to be done when a signal is aborted. Each has one listener only: Node warns of a leak where it has many. */
const aborts = new WeakMap<AbortSignal, Set<() => void>>()

function whenAborted(signal: AbortSignal, abort: () => void): () => void {
  const known = aborts.get(signal)
  const all = known ?? new Set()
  all.add(abort)
  if (known === undefined) {
    aborts.set(signal, all)
    signal.addEventListener('abort', onAbort, { once: true })
  }
  return () => {
    all.delete(abort)
    if (all.size > 0 || aborts.get(signal) !== all) return
    aborts.delete(signal)
    signal.removeEventListener('abort', onAbort)
  }
}

function onAbort({ target }: globalThis.Event): void {
  const signal = target as AbortSignal
  const all = aborts.get(signal)
  aborts.delete(signal)
  for (const abort of all ?? []) abort()
}

/** `whom` is what an error says was waited for. */
export function finished(
  options: WaitOptions | undefined,
  whom: () => string,
  start: (settle: Settle) => Cancel,
): Promise<void> {
  return new Promise((resolve, fail) => {
    const reject = (error: unknown): void => fail(heardFrom(error, whom()))
    const settle: Settle = (error) => (error === undefined ? resolve() : reject(error))
    const signal = checkSignal(checkOptions(options)?.signal)
    signal?.throwIfAborted()
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
