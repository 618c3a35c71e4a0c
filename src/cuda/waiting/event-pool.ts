/** Internal events: for waits between streams, for promises, for times, and for checking whether a context is alive. */
import { hasLostContext } from '../../foundation/driver/cuda-results.js'
import { EventFlag } from '../../foundation/driver/driver-constants.js'
import { HandleMap } from '../../foundation/driver/handle-tables.js'
import type { ContextHandle, EventHandle } from '../../foundation/driver/handle-types.js'
import type { SpareStreams } from '../handles/spare-streams.js'
import type { LibcudaParts } from '../libcuda/driver-calls.js'
import { checkCleanup } from '../libcuda/libcuda.js'

/** The most events that are kept for reuse. A burst of promises, or a timeline, may need many more for a while. */
const MOST_KEPT = 8192
const MOST_NEW = 64
/** The flags of the two sorts of events that are kept. */
export type PooledFlags = typeof EventFlag.DEFAULT | typeof EventFlag.DISABLE_TIMING

export const isPooled = (flags: number): flags is PooledFlags =>
  flags === EventFlag.DEFAULT || flags === EventFlag.DISABLE_TIMING

/** A record in an internal event, and how to give the event back once the record has completed. */
export interface InternalRecord {
  readonly copy: EventHandle
  readonly giveBack: () => void
}

interface Pool {
  /** Events for reuse, by their flags. */
  readonly free: { readonly [flags in PooledFlags]: EventHandle[] }
  /** Events without timing that were never recorded. */
  readonly unused: EventHandle[]
  readonly shared: EventHandle
  readonly unrecorded: EventHandle
}

export class EventPool {
  /**
   * The devices of events that other processes may share. CUDA crashes where a stream of another device waits for one, so an internal event stands
   * between the two (docs/internals/cuda-facts.md).
   */
  readonly interprocess = new HandleMap<EventHandle, number>()
  /** Streams that have waited for such events, by device. */
  readonly #relays = new Map<number, number[]>()
  readonly #pools = new Map<ContextHandle, Pool>()
  /** The events that this library has taken for itself. */
  readonly #taken = new Set<EventHandle>()
  #context: ContextHandle | undefined
  #latest: Pool | undefined

  constructor(
    private readonly parts: Pick<LibcudaParts, 'library' | 'must' | 'memory' | 'contexts' | 'relaxed'> & {
      readonly spares: Pick<SpareStreams, 'lend' | 'giveBack'>
    },
  ) {}

  /** Creates an event. */
  create(context: ContextHandle, flags: number): EventHandle {
    const { contexts, must, memory } = this.parts
    contexts.within(context, () => must.cuEventCreate(memory.address, flags))
    return memory.pointerAt(0) as EventHandle
  }

  /** An internal event to be recorded at once: its last record, of an earlier use, may be pending or part of a capture. */
  take(context: ContextHandle, flags: PooledFlags = EventFlag.DISABLE_TIMING): EventHandle {
    const event = this.takeForCaller(context, flags)
    this.#taken.add(event)
    return event
  }

  /** The same for an event that the caller of the library gets. */
  takeForCaller(context: ContextHandle, flags: PooledFlags): EventHandle {
    return this.#pool(context).free[flags].pop() ?? this.create(context, flags)
  }

  /** An event that was never recorded; undefined when the driver has to create one. */
  takeNew(context: ContextHandle): EventHandle | undefined {
    return hasLostContext() ? undefined : this.#pool(context).unused.pop()
  }

  /** Returns false when there are enough. */
  giveBackNew(context: ContextHandle, event: EventHandle): boolean {
    const { unused } = this.#pool(context)
    if (unused.length >= MOST_NEW) return false
    unused.push(event)
    return true
  }

