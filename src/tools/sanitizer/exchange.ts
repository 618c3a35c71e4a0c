/** The exchange between the sanitizers of a process's threads, which begins when the first object is shared. */
import { process } from '../../foundation/base/node-modules.js'
import {
  type EventHandle,
  isDefaultStream,
  type Pointer,
  type StreamHandle,
} from '../../foundation/driver/handle-types.js'
import {
  newWatchedObject,
  unwatchedBegins,
  type WatchedObject,
  watchedObject,
} from '../../foundation/driver/watched-threads.js'
import type { HappensBefore } from './happens-before.js'
import { Mailbox } from './mailboxes.js'
import type { TakenStack } from './operations.js'
import type { Region, Regions } from './regions.js'
import { SharedRegion } from './shared-accesses.js'
import { EventClock } from './shared-clocks.js'

/** The numbers of the kinds of shared objects. */
const [STREAM, EVENT] = [0, 1]
/** The number of shared objects at which those that were closed are removed for the first time. */
const FIRST_LOOK = 64

interface Shared {
  readonly watched: WatchedObject
  readonly mailbox: Mailbox
}

/** The exchange of this thread. There is only one, since a second sanitizer would send each operation again. */
let current: Exchange | undefined

export class Exchange {
  /** The shared objects; keys are made of kind, device and handle. */
  readonly #shared = new Map<string, Shared>()
  #nextLook = FIRST_LOOK
  readonly #end = (): void => this.order.endSharing()

  constructor(
    private readonly order: HappensBefore,
    private readonly regions: Regions,
  ) {}

  /** Shares an object with other threads; returns undefined if another sanitizer of this thread watches what it shares. */
  share(words: readonly number[]): WatchedObject | undefined {
    if (!this.#begin()) return undefined
    const known = this.#known(words)
    if (known !== undefined) return { ...known.watched, isKnown: true }
    const watched = newWatchedObject()
    const mailbox = Mailbox.of(watched)
    this.#add(words, watched, mailbox)
    const [, kind, , handle = 0, byteLength = 0] = words
    if (kind === STREAM) this.order.streams.share(handle as StreamHandle, mailbox)
    else if (kind === EVENT) this.#shareEvent(handle as EventHandle, mailbox)
    else this.#shareRegion(this.regions.shared(handle as Pointer, byteLength), mailbox)
    return watched
  }

  /** Receives an object of another thread; returns false if no sanitizer watches it there. */
  receive(words: readonly number[], given: unknown, made: TakenStack | undefined): boolean {
    const watched = watchedObject(given)
    if (watched === undefined || !this.#begin()) return false
    if (this.#known(words) !== undefined) return true
    const mailbox = Mailbox.of(watched)
    this.#add(words, watched, mailbox)
    const [, kind, device = 0, handle = 0, byteLength = 0] = words
    if (kind === STREAM) {
      if (isDefaultStream(handle as StreamHandle)) return true
      // The handle may have been that of another stream before.
      this.order.streams.wrapped(handle as StreamHandle, device, made)
      this.order.streams.share(handle as StreamHandle, mailbox)
    } else if (kind === EVENT) {
      this.order.events.destroyed(handle as EventHandle)
      this.#shareEvent(handle as EventHandle, mailbox)
    } else this.#shareRegion(this.regions.received(handle as Pointer, byteLength), mailbox)
    return true
  }

  /** Ends the exchange: no sanitizer observes any more what this thread does with the objects. */
  stop(): void {
    if (current !== this) return
    current = undefined
    process.off('exit', this.#end)
    this.#end()
    for (const { watched } of this.#shared.values()) unwatchedBegins(watched)
  }

  #begin(): boolean {
    if (current === undefined) {
      current = this
      process.once('exit', this.#end)
    }
    if (current === this) this.order.beginSharing()
    return current === this
  }

  #known(words: readonly number[]): Shared | undefined {
    const known = this.#shared.get(keyOf(words))
    return known?.mailbox.isClosed ? undefined : known
  }

  #add(words: readonly number[], watched: WatchedObject, mailbox: Mailbox): void {
    this.#shared.set(keyOf(words), { watched, mailbox })
    if (this.#shared.size < this.#nextLook) return
    for (const [key, { mailbox: each }] of this.#shared) if (each.isClosed) this.#shared.delete(key)
    this.#nextLook = Math.max(FIRST_LOOK, 2 * this.#shared.size)
  }

  #shareEvent(handle: EventHandle, mailbox: Mailbox): void {
    this.order.events.share(handle, new EventClock(this.order.beginSharing(), mailbox))
  }

  #shareRegion(region: Region, mailbox: Mailbox): void {
    const { order, regions } = this
    const parts = { clocks: order.beginSharing(), regions, pendingWaits: order.pendingWaits }
    const shared = new SharedRegion(parts, mailbox, region)
    region.shared = shared
    shared.begin()
  }
}

const keyOf = ([, kind, device, handle]: readonly number[]): string => `${kind} ${device} ${handle}`
