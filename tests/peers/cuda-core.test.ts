/** What cuda.core's tests ask of streams, events, launches and buffers, asked of ours. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Device, DeviceBuffer, defineKernel, Event, ExternalStream, type FillOptions, Stream } from 'cuda-streams'
import { collectUntil, ONE_DEVICE, refused, refusedByDriver, secondDevice, stillWorks } from '../conformance/expect.js'
import { onEveryBackend } from '../helpers/suite.js'

const INVALID_HANDLE = 400
const NOT_READY = 600
const MANY = 10_000

onEveryBackend('cuda.core streams', (bench) => {
  const { device } = bench

  test('a stream knows its device and context, and a wrapper of it the same', () => {
    using stream = device.createStream({ nonBlocking: true, priority: 0 })
    using wrapped = device.createStream(stream)
    for (const each of [stream, wrapped]) {
      assert.equal(each.device, device)
      assert.equal(each.context.device, device)
      assert.equal(each.context.handle, device.context.handle)
      assert.deepEqual([each.nonBlocking, each.priority], [true, 0])
    }
  })

  test('equality is reflexive, symmetric, of the same hash key, and false for anything else', () => {
    using first = device.createStream()
    using second = device.createStream()
    using same = Stream.from(first.handle, { device })
    assert.ok(first.equals(first) && first.equals(same) && same.equals(first))
    assert.ok(!first.equals(second) && !second.equals(same))
    assert.equal(first.valueOf(), same.valueOf())
    assert.notEqual(first.valueOf(), second.valueOf())
    assert.deepEqual([first.id === same.id, first.id === second.id], [true, false])
    for (const other of ['not a stream', 123, first.handle, null, undefined, device, {}, [first]]) {
      assert.equal(first.equals(other), false)
    }
  })

  test('ordering is total: by device, then handle, and the default ones are sorted with the rest', () => {
    const streams = bench.devices.flatMap((on) => [on.createStream(), on.defaultStream, on.createStream()])
    const sorted = [...streams].sort(Stream.compare)
    assert.deepEqual([...streams].reverse().sort(Stream.compare), sorted)
    for (const [index, left] of sorted.entries()) {
      for (const right of sorted.slice(index + 1)) {
        assert.equal(Stream.compare(left, right), -1)
        assert.equal(Stream.compare(right, left), 1)
        assert.ok(left < right)
        assert.ok(left.device.ordinal <= right.device.ordinal)
      }
    }
    for (const stream of streams) stream.close()
    refused(() => Stream.compare(device.defaultStream, 1 as never), 'ERR_INVALID_ARG_TYPE')
  })

  test('handle 0 wraps the default stream of the device named', () => {
    for (const on of bench.devices) {
      using wrapped = Stream.from(0, { device: on })
      assert.ok(wrapped.equals(on.defaultStream))
      assert.equal(wrapped.device, on)
      assert.equal(on.defaultStream, on.defaultStream)
      wrapped.close()
      stillWorks(bench, on.defaultStream)
    }
  })

  test('waiting for what is neither an event nor a stream is ERR_INVALID_ARG_TYPE', () => {
    using stream = device.createStream()
    for (const wrong of ['invalid', 1, 1n, null, undefined, {}, device]) {
      refused(() => stream.wait(wrong as never), 'ERR_INVALID_ARG_TYPE', /an Event, a Stream/)
    }
    stillWorks(bench, stream)
  })

  test('a subclass is a stream, made, wrapped and current', () => {
    class Named extends Stream {
      readonly name = 'mine'
    }
    class NamedExternal extends ExternalStream {
      readonly name = 'theirs'
    }
    using mine = new Named({ device })
    using theirs = new NamedExternal(mine.handle, { device })
    assert.equal(Stream.from(mine), mine)
    assert.deepEqual([mine.name, theirs.name], ['mine', 'theirs'])
    assert.ok(mine.equals(theirs))
    mine.run(() => assert.equal(Stream.current(device), mine))
    using event = theirs.record()
    mine.wait(event).synchronize()
  })

  test(`${MANY} streams made and closed leave nothing behind, and neither do as many events`, () => {
    const { handle } = device.context
    for (let index = 0; index < MANY; index += 1) {
      using stream = device.createStream()
      using event = stream.record()
      if (index % 1000 === 0) {
        stream.wait(event).synchronize()
        assert.equal(event.query(), true)
      }
    }
    assert.equal(device.context.handle, handle)
    using last = device.createStream()
    stillWorks(bench, last)
  })

  test('a thousand streams and events that nobody holds are collected', async () => {
    let gone = 0
    const registry = new FinalizationRegistry(() => {
      gone += 1
    })
    for (let index = 0; index < 1000; index += 1) {
      const stream = device.createStream()
      registry.register(stream, undefined)
      registry.register(stream.record(), undefined)
    }
    assert.ok(await collectUntil(() => gone >= 1990), `${gone} of 2000 were collected`)
    device.synchronize()
  })

  test('close() may come twice, in a block too, and queued work still completes', () => {
    using result = device.allocPinned(8)
    result.bytes.fill(0)
    {
      using stream = device.createStream()
      bench.busy(stream, 1_000_000)
      stream.fill(result, 9)
      stream.close()
      assert.equal(stream.closed, true)
      refused(() => stream.record(), 'ERR_CLOSED')
    }
    device.synchronize()
    assert.deepEqual([...result.bytes], Array(8).fill(9))
  })
})

onEveryBackend('cuda.core events', (bench) => {
  const { device } = bench

  test('time between two events is that of the work between', () => {
    using stream = bench.stream()
    using start = stream.record({ timing: true })
    bench.busy(stream, 20_000_000)
    using end = stream.record({ timing: true })
    end.synchronize()
    const elapsed = end.elapsedSince(start)
    assert.ok(elapsed >= 19 && elapsed < 200, `20 ms took ${elapsed} ms`)
    assert.ok(Math.abs(start.elapsedSince(end) + elapsed) < 1e-3, 'and the other way round it is negative')
  })

  test('options of an event can be read, and are false unless given', () => {
    using stream = bench.stream()
    for (const [options, timing, blockingSync] of [
      [{}, false, false],
      [{ timing: true }, true, false],
      [{ blockingSync: true }, false, true],
      [{ timing: true, blockingSync: true }, true, true],
    ] as const) {
      using event = stream.record(options)
      assert.deepEqual([event.timing, event.blockingSync, event.interprocess], [timing, blockingSync, false])
      assert.equal(event.device, device)
      assert.equal(typeof event.query(), 'boolean')
      event.synchronize()
      assert.equal(event.query(), true)
    }
  })

  test('no time without timing, without a record, or before the end: each with its own error', () => {
    using stream = bench.stream()
    using timed = stream.record({ timing: true })
    using plain = stream.record()
    using never = device.createEvent({ timing: true })
    stream.synchronize()
    for (const [end, start, says] of [
      [plain, timed, /timing/],
      [timed, plain, /timing/],
      [plain, plain, /timing/],
      [never, timed, /never recorded/],
      [timed, never, /never recorded/],
      [never, never, /never recorded/],
    ] as const) {
      assert.match(refusedByDriver(() => end.elapsedSince(start), INVALID_HANDLE).message, says)
    }
    const latch = bench.latch(stream)
    using late = stream.record({ timing: true })
    try {
      assert.match(refusedByDriver(() => late.elapsedSince(timed), NOT_READY).message, /not complete/)
    } finally {
      latch.open()
    }
    late.synchronize()
    assert.ok(late.elapsedSince(timed) >= 0)
  })

  test('an event recorded again means its latest record, for those who wait from then on', () => {
    using stream = bench.stream()
    using other = bench.stream()
    using event = device.createEvent()
    stream.record(event)
    stream.synchronize()
    const latch = bench.latch(stream)
    try {
      other.wait(event)
      assert.equal(event.query(), true)
      stream.record(event)
      assert.equal(event.query(), false)
      other.synchronize()
      other.wait(event)
      assert.equal(other.query(), false)
    } finally {
      latch.open()
    }
    other.synchronize()
    assert.equal(event.query(), true)
  })

  test('promises outlive the stream and the event that they were asked of', async () => {
    const order: number[] = []
    using blocker = bench.stream()
    const latch = bench.latch(blocker)
    const finished: Promise<unknown>[] = []
    try {
      for (let index = 0; index < 20; index += 1) {
        const stream = bench.stream()
        stream.wait(blocker)
        const event = stream.record()
        finished.push(
          event.finished().then(() => order.push(index)),
          stream.finished(),
        )
        if (index % 2 === 0) {
          event.close()
          stream.close()
        }
      }
      await collectUntil(() => false)
      assert.deepEqual(order, [])
    } finally {
      latch.open()
    }
    await Promise.all(finished)
    assert.equal(new Set(order).size, 20)
  })

  test('a wait through an event that is closed, or of another device, is refused and orders nothing', (context) => {
    using stream = bench.stream()
    using other = bench.stream()
    const closed = device.createEvent()
    closed.close()
    refused(() => stream.wait(other, { event: closed }), 'ERR_CLOSED')
    refused(() => stream.wait(closed), 'ERR_CLOSED')
    refused(() => stream.record(closed), 'ERR_CLOSED')
    stillWorks(bench, stream)
    const second = secondDevice(bench)
    if (second === undefined) return context.diagnostic(ONE_DEVICE)
    using theirs = second.createEvent()
    refused(() => stream.wait(other, { event: theirs }), 'ERR_DEVICE_MISMATCH')
    stillWorks(bench, stream)
  })

  test('events equal themselves and wrappers of themselves', () => {
    using stream = bench.stream()
    using event = stream.record()
    using other = stream.record()
    using wrapped = Event.fromHandle(event.handle, { device })
    assert.ok(event.equals(event) && event.equals(wrapped) && wrapped.equals(event))
    for (const wrong of [other, event.handle, 'event', null, stream]) assert.equal(event.equals(wrong), false)
    wrapped.close()
    assert.equal(event.closed, false)
    stream.wait(event).synchronize()
  })

  test('waiting on an event that is closed at once still waits', () => {
    using stream = bench.stream()
    using other = bench.stream()
    const order: string[] = []
    const latch = bench.latch(stream)
    try {
      stream.launchHostFunc(() => order.push('first'))
      const event = stream.record()
      other.wait(event)
      event.close()
      other.launchHostFunc(() => order.push('second'))
      assert.equal(other.query(), false)
    } finally {
      latch.open()
    }
    other.synchronize()
    assert.deepEqual(order, ['first', 'second'])
  })
})

const scalars = defineKernel({
  name: 'scalars',
  source: `extern "C" __global__ void scalars(
    char* out, bool a, signed char b, unsigned char c, short d, unsigned short e, int f, unsigned g,
    long long h, unsigned long long i, float j, double k
  ) {
    *(bool*)out = a; *(signed char*)(out + 1) = b; *(unsigned char*)(out + 2) = c; *(short*)(out + 4) = d;
    *(unsigned short*)(out + 6) = e; *(int*)(out + 8) = f; *(unsigned*)(out + 12) = g;
    *(long long*)(out + 16) = h; *(unsigned long long*)(out + 24) = i; *(float*)(out + 32) = j;
    *(double*)(out + 40) = k;
  }`,
  signature: ['out u8*', 'bool', 'i8', 'u8', 'i16', 'u16', 'i32', 'u32', 'i64', 'u64', 'f32', 'f64'],
  simulateGrid(_grid, out, a, b, c, d, e, f, g, h, i, j, k) {
    const view = new DataView(out.buffer, out.byteOffset, out.byteLength)
    view.setUint8(0, a ? 1 : 0)
    view.setInt8(1, b)
    view.setUint8(2, c)
    view.setInt16(4, d, true)
    view.setUint16(6, e, true)
    view.setInt32(8, f, true)
    view.setUint32(12, g, true)
    view.setBigInt64(16, h, true)
    view.setBigUint64(24, i, true)
    view.setFloat32(32, j, true)
    view.setFloat64(40, k, true)
  },
})

onEveryBackend('cuda.core launches', (bench) => {
  const { device } = bench
  const values = [true, -42, 42, -1234, 1234, -123456, 123456, -123456789n, 123456789n, 3.5, 2.75] as const

  test('scalars of each type arrive as they were given', async () => {
    using stream = bench.stream()
    using out = device.allocPinned(48)
    await scalars.prepare(device)
    stream.launch(scalars, { grid: 1, block: 1 }, out, ...values)
    await stream.finished()
    const view = new DataView(out.bytes.buffer, out.bytes.byteOffset, 48)
    const arrived = [
      view.getUint8(0) === 1,
      view.getInt8(1),
      view.getUint8(2),
      view.getInt16(4, true),
      view.getUint16(6, true),
      view.getInt32(8, true),
      view.getUint32(12, true),
      view.getBigInt64(16, true),
      view.getBigUint64(24, true),
      view.getFloat32(32, true),
      view.getFloat64(40, true),
    ]
    assert.deepEqual(arrived, values)
  })

  test('extents that are none are refused, and nothing is launched', async () => {
    using stream = bench.stream()
    using out = device.allocPinned(48)
    out.bytes.fill(0)
    await scalars.prepare(device)
    for (const wrong of [
      { grid: 0, block: 1 },
      { grid: [0, 1], block: 1 },
      { grid: 1, block: 0 },
      { grid: 1, block: [0, 1] },
      { grid: -1, block: 1 },
      { grid: 1, block: 1, sharedMemory: -1 },
    ] as const) {
      refused(() => stream.launch(scalars, wrong, out, ...values), 'ERR_OUT_OF_RANGE', /grid|block|sharedMemory/)
    }
    const launch = (...args: unknown[]): unknown => Reflect.apply(stream.launch, stream, args)
    refused(() => launch(undefined, { grid: 1, block: 1 }), 'ERR_INVALID_ARG_TYPE')
    refused(() => launch(scalars, undefined, out, ...values), 'ERR_INVALID_ARG_TYPE')
    refused(() => launch(scalars, { grid: 'x', block: 1 }, out, ...values), 'ERR_INVALID_ARG_TYPE')
    refused(() => launch({}, { grid: 1, block: 1 }), 'ERR_INVALID_ARG_TYPE')
    stream.synchronize()
    assert.deepEqual(new Set(out.bytes), new Set([0]))
  })
})

onEveryBackend('cuda.core buffers', (bench) => {
  const { device } = bench

  test('copies go both ways between device and pinned memory', async () => {
    using stream = bench.stream()
    using from = device.allocPinned(1024)
    using there = device.alloc(1024, { stream })
    using further = device.alloc(1024, { stream })
    using back = device.allocPinned(1024)
    for (const [index] of from.bytes.entries()) from.bytes[index] = index
    stream.copy(there, from).copy(further, there).copy(back, further)
    await device.finished()
    assert.deepEqual(back.bytes, from.bytes)
  })

  test('fills of 1, 2 and 4 bytes, on either kind of memory', async () => {
    using stream = bench.stream()
    for (const [value, width, wanted] of [
      [0x42, 1, [0x42, 0x42, 0x42, 0x42]],
      [0x1234, 2, [0x34, 0x12, 0x34, 0x12]],
      [0xdeadbeef, 4, [0xef, 0xbe, 0xad, 0xde]],
      [-1, 4, [255, 255, 255, 255]],
    ] as const) {
      using buffer = device.alloc(1024, { stream })
      using pinned = device.allocPinned(1024)
      stream.fill(buffer, value, { width }).fill(pinned, value, { width })
      const bytes = await stream.download(buffer)
      assert.deepEqual([...bytes.subarray(1020)], wanted)
      assert.deepEqual([...pinned.bytes.subarray(0, 4)], wanted)
      assert.deepEqual([...bytes], [...pinned.bytes])
    }
  })

  test('fills of another width, of values too large, or of lengths that do not divide are refused', () => {
    using stream = bench.stream()
    using buffer = device.alloc(1024, { stream })
    using odd = device.alloc(1030, { stream })
    using odder = device.alloc(1025, { stream })
    for (const width of [-4, -1, 0, 3, 5, 8, 1.5]) {
      refused(() => stream.fill(buffer, 1, { width } as unknown as FillOptions), 'ERR_INVALID_ARG_VALUE', /width/)
    }
    for (const [width, wrong] of [
      [1, [-129, 256]],
      [2, [-32769, 65536, 100_000]],
      [4, [-(2 ** 31) - 1, 2 ** 32, 5e9]],
    ] as const) {
      for (const value of wrong) refused(() => stream.fill(buffer, value, { width }), 'ERR_OUT_OF_RANGE', /value/)
    }
    refused(() => stream.fill(odd, 1, { width: 4 }), 'ERR_INVALID_ARG_VALUE')
    refused(() => stream.fill(odder, 1, { width: 2 }), 'ERR_INVALID_ARG_VALUE')
    stream.fill(odd, 1, { width: 2 }).fill(odder, 1)
    stillWorks(bench, stream)
  })

  test('the device of wrapped memory is that of the memory, whatever is current', async (context) => {
    const on = secondDevice(bench)
    if (on === undefined) return context.skip(ONE_DEVICE)
    using stream = on.createStream()
    using theirs = on.alloc(32, { stream })
    await stream.finished()
    for (const current of [device, on]) {
      const wrapped = current.run(() => DeviceBuffer.from(theirs.pointer, 32))
      assert.equal(wrapped.device, on)
      wrapped.close()
    }
    assert.ok(Device.count() >= 1)
  })

  test('the owner of wrapped memory is let go by close()', async () => {
    using theirs = device.alloc(32)
    let wrapped: DeviceBuffer | undefined
    const weak = (() => {
      const owner = { theirs: true }
      wrapped = DeviceBuffer.from(theirs.pointer, 32, { device, owner })
      return new WeakRef(owner)
    })()
    assert.equal(await collectUntil(() => weak.deref() === undefined), false)
    assert.equal(wrapped?.owner, weak.deref())
    wrapped?.close()
    assert.equal(await collectUntil(() => weak.deref() === undefined), true)
  })
})
