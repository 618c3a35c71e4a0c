/** What each form computes, by exact integers and fractions: the words of the PTX manual, not the code under test. */
import {
  add,
  compareValues,
  decodeFloat,
  divide,
  encodeFloat,
  FORMATS,
  type FormatName,
  fraction,
  isZero,
  multiply,
  NAN,
  negate,
  type Rounding,
  squareRoot,
  toInteger,
  toNumber,
  type Value,
} from './exact.js'

export type Words = Readonly<Record<string, string | undefined>>

/** The bits of each result; `about` for an approximation, with the error that the manual allows. */
export type Answer =
  | { readonly kind: 'bits'; readonly results: readonly bigint[] }
  | {
      readonly kind: 'about'
      readonly format: FormatName
      readonly value: number
      readonly relative: number
      readonly absolute: number
    }
  /** The manual leaves it open, or this reference does not say. */
  | { readonly kind: 'open' }

const OPEN: Answer = { kind: 'open' }
/** A NaN of f64, whose bits arithmetic takes from an operand or from the processor. */
const ANY_NAN: Answer = { kind: 'about', format: 'f64', value: Number.NaN, relative: 0, absolute: 0 }
const bits = (...results: bigint[]): Answer => ({ kind: 'bits', results })

export function widthOf(type: string): number {
  if (type === 'pred') return 1
  if (/^(e4m3|e5m2)x2$/.test(type)) return 16
  if (type === 'f32x2') return 64
  if (/x2$/.test(type)) return 32
  if (type === 'tf32') return 32
  return Number(/\d+$/.exec(type)?.[0])
}

const isFloat = (type: string): type is FormatName => type in FORMATS
const isSigned = (type: string): boolean => type.startsWith('s')
const mask = (width: number): bigint => (1n << BigInt(width)) - 1n
const unsigned = (value: bigint, width: number): bigint => BigInt.asUintN(width, value)

/** An operand as the integer that its type says. */
function integer(value: bigint, type: string): bigint {
  const width = widthOf(type)
  return isSigned(type) ? BigInt.asIntN(width, value) : BigInt.asUintN(width, value)
}

function range(type: string): readonly [least: bigint, most: bigint] {
  const width = BigInt(widthOf(type))
  return isSigned(type) ? [-(1n << (width - 1n)), (1n << (width - 1n)) - 1n] : [0n, (1n << width) - 1n]
}

function clamp(value: bigint, type: string): bigint {
  const [least, most] = range(type)
  return value < least ? least : value > most ? most : value
}

const least = (a: bigint, b: bigint): bigint => (a < b ? a : b)
const most = (a: bigint, b: bigint): bigint => (a > b ? a : b)

function countOnes(value: bigint): bigint {
  return BigInt(value.toString(2).replaceAll('0', '').length)
}

/** A position or length of bfe and bfi: a byte, as the manual says, for 32 bits; a GPU reads the whole operand for 64. */
const fieldOperand = (value: bigint, width: number): number => Number(width === 64 ? value : value & 255n)

/** A NaN of f64 as it leaves an operation. */
const quiet = (bits64: bigint): bigint => bits64 | (1n << 51n)

