/** Builds the CUDA driver from its parts. */
import { VARIABLES } from '../foundation/base/environment-variables.js'
import { useHeap } from '../foundation/base/heap.js'
import { deadlock } from '../foundation/driver/deadlocks.js'
import type { Driver } from '../foundation/driver/driver.js'
import { EventFlag } from '../foundation/driver/driver-constants.js'
import { EventLoopPoller } from '../foundation/driver/event-loop-poller.js'
import { type EventHandle, isNullStream } from '../foundation/driver/handle-types.js'
import { layer } from '../foundation/native/layer.js'
import { ThreadMemory } from '../foundation/native/thread-memory.js'
import { CudaDriver } from './cuda-driver.js'
import { allocatePinned } from './cuda-memory.js'
import { GraphNodes } from './graph-nodes.js'
import { HandleCheck, MemoryCheck } from './handles/handle-check.js'
import { SpareStreams } from './handles/spare-streams.js'
import { type StreamRecord, StreamRecords } from './handles/stream-records.js'
import { Captures } from './host-functions/captures.js'
import { Dependencies } from './host-functions/dependencies.js'
import { GraphSemaphores } from './host-functions/graph-semaphores.js'
import { PendingHostFunctions } from './host-functions/pending-host-functions.js'
import { makeWatchdog, openProcessRegistry } from './host-functions/process-registry.js'
import { QueueDepth } from './host-functions/queue-depth.js'
import { SemaphoreMemory, Semaphores, semaphoreSource } from './host-functions/semaphores.js'
import { Contexts, type LibcudaParts, RelaxedCaptures, StreamCalls } from './libcuda/driver-calls.js'
import { checkCleanup, checked, startLibcuda } from './libcuda/libcuda.js'
import { BackOffTimer, makeSpinWait } from './waiting/back-off-timer.js'
import { Blocking } from './waiting/blocking.js'
import { CallsOnThreads } from './waiting/calls-on-threads.js'
import { EventPool } from './waiting/event-pool.js'
import { Completions, Promises } from './waiting/promises.js'
import { UsualWaits } from './waiting/usual-waits.js'
import { ValueWaits } from './waiting/value-waits.js'

export { absence, noDriver } from './libcuda/libcuda.js'

/**
 * Starts the NVIDIA driver. Returns undefined when this machine has none.
 * @throws ERR_NO_DRIVER when it has one that does not work
 */
