/** S4: no mistake in wrapping that can be recognised crashes the process; the tables of what is refused, and how. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CudaError, Event, ExternalStream, Stream, type StreamSource } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { onEveryBackend } from '../helpers/suite.js'
import type { Workbench } from '../helpers/workbench.js'
import { ONE_DEVICE, refused, secondDevice, stillWorks } from './expect.js'

type Rejected = readonly [given: unknown, said: RegExp]

const NOT_A_HANDLE: readonly Rejected[] = [
  ['0x1000', /'0x1000'/],
  [undefined, /undefined/],
  [null, /null/],
  [true, /true/],
  [{}, /\{\}/],
  [{ ptr: 4096 }, /ptr/],
  [[0, 4096n], /\[/],
  [() => 4096n, /function/],
  [Symbol('stream'), /Symbol\(stream\)/],
  [1.5, /1\.5/],
  [Number.NaN, /NaN/],
  [Number.POSITIVE_INFINITY, /Infinity/],
  [2 ** 53, /9007199254740992/],
]

const OUT_OF_RANGE: readonly Rejected[] = [
  [-1, /-1/],
  [-1n, /-1n/],
  [-4096n, /-4096n/],
  [2 ** 47, /140737488355328/],
  [2n ** 47n, /140737488355328n/],
  [2n ** 64n - 1n, /18446744073709551615n/],
]

/** Addresses at which nothing is mapped: the first pages, where no allocator maps, and the end of user space. */
const UNMAPPED: readonly (bigint | number)[] = [
  0x1800_0000_0000n,
  0x1800_0000_0000,
  0x1800_0000_0001n,
  0x1fff_ffff_fff8n,
  2n ** 47n - 8n,
  2n ** 47n - 1n,
]

const SMALL: readonly (bigint | number)[] = [3, 3n, 4, 7, 32, 99n, 0x123, 4095, 4096, 4097n, 65_528]

/** A value that throws whatever is asked of it. */
const hostile = new Proxy(() => {}, {
  get: (_target, key) => {
    throw new Error(`asked for ${String(key)}`)
  },
})

interface Kind {
  readonly name: string
  readonly wrap: (bench: Workbench, given: unknown) => { close(): void }
}

const KINDS: readonly Kind[] = [
  {
    name: 'stream',
    wrap: ({ device }, given) => new ExternalStream(given as StreamSource, { device }),
  },
  {
    name: 'stream by Stream.from',
    wrap: ({ device }, given) => device.run(() => Stream.from(given as StreamSource)),
  },
  {
    name: 'event',
    wrap: ({ device }, given) => Event.from(given as bigint, { device }),
  },
]

