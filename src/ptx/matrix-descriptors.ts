/**
 * The descriptors by which `wgmma` finds a matrix in shared memory: where it begins, how far its parts lie from each other, and how their sixteen-byte
 * units are exchanged against conflicts of banks.
 */

export interface MatrixDescriptor {
  /** The address of the first element in shared memory. */
  readonly start: number
  /** The bytes from a part to the next along the leading dimension. */
  readonly leading: number
  /** The bytes from eight rows to the next eight. */
  readonly stride: number
  readonly baseOffset: number
  /** The bytes of a row of the pattern by which units are exchanged; 16 if they are not. */
  readonly swizzle: 16 | 32 | 64 | 128
}

/** The bytes of a unit, which lie together in every layout. */
export const UNIT = 16

const SWIZZLES = [16, 128, 64, 32] as const

/** Reads a descriptor from its two words. Addresses and distances are multiples of 16 bytes, in 14 bits. */
export function descriptorOf(low: number, high: number): MatrixDescriptor {
  return {
    start: (low & 0x3fff) << 4,
    leading: ((low >>> 16) & 0x3fff) << 4,
    stride: (high & 0x3fff) << 4,
    baseOffset: (high >>> 17) & 7,
    swizzle: SWIZZLES[high >>> 30] ?? 16,
  }
}

/** The address of a unit of a row of a, or of a column of b, whose elements lie beside each other: `unit` counts them along the row. */
export function unitOfRow(descriptor: MatrixDescriptor, row: number, unit: number): number {
  const { leading, stride, swizzle } = descriptor
  const perPart = swizzle / UNIT
  const part = Math.floor(unit / perPart)
  return exchanged(descriptor, (row >> 3) * stride + part * leading + (row & 7) * swizzle + (unit % perPart) * UNIT)
}

/**
 * The address of a unit of a matrix that lies transposed: of eight rows of a, or columns of b, at one place along k. Which distance is which depends on
 * the exchange.
 */
export function unitAcross(descriptor: MatrixDescriptor, unit: number, k: number): number {
  const { leading, stride, swizzle } = descriptor
  const perPart = swizzle / UNIT
  const part = Math.floor(unit / perPart)
  const inside = (k & 7) * swizzle + (unit % perPart) * UNIT
  const [alongK, across] = swizzle === UNIT ? [leading, stride] : [stride, leading]
  return exchanged(descriptor, (k >> 3) * alongK + part * across + inside)
}

/**
 * The address at a distance from the start. Units of a row of the pattern are exchanged by the number of the row, which counts from an address that eight
 * rows divide, and from the base offset.
 */
function exchanged({ start, baseOffset, swizzle }: MatrixDescriptor, distance: number): number {
  const address = (start + distance) & 0x3ffff
  const row = ((address >> 7) - baseOffset) & 7
  return address ^ ((row << 4) & (swizzle - UNIT))
}
