/**
 * The parts of a simulated machine: devices, streams, events, captures, and the operations in the streams. They refer to
 * each other, so they stand in one file, and hold state; machine.ts moves it. An operation is blocked while a predecessor is
 * unfinished, then ready; a ready one starts when the scheduler lets it, and ends in virtual time.
 */
import { explained } from '../../foundation/base/errors.js'
import { CapturedGraph, type CapturedNode } from '../../foundation/driver/captured-graph.js'
import { cudaError } from '../../foundation/driver/cuda-results.js'
import {
  type CaptureMode,
  type ConditionalType,
  type ContextHandle,
  defaultStream,
  type EventHandle,
  type HostFunction,
  type Settle,
  type StreamHandle,
} from '../../foundation/driver/driver.js'
import type { Turn, WorkWords } from '../shared/object-words.js'
import type { Listed } from './live-operations.js'
import type { DevicePools } from './pools.js'
import { isLatch, SimOperationKind, type Touch, type Work } from './work.js'

export class SimDevice {
  /** Where its operations run: the numbers of its kernel slots, and of the engines that copy from and to the host. */
  readonly kernelSlots: number
  readonly engineToDevice: number
  readonly engineToHost: number
  /** The CUresult of the fault that broke it, or 0. */
  fault = 0
  /** Unfinished operations in blocking streams, the null stream among them. */
  blockingUnfinished = 0
  /** Blocking streams with work queued since the null stream last waited for all of them. */
  readonly touched = new Set<SimStream>()
  /** What is known of the fault, beside its number. */
  faultReason: string | undefined
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

  /** What a call answers once the device is lost. */
  faultError(call: string): Error {
    const error = cudaError(call, this.fault)
    return this.faultReason === undefined ? error : explained(error, this.faultReason)
  }

  list(stream: SimStream): void {
    stream.listed = true
    this.#listed.add(stream)
  }

  /** The operations that have to be over for all its work to be. */
  *tails(): Generator<SimOperation | undefined> {
    for (const stream of this.#listed) {
      if (stream.unfinished === 0 && stream.tail?.owes !== true) {
        stream.listed = false
        this.#listed.delete(stream)
        this.forgetDestroyed(stream)
      }
      // Also where it is over: an exploration has to know that it was waited for.
      yield stream.tail
    }
  }

  /** Forgets the stream if it is destroyed and its work is done, with all effects. */
  forgetDestroyed(stream: SimStream): void {
    if (!stream.destroyed || stream.unfinished > 0 || stream.tail?.owes === true) return
    this.touched.delete(stream)
    this.#listed.delete(stream)
  }

  /** The same for all streams. */
  forgetAllDestroyed(): void {
    for (const stream of this.#listed) this.forgetDestroyed(stream)
  }
}

/** A share of a device's multiprocessors: a kernel there needs one of its kernel slots, and one of the device's. */
export class SimPartition {
  /** Streams of it that are not destroyed. */
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
  /** The last work of another thread that the stream stands for, or stood. */
  turn: Turn | undefined
}

export class SimStream {
  /** The operation queued last. */
  tail: SimOperation | undefined
  /** Operations queued and not over. */
  unfinished = 0
  /** Its device knows that it may have unfinished work. */
  listed = false
  /** Unfinished operations that hold an entry of the hardware queue. */
  entries = 0
  capture: SimCapture | undefined
  /** Its handle is gone; what was queued still runs. */
  destroyed = false
  /** Once it was shared: what other threads know of it. */
  shared: SharedPart | undefined

