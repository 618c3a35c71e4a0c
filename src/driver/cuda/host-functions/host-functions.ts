/**
 * The host functions of this thread that are pending, and all that has to be known while any is: which streams and events
 * come after which of them, and how much more the hardware queues take. The driver reports here each
 * queued host function, record, wait and destruction; Blocking and Promises ask.
 */
import { CUresult } from '../../cuda-results.js'
import type { ContextHandle, EventHandle, HostFunction, StreamHandle } from '../../driver.js'
import { heldBy } from '../../held-by.js'
import type { LoopPump } from '../../loop-pump.js'
import type { Library } from '../libcuda/library.js'
import type { RelaxedCaptures } from '../libcuda/relaxed-captures.js'
import type { StreamRecord, StreamRecords } from '../stream-records.js'
import type { Captures } from './captures.js'
import type { ComesAfter, Dependencies } from './dependencies.js'
import type { GateCall, Gates } from './gates.js'
import type { GraphLane } from './graph-gates.js'
import type { QueueDepth } from './queue-depth.js'
import type { Threads } from './thread-table.js'

export interface HostFunctionsParts {
  readonly streams: Pick<StreamRecords, 'of'>
  readonly library: Library
  readonly relaxed: RelaxedCaptures
  readonly threads: Threads
  readonly gates: Gates
  readonly depth: QueueDepth
  readonly dependencies: Dependencies
  readonly captures: Captures
  /** Turns the event loop while something is pending. */
  readonly pump: Pick<LoopPump, 'wake'>
  /** Promises for events that the caller can record anew. */
  readonly eventWaits: { readonly pending: number }
  readonly valueWaits: { anyStands(): boolean }
  /** Gives an event that is never recorded: a query of it fails only where the context is lost. */
  readonly pool: { unrecorded(context: ContextHandle): EventHandle }
  /** Is all the stream's work done? False where that cannot be asked without harm. */
  readonly isIdle: (stream: StreamRecord) => boolean
}

export class HostFunctions {
  #tracksOrder = false

  constructor(private readonly parts: HostFunctionsParts) {}

  /** Must the driver report records, waits and entries? It need not while nothing is pending. */
  get tracksOrder(): boolean {
    return this.#tracksOrder
  }

  /** Of this thread. */
  get pending(): boolean {
    return this.parts.gates.pending > 0
  }

  /** Of those of this thread, host functions: streams that are only held need no turns of the event loop. */
  get functionsPending(): boolean {
    return this.parts.gates.functionsPending > 0
  }

  /** Of any thread: a native wait could be for one that only its thread runs. */
  get anyPending(): boolean {
    return this.parts.gates.pending > 0 || this.parts.threads.othersPending
  }

  /** Is JavaScript inside a host function? */
  get isInside(): boolean {
    return this.parts.gates.running.length > 0
  }

  /** Queues one on `raw`, CUDA's own handle of the stream, whose context must be current for a default stream. */
  queue(handle: StreamHandle, raw: number, host: HostFunction): void {
    const stream = this.parts.streams.of(handle)
    this.#queued(stream, this.parts.gates.queue(stream, raw, host))
    this.parts.pump.wake()
  }

  /** Holds the stream until the result is called. */
  hold(handle: StreamHandle, raw: number): () => void {
    const { streams, gates, pump } = this.parts
    const stream = streams.of(handle)
    const call = gates.hold(stream, raw)
    this.#queued(stream, call)
    return () => {
      gates.open(call)
      // What comes behind it may soon be done.
      pump.wake()
    }
  }

