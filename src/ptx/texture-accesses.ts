/** Carries out the instructions of kernels on textures and surfaces, whose operands and results lie in cells of the memory. */
import type { Decoded } from './decoding.js'
import type { KernelFault } from './faults.js'
import { SHADOW, TEXTURE_CELLS } from './layout.js'
import { bitsOf } from './syntax.js'
import { gatherTexture, geometryOf, offsetOf, readTexture, type TexelMemory, TYPE_BYTES } from './texture-unit.js'
import type { BoundTexture, TextureObjects } from './textures.js'

/** The memory of a machine, and the errors of a launch. */
export interface TextureHost {
  readonly view: DataView
  /** Finds the bytes at an address, or throws the fault of an access. */
  locate(address: number, bytes: number, access: number): number
  /** Copies what was written to where an external block has it. */
  flush(): void
  fault(kind: 'CUDA_ERROR_ILLEGAL_ADDRESS' | 'CUDA_ERROR_MISALIGNED_ADDRESS', what: string): KernelFault
}

/** A handle has an index in its lowest bits, as a GPU's has; what lies above chooses the sampler. */
const INDEX_BITS = 20
/** The handles that a GPU has memory for. One that stands for nothing reads zeros, and larger ones are faults. */
const MOST_HANDLES = 2 ** 16
const ORDER = ['x', 'y', 'z'] as const

/** What the modifiers of a read say. */
interface ReadPlan {
  readonly geometry: string
  readonly areIntegers: boolean
  readonly isLayered: boolean
  /** The channel that is gathered; undefined for a read of one place. */
  readonly channel: number | undefined
}

/** The memory behind the texture that is read. One object is used for all, since reads are many. */
class ObjectMemory implements TexelMemory {
  #host: TextureHost | undefined
  #pointer = 0

  of(pointer: number, host: TextureHost): this {
    this.#pointer = pointer
    this.#host = host
    return this
  }

  get view(): DataView {
    if (this.#host === undefined) throw new Error('No texture is read')
    return this.#host.view
  }

  locate(offset: number, bytes: number): number {
    return this.#host?.locate(this.#pointer + offset, bytes, SHADOW.read) ?? 0
  }
}

export class TextureAccesses {
  constructor(private readonly objects: TextureObjects | undefined) {}

  run(decoded: Decoded, handle: number, host: TextureHost): void {
    const index = handle % 2 ** INDEX_BITS
    const object = this.objects?.object(index)
    if (object === undefined && index >= MOST_HANDLES)
      throw host.fault('CUDA_ERROR_ILLEGAL_ADDRESS', `The handle 0x${handle.toString(16)} is of no texture or surface`)
    switch (decoded.form.opcode) {
      case 'tex':
      case 'tld4':
        this.#leave(host, object === undefined ? [0, 0, 0, 0] : this.#read(object, decoded, host))
        return
      case 'txq':
      case 'suq':
        this.#leave(host, [object === undefined ? 0 : queried(object, decoded)])
        return
      default:
        this.#access(object, decoded, host)
    }
  }

  #leave({ view }: TextureHost, words: readonly number[]): void {
    for (const [index, word] of words.entries()) view.setUint32(TEXTURE_CELLS.results + 8 * index, word, true)
  }

  readonly #memory = new ObjectMemory()

