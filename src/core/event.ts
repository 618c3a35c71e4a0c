/** Events: points in the work of streams, which other work can wait for. */
import { checkOwner, readOptions } from '../foundation/base/arguments.js'
import { checkBytes, type OwnBytes } from '../foundation/base/bytes.js'
import { CudaError, explained, invalidType, refuseReceiver, reportedWhileWaiting } from '../foundation/base/errors.js'
import { destroyWhenUnreachable } from '../foundation/base/finalization.js'
import { ClosableObject, implementation } from '../foundation/base/library-object.js'
import { fromCaller } from '../foundation/base/stack.js'
import { pollsInVain, warnOfPolling } from '../foundation/base/warnings.js'
import { CUresult } from '../foundation/driver/cuda-results.js'
import { finished, type WaitOptions } from '../foundation/driver/finished.js'
import type { EventHandle } from '../foundation/driver/handle-types.js'
import { following, throwRejected } from '../foundation/driver/promise-waits.js'
import { contextOf, type Device, driverOf, resolveDevice } from './device.js'
import {
  EVENT_OPTIONS,
  EventImpl,
  type EventOptions,
  flagsOf,
  onAnotherDevice,
  PLAIN,
  settingsIn,
} from './streams/event-impl.js'
import { checkFact, isShared, receive, register, type SharedEvent } from './streams/shared.js'

const NEW_EVENT_OPTIONS = [...EVENT_OPTIONS, 'device'] as const
const IPC_HANDLE_BYTES = 64

/** The options of `Event.from()`. */
export interface ForeignEventOptions {
  /** The device of the event; -1: not known. Default: that of its context, as far as the driver tells, or else the current device. */
  readonly device?: Device | number | undefined
  /** An object that is kept reachable while the wrapper is open. */
  readonly owner?: object | undefined
}

/**
 * A point in a stream's work that other streams and the program can wait for.
 *
 * Not repeated at each member: an argument of the wrong type is ERR_INVALID_ARG_TYPE; a closed event, this one or an
 * argument, is ERR_CLOSED, and only `handle`, `device`, `timing`, `blockingSync`, `interprocess`, `closed`, `equals()`
 * and `close()` still work; once the GPU has faulted, a call that reaches the driver throws its CudaError.
 * @example
 * ```ts
 * const start = stream.record({ timing: true })
 * stream.launch(kernel, { grid: 64, block: 256 })
 * const end = stream.record({ timing: true })
 * await end.finished()
 * const milliseconds = end.elapsedSince(start)
 * ```
 */
export class Event extends ClosableObject {
  /** The device of the event. Only its streams may record the event; streams of any device may wait for it. */
  readonly device: Device
  /** The event can be asked for elapsed time. Unknown, and false, for an event that another library made. */
  readonly timing: boolean
  /** `synchronize()` sleeps instead of spinning. */
  readonly blockingSync: boolean
  /** The event can be shared with other processes. */
  readonly interprocess: boolean
  /** The number of this object: no other object of this thread has it. Others may wrap the same event. */
  readonly serial: number
  /** @internal */
  declare readonly [implementation]: EventImpl

  /**
   * Makes an event (`cuEventCreate`).
   * @param options `timing`, `blockingSync` and `interprocess`, all false by default, and `device`: a Device or an
   * ordinal (default: the current device)
   * @throws {Error} ERR_INVALID_ARG_VALUE for `timing` with `interprocess`, which CUDA cannot combine; ERR_OUT_OF_RANGE
   * for a device that does not exist; ERR_INVALID_ARG_TYPE
   */
  constructor(options?: EventOptions & { readonly device?: Device | number | undefined }) {
    super()
    const impl = options instanceof EventImpl ? options : newEvent(options)
    this.device = impl.device
    this.timing = impl.settings.timing
    this.blockingSync = impl.settings.blockingSync
    this.interprocess = impl.settings.interprocess
    this.serial = impl.serial
    this[implementation] = impl
    if (impl.isOwned) destroyWhenUnreachable(this, impl)
  }

