/** Streams: queues of GPU work, with all of their methods. */
import { checkBoolean, checkFunction, checkThis, readOptions } from '../foundation/base/arguments.js'
import type { Bytes, OwnBytes } from '../foundation/base/bytes.js'
import { invalidType, refuseReceiver, stateError } from '../foundation/base/errors.js'
import { destroyWhenUnreachable } from '../foundation/base/finalization.js'
import { implementation } from '../foundation/base/library-object.js'
import { memoize } from '../foundation/base/memoize.js'
import { calledFromHere } from '../foundation/base/stack.js'
import type { WaitOptions } from '../foundation/driver/finished.js'
import { canonicalStream, cudaHandleOf } from '../foundation/driver/handle-types.js'
import { followingResult } from '../foundation/driver/promise-waits.js'
import type { Context } from './device.js'
import { contextAt, Device, resolveDevice } from './device.js'
import { Event, isEvent } from './event.js'
import {
  beginCapture,
  type CaptureModeName,
  type CaptureOptions,
  capture,
  endCapture,
  type Synchronous,
} from './graphs/capture.js'
import { addIf, addSwitch, addWhile, createCondition } from './graphs/conditionals.js'
import type { Graph, GraphExec } from './graphs/graph.js'
import type { Condition } from './kernels/condition.js'
import type { DefinedKernel } from './kernels/defined-kernel.js'
import { type ExternalWork, queueExternal } from './kernels/external-work.js'
import type { Kernel, LaunchConfig } from './kernels/kernel.js'
import type { ArgumentsOf } from './kernels/kernel-signature.js'
import { launch } from './kernels/launchable.js'
import type { TritonKernel, TritonLaunchConfig } from './kernels/triton-kernel.js'
import type { ViewConstructor } from './memory/buffer.js'
import type { DeviceBuffer } from './memory/device-buffer.js'
import type { OpaqueArray } from './memory/opaque-array.js'
import type { PinnedBuffer } from './memory/pinned-buffer.js'
import {
  type WaitValueOptions,
  type WriteValueOptions,
  waitValue,
  writeValue,
} from './memory/stream-memory-operations.js'
import type { CopyOptions, DownloaderOptions, DownloadOptions, FillOptions } from './memory/transfers.js'
import {
  copy,
  copyAll,
  download,
  downloader,
  downloadTarget,
  fill,
  refuseOptions,
  upload,
  uploader,
} from './memory/transfers.js'
import { checkStreamName } from './stream-names.js'
import { openAwaited, record, waitForOther } from './stream-ordering.js'
import { isDone, waitUntilDone, whenDone } from './streams/completion.js'
import { EventImpl, PLAIN } from './streams/event-impl.js'
import { greenContextImplOf } from './streams/green-context.js'
import { hostFunction } from './streams/host-function.js'
import { isEventOfAnotherCopy } from './streams/other-copies.js'
import { isShared, register, type SharedStream } from './streams/shared.js'
import {
  applyWrapOptions,
  currentOn,
  defaultStreamImpls,
  NAMED_STREAM_OPTIONS,
  receiveStream,
  StreamBase,
  StreamImpl,
  streamImplOf,
} from './streams/stream-impl.js'
import type {
  CudaStreamLike,
  ExternalStreamOptions,
  PythonStreamLike,
  RecordOptions,
  StreamOptions,
  StreamSource,
  WaitEventOptions,
  WaitPromiseOptions,
} from './streams/stream-options.js'
import { cudaStream, isStreamLike } from './streams/stream-options.js'

/** How a stream waits for another. */
export interface WaitStreamOptions extends WaitEventOptions {
  /** The event to record on the other stream, and of its device. Default: one of the library's own. */
  readonly event?: Event | undefined
}

export const isStream = (value: unknown): value is Stream => streamImplOf(value) !== undefined

/** The public object of a stream of this library. */
const wrapped = (impl: StreamImpl): Stream => new Stream(impl)

const NEW_STREAM_OPTIONS = ['device', ...NAMED_STREAM_OPTIONS] as const
const WAIT_OPTIONS = ['event', 'external'] as const

/** What `stream.launch()` takes. */
export type LaunchTarget = Kernel | DefinedKernel | TritonKernel | GraphExec | Graph

/** What `stream.launch()` takes behind its target: for a kernel the configuration and the arguments, for graphs nothing. */
export type LaunchArguments<T extends LaunchTarget> = T extends Kernel<infer S> | DefinedKernel<infer S>
  ? [config: LaunchConfig, ...args: ArgumentsOf<S>]
  : T extends TritonKernel<infer S, infer M>
    ? [config: TritonLaunchConfig<M>, ...args: ArgumentsOf<S>]
    : []

/**
 * A queue of GPU work. The work of one stream runs in the order in which it was queued; events order work between
 * streams.
 *
 * Not repeated at each member: an argument of the wrong type is ERR_INVALID_ARG_TYPE; a closed stream, this one or an
 * argument, is ERR_CLOSED, and only `handle`, `device`, `closed`, `equals()` and `close()` still work; once the GPU
 * has faulted, a call that reaches the driver throws its CudaError. Queuing work blocks if the hardware queue is full,
 * after about a thousand operations behind a blocked one: host functions run meanwhile, and a call that would never end is
 * ERR_DEADLOCK.
 * @example
 * ```ts
 * using stream = new Stream()
 * await stream.upload(buffer, float32Array)
 * stream.launch(kernel, { grid: 64, block: 256 })
 * const bytes = await stream.download(buffer)
 * ```
 */
export class Stream extends StreamBase implements CudaStreamLike, AsyncDisposable {
  /** The device that the stream is on. */
  readonly device: Device
  /**
   * The number of this object: no other object of this thread has it. Objects that wrap the same stream have the same `id`.
   */
  readonly serial: number

  /**
   * Makes a stream (`cuStreamCreateWithPriority`, or `cuGreenCtxStreamCreate`).
   * @param options `device`: a Device or an ordinal (default: the current device). `priority`: lower goes first,
   * clamped to the device's `priorityRange` (default 0). `nonBlocking`: free of the null stream's rules (default true).
   * `context`: a part of a device, from `device.split()`, whose multiprocessors the stream's kernels run on. `name`: what
   * errors, reports and timelines call it.
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for a device that does not exist; if `context` is given,
   * ERR_CLOSED, ERR_DEVICE_MISMATCH if `device` is another, ERR_INVALID_ARG_VALUE for `nonBlocking: false`; ERR_INVALID_ARG_VALUE for an empty
   * name
   * @example
   * ```ts
   * await using stream = new Stream({ name: 'uploads', priority: -1 }) // waits for its work, then closes it
   * stream.fill(buffer, 0)
   * ```
   */
  constructor(options?: StreamOptions)
  /** @internal */
  constructor(impl: StreamImpl)
  constructor(options?: StreamOptions | StreamImpl) {
    const impl = options instanceof StreamImpl ? options : newStream(options)
    super(impl)
    this.device = impl.device
    this.serial = impl.serial
    if (impl.isOwned) destroyWhenUnreachable(this, impl)
  }

