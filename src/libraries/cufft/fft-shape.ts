/** The type and the sizes of a transform, checked, and how many bytes they are in memory. */

import type { Device } from '../../core/device.js'
import { checkArray, checkChoice, checkInteger, type Given } from '../../foundation/base/arguments.js'
import { invalidType, outOfRange } from '../../foundation/base/errors.js'

/**
 * What is transformed into what, in cuFFT's letters. Complex numbers, pairs of a real and an imaginary part, are `c` of two f32 and `z` of
 * two f64; real numbers are `r` of f32 and `d` of f64.
 */
export type FftType = 'c2c' | 'r2c' | 'c2r' | 'z2z' | 'd2z' | 'z2d'

/** The options of `new Fft(options)`. */
export interface FftOptions {
  /** What is transformed into what. */
  readonly type: FftType
  /** The sizes of the array, one to three, the slowest first, as in C and NumPy: `[n]`, `[rows, columns]`, `[planes, rows, columns]`. */
  readonly shape: readonly number[]
  /** The number of arrays that follow each other in memory. Default 1. */
  readonly batch?: number | undefined
  /** The device of the work. Default: the current device. */
  readonly device?: Device | number | undefined
}

interface Form {
  /** cufftType */
  readonly cufft: number
  readonly call: 'cufftExecC2C' | 'cufftExecR2C' | 'cufftExecC2R' | 'cufftExecZ2Z' | 'cufftExecD2Z' | 'cufftExecZ2D'
  /** Bytes of a real number. */
  readonly bytes: 4 | 8
  /** Is one side real? */
  readonly isReal: boolean
  /** The directions that it has. */
  readonly ways: readonly ('forward' | 'inverse')[]
  /** The type of the way back. */
  readonly back: FftType
}

export const FORMS: Readonly<Record<FftType, Form>> = {
  c2c: form(0x29, 'cufftExecC2C', 4, ['forward', 'inverse'], 'c2c'),
  r2c: form(0x2a, 'cufftExecR2C', 4, ['forward'], 'c2r'),
  c2r: form(0x2c, 'cufftExecC2R', 4, ['inverse'], 'r2c'),
  z2z: form(0x69, 'cufftExecZ2Z', 8, ['forward', 'inverse'], 'z2z'),
  d2z: form(0x6a, 'cufftExecD2Z', 8, ['forward'], 'z2d'),
  z2d: form(0x6c, 'cufftExecZ2D', 8, ['inverse'], 'd2z'),
}

function form(cufft: number, call: Form['call'], bytes: 4 | 8, ways: Form['ways'], back: FftType): Form {
  return { cufft, call, bytes, ways, back, isReal: ways.length === 1 }
}

export interface FftShape {
  readonly type: FftType
  readonly sizes: readonly number[]
  readonly batch: number
  /** Bytes of all arrays where their numbers are real. */
  readonly realBytes: number
  /** The same where they are complex: of real arrays, only half of the last size and one more. */
  readonly complexBytes: number
}

export const FFT_OPTIONS = ['type', 'shape', 'batch', 'device'] as const
const TYPES = Object.keys(FORMS) as FftType[]
const LARGEST = 2 ** 31 - 1
const MOST_SIZES = 3

/** Throws ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE or ERR_OUT_OF_RANGE for what cannot be transformed. */
export function shapeOfFft(options: Given<FftOptions, 'type' | 'shape' | 'batch'>): FftShape {
  const type = checkChoice(options.type, 'options.type', TYPES)
  const given = checkArray(options.shape, 'options.shape', 'an array of one to three sizes')
  if (given.length === 0 || given.length > MOST_SIZES) {
    throw outOfRange('options.shape', `an array of one to ${MOST_SIZES} sizes`, given.length)
  }
  const sizes = given.map((size, index) => checkInteger(size, `options.shape[${index}]`, 1, LARGEST))
  const batch = options.batch === undefined ? 1 : checkInteger(options.batch, 'options.batch', 1, LARGEST)
  const { bytes, isReal } = FORMS[type]
  const last = sizes.at(-1) ?? 1
  const lines = sizes.slice(0, -1).reduce((product, size) => product * size, batch)
  const complexBytes = 2 * bytes * lines * (isReal ? Math.floor(last / 2) + 1 : last)
  if (complexBytes > Number.MAX_SAFE_INTEGER) {
    throw outOfRange('The bytes of all arrays', `at most ${Number.MAX_SAFE_INTEGER}`, complexBytes)
  }
  return { type, sizes, batch, realBytes: bytes * lines * last, complexBytes }
}

/** Throws ERR_INVALID_ARG_TYPE if there are no options. */
export function checkFftOptions(options: FftOptions): FftOptions {
  if (options === undefined) throw invalidType('options', "an object such as { type: 'c2c', shape: [1024] }", options)
  return options
}
