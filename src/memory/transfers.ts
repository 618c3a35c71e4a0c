/** What moves bytes in the order of a stream: copies, fills, and ordinary arrays through pinned memory. */
import { ReadableStream, WritableStream } from 'node:stream/web'
import { types } from 'node:util'
import { bare, bytesOf, checkInteger, readOptions } from '../base/arguments.js'
import { describe, invalidType, invalidValue, outOfRange, stateError } from '../base/errors.js'
import type { FillWidth } from '../driver/driver.js'
import { type OpenStream, openStream, queuedLast, Stream } from '../stream.js'
import { checkFitsArray, isMemory, openMemory } from './buffer.js'
import type { DeviceBuffer } from './device-buffer.js'
import type { PinnedBuffer } from './pinned-buffer.js'
import { queueCopy, queueFill } from './queue-with-memory.js'
import { stageDownload, stageUpload } from './staging.js'

/** Bytes of an ordinary array: a typed array, a DataView, a Buffer, or a whole ArrayBuffer, shared or not. */
export type Bytes = ArrayBufferView | ArrayBufferLike

/** What is written over a buffer. */
export interface FillOptions {
  /** Bytes that the value has: 1, 2 or 4. Default 1. */
  readonly width?: FillWidth | undefined
}

/** How a buffer is read as a web stream. */
export interface DownloaderOptions {
  /** Bytes that each chunk has, but for the last; at least 1. Default 4 MiB. */
  readonly chunkBytes?: number | undefined
}

const CHUNK_BYTES = 4 * 1024 * 1024
const FILL_OPTIONS = ['width'] as const

declare module '../stream.js' {
  interface Stream {
    /**
     * Queues a copy between two buffers of the same length, on devices or pinned, in any direction (`cuMemcpyAsync`;
     * between GPUs that cannot reach each other's memory `cuMemcpyPeerAsync`). Never blocks, but for 20 ms where a
     * stream of one GPU first uses memory of another. Buffers that overlap give what no one promises.
     * @throws ERR_OUT_OF_RANGE where the lengths differ, ERR_INVALID_ARG_TYPE, ERR_CLOSED, ERR_DEVICE_MISMATCH for a
     * buffer of another driver; ERR_UNSUPPORTED for pinned memory and that of a GPU which the stream's cannot reach
     */
    copy(destination: DeviceBuffer | PinnedBuffer, source: DeviceBuffer | PinnedBuffer): this
    /**
     * Queues writing a value over the whole buffer (`cuMemsetD8Async`, `cuMemsetD16Async`, `cuMemsetD32Async`): an
     * integer of `width` bytes, signed or not.
     * @throws ERR_OUT_OF_RANGE for a value that has more bytes; ERR_INVALID_ARG_VALUE for another width, and where
     * values of that width do not fit the buffer; ERR_INVALID_ARG_TYPE, ERR_CLOSED, ERR_DEVICE_MISMATCH;
     * ERR_UNSUPPORTED for memory of a GPU that the stream's cannot reach
     */
    fill(buffer: DeviceBuffer | PinnedBuffer, value: number, options?: FillOptions): this
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
    upload(buffer: DeviceBuffer | PinnedBuffer, source: Bytes): Promise<void>
    /**
     * Queues a copy of a buffer to an ordinary array, which is there when the promise is done. What is queued on the
     * stream afterwards may overwrite the buffer. Rejects, and never throws: as `upload` throws, if the GPU faults,
     * and with ERR_UNSUPPORTED for more bytes than this Node's arrays have.
     */
    download(buffer: DeviceBuffer | PinnedBuffer): Promise<Uint8Array>
    /**
     * A web stream whose bytes are uploaded to the buffer one after the other, by `upload`: a file can be piped to a
     * GPU. More bytes than the buffer has are ERR_OUT_OF_RANGE; fewer leave the rest as it was. To write what `upload`
     * refuses fails with its error.
     * @throws (at once) ERR_INVALID_ARG_TYPE, ERR_CLOSED, ERR_DEVICE_MISMATCH
     */
    uploader(buffer: DeviceBuffer | PinnedBuffer): WritableStream<Bytes>
    /**
     * A web stream of the buffer's bytes. Each chunk is downloaded when it is read, and none ahead: it has what the
     * buffer holds then, and a stream that is not read keeps nothing alive. To read fails where `download` rejects.
     * @throws (at once) ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for `chunkBytes`, ERR_CLOSED, ERR_DEVICE_MISMATCH
     */
    downloader(buffer: DeviceBuffer | PinnedBuffer, options?: DownloaderOptions): ReadableStream<Uint8Array>
  }
}

Stream.prototype.copy = function (destination, source): Stream {
  openStream(this)
  checkMemory(destination, 'destination')
  checkMemory(source, 'source')
  openMemory(destination)
  openMemory(source)
  checkLengths(destination.byteLength, 'source', source.byteLength)
  const use = openStream(this, 1)
  const to = openMemory(destination, use.driver)
  const from = openMemory(source, use.driver)
  queueCopy(use, to, from, source.byteLength)
  queuedLast(this, 'a copy')
  return this
}

