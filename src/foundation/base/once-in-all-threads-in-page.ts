/** Takes the place of once-in-all-threads.ts in a page: each of its workers has a library of its own. */
import { newSharedMemory } from './shared-memory.js'

export function onceInAllThreads(_name: string): () => boolean {
  let isFirst = true
  return () => {
    const was = isFirst
    isFirst = false
    return was
  }
}

export const memoryOfAllThreads = (_name: string, byteLength: number): ArrayBufferLike => newSharedMemory(byteLength)
