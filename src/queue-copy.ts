/** Puts work that uses memory into a stream, and writes down that it did. */
import type { FillWidth } from './driver/memory-driver.js'
import type { OpenMemory } from './memory.js'
import type { StreamUse } from './uses.js'

export function queueCopy(use: StreamUse, to: OpenMemory, from: OpenMemory, byteLength: number): void {
  const { driver, handle } = use
  if (byteLength === 0) return
  // What is captured runs when its graph is launched: nothing is used yet.
  const runs = !driver.streamIsCapturing(handle)
  if (runs) {
    to.allocation.beforeUse(use)
    from.allocation.beforeUse(use)
  }
  driver.memory.copy(to.pointer, from.pointer, byteLength, handle)
  if (!runs) return
  to.allocation.afterUse(use)
  if (from.allocation !== to.allocation) from.allocation.afterUse(use)
}

export function queueFill(use: StreamUse, to: OpenMemory, value: number, width: FillWidth, count: number): void {
  const { driver, handle } = use
  if (count === 0) return
  const runs = !driver.streamIsCapturing(handle)
  if (runs) to.allocation.beforeUse(use)
  driver.memory.fill(to.pointer, value, width, count, handle)
  if (runs) to.allocation.afterUse(use)
}
