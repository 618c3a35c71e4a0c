/** Puts work that uses memory into a stream, and writes down that it did. */
import { PinnedAllocation } from './allocations.js'
import type { FillWidth, TwoDevices } from './driver/memory-driver.js'
import type { OpenMemory } from './memory.js'
import type { OpenStream } from './stream.js'

/** Queues something that uses memory. What is captured runs when its graph is launched: nothing is used yet. */
export function queueWith(use: OpenStream, memory: readonly OpenMemory[], queue: () => void): void {
  const tracked = !allOwned(memory, use.serial) && !use.driver.streamIsCapturing(use.handle)
  if (tracked) for (const { allocation } of memory) allocation.beforeUse(use)
  queue()
  if (tracked) for (const { allocation } of memory) allocation.afterUse(use)
}

/** Is all of it freed in the order of this stream, so that its uses need not be written down? */
export function allOwned(memory: readonly OpenMemory[], serial: number): boolean {
  for (const { allocation } of memory) if (!allocation.ownedBy(serial)) return false
  return true
}

/** What one stream is about to do with memory. */
export interface MemoryUse {
  readonly use: OpenStream
  readonly memory: readonly OpenMemory[]
}

/** As `queueWith`, for work that is put into several streams at once. */
export function queueAllWith(parts: readonly MemoryUse[], queue: () => void): void {
  const running = parts.filter(
    ({ use, memory }) => !allOwned(memory, use.serial) && !use.driver.streamIsCapturing(use.handle),
  )
  for (const { use, memory } of running) for (const { allocation } of memory) allocation.beforeUse(use)
  queue()
  for (const { use, memory } of running) for (const { allocation } of memory) allocation.afterUse(use)
}

export function queueCopy(use: OpenStream, to: OpenMemory, from: OpenMemory, byteLength: number): void {
  if (byteLength === 0) return
  const memory = from.allocation === to.allocation ? [to] : [to, from]
  const { driver, handle } = use
  const between = betweenDevices(to, from)
  queueWith(use, memory, () => driver.memory.copy(to.pointer, from.pointer, byteLength, handle, between))
}

/** Undefined where one is memory of the host, or both are on one device. */
function betweenDevices(to: OpenMemory, from: OpenMemory): TwoDevices | undefined {
  const [there, here] = [to.allocation, from.allocation]
  if (there.device === here.device || there instanceof PinnedAllocation || here instanceof PinnedAllocation) {
    return undefined
  }
  return { to: there.device.ordinal, from: here.device.ordinal }
}

export function queueFill(use: OpenStream, to: OpenMemory, value: number, width: FillWidth, count: number): void {
  if (count === 0) return
  queueWith(use, [to], () => use.driver.memory.fill(to.pointer, value, width, count, use.handle))
}
