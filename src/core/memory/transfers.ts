/** Moves bytes in the order of a stream: copies, fills, and ordinary arrays through pinned memory. */
import {
  checkArray,
  checkChoice,
  checkInteger,
  checkIntegers,
  checkSignal,
  type Given,
  isOptionsObject,
  readOptions,
} from '../../foundation/base/arguments.js'
import { type Bytes, bytesOf, checkSource, isBytes, type OwnBytes } from '../../foundation/base/bytes.js'
import { ELEMENT_TYPES, FLOAT_ACCESS } from '../../foundation/base/element-types.js'
import { describe, invalidType, invalidValue, outOfRange, stateError } from '../../foundation/base/errors.js'
import { process } from '../../foundation/base/node-modules.js'
import type { Driver } from '../../foundation/driver/driver.js'
import { whenAborted } from '../../foundation/driver/finished.js'
import type { FillWidth } from '../../foundation/driver/queued-work.js'
import { texelBytes } from '../../foundation/driver/texture-driver.js'
import { extentOf, type MemoryRows } from '../../foundation/driver/touched-memory.js'
import type { StreamImpl } from '../streams/stream-impl.js'
import { BufferImpl, bufferImplOf, type ViewConstructor, viewOf } from './buffer.js'
import type { DeviceBuffer } from './device-buffer.js'
import { ArrayImpl, arrayImplOf } from './opaque-array.js'
import type { PinnedBuffer } from './pinned-buffer.js'
import { queueCopies, queueCopy, queueFill, queueRows } from './queue-with-memory.js'
import { stageDownload, stageUpload, type Target } from './staging.js'

/** The bytes of two buffers that a copy of rows touches. Slices of the buffers set where the rows begin. */
export interface CopyOptions {
  /** The rows and the bytes of each, or the planes, the rows of each and the bytes of each row. */
  readonly shape:
    | readonly [rows: number, rowLength: number]
    | readonly [planes: number, rows: number, rowLength: number]
  /**
   * Bytes from the beginning of one row of the destination to the next, or [from one plane to the next, from one row to the
   * next]: one number less than `shape` has. Default: no gaps.
   */
  readonly destinationStrides?: readonly number[] | undefined
  /** Bytes from one row of the source to the next, as `destinationStrides`. Default: no gaps. */
  readonly sourceStrides?: readonly number[] | undefined
}

const COPY_OPTIONS = ['shape', 'destinationStrides', 'sourceStrides'] as const

/** The type of the value that a fill writes, or the width of an integer of either sign. */
export interface FillValueOptions {
  /**
   * The type of the value. A float is rounded to its type; an integer must be in the range of its type. Default: an integer of `width` bytes,
   * signed or not.
   */
  readonly type?: 'f32' | 'f16' | 'bf16' | 'i32' | 'u32' | 'i16' | 'u16' | 'i8' | 'u8' | undefined
  /** The bytes of an integer: 1, 2 or 4. Default 1. Excludes `type`. */
  readonly width?: FillWidth | undefined
}

/** How the bytes of a download are waited for. */
export interface DownloadOptions {
  /** Gives up the bytes: the promise rejects with the signal's reason, and an array that was given is not written any more. The copy goes on. */
  readonly signal?: AbortSignal | undefined
}

/** The type of the value that a fill writes, and the rows that it fills. */
export interface FillOptions extends FillValueOptions {
  /** The rows and the bytes of each. Default: the whole buffer. Take a slice to say where the rows begin. */
  readonly shape?: readonly [rows: number, rowLength: number] | undefined
  /** [Bytes from the beginning of one row to the next]. Default: no gaps. */
  readonly strides?: readonly [row: number] | undefined
}

/** The options of a web stream that reads a buffer. */
export interface DownloaderOptions {
  /** The bytes of each chunk but the last; at least 1. Default 4 MiB. */
  readonly chunkBytes?: number | undefined
}

type Buffer = DeviceBuffer | PinnedBuffer

