/** Moves bytes in the order of a stream: copies, fills, and ordinary arrays through pinned memory. */
import { types, webStreams } from '#platform'
import { bare, bytesOf, checkInteger, readOptions } from '../base/arguments.js'
import type { OwnBytes } from '../base/bytes.js'
import { describe, invalidType, invalidValue, outOfRange, stateError } from '../base/errors.js'
import type { Driver, FillWidth } from '../driver/driver.js'
import type { StreamCore } from '../streams/stream-core.js'
import { bufferCoreOf } from './buffer.js'
import type { BufferCore } from './buffer-core.js'
import type { DeviceBuffer } from './device-buffer.js'
import type { PinnedBuffer } from './pinned-buffer.js'
import { queueCopy, queueFill } from './queue-with-memory.js'
import { stageDownload, stageUpload } from './staging.js'
import { type ViewConstructor, viewOf } from './views.js'

/** Bytes of an ordinary array: a typed array, a DataView, a Buffer, or a whole ArrayBuffer, shared or not. */
export type Bytes = ArrayBufferView | ArrayBufferLike

/** The width of the value that a fill writes. */
export interface FillOptions {
  /** The bytes of the value: 1, 2 or 4. Default 1. */
  readonly width?: FillWidth | undefined
}

/** The options of a web stream that reads a buffer. */
export interface DownloaderOptions {
  /** The bytes of each chunk but the last; at least 1. Default 4 MiB. */
  readonly chunkBytes?: number | undefined
}

type Buffer = DeviceBuffer | PinnedBuffer

const CHUNK_BYTES = 4 * 1024 * 1024
const FILL_OPTIONS = ['width'] as const

/** `stream.copy()`. */
export function copy(stream: StreamCore, destination: unknown, source: unknown): void {
  const { to, from } = checkCopy(destination, source)
  stream.makeRoom(1)
  queueCopy(stream, to.openFor(stream.driver), from.openFor(stream.driver), from.byteLength)
  stream.last = 'a copy'
}

/** The buffers of a copy. */
export function checkCopy(
  destination: unknown,
  source: unknown,
): { readonly to: BufferCore; readonly from: BufferCore } {
  const to = checkBuffer(destination, 'destination')
  const from = checkBuffer(source, 'source')
  to.checkOpen()
  from.checkOpen()
  checkLengths(to.byteLength, 'source', from.byteLength)
  return { to, from }
}

/** `stream.fill()`. */
export function fill(stream: StreamCore, buffer: unknown, value: number, options: FillOptions | undefined): void {
  const checked = checkFill(buffer, value, options)
  stream.makeRoom(1)
  const { to, width } = openFill(checked, stream.driver)
  queueFill(stream, to, checked.value, width, to.byteLength / width)
  stream.last = 'a fill'
}

/** What a fill writes, and where. */
export interface CheckedFill {
  readonly to: BufferCore
  /** Not negative. */
  readonly value: number
  readonly width: FillWidth
}

export function checkFill(buffer: unknown, value: number, options: FillOptions | undefined): CheckedFill {
  const { width = 1 } = readOptions(options, FILL_OPTIONS)
  const to = checkBuffer(buffer, 'buffer')
  to.checkOpen()
  checkInteger(value, 'value')
  if (width !== 1 && width !== 2 && width !== 4) {
    throw invalidValue(`options.width must be 1, 2 or 4, not ${describe(width)}`)
  }
  const values = 2 ** (8 * width)
  if (value < -values / 2 || value >= values) {
    throw outOfRange('value', `from ${-values / 2} to ${values - 1} in ${width} byte(s)`, value)
  }
  return { to, value: value < 0 ? value + values : value, width }
}

export function openFill(fill: CheckedFill, driver: Driver): CheckedFill {
  const { to, width } = fill
  to.openFor(driver)
  if (to.byteLength % width !== 0 || to.pointer % width !== 0) {
    throw invalidValue(`${to} is no whole number of values of ${width} bytes, or begins in the middle of one`)
  }
  return fill
}

/** `stream.upload()`. */
export function upload(stream: StreamCore, buffer: unknown, source: unknown): Promise<void> {
  const to = checkBuffer(buffer, 'buffer')
  to.checkOpen()
  const bytes = checkSource(source, 'source')
  checkLengths(to.byteLength, 'source', bytes.length)
  // Reading the source may have run code of the program.
  stream.checkOpen()
  to.openFor(stream.driver)
  refuseCapture(stream, 'upload()')
  const staged = stageUpload(stream, to, bytes)
  // A caller need not look at it: the next wait reports the fault.
  staged.catch(() => {})
  return staged
}

