/**
 * Steps instead of time: a director chooses which of the ready operations ends next, which host function runs, which
 * promise is settled, and when the host, which looks at something or waits, goes on.
 */
import type { SimOperation } from './machine-state.js'
import type { HostLook, HostWait, Runs, Scheduler, Steps } from './scheduler.js'
import { SimOperationKind } from './work.js'

/** A step that can come next. */
export interface Choice {
  /** The host goes on; an operation ends; a host function runs, and with it its operation; a promise is settled. */
  readonly kind: 'host' | 'run' | 'settle' | 'end'
  /** Undefined for the host. */
  readonly operation: SimOperation | undefined
}

/** Where the host is while something is chosen. */
export interface Where {
  /** In the midst of JavaScript, which nothing else can run beside. */
  readonly running: boolean
  /** In so many blocking waits, one inside the other. */
  readonly depth: number
  /** The operation that the innermost of them waits for, if it is one. */
  readonly waitsFor: SimOperation | undefined
  /** Operations whose host functions alone could run here, due or not; undefined where any could. */
  readonly runnable: ReadonlySet<SimOperation> | undefined
}

export interface Director {
  /** One of the choices, of which there is at least one. The calls that follow are of its making. */
  choose(choices: readonly Choice[], where: Where): Choice
  queued(operation: SimOperation): void
  over(operation: SimOperation): void
  opened(latch: SimOperation): void
  looks(look: HostLook): void
  /** Is it memory that JavaScript has views of? */
  isViewed(operation: SimOperation): boolean
}

const GO_ON: Choice = { kind: 'host', operation: undefined }
/** Virtual nanoseconds: so that the numbers of `now` and of elapsed time go up, and mean nothing else. */
const STEP = 100

export class ChosenScheduler implements Scheduler {
  readonly explores = true
  readonly putsOff = false
  now = 0
  readonly #ready = new Set<SimOperation>()
  readonly #due = new Map<SimOperation, number>()
  /** Host functions that have not run, due or not. */
  readonly #hosts = new Set<SimOperation>()
  /** Over, and their promises not settled yet. */
  readonly #settles = new Set<SimOperation>()
  #depth = 0
  #stopped = false
  #faultIsNear = false
  /** Steps of the GPU so far, and how many there were when the host last saw that something was not done. */
  #progress = 0
  #seen: { readonly unfinished: SimOperation; readonly progress: number } | undefined
  #chosen: Choice = GO_ON

  constructor(
    private readonly steps: Steps,
    private readonly director: Director,
  ) {}

  queued(operation: SimOperation): void {
    if (operation.fails !== 0) this.#faultIsNear = true
    if (operation.kind === SimOperationKind.HOST) this.#hosts.add(operation)
    this.director.queued(operation)
  }

  ready(operation: SimOperation): void {
    if (operation.kind === SimOperationKind.HOST) this.#due.set(operation, 0)
    else this.#ready.add(operation)
  }

  over(operation: SimOperation): void {
    operation.time = this.now
    this.#ready.delete(operation)
    this.#hosts.delete(operation)
    this.director.over(operation)
  }

  opened(latch: SimOperation): void {
    this.director.opened(latch)
  }