/** The reference of a form on operands a, b, c, … given by their bits. */
export function reference(
  opcode: string,
  m: Words,
  types: Readonly<Record<string, string>>,
  o: Readonly<Record<string, bigint>>,
): Answer {
  const { a = 0n, b = 0n, c = 0n, e = 0n } = o
  const type = m['T'] ?? m['A'] ?? types['d'] ?? 'b32'
  const width = widthOf(type)
  if (opcode === 'cvt') return convert(m, a, b)
  if (opcode === 'selp') return bits((c & 1n) === 1n ? a : b)
  if (opcode === 'slct') {
    if (m['S'] === 's32') return bits(BigInt.asIntN(32, c) >= 0n ? a : b)
    const value = flush(decodeFloat(c, FORMATS.f32), 'f32', m)
    return bits(value.kind !== 'nan' && (!value.negative || isZero(value)) ? a : b)
  }
  if (opcode === 'set' || opcode === 'setp') return compare(opcode, m, o)
  if (opcode === 'testp') return testp(m, a)
  if (/^(f16|bf16|f32)x2$/.test(type) && !/^(mov|selp)$/.test(opcode)) return packed(opcode, m, type, o)
  if (/^[us]16x2$/.test(type)) return packedIntegers(opcode, m, type, a, b)
  if (isFloat(type)) return float(opcode, m, type, o, types)
  const [x, y, z] = [integer(a, type), integer(b, type), integer(c, type)]
  const wide = types['d'] === undefined ? 2 * width : widthOf(types['d'])
  switch (opcode) {
    case 'add':
      return bits(m['sat'] ? clamp(x + y, type) : x + y)
    case 'sub':
      return bits(m['sat'] ? clamp(x - y, type) : x - y)
    case 'mul':
    case 'mad': {
      const third = opcode === 'mul' ? 0n : wide === 2 * width && m['sat'] === undefined ? BigInt.asIntN(wide, c) : z
      if (wide === 2 * width) return bits(unsigned(x * y + third, wide))
      if (!/hi/.test(m['__pattern'] ?? '')) return bits(x * y + third)
      const high = (x * y) >> BigInt(width)
      return bits(m['sat'] ? clamp(high + third, type) : high + third)
    }
    case 'mul24':
    case 'mad24': {
      const [p, q] = isSigned(type)
        ? [BigInt.asIntN(24, a), BigInt.asIntN(24, b)]
        : [BigInt.asUintN(24, a), BigInt.asUintN(24, b)]
      const part = /hi/.test(m['__pattern'] ?? '') ? (p * q) >> 16n : p * q
      const partOf32 = isSigned(type) ? BigInt.asIntN(32, part) : BigInt.asUintN(32, part)
      const total = partOf32 + (opcode === 'mad24' ? z : 0n)
      return bits(m['sat'] ? clamp(total, type) : total)
    }
    case 'sad':
      return bits(z + (x < y ? y - x : x - y))
    case 'div':
      return bits(y === 0n ? mask(width) : x / y)
    case 'rem':
      return bits(y === 0n ? mask(width) : x % y)
    case 'abs':
      return bits(x < 0n ? -x : x)
    case 'neg':
      return bits(-x)
    case 'min':
      return bits(m['relu'] ? most(least(x, y), 0n) : least(x, y))
    case 'max':
      return bits(m['relu'] ? most(most(x, y), 0n) : most(x, y))
    case 'and':
      return bits(a & b)
    case 'or':
      return bits(a | b)
    case 'xor':
      return bits(a ^ b)
    case 'not':
      return bits(type === 'pred' ? (a & 1n) ^ 1n : ~a)
    case 'cnot':
      return bits(a === 0n ? 1n : 0n)
    case 'shl':
      return bits(b >= BigInt(width) ? 0n : a << b)
    case 'shr':
      return bits(x >> least(b, BigInt(width)))
    case 'shf': {
      const both = (b << 32n) | a
      const n = m['M'] === 'wrap' ? c & 31n : least(c, 32n)
      return bits(m['D'] === 'l' ? (both << n) >> 32n : both >> n)
    }
    case 'brev':
      return bits(BigInt(`0b${[...a.toString(2).padStart(width, '0')].reverse().join('')}`))
    case 'clz':
      return bits(BigInt(width - (a === 0n ? 0 : a.toString(2).length)))
    case 'popc':
      return bits(countOnes(a))
    case 'bfind': {
      const value = x < 0n ? ~x : x
      const at = value === 0n ? -1 : value.toString(2).length - 1
      return bits(at < 0 ? 0xffffffffn : BigInt(m['shiftamt'] ? width - 1 - at : at))
    }
    case 'bfe': {
      const [from, count] = [fieldOperand(b, width), fieldOperand(c, width)]
      const top = Math.min(from + count - 1, width - 1)
      const sign = isSigned(type) && count > 0 ? (a >> BigInt(top)) & 1n : 0n
      let result = 0n
      for (let i = 0; i < width; i++) {
        const bit = i < count && from + i < width ? (a >> BigInt(from + i)) & 1n : sign
        result |= bit << BigInt(i)
      }
      return bits(result)
    }
    case 'bfi': {
      const [from, count] = [fieldOperand(c, width), fieldOperand(e, width)]
      let result = b
      for (let i = 0; i < count && from + i < width; i++) {
        const at = BigInt(from + i)
        result = (result & ~(1n << at)) | (((a >> BigInt(i)) & 1n) << at)
      }
      return bits(result)
    }
    case 'bmsk': {
      const [from, count] = m['M'] === 'wrap' ? [a & 31n, b & 31n] : [least(a, 32n), least(b, 32n)]
      return bits(mask(Number(count)) << from)
    }
    case 'szext': {
      const count = m['M'] === 'wrap' ? b & 31n : b
      if (count >= 32n) return bits(a)
      if (count === 0n) return bits(0n)
      return bits(isSigned(type) ? BigInt.asIntN(Number(count), a) : BigInt.asUintN(Number(count), a))
    }
    case 'fns': {
      const [start, steps] = [Number(b), Number(BigInt.asIntN(32, c))]
      // The manual leaves both open; this is what an H100 gives.
      if (steps === -(2 ** 31)) return bits(0n)
      if (start > 31) return bits(mask(32))
      const all = Array.from({ length: 32 }, (_, at) => at).filter((at) => (a >> BigInt(at)) & 1n)
      if (steps === 0) return bits((a >> BigInt(start)) & 1n ? BigInt(start) : mask(32))
      const side = steps > 0 ? all.filter((at) => at >= start) : all.filter((at) => at <= start).reverse()
      return bits(BigInt(side[Math.abs(steps) - 1] ?? 0xffffffff))
    }
    case 'prmt':
      return bits(permute(a, b, c, m['M']))
    case 'lop3': {
      let result = 0n
      for (let at = 0n; at < 32n; at++) {
        const index = (((a >> at) & 1n) << 2n) | (((b >> at) & 1n) << 1n) | ((c >> at) & 1n)
        result |= ((e >> index) & 1n) << at
      }
      if (m['B'] === undefined) return bits(result)
      const given = (o['g'] ?? 0n) & 1n
      return bits(result, m['B'] === 'or' ? given | (result !== 0n ? 1n : 0n) : given & (result !== 0n ? 1n : 0n))
    }
    case 'dp4a':
    case 'dp2a': {
      let sum = integer(c, m['A'] ?? 'u32')
      const parts = opcode === 'dp4a' ? 4 : 2
      for (let at = 0; at < parts; at++) {
        const one = opcode === 'dp4a' ? part(a, 8 * at, 8, m['A']) : part(a, 16 * at, 16, m['A'])
        sum += one * part(b, 8 * (at + (m['M'] === 'hi' ? 2 : 0)), 8, m['B'])
      }
      return bits(sum)
    }
    default: {
      const simd = /^v(add|sub|avrg|absdiff|min|max)([24])$/.exec(opcode)
      return simd === null ? OPEN : bits(partwise(simd[1] ?? '', Number(simd[2]), m, a, b, c))
    }
  }
}

