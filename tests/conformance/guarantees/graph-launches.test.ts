/** G1, G7, G8 to G10: a launch is work of its stream; launches of one instance run one after the other; the graph keeps the order of its capture. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryBackend } from '../../helpers/suite.js'
import { turns } from '../expect.js'

onEveryBackend('launches of graphs', (bench) => {
  const { device } = bench

  test('G1 a launch comes after the work before it in its stream, and before the work behind it', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(4, { stream })
    using copies = device.alloc(4, { stream })
    using exec = stream
      .capture(() => void stream.copy(copies.subarray(0, 1), buffer.subarray(0, 1)).fill(buffer, 2))
      .instantiate()
    using latch = bench.latch(stream)
    stream.fill(buffer, 1).launch(exec).copy(copies.subarray(1, 2), buffer.subarray(0, 1))
    latch.open()
    assert.deepEqual([...(await stream.download(copies.subarray(0, 2)))], [1, 2])
  })

  test('G2 a graph keeps the order of the streams that were captured', async () => {
    using stream = bench.stream()
    using side = bench.stream()
    const ran: string[] = []
    using exec = stream
      .capture(() => {
        stream.launchHostFunc(() => ran.push('before'))
        side.wait(stream)
        bench.busy(side, 10_000)
        side.launchHostFunc(() => ran.push('side'))
        stream.wait(side)
        stream.launchHostFunc(() => ran.push('after'))
      })
      .instantiate()
    await stream.launch(exec).finished()
    assert.deepEqual(ran, ['before', 'side', 'after'])
  })

  test('G7 launches of one instance run one after the other, also on two streams', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using flags = device.allocPinned(64)
    flags.bytes.fill(0)
    // The first launch stands; the second would find the value that the first has still to clear.
    using exec = stream.capture(() => stream.waitValue(flags, 1).writeValue(flags, 0)).instantiate()
    stream.launch(exec)
    other.launch(exec)
    await turns()
    assert.deepEqual([stream.query(), other.query()], [false, false])
    flags.view(Uint32Array)[0] = 1
    await stream.finished()
    await turns()
    assert.equal(other.query(), false)
    flags.view(Uint32Array)[0] = 1
    await other.finished()
  })

  test('G7 a launch does not wait for one of another instance of the graph', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using buffer = device.alloc(1, { stream })
    await stream.finished()
    using graph = stream.capture(() => void stream.fill(buffer, 1))
    using first = graph.instantiate()
    using second = graph.instantiate()
    using latch = bench.latch(stream)
    stream.launch(first)
    other.launch(second).synchronize()
    assert.equal(stream.query(), false)
    latch.open()
    await stream.finished()
  })

  test('G8 a stream waits for an event that a launch records, and the launch for one that it waits for', async () => {
    using stream = bench.stream()
    using before = bench.stream()
    using after = bench.stream()
    using needed = device.createEvent()
    using done = device.createEvent()
    using exec = stream
      .capture(() => void stream.wait(needed, { external: true }).record(done, { external: true }))
      .instantiate()
    using latch = bench.latch(before)
    before.record(needed)
    stream.launch(exec)
    after.wait(done)
    await turns()
    assert.deepEqual([stream.query(), after.query()], [false, false])
    latch.open()
    await after.finished()
  })

  test('G10 an update is for the launches to come, and not for those that were queued', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(1, { stream })
    using copy = device.alloc(1, { stream })
    using exec = stream.capture(() => void stream.fill(buffer, 1)).instantiate()
    using graph = stream.capture(() => void stream.fill(buffer, 2))
    using latch = bench.latch(stream)
    stream.launch(exec).copy(copy, buffer)
    exec.update(graph)
    stream.launch(exec)
    latch.open()
    assert.deepEqual([(await stream.download(copy))[0], (await stream.download(buffer))[0]], [1, 2])
  })
})
