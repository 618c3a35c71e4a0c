/**
 * The members of Device and Event that make or use what stands above these classes: streams, events and memory. They stand
 * here, and not in the classes, so that imports run one way.
 */
import { checkBoolean, checkThis, readOptions } from './base/arguments.js'
import { invalidType, invalidValue } from './base/errors.js'
import { Device, isDevice, readOptionsOn } from './device.js'
import { Event, isEvent } from './event.js'
import { checkLength } from './memory/buffer-core.js'
import { type AllocOptions, allocateInterprocess, allocateOn, type DeviceBuffer } from './memory/device-buffer.js'
import { allocatePinned, type PinnedBuffer } from './memory/pinned-buffer.js'
import { defaultStreamOf, ExternalStream, Stream } from './stream.js'
import { currentCore } from './streams/current.js'
import { EVENT_OPTIONS, type EventOptions } from './streams/event-core.js'
import { isStream, streamCoreOf } from './streams/stream-core.js'
import type { StreamOptions, WaitEventOptions } from './streams/stream-options.js'
import { type CudaStreamLike, isStreamLike, type PythonStreamLike } from './streams/stream-source.js'

declare module './device.js' {
  interface Device {
    /** The null stream of this device (handle 0): always the same object, and `close()` does nothing to it. */
    readonly defaultStream: Stream
    /**
     * Wraps a stream that an object with the stream protocol hands over.
     * @throws as `new ExternalStream(source, { device })` does; ERR_DEVICE_MISMATCH for a stream of another device
     */
    createStream(source: CudaStreamLike | PythonStreamLike): ExternalStream
    /**
     * Makes a stream on this device.
     * @throws as `new Stream(options)` does; ERR_DEVICE_MISMATCH where `options.device` is another
     */
    createStream(options?: StreamOptions): Stream
    /**
     * Makes an event on this device.
     * @throws as `new Event(options)` does; ERR_DEVICE_MISMATCH where the options name another device
     */
    createEvent(options?: EventOptions): Event
    /**
     * Allocates so many bytes, at least 1, in the order of a stream (`cuMemAllocAsync`). What they hold is not defined.
     * Other streams may use them at once: their first use waits for the allocation.
     * @throws ERR_OUT_OF_RANGE, ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for options that exclude each other;
     * ERR_CLOSED, ERR_DEVICE_MISMATCH for a stream of another device, ERR_UNSUPPORTED while it captures; CudaError 2,
     * CUDA_ERROR_OUT_OF_MEMORY
     */
    alloc(byteLength: number, options?: AllocOptions): DeviceBuffer
    /**
     * Allocates so many bytes, at least 1, of page-locked host memory (`cuMemHostAlloc`) that every device of the
     * driver can reach. This is slow: do it once, and use it again and again.
     * @throws ERR_OUT_OF_RANGE, ERR_INVALID_ARG_TYPE; CudaError 2, CUDA_ERROR_OUT_OF_MEMORY
     */
    allocPinned(byteLength: number): PinnedBuffer
  }
}

declare module './event.js' {
  interface Event {
    /**
     * `stream.record(event)`. Default: the current stream of the event's device.
     * @throws as `stream.record(event)` does
     */
    record(stream?: Stream, options?: { readonly external?: boolean | undefined }): this
    /**
     * `stream.wait(event)`. Default: the current stream of the event's device.
     * @throws as `stream.wait(event)` does
     */
    wait(stream?: Stream, options?: WaitEventOptions): this
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
  const { priority, nonBlocking } = readOptionsOn(device, given, ['priority', 'nonBlocking'])
  return new Stream({ priority, nonBlocking, device })
}
Device.prototype.createStream = createStream

Device.prototype.createEvent = function (options?: EventOptions): Event {
  const device = checkThis(this, isDevice, 'a Device')
  const { timing, blockingSync, interprocess } = readOptionsOn(device, options, EVENT_OPTIONS)
  return new Event({ timing, blockingSync, interprocess, device })
}

Device.prototype.alloc = function (byteLength: number, options?: AllocOptions): DeviceBuffer {
  const device = checkThis(this, isDevice, 'a Device')
  const { stream, interprocess } = readOptions(options, ['stream', 'interprocess'])
  checkLength(byteLength)
  if (checkBoolean(interprocess, 'options.interprocess', false)) {
    if (stream === undefined) return allocateInterprocess(device, byteLength)
    throw invalidValue('options.stream and options.interprocess exclude each other: such memory is there at once')
  }
  const core = stream === undefined ? currentCore(device) : streamCoreOf(stream)
  if (core === undefined) throw invalidType('options.stream', 'a Stream', stream)
  return allocateOn(core, device, byteLength)
}

Device.prototype.allocPinned = function (byteLength: number): PinnedBuffer {
  const device = checkThis(this, isDevice, 'a Device')
  return allocatePinned(device, checkLength(byteLength))
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

function streamFor(event: Event, stream: Stream | undefined): Stream {
  if (stream === undefined) return Stream.current(event.device)
  if (!isStream(stream)) throw invalidType('stream', 'a Stream', stream)
  return stream
}
