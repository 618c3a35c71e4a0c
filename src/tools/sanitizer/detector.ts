/**
 * Compares each operation with the earlier ones that touched the same bytes, and reports the pairs that nothing orders.
 */
import { CudaError } from '../../foundation/base/errors.js'
import { atNextTurn, type Turn } from '../../foundation/base/event-loop.js'
import type { Epoch, References } from '../../foundation/base/vector-clock.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { Comparison } from '../../foundation/driver/driver-constants.js'
import { EventFlag } from '../../foundation/driver/driver-constants.js'
import type { InternalEvent } from '../../foundation/driver/event-driver.js'
import {
  type ContextHandle,
  cudaHandleOf,
  type NodeHandle,
  type Pointer,
  type StreamHandle,
} from '../../foundation/driver/handle-types.js'
import type { KernelMistake, LaunchObserver, LaunchShape } from '../../foundation/driver/kernel-driver.js'
import type { QueuedCopy, QueuedFill, QueuedFree } from '../../foundation/driver/queued-work.js'
import type { MemoryValue } from '../../foundation/driver/touched-memory.js'
import { type TouchedMemory, touching } from '../../foundation/driver/touched-memory.js'
import { watchedEra } from '../../foundation/driver/watched-threads.js'
import { Exchange } from './exchange.js'
import { comesFromBefore, type Finding, type Findings, KEPT_VIEW, raceOf, WRITTEN_ARRAY } from './findings.js'
import type { CapturedNodes, GraphInstance } from './graph-instances.js'
import type { HappensBefore, HostFunctionPlace, RunningHostFunction } from './happens-before.js'
import {
  CheckedOperation,
  type CheckedOperationKind,
  type GraphLaunch,
  isInOneTurn,
  type OperationStream,
  type SampledSite,
  type Stacks,
  shownLines,
  type TakenStack,
} from './operations.js'
import { PinnedViews } from './pinned-views.js'
import { meet, type RaceFound, type RacesFound, type Region, type RegionKind, Regions } from './regions.js'
import type { CapturedWork, TrackedStream } from './streams.js'
import { leftBy, noteWrites } from './unwritten-reads.js'

const NONE: readonly TouchedMemory[] = []
/** The fields of a finding that a warning about one operation leaves empty. */
const ALONE = { region: undefined, awaited: undefined, fixed: undefined }

export class Detector {
  /** The serial number for calls that belong to no stream. */
  readonly serial = 0
  readonly regions: Regions
  /** The exchange with the sanitizers of other threads. */
  readonly exchange: Exchange
  readonly #fixer: Fixer
  readonly #views: PinnedViews
  /**
   * Whether the bytes of queued reads are compared. That is so on the simulator alone: it takes longer than queueing a copy, and a GPU would wait for
   * it.
   */
  readonly #comparesReads: boolean
  /** Whether the program has queued host functions, which touch memory when they run. */
  #hasHostFunctions = false
  /** The sequence number at which JavaScript last waited, or returned to the event loop. */
  #turnBegan = 0
  #turn: Turn | undefined
  #sequence = 0
  /** The findings about kernels whose accesses are not known yet. */
  #held: readonly HeldFinding[] = []
  /** The reads of unwritten memory that may follow from one of them. */
  #heldReads: readonly HeldFinding[] = []
  /** The stacks of calls that are not uses of one region: frees, host functions, launches of graphs. */
  readonly #calls: SampledSite[] = []

