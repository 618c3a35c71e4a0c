import type { ReadableStream, WritableStream } from 'node:stream/web'
import { inspect } from 'node:util'
import { checkBoolean, checkFunction, checkThis, type Given, isInstance, readOptions } from './base/arguments.js'
import { heardFrom, inspected, invalidReceiver, invalidType, printed, stateError } from './base/errors.js'
import { destroyWhenUnreachable } from './base/finalization.js'
import { type Context, Device, elsewhere, resolveDevice } from './device.js'
import { canonicalStream, cudaHandleOf, ExternalFlag, type HostFunction } from './driver/driver.js'
import { Event, eventCore, eventCoreOf, isEvent } from './event.js'
import { beginCapture, type CaptureModeName, type CaptureOptions, capture, endCapture } from './graphs/capture.js'
import type { Graph, GraphExec } from './graphs/graph.js'
import type { DefinedKernel } from './kernels/defined-kernel.js'
import { type ExternalWork, queueExternal } from './kernels/external-work.js'
import type { Kernel, LaunchConfig } from './kernels/kernel.js'
import type { ArgumentsOf, ParameterType } from './kernels/kernel-signature.js'
import { launch } from './kernels/launchable.js'
import type { DeviceBuffer } from './memory/device-buffer.js'
import type { PinnedBuffer } from './memory/pinned-buffer.js'
import {
  type Bytes,
  copy,
  type DownloaderOptions,
  download,
  downloader,
  type FillOptions,
  fill,
  upload,
  uploader,
} from './memory/transfers.js'
import { currentOn, defaultCoresOf } from './streams/current.js'
import { EVENT_OPTIONS, EventCore, PLAIN, settingsOf } from './streams/event-core.js'
import { finished, type WaitOptions } from './streams/finished.js'
import { hostFunction } from './streams/host-function.js'
import { announce, isShared, type SharedStream } from './streams/shared.js'
import {
  checkWrapOptions,
  isStream,
  receiveStream,
  StreamBase,
  StreamCore,
  streamCoreOf,
} from './streams/stream-core.js'
import type {
  ExternalStreamOptions,
  RecordOptions,
  StreamOptions,
  WaitEventOptions,
  WaitStreamOptions,
} from './streams/stream-options.js'
import {
  type CudaStreamLike,
  cudaStream,
  handleOf,
  isStreamLike,
  type PythonStreamLike,
  type StreamSource,
} from './streams/stream-source.js'

const RECORD_OPTIONS = [...EVENT_OPTIONS, 'external'] as const
const WAIT_OPTIONS = ['event', 'external'] as const

/**
 * A queue of GPU work: what is queued runs in order; between streams, events order it.
 *
 * What holds for all members is not repeated at each: an argument of the wrong type is ERR_INVALID_ARG_TYPE; a closed
 * stream, this one or an argument, is ERR_CLOSED, and only `handle`, `device`, `closed`, `equals()` and `close()` still
 * answer; once the GPU has faulted, whatever asks the driver throws its CudaError. Queuing work blocks where the
 * hardware queue is full, after about a thousand operations behind one that stands still: host functions run meanwhile,
 * and where that would never end it is ERR_DEADLOCK.
 */
export class Stream extends StreamBase implements CudaStreamLike, Disposable, AsyncDisposable {
  /** The device it is on. */
  readonly device: Device
  /** Which object it is: no other of this thread has the number. Others may wrap the same stream, which `id` tells. */
  readonly serial: number
  #cachedEvent: Event | undefined

  /**
   * Makes a stream (`cuStreamCreateWithPriority`).
   * @throws ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for a device that does not exist
   */
  constructor(options?: StreamOptions) {
    const core = isInstance(options, StreamCore) ? options : StreamCore.make(options)
    super(core)
    this.device = core.device
    this.serial = core.serial
    if (core.isOurs) destroyWhenUnreachable(this, core)
  }

  /**
   * A stream from whatever another library, or another thread by `share()`, hands over. A `Stream` is returned as it is,
   * and so is the stream that was shared in the thread that shared it.
   * @throws as `new ExternalStream(source, options)` does; ERR_CLOSED for a closed `Stream`
   */
  static from(source: Stream | StreamSource | SharedStream, options?: ExternalStreamOptions): Stream {
    const known = isShared(source) ? ownOfShared(source) : source
    if (!isStream(known)) return new ExternalStream(source, options)
    checkWrapOptions(known, options)
    return known
  }

