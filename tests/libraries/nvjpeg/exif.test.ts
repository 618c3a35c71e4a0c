/** The orientation of a JPEG file: read from Exif in both byte orders, and from no damaged Exif, which refuses no file. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { readJpegInfo } from 'cuda-streams/nvjpeg'
import { FILES, HEIGHT, WIDTH } from './files.js'

const ORIENTATION = 0x0112
const SHORT = 3

interface Directory {
  readonly little: boolean
  /** Each a tag, a type, the number of values, and the value. */
  readonly entries?: readonly (readonly [tag: number, type: number, count: number, value: number])[]
  readonly magic?: number
  readonly offset?: number
  /** How many entries it claims to have. */
  readonly claimed?: number
}

/** A TIFF file, as stands in Exif: a header and its first directory. */
function tiff({ little, entries = [], magic = 42, offset = 8, claimed = entries.length }: Directory): Uint8Array {
  const view = new DataView(new ArrayBuffer(8 + 2 + 12 * entries.length))
  view.setUint16(0, little ? 0x4949 : 0x4d4d)
  view.setUint16(2, magic, little)
  view.setUint32(4, offset, little)
  view.setUint16(8, claimed, little)
  for (const [index, [tag, type, count, value]] of entries.entries()) {
    const at = 10 + 12 * index
    view.setUint16(at, tag, little)
    view.setUint16(at + 2, type, little)
    view.setUint32(at + 4, count, little)
    view.setUint16(at + 8, value, little)
  }
  return new Uint8Array(view.buffer)
}

const says = (value: number, little = true): Uint8Array =>
  tiff({
    little,
    entries: [
      [0x010f, SHORT, 1, 2],
      [ORIENTATION, SHORT, 1, value],
    ],
  })

const EXIF = Uint8Array.from('Exif\0\0', (letter) => letter.charCodeAt(0))
const exif = (contents: Uint8Array): readonly number[] => [...EXIF, ...contents]

/** A file with these segments APP1 behind its first marker. */
function withSegments(...contents: readonly (readonly number[])[]): Uint8Array {
  const segments = contents.flatMap((bytes) => [
    0xff,
    0xe1,
    (bytes.length + 2) >> 8,
    (bytes.length + 2) & 255,
    ...bytes,
  ])
  return Uint8Array.from([...FILES.baseline.subarray(0, 2), ...segments, ...FILES.baseline.subarray(2)])
}

function assertOrientation(file: Uint8Array, expected: number, what: string): void {
  const { orientation, width, height } = readJpegInfo(file)
  assert.equal(orientation, expected, what)
  // Width and height are those of the stored pixels, whatever the file says of how they are shown.
  assert.deepEqual([width, height], [WIDTH, HEIGHT], what)
}

describe('the orientation in the Exif of a JPEG file', () => {
  it('is each of 1 to 8, in both byte orders', () => {
    for (const little of [true, false]) {
      for (let value = 1; value <= 8; value++) {
        assertOrientation(withSegments(exif(says(value, little))), value, `${value}, ${little ? 'little' : 'big'}`)
      }
    }
  })

  it('is 1 where the file says nothing', () => {
    for (const [name, file] of Object.entries(FILES)) assert.equal(readJpegInfo(file).orientation, 1, name)
    assertOrientation(withSegments(exif(tiff({ little: true }))), 1, 'an empty directory')
    const xmp = Array.from('http://ns.adobe.com/xap/1.0/\0', (letter) => letter.charCodeAt(0))
    assertOrientation(withSegments(xmp), 1, 'a segment of XMP')
  })

  it('is that of the first segment that says one', () => {
    assertOrientation(
      withSegments(exif(tiff({ little: true })), exif(says(6)), exif(says(3))),
      6,
      'the second of three',
    )
  })

  it('is found at any offset of the directory', () => {
    const directory = says(8, false)
    const moved = Uint8Array.from([...directory.subarray(0, 8), ...new Uint8Array(30), ...directory.subarray(8)])
    new DataView(moved.buffer).setUint32(4, 38)
    assertOrientation(withSegments(exif(moved)), 8, 'a directory behind 30 bytes')
  })

  it('is 1 where its entry is none that Exif allows', () => {
    const entry = (type: number, count: number, value: number): Uint8Array =>
      tiff({ little: true, entries: [[ORIENTATION, type, count, value]] })
    for (const value of [0, 9, 255, 65535]) assertOrientation(withSegments(exif(entry(SHORT, 1, value))), 1, `${value}`)
    for (const type of [0, 1, 2, 4, 65535]) assertOrientation(withSegments(exif(entry(type, 1, 6))), 1, `type ${type}`)
    for (const count of [0, 2, 2 ** 32 - 1])
      assertOrientation(withSegments(exif(entry(SHORT, count, 6))), 1, `${count}`)
  })

  it('is 1 where the Exif is damaged or hostile, and the file is read as before', () => {
    const damaged: Readonly<Record<string, Uint8Array>> = {
      'another byte order': Uint8Array.from(says(6), (byte, at) => (at === 0 ? 0x58 : byte)),
      'another magic number': tiff({ little: true, magic: 43, entries: [[ORIENTATION, SHORT, 1, 6]] }),
      'an offset at the end': tiff({ little: true, offset: 22, entries: [[ORIENTATION, SHORT, 1, 6]] }),
      'an offset one before the end': tiff({ little: true, offset: 21, entries: [[ORIENTATION, SHORT, 1, 6]] }),
      'an offset behind the end': tiff({ little: true, offset: 1000, entries: [[ORIENTATION, SHORT, 1, 6]] }),
      'the largest offset': tiff({ little: false, offset: 2 ** 32 - 1, entries: [[ORIENTATION, SHORT, 1, 6]] }),
      'an offset into its own header': tiff({ little: true, offset: 0, entries: [[ORIENTATION, SHORT, 1, 6]] }),
      'entries that are not there': tiff({ little: true, claimed: 65535 }),
    }
    for (const [what, contents] of Object.entries(damaged)) assertOrientation(withSegments(exif(contents)), 1, what)
  })

  it('is read of a directory that claims too many entries as far as the segment goes, and no further', () => {
    const entries = [[ORIENTATION, SHORT, 1, 6]] as const
    assertOrientation(withSegments(exif(tiff({ little: true, entries, claimed: 65535 }))), 6, 'its own entry')
    // What stands behind the segment would be the entry that is missing.
    const [header, rest] = [tiff({ little: true, claimed: 1 }), says(6).subarray(22)]
    const file = withSegments(exif(header))
    const end = 2 + 4 + EXIF.length + header.length
    const behind = Uint8Array.from([
      ...file.subarray(0, end),
      0xff,
      0xe2,
      0,
      2 + rest.length,
      ...rest,
      ...file.subarray(end),
    ])
    assertOrientation(behind, 1, 'an entry behind the segment')
  })

  it('is read or not of a segment cut at any byte, without an error', () => {
    for (const little of [true, false]) {
      const whole = exif(says(6, little))
      for (let length = 0; length <= whole.length; length++) {
        const expected = length === whole.length ? 6 : 1
        assertOrientation(withSegments(whole.slice(0, length)), expected, `${length} bytes`)
      }
    }
  })

  it('is never anything else, whichever byte of the segment is changed', () => {
    const whole = exif(says(6))
    for (const at of whole.keys()) {
      for (const byte of [0, 1, 0x7f, 0x80, 0xff]) {
        const { orientation } = readJpegInfo(withSegments(whole.with(at, byte)))
        assert.ok(orientation >= 1 && orientation <= 8, `byte ${at} is ${byte}: ${orientation}`)
      }
    }
  })
})
