/** Calls on streams, each with the context current that it needs, and the result checked once. */
import { CUresult } from '../../cuda-results.js'
import {
  type ContextHandle,
  cudaHandleOf,
  deviceOfDefaultStream,
  isDefaultStream,
  type StreamHandle,
  type Wrapper,
} from '../../driver.js'
import { HandleMap } from '../../handle-tables.js'
import type { HandleCheck } from '../handles/handle-check.js'
import type { Contexts } from './contexts.js'
import { check, type Library } from './library.js'
import type { NativeMemory } from './native.js'
import type { RelaxedCaptures } from './relaxed-captures.js'

/** All that it takes to call the driver library. */
export interface LibcudaParts {
  readonly library: Library
  /** Where out parameters go. */
  readonly memory: NativeMemory
  readonly contexts: Contexts
  readonly relaxed: RelaxedCaptures
  readonly calls: StreamCalls
}

/**
 * Does the stream capture? A null stream never does: it tells of blocking streams that do. Where the context is lost no answer but
 * false: the call that was meant tells of that.
 */
export function captures(
  { calls, library, memory }: Omit<LibcudaParts, 'contexts' | 'relaxed'>,
  stream: StreamHandle,
): boolean {
  let result = 0
  calls.onStream(stream, 'cuStreamIsCapturing', (raw) => {
    result = library.cuStreamIsCapturing(raw, memory.address)
    return 0
  })
  return result === CUresult.STREAM_CAPTURE_IMPLICIT || (result === 0 && memory.int32[0] !== 0)
}

/** Wrappers that were collected as garbage do not say so. */
const MOST_WRAPPERS = 32

export class StreamCalls {
  /** Of the streams that this library made: they live, so that each may be asked at any time. */
  readonly #own = new HandleMap<StreamHandle, ContextHandle>()
  /** Of those that other libraries own, and may have destroyed by now, with the driver's number where it is known. */
  readonly #foreign = new Map<StreamHandle, { readonly context: ContextHandle; readonly id: number | undefined }>()
  /** Of streams of other libraries. */
  readonly #wrappers: (Wrapper & { readonly stream: StreamHandle })[] = []
  #latest = 0

  constructor(private readonly contexts: Contexts) {}

  created(stream: StreamHandle, context: ContextHandle): void {
    this.#own.set(stream, context)
    if (this.#foreign.size > 0) this.#foreign.delete(stream)
  }

  /** Another library's is handed over. False where it is for certain the stream that this handle meant before. */
  adopt(stream: StreamHandle, context: ContextHandle, id: number | undefined): boolean {
    // As long as we have one of our own, no other library can have been given its handle.
    if (this.#own.has(stream)) return false
    const before = this.#foreign.get(stream)
    this.#foreign.set(stream, { context, id })
    return id === undefined || before?.id !== id
  }

  forget(stream: StreamHandle): void {
    this.#own.delete(stream)
    this.#foreign.delete(stream)
  }

  /** The streams that this library made. */
  get own(): Pick<HandleMap<StreamHandle, ContextHandle>, 'get' | 'has' | typeof Symbol.iterator> {
    return this.#own
  }

  wrapped(stream: StreamHandle): Wrapper {
    const wrapper = { stream, isOpen: true }
    if (isDefaultStream(stream) || this.#own.has(stream)) return wrapper
    this.#wrappers[this.#latest] = wrapper
    this.#latest = (this.#latest + 1) % MOST_WRAPPERS
    return wrapper
  }

  /**
   * Streams of other libraries whose wrappers are open, the latest of them: these may be asked without being told to, as far as it
   * is seen that they live.
   */
  *theirs(handles: Pick<HandleCheck, 'isStill'>): Iterable<StreamHandle> {
    for (const { stream, isOpen } of this.#wrappers) {
      const id = isOpen ? this.foreignId(stream) : undefined
      if (id !== undefined && handles.isStill(stream, id)) yield stream
    }
  }

  /** The driver's number for another library's stream, where it is known. */
  foreignId(stream: StreamHandle): number | undefined {
    return this.#foreign.get(stream)?.id
  }

  contextOf(stream: StreamHandle): ContextHandle | undefined {
    if (isDefaultStream(stream)) return this.contexts.primary(deviceOfDefaultStream(stream))
    return this.#own.get(stream) ?? this.#foreign.get(stream)?.context
  }

  /** Makes one call with a context current, and puts back the one that was. */
  inContext(context: ContextHandle, call: string, fn: () => number): void {
    check(call, this.contexts.within(context, fn))
  }

  /** Makes one call on a stream; for a default stream, with its device's context current. */
  onStream(stream: StreamHandle, call: string, fn: (raw: number) => number): void {
    if (isDefaultStream(stream)) this.inContextOf(stream, call, fn)
    else check(call, fn(stream))
  }

  /** The same, with the context of any stream current: what memory a call may touch goes by the current context. */
  inContextOf(stream: StreamHandle, call: string, fn: (raw: number) => number): void {
    const context = this.contextOf(stream)
    if (context === undefined) check(call, fn(stream))
    else this.inContext(context, call, () => fn(cudaHandleOf(stream)))
  }
}
