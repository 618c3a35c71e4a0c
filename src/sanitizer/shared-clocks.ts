/**
 * What the sanitizers of several threads tell each other of the happens-before relation. Each numbers its components itself; those that
 * others see have a number in all threads, too.
 */
import { type Components, type Epoch, NOWHERE, timeBefore, type VectorClock } from '../base/vector-clock.js'
import { isNullStream } from '../driver/driver.js'
import { exclusively, type Mailbox, mailboxesOfDevice, sharedTimes } from '../driver/watched-threads.js'
import type { OtherThreads, SharedOrder, SharedRecords, TrackedEvent, TrackedStream } from './streams.js'

/** Numbers of components, each with its time: what is not known to be done in all threads. */
export type SentClock = readonly (readonly [component: number, time: number])[]

/** A clock, or all that was told by any thread, for one that has no place in a mailbox. */
type SentOrder = SentClock | 'all'

export class SharedClocks implements OtherThreads {
  /** By this thread's number of a component, that of all threads; undefined if there are too many. */
  readonly #sent = new Map<number, number | undefined>()
  /** The reverse, with components of other threads. */
  readonly #received = new Map<number, number>()
  readonly #own = new Set<number>()
  #seen = -1
  #done: VectorClock = []

  constructor(private readonly components: Components) {}

  arrive(): VectorClock {
    const { changes } = sharedTimes
    if (changes !== this.#seen) {
      this.#seen = changes
      // Those too of which nothing else is known yet.
      const numbers = Array.from({ length: sharedTimes.count }, (_, number) => number)
      const done = numbers.filter((number) => sharedTimes.done(number) > 0)
      this.#done = dense(done.map((number) => [this.componentOf(number), sharedTimes.done(number)]))
    }
    // In causal mode, JavaScript knows other things from one call to the next.
    this.components.host.joinClock(this.#done)
    return this.#done
  }

  orderOf(stream: TrackedStream): SharedOrder | undefined {
    const { mailbox, nonBlocking, device, foreign, handle } = stream
    const own = mailbox === undefined ? [] : [mailbox]
    if (nonBlocking) {
      if (mailbox !== undefined) return new StreamClock(this, own, own)
      return foreign ? new UnknownOrder(this) : undefined
    }
    const { nullStream, blocking } = mailboxesOfDevice(device)
    if (isNullStream(handle)) return new StreamClock(this, [nullStream, blocking], [nullStream])
    return new StreamClock(this, [...own, nullStream], [...own, blocking])
  }

  /** Tells all threads what this one knows to be done. */
  tellDone(): void {
    const { all } = this.components
    const news = [...this.#sent].flatMap(([component, number]) => {
      const time = timeBefore(all, component)
      return number !== undefined && time > sharedTimes.done(number) ? [{ number, time }] : []
    })
    if (news.length === 0) return
    sharedTimes.changed()
    for (const { number, time } of news) sharedTimes.setDone(number, time)
    sharedTimes.changed()
  }

  /** What other threads have told of: all their work that matters here, and that was queued by now. */
  latest(): readonly Epoch[] {
    const epochs: Epoch[] = []
    for (let number = 0; number < sharedTimes.count; number += 1) {
      const time = sharedTimes.latest(number)
      if (time > sharedTimes.done(number) && !this.#own.has(number)) {
        epochs.push({ component: this.componentOf(number), time, clock: [] })
      }
    }
    return epochs
  }

