/** The forms of conversions from one type to another. */
import { formList, type Modifiers } from './form.js'
import { bits, clamped, finished, fromFloat, half, mode, operand, relu, signed, su, toF32 } from './formulas.js'

const { forms, form, float, code } = formList()

export const CONVERSION_FORMS = forms

const INTEGERS = 'u8|s8|u16|s16|u32|s32|u64|s64'

form(`cvt.?sat.T=${INTEGERS}.S=${INTEGERS}`, 'd:T a:S', (m) => integerToInteger(m))

function integerToInteger(m: Modifiers): string {
  const [from, to] = [bits(m, 'S'), bits(m)]
  const widened = from === 64 ? 'a' : `(i64.extend_i32_${su(m, 'S')} a)`
  if (!m['sat']) {
    if (to === 64) return widened
    return from === 64 ? '(i32.wrap_i64 a)' : 'a'
  }
  // The comparison is made in 64 bits, where a u64 with its sign bit set counts as very large.
  const most = signed(m) ? (1n << BigInt(to - 1)) - 1n : (1n << BigInt(to)) - 1n
  const least = signed(m) ? -(1n << BigInt(to - 1)) : 0n
  const unsignedSource = from === 64 && !signed(m, 'S')
  const top =
    to === 64 && !signed(m)
      ? 'v'
      : `(select v ${BigInt.asIntN(64, most)}L (i64.l${unsignedSource ? 't_u' : 't_s'} v ${BigInt.asIntN(64, most)}L))`
  const bottom = signed(m, 'S') ? `(let w ${top} (select w ${least}L (i64.gt_s w ${least}L)))` : top
  return to === 64 ? `(let v ${widened} ${bottom})` : `(let v ${widened} (i32.wrap_i64 ${bottom}))`
}

const TO_INTEGER = 'rni|rzi|rmi|rpi'
const ROUND_TO_INTEGER: Readonly<Record<string, string>> = { rni: 'nearest', rzi: 'trunc', rmi: 'floor', rpi: 'ceil' }

for (const source of ['f32', 'f64', 'f16', 'bf16']) {
  form(`cvt.rnd=${TO_INTEGER}.?ftz.?sat.T=${INTEGERS}.S=${source}`, 'd:T a:S', (m) => {
    const t = source === 'f64' ? 'f64' : 'f32'
    const value = source === 'f32' ? operand('a', m) : source === 'f64' ? 'a' : toF32(source, 'a', m)
    const whole = `(${t}.${ROUND_TO_INTEGER[m['rnd'] ?? 'rzi']} ${value})`
    const size = bits(m)
    // A NaN becomes 0 in conversions between narrow types, otherwise the highest bit alone.
    const nanBits = t === 'f64' || size === 64
    if (size >= 32) {
      const converted = `(i${size}.trunc_sat_${t}_${su(m)} r)`
      if (!nanBits) return `(let r ${whole} ${converted})`
      const nan = size === 64 ? '-9223372036854775808L' : '-2147483648'
      return `(let r ${whole} (select ${converted} ${nan} (${t}.eq r r)))`
    }
    const most = signed(m) ? (1 << (size - 1)) - 1 : (1 << size) - 1
    const least = signed(m) ? -(1 << (size - 1)) : 0
    const narrowed = `(let i (i32.trunc_sat_${t}_s r) (let j (select i ${most} (i32.lt_s i ${most})) (select j ${least} (i32.gt_s j ${least}))))`
    return nanBits
      ? `(let r ${whole} (select ${narrowed} ${1 << (size - 1)} (${t}.eq r r)))`
      : `(let r ${whole} ${narrowed})`
  })
}

/** An integer operand as f64, which is exact up to 32 bits. */
function integerAsF64(m: Modifiers): string {
  return `(f64.convert_i${bits(m, 'S') === 64 ? 64 : 32}_${su(m, 'S')} a)`
}

function integerHalves(m: Modifiers): string {
  return `(i32.wrap_i64 a) (i32.wrap_i64 (i64.shr_u a 32L)) ${signed(m, 'S') ? 1 : 0}`
}

