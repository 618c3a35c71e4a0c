/**
 * The simulated GPU: operations become ready when all that they come after is over, and end when the scheduler says so.
 * It knows no handles and no errors of the driver; the driver in front of it does. What must come after what is decided
 * here, and nothing else.
 */
import { surfacing } from '../../uncaught.js'
import { cudaError } from '../cuda-results.js'
import type { HostFunction, Settle } from '../driver.js'
import type { FaultPlan } from './fault-plan.js'
import {
  type CaptureNode,
  type Observer,
  Operation,
  OperationKind,
  type SimDevice,
  type SimStream,
  type Work,
} from './objects.js'
import type { Scheduler, Steps, Wait } from './scheduler.js'

export class Machine implements Steps {
  /** Of all machines: so many host functions run now, one inside the other. */
  static #nested = 0
  /** Host functions queued and not over. */
  hostFunctionsPending = 0
  /** Promises to settle. */
  waitsPending = 0
  /** Called when something was queued or opened: the event loop may have to turn for it. */
  onWork: () => void = () => {}
  observer: Observer | undefined
  /** All that a fault takes with it. */
  devices: readonly SimDevice[] = []
  readonly scheduler: Scheduler
  readonly faults: FaultPlan
  readonly #explores: boolean
  #sequence = 0
  readonly #latches = new Set<Operation>()
  /** Latches that were opened before the stream came to them. */
  readonly #opened = new WeakSet<Operation>()
  /** Whose host functions run now, the innermost last. */
  readonly #running: Operation[] = []
  /** Callbacks dropped by a fault that have still to be told of it. */
  #toTell: Operation[] = []

  constructor(scheduler: (steps: Steps) => Scheduler, faults: FaultPlan) {
    this.faults = faults
    this.scheduler = scheduler(this)
    this.#explores = this.scheduler.explores
  }

  /** Queues work behind all that is in the stream. `fails` is the CUresult of the fault that it ends in, or 0. */
  enqueue(stream: SimStream, kind: OperationKind, amount: number, work?: Work, fails = 0): Operation {
    const operation = this.#operation(kind, stream, amount, work, fails)
    this.#append(operation, NOTHING)
    this.#startWith(operation)
    if (work !== undefined) this.scheduler.handedOver(operation)
    return operation
  }

  /** Queues something that takes no time: a record, or a wait for what is given. */
  enqueueMark(stream: SimStream, after: Iterable<Operation | undefined> = NOTHING): Operation {
    const operation = this.#operation(OperationKind.INSTANT, stream, 0)
    this.#append(operation, after)
    this.#startWith(operation)
    return operation
  }

  /** Queues a wait. On a blocking stream it waits for nothing else: only work waits for the null stream's. */
  enqueueWait(stream: SimStream, record: Operation): void {
    const operation = this.#operation(OperationKind.INSTANT, stream, 0)
    this.#append(operation, [record], stream === stream.device.nullStream)
    this.#startWith(operation)
  }

  enqueueHostFunction(stream: SimStream, host: HostFunction): void {
    const operation = this.#operation(OperationKind.HOST, stream, 0)
    this.#append(operation, NOTHING)
    this.#startWith(operation, host)
  }