function part(word: bigint, at: number, width: number, type = 'u32'): bigint {
  const value = (word >> BigInt(at)) & mask(width)
  return isSigned(type) ? BigInt.asIntN(width, value) : value
}

function partwise(operation: string, parts: number, m: Words, a: bigint, b: bigint, c: bigint): bigint {
  const width = 32 / parts
  let [packedResult, total] = [0n, c]
  for (let at = 0; at < parts; at++) {
    const [x, y] = [part(a, at * width, width, m['A']), part(b, at * width, width, m['B'])]
    const results: Readonly<Record<string, bigint>> = {
      add: x + y,
      sub: x - y,
      avrg: x + y < 0n ? (x + y) >> 1n : (x + y + 1n) >> 1n,
      absdiff: x < y ? y - x : x - y,
      min: least(x, y),
      max: most(x, y),
    }
    let result = results[operation] ?? 0n
    if (m['sat']) result = clamp(result, `${m['D']?.[0]}${width}`)
    total += result
    packedResult |= (result & mask(width)) << BigInt(at * width)
  }
  return m['add'] ? total : packedResult
}

function permute(a: bigint, b: bigint, selector: bigint, form: string | undefined): bigint {
  const bytes = Array.from({ length: 8 }, (_, at) => (at < 4 ? a >> BigInt(8 * at) : b >> BigInt(8 * (at - 4))) & 255n)
  const n = Number(selector & 3n)
  const choices: Readonly<Record<string, readonly number[]>> = {
    f4e: [n, n + 1, n + 2, n + 3],
    b4e: [n, (n + 7) % 8, (n + 6) % 8, (n + 5) % 8],
    rc8: [n, n, n, n],
    ecl: [0, 1, 2, 3].map((at) => Math.max(at, n)),
    ecr: [0, 1, 2, 3].map((at) => Math.min(at, n)),
    rc16: n % 2 === 0 ? [0, 1, 0, 1] : [2, 3, 2, 3],
  }
  let result = 0n
  for (let at = 0; at < 4; at++) {
    const four = Number((selector >> BigInt(4 * at)) & 15n)
    const chosen = form === undefined ? (bytes[four & 7] ?? 0n) : (bytes[choices[form]?.[at] ?? 0] ?? 0n)
    const sign = form === undefined && four & 8
    result |= (sign ? ((chosen >> 7n) & 1n ? 255n : 0n) : chosen) << BigInt(8 * at)
  }
  return result
}

