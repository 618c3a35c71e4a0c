/** What CuPy's tests ask of captures and graphs, asked of ours: what each mistake is called, and which captures it invalidates. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { Stream } from 'cuda-streams'
import { refused, refusedByDriver, rejected, stillWorks } from '../conformance/expect.js'
import { onEveryBackend } from '../helpers/suite.js'
import { add, BYTES, filled, GRID, holds, increased, incrementInto, LENGTH, prepareKernels } from './arrays.js'

const UNSUPPORTED = 900
const INVALIDATED = 901
const UNMATCHED = 903
const UNJOINED = 904
const IMPLICIT = 906
const ILLEGAL_STATE = 401

onEveryBackend('CuPy graphs', (bench) => {
  const { device } = bench
  before(() => prepareKernels([device]))

  for (const upload of [true, false]) {
    const how = upload ? 'uploaded before' : 'not uploaded before'

    test(`a graph gives what the same calls give, on its own stream and on another: ${how}`, async () => {
      using stream = bench.stream()
      using other = bench.stream()
      using input = filled(stream, 5)
      using between = filled(stream, 0)
      using output = filled(stream, 0)
      using graph = stream.capture(() => {
        stream.launch(incrementInto, GRID, input, between, LENGTH)
        stream.launch(add, GRID, between, input, output, LENGTH)
      })
      await holds(stream, output, 0)
      using exec = graph.instantiate()
      if (upload) exec.upload(stream)
      exec.launch(stream)
      await holds(stream, output, 11)
      other.wait(stream).fill(output, 0)
      if (upload) exec.upload(other)
      other.launch(exec)
      await holds(other, output, 11)
    })

    test(`a captured host function gets its argument at each launch: ${how}`, () => {
      using stream = bench.stream()
      const counter = { count: 0 }
      const countUp = (argument: { count: number }): void => {
        argument.count += 1
      }
      using graph = stream.capture(() => stream.launchHostFunc(countUp, counter) && undefined)
      using exec = graph.instantiate()
      if (upload) exec.upload(stream)
      assert.equal(counter.count, 0)
      for (let launch = 1; launch <= 3; launch += 1) {
        exec.launch(stream)
        stream.synchronize()
        assert.equal(counter.count, launch)
      }
    })

    test(`a capture forks to a second stream and joins again: ${how}`, async () => {
      using first = bench.stream()
      using second = bench.stream()
      using forked = device.createEvent()
      using joined = device.createEvent()
      using a = filled(first, 1)
      using b = filled(first, 0)
      using c = filled(first, 0)
      first.beginCapture()
      increased(first, a)
      first.record(forked)
      second.wait(forked)
      second.launch(incrementInto, GRID, a, b, LENGTH)
      second.record(joined)
      first.wait(joined)
      first.launch(add, GRID, a, b, c, LENGTH)
      using graph = first.endCapture()
      assert.deepEqual([first.isCapturing, second.isCapturing], [false, false])
      assert.equal(graph.nodeCount, 3)
      using exec = graph.instantiate()
      if (upload) exec.upload(first)
      exec.launch(first)
      await holds(first, c, 5)
    })
  }

  test('only the stream that captures says so', () => {
    using stream = bench.stream()
    stream.beginCapture()
    try {
      assert.equal(stream.isCapturing, true)
      assert.equal(device.defaultStream.isCapturing, false)
      bench.busy(stream, 1000)
    } finally {
      stream.endCapture().close()
    }
    assert.deepEqual([stream.isCapturing, device.defaultStream.isCapturing], [false, false])
  })

  test('while a blocking stream captures the null stream answers 906, and the capture is unharmed', async () => {
    using stream = bench.stream({ nonBlocking: false })
    using array = filled(stream, 4)
    using graph = stream.capture(() => {
      increased(stream, array)
      assert.equal(stream.isCapturing, true)
      refusedByDriver(() => device.defaultStream.isCapturing, IMPLICIT)
    })
    assert.deepEqual([stream.isCapturing, device.defaultStream.isCapturing], [false, false])
    using exec = graph.instantiate()
    exec.launch(stream)
    await holds(stream, array, 5)
  })

  test('the null stream cannot be captured', () => {
    refusedByDriver(() => device.defaultStream.beginCapture(), UNSUPPORTED)
    assert.equal(device.defaultStream.isCapturing, false)
    stillWorks(bench, device.defaultStream)
  })

  for (const [what, act] of [
    ['synchronize()', (stream: Stream) => stream.synchronize()],
    ['query()', (stream: Stream) => stream.query()],
  ] as const) {
    test(`${what} of a capturing stream is 900, and invalidates the capture`, () => {
      using stream = bench.stream()
      stream.beginCapture()
      refusedByDriver(() => act(stream), UNSUPPORTED)
      refusedByDriver(() => stream.endCapture(), INVALIDATED)
      assert.equal(stream.isCapturing, false)
      stillWorks(bench, stream)
    })
  }

  test('ending a capture on the wrong stream: 401 before it joined, 903 after, which invalidates it', () => {
    using first = bench.stream()
    using second = bench.stream()
    using event = device.createEvent()
    first.beginCapture()
    refusedByDriver(() => second.endCapture(), ILLEGAL_STATE)
    first.record(event)
    second.wait(event)
    bench.busy(second, 1000)
    refusedByDriver(() => second.endCapture(), UNMATCHED)
    refusedByDriver(() => first.endCapture(), INVALIDATED)
    assert.deepEqual([first.isCapturing, second.isCapturing], [false, false])
    stillWorks(bench, first)
    stillWorks(bench, second)
  })

  test('a stream that joined and was not waited for is 904, and both work again', () => {
    using first = bench.stream()
    using second = bench.stream()
    using event = device.createEvent()
    first.beginCapture()
    first.record(event)
    second.wait(event)
    bench.busy(second, 1000)
    refusedByDriver(() => first.endCapture(), UNJOINED)
    assert.deepEqual([first.isCapturing, second.isCapturing], [false, false])
    stillWorks(bench, first)
    stillWorks(bench, second)
  })

  test('what needs the bytes at once is refused while capturing, and the capture is unharmed', async () => {
    using stream = bench.stream()
    using array = filled(stream, 1)
    await stream.finished()
    stream.beginCapture()
    increased(stream, array)
    await rejected(() => stream.download(array), 'ERR_UNSUPPORTED', /captur/)
    refused(() => stream.upload(array, new Uint8Array(BYTES)), 'ERR_UNSUPPORTED', /captur/)
    await rejected(() => stream.finished(), 'CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED')
    using graph = stream.endCapture()
    using exec = graph.instantiate()
    exec.launch(stream)
    await holds(stream, array, 2)
  })

  test('callbacks that want a status cannot be captured', () => {
    using stream = bench.stream()
    stream.beginCapture('relaxed')
    assert.throws(() => stream.addCallback(() => assert.fail('it was refused'), undefined))
    try {
      stream.endCapture().close()
    } catch (error) {
      assert.equal((error as { number?: unknown }).number, INVALIDATED)
    }
    assert.equal(stream.isCapturing, false)
    stillWorks(bench, stream)
  })

  test('a stream inside a block that captures leaves the block as any other', () => {
    using stream = bench.stream()
    using _scope = stream.enter()
    stream.beginCapture()
    const graph = Stream.current(device).endCapture()
    assert.equal(graph.nodeCount, 0)
    graph.close()
    stillWorks(bench, stream)
  })

  test('a drawn graph names its kernels on a GPU, and has as many edges as it must', () => {
    using stream = bench.stream()
    using array = filled(stream, 1)
    using graph = stream.capture(() => {
      increased(stream, array)
      increased(stream, array)
    })
    const drawn = graph.toDot()
    if (bench.name === 'cuda') assert.match(drawn, /increment/)
    assert.equal(drawn.match(/->/g)?.length, 1)
  })
})
