/**
 * The parts of a simulated machine: devices, streams, events, captures, and the operations in the streams. They refer to each other, so they are in
 * one file, and only hold state, which machine.ts changes. An operation is blocked while a predecessor is unfinished, then ready; a ready one starts
 * when the scheduler lets it, and ends in virtual time.
 */
import { explained } from '../../foundation/base/errors.js'
import { CapturedGraph, type CapturedNode } from '../../foundation/driver/captured-graph.js'
import { cudaError } from '../../foundation/driver/cuda-results.js'
import type { FaultReason } from '../../foundation/driver/device-driver.js'
import type { CaptureMode, ConditionalType } from '../../foundation/driver/driver-constants.js'
import type { Settle } from '../../foundation/driver/event-driver.js'
import {
  type ContextHandle,
  defaultStream,
  type EventHandle,
  type StreamHandle,
} from '../../foundation/driver/handle-types.js'
import type { HostFunction } from '../../foundation/driver/queued-work.js'
import type { Turn, WorkWords } from '../shared/object-words.js'
import type { Listed } from './live-operations.js'
import type { DevicePools } from './pools.js'
import type { Computation } from './slice.js'
import { isLatch, SimOperationKind, type Touch, type Work } from './work.js'

export class SimDevice {
  /** The number of the device's kernel slots; the next fields are those of the engines that copy from and to the host. */
  readonly kernelSlots: number
  readonly engineToDevice: number
  readonly engineToHost: number
  /** The CUresult of the fault that broke the device, or 0. */
  fault = 0
  /** The number of unfinished operations in blocking streams, the null stream among them. */
  blockingUnfinished = 0
  /** The blocking streams with work queued since the null stream last waited for all of them. */
  readonly touched = new Set<SimStream>()
  /** The cause of the fault in words, if it is known. */
  faultReason: FaultReason | undefined
  /** All streams with unfinished work, and some without. */
  readonly #listed = new Set<SimStream>()
  readonly nullStream: SimStream
  readonly perThread: SimStream

  constructor(
    readonly ordinal: number,
    readonly context: ContextHandle,
    firstId: bigint,
    readonly pools: DevicePools,
  ) {
    this.kernelSlots = 3 * ordinal
    this.engineToDevice = 3 * ordinal + 1
    this.engineToHost = 3 * ordinal + 2
    this.nullStream = new SimStream(this, defaultStream(ordinal, 0), firstId, false, 0)
    this.perThread = new SimStream(this, defaultStream(ordinal, 2), firstId + 1n, false, 0)
  }

  /** The error of a call once the device is lost. */
  faultError(call: string): Error {
    const error = cudaError(call, this.fault)
    return this.faultReason === undefined ? error : explained(error, this.faultReason.text, this.faultReason.culprit)
  }

  list(stream: SimStream): void {
    stream.listed = true
    this.#listed.add(stream)
  }

  /** The operations that have to be over for all work of the device to be over. */
  *tails(): Generator<SimOperation | undefined> {
    for (const stream of this.#listed) {
      if (stream.unfinished === 0 && stream.tail?.owes !== true) {
        stream.listed = false
        this.#listed.delete(stream)
        this.forgetDestroyed(stream)
      }
      // A tail that is over counts as well: an exploration has to know that it was waited for.
      yield stream.tail
    }
  }

  /** Forgets the stream if it is destroyed and its work is done, with all effects. */
  forgetDestroyed(stream: SimStream): void {
    if (!stream.destroyed || stream.unfinished > 0 || stream.tail?.owes === true) return
    this.touched.delete(stream)
    this.#listed.delete(stream)
  }

  /** Forgets all streams that are destroyed and whose work is done, with all effects. */
  forgetAllDestroyed(): void {
    for (const stream of this.#listed) this.forgetDestroyed(stream)
  }
}

/** A share of a device's multiprocessors: a kernel there needs one of its kernel slots, and one of the device's. */
export class SimPartition {
  /** The number of streams of the partition that are not destroyed. */
  streams = 0
  isClosed = false

