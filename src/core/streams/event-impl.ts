/** The implementation of an event, which the rest of the library works with; the public class above it is `Event`. */

import { checkBoolean, checkPointer, type Given } from '../../foundation/base/arguments.js'
import { closedAt, noteClosed } from '../../foundation/base/closing-places.js'
import { invalidValue, stateError } from '../../foundation/base/errors.js'
import { NativeResource } from '../../foundation/base/finalization.js'
import { nextSerial } from '../../foundation/base/library-object.js'
import type { Driver } from '../../foundation/driver/driver.js'
import { EventFlag } from '../../foundation/driver/driver-constants.js'
import type { ContextHandle, EventHandle } from '../../foundation/driver/handle-types.js'
import { NO_PROMISES } from '../../foundation/driver/promise-waits.js'
import { driverForHandle } from '../default-driver.js'
import { another, contextOf, type Device, deviceOf, driverOf, resolveDevice, type ShortWay } from '../device.js'
import { NO_USES } from './awaited-uses.js'
import { forgetRecord } from './capture-record.js'
import { Lifetime, lifetimeBegins, lifetimeEnds, lifetimeOf, unregister, type WrappedLifetime } from './shared.js'

/** How an event is made. All false by default. */
export interface EventOptions {
  /** The event can be asked for elapsed time; its records cost more. */
  readonly timing?: boolean | undefined
  /** `synchronize()` sleeps instead of spinning. */
  readonly blockingSync?: boolean | undefined
  /** The event can be shared with other processes by `ipcHandle()`; excludes `timing`. */
  readonly interprocess?: boolean | undefined
}

export interface EventSettings {
  readonly timing: boolean
  readonly blockingSync: boolean
  readonly interprocess: boolean
}

/** The names of `EventOptions`. */
export const EVENT_OPTIONS = ['timing', 'blockingSync', 'interprocess'] as const

type GivenEventOptions = Given<EventOptions, (typeof EVENT_OPTIONS)[number]>

/** The settings of an event that is made without options. */
export const PLAIN: EventSettings = { timing: false, blockingSync: false, interprocess: false }

/**
 * 'owned': to be destroyed by this library. 'recordedNext': owned, and recorded before any program has it. 'foreign': of
 * another library, which may have made it in any way. 'shared': of another thread. 'kept': `close()` does nothing to it.
 */
type Ownership = 'owned' | 'recordedNext' | 'foreign' | 'shared' | 'kept'

/** An event that was not made here, but opened or wrapped. */
interface ExistingEvent {
  readonly handle: EventHandle
  /** The object that the event keeps reachable. */
  readonly owner?: object | undefined
  /** The lifetime of an event of another thread. */
  readonly lifetime?: WrappedLifetime | undefined
}

const EXPECTED = 'an Event, an event handle (a bigint or a safe integer) or the result of share() of an event'

/** The error of an event that is not where the options of its wrapper say. */
export const onAnotherDevice = (device: Device, wanted: Device): Error =>
  stateError('ERR_DEVICE_MISMATCH', `The event is on ${device}, not on ${wanted} as options.device says`)

export class EventImpl extends NativeResource {
  readonly driver: Driver
  readonly handle: EventHandle
  readonly serial = nextSerial()
  closed = false
  /** The short way that records of it and waits for it may go by, set by the first one that went the other way; undefined once it is closed. */
  short: ShortWay | undefined
  /** The number of its records, those that the driver refused included. */
  records = 0
  /** What `records` was at its latest record in a capture that this library began. */
  capturedAt = -1
  /** What `records` was when the event was last found to be done. */
  #doneAt = -1
  /** The last operation that this library queued before the latest record, for errors. */
  workBefore: string | undefined
  /** The uses of memory that its latest record comes after. */
  uses = NO_USES
  /** The object that a wrapped event keeps reachable. */
  owner: object | undefined
  /** Promises that its latest record comes after. */
  promises = NO_PROMISES
  /** Hardware-queue entries that a record takes; it is assumed that an event of another library takes one. */
  readonly entries: 0 | 1
  /** Nothing but this object has the event's handle: no other code, no graph. */
  #isPrivate: boolean
  /** The lifetime of an event of this library whose handle was read, and of wrapped events. */
  #lifetime: WrappedLifetime | undefined

