/**
 * Memory is freed in the order of the stream that it was allocated on, its home, so that the home's own uses need no
 * events. This holds also where the home is closed first, or captures.
 */

import { CudaError, stateError } from '../base/errors.js'
import { CUresult, isContextLost } from '../driver/cuda-results.js'
import { type Driver, type OwnEvent, StreamFlag } from '../driver/driver.js'
import { StreamCore } from '../streams/stream-core.js'
import { type Holder, holderOf } from './holders.js'
import { sweepLeft } from './left-resources.js'
import { hiddenStream, recordedEvent } from './stream-uses.js'

/** Frees a piece of memory in the order of this stream. */
type Free = (last: StreamCore) => void

/** Recorded behind all work of a home, or of its whole device where the driver cannot tell the home's work apart. */
interface End extends OwnEvent {
  readonly ofDevice: boolean
}

const homes = new WeakMap<StreamCore, AllocationStream>()
/** Those with something to free that they could not free while they captured. */
const waiting = new WeakMap<Driver, Set<AllocationStream>>()

export class AllocationStream {
  /** Pieces of memory that are not freed yet. */
  #pieces = 0
  /** Recorded behind all its work when the stream was closed. */
  #end: End | undefined
  #deferred: Free[] = []

  readonly holder: Holder

  constructor(private readonly stream: StreamCore) {
    this.holder = holderOf(stream)
    stream.whenClosing(() => unlessLost(() => this.#close()))
  }

  allocated(): void {
    this.#pieces += 1
  }

  /**
   * Lets another stream's later work come after all that this one holds. Throws ERR_UNSUPPORTED while it captures: the
   * other would join the capture.
   */
  comeBefore(use: StreamCore): void {
    const { stream } = this
    if (use.isSame(stream)) return
    const isWaitable = stream.closed ? this.#hasEnd() : this.#takesWork()
    if (!isWaitable) {
      throw stateError(
        'ERR_UNSUPPORTED',
        `${stream} captures, so that nothing outside can come after its work: end the capture first`,
      )
    }
    if (this.#end !== undefined) use.driver.streamWaitEvent(use.handle, this.#end.event, 0)
    else use.driver.streamWaitStream(use.handle, stream.handle, stream.context)
  }

  /** A piece will not be freed in its order after all. */
  forgotten(): void {
    this.#pieces -= 1
    if (this.#pieces > 0 || this.#end === undefined) return
    const { context, event } = this.#end
    this.#end = undefined
    this.stream.driver.eventRecycle(context, event)
  }

  /** Calls the function with the stream that must free: now, or once that is allowed. */
  free(free: Free): void {
    if (this.stream.closed ? this.#hasEnd() : this.#takesWork()) this.#freeNow(free)
    else {
      // The free would become a part of the graph, or invalidate a capture.
      this.#deferred.push(free)
      waitingOf(this.stream.driver).add(this)
    }
  }

  /**
   * Frees what could not be freed before, as far as that is allowed now. Never throws: the calls that come here are
   * about other memory.
   */
  freeDeferred(): void {
    const deferred = this.#deferred
    this.#deferred = []
    waitingOf(this.stream.driver).delete(this)
    for (const free of deferred) {
      try {
        this.free(free)
      } catch (error) {
        if (isLost(error)) continue
        this.#deferred.push(free)
        waitingOf(this.stream.driver).add(this)
      }
    }
  }

  #freeNow(free: Free): void {
    this.stream.queued += 1
    if (this.#end === undefined) free(this.stream)
    else if (this.#end.ofDevice) this.#freeApart(this.#end, free)
    else {
      const hidden = hiddenStream(this.stream.device)
      hidden.driver.streamWaitEvent(hidden.handle, this.#end.event, 0)
      free(hidden)
    }
    this.forgotten()
  }

  /** On a stream of its own: a wait for all work of the device must not hold up other memory that is to be freed. */
  #freeApart({ context, event }: End, free: Free): void {
    const { driver, device } = this.stream
    const handle = driver.streamCreate(context, StreamFlag.NON_BLOCKING, 0)
    try {
      driver.streamWaitEvent(handle, event, 0)
      free(new StreamCore(device, context, handle, 'kept'))
    } finally {
      driver.streamDestroy(handle)
    }
  }

  /**
   * Can the stream be given work? Not while it captures; the null stream not while a blocking stream does, and then it does
   * not even say whether it captures itself.
   */
  #takesWork(): boolean {
    const { driver, handle } = this.stream
    try {
      return !driver.streamIsCapturing(handle)
    } catch (error) {
      if (error instanceof CudaError && error.number === CUresult.STREAM_CAPTURE_IMPLICIT) return false
      throw error
    }
  }

  /** Of a stream that captured when it was closed the driver cannot tell how far its work is, only how far all work is. */
  #hasEnd(): boolean {
    if (this.#end !== undefined) return true
    const { driver, ordinal } = this.stream
    let isRecorded = false
    const own = recordedEvent(this.stream, (event) => {
      isRecorded = driver.deviceRecordOwn(event, ordinal)
    })
    if (isRecorded) this.#end = { ...own, ofDevice: true }
    else driver.eventRecycle(own.context, own.event)
    return isRecorded
  }

  #close(): void {
    if (this.#pieces === 0) return
    const { driver, handle } = this.stream
    // A capture ends with the stream that began it; ended before, it lets the stream be given work.
    driver.graphs.abandon(handle)
    freeDeferred(driver)
    if (this.#pieces === 0 || !this.#takesWork()) return
    try {
      const own = recordedEvent(this.stream, (event) => driver.eventRecordOwn(event, handle))
      this.#end = { ...own, ofDevice: false }
    } catch {
      // Refused: when memory is to be freed, the end of all work of the device will stand for it.
    }
  }
}

export function allocationStreamOf(stream: StreamCore): AllocationStream {
  let home = homes.get(stream)
  if (home === undefined) {
    home = new AllocationStream(stream)
    homes.set(stream, home)
  }
  return home
}

/**
 * Frees memory that was closed while its home captured. To be called when a capture has ended, which all streams that
 * joined it leave, and before an allocation: other libraries end captures too. Never throws.
 */
export function freeDeferred(driver: Driver): void {
  for (const home of [...(waiting.get(driver) ?? [])]) home.freeDeferred()
  unlessLost(() => sweepLeft(driver))
}

function waitingOf(driver: Driver): Set<AllocationStream> {
  let found = waiting.get(driver)
  if (found === undefined) {
    found = new Set()
    waiting.set(driver, found)
  }
  return found
}

/** In a lost context the memory is gone either way, and the next wait reports the fault. */
export function unlessLost(fn: () => void): void {
  try {
    fn()
  } catch (error) {
    if (!isLost(error)) throw error
  }
}

export const isLost = (error: unknown): boolean => error instanceof CudaError && isContextLost(error.number)
