/** The streams and events of a driver, by their handles, and the captures that they are in. */

import { defaultStreamName, givenName, hasNames, numberedStream } from '../../core/stream-names.js'
import {
  type Begin,
  Component,
  type Components,
  type Epoch,
  isBefore,
  type References,
  type VectorClock,
} from '../../foundation/base/vector-clock.js'
import { CapturedGraph, type CapturedNode } from '../../foundation/driver/captured-graph.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { Comparison } from '../../foundation/driver/driver-constants.js'
import { StreamFlag } from '../../foundation/driver/driver-constants.js'
import {
  type ContextHandle,
  canonicalStream,
  cudaHandleOf,
  defaultStream,
  deviceOfDefaultStream,
  type EventHandle,
  isDefaultStream,
  isNullStream,
  type NodeHandle,
  type StreamHandle,
} from '../../foundation/driver/handle-types.js'
import type { MemoryValue, TouchedMemory } from '../../foundation/driver/touched-memory.js'
import type { Mailbox } from './mailboxes.js'
import type { CapturedPlace, GraphLaunch, NodePlace, OperationStream, TakenStack } from './operations.js'
import type { PendingWaits } from './pending.js'
import type { Region } from './regions.js'

/** The order of a stream that several threads use, as their sanitizers exchange it. */
export interface SharedOrder {
  /** Lets the stream's work come after what other threads have queued there. */
  arrive(stream: TrackedStream): void
  /** Lets the stream's work come after that of other threads, as `arrive()` does, then makes a change that comes before what they queue later. */
  update(stream: TrackedStream, change: () => void): void
}

/** The latest record of an event that several threads use, as their sanitizers exchange it. */
export interface SharedRecords {
  readonly isOpen: boolean
  /** Whether each record was observed, if there was any. */
  readonly isKnown: boolean
  /** Gives the event the record that another thread has made. */
  arrive(event: TrackedEvent): void
  recorded(epochs: readonly Epoch[] | 'never'): void
}

/** The knowledge about other threads, once something is shared with one. */
export interface OtherThreads {
  /** Lets JavaScript know what other threads know to be done, and returns that. */
  arrive(): VectorClock
  /** The epochs that all threads have queued on blocking streams of a device. */
  ofBlockingStreams(device: number): readonly Epoch[]
  /** The order of a stream that other threads use, too; undefined if only this thread uses it. */
  orderOf(stream: TrackedStream): SharedOrder | undefined
}

/** What the driver has to say of a stream. */
interface StreamNumbers {
  /** The driver's number of a stream; undefined if the driver refuses to report it, since the stream captures. */
  idOf(handle: StreamHandle): bigint | undefined
  /** The name that the program gave to the stream with this number. */
  nameOf(handle: StreamHandle, id: bigint): string | undefined
}

export class TrackedStream extends Component implements OperationStream {
  name: string | undefined
  closed = false
  /** The time at which the stream's component began. */
  readonly since = this.time
  /** Whether the driver refused to describe the stream, since it captured. */
  unsure = false
  /** The capture of the stream's work; undefined while it does not capture. */
  capture: Capture | undefined
  /** The mailbox of a stream that was shared by a token. */
  mailbox: Mailbox | undefined
  /** The shared order, if other threads may use the stream, or if work of theirs may come after it by the null stream's rules. */
  shared: SharedOrder | undefined

  /** Whether another library owns the stream. */
  readonly foreign: boolean
  /** Whether the program made the stream by a call that was intercepted, so that its end will be intercepted, too. */
  readonly ours: boolean
  readonly made: TakenStack | undefined
  /** The driver's number of the stream, which no other stream ever gets; undefined if it is not known. */
  id: bigint | undefined
  /** Whether the null stream's rules do not apply to the stream. */
  nonBlocking: boolean

  constructor(
    begin: Begin,
    readonly serial: number,
    readonly handle: StreamHandle,
    readonly device: number,
    { foreign, ours, made, id, nonBlocking }: StreamFacts,
    private readonly driver: StreamNumbers,
  ) {
    super(begin)
    this.foreign = foreign
    this.ours = ours
    this.made = made
    this.id = id
    this.nonBlocking = nonBlocking
    if (id !== undefined) this.name = driver.nameOf(handle, id)
  }

  /**
   * The driver's number of the stream, which is queried only when a report needs it: the driver destroys a stream whose number was queried, and
   * reuses others.
   */
  knownId(): bigint | undefined {
    if (!this.closed && this.id === undefined) this.identify(this.driver.idOf(this.handle))
    return this.id
  }

