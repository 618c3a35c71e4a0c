/**
 * A device's clock in terms of the host's. An event has only the time since another one, in milliseconds with seven
 * digits; so each time is told from an event that is not far from it.
 */
import { type ContextHandle, type Driver, type EventHandle, StreamFlag, type StreamHandle } from '../driver/driver.js'
import type { Calibration } from './meter.js'
import type { TimedEvents } from './timed-events.js'

/** Of this many looks at both clocks the closest counts. */
const LOOKS = 12
/** A look that takes longer is of no use: the device has no time for it now. */
const LONGEST_LOOK = 5e6
/** An event further off than this is told from a nearer one: to single precision, 50 ms are good for 4 ns. */
const FAR = 50e6
/** In a shorter recording the drift is less than the looks are apart. */
const SHORTEST_FOR_DRIFT = 1e9

interface ClockLook {
  readonly event: EventHandle
  readonly host: number
  readonly uncertainty: number
}

export class DeviceClock {
  readonly #stream: StreamHandle
  readonly #begin: ClockLook
  #cost: number
  #near: { readonly event: EventHandle; readonly time: number }
  /** The near event, once its owner has given it back. */
  #kept: EventHandle | undefined
  #rate = 1

  constructor(
    private readonly driver: Driver,
    private readonly events: TimedEvents,
    private readonly context: ContextHandle,
    private readonly device: number,
    private readonly now: () => number,
  ) {
    this.#stream = driver.streamCreate(context, StreamFlag.NON_BLOCKING, 0)
    const began = now()
    this.#begin = this.#look()
    this.#near = { event: this.#begin.event, time: this.#begin.host }
    this.#cost = now() - began
  }

  /** When an event's latest record was reached, in nanoseconds of the host's clock. Throws CudaError 600 until then. */
  timeOf(event: EventHandle): number {
    const { event: near, time } = this.#near
    const passed = this.driver.eventElapsedTime(near, event) * 1e6
    if (Math.abs(passed) > FAR) {
      this.#letGo()
      this.#near = { event, time: time + passed }
    }
    return time + passed
  }

  /** Takes back an event that its owner has read. While times are told from it, it is kept: it may not be recorded anew. */
  giveBack(event: EventHandle): void {
    if (event === this.#near.event) this.#kept = event
    else this.events.giveBack(this.context, event)
  }

  /** How long after the call a record on an idle stream is taken to be reached, in nanoseconds. */
  get latency(): number {
    return this.#begin.uncertainty
  }

  isLost(): boolean {
    try {
      this.driver.eventElapsedTime(this.#begin.event, this.#begin.event)
      return false
    } catch {
      return true
    }
  }

  /** A time that was told before it was known how fast this clock runs. */
  corrected(time: number): number {
    return this.#begin.host + (time - this.#begin.host) * this.#rate
  }

  /** Holds the clocks against each other a second time. */
  close(): Calibration {
    const began = this.now()
    let atEnd = Number.NaN
    try {
      const last = this.#look()
      const device = this.timeOf(last.event) - this.#begin.host
      const host = last.host - this.#begin.host
      atEnd = last.uncertainty
      if (device > SHORTEST_FOR_DRIFT) this.#rate = host / device
      this.events.giveBack(this.context, last.event)
      this.#letGo()
      this.events.giveBack(this.context, this.#begin.event)
      this.driver.streamDestroy(this.#stream)
    } catch {
      // The context is lost; the times that are known are as good as the first look.
    }
    // No time is read any more, so that events that are given back from now on need not be kept.
    this.#near = { event: this.#begin.event, time: this.#begin.host }
    this.#cost += this.now() - began
    return {
      device: this.device,
      uncertainty: [this.#begin.uncertainty, atEnd],
      drift: (1 / this.#rate - 1) * 1e6,
      cost: this.#cost,
    }
  }

  #letGo(): void {
    if (this.#kept !== undefined) this.events.giveBack(this.context, this.#kept)
    this.#kept = undefined
  }

  /** The device reaches a record some time between the call and the moment at which it is seen to be done. */
  #look(): ClockLook {
    let best: ClockLook | undefined
    for (let looks = 0; looks < LOOKS; looks += 1) {
      const event = this.events.take(this.context)
      const before = this.now()
      this.driver.eventRecord(event, this.#stream, 0)
      let after = before
      while (!this.driver.memory.isDone(event) && after - before < LONGEST_LOOK) after = this.now()
      after = this.now()
      const uncertainty = (after - before) / 2
      if (best === undefined || uncertainty < best.uncertainty) {
        if (best !== undefined) this.events.giveBack(this.context, best.event)
        best = { event, host: before + uncertainty, uncertainty }
      } else this.events.giveBack(this.context, event)
    }
    if (best === undefined) throw new RangeError('no look was taken')
    return best
  }
}
