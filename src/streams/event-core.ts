/** An event as the rest of the library works on it; the noun above it is `Event`. */
import { checkBoolean, checkPointer, type Given } from '../base/arguments.js'
import { invalidValue, stateError } from '../base/errors.js'
import { NativeResource } from '../base/finalization.js'
import { nextSerial } from '../base/identity.js'
import { another, contextOf, type Device, deviceOf, driverOf, resolveDevice } from '../device.js'
import { driverForHandle } from '../driver/default-driver.js'
import { type ContextHandle, type Driver, EventFlag, type EventHandle } from '../driver/driver.js'
import { NO_PROMISES } from '../driver/promise-waits.js'
import { Lifetime, lifetimeBegins, lifetimeEnds, lifetimeOf, type WrappedLifetime } from './lifetimes.js'
import { withdraw } from './shared.js'

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

/** Those of an event without options. */
export const PLAIN: EventSettings = { timing: false, blockingSync: false, interprocess: false }

/**
 * Ours to destroy; ours, and recorded before any program sees it; wrapped for another owner, who may have made it in
 * any way; wrapped for another thread of this library; or kept by the library: then `close()` does nothing.
 */
type Tenure = 'owned' | 'recordedNext' | 'foreign' | 'shared' | 'kept'

export class EventCore extends NativeResource implements EventSettings {
  readonly driver: Driver
  readonly handle: EventHandle
  readonly serial = nextSerial()
  closed = false
  /** Counts its records, also those that the driver refused. */
  records = 0
  /** What `records` was when the event was last seen to be done. */
  #doneAt = -1
  /** The work that was queued last before its latest record by this library, for errors. */
  behind: string | undefined
  /** Promises that its latest record comes after. */
  promises = NO_PROMISES
  /** A record of it takes an entry of the hardware queue; assumed of an event that another library made. */
  readonly entries: 0 | 1
  /** Nothing but this object has its handle: no other program, no graph. */
  #isPrivate: boolean
  /** Of an event of this library whose handle was read, or that this one wraps. */
  #lifetime: WrappedLifetime | undefined

  /** `owner` is the object that a wrapped event keeps reachable. */
  constructor(
    readonly device: Device,
    readonly context: ContextHandle,
    private readonly settings: EventSettings,
    private readonly tenure: Tenure = 'owned',
    adopted?: EventHandle,
    public owner?: object,
    /** Of the event of another thread that this one wraps. */
    lifetime?: WrappedLifetime,
  ) {
    super()
    this.driver = driverOf(device)
    this.entries = settings.timing || settings.interprocess || tenure === 'foreign' ? 1 : 0
    this.#isPrivate = adopted === undefined && !settings.interprocess
    this.handle = adopted ?? this.driver.eventCreate(context, flagsOf(settings), tenure === 'recordedNext')
    this.#lifetime = this.isOurs ? undefined : (lifetime ?? lifetimeOf(this.driver, this.handle))
  }

  get timing(): boolean {
    return this.settings.timing
  }

  get blockingSync(): boolean {
    return this.settings.blockingSync
  }

  get interprocess(): boolean {
    return this.settings.interprocess
  }

  static is(value: unknown): value is EventCore {
    return typeof value === 'object' && value !== null && #isPrivate in value
  }

  /** A new event: `cuEventCreate`. */
  static make(device: Device, given?: GivenEventOptions): EventCore {
    return new EventCore(device, contextOf(device), settingsOf(given))
  }

  /** Another library's event. Where the driver cannot tell its device, that is the one given, or the current one. */
  static adopt(handle: bigint | number, wanted: Device | number | undefined, owner: object | undefined): EventCore {
    const adopted = checkPointer(handle, 'handle', 'an event handle (a bigint or a safe integer)') as EventHandle
    const near = resolveDevice(wanted)
    const driver = wanted === undefined ? driverForHandle(adopted, driverOf(near)) : driverOf(near)
    const found = driver.eventAdopt(adopted) ?? { device: near.ordinal, context: contextOf(near) }
    const device = deviceOf(driver, found.device)
    if (wanted === undefined || device === near) {
      return new EventCore(device, found.context, PLAIN, 'foreign', adopted, owner)
    }
    throw stateError('ERR_DEVICE_MISMATCH', `The event is on ${device}, not on ${near} as options.device says`)
  }