  /**
   * A stream from a handle or object of another library, or from a token that another thread shared by `share()`. A
   * `Stream` is returned as it is, and so is the stream that was shared in the thread that shared it.
   * @param source A Stream, a CUstream as a bigint or number, an object with `[cudaStream]()` or `__cuda_stream__()`,
   * or the object that `share()` returned.
   * @param options `device`: the device that the stream must be on. `owner`: an object that is kept reachable while the
   * wrapper lives. `name`: what errors, reports and timelines call the stream, also one that is returned as it is.
   * @throws {Error} as `new ExternalStream(source, options)` does; ERR_CLOSED for a closed `Stream`
   * @example
   * ```ts
   * const torchStream = Stream.from(handle)
   * torchStream.wait(stream)
   * ```
   */
  static from(source: Stream | StreamSource | SharedStream, options?: ExternalStreamOptions): Stream {
    const known = isShared(source) ? ownOfShared(source) : source
    if (!isStream(known)) return new ExternalStream(source, options)
    applyWrapOptions(known, options)
    return known
  }

  /**
   * The stream that this async context made current on a device, otherwise the device's null stream. A stream remains
   * current when it is closed.
   * @param device A Device or an ordinal. Default: the current device.
   * @throws {Error} ERR_OUT_OF_RANGE for a device that does not exist
   */
  static current(device?: Device | number): Stream {
    const where = resolveDevice(device, 'device')
    const current = currentOn(where).get()
    return isStream(current) ? current : defaultStreamOf(where)
  }

  /**
   * Orders streams by device, then handle, for sorting. 0 for two of the same `valueOf()`; such streams of two drivers
   * are not `equals()`.
   * @param a One stream.
   * @param b Another.
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_CLOSED
   */
  static compare(a: Stream, b: Stream): -1 | 0 | 1 {
    if (!isStream(a)) throw invalidType('a', 'a Stream', a)
    if (!isStream(b)) throw invalidType('b', 'a Stream', b)
    const [left, right] = [a.valueOf(), b.valueOf()]
    return left < right ? -1 : left > right ? 1 : 0
  }

  /**
   * The current device's null stream (handle 0): it waits for all blocking streams of the device, and they for it.
   * Always the same object; `close()` does nothing to it.
   */
  static get null(): Stream {
    return defaultStreamOf(Device.current())
  }

  /**
   * The current device's per-thread default stream (handle 2): a blocking stream of the JavaScript thread's own. Always
   * the same object; `close()` does nothing to it.
   */
  static get perThread(): Stream {
    return defaultStreamsOf(Device.current()).perThread
  }

  /**
   * The CUstream, for calls of other libraries: 0 is the null stream, 2 the per-thread one. It keeps nothing alive:
   * hold the stream as long as they use it. It can still be read after `close()`, when it is no stream any more. On the
   * simulator it is a number for this library alone: another one wraps it without an error, and cannot use it.
   */
  get handle(): bigint {
    const impl = implOf(this)
    impl.escape()
    return BigInt(cudaHandleOf(impl.handle))
  }

  /**
   * The driver's own number for the stream (`cuStreamGetId`, queried once). Never reused, unlike the handle.
   * @throws {CudaError} 900 while the stream captures, unless it was queried before; the capture is not invalidated
   */
  get id(): bigint {
    return open(this).id
  }

  /**
   * What errors, reports of the sanitizer and timelines call the stream: the name from its options or `nameStream()`, or else
   * 'stream 3', by `id`; default streams are 'null stream' and 'per-thread stream', with ' of device 1' behind it but for the
   * first device's. Characters that are special to terminals or XML are shown as escapes, such as `\u001b`.
   * @throws {CudaError} as `id`, of a stream that was given no name
   */
  get name(): string {
    return open(this).name
  }

  /**
   * The context of the stream: its device's primary one, the GreenContext that it was made in, or the one in which another
   * library made it. Its `multiprocessors` are those that kernels of the stream may run on.
   */
  get context(): Context {
    const { green, context } = open(this)
    return green ?? contextAt(this.device, context)
  }

  /**
   * The priority of the stream (`cuStreamGetPriority`): lower goes first. May be set, for work that is queued then (`cuStreamSetAttribute`); the driver
   * takes it into the device's range, as it does with that of a new stream. On the simulator another thread that has the stream by `share()`
   * knows the one that the stream had then.
   * @throws {Error} ERR_CLOSED; if it is set, ERR_INVALID_ARG_TYPE for anything but an integer, and ERR_UNSUPPORTED for a default stream
   * @throws {CudaError} 901 if it is set while the stream is in a capture that is invalidated
   * @example
   * ```ts
   * stream.priority = -1 // from now on before the work of others
   * ```
   */
  get priority(): number {
    return open(this).priority
  }

  set priority(priority: number) {
    open(this).priority = priority
  }

  /**
   * Gives this stream the attributes of another one: its priority, memory domain and policies (`cuStreamCopyAttributes`). Whether it is
   * `nonBlocking`, and its green context, remain what they are.
   * @param from A stream of the same device.
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_CLOSED; ERR_DEVICE_MISMATCH for a stream of another device; ERR_INVALID_ARG_VALUE for one of another
   * context, where one of the two is a green one; ERR_UNSUPPORTED if one is a default stream
   * @throws {CudaError} 901 if one of the two is in a capture that is invalidated
   */
  copyAttributes(from: Stream): this {
    const impl = open(this)
    if (!isStream(from)) throw invalidType('from', 'a Stream', from)
    impl.copyAttributes(open(from))
    return this
  }

  /**
   * Is the stream free of the null stream's rules (`cuStreamGetFlags`, queried once)?
   * @throws {CudaError} 900 while the stream captures, unless it was queried before; the capture is not invalidated
   */
  get nonBlocking(): boolean {
    return open(this).nonBlocking
  }

  /**
   * Is the stream's work being captured into a graph (`cuStreamIsCapturing`)? Also true if the stream joined the capture of
   * another one, and if the capture is invalidated and has not been ended.
   * @throws {CudaError} 906 for the null stream while a blocking stream of the device captures
   */
  get isCapturing(): boolean {
    return open(this).isCapturing
  }

  /**
   * The state of the capture that the stream is in (`cuStreamGetCaptureInfo`): 'none' if it is in none, 'active', or 'invalidated' if a call
   * that no capture allows was made, so that `endCapture()` of the stream that began it throws.
   * @throws {CudaError} 906 for the null stream while a blocking stream of the device captures
   */
  get captureStatus(): 'none' | 'active' | 'invalidated' {
    return open(this).captureStatus
  }

  /** An event without timing that the stream keeps for you, always the same; closing it does nothing. */
  get cachedEvent(): Event {
    const impl = open(this)
    if (impl.kept instanceof Event) return impl.kept
    const { device, context } = impl
    const event = new Event(new EventImpl(device, context, PLAIN, 'kept'))
    impl.kept = event
    return event
  }

  /**
   * Was the stream closed, or the Stream of this thread that it wraps? The driver is not called: a stream that its foreign
   * owner destroyed is not closed.
   */
  override get closed(): boolean {
    return implOf(this).isClosed
  }

