/** The process that is soaked: the main thread, and the workers that it starts. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { turn } from './client.js'
import { failuresOf, figuresOf, growthOf, handlesLeft, type Sample, short, toldFigures } from './figures.js'
import { Fixture } from './fixture.js'
import { runForeignClients } from './foreign-clients.js'
import { argumentsOf, type Options, parseOptions } from './options.js'
import { shareWithProcess } from './partners.js'
import { PLAY, type Reply, type SharedWork, shareAround } from './sharing.js'
import { toldSlope } from './slopes.js'
import { type Beside, CLIENTS, type Result, Thread } from './thread.js'
import { Trace } from './trace.js'
import { COUNTS, told } from './tracker.js'
import { FAILED, PASSED } from './watchdog.js'
import type { WorkerData } from './worker.js'

/** Tracks of the main thread behind those of its clients and its watcher. */
const SHARES = 4
const FOREIGN_CLIENTS = 5
const PARTNER = 6
const LOOK_MILLISECONDS = 250
const REPORT_MILLISECONDS = 10_000
const MOST_SHOWN = 20
/** In which the garbage collector finds what is left. */
const TURNS = 10
/** For the native layer's thread: many times what it takes. */
const GIVING_BACK_MILLISECONDS = 20_000
/** The part of a soak after which all is in use, and how many samples are taken of the rest. */
const WARM_UP = 1 / 3
const SAMPLES = 40

type Message = { readonly kind: 'ready' } | { readonly kind: 'result'; readonly result: Result } | Reply

/** A worker, as the main thread sees it. */
class Colleague {
  /** Fulfilled when it has used the library, or has ended. */
  readonly ready: Promise<void>
  /** What came of it, or why nothing did; fulfilled when its thread has ended. */
  readonly over: Promise<Result | string>
  playing = true
  readonly #worker: Worker
  #answer: (reply?: Reply) => void = () => {}

  constructor(fixture: Fixture, number: number, trace: string) {
    const workerData: WorkerData = { options: fixture.options, memory: fixture.memory, number, trace }
    this.#worker = new Worker(new URL('worker.js', import.meta.url), { workerData })
    let [result, error]: [Result | undefined, unknown] = [undefined, undefined]
    this.#worker.on('error', (reason) => {
      error = reason
    })
    this.over = new Promise((resolve) => {
      this.#worker.once('exit', (code) => {
        this.playing = false
        this.#answer()
        const why = error === undefined ? `ended with code ${code}` : `ended with ${told(error)}`
        resolve(result !== undefined && code === 0 ? result : `worker ${number} ${why}`)
      })
    })
    const ready = new Promise<void>((resolve) => {
      this.#worker.on('message', (message: Message) => {
        if (message.kind === 'ready') resolve()
        else if (message.kind === 'answered') this.#answer(message)
        else {
          this.playing = false
          ;({ result } = message)
        }
      })
    })
    this.ready = Promise.race([ready, this.over.then(() => {})])
  }

  play(): void {
    this.#worker.postMessage(PLAY)
  }

  /** Undefined where the worker ends meanwhile. */
  ask(work: SharedWork): Promise<Reply | undefined> {
    return new Promise((resolve) => {
      this.#answer = resolve
      if (this.playing) this.#worker.postMessage(work)
      else resolve(undefined)
    })
  }
}

