/**
 * A stream as the rest of the library works on it. The noun above it, `Stream`, is what programs hold; memory, kernels and
 * graphs work on cores, and so do the streams that the library makes for itself.
 */
import { checkBoolean, checkOwner, type Given, oneOf, readOptions } from '../base/arguments.js'
import { invalidType, invalidValue, refuseReceiver, stateError } from '../base/errors.js'
import { destroyWhenUnreachable, NativeResource } from '../base/finalization.js'
import { nextSerial } from '../base/identity.js'
import { type Context, contextOf, type Device, deviceOf, driverOf, elsewhere, resolveDevice } from '../device.js'
import { driverForHandle } from '../driver/default-driver.js'
import {
  type ContextHandle,
  canonicalStream,
  cudaHandleOf,
  type Driver,
  defaultStream,
  type ExternalFlag,
  isDefaultStream,
  isNullStream,
  type QueuedPromiseWait,
  StreamFlag,
  type StreamHandle,
  type Wrapper,
} from '../driver/driver.js'
import { joined, NO_PROMISES, PromiseWait } from '../driver/promise-waits.js'
import { captureOver, recordOf } from './capture-record.js'
import type { EventCore } from './event-core.js'
import { type GreenContext, greenContextCoreOf } from './green-context.js'
import { isInsideHostFunction } from './host-function.js'
import { Lifetime, lifetimeBegins, lifetimeEnds, lifetimeOf, type WrappedLifetime } from './lifetimes.js'
import { checkFact, isShared, receive, type SharedStream, withdraw } from './shared.js'
import type { ExternalStreamOptions, StreamOptions } from './stream-options.js'
import { handleOf, type StreamSource } from './stream-source.js'

/** The names of `StreamOptions` but for the device. */
export const STREAM_OPTIONS = ['priority', 'nonBlocking', 'context', 'memorySyncDomain'] as const
const WRAP_OPTIONS = ['device', 'owner'] as const

const NOTHING: readonly undefined[] = []

/** Ours to destroy, wrapped for another owner, or kept by the library: then `close()` does nothing. */
type Tenure = 'owned' | 'wrapped' | 'kept'

export class StreamCore extends NativeResource {
  readonly driver: Driver
  readonly ordinal: number
  /** Never used twice, unlike the handle. */
  readonly serial = nextSerial()
  closed = false
  /** Counts the calls that may have queued work. */
  queued = 0
  /** What `queued` was when the stream was last seen idle. */
  #idleAt = -1
  /** The work that was queued through it last, for errors. */
  last: string | undefined
  /** Promises that its work comes after: its own, and those of streams and events that it waited for. */
  promises = NO_PROMISES
  #id: bigint | undefined
  #priority: number | undefined
  #nonBlocking: boolean | undefined
  #handedOut = false
  /** Calls in which code of the program has the handle: closed in one of them, it ends when they are over. */
  #users = 0
  #closing: (() => void)[] | undefined
  readonly #wrapper: Wrapper | undefined
  /** Of a stream of this library whose handle was read, or that this one wraps. */
  #lifetime: WrappedLifetime | undefined

  /** `held` is kept reachable, the owner first. */
  constructor(
    readonly device: Device,
    readonly context: ContextHandle,
    readonly handle: StreamHandle,
    private readonly tenure: Tenure,
    public held: readonly (object | undefined)[] = NOTHING,
    /** The green context that it is in: kept reachable, and with that alive. */
    readonly green?: Context,
  ) {
    super()
    this.driver = driverOf(device)
    this.ordinal = device.ordinal
    this.#wrapper = tenure === 'wrapped' ? this.driver.streamWrapped(handle) : undefined
    this.#lifetime = tenure === 'wrapped' ? lifetimeOf(this.driver, handle) : undefined
  }

  /** Its green context, or the primary one. */
  get ownContext(): ContextHandle {
    return this.green === undefined ? this.context : (Number(this.green.handle) as ContextHandle)
  }

  static is(value: unknown): value is StreamCore {
    return typeof value === 'object' && value !== null && #users in value
  }

