/** Wrappers are put in between the nouns and a backend, and taken out again, in any order, while streams live. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Device, Stream } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { driverOf } from '../../src/device.js'
import type { Driver, EventHandle, ExternalFlag, StreamHandle } from '../../src/driver/driver.js'
import { DriverWrapper } from '../../src/driver/driver-wrapper.js'
import { backendOf, WrappableDriver } from '../../src/driver/wrappable-driver.js'

class Witness extends DriverWrapper {
  readonly #name: string
  readonly #seen: string[]
  constructor(inner: Driver, name: string, seen: string[]) {
    super(inner)
    this.#name = name
    this.#seen = seen
  }
  override eventRecord(event: EventHandle, stream: StreamHandle, external: ExternalFlag): void {
    this.#seen.push(this.#name)
    super.eventRecord(event, stream, external)
  }
}

function openFront(): { front: WrappableDriver; device: Device; stream: Stream } {
  const [device] = simulate().devices
  assert.ok(device)
  const front = driverOf(device)
  assert.ok(front instanceof WrappableDriver)
  return { front, device, stream: new Stream({ device }) }
}

test('wrappers see the calls of streams that were there before, the last one put in first', () => {
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

test('the backend is found behind all wrappers', () => {
  const { front, device } = openFront()
  const { backend } = front
  front.wrap((inner) => new Witness(inner, 'one', []))
  assert.equal(backendOf(driverOf(device)), backend)
  assert.equal(device.driver, 'sim')
})

test('every verb of the wall is passed on', () => {
  const { front } = openFront()
  const verbs = (of: object): string[] =>
    Object.getOwnPropertyNames(Object.getPrototypeOf(of)).filter((name) => name !== 'constructor')
  const own = new Set(verbs(new DriverWrapper(front.backend)))
  const beyond = ['close', 'abandon', 'foreignStreamDestroy', 'enqueue', 'peek', 'counts']
  assert.deepEqual(
    verbs(front.backend).filter((name) => !own.has(name) && !beyond.includes(name)),
    [],
  )
})
