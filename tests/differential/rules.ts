/**
 * What CUDA's rules force in a program while it is played: written down a second time from CUDA's documentation and
 * docs/internals/cuda-facts.md, and taken neither from the simulator nor from the library. Each piece of work has a number, and a
 * set of numbers is a bigint with those bits set: so a point of a stream is the set of all work that comes before it.
 */
import { openCells } from './races.js'
import { buffersOf, CELLS, namedBy, type Program, type StreamPlan } from './steps.js'
import { bit, collide, type Node, type Queued, type Work, worksOf } from './work.js'

export interface Captured {
  readonly nodes: readonly Node[]
}

export interface Instance {
  nodes: readonly Node[]
  last: bigint
}

class Capture implements Captured {
  readonly origin: number
  readonly nodes: Node[]
  /** What the next work of each stream of the capture comes after. */
  readonly fronts = new Map<number, Set<number>>()

  constructor(origin: number, before: readonly Node[], after: readonly number[]) {
    this.origin = origin
    this.nodes = [...before]
    this.fronts.set(origin, new Set(after))
  }
}

interface Marked {
  point: bigint
  captured?: { readonly capture: Capture; readonly front: ReadonlySet<number> } | undefined
}

/** What is certain of work: that it is done, that it is not, or nothing. */
export type Certainty = 'done' | 'pending' | 'open'

/** What the rules have to know of a program before it begins. */
type Plan = Pick<Program, 'edition' | 'streams' | 'events'>

export class Rules {
  readonly #program: Plan
  /** Whether a wait is queued though it may be over already, as the simulator does: a driver may leave it out. */
  readonly #keepsWaits: boolean
  readonly #queued: Queued[] = []
  readonly #points = new Map<number, bigint>()
  readonly #events: Marked[]
  readonly #captures: Capture[] = []
  /** Work that the host knows to be done: all that is queued later comes after it. */
  #done = 0n
  /** Latches not opened. */
  #standing = 0n
  /** Host functions that no wait can have run yet, since there was none. */
  #unrun = 0n
  /** Host functions inside of which the program is now. */
  #running = 0n
  readonly #firstExtraCell: number
  #extraCells = 0
  /** Work of all streams that are gone. */
  #gone = 0n
  /** By device: work of blocking streams that are gone. Nobody says whether the null stream still waits for it. */
  readonly #ofGone = new Map<number, bigint>()

  constructor(program: Plan, { keepsWaits = false }: { readonly keepsWaits?: boolean } = {}) {
    this.#program = program
    this.#keepsWaits = keepsWaits
    this.#events = program.events.map(() => ({ point: 0n }))
    this.#firstExtraCell = buffersOf(program).length * CELLS
  }

