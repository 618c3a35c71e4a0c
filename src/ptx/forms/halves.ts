/** The forms of arithmetic on f16 and bf16, alone and in pairs. */
import { formList, type Modifiers } from './form.js'
import { extremum, finished, flushed, fromFloat, half, mode, ROUND, toF32 } from './formulas.js'

const { forms, form, float } = formList()

export const HALF_FORMS = forms

/** A form on f16 or bf16, and on two of them in a word. */
function halves(opcode: string, names: string, each: (m: Modifiers, values: readonly string[]) => string): void {
  const list = names.split(' ')
  const operands = (type: string): string => `d:${type} ${list.map((name) => `${name}:${type}`).join(' ')}`
  const type = (m: Modifiers): string => m['T'] ?? ''
  form(`${opcode}.T=f16|bf16`, operands('T'), (m) =>
    each(
      m,
      list.map((x) => toF32(type(m), x, m)),
    ),
  )
  form(`${opcode}.T=f16x2|bf16x2`, operands('T'), (m) => {
    const of = (at: 0 | 1): string =>
      each(
        m,
        list.map((x) => toF32(type(m), half(x, at), m)),
      )
    return `(i32.or ${of(0)} (i32.shl ${of(1)} 16))`
  })
}

for (const operation of ['add', 'sub', 'mul']) {
  halves(`${operation}.?rnd=rn.?ftz.?sat`, 'a b', (m, [a, b]) =>
    fromFloat(m['T'] ?? '', `(f32.${operation} ${a} ${b})`, 'f32', m),
  )
}
halves('fma.rnd=rn.?ftz.?sat.?relu', 'a b c', (m, [a, b, c]) => {
  const wider = (x: string | undefined): string => `(f64.promote_f32 ${x})`
  return fromFloat(m['T'] ?? '', `(f64.add (f64.mul ${wider(a)} ${wider(b)}) ${wider(c)})`, 'f64', m)
})
for (const operation of ['min', 'max']) {
  halves(`${operation}.?ftz.?NaN.?xorsign.?abs`, 'a b', (m, [a = '', b = '']) => {
    if (!m['xorsign'])
      return `(let x ${a} (let y ${b} ${fromFloat(m['T'] ?? '', extremum(operation, 'f32', 'x', 'y', m), 'f32', {})}))`
    const sign = '(f32.reinterpret_i32 (i32.xor (i32.reinterpret_f32 x) (i32.reinterpret_f32 y)))'
    const value = `(let u (f32.abs x) (let w (f32.abs y) (f32.copysign ${extremum(operation, 'f32', 'u', 'w', m)} ${sign})))`
    return `(let x ${a} (let y ${b} ${fromFloat(m['T'] ?? '', value, 'f32', {})}))`
  })
}
// Sums and products of halves in f32.
for (const operation of ['add', 'sub']) {
  float(`${operation}.${ROUND}.?sat.T=f32.S=f16|bf16`, 'd:T a:S b:T', (m) => {
    const a = toF32(m['S'] ?? '', 'a', {})
    if (mode(m) === 0) return finished(`(f32.${operation} ${a} b)`, m)
    return finished(`($add32_mode ${a} ${operation === 'sub' ? '(f32.neg b)' : 'b'} ${mode(m)})`, m)
  })
}
float('fma.rnd=rn|rz|rm|rp.?sat.T=f32.S=f16|bf16', 'd:T a:S b:S c:T', (m) => {
  const [a, b] = ['a', 'b'].map((x) => toF32(m['S'] ?? '', x, {}))
  const fused = mode(m) === 0 ? '(fma32 x y c)' : `($fma32_mode x y c ${mode(m)})`
  return finished(`(let x ${a} (let y ${b} ${fused}))`, m)
})
form('neg.?ftz.T=f16|bf16', 'd:T a:T', (m) => signOf('xor', 'a', m))
form('neg.?ftz.T=f16x2|bf16x2', 'd:T a:T', (m) => packedSign('xor', m))
form('abs.?ftz.T=f16|bf16', 'd:T a:T', (m) => signOf('and', 'a', m))
form('abs.?ftz.T=f16x2|bf16x2', 'd:T a:T', (m) => packedSign('and', m))

function signOf(operation: 'xor' | 'and', x: string, m: Modifiers): string {
  const flat = m['ftz'] ? `(let h ${x} (select h (i32.and h 0x8000) (i32.and h 0x7c00)))` : x
  const type = m['T'] ?? ''
  const limit = type.startsWith('bf16') ? 0x7f80 : 0x7c00
  const changed = operation === 'xor' ? `(i32.xor ${flat} 0x8000)` : `(i32.and ${flat} 0x7fff)`
  return `(select 0x7fff ${changed} (i32.gt_u (i32.and ${x} 0x7fff) ${limit}))`
}

function packedSign(operation: 'xor' | 'and', m: Modifiers): string {
  return `(i32.or ${signOf(operation, half('a', 0), m)} (i32.shl ${signOf(operation, half('a', 1), m)} 16))`
}

/** The approximations of halves are those of f32, cut off to the bits of a half. */
const cutOff = (m: Modifiers, value: string): string =>
  `($f32_to_${m['T']?.startsWith('bf16') ? 'bf16' : 'half'}_cut ${m['ftz'] ? flushed(value) : value})`
halves('ex2.approx.?ftz', 'a', (m, [a]) => cutOff(m, `($ex2 ${a})`))
halves('tanh.approx', 'a', (m, [a]) => cutOff(m, `($tanh ${a})`))
