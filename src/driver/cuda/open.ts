/** Builds the driver from its parts. */
import { millisecondsOf } from '../../base/environment-variables.js'
import { deadlock } from '../deadlocks.js'
import { type ContextHandle, type Driver, EventFlag, isNullStream, type StreamHandle } from '../driver.js'
import { LoopPump } from '../loop-pump.js'
import { CudaDriver } from './cuda-driver.js'
import { allocatePinned } from './cuda-memory.js'
import { HandleCheck } from './handles/handle-check.js'
import { MemoryCheck } from './handles/memory-check.js'
import { StreamReserve } from './handles/stream-reserve.js'
import { Captures } from './host-functions/captures.js'
import { Dependencies } from './host-functions/dependencies.js'
import { GateMemory } from './host-functions/gate-memory.js'
import { Gates } from './host-functions/gates.js'
import { GraphGates } from './host-functions/graph-gates.js'
import { HostFunctions } from './host-functions/host-functions.js'
import { QueueDepth } from './host-functions/queue-depth.js'
import { openThreadTable } from './host-functions/thread-table.js'
import { makeWatchdog } from './host-functions/watchdog.js'
import { Contexts } from './libcuda/contexts.js'
import { check, startLibrary } from './libcuda/library.js'
import { NativeMemory } from './libcuda/native.js'
import { RelaxedCaptures } from './libcuda/relaxed-captures.js'
import { type LibcudaParts, StreamCalls } from './libcuda/stream-calls.js'
import { Blocking } from './waiting/blocking.js'
import { CallsApart } from './waiting/calls-apart.js'
import { Completions } from './waiting/completions.js'
import { EventPool } from './waiting/event-pool.js'
import { Promises } from './waiting/promises.js'
import { BackOffSleeper, makeRest } from './waiting/sleeper.js'
import { ValueWaits } from './waiting/value-waits.js'

export { absence, noDriver } from './libcuda/installed-driver.js'

const DEADLOCK_TIMEOUT = 10_000

/**
 * Starts the NVIDIA driver; undefined where this machine has none.
 * @throws ERR_NO_DRIVER where it has one that does not work
 */
export function openCudaDriver(): Driver | undefined {
  const started = startLibrary()
  if (started === undefined) return undefined
  const { library, connections } = started
  const memory = new NativeMemory(4096)
  const contexts = new Contexts(library, memory)
  const relaxed = new RelaxedCaptures(library)
  const libcuda: LibcudaParts = { library, memory, contexts, relaxed, calls: new StreamCalls(contexts) }
  const threads = openThreadTable()
  const rest = makeRest()
  const deadlockAfter = millisecondsOf('CUDA_STREAMS_DEADLOCK_TIMEOUT', DEADLOCK_TIMEOUT)
  const reserve = new StreamReserve({
    ...libcuda,
    threads,
    rest,
    exclusivelyNow: (call) => hostFunctions.exclusivelyNow(call),
  })
  const pool = new EventPool(library, memory, contexts, reserve)
  /** It lives as long as the process. */
  const gateMemory = (kind: 'stream' | 'graph'): GateMemory =>
    new GateMemory(
      (bytes) => allocatePinned(libcuda, bytes, contexts.primary(0)),
      (address, slots, labels) => threads.publishGates(kind, address, slots, labels),
    )
  const startWatchdog = makeWatchdog()
  const restForOthers = (waited: number): void => {
    if (waited > deadlockAfter) throw deadlock('queuing a host function', keptOut(deadlockAfter))
    rest(Number.POSITIVE_INFINITY)
  }
  const gates = new Gates(library, gateMemory('stream'), threads, restForOthers, () => {
    callsApart.waitForAll()
    reserve.fillWhereNeeded()
    startWatchdog()
  })
  const graphGates = new GraphGates(library, gateMemory('graph'))
  const dependencies = new Dependencies(
    (stream) => driver.isBlocking(stream),
    (stream) => deviceOf(libcuda, stream),
  )
  const captures = new Captures(libcuda, threads, rest)
  const eventWaits = new Completions(library)
  const sleeper = new BackOffSleeper()
  const pump: LoopPump = new LoopPump(
    () => promises.turn(),
    sleeper,
    () => true,
  )
  const depth = new QueueDepth(gates, connections, threads)
  const isIdle = (stream: StreamHandle): boolean => driver.isIdle(stream)
  const pending = { gates, depth, dependencies, captures, eventWaits, isIdle }
  const valueWaits = new ValueWaits(
    { ...libcuda, pool, reserve },
    (stream) => !isNullStream(stream) && driver.streamIsCapturing(stream),
  )
  const parts = { ...libcuda, ...pending, valueWaits, threads, pool, pump, sleeper, rest, deadlockAfter }
  const hostFunctions = new HostFunctions(parts)
  const blocking = new Blocking({ ...parts, hostFunctions })
  const promises = new Promises({ ...parts, hostFunctions })
  const callsApart = new CallsApart({ ...parts, hostFunctions })
  const memoryCheck = new MemoryCheck()
  const handles = new HandleCheck(
    (event) => relaxed.run(() => library.cuEventQuery(event)),
    memoryCheck,
    (event) => pool.hides(event),
    () => learn(libcuda, reserve, memoryCheck),
  )
  const waiting = { captures, valueWaits, hostFunctions, blocking, promises, callsApart }
  const driver: CudaDriver = new CudaDriver({ ...libcuda, ...waiting, threads, pool, reserve, graphGates, handles })
  return driver
}

const keptOut = (milliseconds: number): string =>
  `another thread has been inside a call that waits for the device for ${milliseconds} ms, and new host functions would hold it up`

/** A stream in a capture that is invalidated does not tell its context. */
function deviceOf({ calls, library, memory, contexts }: LibcudaParts, stream: StreamHandle): number {
  const known = calls.contextOf(stream)
  if (known !== undefined) return contexts.deviceOf(known)
  check('cuStreamGetCtx', library.cuStreamGetCtx_v2(stream, memory.address, memory.address + 8))
  return contexts.deviceOf(memory.pointerAt(0) as ContextHandle)
}

/** Two streams, so that a number which stands somewhere by chance is not taken for theirs. */
function learn({ library, memory, contexts }: LibcudaParts, reserve: StreamReserve, memoryCheck: MemoryCheck): void {
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
