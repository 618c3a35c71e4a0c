/** Moves bytes in the order of a stream: copies, fills, and ordinary arrays through pinned memory. */
import { webStreams } from '#platform'
import { checkArray, checkInteger, readOptions } from '../base/arguments.js'
import { type Bytes, bytesOf, checkSource, isBytes, type OwnBytes } from '../base/bytes.js'
import { describe, invalidType, invalidValue, outOfRange, stateError } from '../base/errors.js'
import type { Driver, FillWidth } from '../driver/driver.js'
import type { StreamCore } from '../streams/stream-core.js'
import { bufferCoreOf } from './buffer.js'
import { BufferCore } from './buffer-core.js'
import type { DeviceBuffer } from './device-buffer.js'
import type { PinnedBuffer } from './pinned-buffer.js'
import { queueCopies, queueCopy, queueFill, queueRows } from './queue-with-memory.js'
import { COPY_OPTIONS, type CopyOptions, checkRowsFit, readRows } from './row-layout.js'
import { stageDownload, stageUpload } from './staging.js'
import { type ViewConstructor, viewOf } from './views.js'

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
/** Room is made for this many copies at a time: streams need not take more. */
const MOST_AT_ONCE = 256
const FILL_OPTIONS = ['width'] as const

/** `stream.copy()`. */
export function copy(stream: StreamCore, destination: unknown, source: unknown, options?: CopyOptions): void {
  const rows = options === undefined ? 'all' : readRows(readOptions(options, COPY_OPTIONS))
  const { to, from } = checkEnds(destination, source)
  if (rows === 'all') checkLengths(to.byteLength, 'source', from.byteLength)
  else if (rows !== undefined) {
    checkRowsFit(to, rows.to, 'destination')
    checkRowsFit(from, rows.from, 'source')
  }
  stream.makeRoom(1)
  to.openFor(stream.driver)
  from.openFor(stream.driver)
  if (rows === 'all') queueCopy(stream, to, from, from.byteLength)
  else if (rows !== undefined) queueRows(stream, to, from, rows)
  stream.last = 'a copy'
}

/** `stream.copy()` of several. */
export function copyAll(stream: StreamCore, pairs: unknown, source: unknown, options: unknown): void {
  for (const [name, given] of [
    ['source', source],
    ['options', options],
  ] as const) {
    if (given !== undefined) throw invalidType(name, 'left out where copies are given as pairs', given)
  }
  const expected = 'an array of [destination, source]'
  const copies = checkArray(pairs, 'copies', expected).map((pair, index): Copied => {
    const name = `copies[${index}]`
    const [destination, source, ...rest] = checkArray(pair, name, '[destination, source]')
    if (rest.length > 0) throw invalidType(name, '[destination, source]', pair)
    const to = checkBuffer(destination, `${name}[0]`).checkOpen()
    const from = checkBuffer(source, `${name}[1]`).checkOpen()
    checkLengths(to.byteLength, `${name}[1]`, from.byteLength)
    return { to, from, name }
  })
  checkApart(copies)
  const openAll = (): void => {
    for (const { to, from } of copies) {
      to.openFor(stream.driver)
      from.openFor(stream.driver)
    }
  }
  openAll()
  // Begun, it is done whole: a host function that runs while a part finds no room may close what is left to copy.
  const cores = copies.flatMap(({ to, from }) => [to, from])
  BufferCore.keepAll(cores, () => {
    for (let at = 0; at < copies.length; at += MOST_AT_ONCE) {
      const some = copies.slice(at, at + MOST_AT_ONCE)
      stream.makeRoom(some.length)
      if (at === 0) openAll()
      queueCopies(stream, some)
    }
  })
  if (copies.length > 0) stream.last = 'copies'
}

interface Ends {
  readonly to: BufferCore
  readonly from: BufferCore
}

interface Copied extends Ends {
  readonly name: string
}

/** They are made in any order. Throws ERR_INVALID_ARG_VALUE where one writes what another reads or writes. */
function checkApart(copies: readonly Copied[]): void {
  const pieces = copies.flatMap(({ to, from, name }) => [
    { begin: to.pointer, end: to.pointer + to.byteLength, writes: true, name },
    { begin: from.pointer, end: from.pointer + from.byteLength, writes: false, name },
  ])
  pieces.sort((a, b) => a.begin - b.begin)
  // The furthest ends so far, of what is written and of anything, and whose they are.
  let written = pieces[0]
  let touched = pieces[0]
  for (const piece of pieces.slice(1)) {
    if (piece.begin === piece.end) continue
    const before = piece.writes ? touched : written?.writes === true ? written : undefined
    if (before !== undefined && before.begin !== before.end && before.end > piece.begin) {
      throw invalidValue(
        `${before.name} and ${piece.name} touch the same memory, and one of them writes it: copies of one call are made in any order`,
      )
    }
    if (touched === undefined || piece.end > touched.end) touched = piece
    if (piece.writes && (written?.writes !== true || piece.end > written.end)) written = piece
  }
}

/** The buffers of a copy, for a node of a graph. */
export function checkCopy(destination: unknown, source: unknown): Ends {
  const ends = checkEnds(destination, source)
  checkLengths(ends.to.byteLength, 'source', ends.from.byteLength)
  return ends
}

function checkEnds(destination: unknown, source: unknown): Ends {
  const to = checkBuffer(destination, 'destination')
  const from = checkBuffer(source, 'source')
  to.checkOpen()
  from.checkOpen()
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
  return stageUpload(stream, to, bytes)
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
  return new (webStreams().WritableStream)(sink, { highWaterMark: CHUNK_BYTES, size: sizeOf })
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
  return new (webStreams().ReadableStream)(source, { highWaterMark: 0 })
}

export function checkBuffer(value: unknown, name: string): BufferCore {
  const core = bufferCoreOf(value)
  if (core === undefined) throw invalidType(name, 'a DeviceBuffer or a PinnedBuffer', value)
  return core
}

function checkLengths(wanted: number, name: string, given: number, as = 'the destination'): void {
  if (given !== wanted) throw outOfRange(name, `${wanted} bytes long, as ${as} is (take a slice)`, given)
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
