/**
 * A scheduler in virtual time: a ready operation takes its time, on a kernel slot or a copy engine if it needs one, and the one that is done first
 * ends first. Without a seed that is the natural order, and effects on memory are put off; with one, operations start late at random, which reaches
 * the orders that the rules allow.
 */

import { MULTIPROCESSORS } from '../properties.js'
import { type DueHostFunction, DueHostFunctions } from './due-host-functions.js'
import { Heap } from './heap.js'
import type { SimOperation, SimPartition } from './machine-state.js'
import { Queue } from './queue.js'
import { Random } from './random.js'
import type { HostWait, Runs, Scheduler, Steps } from './scheduler.js'
import { Slice } from './slice.js'
import { SimOperationKind } from './work.js'

/**
 * The kernels that run at one time on a device; the rest queue by priority. CUDA documents 128 for compute capability 9.0. A partition has the share
 * of them that it has of the multiprocessors, and at least one.
 */
const KERNEL_SLOTS = 128
/** The virtual nanoseconds until a faulting kernel is noticed: calls that follow its launch at once still succeed. */
const TIME_TO_FAULT = 10_000
/** The virtual nanoseconds that every call to the driver takes. */
const CALL_COST = 100
/** The number of operations that end in one turn of the event loop while nothing waits for any of them. */
const STEPS_PER_TURN = 10_000

/** The kernel slots of a device, or a copy engine: a limited number of operations run there at one time, and the rest wait in line. */
class Slots {
  constructor(
    public free: number,
    readonly waiting: Heap<SimOperation> | Queue<SimOperation>,
  ) {}

  /** Takes a slot for an operation; returns false if the operation has to wait for one. */
  take(operation: SimOperation): boolean {
    const needed = slotsNeeded(operation)
    if (this.free >= needed && this.waiting.peek() === undefined) {
      this.free -= needed
      return true
    }
    this.waiting.push(operation)
    return false
  }

  /** Frees the slot of a finished operation, and starts those that take its place. */
  pass(operation: SimOperation, start: (next: SimOperation) => void): void {
    this.free += slotsNeeded(operation)
    for (let next = this.waiting.peek(); next !== undefined; next = this.waiting.peek()) {
      const needed = slotsNeeded(next)
      if (this.free < needed) break
      this.free -= needed
      this.waiting.shift()
      start(next)
    }
  }
}

const slotsNeeded = ({ work }: SimOperation): number => work?.slots ?? 1

export class TimedScheduler implements Scheduler {
  readonly explores: boolean = false
  readonly putsOff: boolean
  now = 0
  readonly #random: Random | undefined
  readonly #running = new Heap<SimOperation>(endsBefore)
  /** The kernel slots and copy engines of all devices; indices are their numbers. */
  readonly #slots: Slots[] = []
  /** The kernel slots of the partitions in which a kernel runs or waits. */
  readonly #partitions = new Map<SimPartition, Slots>()
  readonly #due: DueHostFunctions
  /** The operations that are over and whose promises have not been settled yet. */
  #settled: SimOperation[] = []
  /** Whether time stands, since an operation whose time has come is still being computed. */
  #stands = false

  constructor(
    private readonly steps: Steps,
    seed: number,
  ) {
    this.#random = seed === 0 ? undefined : new Random(seed)
    this.putsOff = seed === 0
    this.#due = new DueHostFunctions(this.#random)
  }

  queued(): void {}
  opened(): void {}

