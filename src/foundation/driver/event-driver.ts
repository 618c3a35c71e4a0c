/** The types of the driver interface for events, and for what settles later. */

import type { ContextHandle, EventHandle } from './handle-types.js'

export const EventFlag = { DEFAULT: 0, BLOCKING_SYNC: 1, DISABLE_TIMING: 2, INTERPROCESS: 4 } as const

/**
 * True if a record of an event with these flags counts as work of its stream. Only a record of a plain event without
 * timing does not.
 */
export const isRecordWork = (flags: number): boolean => flags !== EventFlag.DISABLE_TIMING

/** CU_EVENT_RECORD_EXTERNAL and CU_EVENT_WAIT_EXTERNAL. */
export const ExternalFlag = { NONE: 0, EXTERNAL: 1 } as const
export type ExternalFlag = (typeof ExternalFlag)[keyof typeof ExternalFlag]

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

/** The method of the driver that takes internal events back. */
interface EventRecycler {
  eventRecycle(context: ContextHandle, event: EventHandle): void
}

/** Gives back an event that was taken over. */
export function giveBackEvent(driver: EventRecycler, { context, event, release }: InternalEvent): void {
  if (release === undefined) driver.eventRecycle(context, event)
  else release()
}
