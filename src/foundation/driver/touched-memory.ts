/** The memory that queued work touches, byte ranges, rows and words. */

import { Comparison } from './driver-constants.js'
import type { Pointer } from './handle-types.js'

/** The ordinals of two different devices. */
export interface TwoDevices {
  readonly to: number
  readonly from: number
}

/**
 * The route of a copy that is not an ordinary one: between two devices, or from one piece of the host's memory to another.
 */
export type CopyRoute = TwoDevices | 'withinHost'

/**
 * How memory is used: read, written, or both. 'atomic' is both, by atomic operations alone, whose order among each other
 * does not matter to the work.
 */
export type Access = 'in' | 'out' | 'inout' | 'atomic'

/** Matrices at equal distances, the rows of each at equal distances: in bytes, from the first byte of the memory on. */
export interface MemoryRows {
  readonly rowLength: number
  readonly rows: number
  readonly rowDistance: number
  readonly matrices: number
  readonly matrixDistance: number
}

/** Bytes from the first byte of the rows to behind the last. */
export const extentOf = ({ rowLength, rows, rowDistance, matrices, matrixDistance }: MemoryRows): number =>
  (matrices - 1) * matrixDistance + (rows - 1) * rowDistance + rowLength

/** Bytes of all rows. */
export const bytesIn = ({ rowLength, rows, matrices }: MemoryRows): number => rowLength * rows * matrices

/** Memory that work touches. */
export interface TouchedMemory {
  readonly pointer: Pointer
  readonly byteLength: number
  readonly access: Access
  /** The index of the kernel's argument, from 0; undefined if the memory is not an argument. */
  readonly argument: number | undefined
  /** The rows of the memory that are touched; undefined if all bytes are. */
  readonly rows: MemoryRows | undefined
}

/** The bytes that a copy reads and writes. */
export interface CopiedBytes {
  readonly destination: Pointer
  readonly source: Pointer
  /** The bytes of all rows, if it copies rows. */
  readonly byteLength: number
  readonly route: CopyRoute | undefined
  /** The rows at both ends, as many and as long. The distance of two matrices is a whole number of rows' distances. */
  readonly rows: { readonly to: MemoryRows; readonly from: MemoryRows } | undefined
}

/** All of these bytes, with this access. */
export const touching = (pointer: Pointer, byteLength: number, access: Access): TouchedMemory => {
  return { pointer, byteLength, access, argument: undefined, rows: undefined }
}

/** The bytes of these rows, with this access. */
export function touchingRows(pointer: Pointer, rows: MemoryRows, access: Access): TouchedMemory {
  const isDense = rows.rowDistance === rows.rowLength && rows.matrixDistance === rows.rows * rows.rowLength
  return { pointer, byteLength: extentOf(rows), access, argument: undefined, rows: isDense ? undefined : rows }
}

/** A word of 4 or 8 bytes: `value` is what is written there, or what it is compared with, and not negative. */
export interface MemoryValue {
  /** A CUdeviceptr. */
  readonly pointer: number
  readonly bits: 32 | 64
  readonly value: bigint
}

/** Does a word that holds `held` satisfy the wait? The first comparison is of signed differences, so that counters may wrap. */
export function isMet(held: bigint, compare: Comparison, { bits, value }: MemoryValue): boolean {
  if (compare === Comparison.GEQ) return BigInt.asIntN(bits, held - value) >= 0n
  if (compare === Comparison.EQ) return held === value
  if (compare === Comparison.AND) return (held & value) !== 0n
  return BigInt.asUintN(bits, ~(held | value)) !== 0n
}