  /**
   * The stream that this async context made current on `device` (default: the current device), else its null stream. It
   * stays current when it is closed.
   * @throws ERR_OUT_OF_RANGE for a device that does not exist
   */
  static current(device?: Device | number): Stream {
    const where = resolveDevice(device, 'device')
    const current = currentOn(where).get()
    return isStream(current) ? current : defaultStreamOf(where)
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
    const core = coreOf(this)
    core.handOut()
    return BigInt(cudaHandleOf(core.handle))
  }

  /**
   * The driver's own number for the stream (`cuStreamGetId`, asked once). Never used twice, unlike the handle.
   * @throws CudaError 900 while the stream captures, unless it was asked before; the capture is not spoilt
   */
  get id(): bigint {
    return open(this).id
  }

  /** The context it is in: its device's primary one, unless another library made the stream elsewhere. */
  get context(): Context {
    return { handle: BigInt(open(this).context), device: this.device }
  }

  /** What the driver made of the priority asked for (`cuStreamGetPriority`, asked once): lower goes first. */
  get priority(): number {
    return open(this).priority
  }

  /**
   * Is it free of the null stream's rules (`cuStreamGetFlags`, asked once)?
   * @throws CudaError 900 while the stream captures, unless it was asked before; the capture is not spoilt
   */
  get nonBlocking(): boolean {
    return open(this).nonBlocking
  }

  /**
   * Is its work being captured into a graph (`cuStreamIsCapturing`)? Also true where it joined the capture of another
   * stream, and where the capture is spoilt and has not been ended.
   * @throws CudaError 906 for the null stream while a blocking stream of the device captures
   */
  get isCapturing(): boolean {
    return open(this).isCapturing
  }

  /** An event without timing that the stream keeps for you, always the same; closing it does nothing. */
  get cachedEvent(): Event {
    const { device, context } = open(this)
    this.#cachedEvent ??= new Event(new EventCore(device, context, PLAIN, 'kept'))
    return this.#cachedEvent
  }

