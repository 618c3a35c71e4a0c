/** Queues work that uses memory, and tracks that use. */

import { stateError } from '../base/errors.js'
import {
  bytesIn,
  type CopiedBytes,
  type CopyRoute,
  type FillWidth,
  type MemoryRows,
  type QueuedCopy,
} from '../driver/driver.js'
import {
  type CapturedCopy,
  type CaptureRecord,
  type CopyEnd,
  type NodeNote,
  noteNode,
  recordOf,
} from '../streams/capture-record.js'
import type { StreamCore } from '../streams/stream-core.js'
import type { OpenMemory } from './buffer-core.js'

/** Makes room in several streams, as `makeRoom` does in one. */
export function makeRoomInAll(streams: ReadonlySet<StreamCore>, entries: number): void {
  for (;;) {
    for (const stream of streams) stream.makeRoom(entries)
    // The host functions that ran while one had no room may have filled or closed another.
    for (const stream of streams) stream.checkOpen()
    if ([...streams].every(({ driver, handle }) => driver.streamHasRoom(handle, entries))) return
  }
}

/** Work that is being queued, whose memory is tracked or kept by a graph. */
export interface WorkWithMemory {
  readonly memory: readonly OpenMemory[]
  readonly isTracked: boolean
  /** Of the capture that the work goes into. */
  readonly record: CaptureRecord | undefined
}

/**
 * To be called before work is queued that uses the memory among these. Captured work runs when its graph is launched, so
 * nothing is used yet; the graph keeps the memory. Returns what to call `endWork` with; undefined where it need not be.
 * @throws ERR_UNSUPPORTED where the stream's device cannot reach the memory of another
 */
export function beginWork(
  use: StreamCore,
  given: readonly (OpenMemory | number | bigint)[],
): WorkWithMemory | undefined {
  const record = recordOf(use)
  if (record === undefined && allOwned(given, use)) return undefined
  const memory = given.filter((each) => typeof each === 'object')
  return { memory, record, isTracked: beforeWork(use, memory, record) }
}

/** To be called behind it. Returns the record of the capture that the work has gone into, where `note` is noted of it. */
export function endWork(use: StreamCore, work: WorkWithMemory, note?: NodeNote): CaptureRecord | undefined {
  const { memory, isTracked, record } = work
  if (isTracked) afterWork(use, memory)
  if (record !== undefined && note !== undefined) noteNode(record, use, note)
  return record
}

/** Queues work that uses memory. Returns the record of the capture that it has gone into. */
export function queueWith(
  use: StreamCore,
  memory: readonly OpenMemory[],
  queue: () => void,
): CaptureRecord | undefined {
  const work = beginWork(use, memory)
  queue()
  return work && endWork(use, work)
}

/** To be called before the work is queued. Is its use tracked, so that `afterWork` must be called behind it? */
function beforeWork(use: StreamCore, memory: readonly OpenMemory[], record: CaptureRecord | undefined): boolean {
  keepForGraph(record, memory)
  if (allOwned(memory, use)) return false
  admitAll(memory, use)
  return beforeTracked(use, memory, record)
}

function keepForGraph(record: CaptureRecord | undefined, memory: readonly OpenMemory[]): void {
  if (record === undefined) return
  for (const { allocation } of memory) {
    record.keeps.add(allocation)
    const owner = allocation.owner?.deref()
    if (owner !== undefined) record.owners.add(owner)
  }
}

/** Is all memory among these the stream's own, so that nothing need be done before and after? */
function allOwned(given: readonly (OpenMemory | number | bigint)[], use: StreamCore): boolean {
  for (let index = 0; index < given.length; index += 1) {
    const each = given[index]
    if (typeof each === 'object' && !each.allocation.ownedBy(use)) return false
  }
  return true
}

/** Lets a device reach all of this memory. */
export function admitAll(memory: readonly OpenMemory[], use: Pick<StreamCore, 'ordinal'>): void {
  for (const { allocation } of memory) {
    if (allocation.admit(use)) continue
    throw stateError(
      'ERR_UNSUPPORTED',
      `Memory of ${allocation.device} cannot be used by a stream of device ${use.ordinal}, which cannot reach it; stream.copy() brings it over`,
    )
  }
}

function beforeTracked(use: StreamCore, memory: readonly OpenMemory[], record: CaptureRecord | undefined): boolean {
  // A capture that another library or thread began has no record.
  if (record !== undefined || use.driver.streamIsCapturing(use.handle)) return false
  for (const { allocation } of memory) allocation.beforeUse(use)
  return true
}

