/** What an instance of a graph kept: given back when its launches are over, which no call waits for. */
import type { NativeResource } from '../base/finalization.js'
import type { Driver, OwnEvent } from '../driver/driver.js'
import { unlessLost } from '../memory/allocation-stream.js'
import { Allocation } from '../memory/allocations.js'
import { recordedEvent } from '../memory/stream-uses.js'
import type { Keeps } from '../streams/capture-record.js'
import type { StreamCore } from '../streams/stream-core.js'

interface Left {
  readonly resources: readonly NativeResource[]
  readonly after: OwnEvent
}

/** Modules and events, which have no order of their own. */
const left = new WeakMap<Driver, Left[]>()

/** Lets go of all that is kept, when the work is done that the stream holds now. */
export function letGoBehind(keeps: Keeps, last: StreamCore): void {
  const others: NativeResource[] = []
  keeps.letGo((resource) => {
    if (resource instanceof Allocation) {
      unlessLost(() => resource.usedOn(last))
      resource.letGo()
    } else others.push(resource)
  })
  if (others.length === 0) return
  const { driver, handle } = last
  try {
    const after = recordedEvent(last, (event) => driver.eventRecordOwn(event, handle))
    leftOf(driver).push({ resources: others, after })
  } catch (error) {
    // In a lost context no work is under way.
    for (const resource of others) unlessLost(() => resource.letGo())
    unlessLost(() => {
      throw error
    })
  }
  sweepLeft(driver)
}

/** Lets go of those whose work is done by now. */
export function sweepLeft(driver: Driver): void {
  const all = left.get(driver)
  if (all === undefined) return
  for (const each of all.splice(0)) {
    const { resources, after } = each
    if (!driver.memory.isDone(after.event)) {
      all.push(each)
      continue
    }
    driver.eventRecycle(after.context, after.event)
    for (const resource of resources) resource.letGo()
  }
}

function leftOf(driver: Driver): Left[] {
  let all = left.get(driver)
  if (all === undefined) {
    all = []
    left.set(driver, all)
  }
  return all
}
