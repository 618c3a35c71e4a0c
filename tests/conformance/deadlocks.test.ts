/** H2: what a host function may do, and that waiting for itself is an error instead of a hang. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Event, Stream } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'
import { checkError, stillWorks } from './expect.js'

onEveryBackend('inside a host function', (bench) => {
  const { device } = bench

  /** Runs something inside a host function of the stream, and returns what it threw. */
  const inside = async (stream: Stream, act: () => void): Promise<unknown> => {
    let result: unknown = 'it did not run'
    stream.launchHostFunc(() => {
      try {
        act()
        result = undefined
      } catch (error) {
        result = error
      }
    })
    bench.busy(stream, 1000)
    await stream.finished()
    return result
  }
  const says = [/host function/, /Return from the host function first/, /finished\(\)/]
  const deadlocks = async (stream: Stream, act: () => void): Promise<void> => {
    checkError(await inside(stream, act), 'ERR_DEADLOCK', ...says)
    stillWorks(bench, stream)
  }

  test('H2 it may queue work, on its own stream and on others', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    const order: string[] = []
    const events: Event[] = []
    const failed = await inside(stream, () => {
      bench.busy(stream, 1000)
      bench.busy(other, 1000)
      events.push(stream.record(), other.record({ timing: true }))
      other.wait(stream)
      stream.wait(other)
      assert.equal(stream.query(), false)
      stream.launchHostFunc(() => order.push('own'))
      other.launchHostFunc(() => order.push('other'))
      bench.stream().close()
      order.push('returns')
    })
    assert.equal(failed, undefined)
    await stream.finished()
    await other.finished()
    assert.equal(order[0], 'returns')
    assert.deepEqual([...order].sort(), ['other', 'own', 'returns'])
    for (const event of events) assert.equal(event.query(), true)
  })

  test('H2 it may await anything: its own stream, its device, an event behind it', async () => {
    using stream = bench.stream()
    using behind = device.createEvent()
    const waits: Promise<void>[] = []
    stream.launchHostFunc(() => waits.push(stream.finished(), device.finished(), behind.finished()))
    stream.record(behind)
    await stream.finished()
    assert.equal(waits.length, 3)
    await Promise.all(waits)
  })

  test('H2 it may wait for an event recorded before it, or never', async () => {
    using stream = bench.stream()
    using event = stream.record()
    using never = device.createEvent()
    const failed = await inside(stream, () => {
      event.synchronize()
      never.synchronize()
    })
    assert.equal(failed, undefined)
  })

  test('H2 waiting for its own stream is ERR_DEADLOCK', async () => {
    using stream = bench.stream()
    await deadlocks(stream, () => stream.synchronize())
  })

  test('H2 ERR_DEADLOCK comes at once: nothing else runs before it', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    const order: string[] = []
    const failed = await inside(stream, () => {
      other.launchHostFunc(() => order.push('other'))
      try {
        stream.synchronize()
      } finally {
        order.push('own')
      }
    })
    checkError(failed, 'ERR_DEADLOCK')
    await other.finished()
    assert.deepEqual(order, ['own', 'other'])
  })

  test('H2 waiting for its own device is ERR_DEADLOCK', async () => {
    using stream = bench.stream()
    await deadlocks(stream, () => device.synchronize())
  })

  test('H2 waiting for an event recorded behind it is ERR_DEADLOCK', async () => {
    using stream = bench.stream()
    using behind = device.createEvent()
    let thrown: unknown
    stream.launchHostFunc(() => {
      try {
        behind.synchronize()
      } catch (error) {
        thrown = error
      }
    })
    stream.record(behind)
    await stream.finished()
    checkError(thrown, 'ERR_DEADLOCK', ...says)
    await deadlocks(stream, () => stream.record(behind).synchronize())
    assert.equal(behind.query(), true)
  })

  test('H2 waiting for a stream that waits for its own is ERR_DEADLOCK', async () => {
    using stream = bench.stream()
    using waiting = bench.stream()
    using third = bench.stream()
    await deadlocks(stream, () => {
      waiting.wait(stream)
      waiting.synchronize()
    })
    await deadlocks(stream, () => {
      waiting.wait(stream.record())
      third.wait(waiting)
      bench.busy(third, 1000)
      third.synchronize()
    })
    await deadlocks(stream, () => {
      waiting.wait(stream)
      waiting.record().synchronize()
    })
    for (const other of [waiting, third]) stillWorks(bench, other)
  })

  test('H2 a wait that was queued before the host function ran counts too', async () => {
    using stream = bench.stream()
    using waiting = bench.stream()
    let thrown: unknown
    stream.launchHostFunc(() => {
      try {
        waiting.synchronize()
      } catch (error) {
        thrown = error
      }
    })
    waiting.wait(stream)
    await waiting.finished()
    checkError(thrown, 'ERR_DEADLOCK', ...says)
    stillWorks(bench, stream)
    stillWorks(bench, waiting)
  })

  test('H2 the null stream waits for a blocking stream, so waiting for it there is ERR_DEADLOCK', async () => {
    using stream = bench.stream({ nonBlocking: false })
    await deadlocks(stream, () => device.defaultStream.synchronize())
    await deadlocks(device.defaultStream, () => {
      bench.busy(stream, 1000)
      stream.synchronize()
    })
  })

  test('H2 of two that wait for each other, one gets ERR_DEADLOCK and the other goes on', async () => {
    using a = bench.stream()
    using b = bench.stream()
    const results: unknown[] = []
    const wait = (stream: Stream) => (): void => {
      try {
        stream.synchronize()
        results.push('done')
      } catch (error) {
        results.push(error)
      }
    }
    a.launchHostFunc(wait(b))
    b.launchHostFunc(wait(a))
    await Promise.all([a.finished(), b.finished()])
    assert.equal(results.length, 2)
    const [inner, outer] = results
    checkError(inner, 'ERR_DEADLOCK', ...says)
    assert.equal(outer, 'done')
    stillWorks(bench, a)
    stillWorks(bench, b)
  })

  test('H2 it may wait for a stream that does not depend on its own', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    const order: string[] = []
    const failed = await inside(stream, () => {
      bench.busy(other, 10_000)
      other.launchHostFunc(() => order.push('nested'))
      const event = other.record()
      other.synchronize()
      event.synchronize()
      assert.equal(event.query(), true)
      order.push('waited')
    })
    // Streams share hardware queues on a GPU, where such a wait may make no progress: the guarantee allows for that.
    if (bench.name === 'cuda' && failed !== undefined) checkError(failed, 'ERR_DEADLOCK', /hardware queue/)
    else assert.equal(failed, undefined)
    if (failed === undefined) assert.deepEqual(order, ['nested', 'waited'])
    stillWorks(bench, stream)
  })

  test('H2 one that it does not wait for runs when it has returned, and may wait for its stream', async () => {
    using a = bench.stream()
    using b = bench.stream()
    using busy = bench.stream()
    bench.busy(busy, 1_000_000)
    const results: unknown[] = []
    const wait = (stream: Stream) => (): void => {
      try {
        stream.synchronize()
        results.push('done')
      } catch (error) {
        results.push(error)
      }
    }
    a.launchHostFunc(wait(busy))
    b.launchHostFunc(wait(a))
    await Promise.all([a.finished(), b.finished()])
    assert.deepEqual(results, ['done', 'done'])
  })

  test('H2 host functions that each wait for another stream run one after the other', async () => {
    // Few enough for a hardware queue each.
    const pairs = Array.from({ length: 4 }, () => [bench.stream(), bench.stream()] as const)
    const order: string[] = []
    for (const [index, [stream, other]] of pairs.entries()) {
      bench.busy(stream, 1000)
      stream.launchHostFunc(() => {
        order.push(`${index} begins`)
        bench.busy(other, 100_000)
        other.synchronize()
        order.push(`${index} returns`)
      })
    }
    device.synchronize()
    const turns = order.filter((_, at) => at % 2 === 0).map((begins) => begins.split(' ')[0])
    assert.deepEqual([...turns].sort(), ['0', '1', '2', '3'])
    assert.deepEqual(
      order,
      turns.flatMap((index) => [`${index} begins`, `${index} returns`]),
    )
    for (const stream of pairs.flat()) stream.close()
  })

  test('H2 one that it waits for by a link that the library cannot see runs all the same', async () => {
    using a = bench.stream()
    using held = bench.stream()
    using opens = bench.stream()
    using latch = bench.latch(held)
    const order: string[] = []
    const failed = await inside(a, () => {
      opens.launchHostFunc(() => {
        order.push('opens')
        latch.open()
      })
      held.synchronize()
      order.push('returns')
    })
    assert.equal(failed, undefined)
    assert.deepEqual(order, ['opens', 'returns'])
  })

  test('H2 queuing on another stream whose queue is full runs the host function that it stands at', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    let ran = 0
    const failed = await inside(stream, () => {
      other.launchHostFunc(() => {
        ran += 1
      })
      for (let left = 3000; left > 0; left -= 1) bench.busy(other, 0)
    })
    assert.equal(failed, undefined)
    assert.equal(ran, 1)
    stillWorks(bench, other)
  })

  test('H2 waiting for another device runs the host functions of its streams', async (t) => {
    const elsewhere = bench.devices[1]
    if (elsewhere === undefined) return t.skip('this machine has only one device')
    using stream = bench.stream()
    using own = bench.stream()
    using other = elsewhere.createStream()
    const order: string[] = []
    const failed = await inside(stream, () => {
      own.launchHostFunc(() => order.push('own'))
      other.launchHostFunc(() => order.push('elsewhere'))
      elsewhere.synchronize()
      order.push('returns')
    })
    assert.equal(failed, undefined)
    await own.finished()
    assert.deepEqual(order, ['elsewhere', 'returns', 'own'])
  })

  test('H2 waiting for another device with a stream that waits for its own is ERR_DEADLOCK', async (t) => {
    const elsewhere = bench.devices[1]
    if (elsewhere === undefined) return t.skip('this machine has only one device')
    using stream = bench.stream()
    using other = elsewhere.createStream()
    await deadlocks(stream, () => {
      other.wait(stream)
      elsewhere.synchronize()
    })
    stillWorks(bench, other)
  })

  test('H2 it may wait for another device', async (t) => {
    const elsewhere = bench.devices[1]
    if (elsewhere === undefined) return t.skip('this machine has only one device')
    using stream = bench.stream()
    using other = elsewhere.createStream()
    const failed = await inside(stream, () => {
      bench.busy(other, 10_000)
      elsewhere.synchronize()
      assert.equal(other.query(), true)
    })
    assert.equal(failed, undefined)
  })

  // Each is called after a host function of `stream` is queued, and may not make `other` come after it.
  const ordersNothing: Readonly<Record<string, (stream: Stream, other: Stream) => void>> = {
    'a wait that a capture refuses': (stream, other) => {
      other.beginCapture('relaxed')
      assert.throws(() => other.wait(stream), { code: 'CUDA_ERROR_STREAM_CAPTURE_ISOLATION' })
      assert.throws(() => other.endCapture(), { code: 'CUDA_ERROR_STREAM_CAPTURE_INVALIDATED' })
    },
    'a wait that became a node of a graph': (stream, other) => {
      using event = stream.record()
      other.beginCapture('relaxed').wait(event, { external: true }).endCapture().close()
    },
    'a wait in a capture for a stream that joined it': (stream, other) => {
      other.beginCapture('relaxed')
      stream.wait(other)
      other.wait(stream).endCapture().close()
    },
    'a wait for a record of before': (stream, other) => {
      using event = other.record()
      stream.record()
      other.wait(event)
    },
  }
  for (const [what, wait] of Object.entries(ordersNothing))
    test(`H2 it may wait for a stream after ${what}, which orders nothing`, async () => {
      using stream = bench.stream()
      using other = bench.stream()
      const held = bench.latch(stream)
      const end = inside(stream, () => {
        bench.busy(other, 1000)
        other.synchronize()
      })
      wait(stream, other)
      held.open()
      assert.equal(await end, undefined)
    })

  test('H2 queuing on its own stream when the queue behind it is full is ERR_DEADLOCK', async () => {
    using stream = bench.stream()
    await deadlocks(stream, () => {
      for (let left = 3000; left > 0; left -= 1) bench.busy(stream, 0)
    })
    await deadlocks(stream, () => {
      for (let left = 3000; left > 0; left -= 1) stream.launchHostFunc(() => {})
    })
  })

  test('H2 ERR_DEADLOCK of a full queue names the stream and how much it takes, and begins at the call', async () => {
    using stream = bench.stream({ name: 'full' })
    using data = bench.device.alloc(4, { stream })
    const error = await inside(stream, function fills() {
      for (let left = 3000; left > 0; left -= 1) stream.fill(data, 0)
    })
    const { stack = '' } = checkError(
      error,
      'ERR_DEADLOCK',
      /Stream\([^)]*full/,
      /\(.*\d+ operations\)/,
      /queue the rest after/,
    )
    assert.doesNotMatch(stack.split('\n    at ')[1] ?? '', /dist\/src\//)
  })

  test('H2 that ERR_DEADLOCK comes at once, too', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    const order: string[] = []
    await deadlocks(stream, () => {
      other.launchHostFunc(() => order.push('other'))
      try {
        for (let left = 3000; left > 0; left -= 1) bench.busy(stream, 0)
      } finally {
        order.push('own')
      }
    })
    await other.finished()
    assert.deepEqual(order, ['own', 'other'])
  })
})
