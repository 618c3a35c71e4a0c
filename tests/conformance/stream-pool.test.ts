/** Pools of streams: their bound and queue, when a lane comes back, what becomes of failed work, and the end of a pool. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CudaError, Stream, StreamLane, StreamPool, type StreamPoolOptions } from 'cuda-streams'
import { fault, simulate } from 'cuda-streams/sim'
import { onEveryBackend } from '../helpers/suite.js'
import { runScenario } from './child.js'
import { collectUntil, follow, refused, rejected, turns, until } from './expect.js'

onEveryBackend('pools of streams', (bench) => {
  const { device } = bench
  const poolOf = (size: number): StreamPool => new StreamPool({ device, size })
  const figures = ({ size, idle, pending }: StreamPool) => [size, idle, pending]

  test('L1 there are so many lanes at most, and those who wait get theirs in the order of their calls', async () => {
    await using pool = poolOf(2)
    const [one, two] = [await pool.take(), pool.tryTake()]
    assert.ok(two)
    assert.ok(!one.stream.equals(two.stream))
    assert.deepEqual([one.stream.device, two.stream.device], [device, device])
    assert.equal(pool.tryTake(), undefined)
    const order: string[] = []
    const later = ['a', 'b', 'c'].map(async (name) => {
      using lane = await pool.take()
      order.push(name)
      return lane.stream
    })
    await turns()
    assert.deepEqual([figures(pool), order], [[2, 0, 3], []])
    const { stream } = two
    two.close()
    const streams = await Promise.all(later)
    assert.deepEqual(order, ['a', 'b', 'c'])
    assert.deepEqual(
      streams.map((each) => each === stream),
      [true, true, true],
      'the one that came back is lent again',
    )
    one.close()
    await pool.drain()
    assert.deepEqual(figures(pool), [2, 2, 0])
    assert.match(String(pool), /^StreamPool\(2 streams on Device\(0, \w+\), 2 idle, 0 pending\)$/)
  })

  test('L1 streams are made when they are needed, as the options say', async () => {
    const { greatest } = device.priorityRange
    await using pool = new StreamPool({ device, size: 2, priority: greatest, nonBlocking: false })
    const first = await pool.take()
    const { stream } = first
    first.close()
    await pool.drain()
    await using again = await pool.take()
    await using other = await pool.take()
    assert.equal(again.stream, stream)
    for (const lane of [again, other])
      assert.deepEqual([lane.stream.priority, lane.stream.nonBlocking], [greatest, false])
  })

  test('L2 a lane comes back when its work is done, and to give it back never blocks', async () => {
    await using pool = poolOf(1)
    const lane = await pool.take()
    using latch = bench.latch(lane.stream)
    lane.close()
    const next = pool.take()
    const [state, drained] = [follow(next), follow(pool.drain())]
    await turns()
    assert.deepEqual([state.settled, drained.settled, pool.tryTake(), pool.idle], [false, false, undefined, 0])
    latch.open()
    {
      using second = await next
      assert.equal(second.stream.query(), true)
      await turns()
      assert.equal(drained.settled, false, 'the next taker is waited for, too')
    }
    await pool.drain()
    assert.equal(drained.settled, true)
  })

  test('L2 a lane has a stream until it is given back, which it can be twice', async () => {
    await using pool = poolOf(1)
    const lane = await pool.take()
    assert.deepEqual([lane.closed, lane instanceof StreamLane], [false, true])
    lane.close()
    lane.close()
    assert.equal(lane.closed, true)
    refused(() => lane.stream, 'ERR_CLOSED', /StreamLane\(closed\).*given back.*take another lane/)
    await pool.drain()
    assert.equal(pool.idle, 1)
  })

  test('L2 await using waits for the work of the lane, and the lane is back then', async () => {
    await using pool = poolOf(1)
    {
      await using lane = await pool.take()
      bench.busy(lane.stream, 1000)
    }
    assert.equal(pool.idle, 1)
    const reason = new Error('the promise is rejected')
    const failed = async (): Promise<void> => {
      await using lane = await pool.take()
      lane.stream.wait(Promise.reject(reason))
    }
    await assert.rejects(failed, reason)
    assert.equal(pool.idle, 1)
    using next = await pool.take()
    await next.stream.finished()
  })

  test('L2 a rejection that is told to who had the lane is not told to the next taker', async () => {
    await using pool = poolOf(1)
    const lane = await pool.take()
    const reason = new Error('the promise is rejected')
    using latch = bench.latch(lane.stream)
    lane.stream.wait(Promise.reject(reason))
    const finished = lane.stream.finished()
    lane.close()
    latch.open()
    await assert.rejects(finished, reason)
    using next = await pool.take()
    await next.stream.finished()
  })

  test('L2 a rejection that is told to nobody is an uncaught exception, and not told to the next taker', async () => {
    const { stdout, stderr, code } = await runScenario(bench, 'rejectedInLane')
    assert.equal(stdout, 'uncaught: of the lane\nthe next is done\n', stderr)
    assert.equal(code, 0)
  })

  test('L3 who gives up leaves the queue, with the reason, and the others keep their places', async () => {
    await using pool = poolOf(1)
    const lane = await pool.take()
    const reason = new Error('given up')
    await assert.rejects(pool.take({ signal: AbortSignal.abort(reason) }), reason)
    const controller = new AbortController()
    const first = pool.take({ signal: controller.signal })
    const second = pool.take({ signal: new AbortController().signal })
    await turns()
    assert.equal(pool.pending, 2)
    controller.abort(reason)
    await assert.rejects(first, reason)
    assert.equal(pool.pending, 1)
    lane.close()
    ;(await second).close()
    await pool.drain()
    await assert.rejects(pool.take({ signal: AbortSignal.abort(reason) }), reason, 'though a lane is idle')
    assert.deepEqual(figures(pool), [1, 1, 0])
  })

  test('L3 drain() can be given up, and is over at once where no lane is out', async () => {
    await using pool = poolOf(1)
    await pool.drain()
    const lane = await pool.take()
    const controller = new AbortController()
    const reason = new Error('given up')
    const drained = pool.drain({ signal: controller.signal })
    controller.abort(reason)
    await assert.rejects(drained, reason)
    await assert.rejects(pool.drain({ signal: AbortSignal.abort(reason) }), reason)
    lane.close()
    await pool.drain()
  })

  test('L4 run() lends a lane to a function, in which its stream is current', async () => {
    await using pool = poolOf(1)
    const result = await pool.run(async (stream) => {
      assert.equal(Stream.current(device), stream)
      await turns(2)
      assert.equal(Stream.current(device), stream)
      assert.equal(pool.idle, 0)
      return [stream]
    })
    assert.ok(result[0] instanceof Stream)
    assert.notEqual(Stream.current(device), result[0])
    await assert.rejects(
      pool.run(() => {
        throw new RangeError('of the function')
      }),
      RangeError,
    )
    const reason = new Error('given up')
    await assert.rejects(
      pool.run(() => assert.fail('it is not called'), { signal: AbortSignal.abort(reason) }),
      reason,
    )
    await pool.drain()
    assert.equal(pool.idle, 1)
  })

  test('L5 close() refuses those who wait and come later; lanes that are lent go on, and end when they are given back', async () => {
    const pool = poolOf(1)
    const lane = await pool.take()
    const { stream } = lane
    const waiting = pool.take()
    pool.close()
    pool.close()
    const error = await rejected(() => waiting, 'ERR_CLOSED', /StreamPool\(1 streams.*while take\(\) waited.*drain\(\)/)
    assert.ok(error)
    await rejected(() => pool.take(), 'ERR_CLOSED', /StreamPool/)
    await rejected(() => pool.run(() => {}), 'ERR_CLOSED', /StreamPool/)
    refused(() => pool.tryTake(), 'ERR_CLOSED', /StreamPool/)
    assert.deepEqual([pool.closed, pool.device, ...figures(pool)], [true, device, 1, 0, 0])
    using latch = bench.latch(lane.stream)
    const ended = pool[Symbol.asyncDispose]()
    const state = follow(ended)
    lane.close()
    await turns()
    assert.deepEqual([state.settled, stream.closed], [false, false])
    latch.open()
    await ended
    assert.equal(stream.closed, true)
    await pool.drain()
  })

  test('L6 a stream that was closed, or given back while it captures, is not lent again', async () => {
    await using pool = poolOf(1)
    const closed = await pool.take()
    closed.stream.close()
    closed.close()
    const capturing = await pool.take()
    capturing.stream.beginCapture()
    const { stream } = capturing
    capturing.close()
    using lane = await pool.take()
    assert.equal(stream.closed, true)
    assert.equal(lane.stream.isCapturing, false)
    bench.busy(lane.stream, 1)
  })

  test('L6 the place of a lane that the program forgets is free once that is collected', async () => {
    await using pool = poolOf(1)
    await (async () => void (await pool.take()).stream.query())()
    assert.equal(pool.idle, 0)
    assert.ok(await collectUntil(() => pool.idle === 1))
  })

  test('A1 a size and streams that cannot be are refused by the constructor', () => {
    const make = (options: unknown) => () => new StreamPool(options as StreamPoolOptions)
    refused(make(undefined), 'ERR_INVALID_ARG_TYPE', /options\.size must be an integer, not undefined/)
    refused(make({ device, size: 1.5 }), 'ERR_INVALID_ARG_TYPE', /options\.size/)
    refused(make({ device, size: 0 }), 'ERR_OUT_OF_RANGE', /options\.size must be at least 1/)
    refused(make({ device, size: 1, priority: 'high' }), 'ERR_INVALID_ARG_TYPE', /options\.priority/)
    refused(make({ device: 99, size: 1 }), 'ERR_OUT_OF_RANGE', /99/)
    refused(() => Reflect.construct(StreamLane, []), 'ERR_INVALID_ARG_TYPE', /pool\.take\(\)/)
  })

  test('A1 what take(), run() and drain() cannot use is refused before a lane is taken', async () => {
    await using pool = poolOf(1)
    await rejected(() => pool.take({ signal: 1 as never }), 'ERR_INVALID_ARG_TYPE', /options\.signal/)
    await rejected(() => pool.drain({ signal: 1 as never }), 'ERR_INVALID_ARG_TYPE', /options\.signal/)
    await rejected(() => pool.run(1 as never), 'ERR_INVALID_ARG_TYPE', /fn must be a function/)
    assert.equal(pool.idle, 1)
  })
})

test('L6 after a fault every taker gets its error, and drain() tells it', async () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  await using pool = new StreamPool({ device, size: 1 })
  const lane = await pool.take()
  const waiting = [1, 2, 3].map(() => pool.take())
  const drained = pool.drain()
  fault(lane.stream)
  lane.close()
  for (const taken of waiting) await assert.rejects(taken, CudaError)
  await assert.rejects(drained, /Reported while waiting for/)
  await assert.rejects(pool.take(), CudaError)
  await assert.rejects(
    pool.run(() => assert.fail('it is not called')),
    CudaError,
  )
})

test('L6 after a fault no stream is lent that was idle before', async () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  await using pool = new StreamPool({ device, size: 2 })
  const [one, two] = [await pool.take(), await pool.take()]
  one.close()
  await until(() => pool.idle === 1)
  fault(two.stream)
  await assert.rejects(two[Symbol.asyncDispose](), CudaError)
  refused(() => pool.tryTake(), 'CUDA_ERROR_ILLEGAL_ADDRESS')
})

test('A6 the streams of a pool with a name are numbered', async () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  await using pool = new StreamPool({ device, size: 2, name: 'encoder' })
  using one = await pool.take()
  using two = await pool.take()
  assert.deepEqual([one.stream.name, two.stream.name].sort(), ['encoder 1', 'encoder 2'])
  refused(() => new StreamPool({ device, size: 2, name: '' }), 'ERR_INVALID_ARG_VALUE')
})
