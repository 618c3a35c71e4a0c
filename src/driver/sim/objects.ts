/**
 * What a simulated machine is made of: devices, streams, events, the operations in the streams, and captures. They hold
 * state; machine.ts moves it. An operation is blocked while a predecessor is unfinished, then ready; a ready one starts when the
 * machine lets it, and ends in virtual time.
 */
import { CapturedGraph } from '../captured-graph.js'
import {
  type CaptureMode,
  type ContextHandle,
  defaultStream,
  type EventHandle,
  type HostFunction,
  type Settle,
  type StreamHandle,
} from '../driver.js'
import type { Listed } from './live-operations.js'
import { Queue } from './queue.js'

/** What moves bytes between a device and the host, one copy at a time. */
export class CopyEngine {
  busy = false
  waiting = new Queue<SimOperation>()
}

export class SimDevice {
  readonly engines = { toDevice: new CopyEngine(), toHost: new CopyEngine() }
  /** The CUresult of the fault that broke it, or 0. */
  fault = 0
  /** Bytes that are allocated and not freed. */
  bytesUsed = 0
  /** Operations that run on a kernel slot now. */
  busySlots = 0
  /** Unfinished operations in blocking streams, the null stream among them. */
  blockingUnfinished = 0
  /** Blocking streams with work queued since the null stream last waited for all of them. */
  readonly touched = new Set<SimStream>()
  /** All streams with unfinished work, and some without. */
  readonly #listed = new Set<SimStream>()
  readonly ordinal: number
  readonly context: ContextHandle
  readonly nullStream: SimStream
  readonly perThread: SimStream

  constructor(ordinal: number, context: ContextHandle, firstId: bigint) {
    this.ordinal = ordinal
    this.context = context
    this.nullStream = new SimStream(this, defaultStream(ordinal, 0), firstId, false, 0)
    this.perThread = new SimStream(this, defaultStream(ordinal, 2), firstId + 1n, false, 0)
  }

  list(stream: SimStream): void {
    stream.listed = true
    this.#listed.add(stream)
  }

  /** What has to be over for all its work to be. */
  *tails(): Generator<SimOperation | undefined> {
    for (const stream of this.#listed) {
      if (stream.unfinished > 0) yield stream.tail
      else {
        stream.listed = false
        this.#listed.delete(stream)
        // Over, but who explores wants to know that it was waited for.
        yield stream.tail
      }
    }
  }

  /** Forgets what is counted of operations, which are to be counted anew. */
  forgetWork(): void {
    for (const stream of this.#listed) stream.forgetWork()
    this.touched.clear()
    this.blockingUnfinished = 0
    this.busySlots = 0
    for (const engine of Object.values(this.engines)) {
      engine.busy = false
      engine.waiting = new Queue()
    }
  }

  /** A stream that is destroyed, and whose work is done. */
  forget(stream: SimStream): void {
    this.touched.delete(stream)
    this.#listed.delete(stream)
  }
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
  readonly device: SimDevice
  readonly handle: StreamHandle
  readonly id: bigint
  readonly nonBlocking: boolean
  readonly priority: number

  constructor(device: SimDevice, handle: StreamHandle, id: bigint, nonBlocking: boolean, priority: number) {
    this.device = device
    this.handle = handle
    this.id = id
    this.nonBlocking = nonBlocking
    this.priority = priority
  }

  forgetWork(): void {
    this.tail = undefined
    this.unfinished = 0
    this.entries = 0
  }
}

export class SimEvent {
  /** The record that a wait now would refer to; none before the first. */
  record: SimOperation | undefined
  /** Set while the latest record was made inside a capture, which knows where. */
  captured: SimCapture | undefined
  readonly device: SimDevice
  readonly handle: EventHandle
  readonly flags: number

