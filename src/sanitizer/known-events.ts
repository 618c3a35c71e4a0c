/** The events of a driver by their handles: those that were seen being made, those that were wrapped, and those met on the way. */
import type { EventHandle } from '../driver/driver.js'
import { isBefore, type StrandPoint } from './clocks.js'
import { Latest } from './latest.js'
import { EventState } from './streams.js'

/** So many are there before those of others are looked through. */
const FIRST_LOOK = 256

export class KnownEvents {
  readonly #events = new Map<EventHandle, EventState>()
  /** Found last, and its handle: what is made is recorded next, and what is recorded is waited for. */
  #last: EventState | undefined
  #lastHandle: EventHandle | undefined
  /** Wrapped, and forgotten since nothing was known of them. */
  readonly #foreign = new Latest<EventHandle>()
  #nextLook = FIRST_LOOK

  constructor(private readonly host: StrandPoint) {}

  get count(): number {
    return this.#events.size
  }

  created(handle: EventHandle, timing: boolean): void {
    this.#foreign.delete(handle)
    this.#last = new EventState(true, false, timing)
    this.#lastHandle = handle
    this.#events.set(handle, this.#last)
  }

  /** Another library made it, or another process; or it is one of ours, wrapped. */
  adopted(handle: EventHandle): void {
    const event = this.at(handle)
    if (!event.made) event.foreign = true
  }

  /** Those that were not seen being made. */
  *older(): Generator<EventState> {
    for (const event of this.#events.values()) if (!event.made) yield event
  }

  destroyed(handle: EventHandle): void {
    this.#events.delete(handle)
    if (this.#lastHandle === handle) this.#last = undefined
  }

  at(handle: EventHandle): EventState {
    if (this.#last !== undefined && this.#lastHandle === handle) return this.#last
    const known = this.#events.get(handle)
    if (known === undefined && this.#events.size >= this.#nextLook) this.#forgetSome()
    const event = known ?? new EventState(false, this.#foreign.has(handle), false)
    this.#lastHandle = handle
    this.#last = event
    if (known === undefined) this.#events.set(handle, event)
    return event
  }

  /** Those that others destroy go unseen. One that stands for nothing that is still to come is as good as new. */
  #forgetSome(): void {
    for (const [handle, { made, foreign, points, captured, inGraph }] of this.#events) {
      if (made || captured !== undefined || inGraph) continue
      if (!points.every((point) => isBefore(point, this.host))) continue
      this.destroyed(handle)
      if (foreign) this.#foreign.add(handle)
    }
    this.#nextLook = Math.max(FIRST_LOOK, 2 * this.#events.size)
  }
}
