/**
 * A scheduler of steps instead of time. A director chooses which of the ready operations ends next, which host function runs, which promise is
 * settled, when a host that queries or waits goes on, and when the event loop turns.
 */
import { deadlock } from '../../foundation/driver/deadlocks.js'
import type { SimOperation, SimStream } from './machine-state.js'
import { Queue } from './queue.js'
import type { HostLook, HostWait, Runs, Scheduler, Steps } from './scheduler.js'
import { isLatch, SimOperationKind, touchesOverlap } from './work.js'

/** A step that can come next. */
export interface Choice {
  /**
   * The kind of step: the host goes on; an operation ends; a host function runs, and with it its operation; a promise is settled; the event loop
   * comes to something that the program itself has put there.
   */
  readonly kind: 'host' | 'run' | 'settle' | 'end' | 'turn'
  /** The operation of the step; undefined for the host, and for a turn. */
  readonly operation: SimOperation | undefined
}

/** The state of the host while a step is chosen. */
export interface Where {
  /** Whether the host is in the middle of JavaScript, beside which nothing else of JavaScript can run. */
  readonly running: boolean
  /** The number of blocking waits that the host is in, one inside the other. */
  readonly depth: number
  /** The innermost of the blocking waits. */
  readonly wait: HostWait | undefined
  /** The only operations whose host functions could run here, due or not; undefined if any could. */
  readonly runnable: ReadonlySet<SimOperation> | undefined
  /** The director's number for the step in which the program asked for the turn that would be next. */
  readonly since: number | undefined
}

export interface Director {
  /** Picks one of the choices, of which there is at least one. The calls that follow result from that choice. */
  choose(choices: readonly Choice[], where: Where): Choice
  queued(operation: SimOperation): void
  over(operation: SimOperation): void
  opened(latch: SimOperation): void
  looks(look: HostLook): void
  /** Whether the operation uses memory of which JavaScript has views. */
  isViewed(operation: SimOperation): boolean
  /** Throws if the program has no more time. Each call of the program's calls it. */
  checkTime(): void
  /** Notes that an order that could matter is left out, and why. */
  leftOut(why: string): void
}

const GO_ON: Choice = { kind: 'host', operation: undefined }
const TURN: Choice = { kind: 'turn', operation: undefined }
const OUTSIDE: Where = { running: false, depth: 0, wait: undefined, runnable: undefined, since: undefined }
/** The virtual nanoseconds of a step: times only have to increase, and mean nothing else. */
const STEP = 100
/** The number of times that the host may query one operation, and that the event loop may turn, while the GPU could go on and does not. */
const MOST_ASKED = 3
const MOST_TURNS = 20
/** The number of host functions and promises that come before a turn that the program asked for, in the default schedule. */
const MOST_SERVED = 1000
/** The number of times that the program may query, or wait for a turn, if nothing but itself can change the answer. */
export const MOST_IDLE = 1000

export class ChosenScheduler implements Scheduler {
  readonly explores = true
  readonly putsOff = false
  now = 0
  readonly #ready = new Set<SimOperation>()
  /** The frees beside the streams: if many of them are left to the end, they are done in their order. */
  readonly #frees = new Set<SimOperation>()
  readonly #due = new Map<SimOperation, number>()
  /** The host functions that have not run, due or not. */
  readonly #hosts = new Set<SimOperation>()
  /** The unfinished operations that use memory of which JavaScript had views when it went on, and are blocked by others. */
  readonly #standing = new Set<SimOperation>()
  readonly #latches = new Set<SimOperation>()
  /** The operations that are over and whose promises have not been settled yet. */
  readonly #settles = new Settles()
  #depth = 0
  #stopped = false
  #faultIsNear = false
  /** Whether JavaScript runs, in a step. */
  #running = true
  /** Whether a turn was chosen and has not come yet. */
  #awaitsTurn = false
  /** The director's number for the step in which the program asked for a turn that has come without being chosen. */
  #since: number | undefined
  /**
   * The number of times that the program has queried each operation or address since the GPU last did something; `#turns` counts the turns that were
   * preferred to the GPU.
   */
  readonly #asked = new Map<SimOperation | number, number>()
  #turns = 0
  /** The number of host functions and promises since the last turn. */
  #served = 0
  /** The number of times that the program has queried, or had a turn, since anything was queued or happened. */
  idle = 0
  #chosen: Choice = GO_ON
  /** Whether an operation that runs no JavaScript is ending. */
  #ending = false

