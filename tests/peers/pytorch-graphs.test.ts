/** What PyTorch's tests ask of captures, replays and memory beside them, asked of ours. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { Stream } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { refusedByDriver, stillWorks } from '../conformance/expect.js'
import { onEveryBackend } from '../helpers/suite.js'
import { add, filled, GRID, holds, increased, incrementInto, LENGTH, prepareKernels } from './arrays.js'

onEveryBackend('PyTorch graphs', (bench) => {
  const { device } = bench
  before(() => prepareKernels([device]))

  test('whether the current stream captures', () => {
    assert.equal(Stream.current(device).isCapturing, false)
    using stream = bench.stream()
    stream.run(() => {
      assert.equal(Stream.current(device).isCapturing, false)
      const graph = Stream.current(device).capture(() => {
        assert.equal(Stream.current(device).isCapturing, true)
        bench.busy(stream, 1000)
      })
      graph.close()
      assert.equal(Stream.current(device).isCapturing, false)
    })
  })

  test('ten kernels, replayed on the current stream', async () => {
    using stream = bench.stream()
    using array = filled(stream, 1)
    using graph = stream.capture(() => {
      for (let count = 0; count < 10; count += 1) increased(stream, array)
    })
    using exec = graph.instantiate()
    device.defaultStream.wait(stream)
    device.run(() => exec.launch())
    await holds(device.defaultStream, array, 11)
  })

  test('captured again after it was closed', async () => {
    using stream = bench.stream()
    using array = filled(stream, 0)
    for (const count of [10, 3]) {
      using graph = stream.capture(() => {
        stream.fill(array, 0)
        for (let index = 0; index < count; index += 1) increased(stream, array)
      })
      using exec = graph.instantiate()
      exec.launch(stream)
      await holds(stream, array, count)
    }
  })

  test('an empty capture is a graph without nodes, which can be launched', () => {
    using stream = bench.stream()
    using graph = stream.capture(() => {})
    assert.equal(graph.nodeCount, 0)
    using exec = graph.instantiate()
    exec.upload(stream).launch(stream).launch(stream)
    stillWorks(bench, stream)
  })

  test('the time that a part of a graph takes: external events with timing', async () => {
    using stream = bench.stream()
    using start = device.createEvent({ timing: true })
    using end = device.createEvent({ timing: true })
    using graph = stream.capture(() => {
      stream.record(start, { external: true })
      bench.busy(stream, 5_000_000)
      stream.record(end, { external: true })
    })
    using exec = graph.instantiate()
    for (let launch = 0; launch < 3; launch += 1) {
      exec.launch(stream)
      stream.synchronize()
      const elapsed = end.elapsedSince(start)
      assert.ok(elapsed > 4 && elapsed < 500, `5 ms took ${elapsed} ms`)
    }
  })

  test('the default stream cannot be captured, and a capture that failed leaves it working', () => {
    refusedByDriver(() => device.defaultStream.capture(() => {}), 900)
    assert.equal(device.defaultStream.isCapturing, false)
    stillWorks(bench, device.defaultStream)
  })

  test('a capture allocates what its graph keeps, and more than there is harms nothing', async () => {
    using stream = bench.stream()
    using array = filled(stream, 1)
    using graph = stream.capture(() => {
      refusedByDriver(() => device.alloc(2 ** 46, { stream }), 2)
      using between = device.alloc(array.byteLength, { stream })
      stream.copy(between, array).fill(array, 0).copy(array, between)
      increased(stream, array)
    })
    using exec = graph.instantiate()
    exec.launch(stream)
    await holds(stream, array, 2)
  })

  test('graphs one after the other, with work between, in any order', async () => {
    using stream = bench.stream()
    const [a, b, c, d, e, f] = Array.from({ length: 6 }, () => filled(stream, 1))
    assert.ok(a && b && c && d && e && f)
    using first = stream.capture(() => {
      stream.launch(incrementInto, GRID, a, b, LENGTH).launch(add, GRID, a, b, c, LENGTH)
    })
    using second = stream.capture(() => stream.launch(add, GRID, b, c, d, LENGTH) && undefined)
    using third = stream.capture(() => stream.launch(incrementInto, GRID, c, e, LENGTH) && undefined)
    const [one, two, three] = [first, second, third].map((graph) => graph.instantiate())
    assert.ok(one && two && three)
    stream.launch(one).launch(two)
    increased(stream, f)
    stream.launch(three)
    increased(stream, f)
    for (const [array, value] of [
      [b, 2],
      [c, 3],
      [d, 5],
      [e, 4],
      [f, 3],
    ] as const)
      await holds(stream, array, value)
    increased(stream, a)
    stream.launch(one).launch(three).launch(two)
    for (const [array, value] of [
      [b, 3],
      [c, 5],
      [d, 8],
      [e, 6],
    ] as const)
      await holds(stream, array, value)
    for (const each of [one, two, three, a, b, c, d, e, f]) each.close()
  })

  test('two graphs replayed at once on two streams keep out of each other’s way', async () => {
    using allocationStream = bench.stream()
    using left = bench.stream()
    using right = bench.stream()
    using a = filled(allocationStream, 0)
    using b = filled(allocationStream, 0)
    using first = allocationStream.capture(() => {
      for (let count = 0; count < 5; count += 1) increased(allocationStream, a)
    })
    using second = allocationStream.capture(() => {
      for (let count = 0; count < 7; count += 1) increased(allocationStream, b)
    })
    using one = first.instantiate()
    using two = second.instantiate()
    await allocationStream.finished()
    for (let round = 1; round <= 10; round += 1) {
      bench.busy(left, 100_000)
      right.wait(left)
      one.launch(left)
      two.launch(right)
    }
    device.defaultStream.wait(left).wait(right)
    await holds(device.defaultStream, a, 50)
    await holds(device.defaultStream, b, 70)
  })

  test('one instance launched on two streams runs once after the other', async () => {
    using left = bench.stream()
    using right = bench.stream()
    using array = filled(left, 0)
    await left.finished()
    using graph = left.capture(() => increased(left, array))
    using exec = graph.instantiate()
    for (let round = 0; round < 50; round += 1) {
      exec.launch(left)
      exec.launch(right)
    }
    await Promise.all([left.finished(), right.finished()])
    await holds(left, array, 100)
  })

  for (const mode of ['global', 'threadLocal', 'relaxed'] as const) {
    test(`memory that busy streams still use is closed beside a ${mode} capture, and invalidates nothing`, async () => {
      using busy = bench.stream()
      using stream = bench.stream()
      using branch = bench.stream()
      using array = filled(stream, 0)
      await stream.finished()
      const problem = filled(stream, 1)
      const inside = filled(stream, 1)
      using latch = bench.latch(busy)
      busy.wait(stream)
      busy.fill(problem, 0)
      const pending = busy.finished()
      stream.beginCapture(mode)
      problem.close()
      increased(stream, array)
      branch.wait(stream)
      increased(branch, array)
      inside.close()
      stream.wait(branch)
      using graph = stream.endCapture()
      using exec = graph.instantiate()
      latch.open()
      exec.launch(stream)
      await holds(stream, array, 2)
      await pending
      filled(stream, 1).close()
      stillWorks(bench, stream)
    })
  }

  test('memory of a stream that joined a capture, closed meanwhile, is freed when the capture is over', async (context) => {
    if (bench.name !== 'sim') return context.skip('only the simulator tells how much memory there is')
    using simulation = simulate({ memory: 141e9 })
    const [own] = simulation.devices
    assert.ok(own)
    using stream = new Stream({ device: own })
    using joined = new Stream({ device: own })
    using other = new Stream({ device: own })
    const memory = own.alloc(100e9, { stream: joined })
    await own.finished()
    const graph = stream.capture(() => {
      joined.wait(stream)
      memory.close()
      stream.wait(joined)
    })
    graph.close()
    await own.finished()
    own.alloc(100e9, { stream: other }).close()
  })
})
