/** Missing waits between two threads of a process: found with the lines of both, and not where anything orders the two. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, it } from 'node:test'
import { Worker } from 'node:worker_threads'
import { type DeviceBuffer, type Event, ExternalStream, Stream } from 'cuda-streams'
import { Sanitizer, type SanitizerReport } from 'cuda-streams/sanitizer'
import { onEveryBackend } from '../../helpers/suite.js'
import type { Workbench } from '../../helpers/workbench.js'
import type { Act, Reply, Shared } from './children/other-thread.js'
import { everySecond } from './every-second.js'

const BYTES = 4096

class OtherThread implements AsyncDisposable {
  readonly #worker: Worker
  readonly #id: number

  constructor(driver: string) {
    const env = { ...process.env, CUDA_STREAMS_DRIVER: driver, CUDA_STREAMS_SANITIZER: '' }
    this.#worker = new Worker(new URL('./children/other-thread.js', import.meta.url), { env })
    this.#id = this.#worker.threadId
  }

  get id(): number {
    return this.#id
  }

  async does(...acts: readonly Act[]): Promise<void> {
    for (const act of acts) await this.#ask({ act })
  }

  async takes(shared: Shared): Promise<void> {
    await this.#ask({ act: 'take', shared })
  }

  async reports(): Promise<readonly SanitizerReport[]> {
    return this.#ask({ act: 'report' })
  }

  async #ask(request: { readonly act: Act; readonly shared?: Shared }): Promise<readonly SanitizerReport[]> {
    this.#worker.postMessage(request)
    const [reply] = (await once(this.#worker, 'message')) as [Reply]
    if ('failed' in reply) throw new Error(`in the other thread: ${reply.failed}`)
    return reply.reports
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate()
  }
}

/** What this thread has. All but `mine` is shared. */
interface Scene {
  readonly buffer: DeviceBuffer
  readonly stream: Stream
  readonly ready: Event
  readonly done: Event
  readonly mine: Stream
  /** What the other thread has of them. */
  readonly shared: Shared
  readonly other: OtherThread
  readonly sanitizer: Sanitizer
}

interface Found {
  /** By this thread, and by the other. */
  readonly here: readonly SanitizerReport[]
  readonly there: readonly SanitizerReport[]
  readonly id: number
}

interface SceneOptions {
  readonly causal?: boolean
}

/** To start a thread takes longer than what it does here: one of a bench does what all scenes ask. */
const others = new Map<Workbench, OtherThread>()
function otherOf(bench: Workbench): OtherThread {
  const other = others.get(bench) ?? new OtherThread(bench.name)
  others.set(bench, other)
  return other
}
after(() => Promise.all([...others.values()].map((other) => other[Symbol.asyncDispose]())))

async function found(
  bench: Workbench,
  program: (scene: Scene) => void | Promise<void>,
  { causal = false }: SceneOptions = {},
): Promise<Found> {
  const { device } = bench
  using sanitizer = Sanitizer.start({ device, causal })
  using mine = new Stream({ device })
  using stream = new Stream({ device })
  using ready = device.createEvent()
  using done = device.createEvent()
  using buffer = device.alloc(BYTES, { stream: mine })
  const other = otherOf(bench)
  await other.does('watch')
  const shared = { buffer: buffer.share(), stream: stream.share(), ready: ready.share(), done: done.share() }
  await other.takes(shared)
  await program({ buffer, stream, ready, done, mine, shared, other, sanitizer })
  const result = { here: [...sanitizer.reports], there: await other.reports(), id: other.id }
  await other.does('resolve', 'close', 'unwatch')
  device.synchronize()
  return result
}

async function silent(bench: Workbench, program: (scene: Scene) => void | Promise<void>, options?: SceneOptions) {
  const { here, there } = await found(bench, program, options)
  assert.deepEqual(
    [...here, ...there].map(({ message }) => message),
    [],
  )
}

function writeHere({ mine, buffer }: Scene): void {
  mine.fill(buffer, 1)
}