const CHUNK_BYTES = 4 * 1024 * 1024
/** The most copies that are reserved at a time: hardware queues may not have room for more. */
const MOST_AT_ONCE = 256
const VALUE_OPTIONS = ['width', 'type'] as const
const FILL_OPTIONS = [...VALUE_OPTIONS, 'shape', 'strides'] as const
const FLOAT_TYPES = ['f32', 'f16', 'bf16'] as const
const INTEGER_TYPES = ['i32', 'u32', 'i16', 'u16', 'i8', 'u8'] as const
const FILL_TYPES = [...FLOAT_TYPES, ...INTEGER_TYPES]
type IntegerType = (typeof INTEGER_TYPES)[number]
type FloatType = (typeof FLOAT_TYPES)[number]

/** `stream.copy()`. */
export function copy(stream: StreamImpl, destination: unknown, source: unknown, options?: CopyOptions): void {
  const given = options === undefined ? undefined : readOptions(options, COPY_OPTIONS)
  const read = given === undefined ? 'all' : readRows(given)
  const { to, from } = checkEnds(destination, source)
  const rows =
    read === 'all' || read === undefined
      ? read
      : {
          to: rowsIn(to, read.to, given?.destinationStrides, 'destination'),
          from: rowsIn(from, read.from, given?.sourceStrides, 'source'),
        }
  checkArrays(stream, arrayImplOf(destination), arrayImplOf(source))
  if (rows === 'all') checkLengths(to.byteLength, 'source', from.byteLength)
  else if (rows !== undefined) {
    checkRowsFit(to, rows.to, 'destination')
    checkRowsFit(from, rows.from, 'source')
  }
  stream.reserve(1)
  to.openFor(stream.driver)
  from.openFor(stream.driver)
  if (rows === 'all') checkNoOverlap(to, from)
  else if (rows !== undefined) checkRowsApart(to, from, rows)
  if (rows === 'all') queueCopy(stream, to, from, from.byteLength)
  else if (rows !== undefined) queueRows(stream, to, from, rows)
  stream.lastWork = 'a copy'
}

/** `stream.copy()` of several. */
export function copyAll(stream: StreamImpl, pairs: unknown, source: unknown, options: unknown): void {
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
    checkNoOverlap(to, from, `${name}[0]`, `${name}[1]`)
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
  // All or nothing: a host function that runs while the queue is full may close a buffer of the remaining copies.
  const impls = copies.flatMap(({ to, from }) => [to, from])
  BufferImpl.retainDuring(impls, () => {
    for (let at = 0; at < copies.length; at += MOST_AT_ONCE) {
      const some = copies.slice(at, at + MOST_AT_ONCE)
      stream.reserve(some.length)
      if (at === 0) openAll()
      queueCopies(stream, some)
    }
  })
  if (copies.length > 0) stream.lastWork = 'copies'
}

interface Ends {
  readonly to: BufferImpl
  readonly from: BufferImpl
}

interface Copied extends Ends {
  readonly name: string
}

/** Throws ERR_INVALID_ARG_VALUE if one copy writes what another reads or writes: they are made in any order. */
function checkApart(copies: readonly Copied[]): void {
  const pieces = copies.flatMap(({ to, from, name }) => [
    { begin: to.pointer, end: to.pointer + to.byteLength, writes: true, name },
    { begin: from.pointer, end: from.pointer + from.byteLength, writes: false, name },
  ])
  pieces.sort((a, b) => a.begin - b.begin)
  // The pieces that reach furthest so far: among those that are written, and among all.
  let written = pieces[0]
  let touched = pieces[0]
  for (const piece of pieces.slice(1)) {
    if (piece.begin === piece.end) continue
    const before = piece.writes ? touched : written?.writes === true ? written : undefined
    if (before !== undefined && before.begin !== before.end && before.end > piece.begin) {
      throw invalidValue(
        `${before.name} (${rangeOf(before)}) and ${piece.name} (${rangeOf(piece)}) touch the same memory, and one of them writes it: copies of one call are made in any order`,
      )
    }
    if (touched === undefined || piece.end > touched.end) touched = piece
    if (piece.writes && (written?.writes !== true || piece.end > written.end)) written = piece
  }
}

const rangeOf = ({ begin, end }: { readonly begin: number; readonly end: number }): string =>
  `0x${begin.toString(16)} to 0x${end.toString(16)}`

/**
 * Throws ERR_INVALID_ARG_VALUE for a copy that reads what it writes, also if the two are the same bytes: CUDA says nothing of what is
 * there afterwards, and a GPU copies the parts of it in any order.
 */
