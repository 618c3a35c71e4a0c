/**
 * The part of the happens-before relation that the sanitizers of several threads exchange. Each numbers its components itself; those that others see
 * have a number in all threads, too.
 */
import {
  type Components,
  type Epoch,
  forEachTime,
  NO_TIMES,
  NOWHERE,
  timeBefore,
  type VectorClock,
  withTime,
} from '../../foundation/base/vector-clock.js'
import { isNullStream } from '../../foundation/driver/handle-types.js'
import { watchedEra } from '../../foundation/driver/watched-threads.js'
import { exclusively, type Mailbox, mailboxesOfDevice, sharedTimes } from './mailboxes.js'
import type { OtherThreads, SharedOrder, SharedRecords, TrackedEvent, TrackedStream } from './streams.js'

/** A component and a time, in the numbers of all threads. */
export type SentTime = readonly [component: number, time: number]

/** The clock of what is not known to be done in all threads. */
export type SentClock = readonly SentTime[]

/** A clock; 'all', for one that has no place in a mailbox, stands for all that was sent by any thread. */
type SentOrder = SentClock | 'all'

/** The order of an event's record, or that the event was never recorded: the clock of a record whose work is done is empty, too. */
type SentRecord = SentOrder | 'never'

interface SharedComponent {
  readonly number: number
  /** The time after which the component's times begin in all threads, since another component had the number before. */
  readonly since: number
}

export class SharedClocks implements OtherThreads {
  /** The numbers in all threads of this thread's components; undefined if there are too many. */
  readonly #sent = new Map<number, SharedComponent | undefined>()
  /** This thread's numbers of components, those of other threads included; keys are the numbers in all threads. */
  readonly #received = new Map<number, number>()
  /** The components of this thread; values are the times at which their numbers began to be theirs. */
  readonly #own = new Map<number, number>()
  /** The epochs that all threads have queued on blocking streams; keys are devices. */
  readonly #blocking = new Map<number, { readonly mailbox: Mailbox; readonly epochs: readonly Epoch[] }>()
  /** Whether sharing has ended, so that other threads may have the numbers. */
  #isOver = false
  #seen = -1
  #done: VectorClock = NO_TIMES

  constructor(private readonly components: Components) {}

  arrive(): VectorClock {
    const { changes } = sharedTimes
    if (changes !== this.#seen) {
      this.#seen = changes
      // All numbers are read, also of components of which nothing else is known yet.
      const numbers = Array.from({ length: sharedTimes.count }, (_, number) => number)
      const done = numbers.filter((number) => sharedTimes.done(number) > 0)
      this.#done = this.received(done.map((number) => [number, sharedTimes.done(number)]))
    }
    // The clock is joined at each call, since in causal mode the knowledge of JavaScript differs from one call to the next.
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
    if (isNullStream(handle)) {
      const { nullStream } = mailboxesOfDevice(device)
      return new StreamClock(this, [nullStream], [nullStream])
    }
    return new StreamClock(this, own, [...own, mailboxesOfDevice(device).blocking])
  }

  ofBlockingStreams(device: number): readonly Epoch[] {
    const known = this.#blocking.get(device) ?? { mailbox: mailboxesOfDevice(device).blocking, epochs: [] }
    const { mailbox } = known
    if (!mailbox.isNews) return known.epochs
    const epochs = exclusively(() => this.receivedOrder(this.read(mailbox)))
    this.#blocking.set(device, { mailbox, epochs })
    return epochs
  }

  /** Publishes to all threads what this one knows to be done. */
  tellDone(): void {
    if (this.#isOver) return
    const { all } = this.components
    const news = [...this.#sent].flatMap(([component, shared]) => {
      const known = timeBefore(all, component)
      if (shared === undefined || known === 0) return []
      const { number, since } = shared
      return since + known > sharedTimes.done(number) ? [{ number, time: since + known }] : []
    })
    if (news.length === 0) return
    sharedTimes.changed()
    for (const { number, time } of news) sharedTimes.setDone(number, time)
    sharedTimes.changed()
  }

  /** The epochs that other threads have sent: all their work that matters here, and that was queued by now. */
  latest(): readonly Epoch[] {
    return this.receivedOrder(this.latestSent())
  }

