/** The forms that compare, and those that select by what was found. */

import { bitsOf } from '../syntax.js'
import { formList, type Modifiers } from './form.js'
import { ANY, comparison, half, toF32 } from './formulas.js'

const { forms, form, code } = formList()

export const COMPARISON_FORMS = forms

const COMPARISONS = 'eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan'
const COMPARED = 'b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64'

/** The condition of set and setp, before the Boolean operand. */
export function conditionOf(m: Modifiers): string {
  const type = m['S'] ?? m['T'] ?? ''
  const relation = m['cmp'] ?? 'eq'
  if (/f16/.test(type)) return comparison(relation, 'f32', true, 's', toF32(type, 'a', m), toF32(type, 'b', m))
  const name = (x: string): string => (m['ftz'] ? `${x}~` : x)
  const isFloat = type.startsWith('f')
  const t = isFloat ? type : bitsOf(type) === 64 ? 'i64' : 'i32'
  return comparison(relation, t, isFloat, type.startsWith('s') ? 's' : 'u', name('a'), name('b'))
}

/** The two conditions of the packed forms, for the lower and the upper half. */
export function packedConditions(m: Modifiers): readonly [string, string] {
  const type = m['S'] ?? m['T'] ?? ''
  const relation = m['cmp'] ?? 'eq'
  const of = (at: 0 | 1): string =>
    comparison(relation, 'f32', true, 's', toF32(type, half('a', at), m), toF32(type, half('b', at), m))
  return [of(0), of(1)]
}

code(`setp.cmp=${COMPARISONS}.?ftz.T=${COMPARED}`, 'd:pred a:T b:T', 'setp')
code(`setp.cmp=${COMPARISONS}.bool=and|or|xor.?ftz.T=${COMPARED}`, 'd:pred a:T b:T c:pred', 'setp')
code(`setp.cmp=${COMPARISONS}.?ftz.T=f16|bf16`, 'd:pred a:T b:T', 'setp')
code(`setp.cmp=${COMPARISONS}.bool=and|or|xor.?ftz.T=f16|bf16`, 'd:pred a:T b:T c:pred', 'setp')
code(`setp.cmp=${COMPARISONS}.?ftz.T=f16x2|bf16x2`, 'd:pred a:T b:T', 'setp')
code(`setp.cmp=${COMPARISONS}.bool=and|or|xor.?ftz.T=f16x2|bf16x2`, 'd:pred a:T b:T c:pred', 'setp')

/** The formula of the instruction `set`, which writes -1 or 1.0 for true, in the type of the result. */
function setResult(condition: string, m: Modifiers): string {
  const combined = m['bool'] === undefined ? condition : `(i32.${m['bool']} ${condition} c)`
  switch (m['T']) {
    case 'f32':
      return `(f32.convert_i32_u ${combined})`
    case 'f16':
      return `(i32.mul ${combined} 0x3c00)`
    case 'bf16':
      return `(i32.mul ${combined} 0x3f80)`
    default:
      return `(i32.sub 0 ${combined})`
  }
}

const SET_SOURCES = `${COMPARED}|f16|bf16`
form(`set.cmp=${COMPARISONS}.?ftz.T=u16|s16|u32|s32|f32|f16|bf16.S=${SET_SOURCES}`, 'd:T a:S b:S', (m) =>
  setResult(conditionOf(m), m),
)
form(
  `set.cmp=${COMPARISONS}.bool=and|or|xor.?ftz.T=u16|s16|u32|s32|f32|f16|bf16.S=${SET_SOURCES}`,
  'd:T a:S b:S c:pred',
  (m) => setResult(conditionOf(m), m),
)
form(`set.cmp=${COMPARISONS}.?ftz.T=f16x2|bf16x2|b32|u32|s32.S=f16x2|bf16x2`, 'd:T a:S b:S', (m) => {
  const [low, upper] = packedConditions(m)
  const one = m['T'] === 'f16x2' ? 0x3c00 : m['T'] === 'bf16x2' ? 0x3f80 : 0xffff
  return `(i32.or (i32.mul ${low} ${one}) (i32.mul ${upper} ${(one << 16) | 0}))`
})

form(`selp.T=${ANY}`, 'd:T a:T b:T c:pred', '(select a b c)')
form(`slct.T=${ANY}.S=s32`, 'd:T a:T b:T c:S', '(select a b (i32.ge_s c 0))')
form(`slct.?ftz.T=${ANY}.S=f32`, 'd:T a:T b:T c:S', (m) => `(select a b (f32.ge ${m['ftz'] ? 'c~' : 'c'} f:0))`)
