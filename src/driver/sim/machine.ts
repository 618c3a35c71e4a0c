/**
 * The simulated GPU as a discrete-event machine: operations become ready when what they wait for is over, run for a
 * while of virtual time, and end. It knows no handles and no errors of the driver; the driver in front of it does.
 * The seed picks one of the orders that the rules allow; without one the order is the natural one.
 */
import { cudaError } from '../cuda-results.js'
import type { HostFunction, Settle } from '../driver.js'
import { Heap } from './heap.js'
import {
  type CaptureNode,
  type CopyEngine,
  type NodeWork,
  type Observer,
  Operation,
  OperationKind,
  type SimDevice,
  type SimStream,
  type Work,
} from './objects.js'
import { Random } from './random.js'

/** Kernels that run at one time on a device; the rest queue by priority. CUDA documents 128 for compute capability 9.0. */
const KERNEL_SLOTS = 128
/** Virtual nanoseconds until a faulting kernel is noticed: calls that follow its launch at once still succeed. */
const TIME_TO_FAULT = 10_000
/** Virtual nanoseconds that every call to the driver takes. */
const CALL_COST = 100

interface DueHostFunction {
  readonly operation: Operation
  readonly status: number
}

export class Machine {
  /** Virtual nanoseconds since the machine started. */
  now = 0
  /** Host functions queued and not over. */
  hostFunctionsPending = 0
  /** Promises to settle. */
  waitsPending = 0
  /** Called when something was queued or opened: the event loop may have to turn for it. */
  onWork: () => void = () => {}
  observer: Observer | undefined
  /** All that a fault takes with it. */
  devices: readonly SimDevice[] = []
  readonly #random: Random | undefined
  #sequence = 0
  readonly #running = new Heap<Operation>((a, b) => a.time < b.time || (a.time === b.time && a.sequence < b.sequence))
  readonly #waitingForSlot = new Map<SimDevice, Heap<Operation>>()
  readonly #latches = new Set<Operation>()
  /** Latches that were opened before their stream reached them. */
  readonly #openedEarly = new WeakSet<Operation>()
  readonly #due: DueHostFunction[] = []
  readonly #callbacks: Operation[] = []
  #settled: (() => void)[] = []

  constructor(seed: number) {
    this.#random = seed === 0 ? undefined : new Random(seed)
  }

  /** Lets the time of one call pass. */
  tick(): void {
    this.now += CALL_COST
    for (let next = this.#running.peek(); next !== undefined && next.time <= this.now; next = this.#running.peek()) {
      this.#running.pop()
      this.#arrive(next)
    }
  }

  /** Queues an operation behind all that is in the stream and, by the null stream's rules, beside it. */
  enqueue(
    stream: SimStream,
    kind: OperationKind,
    amount = 0,
    after: Iterable<Operation | undefined> = NOTHING,
    host?: HostFunction,
    work?: Work,
  ): Operation {
    const operation = this.#operation(kind, stream, amount)
    operation.work = work
    const { device } = stream
    operation.waitFor(stream.tail)
    for (const predecessor of after) operation.waitFor(predecessor)
    if (stream === device.nullStream) {
      for (const other of device.touched) operation.waitFor(other.tail)
      device.touched.clear()
    } else if (!stream.nonBlocking) {
      operation.waitFor(device.nullStream.tail)
      device.touched.add(stream)
    }
    stream.tail = operation
    if (operation.takesEntry) stream.entries += 1
    if (!stream.nonBlocking) device.blockingUnfinished += 1
    this.observer?.queued(operation)
    this.#startWith(operation, host)
    return operation
  }

  /**
   * Queues a graph: each node comes after those it was captured after, and all of them after what the stream holds and
   * after `before`, the earlier launch of the same instance. Returns the end of it.
   */
  launch(stream: SimStream, nodes: readonly CaptureNode[], before: Operation | undefined): Operation {
    const begin = this.enqueue(stream, OperationKind.INSTANT, 0, [before])
    const operations: Operation[] = []
    for (const { after, work } of nodes) {
      const operation = this.#operation(kindOf(work), stream, work.kind === 'work' ? work.amount : 0)
      operation.inStream = false
      if (work.kind === 'work') operation.work = work.work
      operation.waitFor(begin)
      for (const node of after) operation.waitFor(operations[node.index])
      if (work.kind === 'eventWait') operation.waitFor(work.event.record)
      if (work.kind === 'eventRecord') {
        work.event.record = operation
        work.event.captured = undefined
      }
      operations.push(operation)
      this.observer?.queued(operation)
      this.#startWith(operation, work.kind === 'host' ? work.host : undefined)
    }
    return this.enqueue(stream, OperationKind.INSTANT, 0, operations)
  }

