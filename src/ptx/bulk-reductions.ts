/** The reductions of bulk copies, element by element, in place. */

const scratch = new DataView(new ArrayBuffer(8))

function halfToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >> 10) & 31
  const fraction = bits & 1023
  if (exponent === 0) return sign * fraction * 2 ** -24
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  return sign * (1024 + fraction) * 2 ** (exponent - 25)
}

/** The nearest number of 16 bits with so many bits of fraction and such a least exponent; ties go to even. */
function toSmall(value: number, fractionBits: number, exponentBits: number): number {
  if (Number.isNaN(value)) return 0x7fff
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0
  const magnitude = Math.abs(value)
  const bias = 2 ** (exponentBits - 1) - 1
  const top = (2 ** exponentBits - 1) << fractionBits
  if (magnitude === Number.POSITIVE_INFINITY) return sign | top
  if (magnitude === 0) return sign
  const exponent = Math.max(Math.floor(Math.log2(magnitude)), 1 - bias)
  const unit = 2 ** (exponent - fractionBits)
  const units = magnitude / unit
  const down = Math.floor(units)
  const rest = units - down
  const rounded = down + (rest > 0.5 || (rest === 0.5 && down % 2 === 1) ? 1 : 0)
  const bits = rounded + (exponent + bias - 1) * 2 ** fractionBits
  return sign | Math.min(bits, top)
}

function bf16ToNumber(bits: number): number {
  scratch.setUint32(0, bits << 16)
  return scratch.getFloat32(0)
}

interface Kind {
  readonly bytes: number
  readonly get: (view: DataView, at: number) => number | bigint
  readonly set: (view: DataView, at: number, value: number | bigint) => void
}

const KINDS: Readonly<Record<string, Kind>> = {
  u8: { bytes: 1, get: (view, at) => view.getUint8(at), set: (view, at, value) => view.setUint8(at, Number(value)) },
  u16: kind16(
    (bits) => bits,
    (value) => value,
  ),
  f16: kind16(halfToNumber, (value) => toSmall(value, 10, 5)),
  bf16: kind16(bf16ToNumber, (value) => toSmall(value, 7, 8)),
  u32: { bytes: 4, get: (view, at) => view.getUint32(at, true), set: setInt32 },
  s32: { bytes: 4, get: (view, at) => view.getInt32(at, true), set: setInt32 },
  b32: { bytes: 4, get: (view, at) => view.getUint32(at, true), set: setInt32 },
  u64: { bytes: 8, get: (view, at) => view.getBigUint64(at, true), set: setInt64 },
  s64: { bytes: 8, get: (view, at) => view.getBigInt64(at, true), set: setInt64 },
  b64: { bytes: 8, get: (view, at) => view.getBigUint64(at, true), set: setInt64 },
  f32: {
    bytes: 4,
    get: (view, at) => view.getFloat32(at, true),
    set: (view, at, value) => {
      // A NaN gets the bits that a GPU gives it.
      if (Number.isNaN(value)) view.setInt32(at, 0x7fffffff, true)
      else view.setFloat32(at, Number(value), true)
    },
  },
  f64: {
    bytes: 8,
    get: (view, at) => view.getFloat64(at, true),
    set: (view, at, value) => view.setFloat64(at, Number(value), true),
  },
}

function setInt32(view: DataView, at: number, value: number | bigint): void {
  view.setInt32(at, Number(BigInt.asIntN(32, BigInt(value))), true)
}

function setInt64(view: DataView, at: number, value: number | bigint): void {
  view.setBigInt64(at, BigInt.asIntN(64, BigInt(value)), true)
}

function kind16(from: (bits: number) => number, to: (value: number) => number): Kind {
  return {
    bytes: 2,
    get: (view, at) => from(view.getUint16(at, true)),
    set: (view, at, value) => view.setUint16(at, to(Number(value)), true),
  }
}

function combined(operation: string, old: number | bigint, value: number | bigint): number | bigint {
  if (typeof old === 'bigint' || typeof value === 'bigint') return ofIntegers(operation, BigInt(old), BigInt(value))
  switch (operation) {
    case 'add':
      return old + value
    case 'min':
      return Number.isNaN(old) ? value : Number.isNaN(value) ? old : Math.min(old, value)
    case 'max':
      return Number.isNaN(old) ? value : Number.isNaN(value) ? old : Math.max(old, value)
    default:
      return ofIntegers(operation, BigInt(old), BigInt(value))
  }
}

function ofIntegers(operation: string, old: bigint, value: bigint): bigint {
  switch (operation) {
    case 'add':
      return old + value
    case 'min':
      return old < value ? old : value
    case 'max':
      return old > value ? old : value
    case 'inc':
      return old >= value ? 0n : old + 1n
    case 'dec':
      return old === 0n || old > value ? value : old - 1n
    case 'and':
      return old & value
    case 'or':
      return old | value
    case 'xor':
      return old ^ value
    default:
      throw new Error(`Nothing is known of the reduction '${operation}'`)
  }
}

/** Combines elements of a type that lie one after the other with those at `into`, where the results are left. */
export function reduceInto(operation: string, type: string, into: Uint8Array, from: Uint8Array): void {
  const kind = KINDS[type]
  if (kind === undefined) throw new Error(`Nothing is known of reductions of .${type}`)
  const [to, source] = [into, from].map((each) => new DataView(each.buffer, each.byteOffset, each.byteLength))
  if (to === undefined || source === undefined) return
  for (let at = 0; at + kind.bytes <= into.byteLength; at += kind.bytes) {
    kind.set(to, at, combined(operation, kind.get(to, at), kind.get(source, at)))
  }
}