function packedIntegers(opcode: string, m: Words, type: string, a: bigint, b: bigint): Answer {
  const one = `${type[0]}16`
  let result = 0n
  for (const at of [0, 16]) {
    const [x, y] = [part(a, at, 16, one), part(b, at, 16, one)]
    const plain = opcode === 'add' ? x + y : opcode === 'sub' ? x - y : opcode === 'min' ? least(x, y) : most(x, y)
    result |= ((m['relu'] ? most(plain, 0n) : plain) & 0xffffn) << BigInt(at)
  }
  return bits(result)
}

// Floats --------------------------------------------------------------------------------------------------------------

/** Denormal numbers count as zero where the form says so. */
function flush(value: Value, format: FormatName, m: Words): Value {
  if (m['ftz'] === undefined || value.kind !== 'finite' || format === 'bf16') return value
  const limit = fraction(1n, 1n << (format === 'f32' ? 126n : format === 'f64' ? 1022n : 14n))
  const size = value.negative ? negate(value) : value
  return compareValues(size, limit) === -1 ? fraction(0n, 1n, value.negative) : value
}

/** Rounds, and does what `.ftz`, `.sat` and `.relu` ask for. */
function finish(value: Value, format: FormatName, m: Words, rounding: Rounding = 'rn'): bigint {
  let result = value
  if (m['sat']) result = saturated(result)
  if (m['relu'] && result.kind !== 'nan' && result.negative) result = fraction(0n, 1n)
  const rounded = encodeFloat(result, FORMATS[format], rounding)
  return encodeFloat(flush(decodeFloat(rounded, FORMATS[format]), format, m), FORMATS[format])
}

function saturated(value: Value): Value {
  if (value.kind === 'nan' || value.negative) return fraction(0n, 1n)
  return compareValues(value, fraction(1n, 1n)) === 1 ? fraction(1n, 1n) : value
}