function checkNoOverlap(to: BufferImpl, from: BufferImpl, toName = 'destination', fromName = 'source'): void {
  const [there, here] = [to.pointer, from.pointer]
  const { byteLength } = to
  // The addresses of two drivers have nothing to do with each other.
  if (to.allocation.driver !== from.allocation.driver) return
  if (there < here + byteLength && here < there + byteLength) {
    const given = { to, from, toLength: byteLength, fromLength: byteLength }
    throw overlapError(given, `${toName} and ${fromName} overlap`)
  }
}

/** Does the same as `checkNoOverlap()`, for rows: those of one image may lie between those of another. */
function checkRowsApart(
  to: BufferImpl,
  from: BufferImpl,
  rows: { readonly to: MemoryRows; readonly from: MemoryRows },
): void {
  const [toLength, fromLength] = [extentOf(rows.to), extentOf(rows.from)]
  if (to.pointer >= from.pointer + fromLength || from.pointer >= to.pointer + toLength) return
  if (lieBesideEachOther(to, from, rows)) return
  const [there, here] = [piecesOf(rows.to, to.pointer), piecesOf(rows.from, from.pointer)]
  // Both are in the order of their addresses.
  for (let [a, b] = [there.next(), here.next()]; !(a.done || b.done); ) {
    if (a.value.end <= b.value.begin) a = there.next()
    else if (b.value.end <= a.value.begin) b = here.next()
    else {
      const what = `Rows of destination and source overlap, at ${rangeOf(a.value)} and ${rangeOf(b.value)}`
      throw overlapError({ to, from, toLength, fromLength }, what)
    }
  }
}

/** Do both sides lie within one image, in different columns? Then no row has to be checked. */
function lieBesideEachOther(
  to: BufferImpl,
  from: BufferImpl,
  rows: { readonly to: MemoryRows; readonly from: MemoryRows },
): boolean {
  const { rowDistance, rowLength } = rows.to
  if (rows.from.rowDistance !== rowDistance) return false
  const distance = (((to.pointer - from.pointer) % rowDistance) + rowDistance) % rowDistance
  return distance >= rowLength && rowDistance - distance >= rowLength
}

/** The ranges of memory that rows have: one for rows that have no gaps between them. */
function* piecesOf(
  { rowLength, rows, rowDistance, matrices, matrixDistance }: MemoryRows,
  pointer: number,
): Generator<{ readonly begin: number; readonly end: number }, undefined> {
  const isDense = rows === 1 || rowDistance === rowLength
  const [count, length] = isDense ? [1, rows * rowLength] : [rows, rowLength]
  for (let matrix = 0; matrix < matrices; matrix += 1) {
    for (let row = 0; row < count; row += 1) {
      const begin = pointer + matrix * matrixDistance + row * rowDistance
      yield { begin, end: begin + length }
    }
  }
  return undefined
}

interface OverlappingEnds extends Ends {
  readonly toLength: number
  readonly fromLength: number
}

function overlapError({ to, from, toLength, fromLength }: OverlappingEnds, what: string): Error {
  const isOne = to.whole === from.whole
  const range = (impl: BufferImpl, length: number): string =>
    isOne
      ? `bytes ${impl.byteOffset} to ${impl.byteOffset + length}`
      : rangeOf({ begin: impl.pointer, end: impl.pointer + length })
  const where = `${range(to, toLength)} and ${range(from, fromLength)}${isOne ? ` of ${to.whole}` : ''}`
  return invalidValue(`${what} (${where}), and the result would be undefined: copy by way of other memory`)
}

/** The buffers of a copy, for a node of a graph. */
export function checkCopy(destination: unknown, source: unknown): Ends {
  const ends = checkEnds(destination, source)
  checkLengths(ends.to.byteLength, 'source', ends.from.byteLength)
  checkNoOverlap(ends.to, ends.from)
  return ends
}

function checkEnds(destination: unknown, source: unknown): Ends {
  const to = checkMemory(destination, 'destination')
  const from = checkMemory(source, 'source')
  to.checkOpen()
  from.checkOpen()
  return { to, from }
}

