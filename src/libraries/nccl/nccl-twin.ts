/** What NCCL's calls compute, in JavaScript, from the bytes of all ranks. */
import { fromBf16, fromF16, toBf16, toF16 } from '../cublas/float-formats.js'
import { NCCL_TYPES, type NcclFunction } from './nccl-library.js'
import type { NcclReduction, NcclType } from './nccl-options.js'

/** What a rank asks for. */
export interface Description {
  readonly name: NcclFunction
  /** Tells communicators apart. */
  readonly clique: number
  readonly rank: number
  readonly peer: number | undefined
  readonly isSend: boolean
  readonly type: NcclType
  readonly op: NcclReduction
  readonly root: number
}

export interface RankBytes {
  readonly description: Description
  /** Of its memory, in the order of its call: what is read, then what is written; a broadcast has them the other way. */
  readonly bytes: readonly Uint8Array[]
}

type Value = number | bigint

/** Does what all of them ask for. The destination of one may be the source of another: all is read before. */
export function perform(unordered: readonly RankBytes[]): void {
  const ranks = [...unordered].sort((a, b) => a.description.rank - b.description.rank)
  const first = ranks[0]?.description
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
      const sender = ranks.find(({ description }) => description.isSend)
      const receiver = ranks.find(({ description }) => !description.isSend)
      if (sender !== undefined) write(receiver?.bytes[0], source(sender))
    }
  }
}

function reduced(type: NcclType, op: NcclReduction, sources: readonly Uint8Array[]): Uint8Array {
  const result = sources[0]?.slice() ?? new Uint8Array()
  const { get, set } = accessOf(type)
  const views = sources.map((bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength))
  const target = new DataView(result.buffer)
  for (let at = 0; at < result.length; at += NCCL_TYPES[type].bytes) {
    set(
      target,
      at,
      combined(
        op,
        views.map((view) => get(view, at)),
      ),
    )
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

interface ElementAccess {
  get(view: DataView, at: number): Value
  set(view: DataView, at: number, value: Value): void
}

/** Whole numbers as bigints, which neither round nor overflow before they are written back. */
function accessOf(type: NcclType): ElementAccess {
  const { bytes } = NCCL_TYPES[type]
  switch (type) {
    case 'f64':
      return {
        get: (view, at) => view.getFloat64(at, true),
        set: (view, at, value) => view.setFloat64(at, Number(value), true),
      }
    case 'f32':
      return {
        get: (view, at) => view.getFloat32(at, true),
        set: (view, at, value) => view.setFloat32(at, Number(value), true),
      }
    case 'f16':
    case 'bf16': {
      const [from, to] = type === 'f16' ? [fromF16, toF16] : [fromBf16, toBf16]
      return {
        get: (view, at) => from(view.getUint16(at, true)),
        set: (view, at, value) => view.setUint16(at, to(Number(value)), true),
      }
    }
    default: {
      const isSigned = type.startsWith('i')
      const width = 8 * bytes
      const read = (view: DataView, at: number): bigint => {
        let value = 0n
        for (let byte = bytes - 1; byte >= 0; byte -= 1) value = (value << 8n) | BigInt(view.getUint8(at + byte))
        return isSigned ? BigInt.asIntN(width, value) : value
      }
      const write = (view: DataView, at: number, value: Value): void => {
        let left = BigInt.asUintN(width, BigInt(value))
        for (let byte = 0; byte < bytes; byte += 1) {
          view.setUint8(at + byte, Number(left & 0xffn))
          left >>= 8n
        }
      }
      return { get: read, set: write }
    }
  }
}