export function openCudaDriver(): Driver | undefined {
  const started = startLibcuda()
  if (started === undefined) return undefined
  // Bun's collector weighs such memory by rules of its own, and does not collect at once.
  if (process.versions['bun'] === undefined) useHeap(layer())
  const { library, kinds, connections, addressOf } = started
  const libcuda = callsOf(library, kinds)
  const { contexts, relaxed } = libcuda
  const registry = openProcessRegistry()
  const spinWait = makeSpinWait()
  const deadlockAfter = VARIABLES.deadlockTimeout.read()
  const exclusivelyNow: PendingHostFunctions['exclusivelyNow'] = (call) => hostFunctions.exclusivelyNow(call)
  const spares = new SpareStreams({ ...libcuda, registry, spinWait, exclusivelyNow })
  const pool = new EventPool({ ...libcuda, spares })
  const allocateWords = (bytes: number): number => allocatePinned(libcuda, bytes, contexts.primary(0))
  const semaphoreMemory = (kind: 'stream' | 'graph'): SemaphoreMemory =>
    new SemaphoreMemory(semaphoreSource(kinds.pinned, kind === 'graph', allocateWords), (address, count, labels) =>
      registry.publishSemaphores(kind, address, count, labels),
    )
  const startWatchdog = makeWatchdog()
  const waitForOthers = (waited: number): void => {
    if (waited > deadlockAfter) throw deadlock('queuing a host function', keptOut(deadlockAfter))
    spinWait(Number.POSITIVE_INFINITY)
  }
  const semaphores = new Semaphores(library, semaphoreMemory('stream'), registry, waitForOthers, () => {
    callsOnThreads.waitForAll()
    spares.fillWhereNeeded()
    startWatchdog()
  })
  const nodes = new GraphNodes(libcuda)
  const graphSemaphores = new GraphSemaphores(library, nodes, semaphoreMemory('graph'), (bytes, context) =>
    allocatePinned(libcuda, bytes, context),
  )
  const dependencies = new Dependencies((stream) => driver.streams.isBlocking(stream))
  const captures = new Captures(libcuda, registry, spinWait)
  const usualWaits = new UsualWaits()
  const eventWaits = new Completions<EventHandle>(library, usualWaits)
  const backOff = new BackOffTimer(
    {
      functions: [addressOf('cuEventQuery'), addressOf('cuThreadExchangeStreamCaptureMode')],
      awaited: () => promises.awaited,
    },
    usualWaits,
  )
  const poller: EventLoopPoller = new EventLoopPoller(
    () => promises.turn(),
    backOff,
    () => true,
  )
  const depth = new QueueDepth(semaphores, connections, registry)
  const isIdle = (stream: StreamRecord): boolean => driver.streams.isIdle(stream)
  const pending = { registry, semaphores, depth, dependencies, captures, eventWaits, poller, isIdle }
  const valueWaits = new ValueWaits(
    { ...libcuda, pool, spares, registry },
    (stream) => !isNullStream(stream) && driver.streams.isCapturing(stream),
  )
  const parts = { ...libcuda, ...pending, valueWaits, usualWaits, pool, backOff, spinWait, deadlockAfter }
  const hostFunctions = new PendingHostFunctions(parts)
  const blocking = new Blocking({ ...parts, hostFunctions })
  const promises = new Promises({ ...parts, hostFunctions })
  const callsOnThreads = new CallsOnThreads({ ...parts, hostFunctions })
  const memoryCheck = new MemoryCheck()
  const handles = new HandleCheck(
    (event) => relaxed.run(() => library.cuEventQuery(event)),
    memoryCheck,
    (event) => pool.hides(event),
    () => learn(libcuda, spares, memoryCheck),
  )
  const waiting = { hostFunctions, blocking, promises, callsOnThreads, setContext: addressOf('cuCtxSetCurrent') }
  const driver: CudaDriver = new CudaDriver({ ...parts, ...waiting, spares, nodes, graphSemaphores, handles })
  return driver
}

function callsOf(library: LibcudaParts['library'], kinds: LibcudaParts['kinds']): LibcudaParts {
  const must = checked(library)
  const memory = new ThreadMemory(4096)
  const contexts = new Contexts(library, must, memory)
  const streams = new StreamRecords(contexts)
  const relaxed = new RelaxedCaptures(library)
  const calls = new StreamCalls({ library, memory, contexts, streams })
  return { library, must, kinds, memory, contexts, relaxed, streams, calls }
}

const keptOut = (milliseconds: number): string =>
  `another thread has been inside a call that waits for the device for ${milliseconds} ms, and a new host function could block it forever. Let that call return first`

/** Uses two streams, so that a number which is somewhere by chance is not taken for theirs. */
function learn(
  { library, must, memory, contexts }: LibcudaParts,
  spares: SpareStreams,
  memoryCheck: MemoryCheck,
): void {
  const context = contexts.primary(0)
  contexts.within(context, () => {
    const streams = [0, 1].map(() => {
      const handle = spares.lend(0)
      must.cuStreamGetId(handle, memory.address)
      return { handle, id: memory.pointerAt(0) }
    })
    must.cuEventCreate(memory.address, EventFlag.DISABLE_TIMING)
    const event = memory.pointerAt(0)
    memoryCheck.learn(streams, event, context)
    checkCleanup('cuEventDestroy', event, library.cuEventDestroy_v2(event))
    for (const { handle } of streams) spares.giveBack(0, handle)
  })
}