  constructor(
    readonly device: SimDevice,
    readonly context: ContextHandle,
    readonly multiprocessors: number,
  ) {}
}

/** The part of a shared stream whose work this thread's machine does. */
export interface SharedPart {
  readonly words: WorkWords
  readonly place: number
  /** The last work of another thread that the stream waits for, or has waited for. */
  turn: Turn | undefined
}

export class SimStream {
  /** The operation that was queued last. */
  tail: SimOperation | undefined
  /** The number of operations that are queued and not over. */
  unfinished = 0
  /** Whether the stream is in its device's list of streams that may have unfinished work. */
  listed = false
  /** The number of unfinished operations that hold an entry of the hardware queue. */
  entries = 0
  capture: SimCapture | undefined
  /** Whether the stream is destroyed: its handle is gone, but what was queued still runs. */
  destroyed = false
  /** The words that other threads see of a shared stream; undefined before it is shared. */
  shared: SharedPart | undefined

  constructor(
    readonly device: SimDevice,
    readonly handle: StreamHandle,
    readonly id: bigint,
    readonly nonBlocking: boolean,
    public priority: number,
    readonly partition?: SimPartition,
  ) {}
}

export class SimEvent {
  /** The record that a wait now would refer to; undefined before the first. */
  record: SimOperation | undefined
  /** The capture inside which the latest record was made; undefined if it was made outside of captures. */
  captured: SimCapture | undefined
  /** The words that other threads see of a shared event, and the number of the record that `record` stands for; undefined before it is shared. */
  shared: { readonly words: WorkWords; serial: number } | undefined

  constructor(
    readonly device: SimDevice,
    readonly handle: EventHandle,
    readonly flags: number,
  ) {}
}

const BLOCKED = 0
const READY = 1
const DONE = 2
const DROPPED = 3
const NONE: readonly SimOperation[] = []

/** A list of the operations that a search has found, each of them once. */
export class Search {
  static #last = 0
  readonly found: SimOperation[] = []
  readonly #number: number

  constructor(first: readonly SimOperation[]) {
    Search.#last += 1
    this.#number = Search.#last
    for (const one of first) this.add(one)
  }

  add(operation: SimOperation): void {
    if (operation.foundBy === this.#number) return
    operation.foundBy = this.#number
    this.found.push(operation)
  }
}

/**
 * An operation of a stream or beside the streams. There are hundreds of thousands at a time, so fields that most of them do not need are inherited
 * from the prototype.
 */
export class SimOperation implements Listed<SimOperation> {
  previousLive: SimOperation | undefined
  nextLive: SimOperation | undefined
  #state: number = BLOCKED
  #blockers = 0
  /** The blocked operations that come after this one. Mostly there is only one, which needs no array. */
  #next: SimOperation | undefined
  #others = NONE
  /** The time in virtual nanoseconds at which the operation was queued; while it runs, at which it will end; once it is over, at which it did. */
  time = -1
  /** Whether the effect of the operation is there, though it may not be over yet. */
  hadEffect = false
  /** The event whose latest record this operation becomes when it is queued. */
  declare records: SimEvent | undefined
  /** The callback for the time when the operation is done or dropped. */
  declare settle: Settle | undefined
  /** Publishes to other threads that the operation is over. */
  declare publish: (() => void) | undefined
  /** The callback for the time when an operation in no stream is over. */
  declare whenOver: (() => void) | undefined
  host: HostFunction | undefined
  work: Work | undefined
  /** The effect, once a part of it has been computed and the rest is not there yet. */
  declare computation: Computation | undefined
  /** Whether all effects were there when the operation was over, or have been computed since: a fault that comes later is none of its. */
  declare isComputed: boolean
  /** The partition in which a kernel runs: that of the stream on which it was queued or captured, if the stream is in one. */
  declare partition: SimPartition | undefined
  /** The CUresult of the fault that the operation ends in, or 0. */
  declare fails: number
  /** The first operation of `after`; `#besides` has the others. Mostly there is only one, which needs no array. */
  #before: SimOperation | undefined
  #besides = NONE
  #touches: readonly Touch[] | undefined
  /** Whether the operation is in a stream. A marker is not: it only waits for operations of streams. */
  inStream = true
  /** The number of the last search that found the operation. */
  foundBy = 0
  /** The observer's number for the operation. */
  observed = -1
  /** The place in the program at which a latch was made, for warnings. */
  declare site: string | undefined
  /** The decisions of a conditional node: the function returns what comes next, and undefined when the node is over. */
  declare decide: Decide | undefined
  /** The conditions of the graph instance that this operation was launched from. */
  declare conditions: readonly SimCondition[] | undefined
  /** The numbers for the operations that a conditional node adds; undefined if they may have any. */
  declare numbers: Numbers | undefined