  /** A stream that is first seen while it captures gets its number later, and with it the name that it was given before. */
  identify(id: bigint | undefined): void {
    this.id = id
    if (id !== undefined) this.name ??= this.driver.nameOf(this.handle, id)
  }

  get isCapturing(): boolean {
    return this.capture !== undefined
  }

  override join(event: Epoch): void {
    if (this.shared === undefined) super.join(event)
    else if (!isBefore(event, this)) this.shared.update(this, () => super.join(event))
  }

  override joinClock(clock: VectorClock): boolean {
    if (this.shared === undefined) return super.joinClock(clock)
    let isNews = false
    this.shared.update(this, () => {
      isNews = super.joinClock(clock)
    })
    return isNews
  }

  override advance(): this {
    if (this.shared === undefined) return super.advance()
    this.shared.update(this, () => super.advance())
    return this
  }

  /** Lets later work come after what other threads have queued. */
  joinOthers(clock: VectorClock): void {
    super.joinClock(clock)
  }

  get label(): string {
    const { name, handle } = this
    if (name !== undefined) return name
    if (isDefaultStream(handle)) return defaultStreamName(handle)
    const id = this.knownId()
    if (this.name !== undefined) return this.name
    return id === undefined ? `Stream(0x${cudaHandleOf(handle).toString(16)})` : numberedStream(handle, id)
  }
}

/** The state of a CUDA event. */
export class TrackedEvent {
  /** The shared records, if other threads may use the event. */
  shared: SharedRecords | undefined
  private latest: readonly Epoch[] = []
  /** Whether the event was ever recorded. `epochs` may be empty nevertheless: all of it was done when the record was sent to another thread. */
  isRecorded = false
  /** The capture in which the latest record was made. */
  captured: Capture | undefined
  /** Whether each launch of a graph records the event, or waits for it. */
  inGraph = false

  constructor(
    /** Whether the creation of the event was intercepted, so that all of its records are known. */
    readonly made: boolean,
    /** Whether other code may record the event by calls that are not intercepted. */
    public foreign: boolean,
    /** Whether the event's records are work. */
    readonly timing: boolean,
  ) {}

  /** The epochs that the latest record stands for; empty before the first. */
  get epochs(): readonly Epoch[] {
    return this.latest
  }

  set epochs(epochs: readonly Epoch[]) {
    this.latest = epochs
    this.isRecorded = true
    this.shared?.recorded(epochs)
  }

  /** Takes the latest record, which another thread has made, or that there is none. */
  recordedElsewhere(epochs: readonly Epoch[], isRecorded: boolean): void {
    this.latest = epochs
    this.isRecorded = isRecorded
    this.captured = undefined
  }
}

/** A function that is called at each launch of a host function. */
type HostLaunched = (
  stream: TrackedStream,
  at: Epoch,
  work: CapturedWork,
  stack: TakenStack | undefined,
  launch: GraphLaunch,
) => void

/** The work of a node of a graph at each launch. */
type NodeWork =
  | {
      readonly kind: 'work'
      readonly what: string
      readonly memory: readonly TouchedMemory[]
      /** The region that each piece of memory lay in when it was captured. */
      readonly regions: readonly Region[]
      /** The driver's handle of the node. */
      readonly node: NodeHandle | undefined
    }
  /** A node that runs JavaScript. */
  | { readonly kind: 'host'; readonly launched: HostLaunched }
  | { readonly kind: 'record' | 'wait'; readonly event: TrackedEvent }
  | { readonly kind: 'writeValue'; readonly word: MemoryValue }
  | { readonly kind: 'waitValue'; readonly word: MemoryValue; readonly compare: Comparison }

/** The work of a node, with the place where it was captured. */
export type CapturedWork = NodePlace & NodeWork

export class Capture extends CapturedGraph<TrackedStream, TrackedEvent, CapturedWork> {
  /**
   * @param origin The stream that began the capture; any stream in it if its beginning was not intercepted
   * @param seen Whether the beginning was intercepted
   */
  constructor(
    origin: TrackedStream,
    readonly seen: boolean,
    before: readonly CapturedNode<CapturedWork>[] = [],
    after: readonly CapturedNode<CapturedWork>[] = [],
  ) {
    super(origin, before, after)
  }

