/**
 * The happens-before relation by CUDA's rules: streams, events, the null stream, host waits, host functions, captures. The relation is updated call
 * by call.
 */
import {
  Component,
  Components,
  type Epoch,
  isBefore,
  NO_TIMES,
  type References,
  timeIn,
  type VectorClock,
} from '../../foundation/base/vector-clock.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { InternalEvent } from '../../foundation/driver/event-driver.js'
import {
  type EventHandle,
  isNullStream,
  type NodeHandle,
  type StreamHandle,
} from '../../foundation/driver/handle-types.js'
import { type ValueOrder, Values } from './awaited-values.js'
import { Continuations } from './continuations.js'
import type { CapturedNodes, GraphInstance, LaunchOrder, NodeVisitor } from './graph-instances.js'
import type { HostFunctionOrigin } from './operations.js'
import { PendingHostFunctions, PendingWaits } from './pending.js'
import { SharedClocks } from './shared-clocks.js'
import { Capture, Events, Streams, type TrackedEvent, type TrackedStream } from './streams.js'

export class HappensBefore implements LaunchOrder {
  readonly pending = new PendingHostFunctions()
  /** Called before a wait of JavaScript is over. */
  beforeHostWaits: () => void = () => {}
  /** Reads a word of memory that JavaScript can see. */
  readWord: ValueOrder['look'] = () => undefined
  readonly components: Components
  /** The component of the JavaScript thread: what the thread knows to be done happens before all that it queues. */
  readonly host: Component
  readonly #continuations: Continuations | undefined
  /** The work for which a query of the program was answered with `false`. */
  readonly #denied: Component
  readonly running: RunningHostFunctions
  /** A component after all host functions that have run. */
  #ran: Component | undefined
  readonly streams: Streams
  readonly events: Events
  /** A component after all launches of instances that are older than the sanitizer: their nodes are not known. */
  #unknownLaunches: Component | undefined

  /** The clocks that are shared with other threads; undefined until something is shared. */
  #clocks: SharedClocks | undefined

  readonly values: Values
  readonly pendingWaits = new PendingWaits()

  /** @param isCausal Whether a wait of JavaScript orders only what follows from it */
  constructor(
    driver: Driver,
    readonly isCausal: boolean,
  ) {
    this.components = new Components(isCausal)
    this.host = this.components.host
    this.#denied = new Component(this.components.nowhere(NO_TIMES))
    this.running = new RunningHostFunctions(this.components, this.pending, isCausal)
    this.streams = new Streams(driver, this.components, this.pendingWaits)
    this.events = new Events(this.components.all)
    this.values = new Values({
      known: this.components.all,
      hold: (component) => this.#hold(component),
      look: (...at) => this.readWord(...at),
    })
    this.#continuations = isCausal ? new Continuations(this.host, this.components.all) : undefined
    this.#continuations?.start()
  }

  /** Begins to share clocks, since something is shared with other threads from now on. */
  beginSharing(): SharedClocks {
    if (this.#clocks === undefined) {
      this.#clocks = new SharedClocks(this.components)
      this.streams.beginSharing(this.#clocks)
    }
    return this.#clocks
  }

  /** Ends sharing: other threads learn nothing more of what this thread does. */
  endSharing(): void {
    this.#clocks?.end()
  }

  /** Stops following continuations; to be called at the end. */
  stop(): void {
    this.#continuations?.stop()
  }

  /** The stream that is about to be given work, which happens after what JavaScript knows, and by the null stream's rules after other streams. */
  arriveAt(handle: StreamHandle): TrackedStream {
    const stream = this.streams.at(handle)
    if (stream.capture === undefined) this.#comeAfterOthers(stream, stream)
    return stream
  }

  /** The epoch that the stream's next work would have. The stream is left unchanged. */
  nextOf(stream: TrackedStream): Epoch {
    const next = new Component(stream)
    this.#comeAfterOthers(stream, next)
    return next.advance()
  }

  /** The stream that is about to be given a wait. On a blocking stream a wait is no work, so that it need not come after the null stream's work. */
  #arriveAtWait(handle: StreamHandle): TrackedStream {
    const stream = this.streams.at(handle)
    const { capture, nonBlocking } = stream
    if (capture !== undefined || nonBlocking || isNullStream(stream.handle)) return this.arriveAt(handle)
    stream.join(this.host)
    return stream
  }

