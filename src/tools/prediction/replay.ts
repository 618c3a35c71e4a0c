/** Plays a run in the virtual time of the simulator, as it was recorded or with a change. */
import type { ContextHandle, StreamHandle } from '../../foundation/driver/handle-types.js'
import { SimDevice, SimOperation, SimStream } from '../../simulator/machine/machine-state.js'
import { DevicePools } from '../../simulator/machine/pools.js'
import type { HostWait, Steps } from '../../simulator/machine/scheduler.js'
import { TimedScheduler } from '../../simulator/machine/timed-scheduler.js'
import { SimOperationKind, type Work } from '../../simulator/machine/work.js'
import { follow, type MeasuredRun } from './measured-run.js'
import type { Operation, RecordedRun, RecordedStream, Step } from './run.js'
import { isHeldByHost, StreamOrder } from './stream-order.js'

/** The differences from the recording. Steps are given by their numbers. */
export interface Change {
  /** The waits that are left out. */
  readonly without?: ReadonlySet<number>
  /** The operations that get streams of their own; those with the same key get the same stream. */
  readonly moved?: ReadonlyMap<number, string>
  /** The operations that each operation comes after by the memory that they touch, if some are moved. */
  readonly data?: ReadonlyMap<number, readonly number[]>
  /** The part of its time that each kernel takes; keys are names of kernels. */
  readonly times?: ReadonlyMap<string, number>
  /** Whether the recorder takes its time again. */
  readonly recorder?: true
  /** The part of the host's own time that the host takes. */
  readonly hostTime?: number
  /** The number of hardware queues that the streams share. */
  readonly queues?: number
  /** The waits that wait for what the wait before them, of the same key, waited for. */
  readonly lagging?: ReadonlyMap<number, string>
  /** The host functions that later work of their streams does not come after. */
  readonly aside?: ReadonlySet<number>
  /** The host functions that run when they are due, with the nanoseconds that they take. */
  readonly due?: ReadonlyMap<number, number>
  /** The operations that begin as soon as they may. */
  readonly prompt?: ReadonlySet<number>
  /** The steps that take the host no time. */
  readonly instant?: ReadonlySet<number>
  /** The streams that the null stream does not wait for, nor they for it, by their indices. */
  readonly nonBlocking?: ReadonlySet<number>
  /** Whether launches of one instance of a graph do not wait for each other. */
  readonly areInstancesApart?: true
  /** Whether the device has engines and room for all that may begin. */
  readonly isRoomy?: true
}

/** The number of places for kernels that the simulator has on a device. */
const PLACES = 128
/** The places that blocks of a kernel take together: if not all of them have room, the others begin later. */
const PLACES_OF_PART = 16
/** The number of an engine that stands for the memory of the first device, beside those that the simulator has. */
const MEMORY = 1_000_000

/** Work for which the simulator reserves a copy engine, or a number of kernel slots. */
class Occupying implements Work {
  readonly what = 'recorded work'
  readonly name = 'recorded work'
  readonly touches = []
  readonly byteLength = undefined
  readonly shape = undefined

  constructor(
    readonly engine: number | undefined,
    readonly slots: number,
  ) {}

  effect(): void {}
}

/** The nanoseconds that the run takes with the change. */
export function playAgain(run: RecordedRun, measured: MeasuredRun, change: Change = {}): number {
  return new Replay(run, measured, change).play()
}

class Replay implements Steps {
  readonly #scheduler = new TimedScheduler(this, 0)
  readonly #order: StreamOrder<SimOperation>
  readonly #devices = new Map<number, SimDevice>()
  readonly #simStreams = new Map<RecordedStream, SimStream>()
  readonly #own = new Map<string, readonly SimOperation[]>()
  readonly #works = new Map<string, Work>()
  /** The operation that ends with each step, if others may come after it by memory; keys are numbers of steps. */
  readonly #ends = new Map<number, SimOperation>()
  /** The operations that the host has to let go; keys are the calls that queued them. */
  readonly #held = new Map<number, SimOperation>()
  readonly #begun = new Map<number, readonly SimOperation[]>()
  /** The operations for which the latest lagging wait of each key would have waited. */
  readonly #lagged = new Map<string, readonly SimOperation[]>()
  /** The operation that is over when the latest operation of each hardware queue could begin. */
  readonly #queues = new Map<number, SimOperation>()
  #sequence = 0
  /** The time of the host. */
  #host = 0

