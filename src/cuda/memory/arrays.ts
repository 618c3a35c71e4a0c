/** The CUDA arrays of a driver, by the addresses that stand for them, and the boxes of them that copies read and write. */

import type { ContextHandle, Pointer } from '../../foundation/driver/handle-types.js'
import { type ArrayDescription, texelBytes } from '../../foundation/driver/texture-driver.js'

/** The first address of arrays. Those of memory have 47 bits. */
const FIRST_ADDRESS = 2 ** 48
/** The multiple at which arrays begin, with a gap behind each. */
const GRANULE = 4096

/** An array of the driver. */
export interface DriverArray {
  /** The CUarray. */
  readonly handle: number
  readonly pointer: Pointer
  readonly array: ArrayDescription
  readonly context: ContextHandle
}

/** The arrays of a driver, by the addresses that stand for them. */
export class ArrayTable {
  readonly #arrays = new Map<Pointer, DriverArray>()
  #next = FIRST_ADDRESS

  /** Whether an address is one of an array. */
  static has(pointer: Pointer): boolean {
    return pointer >= FIRST_ADDRESS
  }

  add(handle: number, byteLength: number, array: ArrayDescription, context: ContextHandle): Pointer {
    const pointer = this.#next as Pointer
    this.#next += Math.ceil(byteLength / GRANULE) * GRANULE + GRANULE
    this.#arrays.set(pointer, { handle, pointer, array, context })
    return pointer
  }

  delete(pointer: Pointer): void {
    this.#arrays.delete(pointer)
  }

  /** The array with this address, or in which it lies. */
  at(pointer: Pointer): DriverArray {
    const known = this.#arrays.get(pointer)
    if (known !== undefined) return known
    let found: DriverArray | undefined
    for (const each of this.#arrays.values()) {
      if (each.pointer <= pointer && each.pointer > (found?.pointer ?? 0)) found = each
    }
    if (found === undefined) throw new Error(`No array has the address 0x${pointer.toString(16)}`)
    return found
  }
}

/** A box of an array that a copy reads or writes: its first element, in bytes, rows and planes, and its extent. */
export interface ArrayBox {
  readonly x: number
  readonly y: number
  readonly z: number
  readonly bytes: number
  readonly rows: number
  readonly planes: number
  /** The bytes of the copy that lie before it. */
  readonly offset: number
}

/** The boxes of bytes that lie one behind the other in an array: parts of rows, rows, and planes. */
export function boxesOf({ array, pointer }: DriverArray, begin: Pointer, byteLength: number): ArrayBox[] {
  const row = array.width * texelBytes(array)
  // A layer of an array of one dimension is a row in a plane of its own.
  const height = Math.max(1, array.height)
  const plane = row * height
  const boxes: ArrayBox[] = []
  const end = begin - pointer + byteLength
  for (let at = begin - pointer; at < end; ) {
    const [z, y, x] = [Math.floor(at / plane), Math.floor((at % plane) / row), at % row]
    const left = end - at
    const offset = at + pointer - begin
    const isWhole = x === 0 && left >= row
    const planes = isWhole && y === 0 ? Math.floor(left / plane) : 0
    const rows = planes > 0 ? height : isWhole ? Math.min(height - y, Math.floor(left / row)) : 1
    const bytes = isWhole ? row : Math.min(row - x, left)
    boxes.push({ x, y, z, bytes, rows, planes: Math.max(1, planes), offset })
    at += bytes * rows * Math.max(1, planes)
  }
  return boxes
}