  constructor(
    private readonly steps: Steps,
    private readonly director: Director,
  ) {}

  queued(operation: SimOperation): void {
    this.idle = 0
    if (operation.fails !== 0) this.#faultIsNear = true
    if (operation.kind === SimOperationKind.HOST) this.#hosts.add(operation)
    if (isLatch(operation.kind)) this.#latches.add(operation)
    this.director.queued(operation)
  }

  defers(): boolean {
    return false
  }

  ready(operation: SimOperation): void {
    if (operation.kind === SimOperationKind.HOST) this.#due.set(operation, 0)
    else if (isFreeBeside(operation)) this.#frees.add(operation)
    else this.#ready.add(operation)
  }

  over(operation: SimOperation): void {
    operation.time = this.now
    this.#ready.delete(operation)
    this.#frees.delete(operation)
    this.#hosts.delete(operation)
    this.#standing.delete(operation)
    this.#latches.delete(operation)
    this.director.over(operation)
  }

  opened(latch: SimOperation): void {
    this.idle = 0
    // The program has written the value that the stream waited for, and may have gone on to read other memory.
    const isWritten = latch.work?.isReady !== undefined && !this.#ending
    if (isWritten && [...this.#standing].some((operation) => latch.isBefore(operation)))
      this.director.leftOut('JavaScript writes a value that lets work go on which uses memory it has views of')
    this.director.opened(latch)
  }

  drop(): Iterable<SimOperation> {
    const dropped = [...this.#ready, ...this.#frees]
    for (const [operation, status] of this.#due) if (status === 0) dropped.push(operation)
    this.#ready.clear()
    this.#frees.clear()
    for (const operation of dropped) this.#due.delete(operation)
    return dropped
  }

  callBack(operation: SimOperation, status: number): void {
    this.#due.set(operation, status)
  }

  settleLater(operation: SimOperation): void {
    this.#settles.add(operation)
  }

  /** Lets the GPU go on at each call of the program's if a fault may come at any time, since any call may be the first to report it. */
  tick(): void {
    this.steps.passValues()
    this.#enter()
    if (this.#faultIsNear) this.#point(GO_ON)
  }

  look(look: HostLook): void {
    this.#enter()
    this.idle += 1
    const asked = firstUnfinished(look) ?? look.memory?.pointer
    const times = asked === undefined ? 0 : (this.#asked.get(asked) ?? 0) + 1
    if (asked !== undefined) this.#asked.set(asked, times)
    if (times > MOST_IDLE && this.idle > MOST_IDLE && this.#ready.size === 0) throw endless()
    // A program that queries again and again before anything has happened gains nothing, and a loop that polls would never end.
    const isPatient = times <= MOST_ASKED
    if (!isPatient && this.#ready.size > 0) this.director.leftOut('the program queries again and again')
    this.#point(GO_ON, !isPatient)
    this.director.looks(look)
  }

  handedOver(operation: SimOperation): void {
    // The operations that were blocked until now can run from now on.
    const begin = this.#letsGo(operation) ? [...this.#standing] : []
    if (!operation.over && this.director.isViewed(operation)) begin.push(operation)
    if (begin.length === 0) return
    this.#point(GO_ON)
    for (const one of begin) {
      for (const memory of one.work?.touches ?? []) this.director.looks({ operations: undefined, memory })
      if (!one.over) this.#standing.add(one)
    }
  }

  /** Whether the operation is a latch that was opened, or writes a value that a stream waits for. */
  #letsGo(operation: SimOperation): boolean {
    if (this.#standing.size === 0) return false
    if (isLatch(operation.kind)) return true
    const touches = operation.work?.touches ?? []
    return [...this.#latches].some(({ work }) => touchesOverlap(touches, work?.touches ?? []) !== undefined)
  }

  block(wait: HostWait, runs: Runs): boolean {
    this.#depth += 1
    try {
      for (;;) {
        this.steps.passValues()
        this.director.checkTime()
        const isOver = wait.isOver()
        let runnable = runs === 'any' ? undefined : this.#runnable(wait, runs)
        let choices = this.#javascript(runnable)
        if (runs === 'needed' && !isOver && choices.length + this.#ready.size === 0) {
          // Nothing else can happen: a host function that is not known to be needed may still be.
          runnable = undefined
          choices = this.#javascript()
        }
        if (isOver) choices.unshift(GO_ON)
        if (!this.#choose(this.#withEnds(choices), { ...OUTSIDE, depth: this.#depth, wait, runnable })) return false
        if (this.#chosen === GO_ON) return true
      }
    } finally {
      this.#depth -= 1
    }
  }

  /** Never steps by itself: an exploration alone decides what happens in its machine, and when (see `next()`). */
  step(): boolean {
    return false
  }

  turn(): boolean {
    return false
  }

  /**
   * Lets one thing happen while JavaScript has nothing to do; undefined if nothing can. If `since` is given the event loop will come to something of
   * the program's, which asked for it in that step. If that turn is chosen, nothing is to be done until it has come.
   */
  next(since?: number): Choice['kind'] | undefined {
    this.steps.passValues()
    this.rest()
    const where: Where = { ...OUTSIDE, since }
    const choices = this.#withEnds(this.#settles.addTo(this.#javascript()))
    const others = choices.length > 0
    if (since === undefined || !others) {
      if (since !== undefined) choices.push(TURN)
      return this.#choose(choices, where) ? this.#chosen.kind : undefined
    }
    if (this.#served >= MOST_SERVED) {
      this.director.leftOut('the program goes on and on before the event loop turns')
      this.#choose([TURN], where)
    } else {
      if (this.#turns < MOST_TURNS) choices.push(TURN)
      else this.director.leftOut('the program has the event loop turn again and again')
      this.#choose(choices, where)
      if (this.#chosen === TURN) this.#turns += 1
    }
    return this.#chosen.kind
  }

  /** Notes that JavaScript has nothing to do: if it goes on, the event loop has come to something that was not foreseen. */
  rest(): void {
    this.#running = false
  }

  /** Notes that the event loop has come to something of the program's. `since` is as for `next()`; undefined if the turn was not foreseen. */
  turned(since: number | undefined): void {
    this.#running = this.#awaitsTurn && since !== undefined
    this.#awaitsTurn = false
    if (this.#running) return
    this.#since = since
    if (this.#due.size > 0 || !this.#settles.isEmpty)
      this.director.leftOut('several turns of the event loop come at once')
  }

  /** Ends the run: nothing is chosen any more. */
  stop(): void {
    this.#stopped = true
  }

  /** Notes that the program makes a call: JavaScript may have begun to run by itself. */
  #enter(): void {
    this.director.checkTime()
    if (this.#running || this.#stopped) return
    this.#running = true
    if (this.#since === undefined)
      this.director.leftOut('the program goes on by what explore() cannot see or hold back')
    this.#point(TURN)
    this.#since = undefined
  }

  /** Lets the GPU go on before the host does. */
  #point(host: Choice, hostRests = false): void {
    const running = host === GO_ON
    const where: Where = { ...OUTSIDE, running, depth: running ? this.#depth : 0, since: this.#since }
    let rests = hostRests
    do {
      if (!this.#choose(this.#withEnds(rests ? [] : [host]), where)) return
      rests = false
    } while (this.#chosen !== host)
    this.#awaitsTurn = false
  }

  #runnable(wait: HostWait, runs: Runs): ReadonlySet<SimOperation> {
    return new Set(runs === 'needed' ? [...this.#hosts].filter((host) => wait.needs(host)) : [])
  }

  /** The steps that run JavaScript. Host functions run one after the other in any order, but those of one stream that report a fault in their own. */
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

  /** Adds the steps of the GPU. */
  #withEnds(choices: Choice[]): Choice[] {
    for (const operation of this.#ready) choices.push({ kind: 'end', operation })
    for (const operation of this.#frees) {
      choices.push({ kind: 'end', operation })
      break
    }
    return choices
  }

  /** Lets the director choose, and does what it chose. Returns false if there is nothing to choose. */
  #choose(choices: readonly Choice[], where: Where): boolean {
    this.steps.passValues()
    if (choices.length === 0 || this.#stopped) return false
    this.now += STEP
    const chosen = this.director.choose(choices, where)
    this.#do(chosen)
    this.#chosen = chosen
    return true
  }

  #do({ kind, operation }: Choice): void {
    if (kind === 'turn') {
      this.idle += 1
      this.#served = 0
      this.#awaitsTurn = true
    }
    if (operation === undefined) return
    this.idle = 0
    this.#turns = 0
    this.#running ||= kind !== 'end'
    if (kind === 'settle') {
      this.#served += 1
      this.#settles.delete(operation)
      this.steps.settle(operation)
      return
    }
    this.#asked.clear()
    if (kind === 'run') {
      this.#served += 1
      const status = this.#due.get(operation) ?? 0
      this.#due.delete(operation)
      this.steps.runHostFunction(operation, status)
    } else {
      this.#ready.delete(operation)
      this.#frees.delete(operation)
      this.#ending = true
      try {
        this.steps.end(operation)
      } finally {
        this.#ending = false
      }
    }
  }
}

/** Whether the operation is a free in no stream, which is ordered after nothing but the uses of its memory. */
export function isFreeBeside({ kind, inStream }: SimOperation): boolean {
  return kind === SimOperationKind.INSTANT && !inStream
}

/** The operations that are over and whose promises are to be settled: those of one stream in their order. */
class Settles {
  readonly #ofStream = new Map<SimStream, Queue<SimOperation>>()

  get isEmpty(): boolean {
    return this.#ofStream.size === 0
  }

  add(operation: SimOperation): void {
    const { stream } = operation
    const queue = this.#ofStream.get(stream)
    if (queue !== undefined) queue.push(operation)
    else {
      const first = new Queue<SimOperation>()
      first.push(operation)
      this.#ofStream.set(stream, first)
    }
  }

  addTo(choices: Choice[]): Choice[] {
    for (const [stream, queue] of this.#ofStream) {
      for (const operation of queue) {
        choices.push({ kind: 'settle', operation })
        // The null stream stands for waits for events and devices, which have no order among each other.
        if (stream !== stream.device.nullStream) break
      }
    }
    return choices
  }

  delete(operation: SimOperation): void {
    const queue = this.#ofStream.get(operation.stream)
    queue?.take((one) => one === operation)
    if (queue?.length === 0) this.#ofStream.delete(operation.stream)
  }

  clear(): void {
    this.#ofStream.clear()
  }
}

function endless(): Error {
  const why = 'nothing can change the answer meanwhile. Return to the event loop, or open the latch that blocks'
  return deadlock(`asking again, after ${MOST_IDLE} times,`, why)
}

function firstUnfinished({ operations }: HostLook): SimOperation | undefined {
  for (const operation of operations ?? []) if (operation !== undefined && !operation.over) return operation
  return undefined
}
