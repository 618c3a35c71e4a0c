/** Tells other libraries that the GPU is done with what they lent. */
import { LookAgain } from '../../base/look-again.js'
import { AfterWork } from '../../driver/after-work.js'
import type { Driver, OwnEvent } from '../../driver/driver.js'

/** By the drivers of those that are not told yet. */
const waiting = new Map<Driver, AfterWork<() => void>>()
const again = new LookAgain(look)

/**
 * Calls the function once the latest records of these events, which it takes over, are done, and no host function is pending:
 * the other library may wait for the device. Where the process ends before, it is not called.
 */
export function whenDone(driver: Driver, after: readonly OwnEvent[], tell: () => void): void {
  const work = waiting.get(driver) ?? new AfterWork<() => void>(driver, (tellOne) => tellOne())
  waiting.set(driver, work)
  work.add(tell, after)
  look()
}

function look(): void {
  try {
    for (const [driver, work] of waiting) {
      work.sweep(() => !driver.libraries.hostFunctionsPending())
      // One that was told may have lent something anew.
      if (!work.pending && waiting.get(driver) === work) waiting.delete(driver)
    }
  } finally {
    if (waiting.size > 0) again.later()
  }
}