function afterWork(use: StreamCore, memory: readonly OpenMemory[]): void {
  for (const { allocation } of memory) allocation.afterUse(use)
}

/** The memory that one stream is about to use. */
export interface MemoryUse {
  readonly use: StreamCore
  readonly memory: readonly OpenMemory[]
}

/** As `queueWith`, for work that is put into several streams at once. */
export function queueAllWith(parts: readonly MemoryUse[], queue: () => void): void {
  for (const { use, memory } of parts) keepForGraph(recordOf(use), memory)
  const others = parts.filter(({ use, memory }) => !allOwned(memory, use))
  for (const { use, memory } of others) admitAll(memory, use)
  const running = others.filter(({ use }) => !use.driver.streamIsCapturing(use.handle))
  for (const { use, memory } of running) for (const { allocation } of memory) allocation.beforeUse(use)
  queue()
  for (const { use, memory } of running) for (const { allocation } of memory) allocation.afterUse(use)
}

export function queueCopy(
  use: StreamCore,
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
    keepForGraph(record, memory)
    if (areReached(use, memory)) route = undefined
    isTracked = beforeTracked(use, memory, record)
  }
  // No closure: of all work, programs queue the most copies.
  use.driver.queue({
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
  if (record !== undefined) noteNode(record, use, endsOf(to, from))
}

/** What cannot be changed of a captured copy. */
export function endsOf(to: OpenMemory, from: OpenMemory): CapturedCopy {
  return { to: endOf(to), from: endOf(from) }
}

/** Where memory is, as far as a node of a graph goes. */
export const endOf = ({ allocation: { isOfHost, device } }: OpenMemory): CopyEnd => ({
  isOfHost,
  device: device.ordinal,
})

/** Copies that touch nothing of each other. */
export function queueCopies(
  use: StreamCore,
  given: readonly { to: OpenMemory & Length; from: OpenMemory & Length }[],
): void {
  const some = given.filter(({ to }) => to.byteLength > 0)
  const memory = new Map(some.flatMap(({ to, from }) => [to, from]).map((each) => [each.allocation, each]))
  const copies: CopiedBytes[] = []
  // Captured, each is a node of its own, with a note.
  for (const { to, from } of recordOf(use) === undefined ? some : []) {
    const route = routeOf(to, from)
    if (route !== undefined && route !== 'withinHost' && !areReached(use, [to, from])) break
    const { pointer, byteLength } = to
    copies.push({
      destination: pointer,
      source: from.pointer,
      byteLength,
      route: route === 'withinHost' ? route : undefined,
      rows: undefined,
    })
  }
  if (copies.length === 0 || copies.length < some.length) {
    for (const { to, from } of some) queueCopy(use, to, from, to.byteLength)
  } else queueWith(use, [...memory.values()], () => use.driver.queue({ kind: 'copies', stream: use.handle, copies }))
}

interface Length {
  readonly byteLength: number
}

/** @throws ERR_UNSUPPORTED between devices that cannot reach each other */
export function queueRows(
  use: StreamCore,
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
  const record = queueWith(use, memory, () => driver.queue({ kind: 'copy', stream, name: 'copy', ...bytes }))
  const isOfRows = rows.to.rows * rows.to.matrices > 1
  if (record !== undefined) noteNode(record, use, { ...endsOf(to, from), isOfRows })
}

const areReached = (use: StreamCore, memory: readonly OpenMemory[]): boolean =>
  memory.every(({ allocation }) => allocation.admit(use))

/** Undefined between the host and a device, and on one device. */
function routeOf(to: OpenMemory, from: OpenMemory): CopyRoute | undefined {
  const [there, here] = [to.allocation, from.allocation]
  if (there.isOfHost && here.isOfHost) return 'withinHost'
  if (there.device === here.device || there.isOfHost || here.isOfHost) return undefined
  return { to: there.device.ordinal, from: here.device.ordinal }
}

export function queueFill(use: StreamCore, to: OpenMemory, value: number, width: FillWidth, count: number): void {
  if (count === 0) return
  const memory = [to]
  const record = recordOf(use)
  const isTracked = beforeWork(use, memory, record)
  use.driver.queue({ kind: 'fill', stream: use.handle, pointer: to.pointer, value, width, count })
  if (isTracked) afterWork(use, memory)
  if (record !== undefined) noteNode(record, use, { fills: endOf(to) })
}