  #read(object: BoundTexture, decoded: Decoded, host: TextureHost): readonly number[] {
    const plan = this.#planOf(decoded)
    const { geometry, areIntegers, isLayered, channel } = plan
    const { view } = host
    const first = TEXTURE_CELLS.coordinates + (isLayered ? 4 : 0)
    const coordinates = areIntegers
      ? ([view.getInt32(first, true), view.getInt32(first + 4, true), view.getInt32(first + 8, true)] as const)
      : ([view.getFloat32(first, true), view.getFloat32(first + 4, true), view.getFloat32(first + 8, true)] as const)
    const layer = isLayered ? view.getInt32(TEXTURE_CELLS.coordinates, true) : 0
    const request = { geometry, areIntegers, layer, coordinates }
    const memory = this.#memory.of(object.pointer, host)
    return channel === undefined
      ? readTexture(object, request, memory)
      : gatherTexture(object, channel, request, memory)
  }

  readonly #plans = new Map<Decoded, ReadPlan>()

  #planOf(decoded: Decoded): ReadPlan {
    const known = this.#plans.get(decoded)
    if (known !== undefined) return known
    const { geometry = '', S: type, channel = 'r' } = decoded.modifiers
    const plan = {
      geometry,
      areIntegers: type === 's32',
      isLayered: geometry.startsWith('a'),
      channel: decoded.form.opcode === 'tld4' ? 'rgba'.indexOf(channel) : undefined,
    }
    this.#plans.set(decoded, plan)
    return plan
  }

  /** A read, a write or an atomic of a surface. */
  #access(object: BoundTexture | undefined, decoded: Decoded, host: TextureHost): void {
    const { modifiers, form } = decoded
    const { opcode } = form
    const type = modifiers['T'] ?? 'b32'
    const count = Number((modifiers['vec'] ?? 'v1').slice(1))
    const size = bitsOf(type) / 8
    const isFormatted = modifiers['p'] !== undefined || modifiers['by'] === 'p'
    if (opcode === 'suld') for (let index = 0; index < count; index++) this.#setResult(host.view, index, 0n)
    if (object === undefined || geometryOf(object) !== modifiers['geometry']) return
    const element = object.channels * TYPE_BYTES[object.format]
    const isByElements = isFormatted && opcode === 'sust'
    const width = isByElements ? element : size * count
    const offset = this.#offset(object, decoded, host, width, isFormatted)
    if (offset === undefined) return
    const access =
      opcode === 'suld'
        ? SHADOW.read
        : opcode === 'sust'
          ? SHADOW.written
          : SHADOW.read | SHADOW.written | SHADOW.atomic
    const at = host.locate(object.pointer + offset, width, access)
    const { view } = host
    if (opcode === 'suld') {
      for (let index = 0; index < count; index++)
        this.#setResult(view, index, unsignedAt(view, at + index * size, size))
      return
    }
    if (isByElements) this.#storeFormatted(object, at, view)
    else if (opcode === 'sust') {
      for (let index = 0; index < count; index++)
        setUnsigned(view, at + index * size, size, view.getBigUint64(TEXTURE_CELLS.values + 8 * index, true))
    } else {
      const given = unsignedAt(view, TEXTURE_CELLS.values, size)
      setUnsigned(view, at, size, reduced(modifiers['op'] ?? '', type, unsignedAt(view, at, size), given))
    }
    host.flush()
  }

  #setResult(view: DataView, index: number, value: bigint): void {
    view.setBigUint64(TEXTURE_CELLS.results + 8 * index, value, true)
  }

  /** The offset of an access in the memory of a surface; undefined where it reads zeros, and writes nothing. */
  #offset(
    object: BoundTexture,
    decoded: Decoded,
    host: TextureHost,
    bytes: number,
    isFormatted: boolean,
  ): number | undefined {
    const { geometry = '', edge } = decoded.modifiers
    const isLayered = geometry.startsWith('a')
    const at = ORDER.map((_, index) => host.view.getInt32(TEXTURE_CELLS.coordinates + 4 * index, true))
    const layer = isLayered ? at.shift() : undefined
    const element = object.channels * TYPE_BYTES[object.format]
    const given = (at[0] ?? 0) * (isFormatted ? element : 1)
    if (given % bytes !== 0) {
      const what = `${bytes} bytes of a surface at byte ${given} of a row, which is not a multiple of ${bytes}`
      throw host.fault('CUDA_ERROR_MISALIGNED_ADDRESS', what)
    }
    const row = object.width * element
    const y = object.height > 0 ? (at[1] ?? 0) : 0
    const plane = layer ?? (object.depth > 0 ? (at[2] ?? 0) : 0)
    const [rows, planes] = [Math.max(1, object.height), Math.max(1, object.depth)]
    const isInside = given >= 0 && given + bytes <= row && y >= 0 && y < rows && plane >= 0 && plane < planes
    if (isInside) return offsetOf(object, 0, y, plane) + given
    if (edge === 'zero') return undefined
    if (edge === 'clamp') {
      const x = within(given, row - bytes)
      // A layer has no sign.
      const z = layer === undefined ? within(plane, planes - 1) : within(layer >>> 0, planes - 1)
      return offsetOf(object, 0, within(y, rows - 1), z) + x - (x % bytes)
    }
    const where = `byte ${given} of row ${y}${planes > 1 ? ` of plane ${plane}` : ''}`
    const what = `${bytes} bytes of a surface at ${where}, of ${rows} rows of ${row} bytes${planes > 1 ? ` in ${planes} planes` : ''}`
    throw host.fault('CUDA_ERROR_ILLEGAL_ADDRESS', what)
  }

  /** Stores words as an element: integers are limited to the format, floats cut to it. */
  #storeFormatted({ format, channels }: BoundTexture, at: number, view: DataView): void {
    for (let channel = 0; channel < channels; channel++) {
      const word = view.getUint32(TEXTURE_CELLS.values + 8 * channel, true)
      const size = TYPE_BYTES[format]
      setUnsigned(view, at + channel * size, size, BigInt(formatted(format, word)))
    }
  }
}