  constructor(
    readonly device: SimDevice,
    readonly handle: StreamHandle,
    readonly id: bigint,
    readonly nonBlocking: boolean,
    readonly priority: number,
    readonly partition?: SimPartition,
  ) {}
}

export class SimEvent {
  /** The record that a wait now would refer to; none before the first. */
  record: SimOperation | undefined
  /** Set while the latest record was made inside a capture, which knows where. */
  captured: SimCapture | undefined
  /** Once it was shared: what other threads know of it, and the number of the record that `record` stands for. */
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

/** Operations that a search has found, each of them once. */
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

/** There are hundreds of thousands at a time: what most of them do not need is not in all of them. */
export class SimOperation implements Listed<SimOperation> {
  previousLive: SimOperation | undefined
  nextLive: SimOperation | undefined
  #state: number = BLOCKED
  #blockers = 0
  /** Those that come after it and are blocked: mostly there is one, which takes no array. */
  #next: SimOperation | undefined
  #others = NONE
  /** Virtual nanoseconds: when it will end while it runs, when it ended once it is done; -1 before. */
  time = -1
  /** Its effect is there, though it may not be over yet. */
  hadEffect = false
  /** The event that it is the latest record of once it is queued. */
  declare records: SimEvent | undefined
  /** Told when it is done or dropped. */
  declare settle: Settle | undefined
  /** Tells other threads that it is over. */
  declare publish: (() => void) | undefined
  /** Called when it is over, where it is in no stream. */
  declare whenOver: (() => void) | undefined
  host: HostFunction | undefined
  work: Work | undefined
  /** Where a kernel runs: in the partition of the stream that it was queued or captured on, if that is in one. */
  declare partition: SimPartition | undefined
  /** The CUresult of the fault that it ends in, or 0. */
  declare fails: number
  /** The first of `after`, and the others: mostly there is one, which takes no array. */
  #before: SimOperation | undefined
  #besides = NONE
  #touches: readonly Touch[] | undefined
  /** False for a marker, which stands beside the streams. */
  inStream = true
  /** The number of the last search that found it. */
  foundBy = 0
  /** The observer's number for it. */
  observed = -1
  /** Of a latch, for warnings: where it was made. */
  declare site: string | undefined
  /** Of a conditional node: gives what comes next, and undefined when it is over. */
  declare decide: Decide | undefined
  /** Those of the instance that it is launched from. */
  declare conditions: readonly SimCondition[] | undefined
  /** For the operations that it adds; undefined where they may have any. */
  declare numbers: Numbers | undefined

  static {
    // Few operations have one: the others inherit the default from the prototype.
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
    }
    Object.assign(SimOperation.prototype, none)
  }

  /**
   * @param sequence the order in which operations were queued
   * @param amount virtual nanoseconds that it takes
   * @param remembers it keeps what it came after
   */
  constructor(
    readonly kind: SimOperationKind,
    readonly stream: SimStream,
    readonly sequence: number,
    readonly amount: number,
    private readonly remembers: boolean,
  ) {}

  /** Done, or dropped because its device broke: no operation waits for it any more. */
  get over(): boolean {
    return this.#state >= DONE
  }

  get dropped(): boolean {
    return this.#state === DROPPED
  }

  /** Does it take one of the places that a stream's hardware queue has? Records and waits do not. */
  get takesEntry(): boolean {
    return this.kind !== SimOperationKind.INSTANT
  }

  /**
   * The operations that it was queued behind: those unfinished or owing, and once it is over those that owe; for one that
   * remembers all, and forever.
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

  /** Does it stand at the front, for JavaScript to run or open it? */
  get waitsForHost(): boolean {
    return (this.kind === SimOperationKind.HOST || isLatch(this.kind)) && this.#state === READY
  }

  get isBlocked(): boolean {
    return this.#blockers > 0
  }

  /** Does it end when it is queued, and nothing besides? */
  get isOverAtOnce(): boolean {
    return this.kind === SimOperationKind.INSTANT && this.work === undefined && this.#blockers === 0
  }

  /** It has an effect, which is not there yet. */
  get owesEffect(): boolean {
    return this.work !== undefined && !this.hadEffect
  }

  /** What its effect reads and writes. */
  get touches(): readonly Touch[] {
    this.#touches ??= this.work?.touches ?? []
    return this.#touches
  }

  /** Of one that is over: its effect is not there yet, or that of one before it. */
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

