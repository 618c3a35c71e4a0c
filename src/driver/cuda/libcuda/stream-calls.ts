/** Calls on streams, each with the context current that it needs, and the result checked once. */
import { CUresult } from '../../cuda-results.js'
import { type ContextHandle, cudaHandleOf, isDefaultStream, type StreamHandle } from '../../driver.js'
import type { StreamRecords } from '../stream-records.js'
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
  readonly streams: StreamRecords
  readonly calls: StreamCalls
}

/**
 * Does the stream capture? A null stream never does: it tells of blocking streams that do. Where the context is lost no answer but
 * false: the call that was meant tells of that.
 */
export function captures(
  { calls, library, memory }: Pick<LibcudaParts, 'calls' | 'library' | 'memory'>,
  stream: StreamHandle,
): boolean {
  let result = 0
  calls.onStream(stream, 'cuStreamIsCapturing', (raw) => {
    result = library.cuStreamIsCapturing(raw, memory.address)
    return 0
  })
  return result === CUresult.STREAM_CAPTURE_IMPLICIT || (result === 0 && memory.int32[0] !== 0)
}

export class StreamCalls {
  constructor(
    private readonly streams: StreamRecords,
    private readonly contexts: Contexts,
  ) {}

  /** Makes one call with a context current, and puts back the one that was. */
  inContext(context: ContextHandle, call: string, fn: () => number): void {
    check(call, this.contexts.within(context, fn))
  }

  /** Makes one call on a stream; for a default stream, with its device's context current. */
  onStream(stream: StreamHandle, call: string, fn: (raw: number) => number): void {
    if (isDefaultStream(stream)) this.inContextOf(stream, call, fn)
    else check(call, fn(stream))
  }

  /** Makes one call on a stream with its context current: what memory a call may touch goes by the current context. */
  inContextOf(stream: StreamHandle, call: string, fn: (raw: number) => number): void {
    this.inContext(this.streams.of(stream).context, call, () => fn(cudaHandleOf(stream)))
  }
}