  /** Adds a node, which each launch of the graph carries out. */
  put(stream: TrackedStream, work: NodeWork, stack?: TakenStack): void {
    if (work.kind === 'record' || work.kind === 'wait') work.event.inGraph = true
    this.add(stream, { ...work, stream, stack, capture: this, within: [] })
  }

  /** Adds the nodes of another graph. */
  putGraph(stream: TrackedStream, nodes: readonly CapturedNode<CapturedWork>[], stack: TakenStack | undefined): void {
    const place: CapturedPlace = { stream, stack, capture: this }
    const placed = nodes.map(({ index, after, work }) => {
      return { index, after, work: { ...work, within: [place, ...work.within] } }
    })
    this.addAll(stream, placed)
  }

  /** Removes a destroyed stream. If it is the one that began the capture, the capture ends. */
  destroyed(stream: TrackedStream): void {
    if (this.seen && stream === this.origin) this.end()
    else this.leave(stream)
  }
}

/** The null stream of a device, and the blocking streams: each waits for the others' work, by the null stream's rules. */
export interface BlockingStreams {
  readonly nullStream: TrackedStream
  readonly others: Set<Component>
}

/** The null stream of a device and the work of blocking streams, that of other threads included. */
export interface BlockingWork {
  readonly nullStream: TrackedStream
  readonly others: Iterable<Epoch>
}

interface Left {
  readonly all: Component
  blocking: Component | undefined
}

/** The number of tracked streams at which foreign ones are dropped for the first time. */
const FIRST_STREAM_LOOK = 64

type StreamFacts = Pick<TrackedStream, 'nonBlocking' | 'id' | 'foreign' | 'ours' | 'made'>

/** The properties that are assumed of a stream that the driver refused to describe. */
const UNASKED = { nonBlocking: true, id: undefined, ours: false }

export class Streams {
  readonly #streams = new Map<StreamHandle, TrackedStream>()
  /** The stream that was looked up last: the next call is mostly about the same. */
  #last: TrackedStream | undefined
  /** The number of streams that were made. */
  #made = 0
  /** The destroyed streams of whose work it is not known yet what it comes after. */
  #leaving: TrackedStream[] = []
  readonly #blocking = new Map<number, BlockingStreams>()
  /** The components after all streams that are gone, and after the blocking ones among them; keys are devices. */
  readonly #left = new Map<number, Left>()
  readonly #contexts = new Map<ContextHandle, number>()
  /** Wrapped streams that were dropped, since all of their work was done. */
  readonly #foreign = new RecentHandles<StreamHandle>()
  #foreignCount = 0
  #nextLook = FIRST_STREAM_LOOK
  #others: OtherThreads | undefined

  /** @param driver The driver behind the sanitizer */
  constructor(
    private readonly driver: Driver,
    private readonly components: Components,
    private readonly pendingWaits: PendingWaits,
  ) {}

  /** The number of streams that another library owns. */
  get foreignCount(): number {
    return this.#foreignCount
  }

