/** What cuda.core’s tests ask of host functions in graphs, asked of ours. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { ExternalStream, type Graph, type GraphExec, Stream } from 'cuda-streams'
import { collectUntil, ONE_DEVICE, refusedByDriver, secondDevice } from '../conformance/expect.js'
import { onEveryBackend } from '../helpers/suite.js'

const UPDATE_FAILED = 910

onEveryBackend('cuda.core host functions in graphs', (bench) => {
  const { device } = bench

  const captured = (callback: () => void, more = 0): Graph => {
    using stream = bench.stream()
    return stream.capture(() => {
      stream.launchHostFunc(callback)
      for (let index = 0; index < more; index += 1) bench.busy(stream, 1000)
    })
  }
  const launched = (exec: GraphExec): void => {
    using stream = bench.stream()
    exec.launch(stream)
    stream.synchronize()
  }

  test('an instance keeps what it calls, and lets go of it when it is closed', async () => {
    const called: string[] = []
    let exec: GraphExec | undefined
    const weak = (() => {
      const callback = (): void => void called.push('callback')
      using graph = captured(callback)
      exec = graph.instantiate()
      return new WeakRef(callback)
    })()
    assert.equal(await collectUntil(() => weak.deref() === undefined), false)
    assert.ok(exec)
    launched(exec)
    assert.deepEqual(called, ['callback'])
    exec.close()
    assert.equal(await collectUntil(() => weak.deref() === undefined), true)
  })

  test('an instance that the program cannot reach lets go of what it calls', async () => {
    const weak = (() => {
      const callback = (): void => {}
      launched(captured(callback).instantiate())
      return new WeakRef(callback)
    })()
    assert.equal(await collectUntil(() => weak.deref() === undefined), true)
  })

  test('a capture that comes to nothing lets go of what it would have called', async () => {
    const ends: readonly ((stream: Stream) => void)[] = [
      (stream) => stream.close(),
      (stream) => {
        refusedByDriver(() => stream.query(), 900)
        refusedByDriver(() => stream.endCapture(), 901)
      },
      (stream) => stream.endCapture().close(),
    ]
    for (const end of ends) {
      const weak = (() => {
        const callback = (): void => assert.fail('it was never launched')
        using stream = bench.stream()
        stream.beginCapture().launchHostFunc(callback)
        end(stream)
        return new WeakRef(callback)
      })()
      assert.equal(await collectUntil(() => weak.deref() === undefined), true)
    }
  })

  test('update() takes the new functions in, and lets the old ones go', async () => {
    const called: string[] = []
    const make = (name: string): { graph: Graph; weak: WeakRef<() => void> } => {
      const callback = (): void => void called.push(name)
      return { graph: captured(callback), weak: new WeakRef(callback) }
    }
    const old = make('old')
    const fresh = make('fresh')
    using exec = old.graph.instantiate()
    exec.update(fresh.graph)
    old.graph.close()
    fresh.graph.close()
    assert.equal(await collectUntil(() => old.weak.deref() === undefined), true)
    assert.notEqual(fresh.weak.deref(), undefined)
    launched(exec)
    assert.deepEqual(called, ['fresh'])
  })

  test('an update that is refused takes nothing in, and lets nothing go', async () => {
    const called: string[] = []
    let exec: GraphExec | undefined
    const [active, rejected] = (() => {
      const callback = (): void => void called.push('active')
      const wrong = (): void => void called.push('rejected')
      using graph = captured(callback)
      using other = captured(wrong, 1)
      const instance = graph.instantiate()
      refusedByDriver(() => instance.update(other), UPDATE_FAILED)
      exec = instance
      return [new WeakRef(callback), new WeakRef(wrong)]
    })()
    assert.equal(await collectUntil(() => rejected?.deref() === undefined), true)
    assert.notEqual(active?.deref(), undefined)
    assert.ok(exec)
    launched(exec)
    assert.deepEqual(called, ['active'])
    exec.close()
  })

  test('update(), close() and the collector leave launches that are queued as they were', async () => {
    using stream = bench.stream()
    const called: string[] = []
    using latch = bench.latch(stream)
    let weak: WeakRef<GraphExec> | undefined
    weak = (() => {
      using old = captured(() => void called.push('old'))
      using fresh = captured(() => void called.push('fresh'))
      using closed = captured(() => void called.push('closed'))
      const exec = old.instantiate().launch(stream).update(fresh).launch(stream)
      closed.instantiate().launch(stream).close()
      return new WeakRef(exec)
    })()
    assert.equal(await collectUntil(() => weak?.deref() === undefined), true)
    assert.deepEqual(called, [])
    latch.open()
    await stream.finished()
    assert.deepEqual(called, ['old', 'fresh', 'closed'])
  })

  test('an instance may be closed, and its stream too, by the function that it calls', async () => {
    const stream = bench.stream()
    let called = 0
    const graph: Graph = stream.capture(() => {
      stream.launchHostFunc(() => {
        called += 1
        exec.close()
        graph.close()
        stream.close()
      })
      bench.busy(stream, 1000)
    })
    const exec: GraphExec = graph.instantiate()
    const finished = exec.launch(stream) && stream.finished()
    await finished
    assert.equal(called, 1)
    assert.deepEqual([exec.closed, graph.closed, stream.closed], [true, true, true])
  })

  test('a graph is launched on default and foreign streams as on any other', async () => {
    let called = 0
    using graph = captured(() => {
      called += 1
    })
    using exec = graph.instantiate()
    const handle = bench.foreignStream(device)
    using foreign = new ExternalStream(handle, { device })
    const streams = [device.defaultStream, device.run(() => Stream.perThread), foreign]
    for (const [index, stream] of streams.entries()) {
      exec.upload(stream).launch(stream)
      await stream.finished()
      assert.equal(called, index + 1)
    }
    foreign.close()
    bench.destroyForeignStream(handle)
  })

  test('what one throws is an uncaught exception, and the graph goes on behind it', async () => {
    const env = { ...process.env, CUDA_STREAMS_DRIVER: bench.name }
    const worker = new Worker(new URL('./children/throwing.js', import.meta.url), { env })
    const [answer] = await once(worker, 'message')
    assert.deepEqual(answer, {
      ran: ['throws', 'later', 'throws', 'later'],
      reported: ['mine', 'mine'],
      bytes: [0x33],
    })
  })

  test('graphs of two devices keep their values apart', async (context) => {
    const other = secondDevice(bench)
    if (other === undefined) return context.skip(ONE_DEVICE)
    const seen: string[] = []
    const expected: string[] = []
    const open: Disposable[] = []
    const finished: Promise<void>[] = []
    for (const on of [device, other]) {
      for (const number of [0, 1]) {
        const value = 0xa1 + on.ordinal * 0x10 + number
        const stream = on.createStream()
        const buffer = on.alloc(16, { stream })
        const host = on.allocPinned(16)
        await stream.finished()
        const graph = stream.capture(() => {
          stream.fill(buffer, value).copy(host, buffer)
          stream.launchHostFunc(() => seen.push(`${on.ordinal} ${number} ${[...new Set(host.bytes)]}`))
        })
        const exec = graph.instantiate()
        exec.launch(stream)
        expected.push(`${on.ordinal} ${number} ${value}`)
        finished.push(stream.finished())
        open.push(exec, graph, buffer, host, stream)
      }
    }
    await Promise.all(finished)
    assert.deepEqual(seen.sort(), expected)
    for (const one of open) one[Symbol.dispose]()
  })
})
