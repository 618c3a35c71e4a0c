/**
 * A scheduler in virtual time: a ready operation takes its time, on a kernel slot or a copy engine if it needs one, and the one that is done first
 * ends first. Without a seed that is the natural order, and effects on memory are put off; with one, operations start late at random, which reaches
 * the orders that the rules allow.
 *
 * The host's time goes on with each call. Where what an operation does takes long to compute, the machine falls behind it: what ends meanwhile still
 * ends at its own time, and what is queued meanwhile begins at its own, once the machine has come there. So how fast the processor is decides nothing.
 */

import { isForCollector } from '../../foundation/base/finalization.js'
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
/**
 * The slices, of 5 milliseconds each, in which the machine has to end another operation. If it does not, a kernel may be waiting for what a host
 * function writes that is due.
 */
const PATIENCE = 100
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

const durationOf = ({ work, nanoseconds }: SimOperation): number => work?.duration?.() ?? nanoseconds
const slotsNeeded = ({ work }: SimOperation): number => work?.slots ?? 1

export class TimedScheduler implements Scheduler {
  readonly explores: boolean = false
  readonly putsOff: boolean
  #hostTime = 0
  /** How far the machine has come; behind the host's time only while something is still being computed. */
  #machineTime = 0
  /** Whether an operation is being ended or begun at the machine's time. */
  #arrives = false
  readonly #random: Random | undefined
  readonly #running = new Heap<SimOperation>(endsBefore)
  /** The kernel slots and copy engines of all devices; indices are their numbers. */
  readonly #slots: Slots[] = []
  /** The kernel slots of the partitions in which a kernel runs or waits. */
  readonly #partitions = new Map<SimPartition, Slots>()
  readonly #due: DueHostFunctions
  /** The operations that are over and whose promises have not been settled yet. */
  #settled: SimOperation[] = []
  /** The operations in `#running` that have not begun: their time is that at which they do. */
  /** What begins the operations that must not begin yet. */
  readonly #deferred = new Map<SimOperation, (operation: SimOperation) => void>()
  /** The slices for which host functions and promises still wait for the machine while it is behind. */
  #patience = PATIENCE

  constructor(
    private readonly steps: Steps,
    seed: number,
  ) {
    this.#random = seed === 0 ? undefined : new Random(seed)
    this.putsOff = seed === 0
    this.#due = new DueHostFunctions(this.#random)
  }

  get now(): number {
    return this.#arrives ? this.#machineTime : this.#hostTime
  }

  queued(): void {}
  opened(): void {}

