/** The work of other libraries on a real GPU. They are called with CUDA's own handles, and queue what they like. */

import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { LIBRARY_ENTRIES } from '../foundation/driver/driver-constants.js'
import {
  type ContextHandle,
  cudaHandleOf,
  isDefaultStream,
  type StreamHandle,
} from '../foundation/driver/handle-types.js'
import type { CallOfLibrary, LibraryCall, LibraryDriver, ThreadedCalls } from '../foundation/driver/library-driver.js'
import type { QueuedLibraryCalls } from '../foundation/driver/queued-work.js'
import { NativeCalls, NativeThread } from '../foundation/native/native-thread.js'
import type { PendingHostFunctions } from './host-functions/pending-host-functions.js'
import type { LibcudaParts } from './libcuda/driver-calls.js'
import type { Blocking } from './waiting/blocking.js'
import type { CallsOnThreads } from './waiting/calls-on-threads.js'

/** CU_STREAM_CAPTURE_STATUS_INVALIDATED */
const CAPTURE_INVALIDATED = 2

export interface CudaLibrariesParts extends LibcudaParts {
  readonly hostFunctions: PendingHostFunctions
  readonly blocking: Blocking
  readonly callsOnThreads: CallsOnThreads
  /** The address of `cuCtxSetCurrent`. */
  readonly setContext: number
}

export class CudaLibraries implements LibraryDriver {
  constructor(private readonly parts: CudaLibrariesParts) {}

  hostFunctionsPending(): boolean {
    return this.parts.hostFunctions.pending
  }

  queue({ calls: work, together }: QueuedLibraryCalls): void {
    const { contexts, hostFunctions } = this.parts
    const [first] = work
    if (first === undefined) return
    for (const { stream } of work) this.#refuseQueuing(stream)
    for (const { stream, entries = LIBRARY_ENTRIES } of work) hostFunctions.countEntries(stream, entries)
    const makeAll = (): void =>
      contexts.within(first.context, () => {
        for (const each of work) this.#make(each, first.context)
      })
    if (together === undefined) makeAll()
    else together(makeAll)
  }

  #make(call: LibraryCall, current: ContextHandle): void {
    const { context, stream, inAnyContext = false } = call
    const raw = cudaHandleOf(stream)
    if (context === current || (inAnyContext && !isDefaultStream(stream))) call.call(raw)
    else this.parts.contexts.within(context, () => call.call(raw))
  }

  /** The library's own code would run, and only its calls of CUDA would be refused, which it may not even notice. */
  #refuseQueuing(stream: StreamHandle): void {
    const { calls, must, memory } = this.parts
    calls.onStream(stream, (raw) => must.cuStreamIsCapturing(raw, memory.address))
    if (memory.int32[0] === CAPTURE_INVALIDATED)
      throw cudaError('cuStreamIsCapturing', CUresult.STREAM_CAPTURE_INVALIDATED)
  }

  call<R>(context: ContextHandle, fn: () => R): R {
    const { contexts, relaxed, blocking } = this.parts
    return blocking.libraryCall(() => contexts.within(context, () => relaxed.run(fn)))
  }

  callOnThread(address: number, argument: number, patience: number): Promise<number> {
    return this.parts.callsOnThreads.make(() => new NativeThread(address, argument), patience)
  }

  makeOnThread(calls: readonly CallOfLibrary[]): ThreadedCalls {
    return new NativeCalls(this.parts.setContext, calls)
  }

  waitUntil(isDone: () => boolean, what: string): void {
    this.parts.blocking.forLibrary(isDone, what)
  }
}
