/**
 * The host functions of this thread that are pending, and what must be known while any is: which streams and events come after which of them,
 * and how much more the hardware queues take. The driver reports each host function that is queued, and each record, wait and destruction;
 * Blocking and Promises use the answers.
 */

import { monotonicTime } from '../../foundation/base/event-loop.js'
import { blockedBy } from '../../foundation/driver/blocked-by.js'
import { CUresult } from '../../foundation/driver/cuda-results.js'
import type { EventLoopPoller } from '../../foundation/driver/event-loop-poller.js'
import type { ContextHandle, EventHandle, StreamHandle } from '../../foundation/driver/handle-types.js'
import type { HostFunction, QueuedPromiseWait } from '../../foundation/driver/queued-work.js'
import { closeShortWay } from '../../foundation/driver/wrappable-driver.js'
import type { StreamRecord, StreamRecords } from '../handles/stream-records.js'
import type { RelaxedCaptures } from '../libcuda/driver-calls.js'
import type { Library } from '../libcuda/libcuda.js'
import type { Captures } from './captures.js'
import type { ComesAfter, Dependencies } from './dependencies.js'
import type { GraphSemaphore } from './graph-semaphores.js'
import type { ProcessRegistry } from './process-registry.js'
import type { QueueDepth } from './queue-depth.js'
import type { PendingCall, Semaphore, Semaphores } from './semaphores.js'

export interface HostFunctionParts {
  readonly streams: Pick<StreamRecords, 'of'>
  readonly library: Library
  readonly relaxed: RelaxedCaptures
  readonly registry: ProcessRegistry
  readonly semaphores: Semaphores
  readonly depth: QueueDepth
  readonly dependencies: Dependencies
  readonly captures: Captures
  /** Turns the event loop while something is pending. */
  readonly poller: Pick<EventLoopPoller, 'wake'>
  /** Promises for events that the caller may record again. */
  readonly eventWaits: { readonly pending: number }
  readonly valueWaits: { anyBlocks(): boolean }
  readonly pool: { unrecorded(context: ContextHandle): EventHandle }
  /** Has all work of the stream completed? False if that cannot be queried without harm. */
  readonly isIdle: (stream: StreamRecord) => boolean
}

export class PendingHostFunctions {
  #tracksOrder = false

  constructor(private readonly parts: HostFunctionParts) {}

  /** Must the driver report records, waits and entries? It does not have to while nothing is pending. */
  get tracksOrder(): boolean {
    return this.#tracksOrder
  }

  /** Has this thread host functions, or waits for promises, pending? */
  get pending(): boolean {
    return this.parts.semaphores.pending > 0
  }

  /** Has this thread host functions pending? Waits for promises alone need no turns of the event loop. */
  get functionsPending(): boolean {
    return this.parts.semaphores.functionsPending > 0
  }

  /** Has any thread host functions pending? A native wait could be for one that only its thread runs. */
  get anyPending(): boolean {
    return this.parts.semaphores.pending > 0 || this.parts.registry.othersPending
  }

  /** Is JavaScript inside a host function? */
  get isInside(): boolean {
    return this.parts.semaphores.running.length > 0
  }

  /** Queues one on `raw`, CUDA's own handle of the stream, whose context must be current for a default stream. */
  queue(handle: StreamHandle, raw: number, host: HostFunction): void {
    const stream = this.parts.streams.of(handle)
    this.#queued(stream, this.parts.semaphores.queue(stream, raw, host))
    this.parts.poller.wake()
  }

  /** Blocks the stream until the result is called. `raw` is as for `queue`. */
  queueWait(handle: StreamHandle, raw: number, called: QueuedPromiseWait['called']): () => void {
    const { streams, semaphores, poller } = this.parts
    const stream = streams.of(handle)
    const call = semaphores.queueWait(stream, raw, called)
    this.#queued(stream, call)
    return () => {
      semaphores.endWait(call)
      // What comes behind it may soon complete.
      poller.wake()
    }
  }

