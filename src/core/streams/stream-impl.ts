/**
 * The implementation of a stream; the public class above it is `Stream`. Memory, kernels and graphs work with implementations,
 * and so do the streams that the library makes for itself.
 */

import { Ambient } from '../../foundation/base/ambient.js'
import { checkBoolean, checkOwner, type Given, oneOf, readOptions } from '../../foundation/base/arguments.js'
import { closedAt, noteClosed } from '../../foundation/base/closing-places.js'
import { invalidType, invalidValue, refuseReceiver, stateError } from '../../foundation/base/errors.js'
import { destroyWhenUnreachable, NativeResource } from '../../foundation/base/finalization.js'
import { ClosableObject, implementation, nextSerial } from '../../foundation/base/library-object.js'
import { memoize } from '../../foundation/base/memoize.js'
import { cudaError, waitRefused } from '../../foundation/driver/cuda-results.js'
import { comesAfterItself, deadlockIn } from '../../foundation/driver/deadlocks.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { ExternalFlag } from '../../foundation/driver/driver-constants.js'
import { StreamFlag } from '../../foundation/driver/driver-constants.js'
import type { ContextHandle, StreamHandle } from '../../foundation/driver/handle-types.js'
import {
  canonicalStream,
  cudaHandleOf,
  defaultStream,
  isDefaultStream,
  isNullStream,
} from '../../foundation/driver/handle-types.js'
import { joined, NO_PROMISES, PromiseWait } from '../../foundation/driver/promise-waits.js'
import type { HostFunction, QueuedPromiseWait } from '../../foundation/driver/queued-work.js'
import type { Wrapper } from '../../foundation/driver/stream-driver.js'
import { isShortWayOpen } from '../../foundation/driver/wrappable-driver.js'
import { driverForHandle } from '../default-driver.js'
import {
  type Context,
  contextOf,
  type Device,
  deviceOf,
  driverOf,
  elsewhere,
  resolveDevice,
  type ShortWay,
  shortWayOf,
} from '../device.js'
import { checkStreamName, defaultStreamName, giveName, givenName, hasNames, numberedStream } from '../stream-names.js'
import { type AwaitedUses, comesAfterUse, NO_USES, UsesBefore, withUses } from './awaited-uses.js'
import { type CaptureRecord, captureEnded, capturesUnderWay, noteRecord, recordOf } from './capture-record.js'
import type { EventImpl } from './event-impl.js'
import { type GreenContext, greenContextImplOf } from './green-context.js'
import { isInsideHostFunction } from './host-function.js'
import { deviceInAnotherCopy } from './other-copies.js'
import type { SharedStream, WrappedLifetime } from './shared.js'
import {
  checkFact,
  isShared,
  Lifetime,
  lifetimeBegins,
  lifetimeEnds,
  lifetimeOf,
  receive,
  unregister,
} from './shared.js'
import { type ExternalStreamOptions, handleOf, type StreamOptions, type StreamSource } from './stream-options.js'

/** The names of `StreamOptions`, except the device and the name, which a stream of another library is not made with. */
export const STREAM_OPTIONS = ['priority', 'nonBlocking', 'context', 'memorySyncDomain'] as const
/** The names of `StreamOptions`, except the device. */
export const NAMED_STREAM_OPTIONS = [...STREAM_OPTIONS, 'name'] as const
const WRAP_OPTIONS = ['device', 'owner', 'name'] as const

/** The way out of a host function that queues more than its stream has room for. */
const QUEUE_FEWER =
  'Queue fewer operations in it. Return from the host function first, and queue the rest after await stream.finished()'

const NOTHING: readonly undefined[] = []

/** How often this thread has set the priority of a stream. */
let changesOfPriority = 0

/** 'owned': to be destroyed by this library. 'wrapped': of another owner. 'kept': `close()` does nothing to it. */
type Ownership = 'owned' | 'wrapped' | 'kept'