  /**
   * Records this point of the stream's work in an event (`cuEventRecord`).
   * @param event The event to record, on the stream's device. Default: a new one without timing.
   * @param options `external`: while capturing, an event node that work outside the graph can wait for (default false).
   * `timing`, `blockingSync`, `interprocess`: how a new event is made; they must not contradict an event that is given.
   * @returns the event
   * @throws {Error} ERR_DEVICE_MISMATCH for an event of another device; ERR_INVALID_ARG_VALUE for options that
   * contradict the event, or each other
   * @throws {CudaError} 906 on the null stream while a blocking stream of the device captures, 901 once the capture
   * of the stream is invalidated
   * @example
   * ```ts
   * const copied = stream.copy(to, from).record()
   * other.wait(copied) // other's later work comes after the copy
   * ```
   */
  record(event?: Event, options?: RecordOptions): Event
  /**
   * Records a new event, made as the options say.
   * @param options `timing`, `blockingSync`, `interprocess` and `external`, all false by default
   * @example
   * ```ts
   * const start = stream.record({ timing: true })
   * ```
   */
  record(options: RecordOptions): Event
  record(given?: Event | RecordOptions, options?: RecordOptions): Event {
    const impl = implOf(this)
    if (options === undefined && isEvent(given) && impl.recordShort(given[implementation])) return given
    return record(impl.checkOpen(), given, options)
  }

  /**
   * Makes later work of this stream wait for an event's latest record (`cuStreamWaitEvent`). A later record of the event
   * changes nothing for this wait. Never blocks. An event that was never recorded is not waited for.
   * @param event An event of any device of the same driver.
   * @param options `external`: while capturing, a wait for an event recorded outside the graph (default false)
   * @throws {Error} ERR_DEVICE_MISMATCH for an event of another driver
   * @throws {CudaError} in captures: 905 for an event recorded outside, 902 for one of another capture, 906 if the
   * null stream is to wait for one, and these invalidate the capture; 1 for one of a capture that is over, 901 once the
   * capture is invalidated
   */
  wait(event: Event, options?: WaitEventOptions): this
  /**
   * Makes later work of this stream wait for all work that is queued on another stream now: an event is recorded there,
   * and waited for here. Never blocks.
   * @param stream A Stream, or a stream of another library, or of another copy of this one, by its protocol.
   * @param options `event`: the event to record on the other stream (default: one of the library's own). `external`: as
   * for an event (default false).
   * @throws {Error} ERR_DEVICE_MISMATCH for a stream of another driver, and for `options.event` of another device than
   * that stream; as `new ExternalStream(stream)` for an object with a stream protocol
   * @throws {CudaError} as `record()` and `wait(event)`
   * @example
   * ```ts
   * ours.wait(theirs) // for all that is queued on theirs now
   * ours.launch(axpy, config, 2, x, y, 1024)
   * ```
   */
  wait(stream: Stream | CudaStreamLike | PythonStreamLike, options?: WaitStreamOptions): this
  /**
   * Makes later work of this stream wait for all work that is queued on a device now, on streams of other libraries too
   * (`cuCtxRecordEvent`, `cuStreamWaitEvent`). Never blocks. Work that is queued there later is not waited for.
   * @param device A Device of the same driver, this stream's own or another.
   * @throws {Error} ERR_DEVICE_MISMATCH for a device of another driver
   * @throws {CudaError} 900 while a stream of the device captures, or another thread, which does not invalidate the
   * capture; 905 if this stream captures on another device or in a green context, which does
   * @example
   * ```ts
   * stream.wait(device).copy(pinned, buffer) // after whatever was queued
   * ```
   */
  wait(device: Device): this
  /**
   * Makes later work of this stream wait for a promise: the stream is blocked until it settles (`cuStreamBatchMemOp`).
   * Queued work cannot be taken back, so if the promise is rejected the stream resumes too, and the reason is reported
   * by those `finished()`, `synchronize()` and `download()` that come after it: of this stream, of events recorded
   * behind it, of streams that waited for either, and of the device. Pending ones report it, or else the next one does. If
   * none does before the stream is closed or the process ends, it is an uncaught exception. To block for work behind it is
   * ERR_DEADLOCK, since no promise settles meanwhile. The wait alone does not keep the process alive.
   * @param promise Any promise, or an object with `then()`. The value that it resolves with is not used.
   * @param options `signal`: an AbortSignal that gives up the wait, as if the promise were rejected with its reason
   * @throws {Error} ERR_UNSUPPORTED while the stream captures, which does not invalidate the capture; `signal.reason`
   * if it is aborted already; nothing is queued then
   * @throws {CudaError} 906 on the null stream while a blocking stream of the device captures
   * @example
   * ```ts
   * const weights = fetch('https://example.com/weights').then((response) => response.arrayBuffer())
   * stream.wait(weights.then((bytes) => pinned.bytes.set(new Uint8Array(bytes))))
   * stream.copy(buffer, pinned) // once the bytes are there
   * await stream.finished() // rejects if the fetch did
   * ```
   */
  wait(promise: PromiseLike<unknown>, options?: WaitPromiseOptions): this
  wait(
    target: Event | Stream | CudaStreamLike | PythonStreamLike | Device | PromiseLike<unknown>,
    options?: WaitStreamOptions & WaitPromiseOptions,
  ): this {
    const impl = implOf(this)
    if (options === undefined && isEvent(target) && impl.waitShort(target[implementation])) return this
    const awaited = streamImplOf(target)
    if (awaited !== undefined && options === undefined) {
      if (!impl.waitForStreamShort(awaited)) impl.checkOpen().waitForStream(openAwaited(impl, awaited))
      return this
    }
    impl.checkOpen()
    if (waitForOther(impl, target, options, wait)) return this
    const { event, external } = readOptions(options, WAIT_OPTIONS)
    if (event !== undefined && !isEvent(event) && !isEventOfAnotherCopy(event))
      throw invalidType('options.event', 'an Event', event)
    const isExternal = checkBoolean(external, 'options.external', false)
    const other = isStream(target) ? target : this.#wrapped(target)
    const from = openAwaited(impl, implOf(other))
    if (event === undefined && !(isExternal && (impl.isCapturing || from.isCapturing))) {
      impl.waitForStream(from)
      return this
    }
    const between = event ?? other.cachedEvent
    other.record(between, { external })
    return this.wait(between, { external })
  }

  /**
   * Is all work of the stream done (`cuStreamQuery`)? If it was before, and nothing was queued since, the driver is not
   * called, unless other code has the stream's handle, another thread uses the library, or a capture is under way.
   * @throws {CudaError} if the GPU has faulted, unless the driver is not called; 900 while the stream captures, or another
   * stream does in a mode that forbids the query, which invalidates that capture
   */
  query(): boolean {
    return isDone(open(this))
  }

