/** What PyTorch's tests ask of streams, events and the lifetime of memory across streams, asked of ours. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cudaStream, Device, DeviceBuffer, Event, ExternalStream, PinnedBuffer, Stream } from 'cuda-streams'
import { collectUntil, ONE_DEVICE, refused, secondDevice, stillWorks } from '../conformance/expect.js'
import { onEveryBackend } from '../helpers/suite.js'

const A_WHILE = 20_000_000

onEveryBackend('PyTorch streams', (bench) => {
  const { device } = bench

  test('the default stream has handle 0, any other has not, and both are done when idle', () => {
    using stream = bench.stream()
    assert.equal(Stream.current(device), device.defaultStream)
    assert.equal(device.defaultStream.handle, 0n)
    assert.notEqual(stream.handle, 0n)
    stream.run(() => assert.equal(Stream.current(device), stream))
    assert.equal(stream.query(), true)
    device.defaultStream.synchronize()
    assert.equal(device.defaultStream.query(), true)
  })

  test('streams and events print what they are, recorded or not', () => {
    using stream = bench.stream()
    using event = device.createEvent()
    using wrapped = Stream.from(stream.handle, { device })
    assert.match(`${stream}`, /^Stream\(0x[0-9a-f]+, Device\(0/)
    assert.match(`${wrapped}`, /^ExternalStream\(0x/)
    assert.match(`${event}`, /^Event\(/)
    stream.record(event)
    assert.match(`${event}`, /^Event\(/)
    stream.close()
    assert.match(`${stream}`, /closed/)
  })

  test('a wrapper answers the stream protocol as the stream does', () => {
    using stream = bench.stream()
    using wrapped = new ExternalStream(stream[cudaStream]()[1], { device })
    assert.deepEqual(wrapped[cudaStream](), stream[cudaStream]())
  })

  test('events: done until recorded, not done while work is pending, then with a time', async () => {
    using stream = bench.stream()
    using start = device.createEvent({ timing: true })
    using end = device.createEvent({ timing: true })
    assert.equal(end.query(), true)
    assert.notEqual(end.handle, 0n)
    stream.record(start)
    bench.busy(stream, A_WHILE)
    stream.record(end)
    assert.equal(end.query(), false)
    end.synchronize()
    assert.equal(end.query(), true)
    assert.ok(end.elapsedSince(start) > 0)
  })

  test('current, default and new streams are those of the device named, or of the current one', (context) => {
    const other = secondDevice(bench)
    if (other === undefined) return context.skip(ONE_DEVICE)
    for (const on of [device, other]) {
      on.run(() => {
        assert.deepEqual([Stream.current().device, Stream.null.device, Stream.perThread.device], [on, on, on])
        assert.equal(Stream.current(), Stream.null)
        using stream = new Stream()
        using event = new Event()
        using recorded = stream.record()
        assert.deepEqual([stream.device, event.device, recorded.device], [on, on, on])
      })
      assert.equal(Stream.current(on), on.defaultStream)
    }
    assert.ok(!device.defaultStream.equals(other.defaultStream))
    assert.equal(device.defaultStream.handle, other.defaultStream.handle)
    assert.notEqual(device.defaultStream.valueOf(), other.defaultStream.valueOf())
    for (const wrong of ['cpu', 'cuda', {}, 1.5]) {
      refused(() => Stream.current(wrong as never), 'ERR_INVALID_ARG_TYPE', /device/)
      refused(() => new Stream({ device: wrong as never }), 'ERR_INVALID_ARG_TYPE', /device/)
    }
  })

  test('blocks of streams of two devices nest', (context) => {
    const other = secondDevice(bench)
    if (other === undefined) return context.skip(ONE_DEVICE)
    using there = other.createStream()
    using here = bench.stream()
    device.run(() => {
      there.run(() => {
        assert.deepEqual([Stream.current(other), Stream.current(device)], [there, device.defaultStream])
        here.run(() => {
          assert.deepEqual([Stream.current(other), Stream.current(device)], [there, here])
          device.defaultStream.run(() => assert.equal(Stream.current(), device.defaultStream))
          assert.equal(Stream.current(), here)
        })
        assert.equal(Stream.current(other), there)
      })
      assert.deepEqual([Stream.current(other), Stream.current(device)], [other.defaultStream, device.defaultStream])
      assert.equal(Device.current, device)
    })
  })

  test('query() and synchronize() mean the stream, whichever device is current', (context) => {
    const other = secondDevice(bench)
    if (other === undefined) return context.skip(ONE_DEVICE)
    using idle = bench.stream()
    using busy = other.createStream()
    using before = idle.record()
    idle.synchronize()
    const latch = bench.latch(busy)
    try {
      using after = busy.record()
      const answers = (): boolean[] => [idle.query(), busy.query(), before.query(), after.query()]
      for (const on of [device, other]) assert.deepEqual(on.run(answers), [true, false, true, false])
      latch.open()
      device.run(() => after.synchronize())
      for (const on of [device, other]) assert.deepEqual(on.run(answers), [true, true, true, true])
    } finally {
      latch.open()
    }
  })

  test('a wait on one device holds for work of another', (context) => {
    const other = secondDevice(bench)
    if (other === undefined) return context.skip(ONE_DEVICE)
    using first = bench.stream()
    using second = other.createStream()
    const latch = bench.latch(first)
    try {
      using event = first.record()
      assert.deepEqual([first.query(), second.query()], [false, true])
      second.wait(event)
      assert.equal(second.query(), false)
      latch.open()
      second.synchronize()
      assert.deepEqual([event.query(), first.query(), second.query()], [true, true, true])
    } finally {
      latch.open()
    }
  })

  test('time between events of one device can be asked while another is current, between two devices not', (context) => {
    const other = secondDevice(bench)
    if (other === undefined) return context.skip(ONE_DEVICE)
    using first = bench.stream()
    using second = other.createStream()
    using start = first.record({ timing: true })
    bench.busy(first, A_WHILE)
    using end = first.record({ timing: true })
    using there = second.record({ timing: true })
    for (const event of [end, there]) event.synchronize()
    other.run(() => assert.ok(end.elapsedSince(start) > 0))
    for (const on of [device, other]) {
      on.run(() => refused(() => there.elapsedSince(start), 'CUDA_ERROR_INVALID_HANDLE', /device/))
    }
  })

  test('priorities of each device', () => {
    for (const on of bench.devices) {
      const { least, greatest } = on.priorityRange
      using low = on.createStream({ priority: least })
      using high = on.createStream({ priority: greatest })
      assert.deepEqual([low.priority, high.priority], [least, greatest])
      assert.equal(low.device, on)
    }
  })

  test('a foreign stream is found on its own device', () => {
    for (const on of bench.devices) {
      const handle = bench.foreignStream(on)
      for (const options of [{ device: on }, { device: on.ordinal === 0 ? -1 : on }, { device: on }]) {
        using wrapped = device.run(() => new ExternalStream(handle, bench.name === 'sim' ? { device: on } : options))
        assert.equal(wrapped.handle, handle)
        assert.equal(wrapped.device, on)
        stillWorks(bench, wrapped)
      }
      if (on !== device) refused(() => new ExternalStream(handle, { device }), 'ERR_DEVICE_MISMATCH')
      bench.destroyForeignStream(handle)
    }
  })

  for (const how of ['stream.finished()', 'event.finished()', 'event wait'] as const) {
    test(`waits for two devices overlap: ${how}`, async (context) => {
      const other = secondDevice(bench)
      if (other === undefined) return context.skip(ONE_DEVICE)
      const order: string[] = []
      const streams = [bench.stream(), other.createStream()]
      const latches = streams.map((stream) => bench.latch(stream))
      try {
        const waits = streams.map(async (stream, index) => {
          using behind = stream.device.createStream()
          const event = stream.record()
          if (how === 'stream.finished()') await stream.finished()
          else if (how === 'event.finished()') await event.finished()
          else await behind.wait(event).finished()
          order.push(`${index}`)
          event.close()
        })
        latches[1]?.open()
        await waits[1]
        assert.deepEqual(order, ['1'])
        latches[0]?.open()
        await waits[0]
        assert.deepEqual(order, ['1', '0'])
      } finally {
        for (const latch of latches) latch.open()
      }
      for (const stream of streams) stream.close()
    })
  }
})

onEveryBackend('PyTorch memory across streams', (bench) => {
  const { device } = bench

  test('a copy to or from pinned memory does not block, slices included', async () => {
    using stream = bench.stream()
    const size = 1_000_000
    using pinned = device.allocPinned(size)
    using there = device.alloc(size, { stream })
    using base = device.allocPinned(size)
    pinned.bytes.fill(3)
    base.bytes.fill(0)
    const latch = bench.latch(stream)
    try {
      stream.copy(there, pinned)
      stream.copy(base.slice(1, size - 1), there.slice(0, size - 1))
      assert.equal(stream.query(), false)
      assert.equal(base.bytes[1], 0)
    } finally {
      latch.open()
    }
    using event = stream.record()
    event.synchronize()
    assert.deepEqual([base.bytes[0], base.bytes[1], base.bytes[size - 1]], [0, 3, 3])
    assert.equal(base.bytes.indexOf(0, 1), -1)
  })

  test('a download is a copy of its own, there when its promise is done', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(1000, { stream })
    stream.fill(buffer, 1)
    const first = stream.download(buffer)
    stream.fill(buffer, 2)
    const second = stream.download(buffer)
    buffer.close()
    assert.deepEqual([(await first)[999], (await second)[999]], [1, 2])
  })

  for (const kind of ['whole', 'slice'] as const) {
    test(`memory closed while another stream uses it is not used again before that is over: ${kind}`, async () => {
      using home = bench.stream()
      using user = bench.stream()
      using result = device.allocPinned(64)
      const memory = device.alloc(64, { stream: home })
      home.fill(memory, 1)
      user.wait(home)
      const latch = bench.latch(user)
      try {
        if (kind === 'whole') user.copy(result, memory)
        else user.copy(result.slice(32, 32), memory.slice(32, 32))
        memory.close()
        // The same memory again, or other memory: either way its bytes come after the copy.
        using next = device.alloc(64, { stream: home })
        home.fill(next, 2)
        latch.open()
        await device.finished()
        assert.deepEqual([...(await home.download(next))], Array(64).fill(2))
      } finally {
        latch.open()
      }
      assert.deepEqual([...result.bytes.subarray(32)], Array(32).fill(1))
    })

    test(`pinned memory closed while a copy is pending is not used again before: ${kind}`, async () => {
      for (const on of bench.devices) {
        using stream = on.createStream()
        using there = on.alloc(64, { stream })
        using later = on.alloc(64, { stream })
        await stream.finished()
        const latch = bench.latch(stream)
        try {
          const pinned = on.allocPinned(64)
          pinned.bytes.fill(1)
          if (kind === 'whole') stream.copy(there, pinned)
          else stream.copy(there.slice(0, 32), pinned.slice(0, 32)).copy(there.slice(32, 32), pinned.slice(32, 32))
          pinned.close()
          using again = on.allocPinned(64)
          again.bytes.fill(2)
          stream.copy(later, again)
          latch.open()
          assert.deepEqual([...(await stream.download(there))], Array(64).fill(1))
          assert.deepEqual([...(await stream.download(later))], Array(64).fill(2))
        } finally {
          latch.open()
        }
      }
    })
  }

  test('memory that nobody holds any more is freed after the work that uses it', async () => {
    using home = bench.stream()
    using user = bench.stream()
    using result = device.allocPinned(64)
    const latch = bench.latch(user)
    try {
      const weak = (() => {
        const memory = device.alloc(64, { stream: home })
        home.fill(memory, 1)
        user.wait(home)
        user.copy(result, memory)
        return new WeakRef(memory)
      })()
      assert.ok(await collectUntil(() => weak.deref() === undefined))
      using next = device.alloc(64, { stream: home })
      home.fill(next, 2)
      latch.open()
      await device.finished()
      assert.deepEqual([...(await home.download(next))], Array(64).fill(2))
    } finally {
      latch.open()
    }
    assert.deepEqual([...result.bytes], Array(64).fill(1))
  })

  test('memory that a second stream uses goes round: far more than there is, one piece after the other', async (context) => {
    if (bench.name === 'sim') return context.skip('bytes that are touched here are bytes of the host')
    using home = bench.stream()
    using user = bench.stream()
    const piece = 8 * 2 ** 30
    for (let round = 0; round < 100; round += 1) {
      using memory = device.alloc(piece, { stream: home })
      const part = memory.slice(0, 64)
      home.fill(part, round)
      user.wait(home)
      user.fill(part, round + 1)
    }
    await device.finished()
  })

  test('copies between streams of two devices keep to the stream that makes them', async (context) => {
    const other = secondDevice(bench)
    if (other === undefined) return context.skip(ONE_DEVICE)
    using here = bench.stream()
    using there = other.createStream()
    using x = device.alloc(256, { stream: here })
    using more = device.alloc(256, { stream: here })
    using y = other.alloc(256, { stream: there })
    here.fill(x, 5).fill(more, 6)
    await here.finished()
    await there.finished()
    const latch = bench.latch(here)
    try {
      using slow = here.record()
      there.wait(slow).copy(y, more)
      there.copy(y, x)
    } finally {
      latch.open()
    }
    assert.deepEqual(new Set(await there.download(y)), new Set([5]))
  })

  test('buffers are what they say', () => {
    using memory = device.alloc(8)
    using pinned = device.allocPinned(8)
    assert.ok(memory instanceof DeviceBuffer && pinned instanceof PinnedBuffer)
    assert.ok(memory.slice(0, 4) instanceof DeviceBuffer && pinned.slice(0, 4) instanceof PinnedBuffer)
  })
})