  constructor(
    private readonly run: RecordedRun,
    private readonly measured: MeasuredRun,
    private readonly change: Change,
  ) {
    const { nonBlocking, areInstancesApart } = change
    const rules = { nonBlocking, areInstancesApart }
    this.#order = new StreamOrder<SimOperation>((all) => all.filter(({ over }) => !over), rules)
  }

  computeBefore(): boolean {
    return true
  }

  computeResults(): boolean {
    return true
  }

  play(): number {
    const { hostTime = 1, recorder } = this.change
    let before = this.measured.began
    for (const [index, step] of this.run.steps.entries()) {
      const gap = Math.max(0, step.began - before - (recorder === true ? 0 : step.own)) * hostTime
      if (!this.measured.alone.has(index)) this.#step(step, index, gap)
      before = step.ended
    }
    while (this.#scheduler.step()) {}
    return Math.max(this.#host, this.#scheduler.now)
  }

  #step(step: Step, index: number, gap: number): void {
    if (step.what === 'go' || step.what === 'seen') {
      this.#wait(step, index, gap)
      return
    }
    this.#pass(gap)
    if (step.what === 'operation') this.#operation(step, index)
    else if (step.what === 'begin') this.#begun.set(index, this.#awaited(index, this.#order.awaited(step.awaited)))
    else if (step.what === 'let') this.#letGo(step.operation)
    else if (step.what === 'wait' || step.what === 'waitStream') this.#streamWait(step, index)
    else follow(this.#order, step)
    if (this.change.instant?.has(index) !== true) this.#pass(step.ended - step.began)
  }

  #streamWait(step: Extract<Step, { readonly what: 'wait' | 'waitStream' }>, index: number): void {
    if (this.change.without?.has(index) === true) return
    if (this.change.lagging?.has(index) !== true) {
      follow(this.#order, step)
      return
    }
    const now = step.what === 'wait' ? this.#order.orderOf(step.event) : this.#order.before(step.other)
    this.#order.join(step.stream, this.#awaited(index, now))
  }

  /** The operations that are really waited for: with one more buffer in the ring, those for which the wait before waited. */
  #awaited(index: number, now: readonly SimOperation[]): readonly SimOperation[] {
    const key = this.change.lagging?.get(index)
    if (key === undefined) return now
    const earlier = this.#lagged.get(key) ?? []
    this.#lagged.set(key, now)
    return earlier
  }

  /** Lets the host wait, unless the wait is left out. */
  #wait(step: Extract<Step, { readonly what: 'go' | 'seen' }>, index: number, gap: number): void {
    const begun = step.what === 'go' ? step.begun : index
    const reaction = this.measured.reaction[index] ?? Number.NaN
    if (this.change.without?.has(begun) === true) {
      if (Number.isNaN(reaction)) this.#pass(gap)
      return
    }
    const awaited = step.what === 'go' ? (this.#begun.get(begun) ?? []) : this.#order.awaited(step.awaited)
    this.#begun.delete(begun)
    if (Number.isNaN(reaction)) this.#pass(gap + step.ended - step.began)
    for (const operation of awaited) this.#block(operation)
    if (Number.isNaN(reaction)) this.#host = Math.max(this.#host, latestEnd(awaited))
    else this.#host = Math.max(this.#host, latestEnd(awaited)) + Math.max(0, reaction)
    this.#scheduler.passUntil(this.#host)
  }

  #block(operation: SimOperation): void {
    const wait: HostWait = { last: operation, room: undefined, isOver: () => operation.over, needs: () => false }
    this.#scheduler.block(wait, 'none')
  }

