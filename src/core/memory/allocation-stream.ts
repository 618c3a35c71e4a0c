/**
 * Memory is freed in the order of the stream that it was allocated on, its allocation stream, so that uses by that stream
 * need no events. This holds also if the allocation stream is closed first, or captures. What cannot be freed or released at
 * once, since the driver refuses or work is not done, is tried again by later calls: no call waits for it.
 */
import { CudaError, stateError } from '../../foundation/base/errors.js'
import { atNextTurn } from '../../foundation/base/event-loop.js'
import type { NativeResource } from '../../foundation/base/finalization.js'
import { memoize } from '../../foundation/base/memoize.js'
import { AfterWork } from '../../foundation/driver/after-work.js'
import { CUresult, isContextLost } from '../../foundation/driver/cuda-results.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { InternalEvent } from '../../foundation/driver/event-driver.js'
import { releaseAll } from '../streams/capture-record.js'
import type { StreamImpl } from '../streams/stream-impl.js'
import { type Holder, holderOf } from './out-of-memory.js'
import { CommonEvent, internalStream, recordedEvent } from './stream-uses.js'

/**
 * Frees a piece of memory in the order of this stream. `end` is recorded behind all work of the allocation stream, if that is
 * closed: then the stream is an internal one, which must not wait.
 */
type Free = (last: StreamImpl, end: CommonEvent | undefined) => void

/**
 * Whether any memory, of any driver, has had to wait for another attempt. In most programs none ever does, and allocations look at no table
 * of what does.
 */
let anyWaited = false

/** The allocation streams that have memory to free which they could not free while they captured. */
const deferringOn = memoize((_driver: Driver) => new Set<AllocationStream>())

export class AllocationStream {
  /** The number of pieces of memory that are not freed yet. */
  #pieces = 0
  /**
   * The event behind all work of the stream when that was closed, or behind all work of its whole device if the driver could not
   * tell that work apart.
   */
  #end: CommonEvent | undefined
  #deferred: Free[] = []

  readonly holder: Holder