  /** Was it closed? The driver is not asked: a stream that its foreign owner destroyed is not closed. */
  get closed(): boolean {
    return coreOf(this).closed
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
    const core = open(this)
    const isGiven = isEvent(given)
    if (!isGiven && given !== undefined && (isInstance(given, Event) || isInstance(given, Stream))) {
      throw invalidType('event', 'an Event or options', given)
    }
    const wanted = isGiven || given === undefined ? options : given
    // Before anything is opened: a getter may close it.
    const settings = wanted === undefined ? undefined : readOptions(wanted, RECORD_OPTIONS)
    const external = externalFlag(settings)
    if (isGiven) recordGiven(core, given, settings, external)
    else {
      const made = settingsOf(settings)
      core.makeRoom(made.timing || made.interprocess ? 1 : 0)
      const own = new EventCore(core.device, core.context, made, 'recordedNext')
      const event = new Event(own)
      core.recordIn(own, external)
      return event
    }
    return given
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
    const core = open(this)
    // Options are read, and protocols asked, before anything is opened: what runs then may close it.
    const own = eventCoreOf(target)
    if (own !== undefined) {
      const external = options === undefined ? ExternalFlag.NONE : externalFlag(readOptions(options, WAIT_OPTIONS))
      core.makeRoom(0)
      core.driver.streamWaitEvent(core.handle, own.openFor(core.driver), external)
      return this
    }
    const { event, external } = readOptions(options, WAIT_OPTIONS)
    if (event !== undefined && !isEvent(event)) throw invalidType('options.event', 'an Event', event)
    const isExternal = checkBoolean(external, 'options.external', false)
    const other = isStream(target) ? target : this.#wrapped(target)
    core.makeRoom(0)
    const from = open(other)
    if (from.driver !== core.driver) throw mismatch(from, core)
    if (event === undefined && !(isExternal && (core.isCapturing || from.isCapturing))) {
      core.driver.streamWaitStream(core.handle, from.handle, from.context)
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
    const core = open(this)
    try {
      return core.driver.streamQuery(core.handle)
    } catch (error) {
      throw heardFrom(error, whom(core))
    }
  }

  /**
   * Blocks until all its work is done (`cuStreamSynchronize`). Host functions that come due run inside this call.
   * @throws CudaError where the GPU has faulted; 900 while a stream captures, as `query()`; ERR_DEADLOCK inside a host
   * function that it comes after, or in one after ten seconds in which nothing went on (CUDA_STREAMS_DEADLOCK_TIMEOUT,
   * in milliseconds), and on the simulator where only this thread could open the latch that it waits for
   */
  synchronize(): void {
    const core = open(this)
    // To ask costs less than to wait, where there is likely nothing to wait for.
    if (core.quiet && isSurelyDone(core)) return
    try {
      core.driver.streamSynchronize(core.handle)
    } catch (error) {
      throw heardFrom(error, whom(core))
    }
    core.quiet = true
  }

  /**
   * Resolves when all that is queued now is done, without blocking. While it is pending the process stays alive.
   * Rejects with the CudaError if the GPU faults, 900 while the stream captures (which spoils nothing), with
   * `signal.reason` if aborted, with ERR_CLOSED or ERR_INVALID_ARG_TYPE; never throws.
   */
  finished(options?: WaitOptions): Promise<void> {
    return finished(
      options,
      () => whom(streamCoreOf(this)),
      (settle) => {
        const { driver, handle, context } = open(this)
        return driver.streamFinished(handle, context, settle)
      },
    )
  }

  /**
   * Queues a copy between two buffers of the same length, on devices or pinned, in any direction (`cuMemcpyAsync`;
   * between GPUs that cannot reach each other's memory `cuMemcpyPeerAsync`). Never blocks, but for 20 ms where a
   * stream of one GPU first uses memory of another. Buffers that overlap give what no one promises.
   * @throws ERR_OUT_OF_RANGE where the lengths differ, ERR_INVALID_ARG_TYPE, ERR_CLOSED, ERR_DEVICE_MISMATCH for a
   * buffer of another driver; ERR_UNSUPPORTED for pinned memory and that of a GPU which the stream's cannot reach
   */
  copy(destination: DeviceBuffer | PinnedBuffer, source: DeviceBuffer | PinnedBuffer): this {
    copy(open(this), destination, source)
    return this
  }

  /**
   * Queues writing a value over the whole buffer (`cuMemsetD8Async`, `cuMemsetD16Async`, `cuMemsetD32Async`): an
   * integer of `width` bytes, signed or not.
   * @throws ERR_OUT_OF_RANGE for a value that has more bytes; ERR_INVALID_ARG_VALUE for another width, and where
   * values of that width do not fit the buffer; ERR_INVALID_ARG_TYPE, ERR_CLOSED, ERR_DEVICE_MISMATCH;
   * ERR_UNSUPPORTED for memory of a GPU that the stream's cannot reach
   */
  fill(buffer: DeviceBuffer | PinnedBuffer, value: number, options?: FillOptions): this {
    fill(open(this), buffer, value, options)
    return this
  }

  /**
   * Queues a copy of an ordinary array to a buffer of the same length. All of it is queued when this returns, and the
   * array may be reused at once. It goes through 16 MiB of pinned memory; what has no room there yet is copied aside,
   * and the stream stops until the event loop has passed it on. The promise is done when nothing is left aside: await
   * it to keep that small.
   * @throws (at once) ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for an array that is detached, ERR_OUT_OF_RANGE
   * where the lengths differ, ERR_CLOSED, ERR_DEVICE_MISMATCH, ERR_UNSUPPORTED while the stream captures. The promise
   * rejects with the CudaError if the GPU is known to have faulted before it is done, and need not be looked at: a
   * later fault is told by whatever waits for the stream
   */
  upload(buffer: DeviceBuffer | PinnedBuffer, source: Bytes): Promise<void> {
    return upload(open(this), buffer, source)
  }

  /**
   * Queues a copy of a buffer to an ordinary array, which is there when the promise is done. What is queued on the
   * stream afterwards may overwrite the buffer. Rejects, and never throws: as `upload` throws, if the GPU faults,
   * and with ERR_UNSUPPORTED for more bytes than this Node's arrays have.
   */
  async download(buffer: DeviceBuffer | PinnedBuffer): Promise<Uint8Array> {
    return download(open(this), buffer)
  }

  /**
   * A web stream whose bytes are uploaded to the buffer one after the other, by `upload`: a file can be piped to a
   * GPU. More bytes than the buffer has are ERR_OUT_OF_RANGE; fewer leave the rest as it was. To write what `upload`
   * refuses fails with its error.
   * @throws (at once) ERR_INVALID_ARG_TYPE, ERR_CLOSED, ERR_DEVICE_MISMATCH
   */
  uploader(buffer: DeviceBuffer | PinnedBuffer): WritableStream<Bytes> {
    return uploader(open(this), buffer, (part, bytes) => this.upload(part, bytes))
  }

  /**
   * A web stream of the buffer's bytes. Each chunk is downloaded when it is read, and none ahead: it has what the
   * buffer holds then, and a stream that is not read keeps nothing alive. To read fails where `download` rejects.
   * @throws (at once) ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for `chunkBytes`, ERR_CLOSED, ERR_DEVICE_MISMATCH
   */
  downloader(buffer: DeviceBuffer | PinnedBuffer, options?: DownloaderOptions): ReadableStream<Uint8Array> {
    const { chunkBytes } = readOptions(options, ['chunkBytes'])
    return downloader(open(this), buffer, chunkBytes, (part) => this.download(part))
  }

  /**
   * Queues a kernel (`cuLaunchKernelEx`). Its arguments are checked against its signature; nothing is queued where
   * they do not fit. Buffers may be on another GPU that this one can reach, and may be closed as soon as this
   * returns, but for those of a launch that is captured. An address counts as no use of a buffer.
   * @throws ERR_INVALID_ARG_VALUE for another number of arguments, or memory that begins in the middle of an element;
   * ERR_INVALID_ARG_TYPE; ERR_OUT_OF_RANGE for a number that the parameter cannot hold, or no grid or block has;
   * ERR_CLOSED, of the module too; ERR_DEVICE_MISMATCH for a stream of another device or memory of another driver;
   * ERR_UNSUPPORTED for memory of a GPU that the stream's cannot reach; CudaError, mostly 1, for a shape that the
   * device cannot run
   */
  launch<S extends readonly ParameterType[]>(kernel: Kernel<S>, config: LaunchConfig, ...args: ArgumentsOf<S>): this
  /**
   * Queues a kernel that has a twin: on a GPU the kernel runs, on the simulator its twin. The first launch on a
   * device of the NVIDIA driver compiles and loads it, and blocks meanwhile, unless it was prepared. On the simulator
   * every pointer needs a buffer: addresses are ERR_INVALID_ARG_TYPE.
   * @throws as for a Kernel. The first launch, where it was not prepared: as `prepare()` rejects, and ERR_DEADLOCK
   * inside a host function
   */
  launch<S extends readonly ParameterType[]>(
    kernel: DefinedKernel<S>,
    config: LaunchConfig,
    ...args: ArgumentsOf<S>
  ): this
  /**
   * `exec.launch(stream)`.
   * @throws as `exec.launch(stream)`; ERR_INVALID_ARG_TYPE for what cannot be launched
   */
  launch(exec: GraphExec): this
  launch(target: unknown, config?: unknown, ...args: unknown[]): this {
    launch(open(this), target, config, args)
    return this
  }

  /**
   * Lets other code queue work: calls the function at once, with CUDA's own handle of the stream (0 for the null
   * stream), with the stream's context current and with room in its hardware queue for eight operations. The function
   * must not wait for the GPU, and queue on this stream only; if it throws, it must have queued nothing. On the
   * simulator `simulate` is queued in its place.
   * @throws what the function throws; ERR_UNSUPPORTED on the simulator where there is no `simulate`, and for memory
   * of a GPU that the stream's cannot reach; ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for an access that is none,
   * ERR_OUT_OF_RANGE for `nanoseconds`, ERR_CLOSED, ERR_DEVICE_MISMATCH for memory of another driver
   */
  external(work: ExternalWork, call: (handle: bigint) => void): this {
    queueExternal(open(this), work, call)
    return this
  }

  /**
   * Begins to write this stream's work down instead of running it (`cuStreamBeginCapture`). Other streams join by
   * waiting for an event of it, and must be waited for before the end. Mode: 'threadLocal' unless given. Until the
   * end it is refused in every mode, with CudaError 900 or 907, to ask or to wait for the capture's streams and
   * events or the whole device, or to launch a graph on those streams; this spoils the capture, but for `finished()`
   * of a stream or event. `alloc`, `upload` and `download` there are ERR_UNSUPPORTED. What is captured does not count
   * as a use of buffers.
   * @throws ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for no mode; ERR_CLOSED; CudaError 401 where the stream
   * captures already, 900 for the null stream, or 906 while a blocking stream captures
   */
  beginCapture(mode: CaptureModeName = 'threadLocal'): this {
    beginCapture(open(this), mode)
    return this
  }

  /**
   * Ends the capture that this stream began (`cuStreamEndCapture`).
   * @throws CudaError 901 where a mistake has spoilt it, 904 where a stream joined, has work, and was not waited for,
   * 908 where another thread began it and its mode is not 'relaxed': it is over by these, too. 903 on a stream that
   * only joined, which spoils the capture; 401 on one that does not capture; ERR_CLOSED
   */
  endCapture(): Graph {
    return endCapture(open(this))
  }

  /**
   * Captures what the function queues on this stream: `beginCapture()`, the function, `endCapture()`. Ends the
   * capture also where the function throws.
   * @throws what the function throws; ERR_INVALID_ARG_VALUE where it returns a promise, and for no mode; what
   * `beginCapture()` and `endCapture()` throw
   */
  capture(fn: () => void, options?: CaptureOptions): Graph {
    return capture(open(this), fn, options, (mode) => this.beginCapture(mode))
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
    const core = open(this)
    checkFunction(callback, 'callback')
    const host = hostFunction(() => callback(arg as T), false)
    queueHostFunction(core, host, 'a host function')
    return this
  }

  /**
   * As `launchHostFunc`, but the function also gets the stream and a status: 0, or the CUresult if the GPU faulted,
   * after which it runs too. Cannot be captured.
   * @throws as `launchHostFunc`; CudaError 900 while the stream captures, which spoils nothing
   */
  addCallback<T>(callback: (stream: this, status: number, arg: T) => void, arg: T): this {
    const core = open(this)
    checkFunction(callback, 'callback')
    const host = hostFunction((status) => callback(this, status, arg), true)
    queueHostFunction(core, host, 'a callback')
    return this
  }

  /**
   * Makes it current on its device for the rest of this async context. The current device stays as it is.
   * @throws ERR_CLOSED
   */
  use(): this {
    open(this)
    currentOn(this.device).set(this)
    return this
  }

  /**
   * Makes it current on its device until the result is disposed. In an async function prefer `run`: what such a
   * function enters before its first `await`, its caller sees as well until then.
   * @throws ERR_CLOSED
   */
  enter(): Disposable {
    open(this)
    return currentOn(this.device).enter(this)
  }

  /**
   * Makes it current on its device for the function and for all that it awaits. Returns what the function returns.
   * @throws ERR_INVALID_ARG_TYPE, ERR_CLOSED; what the function throws
   */
  run<R>(fn: () => R): R {
    open(this)
    checkFunction(fn, 'fn')
    return currentOn(this.device).run(this, fn)
  }

  /**
   * Describes it to other threads of this process: `Stream.from()` makes a stream of it there, and both may queue work.
   * It is kept until you close it; do that when the others have done with it.
   * @throws ERR_UNSUPPORTED for the per-thread default stream, which is another one in each thread; ERR_CLOSED;
   * CudaError 900 while it captures, unless `id` was asked before
   */
  share(): SharedStream {
    const core = open(this)
    const handle = cudaHandleOf(core.handle)
    core.handOut()
    if (handle !== 2) {
      return { ...announce(core, this, 'stream', core.device, [handle]), handle: BigInt(handle), id: core.id }
    }
    throw stateError('ERR_UNSUPPORTED', `${this} is another stream in each thread: share one that you made`)
  }

  /** Is it the same stream of the same device? Handles 0 and 1 name the same one. */
  equals(other: unknown): boolean {
    const { device, handle } = coreOf(this)
    const its = streamCoreOf(other)
    return its !== undefined && its.device === device && canonicalStream(its.handle) === canonicalStream(handle)
  }

  /**
   * A key to order streams by: the device's ordinal above, the handle in the low 64 bits, 1 counted as 0. Drivers are
   * not in it: the null streams of two simulations have the same.
   * @throws ERR_CLOSED
   */
  override valueOf(): bigint {
    const { ordinal, handle } = open(this)
    return (BigInt(ordinal) << 64n) | BigInt(cudaHandleOf(canonicalStream(handle)))
  }

  /**
   * Destroys the stream (`cuStreamDestroy`), or lets go of one that another library owns. Queued work still completes;
   * a capture that a destroyed stream began is given up. Does nothing to default streams. May be called twice.
   */
  close(): void {
    const core = coreOf(this)
    core.close()
    if (core.closed) this.#cachedEvent = undefined
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    coreOf(this)
    this.close()
  }

  /**
   * `finished()`, then `close()`, for `await using`. It is closed also where `finished()` rejects, and so does this.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (coreOf(this).closed) return
    try {
      await this.finished()
    } finally {
      this.close()
    }
  }

  /** The stream protocol: its version, and the handle. It keeps nothing alive: hold the stream as long as the handle. */
  [cudaStream](): readonly [version: 0, handle: bigint] {
    open(this)
    return [0, this.handle]
  }

  get [Symbol.toStringTag](): string {
    return 'Stream'
  }

  override toString(): string {
    return streamCoreOf(this)?.toString() ?? printed(this)
  }

  [inspect.custom](): string {
    return inspected(this)
  }

  /** The stream of another library that has the stream protocol. */
  #wrapped(target: unknown): Stream {
    if (isStreamLike(target)) return new Stream(StreamCore.adopt(handleOf(target), this.device))
    throw invalidType('target', 'an Event, a Stream or an object with a stream protocol (wrap a handle first)', target)
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
    super(StreamCore.wrap(source, options))
  }

