/** The types of a tensor's elements, as DLPack and __cuda_array_interface__ spell them. */
import { describe, invalidValue, stateError } from '../../base/errors.js'

/** DLDataTypeCode and the bits of an element; `typestr` is NumPy's, where it has one. */
interface ElementType {
  readonly code: number
  readonly bits: number
  readonly typestr?: string
}

const INT = 0
const UINT = 1
const FLOAT = 2
const BFLOAT = 4
const COMPLEX = 5
const BOOL = 6

const TYPES = {
  bool: { code: BOOL, bits: 8, typestr: '|b1' },
  i8: { code: INT, bits: 8, typestr: '|i1' },
  i16: { code: INT, bits: 16, typestr: '<i2' },
  i32: { code: INT, bits: 32, typestr: '<i4' },
  i64: { code: INT, bits: 64, typestr: '<i8' },
  u8: { code: UINT, bits: 8, typestr: '|u1' },
  u16: { code: UINT, bits: 16, typestr: '<u2' },
  u32: { code: UINT, bits: 32, typestr: '<u4' },
  u64: { code: UINT, bits: 64, typestr: '<u8' },
  f16: { code: FLOAT, bits: 16, typestr: '<f2' },
  f32: { code: FLOAT, bits: 32, typestr: '<f4' },
  f64: { code: FLOAT, bits: 64, typestr: '<f8' },
  bf16: { code: BFLOAT, bits: 16 },
  c64: { code: COMPLEX, bits: 64, typestr: '<c8' },
  c128: { code: COMPLEX, bits: 128, typestr: '<c16' },
  f8e4m3fn: { code: 10, bits: 8 },
  f8e5m2: { code: 12, bits: 8 },
} as const satisfies Readonly<Record<string, ElementType>>

/** The type of one number: integers, floating and complex numbers by their bits. */
export type ScalarDType = keyof typeof TYPES

/** The type of an element: a number, or a vector of some, such as 'f32x4'. */
export type DType = ScalarDType | `${ScalarDType}x${number}`

export interface ParsedType {
  readonly name: DType
  readonly code: number
  readonly bits: number
  readonly lanes: number
  /** Of an element. */
  readonly byteLength: number
  readonly typestr: string | undefined
}

const NAMES = Object.keys(TYPES) as ScalarDType[]
const MOST_LANES = 2 ** 16 - 1

/** @throws ERR_INVALID_ARG_VALUE */
export function parseType(given: unknown): ParsedType {
  const [, scalar, lanes = '1'] = /^([a-z]+\d*(?:e\dm\d(?:fn)?)?)(?:x(\d+))?$/.exec(String(given)) ?? []
  const name = NAMES.find((each) => each === scalar)
  const count = Number(lanes)
  if (typeof given === 'string' && name !== undefined && count >= 1 && count <= MOST_LANES) return parsed(name, count)
  const expected = `one of '${NAMES.join("', '")}', or a vector of them such as 'f32x4'`
  throw invalidValue(`options.dtype must be ${expected}, not ${describe(given)}`)
}

/** The type of a DLDataType. Throws ERR_UNSUPPORTED. */
export function typeOfCode(code: number, bits: number, lanes: number): ParsedType {
  const name = NAMES.find((each) => TYPES[each].code === code && TYPES[each].bits === bits)
  if (name !== undefined && lanes >= 1) return parsed(name, lanes)
  const what = `The tensor's elements have type code ${code}, ${bits} bits and ${lanes} lanes in DLPack`
  throw stateError('ERR_UNSUPPORTED', `${what}; known are ${NAMES.join(', ')} and vectors of them`)
}

/** The type of a NumPy typestr. Throws ERR_UNSUPPORTED. */
export function typeOfTypestr(typestr: unknown): ParsedType {
  // One byte has no order, and '=' is the order of this machine, which is little-endian.
  const wanted = String(typestr)
    .replace(/^=/, '<')
    .replace(/^[<>](?=[a-z]1$)/, '|')
  const name = NAMES.find((each) => parsed(each, 1).typestr === wanted)
  if (typeof typestr === 'string' && name !== undefined) return parsed(name, 1)
  const known = NAMES.map((each) => parsed(each, 1).typestr).filter((each) => each !== undefined)
  throw stateError('ERR_UNSUPPORTED', `The array's typestr is ${describe(typestr)}; known are ${known.join(', ')}`)
}

function parsed(scalar: ScalarDType, lanes: number): ParsedType {
  const { code, bits, typestr }: ElementType = TYPES[scalar]
  const name: DType = lanes === 1 ? scalar : `${scalar}x${lanes}`
  return { name, code, bits, lanes, byteLength: (bits / 8) * lanes, typestr: lanes === 1 ? typestr : undefined }
}
