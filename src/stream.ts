import { inspect } from 'node:util'
import { Ambient } from './base/ambient.js'
import {
  checkBoolean,
  checkFunction,
  checkOwner,
  checkThis,
  type Given,
  isInstance,
  readOptions,
} from './base/arguments.js'
import { heardFrom, inspected, invalidReceiver, invalidType, printed, stateError } from './base/errors.js'
import { destroyWhenUnreachable, release } from './base/finalization.js'
import { nextSerial } from './base/identity.js'
import { type Context, contextOf, Device, driverOf, elsewhere, resolveDevice } from './device.js'
import {
  type ContextHandle,
  canonicalStream,
  cudaHandleOf,
  type Driver,
  defaultStream,
  ExternalFlag,
  StreamFlag,
  type StreamHandle,
} from './driver/driver.js'
import {
  checkAgainst,
  EVENT_OPTIONS,
  Event,
  entriesOf,
  eventFor,
  isEvent,
  keptEventFor,
  openEvent,
  recordedBehind,
  settingsFrom,
} from './event.js'
import { finished, type WaitOptions } from './streams/finished.js'
import { hostFunction } from './streams/host-function.js'
import { announce, isShared, type SharedStream, withdraw } from './streams/shared.js'
import type {
  ExternalStreamOptions,
  RecordOptions,
  StreamOptions,
  WaitEventOptions,
  WaitStreamOptions,
} from './streams/stream-options.js'
import {
  checkDevice,
  receiveStream,
  StreamResource,
  StreamSeed,
  seedOfHandle,
  seedOfNew,
  seedOfShared,
} from './streams/stream-seed.js'
import {
  type CudaStreamLike,
  cudaStream,
  handleOf,
  isStreamLike,
  type PythonStreamLike,
  type StreamSource,
} from './streams/stream-source.js'

const currentStreams = new WeakMap<Device, Ambient<Stream>>()
const defaultStreams = new WeakMap<Device, { readonly legacy: Stream; readonly perThread: Stream }>()

/** A stream as its driver knows it. */
export interface OpenStream {
  readonly driver: Driver
  readonly handle: StreamHandle
  readonly context: ContextHandle
  /** The device's ordinal. */
  readonly device: number
  /** Never used twice, unlike the handle. */
  readonly serial: number
}

const RECORD_OPTIONS = [...EVENT_OPTIONS, 'external'] as const
const WAIT_OPTIONS = ['event', 'external'] as const
const WRAP_OPTIONS = ['device', 'owner'] as const

/**
 * For the other files and doors of this package: what is queued on a stream is queued by this, after all arguments have
 * been read and before any memory is opened. It makes room for so many entries of the stream's hardware queue first,
 * and host functions may run in that, so a stream, buffer or graph that was open before may be closed afterwards.
 * Nothing of the program runs between this and the driver's call. Throws ERR_CLOSED.
 */
export let openStream: (stream: Stream, entries?: number) => OpenStream
/** Runs code of the program that has the stream's handle: closed in there, the stream ends afterwards. */
export let keepWhile: (stream: Stream, fn: () => void) => void
/** Notes what was queued on a stream, for the errors of whoever waits for it. */
export let queuedLast: (stream: Stream, what: string) => void
/** Calls the function when the stream is about to be closed: its handle still lives then. */
export let whenClosing: (stream: Stream, fn: () => void) => void
/** Is it a Stream, and not merely an heir to one, as a proxy is? */
export let isStream: (value: unknown) => value is Stream
let ownerOf: (stream: Stream) => object | undefined
let rewrap: (stream: Stream) => StreamSeed

/**
 * A queue of GPU work: what is queued runs in order; between streams, events order it.
 *
 * What holds for all members is not repeated at each: an argument of the wrong type is ERR_INVALID_ARG_TYPE; a closed
 * stream, this one or an argument, is ERR_CLOSED, and only `handle`, `device`, `closed`, `equals()` and `close()` still
 * answer; once the GPU has faulted, whatever asks the driver throws its CudaError. Queuing work blocks where the
 * hardware queue is full, after about a thousand operations behind one that stands still: host functions run meanwhile,
 * and where that would never end it is ERR_DEADLOCK.
 */