  /** Makes an event, or takes one that exists. */
  constructor(
    readonly device: Device,
    readonly context: ContextHandle,
    readonly settings: EventSettings,
    private readonly ownership: Ownership = 'owned',
    existing?: ExistingEvent,
  ) {
    super()
    this.owner = existing?.owner
    this.driver = driverOf(device)
    this.entries = settings.timing || settings.interprocess || ownership === 'foreign' ? 1 : 0
    this.#isPrivate = existing === undefined && !settings.interprocess
    this.handle =
      existing?.handle ?? this.driver.events.create(context, flagsOf(settings), ownership === 'recordedNext')
    this.#lifetime = this.isOwned ? undefined : (existing?.lifetime ?? lifetimeOf(this.driver, this.handle))
  }

  /** A new event: `cuEventCreate`. */
  static make(device: Device, given?: GivenEventOptions): EventImpl {
    return new EventImpl(device, contextOf(device), settingsOf(given))
  }

  /** An event of another library. If the driver cannot tell its device, that is the given one, or the current one. */
  static wrap(handle: bigint | number, wanted: Device | number | undefined, owner: object | undefined): EventImpl {
    const wrapped = checkPointer(handle, 'source', EXPECTED) as EventHandle
    const near = resolveDevice(wanted)
    const driver = wanted === undefined ? driverForHandle(wrapped, driverOf(near)) : driverOf(near)
    const found = driver.events.wrap(wrapped) ?? { device: near.ordinal, context: contextOf(near) }
    const device = deviceOf(driver, found.device)
    if (wanted === undefined || device === near) {
      return new EventImpl(device, found.context, PLAIN, 'foreign', { handle: wrapped, owner })
    }
    throw onAnotherDevice(device, near)
  }

  /** Does this library destroy the event? Not if it wraps one. */
  get isOwned(): boolean {
    return this.ownership !== 'foreign' && this.ownership !== 'shared'
  }

  /** Gives the handle to other code, which may keep it: from now on the driver must not use the event again. */
  escape(): bigint {
    this.#isPrivate = false
    if (this.isOwned && !this.closed) this.#lifetime ??= lifetimeBegins(this.driver, this.handle)
    return BigInt(this.handle)
  }

  /** Whether no other code and no graph can have recorded the event. */
  get isPrivate(): boolean {
    return this.#isPrivate
  }

  /** Whether the event's latest record was found to be done, and other code cannot have recorded it since. */
  get isKnownDone(): boolean {
    return this.#doneAt === this.records && this.#isPrivate
  }

  /** Whether the event's latest record is part of a graph, and so no work that runs. */
  get isCaptured(): boolean {
    return this.capturedAt === this.records
  }

  /** Notes that the record of this number is done: a host function may have recorded the event again since. */
  markDone(records: number): void {
    this.#doneAt = records
  }

  /** The stream has recorded the event, or waited for it. */
  mayGoShort({ short, device }: { readonly short: ShortWay | undefined; readonly device: Device }): void {
    if (this.short !== short && this.isOwned && this.entries === 0 && this.device === device) this.short = short
  }

  /** The handle, for use with a driver. Throws if the event is closed or belongs to another driver. */
  openFor(driver: Driver): EventHandle {
    this.checkOpen()
    if (this.driver === driver) return this.handle
    const owner = another(this.driver, driver)
    throw stateError('ERR_DEVICE_MISMATCH', `${this} belongs to ${owner} than the object it is used with`)
  }