  /** The number that a component has in all threads. */
  numberOf(component: number): number | undefined {
    if (this.#sent.has(component) || component === NOWHERE) return this.#sent.get(component)
    const number = sharedTimes.newComponent()
    this.#sent.set(component, number)
    if (number !== undefined) {
      this.#received.set(number, component)
      this.#own.add(number)
    }
    return number
  }

  componentOf(number: number): number {
    const known = this.#received.get(number)
    if (known !== undefined) return known
    const component = this.components.beginOther()
    this.#received.set(number, component)
    this.#sent.set(component, number)
    return component
  }

  /** The clock of what happens before these epochs, with the epochs. */
  sent(epochs: readonly Epoch[]): SentClock {
    const times = new Map<number, number>()
    const add = (component: number, time: number): number | undefined => {
      const number = time === 0 ? undefined : this.numberOf(component)
      if (number === undefined || time <= sharedTimes.done(number)) return undefined
      times.set(number, Math.max(time, times.get(number) ?? 0))
      return number
    }
    for (const { component, time, clock } of epochs) {
      const number = add(component, time)
      if (number !== undefined) sharedTimes.setLatest(number, time)
      clock.forEach((each, index) => {
        if (index !== component) add(index, each)
      })
    }
    return [...times]
  }

  received(clock: SentClock): VectorClock {
    return dense(clock.map(([number, time]) => [this.componentOf(number), time]))
  }

  receivedOrder(order: SentOrder): readonly Epoch[] {
    if (order === 'all') return this.latest()
    return order.map(([number, time]) => ({ component: this.componentOf(number), time, clock: [] }))
  }

  read(mailbox: Mailbox): SentOrder {
    const order = mailbox.read() as SentOrder | undefined
    return order ?? []
  }
}

function dense(times: readonly (readonly [component: number, time: number])[]): VectorClock {
  const clock = new Array<number>(Math.max(0, ...times.map(([component]) => component + 1))).fill(0)
  for (const [component, time] of times) clock[component] = time
  return clock
}

/** The order of work that several threads queue, by the mailboxes that it comes after, and those that it comes into. */
class StreamClock implements SharedOrder {
  constructor(
    private readonly clocks: SharedClocks,
    private readonly after: readonly Mailbox[],
    private readonly into: readonly Mailbox[],
  ) {}

  arrive(stream: TrackedStream): void {
    if (this.after.some(({ isNews }) => isNews)) exclusively(() => this.#join(stream))
  }

  update(stream: TrackedStream, change: () => void): void {
    exclusively(() => {
      this.#join(stream)
      change()
      const clock = this.clocks.sent(stream.epochs())
      for (const mailbox of this.into) {
        const known = this.clocks.read(mailbox)
        const merged = known === 'all' ? known : latestOfBoth(known, clock)
        if (!mailbox.write(merged)) mailbox.write('all')
      }
    })
  }

  #join(stream: TrackedStream): void {
    if (!this.after.some(({ isNews }) => isNews)) return
    for (const mailbox of this.after) {
      const epochs = this.clocks.receivedOrder(this.clocks.read(mailbox))
      stream.joinOthers(dense(epochs.map(({ component, time }) => [component, time])))
    }
    // What was known to be done when they were told is not in them.
    stream.joinOthers(this.clocks.arrive())
  }
}

function latestOfBoth(one: SentClock, other: SentClock): SentClock {
  const times = new Map(one.filter(([number, time]) => time > sharedTimes.done(number)))
  for (const [number, time] of other) times.set(number, Math.max(time, times.get(number) ?? 0))
  return [...times]
}

/** A stream of another library, which every thread may have by its handle: what others have queued may stand before its work. */
class UnknownOrder implements SharedOrder {
  constructor(private readonly clocks: SharedClocks) {}

  arrive(stream: TrackedStream): void {
    stream.joinOthers(dense(this.clocks.latest().map(({ component, time }) => [component, time])))
  }

  update(stream: TrackedStream, change: () => void): void {
    this.arrive(stream)
    change()
  }
}

/** The records of an event that several threads use. */
export class EventClock implements SharedRecords {
  constructor(
    private readonly clocks: SharedClocks,
    private readonly mailbox: Mailbox,
  ) {}

  get isOpen(): boolean {
    return !this.mailbox.isClosed
  }

  arrive(event: TrackedEvent): void {
    if (!this.mailbox.isNews) return
    exclusively(() => event.recordedElsewhere(this.clocks.receivedOrder(this.clocks.read(this.mailbox))))
  }

  recorded(epochs: readonly Epoch[]): void {
    exclusively(() => {
      if (!this.mailbox.write(this.clocks.sent(epochs))) this.mailbox.write('all')
    })
  }
}
