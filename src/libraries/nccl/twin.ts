/** What NCCL's calls compute, in JavaScript, from the bytes of all ranks. */
import { type Elements, FLOAT_ELEMENTS, viewOf } from '../float-formats.js'
import { NCCL_TYPES, type NcclFunction } from './library.js'
import type { NcclReduction, NcclType } from './options.js'

/** The call of one rank, as far as it says what is computed. */
export interface ComputedCall {
  readonly name: NcclFunction
  readonly rank: number
  readonly isSend: boolean
  readonly type: NcclType
  readonly op: NcclReduction
  readonly root: number
}

/** One rank's call, and the bytes of its buffers. */
export interface RankBytes {
  readonly call: ComputedCall
  /** In the order of its memory: what is read, then what is written; a broadcast has them the other way. */
  readonly bytes: readonly Uint8Array[]
}

type Value = number | bigint

/** Computes the results of all ranks. The destination of one may be the source of another: all is read before. */
export function perform(unordered: readonly RankBytes[]): void {
  const ranks = [...unordered].sort((a, b) => a.call.rank - b.call.rank)
  const first = ranks[0]?.call
  if (first === undefined) return
  const { name, type, op, root } = first
  const source = ({ bytes }: RankBytes): Uint8Array => (bytes[0] ?? new Uint8Array()).slice()
  const sources = ranks.map(source)
  const write = (to: Uint8Array | undefined, from: Uint8Array): void => to?.set(from)
  switch (name) {
    case 'ncclAllReduce': {
      const result = reduced(type, op, sources)
      for (const { bytes } of ranks) write(bytes[1], result)
      return
    }
    case 'ncclReduce': {
      write(ranks[root]?.bytes[1], reduced(type, op, sources))
      return
    }
    case 'ncclReduceScatter': {
      const result = reduced(type, op, sources)
      const part = result.length / ranks.length
      for (const [rank, { bytes }] of ranks.entries()) write(bytes[1], result.subarray(rank * part, (rank + 1) * part))
      return
    }
    case 'ncclAllGather': {
      const all = new Uint8Array(Buffer.concat(sources))
      for (const { bytes } of ranks) write(bytes[1], all)
      return
    }
    case 'ncclBroadcast': {
      const sent = ranks[root]?.bytes[1]?.slice()
      if (sent !== undefined) for (const { bytes } of ranks) write(bytes[0], sent)
      return
    }
    default: {
      const sender = ranks.find(({ call }) => call.isSend)
      const receiver = ranks.find(({ call }) => !call.isSend)
      if (sender !== undefined) write(receiver?.bytes[0], source(sender))
    }
  }
}

function reduced(type: NcclType, op: NcclReduction, sources: readonly Uint8Array[]): Uint8Array {
  const result = sources[0]?.slice() ?? new Uint8Array()
  const { get, set } = elementsOf(type)
  const views = sources.map(viewOf)
  const target = viewOf(result)
  for (let at = 0; at < result.length; at += NCCL_TYPES[type].bytes) {
    const values = views.map((view) => get(view, at))
    set(target, at, combined(op, values))
  }
  return result
}

function combined(op: NcclReduction, values: readonly Value[]): Value {
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