export class Stream implements CudaStreamLike, Disposable, AsyncDisposable {
  /** The device it is on. */
  readonly device: Device
  /** Which object it is: no other of this thread has the number. Others may wrap the same stream, which `id` tells. */
  readonly serial: number = nextSerial()
  readonly #driver: Driver
  readonly #handle: StreamHandle
  #handedOut = false
  readonly #context: ContextHandle
  readonly #facts: OpenStream
  readonly #kept: boolean
  readonly #remains: StreamResource | undefined
  #held: readonly (object | undefined)[]
  #closed = false
  /** Calls in which code of the program has the handle: closed in one of them, it ends when they are over. */
  #users = 0
  readonly #closing: (() => void)[] = []
  /** Nothing was queued through this object since it was last synchronized. */
  #quiet = false
  /** What was queued through it last, for errors. */
  #last: string | undefined
  #id: bigint | undefined
  #priority: number | undefined
  #nonBlocking: boolean | undefined
  #cachedEvent: Event | undefined

  /**
   * Makes a stream (`cuStreamCreateWithPriority`).
   * @throws ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for a device that does not exist
   */
  constructor(options?: StreamOptions) {
    const seed = isInstance(options, StreamSeed) ? options : seedOfNew(options)
    this.device = seed.device
    this.#driver = driverOf(seed.device)
    this.#handle = seed.handle
    this.#context = seed.context
    this.#kept = seed.tenure === 'kept'
    this.#held = seed.held
    this.#facts = {
      driver: this.#driver,
      handle: seed.handle,
      context: seed.context,
      device: seed.device.ordinal,
      serial: this.serial,
    }
    if (seed.tenure !== 'owned') return
    this.#remains = new StreamResource(this.#driver, seed.handle)
    destroyWhenUnreachable(this, this.#remains)
  }

  /**
   * A stream from whatever another library, or another thread by `share()`, hands over. A `Stream` is returned as it is,
   * and so is the stream that was shared in the thread that shared it.
   * @throws as `new ExternalStream(source, options)` does; ERR_CLOSED for a closed `Stream`
   */
  static from(source: Stream | StreamSource | SharedStream, options?: ExternalStreamOptions): Stream {
    const known = isShared(source) ? ownOfShared(source) : source
    if (!isStream(known)) return new ExternalStream(source, options)
    const given = readOptions(options, WRAP_OPTIONS)
    Stream.#opened(known)
    checkOwner(given.owner)
    checkDevice(known, given.device)
    return known
  }

  /**
   * The stream that this async context made current on `device` (default: the current device), else its null stream. It
   * stays current when it is closed.
   * @throws ERR_OUT_OF_RANGE for a device that does not exist
   */
  static current(device?: Device | number): Stream {
    const where = resolveDevice(device, 'device')
    return currentStreams.get(where)?.get() ?? defaultStreamOf(where)
  }

  /**
   * Orders streams by device, then handle: for sorting. 0 for two of the same key, which `valueOf()` says; such streams
   * of two drivers are not `equals()`.
   * @throws ERR_INVALID_ARG_TYPE, ERR_CLOSED
   */
  static compare(a: Stream, b: Stream): -1 | 0 | 1 {
    if (!isStream(a)) throw invalidType('a', 'a Stream', a)
    if (!isStream(b)) throw invalidType('b', 'a Stream', b)
    const [left, right] = [a.valueOf(), b.valueOf()]
    return left < right ? -1 : left > right ? 1 : 0
  }

  /**
   * The current device's null stream (handle 0): it waits for all its blocking streams, and they for it. Always the
   * same object; `close()` does nothing to it.
   */
  static get null(): Stream {
    return defaultStreamOf(Device.current)
  }

  /**
   * The current device's per-thread default stream (handle 2): a blocking stream of the JavaScript thread's own. Always
   * the same object; `close()` does nothing to it.
   */
  static get perThread(): Stream {
    return defaultStreamsOf(Device.current).perThread
  }