/** Throws unless arrays are on the device of the stream and, if both ends are arrays, have the same shape. */
function checkArrays(stream: StreamImpl, to: ArrayImpl | undefined, from: ArrayImpl | undefined): void {
  to?.checkDevice(stream)
  from?.checkDevice(stream)
  if (to === undefined || from === undefined) return
  const extent = ({ array }: ArrayImpl): string => `${array.width * texelBytes(array)},${array.height},${array.depth}`
  if (extent(to) === extent(from)) return
  throw invalidValue(`${to} and ${from} have different shapes: copy by way of a buffer`)
}

/** A buffer or a CUDA array. */
const checkMemory = (value: unknown, name: string): BufferImpl => arrayImplOf(value) ?? checkBuffer(value, name)

/** A buffer, or a CUDA array on the device of the stream. */
function checkTransferred(stream: StreamImpl, value: unknown, name: string): BufferImpl {
  const array = arrayImplOf(value)
  if (array === undefined) return checkBuffer(value, name)
  array.checkOpen().openFor(stream.driver)
  array.checkDevice(stream)
  return array
}

/** `stream.fill()`. */
export function fill(stream: StreamImpl, buffer: unknown, value: number, options: FillOptions | undefined): void {
  const checked = checkFillInStream(buffer, value, options)
  stream.reserve(1)
  queueFill(stream, openFill(checked, stream.driver).to, checked)
  stream.lastWork = 'a fill'
}

/** A value as a fill writes it. */
interface FilledValue {
  /** The value, which is not negative. */
  readonly value: number
  readonly width: FillWidth
}

/** The destination and the value of a fill. */
export interface CheckedFill extends FilledValue {
  readonly to: BufferImpl
  readonly count: number
  readonly rows: MemoryRows | undefined
}

/** A fill of a whole buffer, for a node of a graph. */
export function checkFill(buffer: unknown, value: number, options: FillValueOptions | undefined): CheckedFill {
  const { width, type } = readOptions(options, VALUE_OPTIONS)
  return checkFillOfAll(buffer, value, width, type)
}

function checkFillOfAll(buffer: unknown, value: number, given: unknown, type: unknown): CheckedFill {
  const to = checkBuffer(buffer, 'buffer').checkOpen()
  const { value: bits, width } = checkFilledValue(value, given, type)
  return { to, value: bits, width, count: to.byteLength / width, rows: undefined }
}

function checkFillInStream(buffer: unknown, value: number, options: FillOptions | undefined): CheckedFill {
  const { width, type, shape, strides } = readOptions(options, FILL_OPTIONS)
  if (shape === undefined && strides === undefined) return checkFillOfAll(buffer, value, width, type)
  const all = readFilledRows(shape, strides)
  const to = checkBuffer(buffer, 'buffer').checkOpen()
  const filled = checkFilledValue(value, width, type)
  const { rowLength, rows, rowDistance } = all
  const byteLength = rowLength * rows
  if (byteLength > 0) checkRowsFit(to, all, 'buffer')
  const isDense = rows === 1 || rowDistance === rowLength
  for (const [name, bytes] of [
    ['options.shape[1]', rowLength],
    ['options.strides[0]', isDense ? 0 : rowDistance],
  ] as const) {
    if (bytes % filled.width === 0) continue
    throw invalidValue(`${name} must be a whole number of values of ${filled.width} bytes, not ${bytes}`)
  }
  return { to, ...filled, count: byteLength / filled.width, rows: isDense ? undefined : all }
}

/** The rows of a fill: CUDA fills no planes. */
function readFilledRows(shape: unknown, strides: unknown): MemoryRows {
  const expected = '[rows, rowLength]'
  if (shape === undefined) throw invalidValue(`options.strides needs options.shape, which must be ${expected}`)
  const given = checkIntegers(shape, 'options.shape', expected, 0)
  if (given.length !== 2) throw invalidValue(`options.shape must be ${expected}, not (${given.join(', ')})`)
  const [rows = 0, rowLength = 0] = given
  return { rowLength, rows, matrices: 1, ...readStrides(strides, 'options.strides', 1, rowLength, rows) }
}

