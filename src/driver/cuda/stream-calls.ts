/** Calls on streams, each with the context current that it needs, and the result checked once. */
import {
  type ContextHandle,
  cudaHandleOf,
  deviceOfDefaultStream,
  isDefaultStream,
  type StreamHandle,
} from '../driver.js'
import type { Contexts } from './contexts.js'
import { check } from './library.js'

export class StreamCalls {
  readonly #contexts: Contexts
  /** Of every stream in use that has a handle of its own: ours, and those that other libraries own. */
  readonly #known = new Map<StreamHandle, ContextHandle>()
  /** The driver's numbers for those that other libraries own, where they are known. */
  readonly #foreign = new Map<StreamHandle, number | undefined>()

  constructor(contexts: Contexts) {
    this.#contexts = contexts
  }

  /** One that we have made. */
  add(stream: StreamHandle, context: ContextHandle): void {
    this.#known.set(stream, context)
    if (this.#foreign.size > 0) this.#foreign.delete(stream)
  }

  /** One that somebody hands over. False where it is for certain the stream that this handle meant before. */
  adopt(stream: StreamHandle, context: ContextHandle, id: number | undefined): boolean {
    const isKnown = this.#known.has(stream)
    // As long as we have one of our own, nobody else can have been given its handle.
    if (isKnown && !this.#foreign.has(stream)) return false
    const isSame = isKnown && id !== undefined && this.#foreign.get(stream) === id
    this.#known.set(stream, context)
    this.#foreign.set(stream, id)
    return !isSame
  }

  forget(stream: StreamHandle): void {
    this.#known.delete(stream)
  }

  readonly contextOf = (stream: StreamHandle): ContextHandle | undefined =>
    isDefaultStream(stream) ? this.#contexts.primary(deviceOfDefaultStream(stream)) : this.#known.get(stream)

  /** Makes one call with a context current, and puts back what was. */
  readonly inContext = (context: ContextHandle, call: string, fn: () => number): void => {
    check(call, this.#contexts.within(context, fn))
  }

  /** Makes one call on a stream; for a default stream, with its device's context current. */
  readonly onStream = (stream: StreamHandle, call: string, fn: (raw: number) => number): void => {
    if (isDefaultStream(stream)) this.inContextOf(stream, call, fn)
    else check(call, fn(stream))
  }

  /** The same, with the context of any stream current: what memory a call may touch goes by the current context. */
  readonly inContextOf = (stream: StreamHandle, call: string, fn: (raw: number) => number): void => {
    const context = this.contextOf(stream)
    if (context === undefined) check(call, fn(stream))
    else this.inContext(context, call, () => fn(cudaHandleOf(stream)))
  }
}
