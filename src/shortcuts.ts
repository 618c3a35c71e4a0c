/**
 * What joins devices and events to streams. It stands here, and not in their own files, so that imports run one way:
 * streams know events and devices, not the reverse.
 */
import { checkThis } from './base/arguments.js'
import { invalidType } from './base/errors.js'
import { Device, isDevice, readOptionsOn } from './device.js'
import { EVENT_OPTIONS, Event, type EventOptions, isEvent } from './event.js'
import { defaultStreamOf, ExternalStream, isStream, Stream } from './stream.js'
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