  /**
   * Blocks until all work of the stream is done (`cuStreamSynchronize`). Host functions that become ready meanwhile run
   * inside this call. The driver is not called if `query()` would not call it. `await stream.finished()` waits without
   * blocking.
   * @throws {CudaError} if the GPU has faulted; 900 while a stream captures, as `query()`
   * @throws {Error} ERR_DEADLOCK inside a host function that the work comes after, or inside any host function after
   * ten seconds without progress (CUDA_STREAMS_DEADLOCK_TIMEOUT, in milliseconds), and on the simulator if only this
   * thread could open the latch that the stream waits for
   */
  synchronize(): void {
    waitUntilDone(open(this))
  }

  /**
   * Resolves when all work that is queued now is done, without blocking. A pending promise keeps the process alive. The
   * call itself never throws.
   * @param options `signal`: an AbortSignal that gives up the wait; the GPU's work goes on
   * @throws {CudaError} (as a rejection) if the GPU faults; 900 while the stream captures, which does not invalidate
   * the capture
   * @throws {Error} (as a rejection) `signal.reason` if aborted; ERR_CLOSED, ERR_INVALID_ARG_TYPE
   * @example
   * ```ts
   * stream.copy(pinned, buffer)
   * await stream.finished({ signal: AbortSignal.timeout(5000) })
   * console.log(pinned.bytes)
   * ```
   */
  finished(options?: WaitOptions): Promise<void> {
    return whenDone(this, open, options)
  }

  /**
   * Queues a copy between two buffers, on devices or pinned, in any direction (`cuMemcpyAsync`; between GPUs that
   * cannot reach each other's memory `cuMemcpyPeerAsync`). A CUDA array is copied by a stream of its own device (`cuMemcpy3DAsync`). Never blocks, except for 20 ms when a stream of one GPU first
   * uses memory of another.
   * @param destination The buffer to write.
   * @param source The buffer to read, of the same length, and of other memory.
   * @throws {Error} ERR_OUT_OF_RANGE if the lengths differ, ERR_INVALID_ARG_VALUE if the two overlap, ERR_INVALID_ARG_TYPE,
   * ERR_CLOSED, ERR_DEVICE_MISMATCH for a buffer of another driver; ERR_UNSUPPORTED for pinned memory and that of a GPU which the stream's cannot reach
   */
  copy(destination: OpaqueArray | DeviceBuffer | PinnedBuffer, source: OpaqueArray | DeviceBuffer | PinnedBuffer): this
  /**
   * Queues a copy of rows with gaps between them, such as part of an image or of a volume (`cuMemcpy3DAsync`). Between two
   * pinned buffers a host function copies. Never blocks.
   * @param destination The buffer to write, which may be longer. Take a slice to say where the rows begin.
   * @param source The buffer to read, which may be longer too.
   * @param options `shape`: [rows, bytes of each] or [planes, rows, bytes], of a CUDA array from its first element on. `destinationStrides`, `sourceStrides`: bytes from
   * one row to the next, [row] or [plane, row]; a plane's is a whole number of rows' (default: without gaps)
   * @throws {Error} ERR_OUT_OF_RANGE if rows lie outside a buffer, or overlap with those of the same buffer;
   * ERR_INVALID_ARG_VALUE for another number of strides, and if rows of both overlap; otherwise as a copy of whole buffers, and ERR_UNSUPPORTED between GPUs that cannot reach each other's memory
   * @example
   * ```ts
   * // 16 rows of 64 bytes, out of an image with 256 bytes in a row
   * stream.copy(to, from.subarray(64, 16 * 256 - 128), { shape: [16, 64], sourceStrides: [256] })
   * ```
   */
  copy(
    destination: OpaqueArray | DeviceBuffer | PinnedBuffer,
    source: OpaqueArray | DeviceBuffer | PinnedBuffer,
    options: CopyOptions,
  ): this
  /**
   * Queues many copies, in any order among themselves (`cuMemcpyBatchAsync` if the driver has it and the stream is no null
   * stream and does not capture; otherwise one by one). More than 256 are queued in parts.
   * @param copies Pairs of a destination and a source of one length. None may write what another reads or writes.
   * @throws {Error} as a single copy; ERR_INVALID_ARG_VALUE if two touch the same memory and one writes it
   * @example
   * ```ts
   * stream.copy([
   *   [to.subarray(0, 16), from.subarray(32, 48)],
   *   [to.subarray(16, 32), from.subarray(0, 16)],
   * ])
   * ```
   */
  copy(copies: readonly (readonly [DeviceBuffer | PinnedBuffer, DeviceBuffer | PinnedBuffer])[]): this
  copy(destination: unknown, source?: unknown, options?: CopyOptions): this {
    const impl = open(this)
    if (Array.isArray(destination)) copyAll(impl, destination, source, options)
    else copy(impl, destination, source, options)
    return this
  }

  /**
   * Queues writing a value over a whole buffer (`cuMemsetD8Async`, `cuMemsetD16Async`, `cuMemsetD32Async`), or over rows with
   * gaps between them, such as part of an image (`cuMemsetD2D8Async`, `cuMemsetD2D16Async`, `cuMemsetD2D32Async`).
   * @param buffer The buffer to write. With `shape` it may be longer: take a slice to say where the rows begin.
   * @param value An integer of `width` bytes, signed or not; with `type` a float.
   * @param options `type`: the type of the value, 'f32', 'f16', 'bf16', 'i32', 'u32', 'i16', 'u16', 'i8' or 'u8'; in place of it `width`: the bytes of an
   * integer of either sign, 1, 2 or 4 (default 1). `shape`: [rows, bytes of each] (default: the whole buffer). `strides`: [bytes from one row
   * to the next] (default: no gaps)
   * @throws {Error} ERR_OUT_OF_RANGE for a value that has more bytes, or is beyond its type, and if rows lie outside the
   * buffer, or overlap; ERR_INVALID_ARG_VALUE for another width or type, for both, for strides without a shape, and if values
   * of that width do not fit the buffer or the rows; ERR_INVALID_ARG_TYPE,
   * ERR_CLOSED, ERR_DEVICE_MISMATCH; ERR_UNSUPPORTED for types of 64 bits, which CUDA has no fill of, and for memory of a GPU that
   * the stream's cannot reach
   * @example
   * ```ts
   * stream.fill(buffer, 0.5, { type: 'f32' })
   * // 16 rows of 64 bytes, in an image with 256 bytes in a row
   * stream.fill(buffer.subarray(64, 16 * 256 - 128), 0, { shape: [16, 64], strides: [256] })
   * ```
   */
  fill(buffer: DeviceBuffer | PinnedBuffer, value: number, options?: FillOptions): this {
    fill(open(this), buffer, value, options)
    return this
  }