  /** Is all work known to be done? */
  get idle(): boolean {
    return this.certainty(this.#all) === 'done'
  }

  get captures(): boolean {
    return this.#captures.length > 0
  }

  isCapturing(stream: number): boolean {
    return this.#captureOf(stream) !== undefined
  }

  /** Queues work, or writes it down where the stream captures. Returns its number; -1 for what is captured. */
  queue(stream: number, work: Work): number {
    const capture = this.#captureOf(stream)
    if (capture !== undefined) {
      const key = this.#key(stream)
      capture.nodes.push({ work, after: capture.fronts.get(key) ?? new Set() })
      capture.fronts.set(key, new Set([capture.nodes.length - 1]))
      return -1
    }
    const id = this.#add(stream, work, this.#before(stream))
    this.#setPoint(stream, this.upTo(id))
    return id
  }

  /** Work that other work of the stream is to come after, and that itself comes after this. Returns its number. */
  queueBehind(stream: number, work: bigint): number {
    const id = this.#add(stream, {}, this.#before(stream) | work)
    this.#setPoint(stream, this.upTo(id))
    return id
  }

  /** Memory that is allocated. Nobody says whether that is work, which on a blocking stream comes after the null stream's. */
  allocate(stream: number, work: Work): void {
    const { origin } = this.#plan(stream)
    if (isNull(origin) || !isBlocking(origin)) this.queue(stream, work)
    else this.#setPoint(stream, this.#point(stream) | bit(this.#add(stream, work, this.ofStream(stream))))
  }

  /** Something that a driver may queue, or not. */
  queueNothing(stream: number): void {
    this.#queueAfter(stream, 0n)
  }

  /** The stream comes after all that the device holds. Nobody says whether that has work of streams that are gone. */
  waitDevice(stream: number, device: number): void {
    this.#queueAfter(stream, this.ofDevice(device) & ~this.#gone)
  }

  latch(stream: number): number {
    const id = this.queue(stream, {})
    this.#standing |= bit(id)
    return id
  }

  open(latch: number): void {
    this.#standing &= ~bit(latch)
  }

  record(stream: number, event: number): void {
    const marked = this.#event(event)
    const capture = this.#captureOf(stream)
    if (capture !== undefined) {
      marked.captured = { capture, front: new Set(capture.fronts.get(this.#key(stream))) }
      return
    }
    marked.captured = undefined
    marked.point = this.#recordNow(stream, this.#program.events[event]?.timing === true)
  }

  /**
   * A record comes after all that work would come after; but on a blocking stream one without timing is no work, and for the
   * null stream's work, which it waits for, no query and no wait of the stream itself waits.
   */
  #recordNow(stream: number, timing: boolean): bigint {
    const { origin } = this.#plan(stream)
    if (timing || isNull(origin) || !isBlocking(origin)) return this.upTo(this.queue(stream, {}))
    return this.upTo(this.#add(stream, {}, this.#before(stream)))
  }

  wait(stream: number, event: number): void {
    const { captured, point } = this.#event(event)
    if (captured !== undefined) this.#join(stream, captured.capture, captured.front)
    else if (!this.isCapturing(stream)) this.#queueAfter(stream, point)
  }

  /** Outside of a capture, external changes nothing. */
  recordExternal(stream: number, event: number): void {
    if (this.isCapturing(stream)) this.queue(stream, { records: event })
    else this.record(stream, event)
  }

  waitExternal(stream: number, event: number): void {
    if (this.isCapturing(stream)) this.queue(stream, { waitsFor: event })
    else this.wait(stream, event)
  }

  waitStream(stream: number, other: number): void {
    const capture = this.#captureOf(other)
    if (capture !== undefined) this.#join(stream, capture, new Set(capture.fronts.get(this.#key(other))))
    else {
      this.#queueAfter(stream, this.#recordNow(other, false))
    }
  }

  /**
   * A wait, or a graph without work: what is queued later comes after this too. Where it may be over already, a driver may leave the wait
   * out, and then nothing was queued that the null stream's rules would be about. On a blocking stream a wait is no work that
   * the null stream's would come before.
   */
  #queueAfter(stream: number, work: bigint): void {
    const { origin } = this.#plan(stream)
    const before = isBlocking(origin) ? this.#point(stream) : this.#before(stream)
    const id = this.#add(stream, {}, before | work)
    const isWork = this.#keepsWaits || this.certainty(work) === 'pending'
    this.#setPoint(stream, isWork ? this.upTo(id) : this.#point(stream) | work | bit(id))
  }

  /**
   * A promise for all that the stream holds now. How it is kept, by a record on the stream or not, is nobody's business:
   * what the record itself would wait for is not promised. Returns what comes before.
   */
  mark(stream: number): bigint {
    if (this.isCapturing(stream) || this.isForbidden(stream)) return 0n
    const id = this.#add(stream, {}, this.ofStream(stream))
    this.#setPoint(stream, this.#point(stream) | bit(id))
    return this.upTo(id)
  }

  /** While a blocking stream captures, the null stream takes no work. */
  isForbidden(stream: number): boolean {
    const { origin, device } = this.#plan(stream)
    if (!isNull(origin)) return false
    return this.#program.streams.some(
      (other, index) => other.device === device && isBlocking(other.origin) && this.isCapturing(index),
    )
  }

  /** The stream is destroyed; another may take its place. */
  closeStream(stream: number): void {
    const { origin, device } = this.#plan(stream)
    if (!isOrdinary(origin)) return
    const named = namedBy(this.#program.streams, stream)
    for (const [id, queued] of this.#queued.entries()) if (queued.stream === named) this.#gone |= bit(id)
    this.#leaveCapture(stream)
    if (isBlocking(origin)) this.#ofGone.set(device, (this.#ofGone.get(device) ?? 0n) | this.#point(stream))
    this.#setPoint(stream, 0n)
  }

  /** Where it began the capture, that is over, for all that joined too. */
  #leaveCapture(stream: number): void {
    const capture = this.#captureOf(stream)
    if (capture === undefined) return
    const key = this.#key(stream)
    capture.fronts.delete(key)
    if (capture.origin === key) this.#captures.splice(this.#captures.indexOf(capture), 1)
  }

  /** The event is destroyed, and another takes its place. */
  renewEvent(event: number): void {
    this.#events[event] = { point: 0n }
  }

  /** A capture begins; one that adds to a graph has nodes already, and its first work comes after some of them. */
  begin(stream: number, before: readonly Node[] = [], after: readonly number[] = []): void {
    this.#captures.push(new Capture(this.#key(stream), before, after))
  }

  /** A capture ended, with a graph or without. */
  end(stream: number): Captured {
    const at = this.#captures.findIndex(({ origin }) => origin === this.#key(stream))
    const [capture] = at < 0 ? [] : this.#captures.splice(at, 1)
    return { nodes: capture?.nodes ?? [] }
  }

  /** Did this stream begin a capture that has not ended? */
  beganCapture(stream: number): boolean {
    return this.#captures.some(({ origin }) => origin === this.#key(stream))
  }

  launch(stream: number, instance: Instance): void {
    if (worksOf(instance.nodes).length === 0) {
      this.#queueAfter(stream, instance.last)
      return
    }
    const records = new Map<number, bigint[]>()
    for (const { records: event } of worksOf(instance.nodes)) if (event !== undefined) records.set(event, [])
    const end = this.#launchAll(stream, instance.nodes, this.#before(stream) | instance.last, records)
    for (const [event, points] of records) this.#events[event] = { point: this.#recordedBy(stream, points) }
    this.#setPoint(stream, end)
    instance.last = end
  }

  /** Returns what comes before all that is behind these nodes. `records` has what comes before the records, by the event. */
  #launchAll(stream: number, nodes: readonly Node[], begin: bigint, records: Map<number, bigint[]>): bigint {
    const ends: bigint[] = []
    let end = begin
    for (const { work, after } of nodes) {
      let upTo = begin
      for (const index of after) upTo |= ends[index] ?? 0n
      if (work.waitsFor !== undefined && !records.has(work.waitsFor)) upTo |= this.#outsideGraphs(work.waitsFor)
      if (work.within === undefined) upTo |= this.upTo(this.#add(stream, work, upTo))
      else upTo = this.#launchAll(stream, work.within, upTo, records)
      if (work.records !== undefined) records.get(work.records)?.push(upTo)
      ends.push(upTo)
      end |= upTo
    }
    return end
  }

  /**
   * What a graph waits for. Where an event was recorded in a capture since, nobody says whether the record before still
   * stands; and a graph that records an event and waits for it, which of the two comes first.
   */
  #outsideGraphs(event: number): bigint {
    const { captured, point } = this.#event(event)
    return captured === undefined ? point : 0n
  }

  /** What comes before an event that a graph records: of several records in no order, any is the latest. */
  #recordedBy(stream: number, points: readonly bigint[]): bigint {
    const [first = 0n, ...others] = points
    if (others.length === 0) return first
    const last = points.find((point) => points.every((other) => (other & ~point) === 0n))
    if (last !== undefined) return last
    return this.upTo(
      this.#add(
        stream,
        {},
        others.reduce((all, point) => all & point, first),
      ),
    )
  }