  /** A closed event equals only its wrappers: the driver may have given its handle to another one. */
  isSame(other: EventImpl): boolean {
    if (this === other) return true
    const areOne = this.handle === other.handle && this.device === other.device
    if (this.#lifetime?.hasEnded || other.#lifetime?.hasEnded) return areOne && this.#lifetime === other.#lifetime
    return areOne && !(this.#isGone || other.#isGone)
  }

  get #isGone(): boolean {
    return this.closed && this.#isPrivate
  }

  /** The event was closed, or wraps an event that this library has closed. */
  override get isClosed(): boolean {
    return this.closed || this.#lifetime?.hasEnded === true
  }

  override checkOpen(): this {
    if (!this.isClosed) return this
    const why = this.closed
      ? closedAt(this)
      : ': the Event that it wraps was closed. Keep that open as long as its handle is used'
    throw stateError('ERR_CLOSED', `${this} cannot be used any more${why}`)
  }

  /** Throws if options ask for another kind of event. The settings of a foreign event are not known, and pass. */
  checkAgainst(options: GivenEventOptions): void {
    const wanted = settingsOf(options)
    if (this.ownership === 'foreign') return
    for (const name of EVENT_OPTIONS) {
      if (options[name] === undefined || wanted[name] === this.settings[name]) continue
      const mismatch = `options.${name} is ${wanted[name]}, but the event given was made with ${this.settings[name]}`
      throw invalidValue(`${mismatch}; leave the option out, or give no event`)
    }
  }

  close(): void {
    if (this.closed || this.ownership === 'kept') return
    noteClosed(this)
    this.closed = true
    this.short = undefined
    unregister(this)
    this.owner = undefined
    if (!this.isOwned) {
      this.#lifetime?.leave?.()
      return
    }
    this.#endLifetime()
    this.dispose()
  }

  #endLifetime(): void {
    if (this.#lifetime instanceof Lifetime) lifetimeEnds(this.driver, this.handle, this.#lifetime)
  }

  override destroy(): void {
    this.#endLifetime()
    forgetRecord(this.driver, this.handle)
    // The driver may give an event that is recorded next the record of an earlier use.
    const neverRecorded = this.records === 0 && this.ownership !== 'recordedNext'
    if (this.#isPrivate && !this.settings.blockingSync) {
      this.driver.events.recycle(this.context, this.handle, flagsOf(this.settings), neverRecorded)
    } else this.driver.events.destroy(this.handle)
  }

  override toString(): string {
    return `Event(0x${this.handle.toString(16)}, ${this.device}${this.isClosed ? ', closed' : ''})`
  }
}

/** Returns the checked settings. Those of an event without options are `PLAIN`, the same object. */
export function settingsOf(options: GivenEventOptions | undefined): EventSettings {
  if (options === undefined) return PLAIN
  const timing = checkBoolean(options.timing, 'options.timing', false)
  const blockingSync = checkBoolean(options.blockingSync, 'options.blockingSync', false)
  const interprocess = checkBoolean(options.interprocess, 'options.interprocess', false)
  if (!timing && !blockingSync && !interprocess) return PLAIN
  if (timing && interprocess) {
    throw invalidValue('options.timing and options.interprocess exclude each other: CUDA times no shared event')
  }
  return { timing, blockingSync, interprocess }
}

/** CUDA's flags for these settings; `settingsIn()` is the reverse. */
export const flagsOf = ({ timing, blockingSync, interprocess }: EventSettings): number =>
  (timing ? 0 : EventFlag.DISABLE_TIMING) |
  (blockingSync ? EventFlag.BLOCKING_SYNC : 0) |
  (interprocess ? EventFlag.INTERPROCESS : 0)

export const settingsIn = (flags: number): EventSettings => ({
  timing: (flags & EventFlag.DISABLE_TIMING) === 0,
  blockingSync: (flags & EventFlag.BLOCKING_SYNC) !== 0,
  interprocess: (flags & EventFlag.INTERPROCESS) !== 0,
})