  #queued(stream: StreamRecord, call: PendingCall): void {
    this.parts.depth.semaphoreQueued(stream)
    this.parts.dependencies.queued(stream, call)
    this.#track(true)
  }

  /** Makes the call that launches a graph with these semaphores on the stream. */
  queueGraph(handle: StreamHandle, ofGraph: readonly GraphSemaphore[], launch: () => void): void {
    const { streams, semaphores, dependencies, registry, poller } = this.parts
    semaphores.announce(ofGraph.length)
    try {
      launch()
    } catch (error) {
      registry.publishPending(semaphores.pending)
      throw error
    }
    const stream = streams.of(handle)
    for (const semaphore of ofGraph) {
      const call = semaphore.next(stream)
      semaphores.add(call)
      dependencies.queued(stream, call)
    }
    this.#track(true)
    poller.wake()
  }

  /** Records must be reported from now on: a capture has begun, or a promise waits for an event. */
  trackOrder(): void {
    this.#track(true)
  }

  #track(tracks: boolean): void {
    if (tracks === this.#tracksOrder) return
    this.#tracksOrder = tracks
    closeShortWay(tracks)
  }

  /** Forgets what is no longer needed, when something that was pending may have completed. */
  settle(): void {
    if (!this.#tracksOrder || this.pending) return
    const { registry, depth, dependencies, eventWaits, captures } = this.parts
    if (!registry.othersPending) depth.clear()
    dependencies.clear()
    this.#track(eventWaits.pending > 0 || captures.matter)
  }

  /** The event has been recorded. `captureOf` is as `Captures.recorded()` takes it. */
  recorded(event: EventHandle, stream: StreamHandle, captureOf: () => (() => boolean) | undefined): void {
    const { captures, dependencies, streams } = this.parts
    // A record in a capture comes after nothing that runs.
    if (captures.recorded(event, captureOf)) dependencies.forgetEvent(event)
    else if (this.pending) dependencies.recorded(event, streams.of(stream))
  }

  /** The event has been recorded behind all work of the device. */
  recordedDevice(event: EventHandle, context: ContextHandle, device: number): void {
    if (this.pending) this.parts.dependencies.recordedDevice(event, device, this.#semaphoresOf(context))
  }

  /** Returns which host functions a device comes after, whose primary context this is. */
  deviceComesAfter(context: ContextHandle, device: number): ComesAfter {
    return this.parts.dependencies.deviceComesAfter(device, this.#semaphoresOf(context))
  }

  #semaphoresOf(context: ContextHandle): readonly Semaphore[] {
    return this.parts.semaphores.active.filter((semaphore) => semaphore.context === context)
  }

  /** Was the event recorded in a capture, which the stream joins by a wait for it? */
  joinsCapture(stream: StreamHandle, event: EventHandle): boolean {
    return this.parts.captures.waitedFor(event, this.parts.streams.of(stream))
  }

  /** The stream waits for the event, and CUDA has taken the wait. */
  waitedForEvent(stream: StreamHandle, event: EventHandle): void {
    if (this.pending) this.parts.dependencies.waitedForEvent(this.parts.streams.of(stream), event)
  }

  /**
   * Called when all work of the stream has completed, or another stream has its handle. Entries are counted even when only other
   * threads have host functions pending.
   */
  forgetEntries(stream: StreamRecord): void {
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

  /** Do the counts alone show that the stream's hardware queue takes that many more entries? */
  certainlyHasCapacity(stream: StreamHandle, entries: number): boolean {
    return (
      this.parts.depth.certainlyHasCapacity(this.parts.streams.of(stream), entries) && !this.parts.semaphores.areFull
    )
  }

  /** Does the stream's hardware queue take that many more entries? `isEmpty` queries the driver whether nothing is in it. */
  hasCapacity(stream: StreamHandle, entries: number, isEmpty: () => boolean): boolean {
    const { streams, depth, semaphores, relaxed } = this.parts
    if (this.anyPending)
      return depth.hasCapacity(streams.of(stream), entries, () => relaxed.run(isEmpty)) && !semaphores.areFull
    depth.clear()
    return true
  }

  /** Describes a pending call that something comes after. The caller reports it, so that the watchdog need not. */
  blockedBy(after: (dependencies: Dependencies) => ComesAfter): string | undefined {
    if (!this.pending) return undefined
    const { semaphores, dependencies, registry } = this.parts
    const comesAfter = after(dependencies)
    const call = semaphores.active.flatMap(({ calls }) => calls.slice(0, 1)).find(comesAfter)
    if (call === undefined) return undefined
    registry.reported()
    return descriptionOf(call)
  }

  /** Describes a wait for a promise that something comes after, and that ends in no blocking call. */
  blockedByPromise(comesAfter: ComesAfter): string | undefined {
    for (const call of this.parts.semaphores.waits)
      if (call.wait?.isEnded === false && comesAfter(call)) return descriptionOf(call)
    return undefined
  }

  /** Describes a wait for a promise that has been pending for that many milliseconds. */
  heldFor(milliseconds: number): string | undefined {
    const since = monotonicTime() - milliseconds
    for (const call of this.parts.semaphores.waits)
      if (call.wait !== undefined && call.wait.since < since) return descriptionOf(call)
    return undefined
  }

  /** Forgets counted entries that have completed: the more are counted, the less room the other threads have. */
  refreshCapacity(): void {
    this.parts.depth.refresh(this.parts.isIdle)
  }

  /**
   * Makes a call that waits for the whole device, if it can be made at once. Otherwise returns undefined, and makes no call; also while a
   * stream is blocked at a value that this thread may be the one to write.
   */
  exclusivelyNow<R>(call: () => R): { readonly made: R } | undefined {
    if (this.pending || this.parts.valueWaits.anyBlocks()) return undefined
    return this.parts.registry.exclusive.now(call)
  }

  /** Checks whether each context that has semaphores is alive: a stream in a lost context never comes to its semaphore. */
  checkForFaults(): void {
    const { semaphores, pool, relaxed, library } = this.parts
    for (const context of new Set(semaphores.active.map((semaphore) => semaphore.context))) {
      const result = relaxed.run(() => library.cuEventQuery(pool.unrecorded(context)))
      if (result !== 0 && result !== CUresult.NOT_READY) semaphores.fail(context, result)
    }
  }
}

const descriptionOf = ({ stream, site, wait }: PendingCall): string =>
  blockedBy(wait === undefined ? 'a host function' : 'a promise', stream.handle, site)
