/** Holds each use of memory against those before it. */
import type { GraphExecHandle, OwnEvent, Pointer, StreamHandle } from '../driver/driver.js'
import { NOWHERE, type StrandPoint } from './clocks.js'
import type { Findings } from './findings.js'
import type { HappensBefore } from './happens-before.js'
import { HostFunctionPlace } from './host-functions.js'
import { CheckedOperation, type CheckedOperationKind, type StreamName, type Touched } from './operations.js'
import { gathered, raceOf } from './races.js'
import type { Found } from './ranges.js'
import { type Region, Regions } from './regions.js'
import type { Finding } from './reports.js'
import { type Site, StackSampler, type TakenStack, takeOwnStack } from './stacks.js'
import type { CapturedWork, StreamStrand } from './streams.js'

/** Which operations have their stack taken. */
export type Stacks = 'sampled' | 'all' | 'none'

export class Detector {
  readonly regions = new Regions()
  #sequence = 0
  readonly #sampler = new StackSampler()
  /** Of calls that are not uses of one piece of memory. */
  readonly #calls: Site[] = []

  constructor(
    readonly order: HappensBefore,
    private readonly findings: Findings,
    private readonly stacks: Stacks,
  ) {}

  /** Called before work is queued: where races are thrown, the work is refused. */
  probe(handle: StreamHandle, what: string, memory: readonly Touched[]): void {
    if (!this.findings.throws) return
    const stream = this.order.streams.at(handle)
    if (stream.capture !== undefined) return
    const at = this.order.nextOf(stream)
    const findings = this.#racesOf((stack) => this.#operation(at, stream, what, 'work', stack, undefined), memory)
    if (findings.length > 0) this.findings.add(findings)
  }

  /** Work was queued that touches memory. */
  work(handle: StreamHandle, what: string, memory: readonly Touched[], kind: CheckedOperationKind = 'work'): void {
    const stream = this.order.arriveAt(handle)
    const [main] = memory
    if (main === undefined) return
    const sites = kind === 'work' ? this.regions.at(main.pointer).sites : this.#calls
    const stack = this.#stack(sites, what, stream)
    if (stream.capture !== undefined) {
      stream.capture.add(stream, this.#captured(what, memory, stream, stack))
      return
    }
    const at = this.order.next(stream)
    this.#touch(this.#operation(at, stream, what, kind, stack, undefined), memory, stream)
  }

  allocated(pointer: Pointer, byteLength: number, handle: StreamHandle): void {
    this.regions.allocated(pointer, byteLength, 'device')
    this.work(handle, 'allocation', [{ pointer, byteLength, access: 'out' }], 'allocation')
  }

  freed(pointer: Pointer, handle: StreamHandle): void {
    const region = this.regions.startingAt(pointer)
    if (region === undefined) return
    const stream = this.order.arriveAt(handle)
    const stack = this.#stack(this.#calls, 'free', stream)
    this.#free(region, this.#operation(this.order.next(stream), stream, 'free', 'free', stack, undefined))
  }

  /** Memory that belongs to no stream is given back once these events, which the driver takes over, are done. */
  closing(pointer: Pointer, after: readonly OwnEvent[], close: () => void): void {
    const at = this.order.afterEvents(after.map(({ event }) => event))
    close()
    this.takenOver(after)
    const region = this.regions.startingAt(pointer)
    if (region === undefined) return
    const stack = this.#stack(this.#calls, 'close', this)
    this.#free(region, this.#operation(at, undefined, 'close', 'free', stack, undefined))
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
    // Looked at only: what is queued later comes after it, and a host function that runs later does too.
    const findings = this.#racesOf(
      (stack) => this.#operation(at, running?.stream, what, 'javascript', stack, running?.captured, running?.sequence),
      [{ pointer, byteLength, access: 'inout' }],
    )
    if (findings.length > 0) this.findings.add(findings)
  }

  /** Where a host function will run. */
  hostFunctionPlace(): HostFunctionPlace {
    return new HostFunctionPlace(this.order)
  }