  constructor(
    private readonly driver: Driver,
    readonly order: HappensBefore,
    private readonly findings: Findings,
    readonly stacks: Stacks,
  ) {
    this.regions = new Regions(order.pending, order.pendingWaits)
    this.exchange = new Exchange(order, this.regions)
    order.readWord = (pointer, byteLength) => {
      const region = this.regions.at(pointer)
      return region.kind === 'device' ? undefined : { bytes: region.read(pointer, byteLength)?.slice() }
    }
    this.#fixer = new Fixer(driver, order)
    this.#comparesReads = driver.name === 'sim'
    this.#views = new PinnedViews(
      order.components.all,
      (region, operation, start, end, access) => {
        const races = region.scripts
          .touch(operation, start, end, access)
          ?.filter(({ other }) => !isInOneTurn(other, operation))
        this.#found(operation, races?.map((race) => raceOf(race, operation, access, region)) ?? [])
        // In causal mode, work that is queued later need not come after a host function, so its access stays recorded.
        if (order.isCausal && operation.inside !== undefined) region.ranges.touch(operation, start, end, access)
      },
      (region, read, start, end) => this.#changed(region, read, start, end),
    )
    order.components.addReferences = (references) => this.#addReferences(references)
    order.beforeHostWaits = () => {
      this.#views.look()
      this.#turned()
    }
  }

  #addReferences(references: References): void {
    this.#views.addReferences(references)
    this.regions.addReferences(references, this.order.components.all)
    this.order.addReferences(references)
  }

  /**
   * Called before work is queued: a race is thrown, which refuses the work, or fixed by a wait, if the program asked for
   * that.
   */
  probe(handle: StreamHandle, what: string, memory: readonly TouchedMemory[]): void {
    this.#views.look()
    if (!this.findings.throws && !this.findings.fixes) return
    const stream = this.order.streams.at(handle)
    if (stream.capture !== undefined) return
    const at = this.order.nextOf(stream)
    this.#look((stack) => this.#operation(at, stream, { what, kind: 'work', stack, memory }), memory, stream)
  }

  /** Called after work was queued: records what it touches, and reports the races. */
  work(
    handle: StreamHandle,
    what: string,
    memory: readonly TouchedMemory[],
    kind: CheckedOperationKind = 'work',
    launch?: ObservedLaunch,
  ): CheckedOperation | undefined {
    const stream = this.order.arriveAt(handle)
    const [main] = memory
    // A kernel may find its memory by addresses within other arguments. Where the simulator will tell what it touched, it is work of its stream all the same.
    if (main === undefined && (launch?.isTold !== true || stream.capture !== undefined)) return undefined
    const region = main === undefined ? undefined : this.regions.at(main.pointer)
    const stack = this.stacks.sample(kind === 'work' && region !== undefined ? region.sites : this.#calls, what, stream)
    if (kind === 'allocation' && region !== undefined) region.made = stack
    if (stream.capture !== undefined) {
      const regions = memory.map(({ pointer }) => this.regions.at(pointer))
      const node = this.driver.graphs.capturedNode(handle)
      stream.capture.put(stream, { kind: 'work', what, memory, regions, node }, stack)
      return undefined
    }
    const operation = this.#operation(stream.advance(), stream, { what, kind, stack, memory })
    launch?.queued(operation)
    this.#touch(operation, stream)
    return operation
  }

  allocated(pointer: Pointer, byteLength: number, handle: StreamHandle): void {
    const region = this.regions.allocated(pointer, byteLength, 'device')
    this.work(handle, 'allocation', region.whole, 'allocation')
  }

  /** Notes that memory was allocated which is usable at once, in the order of no stream. */
  allocatedApart(pointer: Pointer, byteLength: number, kind: RegionKind, bytes?: Uint8Array): void {
    const region = this.regions.allocated(pointer, byteLength, kind)
    region.made = this.stacks.sample(this.#calls, 'allocation', this)
    region.takesValues = true
    if (bytes !== undefined) region.shows(bytes)
  }

  /** Notes that memory was registered: it is an array of the program, which may write there at any time. */
  registered(pointer: Pointer): void {
    const region = this.regions.at(pointer)
    region.isArray = true
    region.isViewed = true
  }

  /** Called before a stream is told to write a word of memory, or to wait for it. */
  probeValue(word: MemoryValue, handle: StreamHandle): void {
    if (this.order.streams.at(handle).capture === undefined) this.order.values.look(word)
  }

  /** Notes that a stream was told to wait until a word of memory has a value. */
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

  /** Notes that a fill was queued. It also writes values that another stream may wait for. */
  filled({ pointer, value, width, count, rows, stream: handle }: QueuedFill): void {
    const stream = this.order.streams.at(handle)
    if (stream.capture !== undefined || !this.regions.at(pointer).takesValues) return
    const bytes = new Uint8Array(new Uint32Array([value]).buffer, 0, width)
    const length = rows?.rowLength ?? width * count
    for (let row = 0; row < (rows?.rows ?? 1); row += 1) {
      const begin = pointer + row * (rows?.rowDistance ?? 0)
      this.order.values.overwritten(begin, begin + length, stream.epoch(), bytes)
    }
  }

  /** Notes that a child graph was added to the graph that a stream captures. */
  graphAdded(handle: StreamHandle, nodes: CapturedNodes): void {
    const stream = this.order.streams.at(handle)
    stream.capture?.putGraph(stream, nodes, this.stacks.sample(this.#calls, 'launch of a graph', stream))
  }

  /** Called before memory is freed in the order of a stream. */
  probeFree({ pointer, stream: handle, after }: QueuedFree): void {
    const region = this.findings.fixes ? this.regions.startingAt(pointer) : undefined
    if (region === undefined) return
    const stream = this.order.streams.at(handle)
    const memory = region.whole
    const at = after.length === 0 ? this.order.nextOf(stream) : this.order.afterStreamAndEvents(handle, after)
    this.#look((stack) => this.#operation(at, stream, { what: 'free', kind: 'free', stack, memory }), memory, stream)
  }

  /** Notes a free. One that waits for more than its stream is not work of the stream: what comes later there does not come after it. */
  freed({ pointer, stream: handle, after }: QueuedFree, queue: () => void): void {
    const beside = after.length === 0 ? undefined : this.order.afterStreamAndEvents(handle, after)
    queue()
    this.takenOver(after)
    const region = this.regions.startingAt(pointer)
    if (region === undefined) return
    const stream = beside === undefined ? this.order.arriveAt(handle) : this.order.streams.at(handle)
    this.#free(region, beside ?? stream.advance(), 'free', stream)
  }

  /** Frees memory that belongs to no stream once these events, which the driver takes over, are complete. */
  closing(pointer: Pointer, after: readonly InternalEvent[], close: () => void): void {
    const region = this.regions.startingAt(pointer)
    const handles = after.map(({ event }) => event)
    if (region !== undefined && this.findings.fixes) {
      const memory = region.whole
      const at = this.order.afterEvents(handles)
      this.#look(
        (stack) => this.#operation(at, undefined, { what: 'close', kind: 'free', stack, memory }),
        memory,
        undefined,
      )
    }
    const at = this.order.afterEvents(handles)
    close()
    this.takenOver(after)
    if (region !== undefined) this.#free(region, at, 'close', undefined)
  }

  /** Forgets these events, which the driver destroys. */
  takenOver(events: readonly InternalEvent[]): void {
    for (const { event, release } of events) if (release === undefined) this.order.events.destroyed(event)
  }

  /** Checks the access to pinned memory that JavaScript is about to make. */
  viewed(pointer: Pointer, byteLength: number): void {
    const running = this.order.running.innermost
    const { clock } = running?.past ?? this.order.host
    const at = running === undefined ? this.order.components.nowhere(clock) : { ...running.at, clock }
    const what = running === undefined ? 'a view' : 'a host function'
    const memory: readonly TouchedMemory[] = [touching(pointer, byteLength, 'inout')]
    this.#views.look()
    // The access is only checked, not recorded: work that is queued later comes after it.
    const make = (stack: TakenStack | undefined): CheckedOperation =>
      this.#operation(at, running?.stream, { what, kind: 'javascript', stack, memory }, running)
    this.#look(make, memory, undefined)
    const region = this.regions.at(pointer)
    if (region.kind !== 'pinned') return
    region.isViewed = true
    if (!this.#hasHostFunctions) return
    const stack = this.stacks.sample(region.sites, what, running?.stream ?? this)
    const epoch = running === undefined ? this.order.host.next() : at
    const operation = this.#operation(epoch, running?.stream, { what, kind: 'javascript', stack, memory }, running)
    if (running === undefined) operation.since = this.#turnBegan
    this.#views.asked(region, operation, pointer, pointer + byteLength)
  }

  /** Checks what the host has done with page-locked memory, without a call. */
  usedByHost(what: string, memory: readonly TouchedMemory[]): void {
    const at = this.order.components.nowhere(this.order.host.clock)
    this.#look((stack) => this.#operation(at, undefined, { what, kind: 'host', stack, memory }), memory, undefined)
  }

  /**
   * Takes in what the simulator has observed of a kernel. It reports what nothing else shows: accesses to other memory than the launch says, and what
   * a GPU leaves undefined. Findings that waited for this are reported if the bytes are really shared.
   */
  kernelRan(
    launch: ObservedLaunch,
    exact: readonly TouchedMemory[] | undefined,
    mistakes: readonly KernelMistake[],
  ): void {
    const { what, memory, stack } = launch
    const at = this.order.components.nowhere(this.order.host.clock)
    const operation = launch.operation ?? this.#operation(at, undefined, { what, kind: 'work', stack, memory })
    operation.exact = exact
    operation.awaitsExact = false
    for (const region of new Set(memory.map(({ pointer }) => this.regions.at(pointer)))) region.shared?.ran(operation)
    this.reportHeld(({ first, second }) => first?.operation.awaitsExact !== true && !second.operation.awaitsExact)
    const findings = mistakes.flatMap((mistake) => this.#mistake(operation, mistake) ?? [])
    if (exact !== undefined) noteWrites(operation, launch.shape, exact, (address) => this.regions.at(address))
    // A node of a graph has no place in the order of the streams: nothing is said of its races.
    const isOrdered = launch.operation !== undefined
    for (const piece of exact ?? []) findings.push(...this.#undeclared(operation, piece, isOrdered))
    if (findings.length > 0) this.findings.add(this.findings.gathered(findings, operation), false)
  }

  /** The finding of a mistake of a kernel; undefined if it follows from a race that is reported, or may be one. */
  #mistake(operation: CheckedOperation, { kind, message, memory }: KernelMistake): Finding | undefined {
    if (memory === undefined) return aboutOne(kind, operation, message)
    const { address, bytes } = memory
    const region = this.regions.at(address)
    const finding = unwrittenRead(operation, region, address, address + bytes, message)
    return this.#isRaceHeld(operation, region) ? this.#holdRead(operation, finding) : unlessRaced(operation, finding)
  }

  #isRaceHeld(operation: CheckedOperation, region: Region): boolean {
    return this.#held.some(
      ({ finding: { first, second, region: where } }) =>
        where === region && (first?.operation === operation || second.operation === operation),
    )
  }

  #holdRead(operation: CheckedOperation, finding: Finding): undefined {
    this.#heldReads = [...this.#heldReads, { operation, finding }]
  }

  /** Reports the reads of unwritten memory that a race, which was held, has not explained. */
  #reportHeldReads(): void {
    if (this.#heldReads.length === 0) return
    const isHeld = ({ operation, finding: { region } }: HeldFinding): boolean =>
      region !== undefined && this.#isRaceHeld(operation, region)
    const known = this.#heldReads.filter((read) => !isHeld(read))
    this.#heldReads = this.#heldReads.filter(isHeld)
    for (const { operation, finding } of known) {
      const left = unlessRaced(operation, finding)
      if (left !== undefined) this.findings.add(this.findings.gathered([left], operation), false)
    }
  }

  /** Whether it is to be followed what a copy reads: the simulator knows what was written, and the host gets it. */
  followsReadOf({ name, destination, rows, stream }: QueuedCopy): boolean {
    if (!this.#comparesReads || rows !== undefined) return false
    if (name !== 'download' && this.regions.at(destination).kind !== 'pinned') return false
    return this.order.streams.at(stream).capture === undefined
  }

  /** Reports a copy to the host of the tail that a launch left unwritten whose threads wrote an element each. */
  copyReads({ what, memory, operation: known, end, start }: ObservedRead, isUnwritten: (at: number) => boolean): void {
    const region = this.regions.at(start)
    const { perThread, to: tail } = region.lastLaunch ?? { perThread: undefined, to: 0 }
    if (perThread === undefined || tail <= start || tail >= end || !isUnwritten(tail) || !isUnwritten(end - 1)) return
    const at = this.order.components.nowhere(this.order.host.clock)
    const operation = known ?? this.#operation(at, undefined, { what, kind: 'work', stack: this.stacks.take(), memory })
    const message = `Its last ${end - tail} bytes are what lay there before.`
    const finding = unlessRaced(operation, unwrittenRead(operation, region, tail, end, message))
    if (finding !== undefined) this.findings.add(this.findings.gathered([finding], operation), false)
  }

  /** Reports those of the held findings whose bytes are really shared, as `isKnown` says. */
  reportHeld(isKnown: (finding: Finding) => boolean = () => true): void {
    if (this.#held.length > 0) this.#reportHeld(isKnown)
    this.#reportHeldReads()
  }

  #reportHeld(isKnown: (finding: Finding) => boolean): void {
    const held = this.#held
    for (const { finding } of held) finding.region?.shared?.refresh()
    const known = held.filter(({ finding }) => isKnown(finding))
    this.#held = held.filter(({ finding }) => !isKnown(finding))
    for (const { operation, finding } of known) {
      const { first, second, start, end } = finding
      // A finding is dropped if the real accesses will never be known, since a false report is worse than none.
      if (first?.operation.other !== undefined && first.operation.awaitsExact) continue
      const areShared = first === undefined || meet(touchedBy(first), touchedBy(second), start, end)
      if (areShared) this.#found(operation, [finding], undefined, true)
    }
  }

  /** The report of memory that a kernel touches though its launch does not say so. */
  #undeclared(operation: CheckedOperation, piece: TouchedMemory, isOrdered: boolean): readonly Finding[] {
    const { pointer, byteLength, access } = piece
    const [start, end] = [pointer, pointer + byteLength]
    const around = operation.memory.filter((each) => each.pointer < end && each.pointer + each.byteLength > start)
    const isWithin = around.some((each) => each.pointer <= start && each.pointer + each.byteLength >= end)
    if (isWithin && (access === 'in' || around.some((each) => each.access !== 'in'))) return []
    const [declared] = around
    if (isWithin && declared !== undefined) {
      const says = `Its argument ${declared.argument} is written, from byte ${start - declared.pointer} on: say 'out' or 'inout' in the signature.`
      return [{ ...aboutOne('wrong-signature', operation, says), start, end, second: { operation, access } }]
    }
    const region = this.regions.at(pointer)
    const near = operation.memory.find((each) => this.regions.at(each.pointer) === region)
    const races = isOrdered ? region.ranges.touch(operation, start, end, access) : undefined
    const found = (races ?? []).map((race) => raceOf(race, operation, access, region))
    if (near === undefined || region.kind === 'unknown') return found
    // The first byte that belongs to no argument.
    const outside = start < near.pointer ? start : Math.max(start, near.pointer + near.byteLength)
    const says = `Its argument ${near.argument} has ${near.byteLength} bytes, and it ${access === 'in' ? 'reads' : 'writes'} byte ${outside - near.pointer}: pass all that it needs.`
    return [...found, { ...aboutOne('outside-argument', operation, says), start: outside, end, region }]
  }

  /** Notes that a promise that a stream waits for has settled: what JavaScript has done until now comes before the work behind it. */
  promiseSettled(): void {
    this.#views.look()
    this.#views.forgetReads()
  }

  /** Notes that a host function begins or ends: what JavaScript wrote before this point was not written by what runs after it. */
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

  /** Notes that the host functions that were queued until now may have run. */
  #turned(): void {
    this.#turnBegan = this.#sequence
  }

  /** Reports that bytes which queued work reads have changed without a call: JavaScript wrote through a view that it had kept. */
  #changed(region: Region, read: CheckedOperation, start: number, end: number): void {
    const { host } = this.order
    const at = this.order.components.nowhere(host.clock)
    const memory: readonly TouchedMemory[] = [touching(start as Pointer, end - start, 'out')]
    const taken = this.stacks.take()
    // The event loop may have made this call, with no line of the program on the stack. Then the read's own stack is shown.
    const stack = taken === undefined || shownLines(taken.stack).length > 0 ? taken : read.stack
    const what = region.isArray ? WRITTEN_ARRAY : KEPT_VIEW
    const view = this.#operation(at, undefined, { what, kind: 'javascript', stack, memory })
    this.#found(view, [raceOf({ other: read, access: 'in', start, end }, view, 'out', region)])
  }

  /** Whether queued work reads memory that the program has a view of. */
  get isWatching(): boolean {
    return this.#views.hasReads
  }

  /** Called at each call of the program: compares the bytes that queued work reads with what they were. */
  checkReads(): void {
    this.#views.checkReads()
  }

  hostFunctionQueued(handle: StreamHandle, place: HostFunctionPlace, isOwn: boolean): void {
    if (!isOwn) this.#hostFunctionQueued()
    const stream = this.order.arriveAt(handle)
    const queued = this.stacks.sample(this.#calls, 'host function', stream)
    const launched = (
      on: TrackedStream,
      at: Epoch,
      captured: CapturedWork | undefined,
      stack: TakenStack | undefined,
      launch: GraphLaunch | undefined,
    ): void => {
      this.#sequence += 1
      place.launched({ at, stream: on, captured, queued: stack, sequence: this.#sequence, launch })
    }
    if (stream.capture === undefined) launched(stream, stream.next(), undefined, queued, undefined)
    else stream.capture.put(stream, { kind: 'host', launched }, queued)
  }

  /**
   * Called before a graph is launched, to fix races with its nodes by waits before the launch. A graph that itself waits is
   * left alone: a node that the start of the launch does not order may be ordered by such a wait.
   */
  probeLaunch(instance: GraphInstance | undefined, handle: StreamHandle): void {
    const stream = this.order.streams.at(handle)
    if (instance === undefined || stream.capture !== undefined) return
    for (const { work } of instance.nodes) {
      if (work.kind === 'waitValue' || work.kind === 'writeValue') this.order.values.look(work.word)
    }
    if (!this.findings.fixes || instance.nodes.some(({ work }) => work.kind === 'wait' || work.kind === 'waitValue'))
      return
    for (const { index, work } of instance.nodes) {
      if (work.kind !== 'work' || instance.off.has(index)) continue
      const at = this.order.nextOf(stream)
      const make = (stack: TakenStack | undefined): CheckedOperation =>
        this.#operation(at, stream, { what: work.what, kind: 'work', stack, memory: work.memory }, undefined, work)
      this.#look(make, work.memory, stream)
    }
  }

  /** Notes that a node of a graph instance was updated, and touches this memory from now on. */
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

  /** Notes the launch of a graph. `instance` is undefined if it is older than the sanitizer. */
  launched(what: string, instance: GraphInstance | undefined, handle: StreamHandle): void {
    const stack = this.stacks.sample(this.#calls, what, this.order.streams.at(handle))
    const launch: GraphLaunch = { last: this.#sequence }
    this.order.launch(instance, handle, (stream, work, at) => this.#nodeLaunched(stream, work, at, stack, launch))
    launch.last = this.#sequence
  }

  unrecordedEventAwaited(handle: StreamHandle): void {
    const stream = this.order.streams.at(handle)
    const wait = this.#operation(stream, stream, {
      what: 'wait',
      kind: 'work',
      stack: this.stacks.take(),
      memory: NONE,
    })
    const second = { operation: wait, access: undefined }
    this.findings.add([{ kind: 'unrecorded-event', first: undefined, second, start: 0, end: 0, ...ALONE }])
  }

  #nodeLaunched(
    stream: TrackedStream,
    work: CapturedWork,
    at: Epoch,
    stack: TakenStack | undefined,
    launch: GraphLaunch,
  ): void {
    if (work.kind === 'host') work.launched(stream, at, work, stack, launch)
    if (work.kind !== 'work') return
    const operation = this.#operation(
      at,
      stream,
      { what: work.what, kind: 'work', stack, memory: work.memory },
      undefined,
      work,
    )
    this.#touch(operation, stream, work.regions)
  }

  #free(region: Region, at: Epoch, what: 'free' | 'close', stream: TrackedStream | undefined): void {
    const memory = region.whole
    const stack = this.stacks.sample(this.#calls, what, stream ?? this)
    const free = this.#operation(at, stream, { what, kind: 'free', stack, memory })
    try {
      this.#look((exact) => (exact === undefined ? free : this.#exactly(free, exact)), memory, undefined)
    } finally {
      this.order.values.forget(region.start, region.end)
      region.shared?.freed(free)
      this.regions.free(region, free)
    }
  }

  #touch(operation: CheckedOperation, stream: TrackedStream, regions?: readonly Region[]): void {
    const { memory } = operation
    let findings: readonly Finding[] = []
    for (let index = 0; index < memory.length; index += 1) {
      const piece = memory[index] as TouchedMemory
      const { pointer, byteLength, access } = piece
      if (byteLength === 0) continue
      const region = this.regions.at(pointer)
      region.shared?.refresh()
      const freed = regions?.[index]?.freed ?? region.freed
      const races = freed === undefined ? touched(region, operation, piece) : [goneBy(freed, piece)]
      if (races !== undefined) findings = [...findings, ...races.map((race) => raceOf(race, operation, access, region))]
      if (freed !== undefined) continue
      if (access !== 'in' && region.takesValues) this.order.values.overwritten(pointer, pointer + byteLength, operation)
      if (region.kind === 'pinned' && this.#comparesReads)
        this.#views.queued(region, operation, pointer, byteLength, access)
      this.regions.touched(this.order.components.all)
      if (region.kind !== 'foreign' || !this.#isAskedAbout(region, stream)) continue
      const second = { operation, access }
      const bytes = { start: pointer, end: pointer + byteLength }
      findings = [...findings, { kind: 'foreign-memory', first: undefined, second, ...bytes, ...ALONE }]
    }
    if (findings.length > 0) this.#found(this.#exactly(operation, undefined), findings)
  }

  /**
   * Finds what races with an operation that is not recorded. Its stack is taken only if there is something to report. If races are fixed, `stream`
   * waits, or JavaScript if there is no stream.
   */
  #look(
    make: (stack: TakenStack | undefined) => CheckedOperation,
    memory: readonly TouchedMemory[],
    stream: TrackedStream | undefined,
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
    if (findings.length > 0) this.#found(operation, findings, (others) => this.#fix(operation, others, stream))
  }

  #found(
    operation: CheckedOperation,
    findings: readonly Finding[],
    fix?: (awaited: readonly CheckedOperation[]) => boolean,
    isExact = false,
  ): void {
    if (findings.length === 0) return
    const { throws: throwsAny, fixes } = this.findings
    const awaitsExact = ({ first, second }: Finding): boolean =>
      !isExact && (second.operation.awaitsExact || first?.operation.awaitsExact === true)
    if (!throwsAny && !fixes && findings.some(awaitsExact)) {
      this.#held = [...this.#held, ...findings.filter(awaitsExact).map((finding) => ({ operation, finding }))]
      this.#found(
        operation,
        findings.filter((finding) => !awaitsExact(finding)),
        fix,
      )
      return
    }
    // Work behind a promise that is not resolved yet may still come after this operation. For work of another thread the order may not have been
    // known all the time.
    const isUnknown = ({ operation: { other } }: Finding['second']): boolean =>
      other !== undefined && other.era !== watchedEra()
    const isUndecided = ({ first, second }: Finding): boolean =>
      [first, second].some(
        (side) => side !== undefined && (this.order.pendingWaits.comeBefore(side.operation) || isUnknown(side)),
      )
    // No event tells any more what a device that has faulted is done with, and it uses nothing: memory is freed after that in any order.
    const isOver = ({ first }: Finding): boolean =>
      operation.kind === 'free' && first?.operation.stream !== undefined && this.#isLost(first.operation.stream.device)
    const isDropped = (finding: Finding): boolean => isUndecided(finding) || isOver(finding)
    if (findings.some(isDropped)) {
      this.#found(
        operation,
        findings.filter((finding) => !isDropped(finding)),
        fix,
      )
      return
    }
    for (const { first, second, region } of findings) {
      for (const side of [first, second]) {
        if (side !== undefined && region !== undefined) raced(side.operation, region)
        reported(side?.operation.stack)
        reported(side?.operation.inside?.queued)
      }
    }
    const left = this.findings.gathered(findings, operation)
    if (left.length === 0) return
    // Writes of JavaScript have happened already, and cannot be refused.
    const throws = this.findings.throws && (operation.kind !== 'javascript' || fix !== undefined)
    if (!this.findings.fixes) {
      this.findings.add(left, throws)
      return
    }
    // An operation can wait only for operations that were called before it.
    const awaited = left.every((finding) => finding.awaited !== undefined) ? (left[0]?.awaited ?? []) : []
    const fixed = fix?.(awaited) === true
    this.findings.add(
      left.map((finding) => ({ ...finding, fixed })),
      throws,
    )
  }

  #isLost(device: number): boolean {
    const { devices } = this.driver
    try {
      devices.contextCheck(devices.context(device))
      return false
    } catch (error) {
      if (error instanceof CudaError) return true
      throw error
    }
  }

  /** Queues the missing waits before an operation that is about to happen, if that is the order the program meant. */
  #fix(operation: CheckedOperation, awaited: readonly CheckedOperation[], stream: TrackedStream | undefined): boolean {
    const canBe = (other: CheckedOperation): boolean =>
      other.kind !== 'free' && other.other === undefined && !comesFromBefore(other, operation)
    const streams = awaited.flatMap((other) => (other.stream !== undefined && canBe(other) ? [other.stream] : []))
    if (streams.length === 0 || streams.length < awaited.length) return false
    return stream === undefined ? this.#fixer.waitOnHost(streams) : this.#fixer.queueWaits(stream, streams)
  }

  /** Replaces a sampled stack by that of the call under way. */
  #exactly(operation: CheckedOperation, stack: TakenStack | undefined): CheckedOperation {
    if (operation.stack?.exact === false) operation.stack = stack ?? this.stacks.take()
    return operation
  }

  /**
   * Whether memory of another library is used here for the first time on a stream that follows no foreign stream. True once for each region and
   * stream.
   */
  #isAskedAbout(region: Region, stream: TrackedStream): boolean {
    if (this.order.streams.foreignCount === 0 || region.askedAbout.has(stream)) return false
    region.askedAbout.add(stream)
    return !this.order.followsForeignStream(stream)
  }

  #operation(
    at: Epoch,
    stream: OperationStream | undefined,
    { what, kind, stack, memory }: OperationFacts,
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

