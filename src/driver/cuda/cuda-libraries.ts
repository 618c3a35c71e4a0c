/** Other libraries' work on a real GPU: they are called with CUDA's own handles, and queue what they like. */
import { CUresult, cudaError } from '../cuda-results.js'
import {
  type ContextHandle,
  cudaHandleOf,
  LIBRARY_ENTRIES,
  type LibraryDriver,
  type QueuedLibraryCalls,
  type StreamHandle,
} from '../driver.js'
import type { HostFunctions } from './host-functions/host-functions.js'
import { NativeThread } from './libcuda/native-thread.js'
import type { LibcudaParts } from './libcuda/stream-calls.js'
import type { Blocking } from './waiting/blocking.js'
import type { CallsApart } from './waiting/calls-apart.js'

/** CU_STREAM_CAPTURE_STATUS_INVALIDATED */
const CAPTURE_INVALIDATED = 2

export interface CudaLibrariesParts extends LibcudaParts {
  readonly hostFunctions: HostFunctions
  readonly blocking: Blocking
  readonly callsApart: CallsApart
}

export class CudaLibraries implements LibraryDriver {
  constructor(private readonly parts: CudaLibrariesParts) {}

  hostFunctionsPending(): boolean {
    return this.parts.hostFunctions.pending
  }

  queue({ calls: work, together = (calls) => calls() }: QueuedLibraryCalls): void {
    const { contexts, hostFunctions } = this.parts
    for (const { stream } of work) this.#refuseQueuing(stream)
    for (const { stream } of work) hostFunctions.countEntries(stream, LIBRARY_ENTRIES)
    together(() => {
      for (const each of work) contexts.within(each.context, () => each.call(cudaHandleOf(each.stream)))
    })
  }

  /** The other code would run, and only its calls of CUDA be refused, which it may not even look at. */
  #refuseQueuing(stream: StreamHandle): void {
    const { calls, library, memory } = this.parts
    const call = 'cuStreamIsCapturing'
    calls.onStream(stream, call, (raw) => library.cuStreamIsCapturing(raw, memory.address))
    if (memory.int32[0] === CAPTURE_INVALIDATED) throw cudaError(call, CUresult.STREAM_CAPTURE_INVALIDATED)
  }

  call<R>(context: ContextHandle, fn: () => R): R {
    const { contexts, relaxed, blocking } = this.parts
    return blocking.libraryCall(() => contexts.within(context, () => relaxed.run(fn)))
  }

  apart(address: number, argument: number, patience: number): Promise<number> {
    return this.parts.callsApart.make(() => new NativeThread(address, argument), patience)
  }

  waitUntil(isDone: () => boolean, what: string): void {
    this.parts.blocking.forLibrary(isDone, what)
  }
}