form(`cvt.rnd=rn|rz|rm|rp.?ftz.?sat.T=f32.S=${INTEGERS}`, 'd:T a:S', (m) => {
  const is64 = bits(m, 'S') === 64
  const value =
    mode(m) === 0
      ? `(f32.convert_i${is64 ? 64 : 32}_${su(m, 'S')} a)`
      : is64
        ? `($int64_to_f32_mode ${integerHalves(m)} ${mode(m)})`
        : `($f64_to_f32_mode ${integerAsF64(m)} ${mode(m)})`
  return m['sat'] ? clamped(value, 'f32') : value
})
form(`cvt.rnd=rn|rz|rm|rp.?sat.T=f64.S=${INTEGERS}`, 'd:T a:S', (m) => {
  const exact = bits(m, 'S') < 64 || mode(m) === 0
  const value = exact ? integerAsF64(m) : `($int64_to_f64_mode ${integerHalves(m)} ${mode(m)})`
  return m['sat'] ? clamped(value, 'f64') : value
})
form(`cvt.rnd=rn|rz|rm|rp.?sat.T=f16|bf16.S=${INTEGERS}`, 'd:T a:S', (m) => {
  if (m['T'] === 'bf16' && bits(m, 'S') === 64) return `($int64_to_bf16_mode ${integerHalves(m)} ${mode(m)})`
  const value = m['sat'] ? clamped(integerAsF64(m), 'f64') : integerAsF64(m)
  return narrow(m['T'] ?? '', value, 'f64', m)
})

/** The bits of a value as f16 or bf16, with any rounding. */
function narrow(type: string, value: string, from: 'f32' | 'f64', m: Modifiers): string {
  const name = type.startsWith('bf16') ? 'bf16' : 'half'
  if (mode(m) === 0) return `($${from}_to_${name} ${value})`
  return `($f64_to_${name}_mode ${from === 'f32' ? `(f64.promote_f32 ${value})` : value} ${mode(m)})`
}

