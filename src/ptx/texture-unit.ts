/** What texture units give for coordinates: the elements of a texture there, one or a mean of several, in the form in which a kernel gets them. */
import {
  FLOATS,
  floatBits,
  halfValue,
  mixedFloats,
  mixedIntegers,
  type Position,
  positionOf,
  weightsOf,
} from './texture-filter.js'
import type { BoundTexture, EdgeMode, TexelType, TextureSampling } from './textures.js'

/** The memory in which the elements of a texture lie. */
export interface TexelMemory {
  readonly view: DataView
  /** Finds the bytes of an element that lies so far behind the start of the texture. */
  locate(offset: number, bytes: number): number
}

/** What an instruction asks a texture for. */
export interface TextureRequest {
  readonly geometry: string
  readonly areIntegers: boolean
  readonly layer: number
  readonly coordinates: readonly [number, number, number]
}

type Words = [number, number, number, number]

export const TYPE_BYTES: Readonly<Record<TexelType, 1 | 2 | 4>> = {
  u8: 1,
  u16: 2,
  u32: 4,
  i8: 1,
  i16: 2,
  i32: 4,
  f16: 2,
  f32: 4,
}

const POINT_SAMPLING: TextureSampling = {
  addressModes: ['clamp', 'clamp', 'clamp'],
  isLinear: false,
  isNormalized: false,
  readsIntegers: true,
  isSrgb: false,
  borderColor: [0, 0, 0, 0],
}

/** The geometry that an instruction has to name for a texture. */
export function geometryOf({ kind, isLayered }: BoundTexture): string {
  const plain = kind === 'buffer' ? '1d' : kind
  return isLayered ? `a${plain}` : plain
}

/** The four words of a read. A texture of another geometry, or none, gives zeros. */
export function readTexture(texture: BoundTexture, request: TextureRequest, memory: TexelMemory): Words {
  const sampling = texture.sampling ?? POINT_SAMPLING
  const { coordinates, areIntegers } = request
  // Integers choose elements of a buffer in one direction, and floats those of an array.
  const isOther = request.geometry === '1d' && areIntegers !== (texture.kind === 'buffer')
  if (isOther || geometryOf(texture) !== request.geometry) return [0, 0, 0, 0]
  if (texture.kind === 'buffer') {
    const [at] = coordinates
    return at >= 0 && at < texture.width ? wordsAt(texture, sampling, memory, at, 0, 0) : [0, 0, 0, 0]
  }
  if (areIntegers) return readByIntegers(texture, sampling, request, memory)
  const layer = layerOf(texture, request.layer)
  if (texture.kind === 'cube') return readCube(texture, sampling, memory, layer, coordinates)
  const positions = positionsOf(texture, sampling, request)
  if (!sampling.isLinear) {
    const [x, y, z] = positions
    return wordsAt(texture, sampling, memory, x.first, y.first, texture.isLayered ? layer : z.first)
  }
  return mixed(texture, sampling, memory, positions, texture.isLayered ? layer : undefined)
}

/** Integers beside the image read zeros, whatever its edges are. */
function readByIntegers(
  texture: BoundTexture,
  sampling: TextureSampling,
  { coordinates: [x, y, z], layer }: TextureRequest,
  memory: TexelMemory,
): Words {
  const { width, height, depth, isLayered } = texture
  const row = height > 0 ? y : 0
  const plane = isLayered ? layer : depth > 0 ? z : 0
  const isInside =
    x >= 0 && x < width && row >= 0 && row < Math.max(1, height) && plane >= 0 && plane < Math.max(1, depth)
  return isInside ? wordsAt(texture, sampling, memory, x, row, plane) : [0, 0, 0, 0]
}

/** The layer that is read: one beside the image is the first or the last. */
function layerOf({ depth, kind }: BoundTexture, layer: number): number {
  const layers = kind === 'cube' ? Math.max(1, depth / 6) : Math.max(1, depth)
  return Math.min(layers - 1, layer >>> 0)
}