  record(handle: EventHandle, streamHandle: StreamHandle, external: boolean): void {
    const stream = this.streams.at(streamHandle)
    const event = this.events.at(handle)
    const { capture } = stream
    if (capture === undefined) {
      event.epochs = this.#recorded(stream, streamHandle, event.timing)
      event.captured = undefined
    } else if (external) capture.put(stream, { kind: 'record', event })
    else capture.record(event, stream)
  }

  /** Notes a record behind all work of the device. */
  recordDevice(handle: EventHandle, device: number): void {
    const event = this.events.at(handle)
    event.epochs = this.workOfDevice(device)
    event.captured = undefined
  }

  /** The epochs of the internal record that is made for a promise of the stream's completion. */
  promised(handle: StreamHandle): readonly Epoch[] {
    return this.#recorded(this.streams.at(handle), handle, false)
  }

  /**
   * The epochs that a record stands for. A record without timing is no work of a blocking stream: it comes after the null stream's work, for which a
   * wait for the stream itself does not wait.
   */
  #recorded(stream: TrackedStream, handle: StreamHandle, timing: boolean): readonly Epoch[] {
    if (timing || stream.nonBlocking || isNullStream(stream.handle)) return this.arriveAt(handle).epochs()
    stream.join(this.host)
    return [stream.epoch(), this.streams.blockingOf(stream.device).nullStream.epoch()]
  }

  /** Notes a wait for an event. Returns false if nothing was ever recorded: then the wait has no effect, not even by the null stream's rules. */
  wait(streamHandle: StreamHandle, handle: EventHandle, external: boolean): boolean {
    const stream = this.streams.at(streamHandle)
    const event = this.events.at(handle)
    const { captured } = event
    const isWait = !isKnown(event) || event.isRecorded || captured !== undefined
    if (stream.capture !== undefined && external) stream.capture.put(stream, { kind: 'wait', event })
    else if (captured !== undefined) captured.joinAt(event, stream)
    else if (isWait) {
      this.#arriveAtWait(streamHandle)
      for (const epoch of this.workOfRecord(event)) stream.join(epoch)
    }
    return isWait
  }

  waitForStream(streamHandle: StreamHandle, otherHandle: StreamHandle): void {
    const other = this.streams.at(otherHandle)
    const recorded = other.capture === undefined ? this.#recorded(other, otherHandle, false) : []
    const stream = this.#arriveAtWait(streamHandle)
    if (other.capture !== undefined) other.capture.join(stream, other.capture.frontierOf(other))
    else if (stream.capture === undefined) for (const epoch of recorded) stream.join(epoch)
  }

  /**
   * Lets the stream wait for a promise. Until that settles, the wait may stand for all that is queued, on any stream. The returned function is to be
   * called when the promise settles: what JavaScript knows by then happens before the stream's work.
   */
  hold(handle: StreamHandle): () => void {
    const release = this.#hold(this.arriveAt(handle))
    return () => {
      release()
      this.#clocks?.arrive()
      this.streams.known(handle)?.join(this.host)
    }
  }

  #hold(component: Component): () => void {
    for (const other of this.streams.all) component.join(other.epoch())
    return this.pendingWaits.begin(component.next())
  }

  /** The epochs of all work that is done once a wait for the stream is over. */
  workOf(handle: StreamHandle): readonly Epoch[] {
    const stream = this.streams.at(handle)
    if (!isNullStream(stream.handle)) return stream.epochs()
    const { others } = this.streams.blockingOf(stream.device)
    return [stream.epoch(), ...Array.from(others, (one) => (one instanceof Component ? one.epoch() : one))]
  }

  workOfEvent(handle: EventHandle): readonly Epoch[] {
    return this.workOfRecord(this.events.at(handle))
  }

  workOfDevice(device: number): readonly Epoch[] {
    return [...this.streams.ofDevice(device).map((stream) => stream.epoch()), ...(this.#clocks?.latest() ?? [])]
  }

  /** Notes that JavaScript has waited for these epochs, or that a query has answered that they are done. */
  hostWaitedFor(epochs: readonly Epoch[]): void {
    this.beforeHostWaits()
    this.running.waitedFor(epochs)
    for (const epoch of epochs) this.host.join(epoch)
    this.running.inherit(this.host)
    this.#areDone([this.host])
  }

  /** Notes that JavaScript has waited until every host function has run. Those that ran earlier by chance are known to be done then, too. */
  drained(): void {
    this.hostWaitedFor(this.#ran?.epochs() ?? [])
  }

  /** Settles a promise, since these epochs are done. */
  settle(epochs: readonly Epoch[], settle: () => void): void {
    if (this.#continuations === undefined) {
      this.hostWaitedFor(epochs)
      settle()
      return
    }
    this.beforeHostWaits()
    this.#areDone(epochs)
    this.#continuations.run(this.#knowing(epochs), settle)
  }

  /**
   * The answer to a query for these epochs. If a true answer is to order nothing by chance, the first answer is `false`, as it could have been; a
   * program that asks again has waited.
   */
  answer(isDone: boolean, epochs: readonly Epoch[]): boolean {
    if (this.#continuations !== undefined && !areBefore(epochs, this.host)) {
      const isAskedAgain = areBefore(epochs, this.#denied)
      for (const epoch of epochs) this.#denied.join(epoch)
      if (!isAskedAgain) return false
    }
    if (isDone) this.hostWaitedFor(epochs)
    return isDone
  }

  /** Runs a host function. Another one around it need not happen after it. */
  runHostFunction(launched: LaunchedHostFunction, fn: () => void): void {
    this.pending.ran(launched.at)
    if (this.isCausal) {
      this.#ran ??= this.components.beginApart()
      this.#ran.join(launched.at)
    }
    this.#areDone([launched.at])
    const running = this.running.enter(launched)
    const { past, stream } = running
    try {
      if (this.#continuations === undefined) fn()
      else this.#continuations.run(past.clock, fn)
    } finally {
      this.running.leave(running)
      const known = this.streams.known(stream.handle)
      // Another stream may have the handle by now.
      if (known === stream) known.joinClock(past.clock)
    }
  }

  /** An epoch after all that these events stand for, and all that JavaScript knows. */
  afterEvents(events: readonly EventHandle[]): Epoch {
    const after = new Component(this.components.nowhere(this.host.clock))
    for (const event of events) for (const epoch of this.workOfEvent(event)) after.join(epoch)
    return after.epoch()
  }

  /** An epoch after all that is in the stream and all that these events stand for; the stream is left unchanged. */
  afterStreamAndEvents(handle: StreamHandle, events: readonly InternalEvent[]): Epoch {
    const after = new Component(this.components.nowhere(this.host.clock))
    const stream = this.streams.at(handle)
    this.#comeAfterOthers(stream, after)
    after.join(stream.epoch())
    for (const { event } of events) for (const epoch of this.workOfEvent(event)) after.join(epoch)
    return after.epoch()
  }

  /**
   * Notes the beginning of a capture. `before` are the nodes of the graph that the capture adds to, behind the nodes `after`, or behind all if one of
   * them is not known.
   */
  captureBegins(handle: StreamHandle, before: CapturedNodes = [], after: readonly NodeHandle[] = []): void {
    const nodes = new Set<NodeHandle | undefined>(after)
    const named = nodes.size === 0 ? [] : before.filter(({ work }) => work.kind === 'work' && nodes.has(work.node))
    new Capture(this.streams.at(handle), true, before, named.length < nodes.size ? before : named)
  }

  /** Returns the nodes of the capture; undefined if some of them are older than the sanitizer. */
  captureEnds(handle: StreamHandle): CapturedNodes | undefined {
    const capture = this.streams.known(handle)?.capture
    const nodes = capture?.end()
    return capture?.seen ? nodes : undefined
  }

  /** Notes the launch of a graph. `instance` is undefined if it is older than the sanitizer. */
  launch(instance: GraphInstance | undefined, handle: StreamHandle, visit: NodeVisitor): void {
    const stream = this.arriveAt(handle)
    if (instance !== undefined) instance.launch(stream, this, visit)
    else this.#launchUnknown(stream)
  }

  newComponent(): Component {
    return new Component(this.components.begin())
  }

  /** Adds the events that may be compared with later ones; those of accesses to memory are added elsewhere. */
  addReferences(references: References): void {
    this.pending.addReferences(references)
    this.pendingWaits.addReferences(references)
    this.running.addReferences(references)
    this.values.addReferences(references)
    this.events.addReferences(references)
  }

  /** Notes the launch of an unknown graph, which may wait for each event that is older than the sanitizer, and may record it. */
  #launchUnknown(stream: TrackedStream): void {
    for (const event of this.events.older()) for (const epoch of this.workOfRecord(event)) stream.join(epoch)
    this.#unknownLaunches ??= this.components.beginApart()
    this.#unknownLaunches.join(stream.next())
  }

  /** Whether the stream is foreign, or its work happens after work of a foreign stream of its device. */
  followsForeignStream(stream: TrackedStream): boolean {
    if (stream.foreign) return true
    return this.streams.foreign.some((other) => other.device === stream.device && isFollowed(other, stream))
  }

  /** The clock of what happens before these epochs. */
  #knowing(epochs: readonly Epoch[]): VectorClock {
    const component = new Component(this.components.nowhere(NO_TIMES))
    for (const epoch of epochs) component.join(epoch)
    this.running.inherit(component)
    return component.clock
  }

  #areDone(epochs: readonly Epoch[]): void {
    for (const epoch of epochs) this.components.all.join(epoch)
    const someAreOver = this.pendingWaits.areDone(this.components.all)
    this.streams.moreIsDone()
    if (this.#clocks === undefined) return
    // Another thread may have written the value that was awaited, behind work of its own.
    if (someAreOver) for (const epoch of this.#clocks.latest()) this.host.join(epoch)
    this.#clocks.tellDone()
  }

  /**
   * Lets work of the stream happen after what JavaScript knows to be done, and by the null stream's rules after other
   * streams.
   */
  #comeAfterOthers(stream: TrackedStream, work: Component): void {
    work.join(this.host)
    if (stream.nonBlocking) return
    const { nullStream, others } = this.streams.blockingOf(stream.device)
    if (stream !== nullStream) work.join(nullStream)
    else for (const other of others) work.join(other)
  }

  /**
   * The epochs that an event's latest record stands for. An event that other code records may stand for all work of foreign streams and of other
   * threads, and one that is older than the sanitizer for each launch of a graph that is older, too.
   */
  workOfRecord(event: TrackedEvent): readonly Epoch[] {
    const { foreign, epochs } = event
    if (isKnown(event) || (!foreign && this.#unknownLaunches === undefined)) return epochs
    const streams = foreign ? this.streams.foreign.map((stream) => stream.epoch()) : []
    const theirs = foreign ? [...streams, ...(this.#clocks?.latest() ?? [])] : []
    return [...epochs, ...theirs, ...(this.#unknownLaunches?.epochs() ?? [])]
  }
}

/** Whether all records of the event were observed. */
const isKnown = ({ made, shared }: TrackedEvent): boolean => (shared === undefined ? made : shared.isKnown)

const areBefore = (epochs: readonly Epoch[], later: Epoch): boolean => epochs.every((epoch) => isBefore(epoch, later))

function isFollowed(other: TrackedStream, stream: TrackedStream): boolean {
  return timeIn(stream.clock, other.component) >= other.since
}

export interface LaunchedHostFunction extends HostFunctionOrigin {
  readonly at: Epoch
}

export interface RunningHostFunction extends LaunchedHostFunction {
  /** The component of what happens before the host function: by its place in the stream, and by its own waits. */
  readonly past: Component
  /** The time of `past` when the host function began. */
  readonly began: number
}

interface HostFunctionOrder {
  readonly pending: PendingHostFunctions
  runHostFunction(launched: LaunchedHostFunction, fn: () => void): void
}

/** The launches of a host function: one, or one for each launch of its graph. The function runs once for each, in their order. */
export class HostFunctionPlace {
  readonly #launched: LaunchedHostFunction[] = []

  constructor(private readonly order: HostFunctionOrder) {}

  launched(launched: LaunchedHostFunction): void {
    this.#launched.push(launched)
    this.order.pending.queued(launched.at)
  }

  run(fn: () => void): void {
    const launched = this.#launched.shift()
    if (launched === undefined) fn()
    else this.order.runHostFunction(launched, fn)
  }
}

/** The number of finished host functions that are remembered, as long as others are pending. */
const MOST_OVER = 256

/**
 * The host functions that run now. Anything else that the JavaScript thread knows by then, beside the past of a host function, may be chance, and
 * does not count.
 */
export class RunningHostFunctions {
  /** The host functions that run now, the innermost last. */
  readonly #running: RunningHostFunction[] = []
  /** The host functions that are over and have waited for something, with their clocks at the end. */
  readonly #over: { readonly at: Epoch; readonly clock: VectorClock }[] = []

  /** @param areCausal Whether only the host function itself, not all of JavaScript, knows what it has waited for */
  constructor(
    private readonly components: Components,
    private readonly pending: PendingHostFunctions,
    private readonly areCausal: boolean,
  ) {}

  get innermost(): RunningHostFunction | undefined {
    // The length is checked first, as each operation needs this, and reading before the beginning of an array is slow.
    return this.#running.length === 0 ? undefined : this.#running[this.#running.length - 1]
  }

  addReferences(references: References): void {
    for (const { at } of this.#running) references.add(at)
    for (const { at } of this.#over) references.add(at)
  }

  enter(launched: LaunchedHostFunction): RunningHostFunction {
    const { at } = launched
    const past = new Component(this.components.nowhere(at.clock))
    past.join(at)
    this.inherit(past)
    const running = { ...launched, past, began: past.time }
    this.#running.push(running)
    return running
  }

  leave(running: RunningHostFunction): void {
    this.#running.splice(this.#running.indexOf(running), 1)
    if (this.#running.length === 0 && this.pending.isEmpty && !this.areCausal) {
      // Work that is queued from now on happens after all that JavaScript knows.
      this.#over.length = 0
      return
    }
    const { at, past, began } = running
    if (began === past.time) return
    this.#over.push({ at, clock: past.clock })
    if (this.#over.length > MOST_OVER) this.#over.shift()
  }

  /** Notes that the innermost host function has waited for these epochs. */
  waitedFor(epochs: readonly Epoch[]): void {
    const past = this.innermost?.past
    if (past === undefined) return
    for (const epoch of epochs) past.join(epoch)
    this.inherit(past)
  }

  /** Lets what happens after a host function also happen after what the host function has waited for. */
  inherit(past: Component): void {
    let news = this.#over.length > 0
    while (news) {
      news = false
      for (const { at, clock } of this.#over) if (isBefore(at, past) && past.joinClock(clock)) news = true
    }
  }
}