  /** All that a query or a wait for this stream looks at. */
  ofStream(stream: number): bigint {
    const { origin } = this.#plan(stream)
    const point = this.#point(stream)
    return isNull(origin) ? point | this.#blockingPoints(stream) : point
  }

  /** What a query of this stream answers. */
  certaintyOfStream(stream: number): Certainty {
    const { origin, device } = this.#plan(stream)
    const certainty = this.certainty(this.ofStream(stream))
    if (!isNull(origin) || certainty !== 'done') return certainty
    return this.certainty(this.#ofGone.get(device) ?? 0n) === 'done' ? 'done' : 'open'
  }

  /** All before the event's latest record; undefined where that is inside of a capture. */
  ofEvent(event: number): bigint | undefined {
    const { captured, point } = this.#event(event)
    return captured === undefined ? point : undefined
  }

  certaintyOfEvent(event: number): Certainty {
    const work = this.ofEvent(event)
    return work === undefined ? 'open' : this.certainty(work)
  }

  get #all(): bigint {
    return (1n << BigInt(this.#queued.length)) - 1n
  }

  ofEverything(): bigint {
    return this.#all
  }

  ofDevice(device: number): bigint {
    let work = 0n
    for (const { stream, upTo } of this.#queued) {
      if (stream >= 0 && this.#plan(stream).device === device) work |= upTo
    }
    return work
  }

  /** Does anything stand, or may it, until this thread lets it go on? */
  get anyStands(): boolean {
    return (this.#standing | this.#unrun | this.#running) !== 0n
  }

  certainty(work: bigint): Certainty {
    if ((work & (this.#standing | this.#unrun | this.#running)) !== 0n) return 'pending'
    return (work & ~this.#done) === 0n ? 'done' : 'open'
  }

  /** Does a latch stand before it? Unlike other reasons this one holds while the event loop turns. */
  isHeld(work: bigint): boolean {
    return (work & this.#standing) !== 0n
  }

  /** From now on host functions may run. */
  yields(): void {
    this.#unrun = 0n
  }

  /** The host has waited for this. */
  waited(work: bigint): void {
    this.#done |= work
  }

  /**
   * The program goes on inside a host function: what comes before it is done. Returns what was known before. Where nobody
   * knows when it runs, no more than that is known when it has returned.
   */
  enter(host: number): bigint {
    const known = this.#done
    this.#done |= this.upTo(host) & ~bit(host)
    this.#running |= bit(host)
    return known
  }

  leave(host: number, known = this.#done): void {
    this.#running &= ~bit(host)
    this.#done = known
  }

  /** Streams for which this one must wait so that its work touches memory in a certain order. */
  conflicts(stream: number, works: readonly Work[]): number[] {
    const before = this.#before(stream) | this.#done
    const streams = new Set<number>()
    for (const [id, earlier] of this.#queued.entries()) {
      if (earlier.stream < 0 || (before & bit(id)) !== 0n || !works.some((work) => collide(earlier.work, work)))
        continue
      streams.add(earlier.stream)
    }
    return [...streams]
  }

  /** Can the host touch this cell itself now, because all that touches it is done? */
  isQuiet(cell: number): boolean {
    return this.#queued.every(
      ({ work }, id) => (this.#done & bit(id)) !== 0n || !work.accesses?.some((access) => access.cell === cell),
    )
  }

  /** The host writes a cell that is quiet. */
  poke(cell: number): void {
    const id = this.#queued.length
    this.#queued.push({
      work: { accesses: [{ cell, read: false, write: true }] },
      stream: -1,
      upTo: this.#done | bit(id),
    })
    this.#done |= bit(id)
  }

  /** Cells beside those of the buffers: of an array that the bytes are brought to. */
  extraCells(count: number): number {
    this.#extraCells += count
    return this.#firstExtraCell + this.#extraCells - count
  }

  /** For each cell: did a race, or work without a promised result, leave its value open? */
  openCells(): boolean[] {
    return openCells(this.#queued, this.#firstExtraCell + this.#extraCells)
  }

  /** The host functions of each label, in the order in which they were queued. */
  hostFunctions(): Map<string, number[]> {
    const found = new Map<string, number[]>()
    for (const [id, { work }] of this.#queued.entries()) {
      if (work.label === undefined) continue
      const ids = found.get(work.label)
      if (ids === undefined) found.set(work.label, [id])
      else ids.push(id)
    }
    return found
  }

  isDone(id: number): boolean {
    return (this.#done & bit(id)) !== 0n
  }

  /** Does the second of these come after the first? */
  isOrdered(first: number, second: number): boolean {
    return (this.upTo(second) & bit(first)) !== 0n
  }

  /** All work before this, and itself. */
  upTo(id: number): bigint {
    return this.#queued[id]?.upTo ?? 0n
  }

  #add(stream: number, work: Work, before: bigint): number {
    const id = this.#queued.length
    this.#queued.push({ work, stream: namedBy(this.#program.streams, stream), upTo: before | this.#done | bit(id) })
    if (work.label !== undefined) this.#unrun |= bit(id)
    return id
  }

  #event(event: number): Marked {
    const marked = this.#events[event]
    if (marked === undefined) throw new RangeError(`there is no event ${event}`)
    return marked
  }

  #plan(stream: number): StreamPlan {
    const plan = this.#program.streams[namedBy(this.#program.streams, stream)]
    if (plan === undefined) throw new RangeError(`there is no stream ${stream}`)
    return plan
  }

  /** Default streams are one, by whatever name they are called. */
  #key(stream: number): number {
    const { origin, device } = this.#plan(stream)
    if (isNull(origin)) return -1 - 2 * device
    return origin === 'perThread' ? -2 - 2 * device : namedBy(this.#program.streams, stream)
  }

  #point(stream: number): bigint {
    return this.#points.get(this.#key(stream)) ?? 0n
  }

  #setPoint(stream: number, point: bigint): void {
    this.#points.set(this.#key(stream), point)
  }

  #blockingPoints(stream: number): bigint {
    const { device } = this.#plan(stream)
    let points = 0n
    for (const [index, { origin, device: on }] of this.#program.streams.entries()) {
      if (on === device && isBlocking(origin)) points |= this.#point(index)
    }
    return points
  }

  /**
   * Whatever is queued on the null stream comes after all blocking streams, and whatever is queued on them afterwards
   * comes after the null stream.
   */
  #before(stream: number): bigint {
    const { origin, device } = this.#plan(stream)
    const point = this.#point(stream)
    if (isNull(origin)) return point | this.#blockingPoints(stream)
    return isBlocking(origin) ? point | (this.#points.get(-1 - 2 * device) ?? 0n) : point
  }

  #captureOf(stream: number): Capture | undefined {
    const key = this.#key(stream)
    return this.#captures.find(({ fronts }) => fronts.has(key))
  }

  #join(stream: number, capture: Capture, front: ReadonlySet<number>): void {
    if (!this.#captures.includes(capture)) return
    const key = this.#key(stream)
    capture.fronts.set(key, new Set([...(capture.fronts.get(key) ?? []), ...front]))
  }
}

const isNull = (origin: StreamPlan['origin']): boolean => origin === 'null' || origin === 'wrappedNull'
const isBlocking = (origin: StreamPlan['origin']): boolean =>
  origin === 'ownBlocking' || origin === 'foreignBlocking' || origin === 'perThread'

/** Can it be destroyed? */
export const isGreen = (origin: StreamPlan['origin']): boolean => origin === 'green' || origin === 'foreignGreen'

export const isOrdinary = (origin: StreamPlan['origin']): boolean => !isNull(origin) && origin !== 'perThread'
