/**
 * The simulated GPU: operations become ready when all that they come after is over, and end when the scheduler says so. The machine has no handles
 * and no errors of the driver; the driver in front of it has those. It decides which operation must come after which, and nothing else.
 */

import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { monotonicTime } from '../../foundation/base/event-loop.js'
import { process, threadId } from '../../foundation/base/node-modules.js'
import type { CapturedNode } from '../../foundation/driver/captured-graph.js'
import type { Settle } from '../../foundation/driver/event-driver.js'
import type { HostFunction } from '../../foundation/driver/queued-work.js'
import type { Turn, WorkWords } from '../shared/object-words.js'
import { OtherMachines } from '../shared/process-words.js'
import { decisionsOf, TIME_TO_DECIDE } from './conditionals.js'
import { Effects } from './effects.js'
import type { FaultPlan } from './fault-plan.js'
import { LateEffects } from './late-effects.js'
import { LiveOperations } from './live-operations.js'
import {
  type Decide,
  type Decision,
  type Numbers,
  type SharedPart,
  type SimCondition,
  type SimDevice,
  type SimEvent,
  type SimNodeWork,
  SimOperation,
  type SimStream,
} from './machine-state.js'
import type { HostWait, Scheduler, Steps } from './scheduler.js'
import { Slice } from './slice.js'
import { isLatch, LaunchFault, OtherThreadsWork, SimOperationKind, type Work } from './work.js'

/** An observer of a machine's operations. Its methods are called in the middle of changes, so they may only take notes. */
export interface Observer {
  /** Called when an operation was put into a stream, or a graph that contains it was launched. */
  queued(operation: SimOperation): void
  /** Called when an operation begins, or when it is known to begin at `time`, which may be later than now. */
  started(operation: SimOperation, time: number): void
  /** Called when an operation is done at `operation.time`, or dropped. */
  ended(operation: SimOperation): void
  /** Called when a conditional node has added an operation. */
  added(operation: SimOperation, by: SimOperation): void
}

/** What an operation that is put at the end of a stream has, beside its kind. */
interface Queued {
  readonly nanoseconds?: number
  readonly work?: Work | undefined
  /** The CUresult of the fault that the operation ends in; 0 if it does not. */
  readonly fails?: number
  readonly host?: HostFunction
  /** The operations of other streams that this one comes after, too. */
  readonly after?: readonly SimOperation[]
  /** Whether CUDA takes the operation for work, which waits for the null stream's. */
  readonly isWork?: boolean
}

export class Machine implements Steps {
  /** The number of host functions of all machines that run now, one inside the other. */
  static #nested = 0
  /** The number of host functions that are queued and not over. */
  hostFunctionsPending = 0
  /** The number of host functions that will never run, since a fault came before. */
  hostFunctionsDropped = 0
  /** The number of promises that are still to be settled. */
  waitsPending = 0
  /** Called when something was queued or opened: the event loop may have to turn for it. */
  onWork: () => void = () => {}
  observer: Observer | undefined
  /** All devices of the machine; a fault loses all of them. */
  devices: readonly SimDevice[] = []
  readonly scheduler: Scheduler
  /** The machines of other threads, once something was shared with one. */
  readonly others = new OtherMachines()
  readonly #explores: boolean
  /** The effects that are put off; undefined if every effect is there when its operation is over. */
  readonly #late: LateEffects | undefined
  #sequence = 0
  /** The operations that are queued and not over. */
  readonly #live = new LiveOperations<SimOperation>()
  /** The operations that are over, but whose promises are still to be settled or whose callbacks are still to be notified of a fault. */
  readonly #owed = new Set<SimOperation>()
  /** The number of nested changes under way: no value wait completes before all of them are made. */
  #changes = 0
  /** Whether the awaited values are being checked. */
  #passes = false
  /** Whether a kernel has faulted and the unfinished work is still to be dropped. */
  #isLost = false
  /** Whether a promise may hold a stream. */
  #hasPromises = false
  /** The latches that block streams, with the wall-clock time at which each began to. */
  readonly #latches = new Map<SimOperation, number>()
  /** The latches that were opened, with the virtual time: the stream may not have come to them before. */
  readonly #opened = new WeakMap<SimOperation, number>()
  /** The operations whose host functions run now, the innermost last. */
  readonly #running: SimOperation[] = []
  readonly #effects = new Effects((fault) => this.#lose(fault))
  /** The slice of the turn of the event loop that is under way. */
  #slice: Slice | undefined
  /** The callbacks that a fault dropped and that have still to be notified of it. */
  #toTell: SimOperation[] = []

  constructor(
    scheduler: (steps: Steps) => Scheduler,
    readonly faults: FaultPlan,
  ) {
    this.scheduler = scheduler(this)
    this.#explores = this.scheduler.explores
    if (this.scheduler.putsOff) this.#late = new LateEffects((operation, slice) => this.#effect(operation, slice))
  }

