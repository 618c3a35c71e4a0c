/** S1, S2, S7 and S8: making streams, closing them, comparing them, and getting the same object back. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ExternalStream, Stream, type StreamOptions } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'
import { ONE_DEVICE, refused, secondDevice, stillWorks } from './expect.js'

onEveryBackend('making streams', (bench) => {
  const { device } = bench

  test('S1 the priority is clamped to the range of the device', () => {
    const { least, greatest } = device.priorityRange
    const made = (priority?: number): number => {
      using stream = bench.stream(priority === undefined ? {} : { priority })
      return stream.priority
    }
    assert.equal(made(greatest - 1), greatest)
    assert.equal(made(-1_000_000), greatest)
    assert.equal(made(least + 1), least)
    assert.equal(made(1_000_000), least)
    for (let priority = greatest; priority <= least; priority += 1) assert.equal(made(priority), priority)
    assert.equal(made(), 0)
  })

  test('S1 a priority that is no integer is ERR_INVALID_ARG_TYPE', () => {
    for (const [priority, given] of [
      [0.5, /0\.5/],
      [Number.NaN, /NaN/],
      [Number.POSITIVE_INFINITY, /Infinity/],
      ['-1', /'-1'/],
      [null, /null/],
      [1n, /1n/],
    ] as const) {
      const options = { device, priority } as unknown as StreamOptions
      refused(() => new Stream(options), 'ERR_INVALID_ARG_TYPE', /options\.priority/, /integer/, given)
    }
  })

  test('S1 nonBlocking is true unless it is said to be false', () => {
    using byDefault = bench.stream()
    using nonBlocking = bench.stream({ nonBlocking: true })
    using blocking = bench.stream({ nonBlocking: false })
    assert.equal(byDefault.nonBlocking, true)
    assert.equal(nonBlocking.nonBlocking, true)
    assert.equal(blocking.nonBlocking, false)
    const options = { device, nonBlocking: 1 } as unknown as StreamOptions
    refused(() => new Stream(options), 'ERR_INVALID_ARG_TYPE', /options\.nonBlocking/, /true or false/, /1/)
  })

  test('S1 an ordinal that does not exist is ERR_OUT_OF_RANGE', () => {
    const count = bench.devices.length
    for (const ordinal of [count, count + 7, -1, -2]) {
      device.run(() => {
        const says = [new RegExp(`not ${ordinal}`), new RegExp(`0 to ${count - 1}`)]
        refused(() => new Stream({ device: ordinal }), 'ERR_OUT_OF_RANGE', ...says)
      })
    }
  })

  test('S1 a device that is neither a Device nor an ordinal is ERR_INVALID_ARG_TYPE', () => {
    for (const wrong of ['0', 0.5, null, {}, 0n]) {
      const options = { device: wrong } as unknown as StreamOptions
      device.run(() => refused(() => new Stream(options), 'ERR_INVALID_ARG_TYPE', /options\.device/, /ordinal/))
    }
  })

  test('S1 options that are no object are ERR_INVALID_ARG_TYPE', () => {
    for (const wrong of [5, 'fast', null, [], true]) {
      refused(() => new Stream(wrong as unknown as StreamOptions), 'ERR_INVALID_ARG_TYPE', /options/, /object/)
      refused(() => device.createStream(wrong as unknown as StreamOptions), 'ERR_INVALID_ARG_TYPE', /options/)
    }
  })

  test('S1 without a device the stream is on the current one, and with one on that', () => {
    for (const there of bench.devices) {
      using byCurrent = there.run(() => new Stream())
      using byOrdinal = device.run(() => new Stream({ device: there.ordinal }))
      using byDevice = there.createStream()
      for (const stream of [byCurrent, byOrdinal, byDevice]) {
        assert.equal(stream.device, there)
        assert.equal(stream.context.device, there)
        assert.equal(stream.context.handle, there.context.handle)
        assert.ok(stream.handle > 2n)
        assert.equal(stream.isCapturing, false)
        stillWorks(bench, stream)
      }
    }
  })

  test('S1 a name of the options is the name of the stream, in what it prints and in errors, and of its wrappers', () => {
    using made = new Stream({ device, name: 'encoder' })
    using byDevice = device.createStream({ name: 'decoder' })
    assert.deepEqual([made.name, byDevice.name], ['encoder', 'decoder'])
    assert.match(String(made), /^Stream\(0x[0-9a-f]+, encoder, Device\(/)
    refused(() => made.wait({} as never), 'ERR_INVALID_ARG_TYPE')
    refused(() => byDevice.wait(made, { event: {} as never }), 'ERR_INVALID_ARG_TYPE')
    using wrapper = new ExternalStream(made.handle, { device })
    assert.equal(wrapper.name, 'encoder')
    const { closed } = made
    assert.equal(closed, false)
    byDevice.close()
    refused(() => byDevice.name, 'ERR_CLOSED', /decoder/)
    stillWorks(bench, made)
  })

  test('S1 a wrapper can name what another library made, and Stream.from() what is a Stream', () => {
    const foreign = bench.foreignStream(device)
    using wrapper = new ExternalStream(foreign, { device, name: 'torch' })
    using again = Stream.from(foreign, { device })
    assert.deepEqual([wrapper.name, again.name], ['torch', 'torch'])
    assert.match(String(wrapper), /, torch, /)
    using own = new Stream({ device })
    assert.equal(Stream.from(own, { name: 'own' }), own)
    assert.equal(own.name, 'own')
    using renamed = new ExternalStream(own, { name: 'renamed' })
    assert.deepEqual([own.name, renamed.name], ['renamed', 'renamed'])
  })

  test('S1 a stream without a name is called by its number, and a default stream by what it is', () => {
    using stream = bench.stream()
    assert.equal(stream.name, `stream ${stream.id}`)
    using asked = new Stream({ device, name: undefined })
    assert.equal(asked.name, `stream ${asked.id}`)
    device.run(() => {
      const of = device.ordinal === 0 ? '' : ` of device ${device.ordinal}`
      assert.deepEqual([Stream.null.name, Stream.perThread.name], [`null stream${of}`, `per-thread stream${of}`])
    })
  })

  test('S1 a name that was given stays readable while the stream captures', () => {
    using stream = new Stream({ device, name: 'captures' })
    let name = ''
    stream.capture(() => {
      ;({ name } = stream)
    })
    assert.equal(name, 'captures')
  })

  test('S1 a name that is no text is ERR_INVALID_ARG_TYPE, an empty one ERR_INVALID_ARG_VALUE, and nothing gets a name', () => {
    using own = bench.stream()
    const makers: readonly ((name: never) => unknown)[] = [
      (name) => new Stream({ device, name }),
      (name) => device.createStream({ name }),
      (name) => new ExternalStream(own, { name }),
      (name) => Stream.from(own, { name }),
    ]
    for (const make of makers) {
      for (const wrong of [7, null, Symbol.iterator, ['a'], {}]) {
        refused(() => make(wrong as never), 'ERR_INVALID_ARG_TYPE', /options\.name/, /a string/)
      }
      refused(() => make('' as never), 'ERR_INVALID_ARG_VALUE', /options\.name must not be empty/)
    }
    assert.equal(own.name, `stream ${own.id}`)
  })

  test('S1 an id is never used again, though a handle may be', () => {
    const ids = new Set<bigint>()
    for (let round = 0; round < 50; round += 1) {
      using stream = bench.stream()
      assert.equal(stream.id, stream.id)
      ids.add(stream.id)
    }
    assert.equal(ids.size, 50)
    using stream = bench.stream()
    using wrapper = new ExternalStream(stream)
    assert.equal(wrapper.id, stream.id)
  })

  test('S1 the ids of 100 streams are all different, also where those between were never asked', () => {
    const ids = Array.from({ length: 100 }, () => {
      bench.stream().close()
      using stream = bench.stream()
      return stream.id
    })
    assert.equal(new Set(ids).size, 100)
  })

  test('S1 a new stream is as it was asked for, whatever streams were closed before', () => {
    const { least, greatest } = device.priorityRange
    const settings = [true, false].flatMap((nonBlocking) =>
      [least, greatest, 0].map((priority) => ({ nonBlocking, priority })),
    )
    const devices = bench.devices.slice(0, 2)
    for (const before of settings) {
      for (const wanted of settings) {
        for (const each of devices) new Stream({ device: each, ...before }).close()
        for (const each of devices) {
          using stream = new Stream({ device: each, ...wanted })
          const { nonBlocking, priority } = stream
          assert.deepEqual({ nonBlocking, priority }, wanted)
          assert.equal(stream.device, each)
          assert.deepEqual([stream.isCapturing, stream.query(), stream.closed], [false, true, false])
        }
      }
    }
  })

  test('S7 a closed stream, or event, equals no new one', () => {
    const [stream, event] = [bench.stream(), device.createEvent()]
    for (const each of [stream, event]) each.close()
    using newStream = bench.stream()
    using newEvent = device.createEvent()
    assert.deepEqual([newStream.equals(stream), stream.equals(newStream), stream.equals(stream)], [false, false, true])
    assert.deepEqual([newEvent.equals(event), event.equals(newEvent), event.equals(event)], [false, false, true])
  })

  test('S7 equals compares the device and the handle', () => {
    using stream = bench.stream()
    using other = bench.stream()
    using wrapper = new ExternalStream(stream.handle, { device })
    assert.equal(stream.equals(stream), true)
    assert.equal(stream.equals(wrapper), true)
    assert.equal(wrapper.equals(stream), true)
    assert.equal(stream.equals(other), false)
  })

  test('S7 0n and 1n name the same stream, and 2n another', () => {
    using zero = new ExternalStream(0n, { device })
    using one = new ExternalStream(1n, { device })
    using two = new ExternalStream(2n, { device })
    assert.equal(zero.equals(one), true)
    assert.equal(one.equals(device.defaultStream), true)
    assert.equal(two.equals(zero), false)
    assert.equal(device.run(() => Stream.perThread).equals(two), true)
    assert.equal(zero.valueOf(), one.valueOf())
    assert.equal(Stream.compare(zero, one), 0)
    assert.deepEqual([zero.handle, one.handle, two.handle], [0n, 1n, 2n])
  })

  test('S7 equals of what is no stream is false, never a throw', () => {
    using stream = bench.stream()
    const throwing = new Proxy({}, { get: () => assert.fail('equals looked inside') })
    const look = { handle: stream.handle, device: stream.device }
    for (const other of ['x', undefined, null, 0, stream.handle, {}, look, device, throwing]) {
      assert.equal(stream.equals(other), false)
    }
  })

  test('S7 null streams of two devices are not equal', (t) => {
    const other = secondDevice(bench)
    if (other === undefined) return t.skip(ONE_DEVICE)
    assert.equal(device.defaultStream.equals(other.defaultStream), false)
    assert.equal(Stream.compare(device.defaultStream, other.defaultStream), -1)
    using stream = bench.stream()
    assert.equal(Stream.compare(stream, other.defaultStream), -1)
    assert.equal(Stream.compare(other.defaultStream, stream), 1)
  })

  test('S7 streams have an order: the device above, the handle in the low 64 bits', () => {
    using a = bench.stream()
    using b = bench.stream()
    assert.equal(a.valueOf(), (BigInt(device.ordinal) << 64n) | a.handle)
    const [low, high] = a.handle < b.handle ? [a, b] : [b, a]
    assert.equal(low < high, true)
    assert.equal(high < low, false)
    assert.equal(Stream.compare(low, high), -1)
    assert.equal(Stream.compare(high, low), 1)
    assert.equal(Stream.compare(low, low), 0)
    assert.deepEqual([high, device.defaultStream, low].sort(Stream.compare), [device.defaultStream, low, high])
    refused(() => Stream.compare('x' as unknown as Stream, a), 'ERR_INVALID_ARG_TYPE', /a Stream/, /'x'/)
    refused(() => Stream.compare(a, 5 as unknown as Stream), 'ERR_INVALID_ARG_TYPE', /a Stream/, /5/)
  })

  test('S8 Stream.from(stream) is the same object', () => {
    using stream = bench.stream()
    using wrapper = new ExternalStream(stream)
    assert.equal(Stream.from(stream), stream)
    assert.equal(Stream.from(wrapper), wrapper)
    assert.equal(Stream.from(device.defaultStream), device.defaultStream)
    assert.equal(Stream.from(stream, { device }), stream)
    assert.equal(Stream.from(stream, { device: -1 }), stream)
    using wrapped = Stream.from(stream.handle, { device })
    assert.ok(wrapped instanceof ExternalStream)
    assert.notEqual(wrapped, stream)
  })

  test('S8 Stream.from(stream) refuses a device that is not its own', (t) => {
    const other = secondDevice(bench)
    if (other === undefined) return t.skip(ONE_DEVICE)
    using stream = bench.stream()
    const says = [/Device\(0/, /Device\(1/, /options\.device/]
    refused(() => Stream.from(stream, { device: other }), 'ERR_DEVICE_MISMATCH', ...says)
    stillWorks(bench, stream)
  })

  test('S8 Stream.current() is the object that was made current', () => {
    using stream = bench.stream()
    using wrapper = new ExternalStream(stream.handle, { device })
    for (const made of [stream, wrapper]) {
      made.run(() => {
        assert.equal(Stream.current(device), made)
        assert.equal(
          device.run(() => Stream.current()),
          made,
        )
      })
    }
  })

  test('S3 the priority of a stream changes later, within the range of the device, and its attributes go to another', () => {
    const { least, greatest } = device.priorityRange
    using stream = bench.stream()
    using other = bench.stream()
    stream.priority = greatest
    assert.equal(stream.priority, greatest)
    stream.priority = -1_000_000
    assert.equal(stream.priority, greatest)
    assert.equal(other.priority, 0)
    assert.equal(other.copyAttributes(stream), other)
    assert.equal(other.priority, greatest)
    using wrapped = Stream.from(stream.handle, { device })
    wrapped.priority = 1_000_000
    assert.deepEqual([stream.priority, wrapped.priority, other.priority], [least, least, greatest])
    other.copyAttributes(other)
    assert.equal(other.priority, greatest)
  })

  test('S3 a priority that is none, and attributes of default streams and of what is no stream, are refused', () => {
    using stream = bench.stream()
    refused(() => Object.assign(stream, { priority: 'high' }), 'ERR_INVALID_ARG_TYPE', /priority/, /high/)
    refused(() => Object.assign(stream, { priority: undefined }), 'ERR_INVALID_ARG_TYPE', /priority/)
    refused(() => stream.copyAttributes(7 as never), 'ERR_INVALID_ARG_TYPE', /from/)
    for (const shared of [device.run(() => Stream.null), device.run(() => Stream.perThread)]) {
      refused(() => Object.assign(shared, { priority: -1 }), 'ERR_UNSUPPORTED', /new Stream\(\{ priority \}\)/)
      refused(() => shared.copyAttributes(stream), 'ERR_UNSUPPORTED')
      refused(() => stream.copyAttributes(shared), 'ERR_UNSUPPORTED')
    }
    stream.close()
    refused(() => Object.assign(stream, { priority: -1 }), 'ERR_CLOSED')
  })

  test('S3 attributes are not copied into or out of a green context, nor of a stream whose capture is invalidated', () => {
    const [part, rest] = device.split({ multiprocessors: [8] })
    rest.close()
    using green = new Stream({ context: part })
    using also = new Stream({ context: part, priority: -1 })
    using stream = bench.stream()
    refused(() => stream.copyAttributes(green), 'ERR_INVALID_ARG_VALUE', /green/)
    refused(() => green.copyAttributes(stream), 'ERR_INVALID_ARG_VALUE', /green/)
    assert.equal(green.copyAttributes(also).priority, also.priority)
    using capturing = bench.stream()
    capturing.beginCapture()
    stream.copyAttributes(capturing)
    capturing.priority = -1
    assert.throws(() => capturing.synchronize(), { number: 900 })
    for (const act of [() => stream.copyAttributes(capturing), () => capturing.copyAttributes(stream)])
      assert.throws(act, { number: 901 })
    assert.throws(() => Object.assign(capturing, { priority: 0 }), { number: 901 })
    assert.throws(() => capturing.endCapture(), { number: 901 })
    part.close()
  })

  test('S3 a stream that is closed with another priority is not given out again as one without', () => {
    const stream = bench.stream()
    stream.priority = device.priorityRange.greatest
    stream.close()
    const made = Array.from({ length: 8 }, () => bench.stream())
    assert.deepEqual(new Set(made.map(({ priority }) => priority)), new Set([0]))
    for (const each of made) each.close()
  })

  test('D5 ranges for a profiler may be within each other, and end twice', () => {
    const outer = device.profilerRange()
    {
      using _inner = device.profilerRange()
    }
    outer[Symbol.dispose]()
    outer[Symbol.dispose]()
  })
})
