/**
 * What comes after what in a run: the order of each stream, waits, the rules of the null stream, and what the host waits for. It
 * is followed in two ways: by the times of the recording, and by operations of the simulator.
 */
import type { Awaited, Lane, Operation } from './recorded-run.js'

/** What an event's record stands for. */
interface Recorded<T> {
  readonly order: readonly T[]
  /** The same, and work that was moved to streams of its own: the host waits for that, too. */
  readonly all: readonly T[]
}

interface LaneState<T> {
  readonly lane: Lane
  /** What later work of the stream comes after. */
  frontier: readonly T[]
  /** What was moved from it. */
  moved: readonly T[]
}

export class StreamOrder<T> {
  readonly #lanes = new Map<Lane, LaneState<T>>()
  readonly #events = new Map<number, Recorded<T>>()
  /** What the latest launch of each instance of a graph ends with. */
  readonly #launches = new Map<number, T>()
  /** Host functions that are queued and have not run, by the numbers of their calls: what they come after. */
  readonly reached = new Map<number, readonly T[]>()
  /** What they end with. */
  readonly hostFunctions = new Map<number, T>()

  /** `reduced` leaves out what need not be waited for. */
  constructor(private readonly reduced: (all: readonly T[]) => readonly T[]) {}

  /** What work that is queued on the stream now comes after. */
  before(lane: Lane): readonly T[] {
    const own = this.#at(lane).frontier
    if (lane.nonBlocking && !lane.isNull) return own
    const others = [...this.#lanes.values()].filter(
      (other) =>
        other.lane !== lane &&
        other.lane.device === lane.device &&
        (lane.isNull ? !other.lane.nonBlocking : other.lane.isNull),
    )
    return others.length === 0 ? own : [...own, ...others.flatMap(({ frontier }) => frontier)]
  }

  /** What this operation comes after, if it is queued on its stream now. */
  beforeOperation({ lane, instance }: Operation): readonly T[] {
    const launch = instance === undefined ? undefined : this.#launches.get(instance)
    return launch === undefined ? this.before(lane) : [...this.before(lane), launch]
  }

  /** The operation was queued on its stream, and is over with this. */
  queued({ lane, instance }: Operation, end: T): void {
    this.#at(lane).frontier = [end]
    if (instance !== undefined) this.#launches.set(instance, end)
  }

  /** Work that was queued on the stream has been given a stream of its own. */
  moved(from: Lane, end: T): void {
    const state = this.#at(from)
    state.moved = this.reduced([...state.moved, end])
  }

  record(lane: Lane, event: number): void {
    const order = this.before(lane)
    const { moved } = this.#at(lane)
    this.#events.set(event, { order, all: moved.length === 0 ? order : [...order, ...moved] })
  }

  recordDevice(device: number, event: number): void {
    const all = this.awaited({ of: 'device', device })
    this.#events.set(event, { order: all, all })
  }

  wait(lane: Lane, event: number): void {
    this.#join(lane, this.#events.get(event)?.order ?? [])
  }

  waitLane(lane: Lane, other: Lane): void {
    this.#join(lane, this.before(other))
  }

  orderOf(event: number): readonly T[] {
    return this.#events.get(event)?.order ?? []
  }

  join(lane: Lane, others: readonly T[]): void {
    this.#join(lane, others)
  }

  /** What the host waits for. */
  awaited(awaited: Awaited): readonly T[] {
    switch (awaited.of) {
      case 'lane': {
        const { lane } = awaited
        // Work of the null stream is not waited for by the host where it waits for another stream.
        const { frontier, moved } = this.#at(lane)
        return [...(lane.isNull ? this.before(lane) : frontier), ...moved]
      }
      case 'event':
        return this.#events.get(awaited.event)?.all ?? []
      case 'device':
        return [...this.#lanes.values()]
          .filter(({ lane }) => lane.device === awaited.device)
          .flatMap(({ frontier, moved }) => [...frontier, ...moved])
      case 'hostFunctions':
        return [...this.hostFunctions.values()]
      case 'reached':
        return this.reached.get(awaited.operation) ?? []
    }
  }

  #join(lane: Lane, others: readonly T[]): void {
    if (others.length === 0) return
    const state = this.#at(lane)
    state.frontier = this.reduced([...state.frontier, ...others])
  }

  #at(lane: Lane): LaneState<T> {
    let state = this.#lanes.get(lane)
    if (state === undefined) {
      state = { lane, frontier: [], moved: [] }
      this.#lanes.set(lane, state)
    }
    return state
  }
}

/** Does the host run it, so that its stream waits for the host? */
export const isHeldByHost = ({ kind }: Operation): boolean => kind === 'hostFunction' || kind === 'promise'
