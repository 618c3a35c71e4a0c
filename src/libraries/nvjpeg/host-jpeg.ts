/** JPEG files on the simulator: the package jpeg-js decodes and encodes them, which the program installs. */
import { createRequire } from 'node:module'
import type { OwnBytes } from '../../foundation/base/bytes.js'
import { LibraryError, messageOf, stateError } from '../../foundation/base/errors.js'
import { offsetsOf, type PixelLayout } from './pixels.js'

/** What is used of jpeg-js. */
interface JpegJs {
  decode(
    file: Uint8Array,
    options: {
      readonly useTArray: true
      readonly formatAsRGBA: false
      readonly tolerantDecoding: false
      readonly maxResolutionInMP: number
      readonly maxMemoryUsageInMB: number
    },
  ): { readonly width: number; readonly height: number; readonly data: Uint8Array }
  encode(
    image: { readonly width: number; readonly height: number; readonly data: Uint8Array },
    quality: number,
  ): { readonly data: Uint8Array }
}

/**
 * The limit for jpeg-js, which is as large as a JPEG file can be: the memory of the simulated device is limited elsewhere.
 */
const MOST_MEGAPIXELS = 4295
const MOST_MEGABYTES = 2 ** 20
const BAD_JPEG = 3

const require: (name: string) => JpegJs = createRequire(import.meta.url)

/** Throws ERR_UNSUPPORTED if jpeg-js is not installed. */
export function jpegJs(load = require): JpegJs {
  try {
    return load('jpeg-js')
  } catch (error) {
    const what = 'The simulator decodes and encodes JPEG files by the package jpeg-js, which cannot be loaded'
    throw stateError('ERR_UNSUPPORTED', `${what}: install it (npm install --save-dev jpeg-js)`, error)
  }
}

/** The pixels of a file. Throws a LibraryError, as nvJPEG's function of this name would, for one that is damaged. */
export function decodeOnHost(file: Uint8Array, layout: PixelLayout, name: string): Uint8Array {
  const { width, height, format, channels } = layout
  const { data } = callDecode(file, name)
  const [red, green, blue] = offsetsOf(layout)
  const step = layout.layout === 'interleaved' ? channels : 1
  const pixels = new Uint8Array(width * height * channels)
  for (let at = 0, from = 0; from < data.length; at += step, from += 3) {
    const [r = 0, g = 0, b = 0] = [data[from], data[from + 1], data[from + 2]]
    if (format === 'gray') pixels[at] = Math.round(0.299 * r + 0.587 * g + 0.114 * b)
    else {
      pixels[at + red] = r
      pixels[at + green] = g
      pixels[at + blue] = b
    }
  }
  return pixels
}

function callDecode(file: Uint8Array, name: string): { readonly data: Uint8Array } {
  const { decode } = jpegJs()
  try {
    return decode(file, {
      useTArray: true,
      formatAsRGBA: false,
      tolerantDecoding: false,
      maxResolutionInMP: MOST_MEGAPIXELS,
      maxMemoryUsageInMB: MOST_MEGABYTES,
    })
  } catch (error) {
    throw new LibraryError(name, BAD_JPEG, 'NVJPEG_STATUS_BAD_JPEG', `jpeg-js says: ${messageOf(error)}`)
  }
}

/** A file of these pixels. */
export function encodeOnHost(pixels: Uint8Array, layout: PixelLayout, quality: number): OwnBytes {
  const { width, height, channels } = layout
  const [red, green, blue] = offsetsOf(layout)
  const step = layout.layout === 'interleaved' ? channels : 1
  const data = new Uint8Array(4 * width * height)
  for (let at = 0, to = 0; to < data.length; at += step, to += 4) {
    data[to] = pixels[at + red] ?? 0
    data[to + 1] = pixels[at + green] ?? 0
    data[to + 2] = pixels[at + blue] ?? 0
    data[to + 3] = 255
  }
  return new Uint8Array(jpegJs().encode({ width, height, data }, quality).data)
}