export class StreamImpl extends NativeResource {
  readonly driver: Driver
  readonly ordinal: number
  /** The stream's number, which is never reused, unlike the handle. */
  readonly serial = nextSerial()
  closed = false
  /** The short way that its records and waits may go by; undefined once it is closed, and for streams that other code made. */
  short: ShortWay | undefined
  /** The number of calls that may have queued work. */
  queuedCalls = 0
  /** What `queuedCalls` was when the stream was last found idle. */
  #idleAt = -1
  /** The uses of memory that its later work comes after. */
  uses = NO_USES
  /** The operation that was queued through it last, for errors. */
  lastWork: string | undefined
  /** Promises that its work comes after: its own, and those of streams and events that it waited for. */
  promises = NO_PROMISES
  #id: bigint | undefined
  /** The name that the stream had when it was destroyed, with which the driver's list of names loses it. */
  #nameAtEnd: string | undefined
  #priority: number | undefined
  /** What `changesOfPriority` was when the priority was queried. */
  #priorityAt = 0
  #nonBlocking: boolean | undefined
  /** The event that the stream keeps for the program. A private field of the public class would be out of reach through a Proxy. */
  kept: object | undefined
  /** Whether other code has read the handle. */
  #hasEscaped = false
  /** The number of calls in which code of the program has the handle: the stream is not destroyed during one of them. */
  #users = 0
  #closingListeners: (() => void)[] | undefined
  readonly #wrapper: Wrapper | undefined
  /** The lifetime of a stream of this library whose handle was read, and of wrapped streams. */
  #lifetime: WrappedLifetime | undefined

  /** `held` are objects that are kept reachable, the owner first. */
  constructor(
    readonly device: Device,
    readonly context: ContextHandle,
    readonly handle: StreamHandle,
    private readonly ownership: Ownership,
    public held: readonly (object | undefined)[] = NOTHING,
    /** The green context that it is in, which is kept reachable and so alive. */
    readonly green?: Context,
  ) {
    super()
    this.driver = driverOf(device)
    this.ordinal = device.ordinal
    this.#wrapper = ownership === 'wrapped' ? this.driver.streams.wrapped(handle) : undefined
    this.#lifetime = ownership === 'wrapped' ? lifetimeOf(this.driver, handle) : undefined
    this.short = ownership === 'owned' ? shortWayOf(device) : undefined
  }

  /** The stream's green context, or the primary one. */
  get ownContext(): ContextHandle {
    return this.green === undefined ? this.context : (Number(this.green.handle) as ContextHandle)
  }

  /** A new stream: `cuStreamCreateWithPriority`, `cuGreenCtxStreamCreate`. With `driver` it is made behind the back of the driver's wrappers. */
  static make(
    device: Device,
    given?: Given<StreamOptions, (typeof STREAM_OPTIONS)[number]>,
    driver: Driver = driverOf(device),
  ): StreamImpl {
    const priority = checkPriority(given?.priority)
    const isNonBlocking = checkBoolean(given?.nonBlocking, 'options.nonBlocking', true)
    const domain = checkMemorySyncDomain(given?.memorySyncDomain, 'options.memorySyncDomain')
    if (domain !== undefined) needsHopper(device, 'options.memorySyncDomain')
    const green = given?.context
    const context = contextOf(device)
    const within = green === undefined ? context : openGreenContext(green, device, isNonBlocking)
    const handle = driver.streams.create(within, isNonBlocking ? StreamFlag.NON_BLOCKING : 0, priority)
    if (domain) {
      try {
        driver.streams.setMemorySyncDomain(handle, domain)
      } catch (error) {
        driver.streams.destroy(handle)
        throw error
      }
    }
    return new StreamImpl(device, context, handle, 'owned', NOTHING, green)
  }

  /** A new stream of the program, with a name if it is given one. */
  static makeNamed(device: Device, given: Given<StreamOptions, (typeof NAMED_STREAM_OPTIONS)[number]>): StreamImpl {
    const name = checkNameOption(given.name)
    const made = StreamImpl.make(device, given)
    if (name !== undefined) made.#nameOrClose(name)
    return made
  }

  /** An internal stream, to be destroyed once `owner` is unreachable. */
  static makeFor(owner: object, device: Device): StreamImpl {
    const made = StreamImpl.make(device)
    destroyWhenUnreachable(owner, made)
    return made
  }

  /** A stream on which a body of a conditional node is captured: of the same context, and to be ended by `endOfBody()`. */
  static makeForBody({ device, driver, context, ownContext, green }: StreamImpl): StreamImpl {
    const handle = driver.streams.create(ownContext, StreamFlag.NON_BLOCKING, 0)
    return new StreamImpl(device, context, handle, 'kept', NOTHING, green)
  }

