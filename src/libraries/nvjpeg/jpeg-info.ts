/** What the header of a JPEG file says. */
import { bytesOf } from '../../foundation/base/bytes.js'
import { invalidType, invalidValue, stateError } from '../../foundation/base/errors.js'
import { Buffer, types } from '../../foundation/base/node-modules.js'
import { orientationOf } from './exif.js'

/** The resolution of the colours against that of the brightness, as the sampling factors in a JPEG file say it. */
export type Subsampling = '444' | '422' | '420' | '440' | '411' | '410' | 'gray'

/** How the pixels of a file are turned to be shown, as Exif numbers it. */
export type Orientation = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8

/** What the header of a JPEG file says. */
export interface JpegInfo {
  /** Pixels of a row. */
  readonly width: number
  /** Rows. 0: the file says it only behind the pixels. */
  readonly height: number
  /** Numbers of each pixel in the file: 1 for gray, 3 for colours, 4 for CMYK. */
  readonly components: number
  /** The bits of each number: 8, or 12 and 16 in rare files. */
  readonly bits: number
  /** How often the colours are sampled. Undefined: in another way than these names say. */
  readonly subsampling: Subsampling | undefined
  /** How the file is coded. Nearly all files are 'sequential' (baseline and extended) or 'progressive'. */
  readonly coding: 'sequential' | 'progressive' | 'lossless' | 'hierarchical' | 'arithmetic'
  /**
   * How the image is to be turned, which decoders leave to the program, as the file's Exif numbers it. 1, also where the file says
   * nothing: not at all; 2: mirrored left to right; 3: by 180 degrees; 4: mirrored top to bottom; 5: rows become columns; 6: by 90 degrees
   * clockwise; 7: rows become columns, then by 180 degrees; 8: by 90 degrees counterclockwise. From 5 on width and height change places.
   */
  readonly orientation: Orientation
}

/** The facts of the frame header that decoding depends on. */
interface Header extends JpegInfo {
  /** The offset at which the first scan begins. */
  readonly scanOffset: number
  /** Are the colours red, green and blue in the file? Nearly all are YCbCr. */
  readonly isRgb: boolean
  /** The blocks of 8 x 8 numbers of all components together. */
  readonly blocks: number
}

/** Any other number says nothing. */
const ORIENTATIONS: readonly Orientation[] = [1, 2, 3, 4, 5, 6, 7, 8]

/** What the frame itself says. */
type Frame = Omit<Header, 'orientation' | 'scanOffset' | 'isRgb'>

/** Markers, each behind a byte 0xff. */
const START = 0xd8
const END = 0xd9
const SCAN = 0xda
const APP1 = 0xe1
const ADOBE = 0xee
const TEMPORARY = 0x01
const isRestart = (marker: number): boolean => marker >= 0xd0 && marker <= 0xd7
/** SOF0 to SOF15, among which are DHT, JPG and DAC. */
const isFrame = (marker: number): boolean => marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)

/** The coding of a file, from the number of the frame's marker. */
function codingOf(frame: number): JpegInfo['coding'] {
  if (frame > 7) return 'arithmetic'
  if (frame > 3) return 'hierarchical'
  return (['sequential', 'sequential', 'progressive', 'lossless'] as const)[frame] ?? 'sequential'
}

/** The subsampling, by how much more often brightness is sampled than colours, in a row and in a column. */
const SUBSAMPLINGS: Readonly<Record<string, Subsampling>> = {
  '1x1': '444',
  '2x1': '422',
  '2x2': '420',
  '1x2': '440',
  '4x1': '411',
  '4x2': '410',
}

/**
 * Reads the header of a JPEG file. Neither nvJPEG nor a device is used. The beginning of the file, up to its first scan, will do.
 * @param file The bytes of the file. They are not kept.
 * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_INVALID_ARG_VALUE for bytes that are no JPEG file, or that end within the header
 * @example
 * ```ts
 * import { readFile } from 'node:fs/promises'
 * import { readJpegInfo } from 'cuda-streams/nvjpeg'
 *
 * const { width, height } = readJpegInfo(await readFile('photo.jpg'))
 * ```
 */
export function readJpegInfo(file: Uint8Array): JpegInfo {
  const header = readHeader(checkFile(file, 'file'), 'file')
  const { width, height, components, bits, subsampling, coding, orientation } = header
  return { width, height, components, bits, subsampling, coding, orientation }
}

/** The bytes of a file, not a copy. Throws ERR_INVALID_ARG_TYPE. */
export function checkFile(file: unknown, name: string): Uint8Array {
  if (!types.isUint8Array(file)) throw invalidType(name, 'a Uint8Array with the bytes of a JPEG file', file)
  return bytesOf(file, name)
}