const AT_FIRST: Position = { first: 0, second: 0, part: 0 }

function positionsOf(
  { width, height, depth, isLayered }: BoundTexture,
  { addressModes, isNormalized, isLinear }: TextureSampling,
  { coordinates }: TextureRequest,
): readonly [Position, Position, Position] {
  const place = (direction: 0 | 1 | 2, size: number): Position =>
    positionOf(coordinates[direction], size, addressModes[direction], isNormalized, isLinear)
  const isImage = depth > 0 && !isLayered
  // An image of one direction is one row, and lies half beside the coordinate 0.
  const y = height > 0 ? place(1, height) : isLayered ? AT_FIRST : rowPosition(addressModes[1], isLinear)
  return [place(0, width), y, isImage ? place(2, depth) : AT_FIRST]
}

const rowPosition = (mode: EdgeMode, isLinear: boolean): Position =>
  isLinear && mode === 'border' ? { first: -1, second: 0, part: 128 } : AT_FIRST

/** The values of each channel of eight elements, which every mean is made of. */
const VALUES: readonly number[][] = [0, 1, 2, 3].map(() => [0, 0, 0, 0, 0, 0, 0, 0])

function mixed(
  texture: BoundTexture,
  sampling: TextureSampling,
  memory: TexelMemory,
  [x, y, z]: readonly [Position, Position, Position],
  layer: number | undefined,
): Words {
  const { format, channels } = texture
  const parts = [x.part, y.part, z.part] as const
  for (let index = 0; index < 8; index++) {
    // What no part reaches is not read.
    if (((index & 1) !== 0 && x.part === 0) || ((index & 2) !== 0 && y.part === 0)) continue
    if ((index & 4) !== 0 && z.part === 0) break
    const right = (index & 1) === 0 ? x.first : x.second
    const below = (index & 2) === 0 ? y.first : y.second
    const behind = layer ?? ((index & 4) === 0 ? z.first : z.second)
    const isBorder = right < 0 || below < 0 || behind < 0
    const location = isBorder ? 0 : locationOf(texture, memory, right, below, behind)
    for (let channel = 0; channel < channels; channel++) {
      const list = VALUES[channel]
      if (list === undefined) break
      const isSrgb = sampling.isSrgb && channel < 3
      list[index] = isBorder
        ? mixableBorder(sampling, format, channel, isSrgb)
        : mixable(format, rawAt(memory.view, location, format, channel), isSrgb)
    }
  }
  const weights = weightsOf(...parts)
  const words: Words = [0, 0, 0, 0]
  for (let channel = 0; channel < channels; channel++) {
    const list = VALUES[channel] ?? []
    const isHalf = format === 'f16' || (sampling.isSrgb && channel < 3)
    words[channel] = floatBits(
      isHalf || format === 'f32'
        ? mixedFloats(weights, list, parts, isHalf ? FLOATS.f16 : FLOATS.f32)
        : Math.fround(mixedIntegers(weights, list) / (format.startsWith('u') ? 65535 : 32767)),
    )
  }
  return words
}

/** The value of a channel of an element, as it is stored: an integer, or a float. */
function rawAt(view: DataView, location: number, format: TexelType, channel: number): number {
  const at = location + channel * TYPE_BYTES[format]
  switch (format) {
    case 'u8':
      return view.getUint8(at)
    case 'i8':
      return view.getInt8(at)
    case 'u16':
      return view.getUint16(at, true)
    case 'i16':
      return view.getInt16(at, true)
    case 'u32':
      return view.getUint32(at, true)
    case 'i32':
      return view.getInt32(at, true)
    case 'f16':
      return halfValue(view.getUint16(at, true))
    default:
      return view.getFloat32(at, true)
  }
}