  /**
   * Makes later work of this stream wait until a word in memory has a value (`cuStreamWaitValue32`, or `64` for a
   * bigint). Another stream writes it, also of another GPU or process (`writeValue`), or JavaScript, through a view of
   * pinned memory. Work behind the wait sees what the writer wrote before. It cannot be known whether the word will ever be
   * written: a wait of the host behind it causes a warning after five seconds; on the simulator a blocking one is
   * ERR_DEADLOCK if nothing is left to run. Can be captured.
   * @param buffer Pinned memory, interprocess memory or memory of another library; not memory of `device.alloc()`
   * without `interprocess`, which CUDA takes from a pool.
   * @param value A number of 32 bits or a bigint of 64, signed or not.
   * @param options `compare`: 'geq' (default), 'eq', 'and' or 'nor'. `byteOffset`: where in the buffer (default 0)
   * @throws {Error} ERR_UNSUPPORTED for memory of a pool, and if the device lacks the ability; ERR_OUT_OF_RANGE for a
   * value that has more bits, or lies beyond the buffer; ERR_INVALID_ARG_VALUE for one that is not aligned, and for an
   * unknown comparison; ERR_INVALID_ARG_TYPE, ERR_CLOSED, ERR_DEVICE_MISMATCH
   * @throws {CudaError} 1 for a pool's memory that another library owns
   * @example
   * ```ts
   * const flags = device.allocPinned(64)
   * other.waitValue(flags, 1).copy(to, from) // once the word is at least 1
   * stream.writeValue(flags, 1) // after all work that is queued on stream now
   * ```
   */
  waitValue(buffer: DeviceBuffer | PinnedBuffer, value: number | bigint, options?: WaitValueOptions): this {
    waitValue(open(this), buffer, value, options)
    return this
  }

  /**
   * Writes a word to memory once all earlier work of the stream is done and its writes are visible
   * (`cuStreamWriteValue32`, or `64` for a bigint). Can be captured.
   * @param buffer As for `waitValue()`.
   * @param value A number of 32 bits or a bigint of 64, signed or not.
   * @param options `byteOffset`: where in the buffer, a multiple of the value's bytes (default 0)
   * @throws {Error} as `waitValue()`
   */
  writeValue(buffer: DeviceBuffer | PinnedBuffer, value: number | bigint, options?: WriteValueOptions): this {
    writeValue(open(this), buffer, value, options)
    return this
  }

  /**
   * Queues a copy of an ordinary array to a buffer or a CUDA array (`cuMemcpyAsync`, through pinned memory). All of it is queued when
   * this returns, and the array may be reused at once. It goes through 16 MiB of pinned memory; bytes for which that has no
   * room yet are copied elsewhere first, and the stream is blocked until the event loop has moved them on.
   * @param buffer The buffer to write.
   * @param source A typed array, a DataView or an ArrayBuffer, of the buffer's length.
   * @returns a promise that resolves when no bytes are left elsewhere: await it to keep them few. It need not be awaited.
   * @throws {Error} (at once) ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for an array that is detached,
   * ERR_OUT_OF_RANGE if the lengths differ, ERR_CLOSED, ERR_DEVICE_MISMATCH, ERR_UNSUPPORTED while the stream
   * captures
   * @throws {CudaError} (as a rejection) if the GPU is known to have faulted before the promise resolves; a later fault
   * is reported by the next wait for the stream. A long upload into a stream whose queue is full is queued in parts: it
   * rejects if a host function that runs between two of them closes the buffer or detaches the array
   * @example
   * ```ts
   * const uploaded = stream.upload(buffer, float32Array)
   * float32Array.fill(0) // already safe: the bytes are queued
   * await uploaded
   * ```
   */
  upload(buffer: OpaqueArray | DeviceBuffer | PinnedBuffer, source: Bytes): Promise<void>
  upload(buffer: OpaqueArray | DeviceBuffer | PinnedBuffer, source: Bytes, options?: unknown): Promise<void> {
    refuseOptions('upload', options)
    return upload(open(this), buffer, source)
  }

  /**
   * Queues a copy of a buffer or a CUDA array to a new Uint8Array (`cuMemcpyAsync`, through pinned memory). Work that is queued on the
   * stream afterwards may overwrite the buffer. The call itself never throws.
   * @param buffer The buffer to read.
   * @param options `signal`: an AbortSignal that gives up the bytes; the copy goes on
   * @returns a promise of the bytes
   * @throws {Error} (as a rejection) as `upload` throws; ERR_UNSUPPORTED for more bytes than arrays can have in this Node; `signal.reason` if aborted,
   * and nothing is queued if it was before
   * @throws {CudaError} (as a rejection) if the GPU faults
   * @example
   * ```ts
   * const bytes = await stream.download(buffer, { signal: AbortSignal.timeout(1000) })
   * ```
   */
  download(buffer: OpaqueArray | DeviceBuffer | PinnedBuffer, options?: DownloadOptions): Promise<OwnBytes>
  /**
   * Queues a copy of a buffer to a new typed array, as `download(buffer)` does to a Uint8Array.
   * @param buffer The buffer to read.
   * @param type A constructor of typed arrays, such as Float32Array.
   * @param options `signal`: as for `download(buffer)`
   * @returns a promise of the array
   * @throws {Error} (as a rejection) as `download(buffer)`; ERR_INVALID_ARG_VALUE if the buffer is no whole number of
   * elements, ERR_INVALID_ARG_TYPE for a value that is no constructor of typed arrays
   * @example
   * ```ts
   * const floats = await stream.download(buffer, Float32Array)
   * ```
   */
  download<V extends ArrayBufferView>(
    buffer: OpaqueArray | DeviceBuffer | PinnedBuffer,
    type: ViewConstructor<V>,
    options?: DownloadOptions,
  ): Promise<V>
  /**
   * Queues a copy of a buffer to an existing array, which is written piece by piece until the promise is settled, whatever else
   * was waited for. If two downloads have one array, it has the bytes that were written last.
   * @param buffer The buffer to read.
   * @param into A typed array, a DataView or an ArrayBuffer, shared or not, of the buffer's length.
   * @param options `signal`: as for `download(buffer)`; once it is aborted, the array is not written any more
   * @returns a promise of that array
   * @throws {Error} (as a rejection) as `download(buffer)`; ERR_OUT_OF_RANGE if the lengths differ, ERR_INVALID_ARG_VALUE
   * for an array that is detached or shortened, also meanwhile
   * @example
   * ```ts
   * const image = new Uint8ClampedArray(buffer.byteLength)
   * await stream.download(buffer, image)
   * ```
   */
  download<A extends Bytes>(
    buffer: OpaqueArray | DeviceBuffer | PinnedBuffer,
    into: A,
    options?: DownloadOptions,
  ): Promise<A>
  async download(buffer: OpaqueArray | DeviceBuffer | PinnedBuffer, to?: unknown, options?: unknown): Promise<unknown> {
    const impl = open(this)
    const target = downloadTarget(to, options)
    const { promises } = impl
    if (promises.length === 0) return download(impl, buffer, target)
    return followingResult(promises, () => download(impl, buffer, target))
  }

  /**
   * A web stream whose chunks are uploaded to the buffer one after the other, by `upload`: a file can be piped to a
   * GPU. Chunks beyond the end of the buffer fail with ERR_OUT_OF_RANGE; fewer bytes leave the rest unchanged. A chunk
   * that `upload` refuses fails with its error.
   * @param buffer The buffer to write.
   * @throws {Error} (at once) ERR_INVALID_ARG_TYPE, ERR_CLOSED, ERR_DEVICE_MISMATCH
   * @example
   * ```ts
   * await Readable.toWeb(file).pipeTo(stream.uploader(buffer))
   * ```
   */
  uploader(buffer: DeviceBuffer | PinnedBuffer): WritableStream<Bytes> {
    const called = calledFromHere()
    return uploader(open(this), buffer, (part, bytes) => called(() => this.upload(part, bytes)))
  }

