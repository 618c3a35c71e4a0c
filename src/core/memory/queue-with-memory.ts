/** Queues work that uses memory, and tracks that use. */
import { stateError } from '../../foundation/base/errors.js'
import type { FillWork, QueuedCopy } from '../../foundation/driver/queued-work.js'
import { bytesIn, type CopiedBytes, type CopyRoute, type MemoryRows } from '../../foundation/driver/touched-memory.js'
import {
  type CapturedCopy,
  type CaptureRecord,
  type CopyEnd,
  type NodeNote,
  noteNode,
  recordOf,
} from '../streams/capture-record.js'
import type { StreamImpl } from '../streams/stream-impl.js'
import type { OpenMemory } from './buffer.js'

/** Reserves entries in the hardware queues of several streams, as `reserve()` does in one. */
export function reserveInAll(streams: Iterable<StreamImpl>, entries: number): void {
  for (;;) {
    for (const stream of streams) stream.reserve(entries)
    // Host functions that ran while one queue was full may have filled the queue of another stream, or closed it.
    let haveCapacity = true
    for (const stream of streams) {
      stream.checkOpen()
      haveCapacity &&= stream.driver.work.hasCapacity(stream.handle, entries)
    }
    if (haveCapacity) return
  }
}

/** Arguments of a kernel, of which some are memory. */
type GivenMemory = OpenMemory | Uint8Array | number | bigint

const isMemory = (given: GivenMemory): given is OpenMemory => typeof given === 'object' && !ArrayBuffer.isView(given)

/** Work that is being queued, whose memory is tracked or retained by a graph. */
export interface WorkWithMemory {
  readonly memory: readonly OpenMemory[]
  readonly isTracked: boolean
  /** The record of the capture that the work goes into. */
  readonly record: CaptureRecord | undefined
}

/**
 * Called before work is queued that uses the memory among the values given. Captured work runs when its graph is launched, so
 * nothing is used yet; the graph retains the memory. Returns what to pass to `endWork()`; undefined if that need not be called.
 * @throws ERR_UNSUPPORTED if the stream's device cannot access memory of another device
 */
export function beginWork(use: StreamImpl, given: readonly GivenMemory[]): WorkWithMemory | undefined {
  const record = recordOf(use)
  if (record === undefined && allOrdered(given, use)) return undefined
  const memory = given.filter(isMemory)
  return { memory, record, isTracked: beforeWork(use, memory, record) }
}

/** Called after the work was queued. Returns the record of its capture, in which `note` is noted. */
export function endWork(use: StreamImpl, work: WorkWithMemory, note?: NodeNote): CaptureRecord | undefined {
  const { memory, isTracked, record } = work
  if (isTracked) afterWork(use, memory)
  if (record !== undefined && note !== undefined) noteNode(record, use, note)
  return record
}

/** Queues work that uses memory. Returns the record of its capture. */
export function queueWith(
  use: StreamImpl,
  memory: readonly OpenMemory[],
  queue: () => void,
): CaptureRecord | undefined {
  const work = beginWork(use, memory)
  queue()
  return work && endWork(use, work)
}

/** Called before the work is queued. Is its use tracked, so that `afterWork()` must be called afterwards? */
function beforeWork(use: StreamImpl, memory: readonly OpenMemory[], record: CaptureRecord | undefined): boolean {
  retainForGraph(record, memory)
  if (allOrdered(memory, use)) return false
  enablePeerAccess(memory, use)
  return beforeTracked(use, memory, record)
}

function retainForGraph(record: CaptureRecord | undefined, memory: readonly OpenMemory[]): void {
  if (record === undefined) return
  for (const { allocation } of memory) {
    record.retained.add(allocation)
    const owner = allocation.owner?.deref()
    if (owner !== undefined) record.owners.add(owner)
  }
}

/** Is all memory among these in the order of the stream, so that nothing need be done before and after? */
function allOrdered(given: readonly GivenMemory[], use: StreamImpl): boolean {
  for (let index = 0; index < given.length; index += 1) {
    const each = given[index]
    if (each !== undefined && isMemory(each) && !each.allocation.isOrderedOn(use)) return false
  }
  return true
}

/** Gives the stream's device access to all of this memory. Throws ERR_UNSUPPORTED if that is impossible. */
export function enablePeerAccess(memory: readonly OpenMemory[], use: Pick<StreamImpl, 'ordinal'>): void {
  for (const { allocation } of memory) {
    if (allocation.enablePeerAccess(use)) continue
    throw stateError(
      'ERR_UNSUPPORTED',
      `Memory of ${allocation.device} cannot be used by a stream of device ${use.ordinal}, which cannot access it: copy it with stream.copy()`,
    )
  }
}

function beforeTracked(use: StreamImpl, memory: readonly OpenMemory[], record: CaptureRecord | undefined): boolean {
  // A capture that another library or thread began has no record.
  if (record !== undefined || use.driver.streams.isCapturing(use.handle)) return false
  for (const { allocation } of memory) allocation.beforeUse(use)
  return true
}

function afterWork(use: StreamImpl, memory: readonly OpenMemory[]): void {
  for (const { allocation } of memory) allocation.afterUse(use)
}

/** The memory that one stream is about to use. */
export interface MemoryUse {
  readonly use: StreamImpl
  readonly memory: readonly OpenMemory[]
}