function checkFilledValue(value: number, given: unknown, type: unknown): FilledValue {
  const width = given === undefined ? 1 : given
  if (type !== undefined) {
    if (given !== undefined) throw invalidValue('options.width and options.type exclude each other')
    return bitsOf(value, type)
  }
  if (typeof value === 'number' && !Number.isInteger(value)) {
    throw invalidType('value', 'an integer', value, "a float has a type, as in fill(buffer, 1.5, { type: 'f32' })")
  }
  checkInteger(value, 'value')
  if (width !== 1 && width !== 2 && width !== 4) {
    throw invalidValue(`options.width must be 1, 2 or 4, not ${describe(width)}`)
  }
  const values = 2 ** (8 * width)
  if (value < -values / 2 || value >= values) {
    const wider = width < 4 && value >= -(2 ** 31) && value < 2 ** 32
    const way = wider ? 'a wider value has a width, as in fill(buffer, value, { width: 4 })' : undefined
    throw outOfRange('value', `from ${-values / 2} to ${values - 1} in ${width} byte(s)`, value, way)
  }
  return { value: value < 0 ? value + values : value, width }
}

/** The bits of a value of a type, which CUDA fills memory with. */
function bitsOf(value: unknown, type: unknown): FilledValue {
  if (type === 'f64' || type === 'i64' || type === 'u64') {
    const way = 'upload an array, or launch a kernel; for 0 leave the type out'
    throw stateError(
      'ERR_UNSUPPORTED',
      `options.type is '${type}', and CUDA fills with values of at most 4 bytes: ${way}`,
    )
  }
  const wanted = checkChoice(type, 'options.type', FILL_TYPES)
  return isIntegerType(wanted) ? bitsOfInteger(value, wanted) : bitsOfFloat(value, wanted)
}

const isIntegerType = (type: IntegerType | FloatType): type is IntegerType => 'range' in ELEMENT_TYPES[type]

function bitsOfInteger(value: unknown, type: IntegerType): FilledValue {
  const { bytes, range } = ELEMENT_TYPES[type]
  const [least, most] = range
  const given = checkInteger(value, 'value', least, most, () => `from ${least} to ${most}, as '${type}' has them`)
  return { value: given < 0 ? given + 2 ** (8 * bytes) : given, width: bytes }
}

function bitsOfFloat(value: unknown, float: FloatType): FilledValue {
  if (typeof value !== 'number') throw invalidType('value', 'a number', value)
  const { get, set } = FLOAT_ACCESS[float]
  const view = new DataView(new ArrayBuffer(4))
  set(view, 0, value)
  if (Number.isFinite(value) && !Number.isFinite(get(view, 0))) {
    throw outOfRange('value', `one that '${float}' can represent, or Infinity`, value)
  }
  return float === 'f32' ? { value: view.getUint32(0, true), width: 4 } : { value: view.getUint16(0, true), width: 2 }
}

export function openFill(fill: CheckedFill, driver: Driver): CheckedFill {
  const { to, width, count } = fill
  to.openFor(driver)
  if (count === 0) return fill
  if (!Number.isInteger(count) || to.pointer % width !== 0) {
    throw invalidValue(`${to} is no whole number of values of ${width} bytes, or begins in the middle of one`)
  }
  return fill
}

/** Throws for options of a call that takes none: JavaScript would ignore a signal, and the program would believe that it can give up. */
export function refuseOptions(call: string, options: unknown): void {
  if (options !== undefined) throw invalidType('options', `left out, as ${call}() has none`, options, TO_GIVE_UP)
}

const TO_GIVE_UP = 'await stream.finished({ signal }) first, which a signal can give up'

/** `stream.upload()`. `isAwaitable`: the program gets the promise. */
export function upload(stream: StreamImpl, buffer: unknown, source: unknown, isAwaitable = true): Promise<void> {
  const to = checkTransferred(stream, buffer, 'buffer')
  to.checkOpen()
  const bytes = checkSource(source, 'source')
  checkLengths(to.byteLength, 'source', bytes.length, 'the destination', source)
  // Reading the source may have run code of the program.
  stream.checkOpen()
  to.openFor(stream.driver)
  refuseCapture(stream, 'upload()')
  return stageUpload(stream, to, bytes, isAwaitable)
}

