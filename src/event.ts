import { inspect } from 'node:util'
import { checkBytes, checkOwner, isInstance, readOptions } from './base/arguments.js'
import { CudaError, explained, heardFrom, inspected, invalidReceiver, invalidType, printed } from './base/errors.js'
import { destroyWhenUnreachable } from './base/finalization.js'
import { contextOf, type Device, driverOf, resolveDevice } from './device.js'
import type { EventHandle } from './driver/driver.js'
import {
  EVENT_OPTIONS,
  EventCore,
  type EventOptions,
  flagsOf,
  PLAIN,
  settingsIn,
  settingsOf,
} from './streams/event-core.js'
import { finished, type WaitOptions } from './streams/finished.js'
import { announce, checkFact, receive, type SharedEvent } from './streams/shared.js'

const NEW_EVENT_OPTIONS = [...EVENT_OPTIONS, 'device'] as const
const IPC_HANDLE_BYTES = 64

/** The core of an Event; undefined for all else, also for its proxies and heirs. */
export let eventCoreOf: (value: unknown) => EventCore | undefined

export const isEvent = (value: unknown): value is Event => eventCoreOf(value) !== undefined

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
  readonly serial: number
  readonly #core: EventCore

  /**
   * Makes an event on `device`, the current one unless given (`cuEventCreate`).
   * @throws ERR_INVALID_ARG_VALUE for `timing` with `interprocess`, which CUDA cannot join; ERR_OUT_OF_RANGE for a
   * device that does not exist; ERR_INVALID_ARG_TYPE
   */
  constructor(options?: EventOptions & { readonly device?: Device | number | undefined }) {
    const core = isInstance(options, EventCore) ? options : newEvent(options)
    this.device = core.device
    this.timing = core.timing
    this.blockingSync = core.blockingSync
    this.interprocess = core.interprocess
    this.serial = core.serial
    this.#core = core
    if (core.isOurs) destroyWhenUnreachable(this, core)
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
    const wanted = given.device === -1 ? undefined : given.device
    return new Event(EventCore.adopt(handle, wanted, checkOwner(given.owner)))
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
    return new Event(new EventCore(device, context, { ...PLAIN, interprocess: true }, 'owned', adopted))
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
    return new Event(new EventCore(device, context, settings, 'shared', adopted))
  }

  /**
   * The CUevent: what other libraries take. It keeps nothing alive: hold the event as long as they use it. It can still
   * be read after `close()`, when it is nobody's.
   */
  get handle(): bigint {
    return eventCore(this).handOut()
  }

  /** Was it closed? */
  get closed(): boolean {
    return eventCore(this).closed
  }

  /**
   * Is the work before its latest record done (`cuEventQuery`)? True where it was never recorded.
   * @throws CudaError where the GPU has faulted; 907 for an event recorded in a capture that is under way, and 900
   * while a stream captures in a mode that forbids to ask, both of which spoil the capture; 1 for one of a capture that
   * is over
   */
  query(): boolean {
    const { driver, handle } = open(this)
    try {
      return driver.eventQuery(handle)
    } catch (error) {
      throw heardFrom(error, whom(this))
    }
  }

  /**
   * Blocks until the work before its latest record is done (`cuEventSynchronize`), running host functions meanwhile.
   * Returns at once where it was never recorded.
   * @throws CudaError as `query()`; ERR_DEADLOCK inside a host function that the record comes after, and on the
   * simulator where only this thread could open the latch that it waits for
   */
  synchronize(): void {
    const { driver, handle } = open(this)
    try {
      driver.eventSynchronize(handle)
    } catch (error) {
      throw heardFrom(error, whom(this))
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
      () => whom(this),
      (settle) => {
        const { driver, handle } = open(this)
        return driver.eventFinished(handle, settle)
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
    eventCore(this)
    const from = eventCoreOf(start)
    if (from === undefined) throw invalidType('start', 'an Event', start)
    const end = open(this)
    const begin = from.openFor(end.driver)
    try {
      return end.driver.eventElapsedTime(begin, end.handle)
    } catch (error) {
      throw error instanceof CudaError ? explainElapsed(from, end, error) : error
    }
  }

  /**
   * The 64 bytes by which another process opens it (`cuIpcGetEventHandle`). The event must be `interprocess`, and made
   * in this process.
   * @throws CudaError 400 for another event; ERR_UNSUPPORTED on the simulator; ERR_CLOSED
   */
  ipcHandle(): Uint8Array {
    const { driver, handle } = open(this)
    return driver.eventGetIpcHandle(handle)
  }

  /**
   * Describes it to other threads of this process: `Event.from()` makes an event of it there, to be recorded and waited
   * for. It is kept until you close it; do that when the others have done with it.
   * @throws ERR_CLOSED
   */
  share(): SharedEvent {
    const core = open(this)
    const { timing, blockingSync, interprocess } = core
    const shared = announce(core, this, 'event', core.device, [core.handle, flagsOf(core)])
    return { ...shared, handle: core.handOut(), timing, blockingSync, interprocess }
  }

  /** Is it the same event of the same device? False for what is no Event. */
  equals(other: unknown): boolean {
    const core = eventCore(this)
    const its = eventCoreOf(other)
    return its !== undefined && its.handle === core.handle && its.device === core.device
  }

  /**
   * Destroys the event (`cuEventDestroy`), or lets go of one that another library owns. Waits that were queued on it
   * still hold. May be called twice.
   */
  close(): void {
    eventCore(this).close()
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    eventCore(this)
    this.close()
  }

  get [Symbol.toStringTag](): string {
    return 'Event'
  }

  toString(): string {
    return eventCoreOf(this)?.toString() ?? printed(this)
  }

  [inspect.custom](): string {
    return inspected(this)
  }

  static {
    eventCoreOf = (value) => (typeof value === 'object' && value !== null && #core in value ? value.#core : undefined)
  }
}

function newEvent(options: (EventOptions & { readonly device?: Device | number | undefined }) | undefined): EventCore {
  const given = readOptions(options, NEW_EVENT_OPTIONS)
  const settings = settingsOf(given)
  const device = resolveDevice(given.device)
  return new EventCore(device, contextOf(device), settings)
}

export function eventCore(event: unknown): EventCore {
  const core = eventCoreOf(event)
  if (core === undefined) throw invalidReceiver('an Event', event)
  return core
}

function open(event: unknown): EventCore {
  const core = eventCore(event)
  if (core.closed) core.checkOpen()
  return core
}

/** Which work a wait is for, as an error says it. */
function whom(event: Event): string {
  const behind = eventCoreOf(event)?.behind
  return behind === undefined ? `${event}` : `${event}, recorded behind ${behind}`
}

function explainElapsed(start: EventCore, end: EventCore, error: CudaError): CudaError {
  for (const [name, event] of [['start', start] as const, ['end', end] as const]) {
    if (!event.isOurs || event.timing) continue
    return explained(error, `The ${name} event was made without timing: make it with { timing: true }`)
  }
  const why = WHY_NO_TIME[error.code]
  return why === undefined ? error : explained(error, why)
}

const WHY_NO_TIME: Readonly<Record<string, string>> = {
  CUDA_ERROR_NOT_READY: 'An event is not complete yet: wait for it, with await event.finished() or event.synchronize()',
  CUDA_ERROR_INVALID_HANDLE:
    'An event was never recorded, or the two belong to different devices: record both on one device',
}
