/** The promise of `finished()`, for streams, events and devices alike: it rejects where others would throw. */
import { checkOptions, checkSignal } from './arguments.js'
import type { Cancel, Settle } from './driver/driver.js'

/** How `finished()` waits. */
export interface WaitOptions {
  /** Gives up the wait: the promise rejects with the signal's reason. The GPU's work goes on. */
  readonly signal?: AbortSignal | undefined
}

export function finished(options: WaitOptions | undefined, start: (settle: Settle) => Cancel): Promise<void> {
  return new Promise((resolve, reject) => {
    const signal = checkSignal(checkOptions(options)?.signal)
    if (signal === undefined) {
      start((error) => (error === undefined ? resolve() : reject(error)))
      return
    }
    signal.throwIfAborted()
    const onAbort = (): void => {
      cancel()
      reject(signal.reason)
    }
    const cancel = start((error) => {
      signal.removeEventListener('abort', onAbort)
      if (error === undefined) resolve()
      else reject(error)
    })
    signal.addEventListener('abort', onAbort, { once: true })
  })
}
