/** What the threads of the process have in common, and what one of them does for all. */
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads'

/**
 * Memory that all threads of the process have, by a name. Call this when a module is loaded, so that threads that are started later inherit
 * it.
 */
export function memoryOfAllThreads(name: string, byteLength: number): ArrayBufferLike {
  const inherited = getEnvironmentData(name)
  if (inherited instanceof SharedArrayBuffer) return inherited
  const memory = new SharedArrayBuffer(byteLength)
  setEnvironmentData(name, memory)
  return memory
}

/** Returns a function that returns true once: to one of all the threads of the process. Call this when a module is loaded, too. */
export function onceInAllThreads(name: string): () => boolean {
  const flag = memoryOfAllThreads(name, 4)
  return () => Atomics.exchange(new Int32Array(flag), 0, 1) === 0
}
