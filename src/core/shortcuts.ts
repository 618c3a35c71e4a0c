/**
 * The members of Device, Stream, Event and GraphExec that make or use objects of higher layers: streams, events and memory. They are
 * added here, and not in the classes, so that imports run one way.
 */
import '../foundation/base/node-version.js'
import { checkBoolean, checkOptions, checkThis } from '../foundation/base/arguments.js'
import { type Bytes, checkSource } from '../foundation/base/bytes.js'
import { CudaError, invalidType, invalidValue, refuseReceiver } from '../foundation/base/errors.js'
import { CUresult } from '../foundation/driver/cuda-results.js'
import { Device, isDevice, readOptionsOn } from './device.js'
import { Event, isEvent } from './event.js'
import { GraphExec, launchExec, uploadExec } from './graphs/graph.js'
import { checkLength } from './memory/buffer.js'
import { allocateInterprocess, allocateOn, type DeviceBuffer } from './memory/device-buffer.js'
import { type MemoryPool, openPool, poolOfDevice } from './memory/memory-pool.js'
import { type ArrayOptions, createArray, type OpaqueArray } from './memory/opaque-array.js'
import { allocatePinned, type PinnedBuffer } from './memory/pinned-buffer.js'
import { internalStream } from './memory/stream-uses.js'
import {
  createSurface,
  createTexture,
  type SurfaceObject,
  type TextureObject,
  type TextureOptions,
} from './memory/texture-object.js'
import { upload } from './memory/transfers.js'
import { defaultStreamOf, ExternalStream, isStream, Stream } from './stream.js'
import { EVENT_OPTIONS, EventImpl, type EventOptions } from './streams/event-impl.js'
import { type GreenContext, type SplitDevice, type SplitOptions, splitDevice } from './streams/green-context.js'
import { currentStreamImpl, NAMED_STREAM_OPTIONS, StreamImpl, streamImplOf } from './streams/stream-impl.js'
import type { CudaStreamLike, PythonStreamLike, StreamOptions, WaitEventOptions } from './streams/stream-options.js'
import { isStreamLike } from './streams/stream-options.js'

const ALLOC_OPTIONS = ['stream', 'interprocess', 'pool'] as const

/** The options for allocating device memory. */
export interface AllocOptions {
  /**
   * The stream in whose order the memory is allocated and, unless another library owns the stream, freed later.
   * Default: the current stream of the device. Excludes `interprocess`.
   */
  readonly stream?: Stream | undefined
  /**
   * Whether other processes can open the memory by `ipcHandle()`. The memory then comes from `cuMemAlloc`, without a stream, in
   * steps of 2 MiB. Default: false.
   */
  readonly interprocess?: boolean | undefined
  /** The pool that the memory comes from. Default: `device.memoryPool`. Excludes `interprocess`. */
  readonly pool?: MemoryPool | undefined
}