  drop(): Iterable<SimOperation> {
    const dropped = [...this.#ready]
    for (const [operation, status] of this.#due) if (status === 0) dropped.push(operation)
    this.#ready.clear()
    for (const operation of dropped) this.#due.delete(operation)
    return dropped
  }

  callBack(operation: SimOperation, status: number): void {
    this.#due.set(operation, status)
  }

  settleLater(operation: SimOperation): void {
    this.#settles.add(operation)
  }

  reset(live: readonly SimOperation[]): void {
    for (const kept of [this.#ready, this.#due, this.#hosts, this.#settles]) kept.clear()
    for (const operation of live) if (operation.host !== undefined) this.#hosts.add(operation)
  }

  /** Where a fault may come at any time, every call may be the first to hear of it. */
  tick(): void {
    this.steps.mend()
    if (this.#faultIsNear) this.#point()
  }

  look(look: HostLook): void {
    const unfinished = firstUnfinished(look)
    // To look again before anything has happened brings nothing: a loop that polls would never end.
    const again = unfinished !== undefined && this.#seen?.unfinished === unfinished
    this.#point(again && this.#seen?.progress === this.#progress)
    if (unfinished !== undefined) this.#seen = { unfinished, progress: this.#progress }
    this.director.looks(look)
  }

  handedOver(operation: SimOperation): void {
    const { work } = operation
    if (operation.over || work === undefined || !this.director.isViewed(operation)) return
    this.#point()
    for (const memory of work.touches) this.director.looks({ operations: undefined, memory })
  }

  block(wait: HostWait, runs: Runs): boolean {
    this.#depth += 1
    try {
      for (;;) {
        this.steps.mend()
        const isOver = wait.isOver()
        let runnable = runs === 'any' ? undefined : this.#runnable(wait, runs)
        let choices = this.#javascript(runnable)
        if (runs === 'needed' && !isOver && choices.length + this.#ready.size === 0) {
          // Nothing goes on by itself: a host function that is not known to be needed may be.
          runnable = undefined
          choices = this.#javascript()
        }
        if (isOver) choices.unshift(GO_ON)
        const where: Where = { running: false, depth: this.#depth, waitsFor: wait.last, runnable }
        if (!this.#choose(choices, where)) return false
        if (this.#chosen === GO_ON) return true
      }
    } finally {
      this.#depth -= 1
    }
  }

  /** An exploration alone decides what happens in its machine. */
  step(): boolean {
    return false
  }

  turn(): boolean {
    this.steps.mend()
    const choices = this.#javascript()
    for (const operation of this.#settles) choices.push({ kind: 'settle', operation })
    return this.#choose(choices, { running: false, depth: 0, waitsFor: undefined, runnable: undefined })
  }

  /** The run is over: nothing is chosen any more. */
  stop(): void {
    this.#stopped = true
  }

  /** Nothing can happen until JavaScript does something. */
  get stuck(): boolean {
    return this.#ready.size + this.#due.size + this.#settles.size === 0
  }

  /** Lets the GPU go on before the host does. */
  #point(hostRests = false): void {
    const where: Where = { running: true, depth: this.#depth, waitsFor: undefined, runnable: undefined }
    let rests = hostRests
    do {
      if (!this.#choose(rests ? [] : [GO_ON], where)) return
      rests = false
    } while (this.#chosen !== GO_ON)
  }

  #runnable(wait: HostWait, runs: Runs): ReadonlySet<SimOperation> {
    return new Set(runs === 'needed' ? [...this.#hosts].filter((host) => wait.needs(host)) : [])
  }

  /** Host functions run one after the other, but those of one stream, which tell of a fault, in their order. */
  #javascript(runnable?: ReadonlySet<SimOperation>): Choice[] {
    const choices: Choice[] = []
    const told = new Set<unknown>()
    for (const [operation, status] of this.#due) {
      if (runnable !== undefined && !runnable.has(operation)) continue
      if (status !== 0 && told.has(operation.stream)) continue
      if (status !== 0) told.add(operation.stream)
      choices.push({ kind: 'run', operation })
    }
    return choices
  }

  /** Adds what the GPU can do to the choices, and does what is chosen. False where there is none. */
  #choose(choices: Choice[], where: Where): boolean {
    return this.steps.whole(() => {
      for (const operation of this.#ready) choices.push({ kind: 'end', operation })
      if (choices.length === 0 || this.#stopped) return false
      this.now += STEP
      const chosen = this.director.choose(choices, where)
      this.#do(chosen)
      this.#chosen = chosen
      return true
    })
  }

  #do({ kind, operation }: Choice): void {
    if (operation === undefined) return
    if (kind === 'settle') {
      this.#settles.delete(operation)
      this.steps.settle(operation)
      return
    }
    this.#progress += 1
    if (kind === 'run') {
      const status = this.#due.get(operation) ?? 0
      this.#due.delete(operation)
      this.steps.runHostFunction(operation, status)
    } else {
      this.#ready.delete(operation)
      this.steps.end(operation)
    }
  }
}

function firstUnfinished({ operations }: HostLook): SimOperation | undefined {
  for (const operation of operations ?? []) if (operation !== undefined && !operation.over) return operation
  return undefined
}