/** What the program gives `stream.download()` behind the buffer: an array or a constructor, options, or both. */
export interface DownloadTarget {
  readonly to: unknown
  readonly signal: AbortSignal | undefined
}

/** Reads what is given behind the buffer. Throws ERR_INVALID_ARG_TYPE. */
export function downloadTarget(to: unknown, options: unknown): DownloadTarget {
  const isOptions = options === undefined && isOptionsObject(to)
  const given = readOptions<DownloadOptions, 'signal'>((isOptions ? to : options) as DownloadOptions, ['signal'])
  return { to: isOptions || to === undefined ? Uint8Array : to, signal: checkSignal(given.signal) }
}

/** `stream.download()`: to a new array made by a constructor, or to an existing one. */
export async function download(stream: StreamImpl, buffer: unknown, { to, signal }: DownloadTarget): Promise<Bytes> {
  signal?.throwIfAborted()
  const from = checkTransferred(stream, buffer, 'buffer').openFor(stream.driver)
  const array = typeof to === 'function' ? newArray(from, to, stream) : to
  if (!isBytes(array)) {
    throw invalidType('into', 'an array to fill, or a constructor such as Float32Array', array)
  }
  const bytes = bytesOf(array, 'into')
  checkLengths(from.byteLength, 'into', bytes.length, 'the buffer', array)
  // A constructor of the program may have closed them.
  stream.checkOpen()
  from.checkOpen()
  refuseCapture(stream, 'download()')
  const target = { into: bytes, isGivenUp: false }
  const downloaded = stageDownload(stream, from, target)
  if (signal === undefined) await downloaded
  else await unlessAborted(signal, downloaded, target)
  return array
}

/** Waits for a download until the signal is aborted: from then on its array is not written. */
function unlessAborted(signal: AbortSignal, downloaded: Promise<void>, target: Target): Promise<void> {
  return new Promise((resolve, reject) => {
    const forget = whenAborted(signal, () => {
      target.isGivenUp = true
      reject(signal.reason)
    })
    downloaded.then(resolve, reject).finally(forget)
  })
}

function newArray(from: BufferImpl, type: object, { driver }: StreamImpl): ArrayBufferView {
  return viewOf(type as ViewConstructor<ArrayBufferView>, from, 0, () => driver.memory.newArrayBuffer(from.byteLength))
}

/** `stream.uploader()`, with the function that uploads each chunk. */
export function uploader(
  stream: StreamImpl,
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
      const part = buffer.subarray(offset, offset + bytes.length)
      offset += bytes.length
      await uploadPart(part, bytes)
    },
  }
  return new (webStreams().WritableStream)(sink, { highWaterMark: CHUNK_BYTES, size: sizeOf })
}

/** The classes of Node: those in globalThis may have been replaced by the program. Few programs need them, and they take milliseconds to load. */
const webStreams = () => process.getBuiltinModule('node:stream/web')

/** `stream.downloader()`, with the function that downloads each chunk. */
export function downloader(
  stream: StreamImpl,
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
        const part = buffer.subarray(offset, offset + length)
        offset += length
        controller.enqueue(await downloadPart(part))
      }
      if (offset === buffer.byteLength) controller.close()
    },
  }
  return new (webStreams().ReadableStream)(source, { highWaterMark: 0 })
}

export function checkBuffer(value: unknown, name: string): BufferImpl {
  const impl = bufferImplOf(value)
  if (impl !== undefined) return impl
  const way = isBytes(value) ? 'stream.upload(buffer, array) and stream.download(buffer, array) take arrays' : undefined
  throw invalidType(name, 'a DeviceBuffer or a PinnedBuffer', value, way)
}

/** @param array The array of the program that is as long as `given` says, if it is one. */
function checkLengths(wanted: number, name: string, given: number, as = 'the destination', array?: unknown): void {
  if (given === wanted) return
  const count = ArrayBuffer.isView(array) ? Reflect.get(array, 'length') : undefined
  // The buffer has as many bytes as the array has elements.
  const way =
    count === wanted ? `${count} elements have ${given} bytes, and device.alloc() takes bytes, not elements` : undefined
  throw outOfRange(name, `${wanted} bytes long, as ${as} is (take a slice)`, given, way)
}

