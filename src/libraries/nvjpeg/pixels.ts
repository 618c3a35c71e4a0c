/** How decoded images lie in memory. */

import type { DeviceBuffer } from '../../core/memory/device-buffer.js'
import { checkChoice } from '../../foundation/base/arguments.js'

/** The numbers that a pixel has, of one byte each. */
export type PixelFormat = 'rgb' | 'bgr' | 'gray'

/** How decoded images lie in memory. */
export interface PixelOptions {
  /** The numbers that a pixel has, in their order: 'rgb' (default), 'bgr' or 'gray'. */
  readonly format?: PixelFormat | undefined
  /** 'interleaved' (default): the numbers of one pixel side by side. 'planar': all of one kind, then all of the next. */
  readonly layout?: 'interleaved' | 'planar' | undefined
}

export interface PixelLayout {
  readonly width: number
  readonly height: number
  readonly format: PixelFormat
  readonly layout: 'interleaved' | 'planar'
  readonly channels: number
}

/** An image in memory of the device. */
export interface JpegImage {
  /** The memory, one byte for each number, without gaps. It is yours to close. */
  readonly buffer: DeviceBuffer
  /** Pixels of a row. */
  readonly width: number
  /** Rows. */
  readonly height: number
  /** Numbers of a pixel: 3, or 1 of format 'gray'. */
  readonly channels: number
  /** The numbers that a pixel has. */
  readonly format: PixelFormat
  /** Whether the numbers of a pixel lie side by side. */
  readonly layout: 'interleaved' | 'planar'
  /** [height, width, channels], or [channels, height, width] of a planar image, as libraries of tensors want it. */
  readonly shape: readonly number[]
}

const FORMATS = ['rgb', 'bgr', 'gray'] as const
const LAYOUTS = ['interleaved', 'planar'] as const

/** Throws ERR_INVALID_ARG_TYPE or ERR_INVALID_ARG_VALUE. */
export function checkPixels(
  { format = 'rgb', layout = 'interleaved' }: PixelOptions,
  name: string,
): Pick<PixelLayout, 'format' | 'layout' | 'channels'> {
  const checked = checkChoice(format, `${name}.format`, FORMATS)
  return {
    format: checked,
    layout: checkChoice(layout, `${name}.layout`, LAYOUTS),
    channels: checked === 'gray' ? 1 : 3,
  }
}

export const byteLengthOf = ({ width, height, channels }: PixelLayout): number => width * height * channels

export const describePixels = ({ width, height, format, layout }: PixelLayout): string =>
  `${width} x ${height} pixels of ${format}${format === 'gray' ? '' : `, ${layout}`}`

export const shapeOf = ({ width, height, channels, layout }: PixelLayout): readonly number[] =>
  layout === 'planar' ? [channels, height, width] : [height, width, channels]

/** The offsets of red, green and blue of the first pixel. */
export function offsetsOf({
  width,
  height,
  format,
  layout,
}: PixelLayout): readonly [red: number, green: number, blue: number] {
  if (format === 'gray') return [0, 0, 0]
  const distance = layout === 'planar' ? width * height : 1
  return format === 'rgb' ? [0, distance, 2 * distance] : [2 * distance, distance, 0]
}