/** The number that a mean is made of: a float, or an integer of 16 bits for integers. */
function mixable(format: TexelType, value: number, isSrgb: boolean): number {
  if (isSrgb) return linearOf(value)
  if (format === 'u8') return value * 257
  if (format === 'i16') return Math.max(value, -32767)
  if (format !== 'i8') return value
  const magnitude = Math.min(127, Math.abs(value))
  return Math.sign(value) * ((magnitude << 8) + (magnitude << 1) + (magnitude >> 6))
}

const mixableBorder = ({ borderColor }: TextureSampling, format: TexelType, channel: number, isSrgb: boolean): number =>
  mixable(format, borderValue(borderColor[channel] ?? 0, format, isSrgb), isSrgb)

/** A colour of the border as an element would store it. */
function borderValue(colour: number, format: TexelType, isSrgb: boolean): number {
  if (format === 'f32') return Math.fround(colour)
  if (format === 'f16') return halfOf(colour)
  const most = { u8: 255, u16: 65535, i8: 127, i16: 32767, u32: 1, i32: 1 }[format]
  const given = isSrgb ? encodedSrgb(colour) : colour
  const within = Math.min(1, Math.max(format.startsWith('u') ? 0 : -1, Number.isNaN(given) ? 0 : given)) * most
  return within < 0 ? -Math.ceil(-within - 0.5) : Math.max(0, Math.ceil(within - 0.5))
}

/** The largest number of 16 bits that is not larger in magnitude. */
function halfOf(value: number): number {
  const magnitude = Math.abs(value)
  if (!(magnitude > 0)) return value
  const exponent = Math.max(-14, Math.floor(Math.log2(magnitude)))
  const grain = 2 ** (exponent - 10)
  return Math.sign(value) * Math.min(65504, Math.trunc(magnitude / grain) * grain)
}

const encodedSrgb = (linear: number): number =>
  linear <= 0.0031308 ? 12.92 * linear : 1.055 * linear ** (1 / 2.4) - 0.055

/** The sRGB values for which an H200 has another number than the nearest one of its table's precision. */
const UNLIKE_NEAREST: ReadonlyMap<number, number> = new Map([
  [32, 944],
  [33, 1000],
  [65, 3456],
  [66, 3584],
  [68, 3776],
  [70, 4000],
  [97, 7808],
  [184, 31488],
  [186, 32256],
  [249, 61952],
  [250, 62464],
  [251, 62976],
  [252, 64000],
  [253, 64512],
])

/** The linear value of an sRGB channel: eight bits of precision, at least 2 ** -14. */
function linearOf(value: number): number {
  const known = UNLIKE_NEAREST.get(value)
  if (known !== undefined) return known / 65536
  const share = value / 255
  const exact = 65536 * (share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4)
  const grain = Math.max(4, 2 ** (Math.floor(Math.log2(Math.max(1, exact))) - 7))
  return (Math.round(exact / grain) * grain) / 65536
}

export const offsetOf = (texture: BoundTexture, x: number, y: number, z: number): number =>
  z * texture.planePitch + y * texture.rowPitch + x * texture.channels * TYPE_BYTES[texture.format]

const locationOf = (texture: BoundTexture, memory: TexelMemory, x: number, y: number, z: number): number =>
  memory.locate(offsetOf(texture, x, y, z), texture.channels * TYPE_BYTES[texture.format])

/** The words of one element; those of the border where an index is -1. */
function wordsAt(
  texture: BoundTexture,
  sampling: TextureSampling,
  memory: TexelMemory,
  x: number,
  y: number,
  z: number,
): Words {
  const words: Words = [0, 0, 0, 0]
  const isBorder = x < 0 || y < 0 || z < 0
  const location = isBorder ? 0 : locationOf(texture, memory, x, y, z)
  for (let channel = 0; channel < texture.channels; channel++) {
    words[channel] = isBorder
      ? borderWord(texture.format, sampling, channel)
      : texture.format === 'f32'
        ? memory.view.getUint32(location + 4 * channel, true)
        : texture.format === 'f16'
          ? wordOfHalf(memory.view.getUint16(location + 2 * channel, true))
          : wordOf(texture.format, sampling, rawAt(memory.view, location, texture.format, channel), channel)
  }
  return words
}

