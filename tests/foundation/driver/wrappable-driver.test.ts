/** Interceptors are put in front of a backend, and taken out again, in any order, while streams live. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Device, Stream } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { driverOf } from '../../../src/core/device.js'
import type { Driver } from '../../../src/foundation/driver/driver.js'
import type { EventDriver } from '../../../src/foundation/driver/event-driver.js'
import { backendOf, type Interceptor, type WrappableDriver } from '../../../src/foundation/driver/wrappable-driver.js'

class Witness implements Interceptor {
  constructor(
    private readonly next: Driver,
    private readonly label: string,
    private readonly seen: string[],
  ) {}

  readonly events: Partial<EventDriver> = {
    record: (event, stream, external) => {
      this.seen.push(this.label)
      this.next.events.record(event, stream, external)
    },
  }
}

function openFront(): { front: WrappableDriver; device: Device; stream: Stream } {
  const [device] = simulate().devices
  assert.ok(device)
  const front = driverOf(device)
  return { front, device, stream: new Stream({ device }) }
}

test('interceptors see the calls of streams that were there before, the last one put in first', () => {
  const { front, stream } = openFront()
  const seen: string[] = []
  stream.record()
  const first = front.wrap((inner) => new Witness(inner, 'first', seen))
  const second = front.wrap((inner) => new Witness(inner, 'second', seen))
  stream.record()
  assert.deepEqual(seen.splice(0), ['second', 'first'])
  first.unwrap()
  stream.record()
  assert.deepEqual(seen.splice(0), ['second'])
  first.unwrap()
  second.unwrap()
  stream.record()
  assert.deepEqual(seen, [])
  assert.equal(stream.query(), true)
})

test('the backend is found behind all interceptors', () => {
  const { front, device } = openFront()
  const { backend } = front
  front.wrap((inner) => new Witness(inner, 'one', []))
  assert.equal(backendOf(driverOf(device)), backend)
  assert.equal(device.driver, 'sim')
})

test('every method of each part of the driver is passed on', () => {
  const { front } = openFront()
  front.wrap(() => ({}))
  const methods = (of: object): string[] =>
    Object.getOwnPropertyNames(Object.getPrototypeOf(of)).filter((name) => typeof Reflect.get(of, name) === 'function')
  const { backend } = front
  const parts = Object.entries(backend).filter(([name]) => name in front && name !== 'name')
  assert.equal(parts.length, 11)
  for (const [name, to] of parts) {
    const passing: unknown = Reflect.get(front, name)
    assert.ok(typeof passing === 'object' && passing !== null)
    const missing = methods(to).filter((method) => method !== 'constructor' && !(method in passing))
    assert.deepEqual(missing, [])
  }
  assert.equal(front.name, backend.name)
})