  #startWith(operation: Operation, host: HostFunction | undefined): void {
    if (host !== undefined) {
      operation.host = host
      this.hostFunctionsPending += 1
    }
    this.#start(operation)
    if (!operation.over) this.onWork()
  }

  /** An operation in no stream that is done when all of these are. */
  marker(stream: SimStream, predecessors: Iterable<Operation | undefined>, work?: Work): Operation {
    const operation = this.#operation(OperationKind.INSTANT, stream, 0)
    operation.work = work
    operation.inStream = false
    for (const predecessor of predecessors) operation.waitFor(predecessor)
    this.#start(operation)
    return operation
  }

  /** What the null stream of a device would wait for now: its own work and that of the blocking streams. */
  *nullStreamTails(device: SimDevice): Generator<Operation | undefined> {
    yield device.nullStream.tail
    for (const stream of device.touched) yield stream.tail
  }

  /** Tells `settle` when the operation is over. Returns what takes that back. */
  notify(operation: Operation, settle: Settle): () => void {
    this.waitsPending += 1
    if (operation.over) this.#settled.push(() => settle(this.#faultOf(operation)))
    else operation.settle = settle
    this.onWork()
    return () => {
      if (operation.settle !== settle) return
      operation.settle = undefined
      this.waitsPending -= 1
      this.onWork()
    }
  }

  open(latch: Operation): void {
    if (!this.#latches.delete(latch)) {
      this.#openedEarly.add(latch)
      return
    }
    this.#end(latch)
    this.onWork()
  }

  /** Moves time to the next end of an operation. False where nothing runs. */
  advance(): boolean {
    const next = this.#running.pop()
    if (next === undefined) return false
    this.now = Math.max(this.now, next.time)
    this.#arrive(next)
    return true
  }

  /** Runs one host function that is due. False where none is. */
  runHostFunction(): boolean {
    const [due] = this.#due.splice(this.#indexOfNextDue(), 1)
    if (due === undefined) return false
    const { operation, status } = due
    this.#callbacks.push(operation)
    this.observer?.started(operation, this.now)
    try {
      operation.host?.run(status)
    } finally {
      this.#callbacks.splice(this.#callbacks.indexOf(operation), 1)
      this.hostFunctionsPending -= 1
      operation.host = undefined
      if (!operation.over) this.#end(operation)
    }
    return true
  }

  /** Streams come in any order, but what one stream tells of a fault comes in its own. */
  #indexOfNextDue(): number {
    if (this.#random === undefined) return 0
    const picked = Math.floor(this.#random.next() * this.#due.length)
    const stream = this.#due[picked]?.operation.stream
    return this.#due.findIndex(({ operation }) => operation.stream === stream)
  }

  get hostFunctionsDue(): number {
    return this.#due.length
  }

  get somethingToSettle(): boolean {
    return this.#settled.length > 0
  }

  get insideHostFunction(): boolean {
    return this.#callbacks.length > 0
  }

  get latchesStanding(): number {
    return this.#latches.size
  }

  /** Settles the promises whose operations are over, in that order. False where there are none. */
  settle(): boolean {
    if (this.#settled.length === 0) return false
    const settled = this.#settled
    this.#settled = []
    this.waitsPending -= settled.length
    for (const settleOne of settled) settleOne()
    return true
  }

  #operation(kind: OperationKind, stream: SimStream, amount: number): Operation {
    this.#sequence += 1
    return new Operation(kind, stream, this.#sequence, amount)
  }

  #start(operation: Operation): void {
    if (!operation.becomeReady()) return
    switch (operation.kind) {
      case OperationKind.INSTANT:
        this.#end(operation)
        break
      case OperationKind.KERNEL:
        this.#startKernel(operation)
        break
      case OperationKind.HOST:
        if (this.#random === undefined) this.#due.push({ operation, status: 0 })
        else this.#run(operation, 0)
        break
      case OperationKind.LATCH:
        if (this.#openedEarly.has(operation)) this.#end(operation)
        else {
          this.#latches.add(operation)
          this.observer?.started(operation, this.now)
        }
        break
      case OperationKind.FAULT:
        this.#run(operation, TIME_TO_FAULT)
        break
      case OperationKind.COPY:
        this.#startCopy(operation)
        break
    }
  }

  #startKernel(operation: Operation): void {
    const { device } = operation.stream
    if (device.busySlots < KERNEL_SLOTS) {
      device.busySlots += 1
      this.#run(operation, operation.amount)
      return
    }
    let waiting = this.#waitingForSlot.get(device)
    if (waiting === undefined) {
      const before = (a: Operation, b: Operation): boolean =>
        a.stream.priority < b.stream.priority || (a.stream.priority === b.stream.priority && a.sequence < b.sequence)
      waiting = new Heap<Operation>(before)
      this.#waitingForSlot.set(device, waiting)
    }
    waiting.push(operation)
  }

  #startCopy(operation: Operation): void {
    const engine = operation.work?.engine
    if (engine?.busy) engine.waiting.push(operation)
    else {
      if (engine !== undefined) engine.busy = true
      this.#run(operation, operation.amount)
    }
  }

  #run(operation: Operation, duration: number): void {
    const start = this.now + this.#delay()
    operation.time = start + duration
    if (operation.kind !== OperationKind.HOST) this.observer?.started(operation, start)
    this.#running.push(operation)
  }

  /** How late an operation starts: never without a seed; with one, half of the time, by up to a millisecond. */
  #delay(): number {
    if (this.#random === undefined || this.#random.next() < 0.5) return 0
    return 100 * 10 ** (4 * this.#random.next())
  }

  #arrive(operation: Operation): void {
    if (operation.over) return
    if (operation.kind === OperationKind.HOST) this.#due.push({ operation, status: 0 })
    else if (operation.kind === OperationKind.FAULT) this.break(operation.amount, operation)
    else this.#end(operation)
  }

  /** Ends an operation, then all that this lets go; on a broken device, drops all that waited for it. */
  #end(first: Operation): void {
    const ending = [first]
    for (let at = 0; at < ending.length; at += 1) {
      const operation = ending[at] as Operation
      if (operation.over) continue
      this.#leave(operation)
      for (const dependent of operation.end(operation.stream.device.fault !== 0)) {
        if (dependent.stream.device.fault !== 0) ending.push(dependent)
        else if (dependent.kind !== OperationKind.INSTANT) this.#start(dependent)
        else if (dependent.becomeReady()) ending.push(dependent)
      }
    }
  }

  /** The bookkeeping for an operation that is about to be over. */
  #leave(operation: Operation): void {
    const { stream, settle, work } = operation
    const { device } = stream
    operation.time = this.now
    this.observer?.ended(operation)
    operation.work = undefined
    if (settle !== undefined) {
      operation.settle = undefined
      this.#settled.push(() => settle(this.#faultOf(operation)))
    }
    if (device.fault === 0) work?.effect()
    if (operation.inStream) this.#leaveStream(operation)
    if (device.fault !== 0) this.#dropHostFunction(operation, device.fault)
    else if (operation.kind === OperationKind.KERNEL) this.#freeSlot(device)
    else if (operation.kind === OperationKind.COPY) this.#freeEngine(work?.engine)
  }

  #leaveStream(operation: Operation): void {
    const { stream } = operation
    const { device } = stream
    if (stream.tail === operation) {
      stream.tail = undefined
      if (stream.destroyed) device.streams.delete(stream)
    }
    if (operation.takesEntry) stream.entries -= 1
    if (!stream.nonBlocking) device.blockingUnfinished -= 1
  }

  #freeEngine(engine: CopyEngine | undefined): void {
    if (engine === undefined) return
    engine.busy = false
    const next = engine.waiting.shift()
    if (next !== undefined) this.#startCopy(next)
  }

  #freeSlot(device: SimDevice): void {
    device.busySlots -= 1
    const next = this.#waitingForSlot.get(device)?.pop()
    if (next !== undefined) this.#startKernel(next)
  }

  #faultOf(operation: Operation): unknown {
    return operation.dropped ? cudaError('cuEventQuery', operation.stream.device.fault) : undefined
  }

  /**
   * A fault loses every device of the process, as it does on real GPUs, and drops all that is unfinished; what stands at
   * the front of each stream leads to the rest.
   */
  break(fault: number, cause?: Operation): void {
    for (const device of this.devices) device.fault = fault
    const due = this.#due.splice(0)
    const fronts = [...(cause === undefined ? [] : [cause]), ...this.#running, ...this.#latches]
    for (const waiting of this.#waitingForSlot.values()) fronts.push(...waiting)
    for (const { engines } of this.devices) fronts.push(...engines.toDevice.waiting, ...engines.toHost.waiting)
    for (const { operation } of due) fronts.push(operation)
    for (const operation of fronts) this.#end(operation)
    this.#latches.clear()
    this.#due.push(...due.filter(({ status }) => status !== 0))
    this.#due.sort((a, b) => a.operation.sequence - b.operation.sequence)
    this.onWork()
  }

  /** A callback hears of the fault; a host function never runs. One that runs now is neither. */
  #dropHostFunction(operation: Operation, fault: number): void {
    const { host } = operation
    if (host === undefined || this.#callbacks.includes(operation)) return
    if (host.runsAfterFault) {
      this.#due.push({ operation, status: fault })
      return
    }
    operation.host = undefined
    this.hostFunctionsPending -= 1
  }
}

const NOTHING: readonly undefined[] = []

function kindOf(work: NodeWork): OperationKind {
  if (work.kind === 'work') return work.operation
  return work.kind === 'host' ? OperationKind.HOST : OperationKind.INSTANT
}
