/** Errors that no caller can catch: those of host functions, and of host implementations of kernels. */

import { Ambient } from './ambient.js'
import { atNextTick } from './event-loop.js'

const collectors = new Ambient<(error: unknown) => void>()

/** Makes the error an uncaught exception of the process, unless a collector of this async context takes it. */
export function throwUncaught(error: unknown): void {
  const collect = collectors.get()
  if (collect !== undefined) collect(error)
  else {
    atNextTick(() => {
      throw error
    })
  }
}

/** Runs a function of the program whose errors become uncaught exceptions. */
export function surfacing(work: () => void): void {
  try {
    work()
  } catch (error) {
    throwUncaught(error)
  }
}

/** Runs the function. Uncaught errors in it, and in all that it starts, go to `collect`. */
export const collectingUncaught = <R>(collect: (error: unknown) => void, fn: () => R): R => collectors.run(collect, fn)