  /**
   * Opens an event that another process shared (`cuIpcOpenEventHandle`).
   * @param bytes The 64 bytes that `ipcHandle()` returned in the other process.
   * @param options `device`: the device to open it on (default: the current device)
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for other lengths; ERR_INVALID_HANDLE for bytes that
   * are no event of another process; ERR_UNSUPPORTED on the simulator of a system other than Linux and Windows
   */
  static fromIpcHandle(bytes: Uint8Array, options?: { readonly device?: Device | number | undefined }): Event {
    const { device: named } = readOptions(options, ['device'])
    const exported = checkBytes(bytes, 'bytes', [IPC_HANDLE_BYTES])
    const device = resolveDevice(named)
    const context = contextOf(device)
    const opened = driverOf(device).events.openIpcHandle(context, exported)
    return new Event(new EventImpl(device, context, { ...PLAIN, interprocess: true }, 'owned', { handle: opened }))
  }

  /**
   * Wraps an event that another library made, which this library never destroys; or takes the event that another thread of this process shared
   * by `share()`, to close which only releases it. An `Event` is returned as it is, and so is the event that was shared in the thread that shared it.
   * @param source The CUevent as a bigint or number, an Event, or the object that `share()` returned, as `postMessage` or `structuredClone`
   * copied it.
   * @param options `device`: the event's device. CUDA does not report that of a CUevent: if it does not follow from the event's context, it
   * is the one given here, or else the current device; -1 means not known. `owner`: an object that is kept reachable while the wrapper is open.
   * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_OUT_OF_RANGE for a value that cannot be a handle; ERR_INVALID_HANDLE for a handle of no event, and
   * for what another process shared; ERR_CLOSED for an event that this library destroyed or closed; ERR_DEVICE_MISMATCH if `device` is wrong, and
   * if the threads have different drivers; ERR_INVALID_ARG_VALUE for a token that is not as `share()` returned it
   * @example
   * ```ts
   * const theirs = Event.from(handle, { device, owner })
   * stream.wait(theirs)
   * ```
   */
  static from(source: Event | bigint | number | SharedEvent, options?: ForeignEventOptions): Event {
    const { device, owner } = readOptions(options, ['device', 'owner'])
    const held = checkOwner(owner)
    const wanted = device === undefined || device === -1 ? undefined : resolveDevice(device)
    if (!isEvent(source) && !isShared(source)) return new Event(EventImpl.wrap(source, wanted, held))
    const event = isEvent(source) ? source : ofAnotherThread(source)
    const impl = open(event)
    if (wanted !== undefined && wanted !== impl.device) throw onAnotherDevice(impl.device, wanted)
    impl.owner ??= held
    return event
  }

  /**
   * The CUevent, for calls of other libraries. It keeps nothing alive: hold the event as long as they use it. It can
   * still be read after `close()`, when it is no event any more.
   */
  get handle(): bigint {
    return eventImpl(this).escape()
  }

  /** Was the event closed, or the Event of this thread that it wraps? */
  override get closed(): boolean {
    return eventImpl(this).isClosed
  }

  /**
   * Is the work before the latest record done (`cuEventQuery`)? True if the event was never recorded. If it was done before,
   * and has not been recorded since, the driver is not called, as by `stream.query()`.
   * @throws {CudaError} if the GPU has faulted, unless the driver is not called; 907 for an event recorded in a capture
   * that is under way, and 900 while a stream captures in a mode that forbids the query, both of which invalidate the
   * capture; 1 for an event of a capture that is over
   */
  query(): boolean {
    const impl = open(this)
    const { driver, handle } = impl
    try {
      const isDone = driver.events.query(handle, impl.isKnownDone)
      if (isDone) impl.markDone(impl.records)
      else if (pollsInVain()) warnOfPolling('event.query()', this, driver.events.blockedBy(handle))
      return isDone
    } catch (error) {
      throw reportedWhileWaiting(error, describeWait(this))
    }
  }

