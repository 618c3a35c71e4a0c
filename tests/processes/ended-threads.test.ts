/**
 * What a worker has made, and has not closed, is given back once it has ended: whatever it is, however the worker ends, and whether or not its work
 * is done. Of the driver's handles nothing is left, and while work may use them they stay.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import { Device, DeviceBuffer, Event, type SharedEvent, Stream } from 'cuda-streams'
import { VARIABLES } from '../../src/foundation/base/environment-variables.js'
import { isContextLost } from '../../src/foundation/driver/cuda-results.js'
import { own } from '../../src/foundation/native/c-functions.js'
import { SharedLibrary } from '../../src/foundation/native/shared-library.js'
import { isFakeDriver } from '../fake-driver/fake-cuda.js'
import { product } from '../helpers/all-pairs.js'
import { DRIVER_FILE } from '../helpers/driver-file.js'
import { byEffort } from '../helpers/effort.js'
import type { Latch } from '../helpers/latch.js'
import { onEveryBackend } from '../helpers/suite.js'
import { fakeLibraries } from '../libraries/fake-libraries.js'
import { ENDINGS, type Ending, KINDS, type Kind, type Leaving, OF_LIBRARIES } from './children/leaving.js'

/** Milliseconds for what the native layer's thread does: many times what it takes on a quiet machine. */
const LONGEST = 120_000
const WORK = ['done', 'held'] as const
/** Kinds of which each uses other memory of the native layer. */
const MEMORY_KINDS = ['instance with a host function', 'module', 'upload', 'host function'] as const satisfies Kind[]

/** Handles of threads that have ended. */
const left = (): number => own().countOwned(0)

/** Fakes of the libraries, which workers find by variables that this sets; undefined where there are none. */
const fakes = isFakeDriver() ? fakeLibraries() : 'a GPU has real ones'
const libraries = typeof fakes === 'string' ? undefined : fakes
// From this version on a communicator has a half.
libraries?.call('fake_nccl_version', 22_800)

/** Is the library of this kind there? */
async function isThere(kind: Kind, stream: Stream): Promise<boolean> {
  try {
    await (await OF_LIBRARIES[kind]?.(stream))?.close()
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_UNSUPPORTED') return false
    throw error
  }
}

/** Handles that the driver has, and nobody: a GPU does not count them. */
function lostOf(): () => number {
  if (!isFakeDriver()) return () => 0
  const { fakeLive } = SharedLibrary.open(DRIVER_FILE).functions({ fakeLive: 'unsigned long long kind' })
  const file = process.env[VARIABLES.cublas.name] ?? ''
  const { fake_handles } =
    libraries !== undefined
      ? SharedLibrary.open(file).functions({ fake_handles: 'size_t unused' })
      : { fake_handles: () => 0 }
  const live = (): number =>
    Array.from({ length: 9 }, (_, kind) => fakeLive(kind)).reduce((sum, count) => sum + count, fake_handles(0))
  // The workbench has some of its own.
  const unknown = live() - own().countOwned(1)
  return () => live() - own().countOwned(1) - unknown
}

async function until(isSo: () => boolean, otherwise: () => string): Promise<void> {
  const end = performance.now() + LONGEST
  while (!isSo()) {
    if (performance.now() > end) assert.fail(otherwise())
    await sleep(5)
  }
}

/** `after` returns what the worker's stream waits for first; `made` is called once its work is queued. */
async function run(leaving: Leaving, after: () => SharedEvent | undefined, made: () => void): Promise<void> {
  const { ending } = leaving
  const worker = new Worker(new URL('./children/leaving.js', import.meta.url), { workerData: leaving })
  const ended = new Promise((resolve) => worker.on('exit', resolve))
  const failed = new Promise((resolve) => worker.on('error', resolve))
  const message = (what: string): Promise<void> =>
    new Promise<void>((resolve, reject) => {
      worker.on('message', (said) => said === what && resolve())
      // The error may be told of before the message that was sent before it.
      worker.on('error', ending === 'an error' ? () => resolve() : reject)
    })
  const [ready, done] = [message('ready'), message('made')]
  done.catch(() => {})
  await ready
  worker.postMessage(after())
  await done
  made()
  if (ending === 'terminate()') await worker.terminate()
  if (ending === 'an error') assert.match(String(await failed), /on purpose/)
  await ended
}

