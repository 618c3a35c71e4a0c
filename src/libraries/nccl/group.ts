/**
 * The calls of communicators, put into streams: at once, or at the end of a group. Until then NCCL is not called, so a
 * group that fails half-way has done nothing.
 */
import { performance } from 'node:perf_hooks'
import { Ambient } from '../../base/ambient.js'
import { checkFunction, isThenable } from '../../base/arguments.js'
import { invalidType, invalidValue, messageOf, stateError } from '../../base/errors.js'
import { LIBRARY_ENTRIES, type LibraryCall } from '../../driver/driver.js'
import { makeRoomInAll, queueAllWith } from '../../memory/queue-with-memory.js'
import type { Stream } from '../../stream.js'
import { recordOf } from '../../streams/capture-record.js'
import { openStream } from '../../streams/stream-core.js'
import { type GivenMemory, openGiven } from '../library-memory.js'
import { checkTogether, type NcclRequest } from './clique.js'
import type { NcclHandle } from './handle.js'
import { queueSimulated, type SimulatedPart } from './simulated.js'
import type { ComputedCall } from './twin.js'

export interface NcclOperation extends NcclRequest, ComputedCall {
  readonly rank: number
  readonly isSend: boolean
  readonly handle: NcclHandle
  readonly stream: Stream
  readonly memory: readonly GivenMemory[]
  /** Calls NCCL with the addresses of the memory, in its order, and CUDA's handle of the stream. */
  call(pointers: readonly number[], stream: number): void
}

interface Group {
  readonly operations: NcclOperation[]
  /** Its function runs. Calls that come later, as from a host function, are not of the group any more. */
  open: boolean
}

/** Belongs to the async context: a host function that runs meanwhile queues its own work, not the group's. */
const groups = new Ambient<Group>()

/**
 * Makes NCCL's calls of a function together (`ncclGroupStart`, `ncclGroupEnd`): one thread that has several ranks must
 * make the calls of all of them in a group, and so must sends and receives that wait for each other. Arguments are
 * checked by each call; the work is queued when the function ends, and if it throws nothing is queued. Groups may be
 * nested: all work is queued at the end of the outermost, but for the calls of a group that throws.
 * @param fn A function that is not async.
 * @returns the function's result
 * @throws {Error} any error of the function; ERR_INVALID_ARG_VALUE where two calls use the same bytes and one writes
 * there: NCCL may run the calls of a group side by side. ERR_DEVICE_MISMATCH for devices of two drivers; ERR_DEADLOCK
 * where a rank of this thread is left out, and where the other ranks are waited for in vain; ERR_CLOSED for an object
 * that was closed since its call; ERR_INVALID_ARG_TYPE for a function that returns a promise
 * @throws {LibraryError} where NCCL refuses
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

interface NcclPart extends SimulatedPart {
  readonly operation: NcclOperation
}

function queueOperations(operations: readonly NcclOperation[]): void {
  const handles = [...new Set(operations.map(({ handle }) => handle))]
  for (const handle of handles) checkAlive(handle)
  checkTogether(operations)
  makeRoomInAll(new Set(operations.map(({ stream }) => openStream(stream))), LIBRARY_ENTRIES)
  // Host functions may have run.
  for (const handle of handles) checkAlive(handle)
  const parts = operations.map((operation): NcclPart => {
    const use = openStream(operation.stream)
    return { operation, use, memory: openGiven(operation.memory, use) }
  })
  const [first] = parts
  if (first === undefined) return
  const stranger = parts.find(({ use }) => use.driver !== first.use.driver)
  if (stranger !== undefined) {
    const [one, another] = [first.operation.stream.device, stranger.operation.stream.device]
    const what = `${one} and ${another} belong to two drivers: make a group for each of them`
    throw stateError('ERR_DEVICE_MISMATCH', what)
  }
  checkCallsApart(parts)
  const { driver } = first.use
  const { libraries, name } = driver
  const queueReal = (): void =>
    driver.queue({
      kind: 'library',
      calls: parts.map(callOf),
      together: (calls) => {
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
          for (const handle of handles) handle.fail(error)
          throw error
        }
      },
    })
  for (const { operation, use } of parts) {
    use.driver.streamHandedOut(use.handle)
    recordOf(use)?.keeps.add(operation.handle)
  }
  queueAllWith(parts, name === 'sim' ? () => queueSimulated(parts) : queueReal)
  for (const handle of handles) {
    const own = parts.filter(({ operation }) => operation.handle === handle)
    for (const use of new Map(own.map(({ use }) => [use.serial, use])).values()) handle.work.record(use)
  }
}

function callOf({ operation, use, memory }: NcclPart): LibraryCall {
  const pointers = memory.map(({ pointer }) => pointer)
  const call = (stream: number): void => operation.call(pointers, stream)
  return { name: operation.name, stream: use.handle, context: use.context, memory, call, host: undefined }
}

/** The group of NCCL's ends also where a call in it is refused: it counts them for each thread. */
function makeTogether({ library }: NcclHandle, count: number, calls: () => void): void {
  if (count === 1) {
    calls()
    return
  }
  library.call('ncclGroupStart')
  try {
    calls()
  } catch (refused) {
    try {
      library.call('ncclGroupEnd')
    } catch {
      // NCCL says the same once more.
    }
    throw refused
  }
  library.call('ncclGroupEnd')
}

/**
 * Do no two calls of a group use the same bytes, one of them to write? NCCL runs them side by side, in no order: seen on two
 * H200s, where of two sums in place one was lost. Throws ERR_INVALID_ARG_VALUE where they do.
 */
function checkCallsApart(parts: readonly NcclPart[]): void {
  if (parts.length < 2) return
  const ranges = parts.flatMap(({ memory }, call) =>
    memory.map(({ pointer, byteLength, access }) => {
      return { begin: pointer, end: pointer + byteLength, writes: access !== 'in', call }
    }),
  )
  ranges.sort((a, b) => a.begin - b.begin)
  for (const [index, range] of ranges.entries()) {
    for (let next = index + 1; (ranges[next]?.begin ?? range.end) < range.end; next += 1) {
      const other = ranges[next]
      if (other === undefined || other.call === range.call || !(range.writes || other.writes)) continue
      const [first, second] = [range.call, other.call].sort((a, b) => a - b).map((call) => parts[call]?.operation.name)
      const shared = Math.min(range.end, other.end) - other.begin
      throw invalidValue(
        `${first}() and ${second}() of one group use the same ${shared} bytes, and one writes there; NCCL may run them side by side: put them into two groups`,
      )
    }
  }
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
  const why = messageOf(failure)
  throw stateError('ERR_CLOSED', `The communicator was given up and cannot be used any more: ${why}`, failure)
}