  /** The program cannot close it before. */
  endOfBody(): void {
    this.#end()
    this.driver.streams.destroy(this.handle)
  }

  /** A default stream of a device: 0 is the null stream, 2 the per-thread one. */
  static ofDefault(device: Device, which: 0 | 2): StreamImpl {
    return new StreamImpl(device, contextOf(device), defaultStream(device.ordinal, which), 'kept')
  }

  /** The stream of another library, by CUDA's own handle. */
  static wrapHandle(cudaHandle: number, wanted: Device | number | undefined, held?: StreamImpl['held']): StreamImpl {
    const near = resolveDevice(wanted)
    const driver = wanted === undefined ? driverForHandle(cudaHandle, driverOf(near)) : driverOf(near)
    const { stream, context, device: ordinal, green } = driver.streams.wrap(cudaHandle, near.ordinal)
    driver.streams.escaped(stream)
    const device = deviceOf(driver, ordinal)
    const inGreen = green && { handle: BigInt(green.context), device, multiprocessors: green.multiprocessors }
    return new StreamImpl(device, context, stream, 'wrapped', held, inGreen)
  }

  /**
   * A stream by its handle or protocol. A default stream of another copy of the package, whose handle does not say on which device it is, is of
   * the device that it has there.
   */
  static wrapSource(source: StreamSource, wanted: Device | number | undefined, held?: StreamImpl['held']): StreamImpl {
    const near = resolveDevice(wanted)
    const there = deviceInAnotherCopy(source, near, 'source', 'a stream')
    return StreamImpl.wrapHandle(handleOf(source), there ?? wanted, held)
  }

  /** A stream that another library or thread hands over. */
  static wrap(source: StreamSource | SharedStream, options: ExternalStreamOptions | undefined): StreamImpl {
    const given = readOptions(options, WRAP_OPTIONS)
    const name = checkNameOption(given.name)
    const plain = typeof source === 'bigint' || typeof source === 'number' || isShared(source)
    const protocol = plain ? undefined : source
    const held = [checkOwner(given.owner) ?? protocol, protocol]
    const wanted = given.device === -1 ? undefined : given.device
    const impl = StreamImpl.#ofSource(source, wanted, held)
    impl.checkDevice(wanted)
    if (name !== undefined) impl.#nameOrClose(name)
    return impl
  }

