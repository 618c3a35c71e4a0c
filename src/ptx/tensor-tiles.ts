/** The elements of a tile: which rows of a tensor a copy reads or writes, and where they lie in shared memory. */
import { elementBytes, type TensorMapFields } from './tensor-map.js'

/** A run of bytes of a tile that lie beside each other in memory. */
export interface Row {
  /** The address of the first byte that lies in the tensor. */
  readonly address: number
  /** The bytes of the row before that, and the number of those in the tensor. */
  readonly skipped: number
  readonly read: number
  /** All bytes of the row in shared memory. */
  readonly bytes: number
}

/** A copy that a tensor map does not allow. */
export class TileError extends Error {}

/** The bytes of a unit of an interleaved layout. */
const INTERLEAVED: readonly (number | undefined)[] = [undefined, 16, 32]

/**
 * The rows of a tile, in the order in which they lie in shared memory.
 * @param at The coordinates of the tile, with the innermost first
 * @param offsets The offsets of im2col; undefined for a copy without them
 */
export function rowsOf(
  map: TensorMapFields,
  at: readonly number[],
  offsets: readonly number[] | undefined,
): readonly Row[] {
  const unit = elementBytes(map.element)
  if (map.interleave === 0 && ((at[0] ?? 0) * unit) % 16 !== 0) {
    throw new TileError(
      `The innermost coordinate of a tile, ${at[0]}, is not at a multiple of 16 bytes: elements of .${map.element} have ${unit}`,
    )
  }
  return map.im2col === undefined ? tileRows(map, at) : im2colRows(map, at, offsets ?? [])
}

function tileRows(map: TensorMapFields, at: readonly number[]): readonly Row[] {
  const { dims, box = [], elementStrides, interleave } = map
  const isSlices = (axis: number): boolean => interleave !== 0 && axis === dims.length - 2
  // Elements of the innermost dimension are not skipped, but units of interleaved ones are; of slices of channels a tile has one.
  const counts = box.map((size, axis) => {
    if (axis === 0 && interleave === 0) return size
    return isSlices(axis) ? 1 : Math.ceil(size / (elementStrides[axis] ?? 1))
  })
  const rows: Row[] = []
  const place = [...at]
  const walk = (axis: number): void => {
    if (axis === 0) {
      rows.push(...unitsOf(map, place, counts[0] ?? 1))
      return
    }
    for (let index = 0; index < (counts[axis] ?? 1); index++) {
      place[axis] = (at[axis] ?? 0) + index * (elementStrides[axis] ?? 1)
      walk(axis - 1)
    }
  }
  walk(dims.length - 1)
  return rows
}

/** Divides a row whose units are not neighbours into its units. */
function unitsOf(map: TensorMapFields, place: readonly number[], count: number): readonly Row[] {
  const step = map.elementStrides[0] ?? 1
  if (map.interleave === 0 || step === 1) return [rowAt(map, place, count)]
  const [x = 0, ...rest] = place
  return Array.from({ length: count }, (_, index) => rowAt(map, [x + index * step, ...rest], 1))
}

/** The row of the innermost dimension at a place. */
function rowAt(map: TensorMapFields, place: readonly number[], count: number): Row {
  const { dims, strides, interleave } = map
  // An interleaved tensor has units of 16 or 32 bytes in place of elements.
  const unit = INTERLEAVED[interleave] ?? elementBytes(map.element)
  const isInside = place.every((each, axis) => axis === 0 || (each >= 0 && each < (dims[axis] ?? 1)))
  const x = place[0] ?? 0
  let address = map.address + x * unit
  for (const [index, stride] of strides.entries()) address += stride * (place[index + 1] ?? 0)
  const skipped = isInside ? Math.min(count, Math.max(0, -x)) : 0
  const end = isInside ? Math.min(count, Math.max(0, (dims[0] ?? 1) - x)) : 0
  const read = Math.max(0, end - skipped)
  return { address: address + skipped * unit, skipped: skipped * unit, read: read * unit, bytes: count * unit }
}

