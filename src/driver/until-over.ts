/** For those who have to know when a wait without blocking is over, whatever becomes of it. */
import type { Cancel, Settle } from './driver.js'

/** Starts a wait. Calls `over` when it settles, when nobody needs it any more, or at once where the start is refused. */
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
