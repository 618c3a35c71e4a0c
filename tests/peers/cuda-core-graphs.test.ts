/** What cuda.core’s tests ask of graphs, asked of ours. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import type { Graph } from 'cuda-streams'
import { collectUntil, refused, refusedByDriver, stillWorks } from '../conformance/expect.js'
import { onEveryBackend } from '../helpers/suite.js'
import { BYTES, filled, holds, increased, prepareKernels } from './arrays.js'

const UPDATE_FAILED = 910
const ILLEGAL_STATE = 401

onEveryBackend('cuda.core graphs', (bench) => {
  const { device } = bench
  before(() => prepareKernels(bench.devices))

  test('a straight line of kernels has as many nodes, and can be launched on any stream', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using array = filled(stream, 0)
    using graph = stream.capture(() => {
      for (let count = 0; count < 3; count += 1) increased(stream, array)
    })
    assert.equal(graph.nodeCount, 3)
    using exec = graph.instantiate()
    other.wait(stream)
    exec.upload(other).launch(other)
    await holds(other, array, 3)
    for (let launch = 0; launch < 3; launch += 1) exec.launch(other)
    await holds(other, array, 12)
  })

  test('splits of splits join again', async () => {
    using main = bench.stream()
    const branches = Array.from({ length: 5 }, () => bench.stream())
    const [left, middle, deep, deeper, deepest] = branches
    assert.ok(left && middle && deep && deeper && deepest)
    const arrays = branches.map(() => filled(main, 0))
    const work = (index: number): void => {
      const [branch, array] = [branches[index], arrays[index]]
      assert.ok(branch && array)
      assert.equal(branch.isCapturing, true)
      increased(branch, array)
    }
    using graph = main.capture(() => {
      for (const [index, branch] of [left, middle, deep].entries()) {
        branch.wait(main)
        work(index)
      }
      for (const [index, branch] of [deeper, deepest].entries()) {
        branch.wait(deep)
        work(3 + index)
      }
      deep.wait(deeper).wait(deepest)
      main.wait(deep).wait(middle).wait(left)
      for (const array of arrays) increased(main, array)
    })
    assert.equal(graph.nodeCount, 10)
    for (const branch of branches) assert.equal(branch.isCapturing, false)
    using exec = graph.instantiate()
    exec.launch(main)
    for (const array of arrays) await holds(main, array, 2)
    for (const one of [...branches, ...arrays]) one.close()
  })

  test('a capture is begun once and ended once', () => {
    using stream = bench.stream()
    refusedByDriver(() => stream.endCapture(), ILLEGAL_STATE)
    stream.beginCapture()
    refusedByDriver(() => stream.beginCapture(), ILLEGAL_STATE)
    assert.equal(stream.isCapturing, true)
    stream.endCapture().close()
    refusedByDriver(() => stream.endCapture(), ILLEGAL_STATE)
    stillWorks(bench, stream)
  })

  test('graphs and instances close twice, and are refused by everything afterwards', () => {
    using stream = bench.stream()
    const graph = stream.capture(() => bench.busy(stream, 1000))
    const exec = graph.instantiate()
    using other = graph.instantiate()
    for (const one of [graph, exec]) {
      one.close()
      one.close()
      assert.equal(one.closed, true)
      assert.match(String(one), /closed/)
    }
    for (const act of [
      () => graph.instantiate(),
      () => graph.nodeCount,
      () => graph.toDot(),
      () => other.update(graph),
      () => exec.launch(stream),
      () => exec.upload(stream),
      () => stream.launch(exec),
    ]) {
      refused(act, 'ERR_CLOSED')
    }
    other.launch(stream)
    stillWorks(bench, stream)
  })

  test('a graph whose streams are gone is whole', async () => {
    using keeper = bench.stream()
    using array = filled(keeper, 0)
    await keeper.finished()
    const graph = (() => {
      using stream = bench.stream()
      using branch = bench.stream()
      return stream.capture(() => {
        increased(stream, array)
        branch.wait(stream)
        increased(branch, array)
        stream.wait(branch)
        increased(stream, array)
      })
    })()
    using exec = graph.instantiate()
    graph.close()
    exec.launch(keeper)
    await holds(keeper, array, 3)
  })

  test('a capturing stream that is closed, or dropped, takes its capture along', async () => {
    for (const drop of ['close', 'collect']) {
      if (drop === 'close') {
        const stream = bench.stream()
        stream.beginCapture()
        bench.busy(stream, 1000)
        stream.close()
      } else {
        const weak = (() => {
          const stream = bench.stream()
          stream.beginCapture()
          bench.busy(stream, 1000)
          return new WeakRef(stream)
        })()
        assert.ok(await collectUntil(() => weak.deref() === undefined))
      }
      using after = bench.stream()
      using buffer = device.alloc(64, { stream: after })
      after.fill(buffer, 1)
      stillWorks(bench, after)
      using graph = after.capture(() => bench.busy(after, 1000))
      assert.equal(graph.nodeCount, 1)
      device.synchronize()
    }
  })

  test('update() points the same kernels at other memory', async () => {
    using stream = bench.stream()
    using a = filled(stream, 0)
    using b = filled(stream, 0)
    const over = (array: typeof a): Graph =>
      stream.capture(() => {
        increased(stream, array)
        increased(stream, array)
      })
    using first = over(a)
    using second = over(b)
    using exec = first.instantiate()
    exec.launch(stream).update(second).launch(stream)
    await holds(stream, a, 2)
    await holds(stream, b, 2)
  })

  test('update() from what is no graph, or has another shape, changes nothing', async () => {
    using stream = bench.stream()
    using array = filled(stream, 0)
    const ofLength = (count: number): Graph =>
      stream.capture(() => {
        for (let index = 0; index < count; index += 1) increased(stream, array)
      })
    using two = ofLength(2)
    using three = ofLength(3)
    using exec = two.instantiate()
    refusedByDriver(() => exec.update(three), UPDATE_FAILED)
    for (const wrong of ['not a graph', undefined, null, exec, stream, {}]) {
      refused(() => exec.update(wrong as never), 'ERR_INVALID_ARG_TYPE', /a Graph/)
    }
    exec.launch(stream)
    await holds(stream, array, 2)
  })

  test('buffers of every kind of work in a graph: fill, copy, kernel, copy back', async () => {
    using stream = bench.stream()
    for (const mode of ['global', 'threadLocal', 'relaxed'] as const) {
      using array = device.alloc(BYTES, { stream })
      using copy = device.alloc(BYTES, { stream })
      using result = device.allocPinned(BYTES)
      await stream.finished()
      using graph = stream.capture(
        () => {
          stream.fill(array, 0)
          increased(stream, array)
          stream.copy(copy, array)
          increased(stream, copy)
          stream.copy(result, copy)
        },
        { mode },
      )
      assert.equal(graph.nodeCount, 5)
      using exec = graph.instantiate()
      for (let launch = 0; launch < 2; launch += 1) {
        result.bytes.fill(0)
        exec.launch(stream)
        await stream.finished()
        assert.deepEqual(new Set(result.view(Float32Array)), new Set([2]))
      }
    }
  })
})
