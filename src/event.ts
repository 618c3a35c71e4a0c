import { inspect } from 'node:util'
import {
  checkBoolean,
  checkBytes,
  checkOwner,
  checkPointer,
  checkThis,
  type Given,
  isInstance,
  readOptions,
} from './base/arguments.js'
import {
  CudaError,
  explained,
  heardFrom,
  inspected,
  invalidType,
  invalidValue,
  printed,
  stateError,
} from './base/errors.js'
import { destroyWhenUnreachable, type NativeResource, release } from './base/finalization.js'
import { nextSerial } from './base/identity.js'
import { another, contextOf, type Device, deviceOf, driverOf, resolveDevice } from './device.js'
import { driverForHandle } from './driver/default-driver.js'
import { type ContextHandle, type Driver, EventFlag, type EventHandle } from './driver/driver.js'
import { finished, type WaitOptions } from './streams/finished.js'
import { announce, checkFact, receive, type SharedEvent, withdraw } from './streams/shared.js'

/** How an event is made. All false where not given. */
export interface EventOptions {
  /** Can be asked for elapsed time; recording it costs more. */
  readonly timing?: boolean | undefined
  /** `synchronize()` sleeps instead of spinning. */
  readonly blockingSync?: boolean | undefined
  /** Can be shared with other processes by `ipcHandle()`; excludes `timing`. */
  readonly interprocess?: boolean | undefined
}

export interface EventSettings {
  readonly timing: boolean
  readonly blockingSync: boolean
  readonly interprocess: boolean
}

/** What an event is made from inside the library. */
class EventSeed {
  readonly device: Device
  readonly context: ContextHandle
  readonly settings: EventSettings
  /** Ours to destroy, wrapped for another owner, or kept by the library for the caller, whose `close()` does nothing. */
  readonly tenure: 'owned' | 'wrapped' | 'kept'
  /** A handle that exists already, instead of an event to be made. */
  readonly adopted: EventHandle | undefined
  readonly owner: object | undefined
  /** Recorded before anybody sees it. */
  readonly recordedNext: boolean

  constructor(
    device: Device,
    context: ContextHandle,
    settings: EventSettings,
    tenure: 'owned' | 'wrapped' | 'kept' = 'owned',
    adopted?: EventHandle,
    owner?: object,
    recordedNext = false,
  ) {
    this.device = device
    this.context = context
    this.settings = settings
    this.tenure = tenure
    this.adopted = adopted
    this.owner = owner
    this.recordedNext = recordedNext
  }
}

/** What a wrapped event keeps reachable. */
const owners = new WeakMap<Event, object>()

/** Wrapped by their handle: CUDA cannot be asked how an event was made. */
const madeElsewhere = new WeakSet<Event>()

const PLAIN: EventSettings = { timing: false, blockingSync: false, interprocess: false }
const IPC_HANDLE_BYTES = 64

/** The names of `EventOptions`. */
export const EVENT_OPTIONS = ['timing', 'blockingSync', 'interprocess'] as const
const NEW_EVENT_OPTIONS = [...EVENT_OPTIONS, 'device'] as const

/** An event of ours: destroyed, or made use of again where nobody can have seen its handle. */
class EventRemains implements NativeResource {
  readonly #driver: Driver
  readonly #context: ContextHandle
  readonly #handle: EventHandle
  reusable: boolean
  gone = false
  registered = false

  constructor(driver: Driver, context: ContextHandle, handle: EventHandle, reusable: boolean) {
    this.#driver = driver
    this.#context = context
    this.#handle = handle
    this.reusable = reusable
  }

  destroy(): void {
    if (this.reusable) this.#driver.eventRecycle(this.#context, this.#handle)
    else this.#driver.eventDestroy(this.#handle)
  }
}

/** The event's handle, for use with a driver. Throws where the event is closed or belongs to another driver. */
export let openEvent: (event: Event, driver: Driver) => EventHandle
/** Is it an Event, and not merely an heir to one, as a proxy is? */
export let isEvent: (value: unknown) => value is Event
/** Notes what was queued last before an event was recorded. */
export let recordedBehind: (event: Event, what: string | undefined) => void
let makeEvent: (seed: EventSeed) => Event