  ready(operation: SimOperation): void {
    const { kind } = operation
    if (kind === SimOperationKind.FAULT) this.#run(operation, TIME_TO_FAULT)
    else if (kind === SimOperationKind.HOST) {
      if (this.#random === undefined) this.#due.add(operation, 0)
      else this.#run(operation, 0)
    } else if (this.#slotsOfPartition(operation)?.take(operation) !== false) this.#runWithSlot(operation)
  }

  over(operation: SimOperation): void {
    operation.time = this.now
    if (operation.stream.device.fault !== 0) return
    this.#slotsFor(operation)?.pass(operation, (next) => this.#run(next, next.nanoseconds))
    if (operation.partition !== undefined) this.#leavePartition(operation.partition, operation)
  }

  drop(): Iterable<SimOperation> {
    const dropped = [...this.#running, ...this.#due.drop()]
    for (const { waiting } of [...Object.values(this.#slots), ...this.#partitions.values()]) dropped.push(...waiting)
    return dropped
  }

  callBack(operation: SimOperation, status: number): void {
    this.#due.add(operation, status)
  }

  settleLater(operation: SimOperation): void {
    this.#settled.push(operation)
  }

  tick(): void {
    this.steps.passValues()
    if (this.#stands) return
    this.now += CALL_COST
    if (this.#hasArrived()) this.#arriveIn(new Slice())
  }

  /** Lets time pass, so that what ends meanwhile ends at its own time. */
  passUntil(time: number): void {
    while ((this.#running.peek()?.time ?? Number.POSITIVE_INFINITY) <= time) this.#advance()
    this.now = Math.max(this.now, time)
  }

  /** Goes on with what is being computed: a program may ask again and again without ever returning to the event loop. */
  look(): void {
    if (this.#stands) this.#arriveIn(new Slice())
  }

  handedOver(): void {}

  /** Lets things happen until the wait is over. Host functions that come due run here, since nothing else could run them. */
  block(wait: HostWait, runs: Runs): boolean {
    return runs === 'needed' ? this.#blockInside(wait) : this.#block(wait, runs === 'any')
  }

  step(): boolean {
    this.steps.passValues()
    return this.#runDue(this.#due.take()) || this.#advance()
  }

  turn(slice: Slice): boolean {
    this.steps.passValues()
    let delivered = false
    for (let due = this.#due.length; due > 0; due -= 1) {
      const next = this.#due.next
      if (next !== undefined && !this.steps.computeResults(next.operation, slice)) return true
      if (!this.#runDue(this.#due.take())) break
      delivered = true
    }
    if (this.#settled.length > 0) {
      if (this.#areComputed(slice)) this.#settle()
      return true
    }
    if (delivered) return true
    for (let step = 0; step < STEPS_PER_TURN; step += 1) {
      const next = this.#running.peek()
      if (!this.#isComputed(next, slice)) return true
      if (!this.#arriveNext()) return false
      if (this.#due.length > 0 || this.#settled.length > 0 || slice.isOver) break
    }
    return true
  }

  #hasArrived(): boolean {
    return (this.#running.peek()?.time ?? Number.POSITIVE_INFINITY) <= this.now
  }

  /** Lets all operations arrive whose time has come, or as many as can be computed in the slice. */
  #arriveIn(slice: Slice): void {
    while (this.#hasArrived() && this.#isComputed(this.#running.peek(), slice)) this.#arrive(this.#running.shift())
  }

  /** Computes what has to be there before an operation arrives; until it is there, time stands. Returns false if the slice was over before. */
  #isComputed(next: SimOperation | undefined, slice: Slice): boolean {
    this.#stands = !this.steps.computeBefore(next, slice)
    if (this.#stands && next !== undefined) this.now = Math.max(this.now, next.time)
    return !this.#stands
  }

  /** Computes what the promises that are about to be settled may show. Returns false if the slice was over before. */
  #areComputed(slice: Slice): boolean {
    return this.#settled.every((operation) => this.steps.computeResults(operation, slice))
  }

  #block(wait: HostWait, runsAny: boolean): boolean {
    while (!wait.isOver()) {
      this.steps.passValues()
      if (!(runsAny && this.#runDue(this.#due.take())) && !this.#advance()) return false
    }
    return true
  }

  /**
   * Blocks inside a host function: first the host functions run that the wait needs, then time passes; if neither helps, any other host function that
   * is due runs.
   */
  #blockInside(wait: HostWait): boolean {
    const isNeeded = (host: SimOperation): boolean => wait.needs(host)
    /** The count of due host functions when none of them was needed: none is needed until more come due, or JavaScript runs. */
    let seen: number | undefined
    while (!wait.isOver()) {
      this.steps.passValues()
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
    this.steps.runHostFunction(due.operation, due.status)
    return true
  }

  /** Settles the promises whose operations are over, in that order. */
  #settle(): void {
    const settled = this.#settled
    this.#settled = []
    for (const operation of settled) this.steps.settle(operation)
  }

  /** Moves time to the next end of an operation, for which all is computed at once. Returns false if none runs. */
  #advance(): boolean {
    this.steps.computeBefore(this.#running.peek())
    this.#stands = false
    return this.#arriveNext()
  }

  /** Moves time to the next end of an operation, for which all is computed. Returns false if none runs. */
  #arriveNext(): boolean {
    const next = this.#running.shift()
    if (next === undefined) return false
    this.now = Math.max(this.now, next.time)
    this.#arrive(next)
    return true
  }

  #arrive(operation: SimOperation | undefined): void {
    if (operation === undefined || operation.over) return
    if (operation.kind === SimOperationKind.HOST) this.#due.add(operation, 0)
    else this.steps.end(operation)
  }

  /** Starts an operation that has a slot of its partition, once the device has a slot for it, too. */
  #runWithSlot(operation: SimOperation): void {
    if (this.#slotsFor(operation)?.take(operation) !== false) this.#run(operation, operation.nanoseconds)
  }

  #slotsOfPartition({ kind, partition }: SimOperation): Slots | undefined {
    if (partition === undefined || kind !== SimOperationKind.KERNEL) return undefined
    let slots = this.#partitions.get(partition)
    if (slots === undefined) {
      slots = new Slots(slotsOf(partition), new Heap(startsBefore))
      this.#partitions.set(partition, slots)
    }
    return slots
  }

  #leavePartition(partition: SimPartition, operation: SimOperation): void {
    const slots = operation.kind === SimOperationKind.KERNEL ? this.#partitions.get(partition) : undefined
    slots?.pass(operation, (next) => this.#runWithSlot(next))
    if (slots?.free === slotsOf(partition)) this.#partitions.delete(partition)
  }

  /** The slots of which the operation needs one. */
  #slotsFor({ kind, stream, work }: SimOperation): Slots | undefined {
    const isKernel = kind === SimOperationKind.KERNEL
    const number = isKernel ? stream.device.kernelSlots : kind === SimOperationKind.COPY ? work?.engine : undefined
    if (number === undefined) return undefined
    let slots = this.#slots[number]
    if (slots === undefined) {
      slots = isKernel ? new Slots(KERNEL_SLOTS, new Heap(startsBefore)) : new Slots(1, new Queue())
      this.#slots[number] = slots
    }
    return slots
  }

  #run(operation: SimOperation, duration: number): void {
    const start = this.now + this.#delay()
    operation.time = start + duration
    if (operation.kind !== SimOperationKind.HOST) this.steps.started(operation, start)
    this.#running.push(operation)
  }

  /** The delay of an operation's start: 0 without a seed; with one, in half of the cases up to a millisecond. */
  #delay(): number {
    if (this.#random === undefined || this.#random.next() < 0.5) return 0
    return Math.round(100 * 10 ** (4 * this.#random.next()))
  }
}

const slotsOf = ({ multiprocessors }: SimPartition): number =>
  Math.max(1, Math.floor((KERNEL_SLOTS * multiprocessors) / MULTIPROCESSORS))

const endsBefore = (a: SimOperation, b: SimOperation): boolean =>
  a.time < b.time || (a.time === b.time && a.sequence < b.sequence)

const startsBefore = (a: SimOperation, b: SimOperation): boolean =>
  a.stream.priority < b.stream.priority || (a.stream.priority === b.stream.priority && a.sequence < b.sequence)
