/** Puts work that uses memory into a stream, and writes down that it did. */
import type { FillWidth } from './driver/memory-driver.js'
import type { OpenMemory } from './memory.js'
import type { StreamUse } from './uses.js'

/** Queues something that uses memory. What is captured runs when its graph is launched: nothing is used yet. */
export function queueWith(use: StreamUse, memory: readonly OpenMemory[], queue: () => void): void {
  const runs = memory.length > 0 && !use.driver.streamIsCapturing(use.handle)
  if (runs) for (const { allocation } of memory) allocation.beforeUse(use)
  queue()
  if (runs) for (const { allocation } of memory) allocation.afterUse(use)
}

/** What one stream is about to do with memory. */
export interface MemoryUse {
  readonly use: StreamUse
  readonly memory: readonly OpenMemory[]
}

/** As `queueWith`, for work that is put into several streams at once. */
export function queueAllWith(parts: readonly MemoryUse[], queue: () => void): void {
  const running = parts.filter(({ use, memory }) => memory.length > 0 && !use.driver.streamIsCapturing(use.handle))
  for (const { use, memory } of running) for (const { allocation } of memory) allocation.beforeUse(use)
  queue()
  for (const { use, memory } of running) for (const { allocation } of memory) allocation.afterUse(use)
}

export function queueCopy(use: StreamUse, to: OpenMemory, from: OpenMemory, byteLength: number): void {
  if (byteLength === 0) return
  const memory = from.allocation === to.allocation ? [to] : [to, from]
  queueWith(use, memory, () => use.driver.memory.copy(to.pointer, from.pointer, byteLength, use.handle))
}

export function queueFill(use: StreamUse, to: OpenMemory, value: number, width: FillWidth, count: number): void {
  if (count === 0) return
  queueWith(use, [to], () => use.driver.memory.fill(to.pointer, value, width, count, use.handle))
}
