/** Pinned memory from the driver, which streams of every context can write and JavaScript can read. */
import type { ContextHandle, Pointer } from '../../driver.js'
import { check } from '../libcuda/library.js'
import type { LibcudaParts } from '../libcuda/stream-calls.js'

const PORTABLE_AND_MAPPED = 0x3

export function allocatePinned(parts: LibcudaParts, byteLength: number, context: ContextHandle): Pointer {
  const { library, memory, contexts, relaxed } = parts
  const result = contexts.within(context, () =>
    relaxed.run(() => library.cuMemHostAlloc(memory.address, byteLength, PORTABLE_AND_MAPPED)),
  )
  check('cuMemHostAlloc', result)
  return memory.pointerAt(0) as Pointer
}
