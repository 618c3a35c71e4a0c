/**
 * Calls of communicators, which are queued on streams at once, or at the end of a group. Until then NCCL is not called, so a
 * group that fails half-way has done nothing.
 */

import { queueAllWith, reserveInAll } from '../../core/memory/queue-with-memory.js'
import { recordOf } from '../../core/streams/capture-record.js'
import { openStream, type StreamImpl } from '../../core/streams/stream-impl.js'
import { Ambient } from '../../foundation/base/ambient.js'
import { checkSynchronous, refusePromise } from '../../foundation/base/arguments.js'
import { invalidValue, messageOf, stateError } from '../../foundation/base/errors.js'
import { LIBRARY_ENTRIES } from '../../foundation/driver/driver-constants.js'
import { openGiven } from '../library-call.js'
import { checkTogether, type NcclHandle, type NcclOperation } from './nccl-handle.js'
import { handlesOf, operationsOf, queueReal } from './queue-real.js'
import { type OpenOperation, queueSimulated } from './simulated-nccl.js'

const ENDS_WITH_FN = 'a group ends with the function'

interface Group {
  readonly operations: NcclOperation[]
  /** Whether the group's function runs. Later calls, such as those of a host function, do not belong to the group. */
  open: boolean
}

/** The groups by async context, so that calls of a host function that runs meanwhile do not belong to a group. */
const groups = new Ambient<Group>()

/**
 * Makes the NCCL calls of a function together (`ncclGroupStart`, `ncclGroupEnd`): a thread that has several ranks must
 * make the calls of all of them in a group, and sends and receives that wait for each other must be in one, too. Arguments are
 * checked by each call; the work is queued when the function ends, and if it throws nothing is queued. Groups may be
 * nested: all work is queued at the end of the outermost, except the calls of a group that throws.
 * @param fn A function that is not async.
 * @returns the function's result
 * @throws {Error} any error of the function; ERR_INVALID_ARG_VALUE if two calls use the same bytes and one writes
 * there: NCCL may run the calls of a group concurrently. ERR_DEVICE_MISMATCH for devices of two drivers; ERR_DEADLOCK
 * if a rank of this thread is left out, and if the other ranks do not come in time; ERR_CLOSED for an object
 * that was closed since its call; ERR_INVALID_ARG_VALUE for a function that returns a promise, which is not called if it is async
 * @throws {LibraryError} if NCCL refuses
 */