float('cvt.?ftz.?sat.T=f32.S=f32', 'd:T a:S', (m) => finished(operand('a', m), m))
float(`cvt.rnd=${TO_INTEGER}.?ftz.?sat.T=f32.S=f32`, 'd:T a:S', (m) =>
  finished(`(f32.${ROUND_TO_INTEGER[m['rnd'] ?? '']} ${operand('a', m)})`, m),
)
float('cvt.?sat.T=f64.S=f64', 'd:T a:S', (m) => (m['sat'] ? clamped('a', 'f64') : 'a'))
float(`cvt.rnd=${TO_INTEGER}.?sat.T=f64.S=f64`, 'd:T a:S', (m) => {
  const value = `(f64.${ROUND_TO_INTEGER[m['rnd'] ?? '']} a)`
  return m['sat'] ? clamped(value, 'f64') : value
})
// Conversions between f32 and f64 keep what they can of a NaN; with .ftz it is an f32 operation that reads the operand.
form('cvt.?ftz.?sat.T=f64.S=f32', 'd:T a:S', (m) => {
  const source = m['ftz'] ? '(let v a~ (select v f#7fffffff (f32.eq v v)))' : 'a'
  const value = `(f64.promote_f32 ${source})`
  return m['sat'] ? clamped(value, 'f64') : value
})
form('cvt.rnd=rn|rz|rm|rp.?ftz.?sat.T=f32.S=f64', 'd:T a:S', (m) =>
  // A NaN is converted by WebAssembly alone: Bun's engine changes the bits of a NaN that passes through JavaScript.
  finished(
    mode(m) === 0 ? '(f32.demote_f64 a)' : `(if f32 (f64.eq a a) ($f64_to_f32_mode a ${mode(m)}) (f32.demote_f64 a))`,
    m,
    `($f64_to_f32_ftz a ${mode(m)})`,
  ),
)
/** The sign and the highest bits of a NaN of f64. */
function narrowedNaN(type: string): string {
  const [quiet, fraction, distance] = type === 'bf16' ? [0x7fc0, 0x7f, 45] : [0x7e00, 0x3ff, 42]
  return `(let k (i64.reinterpret_f64 a) (i32.or ${quiet} (i32.or (i32.and (i32.wrap_i64 (i64.shr_u k 48L)) 0x8000)
    (i32.and (i32.wrap_i64 (i64.shr_u k ${distance}L)) ${fraction}))))`
}
for (const type of ['f16', 'bf16']) {
  if (type === 'f16')
    float('cvt.?ftz.?sat.T=f32.S=f16', 'd:T a:S', (m) => {
      const value = toF32(type, 'a', {})
      return m['sat'] ? clamped(value, 'f32') : value
    })
  else {
    // The bits are moved unchanged, even those of a NaN; only `.ftz` makes it a conversion.
    form('cvt.?rn.T=f32.S=bf16', 'd:T a:S', () => toF32(type, 'a', {}))
    float('cvt.ftz.T=f32.S=bf16', 'd:T a:S', () => toF32(type, 'a', {}))
  }
  float(`cvt.?sat.T=f64.S=${type}`, 'd:T a:S', (m) => {
    const value = `(f64.promote_f32 ${toF32(type, 'a', m)})`
    return m['sat'] ? clamped(value, 'f64') : value
  })
  form(`cvt.rnd=rn|rz|rm|rp.?relu.?satfinite.?ftz.?sat.T=${type}.S=f32`, 'd:T a:S', (m) =>
    // The modifier .ftz changes nothing here: a denormal operand is rounded as it is.
    narrow(type, prepared('a', 'f32', type, m), 'f32', m),
  )
  form(`cvt.rnd=rn|rz|rm|rp.?sat.T=${type}.S=f64`, 'd:T a:S', (m) =>
    m['sat']
      ? narrow(type, clamped('a', 'f64'), 'f64', m)
      : `(if i32 (f64.eq a a) ${narrow(type, 'a', 'f64', m)} ${narrowedNaN(type)})`,
  )
  form(`cvt.rnd=${TO_INTEGER}.?ftz.?sat.T=${type}.S=${type}`, 'd:T a:S', (m) =>
    fromFloat(type, `(f32.${ROUND_TO_INTEGER[m['rnd'] ?? '']} ${toF32(type, 'a', m)})`, 'f32', m),
  )
  form(`cvt.?ftz.?sat.T=${type}.S=${type}`, 'd:T a:S', (m) =>
    m['sat']
      ? fromFloat(type, toF32(type, 'a', m), 'f32', m)
      : type === 'bf16'
        ? '(select 0x7fff a (i32.gt_u (i32.and a 0x7fff) 0x7f80))'
        : 'a',
  )
  /** The packed conversion puts the first operand into the upper half. */
  form(`cvt.rnd=rn|rz.?relu.?satfinite.T=${type}x2.S=f32`, 'd:T a:S b:S', (m) => {
    const of = (x: string): string => narrow(type, prepared(x, 'f32', type, m), 'f32', m)
    return `(i32.or ${of('b')} (i32.shl ${of('a')} 16))`
  })
}
form('cvt.rnd=rn|rz|rm|rp.T=bf16.S=f16', 'd:T a:S', (m) => narrow('bf16', '($half_to_f32 a)', 'f32', m))
form('cvt.rnd=rn|rz|rm|rp.T=f16.S=bf16', 'd:T a:S', (m) => narrow('f16', toF32('bf16', 'a', {}), 'f32', m))

function prepared(x: string, t: 'f32', type: string, m: Modifiers): string {
  const value = m['sat'] ? clamped(x, t) : m['relu'] ? relu(x, t) : x
  if (!m['satfinite']) return value
  const largest = type === 'f16' ? 'f:65504' : 'f#7f7f0000'
  return `(let v ${value} (if f32 (f32.ne v v) v (f32.min (f32.max v (f32.neg ${largest})) ${largest})))`
}

form('cvt.rnd=rn|rna|rz.?satfinite.?relu.T=tf32.S=f32', 'd:b32 a:f32', (m) => {
  const value = m['relu'] ? relu('a', 'f32') : 'a'
  // Rounding by .rna cuts off the bits of a NaN, which turns some NaNs into infinities.
  const nan = m['rnd'] === 'rna' ? '(i32.and (i32.reinterpret_f32 a) 0xffffe000)' : '0x7fffe000'
  return `(let r ($f32_to_tf32_mode ${value} ${mode(m)}) (select (i32.reinterpret_f32 r) ${nan} (f32.eq r r)))`
})
/** The formats of eight bits and fewer, in the order of their numbers in numbers.ts. */
const SMALL = ['e4m3x2', 'e5m2x2', 'e2m1x2', 'e2m3x2', 'e3m2x2']
/** The bits from one of two numbers to the other: those of e2m1 share a byte. */
const apart = (type: string | undefined): number => (type === 'e2m1x2' ? 4 : 8)

