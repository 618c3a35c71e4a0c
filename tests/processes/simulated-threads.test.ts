/** Threads that share objects of the simulator: what tests/processes/threads.test.ts cannot ask of a GPU. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { CudaError, type Device, DeviceBuffer, type Event, Stream } from 'cuda-streams'
import { fault, simulate } from 'cuda-streams/sim'
import { isGone, ownThread } from '../../src/foundation/base/system-threads.js'
import { MOST_PLACES, WorkWords } from '../../src/simulator/shared/object-words.js'
import { refused } from '../conformance/expect.js'
import { endedThread } from '../helpers/ended-thread.js'
import { runChild } from '../torture/run-child.js'
import type { Act, Request, Tokens } from './children/simulated-thread.js'

class Things implements AsyncDisposable {
  readonly device: Device
  readonly stream: Stream
  readonly event: Event
  readonly buffer: DeviceBuffer
  readonly worker: Worker

  constructor() {
    const [device] = simulate().devices
    assert.ok(device)
    this.device = device
    this.stream = new Stream({ device })
    this.event = device.createEvent()
    this.buffer = device.alloc(4096, { stream: this.stream })
    const env = { ...process.env, CUDA_STREAMS_DRIVER: 'sim' }
    this.worker = new Worker(new URL('./children/simulated-thread.js', import.meta.url), { env })
  }

  get tokens(): Tokens {
    return { stream: this.stream.share(), event: this.event.share(), buffer: this.buffer.share() }
  }

  async ask(act: Act, more: Partial<Request> = {}): Promise<unknown> {
    this.worker.postMessage({ act, ...more } satisfies Request)
    const [reply] = (await once(this.worker, 'message')) as [{ readonly failed?: string; readonly answer?: unknown }]
    if (reply.failed !== undefined) throw new Error(`in the other thread: ${reply.failed}`)
    return reply.answer
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.worker.terminate()
  }
}

async function turns(count = 20): Promise<void> {
  for (let left = count; left > 0; left -= 1) await turn()
}

it('a kernel of one thread works on memory of the other, in the order of the stream that both use', async () => {
  await using things = new Things()
  const { stream, buffer } = things
  stream.fill(buffer, 3, { type: 'f32' })
  await things.ask('add', { tokens: things.tokens })
  stream.copy(buffer.subarray(0, 2048), buffer.subarray(2048, 4096))
  await things.ask('add')
  assert.deepEqual(new Set(await stream.download(buffer, Float32Array)), new Set([5]))
})

it('operations that two threads queue by turns on one stream run in that order', async () => {
  await using things = new Things()
  const { stream, buffer } = things
  await things.ask('take', { tokens: things.tokens })
  for (let round = 1; round < 50; round += 1) {
    stream.fill(buffer, 255)
    await things.ask('fill', { value: round })
    const seen = stream.download(buffer)
    await things.ask('fill', { value: 0 })
    assert.deepEqual(new Set(await seen), new Set([round]))
  }
})

const onLinux = process.platform === 'linux' ? {} : { skip: 'open files are counted in /proc' }
for (const ending of ['terminate()', 'process.exit()'])
  it(
    `X5 files that processes share are closed and unmapped at the end of their thread, by ${ending}`,
    onLinux,
    async () => {
      const mapped = (): number => readFileSync('/proc/self/maps', 'utf8').split('memfd:cuda-streams').length
      const open = (): number => readdirSync('/proc/self/fd').length
      const play = async (): Promise<readonly number[]> => {
        const worker = new Worker(new URL('./children/sharing-files.js', import.meta.url), { workerData: ending })
        const ended = once(worker, 'exit')
        await once(worker, 'message')
        if (ending === 'terminate()') await worker.terminate()
        await ended
        return [mapped(), open()]
      }
      // The first one loads what threads share.
      const before = await play()
      assert.deepEqual(await play(), before)
    },
  )

it('work behind a latch of the other thread is not done before it opens, and waits for the device see it', async () => {
  await using things = new Things()
  const { device, stream } = things
  await things.ask('stand', { tokens: things.tokens })
  const waits = [stream.finished(), device.finished()]
  let over = 0
  for (const wait of waits) wait.then(() => (over += 1))
  assert.equal(stream.query(), false)
  await turns()
  assert.equal(over, 0)
  await things.ask('open')
  await Promise.all(waits)
  assert.equal(stream.query(), true)
})

it('a wait for the device sees work of streams that were not shared', async () => {
  await using things = new Things()
  await things.ask('take', { tokens: things.tokens })
  await things.ask('standAlone')
  let over = false
  const wait = things.device.finished().then(() => (over = true))
  await turns()
  assert.equal(over, false)
  await things.ask('open')
  await wait
})

it('what a worker has queued is done though it ends at once', async () => {
  await using things = new Things()
  const { stream, event, buffer } = things
  await stream.fill(buffer, 1).finished()
  await things.ask('take', { tokens: things.tokens })
  things.worker.postMessage({ act: 'fillAndExit', value: 7 } satisfies Request)
  await once(things.worker, 'exit')
  assert.deepEqual(new Set(await stream.wait(event).download(buffer)), new Set([7]))
})

it('a thread that was terminated holds nobody up, and a warning says that its work is lost', async () => {
  await using things = new Things()
  const { stream } = things
  await things.ask('stand', { tokens: things.tokens })
  const warned = once(process, 'warning')
  const finished = stream.finished()
  await things.worker.terminate()
  await finished
  const [warning] = await warned
  assert.match(String(warning), /terminated while work .* the simulator has lost it/)
})

for (const isSharedBefore of [true, false]) {
  const when = isSharedBefore ? 'before' : 'while it captures'
  it(`while a stream captures that was shared ${when}, only the thread that has begun can use it`, async () => {
    await using things = new Things()
    const { stream, buffer } = things
    if (isSharedBefore) await things.ask('take', { tokens: things.tokens })
    stream.beginCapture('relaxed')
    const use = isSharedBefore ? things.ask('fill', { value: 1 }) : things.ask('take', { tokens: things.tokens })
    await assert.rejects(use, /Another thread captures this stream/)
    stream.fill(buffer, 2)
    using graph = stream.endCapture()
    assert.equal(graph.nodeCount, 1)
    if (!isSharedBefore) await things.ask('take', { tokens: things.tokens })
    await things.ask('fill', { value: 3 })
    assert.deepEqual(new Set(await stream.download(buffer)), new Set([3]))
  })
}

it('what threads share goes to no process, and what processes share to no thread', async () => {
  await using things = new Things()
  const { device } = things
  const make = () => [device.alloc(64, { interprocess: true }), device.createEvent({ interprocess: true })] as const
  for (const one of make()) {
    one.share()
    refused(() => one.ipcHandle(), 'ERR_UNSUPPORTED', /shared with threads/, /make another for processes/)
  }
  for (const one of make()) {
    one.ipcHandle()
    refused(() => one.share(), 'ERR_UNSUPPORTED', /shared with processes/, /make another for threads/)
  }
  // Memory of the host that is wrapped as a device buffer lies where no other thread can have it.
  const pinned = device.allocPinned(64)
  refused(
    () => DeviceBuffer.from(pinned.pointer, 64, { device }).share(),
    'ERR_UNSUPPORTED',
    /share memory of a device/,
  )
})

it('a fault of one thread loses the devices of the others', async () => {
  await using things = new Things()
  const { stream } = things
  await things.ask('fault', { tokens: things.tokens })
  await assert.rejects(stream.finished(), (error) => error instanceof CudaError && error.number === 700)
  refused(() => new Stream({ device: things.device }), 'CUDA_ERROR_ILLEGAL_ADDRESS')
})

it('a simulation that is told of a fault late loses no simulation that was made since', () => {
  const sharing = (): Stream => {
    const stream = new Stream({ device: simulate().devices[0] })
    stream.share()
    return stream
  }
  const [early, lost] = [sharing(), sharing()]
  fault(lost)
  refused(() => lost.synchronize(), 'CUDA_ERROR_ILLEGAL_ADDRESS')
  const since = sharing()
  refused(() => early.synchronize(), 'CUDA_ERROR_ILLEGAL_ADDRESS')
  since.fill(since.device.alloc(64), 1).synchronize()
})

it('what the owner has closed is given back in the other thread', async (t) => {
  await using things = new Things()
  const { device, stream } = things
  await things.ask('take', { tokens: things.tokens })
  const before = await things.ask('used')
  if (typeof before !== 'number') return t.skip('a worker cannot call the collector here')
  for (let round = 0; round < 300; round += 1) {
    using buffer = device.alloc(2 ** 20, { stream })
    await things.ask('take', { tokens: { ...things.tokens, buffer: buffer.share() } })
  }
  globalThis.gc?.()
  const grown = (Number(await things.ask('used')) - before) / 2 ** 20
  assert.ok(grown < 150, `${grown} of 300 MiB are kept`)
})

it('a blocking wait for a thread that is blocked itself is told, and does not last forever', async () => {
  const { code, stderr } = await runChild('../processes/children/blocked-threads.js', [], 20)
  assert.equal(code, 0, stderr)
})

it('a place at a stream is that of one thread at a time: when a thread has ended, another gets it, and waits for nothing that was lost', async (t) => {
  if (process.platform !== 'linux') return t.skip('only Linux tells that a thread has ended')
  t.mock.method(process, 'emitWarning', () => {})
  const words = new WorkWords()
  const places = Array.from({ length: MOST_PLACES }, () => words.takePlace())
  assert.equal(new Set(places).size, MOST_PLACES)
  assert.equal(words.takePlace(), undefined)
  const lost = 7
  words.queue(lost)
  words.setCapturing(lost, true)
  assert.deepEqual([words.before(0), words.capturesElsewhere(0)], [{ place: lost, count: 1 }, true])
  const threads = new Int32Array(words.memory)
  threads[128 + 3 * lost + 2] = await endedThread()
  assert.equal(words.takePlace(), lost)
  assert.deepEqual([words.isDone({ place: lost, count: 1 }), words.capturesElsewhere(0)], [true, false])
  assert.equal(words.takePlace(), undefined)
  words.queue(lost)
  assert.equal(words.isDone({ place: lost, count: 2 }), false)
})

it('a thread that has the number of one that has ended is not taken for it', async (t) => {
  if (process.platform !== 'linux') return t.skip('only Linux numbers threads so')
  assert.equal(isGone(await endedThread(), true), true)
  const [own, numbers] = [ownThread(), 2 ** 22]
  const another = (own % numbers) + numbers * ((Math.floor(own / numbers) + 1) % 256)
  assert.deepEqual([isGone(own, true), isGone(another, true)], [false, true])
})