function float(
  opcode: string,
  m: Words,
  format: FormatName,
  o: Readonly<Record<string, bigint>>,
  types: Readonly<Record<string, string>> = {},
): Answer {
  const f = FORMATS[format]
  const [a, b, c] = ['a', 'b', 'c'].map((name) => flush(decodeFloat(o[name] ?? 0n, f), format, m)) as [
    Value,
    Value,
    Value,
  ]
  const rounding = (m['rnd'] === 'approx' || m['rnd'] === undefined ? 'rn' : m['rnd']) as Rounding
  const done = (value: Value): Answer => {
    // In f64 the GPU keeps more of a NaN than the manual says.
    if (value.kind === 'nan' && format === 'f64') return ANY_NAN
    return bits(finish(value, format, m, rounding))
  }
  // The errors are those that the manual of PTX 9.1 allows. A result that is flushed may be off by the least normal number.
  const about = (value: number, relative: number, absolute = 0): Answer => ({
    kind: 'about',
    format,
    value,
    relative,
    absolute: absolute + (m['ftz'] && format !== 'f64' ? 2 ** -126 : 0),
  })
  /** So many units in the last place of the nearest f32. */
  const units = (value: number, count: number): Answer => {
    const exponent = Math.max(Math.floor(Math.log2(Math.abs(value))), -126)
    return about(Math.fround(value), 0, Number.isFinite(value) ? count * 2 ** (exponent - 23) : 0)
  }
  /** The approximations of f64 read and write the upper 32 bits. */
  const upper = (): Value => flush(decodeFloat(((o['a'] ?? 0n) >> 32n) << 32n, f), format, m)
  const approximate = m['rnd'] === 'approx' || m['M'] !== undefined || /^\w+\.approx/.test(m['__pattern'] ?? '')
  switch (opcode) {
    case 'add':
      return done(add(a, b, rounding))
    case 'sub':
      return done(add(a, negate(b), rounding))
    case 'mul':
      return done(multiply(a, b))
    case 'fma':
    case 'mad':
      return done(add(multiply(a, b), c, rounding))
    case 'div':
      if (approximate) {
        // The reciprocal of a larger number is zero; below 2^-126 the manual states no error.
        const tooLarge = b.kind === 'finite' && Math.abs(toNumber(b)) > 2 ** 126 && m['M'] === 'approx'
        return units(toNumber(tooLarge ? multiply(a, fraction(0n, 1n, b.negative)) : divide(a, b)), 2)
      }
      return done(divide(a, b))
    case 'rcp':
      // No error is stated in f64: one unit of the upper 32 bits.
      if (format === 'f64' && approximate)
        return about(toNumber(divide(fraction(1n, 1n), upper())), 2 ** -20, 2 ** -1022)
      if (approximate) return units(toNumber(divide(fraction(1n, 1n), a)), 1)
      return done(divide(fraction(1n, 1n), a))
    case 'sqrt':
      if (approximate) return about(Math.sqrt(toNumber(a)), 2 ** -23)
      return done(squareRoot(a))
    case 'rsqrt':
      if (format === 'f64' && m['ftz']) return about(1 / Math.sqrt(toNumber(upper())), 2 ** -20)
      // No error is stated in f64: a unit in the last place.
      return about(1 / Math.sqrt(toNumber(a)), format === 'f64' ? 2 ** -52 : 2 ** -22.9)
    case 'sin':
    case 'cos': {
      const [value, wave] = [toNumber(a), opcode === 'sin' ? Math.sin : Math.cos]
      if (!Number.isFinite(value) || Math.abs(value) <= 2 * Math.PI) return about(wave(value), 0, 2 ** -20.5)
      if (Math.abs(value) <= 100 * Math.PI) return about(wave(value), 0, 2 ** -14.7)
      // The manual states nothing further out: what an H100 does is to multiply by the f32 next to 1 / 2π, to zero.
      const turns = encodeFloat(multiply(a, decodeFloat(0x3e22f983n, FORMATS.f32)), FORMATS.f32, 'rz')
      return about(wave(2 * Math.PI * (toNumber(decodeFloat(turns, FORMATS.f32)) % 1)), 0, 2 ** -20.5)
    }
    case 'lg2': {
      const value = toNumber(a)
      const near = value > 0.5 && value < 2
      return about(Math.log2(value), near ? 0 : 2 ** -22, near ? 2 ** -22 : 0)
    }
    case 'ex2':
      if (format === 'f32') return units(2 ** toNumber(a), 2)
      // The result may be denormal in f16, where the error is that of cutting off.
      return about(2 ** toNumber(a), format === 'f16' ? 2 ** -9.9 : 2 ** -7, format === 'f16' ? 2 ** -24 : 0)
    case 'tanh':
      if (format === 'f32') return about(Math.tanh(toNumber(a)), 2 ** -11)
      return about(Math.tanh(toNumber(a)), 0, format === 'f16' ? 2 ** -10.987 : 2 ** -8)
    case 'neg':
      if (format === 'f64') return bits(a.kind === 'nan' ? quiet(o['a'] ?? 0n) : (o['a'] ?? 0n) ^ (1n << 63n))
      return bits(encodeFloat(negate(a), f))
    case 'abs':
      if (format === 'f64') return bits(a.kind === 'nan' ? quiet(o['a'] ?? 0n) : (o['a'] ?? 0n) & mask(63))
      return bits(encodeFloat(a.kind !== 'nan' && a.negative ? negate(a) : a, f))
    case 'min':
    case 'max':
      return extremum(opcode, m, format, a, b, types['c'] === undefined ? undefined : c)
    case 'copysign': {
      const sign = 1n << BigInt(widthOf(format) - 1)
      return bits(((o['a'] ?? 0n) & sign) | ((o['b'] ?? 0n) & (sign - 1n)))
    }
    default:
      return OPEN
  }
}