/** Does the same as `queueWith()`, for work that is queued on several streams at once. */
export function queueAllWith(parts: readonly MemoryUse[], queue: () => void): void {
  for (const { use, memory } of parts) retainForGraph(recordOf(use), memory)
  const others = parts.filter(({ use, memory }) => !allOrdered(memory, use))
  for (const { use, memory } of others) enablePeerAccess(memory, use)
  const running = others.filter(({ use }) => !use.driver.streams.isCapturing(use.handle))
  for (const { use, memory } of running) for (const { allocation } of memory) allocation.beforeUse(use)
  queue()
  for (const { use, memory } of running) for (const { allocation } of memory) allocation.afterUse(use)
}

export function queueCopy(
  use: StreamImpl,
  to: OpenMemory,
  from: OpenMemory,
  byteLength: number,
  name: QueuedCopy['name'] = 'copy',
): void {
  if (byteLength === 0) return
  const memory = from.allocation === to.allocation ? [to] : [to, from]
  let route = routeOf(to, from)
  const record = recordOf(use)
  let isTracked: boolean
  if (route === undefined || route === 'withinHost') isTracked = beforeWork(use, memory, record)
  else {
    retainForGraph(record, memory)
    if (areAccessible(use, memory)) route = undefined
    isTracked = beforeTracked(use, memory, record)
  }
  // No closure, since copies are the most frequent work.
  use.driver.work.queue({
    kind: 'copy',
    stream: use.handle,
    destination: to.pointer,
    source: from.pointer,
    byteLength,
    route,
    rows: undefined,
    name,
  })
  if (isTracked) afterWork(use, memory)
  if (record === undefined) return
  const isOfRows = to.allocation.isArray || from.allocation.isArray
  noteNode(record, use, isOfRows ? { ...endsOf(to, from), isOfRows } : endsOf(to, from))
}

/** The part of a captured copy that cannot be changed. */
export const endsOf = (to: OpenMemory, from: OpenMemory): CapturedCopy => ({ to: endOf(to), from: endOf(from) })

/** The end of a copy: whether its memory is of the host, and of which device it is. */
export const endOf = ({ allocation: { isOfHost, device } }: OpenMemory): CopyEnd => ({
  isOfHost,
  device: device.ordinal,
})

/** Queues copies that touch no memory of each other. */
export function queueCopies(
  use: StreamImpl,
  copies: readonly { to: OpenMemory & Length; from: OpenMemory & Length }[],
): void {
  const some = copies.filter(({ to }) => to.byteLength > 0)
  const memory = new Map(some.flatMap(({ to, from }) => [to, from]).map((each) => [each.allocation, each]))
  const batch: CopiedBytes[] = []
  // In a capture each copy is a node of its own, with a note.
  for (const { to, from } of recordOf(use) === undefined ? some : []) {
    const route = routeOf(to, from)
    if (route !== undefined && route !== 'withinHost' && !areAccessible(use, [to, from])) break
    const { pointer, byteLength } = to
    batch.push({
      destination: pointer,
      source: from.pointer,
      byteLength,
      route: route === 'withinHost' ? route : undefined,
      rows: undefined,
    })
  }
  if (batch.length === 0 || batch.length < some.length) {
    for (const { to, from } of some) queueCopy(use, to, from, to.byteLength)
  } else
    queueWith(use, [...memory.values()], () =>
      use.driver.work.queue({ kind: 'copies', stream: use.handle, copies: batch }),
    )
}

interface Length {
  readonly byteLength: number
}

/** Throws ERR_UNSUPPORTED between devices that cannot access each other's memory. */
export function queueRows(
  use: StreamImpl,
  to: OpenMemory,
  from: OpenMemory,
  rows: { readonly to: MemoryRows; readonly from: MemoryRows },
): void {
  const memory = from.allocation === to.allocation ? [to] : [to, from]
  const { driver, handle: stream } = use
  const bytes: CopiedBytes = {
    destination: to.pointer,
    source: from.pointer,
    byteLength: bytesIn(rows.to),
    route: routeOf(to, from) === 'withinHost' ? 'withinHost' : undefined,
    rows,
  }
  const record = queueWith(use, memory, () => driver.work.queue({ kind: 'copy', stream, name: 'copy', ...bytes }))
  const isOfRows = rows.to.rows * rows.to.matrices > 1 || to.allocation.isArray || from.allocation.isArray
  if (record !== undefined) noteNode(record, use, { ...endsOf(to, from), isOfRows })
}

const areAccessible = (use: StreamImpl, memory: readonly OpenMemory[]): boolean =>
  memory.every(({ allocation }) => allocation.enablePeerAccess(use))

/** The route of a copy: undefined between the host and a device, and on one device. */
function routeOf(to: OpenMemory, from: OpenMemory): CopyRoute | undefined {
  const [there, here] = [to.allocation, from.allocation]
  if (there.isOfHost && here.isOfHost) return 'withinHost'
  if (there.device === here.device || there.isOfHost || here.isOfHost) return undefined
  return { to: there.device.ordinal, from: here.device.ordinal }
}

export function queueFill(use: StreamImpl, to: OpenMemory, fill: Omit<FillWork, 'kind' | 'pointer'>): void {
  const { value, width, count, rows } = fill
  if (count === 0) return
  const memory = [to]
  const record = recordOf(use)
  const isTracked = beforeWork(use, memory, record)
  use.driver.work.queue({ kind: 'fill', stream: use.handle, pointer: to.pointer, value, width, count, rows })
  if (isTracked) afterWork(use, memory)
  if (record !== undefined) noteNode(record, use, { fills: endOf(to), isOfRows: rows !== undefined })
}
