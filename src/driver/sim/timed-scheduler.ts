/**
 * Virtual time: a ready operation takes its while, on a kernel slot or a copy engine if it needs one, and the one that is
 * done first ends first. Without a seed that is the natural order; with one, operations start late at random, which
 * reaches the orders that the rules allow.
 */
import { type DueHostFunction, DueHostFunctions } from './due-host-functions.js'
import { Heap } from './heap.js'
import { type CopyEngine, type SimDevice, type SimOperation, SimOperationKind } from './objects.js'
import { Random } from './random.js'
import type { Runs, Scheduler, Steps, Wait } from './scheduler.js'

/** Kernels that run at one time on a device; the rest queue by priority. CUDA documents 128 for compute capability 9.0. */
const KERNEL_SLOTS = 128
/** Virtual nanoseconds until a faulting kernel is noticed: calls that follow its launch at once still succeed. */
const TIME_TO_FAULT = 10_000
/** Virtual nanoseconds that every call to the driver takes. */
const CALL_COST = 100
/** Operations ended in one turn of the event loop while nobody waits for any of them. */
const STEPS_PER_TURN = 10_000

export class TimedScheduler implements Scheduler {
  readonly explores: boolean = false
  now = 0
  readonly #steps: Steps
  readonly #random: Random | undefined
  #running = new Heap<SimOperation>(endsBefore)
  readonly #waitingForSlot = new Map<SimDevice, Heap<SimOperation>>()
  readonly #engines = new Set<CopyEngine>()
  readonly #due: DueHostFunctions
  /** Over, and their promises not settled yet. */
  #settled: SimOperation[] = []

  constructor(steps: Steps, seed: number) {
    this.#steps = steps
    this.#random = seed === 0 ? undefined : new Random(seed)
    this.#due = new DueHostFunctions(this.#random)
  }

  queued(): void {}
  opened(): void {}

