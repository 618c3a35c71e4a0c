/**
 * C5 what the library does beside a capture, or with events of one, leaves the capture alone and keeps its promises. Each of
 * these was found by random programs on a GPU (docs/differential.md).
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ExternalStream, type Stream } from 'cuda-streams'
import { Timeline } from 'cuda-streams/timeline'
import { onEveryBackend } from '../helpers/suite.js'
import { checkCudaError, follow, ONE_DEVICE, refusedByDriver, secondDevice, stillWorks, turns } from './expect.js'

const MODES = ['global', 'threadLocal', 'relaxed'] as const

onEveryBackend('beside a capture', (bench) => {
  const { device } = bench
  const working = (options = {}) => {
    const stream = bench.stream(options)
    stillWorks(bench, stream)
    return stream
  }

  for (const mode of MODES) {
    test(`records and waits are captured while host functions are pending: ${mode}`, async () => {
      using held = working()
      using blocking = working({ nonBlocking: false })
      using stream = working()
      using joined = working()
      let ran = 0
      const latch = bench.latch(held)
      for (const each of [held, blocking, device.defaultStream]) {
        each.launchHostFunc(() => {
          ran += 1
        })
      }
      stream.beginCapture(mode)
      const event = stream.record()
      joined.wait(event)
      joined.wait(joined)
      stream.wait(joined)
      stream.launchHostFunc(() => {})
      const graph = stream.endCapture()
      assert.equal(graph.nodeCount, 1)
      latch.open()
      await device.finished()
      assert.equal(ran, 3)
    })

    test(`closing buffers, instances, events and streams spoils nothing: ${mode}`, async () => {
      using stream = working()
      const other = working()
      const onNull = device.alloc(1024, { stream: device.defaultStream })
      const onOther = device.alloc(1024, { stream: other })
      const used = device.alloc(1024, { stream: other })
      stream.fill(used, 1)
      const graph = other.capture(() => bench.busy(other, 1000))
      const exec = graph.instantiate()
      const event = other.record()
      other.synchronize()
      stream.beginCapture(mode)
      bench.busy(stream, 1000)
      for (const closable of [onNull, onOther, used, exec, graph, event, other]) closable.close()
      const more = device.alloc(1024, { stream: device.defaultStream })
      more.close()
      using captured = stream.endCapture()
      assert.equal(captured.nodeCount, 1)
      await device.finished()
    })

    test(`memory whose home was closed while it captured is freed later, and spoils nothing: ${mode}`, async () => {
      for (const order of ['buffer, home', 'home, buffer', 'home, capture, buffer', 'buffer, capture, home'] as const) {
        for (const joins of [false, true]) {
          using origin = working()
          using stream = working()
          using other = working()
          const home = joins ? working() : origin
          const buffer = device.alloc(1024, { stream: home })
          origin.beginCapture('relaxed')
          if (joins) home.wait(origin)
          for (const step of order.split(', ')) {
            if (step === 'buffer') buffer.close()
            else if (step === 'home') home.close()
            else stream.beginCapture(mode)
          }
          if (!stream.isCapturing) stream.beginCapture(mode)
          other.beginCapture('relaxed')
          if (joins) origin.endCapture().close()
          await turns()
          const name = `${order}, ${joins}`
          stream.fill(device.alloc(1024, { stream: device.defaultStream }), 1)
          assert.equal(stream.endCapture().nodeCount, 1, name)
          assert.equal(other.endCapture().nodeCount, 0, name)
        }
      }
      await device.finished()
    })

    test(`a stream that has begun a capture says of itself what it ever does: ${mode}`, () => {
      const aboutItself = ({ id, priority, nonBlocking }: Stream) => ({ id, priority, nonBlocking })
      for (const nonBlocking of [true, false]) {
        using stream = bench.stream({ nonBlocking })
        using other = bench.stream()
        other.beginCapture(mode)
        stream.beginCapture(mode)
        const told = aboutItself(stream)
        assert.equal(stream.share().id, told.id)
        refusedByDriver(() => stream.beginCapture(mode), 401)
        stream.endCapture().close()
        other.endCapture().close()
        assert.deepEqual(told, aboutItself(new ExternalStream(stream)))
        assert.equal(told.nonBlocking, nonBlocking)
      }
    })

    test(`a recording that is stopped waits for what was recorded, and spoils nothing: ${mode}`, async () => {
      using stream = working()
      using held = working()
      using buffer = device.alloc(1024, { stream: held })
      const recording = Timeline.start({ device })
      const latch = bench.latch(held)
      held.fill(buffer, 1)
      stream.beginCapture(mode)
      stream.fill(buffer, 2)
      const stopping = recording.stop()
      const state = follow(stopping)
      await turns()
      assert.equal(state.settled, false)
      latch.open()
      const { operations } = await stopping
      assert.equal(stream.endCapture().nodeCount, 1)
      const fills = operations.filter(({ kind }) => kind === 'fill')
      assert.deepEqual(
        fills.map(({ end }) => end !== undefined),
        [true],
      )
    })

    test(`memory of the null stream can be closed while a blocking stream captures: ${mode}`, async () => {
      using blocking = working({ nonBlocking: false })
      using stream = working()
      const buffer = device.alloc(1024, { stream: device.defaultStream })
      const used = device.alloc(1024, { stream: device.defaultStream })
      stream.fill(used, 1)
      blocking.beginCapture(mode)
      buffer.close()
      used.close()
      device.alloc(1024, { stream }).close()
      assert.equal(blocking.endCapture().nodeCount, 0)
      await device.finished()
    })
  }

  test('another device can be waited for, with host functions pending there and without', async (context) => {
    const second = secondDevice(bench)
    if (second === undefined) return context.skip(ONE_DEVICE)
    using stream = working()
    const there = working({ device: second })
    let ran = 0
    for (const callbacks of [0, 1]) {
      stream.beginCapture()
      for (let index = 0; index < callbacks; index += 1) {
        there.launchHostFunc(() => {
          ran += 1
        })
      }
      second.synchronize()
      await second.finished()
      stream.endCapture().close()
      assert.equal(ran, callbacks)
    }
    there.close()
  })

  test('an event recorded with external is no event of the capture: it can be waited for before and after', async () => {
    using stream = working()
    using event = device.createEvent()
    using graph = stream.capture(() => void stream.record(event, { external: true }))
    await event.finished()
    using exec = graph.instantiate()
    exec.launch(stream)
    await event.finished()
    assert.equal(event.query(), true)
    event.synchronize()
  })

  test('a record that is refused leaves the earlier record in force, for promises too', async () => {
    using stream = working()
    using other = working()
    using event = other.record()
    stream.beginCapture()
    refusedByDriver(() => stream.query(), 900)
    refusedByDriver(() => stream.record(event), 901)
    refusedByDriver(() => stream.endCapture(), 901)
    await event.finished()
    assert.equal(event.query(), true)
  })

  test('a promise for an event of a capture that is over rejects, also where the event is recorded anew at once', async () => {
    using stream = working()
    using event = device.createEvent()
    stream.capture(() => void stream.record(event)).close()
    const promise = event.finished()
    stream.record(event)
    const error = await promise.then(
      () => assert.fail('it was fulfilled'),
      (reason: unknown) => reason,
    )
    checkCudaError(error, 1)
    await event.finished()
  })

  test('an event that is recorded anew while it is waited for keeps the old wait', async () => {
    using first = working()
    using second = working()
    const latch = bench.latch(second)
    using event = first.record()
    const promise = event.finished()
    second.record(event)
    await promise
    latch.open()
    await event.finished()
  })
})
