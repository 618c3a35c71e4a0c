/** Checks each use of memory against those before it. */
import { atNextTurn, type Turn } from '#platform'
import {
  type Driver,
  type NodeHandle,
  type OwnEvent,
  type Pointer,
  type QueuedFill,
  type StreamHandle,
  type TouchedMemory,
  touching,
} from '../driver/driver.js'
import type { Comparison, MemoryValue } from '../driver/values.js'
import { NOWHERE, type StrandPoint } from './clocks.js'
import { type Findings, raceOf } from './findings.js'
import type { CapturedNodes, GraphInstance } from './graph-instance.js'
import type { HappensBefore } from './happens-before.js'
import type { HostFunctionPlace, RunningHostFunction } from './host-functions.js'
import { Mender } from './mender.js'
import { CheckedOperation, type CheckedOperationKind, isInOneTurn, type OperationStream } from './operations.js'
import { PinnedViews } from './pinned-views.js'
import type { RaceFound, RacesFound } from './ranges.js'
import { type Region, type RegionKind, Regions } from './regions.js'
import { comesFromBefore, type Finding, KEPT_VIEW, WRITTEN_ARRAY } from './reports.js'
import { type SampledSite, type Stacks, shownLines, type TakenStack } from './stacks.js'
import type { CapturedWork, StreamStrand } from './streams.js'

const NONE: readonly TouchedMemory[] = []
/** Of a warning, which is about one operation. */
const ALONE = { region: undefined, awaited: undefined, mended: undefined }

export class Detector {
  readonly regions: Regions
  readonly #mender: Mender
  readonly #views: PinnedViews
  /** To compare bytes takes longer than to queue a copy of them, so it is done where no GPU waits. */
  readonly #comparesReads: boolean
  /** The program has queued host functions, which touch memory when they run. */
  #hasHostFunctions = false
  /** What was called since then JavaScript has not waited after. */
  #turnBegan = 0
  #turn: Turn | undefined
  #sequence = 0
  /** Of calls that are not uses of one piece of memory. */
  readonly #calls: SampledSite[] = []

