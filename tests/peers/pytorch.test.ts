/** What PyTorch’s tests ask of streams and events, asked of ours. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cudaStream, Device, Event, ExternalStream, Stream } from 'cuda-streams'
import { ONE_DEVICE, refused, secondDevice, stillWorks } from '../conformance/expect.js'
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
    assert.match(`${stream}`, /^Stream\(0x[0-9a-f]+, stream \d+, Device\(0/)
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
      assert.equal(Device.current(), device)
    })
  })

  test('query() and synchronize() mean the stream, whichever device is current', (context) => {
    const other = secondDevice(bench)
    if (other === undefined) return context.skip(ONE_DEVICE)
    using idle = bench.stream()
    using busy = other.createStream()
    using before = idle.record()
    idle.synchronize()
    using latch = bench.latch(busy)
    using after = busy.record()
    const answers = (): boolean[] => [idle.query(), busy.query(), before.query(), after.query()]
    for (const on of [device, other]) assert.deepEqual(on.run(answers), [true, false, true, false])
    latch.open()
    device.run(() => after.synchronize())
    for (const on of [device, other]) assert.deepEqual(on.run(answers), [true, true, true, true])
  })

  test('a wait on one device holds for work of another', (context) => {
    const other = secondDevice(bench)
    if (other === undefined) return context.skip(ONE_DEVICE)
    using first = bench.stream()
    using second = other.createStream()
    using latch = bench.latch(first)
    using event = first.record()
    assert.deepEqual([first.query(), second.query()], [false, true])
    second.wait(event)
    assert.equal(second.query(), false)
    latch.open()
    second.synchronize()
    assert.deepEqual([event.query(), first.query(), second.query()], [true, true, true])
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
      for (const options of [{ device: on }, { device: -1 }, {}]) {
        using wrapped = device.run(() => new ExternalStream(handle, options))
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
      const [here, there] = [bench.stream(), other.createStream()]
      const streams = [here, there]
      using first = bench.latch(here)
      using second = bench.latch(there)
      const waits = streams.map(async (stream, index) => {
        using behind = stream.device.createStream()
        const event = stream.record()
        if (how === 'stream.finished()') await stream.finished()
        else if (how === 'event.finished()') await event.finished()
        else await behind.wait(event).finished()
        order.push(`${index}`)
        event.close()
      })
      second.open()
      await waits[1]
      assert.deepEqual(order, ['1'])
      first.open()
      await waits[0]
      assert.deepEqual(order, ['1', '0'])
      for (const stream of streams) stream.close()
    })
  }
})
