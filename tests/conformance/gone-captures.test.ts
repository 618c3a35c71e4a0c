/** A capture that was begun on another library's stream, which is destroyed before the capture is ended. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Event, ExternalStream } from 'cuda-streams'
import { type Workbench, workbenches } from '../helpers/workbench.js'

/** Begins a capture, records an event in it, and destroys the stream. */
function destroyedInCapture(bench: Workbench, closes: boolean): Event {
  const handle = bench.foreignStream(bench.device)
  const stream = new ExternalStream(handle, { device: bench.device })
  stream.beginCapture('relaxed')
  const event = stream.record()
  if (closes) stream.close()
  bench.destroyForeignStream(handle)
  return event
}

for (const bench of workbenches().benches) {
  test(`S4 a stream is closed in a capture while a wait looks at it: the capture is over at once (${bench.title})`, async () => {
    const { device } = bench
    using buffer = device.alloc(16, { stream: device.defaultStream })
    const stream = bench.stream({ nonBlocking: false })
    let error: unknown
    stream.launchHostFunc(() => {
      stream.beginCapture()
      stream.close()
      try {
        // The null stream refuses work while a blocking stream captures.
        device.defaultStream.fill(buffer, 7)
      } catch (caught) {
        error = caught
      }
    })
    stream.synchronize()
    assert.equal(error, undefined)
    assert.deepEqual(await device.defaultStream.download(buffer), new Uint8Array(16).fill(7))
  })

  for (const closes of [true, false]) {
    const name = `${closes ? 'its wrapper closed' : 'its wrapper open'} (${bench.title})`

    test(`S4 a stream that is destroyed in a capture is not asked any more: ${name}`, async () => {
      using event = destroyedInCapture(bench, closes)
      // The memory of the stream is another's by now.
      const handles = Array.from({ length: 4 }, () => bench.foreignStream(bench.device))
      for (const handle of handles) bench.destroyForeignStream(handle)
      await bench.device.finished()
      assert.throws(() => event.query(), { number: 1 })
      await assert.rejects(event.finished(), { number: 1 })
      // What is captured next is not taken for a part of it.
      using stream = bench.stream()
      stream.beginCapture('relaxed')
      using captured = stream.record()
      assert.throws(() => captured.query(), { number: 907 })
      assert.throws(() => stream.endCapture(), { number: 901 })
      await bench.device.finished()
    })
  }
}

for (const bench of workbenches().benches) {
  const { device } = bench

  test(`G13 a capture that ends unnoticed, since its wrapper was closed, keeps nothing (${bench.title})`, async () => {
    using allocationStream = bench.stream()
    using other = device.alloc(64, { stream: allocationStream })
    await allocationStream.finished()
    const { used } = device.memoryPool
    const handle = bench.foreignStream(device)
    const stream = new ExternalStream(handle, { device })
    const kept = device.alloc(64, { stream: allocationStream })
    stream.beginCapture('relaxed').fill(kept, 1)
    kept.close()
    stream.close()
    allocationStream.fill(other, 1)
    assert.ok(device.memoryPool.used > used, 'another wrapper may end the capture still, and launch what it gives')
    bench.destroyForeignStream(handle)
    allocationStream.fill(other, 2)
    assert.equal(device.memoryPool.used, used)
  })

  test(`G13 what one wrapper began and another ended keeps what its work uses (${bench.title})`, async () => {
    using allocationStream = bench.stream()
    await allocationStream.finished()
    const { used } = device.memoryPool
    const handle = bench.foreignStream(device)
    const [first, second] = [new ExternalStream(handle, { device }), new ExternalStream(handle, { device })]
    const kept = device.alloc(64, { stream: allocationStream })
    first.beginCapture('relaxed').fill(kept, 1)
    first.close()
    kept.close()
    using graph = second.endCapture()
    using exec = graph.instantiate()
    graph.close()
    assert.ok(device.memoryPool.used > used, 'the instance uses it')
    await second.launch(exec).finished()
    exec.close()
    second.close()
    bench.destroyForeignStream(handle)
    await allocationStream.finished()
    assert.equal(device.memoryPool.used, used)
  })

  test(`G17 a capture into a graph that another wrapper ends leaves the graph its host functions (${bench.title})`, async () => {
    using allocationStream = bench.stream()
    const ran: string[] = []
    using graph = allocationStream.capture(() => void allocationStream.launchHostFunc(() => ran.push('before')))
    const handle = bench.foreignStream(device)
    const second = new ExternalStream(handle, { device })
    second.capture(
      () => {
        second.launchHostFunc(() => ran.push('added'))
      },
      { into: graph, after: graph.nodes },
    )
    const third = new ExternalStream(handle, { device })
    third.capture(
      () => {
        third.launchHostFunc(() => ran.push('last'))
        third.close()
      },
      { into: graph, after: graph.nodes.slice(1) },
    )
    using exec = graph.instantiate()
    await allocationStream.launch(exec).finished()
    assert.deepEqual(ran, ['before', 'added', 'last'])
    second.close()
    bench.destroyForeignStream(handle)
  })

  test(`C2 an instance of what a wrapper began and another ended is made beside a host function that stands (${bench.title})`, async () => {
    using allocationStream = bench.stream()
    using side = bench.stream()
    using held = bench.stream()
    using buffer = device.alloc(64, { stream: allocationStream })
    // More branches than the library has streams in reserve: of other graphs, so that they are none of this one.
    for (let branch = 0; branch < 150; branch += 1) {
      allocationStream.capture(() => void allocationStream.wait(side.wait(allocationStream).fill(buffer, 1))).close()
    }
    const handle = bench.foreignStream(device)
    const [first, second] = [new ExternalStream(handle, { device }), new ExternalStream(handle, { device })]
    await device.finished()
    let ran = 0
    held.launchHostFunc(() => {
      ran += 1
    })
    first.beginCapture('relaxed').fill(buffer, 2)
    first.close()
    using graph = second.endCapture()
    using exec = graph.instantiate()
    assert.equal(ran, 0, 'the host function ran to make room for streams')
    exec.launch(allocationStream)
    await device.finished()
    second.close()
    bench.destroyForeignStream(handle)
  })

  test(`C2 a capture into a graph may make a branch of it, beside a host function that stands (${bench.title})`, async () => {
    using stream = bench.stream()
    using held = bench.stream()
    using buffer = device.alloc(64, { stream })
    using other = device.alloc(64, { stream })
    using graph = stream.capture(() => void stream.fill(buffer, 1))
    for (let branch = 0; branch < 100; branch += 1) stream.capture(() => void stream.fill(other, 2), { into: graph })
    await device.finished()
    let ran = 0
    held.launchHostFunc(() => {
      ran += 1
    })
    using exec = graph.instantiate()
    assert.equal(ran, 0)
    exec.launch(stream)
    await device.finished()
  })
}

for (const bench of workbenches().benches) {
  test(`S4 finished() does not invalidate a capture whose first wrapper was closed (${bench.title})`, async () => {
    const handle = bench.foreignStream(bench.device)
    const first = new ExternalStream(handle, { device: bench.device })
    using second = new ExternalStream(handle, { device: bench.device })
    first.beginCapture('relaxed')
    using event = first.record()
    first.close()
    await assert.rejects(event.finished(), { number: 907 })
    second.endCapture().close()
    bench.destroyForeignStream(handle)
    await bench.device.finished()
  })
}