  constructor(
    private readonly driver: Driver,
    readonly order: HappensBefore,
    private readonly findings: Findings,
    readonly stacks: Stacks,
  ) {
    this.regions = new Regions(order.pending, order.holds)
    order.lookAtWord = (pointer, byteLength) => {
      const region = this.regions.at(pointer)
      return region.kind === 'device' ? undefined : { bytes: region.read(pointer, byteLength)?.slice() }
    }
    this.#mender = new Mender(driver, order)
    this.#comparesReads = driver.name === 'sim'
    this.#views = new PinnedViews(
      order.strands.all,
      (region, operation, start, end, access) => {
        const races = region.scripts
          .touch(operation, start, end, access)
          ?.filter(({ other }) => !isInOneTurn(other, operation))
        this.#found(operation, races?.map((race) => raceOf(race, operation, access, region)) ?? [])
        // Work that is queued from now on need not come after it. What it races with until now has been looked at.
        if (order.isCausal && operation.inside !== undefined) region.ranges.touch(operation, start, end, access)
      },
      (region, read, start, end) => this.#changed(region, read, start, end),
    )
    order.beforeHostKnows = () => {
      this.#views.look()
      this.#turned()
    }
  }

  /** Called before work is queued: where races are thrown, the work is refused; where they are mended, a wait is queued. */
  probe(handle: StreamHandle, what: string, memory: readonly TouchedMemory[]): void {
    this.#views.look()
    if (!this.findings.throws && !this.findings.mends) return
    const stream = this.order.streams.at(handle)
    if (stream.capture !== undefined) return
    const at = this.order.nextOf(stream)
    this.#look((stack) => this.#operation(at, stream, what, 'work', stack, memory), memory, stream)
  }

  /** Work was queued that touches memory. */
  work(
    handle: StreamHandle,
    what: string,
    memory: readonly TouchedMemory[],
    kind: CheckedOperationKind = 'work',
  ): void {
    const stream = this.order.arriveAt(handle)
    const [main] = memory
    if (main === undefined) return
    const region = this.regions.at(main.pointer)
    const stack = this.stacks.sample(kind === 'work' ? region.sites : this.#calls, what, stream)
    if (kind === 'allocation') region.made = stack
    if (stream.capture !== undefined) {
      const regions = memory.map(({ pointer }) => this.regions.at(pointer))
      const node = this.driver.graphs.capturedNode(handle)
      stream.capture.put(stream, { kind: 'work', what, memory, regions, node }, stack)
      return
    }
    this.#touch(this.#operation(stream.advance(), stream, what, kind, stack, memory), stream)
  }

  allocated(pointer: Pointer, byteLength: number, handle: StreamHandle): void {
    const region = this.regions.allocated(pointer, byteLength, 'device')
    this.work(handle, 'allocation', region.whole, 'allocation')
  }

  /** Memory that is there without a stream. */
  allocatedApart(pointer: Pointer, byteLength: number, kind: RegionKind, bytes?: Uint8Array): void {
    const region = this.regions.allocated(pointer, byteLength, kind)
    region.made = this.stacks.sample(this.#calls, 'allocation', this)
    region.takesValues = true
    if (bytes !== undefined) region.shows(bytes)
  }

  /** The memory is an array of the program's, which writes there without asking for it. */
  registered(pointer: Pointer): void {
    const region = this.regions.at(pointer)
    region.isArray = true
    region.isViewed = true
  }

  /** A stream waits until a word of memory has a value. */
  valueAwaited(word: MemoryValue, compare: Comparison, handle: StreamHandle): void {
    const stream = this.order.arriveAt(handle)
    if (stream.capture === undefined) this.order.values.awaited(word, compare, stream)
    else stream.capture.put(stream, { kind: 'waitValue', word, compare })
  }

  valueWritten(word: MemoryValue, handle: StreamHandle): void {
    const stream = this.order.arriveAt(handle)
    if (stream.capture === undefined) this.order.values.written(word, stream.next())
    else stream.capture.put(stream, { kind: 'writeValue', word })
  }

  /** The fill that was queued last has written this value: a stream may wait for it. */
  filled({ pointer, value, width, count, stream: handle }: QueuedFill): void {
    const stream = this.order.streams.at(handle)
    if (stream.capture !== undefined || !this.regions.at(pointer).takesValues) return
    const bytes = new Uint8Array(new Uint32Array([value]).buffer, 0, width)
    this.order.values.overwritten(pointer, pointer + width * count, stream.point(), bytes)
  }

  /** A graph was added to the one that a stream captures. */
  graphAdded(handle: StreamHandle, nodes: CapturedNodes): void {
    const stream = this.order.streams.at(handle)
    stream.capture?.putGraph(stream, nodes, this.stacks.sample(this.#calls, 'launch of a graph', stream))
  }

  /** Called before memory is given back in the order of a stream. */
  probeFree(pointer: Pointer, handle: StreamHandle): void {
    const region = this.findings.mends ? this.regions.startingAt(pointer) : undefined
    if (region === undefined) return
    const stream = this.order.streams.at(handle)
    const memory = region.whole
    const at = this.order.nextOf(stream)
    this.#look((stack) => this.#operation(at, stream, 'free', 'free', stack, memory), memory, stream)
  }

  freed(pointer: Pointer, handle: StreamHandle): void {
    const region = this.regions.startingAt(pointer)
    if (region === undefined) return
    const stream = this.order.arriveAt(handle)
    this.#free(region, stream.advance(), 'free', stream)
  }

  /** Memory that belongs to no stream is given back once these events, which the driver takes over, are done. */
  closing(pointer: Pointer, after: readonly OwnEvent[], close: () => void): void {
    const region = this.regions.startingAt(pointer)
    const handles = after.map(({ event }) => event)
    if (region !== undefined && this.findings.mends) {
      const memory = region.whole
      const at = this.order.afterEvents(handles)
      this.#look((stack) => this.#operation(at, undefined, 'close', 'free', stack, memory), memory, undefined)
    }
    const at = this.order.afterEvents(handles)
    close()
    this.takenOver(after)
    if (region !== undefined) this.#free(region, at, 'close', undefined)
  }

  /** The driver does away with these events. */
  takenOver(events: readonly OwnEvent[]): void {
    for (const { event } of events) this.order.events.destroyed(event)
  }

  /** JavaScript is about to look at pinned memory. */
  viewed(pointer: Pointer, byteLength: number): void {
    const running = this.order.running.innermost
    const clock = (running?.knows ?? this.order.host).clock
    const at = running === undefined ? { slot: NOWHERE, tick: 1, clock } : { ...running.at, clock }
    const what = running === undefined ? 'a view' : 'a host function'
    const memory: readonly TouchedMemory[] = [touching(pointer, byteLength, 'inout')]
    this.#views.look()
    // Looked at only: work that is queued later comes after it, and a host function that runs later does too.
    const make = (stack: TakenStack | undefined): CheckedOperation =>
      this.#operation(at, running?.stream, what, 'javascript', stack, memory, running)
    this.#look(make, memory, undefined)
    const region = this.regions.at(pointer)
    if (region.kind !== 'pinned') return
    region.isViewed = true
    if (!this.#hasHostFunctions) return
    const stack = this.stacks.sample(region.sites, what, running?.stream ?? this)
    const point = running === undefined ? this.order.host.next() : at
    const operation = this.#operation(point, running?.stream, what, 'javascript', stack, memory, running)
    if (running === undefined) operation.since = this.#turnBegan
    this.#views.asked(region, operation, pointer, pointer + byteLength)
  }

  /** A promise that a stream waits for has settled: what JavaScript has done until now comes before the work behind it. */
  holdOpens(): void {
    this.#views.look()
    this.#views.forgetReads()
  }

  /** What JavaScript has done until now is none of the host function's, and what that does none of what comes behind it. */
  hostFunctionRuns(isOwn: boolean): void {
    this.#views.look()
    if (!isOwn) this.#views.forgetReads()
    this.#turned()
  }

  #hostFunctionQueued(): void {
    this.#hasHostFunctions = true
    if (this.#turn !== undefined) return
    this.#turn = atNextTurn(() => {
      this.#turn = undefined
      this.#turned()
    }).unref()
  }

  /** Host functions that were queued until now may have run. */
  #turned(): void {
    this.#turnBegan = this.#sequence
  }

  /** Queued work reads bytes that have changed, which no call has told of: through a view that was kept from earlier. */
  #changed(region: Region, read: CheckedOperation, start: number, end: number): void {
    const { host } = this.order
    const at = { slot: NOWHERE, tick: 1, clock: host.clock }
    const memory: readonly TouchedMemory[] = [touching(start as Pointer, end - start, 'out')]
    const taken = this.stacks.take()
    // Where the event loop goes on, no line of the program is there: then it was after the read was queued.
    const stack = taken === undefined || shownLines(taken.stack).length > 0 ? taken : read.stack
    const what = region.isArray ? WRITTEN_ARRAY : KEPT_VIEW
    const view = this.#operation(at, undefined, what, 'javascript', stack, memory)
    this.#found(view, [raceOf({ other: read, access: 'in', start, end }, view, 'out', region)])
  }

  /** Queued work reads memory that the program has in its hands. */
  get isWatching(): boolean {
    return this.#views.hasReads
  }

  /** The program makes a call: has it written there by now? */
  lookAtReads(): void {
    this.#views.lookAtReads()
  }

  hostFunctionQueued(handle: StreamHandle, place: HostFunctionPlace, isOwn: boolean): void {
    if (!isOwn) this.#hostFunctionQueued()
    const stream = this.order.arriveAt(handle)
    const queued = this.stacks.sample(this.#calls, 'host function', stream)
    const launched = (
      on: StreamStrand,
      at: StrandPoint,
      captured: CapturedWork | undefined,
      stack: TakenStack | undefined,
    ): void => {
      this.#sequence += 1
      place.launched({ at, stream: on, captured, queued: stack, sequence: this.#sequence })
    }
    if (stream.capture === undefined) launched(stream, stream.next(), undefined, queued)
    else stream.capture.put(stream, { kind: 'host', launched }, queued)
  }

  /** Called before a graph is launched. What nothing orders with the beginning of the launch may have an order within it. */
  probeLaunch(instance: GraphInstance | undefined, handle: StreamHandle): void {
    if (!this.findings.mends || instance === undefined) return
    const stream = this.order.streams.at(handle)
    if (
      stream.capture !== undefined ||
      instance.nodes.some(({ work }) => work.kind === 'wait' || work.kind === 'waitValue')
    )
      return
    for (const { index, work } of instance.nodes) {
      if (work.kind !== 'work' || instance.off.has(index)) continue
      const at = this.order.nextOf(stream)
      const make = (stack: TakenStack | undefined): CheckedOperation =>
        this.#operation(at, stream, work.what, 'work', stack, work.memory, undefined, work)
      this.#look(make, work.memory, stream)
    }
  }

  /** A node of an instance touches other memory from now on. */
  nodeUpdated(instance: GraphInstance, node: NodeHandle, memory: readonly TouchedMemory[]): void {
    const [main] = memory
    if (main === undefined) return
    const stack = this.stacks.sample(this.regions.at(main.pointer).sites, 'update', this)
    instance.put(
      node,
      memory,
      memory.map(({ pointer }) => this.regions.at(pointer)),
      stack,
    )
  }

  /** `instance` is undefined where it is older than the sanitizer. */
  launched(what: string, instance: GraphInstance | undefined, handle: StreamHandle): void {
    const stack = this.stacks.sample(this.#calls, what, this.order.streams.at(handle))
    this.order.launch(instance, handle, (stream, work, at) => this.#nodeLaunched(stream, work, at, stack))
  }

  waitedInVain(handle: StreamHandle): void {
    const stream = this.order.streams.at(handle)
    const wait = this.#operation(stream, stream, 'wait', 'work', this.stacks.take(), NONE)
    const second = { operation: wait, access: undefined }
    this.findings.add([{ kind: 'unrecorded-event', first: undefined, second, start: 0, end: 0, ...ALONE }])
  }

  #nodeLaunched(stream: StreamStrand, work: CapturedWork, at: StrandPoint, stack: TakenStack | undefined): void {
    if (work.kind === 'host') work.launched(stream, at, work, stack)
    if (work.kind !== 'work') return
    const operation = this.#operation(at, stream, work.what, 'work', stack, work.memory, undefined, work)
    this.#touch(operation, stream, work.regions)
  }

  #free(region: Region, at: StrandPoint, what: 'free' | 'close', stream: StreamStrand | undefined): void {
    const memory = region.whole
    const stack = this.stacks.sample(this.#calls, what, stream ?? this)
    const free = this.#operation(at, stream, what, 'free', stack, memory)
    try {
      this.#look((exact) => (exact === undefined ? free : this.#exactly(free, exact)), memory, undefined)
    } finally {
      this.order.values.forget(region.start, region.end)
      this.regions.free(region, free)
    }
  }

  #touch(operation: CheckedOperation, stream: StreamStrand, regions?: readonly Region[]): void {
    const { memory } = operation
    let findings: readonly Finding[] = []
    for (let index = 0; index < memory.length; index += 1) {
      const piece = memory[index] as TouchedMemory
      const { pointer, byteLength, access } = piece
      if (byteLength === 0) continue
      const region = this.regions.at(pointer)
      const freed = regions?.[index]?.freed ?? region.freed
      const races =
        freed === undefined
          ? region.ranges.touch(operation, pointer, pointer + byteLength, access)
          : [goneBy(freed, piece)]
      if (races !== undefined) findings = [...findings, ...races.map((race) => raceOf(race, operation, access, region))]
      if (freed !== undefined) continue
      if (access !== 'in' && region.takesValues) this.order.values.overwritten(pointer, pointer + byteLength, operation)
      if (region.kind === 'pinned' && this.#comparesReads)
        this.#views.queued(region, operation, pointer, byteLength, access)
      this.regions.touched(this.order.strands.all)
      if (region.kind !== 'foreign' || !this.#isAskedAbout(region, stream)) continue
      const second = { operation, access }
      const bytes = { start: pointer, end: pointer + byteLength }
      findings = [...findings, { kind: 'foreign-memory', first: undefined, second, ...bytes, ...ALONE }]
    }
    if (findings.length > 0) this.#found(this.#exactly(operation, undefined), findings)
  }

  /**
   * Finds what races with an operation that is not written down. Its stack is taken only where there is something to tell.
   * Where races are mended, `stream` waits, or without one JavaScript does.
   */
  #look(
    make: (stack: TakenStack | undefined) => CheckedOperation,
    memory: readonly TouchedMemory[],
    stream: StreamStrand | undefined,
  ): void {
    let operation = make(undefined)
    let findings: readonly Finding[] = []
    for (const piece of memory) {
      const region = this.regions.at(piece.pointer)
      const races = racesIn(region, operation, piece)
      if (races === undefined || races.length === 0) continue
      if (findings.length === 0) operation = make(this.stacks.take())
      findings = [...findings, ...races.map((race) => raceOf(race, operation, piece.access, region))]
    }
    if (findings.length > 0) this.#found(operation, findings, (others) => this.#mend(operation, others, stream))
  }

  #found(
    operation: CheckedOperation,
    findings: readonly Finding[],
    mend?: (awaited: readonly CheckedOperation[]) => boolean,
  ): void {
    if (findings.length === 0) return
    // Work behind a promise may come after all that this one does.
    const isHeld = ({ first, second }: Finding): boolean =>
      [first, second].some((side) => side !== undefined && this.order.holds.isHeld(side.operation))
    if (findings.some(isHeld)) {
      this.#found(
        operation,
        findings.filter((finding) => !isHeld(finding)),
        mend,
      )
      return
    }
    for (const { first, second } of findings) for (const side of [first, second]) reported(side?.operation.stack)
    const left = this.findings.gathered(findings, operation)
    if (left.length === 0) return
    // What JavaScript has done by now cannot be refused.
    const throws = this.findings.throws && (operation.kind !== 'javascript' || mend !== undefined)
    if (!this.findings.mends) {
      this.findings.add(left, throws)
      return
    }
    // An operation that others race with which were called later cannot wait for them.
    const awaited = left.every((finding) => finding.awaited !== undefined) ? (left[0]?.awaited ?? []) : []
    const mended = mend?.(awaited) === true
    this.findings.add(
      left.map((finding) => ({ ...finding, mended })),
      throws,
    )
  }

  /** Lets an operation that is about to happen come after those that it races with, if that is the order that was meant. */
  #mend(operation: CheckedOperation, awaited: readonly CheckedOperation[], stream: StreamStrand | undefined): boolean {
    const canBe = (other: CheckedOperation): boolean => other.kind !== 'free' && !comesFromBefore(other, operation)
    const streams = awaited.flatMap((other) => (other.stream !== undefined && canBe(other) ? [other.stream] : []))
    if (streams.length === 0 || streams.length < awaited.length) return false
    return stream === undefined ? this.#mender.waitOnHost(streams) : this.#mender.queueWaits(stream, streams)
  }

  /** The stack of the call under way in place of one of its kind. */
  #exactly(operation: CheckedOperation, stack: TakenStack | undefined): CheckedOperation {
    if (operation.stack?.exact === false) operation.stack = stack ?? this.stacks.take()
    return operation
  }

  /** Of each region and stream once. */
  #isAskedAbout(region: Region, stream: StreamStrand): boolean {
    if (this.order.streams.foreignCount === 0 || region.askedAbout.has(stream)) return false
    region.askedAbout.add(stream)
    return !this.order.followsForeignStream(stream)
  }

  #operation(
    at: StrandPoint,
    stream: OperationStream | undefined,
    what: string,
    kind: CheckedOperationKind,
    stack: TakenStack | undefined,
    memory: readonly TouchedMemory[],
    running?: RunningHostFunction,
    captured?: CapturedWork,
  ): CheckedOperation {
    if (running === undefined) this.#sequence += 1
    const inside = running ?? this.order.running.innermost
    const place = captured ?? running?.captured
    const sequence = running?.sequence ?? this.#sequence
    return new CheckedOperation(at, sequence, what, kind, stream, stack, memory, place, inside)
  }
}

const goneBy = (freed: CheckedOperation, { pointer, byteLength }: TouchedMemory): RaceFound => {
  return { other: freed, access: 'out', start: pointer, end: pointer + byteLength }
}

/** What an operation races with that is not written down. */
function racesIn(region: Region, operation: CheckedOperation, piece: TouchedMemory): RacesFound {
  const { pointer, byteLength, access } = piece
  const races = region.ranges.look(operation, pointer, pointer + byteLength, access)
  const all = region.freed === undefined ? races : [goneBy(region.freed, piece), ...(races ?? [])]
  // What JavaScript does to the same bytes is compared by what they show.
  return operation.kind === 'javascript' ? all?.filter(({ other }) => other.kind !== 'javascript') : all
}

/** Its lines may be those of another call: from now on each call of its kind has a stack of its own. */
function reported(stack: TakenStack | undefined): void {
  if (stack?.site !== undefined) stack.site.isReported = true
}
