/**
 * Steps instead of time: a director chooses which of the ready operations ends next, which host function runs, which
 * promise is settled, when the host, which looks at something or waits, goes on, and when the event loop turns.
 */
import { deadlock } from '../../foundation/driver/deadlocks.js'
import type { SimOperation, SimStream } from './machine-state.js'
import { Queue } from './queue.js'
import type { HostLook, HostWait, Runs, Scheduler, Steps } from './scheduler.js'
import { isLatch, SimOperationKind, touchesOverlap } from './work.js'

/** A step that can come next. */
export interface Choice {
  /**
   * The host goes on; an operation ends; a host function runs, and with it its operation; a promise is settled; the event
   * loop comes to something that the program itself has put there.
   */
  readonly kind: 'host' | 'run' | 'settle' | 'end' | 'turn'
  /** Undefined for the host, and for a turn. */
  readonly operation: SimOperation | undefined
}

/** Where the host is while something is chosen. */
export interface Where {
  /** In the middle of JavaScript, which nothing else can run beside. */
  readonly running: boolean
  /** In so many blocking waits, one inside the other. */
  readonly depth: number
  /** The innermost of them. */
  readonly wait: HostWait | undefined
  /** Operations whose host functions alone could run here, due or not; undefined where any could. */
  readonly runnable: ReadonlySet<SimOperation> | undefined
  /** Of a turn: the director's number for the step in which the program asked for it. */
  readonly since: number | undefined
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
  /** Called at each call of the program's: throws where it has no more time. */
  checkTime(): void
  /** An order that could matter is left out, for this reason. */
  leftOut(why: string): void
}

const GO_ON: Choice = { kind: 'host', operation: undefined }
const TURN: Choice = { kind: 'turn', operation: undefined }
const OUTSIDE: Where = { running: false, depth: 0, wait: undefined, runnable: undefined, since: undefined }
/** Virtual nanoseconds: so that the numbers of `now` and of elapsed time go up, and mean nothing else. */
const STEP = 100
/** So often the host may ask how far one operation is, and the event loop turn, while the GPU could go on and does not. */
const MOST_ASKED = 3
const MOST_TURNS = 20
/** So many host functions and promises come before a turn that the program asked for, in the default schedule. */
const MOST_SERVED = 1000
/** So often the program may ask, or wait for a turn, where nothing can change the answer but itself. */
export const MOST_IDLE = 1000

export class ChosenScheduler implements Scheduler {
  readonly explores = true
  readonly putsOff = false
  now = 0
  readonly #ready = new Set<SimOperation>()
  /** Frees beside the streams: so many may be left to the end that they are done in their order. */
  readonly #frees = new Set<SimOperation>()
  readonly #due = new Map<SimOperation, number>()
  /** Host functions that have not run, due or not. */
  readonly #hosts = new Set<SimOperation>()
  /** Operations that use memory JavaScript has views of, and were not over when it went on; and what they stand behind. */
  readonly #standing = new Set<SimOperation>()
  readonly #latches = new Set<SimOperation>()
  /** Over, and their promises not settled yet. */
  readonly #settles = new Settles()
  #depth = 0
  #stopped = false
  #faultIsNear = false
  /** JavaScript runs, in a step. */
  #running = true
  /** A turn was chosen, and has not come. */
  #awaitsTurn = false
  /** A turn has come that was not chosen: the director's number for the step in which the program asked for it. */
  #since: number | undefined
  /** Since the GPU last did something: how often the program asked about the same, and how many turns were preferred to it. */
  readonly #asked = new Map<SimOperation | number, number>()
  #turns = 0
  /** Host functions and promises since the last turn. */
  #served = 0
  /** How often the program has asked, or had a turn, since anything was queued or happened. */
  idle = 0
  #chosen: Choice = GO_ON
  /** An operation ends that runs no JavaScript. */
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
    // JavaScript has written what the stream stood for, and may have gone on to look at other memory.
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

  /** Where a fault may come at any time, every call may be the first to hear of it. */
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
    // To ask again and again before anything has happened brings nothing: a loop that polls would never end.
    const isPatient = times <= MOST_ASKED
    if (!isPatient && this.#ready.size > 0) this.director.leftOut('the program queries again and again')
    this.#point(GO_ON, !isPatient)
    this.director.looks(look)
  }

  handedOver(operation: SimOperation): void {
    // What stood until now can be done from now on.
    const begin = this.#letsGo(operation) ? [...this.#standing] : []
    if (!operation.over && this.director.isViewed(operation)) begin.push(operation)
    if (begin.length === 0) return
    this.#point(GO_ON)
    for (const one of begin) {
      for (const memory of one.work?.touches ?? []) this.director.looks({ operations: undefined, memory })
      if (!one.over) this.#standing.add(one)
    }
  }

  /** Is it a latch that is open, or does it write what a stream stands for? */
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
          // Nothing goes on by itself: a host function that is not known to be needed may be.
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

  /** An exploration alone decides what happens in its machine, and when: see `next()`. */
  step(): boolean {
    return false
  }

  turn(): boolean {
    return false
  }

  /**
   * Lets one thing happen while JavaScript has nothing to do; undefined where nothing can. `since`: the event loop will come
   * to something of the program's, which asked for it in that step. Where that turn is chosen, nothing is to be done until it
   * has come.
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

  /** JavaScript has nothing to do: if it goes on, the event loop has come to something that was not foreseen. */
  rest(): void {
    this.#running = false
  }

  /** The event loop has come to something of the program's. `since` as for `next()`; undefined where it was not foreseen. */
  turned(since: number | undefined): void {
    this.#running = this.#awaitsTurn && since !== undefined
    this.#awaitsTurn = false
    if (this.#running) return
    this.#since = since
    if (this.#due.size > 0 || !this.#settles.isEmpty)
      this.director.leftOut('several turns of the event loop come at once')
  }

  /** The run is over: nothing is chosen any more. */
  stop(): void {
    this.#stopped = true
  }

  /** The program makes a call: JavaScript may have got going by itself. */
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

  /** Adds what the GPU can do. */
  #withEnds(choices: Choice[]): Choice[] {
    for (const operation of this.#ready) choices.push({ kind: 'end', operation })
    for (const operation of this.#frees) {
      choices.push({ kind: 'end', operation })
      break
    }
    return choices
  }

  /** Does what is chosen. False where there is nothing to choose. */
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

/** A free in no stream, which comes after nothing but the uses of its memory. */
export function isFreeBeside({ kind, inStream }: SimOperation): boolean {
  return kind === SimOperationKind.INSTANT && !inStream
}

/** Operations that are over, and whose promises are to be settled: those of one stream in their order. */
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
        // What stands on the null stream are waits for events and devices, which have no order.
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
