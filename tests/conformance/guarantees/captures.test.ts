/** G1, G2, R1 to R4: a capture records and runs nothing; streams join it and come back by waits; what it forbids invalidates it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryBackend } from '../../helpers/suite.js'
import { refusedByDriver, stillWorks } from '../expect.js'

onEveryBackend('captures', (bench) => {
  const { device } = bench

  test('G1 what is captured does not run before the launch', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(1, { stream })
    stream.fill(buffer, 1)
    using graph = stream.capture(() => void stream.fill(buffer, 2))
    assert.deepEqual([...(await stream.download(buffer))], [1])
    using exec = graph.instantiate()
    assert.deepEqual([...(await stream.launch(exec).download(buffer))], [2])
  })

  test('G2 a stream that waits for the one that captures joins the capture, and comes back by a wait', async () => {
    using stream = bench.stream()
    using side = bench.stream()
    using buffer = device.alloc(2, { stream })
    await stream.fill(buffer, 0).finished()
    using graph = stream.capture(() => {
      side.wait(stream)
      assert.equal(side.isCapturing, true)
      side.fill(buffer.subarray(0, 1), 1)
      stream.fill(buffer.subarray(1, 2), 2)
      stream.wait(side)
    })
    assert.deepEqual([stream.isCapturing, side.isCapturing, graph.nodeCount], [false, false, 2])
    using exec = graph.instantiate()
    assert.deepEqual([...(await stream.launch(exec).download(buffer))], [1, 2])
  })

  test('R4 904: a stream that joined and does not come back ends the capture', () => {
    using stream = bench.stream()
    using side = bench.stream()
    using buffer = device.alloc(1, { stream })
    stream.beginCapture()
    side.wait(stream)
    side.fill(buffer, 1)
    refusedByDriver(() => stream.endCapture(), 904)
    stillWorks(bench, side)
  })

  test('R3 905: a capture does not wait for work outside of it', () => {
    using stream = bench.stream()
    using outside = bench.stream().record()
    stream.beginCapture()
    refusedByDriver(() => stream.wait(outside), 905)
    refusedByDriver(() => stream.endCapture(), 901)
    stillWorks(bench, stream)
  })

  test('R3 902: a capture does not wait for another', () => {
    using stream = bench.stream()
    using other = bench.stream()
    stream.beginCapture('relaxed')
    other.beginCapture('relaxed')
    refusedByDriver(() => stream.wait(other.record()), 902)
    refusedByDriver(() => stream.endCapture(), 901)
    refusedByDriver(() => other.endCapture(), 901)
  })

  test('R1 900: a query of a stream that captures is refused, and invalidates the capture', () => {
    using stream = bench.stream()
    stream.beginCapture('relaxed')
    refusedByDriver(() => stream.query(), 900)
    refusedByDriver(() => stream.record(), 901)
    refusedByDriver(() => stream.endCapture(), 901)
    stillWorks(bench, stream)
  })

  test('R5 906: work on the null stream is refused while a blocking stream captures, and invalidates the capture', () => {
    using stream = bench.stream({ nonBlocking: false })
    stream.beginCapture('relaxed')
    refusedByDriver(() => device.defaultStream.endCapture(), 906)
    assert.equal(stream.isCapturing, true)
    refusedByDriver(() => device.defaultStream.record(), 906)
    refusedByDriver(() => stream.endCapture(), 901)
    stillWorks(bench, stream)
  })

  test('R6 907: an event recorded in a capture has no work that a program could wait for', () => {
    using stream = bench.stream()
    stream.beginCapture('relaxed')
    using event = stream.record()
    refusedByDriver(() => event.synchronize(), 907)
    refusedByDriver(() => stream.endCapture(), 901)
    stillWorks(bench, stream)
  })
})