Stream.prototype.fill = function (buffer, value, options): Stream {
  openStream(this)
  const { width = 1 } = readOptions(options, FILL_OPTIONS)
  checkMemory(buffer, 'buffer')
  openMemory(buffer)
  checkInteger(value, 'value')
  if (width !== 1 && width !== 2 && width !== 4) {
    throw invalidValue(`options.width must be 1, 2 or 4, not ${describe(width)}`)
  }
  const values = 2 ** (8 * width)
  if (value < -values / 2 || value >= values) {
    throw outOfRange('value', `from ${-values / 2} to ${values - 1} in ${width} byte(s)`, value)
  }
  const use = openStream(this, 1)
  const to = openMemory(buffer, use.driver)
  if (buffer.byteLength % width !== 0 || to.pointer % width !== 0) {
    throw invalidValue(`${buffer} is no whole number of values of ${width} bytes, or begins in the middle of one`)
  }
  queueFill(use, to, value < 0 ? value + values : value, width, buffer.byteLength / width)
  queuedLast(this, 'a fill')
  return this
}

Stream.prototype.upload = function (buffer, source): Promise<void> {
  openStream(this)
  checkMemory(buffer, 'buffer')
  openMemory(buffer)
  const bytes = checkSource(source, 'source')
  checkLengths(buffer.byteLength, 'source', bytes.length)
  const use = openStream(this)
  openMemory(buffer, use.driver)
  refuseCapture(this, use, 'upload()')
  const staged = stageUpload(this, buffer, bytes)
  // A caller need not look at it: the fault is told by whatever waits next.
  staged.catch(() => {})
  return staged
}

Stream.prototype.download = async function (buffer): Promise<Uint8Array> {
  const use = openStream(this)
  checkMemory(buffer, 'buffer')
  openMemory(buffer, use.driver)
  refuseCapture(this, use, 'download()')
  checkFitsArray(buffer, buffer.byteLength)
  return stageDownload(this, buffer)
}

Stream.prototype.uploader = function (buffer): WritableStream<Bytes> {
  const use = openStream(this)
  checkMemory(buffer, 'buffer')
  openMemory(buffer, use.driver)
  let offset = 0
  const sink = {
    write: async (chunk: Bytes): Promise<void> => {
      const bytes = checkSource(chunk, 'The chunk')
      const room = buffer.byteLength - offset
      if (bytes.length > room)
        throw outOfRange('The chunk', `at most ${room} bytes long: ${buffer} ends there`, bytes.length)
      const part = buffer.slice(offset, bytes.length)
      offset += bytes.length
      await this.upload(part, bytes)
    },
  }
  return new WritableStream(bare(sink), { highWaterMark: CHUNK_BYTES, size: sizeOf })
}

Stream.prototype.downloader = function (buffer, options): ReadableStream<Uint8Array> {
  const { chunkBytes = CHUNK_BYTES } = readOptions(options, ['chunkBytes'])
  const use = openStream(this)
  checkMemory(buffer, 'buffer')
  openMemory(buffer, use.driver)
  checkInteger(chunkBytes, 'options.chunkBytes', 1)
  let offset = 0
  const source = {
    pull: async (controller: { enqueue(chunk: Uint8Array): void; close(): void }): Promise<void> => {
      const length = Math.min(chunkBytes, buffer.byteLength - offset)
      if (length > 0) {
        const part = buffer.slice(offset, length)
        offset += length
        controller.enqueue(await this.download(part))
      }
      if (offset === buffer.byteLength) controller.close()
    },
  }
  return new ReadableStream(bare(source), bare({ highWaterMark: 0 }))
}

function checkMemory(value: unknown, name: string): asserts value is DeviceBuffer | PinnedBuffer {
  if (!isMemory(value)) throw invalidType(name, 'a DeviceBuffer or a PinnedBuffer', value)
}

function checkLengths(wanted: number, name: string, given: number): void {
  if (given !== wanted) throw outOfRange(name, `${wanted} bytes long, as the destination is (take a slice)`, given)
}

function checkSource(source: Bytes, name: string): Uint8Array {
  if (ArrayBuffer.isView(source) || types.isAnyArrayBuffer(source)) return bytesOf(source, name)
  throw invalidType(name, 'a typed array, a DataView or an ArrayBuffer', source)
}

/** How much a chunk fills the queue of an uploader. What is no chunk is refused when it is written, with a reason. */
function sizeOf(chunk?: Bytes): number {
  try {
    return chunk === undefined ? 0 : checkSource(chunk, 'The chunk').length
  } catch {
    return 0
  }
}

/** The staging memory is used anew long before a graph is launched. */
function refuseCapture(stream: Stream, { driver, handle }: OpenStream, what: string): void {
  if (!driver.streamIsCapturing(handle)) return
  throw stateError(
    'ERR_UNSUPPORTED',
    `${what} cannot be captured: ${stream} captures. Capture a copy() from or to a PinnedBuffer instead`,
  )
}