function extremum(opcode: string, m: Words, format: FormatName, first: Value, second: Value, third?: Value): Answer {
  if (third !== undefined) {
    const size = (value: Value): Value => (m['abs'] && value.kind !== 'nan' && value.negative ? negate(value) : value)
    const two = extremum(opcode, m, format, size(first), size(second))
    if (two.kind !== 'bits') return two
    return extremum(opcode, m, format, decodeFloat(two.results[0] ?? 0n, FORMATS[format]), size(third))
  }
  const f = FORMATS[format]
  let [a, b] = [first, second]
  let negative: boolean | undefined
  if (m['xorsign']) {
    if (a.kind === 'nan' || b.kind === 'nan') return OPEN
    negative = a.negative !== b.negative
    a = a.negative ? negate(a) : a
    b = b.negative ? negate(b) : b
  }
  let result: Value
  if (a.kind === 'nan' || b.kind === 'nan') result = m['NaN'] ? NAN : a.kind === 'nan' ? b : a
  else {
    // +0 is above -0.
    const order = compareValues(a, b) || Number(b.negative) - Number(a.negative)
    result = (opcode === 'min' ? order <= 0 : order >= 0) ? a : b
  }
  if (negative !== undefined && result.kind !== 'nan' && result.negative !== negative) result = negate(result)
  if (result.kind === 'nan' && format === 'f64') return ANY_NAN
  return bits(encodeFloat(result, f))
}

function packed(opcode: string, m: Words, type: string, o: Readonly<Record<string, bigint>>): Answer {
  const format = type.slice(0, -2) as FormatName
  const width = widthOf(format)
  const halves = [0n, BigInt(width)].map((at) => {
    const operands = Object.fromEntries(
      Object.entries(o).map(([name, value]) => [name, BigInt.asUintN(width, value >> at)]),
    )
    return float(opcode, { ...m, T: format }, format, operands)
  })
  const [low, high] = halves
  if (low?.kind !== 'bits' || high?.kind !== 'bits') return OPEN
  return bits((low.results[0] ?? 0n) | ((high.results[0] ?? 0n) << BigInt(width)))
}

function testp(m: Words, a: bigint): Answer {
  const format = m['T'] as FormatName
  const value = decodeFloat(a, FORMATS[format])
  const smallest = fraction(1n, 1n << (format === 'f32' ? 126n : 1022n))
  const size = value.kind !== 'nan' && value.negative ? negate(value) : value
  // A GPU counts zero as normal.
  const isNormal = isZero(value) || (value.kind === 'finite' && (compareValues(size, smallest) ?? 0) >= 0)
  const answers: Readonly<Record<string, boolean>> = {
    finite: value.kind === 'finite',
    infinite: value.kind === 'infinite',
    number: value.kind !== 'nan',
    notanumber: value.kind === 'nan',
    normal: isNormal,
    subnormal: value.kind === 'finite' && !isNormal,
  }
  return bits(answers[m['M'] ?? ''] ? 1n : 0n)
}

function holds(relation: string, type: string, m: Words, a: bigint, b: bigint): boolean {
  if (isFloat(type)) {
    const [x, y] = [a, b].map((each) => flush(decodeFloat(each, FORMATS[type]), type, m)) as [Value, Value]
    const order = compareValues(x, y)
    if (relation === 'num') return order !== undefined
    if (relation === 'nan') return order === undefined
    if (order === undefined) return relation.length === 3
    return ordered(relation.slice(0, 2), order)
  }
  const plain: Readonly<Record<string, string>> = { lo: 'lt', ls: 'le', hi: 'gt', hs: 'ge' }
  const asType = plain[relation] === undefined ? type : `u${widthOf(type)}`
  const [x, y] = [integer(a, asType), integer(b, asType)]
  return ordered(plain[relation] ?? relation, x < y ? -1 : x > y ? 1 : 0)
}

function ordered(relation: string, order: number): boolean {
  const answers: Readonly<Record<string, boolean>> = {
    eq: order === 0,
    ne: order !== 0,
    lt: order < 0,
    le: order <= 0,
    gt: order > 0,
    ge: order >= 0,
  }
  return answers[relation] ?? false
}

