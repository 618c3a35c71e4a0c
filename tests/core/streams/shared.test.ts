/**
 * Tokens of another thread, on a driver that says it is CUDA: each is held against its registration in native memory, and a made-up
 * one never reaches the driver, which would crash on some.
 */

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Device, DeviceBuffer, Event, ExternalStream, Stream } from 'cuda-streams'
import { driverOf } from '../../../src/core/device.js'
import { Registrations, RegistrationWatch } from '../../../src/cuda/cuda-sharing.js'
import type { Driver } from '../../../src/foundation/driver/driver.js'
import type { EventDriver } from '../../../src/foundation/driver/event-driver.js'
import type { SharingDriver } from '../../../src/foundation/driver/sharing-driver.js'
import type { StreamDriver } from '../../../src/foundation/driver/stream-driver.js'
import type { Interceptor } from '../../../src/foundation/driver/wrappable-driver.js'

const skip = process.platform === 'win32' ? 'the C library is found differently here' : false

class FakeCuda implements Interceptor {
  constructor(readonly next: Driver) {}

  readonly asked: string[] = []
  readonly #registrations = new Registrations()

  readonly name = 'cuda'

  readonly sharing: Partial<SharingDriver> = {
    register: (words) => ({ registration: this.#registrations.add(words) }),
    unregister: (registration) => this.#registrations.remove(registration),
    readRegistration: (registration, key) => this.#registrations.read(registration, key),
    watchRegistration: (registration, key) => new RegistrationWatch(registration, key),
  }

  readonly streams: Partial<StreamDriver> = {
    wrap: (cudaHandle, near) => {
      this.asked.push('streamWrap')
      return this.next.streams.wrap(cudaHandle, near)
    },
  }

  readonly events: Partial<EventDriver> = {
    wrap: (event) => {
      this.asked.push('eventWrap')
      return this.next.events.wrap(event)
    },
  }
}

/** As if another thread of this process had shared it. */
const fromElsewhere = <T extends object>(token: T): T => ({ ...token, thread: 1_000_000 })

describe('what another thread shared', { skip }, () => {
  process.env['CUDA_STREAMS_DRIVER'] = 'sim'
  process.env['CUDA_STREAMS_SIM_DEVICES'] = '2'
  const device = Device.get(0)
  const { wrapper } = driverOf(device).wrap((inner: Driver) => new FakeCuda(inner))
  const stream = new Stream()
  const event = device.createEvent({ blockingSync: true })
  const timed = device.createEvent({ timing: true })
  const buffer = device.alloc(64, { stream })
  const slice = buffer.subarray(16, 24)
  const tokens = {
    stream: fromElsewhere(stream.share()),
    event: fromElsewhere(event.share()),
    timed: fromElsewhere(timed.share()),
    buffer: fromElsewhere(buffer.share()),
    slice: fromElsewhere(slice.share()),
  }

  it('is what it was', () => {
    const taken = Stream.from(tokens.stream)
    assert.ok(taken instanceof ExternalStream && taken.equals(stream))
    for (const [token, one] of [
      [tokens.event, event],
      [tokens.timed, timed],
    ] as const) {
      const theirs = Event.from(token)
      assert.ok(theirs !== one && theirs.equals(one))
      assert.deepEqual([theirs.timing, theirs.blockingSync], [one.timing, one.blockingSync])
    }
    for (const [token, one] of [
      [tokens.buffer, buffer],
      [tokens.slice, slice],
    ] as const) {
      const theirs = DeviceBuffer.from(token)
      assert.ok(theirs !== one)
      assert.deepEqual([theirs.pointer, theirs.byteLength], [one.pointer, one.byteLength])
    }
    const defaultStream = fromElsewhere(device.defaultStream.share())
    assert.equal(Stream.from(defaultStream), device.defaultStream)
  })

  it('may be any part of a buffer that was shared, and nothing beyond it', () => {
    const { pointer } = tokens.buffer
    const part = (byteOffset: number, byteLength: number) => ({
      ...tokens.slice,
      pointer: pointer + BigInt(byteOffset),
      byteOffset,
      byteLength,
    })
    for (const [byteOffset, byteLength] of [
      [0, 64],
      [63, 1],
      [64, 0],
    ] as const) {
      assert.equal(DeviceBuffer.from(part(byteOffset, byteLength)).byteLength, byteLength)
    }
    for (const [byteOffset, byteLength] of [
      [0, 65],
      [1, 64],
      [65, 0],
      [64, 1],
      [-1, 2],
      [0.5, 1],
      [0, 2 ** 40],
      [2 ** 60, 1],
    ] as const) {
      const token = Number.isInteger(byteOffset) ? part(byteOffset, byteLength) : { ...tokens.slice, byteOffset }
      assert.throws(() => DeviceBuffer.from(token), { name: 'TypeError', code: 'ERR_INVALID_ARG_VALUE' })
    }
  })

  it('made up, is refused without asking the driver', () => {
    const { handle } = tokens.stream
    const forged: readonly (readonly [what: string, from: () => unknown])[] = [
      ['a stream elsewhere', () => Stream.from({ ...tokens.stream, handle: 0x12340n })],
      ['a stream beside one', () => new ExternalStream({ ...tokens.stream, handle: handle + 8n })],
      ['a default stream', () => Stream.from({ ...tokens.stream, handle: 0n })],
      ['a handle that is a number', () => Stream.from({ ...tokens.stream, handle: Number(handle) as never })],
      ['no handle', () => Stream.from({ ...tokens.stream, handle: undefined as never })],
      ['an event as a stream', () => Stream.from({ ...tokens.event, cudaStreams: 'stream', id: 1n })],
      ['the handle of an event', () => Stream.from({ ...tokens.stream, handle: tokens.event.handle })],
      ['another device', () => Stream.from({ ...tokens.stream, device: 1 })],
      ['an event elsewhere', () => Event.from({ ...tokens.event, handle: 0x10n })],
      ['an event beside one', () => Event.from({ ...tokens.event, handle: tokens.event.handle + 8n })],
      ['the handle of a stream', () => Event.from({ ...tokens.event, handle })],
      ['a stream as an event', () => Event.from({ ...tokens.event, ...tokens.stream, cudaStreams: 'event' })],
      ['timing', () => Event.from({ ...tokens.event, timing: true })],
      ['what is no flag', () => Event.from({ ...tokens.event, blockingSync: 1 as never })],
      ['readiness that is nonsense', () => DeviceBuffer.from({ ...tokens.buffer, ready: 0x10n })],
      ['readiness that is a stream', () => DeviceBuffer.from({ ...tokens.buffer, ready: handle })],
      ['readiness at once', () => DeviceBuffer.from({ ...tokens.buffer, ready: 0n })],
      ['another address', () => DeviceBuffer.from({ ...tokens.buffer, pointer: tokens.buffer.pointer + 1n })],
      ['an address that is none', () => DeviceBuffer.from({ ...tokens.buffer, pointer: 2n ** 64n })],
      ['a stream as a buffer', () => DeviceBuffer.from({ ...tokens.buffer, ...tokens.stream, cudaStreams: 'buffer' })],
    ]
    wrapper.asked.length = 0
    for (const [what, from] of forged) {
      assert.throws(from, { name: 'TypeError', code: 'ERR_INVALID_ARG_VALUE', message: /as it is/ }, what)
    }
    assert.deepEqual(wrapper.asked, [])
  })

  it('with a registration that cannot be read, or another key, is closed', () => {
    for (const registration of [0, 8, 12, 2 ** 46, 2 ** 47, Number.MAX_SAFE_INTEGER, tokens.stream.registration + 8]) {
      assert.throws(
        () => Stream.from({ ...tokens.stream, registration }),
        { code: 'ERR_CLOSED' },
        `registration ${registration}`,
      )
    }
    for (const key of [0, 1, tokens.stream.key + 1, tokens.event.key]) {
      assert.throws(() => Stream.from({ ...tokens.stream, key }), { code: 'ERR_CLOSED' }, `key ${key}`)
    }
  })

  it('and is closed, is refused', () => {
    const closing = device.createEvent()
    const token = fromElsewhere(closing.share())
    closing.close()
    assert.throws(() => Event.from(token), { code: 'ERR_CLOSED' })
    // Its registration stands for something else now.
    const next = device.alloc(8, { stream })
    assert.equal(next.share().registration, token.registration)
    assert.throws(() => Event.from(token), { code: 'ERR_CLOSED' })
  })
})