  defers(operation: SimOperation, begin: (operation: SimOperation) => void): boolean {
    if (this.#arrives ? operation.time <= this.#machineTime : !this.#isBehind) return false
    if (!this.#arrives) operation.time = this.#hostTime
    this.#deferred.set(operation, begin)
    this.#running.push(operation)
    return true
  }

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
    this.#slotsFor(operation)?.pass(operation, (next) => this.#run(next, durationOf(next)))
    if (operation.partition !== undefined) this.#leavePartition(operation.partition, operation)
  }

  drop(): Iterable<SimOperation> {
    this.#deferred.clear()
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
    if (isForCollector()) return
    this.steps.passValues()
    const wasBehind = this.#isBehind
    this.#hostTime += CALL_COST
    if (wasBehind) return
    if (this.#isBehind) this.#arriveIn(new Slice())
    else this.#machineTime = this.#hostTime
  }

  /** Lets time pass, so that what ends meanwhile ends at its own time. */
  passUntil(time: number): void {
    while ((this.#running.peek()?.time ?? Number.POSITIVE_INFINITY) <= time) this.#advance()
    if (time > this.#hostTime) this.#moveTo(time)
  }

  /** Goes on with what is being computed: a program may ask again and again without ever returning to the event loop. */
  look(): void {
    if (this.#isBehind) this.#arriveIn(new Slice())
  }

  handedOver(): void {}

  /** Lets things happen until the wait is over. Host functions that come due run here, since nothing else could run them. */
  block(wait: HostWait, runs: Runs): boolean {
    return runs === 'needed' ? this.#blockInside(wait) : this.#block(wait, runs === 'any')
  }

  step(): boolean {
    this.steps.passValues()
    this.#catchUp()
    return this.#runDue(this.#due.take()) || this.#advance()
  }

  turn(slice: Slice): boolean {
    this.steps.passValues()
    if (!this.#catchUpIn(slice)) return true
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

  /** Whether the time of an operation has come that is still being computed, or could not be before it. */
  get #isBehind(): boolean {
    return (this.#running.peek()?.time ?? Number.POSITIVE_INFINITY) <= this.#hostTime
  }

  /** Lets all operations arrive whose time has come, or as many as can be computed in the slice. */
  #arriveIn(slice: Slice): void {
    while (this.#isBehind && this.#isComputed(this.#running.peek(), slice)) this.#arrive(this.#running.shift())
    if (!this.#isBehind) this.#machineTime = this.#hostTime
  }

  /**
   * Goes on with what is being computed, before host functions and promises show how far the machine is. Returns false if the slice was over before the
   * machine had come to the host's time, and there is reason to wait for it.
   */
  #catchUpIn(slice?: Slice): boolean {
    if (!this.#isBehind || this.#patience === 0) return true
    this.#arriveIn(slice ?? new Slice())
    if (!this.#isBehind) return true
    this.#patience -= 1
    return false
  }

  #catchUp(): void {
    while (!this.#catchUpIn());
  }

  /** Computes what has to be there before an operation arrives; until it is there, the machine stays behind. Returns false if the slice was over before. */
  #isComputed(next: SimOperation | undefined, slice: Slice): boolean {
    const isComputed = this.steps.computeBefore(this.#whoseEffect(next), slice)
    if (!isComputed && next !== undefined) this.#moveTo(next.time)
    return isComputed
  }

  /** An operation that is about to begin has nothing to compute. */
  #whoseEffect(next: SimOperation | undefined): SimOperation | undefined {
    return next !== undefined && this.#deferred.has(next) ? undefined : next
  }

  /** Computes what the promises that are about to be settled may show. Returns false if the slice was over before. */
  #areComputed(slice: Slice): boolean {
    return this.#settled.every((operation) => this.steps.computeResults(operation, slice))
  }

  #block(wait: HostWait, runsAny: boolean): boolean {
    while (!wait.isOver()) {
      this.steps.passValues()
      this.#catchUp()
      if (wait.isOver()) break
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
      this.#catchUp()
      if (wait.isOver()) break
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
    this.steps.computeBefore(this.#whoseEffect(this.#running.peek()))
    return this.#arriveNext()
  }

  /** Moves time to the next end of an operation, for which all is computed. Returns false if none runs. */
  #arriveNext(): boolean {
    const next = this.#running.shift()
    if (next === undefined) return false
    this.#arrive(next)
    if (!this.#isBehind) this.#machineTime = this.#hostTime
    return true
  }

  #arrive(operation: SimOperation | undefined): void {
    if (operation === undefined || operation.over) return
    this.#moveTo(operation.time)
    this.#patience = PATIENCE
    const arrived = this.#arrives
    this.#arrives = true
    try {
      const begin = this.#deferred.get(operation)
      if (begin !== undefined) {
        this.#deferred.delete(operation)
        begin(operation)
      } else if (operation.kind === SimOperationKind.HOST) this.#due.add(operation, 0)
      else this.steps.end(operation)
    } finally {
      this.#arrives = arrived
    }
  }

  /** Moves the machine to a time: that of the host, if it is later, or that of the first call of the host by which it had come. */
  #moveTo(time: number): void {
    if (time > this.#hostTime) {
      this.#hostTime = time
      this.#machineTime = time
    }
    while (this.#machineTime < time) this.#machineTime += CALL_COST
  }

  /** Starts an operation that has a slot of its partition, once the device has a slot for it, too. */
  #runWithSlot(operation: SimOperation): void {
    if (this.#slotsFor(operation)?.take(operation) !== false) this.#run(operation, durationOf(operation))
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