  constructor(private readonly stream: StreamImpl) {
    this.holder = holderOf(stream)
    stream.whenClosing(() => unlessLost(() => this.#close()))
  }

  allocated(): void {
    this.#pieces += 1
  }

  /**
   * Orders another stream's later work after all work that is queued on this one now. Throws ERR_UNSUPPORTED while this one
   * captures: the other stream would join the capture.
   */
  orderBefore(use: StreamImpl): void {
    const { stream } = this
    if (use.isSame(stream)) return
    const canBeAwaited = stream.closed ? this.#hasEnd() : this.#takesWork()
    if (!canBeAwaited) {
      throw stateError(
        'ERR_UNSUPPORTED',
        `${stream} captures, so that nothing outside can be ordered after its work: end the capture first`,
      )
    }
    if (this.#end !== undefined) use.driver.streams.waitEvent(use.handle, this.#end.own.event, 0)
    else use.driver.streams.waitStream(use.handle, stream.handle, stream.context)
  }

  /** A piece was freed, or will not be freed in the order of this stream. */
  freed(): void {
    this.#pieces -= 1
    if (this.#pieces > 0 || this.#end === undefined) return
    this.#end.release()
    this.#end = undefined
  }

  /** Calls the function with the stream that must free: now, or once that is allowed. */
  free(free: Free): void {
    if (this.stream.closed ? this.#hasEnd() : this.#takesWork()) this.#freeNow(free)
    // The free would become part of the graph, or invalidate a capture.
    else this.#defer(free)
  }

  /**
   * Frees what could not be freed before, as far as that is allowed now. Never throws: the calls that lead here are about
   * other memory.
   */
  freeDeferred(): void {
    const deferred = this.#deferred
    this.#deferred = []
    deferringOn(this.stream.driver).delete(this)
    for (const free of deferred) {
      try {
        this.free(free)
      } catch (error) {
        if (!isLost(error)) this.#defer(free)
      }
    }
  }

  #defer(free: Free): void {
    anyWaited = true
    this.#deferred.push(free)
    deferringOn(this.stream.driver).add(this)
  }

  #freeNow(free: Free): void {
    this.stream.queuedCalls += 1
    if (this.#end === undefined) free(this.stream, undefined)
    else free(internalStream(this.stream.device), this.#end)
    this.freed()
  }

  /**
   * Can work be queued on the stream? Not while it captures. Nor on the null stream while a blocking stream captures, and
   * then the null stream cannot even be queried.
   */
  #takesWork(): boolean {
    const { driver, handle } = this.stream
    try {
      return !driver.streams.isCapturing(handle)
    } catch (error) {
      if (error instanceof CudaError && error.number === CUresult.STREAM_CAPTURE_IMPLICIT) return false
      throw error
    }
  }

  /**
   * Records the event behind the stream's work, if it can be recorded. For a stream that captured when it was closed, the driver
   * cannot report its own work, only all work of the device.
   */
  #hasEnd(): boolean {
    if (this.#end !== undefined) return true
    const { driver, ordinal } = this.stream
    let isRecorded = false
    const own = recordedEvent(this.stream, (event) => {
      isRecorded = driver.devices.recordInternal(event, ordinal)
    })
    if (isRecorded) this.#end = new CommonEvent(driver, own)
    else driver.events.recycle(own.context, own.event)
    return isRecorded
  }

  #close(): void {
    if (this.#pieces === 0) return
    const { driver, handle } = this.stream
    // A capture ends with the stream that began it. Ended before that, the stream accepts work again.
    driver.graphs.abandon(handle)
    freeDeferred(driver)
    if (this.#pieces === 0 || !this.#takesWork()) return
    try {
      const own = recordedEvent(this.stream, (event) => driver.events.recordInternal(event, handle))
      this.#end = new CommonEvent(driver, own)
    } catch {
      // Refused: an event behind all work of the device takes its place when memory is to be freed.
    }
  }
}

export const allocationStreamOf = memoize((stream: StreamImpl) => new AllocationStream(stream))

/**
 * Frees memory that was closed while its allocation stream captured. To be called when a capture has ended, which all streams
 * that joined it leave, and before an allocation, since other libraries end captures too. Never throws.
 */
export function freeDeferred(driver: Driver): void {
  if (!anyWaited) return
  for (const stream of [...deferringOn(driver)]) stream.freeDeferred()
  unlessLost(() => sweepReleases(driver))
}

/**
 * Calls a function, and ignores that the context is lost: then the memory is gone either way, and the next wait reports the
 * fault.
 */
export function unlessLost(fn: () => void): void {
  try {
    fn()
  } catch (error) {
    if (!isLost(error)) throw error
  }
}

export const isLost = (error: unknown): boolean => error instanceof CudaError && isContextLost(error.number)

/** Modules and events that a graph retained, until its launches are over. */
const releasesOn = memoize(
  (driver: Driver) => new AfterWork<readonly NativeResource[]>(driver, (some) => releaseAll([...some])),
)

/** Releases the resources when the latest record of the event is done. Takes the event over. */
export function releaseAfter(driver: Driver, resources: readonly NativeResource[], after: InternalEvent): void {
  anyWaited = true
  releasesOn(driver).add(resources, [after])
}

/** Releases the resources whose work is done by now, and tries again what was refused. */
export function sweepReleases(driver: Driver): void {
  retryRefused(driver)
  const releases = releasesOn(driver)
  if (releases.pending) releases.sweep()
}

const refused = new WeakMap<Driver, Set<() => void>>()

/**
 * Frees something that has no owner any more. If the driver refuses, that is thrown, and tried again when the event loop
 * turns, and whenever memory is allocated or closed or a capture ends.
 */
export function freeUnowned(driver: Driver, free: () => void): void {
  try {
    free()
  } catch (error) {
    if (!isFinding(error)) {
      retryLater(driver, free)
      atNextTurn(() => retryRefused(driver)).unref()
    }
    throw error
  }
}

/** Makes the frees again that the driver has refused. Never throws: a repeated refusal has been reported. */
export function retryRefused(driver: Driver): void {
  if (!anyWaited) return
  const all = refused.get(driver)
  if (all === undefined) return
  refused.delete(driver)
  for (const free of all) {
    try {
      free()
    } catch (error) {
      if (!isFinding(error)) retryLater(driver, free)
    }
  }
}

function retryLater(driver: Driver, free: () => void): void {
  anyWaited = true
  const all = refused.get(driver) ?? new Set()
  refused.set(driver, all.add(free))
}

/** A sanitizer throws its finding after the call has been made. */
export const isFinding = (error: unknown): boolean =>
  error instanceof Error && Reflect.get(error, 'code') === 'ERR_RACE'
