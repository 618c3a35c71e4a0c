/** Tells other libraries that the GPU is done with what they lent. */
import type { Driver, OwnEvent } from '../../driver/driver.js'

interface Lent {
  readonly driver: Driver
  readonly after: readonly OwnEvent[]
  readonly tell: () => void
}

/** Milliseconds between two looks. */
const LOOK_AGAIN_AFTER = 20

let waiting: Lent[] = []
let lookAgain: NodeJS.Timeout | undefined

/**
 * Calls the function once the latest records of these events, which it takes over, are done, and no host function is pending:
 * the other library may wait for the device. Where the process ends before, it is not called.
 */
export function whenDone(driver: Driver, after: readonly OwnEvent[], tell: () => void): void {
  waiting.push({ driver, after, tell })
  look()
}

function look(): void {
  const looked = waiting
  waiting = []
  for (const lent of looked) {
    if (isDone(lent)) {
      for (const { context, event } of lent.after) lent.driver.eventRecycle(context, event)
      lent.tell()
    } else waiting.push(lent)
  }
  if (waiting.length === 0 || lookAgain !== undefined) return
  lookAgain = setTimeout(() => {
    lookAgain = undefined
    look()
  }, LOOK_AGAIN_AFTER).unref()
}

const isDone = ({ driver, after }: Lent): boolean =>
  !driver.libraries.hostFunctionsPending && after.every(({ event }) => driver.memory.isDone(event))
