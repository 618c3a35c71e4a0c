/** Events that nobody sees: for waits between streams, for promises, and to look whether a context lives. */
import { type ContextHandle, EventFlag, type EventHandle } from '../driver.js'
import type { Contexts } from './contexts.js'
import { check, type Library } from './library.js'
import type { NativeMemory } from './native.js'

/** Kept for reuse; a burst of promises may need many more for a while. */
const MOST_KEPT = 4096

interface Pool {
  readonly free: EventHandle[]
  readonly shared: EventHandle
  readonly unrecorded: EventHandle
}

export class EventPool {
  readonly #library: Library
  readonly #memory: NativeMemory
  readonly #contexts: Contexts
  readonly #pools = new Map<ContextHandle, Pool>()

  constructor(library: Library, memory: NativeMemory, contexts: Contexts) {
    this.#library = library
    this.#memory = memory
    this.#contexts = contexts
  }

  /** To be recorded at once: its last record, by whoever had it before, may be unfinished or part of a capture. */
  take(context: ContextHandle): EventHandle {
    return this.#pool(context).free.pop() ?? this.#create(context)
  }

  giveBack(context: ContextHandle, event: EventHandle): void {
    const { free } = this.#pool(context)
    if (free.length < MOST_KEPT) free.push(event)
    else this.#library.cuEventDestroy_v2(event)
  }

  /**
   * Is it one of those that nobody sees? Its address may once have been that of an event which the caller knew. Asked
   * rarely, so it is looked for, and not kept account of.
   */
  hides(event: EventHandle): boolean {
    for (const { free, shared, unrecorded } of this.#pools.values()) {
      if (event === shared || event === unrecorded || free.includes(event)) return true
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

  /** A new record, made where nothing else is in the way, of what another event's latest record stands for. */
  copyOfRecord(event: EventHandle): { readonly copy: EventHandle; readonly context: ContextHandle } {
    const context = this.#contexts.primary(0)
    const copy = this.take(context)
    this.#contexts.within(context, () => {
      check('cuStreamCreateWithPriority', this.#library.cuStreamCreateWithPriority(this.#memory.address, 1, 0))
      const stream = this.#memory.pointerAt(0)
      check('cuStreamWaitEvent', this.#library.cuStreamWaitEvent(stream, event, 0))
      check('cuEventRecord', this.#library.cuEventRecord(copy, stream))
      check('cuStreamDestroy', this.#library.cuStreamDestroy_v2(stream))
    })
    return { copy, context }
  }

  #pool(context: ContextHandle): Pool {
    let pool = this.#pools.get(context)
    if (pool === undefined) {
      pool = { free: [], shared: this.#create(context), unrecorded: this.#create(context) }
      this.#pools.set(context, pool)
    }
    return pool
  }

  #create(context: ContextHandle): EventHandle {
    const result = this.#contexts.within(context, () =>
      this.#library.cuEventCreate(this.#memory.address, EventFlag.DISABLE_TIMING),
    )
    check('cuEventCreate', result)
    return this.#memory.pointerAt(0) as EventHandle
  }
}