onEveryBackend('what cannot be wrapped', (bench) => {
  const { device } = bench

  test('S4 the number of another library in the place of an object: what wraps it is named', () => {
    using stream = bench.stream()
    using event = device.createEvent()
    using buffer = device.alloc(16)
    const [ofStream, ofEvent] = [/new ExternalStream\(handle\)/, /Event\.from\(handle\)/]
    const ofMemory = /DeviceBuffer\.from\(pointer, byteLength\)/
    const calls: readonly (readonly [call: (given: never) => unknown, ...says: RegExp[]])[] = [
      [(given) => stream.wait(given), ofStream, ofEvent],
      [(given) => stream.wait(event, given)],
      [(given) => stream.wait(stream, { event: given }), ofEvent],
      [(given) => stream.record(given), ofEvent],
      [(given) => event.record(given), ofStream],
      [(given) => event.wait(given), ofStream],
      [(given) => event.elapsedSince(given), ofEvent],
      [(given) => Stream.compare(given, stream), ofStream],
      [(given) => device.alloc(16, { stream: given }), ofStream],
      [(given) => stream.copy(buffer, given), ofMemory],
      [(given) => stream.fill(given, 0), ofMemory],
      [(given) => stream.upload(given, new Uint8Array(16)), ofMemory],
      [(given) => stream.waitValue(given, 1), ofMemory],
    ]
    for (const [call, ...says] of calls) {
      for (const given of [12345, 0x7f00_0000_1000n]) {
        refused(() => call(given as never), 'ERR_INVALID_ARG_TYPE', new RegExp(`not ${given}`), ...says)
      }
    }
    stillWorks(bench, stream)
  })

  for (const { name, wrap } of KINDS) {
    test(`S4 wrapping a ${name}: neither a bigint, a safe integer nor a protocol object`, () => {
      for (const [given, said] of NOT_A_HANDLE) {
        const error = refused(() => wrap(bench, given), 'ERR_INVALID_ARG_TYPE', said)
        assert.match(error.message, /handle.*bigint.*safe integer/)
      }
    })

    test(`S4 wrapping a ${name}: negative, or beyond 47 bits`, () => {
      for (const [given, said] of OUT_OF_RANGE) refused(() => wrap(bench, given), 'ERR_OUT_OF_RANGE', said, /47 bits/)
    })

    test(`S4 wrapping a ${name}: an address at which nothing is mapped`, () => {
      for (const given of UNMAPPED) {
        const error = refused(() => wrap(bench, given), 'ERR_INVALID_HANDLE', new RegExp(`0x${given.toString(16)}`))
        assert.ok(error.cause instanceof CudaError, 'the driver says why, in cause')
      }
    })

    test(`S4 wrapping a ${name}: a small number`, () => {
      for (const given of SMALL) {
        const error = refused(() => wrap(bench, given), 'ERR_INVALID_HANDLE', new RegExp(`\\b${given}\\b`))
        assert.ok(error.cause instanceof CudaError)
      }
    })
  }

  test('S4 for small numbers the message says that an id is not a handle', () => {
    for (const given of SMALL) {
      const says = [/\bid\b/, /not its handle/]
      refused(() => new ExternalStream(given, { device }), 'ERR_INVALID_HANDLE', ...says, /cuda_stream/)
      refused(() => Event.from(given, { device }), 'ERR_INVALID_HANDLE', ...says, /cuda_event/)
    }
  })

  test('S4 the null handle is no event', () => {
    for (const given of [0, 0n, 1n, 2]) {
      refused(() => Event.from(given, { device }), 'ERR_INVALID_HANDLE', new RegExp(`\\b${given}\\b`))
    }
  })

  test('S4 a protocol object that throws is heard, not hidden', () => {
    assert.throws(() => new ExternalStream(hostile as unknown as StreamSource, { device }), /asked for/)
    refused(() => Event.from(hostile as unknown as bigint, { device }), 'ERR_INVALID_ARG_TYPE', /handle/)
  })

  test('S4 a handle that this library has destroyed is ERR_CLOSED', () => {
    using other = bench.stream()
    const stream = bench.stream()
    const { handle } = stream
    const event = device.createEvent()
    const eventHandle = event.handle
    event.close()
    stream.close()
    const hex = (value: bigint): RegExp => new RegExp(`0x${value.toString(16)}`)
    refused(() => new ExternalStream(handle, { device }), 'ERR_CLOSED', hex(handle), /closed/)
    refused(() => Stream.from(Number(handle), { device }), 'ERR_CLOSED', hex(handle), /closed/)
    refused(() => Event.from(eventHandle, { device }), 'ERR_CLOSED', hex(eventHandle), /closed/)
    stillWorks(bench, other)
  })

  test('S4 so is one that was asked for only after that', () => {
    using other = bench.stream()
    const stream = bench.stream()
    stream.close()
    refused(() => new ExternalStream(stream.handle, { device }), 'ERR_CLOSED', /closed/)
    stillWorks(bench, other)
  })

  test('S4 a handle that was destroyed and created again is wrapped', () => {
    const handles = new Map<bigint, number>()
    for (let round = 0; round < 20; round += 1) {
      using stream = bench.stream()
      using wrapper = new ExternalStream(stream.handle, { device })
      assert.equal(wrapper.equals(stream), true)
      handles.set(stream.handle, round)
      using event = device.createEvent()
      using sameEvent = Event.from(event.handle, { device })
      assert.equal(sameEvent.equals(event), true)
    }
    assert.ok(handles.size > 0)
  })

  test('S4 so is a stream that stands where another library’s stood, given out for the second time', () => {
    for (let round = 0; round < 20; round += 1) {
      const foreign = bench.foreignStream(device)
      new ExternalStream(foreign, { device }).close()
      bench.destroyForeignStream(foreign)
      // No program has read its handle, so that the next one may be the same stream.
      device.createStream().close()
      using again = device.createStream()
      using wrapper = new ExternalStream(again.handle, { device })
      assert.equal(wrapper.equals(again), true)
      stillWorks(bench, again)
    }
  })

  test('S4 a handle of a simulation is refused by every other driver', () => {
    using simulation = simulate()
    const [elsewhere] = simulation.devices
    assert.ok(elsewhere)
    using stream = elsewhere.createStream()
    using event = elsewhere.createEvent()
    const hex = (value: bigint): RegExp => new RegExp(`0x${value.toString(16)}`)
    const streamError = refused(
      () => new ExternalStream(stream.handle, { device }),
      'ERR_INVALID_HANDLE',
      hex(stream.handle),
    )
    assert.ok(streamError.cause instanceof CudaError)
    const eventError = refused(() => Event.from(event.handle, { device }), 'ERR_INVALID_HANDLE', hex(event.handle))
    assert.ok(eventError.cause instanceof CudaError)
    using ours = bench.stream()
    stillWorks(bench, ours)
  })

  test('S4 a simulation refuses the handles of every other driver', () => {
    using simulation = simulate()
    const [elsewhere] = simulation.devices
    assert.ok(elsewhere)
    using stream = bench.stream()
    using event = device.createEvent()
    const hex = (value: bigint): RegExp => new RegExp(`0x${value.toString(16)}`)
    const options = { device: elsewhere }
    refused(() => new ExternalStream(stream.handle, options), 'ERR_INVALID_HANDLE', hex(stream.handle))
    refused(() => Event.from(event.handle, options), 'ERR_INVALID_HANDLE', hex(event.handle))
    refused(() => new ExternalStream(stream, options), 'ERR_DEVICE_MISMATCH', /options\.device/)
    stillWorks(bench, stream)
  })

  test('S4 the simulator knows an event from a stream, and what its owner has destroyed', (t) => {
    if (bench.name !== 'sim') return t.skip('mapped memory cannot be told from a stream on a real GPU')
    using stream = bench.stream()
    using event = device.createEvent()
    refused(() => new ExternalStream(event.handle, { device }), 'ERR_INVALID_HANDLE', /stream/)
    refused(() => Event.from(stream.handle, { device }), 'ERR_INVALID_HANDLE', /event/)
    refused(() => new ExternalStream(device.context.handle, { device }), 'ERR_INVALID_HANDLE', /stream/)
    refused(() => new ExternalStream(stream.handle + 8n, { device }), 'ERR_INVALID_HANDLE', /stream/)
    const foreign = bench.foreignStream(device)
    bench.destroyForeignStream(foreign)
    refused(() => new ExternalStream(foreign, { device }), 'ERR_INVALID_HANDLE', /destroyed/)
  })

  test('S4 an event of another device is ERR_DEVICE_MISMATCH', (t) => {
    const other = secondDevice(bench)
    if (other === undefined) return t.skip(ONE_DEVICE)
    using event = other.createEvent()
    const says = [/Device\(0/, /Device\(1/, /options\.device/]
    refused(() => Event.from(event.handle, { device }), 'ERR_DEVICE_MISMATCH', ...says)
    using wrapper = Event.from(event.handle, { device: other })
    assert.equal(wrapper.device, other)
  })

  test('S4 the handle of a closed event is closed, whatever events are made on another device since', (t) => {
    const other = secondDevice(bench)
    if (other === undefined) return t.skip(ONE_DEVICE)
    for (const [here, there] of [
      [device, other],
      [other, device],
    ] as const) {
      const event = here.createEvent()
      const { handle } = event
      event.close()
      using _another = there.createEvent()
      refused(() => Event.from(handle, { device: here }), 'ERR_CLOSED')
    }
  })

  test('S4 a device that does not exist is ERR_OUT_OF_RANGE', () => {
    device.run(() => {
      using stream = new Stream()
      using event = stream.record()
      const ordinal = bench.devices.length
      const said = new RegExp(`not ${ordinal}`)
      refused(() => new ExternalStream(stream.handle, { device: ordinal }), 'ERR_OUT_OF_RANGE', said)
      refused(() => Event.from(event.handle, { device: ordinal }), 'ERR_OUT_OF_RANGE', said)
      refused(() => new ExternalStream(stream.handle, { device: -2 }), 'ERR_OUT_OF_RANGE', /not -2/)
    })
  })
})