  /** Does the other one come after this, which is not over? */
  isBefore(other: SimOperation): boolean {
    let one: SimOperation = this
    // Most of what comes after it is a chain, for which nothing need be remembered.
    while (one !== other) {
      if (one.#others !== NONE) return one.#allAfter().includes(other)
      if (one.#next === undefined) return false
      one = one.#next
    }
    return true
  }

  /** Do all entries of the stream's hardware queue come after this, which is not over, or are it? */
  holdsUp(stream: SimStream): boolean {
    let entries = 0
    for (const one of this.#allAfter()) if (one.stream === stream && one.inStream && one.takesEntry) entries += 1
    return entries === stream.entries
  }

  /** Itself, and what comes after it. */
  #allAfter(): readonly SimOperation[] {
    const later = new Search([this])
    for (const one of later.found) {
      if (one.#next !== undefined) later.add(one.#next)
      for (const other of one.#others) later.add(other)
    }
    return later.found
  }

  /** One that was ready is blocked again, until these are over. */
  blockAgain(predecessors: readonly SimOperation[]): void {
    this.#state = BLOCKED
    // What came before has its effects, which were needed to decide.
    if (!this.remembers) this.after = NONE
    for (const predecessor of predecessors) this.waitFor(predecessor)
  }

  /** Marks it ready if nothing blocks it. True once only. */
  becomeReady(): boolean {
    if (this.#blockers > 0 || this.#state !== BLOCKED) return false
    this.#state = READY
    return true
  }

  /** Its effect is there. */
  effectIsDone(): void {
    this.hadEffect = true
    if (!this.over) return
    this.work = undefined
    this.after = NONE
  }

  /** Ends it. `owing`: effects are put off, so that those before it may owe theirs. */
  end(dropped: boolean, owing: boolean): void {
    this.#state = dropped ? DROPPED : DONE
    if (!this.remembers && this.#before !== undefined) this.after = owing && !dropped ? thatOwe(this.after) : NONE
    if (this.#next !== undefined) this.#next.#blockers -= 1
    for (const other of this.#others) other.#blockers -= 1
  }

  /** It is over, and it shows that it did not go well: a fault before it was noticed late. */
  failLate(): void {
    if (this.#state === DONE) this.#state = DROPPED
  }

  /** Gives those that waited for it to the function, in their order, with `among`. To be called once it is over. */
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

/** Made as long as it has to be: one that grows by `push` takes room for seventeen more. */
function withOneMore(operations: readonly SimOperation[], one: SimOperation): readonly SimOperation[] {
  const [first, second] = operations
  if (first === undefined) return [one]
  if (second === undefined) return [first, one]
  ;(operations as SimOperation[]).push(one)
  return operations
}

/** Those with effects that are not there yet; in the place of one that has none, such as a wait, those before it. */
function thatOwe(operations: readonly SimOperation[]): readonly SimOperation[] {
  const [first, second] = operations
  if (first === undefined || !operations.some(({ owes }) => owes)) return NONE
  if (second === undefined) return first.owesEffect ? operations : first.after
  /** The latest of each stream stands for those before it. */
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

/** Numbers of operations that are left. */
export interface Numbers {
  next: number
  readonly last: number
}

/** What a conditional node does next. */
export interface Decision {
  readonly nodes: readonly CapturedNode<SimNodeWork>[]
  /** It decides once more when they are over. */
  readonly again: boolean
}

export type Decide = () => Decision | undefined

/** A value by which a conditional node decides, in one instance of a graph. */
export interface SimCondition {
  /** Its number among those of the graph, from 1. */
  readonly handle: bigint
  /** What it is when a launch begins. */
  readonly initial: number
  value: number
}

/** The work of a node, done each time that the graph is launched. */
export type SimNodeWork =
  | {
      readonly kind: 'work'
      /** The call that was captured. */
      readonly call: string
      readonly operation: SimOperationKind
      readonly amount: number
      readonly work: Work | undefined
      /** The CUresult of the fault that it ends in, or 0. */
      readonly fails: number
      /** Those of the stream that it was captured on: it runs there whatever stream the graph is launched on. */
      readonly device: SimDevice
      readonly partition: SimPartition | undefined
    }
  | { readonly kind: 'host'; readonly host: HostFunction }
  /** A node that is switched off. */
  | { readonly kind: 'empty' }
  /** Another graph, as it was then. */
  | { readonly kind: 'graph'; readonly nodes: readonly CapturedNode<SimNodeWork>[] }
  | {
      readonly kind: 'conditional'
      readonly type: ConditionalType
      /** The handle. */
      readonly condition: bigint
      /** Kernels of the bodies have to be in the same. */
      readonly context: ContextHandle
      readonly bodies: readonly SimBody[]
    }
  | { readonly kind: 'eventRecord' | 'eventWait'; readonly event: SimEvent }

/** The body of a conditional node. In a graph it may grow. */
export interface SimBody {
  /** That of its graph. */
  readonly id: bigint
  readonly nodes: readonly CapturedNode<SimNodeWork>[]
}

/** A graph that is there already. */
export interface CapturedInto {
  readonly id: bigint
  readonly nodes: readonly CapturedNode<SimNodeWork>[]
  /** Those of the nodes that the first operation of the stream comes after. */
  readonly after: readonly CapturedNode<SimNodeWork>[]
}

export class SimCapture extends CapturedGraph<SimStream, SimEvent, SimNodeWork> {
  /** A mistake has invalidated it: it can only be ended. */
  invalid = false
  /** The values of the conditions that were made for its graph when a launch begins. */
  readonly conditions: number[] = []

  constructor(
    origin: SimStream,
    readonly mode: CaptureMode,
    /** Never used twice. */
    readonly id: bigint,
    /** The graph that its nodes are added to, and where in it. */
    readonly into?: CapturedInto,
  ) {
    super(origin, into?.nodes, into?.after)
  }

  /** The number of the graph that it makes. */
  get graphId(): bigint {
    return this.into?.id ?? this.id
  }
}