/** The size of a chunk in an uploader's queue. A value that is no chunk is refused with a reason when it is written. */
function sizeOf(chunk?: Bytes): number {
  try {
    return chunk === undefined ? 0 : checkSource(chunk, 'The chunk').length
  } catch {
    return 0
  }
}

/** The staging memory is reused long before a graph is launched. */
function refuseCapture(stream: StreamImpl, what: string): void {
  if (!stream.driver.streams.isCapturing(stream.handle)) return
  throw stateError(
    'ERR_UNSUPPORTED',
    `${what} cannot be captured: ${stream} captures. Capture a copy() from or to a PinnedBuffer instead`,
  )
}

/** The rows of both buffers; undefined if there are none. */
function readRows(
  given: Given<CopyOptions, (typeof COPY_OPTIONS)[number]>,
): { readonly to: MemoryRows; readonly from: MemoryRows } | undefined {
  const expected = '[rows, rowLength] or [planes, rows, rowLength]'
  const shape = checkIntegers(given.shape, 'options.shape', expected, 0)
  if (shape.length !== 2 && shape.length !== 3)
    throw invalidValue(`options.shape must be ${expected}, not (${shape.join(', ')})`)
  const [rowLength = 0, rows = 0, matrices = 1] = [...shape].reverse()
  const end = (strides: unknown, name: string): MemoryRows => {
    const { rowDistance, matrixDistance } = readStrides(strides, name, shape.length - 1, rowLength, rows)
    return { rowLength, rows, rowDistance, matrices, matrixDistance }
  }
  const to = end(given.destinationStrides, 'options.destinationStrides')
  const from = end(given.sourceStrides, 'options.sourceStrides')
  return shape.includes(0) ? undefined : { to, from }
}

function readStrides(
  strides: unknown,
  name: string,
  count: number,
  rowLength: number,
  rows: number,
): Pick<MemoryRows, 'rowDistance' | 'matrixDistance'> {
  if (strides === undefined) return { rowDistance: rowLength, matrixDistance: rows * rowLength }
  const given = checkArray(strides, name, 'an array of distances in bytes')
  if (given.length !== count)
    throw invalidValue(`${name} must have ${count} number(s), as options.shape has one more, not ${given.length}`)
  const rowAt = count - 1
  const rowDistance = checkInteger(given[rowAt], `${name}[${rowAt}]`, rowLength)
  if (count === 1) return { rowDistance, matrixDistance: rows * rowDistance }
  const matrixDistance = checkInteger(given[0], `${name}[0]`, rows * rowDistance)
  if (rowDistance === 0 || matrixDistance % rowDistance === 0) return { rowDistance, matrixDistance }
  throw invalidValue(
    `${name}[0] must be a whole number of rows' distances of ${rowDistance} bytes, not ${matrixDistance}`,
  )
}

/** The rows of one end of a copy: those of a CUDA array have its own distances. Throws ERR_OUT_OF_RANGE if they do not lie within the array. */
function rowsIn(impl: BufferImpl, rows: MemoryRows, strides: unknown, name: string): MemoryRows {
  if (!(impl instanceof ArrayImpl)) return rows
  if (strides !== undefined) {
    throw invalidValue(`options.${name}Strides is for a buffer, and ${impl} has strides of its own: leave it out`)
  }
  const { width, height, depth } = impl.array
  const size = texelBytes(impl.array)
  const [most, planes] = [Math.max(1, height), Math.max(1, depth)]
  const fits = rows.rows <= most && rows.matrices <= planes
  if (rows.rowLength > width * size || rows.rowLength % size !== 0 || !fits) {
    throw outOfRange(
      `The rows of the ${name}`,
      `rows of ${impl}, of whole elements of ${size} bytes`,
      `${rows.matrices} × ${rows.rows} × ${rows.rowLength} bytes`,
    )
  }
  return { ...rows, rowDistance: width * size, matrixDistance: most * width * size }
}

/** Throws ERR_OUT_OF_RANGE if the rows do not lie within the buffer. */
function checkRowsFit(impl: BufferImpl, rows: MemoryRows, name: string): void {
  const end = extentOf(rows)
  if (end <= impl.byteLength) return
  throw outOfRange(`The end of the rows of the ${name}`, `at most ${impl.byteLength}, where ${impl} ends`, end)
}
