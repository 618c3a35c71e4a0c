/** What one thread of the process does for all of them. */
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads'

/**
 * Returns a function that returns true once: to one of all the threads of the process. Call this when a module is loaded, so that
 * threads that are started later inherit the flag.
 */
export function onceInAllThreads(name: string): () => boolean {
  const inherited = getEnvironmentData(name)
  const flag = inherited instanceof SharedArrayBuffer ? inherited : new SharedArrayBuffer(4)
  if (flag !== inherited) setEnvironmentData(name, flag)
  return () => Atomics.exchange(new Int32Array(flag), 0, 1) === 0
}
