/** The driver's own events: for waits between streams, for promises, for times, and to look whether a context lives. */
import { hasLostContext } from '../../cuda-results.js'
import { type ContextHandle, EventFlag, type EventHandle } from '../../driver.js'
import type { StreamReserve } from '../handles/stream-reserve.js'
import type { Contexts } from '../libcuda/contexts.js'
import { check, type Library } from '../libcuda/library.js'
import type { NativeMemory } from '../libcuda/native.js'

/** Kept for reuse; a burst of promises, or a recording, may need many more for a while. */
const MOST_KEPT = 8192
const MOST_NEW = 64
/** The flags of the two sorts that are kept. */
export type PooledFlags = typeof EventFlag.DEFAULT | typeof EventFlag.DISABLE_TIMING

export const isPooled = (flags: number): flags is PooledFlags =>
  flags === EventFlag.DEFAULT || flags === EventFlag.DISABLE_TIMING

/** A record of the library's own, and how to give its event back once the record is done. */
export interface OwnRecord {
  readonly copy: EventHandle
  readonly giveBack: () => void
}

interface Pool {
  /** By their flags. */
  readonly free: { readonly [flags in PooledFlags]: EventHandle[] }
  /** Without timing, and never recorded. */
  readonly unused: EventHandle[]
  readonly shared: EventHandle
  readonly unrecorded: EventHandle
}

export class EventPool {
  readonly #pools = new Map<ContextHandle, Pool>()
  #context: ContextHandle | undefined
  #latest: Pool | undefined

  constructor(
    private readonly library: Library,
    private readonly memory: NativeMemory,
    private readonly contexts: Contexts,
    private readonly reserve: Pick<StreamReserve, 'lend' | 'giveBack'>,
  ) {}

  /** A new one. */
  create(context: ContextHandle, flags: number): EventHandle {
    const result = this.contexts.within(context, () => this.library.cuEventCreate(this.memory.address, flags))
    check('cuEventCreate', result)
    return this.memory.pointerAt(0) as EventHandle
  }

  /** To be recorded at once: its last record, for an earlier use, may be unfinished or part of a capture. */
  take(context: ContextHandle, flags: PooledFlags = EventFlag.DISABLE_TIMING): EventHandle {
    return this.#pool(context).free[flags].pop() ?? this.create(context, flags)
  }

  /** One that was never recorded; undefined where the driver has to make it. */
  takeNew(context: ContextHandle): EventHandle | undefined {
    return hasLostContext() ? undefined : this.#pool(context).unused.pop()
  }

  /** False where there are enough of them. */
  giveBackNew(context: ContextHandle, event: EventHandle): boolean {
    const { unused } = this.#pool(context)
    if (unused.length >= MOST_NEW) return false
    unused.push(event)
    return true
  }

  /** False where there are enough of them: the event is destroyed. */
  giveBack(context: ContextHandle, event: EventHandle, flags: PooledFlags = EventFlag.DISABLE_TIMING): boolean {
    const free = this.#pool(context).free[flags]
    const isKept = free.length < MOST_KEPT
    if (isKept) free.push(event)
    else this.library.cuEventDestroy_v2(event)
    return isKept
  }

  /**
   * Is it one of the driver's own? Its address may once have been that of an event which the caller knew. Asked
   * rarely, so it is looked for, and not kept account of.
   */
  hides(event: EventHandle): boolean {
    for (const { free, shared, unrecorded, unused } of this.#pools.values()) {
      if (event === shared || event === unrecorded || unused.includes(event)) return true
      if (Object.values(free).some((events) => events.includes(event))) return true
    }
    return false
  }

  /** One that is recorded and waited for in one breath, over and over. */
  shared(context: ContextHandle): EventHandle {
    return this.#pool(context).shared
  }

  /** One that is never recorded: a query of it fails only where the context is lost. */
  unrecorded(context: ContextHandle): EventHandle {
    return this.#pool(context).unrecorded
  }

  /** A new record, made by `record`. */
  recordOf(context: ContextHandle, record: (event: EventHandle) => void): OwnRecord {
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

  /**
   * A new record, made where nothing else is in the way, of what another event's latest record stands for. To be given
   * back when it is done.
   */
  copyOfRecord(event: EventHandle): OwnRecord {
    const context = this.contexts.primary(0)
    const stream = this.contexts.within(context, () => this.reserve.lend(0))
    const copy = this.take(context)
    const giveBack = (): void => {
      this.reserve.giveBack(0, stream)
      this.giveBack(context, copy)
    }
    try {
      this.contexts.within(context, () => {
        check('cuStreamWaitEvent', this.library.cuStreamWaitEvent(stream, event, 0))
        check('cuEventRecord', this.library.cuEventRecord(copy, stream))
      })
    } catch (error) {
      giveBack()
      throw error
    }
    return { copy, giveBack }
  }

  /** Most calls in a row are for one context, and a look-up costs a tenth of a record. */
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
