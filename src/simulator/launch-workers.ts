/**
 * The threads on which long launches of kernels run (src/ptx/block-workers.ts). They start when a launch needs them first, do not keep the process
 * alive, and serve all simulations of the thread that started them.
 */
import { monotonicTime } from '../foundation/base/event-loop.js'
import { process, workerThreads } from '../foundation/base/node-modules.js'
import { isSharedMemory, newSharedMemory } from '../foundation/base/shared-memory.js'
import { isGone } from '../foundation/base/system-threads.js'
import type { BlockResult, BlockRun, BlockTask, BlockWorkers, RestOfLaunch, WorkerKernel } from '../ptx/ptx.js'

/** A message to a worker. */
export type WorkerRequest =
  | { readonly kind: 'load'; readonly id: number; readonly kernel: WorkerKernel }
  | { readonly kind: 'unload'; readonly id: number }
  | { readonly kind: 'run'; readonly id: number; readonly task: BlockTask }

/** The data that a worker starts with. */
export interface WorkerData {
  readonly control: Int32Array
  readonly answers: InstanceType<typeof workerThreads.MessageChannel>['port2']
}

/** The indices of the words in which a worker counts the requests that it has answered, and gives its thread's number. */
export const CONTROL = { answered: 0, thread: 1 } as const

/** The URL of this file in a constant: webpack bundles a file that is named by `new URL()` with import.meta.url itself, but not what it imports. */
const HERE = import.meta.url
/** The milliseconds of a wait after which it is checked that the worker still exists. */
const INTERVAL_MS = 100
/** The patience with a worker, as a multiple of the time that one core would take: not every system shows that a thread is gone. */
const PATIENCE = 50
const LEAST_PATIENCE_MS = 10_000
/**
 * The milliseconds that code must have run on one core before workers get the rest of a launch, and that the rest must be expected to take: code is
 * several times as fast once the engine has optimised it.
 */
const SPREAD = { after: 60, least: 20 }
/**
 * The bytes that may be copied to workers for each millisecond of the rest: a kernel that moves memory more than it computes is as fast on one core.
 */
const MOST_BYTES = 60_000
/** The share of one core's time that workers may take to be worth their cost. */
const WORTH = 0.9
/** The milliseconds in which workers may be slower than that, as the engine has not optimised their code yet; but not slower by more than so much. */
const TRIAL_MS = 300
const SLOW = 3
/** The milliseconds that code runs on one core after workers were too slow for the first time, for each millisecond that they took. */
const FIRST_PAUSE = 4
const MOST_CORES = 8

/** The answer of a worker: the result of 'run', undefined if the run failed. */
export interface WorkerAnswer {
  readonly result: BlockResult | undefined
}

class LaunchWorker {
  readonly #control = new Int32Array(newSharedMemory(8))
  readonly #worker
  readonly #answers
  readonly #loaded = new Set<number>()
  #asked = 0
  isLost = false

