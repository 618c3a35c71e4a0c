/** Pinned memory from the driver, which streams of every context can write and JavaScript can read. */
import type { ContextHandle, Pointer } from '../../driver.js'
import type { Contexts } from '../libcuda/contexts.js'
import { check, type Library } from '../libcuda/library.js'
import type { NativeMemory } from '../libcuda/native.js'
import type { RelaxedCaptures } from '../libcuda/relaxed-captures.js'

const PORTABLE_AND_MAPPED = 0x3

export interface PinnedMemoryParts {
  readonly library: Library
  /** Where out parameters go. */
  readonly memory: NativeMemory
  readonly contexts: Contexts
  readonly relaxed: RelaxedCaptures
}

export function allocatePinned(parts: PinnedMemoryParts, byteLength: number, context: ContextHandle): Pointer {
  const { library, memory, contexts, relaxed } = parts
  const result = contexts.within(context, () =>
    relaxed.run(() => library.cuMemHostAlloc(memory.address, byteLength, PORTABLE_AND_MAPPED)),
  )
  check('cuMemHostAlloc', result)
  return memory.pointerAt(0) as Pointer
}