  /**
   * Blocks until the work before the latest record is done (`cuEventSynchronize`). Host functions that become ready
   * meanwhile run inside this call. Returns at once if the event was never recorded.
   * @throws {CudaError} as `query()`
   * @throws {Error} ERR_DEADLOCK inside a host function that the record comes after, and on the simulator if only
   * this thread could open the latch that it waits for
   */
  synchronize(): void {
    const impl = open(this)
    const { records } = impl
    try {
      impl.driver.events.synchronize(impl.handle)
    } catch (error) {
      throw reportedWhileWaiting(error, describeWait(this))
    }
    impl.markDone(records)
    throwRejected(impl.promises)
  }

  /**
   * Resolves when the work before the latest record is done, without blocking; at once if the event was never
   * recorded. A later record changes nothing. A pending promise keeps the process alive. The call itself never throws.
   * @param options `signal`: an AbortSignal that gives up the wait; the GPU's work goes on
   * @throws {CudaError} (as a rejection) if the GPU faults; 907 for an event recorded in a capture that is under way
   * and 1 for one of a capture that is over, neither of which invalidates a capture
   * @throws {Error} (as a rejection) `signal.reason` if aborted; ERR_CLOSED, ERR_INVALID_ARG_TYPE
   * @example
   * ```ts
   * const done = stream.record()
   * await done.finished({ signal: AbortSignal.timeout(1000) })
   * ```
   */
  finished(options?: WaitOptions): Promise<void> {
    return finished(
      options,
      () => describeWait(this),
      (settle) => {
        const { driver, handle, promises } = open(this)
        return following(promises, settle, (settleWait) => driver.events.finished(handle, settleWait))
      },
    )
  }

  /**
   * Milliseconds from `start` to this event (`cuEventElapsedTime`), with a resolution of about half a microsecond;
   * negative if `start` came later.
   * @param start An event of the same device. Both need `timing: true`, a record, and their work done.
   * @throws {CudaError} 400 if one of them has no timing or was never recorded, 600 if one is not done yet
   * @throws {Error} ERR_DEVICE_MISMATCH for an event of another driver; ERR_CLOSED, ERR_INVALID_ARG_TYPE
   */
  elapsedSince(start: Event): number {
    eventImpl(this)
    const from = eventImplOf(start)
    if (from === undefined) throw invalidType('start', 'an Event', start)
    const end = open(this)
    const begin = from.openFor(end.driver)
    try {
      return end.driver.events.elapsedTime(begin, end.handle)
    } catch (error) {
      if (!(error instanceof CudaError)) throw error
      if (error.number === CUresult.NOT_READY && pollsInVain()) {
        const held = end.driver.events.blockedBy(begin) ?? end.driver.events.blockedBy(end.handle)
        warnOfPolling('event.elapsedSince()', this, held)
      }
      throw explainElapsed(from, end, error)
    }
  }

  /**
   * The 64 bytes by which another process opens the event (`cuIpcGetEventHandle`). The event must be `interprocess`,
   * and made in this process.
   * @throws {CudaError} 400 for another event, with the reason
   * @throws {Error} ERR_CLOSED; on the simulator ERR_UNSUPPORTED for a system other than Linux and Windows, and for an event that threads share
   */
  ipcHandle(): OwnBytes {
    const impl = open(this)
    try {
      return impl.driver.events.getIpcHandle(impl.handle)
    } catch (error) {
      throw explainNotShareable(impl, error)
    }
  }

  /**
   * Describes the event to other threads of this process: `Event.from()` makes an event of it there, to be recorded and
   * waited for. It is kept until you close it here; close it when the other threads have finished with it.
   * @returns a plain object that `postMessage` and `structuredClone` can copy
   * @throws {Error} ERR_CLOSED
   * @example
   * ```ts
   * worker.postMessage(event.share())
   * // In the worker:
   * parentPort?.once('message', (shared) => stream.wait(Event.from(shared)))
   * ```
   */
  share(): SharedEvent {
    const impl = open(this)
    const { settings } = impl
    const shared = register(impl, this, 'event', impl.device, [impl.handle, flagsOf(settings)])
    return { ...shared, handle: impl.escape(), ...settings }
  }

