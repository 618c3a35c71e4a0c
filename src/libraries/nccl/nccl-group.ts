/**
 * What communicators are asked to do, put into streams: at once, or at the end of a group. Until then nothing is told to
 * NCCL, so a group that fails half-way has done nothing.
 */
import { performance } from 'node:perf_hooks'
import { Ambient } from '../../base/ambient.js'
import { checkFunction, isThenable } from '../../base/arguments.js'
import { invalidType, stateError } from '../../base/errors.js'
import { LIBRARY_ENTRIES, type LibraryWork } from '../../driver/driver.js'
import { makeRoomInAll, queueAllWith } from '../../memory/queue-with-memory.js'
import type { Stream } from '../../stream.js'
import { openStream, type StreamCore } from '../../streams/stream-core.js'
import { type GivenMemory, openGiven, type UsedMemory } from '../library-memory.js'
import { checkBuffersApart } from './nccl-apart.js'
import { checkTogether } from './nccl-clique.js'
import type { NcclHandle } from './nccl-handle.js'
import type { NcclFunction } from './nccl-library.js'
import type { Description } from './nccl-twin.js'
import { queueSimulated, type SimulatedPart } from './simulated-nccl.js'

export interface NcclOperation {
  readonly name: NcclFunction
  readonly handle: NcclHandle
  readonly stream: Stream
  readonly memory: readonly GivenMemory[]
  readonly description: Description
  /** See `Request`. */
  readonly says: string
  /** Calls NCCL with the addresses of the memory, in its order, and CUDA's handle of the stream. Returns its result. */
  call(pointers: readonly number[], stream: number): number
}

interface Group {
  readonly operations: NcclOperation[]
  /** Its function runs. What that has left behind, such as a host function, is not of the group any more. */
  open: boolean
}

/** Belongs to the async context: a host function that runs meanwhile queues its own work, not the group's. */
const groups = new Ambient<Group>()

/**
 * Makes NCCL's calls of a function together (`ncclGroupStart`, `ncclGroupEnd`): one thread that has several ranks must
 * make the calls of all of them in a group, and so must sends and receives that wait for each other. Arguments are
 * checked by each call; the work is queued when the function ends, and if it throws nothing is queued. Groups may be
 * nested: all is queued at the end of the outermost, but for what was asked for in one that throws.
 * @throws what the function throws; ERR_INVALID_ARG_VALUE where two calls use the same bytes and one writes there: NCCL
 * may run the calls of a group side by side. ERR_DEVICE_MISMATCH for devices of two drivers; ERR_DEADLOCK where a rank of
 * this thread is left out, and where the other ranks are waited for in vain; ERR_CLOSED for what was closed since its call;
 * ERR_INVALID_ARG_TYPE for a function that returns a promise; LibraryError
 */
export function group<R>(fn: () => R): R {
  checkFunction(fn, 'fn')
  const outer = groups.get()
  if (outer?.open) return gather(outer, fn)
  const group: Group = { operations: [], open: true }
  let result: R
  try {
    result = groups.run(group, () => gather(group, fn))
  } finally {
    group.open = false
  }
  queueOperations(group.operations)
  return result
}

/** Runs the function of a group, nested or not. Where it throws, nothing that it asked for stays in the group. */
function gather<R>({ operations }: Group, fn: () => R): R {
  const before = operations.length
  try {
    const result = fn()
    if (!isThenable(result)) return result
    throw invalidType('fn', 'a function that returns no promise: a group ends with the function', result)
  } catch (error) {
    operations.length = before
    throw error
  }
}

/** Queues it now, or at the end of the group that is open. */
export function ask(operation: NcclOperation): void {
  const group = groups.get()
  if (group?.open) group.operations.push(operation)
  else queueOperations([operation])
}

interface Part {
  readonly operation: NcclOperation
  readonly use: StreamCore
  readonly memory: readonly UsedMemory[]
}

function queueOperations(operations: readonly NcclOperation[]): void {
  const handles = [...new Set(operations.map(({ handle }) => handle))]
  for (const handle of handles) checkAlive(handle)
  checkTogether(
    operations.map(({ handle: { clique, rank }, description: { peer, isSend }, says }) => ({
      ...{ clique, rank, peer, isSend, says },
    })),
  )
  makeRoomInAll(new Set(operations.map(({ stream }) => openStream(stream))), LIBRARY_ENTRIES)
  // Host functions may have run.
  for (const handle of handles) checkAlive(handle)
  const parts = operations.map((operation): Part => {
    const use = openStream(operation.stream)
    return { operation, use, memory: openGiven(operation.memory, use) }
  })
  const [first] = parts
  if (first === undefined) return
  const stranger = parts.find(({ use }) => use.driver !== first.use.driver)
  if (stranger !== undefined) {
    const [one, another] = [first.operation.stream.device, stranger.operation.stream.device]
    throw stateError(
      'ERR_DEVICE_MISMATCH',
      `${one} and ${another} belong to two drivers: make a group for each of them`,
    )
  }
  checkBuffersApart(parts.map(({ operation: { name }, memory }) => ({ name, memory })))
  const { libraries, name } = first.use.driver
  const queueReal = (): void =>
    libraries.queue(parts.map(workOf), (calls) => {
      const { name } = first.operation
      const since = performance.now()
      const wait = (): void =>
        libraries.waitUntil(() => handles.every((handle) => isQueued(handle, name, since)), `${name}()`)
      try {
        // In a host function that runs while an earlier call of theirs waits: NCCL takes one at a time.
        wait()
        makeTogether(first.operation.handle, parts.length, calls)
        wait()
      } catch (error) {
        for (const handle of handles) void handle.fail(error)
        throw error
      }
    })
  for (const { use } of parts) use.driver.streamHandedOut(use.handle)
  queueAllWith(parts, name === 'sim' ? () => queueSimulated(parts.map(simulatedOf)) : queueReal)
  for (const handle of handles) {
    const own = parts.filter(({ operation }) => operation.handle === handle)
    for (const use of new Map(own.map(({ use }) => [use.serial, use])).values()) handle.work.record(use)
  }
}

function simulatedOf({ operation: { name, description }, use, memory }: Part): SimulatedPart {
  return { name, use, memory, description }
}

function workOf({ operation, use, memory }: Part): LibraryWork {
  const pointers = memory.map(({ pointer }) => pointer)
  const { name, handle } = operation
  return {
    name,
    stream: use.handle,
    context: use.context,
    memory,
    call: (stream) => handle.library.check(name, operation.call(pointers, stream)),
    twin: undefined,
  }
}

/** The group of NCCL's ends also where a call in it is refused: it counts them for each thread. */
function makeTogether({ library }: NcclHandle, count: number, calls: () => void): void {
  if (count === 1) {
    calls()
    return
  }
  library.check('ncclGroupStart', library.functions.ncclGroupStart())
  let ended = 0
  try {
    calls()
  } finally {
    ended = library.functions.ncclGroupEnd()
  }
  library.check('ncclGroupEnd', ended)
}

function isQueued(handle: NcclHandle, call: string, since: number): boolean {
  if (handle.isDone(call)) return true
  handle.checkTime(since, call)
  return false
}

/** Throws ERR_CLOSED, with the reason where it was given up. */
export function checkAlive(handle: NcclHandle): void {
  if (!handle.ended) return
  const { failure } = handle
  if (failure === undefined) throw stateError('ERR_CLOSED', 'The communicator cannot be used any more')
  const why = failure instanceof Error ? failure.message : String(failure)
  throw stateError('ERR_CLOSED', `The communicator was given up and cannot be used any more: ${why}`, failure)
}