declare module './device.js' {
  interface Device {
    /** The null stream of this device (handle 0): always the same object, and `close()` does nothing to it. */
    readonly defaultStream: Stream
    /**
     * The pool that `alloc()` takes memory from by default (`cuDeviceGetMemPool`): the device's own, which libraries in the
     * process share, unless one has exchanged it. `close()` does nothing to it. Unless a library has set its release
     * threshold before, the first allocation sets that to CUDA_STREAMS_RELEASE_THRESHOLD, Infinity by default.
     * @throws {Error} ERR_INVALID_ARG_VALUE if that variable is no number of bytes
     */
    readonly memoryPool: MemoryPool
    /**
     * Wraps the stream of an object with the stream protocol.
     * @param source An object of another library that has `[cudaStream]()` or `__cuda_stream__()`, or a Stream.
     * @throws {Error} as `new ExternalStream(source, { device })` does; ERR_DEVICE_MISMATCH for a stream of another
     * device
     */
    createStream(source: CudaStreamLike | PythonStreamLike): ExternalStream
    /**
     * Makes a stream on this device (`cuStreamCreateWithPriority`).
     * @param options `priority` (0), `nonBlocking` (true), `context` and `name`, as for `new Stream(options)`
     * @throws {Error} as `new Stream(options)` does; ERR_DEVICE_MISMATCH if `options.device` is another
     * @example
     * ```ts
     * using stream = device.createStream({ priority: device.priorityRange.greatest })
     * ```
     */
    createStream(options?: StreamOptions): Stream
    /**
     * Splits the multiprocessors of the device into green contexts (`cuDevSmResourceSplitByCount`, `cuGreenCtxCreate`):
     * kernels of streams that are made in one run on its share, beside those of the others. Another split of the same
     * device distributes the same multiprocessors again. Waits until the device is idle; host functions run meanwhile.
     * @param options `multiprocessors`: the least number of each part, rounded up to whole groups, of 8 from compute
     * capability 9.0 on. The remaining ones are one more part.
     * @returns the parts in that order, and behind them the rest
     * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE if there are no numbers, ERR_OUT_OF_RANGE for less
     * than 1 and for so many that none are left; ERR_DEADLOCK inside a host function and while a stream
     * waits for a promise
     * @throws {CudaError} 915 if there are not enough once each number is rounded up; 801 if the driver cannot split
     * this device
     * @example
     * ```ts
     * const [small, rest] = device.split({ multiprocessors: [16] })
     * console.log(small.multiprocessors, rest.multiprocessors) // 16 116, of the 132 of an H200
     * const stream = new Stream({ context: small })
     * ```
     */
    split<const N extends readonly number[]>(options: SplitOptions<N>): SplitDevice<N>
    /**
     * Makes an event on this device (`cuEventCreate`).
     * @param options `timing`, `blockingSync` and `interprocess`, all false by default
     * @throws {Error} as `new Event(options)` does; ERR_DEVICE_MISMATCH if the options name another device
     */
    createEvent(options?: EventOptions): Event
    /**
     * Allocates device memory in the order of a stream (`cuMemAllocAsync`). Its initial contents are undefined. Other
     * streams may use it at once: their first use waits for the allocation. On a stream that captures, nothing of it is captured:
     * it is ordinary memory, allocated at once on a stream of the library, which the graph keeps if the captured work uses it,
     * and which all instances of the graph share.
     * @param byteLength Bytes; 0 makes a buffer that can be used as any.
     * @param options `stream`: the stream to allocate on, and to free on later (default: the device's current
     * stream). `pool`: the pool that the memory comes from (default: `device.memoryPool`). `interprocess`: memory that other
     * processes can open, from `cuMemAlloc`, without a stream (default false).
     * @throws {Error} ERR_OUT_OF_RANGE, ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for options that exclude each
     * other; ERR_CLOSED, ERR_DEVICE_MISMATCH for a stream or pool of another device; ERR_UNSUPPORTED in a capture
     * that is invalidated, or that another library or thread began
     * @throws {CudaError} 2, CUDA_ERROR_OUT_OF_MEMORY, which says what is free and on which streams the rest was allocated.
     * Unused memory of pools was returned before; frees behind unfinished work are not waited for. 906,
     * CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, on the null stream, where a blocking stream of the device captures, of this thread
     * or another: pass `stream`
     * @example
     * ```ts
     * const samples = new Float32Array([1, 2, 3])
     * using buffer = device.alloc(samples.byteLength, { stream })
     * await stream.upload(buffer, samples)
     * ```
     */
    alloc(byteLength: number, options?: AllocOptions): DeviceBuffer
    /**
     * Allocates page-locked host memory (`cuMemHostAlloc`) that every device of the driver can access. The call is slow:
     * allocate once, and use the memory again and again.
     * @param byteLength Bytes; 0 makes a buffer that can be used as any.
     * @throws {Error} ERR_OUT_OF_RANGE, ERR_INVALID_ARG_TYPE
     * @throws {CudaError} 2, CUDA_ERROR_OUT_OF_MEMORY
     * @example
     * ```ts
     * using pinned = device.allocPinned(4096)
     * const samples = pinned.view(Float32Array) // the memory itself: 1024 elements
     * ```
     */
    allocPinned(byteLength: number): PinnedBuffer
    /**
     * Makes a CUDA array (`cuArray3DCreate`), in the order of no stream. Its initial contents are undefined.
     * @param options `shape`: [width], [height, width] or [depth, height, width] in elements. `format`: the type of a channel; `channels`: 1, 2 or 4
     * (default 1). `layered`, `cubemap`: what the first number of the shape counts. `surface`: whether kernels can write it. `gather`: whether
     * kernels can gather from it. The last four are false by default.
     * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE, ERR_OUT_OF_RANGE
     * @throws {CudaError} 1 for a shape beyond the limits of the device; 2, CUDA_ERROR_OUT_OF_MEMORY
     * @example
     * ```ts
     * using array = device.createArray({ shape: [256, 512], format: 'u8', channels: 4 })
     * ```
     */
    createArray(options: ArrayOptions): OpaqueArray
    /**
     * Makes a texture object (`cuTexObjectCreate`) of a CUDA array or of a buffer of this device. A kernel takes it for a parameter of the type
     * 'u64', a `cudaTextureObject_t` in CUDA C++.
     * @param source An array; or a buffer, for which `options.format` says what its elements are: it is read by integers (`tex1Dfetch`) or, with
     * `options.shape`, as an image of two dimensions.
     * @param options `addressMode` ('clamp'), `filterMode` ('point'), `readMode` ('element'), `normalizedCoordinates` (false), `borderColor`, `sRGB`;
     * of a buffer `format`, `channels`, `shape` and `pitch`
     * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_INVALID_ARG_VALUE for options that exclude each other, and for memory of another device, or
     * that does not begin at a multiple of the device's `textureAlignment`; ERR_OUT_OF_RANGE for a buffer that is too short; ERR_CLOSED,
     * ERR_DEVICE_MISMATCH
     * @example
     * ```ts
     * using array = device.createArray({ shape: [256, 512], format: 'u8', channels: 4 })
     * using texture = device.createTexture(array, { filterMode: 'linear', readMode: 'normalizedFloat' })
     * ```
     */
    createTexture(source: OpaqueArray | DeviceBuffer, options?: TextureOptions): TextureObject
    /**
     * Makes a surface object (`cuSurfObjectCreate`) of a CUDA array of this device. A kernel takes it for a parameter of the type 'u64', a
     * `cudaSurfaceObject_t` in CUDA C++.
     * @param array An array that was made with `surface: true`.
     * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for another array; ERR_CLOSED, ERR_DEVICE_MISMATCH
     * @example
     * ```ts
     * using array = device.createArray({ shape: [256, 512], format: 'f32', surface: true })
     * using surface = device.createSurface(array)
     * ```
     */
    createSurface(array: OpaqueArray): SurfaceObject
  }
}