  get foreign(): TrackedStream[] {
    return [...this.#streams.values()].filter((stream) => stream.foreign)
  }

  /** The streams of every device, with those that are destroyed. */
  get all(): Component[] {
    return [...this.#streams.values(), ...this.#leaving, ...Array.from(this.#left.values(), ({ all }) => all)]
  }

  /** The streams of a device, with those that are destroyed. */
  ofDevice(device: number): Component[] {
    const streams: Component[] = [...this.#streams.values(), ...this.#leaving].filter((one) => one.device === device)
    const left = this.#left.get(device)
    return left === undefined ? streams : [...streams, left.all]
  }

  contextSeen(context: ContextHandle, device: number): void {
    this.#contexts.set(context, device)
  }

  created(handle: StreamHandle, context: ContextHandle, flags: number, made: TakenStack | undefined): void {
    const device = this.#contexts.get(context) ?? this.driver.streams.wrap(handle, 0).device
    this.#foreign.delete(handle)
    const nonBlocking = (flags & StreamFlag.NON_BLOCKING) !== 0
    this.#start(handle, device, { id: undefined, foreign: false, ours: true, made, nonBlocking })
  }

  /** Tracks a wrapped stream. The handle may be that of another stream by now: the owner may have destroyed the one that is known. */
  wrapped(handle: StreamHandle, device: number, made: TakenStack | undefined): void {
    const known = this.known(handle)
    if (known === undefined) this.#add(handle, device, true, made)
    else if (!isDefaultStream(handle)) this.#lookAgain(known, true, made)
  }

  /** Prepares for the end of a stream: work that is not done may still be reported, and then the driver no longer knows the number. */
  destroying(handle: StreamHandle): void {
    const stream = this.known(handle)
    if (stream !== undefined && stream.name === undefined && !this.#isDone(stream)) stream.knownId()
  }

  destroyed(handle: StreamHandle): void {
    const stream = this.#streams.get(handle)
    if (stream === undefined) return
    stream.closed = true
    this.#end(stream)
  }

  known(handle: StreamHandle): TrackedStream | undefined {
    if (this.#last?.handle === handle) return this.#last
    const stream = this.#streams.get(handle) ?? this.#streams.get(canonicalStream(handle))
    if (stream !== undefined) this.#last = stream
    return stream
  }

  /** Notes that something is shared with other threads from now on. */
  beginSharing(others: OtherThreads): void {
    this.#others = others
    for (const stream of this.#streams.values()) this.#share(stream)
  }

  /** Notes that the stream is shared by a token that has this mailbox. */
  share(handle: StreamHandle, mailbox: Mailbox): void {
    // Default streams need no token, as all threads have them.
    if (isDefaultStream(handle)) return
    const stream = this.at(handle)
    stream.mailbox = mailbox
    this.#share(stream)
  }

  #share(stream: TrackedStream): void {
    const { shared } = stream
    stream.shared = this.#others?.orderOf(stream)
    if (shared === undefined || stream.mailbox !== undefined) stream.shared?.update(stream, () => {})
  }

  at(handle: StreamHandle): TrackedStream {
    const stream = this.#at(handle)
    stream.shared?.arrive(stream)
    this.#others?.arrive()
    return stream
  }

  #at(handle: StreamHandle): TrackedStream {
    const stream = this.known(handle)
    if (stream === undefined) return this.#meet(handle)
    if (stream.capture !== undefined) this.#leaveIfOver(stream, stream.capture)
    if (!stream.unsure || stream.capture !== undefined) return stream
    return this.#lookAgain(stream, stream.foreign, undefined)
  }

  blockingOf(device: number): BlockingWork {
    const blocking = this.#blockingOf(device)
    if (this.#others === undefined) return blocking
    const { nullStream, others } = blocking
    nullStream.shared?.arrive(nullStream)
    return { nullStream, others: [...others, ...this.#others.ofBlockingStreams(device)] }
  }

  #blockingOf(device: number): BlockingStreams {
    const known = this.#blocking.get(device)
    if (known !== undefined) return known
    const handle = defaultStream(device, 0)
    const nullStream = this.#streams.get(handle) ?? this.#meet(handle)
    const blocking = this.#blocking.get(device) ?? { nullStream, others: new Set<Component>() }
    this.#blocking.set(device, blocking)
    return blocking
  }

  /** Drops what is not needed any more; called when more work is known to be done. */
  moreIsDone(): void {
    if (this.#leaving.length > 0) this.#leaving = this.#leaving.filter((stream) => !this.#hasLeft(stream))
  }

  /**
   * Moves a destroyed stream to those that are gone, unless it may turn out that its work comes after less than is known now. Returns whether it did.
   */
  #hasLeft(stream: TrackedStream): boolean {
    const { device } = stream
    const { all, host } = this.components
    if (!this.#isDone(stream)) {
      if (stream.waitedAt === stream.time || this.pendingWaits.comeBefore(stream)) return false
    }
    this.components.end(stream)
    const wasBlocking = this.#blocking.get(device)?.others.delete(stream)
    // All later work comes after the stream anyhow.
    if (all === host && isBefore(stream, host)) return true
    const { components } = this
    const left = this.#left.get(device) ?? { all: components.beginApart(), blocking: undefined }
    this.#left.set(device, left)
    left.all.join(stream.epoch())
    if (wasBlocking) {
      left.blocking ??= components.beginApart()
      left.blocking.join(stream.epoch())
      this.#blocking.get(device)?.others.add(left.blocking)
    }
    return true
  }

  #isDone(stream: TrackedStream): boolean {
    const { all } = this.components
    // A stream on which nothing was ever queued need not be waited for.
    if (stream.time === stream.since) all.join(stream.epoch())
    return isBefore(stream, all)
  }

  #end(stream: TrackedStream): void {
    this.#streams.delete(stream.handle)
    if (this.#last === stream) this.#last = undefined
    if (stream.foreign) this.#foreignCount -= 1
    stream.capture?.destroyed(stream)
    this.moreIsDone()
    if (!this.#hasLeft(stream)) this.#leaving.push(stream)
  }

  /**
   * Forgets foreign streams whose work is known to be done. No call shows that other code destroys a stream, and such a stream is as good as a new
   * one.
   */
  #forgetSome(): void {
    for (const stream of this.#streams.values()) {
      const { ours, capture, handle, foreign, mailbox } = stream
      if (mailbox !== undefined && !mailbox.isClosed) continue
      if (ours || capture !== undefined || isDefaultStream(handle) || !this.#isDone(stream)) continue
      this.#end(stream)
      if (foreign) this.#foreign.add(handle)
    }
    this.#nextLook = Math.max(FIRST_STREAM_LOOK, 2 * this.#streams.size)
  }

  /** Tracks a stream that is older than the sanitizer, or a default stream. */
  #meet(handle: StreamHandle): TrackedStream {
    const isDefault = isDefaultStream(handle)
    const device = isDefault ? deviceOfDefaultStream(handle) : this.driver.streams.wrap(handle, 0).device
    return this.#add(canonicalStream(handle), device, this.#foreign.has(handle), undefined)
  }

  /** Tracks a stream whose creation was not intercepted. */
  #add(handle: StreamHandle, device: number, foreign: boolean, made: TakenStack | undefined): TrackedStream {
    if (isDefaultStream(handle)) {
      return this.#start(handle, device, { ...UNASKED, nonBlocking: false, foreign, made, ...this.#idOfNamed(handle) })
    }
    // Null streams do not count: one is tracked together with a blocking stream, which may not have been used yet.
    if (this.#streams.size >= this.#nextLook) this.#forgetSome()
    const answer = this.#ask(handle)
    const stream = this.#start(handle, device, { ...UNASKED, foreign, made, ...answer })
    if (answer === undefined) this.#cannotTell(stream)
    return stream
  }

  /** The stream that the handle belongs to now: the one that is tracked, or another in its place. */
  #lookAgain(stream: TrackedStream, foreign: boolean, made: TakenStack | undefined): TrackedStream {
    const { handle, device } = stream
    const answer = this.#ask(handle)
    if (answer === undefined) {
      this.#cannotTell(stream)
      return stream
    }
    const { id, nonBlocking } = answer
    if (stream.id !== undefined && stream.id !== id) {
      this.#end(stream)
      return this.#start(handle, device, { ...UNASKED, ...answer, foreign, made })
    }
    stream.identify(id)
    stream.unsure = false
    if (stream.nonBlocking && !nonBlocking) this.#isBlocking(stream)
    return stream
  }

  /** The id of a default stream, which is needed only if it may have a name. */
  #idOfNamed(handle: StreamHandle): { readonly id: bigint } | undefined {
    const { driver } = this
    if (!hasNames(driver)) return undefined
    try {
      return { id: driver.streams.getId(handle) }
    } catch {
      return undefined // a blocking stream captures
    }
  }

  readonly #numbers: StreamNumbers = {
    idOf: (handle) => this.#ask(handle)?.id,
    nameOf: (handle, id) => givenName(this.driver, handle, id),
  }

  /** The properties that the driver has of a stream. Undefined if it refuses since the stream captures, which does not invalidate the capture. */
  #ask(handle: StreamHandle): { readonly id: bigint; readonly nonBlocking: boolean } | undefined {
    try {
      const { driver } = this
      const id = driver.streams.getId(handle)
      return { id, nonBlocking: (driver.streams.getFlags(handle) & StreamFlag.NON_BLOCKING) !== 0 }
    } catch {
      return undefined
    }
  }

  #cannotTell(stream: TrackedStream): void {
    stream.unsure = true
    if (stream.capture === undefined && this.#captures(stream)) new Capture(stream, false)
  }

  /** Leaves a capture that is over: other code may end a capture that it began, or one of a stream whose handle it has. */
  #leaveIfOver(stream: TrackedStream, capture: Capture): void {
    if (capture.seen && !this.driver.streams.isEscaped(capture.origin.handle)) return
    if (!this.#captures(stream)) capture.leave(stream)
  }

  #captures({ handle }: TrackedStream): boolean {
    try {
      return this.driver.streams.isCapturing(handle)
    } catch {
      return true // the context is lost
    }
  }

