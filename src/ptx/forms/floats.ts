/** The forms of floating-point arithmetic on f32 and f64. */
import { formList, type Modifiers } from './form.js'
import { extremum, finished, flushed, mode, operand, ROUND } from './formulas.js'

const { forms, form, float } = formList()

const fused = formList()

export const FLOAT_FORMS = forms
/** The forms of instructions that the compiler makes of several. */
export const FUSED_FORMS = fused.forms

for (const operation of ['add', 'sub', 'mul']) {
  float(`${operation}.${ROUND}.?ftz.?sat.T=f32`, 'd:T a:T b:T', (m) => {
    const [a, b] = [operand('a', m), operand('b', m)]
    const direction = mode(m)
    // A denormal sum is exact, so that only a product needs to be rounded again.
    const again = operation === 'mul' ? `($mul32_ftz ${a} ${b} ${direction})` : undefined
    if (direction === 0) return finished(`(f32.${operation} ${a} ${b})`, m, again)
    const other = operation === 'sub' ? `(f32.neg ${b})` : b
    return finished(`($${operation === 'mul' ? 'mul' : 'add'}32_mode ${a} ${other} ${direction})`, m, again)
  })
  float(`${operation}.${ROUND}.T=f64`, 'd:T a:T b:T', (m) => {
    const direction = mode(m)
    return direction === 0 ? `(f64.${operation} a b)` : `($${operation}64_mode a b ${direction})`
  })
}

/**
 * The formula of a * b + c, computed in f64. It is rounded twice, which is wrong only next to the middle between two f32, or below the normal ones.
 */
function fused32(a: string, b: string, c: string): string {
  const product = `(f64.mul (f64.promote_f32 ${a}) (f64.promote_f32 ${b}))`
  const tie = '(i32.eq (i32.and (i32.wrap_i64 k) 0x1fffffff) 0x10000000)'
  const small = '(i32.lt_u (i32.sub (i32.and (i32.wrap_i64 (i64.shr_u k 32L)) 0x7fffffff) 1) 0x380fffff)'
  return `(let s (f64.add ${product} (f64.promote_f32 ${c})) (let k (i64.reinterpret_f64 s)
    (if f32 (i32.or ${tie} ${small}) ($fma32_near ${a} ${b} ${c}) (f32.demote_f64 s))))`
}

for (const opcode of ['fma', 'mad']) {
  float(`${opcode}.rnd=rn|rz|rm|rp.?ftz.?sat.T=f32`, 'd:T a:T b:T c:T', (m) => {
    const list = ['a', 'b', 'c'].map((name) => operand(name, m))
    const [a = '', b = '', c = ''] = list
    const again = `($fma32_ftz ${a} ${b} ${c} ${mode(m)})`
    if (mode(m) === 0) return finished(`(fma32 ${a} ${b} ${c})`, m, again)
    if (mode(m) === 2) return finished(`($fma32_down ${a} ${b} ${c})`, m, again)
    return finished(`($fma32_mode ${a} ${b} ${c} ${mode(m)})`, m, again)
  })
  float(`${opcode}.rnd=rn|rz|rm|rp.T=f64`, 'd:T a:T b:T c:T', (m) =>
    mode(m) === 0 ? '(fma64 a b c)' : `($fma64_mode a b c ${mode(m)})`,
  )
}

