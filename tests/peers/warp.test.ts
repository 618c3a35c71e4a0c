/** What Warp’s tests ask of streams and events, asked of ours. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { type Device, Stream } from 'cuda-streams'
import { refused, stillWorks } from '../conformance/expect.js'
import { onEveryBackend } from '../helpers/suite.js'
import { add, BYTES, filled, GRID, holds, increased, incrementInto, LENGTH, prepareKernels } from './arrays.js'

/** Three streams: what two of them make of what the first made, it adds up. */
interface Streams {
  readonly first: Stream
  readonly left: Stream
  readonly right: Stream
}

/** How they wait for one another. */
interface Order {
  readonly fork: () => void
  readonly join: () => void
}

onEveryBackend('Warp streams', (bench) => {
  const { device } = bench
  before(() => prepareKernels([device]))

  test('a stream that is set is the current one, until the old one is set again', () => {
    using stream = bench.stream()
    const old = Stream.current(device)
    stream.use()
    assert.equal(Stream.current(device), stream)
    old.use()
    assert.equal(Stream.current(device), old)
  })

  for (const own of [true, false]) {
    test(`kernels and copies of one stream take turns: ${own ? 'the stream is named' : 'the stream is current'}`, async () => {
      using old = bench.stream()
      using stream = bench.stream()
      using a = filled(old, 0)
      using b = filled(old, 42)
      using c = device.alloc(BYTES, { stream: old })
      stream.wait(old)
      const on = (): Stream => (own ? stream : Stream.current(device))
      const work = (): void => {
        increased(on(), a)
        on().copy(b, a)
        increased(on(), a)
        on().copy(c, a)
        increased(on(), a)
      }
      if (own) work()
      else stream.run(work)
      old.wait(stream)
      for (const [array, value] of [
        [a, 3],
        [b, 1],
        [c, 2],
      ] as const)
        await holds(old, array, value)
    })
  }

  const ways: readonly (readonly [string, (streams: Streams) => Order])[] = [
    [
      'by synchronize()',
      ({ first, left, right }) => ({
        fork: () => first.synchronize(),
        join: () => {
          left.synchronize()
          right.synchronize()
        },
      }),
    ],
    [
      'by events that are used again',
      ({ first, left, right }) => {
        const [one, two, three] = [device.createEvent(), device.createEvent(), device.createEvent()]
        return {
          fork: () => {
            first.record(one)
            left.wait(one)
            right.wait(one)
          },
          join: () => {
            left.record(two)
            right.record(three)
            first.wait(two).wait(three)
          },
        }
      },
    ],
    [
      'by waiting for streams',
      ({ first, left, right }) => ({
        fork: () => {
          left.wait(first)
          right.wait(first)
        },
        join: () => void first.wait(left).wait(right),
      }),
    ],
    [
      'by waiting for streams with the cached event',
      ({ first, left, right }) => ({
        fork: () => {
          left.wait(first, { event: first.cachedEvent })
          right.wait(first, { event: first.cachedEvent })
        },
        join: () => {
          first.wait(left, { event: left.cachedEvent })
          first.wait(right, { event: right.cachedEvent })
        },
      }),
    ],
  ]
  for (const [way, order] of ways) {
    for (const current of [false, true]) {
      test(`two streams use what a first one made, and it what they made: ${way}${current ? ', in blocks' : ''}`, async () => {
        using first = bench.stream()
        using left = bench.stream()
        using right = bench.stream()
        const within = (stream: Stream, act: (on: Stream) => void): void => {
          if (current) stream.run(() => act(Stream.current(device)))
          else act(stream)
        }
        const { fork, join } = order({ first, left, right })
        using a = filled(first, 0)
        using b = filled(first, 0)
        using c = filled(first, 0)
        using d = filled(first, 0)
        for (let round = 1; round <= 5; round += 1) {
          bench.busy(first, 50_000)
          within(first, (on) => increased(on, a))
          fork()
          bench.busy(left, 50_000)
          within(left, (on) => on.launch(incrementInto, GRID, a, b, LENGTH))
          within(right, (on) => on.launch(incrementInto, GRID, a, c, LENGTH))
          join()
          within(first, (on) => on.launch(add, GRID, b, c, d, LENGTH))
        }
        for (const [array, value] of [
          [a, 5],
          [b, 6],
          [c, 6],
          [d, 12],
        ] as const)
          await holds(first, array, value)
      })
    }
  }

  test('an event stands for the copies before it, and not for those behind', async () => {
    using stream = bench.stream()
    using a = filled(stream, 17)
    using b = filled(stream, 42)
    using hostA = device.allocPinned(BYTES)
    using hostB = device.allocPinned(BYTES)
    using after = stream.copy(hostA, a).record()
    using latch = bench.latch(stream)
    using last = stream.copy(hostB, b).record()
    after.synchronize()
    assert.deepEqual(new Set(hostA.view(Float32Array)), new Set([17]))
    assert.equal(last.query(), false)
    latch.open()
    last.synchronize()
    assert.deepEqual(new Set(hostB.view(Float32Array)), new Set([42]))
  })

  test('a priority is 0 unless given, clamped to the range, and an integer', () => {
    const { least, greatest } = device.priorityRange
    using standard = bench.stream()
    using high = bench.stream({ priority: -100 })
    using low = bench.stream({ priority: 100 })
    assert.deepEqual([standard.priority, high.priority, low.priority], [0, greatest, least])
    for (const wrong of [0.5, Number.NaN, Number.POSITIVE_INFINITY, '0', null, 0n]) {
      refused(() => bench.stream({ priority: wrong as never }), 'ERR_INVALID_ARG_TYPE', /priority/)
    }
  })

  test('done or not: a stream and an event that is recorded again and again', () => {
    using stream = bench.stream()
    using event = device.createEvent()
    assert.deepEqual([stream.query(), event.query()], [true, true])
    for (let round = 0; round < 5; round += 1) {
      using latch = bench.latch(stream)
      bench.busy(stream, 1000)
      stream.record(event)
      assert.deepEqual([stream.query(), event.query()], [false, false])
      latch.open()
      stream.synchronize()
      assert.deepEqual([stream.query(), event.query()], [true, true])
    }
  })

  test('events and streams on what is no device of CUDA are refused', () => {
    for (const wrong of ['cpu', -2, 0.5, {}] as unknown as Device[]) {
      const code = wrong === (-2 as unknown) ? 'ERR_OUT_OF_RANGE' : 'ERR_INVALID_ARG_TYPE'
      refused(() => new Stream({ device: wrong }), code)
      refused(() => Stream.current(wrong), code)
    }
  })

  test('an object that inherits from the prototype is no stream and no event, and does no harm', () => {
    const inheriting = Object.create(Stream.prototype) as Stream
    assert.throws(() => inheriting.record(), TypeError)
    assert.throws(() => inheriting.close(), TypeError)
    using stream = bench.stream()
    assert.equal(stream.equals(inheriting), false)
    refused(() => stream.wait(inheriting), 'ERR_INVALID_ARG_TYPE')
    stillWorks(bench, stream)
  })
})
