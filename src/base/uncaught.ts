/** Where an error goes that no caller can catch: what a host function throws, or a kernel's twin. */
import { Ambient } from './ambient.js'

const collectors = new Ambient<(error: unknown) => void>()

/** Makes it an uncaught exception of the process, unless somebody collects those of this async context. */
export function throwUncaught(error: unknown): void {
  const collect = collectors.get()
  if (collect !== undefined) collect(error)
  else {
    process.nextTick(() => {
      throw error
    })
  }
}

/** Runs what an operation does. What throws there is a mistake of the program: an uncaught exception, as from a host function. */
export function surfacing(work: () => void): void {
  try {
    work()
  } catch (error) {
    throwUncaught(error)
  }
}

/** Runs the function; what is thrown uncaught in it, and in all that it queues, goes to `collect`. */
export function collectingUncaught<R>(collect: (error: unknown) => void, fn: () => R): R {
  return collectors.run(collect, fn)
}