  constructor(device: SimDevice, handle: EventHandle, flags: number) {
    this.device = device
    this.handle = handle
    this.flags = flags
  }
}

export const SimOperationKind = {
  /** Takes no time: a record, a wait, a marker. Ends as soon as it is ready. */
  INSTANT: 0,
  /** Takes its time on one of the device's kernel slots. */
  KERNEL: 1,
  /** Stands until JavaScript has run its host function. */
  HOST: 2,
  /** Stands until it is opened. */
  LATCH: 3,
  /** Breaks every device a while after it starts. */
  FAULT: 4,
  /** Takes its time, on a copy engine if it needs one. */
  COPY: 5,
} as const
export type SimOperationKind = (typeof SimOperationKind)[keyof typeof SimOperationKind]

/** Bytes that an operation, or JavaScript, reads or writes. */
export interface Touch {
  readonly pointer: number
  readonly byteLength: number
  readonly writes: boolean
}

/** What an operation does to memory, beside taking time. */
export interface Work {
  /** As people call it: 'copy', 'kernel scale'. */
  readonly what: string
  /** The copy engine that it occupies. */
  readonly engine: CopyEngine | undefined
  /** What it reads and writes. */
  readonly touches: readonly Touch[]
  /** What observers call it: 'copy', 'scale'. */
  readonly name: string
  /** How many bytes it moves, where it is for moving bytes. */
  readonly byteLength: number | undefined
  /** What an update of a graph must leave as it is; if not given, the call that queued it. */
  readonly shape: string | undefined
  /**
   * Run when the operation ends, unless it is dropped. It may be run once more where the stack ran over in the midst of
   * it; not so functions of the program's, whose errors it lets surface.
   */
  effect(): void
}

/** Who watches the operations of a machine. It is called in the middle of things: it may only write down. */
export interface Observer {
  /** It was put into a stream, or a graph with it in was launched. */
  queued(operation: SimOperation): void
  /** It begins, or will at this time, which may be later than now. */
  started(operation: SimOperation, time: number): void
  /** It is done at `operation.time`, or dropped. */
  ended(operation: SimOperation): void
}

const BLOCKED = 0
const READY = 1
const DONE = 2
const DROPPED = 3
const NONE: readonly SimOperation[] = []

export class SimOperation implements Listed {
  isLive = false
  previousLive: SimOperation | undefined
  nextLive: SimOperation | undefined
  #state: number = BLOCKED
  #blockers = 0
  #dependents: SimOperation[] | undefined
  /** Virtual nanoseconds: when it will end while it runs, when it ended once it is done. */
  time = 0
  /** It runs: its time is known. */
  begun = false
  /** Its effect is there, though it may not be over yet. */
  hadEffect = false
  /** It is queued when this one is: what a graph is launched with is queued at once, or not at all. */
  lead: SimOperation = this
  queued = false
  /** The event that it is the latest record of once it is queued. */
  records: SimEvent | undefined
  /** Whom to tell when it is done or dropped. */
  settle: Settle | undefined
  host: HostFunction | undefined
  work: Work | undefined
  /** The CUresult of the fault that it ends in, or 0. */
  fails = 0
  /** What it comes after and was not over then, until it is over itself; all of it and for good for one that remembers. */
  after: readonly SimOperation[] = NONE
  /** False for a marker, which stands beside the streams. */
  inStream = true
  /** What the observer knows it by. */
  observed = -1
  readonly kind: SimOperationKind
  readonly stream: SimStream
  /** The order in which operations were queued. */
  readonly sequence: number
  /** Virtual nanoseconds that it takes. */
  readonly amount: number
  readonly #remembers: boolean

  constructor(kind: SimOperationKind, stream: SimStream, sequence: number, amount: number, remembers: boolean) {
    this.kind = kind
    this.stream = stream
    this.sequence = sequence
    this.amount = amount
    this.#remembers = remembers
  }

  /** Done, or dropped because its device broke: nothing waits for it any more. */
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

  get isBlocked(): boolean {
    return this.#blockers > 0
  }

  /** Does it end when it is queued, and nothing besides? */
  get isOverAtOnce(): boolean {
    return this.kind === SimOperationKind.INSTANT && this.work === undefined && this.#blockers === 0
  }

  waitFor(predecessor: SimOperation | undefined): void {
    if (predecessor === undefined || (predecessor.#state >= DONE && !this.#remembers)) return
    if (this.after === NONE) this.after = [predecessor]
    else (this.after as SimOperation[]).push(predecessor)
    this.#waitFor(predecessor)
  }

  /** Forgets what is blocked by what. To be called for all that are not over, before any is linked anew. */
  unlink(): void {
    this.#state = BLOCKED
    this.#blockers = 0
    this.#dependents = undefined
  }

  /** Is blocked by what it comes after, as far as that is not over. */
  relink(): void {
    for (const predecessor of this.after) this.#waitFor(predecessor)
  }

  #waitFor(predecessor: SimOperation): void {
    if (predecessor.#state >= DONE) return
    this.#blockers += 1
    if (predecessor.#dependents === undefined) predecessor.#dependents = [this]
    else predecessor.#dependents.push(this)
  }

  /** Does the other one come after this, which is not over? */
  isBefore(other: SimOperation): boolean {
    let one: SimOperation = this
    // Most of what comes after it is a chain, for which nothing need be remembered.
    while (one !== other) {
      const after = one.#dependents ?? NONE
      if (after.length > 1) return one.#allAfter().has(other)
      if (after[0] === undefined) return false
      one = after[0]
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
  #allAfter(): ReadonlySet<SimOperation> {
    const later = new Set<SimOperation>([this])
    for (const one of later) for (const dependent of one.#dependents ?? NONE) later.add(dependent)
    return later
  }

  /** Marks it ready if nothing blocks it. True once only. */
  becomeReady(): boolean {
    if (this.#blockers > 0 || this.#state !== BLOCKED) return false
    this.#state = READY
    return true
  }

  /** Ends it and takes one blocker from each operation that waits for it, which are returned. */
  end(dropped: boolean): readonly SimOperation[] {
    this.#state = dropped ? DROPPED : DONE
    if (!this.#remembers) this.after = NONE
    const dependents = this.#dependents ?? NONE
    this.#dependents = undefined
    for (const dependent of dependents) dependent.#blockers -= 1
    return dependents
  }
}

/*
 * Stream capture: between begin and end a stream's work is written down as a graph instead of run. The rules and results
 * are those measured on an H200 (docs/cuda-facts.md, "What a capture allows").
 */

/** What a node of a graph does each time that the graph is launched. */
export type NodeWork =
  | {
      readonly kind: 'work'
      /** The call that was captured. */
      readonly call: string
      readonly operation: SimOperationKind
      readonly amount: number
      readonly work: Work | undefined
      /** The CUresult of the fault that it ends in, or 0. */
      readonly fails: number
    }
  | { readonly kind: 'host'; readonly host: HostFunction }
  | { readonly kind: 'eventRecord' | 'eventWait'; readonly event: SimEvent }

export class SimCapture extends CapturedGraph<SimStream, SimEvent, NodeWork> {
  /** A mistake has invalidated it: it can only be ended. */
  invalid = false

  constructor(
    origin: SimStream,
    readonly mode: CaptureMode,
  ) {
    super(origin)
  }
}