  #isBlocking(stream: TrackedStream): void {
    stream.nonBlocking = false
    if (!isNullStream(stream.handle)) this.#blockingOf(stream.device).others.add(stream)
    this.#share(stream)
  }

  #start(handle: StreamHandle, device: number, facts: StreamFacts): TrackedStream {
    const { nonBlocking, foreign } = facts
    const begin = this.components.begin()
    this.#made += 1
    const stream = new TrackedStream(begin, this.#made, handle, device, facts, this.#numbers)
    this.#streams.set(canonicalStream(handle), stream)
    this.#last = stream
    if (foreign) this.#foreignCount += 1
    if (!nonBlocking) this.#isBlocking(stream)
    else this.#share(stream)
    return stream
  }
}

/** The number of tracked events at which foreign ones are dropped for the first time. */
const FIRST_EVENT_LOOK = 256

export class Events {
  readonly #events = new Map<EventHandle, TrackedEvent>()
  /** The event that was looked up last: an event is recorded after it is made, and waited for after it is recorded. */
  #last: TrackedEvent | undefined
  #lastHandle: EventHandle | undefined
  /** The wrapped events that were dropped, since nothing was known of them. */
  readonly #foreign = new RecentHandles<EventHandle>()
  #nextLook = FIRST_EVENT_LOOK