/** Replaces `(fma32 a b c)` and `(fma64 a b c)` in a formula by arithmetic for machines without an instruction for them. */
export function softwareFma(formula: string): string {
  return formula
    .replace(/\(fma32 ([\w~]+) ([\w~]+) ([\w~]+)\)/g, (_, a: string, b: string, c: string) => fused32(a, b, c))
    .replace(/\(fma64 /g, '($fma64 ')
}

/** Replaces `(fma32 a b c)` and `(fma64 a b c)` in a formula by instructions of relaxed SIMD, for processors that have a fused multiply-add. */
export function hardwareFma(formula: string): string {
  return formula.replace(
    /\(fma(32|64) ([\w~]+) ([\w~]+) ([\w~]+)\)/g,
    (_, width: string, a: string, b: string, c: string) => {
      const shape = width === '32' ? 'f32x4' : 'f64x2'
      const splat = (x: string): string => `(${shape}.splat ${x})`
      return `(${shape}.extract_lane_0 (${shape}.relaxed_madd ${splat(a)} ${splat(b)} ${splat(c)}))`
    },
  )
}

float(`div.rnd=rn|rz|rm|rp.?ftz.T=f32`, 'd:T a:T b:T', (m) => {
  const [a, b] = [operand('a', m), operand('b', m)]
  const quotient = mode(m) === 0 ? `(f32.div ${a} ${b})` : `($div32_mode ${a} ${b} ${mode(m)})`
  return finished(quotient, m, `($div32_ftz ${a} ${b} ${mode(m)})`)
})
const isSmall = (x: string): string => `(f32.lt (f32.abs ${x}) f:1.1754943508222875e-38)`
const LEAST_LARGE = 'f:8.507059173023462e+37'
/**
 * The formula of a quotient by .approx or .full: `value` of p, the dividend, and r, the reciprocal. A divisor of which that would be denormal or infinite
 * is scaled before, with the dividend.
 */
function quotient(m: Modifiers, value: string): string {
  const [a, b] = [operand('a', m), operand('b', m)]
  const small = m['ftz'] ? 'f:1' : `(select f:16777216 f:1 ${isSmall('q')})`
  const factor = m['M'] === 'full' ? `(select f:0.25 ${small} (f32.gt (f32.abs q) ${LEAST_LARGE}))` : small
  const divided = (dividend: string, divisor: string): string =>
    `(let p ${m['ftz'] ? flushed(dividend) : dividend} (let r ($rcp ${divisor}) ${value}))`
  return factor === 'f:1'
    ? divided(a, b)
    : `(let q ${b} (let s ${factor} ${divided(`(f32.mul ${a} s)`, '(f32.mul q s)')}))`
}
float('div.M=approx|full.?ftz.T=f32', 'd:T a:T b:T', (m) =>
  quotient(m, finished('(f32.mul p r)', m, '($mul32_ftz p r 0)')),
)
/** A quotient and a sum as one fused multiply-add (contraction.ts): no text can have this name. */
fused.float('div-add.M=approx|full.?ftz.?sat.T=f32', 'd:T a:T b:T c:T', (m) => {
  const c = operand('c', m)
  return quotient(m, finished(`(fma32 p r ${c})`, m, `($fma32_ftz p r ${c} 0)`))
})
float('div.rnd=rn|rz|rm|rp.T=f64', 'd:T a:T b:T', (m) =>
  mode(m) === 0 ? '(f64.div a b)' : `($div64_mode a b ${mode(m)})`,
)
float('rcp.approx.?ftz.T=f32', 'd:T a:T', (m) =>
  m['ftz']
    ? '($rcp a)'
    : `(let s (select f:16777216 (select f:0.25 f:1 (f32.gt (f32.abs a) ${LEAST_LARGE})) ${isSmall('a')})
        (f32.mul s ($rcp (f32.mul a s))))`,
)
float('rcp.rnd=rn|rz|rm|rp.?ftz.T=f32', 'd:T a:T', (m) => {
  const a = operand('a', m)
  const reciprocal = mode(m) === 0 ? `(f32.div f:1 ${a})` : `($div32_mode f:1 ${a} ${mode(m)})`
  return finished(reciprocal, m, `($div32_ftz f:1 ${a} ${mode(m)})`)
})
float('rcp.rnd=rn|rz|rm|rp.T=f64', 'd:T a:T', (m) =>
  mode(m) === 0 ? '(f64.div d:1 a)' : `($div64_mode d:1 a ${mode(m)})`,
)
/**
 * The approximations of f64 read the upper 32 bits and give those of the result. The mantissa's 20 bits are the first of an f32's, whose reciprocal, or
 * that of its root, is cut off to 20 bits.
 */
function approximated64(f32: string, exponent: string, isNumber: string): string {
  const fields = (body: string): string => `(let h (i32.wrap_i64 (i64.shr_u (i64.reinterpret_f64 a) 32L))
    (let k (i32.and (i32.shr_u h 20) 2047) ${body}))`
  const mantissa = '(i32.shl (i32.and h 0xfffff) 3)'
  const sign = '(i32.and h 0x80000000)'
  const value = `(let r (i32.reinterpret_f32 ${f32.replace('MANTISSA', mantissa)}) (let e ${exponent}
    (select (i32.or (i32.shl e 20) (i32.shr_u (i32.and r 0x7fffff) 3)) 0 (i32.gt_s e 0))))`
  const upper = `(let z (select ${value} 0 (i32.lt_u k 2047)) (let z (i32.or ${sign} (select z 0x7ff00000 k)) (select z 0x7fffffff ${isNumber})))`
  return `(f64.reinterpret_i64 (i64.shl (i64.extend_i32_u ${fields(upper)}) 32L))`
}
float(
  'rcp.approx.ftz.T=f64',
  'd:T a:T',
  approximated64(
    '($rcp (f32.reinterpret_i32 (i32.or MANTISSA 0x3f800000)))',
    '(i32.sub (i32.add (i32.shr_u r 23) 1919) k)',
    '(i32.le_u (i32.and h 0x7fffffff) 0x7ff00000)',
  ),
)
float(
  'rsqrt.approx.ftz.T=f64',
  'd:T a:T',
  approximated64(
    '($rsqrt (f32.reinterpret_i32 (i32.or MANTISSA (select 0x3f800000 0x40000000 (i32.and k 1)))))',
    '(i32.sub (i32.add (i32.shr_u r 23) 896) (i32.shr_s (i32.sub k 1023) 1))',
    '(i32.or (i32.eqz k) (i32.le_u h 0x7ff00000))',
  ),
)
/** A function of the special function unit, which reads denormal numbers as zeros: without .ftz they are scaled before, and the result afterwards. */
const unit = (name: string, result: (r: string) => string): void =>
  float(`${name}.approx.?ftz.T=f32`, 'd:T a:T', (m) =>
    m['ftz']
      ? `($${name} a)`
      : `(let s ${isSmall('a')} (let r ($${name} (f32.mul a (select f:16777216 f:1 s))) (select ${result('r')} r s)))`,
  )
unit('sqrt', (r) => `(f32.mul ${r} f:0.000244140625)`)
unit('rsqrt', (r) => `(f32.mul ${r} f:4096)`)
unit('lg2', (r) => `(f32.sub ${r} f:24)`)
float('sqrt.rnd=rn|rz|rm|rp.?ftz.T=f32', 'd:T a:T', (m) => {
  const a = operand('a', m)
  return finished(mode(m) === 0 ? `(f32.sqrt ${a})` : `($sqrt32_mode ${a} ${mode(m)})`, m)
})
float('sqrt.rnd=rn|rz|rm|rp.T=f64', 'd:T a:T', (m) => (mode(m) === 0 ? '(f64.sqrt a)' : `($sqrt64_mode a ${mode(m)})`))
float(
  'rsqrt.approx.T=f64',
  'd:T a:T',
  `(let r (f64.div d:1 (f64.sqrt a))
  (if f64 (i32.and (f64.gt r d:0) (f64.lt r d:Infinity)) ($rsqrt64 a) r))`,
)
for (const opcode of ['sin', 'cos']) float(`${opcode}.approx.?ftz.T=f32`, 'd:T a:T', () => `($${opcode} a)`)
/** What would be denormal is the square of the power of half the number. */
float('ex2.approx.?ftz.T=f32', 'd:T a:T', (m) =>
  m['ftz']
    ? '($ex2 a)'
    : `(let s (f32.ge a f:-126) (let r ($ex2 (select a (f32.mul a f:0.5) s)) (select r (f32.mul r r) s)))`,
)
float('tanh.approx.T=f32', 'd:T a:T', '($tanh a)')
float('neg.?ftz.T=f32', 'd:T a:T', (m) => `(f32.neg ${operand('a', m)})`)
float('abs.?ftz.T=f32', 'd:T a:T', (m) => `(f32.abs ${operand('a', m)})`)
// The two instructions leave a NaN its sign and payload, but make it quiet.
form('neg.T=f64', 'd:T a:T', '(select (f64.neg a) (f64.add a a) (f64.eq a a))')
form('abs.T=f64', 'd:T a:T', '(select (f64.abs a) (f64.add a a) (f64.eq a a))')

for (const operation of ['min', 'max']) {
  float(`${operation}.?ftz.?NaN.?xorsign.?abs.T=f32`, 'd:T a:T b:T', (m) => {
    const [a, b] = [operand('a', m), operand('b', m)]
    if (!m['xorsign']) return extremum(operation, 'f32', a, b, m)
    const sign = `(f32.reinterpret_i32 (i32.xor (i32.reinterpret_f32 ${a}) (i32.reinterpret_f32 ${b})))`
    return `(let x (f32.abs ${a}) (let y (f32.abs ${b}) (f32.copysign ${extremum(operation, 'f32', 'x', 'y', m)} ${sign})))`
  })
  float(`${operation}.T=f64`, 'd:T a:T b:T', (m) => extremum(operation, 'f64', 'a', 'b', m))
}
for (const operation of ['min', 'max']) {
  float(`${operation}.?ftz.?NaN.?abs.T=f32`, 'd:T a:T b:T c:T', (m) => {
    const [a = '', b = '', c = ''] = ['a', 'b', 'c'].map((name) => {
      const value = operand(name, m)
      return m['abs'] ? `(f32.abs ${value})` : value
    })
    const two = `(let x ${a} (let y ${b} ${extremum(operation, 'f32', 'x', 'y', m)}))`
    return `(let u ${two} (let w ${c} ${extremum(operation, 'f32', 'u', 'w', m)}))`
  })
}

/** A form on two f32 in 64 bits. */
function pairs32(
  names: string,
  each: (m: Modifiers) => string,
  again: (m: Modifiers) => string | undefined,
): (m: Modifiers) => string {
  return (m) => {
    const of = (half: (name: string) => string): string => {
      const value = (name: string): string => {
        const part = `(f32.reinterpret_i32 (i32.wrap_i64 ${half(name)}))`
        return m['ftz'] ? flushed(part) : part
      }
      const bound = names
        .split(' ')
        .reduceRight((inner, name) => `(let ${name}${name} ${value(name)} ${inner})`, finished(each(m), m, again(m)))
      return `(i64.extend_i32_u (let r ${bound} (i32.reinterpret_f32 (select r f#7fffffff (f32.eq r r)))))`
    }
    return `(i64.or ${of((name) => name)} (i64.shl ${of((name) => `(i64.shr_u ${name} 32L)`)} 32L))`
  }
}

for (const operation of ['add', 'sub', 'mul']) {
  form(
    `${operation}.${ROUND}.?ftz.T=f32x2`,
    'd:T a:T b:T',
    pairs32(
      'a b',
      (m) => {
        const other = operation === 'sub' ? '(f32.neg bb)' : 'bb'
        if (mode(m) === 0) return `(f32.${operation} aa bb)`
        return `($${operation === 'mul' ? 'mul' : 'add'}32_mode aa ${other} ${mode(m)})`
      },
      (m) => (operation === 'mul' ? `($mul32_ftz aa bb ${mode(m)})` : undefined),
    ),
  )
}
form(
  'fma.rnd=rn|rz|rm|rp.?ftz.T=f32x2',
  'd:T a:T b:T c:T',
  pairs32(
    'a b c',
    (m) => (mode(m) === 0 ? '(fma32 aa bb cc)' : `($fma32_mode aa bb cc ${mode(m)})`),
    (m) => `($fma32_ftz aa bb cc ${mode(m)})`,
  ),
)

/** PTX takes the sign of the first operand and the magnitude of the second, WebAssembly the other way round. */
form('copysign.T=f32|f64', 'd:T a:T b:T', '(T.copysign b a)')
form('testp.M=finite|infinite|number|notanumber|normal|subnormal.T=f32|f64', 'd:pred a:T', (m) => {
  const infinite = m['T'] === 'f32' ? 'f:Infinity' : 'd:Infinity'
  const least = m['T'] === 'f32' ? 'f:1.1754943508222875e-38' : 'd:2.2250738585072014e-308'
  const size = '(T.abs a)'
  switch (m['M']) {
    case 'finite':
      return `(T.lt ${size} ${infinite})`
    case 'infinite':
      return `(T.eq ${size} ${infinite})`
    case 'number':
      return '(T.eq a a)'
    case 'notanumber':
      return '(T.ne a a)'
    // A zero counts as normal on a GPU.
    case 'normal':
      return `(i32.and (i32.or (T.ge ${size} ${least}) (T.eq a (T.sub a a))) (T.lt ${size} ${infinite}))`
    default:
      return `(i32.and (T.lt ${size} ${least}) (T.gt ${size} ${m['T'] === 'f32' ? 'f:0' : 'd:0'}))`
  }
})
