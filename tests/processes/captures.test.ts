/**
 * Captures of one thread, while another waits for the device: CUDA would refuse that, and invalidate captures of all threads
 * in every mode, so the wait begins when they are over.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { type CaptureModeName, CudaError, type Event, type Stream } from 'cuda-streams'
import { byEffort, runs } from '../helpers/effort.js'
import { onEveryBackend } from '../helpers/suite.js'
import type { Workbench } from '../helpers/workbench.js'
import type { Reply, Request } from './children/capturing.js'

/** Which streams capture, and how: each mode, and both kinds of stream; any two of them at night. */
const FEW: readonly (readonly [mode: CaptureModeName, nonBlocking: boolean])[] = [
  ['global', true],
  ['threadLocal', false],
  ['relaxed', true],
]
const CAPTURING = byEffort({
  quick: FEW,
  normal: FEW,
  nightly: FEW.flatMap(([mode]) => [[mode, true] as const, [mode, false] as const]),
})
const CAPTURES = runs({ quick: 50, normal: 80, nightly: 1000 })
const TURNS = 20
/** CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD. */
const [UNSUPPORTED, WRONG_THREAD] = [900, 908]

class OtherThread implements AsyncDisposable {
  /** To start a thread takes longer than most of what is asked of it: one that has not ended does for the next test. */
  static readonly #idle = new Map<string, OtherThread[]>()
  readonly #worker: Worker
  #hasEnded = false

  private constructor(
    driver: string,
    private readonly title: string,
    /** It is shared as long as the thread lives. */
    private readonly event: Event,
  ) {
    const env = { ...process.env, CUDA_STREAMS_DRIVER: driver }
    this.#worker = new Worker(new URL('./children/capturing.js', import.meta.url), { env })
  }

  /** Threads with simulators are one machine once they share something. */
  static async of({ name, title, device }: Workbench): Promise<OtherThread> {
    const idle = OtherThread.#idle.get(title)?.pop()
    if (idle !== undefined) return idle
    const other = new OtherThread(name, title, device.createEvent())
    assert.equal(await other.ask({ act: 'join', event: other.event.share() }), 'joined')
    return other
  }

