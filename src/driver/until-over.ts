/** Tells when a wait without blocking is over, however it ends. */
import type { Cancel, Settle } from './driver.js'

/**
 * Starts a wait. Calls `over` when it settles, when it is not needed any more, or at once where the start is refused.
 */
export function untilOver(start: (told: Settle) => Cancel, settle: Settle, over: () => void): Cancel {
  try {
    const cancel = start((error) => {
      over()
      settle(error)
    })
    return () => {
      cancel()
      over()
    }
  } catch (error) {
    over()
    throw error
  }
}