/** The bits of a float of 16 bits as one of 32: a NaN keeps its own. */
const wordOfHalf = (half: number): number =>
  (half & 0x7c00) === 0x7c00 && (half & 0x3ff) !== 0
    ? (((half & 0x8000) << 16) | 0x7f800000 | ((half & 0x3ff) << 13)) >>> 0
    : floatBits(halfValue(half))

/** The word that a kernel gets for a stored value. */
function wordOf(format: TexelType, { readsIntegers, isSrgb }: TextureSampling, value: number, channel: number): number {
  if (format === 'f32' || format === 'f16') return floatBits(value)
  if (readsIntegers || format.endsWith('32')) return value >>> 0
  if (isSrgb && channel < 3) return floatBits(linearOf(value))
  const most = { u8: 255, u16: 65535, i8: 127, i16: 32767, u32: 1, i32: 1 }[format]
  return floatBits(Math.fround(Math.max(-1, value / most)))
}

/** The word of the border: for integers that are read as such, the bits of the colour's float, cut to the format. */
function borderWord(format: TexelType, sampling: TextureSampling, channel: number): number {
  const colour = sampling.borderColor[channel] ?? 0
  const isFloat = format === 'f32' || format === 'f16'
  if (!isFloat && (sampling.readsIntegers || format.endsWith('32'))) {
    const bits = floatBits(colour)
    const unused = 32 - 8 * TYPE_BYTES[format]
    return format.startsWith('u') ? (bits << unused) >>> unused : ((bits << unused) >> unused) >>> 0
  }
  return wordOf(format, sampling, borderValue(colour, format, sampling.isSrgb && channel < 3), channel)
}

/** The four elements around a place, of one channel, as a gather gives them: from the lower left on, against the clock. */
export function gatherTexture(
  texture: BoundTexture,
  channel: number,
  request: TextureRequest,
  memory: TexelMemory,
): Words {
  const sampling = texture.sampling ?? POINT_SAMPLING
  if (geometryOf(texture) !== request.geometry || texture.kind !== '2d') return [0, 0, 0, 0]
  const [x, y] = positionsOf(texture, { ...sampling, isLinear: true }, request)
  const layer = layerOf(texture, request.layer)
  const word = (right: number, below: number): number =>
    channel < texture.channels ? (wordsAt(texture, sampling, memory, right, below, layer)[channel] ?? 0) : 0
  return [word(x.first, y.second), word(x.second, y.second), word(x.second, y.first), word(x.first, y.first)]
}

/** The face of a cube that a direction meets, and where on it: from 0 to 1. */
function faceOf([x, y, z]: readonly [number, number, number]): { face: number; s: number; t: number } {
  const [ax, ay, az] = [Math.abs(x), Math.abs(y), Math.abs(z)]
  const [face, major, s, t] =
    !(ax > az) && !(ay > az)
      ? z >= 0
        ? [4, az, x, -y]
        : [5, az, -x, -y]
      : !(ax > ay)
        ? y >= 0
          ? [2, ay, x, z]
          : [3, ay, x, -z]
        : x >= 0
          ? [0, ax, -z, -y]
          : [1, ax, z, -y]
  // What is no number counts as 0.
  return { face, s: ((s / major || 0) + 1) / 2, t: ((t / major || 0) + 1) / 2 }
}

function readCube(
  texture: BoundTexture,
  sampling: TextureSampling,
  memory: TexelMemory,
  layer: number,
  direction: readonly [number, number, number],
): Words {
  const { face, s, t } = faceOf(direction)
  const place = (at: number): Position => positionOf(at, texture.width, 'clamp', true, sampling.isLinear)
  const [x, y] = [place(s), place(t)]
  const z = 6 * layer + face
  if (!sampling.isLinear) return wordsAt(texture, sampling, memory, x.first, y.first, z)
  return mixed(texture, sampling, memory, [x, y, AT_FIRST], z)
}