  hostFunctionQueued(handle: StreamHandle, place: HostFunctionPlace): void {
    const stream = this.order.arriveAt(handle)
    const launched = (on: StreamStrand, at: StrandPoint, captured: CapturedWork | undefined): void => {
      this.#sequence += 1
      place.launched({ at, stream: on, captured, sequence: this.#sequence })
    }
    if (stream.capture === undefined) launched(stream, this.order.next(stream), undefined)
    else stream.capture.add(stream, { kind: 'host', launched, stream, stack: this.takeStack() })
  }

  launched(exec: GraphExecHandle, handle: StreamHandle): void {
    const stack = this.#stack(this.#calls, `launch of graph ${exec}`, this.order.streams.at(handle))
    this.order.launch(exec, handle, (stream, work, at) => this.#nodeLaunched(stream, work, at, stack))
  }

  waitedInVain(handle: StreamHandle): void {
    const stream = this.order.streams.at(handle)
    const stack = this.#stack(this.#calls, 'wait', stream)
    const wait = this.#operation(stream, stream, 'wait', 'work', stack, undefined)
    const second = { operation: wait, access: undefined }
    this.findings.add([{ kind: 'unrecorded-event', first: undefined, second, start: 0, end: 0 }])
  }

  #nodeLaunched(stream: StreamStrand, work: CapturedWork, at: StrandPoint, stack: TakenStack | undefined): void {
    if (work.kind === 'host') work.launched(stream, at, work)
    if (work.kind !== 'work') return
    this.#touch(this.#operation(at, stream, work.what, 'work', stack, work), work.memory, stream, work.regions)
  }

  #captured(
    what: string,
    memory: readonly Touched[],
    stream: StreamStrand,
    stack: TakenStack | undefined,
  ): CapturedWork {
    const regions = memory.map(({ pointer }) => this.regions.at(pointer))
    const copied = memory.map(({ pointer, byteLength, access }) => ({ pointer, byteLength, access }))
    return { kind: 'work', what, memory: copied, regions, stream, stack }
  }

  #free(region: Region, free: CheckedOperation): void {
    const findings = this.#racesOf(() => free, wholeOf(region))
    this.regions.free(region, free)
    if (findings.length > 0) this.findings.add(findings)
  }

  #touch(
    operation: CheckedOperation,
    memory: readonly Touched[],
    stream: StreamStrand,
    regions?: readonly Region[],
  ): void {
    let findings: Finding[] | undefined
    for (let index = 0; index < memory.length; index += 1) {
      const { pointer, byteLength, access } = memory[index] as Touched
      if (byteLength === 0) continue
      const region = this.regions.at(pointer)
      const pending = region.mayBePinned ? this.order.pending : undefined
      const freed = regions?.[index]?.freed ?? region.freed
      const found: Found = (other, itsAccess, start, end) => {
        findings ??= []
        findings.push(raceOf(other, itsAccess, operation, access, start, end))
      }
      if (freed !== undefined) {
        found(freed, 'out', pointer, pointer + byteLength)
        continue
      }
      region.ranges.touch(operation, pointer, pointer + byteLength, access !== 'in', found, pending)
      this.regions.touched(this.order.host, this.order.pending)
      if (region.kind === 'foreign' && this.#isAskedAbout(region, stream)) {
        findings ??= []
        const second = { operation, access }
        findings.push({ kind: 'foreign-memory', first: undefined, second, start: pointer, end: pointer + byteLength })
      }
    }
    if (findings !== undefined) this.findings.add(gathered(findings, operation))
  }

  /** The stack is taken only where there is something to tell. */
  #racesOf(make: (stack: TakenStack | undefined) => CheckedOperation, memory: readonly Touched[]): Finding[] {
    let operation = make(undefined)
    const findings: Finding[] = []
    for (const { pointer, byteLength, access } of memory) {
      const found: Found = (other, itsAccess, start, end) => {
        if (findings.length === 0) operation = make(this.takeStack())
        findings.push(raceOf(other, itsAccess, operation, access, start, end))
      }
      const { ranges, freed } = this.regions.at(pointer)
      if (freed !== undefined) found(freed, 'out', pointer, pointer + byteLength)
      ranges.look(operation, pointer, pointer + byteLength, access !== 'in', found)
    }
    return gathered(findings, operation)
  }

  /** Of each region and stream once. */
  #isAskedAbout(region: Region, stream: StreamStrand): boolean {
    if (this.order.streams.foreignCount === 0 || region.askedAbout.has(stream)) return false
    region.askedAbout.add(stream)
    return !this.order.followsForeignStream(stream)
  }

  #operation(
    at: StrandPoint,
    stream: StreamName | undefined,
    what: string,
    kind: CheckedOperationKind,
    stack: TakenStack | undefined,
    captured: CapturedWork | undefined,
    sequence?: number,
  ): CheckedOperation {
    if (sequence === undefined) this.#sequence += 1
    return new CheckedOperation(at, sequence ?? this.#sequence, what, kind, stream, stack, captured)
  }

  #stack(sites: Site[], what: string, by: object): TakenStack | undefined {
    return this.stacks === 'sampled' ? this.#sampler.take(sites, what, by) : this.takeStack()
  }

  /** The stack of the call under way, where stacks are taken at all. */
  takeStack(): TakenStack | undefined {
    return this.stacks === 'none' ? undefined : { stack: takeOwnStack(), exact: true }
  }
}

function wholeOf(region: Region): readonly Touched[] {
  return [{ pointer: region.start as Pointer, byteLength: region.end - region.start, access: 'out' }]
}