  /**
   * A web stream of the buffer's bytes. Each chunk is downloaded when it is read, and none ahead: it has the contents
   * that the buffer has then, and a web stream that is not read keeps nothing alive. A read fails if `download` rejects.
   * @param buffer The buffer to read.
   * @param options `chunkBytes`: the bytes of each chunk but the last, at least 1 (default 4 MiB)
   * @throws {Error} (at once) ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for `chunkBytes`, ERR_CLOSED, ERR_DEVICE_MISMATCH
   */
  downloader(buffer: DeviceBuffer | PinnedBuffer, options?: DownloaderOptions): ReadableStream<OwnBytes> {
    const { chunkBytes } = readOptions(options, ['chunkBytes'])
    const called = calledFromHere()
    return downloader(open(this), buffer, chunkBytes, (part) => called(() => this.download(part)))
  }

  /**
   * Queues a kernel (`cuLaunchKernelEx`), an instance of a graph (`cuGraphLaunch`, as `exec.launch(stream)`), or puts a graph into the
   * capture that this stream is in, as one node (`cuGraphAddChildGraphNode`): a copy of it, which the new graph retains.
   *
   * A kernel's arguments are checked against its signature; nothing is queued if they do not fit. The first launch of a DefinedKernel on a
   * device compiles and loads it, and blocks meanwhile, unless it was prepared; where it has JavaScript, the simulator runs that, which
   * gets the memory behind an address to its end.
   * @param target A kernel of a module on the stream's device; one of `defineKernel()`; an instance of a graph; a graph of the stream's
   * device.
   * @param rest For a kernel its configuration, then one argument for each parameter: numbers, bigints, booleans, arrays for vectors,
   * objects for structs, buffers, or addresses, which do not count as a use of a buffer. Buffers may be on another GPU that this one can reach, and may be closed as soon as this
   * returns. The configuration has `threads`: all threads, of which the grid is made by rounding up; or `grid`: blocks. `block`: threads
   * of each block (default 256). All are numbers or [x, y, z]. `sharedMemory`: bytes for each block (default 0). `cooperative`, `cluster`
   * and others: see LaunchConfig. For graphs nothing.
   * @throws {Error} ERR_INVALID_ARG_VALUE for another number of arguments, any for a graph, memory that begins in the middle of an
   * element, and a configuration with both or none of `threads` and `grid`; ERR_INVALID_ARG_TYPE, for a graph if the stream does not
   * capture, too: launch an instance; ERR_OUT_OF_RANGE for a number that the parameter cannot represent, or that no grid or
   * block has; ERR_CLOSED, for a closed module too; ERR_DEVICE_MISMATCH for a stream of another device or memory of another
   * driver; ERR_UNSUPPORTED for memory of a GPU that the stream's cannot reach, and for host functions two graphs deep. At the first
   * launch of a DefinedKernel, unless it was prepared, as `prepare()` rejects, and ERR_DEADLOCK inside a host function and while a stream
   * waits for a promise. For an instance as `exec.launch(stream)`
   * @throws {CudaError} mostly 1, for a shape that the device cannot run; for a graph 901 once the capture is invalidated
   * @example
   * ```ts
   * const axpy = Module.load(bytes).kernel('axpy', ['f32', 'in f32*', 'inout f32*', 'i32'])
   * stream.launch(axpy, { threads: 1024 }, 2, x, y, 1024)
   * ```
   */
  launch<T extends LaunchTarget>(target: T, ...rest: LaunchArguments<T>): this
  launch(target: LaunchTarget, config?: unknown, ...args: unknown[]): this {
    launch(open(this), target, config, args)
    return this
  }

  /**
   * Lets other code queue work: calls the function at once, with the stream's context current and with room in its
   * hardware queue for eight operations. The function must not wait for the GPU, and queue on this stream only; if it
   * throws, it must have queued nothing. On the simulator `simulate` is queued in its place.
   * @param work `name` for reports, `memory` that the work touches, and its host implementation `simulate` with its
   * `nanoseconds`
   * @param call The function; it gets CUDA's own handle of the stream (0 for the null stream).
   * @throws {Error} any error of the function; ERR_UNSUPPORTED on the simulator if there is no `simulate`, and for
   * memory of a GPU that the stream's cannot reach; ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for an unknown access,
   * ERR_OUT_OF_RANGE for `nanoseconds`, ERR_CLOSED, ERR_DEVICE_MISMATCH for memory of another driver
   * @example
   * ```ts
   * const memory = [{ buffer: x, access: 'out' as const }]
   * stream.external({ name: 'their kernel', memory }, (handle) => queueOurWork(handle))
   * ```
   */
  external(work: ExternalWork, call: (handle: bigint) => void): this {
    queueExternal(open(this), work, call)
    return this
  }

  /**
   * Begins to capture this stream's work into a graph instead of running it (`cuStreamBeginCapture`). Other streams join by
   * waiting for an event of it, and must be waited for before the end. Until the end, in every mode, it is CudaError 900 or
   * 907 to query or to wait for the capture's streams and events or the whole device, and to launch a graph on those
   * streams; this invalidates the capture, except for `finished()` of a stream, an event or the device. `upload` and
   * `download` there are ERR_UNSUPPORTED; `device.alloc()` takes memory that the graph keeps. The graph retains the buffers, modules and events that the work uses.
   * @param mode Other calls that the capture forbids meanwhile: 'threadLocal' (default), 'global' or 'relaxed'.
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for an unknown mode; ERR_CLOSED
   * @throws {CudaError} 401 if the stream captures already, 900 for the null stream, or 906 while a blocking stream
   * captures
   */
  beginCapture(mode: CaptureModeName = 'threadLocal'): this {
    beginCapture(open(this), mode)
    return this
  }

  /**
   * Ends the capture that this stream began (`cuStreamEndCapture`).
   * @returns the graph of the captured work
   * @throws {CudaError} 901 if a mistake has invalidated it, 904 if a stream joined, has work, and was not waited
   * for, 908 if another thread began it and its mode is not 'relaxed': the capture is over after these, too. 903 on a
   * stream that only joined, which invalidates the capture; 401 on one that does not capture
   * @throws {Error} ERR_CLOSED
   */
  endCapture(): Graph {
    return endCapture(open(this))
  }

  /**
   * Captures the work that a function queues on this stream: `beginCapture()`, the function, `endCapture()`. Ends the
   * capture also if the function throws. Meanwhile this stream is the current one of its device, so that calls without a
   * stream are captured, too. A capture that records nothing gives the warning CUDA_STREAMS_EMPTY_CAPTURE.
   * @param fn A function that is not async, and no generator function: such a one is not called.
   * @param options `mode`: other calls that the capture forbids meanwhile (default 'threadLocal')
   * @returns the graph of the captured work
   * @throws {Error} any error of the function; ERR_INVALID_ARG_VALUE if it returns a promise, and for an unknown mode; as
   * `beginCapture()` and `endCapture()`
   * @example
   * ```ts
   * const graph = stream.capture(() => {
   *   stream.copy(to, from)
   *   stream.launch(axpy, config, 2, x, y, 1024)
   * })
   * const exec = graph.instantiate()
   * for (let step = 0; step < 100; step += 1) stream.launch(exec)
   * ```
   */
  capture<R>(fn: (() => R) & Synchronous<R>, options?: CaptureOptions): Graph {
    return capture(this, open(this), fn, options, (mode) => this.beginCapture(mode))
  }

