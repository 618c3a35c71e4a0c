/**
 * What comes before what, by CUDA's rules: streams, events, the null stream, host waits, host functions, captures. It
 * follows the calls one by one.
 */
import { type Driver, type EventHandle, isNullStream, type NodeHandle, type StreamHandle } from '../driver/driver.js'
import { type Clock, isBefore, NOWHERE, Strand, type StrandPoint, Strands } from './clocks.js'
import { Continuations } from './continuations.js'
import type { CapturedNodes, GraphInstance, LaunchOrder, NodeVisitor } from './graph-instance.js'
import { Holds } from './holds.js'
import { type LaunchedHostFunction, RunningHostFunctions } from './host-functions.js'
import { KnownEvents } from './known-events.js'
import { KnownStreams } from './known-streams.js'
import { PendingHostFunctions } from './pending.js'
import { Capture, type EventState, type StreamStrand } from './streams.js'
import { type ValueOrder, Values } from './values.js'

export class HappensBefore implements LaunchOrder {
  readonly pending = new PendingHostFunctions()
  /** Called before JavaScript knows more. */
  beforeHostKnows: () => void = () => {}
  /** Looks at a word of memory, as values need it. */
  lookAtWord: ValueOrder['look'] = () => undefined
  readonly strands: Strands
  /** The JavaScript thread: what it knows to be done. */
  readonly host: Strand
  readonly #continuations: Continuations | undefined
  /** What the program was told of that it is not done yet. */
  readonly #denied = new Strand({ slot: NOWHERE, tick: 1, clock: [] })
  readonly running: RunningHostFunctions
  /** By strand, the latest host function that has run. */
  readonly #ran = new Map<number, StrandPoint>()
  readonly streams: KnownStreams
  readonly events: KnownEvents
  /** By stream: the latest launch there of an instance of which nothing is known, since it is older than the sanitizer. */
  readonly #unknownLaunches = new Map<number, StrandPoint>()

  readonly values: Values
  readonly holds = new Holds()

  /** `isCausal`: JavaScript's waits order only what comes of them. */
  constructor(
    driver: Driver,
    readonly isCausal: boolean,
  ) {
    this.strands = new Strands(isCausal)
    this.host = this.strands.host
    this.running = new RunningHostFunctions(this.pending, isCausal)
    this.streams = new KnownStreams(driver, this.strands)
    this.events = new KnownEvents(this.strands.all)
    this.values = new Values({
      known: this.strands.all,
      hold: (strand) => this.#hold(strand),
      look: (...at) => this.lookAtWord(...at),
    })
    this.#continuations = isCausal ? new Continuations(this.host, this.strands.all) : undefined
    this.#continuations?.start()
  }

  /** To be called at the end. */
  stop(): void {
    this.#continuations?.stop()
  }

  /** The stream is about to be given something: what that comes after, beside the stream's own work. */
  arriveAt(handle: StreamHandle): StreamStrand {
    const stream = this.streams.at(handle)
    if (stream.capture === undefined) this.#comeAfterOthers(stream, stream)
    return stream
  }

  /** Where the stream's next work would stand. Nothing is queued: nothing comes after it. */
  nextOf(stream: StreamStrand): StrandPoint {
    const next = new Strand(stream)
    this.#comeAfterOthers(stream, next)
    return next.advance()
  }

