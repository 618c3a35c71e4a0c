/** Queues work on the streams of a real GPU, in hardware queues that have room for it. */

import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { cudaHandleOf, isDefaultStream, type StreamHandle } from '../foundation/driver/handle-types.js'
import type {
  QueuedCopy,
  QueuedFill,
  QueuedHostFunction,
  QueuedKernel,
  QueuedPromiseWait,
  QueuedWork,
  WorkDriver,
} from '../foundation/driver/queued-work.js'
import type { CudaGraphs } from './cuda-graphs.js'
import type { CudaKernels } from './cuda-kernels.js'
import type { CudaLibraries } from './cuda-libraries.js'
import type { CudaMemory } from './cuda-memory.js'
import type { CudaStreams } from './cuda-streams.js'
import type { HandlesInUse } from './handles/handle-check.js'
import type { PendingHostFunctions } from './host-functions/pending-host-functions.js'
import type { LibcudaParts } from './libcuda/driver-calls.js'
import type { Blocking } from './waiting/blocking.js'
import { isLaunchBlocking, LaunchBlocking } from './waiting/launch-blocking.js'

export interface CudaWorkParts extends LibcudaParts {
  readonly inUse: HandlesInUse
  readonly hostFunctions: PendingHostFunctions
  readonly blocking: Blocking
}

/** The parts of the driver that do the work. */
interface WorkedParts {
  readonly streams: CudaStreams
  readonly kernels: CudaKernels
  readonly memory: CudaMemory
  readonly graphs: CudaGraphs
  readonly libraries: CudaLibraries
}

export class CudaWork implements WorkDriver {
  readonly #hostFunctions: PendingHostFunctions
  readonly #streams: CudaStreams
  readonly #kernels: CudaKernels
  readonly #memory: CudaMemory
  readonly #graphs: CudaGraphs
  readonly #libraries: CudaLibraries

  /** The parts of the driver exist before this one. */
  constructor(
    private readonly parts: CudaWorkParts,
    { streams, kernels, memory, graphs, libraries }: WorkedParts,
  ) {
    this.#hostFunctions = parts.hostFunctions
    this.#streams = streams
    this.#kernels = kernels
    this.#memory = memory
    this.#graphs = graphs
    this.#libraries = libraries
    if (isLaunchBlocking()) this.#queueByLaunchBlocking()
  }

  /** A method of the object's own, so that `queue` costs no more where the variable is not set. */
  #queueByLaunchBlocking(): void {
    const queue = this.queue.bind(this)
    const launchBlocking = new LaunchBlocking({
      ...this.parts,
      captures: (stream) => this.#streams.capturesNow(stream),
      runsHostFunctions: (work) => work.kind === 'graph' && this.#graphs.runsHostFunctions(work.exec),
    })
    this.queue = (work) => launchBlocking.queue(work, () => queue(work))
  }

  /** Queues the work. The function is short, so that V8 inlines it where programs queue the most work. */
  queue(work: QueuedWork): void {
    if (work.kind === 'kernel') this.#kernels.launch(work)
    else if (work.kind === 'copy') this.#copy(work)
    else if (work.kind === 'fill') this.#memory.fill(work)
    else this.#queueOther(work)
  }

  #queueOther(work: Exclude<QueuedWork, QueuedKernel | QueuedCopy | QueuedFill>): void {
    switch (work.kind) {
      case 'copies':
        this.#memory.copyBatch(work.copies, work.stream)
        break
      case 'hostFunction':
        this.#launchHostFunction(work)
        break
      case 'graph':
        this.#graphs.launch(work.exec, work.stream)
        break
      case 'allocate':
        this.#memory.allocate(work)
        break
      case 'free':
        this.#memory.free(work)
        break
      case 'library':
        this.#libraries.queue(work)
        break
      case 'waitValue':
        this.#memory.waitForValue(work.word, work.compare, work.stream)
        break
      case 'writeValue':
        this.#memory.writeValue(work.word, work.stream)
        break
      case 'graphUpload':
        this.#graphs.upload(work.exec, work.stream)
        break
      case 'childGraph':
        this.#graphs.addGraph(work.stream, work.graph)
        break
      case 'promise':
        this.#waitForPromise(work)
        break
      default:
        work satisfies never
    }
  }

  #copy({ destination, source, byteLength, rows, route, stream }: QueuedCopy): void {
    if (rows === undefined) this.#memory.copy(destination, source, byteLength, stream, route)
    else this.#memory.copyRows(destination, source, rows.to, rows.from, stream, route)
  }

  #launchHostFunction({ stream, context, call: host }: QueuedHostFunction): void {
    const call = host.runsAfterFault ? 'cuStreamAddCallback' : 'cuLaunchHostFunc'
    if (this.#streams.isCapturing(stream)) {
      if (host.runsAfterFault) throw cudaError(call, CUresult.STREAM_CAPTURE_UNSUPPORTED)
      this.#graphs.captureHostFunction(stream, host)
      return
    }
    const queue = (): void => this.#hostFunctions.queue(stream, cudaHandleOf(stream), host)
    if (isDefaultStream(stream)) this.parts.contexts.within(context, queue)
    else queue()
  }

  #waitForPromise(work: QueuedPromiseWait): void {
    const { stream, context, called } = work
    const wait = (): (() => void) => this.#hostFunctions.queueWait(stream, cudaHandleOf(stream), called)
    work.release = isDefaultStream(stream) ? this.parts.contexts.within(context, wait) : wait()
  }

  reserve(stream: StreamHandle, entries: number): void {
    if (!this.#hostFunctions.anyPending || this.#hostFunctions.certainlyHasCapacity(stream, entries)) return
    if (this.#streams.capturesNow(stream)) return
    this.parts.inUse.during(stream, () =>
      this.parts.blocking.forCapacity(stream, entries, () => this.#streams.query(stream)),
    )
  }

  hasCapacity(stream: StreamHandle, entries: number): boolean {
    if (!this.#hostFunctions.anyPending || this.#streams.capturesNow(stream)) return true
    return this.#hostFunctions.hasCapacity(stream, entries, () => this.#streams.query(stream))
  }

  drainHostFunctions(): void {
    this.parts.blocking.forHostFunctions('device.drainHostFunctions()')
  }
}