  #pass(nanoseconds: number): void {
    this.#host += Math.max(0, nanoseconds)
    this.#scheduler.passUntil(this.#host)
  }

  #operation(step: Operation, index: number): void {
    const { moved, data, times, queues, aside } = this.change
    const key = moved?.get(index)
    const order = key === undefined ? this.#order.beforeOperation(step) : (this.#own.get(key) ?? [])
    const byMemory = (data?.get(index) ?? []).flatMap((other) => this.#ends.get(other) ?? [])
    const before = byMemory.length === 0 ? order : [...order, ...byMemory]
    const queue = queues === undefined ? undefined : queueOf(step.stream, key, queues, this.run.streams.length)
    const earlier = queue === undefined ? undefined : this.#stand(queue, before, step.stream)
    const after = earlier === undefined ? before : [...before, earlier]
    const end = isHeldByHost(step)
      ? this.#heldByHost(step, index, after)
      : this.#timed(step, index, after, times?.get(step.name) ?? 1)
    if (data !== undefined) this.#ends.set(index, end)
    if (aside?.has(index) === true) this.#order.moved(step.stream, end)
    else if (key === undefined) this.#order.queued(step, end)
    else {
      this.#own.set(key, [end])
      this.#order.moved(step.stream, end)
    }
  }

  /** Lets an operation begin only after all that was queued earlier in the same hardware queue could. */
  #stand(queue: number, before: readonly SimOperation[], stream: RecordedStream): SimOperation | undefined {
    const earlier = this.#queues.get(queue)
    this.#queues.set(
      queue,
      this.#queue(SimOperationKind.INSTANT, stream, 0, earlier === undefined ? before : [...before, earlier]),
    )
    return earlier
  }

  #timed(step: Operation, index: number, before: readonly SimOperation[], factor: number): SimOperation {
    const works = (this.measured.works[index] ?? 0) * factor
    if (works === 0 && Number.isNaN(step.end)) return this.#queue(SimOperationKind.INSTANT, step.stream, 0, before)
    const isPrompt = this.change.prompt?.has(index) === true
    const latency = isPrompt ? 0 : (this.measured.latency[index] ?? 0)
    const overhead = isPrompt ? 0 : (this.measured.overhead[index] ?? 0)
    const after: SimOperation[] = []
    // A copy without an engine only lets time pass.
    if (latency > 0) after.push(this.#queue(SimOperationKind.COPY, step.stream, latency, []))
    const pending = before.filter(({ over }) => !over)
    const sinceOver = this.#scheduler.now - latestEnd(before)
    const rest = pending.length > 0 ? overhead : Math.min(overhead, overhead - sinceOver)
    if (rest > 0 && before.length > 0) after.push(this.#queue(SimOperationKind.COPY, step.stream, rest, pending))
    else after.push(...pending)
    if (step.share > 0 && this.change.isRoomy !== true) return this.#kernel(step, works, after)
    return this.#queue(SimOperationKind.COPY, step.stream, works, after, this.#workOf(step))
  }

  /** Queues the blocks of a large kernel, which begin as there is room for them, beside those of others. */
  #kernel({ stream, share }: Operation, works: number, after: readonly SimOperation[]): SimOperation {
    const places = Math.max(1, Math.ceil(share * PLACES))
    const parts: SimOperation[] = []
    for (let left = places; left > 0; left -= PLACES_OF_PART) {
      const work = this.#occupying(undefined, Math.min(left, PLACES_OF_PART))
      parts.push(this.#queue(SimOperationKind.KERNEL, stream, works, after, work))
    }
    const [only] = parts
    return parts.length === 1 && only !== undefined ? only : this.#queue(SimOperationKind.INSTANT, stream, 0, parts)
  }

  #heldByHost(step: Operation, index: number, before: readonly SimOperation[]): SimOperation {
    const length = this.change.due?.get(index) ?? this.measured.lengths.get(step.number)
    if (length !== undefined) {
      const alone = this.#queue(SimOperationKind.COPY, step.stream, length, before)
      this.#order.hostFunctions.set(step.number, alone)
      return alone
    }
    const held = this.#make(SimOperationKind.LATCH, step.stream, 0)
    this.#held.set(step.number, held)
    this.#order.reached.set(step.number, before)
    const end = this.#queue(SimOperationKind.INSTANT, step.stream, 0, [...before, held])
    this.#order.hostFunctions.set(step.number, end)
    return end
  }

  #letGo(call: number): void {
    const held = this.#held.get(call)
    this.#held.delete(call)
    this.#order.reached.delete(call)
    this.#order.hostFunctions.delete(call)
    if (held !== undefined) this.end(held)
  }

  #workOf({ engine, stream }: Operation): Work | undefined {
    if (engine === undefined || this.change.isRoomy === true) return undefined
    const { engineToDevice, engineToHost } = this.#device(stream.device)
    const numbers = { toDevice: engineToDevice, toHost: engineToHost, memory: MEMORY + stream.device }
    return this.#occupying(numbers[engine], 1)
  }

  #occupying(number: number | undefined, slots: number): Work {
    const key = `${number} ${slots}`
    let work = this.#works.get(key)
    if (work === undefined) {
      work = new Occupying(number, slots)
      this.#works.set(key, work)
    }
    return work
  }

  #make(kind: SimOperationKind, stream: RecordedStream, nanoseconds: number, work?: Work): SimOperation {
    this.#sequence += 1
    const operation = new SimOperation(kind, this.#simStream(stream), this.#sequence, nanoseconds, false)
    operation.work = work
    return operation
  }

  #queue(
    kind: SimOperationKind,
    stream: RecordedStream,
    nanoseconds: number,
    before: readonly SimOperation[],
    work?: Work,
  ): SimOperation {
    const operation = this.#make(kind, stream, nanoseconds, work)
    for (const earlier of before) if (!earlier.over) operation.waitFor(earlier)
    this.#start(operation)
    return operation
  }

  #start(operation: SimOperation): void {
    if (!operation.becomeReady()) return
    if (operation.kind === SimOperationKind.INSTANT) this.end(operation)
    else if (operation.kind !== SimOperationKind.LATCH) this.#scheduler.ready(operation)
  }

  #device(ordinal: number): SimDevice {
    let device = this.#devices.get(ordinal)
    if (device === undefined) {
      device = new SimDevice(ordinal, 0 as ContextHandle, 0n, new DevicePools(0))
      this.#devices.set(ordinal, device)
    }
    return device
  }

  #simStream(stream: RecordedStream): SimStream {
    let made = this.#simStreams.get(stream)
    if (made === undefined) {
      made = new SimStream(this.#device(stream.device), 0 as StreamHandle, 0n, stream.nonBlocking, stream.priority)
      this.#simStreams.set(stream, made)
    }
    return made
  }

  end(first: SimOperation): void {
    const ending = [first]
    for (let at = 0; at < ending.length; at += 1) {
      const operation = ending[at]
      if (operation === undefined || operation.over) continue
      this.#scheduler.over(operation)
      operation.end(false, false)
      operation.letGo(this.#becomesReady, ending)
    }
  }

  readonly #becomesReady = (dependent: SimOperation, ending: SimOperation[]): void => {
    if (!dependent.becomeReady()) return
    if (dependent.kind === SimOperationKind.INSTANT) ending.push(dependent)
    else if (dependent.kind !== SimOperationKind.LATCH) this.#scheduler.ready(dependent)
  }

  passValues(): boolean {
    return false
  }

  started(): void {}
  runHostFunction(): void {}
  settle(): void {}
}

function latestEnd(operations: readonly SimOperation[]): number {
  let latest = 0
  for (const { time } of operations) if (time > latest) latest = time
  return latest
}

/** The hardware queue of a stream. CUDA gives streams its queues in turn. */
const queueOf = ({ index }: RecordedStream, key: string | undefined, queues: number, streams: number): number =>
  (key === undefined ? index : streams + hashOf(key)) % queues

const hashOf = (text: string): number =>
  Array.from(text).reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 65_521, 7)