declare module './stream.js' {
  interface Stream {
    /**
     * Makes a buffer of an ordinary array: allocates device memory of its length in the order of this stream
     * (`cuMemAllocAsync`), which is then the buffer's allocation stream, and queues the upload, as `device.alloc()` and
     * `stream.upload()` do. The array may be reused at once. Other streams wait for this one before they read the buffer.
     * @param source A typed array, a DataView or an ArrayBuffer, with at least one byte.
     * @throws {Error} as `upload()`: ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for an array that is detached;
     * ERR_OUT_OF_RANGE for an empty one; ERR_CLOSED, ERR_UNSUPPORTED while the stream captures
     * @throws {CudaError} 2, CUDA_ERROR_OUT_OF_MEMORY
     * @example
     * ```ts
     * using x = stream.bufferFrom(new Float32Array([1, 2, 3]))
     * stream.launch(axpy, { threads: 3 }, 2, x, y, 3)
     * ```
     */
    bufferFrom(source: Bytes): DeviceBuffer
  }
}

declare module './event.js' {
  interface Event {
    /**
     * `stream.record(event)`: records this point of the stream's work (`cuEventRecord`).
     * @param stream Default: the current stream of the event's device.
     * @param options `external`: while capturing, an event node that work outside the graph can wait for (default
     * false)
     * @throws {Error} as `stream.record(event)` does; ERR_CLOSED, ERR_DEVICE_MISMATCH
     */
    record(stream?: Stream, options?: { readonly external?: boolean | undefined }): this
    /**
     * `stream.wait(event)`: makes the stream's later work wait for this event (`cuStreamWaitEvent`).
     * @param stream Default: the current stream of the event's device.
     * @param options `external`: while capturing, a wait for an event recorded outside the graph (default false)
     * @throws {Error} as `stream.wait(event)` does; ERR_CLOSED, ERR_DEVICE_MISMATCH
     */
    wait(stream?: Stream, options?: WaitEventOptions): this
  }
}

declare module './graphs/graph.js' {
  interface GraphExec {
    /**
     * Moves the data of a launch to the GPU ahead of time (`cuGraphUpload`).
     * @param stream Default: the current stream of the instance's device.
     * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_CLOSED, ERR_DEVICE_MISMATCH for a stream of another device
     * @throws {CudaError} 900 while the stream captures, which invalidates the capture
     */
    upload(stream?: Stream): this
    /**
     * Queues all work of the instance (`cuGraphLaunch`). Its host functions run at each launch.
     * @param stream Default: the current stream of the instance's device.
     * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_CLOSED, ERR_DEVICE_MISMATCH for a stream of another device
     * @throws {CudaError} 900 while the stream captures, which invalidates the capture; 900 where the graph waits, by an
     * `external` wait, for an event whose latest record is part of a capture that goes on, which invalidates nothing
     */
    launch(stream?: Stream): this
  }
}

Object.defineProperty(Device.prototype, 'defaultStream', {
  configurable: true,
  get(this: Device): Stream {
    return defaultStreamOf(checkThis(this, isDevice, 'a Device'))
  },
})