  /**
   * Queues work behind all that is in the stream, and behind `after`, operations of other streams. `fails` is the CUresult of the fault that the work
   * ends in, or 0.
   */
  enqueue(
    stream: SimStream,
    kind: SimOperationKind,
    nanoseconds: number,
    work?: Work,
    fails = 0,
    after = NOTHING,
  ): SimOperation {
    const operation = this.#queue(stream, kind, { nanoseconds, work, fails, after })
    if (this.#explores && work !== undefined) this.scheduler.handedOver(operation)
    return operation
  }

  enqueueRecord(stream: SimStream, after?: SimOperation): SimOperation {
    return this.#queue(stream, SimOperationKind.INSTANT, { after: after === undefined ? NOTHING : [after] })
  }

  /** Queues a wait for a record. On a blocking stream the wait does not wait for the null stream: only work does. */
  enqueueWait(stream: SimStream, record: SimOperation): void {
    const isWork = stream === stream.device.nullStream
    this.#queue(stream, SimOperationKind.INSTANT, { after: [record], isWork })
  }

  /** @param work What the host function does to memory, if it is a copy of the library's own */
  enqueueHostFunction(stream: SimStream, host: HostFunction, work?: Work): void {
    const operation = this.#queue(stream, SimOperationKind.HOST, { host, work })
    if (this.#explores && work !== undefined) this.scheduler.handedOver(operation)
  }

  /** Queues a latch that a promise opens. */
  enqueueHold(stream: SimStream, site: string | undefined): SimOperation {
    this.#hasPromises = true
    const operation = this.#queue(stream, SimOperationKind.PROMISE, {})
    operation.site = site
    return operation
  }

  /**
   * Queues a graph: each node comes after those it was captured after, and all of them after the work of the stream and after `before`, the earlier
   * launch of the same instance. The conditions get their initial values when that is over. Returns the end of the launch.
   */
  launch(
    stream: SimStream,
    nodes: readonly CapturedNode<SimNodeWork>[],
    before: SimOperation | undefined,
    conditions: readonly SimCondition[] = NO_CONDITIONS,
  ): SimOperation {
    const operations: SimOperation[] = []
    const end = this.#change(() => {
      const begin = this.#operation(SimOperationKind.INSTANT, stream, 0)
      this.#append(begin, before === undefined ? NOTHING : [before])
      if (conditions.length > 0) operations.push(this.#beginning(begin, conditions))
      const [first = begin] = operations
      operations.push(...this.#operationsOf(nodes, stream, [first], conditions))
      for (const operation of operations) this.observer?.queued(operation)
      const last = this.#operation(SimOperationKind.INSTANT, stream, 0)
      this.#append(last, operations)
      this.onWork()
      this.#commit(begin, [...operations, last])
      return last
    })
    if (this.#explores) for (const operation of operations) this.scheduler.handedOver(operation)
    return end
  }

  /** The operation that begins a launch, in which the conditions get their initial values. */
  #beginning(after: SimOperation, conditions: readonly SimCondition[]): SimOperation {
    const operation = this.#operation(SimOperationKind.CONDITIONAL, after.stream, 0)
    operation.inStream = false
    operation.waitFor(after)
    operation.decide = () => {
      for (const condition of conditions) condition.value = condition.initial
      return undefined
    }
    return operation
  }

  /** The operations of nodes. Each comes after the operations that its node was captured after, and all come after `before`. */
  #operationsOf(
    nodes: readonly CapturedNode<SimNodeWork>[],
    stream: SimStream,
    before: readonly SimOperation[],
    conditions: readonly SimCondition[],
    numbers?: Numbers,
  ): readonly SimOperation[] {
    const operations: SimOperation[] = []
    for (const { after, work } of nodes) {
      const operation = this.#operationOf(work, stream, conditions, numbers)
      if (conditions.length > 0) operation.conditions = conditions
      for (const one of before) operation.waitFor(one)
      for (const node of after) operation.waitFor(operations[node.index])
      if (work.kind === 'eventWait') operation.waitFor(recordAmong(operations, work.event) ?? work.event.record)
      if (work.kind === 'eventRecord') operation.records = work.event
      operations.push(operation)
    }
    return operations
  }

  /** Lets a conditional node decide, after the effects of all that comes before it. Returns false if nothing comes next. */
  #decides(operation: SimOperation): boolean {
    const { decide, stream, conditions = NO_CONDITIONS } = operation
    if (decide === undefined) return false
    this.#late?.demand(operation)
    if (stream.device.fault !== 0) return false
    const decision = this.#decisionOf(decide)
    if (decision === undefined) return false
    if (!decision.again) operation.decide = undefined
    const added = this.#operationsOf(decision.nodes, stream, operation.after, conditions, operation.numbers)
    if (added.length === 0) {
      if (decision.again) this.scheduler.ready(operation)
      return decision.again
    }
    operation.blockAgain(added)
    for (const one of added) {
      this.observer?.added(one, operation)
      this.#list(one)
    }
    for (const one of added) this.#start(one)
    return true
  }