  /**
   * Is `other` the same event of the same device?
   * @param other Any value; false for one that is no Event.
   */
  equals(other: unknown): boolean {
    const impl = eventImpl(this)
    return eventImplOf(other)?.isSame(impl) ?? false
  }

  /**
   * Destroys the event (`cuEventDestroy`), or releases one that another library owns. Waits that were queued for it remain
   * in effect. May be called twice.
   */
  close(): void {
    eventImpl(this).close()
  }

  get [Symbol.toStringTag](): string {
    return 'Event'
  }
}

/** The implementation of an Event; undefined for any other value. */
export const eventImplOf = (value: unknown): EventImpl | undefined =>
  value instanceof Event ? value[implementation] : undefined

/** The event that another thread shared, or the event itself in the thread that shared it. */
function ofAnotherThread(shared: SharedEvent): Event {
  const { owner, device, facts, claims, follow } = receive(shared, 'event', [...EVENT_OPTIONS, 'handle'])
  const [handle = 0, flags = 0] = facts
  checkFact(claims.handle, 'handle', BigInt(handle))
  const settings = settingsIn(flags)
  for (const name of EVENT_OPTIONS) checkFact(claims[name], name, settings[name])
  if (owner !== undefined) return owner as Event
  const wrapped = handle as EventHandle
  const context = driverOf(device).events.wrap(wrapped)?.context ?? contextOf(device)
  return new Event(new EventImpl(device, context, settings, 'shared', { handle: wrapped, lifetime: follow() }))
}

export const isEvent = (value: unknown): value is Event => eventImplOf(value) !== undefined

function newEvent(options: (EventOptions & { readonly device?: Device | number | undefined }) | undefined): EventImpl {
  const given = readOptions(options, NEW_EVENT_OPTIONS)
  return EventImpl.make(resolveDevice(given.device), given)
}

const eventImpl = (event: unknown): EventImpl => eventImplOf(event) ?? refuseReceiver('an Event', event)

const open = (event: unknown): EventImpl => eventImpl(event).checkOpen()

/** What is waited for, as errors name it. */
function describeWait(event: Event): string {
  const work = eventImplOf(event)?.workBefore
  return work === undefined ? `${event}` : `${event}, recorded behind ${work}`
}

function explainElapsed(start: EventImpl, end: EventImpl, error: CudaError): CudaError {
  for (const [name, event] of [['start', start] as const, ['end', end] as const]) {
    if (!event.isOwned || event.settings.timing) continue
    return explained(error, `The ${name} event was made without timing: make it with { timing: true }`)
  }
  for (const [name, event] of [['start', start] as const, ['end', end] as const]) {
    if (!event.isCaptured) continue
    const wayOut = 'record it with { external: true }, so that each launch of the graph records it'
    return explained(error, `The ${name} event was last recorded in a capture, and has no time of its own: ${wayOut}`)
  }
  const why = WHY_NO_TIME[error.code]
  return why === undefined ? error : explained(error, why)
}

/** The driver's refusal to share an event, with the reason, if it is the event. */
function explainNotShareable(event: EventImpl, error: unknown): unknown {
  if (!(error instanceof CudaError) || error.number !== CUresult.INVALID_HANDLE) return error
  return fromCaller(() => explained(error, whyNotShareable(event)))
}

function whyNotShareable(event: EventImpl): string {
  const how = 'device.createEvent({ interprocess: true })'
  if (!event.isOwned)
    return `${event} was made elsewhere: other processes open an event with cudaEventInterprocess, or of ${how}`
  if (!event.settings.interprocess) return `${event} is not for other processes: make it by ${how}`
  return `${event} was opened from another process: pass on the bytes that it was opened by`
}

const WHY_NO_TIME: Readonly<Record<string, string>> = {
  CUDA_ERROR_NOT_READY: 'An event is not complete yet: wait for it, with await event.finished() or event.synchronize()',
  CUDA_ERROR_INVALID_HANDLE:
    'An event was never recorded, or the two belong to different devices: record both on one device',
}