  /**
   * Queues a graph: each node comes after those it was captured after, and all of them after what the stream holds and
   * after `before`, the earlier launch of the same instance. Returns the end of it.
   */
  launch(stream: SimStream, nodes: readonly CaptureNode[], before: Operation | undefined): Operation {
    const begin = this.enqueueMark(stream, [before])
    const operations: Operation[] = []
    for (const { after, work } of nodes) {
      const isWork = work.kind === 'work'
      const operation = isWork
        ? this.#operation(work.operation, stream, work.amount, work.work, work.fails)
        : this.#operation(work.kind === 'host' ? OperationKind.HOST : OperationKind.INSTANT, stream, 0)
      operation.inStream = false
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
    const end = this.enqueueMark(stream, operations)
    for (const operation of operations) this.scheduler.handedOver(operation)
    return end
  }

  /** An operation in no stream that is done when all of these are. */
  marker(stream: SimStream, predecessors: Iterable<Operation | undefined>, work?: Work): Operation {
    const operation = this.#beside(stream, predecessors, work)
    this.#start(operation)
    return operation
  }

  /** A record that leaves its stream as idle as it is. */
  recordBeside(stream: SimStream, predecessors: Iterable<Operation | undefined>): Operation {
    const operation = this.#beside(stream, predecessors)
    this.observer?.queued(operation)
    this.#start(operation)
    return operation
  }

  #beside(stream: SimStream, predecessors: Iterable<Operation | undefined>, work?: Work): Operation {
    const operation = this.#operation(OperationKind.INSTANT, stream, 0, work)
    operation.inStream = false
    for (const predecessor of predecessors) operation.waitFor(predecessor)
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
    if (operation.over) this.scheduler.settleLater(operation, settle)
    else operation.settle = settle
    this.onWork()
    return () => {
      if (operation.settle !== settle) return
      operation.settle = undefined
      this.waitsPending -= 1
      this.onWork()
    }
  }

  settle(operation: Operation, settle: Settle): void {
    this.waitsPending -= 1
    settle(operation.dropped ? cudaError('cuEventQuery', operation.stream.device.fault) : undefined)
  }

  /** Where the stream has not come to the latch yet, it passes when it does. */
  open(latch: Operation): void {
    if (latch.over) return
    this.scheduler.opened(latch)
    if (!this.#latches.delete(latch)) this.#opened.add(latch)
    else this.#end(latch)
    this.onWork()
  }

  started(operation: Operation, time: number): void {
    this.observer?.started(operation, time)
  }

  runHostFunction(operation: Operation, status: number): void {
    this.#running.push(operation)
    Machine.#nested += 1
    this.observer?.started(operation, this.scheduler.now)
    try {
      operation.host?.run(status)
    } finally {
      Machine.#nested -= 1
      this.#running.splice(this.#running.lastIndexOf(operation), 1)
      this.hostFunctionsPending -= 1
      operation.host = undefined
      if (!operation.over) this.#end(operation)
    }
  }

  /** Does it come after a host function that runs? Inside of that it would never end. */
  comesAfterRunning(wait: Wait): boolean {
    return this.#running.some((host) => wait.needs(host))
  }

  /** Host functions, also those of other machines, that JavaScript is inside of. */
  get nested(): number {
    return Machine.#nested
  }

  get latchesStanding(): number {
    return this.#latches.size
  }

  end(operation: Operation): void {
    if (operation.fails === 0) this.#end(operation)
    else this.break(operation.fails, operation)
  }

  /**
   * A fault loses every device of the process, as it does on real GPUs, and drops all that is unfinished; what stands at
   * the front of each stream leads to the rest.
   */
  break(fault: number, cause?: Operation): void {
    for (const device of this.devices) device.fault = fault
    if (cause !== undefined) this.#finish(cause)
    for (const operation of this.scheduler.drop()) this.#finish(operation)
    for (const latch of this.#latches) this.#finish(latch)
    this.#latches.clear()
    this.#tell()
    this.onWork()
  }

  #operation(kind: OperationKind, stream: SimStream, amount: number, work?: Work, fails = 0): Operation {
    this.#sequence += 1
    const operation = new Operation(kind, stream, this.#sequence, amount)
    operation.work = work
    operation.fails = fails === 0 && !this.faults.empty ? this.faults.ofOperation(operation) : fails
    if (this.#explores) {
      operation.after = []
      this.scheduler.queued(operation)
    }
    return operation
  }

  /** Puts it at the end of its stream and, by the null stream's rules, behind others. */
  #append(operation: Operation, after: Iterable<Operation | undefined>, isWork = true): void {
    const { stream } = operation
    const { device } = stream
    operation.waitFor(stream.tail)
    for (const predecessor of after) operation.waitFor(predecessor)
    if (stream === device.nullStream) {
      for (const other of device.touched) operation.waitFor(other.tail)
      device.touched.clear()
    } else if (!stream.nonBlocking) {
      if (isWork) operation.waitFor(device.nullStream.tail)
      device.touched.add(stream)
    }
    if (!stream.listed) device.list(stream)
    stream.unfinished += 1
    stream.tail = operation
    if (operation.takesEntry) stream.entries += 1
    if (!stream.nonBlocking) device.blockingUnfinished += 1
    this.observer?.queued(operation)
  }

  #startWith(operation: Operation, host?: HostFunction): void {
    if (host !== undefined) {
      operation.host = host
      this.hostFunctionsPending += 1
    }
    this.#start(operation)
    if (!operation.over) this.onWork()
  }

