/** How many nodes a model has, read from its file without its weights: an ONNX model is a message of Protocol Buffers. */

/** Reads bytes of a model; fewer at its end. */
export type ReadModel = (position: number, length: number) => Uint8Array

/** ModelProto.graph, and GraphProto.node */
const GRAPH = 7
const NODE = 1
/** Wire types of Protocol Buffers. */
const VARINT = 0
const FIXED_64 = 1
const BYTES = 2
const FIXED_32 = 5
/** A key and a length take at most five and ten bytes. */
const MOST_HEADER = 15

interface Field {
  readonly number: number
  /** The index at which the field's value begins; `end` is that of the byte behind it. */
  readonly begin: number
  readonly end: number
}

/** The nodes of the model's graph, without those of graphs inside of nodes. What is no model has none. */
export function countNodes(read: ReadModel, length: number): number {
  let count = 0
  for (const graph of fields(read, 0, length)) {
    if (graph.number !== GRAPH) continue
    for (const { number } of fields(read, graph.begin, graph.end)) count += Number(number === NODE)
  }
  return count
}

/** The fields of a message. Ends where it makes no sense. */
function* fields(read: ReadModel, begin: number, end: number): Iterable<Field> {
  let at = begin
  while (at < end) {
    const header = read(at, MOST_HEADER)
    const key = varint(header, 0)
    const wire = key.value % 8
    const value = varint(header, key.length)
    const start = at + key.length + (wire === BYTES ? value.length : 0)
    const sizes: Readonly<Record<number, number>> = {
      [VARINT]: value.length,
      [FIXED_64]: 8,
      [BYTES]: value.value,
      [FIXED_32]: 4,
    }
    const size = sizes[wire]
    if (size === undefined || start + size > end) return
    yield { number: Math.floor(key.value / 8), begin: start, end: start + size }
    at = start + size
  }
}

function varint(bytes: Uint8Array, at: number): { readonly value: number; readonly length: number } {
  let value = 0
  for (let index = 0; ; index += 1) {
    const byte = bytes[at + index] ?? 0
    value += (byte & 0x7f) * 2 ** (7 * index)
    if (byte < 0x80 || index === 9) return { value, length: index + 1 }
  }
}