  /** Returns false when there are enough, and destroys the event. */
  giveBack(context: ContextHandle, event: EventHandle, flags: PooledFlags = EventFlag.DISABLE_TIMING): boolean {
    this.#taken.delete(event)
    const free = this.#pool(context).free[flags]
    const isKept = free.length < MOST_KEPT
    if (isKept) free.push(event)
    else checkCleanup('cuEventDestroy', event, this.parts.library.cuEventDestroy_v2(event))
    return isKept
  }

  /**
   * Is this an internal event? It may be where an event of the caller once was. The answer comes from a search, since it is
   * needed seldom.
   */
  hides(event: EventHandle): boolean {
    if (this.#taken.has(event)) return true
    for (const { free, shared, unrecorded, unused } of this.#pools.values()) {
      if (event === shared || event === unrecorded || unused.includes(event)) return true
      if (Object.values(free).some((events) => events.includes(event))) return true
    }
    return false
  }

  /** An event that is recorded, and waited for directly after, again and again. */
  shared(context: ContextHandle): EventHandle {
    return this.#pool(context).shared
  }

  /** An event that is never recorded. A query of it fails only when the context is lost. */
  unrecorded(context: ContextHandle): EventHandle {
    return this.#pool(context).unrecorded
  }

  /** A record in an event of the pool, made by `record`. */
  recordOf(context: ContextHandle, record: (event: EventHandle) => void): InternalRecord {
    const copy = this.take(context)
    const giveBack = (): void => void this.giveBack(context, copy)
    try {
      record(copy)
    } catch (error) {
      giveBack()
      throw error
    }
    return { copy, giveBack }
  }

  /** Records, on a stream without other work, what another event's latest record comes after. To be given back once it has completed. */
  copyOfRecord(event: EventHandle): InternalRecord {
    const { contexts, spares } = this.parts
    const device = this.interprocess.get(event) ?? 0
    const context = contexts.primary(device)
    const stream = contexts.within(context, () => spares.lend(device))
    const copy = this.take(context)
    const giveBack = (): void => {
      spares.giveBack(device, stream)
      this.giveBack(context, copy)
    }
    try {
      this.#recordBehind(event, stream, copy, context)
    } catch (error) {
      giveBack()
      throw error
    }
    return { copy, giveBack }
  }

  /** What a stream of another device waits for in place of this event of the device: to be waited for directly after. */
  relayed(event: EventHandle, device: number): EventHandle {
    const { contexts, library, relaxed, spares } = this.parts
    const context = contexts.primary(device)
    const relays = this.#relays.get(device) ?? []
    this.#relays.set(device, relays)
    // One that still waits for another event would be waited for as well.
    let stream = relays.find((relay) => relaxed.run(() => library.cuStreamQuery(relay)) === 0)
    if (stream === undefined) {
      stream = contexts.within(context, () => spares.lend(device))
      relays.push(stream)
    }
    const between = this.shared(context)
    this.#recordBehind(event, stream, between, context)
    return between
  }

  #recordBehind(event: EventHandle, stream: number, copy: EventHandle, context: ContextHandle): void {
    const { contexts, must } = this.parts
    contexts.within(context, () => {
      must.cuStreamWaitEvent(stream, event, 0)
      must.cuEventRecord(copy, stream)
    })
  }

  /**
   * The pool of a context, which is remembered: most calls in a row are for the same context, and a lookup costs a tenth of a
   * record.
   */
  #pool(context: ContextHandle): Pool {
    if (context !== this.#context || this.#latest === undefined) {
      this.#latest = this.#poolOf(context)
      this.#context = context
    }
    return this.#latest
  }

  #poolOf(context: ContextHandle): Pool {
    let pool = this.#pools.get(context)
    if (pool === undefined) {
      pool = {
        free: { [EventFlag.DEFAULT]: [], [EventFlag.DISABLE_TIMING]: [] },
        unused: [],
        shared: this.create(context, EventFlag.DISABLE_TIMING),
        unrecorded: this.create(context, EventFlag.DISABLE_TIMING),
      }
      this.#pools.set(context, pool)
    }
    return pool
  }
}
