/** N1 and O1 to O5: records and waits, in one stream and across streams. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Device, Event, ExternalStream, Stream } from 'cuda-streams'
import { latch, simulate } from 'cuda-streams/sim'
import { onEveryBackend } from '../helpers/suite.js'
import { ONE_DEVICE, refused, refusedByDriver, secondDevice, stillWorks, turns, until } from './expect.js'

onEveryBackend('ordering', (bench) => {
  const { device } = bench

  test('N1 a wait on a blocking stream is not held up by the null stream; what follows it there is', async () => {
    using blocking = bench.stream({ nonBlocking: false })
    using other = bench.stream()
    const { defaultStream } = device
    await device.finished()
    using first = bench.latch(other)
    using event = other.record()
    using second = bench.latch(defaultStream)
    blocking.wait(event)
    assert.equal(blocking.query(), false)
    first.open()
    await other.finished()
    await until(() => blocking.query())
    using after = blocking.record()
    assert.equal(after.query(), false)
    second.open()
    await device.finished()
  })

  for (const [what, record] of [
    ['a record without timing', () => void device.defaultStream.record()],
    ['a timed record', () => void device.defaultStream.record({ timing: true })],
    ['the promise of finished()', () => void device.defaultStream.finished()],
  ] as const) {
    test(`N1 on the null stream ${what} joins the blocking streams`, async () => {
      using left = bench.stream({ nonBlocking: false })
      using right = bench.stream({ nonBlocking: false })
      using free = bench.stream()
      await device.finished()
      using latch = bench.latch(left)
      using before = right.record()
      await before.finished()
      record()
      assert.equal(right.query(), true)
      using after = right.record()
      using beside = free.record()
      await beside.finished()
      await turns()
      assert.equal(after.query(), false)
      latch.open()
      await after.finished()
      await device.finished()
    })
  }

  test('O1 record() makes an event without timing unless asked', () => {
    using stream = bench.stream()
    using plain = stream.record()
    using timed = stream.record({ timing: true })
    using blocking = stream.record(undefined, { blockingSync: true })
    assert.deepEqual([plain.timing, plain.blockingSync, plain.interprocess], [false, false, false])
    assert.deepEqual([timed.timing, timed.blockingSync], [true, false])
    assert.deepEqual([blocking.timing, blocking.blockingSync], [false, true])
    for (const event of [plain, timed, blocking]) assert.equal(event.device, device)
    assert.equal(stream.record(plain), plain)
    assert.equal(timed.record(stream), timed)
    assert.equal(device.createEvent().timing, false)
    assert.equal(new Event({ device, timing: true }).timing, true)
    stream.synchronize()
  })

  test('O1 recording again does not hold a wait for an earlier record', async () => {
    using stream = bench.stream()
    using waiting = bench.stream()
    using event = stream.record()
    await event.finished()
    waiting.wait(event)
    using latch = bench.latch(stream)
    event.record(stream)
    assert.equal(event.query(), false)
    await waiting.finished()
    assert.equal(event.query(), false)
    latch.open()
    await event.finished()
  })

  test('O1 recording again does not release a wait for an earlier record', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using waiting = bench.stream()
    using latch = bench.latch(stream)
    using event = stream.record()
    waiting.wait(event)
    event.record(other)
    await event.finished()
    await turns()
    assert.equal(waiting.query(), false)
    latch.open()
    await waiting.finished()
  })

  test('O1 a wait is for what was queued before the record, not after', async () => {
    using stream = bench.stream()
    using waiting = bench.stream()
    bench.busy(stream, 50_000)
    const event = stream.record()
    using latch = bench.latch(stream)
    waiting.wait(event)
    await waiting.finished()
    assert.equal(event.query(), true)
    assert.equal(stream.query(), false)
    latch.open()
    await stream.finished()
  })

  test('O1 an event carries the order on, through as many streams as there are', async () => {
    using first = bench.stream()
    using second = bench.stream()
    using third = bench.stream()
    using latch = bench.latch(first)
    const one = first.record()
    const two = second.wait(one).record()
    third.wait(two)
    await turns()
    assert.equal(second.query(), false)
    assert.equal(third.query(), false)
    latch.open()
    await third.finished()
    assert.deepEqual([one.query(), two.query()], [true, true])
  })

  test('O2 waiting for an event that was never recorded is no wait', async () => {
    using stream = bench.stream()
    using event = device.createEvent()
    assert.equal(event.query(), true)
    event.synchronize()
    await event.finished()
    assert.equal(stream.wait(event), stream)
    assert.equal(event.wait(stream), event)
    await stream.finished()
    stream.synchronize()
    assert.equal(event.query(), true)
  })

  test('O2 a record after the wait does not make it one', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using event = device.createEvent()
    stream.wait(event)
    using latch = bench.latch(other)
    other.record(event)
    await stream.finished()
    assert.equal(event.query(), false)
    latch.open()
    await other.finished()
  })

  test('O3 recording an event on a stream of another device is ERR_DEVICE_MISMATCH', (t) => {
    const other = secondDevice(bench)
    if (other === undefined) return t.skip(ONE_DEVICE)
    using stream = bench.stream()
    using theirs = other.createStream()
    using event = other.createEvent()
    const says = [/Device\(0/, /Device\(1/, new RegExp(event.handle.toString(16))]
    refused(() => stream.record(event), 'ERR_DEVICE_MISMATCH', ...says, /record\(\) without an event makes one/)
    refused(() => event.record(stream), 'ERR_DEVICE_MISMATCH', ...says)
    refused(() => stream.wait(stream, { event }), 'ERR_DEVICE_MISMATCH', ...says)
    assert.equal(event.query(), true)
    stillWorks(bench, stream)
    stillWorks(bench, theirs)
    theirs.record(event).synchronize()
  })

  test('O3 waiting for an event or a stream of another device is fine', async (t) => {
    const other = secondDevice(bench)
    if (other === undefined) return t.skip(ONE_DEVICE)
    using stream = bench.stream()
    using second = bench.stream()
    using theirs = other.createStream()
    using latch = bench.latch(theirs)
    stream.wait(theirs.record())
    second.wait(theirs)
    await turns()
    assert.equal(stream.query(), false)
    assert.equal(second.query(), false)
    latch.open()
    await stream.finished()
    await second.finished()
  })

  test('O3 an event of another driver is refused, whatever it is for', () => {
    using simulation = simulate()
    const [elsewhere] = simulation.devices
    assert.ok(elsewhere)
    using stream = bench.stream()
    using theirs = elsewhere.createStream()
    using event = theirs.record()
    const another = bench.name === 'sim' ? /another simulation/ : /another driver/
    refused(() => stream.record(event), 'ERR_DEVICE_MISMATCH', /Event\(0x/, /Stream\(0x/, another)
    refused(() => stream.wait(event), 'ERR_DEVICE_MISMATCH', /Event\(0x/, another)
    refused(() => stream.wait(theirs), 'ERR_DEVICE_MISMATCH', /Stream\(0x/, another, /await its finished\(\) instead$/)
    refused(() => theirs.wait(stream), 'ERR_DEVICE_MISMATCH', /Stream\(0x/, another)
    refused(() => Stream.from(theirs, { device }), 'ERR_DEVICE_MISMATCH', another)
    refused(() => device.createStream({ device: elsewhere }), 'ERR_DEVICE_MISMATCH', another)
    refused(() => device.alloc(8, { stream: theirs }), 'ERR_DEVICE_MISMATCH', another)
    stillWorks(bench, stream)
    theirs.synchronize()
  })

  test('O4 a stream may wait for itself', async () => {
    using stream = bench.stream()
    using event = device.createEvent()
    using latch = bench.latch(stream)
    assert.equal(stream.wait(stream), stream)
    assert.equal(stream.wait(stream, { event }), stream)
    assert.equal(stream.wait(stream.record()), stream)
    latch.open()
    await stream.finished()
    stillWorks(bench, stream)
  })

  test('O4 waiting for a stream is waiting for what it holds now', async () => {
    using stream = bench.stream()
    using early = bench.stream()
    using late = bench.stream()
    early.wait(stream)
    using latch = bench.latch(stream)
    assert.equal(late.wait(stream), late)
    await early.finished()
    await turns()
    assert.equal(late.query(), false)
    latch.open()
    await late.finished()
  })

  test('O4 the event given for a wait is the one that is recorded', async () => {
    using stream = bench.stream()
    using waiting = bench.stream()
    using event = device.createEvent()
    using latch = bench.latch(stream)
    waiting.wait(stream, { event })
    await turns()
    assert.equal(event.query(), false)
    assert.equal(waiting.query(), false)
    latch.open()
    await event.finished()
    await waiting.finished()
  })

  test('O4 two streams may wait for each other, since each waits for what is queued', async () => {
    using a = bench.stream()
    using b = bench.stream()
    for (let round = 0; round < 10; round += 1) {
      bench.busy(a, 1000)
      b.wait(a)
      bench.busy(b, 1000)
      a.wait(b)
    }
    await Promise.all([a.finished(), b.finished()])
  })

  test('O4 waiting for what is neither an event nor a stream is ERR_INVALID_ARG_TYPE', () => {
    using stream = bench.stream()
    const wait = (target: unknown, options?: unknown): unknown => stream.wait(target as Stream, options as object)
    for (const [target, said] of [
      ['x', /'x'/],
      [undefined, /undefined/],
      [null, /null/],
      [{}, /\{\}/],
      [() => {}, /function/],
    ] as const) {
      refused(() => wait(target), 'ERR_INVALID_ARG_TYPE', /an Event/, /Stream/, said)
    }
    using other = bench.stream()
    for (const handle of [other.handle, Number(other.handle), 0n, 0]) {
      refused(() => wait(handle), 'ERR_INVALID_ARG_TYPE', /wrap/, new RegExp(String(handle)))
    }
    refused(() => wait(other, 5), 'ERR_INVALID_ARG_TYPE', /options/)
    refused(() => wait(other, { event: 'x' }), 'ERR_INVALID_ARG_TYPE', /options\.event/, /an Event/, /'x'/)
    refused(() => wait(other, { event: other }), 'ERR_INVALID_ARG_TYPE', /options\.event/)
    refused(() => wait(other, { external: 'yes' }), 'ERR_INVALID_ARG_TYPE', /options\.external/, /'yes'/)
    refused(() => wait(other.record(), { external: 1 }), 'ERR_INVALID_ARG_TYPE', /options\.external/)
    stillWorks(bench, stream)
    stillWorks(bench, other)
  })

  test('O4 recording on what is no stream, or into what is no event, is ERR_INVALID_ARG_TYPE', () => {
    using stream = bench.stream()
    using event = device.createEvent()
    for (const wrong of ['x', 5, null, stream.handle]) {
      refused(() => event.record(wrong as unknown as Stream), 'ERR_INVALID_ARG_TYPE', /a Stream/)
      refused(() => event.wait(wrong as unknown as Stream), 'ERR_INVALID_ARG_TYPE', /a Stream/)
      refused(() => stream.record(wrong as unknown as Event), 'ERR_INVALID_ARG_TYPE')
    }
    assert.equal(event.query(), true)
    stillWorks(bench, stream)
  })

  test('O5 external changes nothing outside of a capture', async () => {
    using stream = bench.stream()
    using waiting = bench.stream()
    using alsoWaiting = bench.stream()
    using given = device.createEvent()
    using latch = bench.latch(stream)
    const external = { external: true }
    const made = stream.record(external)
    assert.equal(stream.record(given, external), given)
    assert.equal(given.record(stream, external), given)
    waiting.wait(made, external)
    given.wait(waiting, external)
    alsoWaiting.wait(stream, external)
    await turns()
    const open = [made.query(), given.query(), waiting.query(), alsoWaiting.query()]
    assert.deepEqual(open, [false, false, false, false])
    latch.open()
    await Promise.all([made.finished(), given.finished(), waiting.finished(), alsoWaiting.finished()])
  })

  test('O1 a latch that is opened before its stream comes to it holds nothing', async () => {
    using stream = bench.stream()
    let ran = false
    stream.launchHostFunc(() => {
      ran = true
    })
    bench.latch(stream).open()
    await stream.finished()
    assert.equal(ran, true)
  })

  test('O5 external on a default stream changes nothing either', () => {
    using event = device.createEvent()
    for (const stream of [device.defaultStream, device.run(() => Stream.perThread)]) {
      stream.record(event, { external: true })
      stream.wait(event, { external: true })
      stream.synchronize()
      assert.equal(event.query(), true)
    }
  })
})

onEveryBackend('waiting for a stream with options', (bench) => {
  const { device } = bench

  test('O5 external means nothing outside of a capture, and leaves the event that the stream keeps alone', () => {
    using stream = bench.stream()
    using other = bench.stream()
    other.record(other.cachedEvent)
    other.synchronize()
    using held = bench.latch(other)
    for (const external of [true, false]) stream.wait(other, { external })
    assert.equal(other.cachedEvent.query(), true)
    assert.equal(stream.query(), false)
    held.open()
    stream.synchronize()
  })

  test('O4 a wait that is refused has recorded nothing', () => {
    const [elsewhere] = simulate().devices
    assert.ok(elsewhere)
    using stream = bench.stream()
    const other = elsewhere.createStream()
    const event = elsewhere.createEvent()
    const held = latch(other)
    refused(() => stream.wait(other, { event }), 'ERR_DEVICE_MISMATCH')
    assert.equal(event.query(), true)
    held.open()
    assert.equal(device.driver, bench.name)
  })

  test('O8 waiting for a device waits for the work of all its streams, also of other libraries, and for none of later', async () => {
    using first = bench.stream()
    using blocking = bench.stream({ nonBlocking: false })
    using waiting = bench.stream()
    const handle = bench.foreignStream(bench.device)
    const foreign = new ExternalStream(handle, { device: bench.device })
    const held = [first, blocking, foreign].map((stream) => bench.latch(stream))
    assert.equal(waiting.wait(bench.device), waiting)
    using after = waiting.record()
    for (const [index, latch] of held.entries()) {
      assert.equal(after.query(), false, `after ${index} of them`)
      latch.open()
      if (index < held.length - 1) await turns(5)
    }
    await after.finished()
    using later = bench.latch(first)
    assert.equal(waiting.query(), true)
    later.open()
    foreign.close()
    bench.destroyForeignStream(handle)
  })

  test('O8 a device of another driver is refused, and a capture there is left as it is: 900', () => {
    using simulation = simulate()
    using stream = bench.stream()
    using other = bench.stream()
    refused(() => stream.wait(simulation.devices[0] as Device), 'ERR_DEVICE_MISMATCH', /simulation|driver/)
    refused(() => stream.wait(...([bench.device, { external: true }] as unknown as [Device])), 'ERR_INVALID_ARG_VALUE')
    other.beginCapture('relaxed')
    refusedByDriver(() => stream.wait(bench.device), 900)
    refusedByDriver(() => other.wait(bench.device), 900)
    other.endCapture().close()
    stream.wait(bench.device)
    stillWorks(bench, stream)
  })

  test('O8 inside a host function a wait behind it is ERR_DEADLOCK', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    let code: unknown
    stream.launchHostFunc(() => {
      other.wait(bench.device)
      try {
        other.synchronize()
      } catch (error) {
        code = (error as { readonly code?: unknown }).code
      }
    })
    await stream.finished()
    assert.equal(code, 'ERR_DEADLOCK')
    await other.finished()
  })
})