function readHere(bench: Workbench, { mine, buffer }: Scene): void {
  const seen = bench.device.allocPinned(BYTES)
  mine.copy(seen, buffer)
}

onEveryBackend('sanitizers of two threads', (bench) => {
  const onSimulator: typeof it | undefined = bench.name === 'sim' ? it : undefined

  it('find a read that does not wait for a write of another thread, with both lines', async () => {
    const { here, there, id } = await found(bench, async (scene) => {
      writeHere(scene)
      await scene.other.does('read')
    })
    assert.deepEqual(here, [], 'the thread that comes second reports it')
    assert.equal(there.length, 1, there.map(({ message }) => message).join('\n\n'))
    const [report] = there
    assert.equal(report?.kind, 'race')
    assert.match(report.first?.stack[0] ?? '', /writeHere .*threads\.test/)
    assert.match(report.second.stack[0] ?? '', /readThere .*other-thread/)
    assert.deepEqual([report.first?.what, report.first?.access, report.first?.thread], ['fill', 'out', 0])
    assert.deepEqual([report.second.what, report.second.access, report.second.thread], ['copy', 'in', undefined])
    assert.match(report.message, /first, fill writes on stream \d+ by the main thread\n/)
    assert.match(
      report.advice,
      /^Let the main thread record an event after that fill and share it, and add `\w+\.wait\(theEvent\)` before this copy\.$/,
    )
    assert.match(report.buffer?.allocatedAt[0] ?? '', /threads\.test/)
    assert.ok(id > 0)
  })

  it('find what was queued before the memory was shared', async () => {
    const { device } = bench
    using sanitizer = Sanitizer.start({ device })
    using mine = new Stream({ device })
    using stream = new Stream({ device })
    using event = device.createEvent()
    using buffer = device.alloc(BYTES, { stream: mine })
    mine.fill(buffer, 1)
    await using other = new OtherThread(bench.name)
    await other.does('watch')
    const [ready, done] = [event.share(), event.share()]
    await other.takes({ buffer: buffer.share(), stream: stream.share(), ready, done })
    await other.does('read')
    assert.deepEqual(
      (await other.reports()).map(({ kind }) => kind),
      ['race'],
    )
    await other.does('close')
    assert.deepEqual(sanitizer.reports, [])
  })

  it('tell an event whose record was done when it was shared from one that was never recorded', async () => {
    const { device } = bench
    using sanitizer = Sanitizer.start({ device })
    using mine = new Stream({ device })
    using buffer = device.alloc(BYTES, { stream: mine })
    await using other = new OtherThread(bench.name)
    await other.does('watch')
    // From then on the threads tell each other what is done.
    const before = { buffer: buffer.share(), stream: mine.share() }
    using first = mine.fill(buffer, 1).record()
    using never = device.createEvent()
    using later = device.createEvent()
    const shared = later.share()
    mine.record(later)
    await mine.finished()
    await other.takes({ ...before, ready: first.share(), done: shared })
    await other.does('wait for ready', 'wait for done', 'read')
    assert.deepEqual(await other.reports(), [])
    await other.takes({ ...before, ready: never.share(), done: shared })
    await other.does('wait for ready', 'wait for done')
    const kinds = (await other.reports()).map(({ kind }) => kind)
    assert.deepEqual(kinds, ['unrecorded-event'])
    await other.does('close')
    assert.deepEqual(sanitizer.reports, [])
  })

  it('find a write here that comes after a write there', async () => {
    const { here, there, id } = await found(bench, async (scene) => {
      await scene.other.does('write')
      writeHere(scene)
    })
    assert.deepEqual(there, [])
    assert.deepEqual(
      here.map(({ kind, first }) => [kind, first?.thread]),
      [['race', id]],
    )
    assert.match(here[0]?.first?.stack[0] ?? '', /writeThere .*other-thread/)
    assert.match(here[0]?.second.stack[0] ?? '', /writeHere .*threads\.test/)
  })

  it('find a wait for an event that was recorded before the write', async () => {
    const { there } = await found(bench, async (scene) => {
      scene.mine.record(scene.ready)
      writeHere(scene)
      await scene.other.does('wait for ready', 'read')
    })
    assert.equal(there.length, 1)
  })

  it('find a close that does not wait for the other thread', async () => {
    const { device } = bench
    using sanitizer = Sanitizer.start({ device })
    using mine = new Stream({ device })
    using event = device.createEvent()
    const buffer = device.alloc(BYTES, { stream: mine })
    await using other = new OtherThread(bench.name)
    await other.does('watch')
    const [ready, done] = [event.share(), event.share()]
    await other.takes({ buffer: buffer.share(), stream: mine.share(), ready, done })
    await other.does('wait for the stream', 'write')
    buffer.close()
    assert.deepEqual(
      sanitizer.reports.map(({ kind }) => kind),
      ['use-after-free'],
    )
    assert.match(sanitizer.reports[0]?.first?.stack[0] ?? '', /writeThere .*other-thread/)
    assert.deepEqual(await other.reports(), [])
    await other.does('synchronize')
  })

  onSimulator?.('find a launch of a graph that uses memory which its thread has closed', async () => {
    const { device } = bench
    using sanitizer = Sanitizer.start({ device })
    using mine = new Stream({ device })
    using event = device.createEvent()
    const buffer = device.alloc(BYTES, { stream: mine })
    await using other = new OtherThread(bench.name)
    await other.does('watch')
    const [ready, done] = [event.share(), event.share()]
    await other.takes({ buffer: buffer.share(), stream: mine.share(), ready, done })
    await other.does('capture a write')
    buffer.close()
    await other.does('launch it')
    const reports = await other.reports()
    assert.deepEqual(
      reports.map(({ kind, first }) => [kind, first?.what, first?.thread]),
      [['use-after-free', 'free', 0]],
    )
    assert.deepEqual(sanitizer.reports, [])
  })

  it('find a race in a program that orders it by a message alone', async () => {
    const { there } = await found(bench, async (scene) => {
      writeHere(scene)
      scene.stream.synchronize() // another stream than the write's
      await scene.other.does('read')
    })
    assert.equal(there.length, 1)
  })

  it('find a race behind a stream that both use, where the wait is behind the read', async () => {
    const { there } = await found(bench, async (scene) => {
      writeHere(scene)
      await scene.other.does('read on the shared stream')
      scene.stream.wait(scene.mine)
    })
    assert.equal(there.length, 1)
  })

  for (const causal of [false, true]) {
    it(`report nothing that anything orders${causal ? ', with causal' : ''}`, async () => {
      const check = (program: (scene: Scene) => void | Promise<void>) => silent(bench, program, { causal })
      await check(async (scene) => {
        writeHere(scene)
        scene.mine.record(scene.ready)
        await scene.other.does('wait for ready', 'read', 'record done')
        scene.mine.wait(scene.done)
        writeHere(scene)
      })
      await check(async (scene) => {
        writeHere(scene)
        scene.stream.wait(scene.mine)
        await scene.other.does('wait for the stream', 'write', 'record done')
        scene.mine.wait(scene.done)
        readHere(bench, scene)
      })
      await check(async (scene) => {
        scene.stream.fill(scene.buffer, 1)
        await scene.other.does('read on the shared stream')
        scene.stream.fill(scene.buffer, 2)
      })
      // Of the shared stream each has a part: what one lets it wait for holds for the other, too.
      await check(async (scene) => {
        writeHere(scene)
        scene.mine.record(scene.ready)
        await scene.other.does('wait for ready on the shared stream')
        scene.stream.fill(scene.buffer, 2)
        await scene.other.does('record done on the shared stream')
        scene.mine.wait(scene.done)
        readHere(bench, scene)
      })
      await check(async (scene) => {
        writeHere(scene)
        scene.mine.synchronize()
        await scene.other.does('write', 'synchronize')
        readHere(bench, scene)
      })
      await check(async (scene) => {
        writeHere(scene)
        await scene.mine.finished()
        await scene.other.does('write', 'await')
        writeHere(scene)
      })
      await check(async (scene) => {
        writeHere(scene)
        scene.mine.record(scene.ready)
        await scene.other.does('synchronize ready', 'write')
        bench.device.synchronize()
        writeHere(scene)
      })
      await check(async (scene) => {
        writeHere(scene)
        await scene.other.does('synchronize the device', 'write')
        await bench.device.finished()
        writeHere(scene)
      })
      await check(async (scene) => {
        writeHere(scene)
        await scene.other.does('wait for the device', 'write', 'record done')
        scene.done.synchronize()
        writeHere(scene)
      })
      await check(async (scene) => {
        await scene.mine.download(scene.buffer)
        await scene.other.does('write')
      })
      await check(async (scene) => {
        scene.mine.fill(scene.buffer.subarray(0, BYTES / 2), 1)
        await scene.other.does('write the second half')
      })
      await check(async (scene) => {
        readHere(bench, scene)
        await scene.other.does('read')
      })
    })
  }

  onSimulator?.('know which elements a kernel of another thread has written', async () => {
    for (const act of ['write elements 0, 2, 4 …', 'write elements 1, 3, 5 …'] as const) {
      for (const isFirstHere of [true, false]) {
        const { here, there } = await found(bench, async (scene) => {
          const launch = (): void => {
            const kernel = everySecond(bench.device)
            scene.mine.launch(kernel, { grid: 1, block: BYTES / 8 }, scene.buffer, 0)
          }
          if (isFirstHere) launch()
          await scene.other.does(act)
          if (!isFirstHere) launch()
          await scene.mine.finished()
          await scene.other.does('await')
        })
        const expected = act === 'write elements 0, 2, 4 …' ? ['race'] : []
        assert.deepEqual(
          [...here, ...there].map(({ kind }) => kind),
          expected,
          `${act}, ${isFirstHere}`,
        )
      }
    }
  })

  it('take what comes after a wait for a promise for what may come after everything', async () => {
    await silent(bench, async (scene) => {
      await scene.other.does('hold', 'write')
      writeHere(scene)
      await scene.mine.finished()
      await scene.other.does('resolve')
    })
  })

  it('know the rules of the null stream', async () => {
    await silent(bench, async (scene) => {
      await scene.other.does('write on a blocking stream')
      new ExternalStream(0n, { device: bench.device }).fill(scene.buffer, 1)
    })
  })

  it('report nothing of another thread while one has no sanitizer, since they do not see what that orders', async () => {
    for (const before of [[], ['watch']] as const) {
      const { there } = await found(bench, async (scene) => {
        await using bystander = new OtherThread(bench.name)
        await bystander.does(...before)
        await bystander.takes(scene.shared)
        if (before.length > 0) await bystander.does('unwatch')
        writeHere(scene)
        scene.mine.record(scene.ready)
        await bystander.does('wait for ready', 'record done')
        await scene.other.does('wait for done', 'read')
        await bystander.does('close')
      })
      assert.deepEqual(there, [])
    }
    const { there } = await found(bench, async (scene) => {
      writeHere(scene)
      await scene.other.does('read')
    })
    assert.equal(there.length, 1, 'what was shared with that one is closed: it no longer matters')
  })

  it('do not fix, but refuse what races with another thread', async () => {
    const { device } = bench
    for (const [mode, fix] of [
      ['collect', true],
      ['throw', false],
    ] as const) {
      using sanitizer = Sanitizer.start({ device, mode, fix })
      using mine = new Stream({ device })
      using event = device.createEvent()
      using buffer = device.alloc(BYTES, { stream: mine })
      await using other = new OtherThread(bench.name)
      await other.does('watch')
      const [ready, done] = [event.share(), event.share()]
      await other.takes({ buffer: buffer.share(), stream: mine.share(), ready, done })
      await other.does('write')
      if (mode === 'throw') assert.throws(() => mine.fill(buffer, 1), { code: 'ERR_RACE' })
      else mine.fill(buffer, 1)
      assert.deepEqual(
        sanitizer.reports.map(({ fixed }) => fixed),
        [mode === 'throw' ? undefined : false],
      )
      await other.does('synchronize', 'close')
    }
  })
})