  constructor(private readonly host: Epoch) {}

  get count(): number {
    return this.#events.size
  }

  /** Notes that the event is shared from now on. */
  share(handle: EventHandle, shared: SharedRecords): void {
    const event = this.at(handle)
    event.shared = shared
    if (event.isRecorded) shared.recorded(event.epochs)
    else if (event.made) shared.recorded('never')
  }

  created(handle: EventHandle, timing: boolean): void {
    this.#foreign.delete(handle)
    this.#last = new TrackedEvent(true, false, timing)
    this.#lastHandle = handle
    this.#events.set(handle, this.#last)
  }

  /** Notes that an event was wrapped, which another library or process made, or this library itself. */
  wrapped(handle: EventHandle): void {
    const event = this.at(handle)
    if (!event.made) event.foreign = true
  }

  /** The events whose creation was not intercepted. */
  *older(): Generator<TrackedEvent> {
    for (const event of this.#events.values()) if (!event.made) yield event
  }

  /** Adds the epochs of records: what waits for an event comes after its record, and a query may find the record done. */
  addReferences(references: References): void {
    for (const { epochs } of this.#events.values()) for (const epoch of epochs) references.add(epoch)
  }

  destroyed(handle: EventHandle): void {
    this.#events.delete(handle)
    if (this.#lastHandle === handle) this.#last = undefined
  }

  at(handle: EventHandle): TrackedEvent {
    const event = this.#at(handle)
    event.shared?.arrive(event)
    return event
  }

  #at(handle: EventHandle): TrackedEvent {
    if (this.#last !== undefined && this.#lastHandle === handle) return this.#last
    const known = this.#events.get(handle)
    if (known === undefined && this.#events.size >= this.#nextLook) this.#forgetSome()
    const event = known ?? new TrackedEvent(false, this.#foreign.has(handle), false)
    this.#lastHandle = handle
    this.#last = event
    if (known === undefined) this.#events.set(handle, event)
    return event
  }

  /** Forgets foreign events whose records are done. No call shows that other code destroys an event, and such an event is as good as a new one. */
  #forgetSome(): void {
    for (const [handle, { made, foreign, epochs, captured, inGraph, shared }] of this.#events) {
      if (shared?.isOpen) continue
      if (made || captured !== undefined || inGraph) continue
      if (!epochs.every((epoch) => isBefore(epoch, this.host))) continue
      this.destroyed(handle)
      if (foreign) this.#foreign.add(handle)
    }
    this.#nextLook = Math.max(FIRST_EVENT_LOOK, 2 * this.#events.size)
  }
}

const MOST = 4096

class RecentHandles<H> {
  readonly #handles = new Set<H>()

  add(handle: H): void {
    this.#handles.delete(handle)
    this.#handles.add(handle)
    if (this.#handles.size <= MOST) return
    const [oldest] = this.#handles
    this.#handles.delete(oldest as H)
  }

  has(handle: H): boolean {
    return this.#handles.has(handle)
  }

  delete(handle: H): void {
    if (this.#handles.size > 0) this.#handles.delete(handle)
  }
}