/** What an operation is, wherever it is queued. */
interface OperationFacts {
  readonly what: string
  readonly kind: CheckedOperationKind
  readonly stack: TakenStack | undefined
  readonly memory: readonly TouchedMemory[]
}

/** A finding that waits for the real accesses of a kernel, with the operation of that kernel. */
interface HeldFinding {
  readonly operation: CheckedOperation
  readonly finding: Finding
}

/** A launch of a kernel, or a node of a graph, whose run the simulator reports. */
export class ObservedLaunch implements LaunchObserver {
  isTold = false
  /** The operation of the launch; undefined for a node of a graph, which may run many times. */
  operation: CheckedOperation | undefined
  stack: TakenStack | undefined

  constructor(
    private readonly detector: Detector,
    readonly what: string,
    readonly memory: readonly TouchedMemory[],
    readonly shape: LaunchShape,
  ) {}

  /** Takes the operation that the detector has made of the launch. */
  queued(operation: CheckedOperation | undefined): void {
    if (!this.isTold) return
    this.operation = operation
    if (operation === undefined) this.stack = this.detector.stacks.take()
    else operation.awaitsExact = true
  }

  ran(exact: readonly TouchedMemory[] | undefined, mistakes: readonly KernelMistake[]): void {
    this.detector.kernelRan(this, exact, mistakes)
  }
}

