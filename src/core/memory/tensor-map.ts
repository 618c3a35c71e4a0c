/** Tensor maps, by which kernels copy tiles of tensors between global and shared memory. */
import {
  checkChoice,
  checkIntegers,
  isOptionsObject,
  readOptions,
  readProperties,
} from '../../foundation/base/arguments.js'
import { invalidType, invalidValue, outOfRange, refuseReceiver } from '../../foundation/base/errors.js'
import { checkMade, construct, implementation, LibraryObject } from '../../foundation/base/library-object.js'
import { spanOf, TENSOR_TYPES, type TensorMapSpec, type TensorType } from '../../foundation/driver/tensor-maps.js'
import type { Device } from '../device.js'
import { BufferImpl } from './buffer.js'

export type { TensorType } from '../../foundation/driver/tensor-maps.js'

/** The bounding box of a map for im2col, with the outermost dimension first. */
export interface Im2colBox {
  /**
   * The offset of the first corner from the first pixel, in each dimension between the images and the channels: `[-1, -1]` for a padding of 1 in
   * height and width.
   */
  readonly lower: readonly number[]
  /** The offset of the last corner from the last pixel. */
  readonly upper: readonly number[]
  /** Channels of each pixel that a copy takes: 1 to 256. */
  readonly channels: number
  /** Pixels that a copy takes: 1 to 1024. */
  readonly pixels: number
}

/** The tensor and the tiles of a tensor map. All lists begin with the outermost dimension, as shapes of arrays do. */
export interface TensorMapOptions {
  /**
   * The type of an element. `'f32.ftz'` and `'tf32.ftz'` flush denormal numbers to 0 when they are loaded, `'tf32'` is for numbers that tensor cores
   * round.
   */
  readonly type: TensorType
  /** The elements in each of 1 to 5 dimensions. */
  readonly shape: readonly number[]
  /**
   * Bytes from an element to the next in each dimension but the last, whose elements lie beside each other: multiples of 16. Default: rows follow each
   * other without a gap.
   */
  readonly strides?: readonly number[] | undefined
  /** Elements of a tile in each dimension: 1 to 256. A row of it is a multiple of 16 bytes. Left out with `im2col`. */
  readonly box?: readonly number[] | undefined
  /** The bounding box of im2col, in place of a box of tiles. */
  readonly im2col?: Im2colBox | undefined
  /** In each dimension, every how many-th element is copied: 1 to 8. That of the last dimension is ignored. Default: each. */
  readonly elementStrides?: readonly number[] | undefined
  /** Bytes of the units of an interleaved layout, such as NC/8HWC8 (16). Default 0: not interleaved. */
  readonly interleave?: 0 | 16 | 32 | undefined
  /** Bytes within which units of 16 change their places in shared memory, against conflicts of banks. Default 0: none. */
  readonly swizzle?: 0 | 32 | 64 | 128 | undefined
  /** Bytes that a copy brings into the L2 cache at once. Default 0: what it needs. */
  readonly l2Promotion?: 0 | 64 | 128 | 256 | undefined
  /** The value of elements outside of the tensor; `'nan'` is for types of floating-point numbers. Default: `'zeros'`. */
  readonly fill?: 'nan' | 'zeros' | undefined
}

const OPTIONS = [
  'type',
  'shape',
  'strides',
  'box',
  'im2col',
  'elementStrides',
  'interleave',
  'swizzle',
  'l2Promotion',
  'fill',
] as const

/** A tensor map as an argument: the part of its buffer that the tensor spans, and the bytes that are passed in place of the address. */
export class TensorMapImpl extends BufferImpl {
  constructor(
    whole: BufferImpl,
    parent: object,
    byteLength: number,
    /** The bytes of the map. */
    readonly encoded: Uint8Array,
    /** What messages call the map. */
    readonly text: string,
  ) {
    super(whole.allocation, whole.whole, whole.parent ?? parent, whole.byteOffset, byteLength)
  }

  override toString(): string {
    return `TensorMap(${this.text}${this.isClosed ? ', closed' : ''})`
  }
}

/**
 * A tensor map (CUtensorMap): it says where a tensor lies in memory and in which tiles a kernel copies it to and from shared memory
 * (`cp.async.bulk.tensor`, from compute capability 9.0 on). `buffer.tensorMap(options)` makes one; it is an argument for a parameter
 * `const __grid_constant__ CUtensorMap map`, whose type is `'in tensorMap'`, `'out tensorMap'` or `'inout tensorMap'`.
 *
 * It keeps the buffer reachable and does not change: once the buffer is closed, using it is ERR_CLOSED.
 */
export class TensorMap extends LibraryObject {
  /** The device of the buffer. */
  readonly device: Device
  /** @internal */
  declare readonly [implementation]: TensorMapImpl

  /** Use `buffer.tensorMap(options)`. */
  private constructor(impl: TensorMapImpl) {
    super()
    checkMade(impl, TensorMapImpl, 'TensorMap', 'buffer.tensorMap(options)')
    this.device = impl.device
    this[implementation] = impl
  }

