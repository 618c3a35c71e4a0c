/** Turns a user's callback into a host function: in the async context it was queued in, and never throwing. */
import { AsyncResource } from 'node:async_hooks'
import { throwUncaught } from '../base/uncaught.js'
import type { HostFunction } from '../driver/driver.js'

export function hostFunction(callback: (status: number) => void, runsAfterFault: boolean, own = false): HostFunction {
  const context = new AsyncResource('CudaHostFunction')
  const guarded = (status: number): void => {
    try {
      callback(status)
    } catch (error) {
      // A caller that happens to wait for the stream did not cause this: it is an uncaught exception instead.
      throwUncaught(error)
    }
  }
  return { runsAfterFault, own, run: (status) => context.runInAsyncScope(guarded, undefined, status) }
}
