/** Builds the driver from its parts. */
import { invalidValue } from '../../base/errors.js'
import { deadlock } from '../deadlocks.js'
import { type Driver, deviceOfDefaultStream, EventFlag, isDefaultStream, type StreamHandle } from '../driver.js'
import { CudaDriver } from './cuda-driver.js'
import { HandleCheck } from './handles/handle-check.js'
import { StreamReserve } from './handles/stream-reserve.js'
import { Dependencies } from './host-functions/dependencies.js'
import { GateMemory } from './host-functions/gate-memory.js'
import { Gates } from './host-functions/gates.js'
import { GraphGates } from './host-functions/graph-gates.js'
import { QueueDepth } from './host-functions/queue-depth.js'
import { openThreadTable } from './host-functions/thread-table.js'
import { Contexts } from './libcuda/contexts.js'
import { check, type Library, startLibrary } from './libcuda/library.js'
import { NativeMemory } from './libcuda/native.js'
import { RelaxedCaptures } from './libcuda/relaxed-captures.js'
import { MemoryCheck } from './memory/memory-check.js'
import { allocatePinned } from './memory/pinned-memory.js'
import { EventPool } from './waiting/event-pool.js'
import { makeRest } from './waiting/rest.js'
import { BackOffSleeper } from './waiting/sleeper.js'
import { Waiting } from './waiting/waiting.js'

const DEADLOCK_TIMEOUT = 10_000

/**
 * Starts the NVIDIA driver.
 * @throws ERR_NO_DRIVER, with what was tried
 */
export function openCudaDriver(): Driver {
  const { library, connections } = startLibrary()
  const memory = new NativeMemory(4096)
  const contexts = new Contexts(library, memory)
  const threads = openThreadTable()
  const rest = makeRest()
  const restAMoment = (): void => rest(Number.POSITIVE_INFINITY)
  const reserve = new StreamReserve({
    library,
    memory,
    contexts,
    threads,
    rest: restAMoment,
    exclusivelyNow: (call) => waiting.exclusivelyNow(call),
  })
  const pool = new EventPool(library, memory, contexts, reserve)
  const relaxed = new RelaxedCaptures(library)
  const parts = { library, memory, contexts, relaxed }
  /** It lives as long as the process. */
  const gateMemory = (kind: 'stream' | 'graph'): GateMemory =>
    new GateMemory(
      (bytes) => allocatePinned(parts, bytes, contexts.primary(0)),
      (address, slots) => threads.publishGates(kind, address, slots),
    )
  const deadlockAfter = deadlockTimeout()
  const restForOthers = (waited: number): void => {
    if (waited > deadlockAfter) throw deadlock('queuing a host function', keptOut(deadlockAfter))
    restAMoment()
  }
  const gates = new Gates(library, gateMemory('stream'), threads, restForOthers, () => {
    waiting.forApart()
    reserve.fillWhereNeeded()
  })
  const graphGates = new GraphGates(library, gateMemory('graph'))
  const dependencies = new Dependencies(
    (stream) => driver.isBlocking(stream),
    (stream) => (isDefaultStream(stream) ? deviceOfDefaultStream(stream) : deviceOf(library, memory, contexts, stream)),
  )
  const waiting = new Waiting({
    library,
    relaxed,
    gates,
    depth: new QueueDepth(gates, connections, threads),
    dependencies,
    pool,
    sleeper: new BackOffSleeper(),
    rest,
    threads,
    isIdle: (stream) => driver.isIdle(stream),
    deadlockAfter,
  })
  const memoryCheck = new MemoryCheck()
  const handles = new HandleCheck(
    (event) => relaxed.run(() => library.cuEventQuery(event)),
    memoryCheck,
    (event) => pool.hides(event),
    () => learn(library, memory, contexts, reserve, memoryCheck),
  )
  const driver: CudaDriver = new CudaDriver({ ...parts, handles, waiting, pool, graphGates, reserve })
  return driver
}

const keptOut = (milliseconds: number): string =>
  `another thread has been inside a call that waits for the device for ${milliseconds} ms, and new host functions would hold it up`

function deviceOf(library: Library, memory: NativeMemory, contexts: Contexts, stream: StreamHandle): number {
  check('cuStreamGetCtx', library.cuStreamGetCtx(stream, memory.address))
  return contexts.deviceOf(memory.pointerAt(0) as never)
}

/** Two streams, so that a number which stands somewhere by chance is not taken for theirs. */
function learn(
  library: Library,
  memory: NativeMemory,
  contexts: Contexts,
  reserve: StreamReserve,
  memoryCheck: MemoryCheck,
): void {
  const context = contexts.primary(0)
  contexts.within(context, () => {
    const streams = [0, 1].map(() => {
      const handle = reserve.lend(0)
      check('cuStreamGetId', library.cuStreamGetId(handle, memory.address))
      return { handle, id: memory.pointerAt(0) }
    })
    check('cuEventCreate', library.cuEventCreate(memory.address, EventFlag.DISABLE_TIMING))
    const event = memory.pointerAt(0)
    memoryCheck.learn(streams, event, context)
    library.cuEventDestroy_v2(event)
    for (const { handle } of streams) reserve.giveBack(0, handle)
  })
}

function deadlockTimeout(): number {
  const wanted = process.env['CUDA_STREAMS_DEADLOCK_TIMEOUT']
  if (wanted === undefined || wanted === '') return DEADLOCK_TIMEOUT
  const milliseconds = Number(wanted)
  if (Number.isFinite(milliseconds) && milliseconds > 0) return milliseconds
  throw invalidValue(`CUDA_STREAMS_DEADLOCK_TIMEOUT must be a number of milliseconds, not '${wanted}'`)
}
