/** tensormap.replace: the fields of a tensor map that a kernel may change in memory. */

/** Changes a field of the bytes of a map. */
export function replaceField(bytes: Uint8Array, field: string, index: number, value: bigint): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const number = Number(BigInt.asUintN(32, value))
  /** Replaces so many bits of a word. */
  const set = (at: number, shift: number, bits: number, to: number): void => {
    const mask = (2 ** bits - 1) << shift
    view.setInt32(at, (view.getInt32(at, true) & ~mask) | ((to << shift) & mask), true)
  }
  switch (field) {
    case 'global_address':
      view.setBigUint64(0, value, true)
      return
    case 'rank':
      set(8, 4, 3, number)
      return
    case 'elemtype':
      replaceElement(set, number)
      return
    case 'interleave_layout':
      set(8, 11, 2, number)
      return
    case 'swizzle_mode':
      set(8, 13, 2, number)
      return
    case 'fill_mode':
      set(8, 15, 1, number)
      return
    case 'box_dim':
      bytes[55 + index] = number - 1
      return
    case 'global_dim':
      view.setUint32(32 + 4 * index, number - 1, true)
      return
    case 'element_stride':
      set(52, 3 * index, 3, number - 1)
      return
    default: {
      const units = BigInt.asUintN(64, value) >> 4n
      view.setUint32(12 + 4 * index, Number(units & 0xffffffffn), true)
      set(28, 4 * index, 4, Number((units >> 32n) & 15n))
    }
  }
}

/** The number and the bit for tf32 of each type, in the order in which tensormap.replace counts them. */
const ELEMENTS: readonly (readonly [code: number, tf32: number])[] = [
  [0, 0],
  [1, 0],
  [2, 0],
  [3, 0],
  [4, 0],
  [5, 0],
  [6, 0],
  [7, 0],
  [8, 0],
  [9, 0],
  [10, 0],
  [7, 1],
  [8, 1],
]

function replaceElement(set: (at: number, shift: number, bits: number, to: number) => void, number: number): void {
  const [code, tf32] = ELEMENTS[number] ?? [number, 0]
  set(8, 7, 4, code)
  set(8, 16, 1, tf32)
}
