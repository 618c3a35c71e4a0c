/** The types of the driver interface for events, and for what settles later. */

import type { ContextHandle, EventHandle } from './handle-types.js'

/** How a wait ends: called once, with nothing when the work is done, or with the reason why it never will be. */
export type Settle = (error?: unknown) => void

/** Stops a wait whose result is not needed any more. Calling it after the wait has settled does nothing. */
export type Cancel = () => void

/** An internal event of the library, and the context in which it was made. */
export interface InternalEvent {
  readonly context: ContextHandle
  readonly event: EventHandle
  /** Events with the same number are done in the order of their places. */
  readonly line?: number
  readonly place?: number
  /**
   * Gives the event back; called instead of recycling it by the one that takes it over, because others wait for it, too.
   */
  readonly release?: () => void
}
