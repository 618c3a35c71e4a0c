/**
 * Modules and events that a graph kept, and that have no stream to be destroyed in the order of: they are let go of when the
 * graph's launches are over. No call waits for that, so later calls look.
 */
import type { NativeResource } from '../base/finalization.js'
import { AfterWork } from '../driver/after-work.js'
import type { Driver, OwnEvent } from '../driver/driver.js'
import { letGoOf } from '../streams/capture-record.js'

type Left = AfterWork<readonly NativeResource[]>

const left = new WeakMap<Driver, Left>()

/** Lets go of them when the event's latest record is done, and takes the event over. */
export function letGoAfter(driver: Driver, resources: readonly NativeResource[], after: OwnEvent): void {
  let all = left.get(driver)
  if (all === undefined) {
    all = new AfterWork(driver, (some) => letGoOf([...some], (resource) => resource.letGo()))
    left.set(driver, all)
  }
  all.add(resources, [after])
}

/** Lets go of those whose work is done by now. */
export function sweepLeft(driver: Driver): void {
  const all = left.get(driver)
  if (all?.pending === true) all.sweep()
}