function compare(opcode: string, m: Words, o: Readonly<Record<string, bigint>>): Answer {
  const type = (opcode === 'set' ? m['S'] : m['T']) ?? ''
  const { a = 0n, b = 0n, c = 0n } = o
  const combine = (condition: boolean): boolean => {
    const other = (c & 1n) === 1n
    return m['bool'] === 'and'
      ? condition && other
      : m['bool'] === 'or'
        ? condition || other
        : m['bool'] === 'xor'
          ? condition !== other
          : condition
  }
  if (/x2$/.test(type)) {
    const format = type.slice(0, -2)
    const both = [0n, 16n].map((at) =>
      combine(holds(m['cmp'] ?? '', format, m, (a >> at) & 0xffffn, (b >> at) & 0xffffn)),
    )
    if (opcode === 'setp') return bits(...both.map((each) => (each ? 1n : 0n)))
    const one = m['T'] === 'f16x2' ? 0x3c00n : m['T'] === 'bf16x2' ? 0x3f80n : 0xffffn
    return bits((both[0] ? one : 0n) | (both[1] ? one << 16n : 0n))
  }
  const condition = holds(m['cmp'] ?? '', type, m, a, b)
  if (opcode === 'setp') return bits(combine(condition) ? 1n : 0n, combine(!condition) ? 1n : 0n)
  const ones: Readonly<Record<string, bigint>> = { f32: 0x3f800000n, f16: 0x3c00n, bf16: 0x3f80n }
  return bits(combine(condition) ? (ones[m['T'] ?? ''] ?? mask(widthOf(m['T'] ?? ''))) : 0n)
}

// Conversion ----------------------------------------------------------------------------------------------------------

function convert(given: Words, a: bigint, b: bigint): Answer {
  const [to, from] = [given['T'] ?? '', given['S'] ?? '']
  // Here .ftz means operands and results of f32 alone.
  const { ftz: _, ...m } = given
  if (/^(f16|bf16)x2$/.test(to) && from === 'f32') {
    const format = to.slice(0, -2) as FormatName
    const one = (x: bigint): bigint => narrowed(decodeFloat(x, FORMATS.f32), format, m)
    return bits((one(a) << 16n) | one(b))
  }
  if (to === 'tf32') return tf32(m, a)
  if (/^e\dm\dx2$/.test(to)) {
    const values =
      from === 'f32'
        ? [a, b].map((x) => decodeFloat(x, FORMATS.f32))
        : [a >> 16n, a & 0xffffn].map((x) => decodeFloat(x, FORMATS.f16))
    const [high, low] = values.map((value) => eightBits(value, to, m))
    return bits(((high ?? 0n) << 8n) | (low ?? 0n))
  }
  if (/^e\dm\dx2$/.test(from)) {
    const one = (x: bigint): bigint => {
      const value = fromEightBits(x, from)
      if (m['relu'] && value.kind !== 'nan' && value.negative) return 0n
      return encodeFloat(value, FORMATS.f16)
    }
    return bits((one(a >> 8n) << 16n) | one(a & 255n))
  }
  if (isFloat(from) && isFloat(to)) {
    const flushes = from === 'f32' && !/f16/.test(to)
    const value = flushes ? flush(decodeFloat(a, FORMATS[from]), from, given) : decodeFloat(a, FORMATS[from])
    if (/i$/.test(m['rnd'] ?? '') && value.kind === 'finite') {
      const whole = toInteger(value, m['rnd'] as 'rni')
      return bits(finish(fraction(whole, 1n, value.negative), to, to === 'f32' ? given : m))
    }
    if (value.kind === 'nan' && m['sat'] === undefined) {
      if (from === 'f64') return to === 'f64' ? ANY_NAN : bits(resizedNaN(a, from, to))
      if (from === 'bf16' && to === 'f32' && !given['ftz']) return bits(a << 16n)
      if (to === 'f64') return bits(resizedNaN(given['ftz'] ? FORMATS.f32.nan : a, from, to))
    }
    if (from === to && to !== 'f32' && !m['sat'] && !m['rnd'])
      return bits(to === 'bf16' && value.kind === 'nan' ? FORMATS.bf16.nan : a)
    if (m['satfinite']) return bits(narrowed(value, to, m))
    return bits(finish(value, to, to === 'f32' ? given : m, (m['rnd'] as Rounding | undefined) ?? 'rn'))
  }
  if (isFloat(from)) {
    const value = from === 'f32' ? flush(decodeFloat(a, FORMATS[from]), from, given) : decodeFloat(a, FORMATS[from])
    const width = widthOf(to)
    if (value.kind === 'nan') return bits(from === 'f64' || width === 64 ? 1n << BigInt(width - 1) : 0n)
    const [low, high] = range(to)
    if (value.kind === 'infinite') return bits(value.negative ? low : high)
    return bits(clamp(toInteger(value, m['rnd'] as 'rni'), to))
  }
  const value = integer(a, from)
  if (isFloat(to)) return bits(finish(fraction(value, 1n), to, m, (m['rnd'] as Rounding | undefined) ?? 'rn'))
  return bits(m['sat'] ? clamp(value, to) : value)
}