function createStream(this: Device, source: CudaStreamLike | PythonStreamLike): ExternalStream
function createStream(this: Device, options?: StreamOptions): Stream
function createStream(this: Device, given?: StreamOptions | CudaStreamLike | PythonStreamLike): Stream {
  const device = checkThis(this, isDevice, 'a Device')
  if (isStreamLike(given)) return new ExternalStream(given, { device })
  return new Stream(StreamImpl.makeNamed(device, readOptionsOn(device, given, NAMED_STREAM_OPTIONS)))
}
Device.prototype.createStream = createStream

Device.prototype.split = function <const N extends readonly number[]>(
  this: Device,
  options: SplitOptions<N>,
): SplitDevice<N> {
  const parts: GreenContext[] = splitDevice(checkThis(this, isDevice, 'a Device'), options)
  return parts as SplitDevice<N>
}

Device.prototype.createEvent = function (options?: EventOptions): Event {
  const device = checkThis(this, isDevice, 'a Device')
  return new Event(EventImpl.make(device, readOptionsOn(device, options, EVENT_OPTIONS)))
}

Object.defineProperty(Device.prototype, 'memoryPool', {
  configurable: true,
  get(this: Device): MemoryPool {
    return poolOfDevice(checkThis(this, isDevice, 'a Device'))
  },
})

Device.prototype.alloc = function (byteLength: number, options?: AllocOptions): DeviceBuffer {
  const device = checkThis(this, isDevice, 'a Device')
  const { stream, interprocess, pool } = checkOptions(options, ALLOC_OPTIONS)
  checkLength(byteLength)
  if (checkBoolean(interprocess, 'options.interprocess', false)) {
    if (pool !== undefined) throw invalidValue('options.pool and options.interprocess exclude each other')
    if (stream === undefined) return allocateInterprocess(device, byteLength)
    throw invalidValue(
      'options.stream and options.interprocess exclude each other: interprocess memory is allocated at once, on no stream',
    )
  }
  const impl = stream === undefined ? currentStreamImpl(device) : streamImplOf(stream)
  if (impl === undefined) throw invalidType('options.stream', 'a Stream', stream)
  const from = pool === undefined ? undefined : openPool(pool, device)
  try {
    return allocateOn(impl, device, byteLength, from)
  } catch (error) {
    // Beside the capture of a blocking stream, of any thread, the null stream takes no work. Nobody has asked for that stream.
    if (stream !== undefined || !(error instanceof CudaError) || error.number !== CUresult.STREAM_CAPTURE_IMPLICIT)
      throw error
    return allocateOn(internalStream(device), device, byteLength, from)
  }
}

Device.prototype.allocPinned = function (byteLength: number): PinnedBuffer {
  const device = checkThis(this, isDevice, 'a Device')
  return allocatePinned(device, checkLength(byteLength))
}

Device.prototype.createArray = function (options: ArrayOptions): OpaqueArray {
  return createArray(checkThis(this, isDevice, 'a Device'), options)
}

Device.prototype.createTexture = function (
  source: OpaqueArray | DeviceBuffer,
  options?: TextureOptions,
): TextureObject {
  return createTexture(checkThis(this, isDevice, 'a Device'), source, options)
}

Device.prototype.createSurface = function (array: OpaqueArray): SurfaceObject {
  return createSurface(checkThis(this, isDevice, 'a Device'), array)
}

Stream.prototype.bufferFrom = function (source: Bytes): DeviceBuffer {
  const stream = checkThis(this, isStream, 'a Stream')
  const impl = streamImplOf(stream) ?? refuseReceiver('a Stream', stream)
  impl.checkOpen()
  const bytes = checkSource(source, 'source')
  const buffer = allocateOn(impl, impl.device, bytes.length, undefined)
  try {
    void upload(impl, buffer, bytes, false)
  } catch (error) {
    buffer.close()
    throw error
  }
  return buffer
}

Event.prototype.record = function (stream?: Stream, options?: { readonly external?: boolean | undefined }): Event {
  const event = checkThis(this, isEvent, 'an Event')
  streamFor(event, stream).record(event, options)
  return this
}

Event.prototype.wait = function (stream?: Stream, options?: WaitEventOptions): Event {
  const event = checkThis(this, isEvent, 'an Event')
  streamFor(event, stream).wait(event, options)
  return this
}

GraphExec.prototype.upload = function (stream?: Stream): GraphExec {
  uploadExec(this, stream)
  return this
}

GraphExec.prototype.launch = function (stream?: Stream): GraphExec {
  launchExec(this, stream)
  return this
}

function streamFor(event: Event, stream: Stream | undefined): Stream {
  if (stream === undefined) return Stream.current(event.device)
  if (!isStream(stream)) throw invalidType('stream', 'a Stream', stream)
  return stream
}
