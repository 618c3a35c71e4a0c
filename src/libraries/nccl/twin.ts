/** What NCCL's calls compute, in JavaScript, from the bytes of all ranks. */
import { type Elements, FLOAT_ELEMENTS, viewOf } from '../float-formats.js'
import { NCCL_TYPES, type NcclFunction } from './library.js'
import type { NcclReduction, NcclType } from './options.js'

/** The call of one rank, as far as it says what is computed. */
export interface ComputedCall {
  readonly name: NcclFunction
  readonly rank: number
  readonly type: NcclType
  readonly op: NcclReduction
}

type Value = number | bigint

/** What all ranks come to together, from what each of them that gives something has read, in the order of the ranks. */
export function combined({ name, type, op }: ComputedCall, sources: readonly Uint8Array[]): Uint8Array {
  switch (name) {
    case 'ncclAllReduce':
    case 'ncclReduce':
    case 'ncclReduceScatter':
      return reduced(type, op, sources)
    case 'ncclAllGather':
      return new Uint8Array(Buffer.concat(sources))
    default:
      return sources[0] ?? new Uint8Array()
  }
}

/** What of it one rank gets, of so many. */
export function partFor({ name, rank }: ComputedCall, whole: Uint8Array, ranks: number): Uint8Array {
  const length = whole.length / ranks
  return name === 'ncclReduceScatter' ? whole.subarray(rank * length, (rank + 1) * length) : whole
}

function reduced(type: NcclType, op: NcclReduction, sources: readonly Uint8Array[]): Uint8Array {
  const result = sources[0]?.slice() ?? new Uint8Array()
  const { get, set } = elementsOf(type)
  const views = sources.map(viewOf)
  const target = viewOf(result)
  for (let at = 0; at < result.length; at += NCCL_TYPES[type].bytes) {
    const values = views.map((view) => get(view, at))
    set(target, at, joined(op, values))
  }
  return result
}

function joined(op: NcclReduction, values: readonly Value[]): Value {
  const join = (a: Value, b: Value): Value => {
    if (op === 'max') return a > b ? a : b
    if (op === 'min') return a < b ? a : b
    if (typeof a === 'bigint') return op === 'prod' ? a * BigInt(b) : a + BigInt(b)
    return op === 'prod' ? a * Number(b) : a + Number(b)
  }
  const result = values.reduce(join)
  if (op !== 'avg') return result
  return typeof result === 'bigint' ? result / BigInt(values.length) : result / values.length
}

/** Whole numbers as bigints, which neither round nor overflow before they are written back. */
function elementsOf(type: NcclType): Elements<Value> {
  if (type === 'f16' || type === 'bf16' || type === 'f32' || type === 'f64') {
    const { get, set } = FLOAT_ELEMENTS[type]
    return { get, set: (view, at, value) => set(view, at, Number(value)) }
  }
  const { bytes } = NCCL_TYPES[type]
  const isSigned = type.startsWith('i')
  return {
    get(view, at) {
      let value = 0n
      for (let byte = bytes - 1; byte >= 0; byte -= 1) value = (value << 8n) | BigInt(view.getUint8(at + byte))
      return isSigned ? BigInt.asIntN(8 * bytes, value) : value
    },
    set(view, at, value) {
      let left = BigInt.asUintN(8 * bytes, BigInt(value))
      for (let byte = 0; byte < bytes; byte += 1) {
        view.setUint8(at + byte, Number(left & 0xffn))
        left >>= 8n
      }
    },
  }
}