  /** What is kept reachable while this lives: the `owner` given, else the protocol object; undefined once closed. */
  get owner(): object | undefined {
    return coreOf(checkThis(this, isExternalStream, 'an ExternalStream')).held[0]
  }

  override get [Symbol.toStringTag](): string {
    return 'ExternalStream'
  }
}

const isExternalStream = (value: unknown): value is ExternalStream => isStream(value) && value instanceof ExternalStream

const defaultStreams = new WeakMap<Device, { readonly legacy: Stream; readonly perThread: Stream }>()

function defaultStreamsOf(device: Device): { readonly legacy: Stream; readonly perThread: Stream } {
  let streams = defaultStreams.get(device)
  if (streams === undefined) {
    const { legacy, perThread } = defaultCoresOf(device)
    streams = { legacy: new Stream(legacy), perThread: new Stream(perThread) }
    defaultStreams.set(device, streams)
  }
  return streams
}

/** The null stream of a device: always the same object. */
export function defaultStreamOf(device: Device): Stream {
  return defaultStreamsOf(device).legacy
}

/** The stream that was shared, in the thread that shared it; the null stream, which every thread has, in any. */
function ownOfShared(shared: SharedStream): Stream | undefined {
  const { owner, device, cudaHandle } = receiveStream(shared)
  if (isStream(owner)) return owner
  return cudaHandle < 2 ? defaultStreamOf(device) : undefined
}

