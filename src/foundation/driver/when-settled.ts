/** Reports when a wait without blocking has ended, however it ends. */
import type { Cancel, Settle } from './event-driver.js'

/**
 * Starts a wait. Calls `onEnd` when the wait settles, when it is cancelled, or at once if the start throws.
 */
export function whenSettled(start: (settle: Settle) => Cancel, settle: Settle, onEnd: () => void): Cancel {
  try {
    const cancel = start((error) => {
      onEnd()
      settle(error)
    })
    return () => {
      cancel()
      onEnd()
    }
  } catch (error) {
    onEnd()
    throw error
  }
}