/** Throws ERR_INVALID_ARG_VALUE for what is no whole JPEG file; ERR_UNSUPPORTED for one that is not decoded. */
export function checkDecodable(file: Uint8Array, name: string): JpegInfo {
  const header = readHeader(file, name)
  const { scanOffset, components, bits, coding, height, isRgb } = header
  const end = Buffer.from(file.buffer, file.byteOffset, file.byteLength).lastIndexOf(Buffer.of(0xff, END))
  if (end < scanOffset) throw truncated(name, 'the pixels end')
  const what =
    components !== 1 && components !== 3
      ? `has ${components} components${components === 4 ? ' (CMYK)' : ''}, not 1 or 3`
      : bits !== 8
        ? `has ${bits} bits for each component, not 8`
        : coding !== 'sequential' && coding !== 'progressive'
          ? `is ${coding}, not sequential or progressive`
          : height === 0
            ? 'says only behind the pixels how many rows it has'
            : isRgb
              ? 'is coded in RGB, not in YCbCr'
              : undefined
  if (what === undefined) {
    // A code takes a bit at least. A block has one for its mean, and in sequential files one for the end of the rest.
    const leastBits = header.blocks * (coding === 'sequential' ? 2 : 1)
    if ((end - scanOffset) * 8 >= leastBits) return header
    const claimed = `the ${end - scanOffset} bytes of its pixels cannot hold ${header.width} x ${height} pixels, and end`
    throw truncated(name, claimed)
  }
  throw stateError('ERR_UNSUPPORTED', `${name} ${what}: save it as an ordinary JPEG file first`)
}

const truncated = (name: string, what: string): Error =>
  invalidValue(`${name} is truncated: ${what} before the end of the image`)

function readHeader(file: Uint8Array, name: string): Header {
  if (file[0] !== 0xff || file[1] !== START) throw invalidValue(`${name} is no JPEG file: it does not begin with ff d8`)
  let offset = 2
  let isRgb = false
  let orientation: Orientation | undefined
  let frame: Frame | undefined
  for (;;) {
    if (offset + 2 > file.length) throw truncated(name, 'its header ends')
    if (file[offset] !== 0xff) throw invalidValue(`${name} is no JPEG file: there is no marker at byte ${offset}`)
    const marker = file[offset + 1] ?? 0
    // Any number of bytes 0xff may stand before a marker.
    offset += marker === 0xff ? 1 : 2
    if (marker === 0xff || marker === TEMPORARY || isRestart(marker)) continue
    if (marker === END || marker === START) throw invalidValue(`${name} is no JPEG file with an image`)
    if (offset + 2 > file.length) throw truncated(name, 'its header ends')
    const length = wordAt(file, offset)
    const segment = file.subarray(offset + 2, offset + length)
    if (length < 2 || segment.length < length - 2) throw truncated(name, 'its header ends')
    if (isFrame(marker)) {
      if (frame !== undefined) throw invalidValue(`${name} is no JPEG file of one image: it has two frames`)
      frame = readFrame(segment, marker, name)
      const ids = [0, 1, 2].map((index) => segment[6 + 3 * index] ?? 0)
      isRgb ||= frame.components === 3 && String.fromCharCode(...ids) === 'RGB'
    }
    // The last byte says which transform the colours have gone through: none is RGB.
    if (marker === ADOBE && String.fromCharCode(...segment.subarray(0, 5)) === 'Adobe') isRgb ||= segment[11] === 0
    // Of several segments the first that says an orientation counts.
    if (marker === APP1) orientation ??= ORIENTATIONS[(orientationOf(segment) ?? 0) - 1]
    if (marker === SCAN) {
      if (frame === undefined) throw invalidValue(`${name} is no JPEG file: a scan comes before the frame`)
      const isColour = frame.components === 3
      return { ...frame, orientation: orientation ?? 1, scanOffset: offset, isRgb: isRgb && isColour }
    }
    offset += length
  }
}

const wordAt = (bytes: Uint8Array, offset: number): number => (bytes[offset] ?? 0) * 256 + (bytes[offset + 1] ?? 0)

function readFrame(segment: Uint8Array, marker: number, name: string): Frame {
  const components = segment[5] ?? 0
  const width = wordAt(segment, 3)
  if (segment.length < 6 + 3 * components || components === 0 || width === 0)
    throw invalidValue(`${name} is no JPEG file: its frame is damaged`)
  const factors = Array.from({ length: components }, (_, index) => segment[7 + 3 * index] ?? 0)
  return {
    width,
    height: wordAt(segment, 1),
    components,
    bits: segment[0] ?? 0,
    subsampling: subsamplingOf(factors),
    coding: codingOf(marker - 0xc0),
    blocks: blocksOf(width, wordAt(segment, 1), factors),
  }
}

/** A component that is sampled less often than others has fewer blocks. */
function blocksOf(width: number, height: number, factors: readonly number[]): number {
  const across = Math.max(1, ...factors.map((factor) => factor >> 4))
  const down = Math.max(1, ...factors.map((factor) => factor & 15))
  const along = (length: number, factor: number, most: number): number => Math.ceil((length * factor) / (8 * most))
  return factors.reduce((sum, each) => sum + along(width, each >> 4, across) * along(height, each & 15, down), 0)
}

/** The subsampling, from the sampling factors of the components, each in a row and a column, of four bits. */
function subsamplingOf([luma = 0, blue, red]: readonly number[]): Subsampling | undefined {
  if (blue === undefined) return 'gray'
  if (blue !== red) return undefined
  return SUBSAMPLINGS[`${(luma >> 4) / (blue >> 4)}x${(luma & 15) / (blue & 15)}`]
}