export function group<R>(fn: () => R): R {
  checkSynchronous(fn, 'fn', ENDS_WITH_FN)
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

/** Runs the function of a group, nested or not. If it throws, none of its calls remain in the group. */
function gather<R>({ operations }: Group, fn: () => R): R {
  const before = operations.length
  try {
    const result = fn()
    refusePromise(result, 'fn', ENDS_WITH_FN)
    return result
  } catch (error) {
    operations.length = before
    throw error
  }
}

/** Queues the call now, or at the end of the open group. */
export function enqueue(operation: NcclOperation): void {
  const group = groups.get()
  if (group?.open) group.operations.push(operation)
  else queueOperations([operation])
}

function queueOperations(operations: readonly NcclOperation[]): void {
  const handles = handlesOf(operations)
  for (const handle of handles) checkAlive(handle)
  try {
    checkTogether(operations)
  } catch (error) {
    // What is closed is said first: it is the mistake of a call, and that of calls together may come of it.
    for (const { stream, memory } of operations) openGiven(memory, openStream(stream))
    throw error
  }
  reserveInAll(distinct(operations.map(({ stream }) => openStream(stream))), LIBRARY_ENTRIES)
  // Host functions may have run.
  for (const handle of handles) checkAlive(handle)
  const parts = operations.map((operation): OpenOperation => {
    const use = openStream(operation.stream)
    return { operation, use, memory: openGiven(operation.memory, use) }
  })
  const [first] = parts
  if (first === undefined) return
  const { driver } = first.use
  for (const { operation, use } of parts) {
    if (use.driver === driver) continue
    const [one, another] = [first.operation.stream.device, operation.stream.device]
    const what = `${one} and ${another} belong to two drivers: make a group for each of them`
    throw stateError('ERR_DEVICE_MISMATCH', what)
  }
  checkCallsApart(parts)
  for (const { operation, use } of parts) {
    driver.streams.escaped(use.handle)
    recordOf(use)?.retained.add(operation.handle)
  }
  const uses = distinct(parts.map(({ use }) => use))
  const captured = uses.filter(({ handle }) => driver.streams.isCapturing(handle))
  queueAllWith(parts, () => (driver.name === 'sim' ? queueSimulated(parts) : queueReal(driver, parts, captured)))
  for (const handle of handles) {
    const own = parts.filter(({ operation }) => operation.handle === handle)
    let isCaptured = false
    for (const use of distinct(own.map((part) => part.use))) {
      if (captured.includes(use)) isCaptured = true
      else handle.queuedOn(use, own.length)
    }
    if (!isCaptured) handle.queued(operationsOf(handle, own))
  }
}

/** The streams without repetitions. There are mostly one or two, among which a search costs less than a set. */
function distinct(uses: readonly StreamImpl[]): readonly StreamImpl[] {
  if (uses.length === 1) return uses
  const found: StreamImpl[] = []
  for (const use of uses) if (!found.includes(use)) found.push(use)
  return found
}

/**
 * Throws ERR_INVALID_ARG_VALUE if two calls of a group use the same bytes and one writes there. NCCL runs them concurrently:
 * on two H200s one of two sums in place was lost.
 */
function checkCallsApart(parts: readonly OpenOperation[]): void {
  if (parts.length < 2 || (parts.length <= FEW && areApart(parts))) return
  const ranges: UsedRange[] = []
  for (const [call, { memory }] of parts.entries()) {
    for (const { pointer, byteLength, access } of memory) {
      ranges.push({ begin: pointer, end: pointer + byteLength, writes: access !== 'in', call })
    }
  }
  ranges.sort((a, b) => a.begin - b.begin)
  for (let index = 0; index < ranges.length; index += 1) {
    const range = ranges[index]
    if (range === undefined) continue
    for (let next = index + 1; next < ranges.length; next += 1) {
      const other = ranges[next]
      if (other === undefined || other.begin >= range.end) break
      if (other.call === range.call || !(range.writes || other.writes)) continue
      const [first, second] = [range.call, other.call].sort((a, b) => a - b).map((call) => parts[call]?.operation.name)
      const shared = Math.min(range.end, other.end) - other.begin
      throw invalidValue(
        `${first}() and ${second}() of one group use the same ${shared} bytes, and one writes there; NCCL may run them concurrently: put them into two groups`,
      )
    }
  }
}

/** The largest number of calls that are compared with each other without allocating anything. */
const FEW = 4

function areApart(parts: readonly OpenOperation[]): boolean {
  for (const [index, { memory }] of parts.entries()) {
    for (let next = index + 1; next < parts.length; next += 1) {
      for (const one of memory) {
        for (const other of parts[next]?.memory ?? []) {
          const isApart =
            one.pointer + one.byteLength <= other.pointer || other.pointer + other.byteLength <= one.pointer
          if (!isApart && (one.access !== 'in' || other.access !== 'in')) return false
        }
      }
    }
  }
  return true
}

/** Memory that one call of a group uses. */
interface UsedRange {
  readonly begin: number
  readonly end: number
  readonly writes: boolean
  readonly call: number
}

/** Throws ERR_CLOSED, with the reason if the communicator was aborted. */
export function checkAlive(handle: NcclHandle): void {
  if (!handle.ended) return
  const { failure } = handle
  if (failure === undefined) throw stateError('ERR_CLOSED', 'The communicator cannot be used any more')
  const why = messageOf(failure)
  throw stateError('ERR_CLOSED', `The communicator was aborted and cannot be used any more: ${why}`, failure)
}