  /** A new stream: `cuStreamCreateWithPriority`. One that passes the wrappers of the driver by is made with `driver`. */
  static make(
    device: Device,
    given?: Given<StreamOptions, (typeof STREAM_OPTIONS)[number]>,
    driver: Driver = driverOf(device),
  ): StreamCore {
    const priority = checkPriority(given?.priority)
    const isNonBlocking = checkBoolean(given?.nonBlocking, 'options.nonBlocking', true)
    const domain = checkMemorySyncDomain(given?.memorySyncDomain, 'options.memorySyncDomain')
    if (domain !== undefined) needsHopper(device, 'options.memorySyncDomain')
    const green = given?.context
    const made =
      green === undefined
        ? StreamCore.#makeOn(device, isNonBlocking, priority, driver)
        : StreamCore.#makeIn(green, device, isNonBlocking, priority, driver)
    if (domain) made.#setDomain(driver, domain)
    return made
  }

  static #makeOn(device: Device, isNonBlocking: boolean, priority: number, driver: Driver): StreamCore {
    const context = contextOf(device)
    const flags = isNonBlocking ? StreamFlag.NON_BLOCKING : 0
    return new StreamCore(device, context, driver.streamCreate(context, flags, priority), 'owned')
  }

  #setDomain(driver: Driver, domain: number): void {
    try {
      driver.streamSetMemorySyncDomain(this.handle, domain)
    } catch (error) {
      driver.streamDestroy(this.handle)
      throw error
    }
  }

  /** A new stream of a green context: `cuGreenCtxStreamCreate`. */
  static #makeIn(
    green: GreenContext,
    device: Device,
    isNonBlocking: boolean,
    priority: number,
    driver: Driver,
  ): StreamCore {
    const core = greenContextCoreOf(green)
    if (core === undefined) throw invalidType('options.context', 'a GreenContext from device.split()', green)
    core.checkOpen()
    if (core.device !== device) {
      const where = elsewhere(core.device, device)
      throw stateError(
        'ERR_DEVICE_MISMATCH',
        `options.context is a part of ${where}, but the stream is to be on ${device}`,
      )
    }
    if (!isNonBlocking) {
      throw invalidValue('options.nonBlocking must not be false in a green context: CUDA has no blocking streams there')
    }
    const handle = driver.streamCreate(core.part.context, StreamFlag.NON_BLOCKING, priority)
    return new StreamCore(device, contextOf(device), handle, 'owned', NOTHING, green)
  }

  /** A stream of the library's own, to be destroyed once `owner` is unreachable. */
  static makeFor(owner: object, device: Device): StreamCore {
    const made = StreamCore.make(device)
    destroyWhenUnreachable(owner, made)
    return made
  }

  /** A default stream of a device: 0 is the null stream, 2 the per-thread one. */
  static ofDefault(device: Device, which: 0 | 2): StreamCore {
    return new StreamCore(device, contextOf(device), defaultStream(device.ordinal, which), 'kept')
  }

  /** The stream of another library, by CUDA's own handle. */
  static adopt(cudaHandle: number, wanted: Device | number | undefined, held?: StreamCore['held']): StreamCore {
    const near = resolveDevice(wanted)
    const driver = wanted === undefined ? driverForHandle(cudaHandle, driverOf(near)) : driverOf(near)
    const { stream, context, device: ordinal, green } = driver.streamAdopt(cudaHandle, near.ordinal)
    driver.streamHandedOut(stream)
    const device = deviceOf(driver, ordinal)
    const inGreen = green && { handle: BigInt(green.context), device, multiprocessors: green.multiprocessors }
    return new StreamCore(device, context, stream, 'wrapped', held, inGreen)
  }

  /** A stream that another library or thread hands over. */
  static wrap(source: StreamSource | SharedStream, options: ExternalStreamOptions | undefined): StreamCore {
    const given = readOptions(options, WRAP_OPTIONS)
    const plain = typeof source === 'bigint' || typeof source === 'number' || isShared(source)
    const protocol = plain ? undefined : source
    const held = [checkOwner(given.owner) ?? protocol, protocol]
    const wanted = given.device === -1 ? undefined : given.device
    const core = StreamCore.#ofSource(source, wanted, held)
    core.checkDevice(wanted)
    return core
  }

  static #ofSource(
    source: StreamSource | SharedStream,
    wanted: Device | number | undefined,
    held: StreamCore['held'],
  ): StreamCore {
    const known = streamCoreOf(source)
    if (known !== undefined) return known.rewrap(held)
    if (!isShared(source)) return StreamCore.adopt(handleOf(source), wanted, held)
    const { owner, device, cudaHandle, id, lifetime } = receiveStream(source)
    const own = streamCoreOf(owner)
    if (own !== undefined) return own.rewrap(held)
    const core = StreamCore.adopt(cudaHandle, device, held)
    core.#lifetime = lifetime
    // A capture would be invalidated by the question, and a stream that captures is one in use.
    if (isDefaultStream(core.handle) || core.driver.streamIsCapturing(core.handle)) return core
    if (core.driver.streamGetId(core.handle) === id) return core
    const what = `The stream with handle 0x${cudaHandle.toString(16)} has been destroyed since it was shared`
    throw stateError('ERR_CLOSED', `${what}, and another made in its place`)
  }

  /**
   * The same stream once more, which lives as long as its owner wants. The new one holds the objects that this one
   * holds, too.
   */
  rewrap(held: StreamCore['held'] = []): StreamCore {
    this.checkOpen()
    // Its owner may have destroyed it meanwhile, and that may have been this library.
    if (this.tenure === 'wrapped') this.driver.streamAdopt(cudaHandleOf(this.handle), this.ordinal)
    else this.handOut()
    const { device, context, handle, green } = this
    const wrapper = new StreamCore(device, context, handle, 'wrapped', [...held, ...this.held], green)
    wrapper.#lifetime = this.#lifetime
    return wrapper
  }

  /** The driver's own number for the stream. It is asked once, as the two below are. */
  get id(): bigint {
    this.#id ??= this.driver.streamGetId(this.handle)
    return this.#id
  }

  /** The same where it was asked before: it may be destroyed by now, and the driver crashes for what is. */
  get knownId(): bigint | undefined {
    return this.#id
  }

  get priority(): number {
    this.#priority ??= this.driver.streamGetPriority(this.handle)
    return this.#priority
  }

  get nonBlocking(): boolean {
    this.#nonBlocking ??= (this.driver.streamGetFlags(this.handle) & StreamFlag.NON_BLOCKING) !== 0
    return this.#nonBlocking
  }

  get isCapturing(): boolean {
    return this.driver.streamIsCapturing(this.handle)
  }

  get isOurs(): boolean {
    return this.tenure === 'owned'
  }

  get isExternal(): boolean {
    return this.tenure === 'wrapped'
  }

  /** A closed stream equals its wrappers alone: the driver may have made another, with the same handle. */
  isSame(other: StreamCore): boolean {
    if (this === other) return true
    const areOne = this.device === other.device && canonicalStream(this.handle) === canonicalStream(other.handle)
    if (this.#lifetime?.isOver || other.#lifetime?.isOver) return areOne && this.#lifetime === other.#lifetime
    return areOne && !(this.#isGone || other.#isGone)
  }

  /** No wrapper has the handle either. */
  get #isGone(): boolean {
    return this.closed && this.isOurs && !this.#handedOut
  }

  checkDevice(wanted: Device | number | undefined): void {
    if (wanted === undefined || wanted === -1) return
    const device = resolveDevice(wanted)
    if (device === this.device) return
    const where = elsewhere(device, this.device)
    throw stateError('ERR_DEVICE_MISMATCH', `The stream is on ${this.device}, not on ${where} as options.device says`)
  }

  /** It was closed, or wraps a stream that this library has closed. */
  get isOver(): boolean {
    return this.closed || this.#lifetime?.isOver === true
  }

  checkOpen(): this {
    if (this.isOver) throw this.#overError()
    return this
  }

  #overError(): Error {
    const why = this.closed ? '' : `: the Stream that it wraps was closed. Keep that open as long as its handle is used`
    return stateError('ERR_CLOSED', `${this} cannot be used any more${why}`)
  }

  /**
   * To be called before anything is queued, after all arguments have been read and before any memory is opened: makes
   * room for so many entries of the stream's hardware queue. Host functions may run in that, so a stream, buffer or graph
   * that was open before may be closed afterwards. Nothing of the program runs between this and the driver's call.
   * @throws ERR_CLOSED
   */
  makeRoom(entries: number): void {
    this.queued += 1
    // CUDA crashes for the handle of a stream that is destroyed.
    if (entries > 0 && !this.isOver) this.driver.streamMakeRoom(this.handle, entries)
    this.checkOpen()
  }

  /** Records an event, which must be open; room has been made for it. */
  recordIn(event: EventCore, external: ExternalFlag): void {
    const handle = event.openFor(this.driver)
    if (external !== 0) this.#keepForGraph(event)
    event.records += 1
    this.driver.eventRecord(handle, this.handle, external)
    event.behind = this.last
    event.promises = this.promises
  }

  /** Waits for an event, which must be open. */
  waitFor(event: EventCore, external: ExternalFlag): void {
    const handle = event.openFor(this.driver)
    if (external !== 0) this.#keepForGraph(event)
    this.driver.streamWaitEvent(this.handle, handle, external)
    this.followPromises(event.promises)
  }

  /** Each launch of a graph records the event, or waits for it. Of a graph of another library the end is not known. */
  #keepForGraph(event: EventCore): void {
    if (isNullStream(this.handle) || !this.isCapturing) return
    event.handOut()
    const record = recordOf(this)
    if (event.owner !== undefined) record?.owners.add(event.owner)
    if (!event.isOurs) return
    if (record === undefined) event.keep()
    else record.keeps.add(event)
  }

  /**
   * Queues a wait for a promise. `start` is called once it is queued, with what to call when the promise settles.
   * @throws ERR_UNSUPPORTED while the stream captures
   */
  holdFor(start: (passed: () => void, rejected: (reason: unknown) => void) => void): void {
    this.makeRoom(1)
    if (this.isCapturing) {
      throw stateError(
        'ERR_UNSUPPORTED',
        `${this} captures: a promise settles once, and a graph is launched many times`,
      )
    }
    const work: QueuedPromiseWait = { kind: 'promise', stream: this.handle, context: this.context, release: () => {} }
    this.driver.queue(work)
    this.last = 'wait(promise)'
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

  /** Later work comes after these promises, too. */
  followPromises(others: readonly PromiseWait[]): void {
    if (others.length > 0) this.promises = joined(this.promises, others)
  }

  /** Nothing was queued through it since it was last seen idle. */
  get isQuiet(): boolean {
    return this.#idleAt === this.queued
  }

  /** The same, and the driver knows whether other code can have queued anything. */
  get isSurelyIdle(): boolean {
    return this.isQuiet && this.tenure === 'owned'
  }

  /**
   * Seen idle after so many calls: a host function may have queued more since. One that runs while a call makes room learns
   * nothing, since that call has been counted, and queues its work later.
   */
  sawIdle(queued: number): void {
    if (!isInsideHostFunction()) this.#idleAt = queued
  }

  /** Other code has the handle from now on, and may queue work that no driver sees. */
  handOut(): void {
    if (this.#handedOut) return
    this.#handedOut = true
    this.driver.streamHandedOut(this.handle)
    if (this.isOurs && !this.closed) this.#lifetime = lifetimeBegins(this.driver, this.handle)
  }

  /** Runs code of the program that has the stream's handle: closed in there, the stream ends afterwards. */
  keepWhile(fn: () => void): void {
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

  /** Calls the function when the stream is about to end: its handle still lives then. */
  whenClosing(fn: () => void): void {
    this.#closing ??= []
    this.#closing.push(fn)
  }

  close(): void {
    if (this.closed || this.tenure === 'kept') return
    if (this.#isInUse) this.#endLater()
    else this.#end()
  }

  get #isInUse(): boolean {
    return this.#users > 0 || (this.isOurs && this.#lifetime instanceof Lifetime && this.#lifetime.users > 0)
  }

  #endLater(): void {
    this.closed = true
    if (!this.isOurs || !(this.#lifetime instanceof Lifetime)) return
    this.#lifetime.isOver = true
    this.#lifetime.whenUnused = () => this.#end()
  }

  #end(): void {
    this.#runClosing()
    withdraw(this)
    if (this.#wrapper !== undefined) this.#wrapper.isOpen = false
    this.held = NOTHING
    if (this.tenure === 'owned') this.release()
  }

  #runClosing(): void {
    const closing = this.#closing ?? []
    this.#closing = undefined
    for (const each of closing) each()
    if (this.isOurs) captureOver(this)
    this.closed = true
    if (this.isOurs && this.#lifetime instanceof Lifetime) lifetimeEnds(this.driver, this.handle, this.#lifetime)
    for (const wait of this.promises) if (wait.owner === this) wait.ownerClosed()
  }

  override destroy(): void {
    this.#runClosing()
    this.driver.streamDestroy(this.handle)
  }

  override toString(): string {
    const handle = `0x${cudaHandleOf(this.handle).toString(16)}`
    return `${this.isExternal ? 'ExternalStream' : 'Stream'}(${handle}, ${this.device}${this.isOver ? ', closed' : ''})`
  }
}

/**
 * The core of a Stream; undefined for any other value, also for a proxy of a Stream or an object that inherits from
 * one.
 */
export let streamCoreOf: (value: unknown) => StreamCore | undefined

/** Keeps the core of a Stream. */
export abstract class StreamBase {
  readonly #core: StreamCore

  protected constructor(core: StreamCore) {
    this.#core = core
  }

  static {
    streamCoreOf = (value) => (typeof value === 'object' && value !== null && #core in value ? value.#core : undefined)
  }
}

/** The core of an open stream, for calls that may queue work there. */
export function openStream(stream: unknown): StreamCore {
  const core = streamCoreOf(stream) ?? refuseReceiver('a Stream', stream)
  core.makeRoom(0)
  return core
}

/** The stream of a token: the object itself in the thread that shared it, else its handle and id on a device. */
export function receiveStream(shared: SharedStream): {
  readonly owner: object | undefined
  readonly device: Device
  readonly cudaHandle: number
  readonly id: bigint | undefined
  readonly lifetime: WrappedLifetime | undefined
} {
  const { owner, device, facts, said, lifetime } = receive(shared, 'stream', ['handle', 'id'])
  const [cudaHandle = 0] = facts
  checkFact(said.handle, 'handle', BigInt(cudaHandle))
  return { owner, device, cudaHandle, id: said.id, lifetime }
}

/** The options of a wrapper, for a stream that needs none. */
export function checkWrapOptions(stream: StreamBase, options: ExternalStreamOptions | undefined): void {
  const given = readOptions(options, WRAP_OPTIONS)
  const core = openStream(stream)
  checkOwner(given.owner)
  core.checkDevice(given.device)
}

/** CUlaunchMemSyncDomain. */
const DOMAINS = { default: 0, remote: 1 } as const

/** The number of a domain, by its name. */
export const checkMemorySyncDomain = (domain: unknown, name: string): number | undefined => oneOf(domain, DOMAINS, name)

const LEAST_CAPABILITY = 9

/** Throws ERR_UNSUPPORTED where the device cannot do what an option asks for. */
export function needsHopper(device: Device, name: string): void {
  const { major, minor } = device.computeCapability
  if (major >= LEAST_CAPABILITY) return
  const needs = `needs compute capability ${LEAST_CAPABILITY}.0 or later`
  throw stateError('ERR_UNSUPPORTED', `${name} ${needs}, and ${device} has ${major}.${minor}: leave it out`)
}

/** An integer of any size: the driver clamps it to the device's range itself, but takes 32 bits. */
export function checkPriority(priority: number | undefined, name = 'options.priority'): number {
  if (priority === undefined) return 0
  if (!Number.isInteger(priority)) throw invalidType(name, 'an integer', priority)
  return Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, priority)) + 0 // never -0
}