  /**
   * Makes a condition in the graph that this stream captures (`cuGraphConditionalHandleCreate`): a value by which conditional
   * nodes of the graph decide, and which its kernels set. One node can have it.
   * @param value What it is when a launch of the graph begins: an integer of 32 bits without a sign (default 0)
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE; ERR_UNSUPPORTED if the stream captures nothing, or is in a capture
   * that is invalidated, or that another library or thread began
   * @example
   * ```ts
   * const again = stream.createCondition(1)
   * ```
   */
  createCondition(value = 0): Condition {
    return createCondition(open(this), value)
  }

  /**
   * Captures an if node (`cuGraphAddNode`): a part of the graph that each launch plays if the condition is not 0, and another, if
   * it is given, if the condition is 0. What this stream is given next comes after the part that was played. A body can have
   * kernels, copies and fills on the device, graphs of these, and conditional nodes.
   * @param condition Of `createCondition()`, in the same graph, and of no other node.
   * @param then Captures the first part, on the stream that it is given, which is closed when the function has returned. Not async.
   * @param otherwise Captures the second part (driver of CUDA 12.8). Default: there is none.
   * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_INVALID_ARG_VALUE for a function that returns a promise; ERR_UNSUPPORTED as
   * `createCondition()`, and for an older driver; any error of the functions, after which the node has what was captured before
   * @throws {CudaError} 1 for a condition of another graph or node; what ended the capture of a body, with which this one has ended too
   * @example
   * ```ts
   * const isLarge = stream.createCondition() // a kernel of the graph sets it
   * stream.if(isLarge, (body) => body.launch(axpy, config, 2, x, y, 1024))
   * ```
   */
  if(condition: Condition, then: (body: Stream) => void, otherwise?: (body: Stream) => void): this {
    addIf(open(this), condition, then, otherwise, wrapped)
    return this
  }

  /**
   * Captures a while node (`cuGraphAddNode`): a part of the graph that each launch plays again and again while the condition
   * is not 0. It is checked before each turn, the first too. Otherwise as `if()`.
   * @param condition Of `createCondition()`, in the same graph, and of no other node. A kernel of the body sets it to 0 at the end.
   * @param body Captures the part, on the stream that it is given.
   * @throws {Error} as `if()`
   * @throws {CudaError} as `if()`. On the simulator a loop that does not end loses the context after 100 000 turns, with 702.
   * @example
   * ```ts
   * const again = stream.createCondition(1)
   * stream.while(again, (body) => {
   *   body.launch(axpy, config, 2, x, y, 1024)
   *   // and a kernel that sets it: launch(test, config, y, again)
   * })
   * ```
   */
  while(condition: Condition, body: (body: Stream) => void): this {
    addWhile(open(this), condition, body, wrapped)
    return this
  }

  /**
   * Captures a switch node (`cuGraphAddNode`; driver of CUDA 12.8): parts of the graph of which each launch plays the one whose
   * index the condition is, or none. Otherwise as `if()`.
   * @param condition Of `createCondition()`, in the same graph, and of no other node.
   * @param bodies Capture the parts, each on the stream that it is given. At least one.
   * @throws {Error} as `if()`; ERR_OUT_OF_RANGE for no bodies
   * @throws {CudaError} as `if()`
   * @example
   * ```ts
   * const which = stream.createCondition()
   * stream.switch(which, [(body) => body.fill(x, 0), (body) => body.copy(x, y)])
   * ```
   */
  switch(condition: Condition, bodies: readonly ((body: Stream) => void)[]): this {
    addSwitch(open(this), condition, bodies, wrapped)
    return this
  }

  /**
   * Queues a function for the JavaScript thread: it runs after all earlier and before all later work of the stream, in
   * the async context of this call. It may use the GPU, but not wait for its own stream. An error that it throws is an
   * uncaught exception; a promise that it returns is not awaited. It is dropped if the GPU faults before. While it is
   * pending it keeps the process alive. Captured, it runs at each launch of the graph.
   * @param callback The function.
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_CLOSED; nothing is queued then
   * @throws {CudaError} if the driver refuses; nothing is queued then
   * @example
   * ```ts
   * stream.copy(pinned, buffer)
   * stream.launchHostFunc(() => console.log('copied', pinned.bytes[0]))
   * stream.fill(buffer, 0) // runs after the function
   * ```
   */
  launchHostFunc(callback: () => void): this
  /**
   * Queues a function for the JavaScript thread, as `launchHostFunc(callback)` does, with an argument for it.
   * @param callback The function.
   * @param arg Any value: the function gets it.
   */
  launchHostFunc<T>(callback: (arg: T) => void, arg: T): this
  launchHostFunc<T>(callback: (arg: T) => void, arg?: T): this {
    const impl = open(this)
    checkFunction(callback, 'callback')
    const host = hostFunction(() => callback(arg as T), false)
    impl.queueHostFunction(host, 'a host function')
    return this
  }

  /**
   * Does the same as `launchHostFunc`, but the function also gets the stream and a status, and runs after a fault of the GPU too.
   * Cannot be captured.
   * @param callback The function. Its status is 0, or the CUresult if the GPU faulted.
   * @param arg Any value: the function gets it.
   * @throws {Error} as `launchHostFunc`: ERR_INVALID_ARG_TYPE, ERR_CLOSED
   * @throws {CudaError} 900 while the stream captures, which does not invalidate the capture
   * @example
   * ```ts
   * stream.addCallback((_, status, name) => console.log(name, status === 0 ? 'done' : `failed: ${status}`), 'step 1')
   * ```
   */
  addCallback<T>(callback: (stream: this, status: number, arg: T) => void, arg: T): this {
    const impl = open(this)
    checkFunction(callback, 'callback')
    const host = hostFunction((status) => callback(this, status, arg), true)
    impl.queueHostFunction(host, 'a callback')
    return this
  }

  /**
   * Makes the stream current on its device for the rest of this async context. The current device does not change.
   * @throws {Error} ERR_CLOSED
   */
  use(): this {
    open(this)
    currentOn(this.device).set(this)
    return this
  }

  /**
   * Makes the stream current on its device until the result is disposed. In an async function prefer `run`: until the
   * first `await` of such a function, its caller has the stream current too.
   * @throws {Error} ERR_CLOSED
   * @example
   * ```ts
   * using scope = stream.enter()
   * const buffer = device.alloc(1024) // on this stream
   * ```
   */
  enter(): Disposable {
    open(this)
    return currentOn(this.device).enter(this)
  }