  /**
   * The CUstream: what other libraries take. 0 is the null stream, 2 the per-thread one. It keeps nothing alive: hold
   * the stream as long as they use it. It can still be read after `close()`, when it is nobody's.
   */
  get handle(): bigint {
    Stream.#checkBrand(this)
    this.#handOut()
    return BigInt(cudaHandleOf(this.#handle))
  }

  /**
   * The driver's own number for the stream (`cuStreamGetId`, asked once). Never used twice, unlike the handle.
   * @throws CudaError 900 while the stream captures, unless it was asked before; the capture is not spoilt
   */
  get id(): bigint {
    const handle = Stream.#opened(this)
    this.#id ??= this.#driver.streamGetId(handle)
    return this.#id
  }

  /** The context it is in: its device's primary one, unless another library made the stream elsewhere. */
  get context(): Context {
    Stream.#opened(this)
    return { handle: BigInt(this.#context), device: this.device }
  }

  /** What the driver made of the priority asked for (`cuStreamGetPriority`, asked once): lower goes first. */
  get priority(): number {
    const handle = Stream.#opened(this)
    this.#priority ??= this.#driver.streamGetPriority(handle)
    return this.#priority
  }

  /**
   * Is it free of the null stream's rules (`cuStreamGetFlags`, asked once)?
   * @throws CudaError 900 while the stream captures, unless it was asked before; the capture is not spoilt
   */
  get nonBlocking(): boolean {
    const handle = Stream.#opened(this)
    this.#nonBlocking ??= (this.#driver.streamGetFlags(handle) & StreamFlag.NON_BLOCKING) !== 0
    return this.#nonBlocking
  }

  /**
   * Is its work being captured into a graph (`cuStreamIsCapturing`)? Also true where it joined the capture of another
   * stream, and where the capture is spoilt and has not been ended.
   * @throws CudaError 906 for the null stream while a blocking stream of the device captures
   */
  get isCapturing(): boolean {
    const handle = Stream.#opened(this)
    return this.#driver.streamIsCapturing(handle)
  }

  /** An event without timing that the stream keeps for you, always the same; closing it does nothing. */
  get cachedEvent(): Event {
    Stream.#opened(this)
    this.#cachedEvent ??= keptEventFor(this.device, this.#context)
    return this.#cachedEvent
  }

  /** Was it closed? The driver is not asked: a stream that its foreign owner destroyed is not closed. */
  get closed(): boolean {
    Stream.#checkBrand(this)
    return this.#closed
  }

  /**
   * Marks this point of the stream's work in an event (`cuEventRecord`): the one given, or a new one without timing.
   * @throws ERR_DEVICE_MISMATCH for an event of another device; ERR_INVALID_ARG_VALUE for options that contradict it,
   * or each other; CudaError 906 on the null stream while a blocking stream of the device captures, 901 once the
   * capture that the stream is in is spoilt
   */
  record(event?: Event, options?: RecordOptions): Event
  /** The same in a new event, made and recorded as the options say. */
  record(options: RecordOptions): Event
  record(given?: Event | RecordOptions, options?: RecordOptions): Event {
    Stream.#opened(this)
    const isGiven = isEvent(given)
    if (!isGiven && given !== undefined && (isInstance(given, Event) || isInstance(given, Stream))) {
      throw invalidType('event', 'an Event or options', given)
    }
    const wanted = isGiven || given === undefined ? options : given
    // Before anything is opened: a getter may close it.
    const settings = wanted === undefined ? undefined : readOptions(wanted, RECORD_OPTIONS)
    const external = externalFlag(settings)
    if (isGiven && given.device !== this.device) throw mismatch(given, this)
    if (isGiven && settings !== undefined) checkAgainst(given, settings)
    const made = settingsFrom(settings)
    const entries = isGiven ? entriesOf(given) : made.timing || made.interprocess ? 1 : 0
    const stream = Stream.#ready(this, entries)
    const event = isGiven ? given : eventFor(this.device, this.#context, made)
    this.#driver.eventRecord(openEvent(event, this.#driver), stream, external)
    recordedBehind(event, this.#last)
    return event
  }

  /**
   * Lets later work of this stream wait for an event's latest record (`cuStreamWaitEvent`). Recording the event again
   * changes nothing for this wait. Never blocks. An event that was never recorded is not waited for.
   * @throws ERR_DEVICE_MISMATCH for an event of another driver. In captures, CudaError 905 for an event recorded
   * outside, 902 for one of another capture, 906 where the null stream is to wait for one, and these spoil the capture;
   * 1 for one of a capture that is over, 901 once the capture is spoilt
   */
  wait(event: Event, options?: WaitEventOptions): this
  /**
   * Lets later work of this stream wait for all that another stream holds now: an event is recorded there, and waited
   * for here. Never blocks.
   * @throws ERR_DEVICE_MISMATCH for a stream of another driver, and for `options.event` of another device than that
   * stream; as `new ExternalStream(stream)` for an object with a stream protocol; CudaError as `record()` and
   * `wait(event)`
   */
  wait(stream: Stream | CudaStreamLike | PythonStreamLike, options?: WaitStreamOptions): this
  wait(target: Event | Stream | CudaStreamLike | PythonStreamLike, options?: WaitStreamOptions): this {
    Stream.#opened(this)
    // Options are read, and protocols asked, before anything is opened: what runs then may close it.
    if (isEvent(target)) {
      const external = options === undefined ? ExternalFlag.NONE : externalFlag(readOptions(options, WAIT_OPTIONS))
      const stream = Stream.#ready(this, 0)
      this.#driver.streamWaitEvent(stream, openEvent(target, this.#driver), external)
      return this
    }
    const { event, external } = readOptions(options, WAIT_OPTIONS)
    if (event !== undefined && !isEvent(event)) throw invalidType('options.event', 'an Event', event)
    const isExternal = checkBoolean(external, 'options.external', false)
    const other = this.#streamToWaitFor(target)
    const stream = Stream.#ready(this, 0)
    const from = Stream.#opened(other)
    if (other.#driver !== this.#driver) throw mismatch(other, this)
    if (event === undefined && !(isExternal && (this.isCapturing || other.isCapturing))) {
      this.#driver.streamWaitStream(stream, from, other.#context)
      return this
    }
    const between = event ?? other.cachedEvent
    other.record(between, { external })
    return this.wait(between, { external })
  }

  /**
   * Is all its work done (`cuStreamQuery`)?
   * @throws CudaError where the GPU has faulted; 900 while it captures, or another stream does in a mode that forbids
   * to ask, which spoils that capture
   */
  query(): boolean {
    const handle = Stream.#opened(this)
    try {
      return this.#driver.streamQuery(handle)
    } catch (error) {
      throw heardFrom(error, this.#whom())
    }
  }

  /**
   * Blocks until all its work is done (`cuStreamSynchronize`). Host functions that come due run inside this call.
   * @throws CudaError where the GPU has faulted; 900 while a stream captures, as `query()`; ERR_DEADLOCK inside a host
   * function that it comes after, or in one after ten seconds in which nothing went on (CUDA_STREAMS_DEADLOCK_TIMEOUT,
   * in milliseconds), and on the simulator where only this thread could open the latch that it waits for
   */
  synchronize(): void {
    const handle = Stream.#opened(this)
    // To ask costs less than to wait, where there is likely nothing to wait for.
    if (this.#quiet && this.#isSurelyDone(handle)) return
    try {
      this.#driver.streamSynchronize(handle)
    } catch (error) {
      throw heardFrom(error, this.#whom())
    }
    this.#quiet = true
  }

  /**
   * Resolves when all that is queued now is done, without blocking. While it is pending the process stays alive.
   * Rejects with the CudaError if the GPU faults, 900 while the stream captures (which spoils nothing), with
   * `signal.reason` if aborted, with ERR_CLOSED or ERR_INVALID_ARG_TYPE; never throws.
   */
  finished(options?: WaitOptions): Promise<void> {
    return finished(
      options,
      () => (isStream(this) ? this.#whom() : 'a stream'),
      (settle) => {
        const handle = Stream.#opened(this)
        return this.#driver.streamFinished(handle, this.#context, settle)
      },
    )
  }

  /**
   * Queues a function for the JavaScript thread: it runs after all earlier and before all later work of the stream, in
   * the async context of this call. It may use the GPU, but not wait for its own stream. What it throws surfaces as an
   * uncaught exception; a promise that it returns is not awaited. Dropped if the GPU faults before. While it is pending
   * the process stays alive. Captured, it runs at each launch of the graph.
   * @throws ERR_INVALID_ARG_TYPE, ERR_CLOSED, CudaError; nothing is queued then
   */
  launchHostFunc(callback: () => void): this
  /** The same, with an argument that the function gets. */
  launchHostFunc<T>(callback: (arg: T) => void, arg: T): this
  launchHostFunc<T>(callback: (arg: T) => void, arg?: T): this {
    Stream.#opened(this)
    checkFunction(callback, 'callback')
    const host = hostFunction(() => callback(arg as T), false)
    const stream = Stream.#ready(this, 1)
    this.#driver.streamLaunchHostFunction(stream, this.#context, host)
    this.#last = 'a host function'
    return this
  }

  /**
   * As `launchHostFunc`, but the function also gets the stream and a status: 0, or the CUresult if the GPU faulted,
   * after which it runs too. Cannot be captured.
   * @throws as `launchHostFunc`; CudaError 900 while the stream captures, which spoils nothing
   */
  addCallback<T>(callback: (stream: this, status: number, arg: T) => void, arg: T): this {
    Stream.#opened(this)
    checkFunction(callback, 'callback')
    const host = hostFunction((status) => callback(this, status, arg), true)
    const stream = Stream.#ready(this, 1)
    this.#driver.streamLaunchHostFunction(stream, this.#context, host)
    this.#last = 'a callback'
    return this
  }

  /**
   * Makes it current on its device for the rest of this async context. The current device stays as it is.
   * @throws ERR_CLOSED
   */
  use(): this {
    Stream.#opened(this)
    ambientOf(this.device).set(this)
    return this
  }

  /**
   * Makes it current on its device until the result is disposed. In an async function prefer `run`: what such a
   * function enters before its first `await`, its caller sees as well until then.
   * @throws ERR_CLOSED
   */
  enter(): Disposable {
    Stream.#opened(this)
    return ambientOf(this.device).enter(this)
  }

  /**
   * Makes it current on its device for the function and for all that it awaits. Returns what the function returns.
   * @throws ERR_INVALID_ARG_TYPE, ERR_CLOSED; what the function throws
   */
  run<R>(fn: () => R): R {
    Stream.#opened(this)
    checkFunction(fn, 'fn')
    return ambientOf(this.device).run(this, fn)
  }

  /**
   * Describes it to other threads of this process: `Stream.from()` makes a stream of it there, and both may queue work.
   * It is kept until you close it; do that when the others have done with it.
   * @throws ERR_UNSUPPORTED for the per-thread default stream, which is another one in each thread; ERR_CLOSED;
   * CudaError 900 while it captures, unless `id` was asked before
   */
  share(): SharedStream {
    const handle = cudaHandleOf(Stream.#opened(this))
    this.#handOut()
    if (handle !== 2) return { ...announce(this, 'stream', this.device, [handle]), handle: BigInt(handle), id: this.id }
    throw stateError('ERR_UNSUPPORTED', `${this} is another stream in each thread: share one that you made`)
  }

  /** Is it the same stream of the same device? Handles 0 and 1 name the same one. */
  equals(other: unknown): boolean {
    Stream.#checkBrand(this)
    return (
      isStream(other) &&
      other.device === this.device &&
      canonicalStream(other.#handle) === canonicalStream(this.#handle)
    )
  }

  /**
   * A key to order streams by: the device's ordinal above, the handle in the low 64 bits, 1 counted as 0. Drivers are
   * not in it: the null streams of two simulations have the same.
   * @throws ERR_CLOSED
   */
  valueOf(): bigint {
    const handle = Stream.#opened(this)
    return (BigInt(this.device.ordinal) << 64n) | BigInt(cudaHandleOf(canonicalStream(handle)))
  }

  /**
   * Destroys the stream (`cuStreamDestroy`), or lets go of one that another library owns. Queued work still completes;
   * a capture that a destroyed stream began is given up. Does nothing to default streams. May be called twice.
   */
  close(): void {
    Stream.#checkBrand(this)
    if (this.#closed || this.#kept) return
    if (this.#users > 0) this.#closed = true
    else this.#end()
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    Stream.#checkBrand(this)
    this.close()
  }

  /**
   * `finished()`, then `close()`, for `await using`. It is closed also where `finished()` rejects, and so does this.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    Stream.#checkBrand(this)
    if (this.#closed) return
    try {
      await this.finished()
    } finally {
      this.close()
    }
  }

  /** The stream protocol: its version, and the handle. It keeps nothing alive: hold the stream as long as the handle. */
  [cudaStream](): readonly [version: 0, handle: bigint] {
    Stream.#opened(this)
    return [0, this.handle]
  }

  get [Symbol.toStringTag](): string {
    return 'Stream'
  }

  toString(): string {
    if (!isStream(this)) return printed(this)
    const handle = `0x${cudaHandleOf(this.#handle).toString(16)}`
    return `${this[Symbol.toStringTag]}(${handle}, ${this.device}${this.#closed ? ', closed' : ''})`
  }

  [inspect.custom](): string {
    return inspected(this)
  }

  #handOut(): void {
    if (this.#handedOut) return
    this.#handedOut = true
    this.#driver.streamHandedOut(this.#handle)
  }

  #end(): void {
    for (const closing of this.#closing.splice(0)) closing()
    this.#closed = true
    withdraw(this, this.device)
    this.#held = []
    this.#cachedEvent = undefined
    if (this.#remains !== undefined) release(this, this.#remains)
  }

  static #checkBrand(stream: Stream): void {
    // Every use of a stream passes here, and checkThis(), which all classes share, is not inlined as well.
    if (!isStream(stream)) throw invalidReceiver('a Stream', stream)
  }

  static #opened(stream: Stream): StreamHandle {
    Stream.#checkBrand(stream)
    if (stream.#closed) throw stateError('ERR_CLOSED', `${stream} cannot be used any more`)
    return stream.#handle
  }

  /** The handle, for queuing something that takes so many entries of the hardware queue: room first, then open. */
  static #ready(stream: Stream, entries: number): StreamHandle {
    stream.#quiet = false
    if (entries > 0) stream.#driver.streamMakeRoom(stream.#handle, entries)
    return Stream.#opened(stream)
  }

  /** Whose work a wait is for, as an error says it. */
  #whom(): string {
    return this.#last === undefined ? `${this}` : `${this}, where ${this.#last} was queued last`
  }

  /** A refusal is for the call to tell that the program has made. */
  #isSurelyDone(handle: StreamHandle): boolean {
    try {
      return this.#driver.streamQuery(handle)
    } catch {
      return false
    }
  }

  #streamToWaitFor(target: unknown): Stream {
    if (isStream(target)) return target
    if (isStreamLike(target)) return new ExternalStream(seedOfHandle(handleOf(target), this.device) as never)
    throw invalidType('target', 'an Event, a Stream or an object with a stream protocol (wrap a handle first)', target)
  }

  static {
    isStream = (value): value is Stream => typeof value === 'object' && value !== null && #handle in value
    openStream = (stream, entries = 0) => {
      Stream.#opened(stream)
      Stream.#ready(stream, entries)
      return stream.#facts
    }
    keepWhile = (stream, fn) => {
      stream.#users += 1
      try {
        fn()
      } finally {
        stream.#users -= 1
        if (stream.#users === 0 && stream.#closed) stream.#end()
      }
    }
    queuedLast = (stream, what) => {
      stream.#last = what
    }
    whenClosing = (stream, fn) => {
      stream.#closing.push(fn)
    }
    ownerOf = (stream) => stream.#held[0]
    rewrap = (stream) => {
      const handle = Stream.#opened(stream)
      const { device } = stream
      // Whoever owns it may have destroyed it meanwhile, and that may have been us.
      if (stream instanceof ExternalStream) stream.#driver.streamAdopt(cudaHandleOf(handle), device.ordinal)
      else stream.#handOut()
      return new StreamSeed(device, stream.#context, handle, 'wrapped', stream.#held)
    }
  }
}

/** A stream that another library owns. It is never destroyed by us: `close()` lets go of it. */
export class ExternalStream extends Stream {
  /**
   * Wraps a stream by its handle or by an object with the stream protocol. The other library must keep it alive:
   * mapped memory that is no stream any more cannot always be told from one.
   * @throws ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for what cannot be a handle; ERR_INVALID_HANDLE for what the driver
   * does not know; ERR_CLOSED for a stream that this library destroyed; ERR_DEVICE_MISMATCH where `device` is wrong; for
   * what another thread shared, ERR_INVALID_HANDLE from another process, ERR_UNSUPPORTED from another simulator,
   * ERR_INVALID_ARG_VALUE for a token that is not as `share()` returned it
   */
  constructor(source: StreamSource | SharedStream, options?: ExternalStreamOptions) {
    super(seedOfWrapped(source, options) as StreamOptions)
  }

  /** What is kept reachable while this lives: the `owner` given, else the protocol object; undefined once closed. */
  get owner(): object | undefined {
    return ownerOf(checkThis(this, isExternalStream, 'an ExternalStream'))
  }

  override get [Symbol.toStringTag](): string {
    return 'ExternalStream'
  }
}

const isExternalStream = (value: unknown): value is ExternalStream => isStream(value) && value instanceof ExternalStream

function seedOfWrapped(
  source: StreamSource | SharedStream | StreamSeed,
  options: ExternalStreamOptions | undefined,
): StreamSeed {
  if (isInstance(source, StreamSeed)) return source
  const given = readOptions(options, WRAP_OPTIONS)
  const plain = typeof source === 'bigint' || typeof source === 'number' || isShared(source)
  const protocol = plain ? undefined : source
  const held = [checkOwner(given.owner) ?? protocol, protocol]
  const wanted = given.device === -1 ? undefined : given.device
  const seed = seedOfSource(source, wanted)
  checkDevice(seed, wanted)
  // What a wrapper holds is held by those made from it, which may outlive it.
  return new StreamSeed(seed.device, seed.context, seed.handle, 'wrapped', [...held, ...seed.held])
}

function seedOfSource(source: StreamSource | SharedStream, wanted: Device | number | undefined): StreamSeed {
  if (isStream(source)) return rewrap(source)
  if (!isShared(source)) return seedOfHandle(handleOf(source), wanted)
  const { owner, device, cudaHandle, id } = receiveStream(source)
  return owner === undefined ? seedOfShared(cudaHandle, id, device) : rewrap(owner as Stream)
}

/** The stream that was shared, in the thread that shared it; the null stream, which every thread has, in any. */
function ownOfShared(shared: SharedStream): Stream | undefined {
  const { owner, device, cudaHandle } = receiveStream(shared)
  if (owner !== undefined) return owner as Stream
  return cudaHandle < 2 ? defaultStreamOf(device) : undefined
}

function externalFlag(options: Given<WaitEventOptions, 'external'> | undefined): ExternalFlag {
  if (options === undefined) return ExternalFlag.NONE
  return checkBoolean(options.external, 'options.external', false) ? ExternalFlag.EXTERNAL : ExternalFlag.NONE
}

function mismatch(given: Event | Stream, stream: Stream): Error {
  const where = elsewhere(stream.device, given.device)
  return stateError('ERR_DEVICE_MISMATCH', `${given} cannot be used here: ${stream} is on ${where}`)
}

function ambientOf(device: Device): Ambient<Stream> {
  let ambient = currentStreams.get(device)
  if (ambient === undefined) {
    ambient = new Ambient()
    currentStreams.set(device, ambient)
  }
  return ambient
}

function defaultStreamsOf(device: Device): { readonly legacy: Stream; readonly perThread: Stream } {
  let streams = defaultStreams.get(device)
  if (streams === undefined) {
    const make = (which: 0 | 2): Stream =>
      new Stream(
        new StreamSeed(device, contextOf(device), defaultStream(device.ordinal, which), 'kept') as StreamOptions,
      )
    streams = { legacy: make(0), perThread: make(2) }
    defaultStreams.set(device, streams)
  }
  return streams
}

/** The null stream of a device: always the same object. */
export function defaultStreamOf(device: Device): Stream {
  return defaultStreamsOf(device).legacy
}
