/**
 * The sanitizers of three threads find what one finds that sees the same calls, in the same order, in one thread: no race more, and
 * none less.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { it } from 'node:test'
import { Worker } from 'node:worker_threads'
import type { Device } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import fc from 'fast-check'
import { byEffort, runs } from '../../helpers/effort.js'
import { onEveryBackend } from '../../helpers/suite.js'
import type { Reply, Request } from './children/program-thread.js'
import { Player, programs, racesIn, type SharedOfThread, type Step, THREADS } from './thread-play.js'

const RUNS = runs({ quick: 60, normal: 150, nightly: 3000 })
/** Other programs every night; the same in each other run. */
const RANDOM = byEffort({ quick: false, normal: false, nightly: true })
const SEED = 20261126

class ProgramThread implements AsyncDisposable {
  readonly #worker: Worker

  constructor(driver: string) {
    const env = { ...process.env, CUDA_STREAMS_DRIVER: driver, CUDA_STREAMS_SANITIZER: '' }
    this.#worker = new Worker(new URL('./children/program-thread.js', import.meta.url), { env })
  }

  async ask(request: Request): Promise<Reply> {
    this.#worker.postMessage(request)
    const [reply] = (await once(this.#worker, 'message')) as [Reply]
    if (reply.failed !== undefined) throw new Error(`in another thread: ${reply.failed}`)
    return reply
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate()
  }
}

async function racesOfThreads(threads: readonly ProgramThread[], steps: readonly Step[]): Promise<readonly string[]> {
  const all: SharedOfThread[] = []
  for (const thread of threads) {
    const { shared } = await thread.ask({ act: 'begin' })
    if (shared !== undefined) all.push(shared)
  }
  for (const thread of threads) await thread.ask({ act: 'receive', all })
  for (const [number, step] of steps.entries()) await threads[step.thread]?.ask({ act: 'play', step, number })
  const races: string[] = []
  for (const thread of threads) races.push(...((await thread.ask({ act: 'races' })).races ?? []))
  for (const thread of threads) await thread.ask({ act: 'close' })
  return races.sort()
}

/** The same calls, by one thread that has the objects of all. */
async function racesOfOneThread(device: Device, steps: readonly Step[]): Promise<readonly string[]> {
  using sanitizer = Sanitizer.start({ device, stacks: 'none' })
  const players = Array.from({ length: THREADS }, () => new Player(device))
  for (const player of players) player.take(players.map(({ things }) => things))
  for (const [number, step] of steps.entries()) await players[step.thread]?.play(step, number)
  const races = [...racesIn(sanitizer.reports)].sort()
  for (const player of players) player.release()
  for (const player of players) player.close()
  return races
}

onEveryBackend('sanitizers of three threads', (bench) => {
  it(`find in ${RUNS} random programs what one thread finds`, async (context) => {
    const { device } = bench
    await using first = new ProgramThread(bench.name)
    await using second = new ProgramThread(bench.name)
    await using third = new ProgramThread(bench.name)
    let racy = 0
    await fc.assert(
      fc.asyncProperty(programs, async (steps) => {
        const expected = await racesOfOneThread(device, steps)
        if (expected.length > 0) racy += 1
        assert.deepEqual(await racesOfThreads([first, second, third], steps), expected)
      }),
      { numRuns: RUNS, ...(RANDOM ? {} : { seed: SEED }) },
    )
    context.diagnostic(`${racy} of ${RUNS} programs had a race`)
    assert.ok(racy > RUNS / 10, 'programs with races are there')
  })
})