/** A copy to the host, whose read of memory the simulator reports. */
export class ObservedRead {
  readonly what: string
  readonly start: number
  readonly end: number
  operation: CheckedOperation | undefined

  constructor(
    private readonly detector: Detector,
    { name, source, byteLength }: QueuedCopy,
    readonly memory: readonly TouchedMemory[],
  ) {
    this.what = name
    this.start = source
    this.end = source + byteLength
  }

  ran(isUnwritten: (address: number) => boolean): void {
    this.detector.copyReads(this, isUnwritten)
  }
}

/** Notes that an operation is one side of a race in a region. */
function raced(operation: CheckedOperation, region: Region): void {
  operation.racedIn ??= new Set()
  operation.racedIn.add(region)
}

/** A finding of unwritten bytes, unless a race is why the operation finds them so: that one is reported. */
const unlessRaced = ({ racedIn }: CheckedOperation, finding: Finding): Finding | undefined =>
  finding.region !== undefined && racedIn?.has(finding.region) === true ? undefined : finding

/** The finding of a read of unwritten bytes, with the launch that left them so, if there is one. */
function unwrittenRead(
  operation: CheckedOperation,
  region: Region,
  start: number,
  end: number,
  message: string,
): Finding {
  const left = leftBy(region, end)
  const last = left === undefined ? undefined : region.lastLaunch
  return {
    ...aboutOne(
      'uninitialised-read',
      operation,
      left === undefined ? message : `${message.replace(/\.$/, '')}. ${upperCased(left)}`,
    ),
    ...{ start, end, region: region.kind === 'unknown' ? undefined : region },
    first: last && { operation: last.operation, access: 'out' },
    second: { operation, access: 'in' },
  }
}