  #decisionOf(decide: Decide): Decision | undefined {
    try {
      return decide()
    } catch (error) {
      if (!(error instanceof LaunchFault)) throw error
      this.#lose(error)
      return undefined
    }
  }

  /** Makes an operation in no stream that is done when all of these are. */
  marker(
    stream: SimStream,
    predecessors: Iterable<SimOperation | undefined>,
    work?: Work,
    whenOver?: () => void,
  ): SimOperation {
    return this.#change(() => this.#enqueueBeside(stream, predecessors, work, false, whenOver))
  }

  /** Makes a record that does not count as work of its stream, so that an idle stream stays idle. */
  recordBeside(stream: SimStream, predecessors: Iterable<SimOperation | undefined>): SimOperation {
    return this.#change(() => this.#enqueueBeside(stream, predecessors, undefined, true))
  }

  /** Makes an operation in no stream that is over when the work of another thread is. */
  otherThreadsWork(device: SimDevice, isDone: () => boolean): SimOperation {
    if (isDone()) return this.marker(device.nullStream, [])
    return this.#change(() => {
      const operation = this.#operation(SimOperationKind.LATCH, device.nullStream, 0, new OtherThreadsWork(isDone))
      operation.inStream = false
      this.#commit(operation)
      this.onWork()
      return operation
    })
  }

  /** Makes a shared stream wait for what another thread has queued there since. */
  catchUp(stream: SimStream): void {
    const { shared } = stream
    if (shared !== undefined) this.#standFor(stream, shared, shared.words.before(shared.place))
  }

  /** Shares a stream: the work that is in it now counts as queued by this thread. */
  share(stream: SimStream, words: WorkWords, place: number): void {
    if (stream.shared !== undefined) return
    for (let count = stream.unfinished; count > 0; count -= 1) words.queue(place)
    stream.shared = { words, place, turn: undefined }
  }

  /** Makes an operation the latest record of an event. */
  recorded(event: SimEvent, record: SimOperation): void {
    event.record = record
    event.captured = undefined
    const { shared } = event
    if (shared === undefined) return
    const serial = shared.words.beginRecord()
    shared.serial = serial
    const publish = (): void => {
      shared.words.endRecord(serial)
      this.others.progress()
    }
    if (!record.over) {
      record.publish = publish
      return
    }
    this.observe(record)
    publish()
  }

  /** Replaces the record of a shared event if another thread has recorded it since. */
  refresh(event: SimEvent): void {
    const { shared } = event
    const latest = shared?.words.latestRecord ?? 0
    if (shared === undefined || latest === shared.serial) return
    shared.serial = latest
    event.captured = undefined
    event.record = this.otherThreadsWork(event.device, () => shared.words.isRecordDone(latest))
  }

  /** Loses the devices here, too, if another thread had a fault. */
  hearFault(): void {
    const { fault } = this.others
    if (fault !== 0 && this.devices.some((device) => device.fault === 0)) this.break(fault)
  }

  /** Publishes to other threads which work is done, with all effects. Returns false if the slice was over before all effects were there. */
  publish(slice?: Slice): boolean {
    if (this.others.isEmpty) return true
    this.hearFault()
    if (this.#late?.doAll(slice) === false) return false
    const oldest = this.#live.find(({ inStream }) => inStream)
    this.others.publishOldest(oldest?.sequence ?? this.#sequence + 1)
    return true
  }

  /** Whether any stream waits for something that another thread may do: its work, or a value that it writes. */
  get standsForOthers(): boolean {
    return !this.others.isEmpty && this.standsForValue && this.others.areThere
  }

  /** Whether anything is queued that other threads may wait for. */
  get worksForOthers(): boolean {
    return !this.others.isEmpty && !this.#live.isEmpty
  }

  /**
   * Makes this machine and those of other threads one from now on. Returns the memory by which the machines share their progress; undefined if
   * `machines` is no such memory.
   */
  join(machines?: ArrayBufferLike): ArrayBufferLike | undefined {
    if (this.others.isEmpty && threadId !== 0) {
      // The work that a worker has queued is done though the worker ends, as on a GPU.
      process.once('exit', () => this.finishAll(VARIABLES.deadlockTimeout.read()))
    }
    return this.others.join(machines)
  }

  /** Lets other processes, too, bring about what streams wait for, from now on. */
  joinProcesses(): void {
    this.join()
    this.others.processes = true
  }

  /** Lets all work be done that can be, until nothing is left or no other thread has done anything for so many milliseconds. */
  finishAll(patience: number): void {
    let since = monotonicTime()
    while (this.#live.all().length > 0 && monotonicTime() - since < patience) {
      if (this.scheduler.step() || this.passValues() || this.others.waitForProgress(1)) since = monotonicTime()
      else if (!this.standsForOthers) break
    }
    this.#late?.doAll()
    this.others.leave()
  }

  /** The operations that the null stream of a device would wait for now: its own work and that of the blocking streams. */
  *nullStreamTails(device: SimDevice): Generator<SimOperation | undefined> {
    yield device.nullStream.tail
    for (const stream of device.touched) yield stream.tail
  }

  /**
   * Tells the scheduler that the host queries whether all of these are over. Returns false if that cannot be known before more has been computed than
   * there was time for in the slice.
   */
  look(operations: readonly (SimOperation | undefined)[], slice?: Slice): boolean {
    this.scheduler.look({ operations, memory: undefined })
    if (this.#late === undefined) return true
    if (!this.#late.earlyOnes.isOver()) this.scheduler.block(this.#late.earlyOnes, 'none')
    if (this.#late.isIdle) return true
    for (const operation of operations) if (operation?.over === false) return true
    return operations.every((operation) => this.observe(operation, slice))
  }

  /**
   * Makes all effects before an operation visible, since the host goes on in the knowledge that it is over. Returns false if the slice was over
   * before.
   */
  observe(operation: SimOperation | undefined, slice?: Slice): boolean {
    if (operation === undefined || this.#late?.isIdle !== false) return true
    const isDone = this.#late.demand(operation, slice)
    this.#dropWhatIsLost()
    return isDone
  }

  computeBefore(next: SimOperation | undefined, slice?: Slice): boolean {
    if (this.#late !== undefined) {
      if (this.#late.isFull && !this.#doAllEffects(slice)) return false
      return next === undefined || !isSharedWork(next) || next.over || this.#late.doNow(next, slice)
    }
    // Without a slice the effect is done when the operation ends.
    if (next?.work?.compute === undefined || slice === undefined || next.over) return true
    return next.fails !== 0 || next.stream.device.fault !== 0 || this.#effect(next, slice)
  }

  computeResults(operation: SimOperation, slice?: Slice): boolean {
    if (!this.observe(operation, slice)) return false
    if (!operation.isComputed && operation.settle !== undefined && operation.stream.device.fault !== 0)
      operation.failLate()
    operation.isComputed = true
    return true
  }

  /** The slice of the turn of the event loop that is under way, or one for a call that the program makes. */
  get #sliceOfNow(): Slice {
    return this.#slice ?? new Slice()
  }

  /** Lets things happen in a turn of the event loop. Returns false if nothing can. */
  turn(): boolean {
    const slice = new Slice()
    this.#slice = slice
    try {
      const goesOn = this.scheduler.turn(slice)
      return !this.publish(slice) || goesOn
    } finally {
      this.#slice = undefined
    }
  }

  /** Calls `settle` when the operation is over. Returns a function that takes that back. */
  notify(operation: SimOperation, settle: Settle): () => void {
    this.onWork()
    this.#change(() => {
      operation.settle = settle
      this.waitsPending += 1
      if (!operation.over) return
      this.computeResults(operation, this.#sliceOfNow)
      this.#owed.add(operation)
      this.scheduler.settleLater(operation)
    })
    this.onWork()
    return () => {
      if (operation.over || operation.settle !== settle) return
      this.onWork()
      operation.settle = undefined
      this.waitsPending -= 1
    }
  }

  settle(operation: SimOperation): void {
    const { settle } = operation
    if (settle === undefined) return
    operation.settle = undefined
    this.waitsPending -= 1
    this.#owed.delete(operation)
    settle(operation.dropped ? operation.stream.device.faultError('cuEventQuery') : undefined)
  }

  /** Opens a latch. If the stream has not come to it yet, the stream will pass it without a stop. */
  open(latch: SimOperation): void {
    if (this.#opened.has(latch)) return
    this.#open(latch)
    if (this.#explores) this.scheduler.handedOver(latch)
  }

  #open(latch: SimOperation): void {
    if (latch.over) return
    this.onWork()
    this.#change(() => {
      this.scheduler.opened(latch)
      this.#opened.set(latch, this.scheduler.now)
      if (this.#latches.delete(latch)) this.#end(latch)
    })
  }

  /** Sets a condition of the graph instance from which the kernel was launched whose effect is under way. */
  setCondition(handle: bigint, value: number): void {
    this.#effects.setCondition(handle, value)
  }

  /** The operation whose effect is under way. */
  get effectOf(): SimOperation | undefined {
    return this.#effects.current
  }

  started(operation: SimOperation, time: number): void {
    this.observer?.started(operation, time)
  }

  runHostFunction(operation: SimOperation, status: number): void {
    const depth = this.#running.push(operation) - 1
    Machine.#nested += 1
    try {
      this.observer?.started(operation, this.scheduler.now)
      this.observe(operation)
      const { host, stream } = operation
      // Doing the effects of what comes before may show that a kernel has faulted.
      const known = status === 0 ? stream.device.fault : status
      if (known === 0 || host?.runsAfterFault === true) host?.run(known)
      else this.hostFunctionsDropped += 1
    } finally {
      Machine.#nested -= 1
      this.#running.length = depth
    }
    operation.host = undefined
    this.hostFunctionsPending -= 1
    if (operation.over) this.#owed.delete(operation)
    else this.end(operation)
  }

  /** Whether the wait comes after a host function that runs now: inside of that function it would never end. */
  comesAfterRunning(wait: HostWait): boolean {
    return this.#running.some((host) => wait.needs(host))
  }

  /** Whether the operation comes after one that JavaScript is inside of, as a host implementation is. */
  comesAfterHostImplementation(operation: SimOperation): boolean {
    return this.#late?.isIdle === false && this.#late.comesAfterUnderWay(operation)
  }

  /** The number of host functions, also of other machines, that JavaScript is inside of. */
  get nested(): number {
    return Machine.#nested
  }

  /** The host function or latch before the operation that only this thread can run or open; undefined if there is none. */
  holdsUp(operation: SimOperation): SimOperation | undefined {
    return this.#live.all().find((each) => each.waitsForHost && each.isBefore(operation))
  }

  /** A promise before the end of a wait, which no blocking call settles; undefined if there is none. */
  promiseBefore(wait: HostWait): SimOperation | undefined {
    if (!this.#hasPromises) return undefined
    const promises = this.#live
      .all()
      .filter((each) => each.kind === SimOperationKind.PROMISE && !this.#opened.has(each))
    this.#hasPromises = promises.length > 0
    return promises.find((each) => wait.needs(each))
  }

  /** The number of the operation that was made last. */
  get lastSequence(): number {
    return this.#sequence
  }

  hasNoHostFunctionUpTo(sequence: number): boolean {
    return !this.#live.all().some((each) => each.host !== undefined && each.sequence <= sequence)
  }

  get latchesStanding(): ReadonlyMap<SimOperation, number> {
    return this.#latches
  }

  /** Whether a pending promise or host function comes after the latch. */
  isWaitedFor(latch: SimOperation): boolean {
    return this.#live.all().some((each) => (each.settle ?? each.host) !== undefined && latch.isBefore(each))
  }

  end(operation: SimOperation): void {
    this.#change(() => {
      if (operation.fails !== 0) this.break(operation.fails, operation)
      else if (!this.#decides(operation)) this.#end(operation)
    })
    this.passValues()
  }

  /**
   * Loses every device of the process after a fault, as on real GPUs, and drops all unfinished operations; those at the front of each stream lead to
   * the rest.
   */
  break(fault: number, cause?: SimOperation): void {
    this.onWork()
    this.#change(() => {
      this.#doAllEffects()
      for (const device of this.devices) device.fault = fault
      this.others.setFault(fault)
      if (cause !== undefined) this.#finish(cause)
      this.#dropAll()
    })
  }

  /** Drops all unfinished operations, once the devices are lost. */
  #dropAll(): void {
    this.#isLost = false
    for (const operation of this.scheduler.drop()) this.#finish(operation)
    for (const latch of this.#latches.keys()) this.#finish(latch)
    this.#latches.clear()
    this.#tell()
  }

  /**
   * Drops all unfinished operations if a kernel has faulted. A kernel faults when its effect is done, which may be in the middle of a change, or of
   * other effects.
   */
  #dropWhatIsLost(): void {
    if (!this.#isLost || this.#changes > 0) return
    this.onWork()
    this.#change(() => {
      this.#doAllEffects()
      this.#dropAll()
    })
  }

  /** Lets streams go on that wait for values which are there now. Returns false if there are none. */
  passValues(): boolean {
    if (this.#latches.size === 0 || this.#changes > 0 || this.#passes) return false
    let anyPassed = false
    this.#passes = true
    try {
      for (const latch of this.#latches.keys()) {
        if (latch.work?.isReady === undefined) continue
        // Finished work may be visible by now, and a stream that waits for its values finds them at some time.
        if (!(latch.work instanceof OtherThreadsWork)) this.#late?.doAll()
        if (this.#isLost) break
        if (!latch.work.isReady()) continue
        anyPassed = true
        // A fault must be known before the work is over that it has dropped.
        if (latch.work instanceof OtherThreadsWork) this.hearFault()
        if (latch.over) break
        this.#open(latch)
      }
    } finally {
      this.#passes = false
    }
    this.#dropWhatIsLost()
    return anyPassed
  }

  /** Whether any stream waits for a value. */
  get standsForValue(): boolean {
    for (const { work } of this.#latches.keys()) if (work?.isReady !== undefined) return true
    return false
  }

  /** Makes a change during which no value wait completes. */
  #change<R>(change: () => R): R {
    this.passValues()
    this.#changes += 1
    try {
      return change()
    } finally {
      this.#changes -= 1
      this.#dropWhatIsLost()
    }
  }

  /** Puts one operation at the end of a stream. It is written without a closure, as it is called a million times. */
  #queue(
    stream: SimStream,
    kind: SimOperationKind,
    { nanoseconds = 0, work, fails = 0, host, after = NOTHING, isWork = true }: Queued,
  ): SimOperation {
    this.passValues()
    this.#changes += 1
    try {
      const operation = this.#operation(kind, stream, nanoseconds, work, fails)
      operation.host = host
      this.#append(operation, after, isWork)
      // The event loop has to turn for an operation, but not for a record or wait that is over at once.
      if (!operation.isOverAtOnce) this.onWork()
      this.#commit(operation)
      return operation
    } finally {
      this.#changes -= 1
      if (this.#isLost) this.#dropWhatIsLost()
    }
  }

  /** Adds operations that are queued together to the machine, and starts those that are not blocked. */
  #commit(lead: SimOperation, others: readonly SimOperation[] = NOTHING): void {
    if (lead.isOverAtOnce && others.length === 0) {
      if (lead.becomeReady()) this.#end(lead)
      return
    }
    this.#list(lead)
    for (const other of others) this.#list(other)
    this.#isQueued(lead)
    for (const other of others) this.#isQueued(other)
    this.#start(lead)
    for (const other of others) this.#start(other)
  }

  #list(operation: SimOperation): void {
    this.#live.add(operation)
    if (operation.work !== undefined) this.#late?.queued(operation)
  }

  #isQueued(operation: SimOperation): void {
    if (operation.records !== undefined) this.#isRecord(operation)
    if (operation.host === undefined) return
    this.hostFunctionsPending += 1
    // The event loop has to turn for a host function, though nothing else may keep the process alive.
    this.onWork()
  }

  #isRecord(operation: SimOperation): void {
    const { records } = operation
    if (records === undefined) return
    operation.records = undefined
    this.recorded(records, operation)
  }

  #enqueueBeside(
    stream: SimStream,
    predecessors: Iterable<SimOperation | undefined>,
    work: Work | undefined,
    isObserved: boolean,
    whenOver?: () => void,
  ): SimOperation {
    const operation = this.#operation(SimOperationKind.INSTANT, stream, 0, work)
    if (whenOver !== undefined) operation.whenOver = whenOver
    operation.inStream = false
    for (const predecessor of predecessors) operation.waitFor(predecessor)
    if (isObserved) this.observer?.queued(operation)
    this.#commit(operation)
    return operation
  }

  /** Makes the operation of a node for one launch of its graph. */
  #operationOf(
    work: SimNodeWork,
    stream: SimStream,
    conditions: readonly SimCondition[],
    numbers: Numbers | undefined,
  ): SimOperation {
    let operation: SimOperation
    if (work.kind === 'work') {
      operation = this.#operation(work.operation, stream, work.nanoseconds, work.work, work.fails, numbers)
      if (operation.partition !== work.partition) operation.partition = work.partition
    } else if (work.kind === 'conditional') {
      operation = this.#operation(SimOperationKind.CONDITIONAL, stream, TIME_TO_DECIDE, undefined, 0, numbers)
      operation.decide = decisionsOf(work, conditions)
      operation.numbers = numbers ?? this.#reserved()
    } else if (work.kind === 'host') {
      operation = this.#operation(SimOperationKind.HOST, stream, 0, work.work, 0, numbers)
      operation.host = work.host
    } else operation = this.#operation(SimOperationKind.INSTANT, stream, 0)
    operation.inStream = false
    return operation
  }

  /**
   * Reserves numbers for the operations that a conditional node adds, so that they are the same in each order: an exploration identifies operations
   * by their numbers.
   */
  #reserved(): Numbers | undefined {
    if (!this.#explores) return undefined
    const next = this.#sequence + 1
    this.#sequence += NUMBERS_OF_CONDITIONAL
    return { next, last: this.#sequence }
  }

  #nextSequence(numbers: Numbers | undefined): number {
    if (numbers !== undefined && numbers.next <= numbers.last) {
      numbers.next += 1
      return numbers.next - 1
    }
    this.#sequence += 1
    if (!this.others.isEmpty) this.others.publishLatest(this.#sequence)
    return this.#sequence
  }

  #operation(
    kind: SimOperationKind,
    stream: SimStream,
    nanoseconds: number,
    work?: Work,
    fails = 0,
    numbers?: Numbers,
  ): SimOperation {
    const operation = new SimOperation(kind, stream, this.#nextSequence(numbers), nanoseconds, this.#explores)
    operation.work = work
    if (stream.partition !== undefined) operation.partition = stream.partition
    const failsIn = fails === 0 && !this.faults.empty ? this.faults.ofOperation(operation) : fails
    if (failsIn !== 0) operation.fails = failsIn
    operation.time = this.scheduler.now
    if (this.#explores) this.scheduler.queued(operation)
    return operation
  }

  /** Puts an operation at the end of its stream and, by the null stream's rules, behind others. */
  #append(operation: SimOperation, after: readonly SimOperation[], isWork = true): void {
    const { stream } = operation
    const { device, shared } = stream
    if (shared !== undefined && isSharedWork(operation)) {
      this.#standFor(stream, shared, shared.words.queue(shared.place))
    }
    operation.waitFor(stream.tail)
    for (const predecessor of after) operation.waitFor(predecessor)
    if (stream === device.nullStream) for (const other of device.touched) operation.waitFor(other.tail)
    else if (!stream.nonBlocking && isWork) operation.waitFor(device.nullStream.tail)
    if (!stream.listed) device.list(stream)
    this.#count(operation)
    this.observer?.queued(operation)
  }

  #standFor(stream: SimStream, shared: SharedPart, turn: Turn | undefined): void {
    const { words } = shared
    if (turn === undefined || words.isDone(turn)) return
    if (turn.place === shared.turn?.place && turn.count === shared.turn.count) return
    shared.turn = turn
    const work = new OtherThreadsWork(() => words.isDone(turn))
    const operation = this.#operation(SimOperationKind.LATCH, stream, 0, work)
    this.#append(operation, NOTHING, false)
    this.onWork()
    this.#commit(operation)
  }

  /** Counts an operation in its stream and its device. */
  #count(operation: SimOperation): void {
    const { stream } = operation
    const { device } = stream
    if (stream === device.nullStream) device.touched.clear()
    else if (!stream.nonBlocking) device.touched.add(stream)
    stream.unfinished += 1
    stream.tail = operation
    if (operation.takesEntry) stream.entries += 1
    if (!stream.nonBlocking) device.blockingUnfinished += 1
  }

  #start(operation: SimOperation): void {
    if (operation.becomeReady()) this.#begin(operation)
  }

  /** Begins an operation that nothing blocks. The scheduler keeps this field with each operation that it defers. */
  readonly #begin = (operation: SimOperation): void => {
    if (this.#isDeferred(operation)) return
    if (this.#endsAtOnce(operation)) this.#end(operation)
    else this.#hand(operation)
  }

  /** Whether the operation must not begin yet: not before it was queued and, if it is a latch that is open, not before it was opened. */
  #isDeferred(operation: SimOperation): boolean {
    if (isLatch(operation.kind)) operation.time = Math.max(operation.time, this.#opened.get(operation) ?? 0)
    return this.scheduler.defers(operation, this.#begin)
  }

  #hand(operation: SimOperation): void {
    if (!isLatch(operation.kind)) {
      this.scheduler.ready(operation)
      return
    }
    this.#latches.set(operation, monotonicTime())
    this.observer?.started(operation, this.scheduler.now)
  }

  /**
   * Whether an operation ends as soon as it is ready: one that takes no time, a latch that was opened before, a host function that has run, or a node
   * that has decided.
   */
  #endsAtOnce(operation: SimOperation): boolean {
    const { kind, work, host } = operation
    if (kind === SimOperationKind.INSTANT) return !(work !== undefined && this.#explores)
    if (kind === SimOperationKind.CONDITIONAL) return operation.decide === undefined
    return kind === SimOperationKind.HOST ? host === undefined : isLatch(kind) && this.#opened.has(operation)
  }

  #end(first: SimOperation): void {
    this.#finish(first)
    if (this.#toTell.length > 0) this.#tell()
  }

  /** Ends an operation, then all operations that could end only after it; on a broken device, drops all that waited for it. */
  #finish(first: SimOperation): void {
    const ending = [first]
    for (let at = 0; at < ending.length; at += 1) {
      const operation = ending[at] as SimOperation
      if (operation.over) continue
      this.#leave(operation)
      operation.end(operation.stream.device.fault !== 0, this.#late?.isIdle === false)
      this.#live.remove(operation)
      if (operation.stream.unfinished === 0) this.#leaveTail(operation.stream)
      if (operation.work !== undefined && this.#late !== undefined) {
        this.#late.putOff(operation)
        if (this.#late.isFull) this.#doAllEffects(this.#sliceOfNow)
      }
      operation.letGo(this.#letGo, ending)
    }
    if (!this.others.isEmpty && this.#live.isEmpty) this.publish()
  }

  readonly #letGo = (dependent: SimOperation, ending: SimOperation[]): void => {
    if (dependent.stream.device.fault !== 0) ending.push(dependent)
    else if (dependent.becomeReady() && !this.#isDeferred(dependent)) {
      if (this.#endsAtOnce(dependent)) ending.push(dependent)
      else this.#hand(dependent)
    }
  }

  /** Does the bookkeeping for an operation that is about to be over. */
  #leave(operation: SimOperation): void {
    const { stream } = operation
    const { device } = stream
    if (isSharedWork(operation)) this.#late?.doNow(operation)
    const putsOff = this.#late !== undefined && device.fault === 0 && operation.owesEffect
    if (!putsOff && device.fault === 0) this.#effect(operation)
    if (operation.settle !== undefined) {
      this.computeResults(operation, this.#sliceOfNow)
      this.#owed.add(operation)
      this.scheduler.settleLater(operation)
    }
    if (operation.publish !== undefined) {
      this.observe(operation)
      operation.publish()
      operation.publish = undefined
    }
    if (operation.inStream) this.#leaveStream(operation)
    else operation.whenOver?.()
    this.scheduler.over(operation)
    this.observer?.ended(operation)
    if (operation.hadEffect) this.#late?.earlyIsOver(operation)
    if (!putsOff) {
      operation.computation?.drop()
      operation.computation = undefined
      operation.work = undefined
    }
    if (device.fault !== 0) this.#dropHostFunction(operation)
  }

  /** Does the effect of an operation. Returns false if the slice was over before the effect is there. */
  #effect(operation: SimOperation, slice?: Slice): boolean {
    if (operation.work === undefined || operation.hadEffect) return true
    if (!this.#effects.do(operation, operation.work, slice)) return false
    operation.effectIsDone()
    operation.stream.device.forgetDestroyed(operation.stream)
    return true
  }

  #lose({ result, message, culprit }: LaunchFault): void {
    for (const device of this.devices) {
      if (device.fault !== 0) continue
      device.fault = result
      const text = `${message}. The context is lost: every later call fails the same way`
      device.faultReason = { text, culprit }
      this.#isLost = true
    }
    this.others.setFault(result)
  }

  /**
   * Forgets the stream's tail once it is over, since later operations need not wait for it. An exploration keeps it, as it has to know that they came
   * after it.
   */
  #leaveTail(stream: SimStream): void {
    if (!this.#explores && stream.tail?.owes !== true) stream.tail = undefined
    if (stream.destroyed) stream.device.forgetDestroyed(stream)
  }

  /** Does all effects that are put off, so that all destroyed streams can be forgotten. Returns false if the slice was over before. */
  #doAllEffects(slice?: Slice): boolean {
    const isDone = this.#late?.doAll(slice) !== false
    for (const device of this.devices) device.forgetAllDestroyed()
    return isDone
  }

  #leaveStream(operation: SimOperation): void {
    const { stream } = operation
    const { device } = stream
    stream.unfinished -= 1
    if (operation.takesEntry) stream.entries -= 1
    if (!stream.nonBlocking) device.blockingUnfinished -= 1
    if (!isSharedWork(operation)) return
    stream.shared?.words.done(stream.shared.place)
    this.others.progress()
  }

  /** Notes that a fault dropped a host function. A callback is notified of the fault; a host function never runs. One that runs now is neither. */
  #dropHostFunction(operation: SimOperation): void {
    const { host } = operation
    if (host === undefined || this.#running.includes(operation)) return
    if (host.runsAfterFault) {
      this.#owed.add(operation)
      this.#toTell.push(operation)
      return
    }
    operation.host = undefined
    this.hostFunctionsPending -= 1
    this.hostFunctionsDropped += 1
  }

  #tell(): void {
    const toTell = this.#toTell.sort((a, b) => a.sequence - b.sequence)
    this.#toTell = []
    for (const operation of toTell) this.scheduler.callBack(operation, operation.stream.device.fault)
  }
}

const NOTHING: readonly SimOperation[] = []
const NO_CONDITIONS: readonly SimCondition[] = []
/** The numbers that are reserved for the operations that one conditional node adds, if operations are identified by their numbers. */
const NUMBERS_OF_CONDITIONAL = 100_000

/** Whether other threads count the operation as this thread's work of a stream. */
const isSharedWork = ({ inStream, stream, work }: SimOperation): boolean =>
  stream.shared !== undefined && inStream && !(work instanceof OtherThreadsWork)

/** The latest earlier record of the event in the same launch of the graph. */
const recordAmong = (operations: readonly SimOperation[], event: SimEvent): SimOperation | undefined =>
  operations.findLast(({ records }) => records === event)