  #start(operation: Operation): void {
    if (!operation.becomeReady()) return
    if (this.#endsAtOnce(operation)) this.#end(operation)
    else this.#hand(operation)
  }

  #hand(operation: Operation): void {
    if (operation.kind !== OperationKind.LATCH) this.scheduler.ready(operation)
    else if (this.#opened.delete(operation)) this.#end(operation)
    else {
      this.#latches.add(operation)
      this.observer?.started(operation, this.scheduler.now)
    }
  }

  #endsAtOnce({ kind, work }: Operation): boolean {
    return kind === OperationKind.INSTANT && !(work !== undefined && this.#explores)
  }

  #end(first: Operation): void {
    this.#finish(first)
    if (this.#toTell.length > 0) this.#tell()
  }

  /** Ends an operation, then all that this lets go; on a broken device, drops all that waited for it. */
  #finish(first: Operation): void {
    const ending = [first]
    for (let at = 0; at < ending.length; at += 1) {
      const operation = ending[at] as Operation
      if (operation.over) continue
      this.#leave(operation)
      for (const dependent of operation.end(operation.stream.device.fault !== 0)) {
        if (dependent.stream.device.fault !== 0) ending.push(dependent)
        else if (dependent.becomeReady()) {
          if (this.#endsAtOnce(dependent)) ending.push(dependent)
          else this.#hand(dependent)
        }
      }
    }
  }

  /** The bookkeeping for an operation that is about to be over. */
  #leave(operation: Operation): void {
    const { stream, settle, work } = operation
    const { device } = stream
    if (settle !== undefined) {
      operation.settle = undefined
      this.scheduler.settleLater(operation, settle)
    }
    // A mistake of the program's, in a twin say: the machine goes on.
    if (device.fault === 0 && work !== undefined) surfacing(() => work.effect())
    if (operation.inStream) this.#leaveStream(operation)
    this.scheduler.over(operation)
    this.observer?.ended(operation)
    operation.work = undefined
    if (device.fault !== 0) this.#dropHostFunction(operation)
  }

  #leaveStream(operation: Operation): void {
    const { stream } = operation
    const { device } = stream
    stream.unfinished -= 1
    if (stream.unfinished === 0) {
      // What comes later need not wait for what is over; but who explores wants to know that it came after it.
      if (!this.#explores) stream.tail = undefined
      if (stream.destroyed) device.forget(stream)
    }
    if (operation.takesEntry) stream.entries -= 1
    if (!stream.nonBlocking) device.blockingUnfinished -= 1
  }

  /** A callback hears of the fault; a host function never runs. One that runs now is neither. */
  #dropHostFunction(operation: Operation): void {
    const { host } = operation
    if (host === undefined || this.#running.includes(operation)) return
    if (host.runsAfterFault) {
      this.#toTell.push(operation)
      return
    }
    operation.host = undefined
    this.hostFunctionsPending -= 1
  }

  #tell(): void {
    const toTell = this.#toTell.sort((a, b) => a.sequence - b.sequence)
    this.#toTell = []
    for (const operation of toTell) this.scheduler.callBack(operation, operation.stream.device.fault)
  }
}

const NOTHING: readonly undefined[] = []