const within = (value: number, most: number): number => Math.min(Math.max(0, most), Math.max(0, value))

/** The bits that a formatted store leaves of a word. */
function formatted(format: BoundTexture['format'], word: number): number {
  if (format === 'f16') return halfBits(word)
  if (format === 'f32' || format.endsWith('32')) return word
  const bits = 8 * TYPE_BYTES[format]
  const [least, most] = format.startsWith('u') ? [0, 2 ** bits - 1] : [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1]
  const value = format.startsWith('u') ? word : word | 0
  return Number(BigInt.asUintN(bits, BigInt(Math.min(most, Math.max(least, value)))))
}

/** A float of 32 bits cut to one of 16, at most the largest number of that. */
function halfBits(word: number): number {
  const sign = (word >>> 31) << 15
  const [exponent, fraction] = [(word >>> 23) & 255, word & 0x7fffff]
  if (exponent === 255) return sign | 0x7c00 | (fraction >> 13 || (fraction === 0 ? 0 : 1))
  if (exponent > 142) return sign | 0x7bff
  if (exponent > 112) return sign | ((exponent - 112) << 10) | (fraction >> 13)
  return sign | (exponent < 102 ? 0 : (fraction | 0x800000) >> (126 - exponent))
}

/** The width, the height or the depth of an image; of an image of one direction a texture has a height, and a surface has none. */
function queried({ kind, width, height, depth, isLayered }: BoundTexture, { modifiers, form }: Decoded): number {
  const isTexture = form.opcode === 'txq'
  if (modifiers['query'] === 'width') return width
  if (modifiers['query'] === 'height') {
    if (height > 0) return height
    return isLayered ? depth : isTexture && kind !== 'buffer' ? 1 : 0
  }
  if (height === 0) return 0
  if (kind === 'cube' && isTexture) return isLayered ? depth / 6 : 0
  return depth
}

function unsignedAt(view: DataView, at: number, size: number): bigint {
  if (size === 8) return view.getBigUint64(at, true)
  return BigInt(size === 4 ? view.getUint32(at, true) : size === 2 ? view.getUint16(at, true) : view.getUint8(at))
}

function setUnsigned(view: DataView, at: number, size: number, value: bigint): void {
  if (size === 8) view.setBigUint64(at, BigInt.asUintN(64, value), true)
  else if (size === 4) view.setUint32(at, Number(BigInt.asUintN(32, value)), true)
  else if (size === 2) view.setUint16(at, Number(BigInt.asUintN(16, value)), true)
  else view.setUint8(at, Number(BigInt.asUintN(8, value)))
}

/** What an atomic leaves of a word and the value that it is given. */
function reduced(operation: string, type: string, word: bigint, given: bigint): bigint {
  const bits = bitsOf(type)
  const read = (value: bigint): bigint => (type.startsWith('s') ? BigInt.asIntN(bits, value) : value)
  const [a, b] = [read(word), read(given)]
  switch (operation) {
    case 'min':
      return a < b ? a : b
    case 'max':
      return a > b ? a : b
    case 'and':
      return word & given
    case 'or':
      return word | given
    default:
      return a + b
  }
}
