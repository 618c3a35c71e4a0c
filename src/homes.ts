/**
 * Memory is freed in the order of the stream that it was allocated on, its home, whose own uses of it therefore need no
 * events. Here stands what makes that hold also when the home is closed first, or captures.
 */
import type { Device } from './device.js'
import { isContextLost } from './driver/cuda-results.js'
import { type Driver, EventFlag } from './driver/driver.js'
import type { OwnEvent } from './driver/memory-driver.js'
import { CudaError } from './errors.js'
import { type OpenStream, openStream, type Stream, whenClosing } from './stream.js'
import { hiddenStream } from './uses.js'

/** Frees a piece of memory in the order of this stream. */
type Free = (last: OpenStream) => void

const homes = new WeakMap<Stream, Home>()
/** Those with something to free that they could not free while they captured. */
const waiting = new WeakMap<Driver, Set<Home>>()

export class Home {
  readonly #stream: Stream
  readonly #open: OpenStream
  /** Pieces of memory that are not freed yet. */
  #pieces = 0
  /** Recorded behind all its work when the stream was closed. */
  #end: OwnEvent | undefined
  #deferred: Free[] = []

  constructor(stream: Stream) {
    this.#stream = stream
    this.#open = openStream(stream)
    whenClosing(stream, () => unlessLost(() => this.#close()))
  }

  get serial(): number {
    return this.#open.serial
  }

  allocated(): void {
    this.#pieces += 1
  }

  /** Calls the function with the stream that must free: now, or once that is allowed. */
  free(free: Free): void {
    const { device, closed } = this.#stream
    if (!closed && this.#captures) {
      // It would become a part of the graph.
      this.#deferred.push(free)
      waitingOf(this.#open.driver).add(this)
      return
    }
    if (!closed) free(this.#open)
    else if (this.#end !== undefined) this.#freeAfter(this.#end, device, free)
    else this.#freeAfterAll(device, free)
    this.#pieces -= 1
    if (this.#pieces > 0 || this.#end === undefined) return
    this.#open.driver.eventRecycle(this.#end.context, this.#end.event)
    this.#end = undefined
  }

  /** Frees what could not be freed while the stream captured, if it does so no more. */
  freeDeferred(): void {
    const deferred = this.#deferred
    this.#deferred = []
    waitingOf(this.#open.driver).delete(this)
    for (const free of deferred) unlessLost(() => this.free(free))
  }

  #freeAfter({ event }: OwnEvent, device: Device, free: Free): void {
    const hidden = hiddenStream(device)
    hidden.driver.streamWaitEvent(hidden.handle, event, 0)
    free(hidden)
  }

  /** It was closed while it captured: nothing tells how far its own work is, only how far all work is. */
  #freeAfterAll(device: Device, free: Free): void {
    const { driver } = this.#open
    driver.deviceFinished(device.ordinal, () => unlessLost(() => free(hiddenStream(device))))
  }

  get #captures(): boolean {
    return this.#open.driver.streamIsCapturing(this.#open.handle)
  }

  #close(): void {
    if (this.#pieces === 0) return
    const { driver, handle, context } = this.#open
    if (this.#captures) queueMicrotask(() => freeDeferred(driver))
    else {
      this.#end = { context, event: driver.eventCreate(context, EventFlag.DISABLE_TIMING, true) }
      driver.eventRecordOwn(this.#end.event, handle)
    }
  }
}

export function homeOf(stream: Stream): Home {
  let home = homes.get(stream)
  if (home === undefined) {
    home = new Home(stream)
    homes.set(stream, home)
  }
  return home
}

/**
 * Frees what was closed while its home captured. To be called when a capture has ended, which all streams that joined it
 * leave, and before an allocation: other libraries end captures too.
 */
export function freeDeferred(driver: Driver): void {
  for (const home of [...(waiting.get(driver) ?? [])]) home.freeDeferred()
}

function waitingOf(driver: Driver): Set<Home> {
  let found = waiting.get(driver)
  if (found === undefined) {
    found = new Set()
    waiting.set(driver, found)
  }
  return found
}

/** In a lost context what is to be freed is gone either way, and the fault is told by whatever waits. */
export function unlessLost(fn: () => void): void {
  try {
    fn()
  } catch (error) {
    if (!(error instanceof CudaError && isContextLost(error.number))) throw error
  }
}