  #queued(stream: StreamRecord, call: GateCall): void {
    this.parts.depth.gateQueued(stream)
    this.parts.dependencies.queued(stream, call)
    this.#tracksOrder = true
  }

  /** Makes the call that launches a graph with these gates on the stream. */
  queueGraph(handle: StreamHandle, lanes: readonly GraphLane[], launch: () => void): void {
    const { streams, gates, dependencies, threads, pump } = this.parts
    gates.announce(lanes.length)
    try {
      launch()
    } catch (error) {
      threads.publish(gates.pending)
      throw error
    }
    const stream = streams.of(handle)
    for (const lane of lanes) {
      const call = lane.next(stream)
      gates.add(call)
      dependencies.queued(stream, call)
    }
    this.#tracksOrder = true
    pump.wake()
  }

  /** From now on records have to be reported: a capture has begun, or a promise waits for an event. */
  trackOrder(): void {
    this.#tracksOrder = true
  }

  /** Forgets what no longer matters, where something that was pending may be over. */
  calmDown(): void {
    if (!this.#tracksOrder || this.pending) return
    const { threads, depth, dependencies, eventWaits, captures } = this.parts
    if (!threads.othersPending) depth.clear()
    dependencies.clear()
    this.#tracksOrder = eventWaits.pending > 0 || captures.matter
  }

  /** The event has been recorded. `captureOf` is as `Captures.recorded()` takes it. */
  recorded(event: EventHandle, stream: StreamHandle, captureOf: () => (() => boolean) | undefined): void {
    const { captures, dependencies } = this.parts
    // A record in a capture comes after nothing that runs.
    if (captures.recorded(event, captureOf)) dependencies.forgetEvent(event)
    else if (this.pending) dependencies.recorded(event, this.parts.streams.of(stream))
  }

  /** The event has been recorded behind all work of the device. */
  recordedDevice(event: EventHandle, context: ContextHandle, device: number): void {
    const { gates, dependencies } = this.parts
    if (!this.pending) return
    const lanes = gates.active.filter((lane) => lane.context === context)
    dependencies.recordedDevice(event, device, lanes)
  }

  waitedForEvent(handle: StreamHandle, event: EventHandle): boolean {
    const stream = this.parts.streams.of(handle)
    const isCaptured = this.parts.captures.waitedFor(event, stream)
    if (this.pending && !isCaptured) this.parts.dependencies.waitedForEvent(stream, event)
    return isCaptured
  }

  /** The stream is gone: its entries take no room from other streams of this thread any more. */
  streamGoes(stream: StreamRecord): void {
    // Entries are counted also while only other threads have host functions pending.
    this.parts.depth.forget(stream)
  }

  forgetEvent(event: EventHandle): void {
    this.parts.captures.forgetEvent(event)
    this.parts.dependencies.forgetEvent(event)
  }

  /** Entries of the stream's hardware queue are about to be taken. */
  countEntries(stream: StreamHandle, entries: number): void {
    if (this.anyPending) this.parts.depth.count(this.parts.streams.of(stream), entries)
  }

  /** Do the counts alone say that the stream's hardware queue takes so many entries more? */
  surelyHasRoom(stream: StreamHandle, entries: number): boolean {
    return this.parts.depth.surelyHasRoom(this.parts.streams.of(stream), entries) && !this.parts.gates.full
  }

  /** Does the stream's hardware queue take so many entries more? `isEmpty` asks the driver whether nothing is in it. */
  hasRoom(stream: StreamHandle, entries: number, isEmpty: () => boolean): boolean {
    const { streams, depth, gates, relaxed } = this.parts
    if (this.anyPending) return depth.hasRoom(streams.of(stream), entries, () => relaxed.run(isEmpty)) && !gates.full
    depth.clear()
    return true
  }

  /** In words: one of those pending that something comes after. The caller tells of it, so the watchdog need not. */
  heldBy(after: (dependencies: Dependencies) => ComesAfter): string | undefined {
    if (!this.pending) return undefined
    const { gates, dependencies, threads } = this.parts
    const comesAfter = after(dependencies)
    const call = gates.active.flatMap(({ calls }) => calls.slice(0, 1)).find(comesAfter)
    if (call === undefined) return undefined
    threads.told()
    return inWords(call)
  }

  /** In words: a gate among those that something comes after, which opens in no blocking call. */
  heldByPromise(comesAfter: ComesAfter): string | undefined {
    for (const call of this.parts.gates.holds) if (call.hold?.isOpen === false && comesAfter(call)) return inWords(call)
    return undefined
  }

  /** In words: a gate that has stood for so many milliseconds, and opens in a turn of the event loop alone. */
  heldFor(milliseconds: number): string | undefined {
    const since = performance.now() - milliseconds
    for (const call of this.parts.gates.holds)
      if (call.hold !== undefined && call.hold.since < since) return inWords(call)
    return undefined
  }

  /** All that the stream held is done. */
  streamIsEmpty(stream: StreamHandle): void {
    this.parts.depth.forget(this.parts.streams.of(stream))
  }

  /** Forgets counted entries that are done: the more are counted, the less room the other threads have. */
  refreshRoom(): void {
    this.parts.depth.refresh(this.parts.isIdle)
  }

  /**
   * Makes a call that waits for the whole device, where that can be at once. Undefined where it cannot, also while a stream
   * stands at a value, which this thread may be the one to write: nothing was called.
   */
  exclusivelyNow<R>(call: () => R): { readonly made: R } | undefined {
    if (this.pending || this.parts.valueWaits.anyStands()) return undefined
    return this.parts.threads.exclusive.now(call)
  }

  /** A stream in a lost context never arrives at its gate: asks each context that has gates whether it lives. */
  lookForFaults(): void {
    const { gates, pool, relaxed, library } = this.parts
    const seen = new Set<ContextHandle>()
    for (const { context } of [...gates.active]) {
      if (seen.has(context)) continue
      seen.add(context)
      const result = relaxed.run(() => library.cuEventQuery(pool.unrecorded(context)))
      if (result !== 0 && result !== CUresult.NOT_READY) gates.fail(context, result)
    }
  }
}

const inWords = ({ stream, site, hold }: GateCall): string =>
  heldBy(hold === undefined ? 'a host function' : 'a promise', stream.handle, site)