  static {
    // Few operations have one of these fields: the others inherit the default from the prototype.
    const none = {
      records: undefined,
      settle: undefined,
      publish: undefined,
      whenOver: undefined,
      site: undefined,
      decide: undefined,
      conditions: undefined,
      numbers: undefined,
      partition: undefined,
      fails: 0,
      computation: undefined,
      isComputed: false,
    }
    Object.assign(SimOperation.prototype, none)
  }

  /**
   * @param sequence The position in the order in which operations were queued
   * @param nanoseconds The virtual time that the operation takes
   * @param remembers Whether the operation keeps what it came after
   */
  constructor(
    readonly kind: SimOperationKind,
    readonly stream: SimStream,
    readonly sequence: number,
    readonly nanoseconds: number,
    private readonly remembers: boolean,
  ) {}

  /** Whether the operation is done, or was dropped because its device broke: no operation waits for it any more. */
  get over(): boolean {
    return this.#state >= DONE
  }

  get dropped(): boolean {
    return this.#state === DROPPED
  }

  /** Whether the operation takes one of the entries of a stream's hardware queue. Records and waits do not. */
  get takesEntry(): boolean {
    return this.kind !== SimOperationKind.INSTANT
  }

  /**
   * The operations that this one was queued behind: those that are unfinished or owe effects, and once this one is over only those that owe effects.
   * With `remembers` it is all of them, forever.
   */
  get after(): readonly SimOperation[] {
    if (this.#before === undefined) return NONE
    return this.#besides === NONE ? [this.#before] : [this.#before, ...this.#besides]
  }

  set after(operations: readonly SimOperation[]) {
    this.#before = operations[0]
    this.#besides = operations.length > 1 ? operations.slice(1) : NONE
  }

  addBeforeTo(search: Search): void {
    if (this.#before !== undefined) search.add(this.#before)
    for (const one of this.#besides) search.add(one)
  }

  /** Whether the operation is at the front of its stream and waits for JavaScript to run or open it. */
  get waitsForHost(): boolean {
    return (this.kind === SimOperationKind.HOST || isLatch(this.kind)) && this.#state === READY
  }

  get isBlocked(): boolean {
    return this.#blockers > 0
  }

  /** Whether the operation has no effect and ends when it is queued. */
  get isOverAtOnce(): boolean {
    return this.kind === SimOperationKind.INSTANT && this.work === undefined && this.#blockers === 0
  }

  /** Whether the operation has an effect that is not there yet. */
  get owesEffect(): boolean {
    return this.work !== undefined && !this.hadEffect
  }

  /** The memory that the effect reads and writes. */
  get touches(): readonly Touch[] {
    this.#touches ??= this.work?.touches ?? []
    return this.#touches
  }

  /** Whether the effect of a finished operation, or of one before it, is not there yet. */
  get owes(): boolean {
    if (this.owesEffect) return true
    return this.#before !== undefined && (this.#before.owesEffect || this.#besides.some(({ owesEffect }) => owesEffect))
  }

  waitFor(predecessor: SimOperation | undefined): void {
    if (predecessor === undefined) return
    if (predecessor.#state >= DONE && !this.remembers && !predecessor.owes) return
    if (this.#before === undefined) this.#before = predecessor
    else this.#besides = withOneMore(this.#besides, predecessor)
    this.#waitFor(predecessor)
  }

  #waitFor(predecessor: SimOperation): void {
    if (predecessor.#state >= DONE) return
    this.#blockers += 1
    if (predecessor.#next === undefined) predecessor.#next = this
    else predecessor.#others = withOneMore(predecessor.#others, this)
  }

  /** Whether the other operation comes after this one, which is not over. */
  isBefore(other: SimOperation): boolean {
    let one: SimOperation = this
    // Most of what comes after an operation is a chain, for which no list is needed.
    while (one !== other) {
      if (one.#others !== NONE) return one.#allAfter().includes(other)
      if (one.#next === undefined) return false
      one = one.#next
    }
    return true
  }

  /** Whether all entries of the stream's hardware queue are this unfinished operation or come after it. */
  holdsUp(stream: SimStream): boolean {
    let entries = 0
    for (const one of this.#allAfter()) if (one.stream === stream && one.inStream && one.takesEntry) entries += 1
    return entries === stream.entries
  }

  /** The operation itself, and all that come after it. */
  #allAfter(): readonly SimOperation[] {
    const later = new Search([this])
    for (const one of later.found) {
      if (one.#next !== undefined) later.add(one.#next)
      for (const other of one.#others) later.add(other)
    }
    return later.found
  }

  /** Blocks the operation, which was ready, again until these are over. */
  blockAgain(predecessors: readonly SimOperation[]): void {
    this.#state = BLOCKED
    // The effects of what came before are there, since the decision needed them.
    if (!this.remembers) this.after = NONE
    for (const predecessor of predecessors) this.waitFor(predecessor)
  }

  /** Makes the operation ready if nothing blocks it. Returns true only once. */
  becomeReady(): boolean {
    if (this.#blockers > 0 || this.#state !== BLOCKED) return false
    this.#state = READY
    return true
  }

  /** Notes that the effect of the operation is there. */
  effectIsDone(): void {
    this.hadEffect = true
    if (this.computation !== undefined) this.computation = undefined
    if (!this.over) return
    this.work = undefined
    this.after = NONE
  }

  /** Ends the operation. With `owing` effects are put off, so that operations before it may owe theirs. */
  end(dropped: boolean, owing: boolean): void {
    this.#state = dropped ? DROPPED : DONE
    if (!this.remembers && this.#before !== undefined) this.after = owing && !dropped ? thatOwe(this.after) : NONE
    if (this.#next !== undefined) this.#next.#blockers -= 1
    for (const other of this.#others) other.#blockers -= 1
  }

  /** Marks an operation that is over as failed, since a fault before it was noticed late. */
  failLate(): void {
    if (this.#state === DONE) this.#state = DROPPED
  }

  /** Calls `to` with each operation that waited for this one, in their order, and with `among`. It must be called once this one is over. */
  letGo<A>(to: (dependent: SimOperation, among: A) => void, among: A): void {
    const next = this.#next
    if (next === undefined) return
    const others = this.#others
    this.#next = undefined
    this.#others = NONE
    to(next, among)
    for (const other of others) to(other, among)
  }
}

/** A list with one operation more. The first arrays are as long as they have to be: `push` on an empty one reserves room for seventeen. */
function withOneMore(operations: readonly SimOperation[], one: SimOperation): readonly SimOperation[] {
  const [first, second] = operations
  if (first === undefined) return [one]
  if (second === undefined) return [first, one]
  ;(operations as SimOperation[]).push(one)
  return operations
}

/** The operations whose effects are not there yet. One that has no effect itself, such as a wait, is replaced by those before it. */
function thatOwe(operations: readonly SimOperation[]): readonly SimOperation[] {
  const [first, second] = operations
  if (first === undefined || !operations.some(({ owes }) => owes)) return NONE
  if (second === undefined) return first.owesEffect ? operations : first.after
  /** The latest operation of each stream, which stands for those before it. */
  const latest = new Map<SimStream | SimOperation, SimOperation>()
  for (const operation of operations) {
    for (const one of operation.owesEffect ? [operation] : operation.after) {
      const key = one.inStream ? one.stream : one
      const known = latest.get(key)
      if (one.owesEffect && (known === undefined || known.sequence < one.sequence)) latest.set(key, one)
    }
  }
  return [...latest.values()]
}

/** A range of numbers for operations, from `next` to `last`. */
export interface Numbers {
  next: number
  readonly last: number
}

/** The next step of a conditional node. */
export interface Decision {
  readonly nodes: readonly CapturedNode<SimNodeWork>[]
  /** Whether the node decides once more when these nodes are over. */
  readonly again: boolean
}

export type Decide = () => Decision | undefined

/** A value by which a conditional node decides, in one instance of a graph. */
export interface SimCondition {
  /** The number of the condition among those of the graph, from 1. */
  readonly handle: bigint
  /** The value of the condition when a launch begins. */
  readonly initial: number
  value: number
}

/** The work of a node, done each time that the graph is launched. */
export type SimNodeWork =
  | {
      readonly kind: 'work'
      /** The driver call that was captured. */
      readonly call: string
      readonly operation: SimOperationKind
      readonly nanoseconds: number
      readonly work: Work | undefined
      /** The CUresult of the fault that the work ends in, or 0. */
      readonly fails: number
      /** The device of the stream on which the node was captured: it runs there, and in that partition, whatever stream the graph is launched on. */
      readonly device: SimDevice
      readonly partition: SimPartition | undefined
    }
  /** A host function; `work` is what it does to memory, if it is a copy of the library's own. */
  | { readonly kind: 'host'; readonly host: HostFunction; readonly work: Work | undefined }
  /** A node that is switched off. */
  | { readonly kind: 'empty' }
  /** A graph within the graph, with the nodes that it had when it was added. */
  | { readonly kind: 'graph'; readonly nodes: readonly CapturedNode<SimNodeWork>[] }
  | {
      readonly kind: 'conditional'
      readonly type: ConditionalType
      /** The handle of the condition. */
      readonly condition: bigint
      /** The context in which the kernels of the bodies have to be. */
      readonly context: ContextHandle
      readonly bodies: readonly SimBody[]
    }
  | { readonly kind: 'eventRecord' | 'eventWait'; readonly event: SimEvent }

/** The body of a conditional node. In a graph it may grow. */
export interface SimBody {
  /** The number of the body's graph. */
  readonly id: bigint
  readonly nodes: readonly CapturedNode<SimNodeWork>[]
}

/** A graph that exists already, to which a capture adds nodes. */
export interface CapturedInto {
  readonly id: bigint
  readonly nodes: readonly CapturedNode<SimNodeWork>[]
  /** The nodes after which the first operation of the stream comes. */
  readonly after: readonly CapturedNode<SimNodeWork>[]
}

export class SimCapture extends CapturedGraph<SimStream, SimEvent, SimNodeWork> {
  /** Whether a mistake has invalidated the capture: then it can only be ended. */
  invalid = false
  /** The initial values of the conditions that were made for the capture's graph. */
  readonly conditions: number[] = []

  constructor(
    origin: SimStream,
    readonly mode: CaptureMode,
    /** The number of the capture, which is never used twice. */
    readonly id: bigint,
    /** The graph that nodes are added to, and the position in it; undefined if the capture makes a new graph. */
    readonly into?: CapturedInto,
  ) {
    super(origin, into?.nodes, into?.after)
  }

  /** The number of the graph that the capture makes or adds to. */
  get graphId(): bigint {
    return this.into?.id ?? this.id
  }
}
