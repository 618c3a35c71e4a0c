/** Queues work on the streams of the simulation. */

import { shortCallSite } from '../foundation/base/stack.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import type { StreamHandle } from '../foundation/driver/handle-types.js'
import type { QueuedHostFunction, QueuedPromiseWait, QueuedWork, WorkDriver } from '../foundation/driver/queued-work.js'
import type { CaptureRules } from './capture-rules.js'
import { type HostWaits, hasCapacity } from './machine/host-waits.js'
import type { Machine } from './machine/machine.js'
import type { Registry } from './registry.js'
import type { SimGraphs } from './sim-graphs.js'
import type { SimKernels } from './sim-kernels.js'
import type { SimLibraries } from './sim-libraries.js'
import type { SimMemory } from './sim-memory.js'
import type { SimQueue } from './sim-queue.js'

/** The parts of the driver that do the work. */
interface WorkedParts {
  readonly kernels: SimKernels
  readonly memory: SimMemory
  readonly graphs: SimGraphs
  readonly libraries: SimLibraries
}

export class SimWork implements WorkDriver {
  constructor(
    private readonly machine: Machine,
    private readonly registry: Registry,
    private readonly captures: CaptureRules,
    private readonly waits: HostWaits,
    private readonly operations: SimQueue,
    private readonly parts: WorkedParts,
  ) {}

  queue(work: QueuedWork): void {
    switch (work.kind) {
      case 'kernel':
        this.parts.kernels.launch(work)
        break
      case 'copy':
        this.parts.memory.copy(work, work.stream)
        break
      case 'copies':
        for (const each of work.copies) this.parts.memory.copy(each, work.stream)
        break
      case 'fill':
        this.parts.memory.fill(work)
        break
      case 'hostFunction':
        this.#launchHostFunction(work)
        break
      case 'graph':
        this.parts.graphs.launch(work)
        break
      case 'allocate':
        this.parts.memory.allocate(work)
        break
      case 'free':
        this.parts.memory.free(work)
        break
      case 'library':
        this.parts.libraries.queue(work)
        break
      case 'waitValue':
        this.parts.memory.waitForValue(work)
        break
      case 'writeValue':
        this.parts.memory.writeValue(work)
        break
      case 'graphUpload':
        this.parts.graphs.upload(work)
        break
      case 'childGraph':
        this.parts.graphs.addGraph(work)
        break
      case 'promise':
        this.#waitForPromise(work)
        break
      default:
        work satisfies never
    }
  }

  #launchHostFunction({ stream: handle, call: host }: QueuedHostFunction): void {
    const call = host.runsAfterFault ? 'cuStreamAddCallback' : 'cuLaunchHostFunc'
    this.operations.enqueueHostFunction(handle, call, host)
  }

  #waitForPromise(work: QueuedPromiseWait): void {
    const stream = this.registry.liveStream(work.stream, 'cuStreamBatchMemOp')
    this.captures.refuseToTell(stream, 'cuStreamIsCapturing')
    const wait = this.machine.enqueueHold(stream, shortCallSite(work.called))
    work.release = () => this.machine.open(wait)
  }

  reserve(handle: StreamHandle, entries: number): void {
    const stream = this.registry.peekStream(handle)
    // A handle of no stream, with which CUDA crashes, is refused.
    if (stream === undefined) throw cudaError('cuStreamIsCapturing', CUresult.INVALID_HANDLE)
    this.waits.reserve(stream, entries)
  }

  hasCapacity(handle: StreamHandle, entries: number): boolean {
    const stream = this.registry.peekStream(handle)
    return stream === undefined || hasCapacity(stream, entries)
  }

  drainHostFunctions(): void {
    this.waits.drainHostFunctions()
  }
}
