/** P1 to P4: streams that stand until a promise settles, what becomes of a rejection, and what waits for them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { ExternalStream, Stream } from 'cuda-streams'
import { hasProcess } from '../helpers/run-time.js'
import { onEveryBackend } from '../helpers/suite.js'
import { runScenario } from './child.js'
import { follow, refused, rejected, stillWorks, turns, until } from './expect.js'

interface Settled {
  readonly promise: Promise<void>
  readonly resolve: () => void
  readonly reject: (reason: unknown) => void
}

function unsettled(): Settled {
  let [resolve, reject]: [() => void, (reason: unknown) => void] = [() => {}, () => {}]
  const promise = new Promise<void>((...both) => {
    ;[resolve, reject] = both
  })
  return { promise, resolve, reject }
}

onEveryBackend('promises that streams wait for', (bench) => {
  const { device } = bench
  const reasonOf = (promise: Promise<unknown>): Promise<unknown> =>
    promise.then(
      () => 'it was fulfilled',
      (reason: unknown) => reason,
    )

  test('P1 work behind it runs once it is resolved, and not before', async () => {
    using stream = bench.stream()
    using pinned = device.allocPinned(16)
    using buffer = device.alloc(16, { stream })
    const { promise, resolve } = unsettled()
    const order: string[] = []
    stream.launchHostFunc(() => order.push('before'))
    assert.equal(stream.wait(promise), stream)
    stream.copy(buffer, pinned).launchHostFunc(() => order.push('behind'))
    const done = stream.download(buffer)
    await until(() => order.length > 0)
    await turns(50)
    assert.deepEqual(order, ['before'])
    assert.equal(stream.query(), false)
    pinned.bytes.fill(7)
    resolve()
    assert.deepEqual(await done, new Uint8Array(16).fill(7))
    assert.deepEqual(order, ['before', 'behind'])
  })

  test('P1 another stream that waits for it, or for an event behind it, stands too, and no third', async () => {
    using first = bench.stream()
    using second = bench.stream()
    using third = bench.stream()
    using free = bench.stream()
    const { promise, resolve } = unsettled()
    first.wait(promise)
    second.wait(first)
    third.wait(first.record())
    bench.busy(free, 1000)
    await free.finished()
    const all = [first, second, third].map((stream) => follow(stream.finished()))
    await turns(30)
    assert.deepEqual(
      all.map(({ settled }) => settled),
      [false, false, false],
    )
    resolve()
    await Promise.all([first, second, third].map((stream) => stream.finished()))
  })

  test('P1 many on many streams, settled in any order, and ones that have settled already', async () => {
    const streams = Array.from({ length: 80 }, () => bench.stream())
    const order = streams.map((): number[] => [])
    for (let nth = 0; nth < 8; nth += 1) {
      for (const [index, stream] of streams.entries()) {
        const delay = (index * 7 + nth * 3) % 11
        stream.wait(delay === 0 ? Promise.resolve() : sleep(delay))
        if (nth % 3 === 0) stream.launchHostFunc(() => order[index]?.push(nth))
      }
    }
    await Promise.all(streams.map((stream) => stream.finished()))
    for (const each of order) assert.deepEqual(each, [0, 3, 6])
    for (const stream of streams) stream.close()
  })

  test('P1 each takes one place of the hardware queue: as many stand behind one another as host functions could', async () => {
    using stream = bench.stream()
    const { promise, resolve } = unsettled()
    for (let nth = 0; nth < 600; nth += 1) stream.wait(promise)
    resolve()
    await stream.finished()
  })

  test('P1 it takes whatever has then(), asks it once, and resolves what it resolves with', async () => {
    using stream = bench.stream()
    let asked = 0
    const thenable = {
      // biome-ignore lint/suspicious/noThenProperty: that is what is tried
      then(resolve: (value: PromiseLike<void>) => void) {
        asked += 1
        resolve(sleep(2))
      },
    }
    await stream.wait(thenable as PromiseLike<unknown>).finished()
    assert.equal(asked, 1)
    refused(() => stream.wait({} as never), 'ERR_INVALID_ARG_TYPE', /a promise/)
    // biome-ignore lint/suspicious/noThenProperty: that is what is tried
    refused(() => stream.wait({ then: 1 } as never), 'ERR_INVALID_ARG_TYPE')
    refused(() => stream.wait(Promise.resolve(), { external: true } as never), 'ERR_INVALID_ARG_VALUE')
    stillWorks(bench, stream)
  })

  for (const kind of ['null', 'per-thread', 'blocking', 'external'] as const) {
    test(`P1 on a stream that is ${kind}`, async () => {
      const handle = bench.foreignStream(device)
      const streams = {
        null: () => device.defaultStream,
        'per-thread': () => device.run(() => Stream.perThread),
        blocking: () => bench.stream({ nonBlocking: false }),
        external: () => new ExternalStream(handle, { device }),
      }
      const stream = streams[kind]()
      const { promise, resolve } = unsettled()
      stream.wait(promise)
      bench.busy(stream, 1000)
      const done = stream.finished()
      const before = follow(done)
      await turns(20)
      assert.equal(before.settled, false)
      resolve()
      await done
      stream.close()
      bench.destroyForeignStream(handle)
    })
  }

  test('P1 a stream that is closed while it stands goes on when the promise settles', async () => {
    const stream = bench.stream()
    using pinned = device.allocPinned(16)
    pinned.bytes.fill(1)
    const { promise, resolve } = unsettled()
    stream.wait(promise)
    stream.fill(pinned, 9)
    const done = stream.finished()
    stream.close()
    resolve()
    await done
    assert.equal(pinned.bytes[3], 9)
    refused(() => stream.wait(promise), 'ERR_CLOSED')
  })

  test('P1 a capture refuses it, and goes on', () => {
    using stream = bench.stream()
    stream.beginCapture()
    refused(() => stream.wait(Promise.resolve()), 'ERR_UNSUPPORTED', /captures/)
    using graph = stream.endCapture()
    assert.equal(graph.nodeCount, 0)
    stillWorks(bench, stream)
  })

  test('P2 a rejection lets the stream go on, and each wait that is pending behind it tells the reason', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using pinned = device.allocPinned(16)
    const { promise, reject } = unsettled()
    const before = stream.finished()
    stream.wait(promise)
    stream.fill(pinned, 3)
    other.wait(stream)
    const event = stream.record()
    const waits = [stream.finished(), event.finished(), other.finished(), device.finished(), stream.download(pinned)]
    const reason = new Error('the server is gone')
    const reasons = Promise.all(waits.map(reasonOf))
    await before
    reject(reason)
    assert.deepEqual(await reasons, [reason, reason, reason, reason, reason])
    assert.equal(pinned.bytes[5], 3)
    await stream.finished()
    other.synchronize()
    event.synchronize()
    device.synchronize()
  })

  for (const [what, wait] of [
    ['stream.finished()', (stream: Stream) => stream.finished()],
    ['stream.synchronize()', async (stream: Stream) => stream.synchronize()],
    ['device.synchronize()', async () => device.synchronize()],
    ['device.finished()', () => device.finished()],
    ['await using', (stream: Stream) => stream[Symbol.asyncDispose]()],
  ] as const) {
    test(`P2 where none was pending the next wait tells it, once: ${what}`, async () => {
      const stream = bench.stream()
      const reason = new Error('too late')
      stream.wait(Promise.reject(reason))
      await turns(5)
      assert.equal(await reasonOf(wait(stream)), reason)
      if (!stream.closed) stream.synchronize()
      stream.close()
    })
  }

  test('P2 a stream that waits for an event behind it tells it; the first of several reasons stands for all', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    const [first, second] = [new Error('first'), new Error('second')]
    stream.wait(Promise.reject(first)).wait(Promise.reject(second))
    using event = stream.record()
    other.wait(event)
    assert.equal(await reasonOf(other.finished()), first)
    await stream.finished()
  })

  test('P2 a rejection with nothing is an error with words', async () => {
    using stream = bench.stream()
    stream.wait(Promise.reject())
    assert.match(String(await reasonOf(stream.finished())), /rejected with undefined/)
  })

  test('P2 a signal gives up the wait, as a rejection with its reason', async () => {
    using stream = bench.stream()
    const controller = new AbortController()
    const { promise, resolve } = unsettled()
    stream.wait(promise, { signal: controller.signal })
    const done = reasonOf(stream.finished())
    await turns(5)
    controller.abort(new Error('given up'))
    assert.match(String(await done), /given up/)
    resolve()
    await stream.finished()
    assert.throws(() => stream.wait(promise, { signal: AbortSignal.abort(new Error('before')) }), /before/)
    refused(() => stream.wait(promise, { signal: 1 } as never), 'ERR_INVALID_ARG_TYPE')
    assert.equal(stream.query(), true)
  })

  test('P2 where nothing tells it, it is an uncaught exception: at close(), and at the end of the process', async () => {
    const { stdout, stderr, code } = await runScenario(bench, 'rejectedPromises')
    // A page ends without a word.
    const atTheEnd = hasProcess ? 'uncaught: at the end\n' : ''
    assert.equal(stdout, `uncaught: closed\n${atTheEnd}end\n`, stderr)
    assert.equal(code, 0)
  })

  test('P3 to block for work behind it is ERR_DEADLOCK at once, and says where the promise was passed', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using free = bench.stream()
    const { promise, resolve } = unsettled()
    stream.wait(promise)
    using event = stream.record()
    other.wait(event)
    const says = [/would wait forever/, /a promise on the stream/, /promises\.test\.js:\d+/, /await finished\(\)/i]
    const waits = {
      stream: () => stream.synchronize(),
      event: () => event.synchronize(),
      'a stream behind it': () => other.synchronize(),
      device: () => device.synchronize(),
      drain: () => device.drainHostFunctions(),
    }
    for (const wait of Object.values(waits)) refused(wait, 'ERR_DEADLOCK', ...says)
    let ran = 0
    free.launchHostFunc(() => {
      ran += 1
      for (const wait of Object.values(waits)) refused(wait, 'ERR_DEADLOCK')
    })
    free.synchronize()
    assert.equal(ran, 1)
    resolve()
    await Promise.all([stream, other].map((each) => each.finished()))
    for (const wait of Object.values(waits)) wait()
  })

  test('P3 queuing more than the hardware queue takes behind it is ERR_DEADLOCK, and nothing is lost', async () => {
    using stream = bench.stream()
    using pinned = device.allocPinned(16)
    const { promise, resolve } = unsettled()
    stream.wait(promise)
    // On a GPU it is seen there once the stream has come to it.
    await sleep(20)
    let queued = 0
    const fill = (): void => {
      for (; queued < 5000; queued += 1) stream.fill(pinned, queued & 255)
    }
    refused(fill, 'ERR_DEADLOCK', /queuing more work/)
    assert.ok(queued >= 300, `only ${queued} were queued`)
    resolve()
    await stream.finished()
    assert.equal(pinned.bytes[0], (queued - 1) & 255)
  })

  test('P3 a host function that waits for a promise on the stream that is blocked for: ERR_DEADLOCK', async () => {
    using stream = bench.stream()
    const { promise, resolve } = unsettled()
    let refusal: unknown
    stream.launchHostFunc(() => void stream.wait(promise))
    try {
      stream.synchronize()
    } catch (error) {
      refusal = error
    }
    // The simulator waits for what was queued before, as CUDA documents it; a GPU asks whether the stream is idle.
    if (refusal !== undefined) assert.equal((refusal as { code?: unknown }).code, 'ERR_DEADLOCK')
    resolve()
    await stream.finished()
  })

  test('P4 the wait alone does not keep the process alive; work that is waited for behind it does', async () => {
    const alone = await runScenario(bench, 'promiseAlone')
    assert.equal(alone.stdout, 'end\n', alone.stderr)
    assert.equal(alone.code, 0)
    const pending = await runScenario(bench, 'promiseWithFinished')
    assert.equal(pending.stdout, 'finished\nend\n', pending.stderr)
  })

  test('P4 a worker that ends lets its streams go on', async (t) => {
    if (bench.name === 'sim') return t.skip('a simulator belongs to its thread')
    const code = `
      const { Stream } = await import(${JSON.stringify(import.meta.resolve('cuda-streams'))})
      const stream = new Stream()
      stream.wait(new Promise(() => {}))
      stream.launchHostFunc(() => {})
      setTimeout(() => process.exit(0), 50)`
    const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(code)}`))
    await new Promise((resolve) => worker.once('exit', resolve))
    using stream = bench.stream()
    bench.busy(stream, 1000)
    stream.synchronize()
    device.synchronize()
  })

  test('P4 it rejects nothing and throws nothing where the stream was closed by the time that it resolves', async () => {
    const stream = bench.stream()
    stream.wait(sleep(1))
    stream.close()
    await sleep(5)
    await rejected(() => stream.finished(), 'ERR_CLOSED')
  })
})
