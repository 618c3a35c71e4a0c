/** Inputs of recorded launches, which record.py makes by the same rules: a number of each element is hashed, and its bits become an element. */

/** Elements of an array, behind each other. */
export interface Fill {
  readonly type: keyof typeof FLOATS | 's8' | 'u8' | 'word' | 'extreme' | 'places' | 'places of tf32'
  readonly seed: number
  readonly count: number
  /** The range of exponents of floats, as they are stored. */
  readonly exponents?: readonly [least: number, greatest: number]
  /** How many of 256 floats are zeros, and how many have any bits. */
  readonly zeros?: number
  readonly any?: number
}

/** The formats of floats: the bits of the fraction, and all bits. */
const FLOATS = {
  f16: [10, 16],
  bf16: [7, 16],
  tf32: [23, 32],
  f32: [23, 32],
  e4m3: [3, 8],
  e5m2: [2, 8],
} as const

function mix(value: number): number {
  let x = value ^ (value >>> 16)
  x = Math.imul(x, 0x7feb352d)
  x ^= x >>> 15
  x = Math.imul(x, 0x846ca68b)
  return (x ^ (x >>> 16)) >>> 0
}

function hashesOf(seed: number, index: number): readonly [number, number] {
  const own = mix((Math.imul(seed, 0x9e3779b9) + 0x1234567) >>> 0)
  return [mix(index ^ own), mix(((index + 0x51ed270b) >>> 0) ^ mix((own + 1) >>> 0))]
}

function elementOf({ type, seed, exponents = [0, 0], zeros = 0, any = 0 }: Fill, index: number): number {
  const [hash, other] = hashesOf(seed, index)
  if (type === 'places' || type === 'places of tf32') {
    // The places of two elements of four, in order, or of one of two: eight in a word.
    const choices = type === 'places' ? [0x4, 0x8, 0xc, 0x9, 0xd, 0xe] : [0x4, 0xe]
    let word = 0
    for (let at = 0; at < 8; at++) {
      word |= (choices[hashesOf(seed, 8 * index + at)[0] % choices.length] ?? 0) << (4 * at)
    }
    return word >>> 0
  }
  if (type === 'word') return hash
  if (type === 's8' || type === 'u8') return hash & 255
  if (type === 'extreme')
    return (hash & 1 ? 0x7fffffff - ((hash >>> 8) & 0x3ffff) : 0x80000000 + ((hash >>> 8) & 0x3ffff)) >>> 0
  const [fraction, bits] = FLOATS[type]
  const sign = ((hash >>> 31) << (bits - 1)) >>> 0
  if (other >>> 24 < any) return bits < 32 ? hash & (2 ** bits - 1) : hash
  if (((other >>> 16) & 255) < zeros) return sign
  const exponent = exponents[0] + ((other & 0xffff) % (exponents[1] - exponents[0] + 1))
  return ((hash & (2 ** fraction - 1)) | (exponent << fraction) | sign) >>> 0
}

function bytesOf(type: Fill['type']): 1 | 2 | 4 {
  if (type === 's8' || type === 'u8') return 1
  const bits = type in FLOATS ? FLOATS[type as keyof typeof FLOATS][1] : 32
  return bits === 8 ? 1 : bits === 16 ? 2 : 4
}

/** The bytes of an array that is made of these fills. */
export function filled(fills: readonly Fill[]): Uint8Array {
  const bytes = new Uint8Array(fills.reduce((sum, { type, count }) => sum + bytesOf(type) * count, 0))
  const view = new DataView(bytes.buffer)
  let at = 0
  for (const fill of fills) {
    const size = bytesOf(fill.type)
    for (let index = 0; index < fill.count; index++, at += size) {
      const element = elementOf(fill, index)
      if (size === 1) view.setUint8(at, element)
      else if (size === 2) view.setUint16(at, element, true)
      else view.setUint32(at, element, true)
    }
  }
  return bytes
}