  /**
   * Makes the stream current on its device for the function and for all that it awaits.
   * @param fn A function, sync or async.
   * @returns the function's result
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_CLOSED; any error of the function
   * @example
   * ```ts
   * await stream.run(async () => {
   *   exec.launch() // on this stream
   *   await Stream.current().finished() // the same stream, if its device is the current one
   * })
   * ```
   */
  run<R>(fn: () => R): R {
    open(this)
    checkFunction(fn, 'fn')
    return currentOn(this.device).run(this, fn)
  }

  /**
   * Describes the stream to other threads of this process: `Stream.from()` makes a stream of it there, and both may
   * queue work. It is kept until you close it here; close it when the other threads have finished with it.
   * @returns a plain object that `postMessage` and `structuredClone` can copy
   * @throws {Error} ERR_UNSUPPORTED for the per-thread default stream, which is another one in each thread; ERR_CLOSED
   * @throws {CudaError} 900 while the stream captures, unless `id` was queried before
   * @example
   * ```ts
   * worker.postMessage(stream.share())
   * // In the worker:
   * parentPort?.once('message', (shared) => Stream.from(shared).launchHostFunc(() => console.log('done')))
   * ```
   */
  share(): SharedStream {
    const impl = open(this)
    const handle = cudaHandleOf(impl.handle)
    impl.escape()
    if (handle !== 2) {
      return { ...register(impl, this, 'stream', impl.device, [handle]), handle: BigInt(handle), id: impl.id }
    }
    throw stateError('ERR_UNSUPPORTED', `${this} is another stream in each thread: share one that you made`)
  }

  /**
   * Is `other` the same stream of the same device? Handles 0 and 1 name the same one.
   * @param other Any value; false for one that is no Stream.
   */
  equals(other: unknown): boolean {
    const impl = implOf(this)
    return streamImplOf(other)?.isSame(impl) ?? false
  }

  /**
   * A key by which streams can be ordered: the device's ordinal above the handle, which has the low 64 bits, 1 counted as
   * 0. The driver is not part of it: the null streams of two simulations have the same key.
   * @throws {Error} ERR_CLOSED
   */
  override valueOf(): bigint {
    const { ordinal, handle } = open(this)
    return (BigInt(ordinal) << 64n) | BigInt(cudaHandleOf(canonicalStream(handle)))
  }

  /**
   * Destroys the stream (`cuStreamDestroy`), or releases one that another library owns. Queued work still completes;
   * a capture that a destroyed stream began is abandoned. Does nothing to default streams. May be called twice.
   */
  close(): void {
    const impl = implOf(this)
    impl.close()
    if (impl.closed) impl.kept = undefined
  }

  /**
   * `finished()`, then `close()`, for `await using`. If `finished()` rejects, the stream is closed too, and this rejects.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    const { isClosed } = implOf(this)
    try {
      if (!isClosed) await this.finished()
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

  /** The stream of another library that has the stream protocol. */
  #wrapped(target: unknown): Stream {
    if (isStreamLike(target)) return new Stream(StreamImpl.wrapSource(target, this.device))
    const expected = 'an Event, a Stream, a Device, a promise or an object with a stream protocol'
    throw invalidType('target', expected, target)
  }
}

/** A stream that another library owns. This library never destroys it: `close()` only releases it. */
export class ExternalStream extends Stream {
  /**
   * Wraps a stream by its handle or by an object with the stream protocol. The other library must keep the stream
   * alive: mapped memory that is no stream any more cannot always be distinguished from one.
   * @param source A CUstream as a bigint or number, an object with `[cudaStream]()` or `__cuda_stream__()`, such as a
   * Stream, or the object that `share()` returned in another thread.
   * @param options `device`: the device that the stream must be on; the driver knows it, so it may be left out, or -1.
   * `owner`: an object that is kept reachable while the wrapper lives (default: the protocol object). `name`: what errors,
   * reports and timelines call the stream, by all of its wrappers.
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for a value that cannot be a handle; ERR_INVALID_HANDLE for
   * a handle that the driver does not know; ERR_CLOSED for a stream that this library destroyed; ERR_DEVICE_MISMATCH
   * if `device` is wrong; for a stream that another thread shared, ERR_INVALID_HANDLE from another process,
   * ERR_INVALID_ARG_VALUE for a token that is not as `share()` returned it, and for an empty name
   * @throws {CudaError} 900 for a name while the stream captures
   * @example
   * ```ts
   * const torchStream = new ExternalStream({ __cuda_stream__: () => [0, handle] })
   * ```
   */
  constructor(source: StreamSource | SharedStream, options?: ExternalStreamOptions) {
    super(StreamImpl.wrap(source, options))
  }

  /**
   * The object that is kept reachable until this is closed: the `owner` given, or else the protocol object; undefined
   * afterwards.
   */
  get owner(): object | undefined {
    return implOf(checkThis(this, isExternalStream, 'an ExternalStream')).held[0]
  }

  override get [Symbol.toStringTag](): string {
    return 'ExternalStream'
  }
}

/**
 * Gives a stream a name: `new Stream({ name })` is shorter. Other wrappers of the stream have the name too.
 * @param stream The stream.
 * @param name Any text that is not empty. Characters that are special to terminals or XML are shown as escapes, such as `\u001b`.
 * @returns the stream
 * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for an empty name, ERR_CLOSED
 * @throws {CudaError} 900 while the stream captures, unless `id` was queried before
 * @example
 * ```ts
 * import { nameStream } from 'cuda-streams/timeline'
 *
 * nameStream(Stream.null, 'what libraries queue')
 * ```
 */
export function nameStream<S extends Stream>(stream: S, name: string): S {
  if (!isStream(stream)) throw invalidType('stream', 'a Stream', stream)
  const checked = checkStreamName(name, 'name')
  open(stream).giveName(checked)
  return stream
}

const isExternalStream = (value: unknown): value is ExternalStream => isStream(value) && value instanceof ExternalStream

const defaultStreamsOf = memoize((device: Device) => {
  const { legacy, perThread } = defaultStreamImpls(device)
  return { legacy: new Stream(legacy), perThread: new Stream(perThread) }
})

/** The null stream of a device: always the same object. */
export const defaultStreamOf = (device: Device): Stream => defaultStreamsOf(device).legacy

/** The stream that was shared, in the thread that shared it; the null stream, which every thread has, in any. */
function ownOfShared(shared: SharedStream): Stream | undefined {
  const { owner, device, cudaHandle } = receiveStream(shared)
  if (isStream(owner)) return owner
  return cudaHandle < 2 ? defaultStreamOf(device) : undefined
}

function newStream(options: StreamOptions | undefined): StreamImpl {
  const given = readOptions(options, NEW_STREAM_OPTIONS)
  const { device = greenContextImplOf(given.context)?.device } = given
  return StreamImpl.makeNamed(resolveDevice(device), given)
}

const implOf = (stream: unknown): StreamImpl => streamImplOf(stream) ?? refuseReceiver('a Stream', stream)

const open = (stream: unknown): StreamImpl => implOf(stream).checkOpen()

/** The method as it is defined here, even if the program replaces it. */
const { wait } = Stream.prototype