async function soak(options: Options, tracePath: string): Promise<number> {
  const fixture = new Fixture(options)
  const hire = async (): Promise<Colleague[]> => {
    const hired = Array.from({ length: options.workers }, (_, index) => new Colleague(fixture, index + 1, tracePath))
    await Promise.all(hired.map(({ ready }) => ready))
    return hired
  }
  const early = fixture.workersFirst ? await hire() : undefined
  const thread = new Thread(fixture, 0, new Trace(tracePath, 0))
  await thread.ready
  const { tracker, machine } = thread
  // Foreign clients have the same driver, and say nothing of it.
  process.env['CUDA_STREAMS_DRIVER'] = machine.bench.name
  const colleagues = early ?? (await hire())
  for (const colleague of colleagues) colleague.play()
  console.log(`Soak of ${machine.device.name}, driver '${machine.bench.name}', Node ${process.version}`)
  console.log(`Again: npm run soak -- ${argumentsOf(options).join(' ')}`)

  const watch = new Watch(thread)
  const withOthers: readonly Beside[] = [
    (goesOn) => shareAround(thread, SHARES, () => colleagues.filter(({ playing }) => playing), goesOn),
    (goesOn) => runForeignClients(thread, FOREIGN_CLIENTS, goesOn),
    ...(options.alone ? [] : [(goesOn: () => boolean) => shareWithProcess(thread, PARTNER, goesOn)]),
  ]
  const results = [await thread.play(options.workers > 0 ? withOthers : [])]
  watch.stop()
  const ended = await Promise.all(colleagues.map(({ over }) => over))
  results.push(...ended.flatMap((each) => (typeof each === 'string' ? [] : [each])))
  const failures = [
    ...results.flatMap((each) => each.failures),
    ...ended.filter((each) => typeof each === 'string'),
    ...(await watch.leftOver()),
  ]
  const counts = COUNTS.map((name) => `${name} ${results.reduce((sum, { counts }) => sum + counts[name], 0)}`)
  console.log(`${counts.join(', ')}; ${tracker.pending} promises pending`)
  for (const failure of failures.slice(0, MOST_SHOWN)) console.log(`FAILURE: ${failure}`)
  console.log(failures.length === 0 ? 'PASSED' : `FAILED: ${failures.length} failures`)
  return failures.length === 0 ? PASSED : FAILED
}

/** Looks at the clock, and at what the process has. */
class Watch {
  readonly #thread: Thread
  readonly #began = performance.now()
  readonly #looking: NodeJS.Timeout
  #reported = this.#began
  /** The first is of when a third was over, and all was in use for the first time. */
  readonly #samples: Sample[] = []

  constructor(thread: Thread) {
    this.#thread = thread
    thread.tracker.acted = () => this.#measure()
    this.#looking = setInterval(() => this.#look(), LOOK_MILLISECONDS)
  }

  stop(): void {
    clearInterval(this.#looking)
  }

  /** What there is more of than there was early, when everything is closed. */
  async leftOver(): Promise<string[]> {
    // The native layer's thread gives back what workers have left.
    const end = performance.now() + GIVING_BACK_MILLISECONDS
    while ((handlesLeft() ?? 0) > 0 && performance.now() < end) await sleep(LOOK_MILLISECONDS)
    for (let left = TURNS; left > 0; left -= 1) {
      globalThis.gc?.()
      await turn()
    }
    const { machine } = this.#thread
    // What the pool keeps for the next allocations, in steps of 32 MiB, is no leak.
    for (const device of machine.devices) device.memoryPool.trim()
    const now = figuresOf(machine)
    console.log(`at the end: ${toldFigures(now)}`)
    const growth = growthOf(this.#samples, now)
    for (const { figure, from, to, slope } of growth)
      console.log(`${figure}: ${short(from)} after the warm-up, ${short(to)} at the end; ${toldSlope(slope)}`)
    return failuresOf(growth)
  }

  /** From 0 to 1. */
  get #passed(): number {
    const { fixture, tracker } = this.#thread
    const { seconds, steps } = fixture.options
    if (steps === undefined) return (performance.now() - this.#began) / 1000 / seconds
    return tracker.counts.actions / (CLIENTS * steps)
  }

  /** After each action, between two of which nothing else runs. */
  #measure(): void {
    const wanted = WARM_UP + (this.#samples.length * (1 - WARM_UP)) / SAMPLES
    if (this.#passed < wanted || this.#samples.length >= SAMPLES) return
    const { machine, tracker } = this.#thread
    this.#samples.push({ operations: tracker.counts.actions, figures: figuresOf(machine) })
  }

  #look(): void {
    const { fixture, machine, tracker } = this.#thread
    const now = performance.now()
    if (fixture.options.steps === undefined && this.#passed >= 1) fixture.stop()
    if (now - this.#reported < REPORT_MILLISECONDS) return
    this.#reported = now
    const { actions } = tracker.counts
    console.log(
      `${Math.round((now - this.#began) / 1000)} s, ${actions} actions here: ${toldFigures(figuresOf(machine))}`,
    )
  }
}

const args = process.argv.slice(2)
const [trace] = args.splice(args.indexOf('--trace'), 2).slice(1)
if (trace === undefined) throw new Error('main.js starts this')
// Whatever else ends it, it has not passed.
process.exitCode = FAILED
try {
  process.exitCode = await soak(parseOptions(args), trace)
} catch (error) {
  console.log(`FAILURE: ${told(error)}`)
}
