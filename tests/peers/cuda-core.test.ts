/** What cuda.core’s tests ask of streams and events, asked of ours. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Event, ExternalStream, Stream } from 'cuda-streams'
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
    for (const wrong of ['invalid', 1, 1n, null, undefined, {}]) {
      refused(() => stream.wait(wrong as never), 'ERR_INVALID_ARG_TYPE', /an Event, a Stream/)
    }
    stillWorks(bench, stream)
  })

  test('a subclass is a stream, made, wrapped and current', () => {
    class Named extends Stream {
      readonly purpose = 'mine'
    }
    class NamedExternal extends ExternalStream {
      readonly purpose = 'theirs'
    }
    using mine = new Named({ device })
    using theirs = new NamedExternal(mine.handle, { device })
    assert.equal(Stream.from(mine), mine)
    assert.deepEqual([mine.purpose, theirs.purpose], ['mine', 'theirs'])
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

  test('a thousand streams and events that the program cannot reach are collected', async () => {
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
    using latch = bench.latch(stream)
    using late = stream.record({ timing: true })
    assert.match(refusedByDriver(() => late.elapsedSince(timed), NOT_READY).message, /not complete/)
    latch.open()
    late.synchronize()
    assert.ok(late.elapsedSince(timed) >= 0)
  })

  test('an event recorded again means its latest record, for those who wait from then on', () => {
    using stream = bench.stream()
    using other = bench.stream()
    using event = device.createEvent()
    stream.record(event)
    stream.synchronize()
    using latch = bench.latch(stream)
    other.wait(event)
    assert.equal(event.query(), true)
    stream.record(event)
    assert.equal(event.query(), false)
    other.synchronize()
    other.wait(event)
    assert.equal(other.query(), false)
    latch.open()
    other.synchronize()
    assert.equal(event.query(), true)
  })

  test('promises outlive the stream and the event that they were asked of', async () => {
    const order: number[] = []
    using blocker = bench.stream()
    using latch = bench.latch(blocker)
    const finished: Promise<unknown>[] = []
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
    latch.open()
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
    using wrapped = Event.from(event.handle, { device })
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
    using latch = bench.latch(stream)
    stream.launchHostFunc(() => order.push('first'))
    const event = stream.record()
    other.wait(event)
    event.close()
    other.launchHostFunc(() => order.push('second'))
    assert.equal(other.query(), false)
    latch.open()
    other.synchronize()
    assert.deepEqual(order, ['first', 'second'])
  })
})