/** `stream.download()`: to a new array of a constructor, or to an array that is given. */
export async function download(stream: StreamCore, buffer: unknown, to: unknown): Promise<Bytes> {
  const from = checkBuffer(buffer, 'buffer').openFor(stream.driver)
  const array = typeof to === 'function' ? newArray(from, to, stream) : to
  if (!isBytes(array)) throw invalidType('into', 'an array to fill, or a constructor such as Float32Array', array)
  const bytes = bytesOf(array, 'into')
  checkLengths(from.byteLength, 'into', bytes.length, 'the buffer')
  // A constructor of the program's may have closed them.
  stream.checkOpen()
  from.checkOpen()
  refuseCapture(stream, 'download()')
  await stageDownload(stream, from, bytes)
  return array
}

function newArray(from: BufferCore, type: object, { driver }: StreamCore): ArrayBufferView {
  return viewOf(type as ViewConstructor<ArrayBufferView>, from, 0, () => driver.memory.newArrayBuffer(from.byteLength))
}

/** `stream.uploader()`, with the function that uploads each chunk. */
export function uploader(
  stream: StreamCore,
  buffer: Buffer,
  uploadPart: (part: Buffer, bytes: Bytes) => Promise<void>,
): WritableStream<Bytes> {
  checkBuffer(buffer, 'buffer').openFor(stream.driver)
  let offset = 0
  const sink = {
    write: async (chunk: Bytes): Promise<void> => {
      const bytes = checkSource(chunk, 'The chunk')
      const room = buffer.byteLength - offset
      if (bytes.length > room)
        throw outOfRange('The chunk', `at most ${room} bytes long: ${buffer} ends there`, bytes.length)
      const part = buffer.slice(offset, bytes.length)
      offset += bytes.length
      await uploadPart(part, bytes)
    },
  }
  return new (webStreams().WritableStream)(bare(sink), { highWaterMark: CHUNK_BYTES, size: sizeOf })
}

/** `stream.downloader()`, with the function that downloads each chunk. */
export function downloader(
  stream: StreamCore,
  buffer: Buffer,
  chunkBytes: unknown,
  downloadPart: (part: Buffer) => Promise<OwnBytes>,
): ReadableStream<OwnBytes> {
  checkBuffer(buffer, 'buffer').openFor(stream.driver)
  const longest = chunkBytes === undefined ? CHUNK_BYTES : checkInteger(chunkBytes, 'options.chunkBytes', 1)
  let offset = 0
  const source = {
    pull: async (controller: { enqueue(chunk: OwnBytes): void; close(): void }): Promise<void> => {
      const length = Math.min(longest, buffer.byteLength - offset)
      if (length > 0) {
        const part = buffer.slice(offset, length)
        offset += length
        controller.enqueue(await downloadPart(part))
      }
      if (offset === buffer.byteLength) controller.close()
    },
  }
  return new (webStreams().ReadableStream)(bare(source), bare({ highWaterMark: 0 }))
}

function checkBuffer(value: unknown, name: string): BufferCore {
  const core = bufferCoreOf(value)
  if (core === undefined) throw invalidType(name, 'a DeviceBuffer or a PinnedBuffer', value)
  return core
}

function checkLengths(wanted: number, name: string, given: number, as = 'the destination'): void {
  if (given !== wanted) throw outOfRange(name, `${wanted} bytes long, as ${as} is (take a slice)`, given)
}

const isBytes = (value: unknown): value is Bytes => ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)

function checkSource(source: unknown, name: string): Uint8Array {
  if (isBytes(source)) return bytesOf(source, name)
  throw invalidType(name, 'a typed array, a DataView or an ArrayBuffer', source)
}

/** The chunk's part of an uploader's queue. A value that is no chunk is refused when it is written, with a reason. */
function sizeOf(chunk?: Bytes): number {
  try {
    return chunk === undefined ? 0 : checkSource(chunk, 'The chunk').length
  } catch {
    return 0
  }
}

/** The staging memory is used anew long before a graph is launched. */
function refuseCapture(stream: StreamCore, what: string): void {
  if (!stream.driver.streamIsCapturing(stream.handle)) return
  throw stateError(
    'ERR_UNSUPPORTED',
    `${what} cannot be captured: ${stream} captures. Capture a copy() from or to a PinnedBuffer instead`,
  )
}