  ready(operation: SimOperation): void {
    if (operation.begun) {
      this.#resume(operation)
      return
    }
    switch (operation.kind) {
      case SimOperationKind.KERNEL:
        this.#startKernel(operation)
        break
      case SimOperationKind.HOST:
        if (this.#random === undefined) this.#due.add(operation, 0)
        else this.#run(operation, 0)
        break
      case SimOperationKind.FAULT:
        this.#run(operation, TIME_TO_FAULT)
        break
      case SimOperationKind.COPY:
        this.#startCopy(operation)
        break
    }
  }

  over(operation: SimOperation): void {
    operation.time = this.now
    const { device } = operation.stream
    if (device.fault !== 0) return
    if (operation.kind === SimOperationKind.KERNEL) this.#freeSlot(device)
    else if (operation.kind === SimOperationKind.COPY) this.#freeEngine(operation.work?.engine)
  }

  drop(): Iterable<SimOperation> {
    const dropped = [...this.#running, ...this.#due.drop()]
    for (const waiting of this.#waitingForSlot.values()) dropped.push(...waiting)
    for (const { waiting } of this.#engines) dropped.push(...waiting)
    return dropped
  }

  callBack(operation: SimOperation, status: number): void {
    this.#due.add(operation, status)
  }

  settleLater(operation: SimOperation): void {
    this.#settled.push(operation)
  }

  reset(): void {
    this.#running = new Heap(endsBefore)
    this.#waitingForSlot.clear()
    this.#engines.clear()
    this.#due.clear()
    this.#settled = []
  }

  tick(): void {
    this.#steps.mend()
    this.now += CALL_COST
    if ((this.#running.peek()?.time ?? Number.POSITIVE_INFINITY) <= this.now) this.#whole(() => this.#arriveUntilNow())
  }

  look(): void {}
  handedOver(): void {}

  /** Host functions that come due are run, since nobody else could. */
  block(wait: Wait, runs: Runs): boolean {
    return this.#whole(() => (runs === 'needed' ? this.#blockInside(wait) : this.#block(wait, runs === 'any')))
  }

  step(): boolean {
    return this.#whole(() => this.#runDue(this.#due.take()) || this.#advance())
  }

  turn(): boolean {
    return this.#whole(() => {
      let delivered = false
      for (let due = this.#due.length; due > 0 && this.#runDue(this.#due.take()); due -= 1) delivered = true
      if (this.#settle() || delivered) return true
      for (let step = 0; step < STEPS_PER_TURN; step += 1) {
        if (!this.#advance()) return false
        if (this.#due.length > 0 || this.#settled.length > 0) break
      }
      return true
    })
  }

  /** What is taken from what is kept here may be lost where this is cut off. */
  #whole<R>(fn: () => R): R {
    this.#steps.mend()
    let isWhole = false
    try {
      const result = fn()
      isWhole = true
      return result
    } finally {
      if (!isWhole) this.#steps.damaged = true
    }
  }

  #arriveUntilNow(): void {
    for (let next = this.#running.peek(); next !== undefined && next.time <= this.now; next = this.#running.peek()) {
      this.#running.pop()
      this.#arrive(next)
    }
  }

  #block(wait: Wait, runsAny: boolean): boolean {
    while (!wait.isOver()) {
      this.#steps.mend()
      if (!(runsAny && this.#runDue(this.#due.take())) && !this.#advance()) return false
    }
    return true
  }

  /** First what the wait needs; then time; and where nothing goes on by that, what nobody is known to need. */
  #blockInside(wait: Wait): boolean {
    const isNeeded = (host: SimOperation): boolean => wait.needs(host)
    /** How many had come due when none of them was needed: none is then until more do, or JavaScript runs. */
    let seen: number | undefined
    while (!wait.isOver()) {
      this.#steps.mend()
      if (seen !== this.#due.added) {
        if (this.#runDue(this.#due.takeNeeded(isNeeded))) continue
        seen = this.#due.added
      }
      if (this.#advance()) continue
      if (!this.#runDue(this.#due.take())) return false
      seen = undefined
    }
    return true
  }

  #runDue(due: DueHostFunction | undefined): boolean {
    if (due === undefined) return false
    this.#steps.runHostFunction(due.operation, due.status)
    return true
  }

  /** Settles the promises whose operations are over, in that order. False where there are none. */
  #settle(): boolean {
    if (this.#settled.length === 0) return false
    const settled = this.#settled
    this.#settled = []
    for (const operation of settled) this.#steps.settle(operation)
    return true
  }

  /** Moves time to the next end of an operation. False where nothing runs. */
  #advance(): boolean {
    const next = this.#running.pop()
    if (next === undefined) return false
    this.now = Math.max(this.now, next.time)
    this.#arrive(next)
    return true
  }

  #arrive(operation: SimOperation): void {
    if (operation.over) return
    if (operation.kind === SimOperationKind.HOST) this.#due.add(operation, 0)
    else this.#steps.end(operation)
  }

  /** It runs already: it has what it needs for that, and its time. */
  #resume(operation: SimOperation): void {
    const { kind, work, stream } = operation
    if (kind === SimOperationKind.KERNEL) stream.device.busySlots += 1
    if (kind === SimOperationKind.COPY && work?.engine !== undefined) work.engine.busy = true
    this.#running.push(operation)
  }

  #startKernel(operation: SimOperation): void {
    const { device } = operation.stream
    if (device.busySlots < KERNEL_SLOTS) {
      device.busySlots += 1
      this.#run(operation, operation.amount)
      return
    }
    let waiting = this.#waitingForSlot.get(device)
    if (waiting === undefined) {
      const before = (a: SimOperation, b: SimOperation): boolean =>
        a.stream.priority < b.stream.priority || (a.stream.priority === b.stream.priority && a.sequence < b.sequence)
      waiting = new Heap<SimOperation>(before)
      this.#waitingForSlot.set(device, waiting)
    }
    waiting.push(operation)
  }

  #freeSlot(device: SimDevice): void {
    device.busySlots -= 1
    const next = this.#waitingForSlot.get(device)?.pop()
    if (next !== undefined) this.#startKernel(next)
  }

  #startCopy(operation: SimOperation): void {
    const engine = operation.work?.engine
    if (engine?.busy) {
      this.#engines.add(engine)
      engine.waiting.push(operation)
      return
    }
    if (engine !== undefined) engine.busy = true
    this.#run(operation, operation.amount)
  }

  #freeEngine(engine: CopyEngine | undefined): void {
    if (engine === undefined) return
    engine.busy = false
    const next = engine.waiting.shift()
    if (next !== undefined) this.#startCopy(next)
  }

  #run(operation: SimOperation, duration: number): void {
    const start = this.now + this.#delay()
    operation.time = start + duration
    operation.begun = true
    if (operation.kind !== SimOperationKind.HOST) this.#steps.started(operation, start)
    this.#running.push(operation)
  }

  /** How late an operation starts: never without a seed; with one, half of the time, by up to a millisecond. */
  #delay(): number {
    if (this.#random === undefined || this.#random.next() < 0.5) return 0
    return 100 * 10 ** (4 * this.#random.next())
  }
}

const endsBefore = (a: SimOperation, b: SimOperation): boolean =>
  a.time < b.time || (a.time === b.time && a.sequence < b.sequence)
