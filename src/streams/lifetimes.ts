/**
 * How long a stream or event of this library lives, for those that wrap its handle: CUDA crashes for a handle that was destroyed, or has
 * made something else in its place by then.
 */
import type { Driver, EventHandle, StreamHandle } from '../driver/driver.js'

/** What a wrapper knows of what it wraps: of an object of another thread only whether it was closed there. */
export interface WrappedLifetime {
  readonly isOver: boolean
}

export class Lifetime implements WrappedLifetime {
  isOver = false
  /** Calls in which code of the program has the handle, by the object itself or by a wrapper. */
  users = 0
  /** Ends what was closed in one of them. */
  whenUnused: (() => void) | undefined

  release(): void {
    this.users -= 1
    if (this.users > 0) return
    const end = this.whenUnused
    this.whenUnused = undefined
    end?.()
  }
}

/** Of what is open, and has had its handle read. */
const lifetimes = new WeakMap<Driver, Map<StreamHandle | EventHandle, Lifetime>>()

/** The handle is read from now on, and may be wrapped. */
export function lifetimeBegins(driver: Driver, handle: StreamHandle | EventHandle): Lifetime {
  let ofDriver = lifetimes.get(driver)
  if (ofDriver === undefined) {
    ofDriver = new Map()
    lifetimes.set(driver, ofDriver)
  }
  const lifetime = new Lifetime()
  ofDriver.set(handle, lifetime)
  return lifetime
}

/** Of what this library made and has open with this handle; undefined where another library made it, or another thread. */
export function lifetimeOf(driver: Driver, handle: StreamHandle | EventHandle): Lifetime | undefined {
  return lifetimes.get(driver)?.get(handle)
}

export function lifetimeEnds(driver: Driver, handle: StreamHandle | EventHandle, lifetime: Lifetime): void {
  lifetime.isOver = true
  const ofDriver = lifetimes.get(driver)
  if (ofDriver?.get(handle) === lifetime) ofDriver.delete(handle)
}
