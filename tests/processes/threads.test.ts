/** Streams, events and buffers that two threads of a process use. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { it } from 'node:test'
import { Worker } from 'node:worker_threads'
import { type Device, type DeviceBuffer, type Event, type GreenContext, Stream } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'
import { simWorkbench } from '../helpers/workbench.js'
import type { Reply, Request, SharedThings } from './children/thread.js'

const LENGTH = 2 ** 20
const ROUNDS = 20

class OtherThread implements AsyncDisposable {
  readonly #worker: Worker

  constructor(driver: string) {
    const env = { ...process.env, CUDA_STREAMS_DRIVER: driver }
    this.#worker = new Worker(new URL('./children/thread.js', import.meta.url), { env })
  }

  async ask(request: Request): Promise<Reply> {
    this.#worker.postMessage(request)
    const [reply] = (await once(this.#worker, 'message')) as [Reply]
    if ('failed' in reply) throw new Error(`in the other thread: ${reply.failed}`)
    return reply
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate()
  }
}

interface Things extends Disposable {
  readonly stream: Stream
  readonly written: Event
  readonly answered: Event
  readonly buffer: DeviceBuffer
  readonly shared: SharedThings
}

function makeThings(device: Device, context?: GreenContext): Things {
  const stream = new Stream({ device, context })
  const written = device.createEvent()
  const answered = device.createEvent({ blockingSync: true })
  const buffer = device.alloc(LENGTH, { stream })
  const all = [buffer, answered, written, stream]
  return {
    stream,
    written,
    answered,
    buffer,
    shared: { stream: stream.share(), written: written.share(), answered: answered.share(), buffer: buffer.share() },
    [Symbol.dispose]: () => {
      for (const one of all) one.close()
    },
  }
}

function codesOf(reply: Reply): readonly string[] {
  assert.ok('codes' in reply)
  return reply.codes
}

it('a real stream is none for a thread with a simulator', async () => {
  using things = makeThings(simWorkbench().device)
  const { stream, written, answered, buffer } = things.shared
  const driver = 'cuda'
  const real: SharedThings = {
    stream: { ...stream, driver },
    written: { ...written, driver },
    answered: { ...answered, driver },
    buffer: { ...buffer, driver },
  }
  await using other = new OtherThread('sim')
  assert.deepEqual(codesOf(await other.ask({ act: 'codes', things: real })), Array(3).fill('ERR_DEVICE_MISMATCH'))
})

onEveryBackend('threads', (bench) => {
  it('know the same stream, event and buffer', async () => {
    using things = makeThings(bench.device)
    await using other = new OtherThread(bench.name)
    const reply = await other.ask({ act: 'take', things: things.shared })
    const { multiprocessors } = bench.device.context
    const expected = { kind: '[object ExternalStream]', id: things.stream.id, timing: false, sameAgain: true }
    assert.deepEqual(reply, { ...expected, multiprocessors })
    await other.ask({ act: 'close' })
    assert.equal(things.stream.query(), true, 'closing there does nothing here')
  })

  it('queue work for each other, in order by events, and not without the wait', async () => {
    const device = bench.device
    using seen = device.allocPinned(LENGTH)
    using writer = new Stream({ device })
    for (const way of ['waited', 'unwaited'] as const) {
      using things = makeThings(device)
      await using other = new OtherThread(bench.name)
      await other.ask({ act: 'take', things: things.shared })
      writer.fill(things.buffer, 0).synchronize()
      for (let round = 1; round <= ROUNDS; round += 1) {
        const [value, answer] = [(2 * round) % 256, (2 * round + 1) % 256]
        using latch = bench.latch(writer)
        writer.fill(things.buffer, value).record(things.written)
        await other.ask({ act: 'read', wait: way === 'waited' })
        // Without the wait it reads what was there before, since nothing else is there to be read yet.
        if (way === 'waited') latch.open()
        const reply = await other.ask({ act: 'relay', value, answer })
        assert.ok('right' in reply)
        assert.equal(reply.right, way === 'waited', `round ${round}, ${way}`)
        latch.open()
        // The other thread filled it on the shared stream, which waits for what that thread read but not for the writer.
        writer.wait(things.answered).copy(seen, things.buffer)
        await writer.finished()
        if (way === 'waited') assert.ok(Buffer.alloc(LENGTH, answer).equals(seen.bytes), `round ${round}: the answer`)
      }
      await other.ask({ act: 'close' })
    }
  })

  it('know that a stream is of a green context, and queue work on it for each other', async () => {
    const device = bench.device
    const [context, rest] = device.split({ multiprocessors: [16] })
    using seen = device.allocPinned(LENGTH)
    using writer = new Stream({ context: rest })
    using things = makeThings(device, context)
    await using other = new OtherThread(bench.name)
    const taken = await other.ask({ act: 'take', things: things.shared })
    assert.ok('multiprocessors' in taken)
    assert.equal(taken.multiprocessors, context.multiprocessors)
    writer.fill(things.buffer, 7).record(things.written)
    await other.ask({ act: 'read', wait: true })
    assert.deepEqual(await other.ask({ act: 'relay', value: 7, answer: 8 }), { right: true })
    writer.wait(things.answered).copy(seen, things.buffer)
    await writer.finished()
    assert.ok(Buffer.alloc(LENGTH, 8).equals(seen.bytes))
    await other.ask({ act: 'close' })
    context.close()
    rest.close()
  })

  it('run their own host functions of one stream, in the order of the stream', async () => {
    using things = makeThings(bench.device)
    await using other = new OtherThread(bench.name)
    await other.ask({ act: 'take', things: things.shared })
    const order = new Int32Array(new SharedArrayBuffer(4 * 8))
    const mine = (at: number): void => {
      things.stream.launchHostFunc(() => {
        order[at] = Atomics.add(order, 0, 1) + 1
      })
    }
    mine(1)
    await other.ask({ act: 'hostFunction', order, at: 2 })
    mine(3)
    await other.ask({ act: 'hostFunction', order, at: 4 })
    mine(5)
    await things.stream.finished()
    assert.deepEqual([...order.subarray(0, 6)], [5, 1, 2, 3, 4, 5])
  })

  it('cannot use what its owner has closed since', async () => {
    const things = makeThings(bench.device)
    await using other = new OtherThread(bench.name)
    await other.ask({ act: 'take', things: things.shared })
    assert.deepEqual(codesOf(await other.ask({ act: 'use' })), Array(7).fill('none'))
    things[Symbol.dispose]()
    assert.deepEqual(codesOf(await other.ask({ act: 'use' })), Array(7).fill('ERR_CLOSED'))
    // Another has the word in memory by then that said so, and maybe the handle.
    using next = makeThings(bench.device)
    assert.deepEqual(codesOf(await other.ask({ act: 'use' })), Array(7).fill('ERR_CLOSED'))
    await other.ask({ act: 'take', things: next.shared })
    assert.deepEqual(codesOf(await other.ask({ act: 'use' })), Array(7).fill('none'))
  })

  it('cannot have what was closed, nor another stream at the same handle', async () => {
    const things = makeThings(bench.device)
    await using other = new OtherThread(bench.name)
    const { stream } = things.shared
    const forged = { ...things.shared, stream: { ...stream, id: stream.id + 1n } }
    assert.deepEqual(codesOf(await other.ask({ act: 'codes', things: forged })), ['ERR_CLOSED', 'none', 'none'])
    things[Symbol.dispose]()
    assert.deepEqual(codesOf(await other.ask({ act: 'codes', things: things.shared })), Array(3).fill('ERR_CLOSED'))
  })
})
