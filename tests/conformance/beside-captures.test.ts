/**
 * R6 to R8: what the library does beside a capture, or with events of one, leaves the capture alone and keeps its promises. Each of
 * these was found by random programs on a GPU (docs/internals/differential.md).
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Event, ExternalStream, Stream } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { publish, Timeline } from 'cuda-streams/timeline'
import { onEveryBackend } from '../helpers/suite.js'
import {
  checkCudaError,
  collectUntil,
  follow,
  ONE_DEVICE,
  refusedByDriver,
  secondDevice,
  stillWorks,
  turns,
} from './expect.js'

const MIB = 1024 * 1024
const MODES = ['global', 'threadLocal', 'relaxed'] as const

onEveryBackend('beside a capture', (bench) => {
  const { device } = bench
  const working = (options = {}) => {
    const stream = bench.stream(options)
    stillWorks(bench, stream)
    return stream
  }

  for (const mode of MODES) {
    test(`R7 records and waits are captured while host functions are pending: ${mode}`, async () => {
      using held = working()
      using blocking = working({ nonBlocking: false })
      using stream = working()
      using joined = working()
      let ran = 0
      using latch = bench.latch(held)
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

    test(`R7 closing buffers, instances, events and streams invalidates nothing: ${mode}`, async () => {
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

    test(`R5 while a blocking stream captures, memory is allocated on another stream than the null stream: ${mode}`, async () => {
      using blocking = working({ nonBlocking: false })
      using stream = working()
      blocking.beginCapture(mode)
      refusedByDriver(() => device.alloc(1024, { stream: device.defaultStream }), 906)
      device.alloc(1024, { stream }).close()
      // Without a stream the memory is there for each stream that uses it.
      using buffer = device.alloc(1024)
      stream.fill(buffer, 7)
      assert.equal(blocking.endCapture().nodeCount, 0)
      assert.deepEqual(new Set(await stream.download(buffer)), new Set([7]))
    })

    test(`M9 memory whose allocation stream was closed while it captured is freed later, and invalidates nothing: ${mode}`, async () => {
      for (const order of [
        'buffer, allocationStream',
        'allocationStream, buffer',
        'allocationStream, capture, buffer',
        'buffer, capture, allocationStream',
      ] as const) {
        for (const joins of [false, true]) {
          using origin = working()
          using stream = working()
          using other = working()
          const allocationStream = joins ? working() : origin
          const buffer = device.alloc(1024, { stream: allocationStream })
          origin.beginCapture('relaxed')
          if (joins) allocationStream.wait(origin)
          for (const step of order.split(', ')) {
            if (step === 'buffer') buffer.close()
            else if (step === 'allocationStream') allocationStream.close()
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

    test(`R8 a stream that has begun a capture says of itself what it always says: ${mode}`, () => {
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

    test(`R7 a recording that is stopped waits for what was recorded, and invalidates nothing: ${mode}`, async () => {
      using stream = working()
      using held = working()
      using buffer = device.alloc(1024, { stream: held })
      const recording = Timeline.start({ device })
      using latch = bench.latch(held)
      held.fill(buffer, 1)
      stream.beginCapture(mode)
      stream.fill(buffer, 2)
      const stopping = recording.stop()
      const state = follow(stopping)
      await turns()
      const waited = !state.settled
      latch.open()
      const { operations } = await stopping
      assert.ok(waited)
      assert.equal(stream.endCapture().nodeCount, 1)
      const fills = operations.filter(({ kind }) => kind === 'fill')
      assert.deepEqual(
        fills.map(({ end }) => end !== undefined),
        [true],
      )
    })

    test(`R7 memory of the null stream can be closed while a blocking stream captures: ${mode}`, async () => {
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

  /** What the library does on its own account, each with what must be there before: on a stream beside the capture. */
  const doings: Readonly<Record<string, (other: Stream) => () => unknown>> = {
    'uploads and downloads': (other) => async () => {
      using buffer = device.alloc(20 * MIB, { stream: other })
      const bytes = new Uint8Array(20 * MIB).fill(3)
      const sending = other.upload(buffer, bytes)
      const received = await other.download(buffer)
      await sending
      assert.equal(Buffer.compare(received, bytes), 0)
    },
    'memory that is closed while it is used, and used again': (other) => async () => {
      for (let round = 0; round < 3; round += 1) {
        const buffer = device.alloc(4096, { stream: other })
        const pinned = device.allocPinned(4096)
        const open = device.alloc(4096, { interprocess: true })
        other.copy(buffer, pinned)
        using reader = bench.stream()
        reader.copy(open, buffer)
        for (const closable of [pinned, buffer, open]) closable.close()
        await Promise.all([other.finished(), reader.finished()])
      }
    },
    'what the garbage collector finds': (other) => {
      const unreachable = garbage(other)
      return async () => {
        for (const reference of garbage(other, false)) unreachable.push(reference)
        // Until the program has waited for it, the simulator may put off the work that uses the memory.
        await other.finished()
        assert.ok(await collectUntil(() => unreachable.every((reference) => reference.deref() === undefined)))
        device.allocPinned(4096).close()
      }
    },
    'promises and host functions': (other) => {
      // It is opened in the function that is returned, when the capture has begun.
      const latch = bench.latch(other)
      const before = [other.finished(), other.record().finished()]
      let ran = 0
      const run = (): void => {
        ran += 1
      }
      other.launchHostFunc(run)
      return async () => {
        other.launchHostFunc(run)
        const event = other.record()
        const waits = [...before, other.finished(), event.finished()]
        await turns()
        other.record(event)
        event.close()
        latch.open()
        await Promise.all(waits)
        assert.equal(ran, 2)
      }
    },
    'a recording': (other) => async () => {
      using buffer = device.alloc(4096, { stream: other })
      const { operations } = await Timeline.record(() => other.fill(buffer, 1), { device })
      assert.equal(operations.filter(({ kind }) => kind === 'fill').length, 1)
    },
    'a recording that began before, and its publisher': (other) => {
      const recording = Timeline.start({ device })
      const publisher = publish({ device })
      const buffer = device.alloc(4096, { stream: other })
      other.fill(buffer, 1)
      return async () => {
        buffer.close()
        other.launchHostFunc(() => {})
        await other.finished()
        publisher.flush()
        publisher.close()
        await recording.stop()
      }
    },
    'the sanitizer': (other) => {
      const sanitizer = Sanitizer.start({ device })
      const buffer = device.alloc(4096, { stream: other })
      return async () => {
        other.fill(buffer, 1)
        sanitizer.stop()
        using later = Sanitizer.start({ device })
        other.fill(buffer, 2)
        buffer.close()
        await other.finished()
        assert.deepEqual([...sanitizer.reports, ...later.reports], [])
      }
    },
    'what is shared with other threads, and wrapped': (other) => {
      const handle = bench.foreignStream(device)
      return () => {
        using buffer = device.alloc(4096, { stream: other })
        using event = other.record()
        for (const shared of [other.share(), event.share(), buffer.share()]) assert.equal(shared.device, device.ordinal)
        assert.equal(Stream.from(other.share()), other)
        new ExternalStream(other).wait(event).close()
        new ExternalStream(handle, { device }).wait(event).close()
        Event.from(event.handle, { device }).close()
        bench.destroyForeignStream(handle)
      }
    },
    'memory of another device': (other) => () => {
      const there = secondDevice(bench)
      if (there === undefined) return
      using stream = bench.stream({ device: there })
      using theirs = there.alloc(4096, { stream })
      using ours = device.alloc(4096, { stream: other })
      stream.fill(theirs, 1)
      other.wait(stream).copy(ours, theirs)
      stream.wait(other).copy(theirs, ours)
    },
  }

  /** One of each kind of object, which nobody can reach any more. */
  const garbage = (other: Stream, withGraphs = true): WeakRef<object>[] => {
    const allocationStream = bench.stream()
    const used = device.alloc(4096, { stream: allocationStream })
    other.fill(used, 1)
    const pinned = device.allocPinned(4096)
    other.copy(used, pinned)
    const objects: object[] = [
      allocationStream,
      used,
      pinned,
      allocationStream.record(),
      device.createEvent({ timing: true }),
    ]
    objects.push(device.alloc(4096, { interprocess: true }), new ExternalStream(allocationStream))
    if (withGraphs) {
      const graph = allocationStream.capture(() => allocationStream.fill(used, 2))
      objects.push(graph, graph.instantiate())
    }
    return objects.map((object) => new WeakRef(object))
  }

  for (const [what, prepare] of Object.entries(doings)) {
    test(`R7 a capture is invalidated by nothing that the library does: ${what}`, async () => {
      for (const mode of MODES) {
        for (const nonBlocking of [true, false]) {
          using stream = working({ nonBlocking })
          using other = working()
          using buffer = device.alloc(1024, { stream })
          const act = prepare(other)
          stream.beginCapture(mode)
          stream.fill(buffer, 1)
          await act()
          await turns()
          assert.equal(stream.endCapture().nodeCount, 1, `${mode}, ${nonBlocking ? 'non-blocking' : 'blocking'}`)
          await device.finished()
        }
      }
    })
  }

  test('R7 another device can be waited for, with host functions pending there and without', async (context) => {
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

  test('G8 an event recorded with external is no event of the capture: it can be waited for before and after', async () => {
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

  test('R6 a record that is refused leaves the earlier record in force, for promises too', async () => {
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

  test('R6 a promise for an event of a capture that is over rejects, also where the event is recorded again at once', async () => {
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

  test('O1 an event that is recorded again while it is waited for keeps the old wait', async () => {
    using first = working()
    using second = working()
    using latch = bench.latch(second)
    using event = first.record()
    const promise = event.finished()
    second.record(event)
    await promise
    latch.open()
    await event.finished()
  })
})
