/** The driver interface on a real GPU: calls of libcuda, whose results are checked once, in one file for each part. */

import type { Driver, ShortCalls } from '../foundation/driver/driver.js'
import type { ContextHandle, EventHandle } from '../foundation/driver/handle-types.js'
import { own } from '../foundation/native/c-functions.js'
import { CudaDevices } from './cuda-devices.js'
import { CudaEvents } from './cuda-events.js'
import { CudaGraphs } from './cuda-graphs.js'
import { CudaGreenContexts } from './cuda-green-contexts.js'
import { CudaKernels } from './cuda-kernels.js'
import { CudaLibraries } from './cuda-libraries.js'
import { CudaMemory } from './cuda-memory.js'
import { CudaPools } from './cuda-pools.js'
import { CudaSharing } from './cuda-sharing.js'
import { CudaStreams } from './cuda-streams.js'
import { CudaTextures } from './cuda-textures.js'
import { CudaWork } from './cuda-work.js'
import type { GraphNodes } from './graph-nodes.js'
import { type HandleCheck, HandlesInUse } from './handles/handle-check.js'
import type { SpareStreams } from './handles/spare-streams.js'
import type { Captures } from './host-functions/captures.js'
import type { GraphSemaphores } from './host-functions/graph-semaphores.js'
import type { PendingHostFunctions } from './host-functions/pending-host-functions.js'
import type { ProcessRegistry } from './host-functions/process-registry.js'
import type { LibcudaParts } from './libcuda/driver-calls.js'
import { ArrayTable } from './memory/arrays.js'
import { PutOffFrees } from './memory/put-off-frees.js'
import type { Blocking } from './waiting/blocking.js'
import type { CallsOnThreads } from './waiting/calls-on-threads.js'
import type { EventPool } from './waiting/event-pool.js'
import { IdleDevices } from './waiting/idle-devices.js'
import type { Promises } from './waiting/promises.js'
import type { ValueWaits } from './waiting/value-waits.js'

export interface CudaDriverParts extends LibcudaParts {
  readonly handles: HandleCheck
  readonly spares: SpareStreams
  readonly registry: ProcessRegistry
  readonly graphSemaphores: GraphSemaphores
  readonly nodes: GraphNodes
  readonly captures: Captures
  readonly hostFunctions: PendingHostFunctions
  readonly blocking: Blocking
  readonly promises: Promises
  readonly callsOnThreads: CallsOnThreads
  readonly valueWaits: ValueWaits
  readonly pool: EventPool
  /** The address of `cuCtxSetCurrent`. */
  readonly setContext: number
}

export class CudaDriver implements Driver {
  readonly name = 'cuda'
  readonly devices: CudaDevices
  readonly streams: CudaStreams
  readonly events: CudaEvents
  readonly work: CudaWork
  readonly memory: CudaMemory
  readonly pools: CudaPools
  readonly kernels: CudaKernels
  readonly graphs: CudaGraphs
  readonly libraries: CudaLibraries
  readonly sharing: CudaSharing
  readonly textures: CudaTextures
  readonly short: ShortCalls

  constructor(parts: CudaDriverParts) {
    const { cuEventRecord, cuStreamWaitEvent } = parts.library
    const between = (context: ContextHandle): EventHandle => parts.pool.shared(context)
    this.short = { cuEventRecord, cuStreamWaitEvent, waitForStream: own().waitForStream, between }
    const green = new CudaGreenContexts(parts)
    const idleDevices = new IdleDevices(parts)
    const arrays = new ArrayTable()
    const all = { ...parts, green, idleDevices, inUse: new HandlesInUse(), arrays, driver: this }
    this.devices = new CudaDevices(all)
    this.streams = new CudaStreams(all)
    this.events = new CudaEvents(all)
    this.kernels = new CudaKernels(all)
    this.libraries = new CudaLibraries(all)
    const putOff = new PutOffFrees(all)
    this.pools = new CudaPools({ ...all, putOff })
    this.graphs = new CudaGraphs(all)
    this.memory = new CudaMemory({ ...all, putOff, pools: this.pools })
    this.sharing = new CudaSharing(all)
    this.textures = new CudaTextures(all)
    this.work = new CudaWork(all, this)
  }
}