const upperCased = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`

const touchedBy = ({ operation, access }: Finding['second']): readonly TouchedMemory[] =>
  operation.exact ?? operation.memory.map((each) => ({ ...each, access: access ?? each.access }))

/** A finding about one operation. */
function aboutOne(kind: Finding['kind'], operation: CheckedOperation, says: string): Finding {
  return { kind, first: undefined, second: { operation, access: undefined }, start: 0, end: 0, ...ALONE, says }
}

const goneBy = (freed: CheckedOperation, { pointer, byteLength }: TouchedMemory): RaceFound => {
  return { other: freed, access: 'out', start: pointer, end: pointer + byteLength }
}

/** Records that an operation touches memory, and returns its races. */
function touched(region: Region, operation: CheckedOperation, piece: TouchedMemory): RacesFound {
  const { pointer, byteLength, access } = piece
  if (region.shared !== undefined) return region.shared.touch(operation, piece)
  return region.ranges.touch(operation, pointer, pointer + byteLength, access)
}

/** The races of an operation that is not recorded. */
function racesIn(region: Region, operation: CheckedOperation, piece: TouchedMemory): RacesFound {
  region.shared?.refresh()
  const { pointer, byteLength, access } = piece
  const races = region.ranges.look(operation, pointer, pointer + byteLength, access)
  const all = region.freed === undefined ? races : [goneBy(region.freed, piece), ...(races ?? [])]
  // Two accesses by JavaScript are not compared here, but by the bytes, in PinnedViews.
  return operation.kind === 'javascript' ? all?.filter(({ other }) => other.kind !== 'javascript') : all
}

/** Notes that a stack was reported. A sampled one may be that of another call, so from now on each call of its site has its own stack taken. */
function reported(stack: TakenStack | undefined): void {
  if (stack?.site !== undefined) stack.site.isReported = true
}

/** Queues the waits that are missing. */
export class Fixer {
  constructor(
    private readonly driver: Driver,
    private readonly order: HappensBefore,
  ) {}

  /** Makes the stream wait for all queued work of the others. Returns false if that is not possible. */
  queueWaits(stream: TrackedStream, others: Iterable<OperationStream>): boolean {
    return attempted(() => {
      for (const other of others) {
        if (stream.isCapturing || other.isCapturing) return false
        if (!(other.closed ? this.#waitForDevice(stream, other) : this.#waitFor(stream, other))) return false
      }
      return true
    })
  }

  /** Blocks the JavaScript thread until the streams are idle. Returns false if it cannot wait for them. */
  waitOnHost(others: Iterable<OperationStream>): boolean {
    const { driver } = this
    return attempted(() => {
      for (const { handle, device, closed } of others) {
        const work = closed ? this.order.workOfDevice(device) : this.order.workOf(handle)
        if (closed) driver.devices.synchronize(device)
        else driver.streams.synchronize(handle)
        this.order.hostWaitedFor(work)
      }
      return true
    })
  }

  #waitFor(stream: TrackedStream, other: OperationStream): boolean {
    this.driver.streams.waitStream(stream.handle, other.handle, this.#contextOf(other))
    this.order.waitForStream(stream.handle, other.handle)
    return true
  }

  /** No event can be recorded on a closed stream, so this waits for all work of its device. */
  #waitForDevice(stream: TrackedStream, { device }: OperationStream): boolean {
    const { driver } = this
    const context = driver.devices.context(device)
    const event = driver.events.create(context, EventFlag.DISABLE_TIMING, true)
    try {
      if (!driver.devices.recordInternal(event, device)) return false
      driver.streams.waitEvent(stream.handle, event, 0)
      for (const epoch of this.order.workOfDevice(device)) stream.join(epoch)
      return true
    } finally {
      driver.events.recycle(context, event)
    }
  }

  #contextOf({ handle, device }: OperationStream): ContextHandle {
    return this.driver.streams.wrap(cudaHandleOf(handle), device).context
  }
}

/** Runs a fix. If the driver refuses a wait, the report says that the race was not fixed. */
function attempted(fix: () => boolean): boolean {
  try {
    return fix()
  } catch {
    return false
  }
}
