/** Checks each use of memory against those before it. */
import type { OwnEvent, Pointer, StreamHandle } from '../driver/driver.js'
import { NOWHERE, type StrandPoint } from './clocks.js'
import { type Findings, raceOf } from './findings.js'
import type { GraphInstance } from './graph-instance.js'
import type { HappensBefore } from './happens-before.js'
import type { HostFunctionPlace } from './host-functions.js'
import { CheckedOperation, type CheckedOperationKind, type StreamName, type Touched } from './operations.js'
import type { RaceFound } from './ranges.js'
import { type Region, Regions } from './regions.js'
import type { Finding } from './reports.js'
import { plain, scatteredOf } from './rows.js'
import type { SampledSite, Stacks, TakenStack } from './stacks.js'
import type { CapturedWork, StreamStrand } from './streams.js'

const NONE: readonly Touched[] = []

export class Detector {
  readonly regions: Regions
  #sequence = 0
  /** Of calls that are not uses of one piece of memory. */
  readonly #calls: SampledSite[] = []

  constructor(
    readonly order: HappensBefore,
    private readonly findings: Findings,
    readonly stacks: Stacks,
  ) {
    this.regions = new Regions(order.pending)
  }

  /** Called before work is queued: where races are thrown, the work is refused. */
  probe(handle: StreamHandle, what: string, memory: readonly Touched[]): void {
    if (!this.findings.throws) return
    const stream = this.order.streams.at(handle)
    if (stream.capture !== undefined) return
    const at = this.order.nextOf(stream)
    this.#look((stack) => this.#operation(at, stream, what, 'work', stack, memory), memory)
  }

  /** Work was queued that touches memory. */
  work(handle: StreamHandle, what: string, memory: readonly Touched[], kind: CheckedOperationKind = 'work'): void {
    const stream = this.order.arriveAt(handle)
    const [main] = memory
    if (main === undefined) return
    const sites = kind === 'work' ? this.regions.at(main.pointer).sites : this.#calls
    const stack = this.stacks.sample(sites, what, stream)
    if (stream.capture !== undefined) {
      const regions = memory.map(({ pointer }) => this.regions.at(pointer))
      const copied = memory.map(plain)
      stream.capture.add(stream, { kind: 'work', what, memory: copied, regions, stream, stack })
      return
    }
    const at = stream.next()
    this.#touch(this.#operation(at, stream, what, kind, stack, memory), memory, stream)
  }

  allocated(pointer: Pointer, byteLength: number, handle: StreamHandle): void {
    this.regions.allocated(pointer, byteLength, 'device')
    this.work(handle, 'allocation', [{ pointer, byteLength, access: 'out' }], 'allocation')
  }

  freed(pointer: Pointer, handle: StreamHandle): void {
    const region = this.regions.startingAt(pointer)
    if (region === undefined) return
    const stream = this.order.arriveAt(handle)
    const stack = this.stacks.sample(this.#calls, 'free', stream)
    this.#free(region, this.#operation(stream.next(), stream, 'free', 'free', stack))
  }

  /** Memory that belongs to no stream is given back once these events, which the driver takes over, are done. */
  closing(pointer: Pointer, after: readonly OwnEvent[], close: () => void): void {
    const at = this.order.afterEvents(after.map(({ event }) => event))
    close()
    this.takenOver(after)
    const region = this.regions.startingAt(pointer)
    if (region === undefined) return
    const stack = this.stacks.sample(this.#calls, 'close', this)
    this.#free(region, this.#operation(at, undefined, 'close', 'free', stack))
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
    // Looked at only: work that is queued later comes after it, and a host function that runs later does too.
    this.#look(
      (stack) =>
        this.#operation(at, running?.stream, what, 'javascript', stack, NONE, running?.captured, running?.sequence),
      [{ pointer, byteLength, access: 'inout' }],
    )
  }

  hostFunctionQueued(handle: StreamHandle, place: HostFunctionPlace): void {
    const stream = this.order.arriveAt(handle)
    const launched = (on: StreamStrand, at: StrandPoint, captured: CapturedWork | undefined): void => {
      this.#sequence += 1
      place.launched({ at, stream: on, captured, sequence: this.#sequence })
    }
    if (stream.capture === undefined) launched(stream, stream.next(), undefined)
    else stream.capture.add(stream, { kind: 'host', launched, stream, stack: this.stacks.take() })
  }

  /** `instance` is undefined where it is older than the sanitizer. */
  launched(what: string, instance: GraphInstance | undefined, handle: StreamHandle): void {
    const stack = this.stacks.sample(this.#calls, what, this.order.streams.at(handle))
    this.order.launch(instance, handle, (stream, work, at) => this.#nodeLaunched(stream, work, at, stack))
  }

  waitedInVain(handle: StreamHandle): void {
    const stream = this.order.streams.at(handle)
    const stack = this.stacks.sample(this.#calls, 'wait', stream)
    const wait = this.#operation(stream, stream, 'wait', 'work', stack)
    const second = { operation: wait, access: undefined }
    this.findings.add([{ kind: 'unrecorded-event', first: undefined, second, start: 0, end: 0 }], wait)
  }

  #nodeLaunched(stream: StreamStrand, work: CapturedWork, at: StrandPoint, stack: TakenStack | undefined): void {
    if (work.kind === 'host') work.launched(stream, at, work)
    if (work.kind !== 'work') return
    this.#touch(this.#operation(at, stream, work.what, 'work', stack, work.memory, work), work.memory, stream, work.regions)
  }

  #free(region: Region, free: CheckedOperation): void {
    const whole = { pointer: region.start as Pointer, byteLength: region.end - region.start, access: 'out' } as const
    try {
      this.#look(() => free, [whole])
    } finally {
      this.regions.free(region, free)
    }
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
      const freed = regions?.[index]?.freed ?? region.freed
      const found: RaceFound = (other, itsAccess, start, end) => {
        findings ??= []
        findings.push(raceOf(other, itsAccess, operation, access, start, end))
      }
      if (freed !== undefined) {
        found(freed, 'out', pointer, pointer + byteLength)
        continue
      }
      region.ranges.touch(operation, pointer, pointer + byteLength, access, found)
      this.regions.touched(this.order.host)
      if (region.kind === 'foreign' && this.#isAskedAbout(region, stream)) {
        findings ??= []
        const second = { operation, access }
        findings.push({ kind: 'foreign-memory', first: undefined, second, start: pointer, end: pointer + byteLength })
      }
    }
    if (findings !== undefined) this.findings.add(findings, operation)
  }

  /** Finds what races with an operation that is not written down. Its stack is taken only where there is something to tell. */
  #look(make: (stack: TakenStack | undefined) => CheckedOperation, memory: readonly Touched[]): void {
    let operation = make(undefined)
    const findings: Finding[] = []
    for (const { pointer, byteLength, access } of memory) {
      const found: RaceFound = (other, itsAccess, start, end) => {
        if (findings.length === 0) operation = make(this.stacks.take())
        findings.push(raceOf(other, itsAccess, operation, access, start, end))
      }
      const { ranges, freed } = this.regions.at(pointer)
      if (freed !== undefined) found(freed, 'out', pointer, pointer + byteLength)
      ranges.look(operation, pointer, pointer + byteLength, access, found)
    }
    if (findings.length > 0) this.findings.add(findings, operation)
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
    memory: readonly Touched[] = NONE,
    captured?: CapturedWork,
    sequence?: number,
  ): CheckedOperation {
    if (sequence === undefined) this.#sequence += 1
    return new CheckedOperation(at, sequence ?? this.#sequence, what, kind, stream, stack, captured, scatteredOf(memory))
  }
}