onEveryBackend('a worker that ends', (bench) => {
  if (bench.name === 'sim') return
  const { device } = bench
  const lost = lostOf()
  const settle = (): Promise<void> =>
    until(
      () => left() === 0 && lost() === 0,
      () => `${left()} handles are left of threads that have ended, and ${lost()} are nobody's`,
    )
  const shape = [KINDS.length, ENDINGS.length, WORK.length]
  // Each kind in every way at night. Otherwise each in one while work holds it, which decides both when it stays and when it goes, and each ending
  // with a kind whose work is done.
  const held = KINDS.map((_, kind) => [kind, kind % ENDINGS.length, 1])
  const done = ENDINGS.map((_, ending) => [
    (KINDS.indexOf('instance with a host function') + ending) % KINDS.length,
    ending,
    0,
  ])
  const some = [...held, ...done]
  const cells = byEffort({ quick: some.slice(-8), normal: some, nightly: product(shape) })
  for (const [k = 0, e = 0, w = 0] of cells) {
    const [kind, ending, work] = [KINDS[k] as Kind, ENDINGS[e] as Ending, WORK[w] ?? 'done']
    it(`X5 gives back ${kind}, ended by ${ending}, its work ${work}`, async (test) => {
      using stream = new Stream({ device })
      if (!(await isThere(kind, stream))) return test.skip('the library is not here')
      let latch: Latch | undefined
      let event: Event | undefined
      const hold = (): SharedEvent | undefined => {
        if (work === 'done') return undefined
        latch = bench.latch(stream)
        event = stream.record()
        return event.share()
      }
      // A host function that is pending keeps its thread alive.
      const endsLater = ending === 'by itself' && kind.includes('host function')
      // Memory of JavaScript goes with its thread, whose end waits for work with it.
      const isAwaited = kind === 'registered'
      await run({ kind, ending }, hold, () => {
        if (endsLater) latch?.open()
        if (isAwaited) setImmediate(() => latch?.open())
      })
      if (work === 'held' && !endsLater && !isAwaited) assert.ok(left() > 0, 'what held work uses was given back')
      latch?.open()
      await stream.finished()
      event?.close()
      await settle()
    })
  }

  it('X5 aborts a communicator of NCCL before its half, whose calls wait for what the abort ends', async (test) => {
    if (libraries === undefined) return test.skip('real libraries do not say in which order they are called')
    libraries.said()
    const leaving: Leaving = { kind: 'NCCL communicator', ending: 'terminate()' }
    await run(
      leaving,
      () => undefined,
      () => {},
    )
    await settle()
    const ends = libraries.said().filter((line) => /^(abort|destroy)/.test(line))
    assert.deepEqual([...ends].sort(), ['abort 0', 'abort 0 half', 'abort 1', 'abort 1 half'])
    for (const rank of [0, 1]) assert.ok(ends.indexOf(`abort ${rank}`) < ends.indexOf(`abort ${rank} half`), `${ends}`)
  })

  it('X5 lets a worker end whose registered array is used by work that never comes, with a warning, and holds up nobody else', async () => {
    const script = fileURLToPath(new URL('./children/stuck-registered.js', import.meta.url))
    const env = { ...process.env, [VARIABLES.deadlockTimeout.name]: '300' }
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [script], { env })
    assert.deepEqual(
      stdout.split('\n').filter((line) => line.startsWith('th')),
      ['this thread goes on: 7', 'the worker has ended, and its work is done: false'],
    )
    assert.match(
      stderr,
      /a thread ends whose registered arrays the GPU still uses after 300 ms \(CUDA_STREAMS_DEADLOCK/,
    )
  })

  it('X5 leaves no memory of the native layer, whatever it has done', async () => {
    const { countBlocks } = own()
    const afterEach = async (): Promise<readonly number[]> => {
      const counts: number[] = []
      for (const [index, kind] of MEMORY_KINDS.entries()) {
        const ending = ENDINGS[index] ?? 'by itself'
        await run(
          { kind, ending },
          () => undefined,
          () => {},
        )
        await settle()
        counts.push(countBlocks())
      }
      return counts
    }
    // The first ones make what threads share: the next have the semaphores of a thread that has ended.
    const before = (await afterEach()).at(-1)
    assert.deepEqual(
      await afterEach(),
      MEMORY_KINDS.map(() => before),
    )
  })

  it('X5 takes the same results for those of a lost context in the native layer as in JavaScript', () => {
    const codes = Array.from({ length: 1100 }, (_, code) => code)
    assert.deepEqual(
      codes.filter((code) => own().isLost(code) !== 0),
      codes.filter(isContextLost),
    )
  })

  it('X6 what was shared lives until its last user has closed it, or ended, though its owner has ended', async () => {
    const worker = new Worker(new URL('./children/sharing-and-ending.js', import.meta.url))
    const [tokens] = await once(worker, 'message')
    const shared = Stream.from(tokens.stream)
    const buffer = DeviceBuffer.from(tokens.buffer)
    const event = Event.from(tokens.event)
    worker.postMessage('end')
    await once(worker, 'exit')
    await until(
      () => left() === 0,
      () => `${left()} handles of the owner are left`,
    )
    assert.deepEqual([...(await shared.fill(buffer, 3).download(buffer, Uint8Array)).subarray(0, 2)], [3, 3])
    assert.equal(event.query(), true)
    buffer.close()
    event.close()
    shared.close()
    await settle()
    assert.throws(() => Stream.from(tokens.stream), { code: 'ERR_CLOSED' })
  })

  it('X6 what was shared and never received goes with its owner', async () => {
    const worker = new Worker(new URL('./children/sharing-and-ending.js', import.meta.url))
    const [tokens] = await once(worker, 'message')
    worker.postMessage('end')
    await once(worker, 'exit')
    await settle()
    for (const receive of [
      () => Stream.from(tokens.stream),
      () => Event.from(tokens.event),
      () => DeviceBuffer.from(tokens.buffer),
    ])
      assert.throws(receive, { code: 'ERR_CLOSED' })
    assert.equal(Device.get().ordinal, 0)
  })
})