function im2colRows(map: TensorMapFields, at: readonly number[], offsets: readonly number[]): readonly Row[] {
  const { dims, elementStrides, im2col } = map
  if (im2col === undefined) return []
  const rank = dims.length
  const { lower, upper, channels, pixels } = im2col
  const rows: Row[] = []
  const place = [...at]
  for (let pixel = 0; pixel < pixels; pixel++) {
    const moved = place.map((each, axis) => each + (axis === 0 || axis === rank - 1 ? 0 : (offsets[axis - 1] ?? 0)))
    rows.push(rowAt(map, moved, channels))
    // The next pixel of the bounding box, and at its end the next row, and the next image.
    for (let axis = 1; axis < rank; axis++) {
      if (axis === rank - 1) {
        place[axis] = (place[axis] ?? 0) + 1
        break
      }
      place[axis] = (place[axis] ?? 0) + (elementStrides[axis] ?? 1)
      const end = (dims[axis] ?? 1) + (upper[axis - 1] ?? 0)
      if ((place[axis] ?? 0) < end) break
      place[axis] = lower[axis - 1] ?? 0
    }
  }
  return rows
}

/** The place of a tile in shared memory. */
export interface TileLayout {
  /** The bytes of the tile, which an mbarrier counts. */
  readonly bytes: number
  /** The bytes from one row to the next, and those of a row. */
  readonly pitch: number
  readonly row: number
  /** The bytes of all rows with their gaps. */
  readonly span: number
  readonly swizzle: number
}

/** The layout of a tile of these rows: swizzled rows that are shorter than what is swizzled leave a gap. */
export function layoutOf({ swizzle, interleave }: TensorMapFields, rows: readonly Row[]): TileLayout {
  const row = rows[0]?.bytes ?? 0
  const pitch = swizzle !== 0 && interleave === 0 ? Math.max(row, 16 << swizzle) : row
  return { bytes: row * rows.length, pitch, row, span: pitch * rows.length, swizzle }
}

/**
 * Calls `move` for each piece of a tile with its offset in the tile, its offset from the beginning of the tile in shared memory, and its bytes. Units
 * of 16 bytes change places within rows of 32, 64 or 128 bytes by the bits of their address above.
 */
export function swizzled(
  { swizzle, bytes, pitch, row }: TileLayout,
  begin: number,
  move: (from: number, at: number, count: number) => void,
): void {
  if (swizzle === 0) {
    move(0, 0, bytes)
    return
  }
  const mask = (1 << swizzle) - 1
  for (let from = 0; from < bytes; from += 16) {
    const address = begin + Math.floor(from / row) * pitch + (from % row)
    const moved = address ^ (((address >> 7) & mask) << 4)
    move(from, moved - begin, Math.min(16, bytes - from))
  }
}

/** The types that each reduction of tiles takes. */
const REDUCED: Readonly<Record<string, RegExp>> = {
  add: /^(?:[us]32|u64|b?f16|f32(?:\.ftz)?|tf32(?:\.ftz)?|f64)$/,
  min: /^(?:[us](?:32|64)|b?f16)$/,
  max: /^(?:[us](?:32|64)|b?f16)$/,
  inc: /^u32$/,
  dec: /^u32$/,
  and: /^(?:[us]32|u64)$/,
  or: /^(?:[us]32|u64)$/,
  xor: /^(?:[us]32|u64)$/,
}

/** Throws TileError for a tile that is loaded but not stored, and for a reduction that is not for the elements of the map. */
export function checkStore(
  { element, im2col }: TensorMapFields,
  at: readonly number[],
  operation: string | undefined,
): void {
  const negative = at.find((each) => each < 0)
  if (negative !== undefined) throw new TileError(`A tile is stored at coordinates from 0 on, not at ${negative}`)
  const corner = im2col?.lower.find((each) => each < 0)
  if (corner !== undefined)
    throw new TileError(`Columns are stored if no corner of the bounding box is less than 0, and one is ${corner}`)
  if (operation !== undefined && REDUCED[operation]?.test(element) !== true)
    throw new TileError(`Elements of .${element} are not reduced by .${operation}`)
}