  /** As `arriveAt`, for a wait: on a blocking stream it is no work, and the null stream's need not come before it. */
  #arriveAtWait(handle: StreamHandle): StreamStrand {
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
      event.points = this.#recorded(stream, streamHandle, event.timing)
      event.captured = undefined
    } else if (external) capture.put(stream, { kind: 'record', event })
    else capture.record(event, stream)
  }

  /** A record behind all work of the device. */
  recordDevice(handle: EventHandle, device: number): void {
    const event = this.events.at(handle)
    event.points = this.workOfDevice(device)
    event.captured = undefined
  }

  /** Behind a promise that all of the stream's work will be done stands a hidden record: what that stands for. */
  promised(handle: StreamHandle): readonly StrandPoint[] {
    return this.#recorded(this.streams.at(handle), handle, false)
  }

  /**
   * What a record stands for. Without timing it is no work of a blocking stream: it comes after the null stream's work, for
   * which a wait for the stream itself does not wait.
   */
  #recorded(stream: StreamStrand, handle: StreamHandle, timing: boolean): readonly StrandPoint[] {
    if (timing || stream.nonBlocking || isNullStream(stream.handle)) return this.arriveAt(handle).points()
    stream.join(this.host)
    return [stream.point(), this.streams.blockingOf(stream.device).nullStream.point()]
  }

  /** False where nothing was ever recorded: the wait is none, and orders nothing behind the null stream either. */
  wait(streamHandle: StreamHandle, handle: EventHandle, external: boolean): boolean {
    const stream = this.streams.at(streamHandle)
    const event = this.events.at(handle)
    const { captured } = event
    const isWait = !event.made || event.points.length > 0 || captured !== undefined
    if (stream.capture !== undefined && external) stream.capture.put(stream, { kind: 'wait', event })
    else if (captured !== undefined) captured.joinAt(event, stream)
    else if (isWait) {
      this.#arriveAtWait(streamHandle)
      for (const point of this.workOfRecord(event)) stream.join(point)
    }
    return isWait
  }

  waitForStream(streamHandle: StreamHandle, otherHandle: StreamHandle): void {
    const other = this.streams.at(otherHandle)
    const recorded = other.capture === undefined ? this.#recorded(other, otherHandle, false) : []
    const stream = this.#arriveAtWait(streamHandle)
    if (other.capture !== undefined) other.capture.join(stream, other.capture.frontierOf(other))
    else if (stream.capture === undefined) for (const point of recorded) stream.join(point)
  }

  /**
   * The stream waits for a promise. Until that settles it is not known what it stands for: perhaps for all that is queued, on
   * any stream. Call the result when it settles: what JavaScript knows then comes before the stream's work.
   */
  hold(handle: StreamHandle): () => void {
    const release = this.#hold(this.arriveAt(handle))
    return () => {
      release()
      this.streams.known(handle)?.join(this.host)
    }
  }

  #hold(strand: Strand): () => void {
    for (const other of this.streams.all) strand.join(other.point())
    return this.holds.begin(strand.next())
  }

  /** The work that is done once a wait for the stream is over. */
  workOf(handle: StreamHandle): readonly StrandPoint[] {
    const stream = this.streams.at(handle)
    if (!isNullStream(stream.handle)) return stream.points()
    return [stream, ...this.streams.blockingOf(stream.device).others].map((one) => one.point())
  }

  workOfEvent(handle: EventHandle): readonly StrandPoint[] {
    return this.workOfRecord(this.events.at(handle))
  }

  workOfDevice(device: number): readonly StrandPoint[] {
    return this.streams.ofDevice(device).map((stream) => stream.point())
  }

  /** The JavaScript thread has found out, or waited until, all up to these points is done. */
  hostKnows(points: readonly StrandPoint[]): void {
    this.beforeHostKnows()
    this.running.learns(points)
    for (const point of points) this.host.join(point)
    this.running.inherit(this.host)
    this.#areDone([this.host])
  }

  /** JavaScript has waited until every host function has run: also what ran before by chance would have run by now. */
  drained(): void {
    this.hostKnows([...this.#ran.values()])
  }

  /** A promise is settled, since all up to these points is done. */
  settle(points: readonly StrandPoint[], settle: () => void): void {
    if (this.#continuations === undefined) {
      this.hostKnows(points)
      settle()
      return
    }
    this.beforeHostKnows()
    this.#areDone(points)
    this.#continuations.run(this.#knowing(points), settle)
  }

  /**
   * The program asks whether all up to these points is done. Where a true answer is to order nothing by chance, it is told
   * no at first, as it could have been; if it asks again it has waited.
   */
  answer(isDone: boolean, points: readonly StrandPoint[]): boolean {
    if (this.#continuations !== undefined && !areBefore(points, this.host)) {
      const isAskedAgain = areBefore(points, this.#denied)
      for (const point of points) this.#denied.join(point)
      if (!isAskedAgain) return false
    }
    if (isDone) this.hostKnows(points)
    return isDone
  }

  /** A host function runs here, perhaps inside of another, which need not come after it. */
  runHostFunction(launched: LaunchedHostFunction, fn: () => void): void {
    this.pending.ran(launched.at)
    if (this.isCausal) this.#ran.set(launched.at.slot, launched.at)
    this.#areDone([launched.at])
    const running = this.running.enter(launched)
    const { knows, stream } = running
    try {
      if (this.#continuations === undefined) fn()
      else this.#continuations.run(knows.clock, fn)
    } finally {
      this.running.leave(running)
      this.streams.known(stream.handle)?.joinClock(knows.clock)
    }
  }

  /** After all that these events stand for, and all that the JavaScript thread knows. */
  afterEvents(events: readonly EventHandle[]): StrandPoint {
    const after = new Strand({ slot: NOWHERE, tick: 1, clock: this.host.clock })
    for (const event of events) for (const point of this.workOfEvent(event)) after.join(point)
    return after.point()
  }

  /** `before` are the nodes of a graph that the capture adds to, behind those of these handles; where one is not known, all. */
  captureBegins(handle: StreamHandle, before: CapturedNodes = [], after: readonly NodeHandle[] = []): void {
    const named = before.filter(({ work }) => work.kind === 'work' && after.some((node) => node === work.node))
    new Capture(this.streams.at(handle), true, before, named.length < after.length ? before : named)
  }

  /** Returns the nodes of the capture; undefined where some of them are older than the sanitizer. */
  captureEnds(handle: StreamHandle): CapturedNodes | undefined {
    const capture = this.streams.known(handle)?.capture
    const nodes = capture?.end()
    return capture?.seen ? nodes : undefined
  }

  /** `instance` is undefined where it is older than the sanitizer. */
  launch(instance: GraphInstance | undefined, handle: StreamHandle, visit: NodeVisitor): void {
    const stream = this.arriveAt(handle)
    if (instance !== undefined) instance.launch(stream, this, visit)
    else this.#launchUnknown(stream)
  }

  newStrand(): Strand {
    return new Strand(this.strands.begin())
  }

  /** It may wait for each event that is older than the sanitizer, and record it. */
  #launchUnknown(stream: StreamStrand): void {
    for (const event of this.events.older()) for (const point of this.workOfRecord(event)) stream.join(point)
    this.#unknownLaunches.set(stream.slot, stream.next())
  }

  /** Does the stream come after anything that a foreign stream of its device was given, or is it one? */
  followsForeignStream(stream: StreamStrand): boolean {
    if (stream.foreign) return true
    return this.streams.foreign.some((other) => other.device === stream.device && isFollowed(other, stream))
  }

  /** What is known of these points and no more. */
  #knowing(points: readonly StrandPoint[]): Clock {
    const strand = new Strand({ slot: NOWHERE, tick: 1, clock: [] })
    for (const point of points) strand.join(point)
    this.running.inherit(strand)
    return strand.clock
  }

  #areDone(points: readonly StrandPoint[]): void {
    for (const point of points) this.strands.all.join(point)
    this.holds.areDone(this.strands.all)
    this.streams.moreIsDone()
  }

  /** What work of the stream comes after: all that JavaScript knows to be done, and by the null stream's rules other streams. */
  #comeAfterOthers(stream: StreamStrand, work: Strand): void {
    work.join(this.host)
    if (stream.nonBlocking) return
    const { nullStream, others } = this.streams.blockingOf(stream.device)
    if (stream !== nullStream) work.join(nullStream)
    else for (const other of others) work.join(other)
  }

  /**
   * What an event's latest record stands for. One that others record may stand for all that foreign streams were given, and
   * one that is older than the sanitizer for each launch of a graph that is.
   */
  workOfRecord({ foreign, made, points }: EventState): readonly StrandPoint[] {
    if (made || (!foreign && this.#unknownLaunches.size === 0)) return points
    const theirs = foreign ? this.streams.foreign.map((stream) => stream.point()) : []
    return [...points, ...theirs, ...this.#unknownLaunches.values()]
  }
}

const areBefore = (points: readonly StrandPoint[], later: StrandPoint): boolean =>
  points.every((point) => isBefore(point, later))

function isFollowed(other: StreamStrand, stream: StreamStrand): boolean {
  return other.slot < stream.clock.length && (stream.clock[other.slot] as number) >= other.since
}