/** A NaN in another format: the sign, and as many of the highest bits as there are, of which the first becomes one. */
function resizedNaN(a: bigint, from: FormatName, to: FormatName): bigint {
  const [source, target] = [FORMATS[from], FORMATS[to]]
  const sign = (a >> BigInt(widthOf(from) - 1)) << BigInt(widthOf(to) - 1)
  const part = a & ((1n << source.fractionBits) - 1n)
  const distance = target.fractionBits - source.fractionBits
  const moved = distance < 0n ? part >> -distance : part << distance
  const exponent = ((1n << target.exponentBits) - 1n) << target.fractionBits
  return sign | exponent | (1n << (target.fractionBits - 1n)) | moved
}

function narrowed(value: Value, format: FormatName, m: Words): bigint {
  const result = finish(value, format, m, (m['rnd'] as Rounding | undefined) ?? 'rn')
  if (!m['satfinite']) return result
  const decoded = decodeFloat(result, FORMATS[format])
  return decoded.kind === 'infinite' ? result - 1n : result
}

function tf32(m: Words, a: bigint): Answer {
  const value = decodeFloat(a, FORMATS.f32)
  if (value.kind === 'nan') return bits(m['rnd'] === 'rna' ? (a >> 13n) << 13n : 0x7fffe000n)
  const kept = m['relu'] && value.negative ? fraction(0n, 1n) : value
  const rounded = encodeFloat(
    kept,
    { name: 'tf32', exponentBits: 8n, fractionBits: 10n, nan: 0n },
    m['rnd'] as Rounding,
  )
  const decoded = decodeFloat(rounded << 13n, FORMATS.f32)
  return m['satfinite'] && decoded.kind === 'infinite' ? OPEN : bits(rounded << 13n)
}

function fromEightBits(x: bigint, type: string): Value {
  const value = x & 255n
  if (type === 'e5m2x2') return decodeFloat(value, { name: 'e5m2', exponentBits: 5n, fractionBits: 2n, nan: 0x7fn })
  if ((value & 127n) === 127n) return NAN
  // e4m3 has numbers where others have infinity: the exponent of all ones is one more.
  const exponent = (value >> 3n) & 15n
  const whole = exponent === 0n ? value & 7n : (value & 7n) | 8n
  const power = (exponent === 0n ? 1n : exponent) - 10n
  const signed = value & 128n ? -whole : whole
  return power >= 0n
    ? fraction(signed << power, 1n, (value & 128n) !== 0n)
    : fraction(signed, 1n << -power, (value & 128n) !== 0n)
}

/** The nearest of all values, ties to even bits; too large ones become the largest. */
function eightBits(value: Value, type: string, m: Words): bigint {
  if (value.kind === 'nan') return 0x7fn
  if (m['relu'] && value.negative) return 0n
  const sign = value.negative ? 128n : 0n
  const largest = type === 'e4m3x2' ? 0x7en : 0x7bn
  if (value.kind === 'infinite') return sign | largest
  const size = value.negative ? negate(value) : value
  let best = 0n
  let distance: Value | undefined
  for (let candidate = 0n; candidate <= largest; candidate++) {
    const difference = add(fromEightBits(candidate, type), negate(size))
    const absolute = difference.kind !== 'nan' && difference.negative ? negate(difference) : difference
    const order = distance === undefined ? -1 : compareValues(absolute, distance)
    if (order === -1 || (order === 0 && (candidate & 1n) === 0n)) {
      best = candidate
      distance = absolute
    }
  }
  return sign | best
}
