/** What Warp’s tests ask of graphs, asked of ours. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { Stream } from 'cuda-streams'
import { ONE_DEVICE, refusedByDriver, secondDevice, stillWorks } from '../conformance/expect.js'
import { onEveryBackend } from '../helpers/suite.js'
import { add, BYTES, filled, GRID, holds, increased, LENGTH, prepareKernels } from './arrays.js'

onEveryBackend('Warp graphs', (bench) => {
  const { device } = bench
  before(() => prepareKernels(bench.devices))

  test('an event of two graphs orders their launches on two streams', async () => {
    using allocationStream = bench.stream()
    using other = bench.stream()
    using event = device.createEvent()
    using a = filled(allocationStream, 0)
    using b = filled(allocationStream, 0)
    using c = filled(allocationStream, 0)
    using writes = allocationStream.capture(() => {
      increased(allocationStream, a)
      increased(allocationStream, b)
      allocationStream.record(event, { external: true })
    })
    using reads = allocationStream.capture(() => {
      allocationStream.wait(event, { external: true })
      allocationStream.launch(add, GRID, a, b, c, LENGTH)
    })
    using writer = writes.instantiate()
    using reader = reads.instantiate()
    await allocationStream.finished()
    for (let round = 1; round <= 10; round += 1) {
      writer.launch(allocationStream)
      reader.launch(other)
    }
    other.wait(allocationStream)
    await holds(other, c, 20)
  })

  test('a graph and an instance that are closed inside a capture of another', async () => {
    using stream = bench.stream()
    using array = filled(stream, 0)
    for (const mode of ['global', 'threadLocal', 'relaxed'] as const) {
      const first = stream.capture(() => increased(stream, array))
      const one = first.instantiate()
      one.launch(stream)
      using second = stream.capture(
        () => {
          first.close()
          one.close()
          increased(stream, array)
        },
        { mode },
      )
      using two = second.instantiate()
      two.launch(stream)
    }
    await holds(stream, array, 6)
  })

  test('waiting for the device, the stream or an event of the capture is refused while capturing', () => {
    for (const [act, number] of [
      [() => device.synchronize(), 900],
      [(stream: Stream) => stream.synchronize(), 900],
      [(stream: Stream) => stream.record().synchronize(), 907],
    ] as const) {
      using stream = bench.stream()
      stream.beginCapture()
      refusedByDriver(() => act(stream), number)
      refusedByDriver(() => stream.endCapture(), 901)
      stillWorks(bench, stream)
    }
  })

  test('what fills on a stream that was forked into a capture belongs to the graph', async () => {
    for (const mode of ['global', 'threadLocal', 'relaxed'] as const) {
      using outer = bench.stream()
      using inner = bench.stream()
      using array = filled(outer, 0)
      using pinned = device.allocPinned(BYTES)
      await outer.finished()
      using graph = outer.capture(
        () => {
          using fork = outer.record()
          inner.wait(fork)
          inner.run(() => Stream.current(device).fill(array, 0x40e00000, { width: 4 }).copy(pinned, array))
          using join = inner.record()
          outer.wait(join)
        },
        { mode },
      )
      using exec = graph.instantiate()
      await holds(outer, array, 0)
      exec.launch(outer)
      await holds(outer, array, 7)
      assert.deepEqual(new Set(pinned.view(Float32Array)), new Set([7]))
    }
  })

  test('branches that two others left alone keep to themselves: the graph has the edges that were asked for', () => {
    using main = bench.stream()
    using one = bench.stream()
    using two = bench.stream()
    using a = filled(main, 0)
    using b = filled(main, 0)
    using graph = main.capture(() => {
      increased(main, a)
      one.wait(main)
      two.wait(main)
      increased(main, a)
      increased(one, a)
      increased(two, b)
      increased(two, b)
      main.wait(one).wait(two)
      increased(main, a)
    })
    assert.equal(graph.nodeCount, 6)
    assert.equal(graph.toDot().match(/->/g)?.length, 7)
  })

  for (const named of [true, false]) {
    test(`a graph over two devices: ${named ? 'streams are named' : 'streams are current'}`, async (context) => {
      const other = secondDevice(bench)
      if (other === undefined) return context.skip(ONE_DEVICE)
      using here = bench.stream()
      using there = other.createStream()
      using a = filled(here, 0)
      using b = filled(here, 0)
      using c = filled(here, 0)
      using remote = filled(there, 0)
      await Promise.all([here.finished(), there.finished()])
      using scope = named ? undefined : here.enter()
      void scope
      using graph = here.capture(() => {
        there.wait(here)
        increased(here, a)
        increased(there, remote)
        here.wait(there)
        // Memory of CUDA's pools cannot be copied between devices inside a graph unless the pools are open to each other.
        if (bench.name === 'sim') here.copy(b, remote)
        else increased(here, b)
        here.launch(add, GRID, a, b, c, LENGTH)
      })
      using exec = graph.instantiate()
      for (let launch = 0; launch < 10; launch += 1) here.launch(exec)
      await holds(here, c, 20)
      await holds(there, remote, 10)
    })
  }
})