  async ask(request: Request): Promise<Reply> {
    this.#worker.postMessage(request)
    const [reply] = (await once(this.#worker, 'message')) as [Reply]
    return reply
  }

  async exit(): Promise<void> {
    this.#worker.postMessage({ act: 'exit' } satisfies Request)
    await once(this.#worker, 'exit')
    this.#end()
  }

  async terminate(): Promise<void> {
    await this.#worker.terminate()
    this.#end()
  }

  #end(): void {
    this.#hasEnded = true
    this.event.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#hasEnded) return
    OtherThread.#idle.set(this.title, [this, ...(OtherThread.#idle.get(this.title) ?? [])])
  }

  static async terminateAll(): Promise<void> {
    for (const idle of OtherThread.#idle.values()) await Promise.all(idle.splice(0).map((other) => other.terminate()))
  }
}

/** A wait for the device, and whether it is over. */
function waiting(promise: Promise<unknown>): { readonly promise: Promise<unknown>; readonly isOver: () => boolean } {
  let isOver = false
  const over = (): void => {
    isOver = true
  }
  promise.then(over, over)
  return { promise, isOver: () => isOver }
}

async function turns(): Promise<void> {
  for (let left = TURNS; left > 0; left -= 1) await turn()
}

async function numberOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
    return 0
  } catch (error) {
    return error instanceof CudaError ? error.number : error
  }
}

const endIn = (stream: Stream): number => {
  using graph = stream.launchHostFunc(() => {}).endCapture()
  return graph.nodes.length
}

after(() => OtherThread.terminateAll())

onEveryBackend('a wait for the device', (bench) => {
  const { device } = bench
  for (const [mode, nonBlocking] of CAPTURING) {
    describe(`beside a capture in mode ${mode} of a ${nonBlocking ? 'non-blocking' : 'blocking'} stream`, () => {
      it('begins when the capture of the other thread has ended', async () => {
        await using other = await OtherThread.of(bench)
        await other.ask({ act: 'begin', mode, nonBlocking })
        const wait = waiting(device.finished())
        await turns()
        assert.equal(wait.isOver(), false)
        assert.equal(await other.ask({ act: 'end' }), 1)
        await wait.promise
      })

      it('begins when it has ended that was begun while it is waited for', async () => {
        await using first = await OtherThread.of(bench)
        await using second = await OtherThread.of(bench)
        await first.ask({ act: 'begin', mode, nonBlocking })
        const wait = waiting(device.finished())
        await second.ask({ act: 'begin', mode, nonBlocking })
        assert.equal(await first.ask({ act: 'end' }), 1)
        await turns()
        assert.equal(wait.isOver(), false)
        assert.equal(await second.ask({ act: 'end' }), 1)
        await wait.promise
      })

      it('of another thread begins when the capture of this one has ended', async () => {
        await using other = await OtherThread.of(bench)
        using stream = bench.stream({ nonBlocking })
        assert.equal(await other.ask({ act: 'finished' }), 'finished')
        stream.beginCapture(mode)
        const wait = waiting(other.ask({ act: 'finished' }))
        await turns()
        assert.equal(wait.isOver(), false)
        assert.equal(endIn(stream), 1)
        assert.equal(await wait.promise, 'finished')
      })

      it('that blocks ends when the capture has ended', async () => {
        await using other = await OtherThread.of(bench)
        await other.ask({ act: 'begin', mode, nonBlocking })
        const word = new Int32Array(new SharedArrayBuffer(4))
        const ended = other.ask({ act: 'endWhenSet', word })
        Atomics.store(word, 0, 1)
        Atomics.notify(word, 0)
        device.synchronize()
        assert.equal(await ended, 1)
      })

      it('in the order of a stream is refused, and the capture goes on', async () => {
        await using other = await OtherThread.of(bench)
        using stream = bench.stream({ nonBlocking })
        await other.ask({ act: 'begin', mode, nonBlocking })
        assert.throws(
          () => stream.wait(device),
          (error) => error instanceof CudaError && error.number === UNSUPPORTED,
        )
        assert.equal(await other.ask({ act: 'end' }), 1)
        stream.wait(device)
      })

      it('never meets one, however often both are made', async () => {
        await using other = await OtherThread.of(bench)
        const word = new Int32Array(new SharedArrayBuffer(8))
        const captures = other.ask({ act: 'captures', mode, nonBlocking, word })
        const numbers = new Set<unknown>()
        // The other thread goes on until it is told to end.
        for (let waits = 0; waits < TURNS || Atomics.load(word, 1) < CAPTURES; waits += 1)
          numbers.add(await numberOf(device.finished()))
        Atomics.store(word, 0, 1)
        assert.deepEqual([await captures, [...numbers]], ['captured', [0]])
      })

      it('begins when the stream is closed that captures', async () => {
        await using other = await OtherThread.of(bench)
        await other.ask({ act: 'begin', mode, nonBlocking })
        const wait = waiting(device.finished())
        await other.ask({ act: 'close' })
        await wait.promise
      })

      for (const how of ['ends', 'is terminated'] as const) {
        it(`begins when the thread ${how} that captures`, async () => {
          await using other = await OtherThread.of(bench)
          await other.ask({ act: 'begin', mode, nonBlocking })
          const wait = waiting(device.finished())
          if (how === 'ends') await other.exit()
          else await other.terminate()
          await wait.promise
          // And so do those that come later, also beside the next thread, which has the number of the one before.
          await using next = await OtherThread.of(bench)
          assert.equal(await next.ask({ act: 'finished' }), 'finished')
          await device.finished()
        })
      }

      // On the simulator only the thread that has begun a capture can use the stream.
      if (bench.name === 'sim') return

      it('begins when a third thread has ended the capture', async () => {
        await using other = await OtherThread.of(bench)
        await using third = await OtherThread.of(bench)
        using stream = bench.stream({ nonBlocking })
        const shared = stream.share()
        stream.beginCapture(mode)
        const wait = waiting(third.ask({ act: 'finished' }))
        await turns()
        assert.equal(wait.isOver(), false)
        assert.equal(await other.ask({ act: 'endShared', shared }), mode === 'relaxed' ? 1 : String(WRONG_THREAD))
        assert.equal(await wait.promise, 'finished')
        await device.finished()
      })

      it('begins when the capture has ended of a stream that another thread shares', async () => {
        await using other = await OtherThread.of(bench)
        await using third = await OtherThread.of(bench)
        using stream = bench.stream({ nonBlocking })
        await other.ask({ act: 'begin', mode, nonBlocking, shared: stream.share() })
        // This thread knows the stream, and is refused as beside captures of its own.
        assert.equal(await numberOf(device.finished()), UNSUPPORTED)
        const wait = waiting(third.ask({ act: 'finished' }))
        await turns()
        assert.equal(wait.isOver(), false)
        assert.equal(await other.ask({ act: 'end' }), 1)
        assert.equal(await wait.promise, 'finished')
        await device.finished()
      })
    })
  }
})