function coreOf(stream: unknown): StreamCore {
  const core = streamCoreOf(stream)
  if (core === undefined) throw invalidReceiver('a Stream', stream)
  return core
}

function open(stream: unknown): StreamCore {
  const core = coreOf(stream)
  if (core.closed) core.checkOpen()
  return core
}

type GivenRecordOptions = Given<RecordOptions, (typeof RECORD_OPTIONS)[number]>

function recordGiven(
  core: StreamCore,
  event: Event,
  settings: GivenRecordOptions | undefined,
  external: ExternalFlag,
): void {
  const own = eventCore(event)
  if (own.device !== core.device) throw mismatch(own, core)
  if (settings !== undefined) own.checkAgainst(settings)
  core.makeRoom(own.entries)
  core.recordIn(own, external)
}

function queueHostFunction(core: StreamCore, host: HostFunction, what: string): void {
  core.makeRoom(1)
  core.driver.streamLaunchHostFunction(core.handle, core.context, host)
  core.last = what
}

/** Which work a wait is for, as an error says it. */
function whom(core: StreamCore | undefined): string {
  if (core === undefined) return 'a stream'
  return core.last === undefined ? `${core}` : `${core}, where ${core.last} was queued last`
}

/** A refusal is for the call to tell that the program has made. */
function isSurelyDone({ driver, handle }: StreamCore): boolean {
  try {
    return driver.streamQuery(handle)
  } catch {
    return false
  }
}

function externalFlag(options: Given<WaitEventOptions, 'external'> | undefined): ExternalFlag {
  if (options === undefined) return ExternalFlag.NONE
  return checkBoolean(options.external, 'options.external', false) ? ExternalFlag.EXTERNAL : ExternalFlag.NONE
}

function mismatch(given: EventCore | StreamCore, stream: StreamCore): Error {
  const where = elsewhere(stream.device, given.device)
  return stateError('ERR_DEVICE_MISMATCH', `${given} cannot be used here: ${stream} is on ${where}`)
}