/**
 * A mark in a stream's work that others can wait for.
 *
 * What holds for all members is not repeated at each: an argument of the wrong type is ERR_INVALID_ARG_TYPE; a closed
 * event, this one or an argument, is ERR_CLOSED, and only `handle`, `device`, how it was made, `closed`, `equals()` and
 * `close()` still answer; once the GPU has faulted, whatever asks the driver throws its CudaError.
 */
export class Event implements Disposable {
  /** The device whose streams may record it; those of any may wait for it. */
  readonly device: Device
  /** Can be asked for elapsed time. Not known, and false, for an event that another library made. */
  readonly timing: boolean
  /** `synchronize()` sleeps instead of spinning. */
  readonly blockingSync: boolean
  /** Can be shared with other processes. */
  readonly interprocess: boolean
  /** Which object it is: no other of this thread has the number. Others may wrap the same event. */
  readonly serial: number = nextSerial()
  readonly #driver: Driver
  readonly #handle: EventHandle
  /** Undefined for an event that another library owns. */
  readonly #remains: EventRemains | undefined
  readonly #kept: boolean
  /** What was queued last before its latest record by us, for errors. */
  #behind: string | undefined
  #closed = false

  /**
   * Makes an event on `device`, the current one unless given (`cuEventCreate`).
   * @throws ERR_INVALID_ARG_VALUE for `timing` with `interprocess`, which CUDA cannot join; ERR_OUT_OF_RANGE for a
   * device that does not exist; ERR_INVALID_ARG_TYPE
   */
  constructor(options?: EventOptions & { readonly device?: Device | number | undefined }) {
    const seed = isInstance(options, EventSeed) ? options : seedFrom(options)
    this.device = seed.device
    this.timing = seed.settings.timing
    this.blockingSync = seed.settings.blockingSync
    this.interprocess = seed.settings.interprocess
    this.#driver = driverOf(seed.device)
    this.#kept = seed.tenure === 'kept'
    this.#handle = seed.adopted ?? this.#driver.eventCreate(seed.context, flagsOf(seed.settings), seed.recordedNext)
    if (seed.owner !== undefined) owners.set(this, seed.owner)
    if (seed.tenure === 'wrapped') return
    const { context, settings, adopted } = seed
    const reusable = settings === PLAIN && adopted === undefined
    this.#remains = new EventRemains(this.#driver, context, this.#handle, reusable)
    destroyWhenUnreachable(this, this.#remains)
  }

  /**
   * Wraps an event that another library made. It is never destroyed by us; `owner` is kept reachable meanwhile. CUDA
   * cannot be asked for an event's device: where its context does not tell, the current one is taken unless given.
   * `device` -1 means not known.
   * @throws ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for what cannot be a handle; ERR_INVALID_HANDLE for what is no
   * event; ERR_CLOSED for one that this library destroyed; ERR_DEVICE_MISMATCH where `device` is wrong
   */
  static fromHandle(
    handle: bigint | number,
    options?: { readonly device?: Device | number | undefined; readonly owner?: object | undefined },
  ): Event {
    const given = readOptions(options, ['device', 'owner'])
    const adopted = checkPointer(handle, 'handle', 'an event handle (a bigint or a safe integer)') as EventHandle
    const owner = checkOwner(given.owner)
    const wanted = given.device === -1 ? undefined : given.device
    const near = resolveDevice(wanted)
    const driver = wanted === undefined ? driverForHandle(adopted, driverOf(near)) : driverOf(near)
    const found = driver.eventAdopt(adopted) ?? { device: near.ordinal, context: contextOf(near) }
    const device = deviceOf(driver, found.device)
    if (wanted !== undefined && device !== near) {
      throw stateError('ERR_DEVICE_MISMATCH', `The event is on ${device}, not on ${near} as options.device says`)
    }
    const event = makeEvent(new EventSeed(device, found.context, PLAIN, 'wrapped', adopted, owner))
    madeElsewhere.add(event)
    return event
  }

  /**
   * Opens an event that another process shared (`cuIpcOpenEventHandle`): the 64 bytes that its `ipcHandle()` returned.
   * `device` is the one that it is opened on, the current one unless given.
   * @throws ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for other lengths; ERR_INVALID_HANDLE for bytes that are no
   * event of another process; ERR_UNSUPPORTED on the simulator
   */
  static fromIpcHandle(bytes: Uint8Array, options?: { readonly device?: Device | number | undefined }): Event {
    const { device: named } = readOptions(options, ['device'])
    const exported = checkBytes(bytes, 'bytes', [IPC_HANDLE_BYTES])
    const device = resolveDevice(named)
    const context = contextOf(device)
    const adopted = driverOf(device).eventOpenIpcHandle(context, exported)
    return makeEvent(new EventSeed(device, context, { ...PLAIN, interprocess: true }, 'owned', adopted))
  }

  /**
   * The event that another thread of this process shared by `share()`, whose `close()` here lets go of it; in the
   * thread that shared it, the event itself.
   * @throws ERR_CLOSED where it was closed, ERR_INVALID_HANDLE from another process, ERR_UNSUPPORTED from another
   * thread's simulator; ERR_DEVICE_MISMATCH where the threads have different drivers; ERR_INVALID_ARG_TYPE,
   * ERR_INVALID_ARG_VALUE for a token that is not as `share()` returned it
   */
  static from(shared: SharedEvent): Event {
    const { owner, device, facts, said } = receive(shared, 'event', [...EVENT_OPTIONS, 'handle'])
    const [handle = 0, flags = 0] = facts
    checkFact(said.handle, 'handle', BigInt(handle))
    const settings = settingsIn(flags)
    for (const name of EVENT_OPTIONS) checkFact(said[name], name, settings[name])
    if (owner !== undefined) return owner as Event
    const adopted = handle as EventHandle
    const context = driverOf(device).eventAdopt(adopted)?.context ?? contextOf(device)
    return makeEvent(new EventSeed(device, context, settings, 'wrapped', adopted))
  }

  /**
   * The CUevent: what other libraries take. It keeps nothing alive: hold the event as long as they use it. It can still
   * be read after `close()`, when it is nobody's.
   */
  get handle(): bigint {
    const event = checkThis(this, isEvent, 'an Event')
    if (event.#remains !== undefined) event.#remains.reusable = false
    return BigInt(event.#handle)
  }

  /** Was it closed? */
  get closed(): boolean {
    return checkThis(this, isEvent, 'an Event').#closed
  }

  /**
   * Is the work before its latest record done (`cuEventQuery`)? True where it was never recorded.
   * @throws CudaError where the GPU has faulted; 907 for an event recorded in a capture that is under way, and 900
   * while a stream captures in a mode that forbids to ask, both of which spoil the capture; 1 for one of a capture that
   * is over
   */
  query(): boolean {
    const handle = Event.#open(this)
    try {
      return this.#driver.eventQuery(handle)
    } catch (error) {
      throw heardFrom(error, this.#whom())
    }
  }

  /**
   * Blocks until the work before its latest record is done (`cuEventSynchronize`), running host functions meanwhile.
   * Returns at once where it was never recorded.
   * @throws CudaError as `query()`; ERR_DEADLOCK inside a host function that the record comes after, and on the
   * simulator where only this thread could open the latch that it waits for
   */
  synchronize(): void {
    const handle = Event.#open(this)
    try {
      this.#driver.eventSynchronize(handle)
    } catch (error) {
      throw heardFrom(error, this.#whom())
    }
  }

  /**
   * Resolves when the work before its latest record is done, without blocking; at once where it was never recorded.
   * Recording it anew changes nothing. While it is pending the process stays alive. Rejects with the CudaError if the
   * GPU faults, 907 for an event recorded in a capture that is under way and 1 for one of a capture that is over (which
   * spoils nothing), with `signal.reason` if aborted, with ERR_CLOSED or ERR_INVALID_ARG_TYPE; never throws.
   */
  finished(options?: WaitOptions): Promise<void> {
    return finished(
      options,
      () => this.#whom(),
      (settle) => {
        const handle = Event.#open(this)
        return this.#driver.eventFinished(handle, settle)
      },
    )
  }

  /**
   * Milliseconds from `start` to this event of the same device (`cuEventElapsedTime`), with a resolution of about half
   * a microsecond; negative where `start` came later.
   * @throws CudaError 400 where one of them has no timing or was never recorded, 600 where one is not done yet;
   * ERR_DEVICE_MISMATCH for one of another driver
   */
  elapsedSince(start: Event): number {
    checkThis(this, isEvent, 'an Event')
    if (!isEvent(start)) throw invalidType('start', 'an Event', start)
    const end = Event.#open(this)
    const from = openEvent(start, this.#driver)
    try {
      return this.#driver.eventElapsedTime(from, end)
    } catch (error) {
      throw error instanceof CudaError ? this.#explainElapsed(start, error) : error
    }
  }

  /**
   * The 64 bytes by which another process opens it (`cuIpcGetEventHandle`). The event must be `interprocess`, and made
   * in this process.
   * @throws CudaError 400 for another event; ERR_UNSUPPORTED on the simulator; ERR_CLOSED
   */
  ipcHandle(): Uint8Array {
    const handle = Event.#open(this)
    return this.#driver.eventGetIpcHandle(handle)
  }

  /**
   * Describes it to other threads of this process: `Event.from()` makes an event of it there, to be recorded and waited
   * for. It is kept until you close it; do that when the others have done with it.
   * @throws ERR_CLOSED
   */
  share(): SharedEvent {
    const handle = Event.#open(this)
    const { timing, blockingSync, interprocess } = this
    const shared = announce(this, 'event', this.device, [handle, flagsOf(this)])
    return { ...shared, handle: this.handle, timing, blockingSync, interprocess }
  }

  /** Is it the same event of the same device? False for what is no Event. */
  equals(other: unknown): boolean {
    const event = checkThis(this, isEvent, 'an Event')
    return isEvent(other) && other.#handle === event.#handle && other.device === event.device
  }

  /**
   * Destroys the event (`cuEventDestroy`), or lets go of one that another library owns. Waits that were queued on it
   * still hold. May be called twice.
   */
  close(): void {
    const event = checkThis(this, isEvent, 'an Event')
    if (event.#closed || event.#kept) return
    this.#closed = true
    withdraw(this, this.device)
    owners.delete(this)
    if (this.#remains !== undefined) release(this, this.#remains)
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    checkThis(this, isEvent, 'an Event').close()
  }

  get [Symbol.toStringTag](): string {
    return 'Event'
  }

  toString(): string {
    if (!isEvent(this)) return printed(this)
    return `Event(0x${this.handle.toString(16)}, ${this.device}${this.#closed ? ', closed' : ''})`
  }

  [inspect.custom](): string {
    return inspected(this)
  }

  /** Whose work a wait is for, as an error says it. */
  #whom(): string {
    return this.#behind === undefined ? `${this}` : `${this}, recorded behind ${this.#behind}`
  }

  static #open(value: Event): EventHandle {
    const event = checkThis(value, isEvent, 'an Event')
    if (event.#closed) throw closed(event)
    return event.#handle
  }

  #explainElapsed(start: Event, error: CudaError): CudaError {
    const { code } = error
    const explain = (why: string): CudaError => explained(error, why)
    for (const [name, event] of [['start', start] as const, ['end', this] as const]) {
      if (event.#remains === undefined) continue
      if (!event.timing) return explain(`The ${name} event was made without timing: make it with { timing: true }`)
    }
    if (code === 'CUDA_ERROR_NOT_READY') {
      return explain('An event is not complete yet: wait for it, with await event.finished() or event.synchronize()')
    }
    if (code === 'CUDA_ERROR_INVALID_HANDLE') {
      return explain('An event was never recorded, or the two belong to different devices: record both on one device')
    }
    return error
  }

  static {
    isEvent = (value): value is Event => typeof value === 'object' && value !== null && #handle in value
    recordedBehind = (event, what) => {
      event.#behind = what
    }
    makeEvent = (seed) => new Event(seed as EventOptions)
    openEvent = (event, driver) => {
      if (event.#closed) throw closed(event)
      if (event.#driver === driver) return event.#handle
      const owner = another(event.#driver, driver)
      throw stateError('ERR_DEVICE_MISMATCH', `${event} belongs to ${owner} than what it is used with`)
    }
  }
}

const closed = (event: Event): Error => stateError('ERR_CLOSED', `${event} cannot be used any more`)

/** How many entries of a hardware queue a record takes: none for a plain event, as far as is known how it was made. */
export function entriesOf(event: Event): number {
  return event.timing || event.interprocess || madeElsewhere.has(event) ? 1 : 0
}

/** A new event in a stream's own context, which need not be its device's primary one. */
export function eventFor(device: Device, context: ContextHandle, settings: EventSettings): Event {
  return makeEvent(new EventSeed(device, context, settings, 'owned', undefined, undefined, true))
}

/** What options ask for. */
export function settingsFrom(options: GivenEventOptions | undefined): EventSettings {
  return options === undefined ? PLAIN : settingsOf(options)
}

/** An event that lives as long as the stream that keeps it. */
export function keptEventFor(device: Device, context: ContextHandle): Event {
  return makeEvent(new EventSeed(device, context, PLAIN, 'kept'))
}

/** Throws where options ask for an event that this one is not. How another library made its own is not known, and passes. */
export function checkAgainst(event: Event, options: GivenEventOptions): void {
  const wanted = settingsOf(options)
  if (madeElsewhere.has(event)) return
  for (const name of EVENT_OPTIONS) {
    if (options[name] !== undefined && wanted[name] !== event[name]) {
      throw invalidValue(
        `options.${name} is ${wanted[name]}, but the event given was made with ${event[name]}; leave the option out, or give no event`,
      )
    }
  }
}

type GivenEventOptions = Given<EventOptions, (typeof EVENT_OPTIONS)[number]>

function seedFrom(options: (EventOptions & { readonly device?: Device | number | undefined }) | undefined): EventSeed {
  const given = readOptions(options, NEW_EVENT_OPTIONS)
  const settings = settingsOf(given)
  const device = resolveDevice(given.device)
  return new EventSeed(device, contextOf(device), settings)
}

function settingsOf(options: GivenEventOptions): EventSettings {
  const timing = checkBoolean(options.timing, 'options.timing', false)
  const blockingSync = checkBoolean(options.blockingSync, 'options.blockingSync', false)
  const interprocess = checkBoolean(options.interprocess, 'options.interprocess', false)
  if (!timing && !blockingSync && !interprocess) return PLAIN
  if (timing && interprocess) {
    throw invalidValue('options.timing and options.interprocess exclude each other: CUDA times no shared event')
  }
  return { timing, blockingSync, interprocess }
}

/** The reverse of `flagsOf`. */
function settingsIn(flags: number): EventSettings {
  return {
    timing: (flags & EventFlag.DISABLE_TIMING) === 0,
    blockingSync: (flags & EventFlag.BLOCKING_SYNC) !== 0,
    interprocess: (flags & EventFlag.INTERPROCESS) !== 0,
  }
}

function flagsOf({ timing, blockingSync, interprocess }: EventSettings): number {
  return (
    (timing ? 0 : EventFlag.DISABLE_TIMING) |
    (blockingSync ? EventFlag.BLOCKING_SYNC : 0) |
    (interprocess ? EventFlag.INTERPROCESS : 0)
  )
}
