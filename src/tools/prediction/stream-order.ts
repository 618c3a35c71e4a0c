/**
 * The order of the operations of a run: the order of each stream, waits, the rules of the null stream, and what the host waits for. It is used in two
 * ways: with the times of the recording, and with operations of the simulator.
 */
import type { Awaited, Operation, RecordedStream } from './run.js'

/** The points that an event's record stands for. */
interface Recorded<T> {
  readonly order: readonly T[]
  /** The points in `order`, and those of work that was moved to streams of its own: the host waits for that, too. */
  readonly all: readonly T[]
}

interface StreamState<T> {
  readonly stream: RecordedStream
  /** The points that later work of the stream comes after. */
  frontier: readonly T[]
  /** The points of work that was moved from the stream. */
  moved: readonly T[]
}

/** The rules of CUDA that a change of the program takes away. */
export interface ChangedRules {
  /** The streams that the null stream does not wait for, nor they for it, by their indices. */
  readonly nonBlocking?: ReadonlySet<number> | undefined
  /** Whether launches of one instance of a graph do not wait for each other. */
  readonly areInstancesApart?: true | undefined
}

export class StreamOrder<T> {
  readonly #streams = new Map<RecordedStream, StreamState<T>>()
  readonly #events = new Map<number, Recorded<T>>()
  /** The end of the latest launch of each instance of a graph. */
  readonly #launches = new Map<number, T>()
  /** The points that host functions come after which are queued and have not run; keys are the numbers of their calls. */
  readonly reached = new Map<number, readonly T[]>()
  /** The ends of these host functions. */
  readonly hostFunctions = new Map<number, T>()

  /**
   * @param reduced Leaves out points that need not be waited for
   * @param rules The rules that are changed
   */
  constructor(
    private readonly reduced: (all: readonly T[]) => readonly T[],
    private readonly rules: ChangedRules = {},
  ) {}

  /** The points that work comes after which is queued on the stream now. */
  before(stream: RecordedStream): readonly T[] {
    const own = this.#at(stream).frontier
    if (this.#isNonBlocking(stream) && !stream.isNull) return own
    const others = [...this.#streams.values()].filter(
      (other) =>
        other.stream !== stream &&
        other.stream.device === stream.device &&
        (stream.isNull ? !this.#isNonBlocking(other.stream) : other.stream.isNull),
    )
    return others.length === 0 ? own : [...own, ...others.flatMap(({ frontier }) => frontier)]
  }

  /** The points that this operation comes after, if it is queued on its stream now. */
  beforeOperation({ stream, instance }: Operation): readonly T[] {
    const launch =
      instance === undefined || this.rules.areInstancesApart === true ? undefined : this.#launches.get(instance)
    return launch === undefined ? this.before(stream) : [...this.before(stream), launch]
  }

  /** Notes that the operation was queued on its stream, and is over with this point. */
  queued({ stream, instance }: Operation, end: T): void {
    this.#at(stream).frontier = [end]
    if (instance !== undefined) this.#launches.set(instance, end)
  }

  /** Notes that work that was queued on the stream has been given a stream of its own. */
  moved(from: RecordedStream, end: T): void {
    const state = this.#at(from)
    state.moved = this.reduced([...state.moved, end])
  }

  record(stream: RecordedStream, event: number): void {
    const order = this.before(stream)
    const { moved } = this.#at(stream)
    this.#events.set(event, { order, all: moved.length === 0 ? order : [...order, ...moved] })
  }

  recordDevice(device: number, event: number): void {
    const all = this.awaited({ of: 'device', device })
    this.#events.set(event, { order: all, all })
  }

  wait(stream: RecordedStream, event: number): void {
    this.#join(stream, this.#events.get(event)?.order ?? [])
  }

  waitStream(stream: RecordedStream, other: RecordedStream): void {
    this.#join(stream, this.before(other))
  }

  orderOf(event: number): readonly T[] {
    return this.#events.get(event)?.order ?? []
  }

  join(stream: RecordedStream, others: readonly T[]): void {
    this.#join(stream, others)
  }

  /** The points that the host waits for. */
  awaited(awaited: Awaited): readonly T[] {
    switch (awaited.of) {
      case 'stream': {
        const { stream } = awaited
        // Work of the null stream is not waited for by a host that waits for another stream.
        const { frontier, moved } = this.#at(stream)
        return [...(stream.isNull ? this.before(stream) : frontier), ...moved]
      }
      case 'event':
        return this.#events.get(awaited.event)?.all ?? []
      case 'device':
        return [...this.#streams.values()]
          .filter(({ stream }) => stream.device === awaited.device)
          .flatMap(({ frontier, moved }) => [...frontier, ...moved])
      case 'hostFunctions':
        return [...this.hostFunctions.values()]
      case 'reached':
        return this.reached.get(awaited.operation) ?? []
    }
  }

  #isNonBlocking({ nonBlocking, index }: RecordedStream): boolean {
    return nonBlocking || this.rules.nonBlocking?.has(index) === true
  }

  #join(stream: RecordedStream, others: readonly T[]): void {
    if (others.length === 0) return
    const state = this.#at(stream)
    state.frontier = this.reduced([...state.frontier, ...others])
  }

  #at(stream: RecordedStream): StreamState<T> {
    let state = this.#streams.get(stream)
    if (state === undefined) {
      state = { stream, frontier: [], moved: [] }
      this.#streams.set(stream, state)
    }
    return state
  }
}

/** Whether the host runs the operation, so that its stream waits for the host. */
export const isHeldByHost = ({ kind }: Operation): boolean => kind === 'hostFunction' || kind === 'promise'