  latestSent(): SentClock {
    const numbers = Array.from({ length: sharedTimes.count }, (_, number) => number)
    return numbers
      .filter((number) => !this.#own.has(number) && sharedTimes.latest(number) > sharedTimes.done(number))
      .map((number) => [number, sharedTimes.latest(number)])
  }

  /** A component and its time as all threads have them; undefined if there are too many. */
  sentTime(component: number, time: number): SentTime | undefined {
    if (this.#isOver) return undefined
    if (!this.#sent.has(component) && component !== NOWHERE) {
      const made = sharedTimes.newComponent()
      this.#sent.set(component, made)
      if (made !== undefined) {
        this.#received.set(made.number, component)
        this.#own.set(made.number, made.since)
      }
    }
    const shared = this.#sent.get(component)
    return shared && [shared.number, shared.since + time]
  }

  receivedTime([number, time]: SentTime): { readonly component: number; readonly time: number } {
    const known = this.#received.get(number)
    if (known !== undefined) return { component: known, time: Math.max(0, time - (this.#own.get(number) ?? 0)) }
    const component = this.components.beginOther()
    this.#received.set(number, component)
    this.#sent.set(component, { number, since: 0 })
    return { component, time }
  }

  /** Ends sharing: this thread sends nothing any more. */
  end(): void {
    this.#isOver = true
    sharedTimes.giveBack(this.#own.keys())
  }

  /** The clock of what happens before these epochs, with the epochs. */
  sent(epochs: readonly Epoch[]): SentClock {
    const times = new Map<number, number>()
    const add = (component: number, at: number): void => {
      const sent = at === 0 ? undefined : this.sentTime(component, at)
      if (sent === undefined) return
      const [number, time] = sent
      if (time <= sharedTimes.done(number)) return
      times.set(number, Math.max(time, times.get(number) ?? 0))
      sharedTimes.setLatest(number, time)
    }
    for (const { component, time, clock } of epochs) {
      add(component, time)
      forEachTime(clock, (each, at) => {
        if (each !== component) add(each, at)
      })
    }
    return [...times]
  }

  received(clock: SentClock): VectorClock {
    let result = NO_TIMES
    for (const sent of clock) {
      const { component, time } = this.receivedTime(sent)
      result = withTime(result, component, time)
    }
    return result
  }

  receivedOrder(order: SentOrder): readonly Epoch[] {
    if (order === 'all') return this.latest()
    return order.map((sent) => ({ ...this.receivedTime(sent), clock: NO_TIMES }))
  }

  read(mailbox: Mailbox): SentOrder {
    const order = mailbox.read() as SentOrder | undefined
    return order ?? []
  }
}

/** The order of work that several threads queue, with the mailboxes that it reads before and those that it writes after. */
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
      const order = this.clocks.read(mailbox)
      stream.joinOthers(this.clocks.received(order === 'all' ? this.clocks.latestSent() : order))
    }
    // The mailboxes do not contain what was known to be done when they were written, so it is joined here.
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
    stream.joinOthers(this.clocks.received(this.clocks.latestSent()))
  }

  update(stream: TrackedStream, change: () => void): void {
    this.arrive(stream)
    change()
  }
}

/** The records of an event that several threads use. */
export class EventClock implements SharedRecords {
  #isKnown = false

  constructor(
    private readonly clocks: SharedClocks,
    private readonly mailbox: Mailbox,
  ) {}

  get isOpen(): boolean {
    return !this.mailbox.isClosed
  }

  get isKnown(): boolean {
    return this.#isKnown && watchedEra() !== undefined
  }

  arrive(event: TrackedEvent): void {
    if (!this.mailbox.isNews) return
    this.#isKnown = true
    exclusively(() => {
      const record = (this.mailbox.read() ?? []) as SentRecord
      event.recordedElsewhere(record === 'never' ? [] : this.clocks.receivedOrder(record), record !== 'never')
    })
  }

  recorded(epochs: readonly Epoch[] | 'never'): void {
    this.#isKnown = true
    exclusively(() => {
      const order = epochs === 'never' ? epochs : this.clocks.sent(epochs)
      if (!this.mailbox.write(order)) this.mailbox.write('all')
    })
  }
}