  constructor() {
    const { port1, port2 } = new workerThreads.MessageChannel()
    this.#answers = port1
    const workerData: WorkerData = { control: this.#control, answers: port2 }
    const file = new URL('./launch-worker.js', HERE)
    this.#worker = new workerThreads.Worker(file, { workerData, transferList: [port2], execArgv: [] })
    this.#worker.on('error', () => {
      this.isLost = true
    })
    this.#worker.unref()
    port1.unref()
  }

  get isIdle(): boolean {
    return Atomics.load(this.#control, CONTROL.answered) === this.#asked
  }

  load(id: number, kernel: () => WorkerKernel): void {
    if (this.#loaded.has(id)) return
    this.#loaded.add(id)
    this.ask({ kind: 'load', id, kernel: kernel() })
  }

  unload(id: number): void {
    if (this.#loaded.delete(id)) this.ask({ kind: 'unload', id })
  }

  ask(request: WorkerRequest): void {
    this.#asked += 1
    this.#worker.postMessage(request)
  }

  /**
   * Waits at most so many milliseconds until all requests are answered; returns whether they are, or the worker is lost, as one counts that has not
   * answered by `lostAt`.
   */
  isDone(milliseconds: number, lostAt: number): boolean {
    const until = monotonicTime() + milliseconds
    for (;;) {
      const answered = Atomics.load(this.#control, CONTROL.answered)
      if (answered === this.#asked) return true
      this.isLost ||= isGone(Atomics.load(this.#control, CONTROL.thread)) || monotonicTime() > lostAt
      if (this.isLost) {
        void this.#worker.terminate()
        return true
      }
      const left = until - monotonicTime()
      if (left <= 0) return false
      Atomics.wait(this.#control, CONTROL.answered, answered, Math.min(INTERVAL_MS, left))
    }
  }

  /** The latest answer, once all requests are answered; undefined if the worker is lost. */
  takeAnswer(): BlockResult | undefined {
    let latest: BlockResult | undefined
    for (;;) {
      const received: { readonly message: WorkerAnswer } | undefined = workerThreads.receiveMessageOnPort(this.#answers)
      if (received === undefined) return this.isLost ? undefined : latest
      latest = received.message.result
    }
  }
}

const workers: LaunchWorker[] = []
let shared = newSharedMemory(0)
let kernels = 0

/** Starts the workers that are missing; returns false if there can be no workers, as in a page. */
function start(count: number): boolean {
  if (typeof workerThreads.Worker !== 'function' || !isSharedMemory(shared)) return false
  try {
    while (workers.length < count) workers.push(new LaunchWorker())
  } catch {
    // A process without permission to start threads gets here.
  }
  return workers.length >= count && workers.every(({ isLost }) => !isLost)
}

/** The workers of one kernel, on as many cores. */
export class KernelWorkers implements BlockWorkers {
  readonly #id = ++kernels
  /** The milliseconds that workers have taken so far. */
  #taken = 0
  /** The milliseconds that code had run on one core when workers were offered the rest of a launch last. */
  #computed = 0
  /**
   * The milliseconds that code must have run on one core before workers are tried again, since they were too slow: recording accesses, or other load of
   * the machine, cost more than the cores are worth. Each time they are, the pause becomes twice as long.
   */
  #pausedUntil = 0
  #pause = FIRST_PAUSE

  constructor(
    readonly count: number,
    private readonly kernel: () => WorkerKernel,
  ) {}

  isWorth({ computed, rest, byteLength }: RestOfLaunch): boolean {
    this.#computed = computed
    if (computed < SPREAD.after || computed < this.#pausedUntil) return false
    return rest >= SPREAD.least && byteLength <= rest * MOST_BYTES
  }

  isReady(): boolean {
    if (!start(this.count)) return false
    const own = workers.slice(0, this.count)
    for (const worker of own) worker.load(this.#id, this.kernel)
    return own.every(({ isIdle }) => isIdle)
  }

  memory(byteLength: number): ArrayBufferLike {
    if (shared.byteLength < byteLength) shared = newSharedMemory(byteLength)
    return shared
  }

  run(task: BlockTask, milliseconds: number): BlockRun {
    const begun = monotonicTime()
    const lostAt = begun + Math.max(LEAST_PATIENCE_MS, PATIENCE * milliseconds)
    const own = workers.slice(0, this.count)
    for (const worker of own) worker.ask({ kind: 'run', id: this.#id, task })
    /** The latest time at which a worker was known to be at work. */
    let busy = begun
    return {
      results: (wait) => {
        const until = monotonicTime() + wait
        // Workers that were done before this call may have been done for long.
        const wereDone = own.every((worker) => worker.isDone(0, lostAt))
        for (const worker of own) {
          if (worker.isDone(Math.max(0, until - monotonicTime()), lostAt)) continue
          busy = monotonicTime()
          return 'pending'
        }
        const taken = (wereDone ? busy : monotonicTime()) - begun
        this.#taken += taken
        if (taken <= WORTH * milliseconds) this.#pause = FIRST_PAUSE
        else if (this.#taken > TRIAL_MS || taken > SLOW * milliseconds) {
          this.#pausedUntil = this.#computed + this.#pause * taken
          this.#pause *= 2
        }
        const results = own.map((worker) => worker.takeAnswer())
        return results.every((each) => each !== undefined) ? results : undefined
      },
    }
  }

  close(): void {
    for (const worker of workers) worker.unload(this.#id)
  }
}

/** The number of cores that a launch uses by default. */
export function availableCores(): number {
  try {
    return Math.min(MOST_CORES, process.getBuiltinModule('node:os').availableParallelism())
  } catch {
    // A page, or a process without the permission to ask, gets here.
    return 1
  }
}
