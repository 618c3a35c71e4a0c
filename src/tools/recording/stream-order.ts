/**
 * The order of the operations of a run: the order of each stream, waits, the rules of the null stream, and what the host waits for. It is used in two
 * ways: with the times of the recording, and with operations of the simulator.
 */
import type { Awaited, Lane, Operation } from './recorded-run.js'

/** The points that an event's record stands for. */
interface Recorded<T> {
  readonly order: readonly T[]
  /** The points in `order`, and those of work that was moved to streams of its own: the host waits for that, too. */
  readonly all: readonly T[]
}

interface LaneState<T> {
  readonly lane: Lane
  /** The points that later work of the stream comes after. */
  frontier: readonly T[]
  /** The points of work that was moved from the stream. */
  moved: readonly T[]
}

export class StreamOrder<T> {
  readonly #lanes = new Map<Lane, LaneState<T>>()
  readonly #events = new Map<number, Recorded<T>>()
  /** The end of the latest launch of each instance of a graph. */
  readonly #launches = new Map<number, T>()
  /** The points that host functions come after which are queued and have not run; keys are the numbers of their calls. */
  readonly reached = new Map<number, readonly T[]>()
  /** The ends of these host functions. */
  readonly hostFunctions = new Map<number, T>()

  /** @param reduced Leaves out points that need not be waited for */
  constructor(private readonly reduced: (all: readonly T[]) => readonly T[]) {}

  /** The points that work comes after which is queued on the stream now. */
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

  /** The points that this operation comes after, if it is queued on its stream now. */
  beforeOperation({ lane, instance }: Operation): readonly T[] {
    const launch = instance === undefined ? undefined : this.#launches.get(instance)
    return launch === undefined ? this.before(lane) : [...this.before(lane), launch]
  }

  /** Notes that the operation was queued on its stream, and is over with this point. */
  queued({ lane, instance }: Operation, end: T): void {
    this.#at(lane).frontier = [end]
    if (instance !== undefined) this.#launches.set(instance, end)
  }

  /** Notes that work that was queued on the stream has been given a stream of its own. */
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

  /** The points that the host waits for. */
  awaited(awaited: Awaited): readonly T[] {
    switch (awaited.of) {
      case 'lane': {
        const { lane } = awaited
        // Work of the null stream is not waited for by a host that waits for another stream.
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

/** Whether the host runs the operation, so that its stream waits for the host. */
export const isHeldByHost = ({ kind }: Operation): boolean => kind === 'hostFunction' || kind === 'promise'