  /** Names a stream that no caller has yet, and closes it if its number cannot be queried. */
  #nameOrClose(name: string): void {
    try {
      this.giveName(name)
    } catch (error) {
      this.close()
      throw error
    }
  }

  /** Gives the stream a name, which all of its wrappers have. */
  giveName(name: string): void {
    const { device, handle, ordinal, id } = this
    giveName({ driver: driverOf(device), stream: handle, device: ordinal, id, name })
  }

  static #ofSource(
    source: StreamSource | SharedStream,
    wanted: Device | number | undefined,
    held: StreamImpl['held'],
  ): StreamImpl {
    const known = streamImplOf(source)
    if (known !== undefined) return known.wrapAgain(held)
    if (!isShared(source)) return StreamImpl.wrapSource(source, wanted, held)
    const { owner, device, cudaHandle, id, follow } = receiveStream(source)
    const own = streamImplOf(owner)
    if (own !== undefined) return own.wrapAgain(held)
    const impl = StreamImpl.wrapHandle(cudaHandle, device, held)
    impl.#lifetime = follow()
    // The query would invalidate a capture, and a stream that captures exists.
    if (isDefaultStream(impl.handle) || impl.driver.streams.isCapturing(impl.handle)) return impl
    if (impl.driver.streams.getId(impl.handle) === id) return impl
    const what = `The stream with handle 0x${cudaHandle.toString(16)} has been destroyed since it was shared`
    throw stateError('ERR_CLOSED', `${what}, and another made in its place`)
  }

  /** Makes another wrapper of the same stream, which also keeps the objects reachable that this one keeps. */
  wrapAgain(held: StreamImpl['held'] = []): StreamImpl {
    this.checkOpen()
    // Its owner, which may be this library, may have destroyed it meanwhile.
    if (this.isExternal) this.driver.streams.wrap(cudaHandleOf(this.handle), this.ordinal)
    else this.escape()
    const { device, context, handle, green } = this
    const wrapper = new StreamImpl(device, context, handle, 'wrapped', [...held, ...this.held], green)
    wrapper.#lifetime = this.#lifetime
    this.#lifetime?.join?.()
    return wrapper
  }

  /** The driver's own number for the stream: queried once, as `priority` and `nonBlocking` are. */
  get id(): bigint {
    this.#id ??= this.driver.streams.getId(this.handle)
    return this.#id
  }

  /** What reports call it. A default stream's number is queried only if that may have a name. */
  get name(): string {
    const { driver, handle } = this
    if (isDefaultStream(handle) && !hasNames(driver)) return defaultStreamName(handle)
    return givenName(driver, handle, this.id) ?? numberedStream(handle, this.id)
  }

  /**
   * What errors call it, which query no driver that would fail: empty if the number is not known and cannot be queried: while it captures, after a fault, and if others may
   * have destroyed it, for which the driver crashes.
   */
  get #nameInErrors(): string {
    const { driver, handle } = this
    if (this.#id === undefined && this.isOwned && !this.isClosed && !isDefaultStream(handle)) {
      try {
        this.#id = driver.streams.getId(handle)
      } catch {
        return ''
      }
    }
    const given = this.#nameAtEnd ?? (this.#id === undefined ? undefined : givenName(driver, handle, this.#id))
    if (given !== undefined) return given
    if (isDefaultStream(handle)) return defaultStreamName(handle)
    return this.#id === undefined ? '' : numberedStream(handle, this.#id)
  }

  /** The priority is queried once, and again when the program has set that of any stream, of which this may be another wrapper. */
  get priority(): number {
    if (this.#priority === undefined || this.#priorityAt !== changesOfPriority) {
      this.#priority = this.driver.streams.getPriority(this.handle)
      this.#priorityAt = changesOfPriority
    }
    return this.#priority
  }

  set priority(priority: unknown) {
    if (priority === undefined) throw invalidType('priority', 'an integer', priority)
    const wanted = checkPriority(priority, 'priority')
    this.#refuseDefault('the priority of')
    changesOfPriority += 1
    this.driver.streams.setPriority(this.handle, wanted)
  }

  /** Gives this stream the attributes of another one. */
  copyAttributes(from: StreamImpl): void {
    if (from.device !== this.device) {
      throw stateError(
        'ERR_DEVICE_MISMATCH',
        `${from} is on ${elsewhere(from.device, this.device)}, and ${this} on ${this.device}`,
      )
    }
    this.#refuseDefault('the attributes of')
    from.#refuseDefault('the attributes of')
    if (from.ownContext !== this.ownContext) {
      throw invalidValue(
        `${from} is in another context than ${this}, of which one is a green one, and CUDA copies attributes within one: set the priority instead`,
      )
    }
    changesOfPriority += 1
    this.driver.streams.copyAttributes(this.handle, from.handle)
  }

  /** Throws for a stream that all code of the process has. */
  #refuseDefault(what: string): void {
    if (!isDefaultStream(this.handle)) return
    const way = 'make a stream of your own, with new Stream({ priority })'
    throw stateError('ERR_UNSUPPORTED', `${this} is everybody's, so ${what} it are neither changed nor copied: ${way}`)
  }

  get nonBlocking(): boolean {
    this.#nonBlocking ??= (this.driver.streams.getFlags(this.handle) & StreamFlag.NON_BLOCKING) !== 0
    return this.#nonBlocking
  }

  get isCapturing(): boolean {
    return this.driver.streams.isCapturing(this.handle)
  }

  get captureStatus(): 'none' | 'active' | 'invalidated' {
    if (!this.isCapturing) return 'none'
    return this.driver.graphs.captureId(this.handle) === undefined ? 'invalidated' : 'active'
  }

  get isOwned(): boolean {
    return this.ownership === 'owned'
  }

  get isExternal(): boolean {
    return this.ownership === 'wrapped'
  }

  /** A closed stream equals only its wrappers: the driver may have given its handle to another one. */
  isSame(other: StreamImpl): boolean {
    if (this === other) return true
    const areOne = this.device === other.device && canonicalStream(this.handle) === canonicalStream(other.handle)
    if (this.#lifetime?.hasEnded || other.#lifetime?.hasEnded) return areOne && this.#lifetime === other.#lifetime
    return areOne && !(this.#isGone || other.#isGone)
  }

  /** The stream is closed, and no wrapper has its handle. */
  get #isGone(): boolean {
    return this.closed && this.isOwned && !this.#hasEscaped
  }

  checkDevice(wanted: Device | number | undefined): void {
    if (wanted === undefined || wanted === -1) return
    const device = resolveDevice(wanted)
    if (device === this.device) return
    const where = elsewhere(device, this.device)
    throw stateError('ERR_DEVICE_MISMATCH', `The stream is on ${this.device}, not on ${where} as options.device says`)
  }

  /** The stream was closed, or wraps a stream that this library has closed. */
  override get isClosed(): boolean {
    return this.closed || this.#lifetime?.hasEnded === true
  }

  override checkOpen(): this {
    if (!this.isClosed) return this
    throw stateError('ERR_CLOSED', `${this} cannot be used any more${this.#whyClosed()}`)
  }

  /** Calls that name no stream use the current one, so that the program may not know whose fault it is. */
  #whyClosed(): string {
    if (!this.closed) return ': the Stream that it wraps was closed. Keep that open as long as its handle is used'
    if (streamImplOf(currentOn(this.device).get()) !== this) return closedAt(this)
    const what = `: it is closed and still the current stream of ${this.device}, which calls without a stream use`
    return `${what}. Close it after its run() or the scope of its enter(), or make another stream current`
  }

  /**
   * Reserves so many entries of the stream's hardware queue. To be called before anything is queued: after all arguments
   * were read and before memory is opened, since host functions may run in it and close what was open before. No code of the
   * program runs between this and the driver's call.
   * @throws ERR_CLOSED
   */
  reserve(entries: number): void {
    this.queuedCalls += 1
    // CUDA crashes for the handle of a destroyed stream.
    if (entries > 0 && !this.isClosed) this.#waitForRoom(entries)
    this.checkOpen()
  }

  #waitForRoom(entries: number): void {
    try {
      this.driver.work.reserve(this.handle, entries)
    } catch (error) {
      throw deadlockIn(error, ({ what, endless }) => {
        const way = endless === comesAfterItself ? QUEUE_FEWER : endless.way
        return `${this}: ${what} would wait forever: ${endless.why}. ${way}`
      })
    }
  }

  /** Records an event by the short way. Returns false where that is closed, for one of the two or for all. */
  recordShort(event: EventImpl): boolean {
    const { short } = this
    if (short === undefined || short !== event.short || !isShortWayOpen()) return false
    this.queuedCalls += 1
    event.records += 1
    const result = short.calls.cuEventRecord(event.handle, this.handle)
    if (result !== 0) throw cudaError('cuEventRecord', result)
    // What is the same is not written, since V8 notes each reference that is.
    if (event.workBefore !== this.lastWork) event.workBefore = this.lastWork
    if (event.promises !== this.promises) event.promises = this.promises
    if (event.uses !== this.uses) event.uses = this.uses
    return true
  }

  /** Waits for an event by the short way, as `recordShort()` records one. */
  waitShort(event: EventImpl): boolean {
    const { short } = this
    if (short === undefined || short !== event.short || !isShortWayOpen()) return false
    this.queuedCalls += 1
    const result = short.calls.cuStreamWaitEvent(this.handle, event.handle, 0)
    if (result !== 0) throw cudaError('cuStreamWaitEvent', result)
    this.#comesAfter(event)
    return true
  }

  /** Waits for another stream by the short way. */
  waitForStreamShort(from: StreamImpl): boolean {
    const { short } = this
    if (short === undefined || short !== from.short || !isShortWayOpen()) return false
    this.queuedCalls += 1
    const result = short.calls.waitForStream(this.handle, from.handle, short.between)
    if (result !== 0) throw waitRefused(result)
    this.followPromises(from.promises)
    if (from.uses !== NO_USES) this.#awaitUses(from.uses)
    return true
  }

  /** Records an event, which must be open. Its entries must be reserved. */
  recordIn(event: EventImpl, external: ExternalFlag): void {
    const handle = event.openFor(this.driver)
    if (external !== 0) this.#retainForGraph(event)
    event.records += 1
    this.driver.events.record(handle, this.handle, external)
    if (external === 0) {
      noteRecord(this, event)
      event.mayGoShort(this)
    }
    event.workBefore = this.lastWork
    event.promises = this.promises
    // A record in a capture is none of the stream's own work, and nothing outside of the capture can wait for it.
    if (event.uses !== this.uses) event.uses = external === 0 && !capturesUnderWay() ? this.uses : NO_USES
  }

  /** Waits for an event, which must be open. */
  waitFor(event: EventImpl, external: ExternalFlag): void {
    const handle = event.openFor(this.driver)
    if (external !== 0) this.#retainForGraph(event)?.retained.awaited.add(event)
    this.driver.streams.waitEvent(this.handle, handle, external)
    event.mayGoShort(this)
    this.#comesAfter(event)
  }

  #comesAfter(event: EventImpl): void {
    this.followPromises(event.promises)
    if (event.uses !== NO_USES && event.isPrivate) this.#awaitUses(event.uses)
  }

  /** Waits for another stream of the driver. */
  waitForStream(from: StreamImpl): void {
    this.driver.streams.waitStream(this.handle, from.handle, from.context)
    this.followPromises(from.promises)
    if (from.uses !== NO_USES) this.#awaitUses(from.uses)
  }

  /** Is the stream's later work known to come after this use on another stream? */
  comesAfter(serial: number, place: number): boolean {
    return comesAfterUse(this.uses.awaited, serial, place)
  }

  /** A use of memory was recorded on it. Returns its number there. */
  useRecorded(): number {
    const { place, awaited } = this.uses
    this.#comesAfterUses(place + 1, awaited)
    return place + 1
  }

  #comesAfterUses(place: number, awaited: AwaitedUses): void {
    this.uses = new UsesBefore(this.serial, place, awaited, !this.#isOwnAlone)
  }

  /** Whether no other code has the stream, which could let it capture. */
  get #isOwnAlone(): boolean {
    return this.ownership === 'owned' && !this.#hasEscaped
  }

  /**
   * Called when the stream has waited for something that comes after these uses. A wait that is captured means nothing for what
   * the stream does outside.
   */
  #awaitUses(awaited: UsesBefore): void {
    if (capturesUnderWay()) return
    // Others may let it capture, or what it waits for, which then takes it into the capture.
    if ((awaited.mayBeCaptured || !this.#isOwnAlone) && this.#mayCapture) return
    const { place, awaited: before } = this.uses
    const all = withUses(before, awaited)
    if (all !== before) this.#comesAfterUses(place, all)
  }

  get #mayCapture(): boolean {
    try {
      return this.isCapturing
    } catch {
      return true
    }
  }

  /** Each launch of the graph will record the event, or wait for it. The end of a graph of another library is not known. */
  #retainForGraph(event: EventImpl): CaptureRecord | undefined {
    if (isNullStream(this.handle) || !this.isCapturing) return undefined
    event.escape()
    const record = recordOf(this)
    if (event.owner !== undefined) record?.owners.add(event.owner)
    if (event.isOwned) {
      if (record === undefined) event.retain()
      else record.retained.add(event)
    }
    return record
  }

  /** Queues a host function, which errors call `what`. */
  queueHostFunction(call: HostFunction, what: string): void {
    this.reserve(1)
    this.driver.work.queue({ kind: 'hostFunction', stream: this.handle, context: this.context, call })
    this.lastWork = what
  }

  /**
   * Queues a wait for a promise. `start` is called once it is queued, with what to call when the promise settles.
   * @throws ERR_UNSUPPORTED while the stream captures
   */
  waitForPromise(
    called: QueuedPromiseWait['called'],
    start: (passed: () => void, rejected: (reason: unknown) => void) => void,
  ): void {
    this.reserve(1)
    if (this.isCapturing) {
      throw stateError(
        'ERR_UNSUPPORTED',
        `${this} captures: a promise settles once, and a graph is launched many times`,
      )
    }
    const { handle: stream, context } = this
    const work: QueuedPromiseWait = { kind: 'promise', stream, context, called, release: () => {} }
    this.driver.work.queue(work)
    this.lastWork = 'wait(promise)'
    const wait = new PromiseWait(this, this.device)
    this.promises = joined(this.promises, [wait])
    const passed = (): void => {
      wait.passed()
      work.release()
    }
    start(passed, (reason) => {
      wait.rejected(reason)
      work.release()
    })
  }

  /** Lets the stream's later work come after these promises, too. */
  followPromises(others: readonly PromiseWait[]): void {
    if (others.length > 0) this.promises = joined(this.promises, others)
  }

  /** Whether nothing was queued through this object since the stream was last found idle. */
  get isUnusedSinceIdle(): boolean {
    return this.#idleAt === this.queuedCalls
  }

  /** The stream is idle as far as this library knows; the driver tracks whether other code may have queued work. */
  get isKnownIdle(): boolean {
    return this.isUnusedSinceIdle && this.isOwned
  }

  /**
   * Records that the stream was idle after this number of calls: a host function may have queued more since. One that runs while a call reserves entries
   * proves nothing, since that call has been counted and queues its work later.
   */
  markIdle(queuedCalls: number): void {
    if (!isInsideHostFunction()) this.#idleAt = queuedCalls
  }

  /** Called when other code gets the handle, and may queue work that this library does not see. */
  escape(): void {
    if (this.#hasEscaped) return
    this.#hasEscaped = true
    if (this.uses !== NO_USES) this.#comesAfterUses(this.uses.place, this.uses.awaited)
    this.driver.streams.escaped(this.handle)
    if (this.isOwned && !this.closed) this.#lifetime = lifetimeBegins(this.driver, this.handle)
  }

  /** Runs code of the program that has the stream's handle. If it closes the stream, that is destroyed afterwards. */
  keepDuring(fn: () => void): void {
    const lifetime = this.#lifetime instanceof Lifetime ? this.#lifetime : undefined
    this.#users += 1
    if (lifetime !== undefined) lifetime.users += 1
    try {
      fn()
    } finally {
      this.#users -= 1
      lifetime?.release()
      if (this.closed && !this.#isInUse) this.#end()
    }
  }

  /** Calls the function when the stream is about to be closed, while its handle is still valid. */
  whenClosing(fn: () => void): void {
    this.#closingListeners ??= []
    this.#closingListeners.push(fn)
  }

  close(): void {
    if (this.closed || this.ownership === 'kept') return
    if (this.#isInUse) this.#endLater()
    else this.#end()
  }

  get #isInUse(): boolean {
    return this.#users > 0 || (this.isOwned && this.#lifetime instanceof Lifetime && this.#lifetime.users > 0)
  }

  #endLater(): void {
    noteClosed(this)
    this.closed = true
    this.short = undefined
    if (!this.isOwned || !(this.#lifetime instanceof Lifetime)) return
    this.#lifetime.hasEnded = true
    this.#lifetime.whenUnused = () => this.#end()
  }

  #end(): void {
    this.#runClosing()
    unregister(this)
    if (this.#wrapper !== undefined) this.#wrapper.isOpen = false
    this.held = NOTHING
    if (this.isOwned) this.dispose()
    else this.#lifetime?.leave?.()
  }

  #runClosing(): void {
    const listeners = this.#closingListeners ?? []
    this.#closingListeners = undefined
    for (const listener of listeners) listener()
    if (this.isOwned) captureEnded(this)
    noteClosed(this)
    this.closed = true
    this.short = undefined
    if (this.isOwned && this.#lifetime instanceof Lifetime) lifetimeEnds(this.driver, this.handle, this.#lifetime)
    for (const wait of this.promises) if (wait.owner === this) wait.ownerClosed()
  }

  override destroy(): void {
    this.#runClosing()
    if (this.#id !== undefined && hasNames(this.driver)) {
      this.#nameAtEnd = givenName(this.driver, this.handle, this.#id)
    }
    this.driver.streams.destroy(this.handle)
  }

  override toString(): string {
    const facts = [
      `0x${cudaHandleOf(this.handle).toString(16)}`,
      this.#nameInErrors,
      this.device,
      this.isClosed ? 'closed' : '',
    ]
    return `${this.isExternal ? 'ExternalStream' : 'Stream'}(${facts.filter((fact) => fact !== '').join(', ')})`
  }
}

/** The CUcontext of an open green context in which such a stream can be made on the device. */
function openGreenContext(green: GreenContext, device: Device, isNonBlocking: boolean): ContextHandle {
  const impl = greenContextImplOf(green)
  if (impl === undefined) throw invalidType('options.context', 'a GreenContext from device.split()', green)
  impl.checkOpen()
  if (impl.device !== device) {
    const what = `options.context is a part of ${elsewhere(impl.device, device)}, but the stream is to be on ${device}`
    throw stateError('ERR_DEVICE_MISMATCH', what)
  }
  if (isNonBlocking) return impl.part.context
  throw invalidValue('options.nonBlocking must not be false in a green context: CUDA has no blocking streams there')
}

/** The base of `Stream`, which stands above all that works with implementations of streams. */
export abstract class StreamBase extends ClosableObject {
  /** @internal */
  declare readonly [implementation]: StreamImpl

  protected constructor(impl: StreamImpl) {
    super()
    this[implementation] = impl
  }
}

/** The implementation of a Stream; undefined for any other value. */
export const streamImplOf = (value: unknown): StreamImpl | undefined =>
  value instanceof StreamBase ? value[implementation] : undefined

/** The implementation of an open stream, for calls that may queue work there. */
export function openStream(stream: unknown): StreamImpl {
  const impl = streamImplOf(stream) ?? refuseReceiver('a Stream', stream)
  impl.reserve(0)
  return impl
}

/** The stream of a token: the object itself in the thread that shared it, otherwise its handle and id on a device. */
export function receiveStream(shared: SharedStream): {
  readonly owner: object | undefined
  readonly device: Device
  readonly cudaHandle: number
  readonly id: bigint | undefined
  follow(): WrappedLifetime | undefined
} {
  const { owner, device, facts, claims, follow } = receive(shared, 'stream', ['handle', 'id'])
  const [cudaHandle = 0] = facts
  checkFact(claims.handle, 'handle', BigInt(cudaHandle))
  return { owner, device, cudaHandle, id: claims.id, follow }
}

const checkNameOption = (name: unknown): string | undefined =>
  name === undefined ? undefined : checkStreamName(name, 'options.name')

/** Checks the options of a wrapper for a stream that needs no wrapper, and gives it the name. */
export function applyWrapOptions(stream: StreamBase, options: ExternalStreamOptions | undefined): void {
  const given = readOptions(options, WRAP_OPTIONS)
  const impl = openStream(stream)
  const name = checkNameOption(given.name)
  checkOwner(given.owner)
  impl.checkDevice(given.device)
  if (name !== undefined) impl.giveName(name)
}

/** CUlaunchMemSyncDomain. */
const DOMAINS = { default: 0, remote: 1 } as const

/** The number that CUDA has for a memory domain. */
export const checkMemorySyncDomain = (domain: unknown, name: string): number | undefined => oneOf(domain, DOMAINS, name)

const LEAST_CAPABILITY = 9

/** Throws ERR_UNSUPPORTED if the device cannot do what an option asks for. */
export function needsHopper(device: Device, name: string): void {
  const { major, minor } = device.computeCapability
  if (major >= LEAST_CAPABILITY) return
  const needs = `needs compute capability ${LEAST_CAPABILITY}.0 or later`
  throw stateError('ERR_UNSUPPORTED', `${name} ${needs}, and ${device} has ${major}.${minor}: leave it out`)
}

/** An integer of any size, clamped to the 32 bits that the driver takes, which clamps it to the device's range. */
export function checkPriority(priority: unknown, name = 'options.priority'): number {
  if (priority === undefined) return 0
  if (typeof priority !== 'number' || !Number.isInteger(priority)) throw invalidType(name, 'an integer', priority)
  return Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, priority)) + 0 // never -0
}

/** The streams that async contexts have made current on a device. */
export const currentOn = memoize((_device: Device) => new Ambient<StreamBase>())

/** The default streams of a device: always the same objects. */
export const defaultStreamImpls = memoize((device: Device) => {
  return { legacy: StreamImpl.ofDefault(device, 0), perThread: StreamImpl.ofDefault(device, 2) }
})

/** The current stream of a device, by default its null stream. */
export const currentStreamImpl = (device: Device): StreamImpl =>
  streamImplOf(currentOn(device).get()) ?? defaultStreamImpls(device).legacy