function toSmall(m: Modifiers, low: string, upper: string): string {
  const type = m['T'] ?? ''
  const of = (x: string): string => `($f32_to_small ${x} ${SMALL.indexOf(type)} ${m['relu'] ? 1 : 0})`
  return `(i32.or ${of(low)} (i32.shl ${of(upper)} ${apart(type)}))`
}

form('cvt.rn.satfinite.?relu.T=e4m3x2|e5m2x2.S=f32', 'd:T a:S b:S', (m) => toSmall(m, 'b', 'a'))
form('cvt.rn.satfinite.?relu.T=e2m1x2|e2m3x2|e3m2x2.S=f32', 'd:T a:S b:S', (m) => toSmall(m, 'b', 'a'))
form('cvt.rn.satfinite.?relu.T=e4m3x2|e5m2x2.S=f16x2', 'd:T a:S', (m) =>
  toSmall(m, `($half_to_f32 ${half('a', 0)})`, `($half_to_f32 ${half('a', 1)})`),
)

function fromSmall(m: Modifiers): string {
  const type = m['S'] ?? ''
  const of = (x: string): string => {
    const h = `($small_to_half ${x} ${SMALL.indexOf(type)})`
    if (!m['relu']) return h
    return `(let h ${h} (select 0 h (i32.and (i32.shr_u h 15) (i32.le_u (i32.and h 0x7fff) 0x7c00))))`
  }
  return `(i32.or ${of('a')} (i32.shl ${of(`(i32.shr_u a ${apart(type)})`)} 16))`
}

form('cvt.rn.?relu.T=f16x2.S=e4m3x2|e5m2x2', 'd:T a:S', fromSmall)
form('cvt.rn.?relu.T=f16x2.S=e2m1x2|e2m3x2|e3m2x2', 'd:T a:S', fromSmall)

/** The exponent of a number's size as ue8m0, of the bits of an f32: rounding up goes to the next power of two, unless 2^-127 is enough. */
function exponentOf(x: string, m: Modifiers): string {
  const hasMore = '(i32.and (i32.ne (i32.and u 0x7fffff) 0) (i32.and (i32.gt_u u 0x400000) (i32.lt_u u 0x7f800000)))'
  const exponent = m['rnd'] === 'rp' ? `(i32.add (i32.shr_u u 23) ${hasMore})` : '(i32.shr_u u 23)'
  const limited = '(let e EXPONENT (select 254 e (i32.and (i32.eq e 255) (i32.le_u u 0x7f800000))))'
  return `(let u (i32.and ${x} 0x7fffffff) ${m['satfinite'] ? limited.replace('EXPONENT', exponent) : exponent})`
}

form('cvt.rnd=rz|rp.?satfinite.T=ue8m0x2.S=f32', 'd:T a:S b:S', (m) => {
  const of = (x: string): string => exponentOf(`(i32.reinterpret_f32 ${x})`, m)
  return `(i32.or ${of('b')} (i32.shl ${of('a')} 8))`
})
form(
  'cvt.rnd=rz|rp.?satfinite.T=ue8m0x2.S=bf16x2',
  'd:T a:S',
  (m) => `(i32.or ${exponentOf('(i32.shl a 16)', m)} (i32.shl ${exponentOf('(i32.and a 0xffff0000)', m)} 8))`,
)
form('cvt.rn.T=bf16x2.S=ue8m0x2', 'd:T a:S', () => {
  const of = (x: string): string =>
    `(let e (i32.and ${x} 255) (select 0x7fff (select 0x40 (i32.shl e 7) (i32.eqz e)) (i32.eq e 255)))`
  return `(i32.or ${of('a')} (i32.shl ${of('(i32.shr_u a 8)')} 16))`
})
code('cvt.!pack.sat.T=u16|s16.S=s32', 'd:b32 a:s32 b:s32', 'pack')
code('cvt.!pack.sat.T=u8|s8|u4|s4|u2|s2.S=s32.b32', 'd:b32 a:s32 b:s32 c:b32', 'pack')