  /** @internal */
  static [construct](impl: TensorMapImpl): TensorMap {
    return new TensorMap(impl)
  }

  /** The 128 bytes of the map, as the driver has encoded them. A copy: to change it changes no map. */
  get bytes(): Uint8Array {
    return implOf(this).encoded.slice()
  }

  override get [Symbol.toStringTag](): string {
    return 'TensorMap'
  }
}

/** The implementation of a tensor map; undefined for any other value. */
export const tensorMapImplOf = (value: unknown): TensorMapImpl | undefined =>
  value instanceof TensorMap ? value[implementation] : undefined

const implOf = (map: unknown): TensorMapImpl => tensorMapImplOf(map) ?? refuseReceiver('a TensorMap', map)

/** `buffer.tensorMap(options)`. */
export function makeTensorMap(buffer: object, impl: BufferImpl, options: TensorMapOptions): TensorMap {
  const spec = specOf(impl, options)
  const { driver } = impl.allocation
  const span = spanOf(spec)
  if (span > impl.byteLength)
    throw outOfRange(
      'options.shape',
      `a tensor of at most the ${impl.byteLength} bytes of ${impl}`,
      options.shape,
      `this one spans ${span}`,
    )
  const encoded = driver.kernels.encodeTensorMap(spec)
  const text = `${spec.type}, ${options.shape.join('×')}, ${impl}`
  return TensorMap[construct](new TensorMapImpl(impl, buffer, span, encoded, text))
}

const INTERLEAVES = [0, 16, 32] as const
const SWIZZLES = [0, 32, 64, 128] as const
const PROMOTIONS = [0, 64, 128, 256] as const

function specOf(impl: BufferImpl, options: TensorMapOptions): TensorMapSpec {
  if (!isOptionsObject(options)) throw invalidType('options', 'an object with type, shape and box', options)
  const given = readOptions(options, OPTIONS)
  const type = checkChoice(given.type, 'options.type', Object.keys(TENSOR_TYPES) as TensorType[])
  const shape = checkIntegers(given.shape, 'options.shape', 'an array of 1 to 5 lengths', 1)
  const rank = shape.length
  const many = (value: unknown, name: string, count: number, least?: number): readonly number[] => {
    const list = checkIntegers(value, `options.${name}`, `an array of ${count} numbers`, least)
    if (list.length === count) return [...list].reverse()
    throw invalidValue(`options.${name} has ${list.length} numbers, and a tensor of ${rank} dimensions takes ${count}`)
  }
  const dims = [...shape].reverse()
  const { box, im2col } = given
  if ((box === undefined) === (im2col === undefined))
    throw invalidValue('options.box and options.im2col exclude each other, and a tensor map has one of them')
  return {
    ...{ pointer: impl.pointer, type, dims },
    strides:
      given.strides === undefined ? denseStrides(dims, TENSOR_TYPES[type]) : many(given.strides, 'strides', rank - 1),
    elementStrides:
      given.elementStrides === undefined ? dims.map(() => 1) : many(given.elementStrides, 'elementStrides', rank, 1),
    interleave: indexIn(INTERLEAVES, given.interleave, 'interleave'),
    swizzle: indexIn(SWIZZLES, given.swizzle, 'swizzle'),
    l2: indexIn(PROMOTIONS, given.l2Promotion, 'l2Promotion'),
    fill: given.fill === undefined ? 0 : Number(checkChoice(given.fill, 'options.fill', ['zeros', 'nan']) === 'nan'),
    box: box === undefined ? undefined : many(box, 'box', rank, 1),
    im2col: im2col === undefined ? undefined : im2colOf(im2col, many, rank),
  }
}

function im2colOf(
  given: Im2colBox,
  many: (value: unknown, name: string, count: number) => readonly number[],
  rank: number,
): TensorMapSpec['im2col'] {
  const { lower, upper, channels, pixels } = readProperties(
    given,
    ['lower', 'upper', 'channels', 'pixels'],
    'options.im2col',
  )
  const [wide = 0, long = 0] = checkIntegers(
    [channels, pixels],
    'options.im2col',
    'channels and pixels, two numbers',
    1,
  )
  return {
    lower: many(lower, 'im2col.lower', Math.max(0, rank - 2)),
    upper: many(upper, 'im2col.upper', Math.max(0, rank - 2)),
    channels: wide,
    pixels: long,
  }
}

/** The strides of rows that follow each other without a gap. */
function denseStrides(dims: readonly number[], bytes: number): readonly number[] {
  let stride = bytes
  return dims.slice(0, -1).map((dim) => {
    stride *= dim
    return stride
  })
}

/** The place of an option among its choices, which is the number that the driver has for it. */
function indexIn(choices: readonly number[], given: unknown, name: string): number {
  if (given === undefined) return 0
  const index = typeof given === 'number' ? choices.indexOf(given) : -1
  if (index >= 0) return index
  throw typeof given === 'number'
    ? outOfRange(`options.${name}`, `one of ${choices.join(', ')}`, given)
    : invalidType(`options.${name}`, `one of ${choices.join(', ')}`, given)
}
