/** Makes a host function of a callback: it runs in the async context in which it was queued, and never throws. */
import { AsyncResource } from '../../foundation/base/node-modules.js'
import { throwUncaught } from '../../foundation/base/uncaught.js'
import type { HostFunction } from '../../foundation/driver/queued-work.js'

let running = 0

export const isInsideHostFunction = (): boolean => running > 0

function guarded(callback: (status: number) => void, status: number): void {
  running += 1
  try {
    callback(status)
  } catch (error) {
    // An uncaught exception, since a caller that happens to wait for the stream did not cause the error.
    throwUncaught(error)
  } finally {
    running -= 1
  }
}

/** `isInternal`: the library queues it for itself. */
export function hostFunction(
  callback: (status: number) => void,
  runsAfterFault: boolean,
  isInternal = false,
): HostFunction {
  const context = new AsyncResource('CudaHostFunction')
  return {
    runsAfterFault,
    internal: isInternal,
    run: (status) => context.runInAsyncScope(guarded, undefined, callback, status),
  }
}
