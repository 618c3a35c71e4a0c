/** Turns a user's callback into a host function: in the async context it was queued in, and never throwing. */
import { newAsyncScope } from '#platform'
import { throwUncaught } from '../base/uncaught.js'
import type { HostFunction } from '../driver/driver.js'

let running = 0

export const isInsideHostFunction = (): boolean => running > 0

function guarded(callback: (status: number) => void, status: number): void {
  running += 1
  try {
    callback(status)
  } catch (error) {
    // A caller that happens to wait for the stream did not cause this: it is an uncaught exception instead.
    throwUncaught(error)
  } finally {
    running -= 1
  }
}

export function hostFunction(callback: (status: number) => void, runsAfterFault: boolean, own = false): HostFunction {
  const context = newAsyncScope('CudaHostFunction')
  return { runsAfterFault, own, run: (status) => context.runInAsyncScope(guarded, undefined, callback, status) }
}