  /** To be destroyed by this library, unlike a wrapped event. */
  get isOurs(): boolean {
    return this.tenure !== 'foreign' && this.tenure !== 'shared'
  }

  /** Gives the handle to the program, which may keep it: the driver must not use the event again. */
  handOut(): bigint {
    this.#isPrivate = false
    if (this.isOurs && !this.closed) this.#lifetime ??= lifetimeBegins(this.driver, this.handle)
    return BigInt(this.handle)
  }

  /** Its latest record was seen to be done, and other code cannot have recorded it since. */
  get isSurelyDone(): boolean {
    return this.#doneAt === this.records && this.#isPrivate
  }

  /** Seen to be done after so many records: a host function may have recorded it since. */
  sawDone(records: number): void {
    this.#doneAt = records
  }

  /** The handle, for use with a driver. Throws where the event is closed or belongs to another driver. */
  openFor(driver: Driver): EventHandle {
    this.checkOpen()
    if (this.driver === driver) return this.handle
    const owner = another(this.driver, driver)
    throw stateError('ERR_DEVICE_MISMATCH', `${this} belongs to ${owner} than the object it is used with`)
  }

  /** A closed event equals its wrappers alone: the driver may have made another, with the same handle. */
  isSame(other: EventCore): boolean {
    if (this === other) return true
    const areOne = this.handle === other.handle && this.device === other.device
    if (this.#lifetime?.isOver || other.#lifetime?.isOver) return areOne && this.#lifetime === other.#lifetime
    return areOne && !(this.#isGone || other.#isGone)
  }

  get #isGone(): boolean {
    return this.closed && this.#isPrivate
  }

  /** It was closed, or wraps an event that this library has closed. */
  get isOver(): boolean {
    return this.closed || this.#lifetime?.isOver === true
  }

  checkOpen(): this {
    if (this.isOver) throw this.#overError()
    return this
  }

  #overError(): Error {
    const why = this.closed ? '' : ': the Event that it wraps was closed. Keep that open as long as its handle is used'
    return stateError('ERR_CLOSED', `${this} cannot be used any more${why}`)
  }

  /**
   * Throws where options ask for an event that this one is not. The settings of another library's event are not known,
   * and pass.
   */
  checkAgainst(options: GivenEventOptions): void {
    const wanted = settingsOf(options)
    if (this.tenure === 'foreign') return
    for (const name of EVENT_OPTIONS) {
      if (options[name] === undefined || wanted[name] === this[name]) continue
      const mismatch = `options.${name} is ${wanted[name]}, but the event given was made with ${this[name]}`
      throw invalidValue(`${mismatch}; leave the option out, or give no event`)
    }
  }

  close(): void {
    if (this.closed || this.tenure === 'kept') return
    this.closed = true
    withdraw(this)
    this.owner = undefined
    if (!this.isOurs) return
    this.#endLifetime()
    this.release()
  }

  #endLifetime(): void {
    if (this.#lifetime instanceof Lifetime) lifetimeEnds(this.driver, this.handle, this.#lifetime)
  }

  override destroy(): void {
    this.#endLifetime()
    // One that is recorded next comes with the record of an earlier use.
    const neverRecorded = this.records === 0 && this.tenure !== 'recordedNext'
    if (this.#isPrivate && !this.settings.blockingSync) {
      this.driver.eventRecycle(this.context, this.handle, neverRecorded)
    } else this.driver.eventDestroy(this.handle)
  }

  override toString(): string {
    return `Event(0x${this.handle.toString(16)}, ${this.device}${this.isOver ? ', closed' : ''})`
  }
}

/** Checked settings. An event without options has those of `PLAIN`, the same object. */
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

/** CUDA's flags for these settings; `settingsIn` is the reverse. */
export function flagsOf({ timing, blockingSync, interprocess }: EventSettings): number {
  return (
    (timing ? 0 : EventFlag.DISABLE_TIMING) |
    (blockingSync ? EventFlag.BLOCKING_SYNC : 0) |
    (interprocess ? EventFlag.INTERPROCESS : 0)
  )
}

export function settingsIn(flags: number): EventSettings {
  return {
    timing: (flags & EventFlag.DISABLE_TIMING) === 0,
    blockingSync: (flags & EventFlag.BLOCKING_SYNC) !== 0,
    interprocess: (flags & EventFlag.INTERPROCESS) !== 0,
  }
}
