/** Which events a driver may give out as new. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { driverOf } from '../../../src/core/device.js'
import { findInCapture } from '../../../src/core/streams/capture-record.js'
import { EventImpl, PLAIN } from '../../../src/core/streams/event-impl.js'
import { StreamImpl } from '../../../src/core/streams/stream-impl.js'
import type { Driver } from '../../../src/foundation/driver/driver.js'
import { ExternalFlag } from '../../../src/foundation/driver/driver-constants.js'
import type { EventDriver } from '../../../src/foundation/driver/event-driver.js'
import type { EventHandle } from '../../../src/foundation/driver/handle-types.js'
import type { Interceptor } from '../../../src/foundation/driver/wrappable-driver.js'
import { simWorkbench } from '../../helpers/workbench.js'

class Recycled implements Interceptor {
  constructor(readonly next: Driver) {}

  readonly new: (boolean | undefined)[] = []
  refuses = false

  readonly events: Partial<EventDriver> = {
    record: (event, stream, external) => {
      if (this.refuses) throw new Error('refused')
      this.next.events.record(event, stream, external)
    },
    recycle: (context, event, flags, neverRecorded) => {
      this.new.push(neverRecorded)
      this.next.events.recycle(context, event, flags, neverRecorded)
    },
  }
}

test('an event is new again only where it was made new, and nothing tried to record it', () => {
  const { device } = simWorkbench()
  const front = driverOf(device)
  const { wrapper: driver } = front.wrap((inner) => new Recycled(inner))
  const stream = StreamImpl.make(device)
  const events = {
    neverRecorded: EventImpl.make(device),
    recorded: EventImpl.make(device),
    refused: EventImpl.make(device),
    timed: EventImpl.make(device, { timing: true }),
    // Its handle may be one with an old record.
    madeToBeRecorded: new EventImpl(device, stream.context, PLAIN, 'recordedNext'),
  }
  stream.recordIn(events.recorded, ExternalFlag.NONE)
  driver.refuses = true
  assert.throws(() => stream.recordIn(events.refused, ExternalFlag.NONE))
  for (const event of Object.values(events)) event.close()
  assert.deepEqual(driver.new, [true, false, false, true, false])

  const shown = EventImpl.make(device)
  shown.escape()
  shown.close()
  EventImpl.make(device, { blockingSync: true }).close()
  assert.equal(driver.new.length, 5, 'destroyed')
})

test('a destroyed event is in no capture any more: its handle may become that of another one', () => {
  const bench = simWorkbench()
  const driver = driverOf(bench.device)
  using stream = bench.stream()
  stream.beginCapture()
  const event = stream.record()
  const awaited = new Set([{ handle: Number(event.handle) as EventHandle }])
  assert.notEqual(findInCapture(driver, awaited), undefined)
  event.close()
  assert.equal(findInCapture(driver, awaited), undefined)
  stream.endCapture().close()
})
