/** The forms of integer arithmetic and of operations on bits. */
import { formList, type Modifiers } from './form.js'
import { bits, signed, su, wide } from './formulas.js'

const { forms, form, code } = formList()

export const INTEGER_FORMS = forms

const INTEGER = 'u16|s16|u32|s32|u64|s64'

form(`add.T=${INTEGER}`, 'd:T a:T b:T', '(T.add a b)')
form('add.?sat.T=s32', 'd:T a:T b:T', (m) => (m['sat'] ? saturated('add') : '(i32.add a b)'))
form(`sub.T=${INTEGER}`, 'd:T a:T b:T', '(T.sub a b)')
form('sub.?sat.T=s32', 'd:T a:T b:T', (m) => (m['sat'] ? saturated('sub') : '(i32.sub a b)'))

const CLAMP = (value: string): string => `(let v ${value} (let w (select v 2147483647L (i64.lt_s v 2147483647L))
  (i32.wrap_i64 (select w -2147483648L (i64.gt_s w -2147483648L)))))`

function saturated(operation: string): string {
  return CLAMP(`(i64.${operation} (i64.extend_i32_s a) (i64.extend_i32_s b))`)
}

for (const operation of ['add']) {
  form(
    `${operation}.T=u16x2|s16x2`,
    'd:T a:T b:T',
    pairs16((a, b) => `(i32.${operation} ${a} ${b})`),
  )
}
for (const operation of ['min', 'max']) {
  // The manual writes .relu before the type, NVRTC after it.
  for (const pattern of ['?relu.T=u16x2|s16x2', 'T=s16x2.relu']) {
    form(`${operation}.${pattern}`, 'd:T a:T b:T', (m) =>
      pairs16((a, b) => {
        const least = `(let x ${a} (let y ${b} (select x y (i32.${operation === 'min' ? 'lt' : 'gt'}_${su(m)} x y))))`
        return m['relu'] || pattern.endsWith('relu') ? `(let z ${least} (select z 0 (i32.gt_s z 0)))` : least
      })(m),
    )
  }
}

function pairs16(each: (a: string, b: string) => string): (m: Modifiers) => string {
  return (m) => {
    const low = (x: string): string => (signed(m) ? `(i32.extend16_s ${x})` : `(i32.and ${x} 65535)`)
    const high = (x: string): string => `(i32.shr_${su(m)} ${x} 16)`
    return `(i32.or (i32.and ${each(low('a'), low('b'))} 65535) (i32.shl ${each(high('a'), high('b'))} 16))`
  }
}

form(`mul.!lo.T=${INTEGER}`, 'd:T a:T b:T', '(T.mul a b)')
form(`mul.!hi.T=${INTEGER}`, 'd:T a:T b:T', high)
form('mul.!wide.T=u16|s16|u32|s32', 'd:W a:T b:T', product)
form(`mad.!lo.T=${INTEGER}`, 'd:T a:T b:T c:T', '(T.add (T.mul a b) c)')
form(`mad.!hi.T=${INTEGER}`, 'd:T a:T b:T c:T', (m) => `(T.add ${high(m)} c)`)
form('mad.!hi.sat.T=s32', 'd:T a:T b:T c:T', (m) =>
  CLAMP(`(i64.add (i64.extend_i32_s ${high(m)}) (i64.extend_i32_s c))`),
)
form('mad.!wide.T=u16|s16|u32|s32', 'd:W a:T b:T c:W', (m) => `(${bits(m) === 32 ? 'i64' : 'i32'}.add ${product(m)} c)`)

/** The formula of the whole product, of twice the width. */
function product(m: Modifiers): string {
  if (bits(m) === 16) return '(i32.mul a b)'
  return `(i64.mul (i64.extend_i32_${su(m)} a) (i64.extend_i32_${su(m)} b))`
}

function high(m: Modifiers): string {
  if (bits(m) === 16) return `(i32.shr_${su(m)} (i32.mul a b) 16)`
  if (bits(m) === 64) return `($mulhi_${su(m)}64 a b)`
  return `(i32.wrap_i64 (i64.shr_${su(m)} ${product(m)} 32L))`
}

for (const [opcode, addend] of [
  ['mul24', ''],
  ['mad24', ' c:T'],
]) {
  const plus = (value: string): string => (addend === '' ? value : `(i32.add ${value} c)`)
  const factor = (m: Modifiers, x: string): string =>
    signed(m) ? `(i64.extend_i32_s (i32.shr_s (i32.shl ${x} 8) 8))` : `(i64.extend_i32_u (i32.and ${x} 0xffffff))`
  const whole = (m: Modifiers): string => `(i64.mul ${factor(m, 'a')} ${factor(m, 'b')})`
  form(`${opcode}.!lo.T=u32|s32`, `d:T a:T b:T${addend}`, (m) => plus(`(i32.wrap_i64 ${whole(m)})`))
  form(`${opcode}.!hi.T=u32|s32`, `d:T a:T b:T${addend}`, (m) =>
    plus(`(i32.wrap_i64 (i64.shr_${su(m)} ${whole(m)} 16L))`),
  )
}
form('mad24.!hi.sat.T=s32', 'd:T a:T b:T c:T', () =>
  CLAMP(
    '(i64.add (i64.shr_s (i64.mul (i64.extend_i32_s (i32.shr_s (i32.shl a 8) 8)) (i64.extend_i32_s (i32.shr_s (i32.shl b 8) 8))) 16L) (i64.extend_i32_s c))',
  ),
)
form(`sad.T=${INTEGER}`, 'd:T a:T b:T c:T', (m) => `(T.add c (select (T.sub a b) (T.sub b a) (T.gt_${su(m)} a b)))`)

/** The result of a division by zero has all bits set, as on NVIDIA's GPUs. */
form(`div.T=${INTEGER}`, 'd:T a:T b:T', (m) => {
  const quotient = `(T.div_${su(m)} a b)`
  const negated =
    signed(m) && bits(m) !== 16
      ? `(if T (T.eq b (T.sub ${ZERO(m)} ${ONE(m)})) (T.sub ${ZERO(m)} a) ${quotient})`
      : quotient
  return `(if T (T.eqz b) (T.sub ${ZERO(m)} ${ONE(m)}) ${negated})`
})
form(`rem.T=${INTEGER}`, 'd:T a:T b:T', (m) => `(if T (T.eqz b) (T.sub ${ZERO(m)} ${ONE(m)}) (T.rem_${su(m)} a b))`)

function ZERO(m: Modifiers): string {
  return wide(m) ? '0L' : '0'
}

function ONE(m: Modifiers): string {
  return wide(m) ? '1L' : '1'
}

form('abs.T=s16|s32|s64', 'd:T a:T', (m) => `(select (T.sub ${ZERO(m)} a) a (T.lt_s a ${ZERO(m)}))`)
form('neg.T=s16|s32|s64', 'd:T a:T', (m) => `(T.sub ${ZERO(m)} a)`)
form(`min.T=${INTEGER}`, 'd:T a:T b:T', (m) => `(select a b (T.lt_${su(m)} a b))`)
form(`max.T=${INTEGER}`, 'd:T a:T b:T', (m) => `(select a b (T.gt_${su(m)} a b))`)
for (const pattern of ['relu.T=s32', 'T=s32.relu']) {
  form(`min.${pattern}`, 'd:T a:T b:T', '(let v (select a b (i32.lt_s a b)) (select v 0 (i32.gt_s v 0)))')
  form(`max.${pattern}`, 'd:T a:T b:T', '(let v (select a b (i32.gt_s a b)) (select v 0 (i32.gt_s v 0)))')
}

// Bits ----------------------------------------------------------------------------------------------------------------

for (const operation of ['and', 'or', 'xor']) {
  form(`${operation}.T=b16|b32|b64|pred`, 'd:T a:T b:T', `(T.${operation} a b)`)
}
form('not.T=b16|b32|b64|pred', 'd:T a:T', (m) =>
  m['T'] === 'pred' ? '(i32.eqz a)' : `(T.xor a ${wide(m) ? '-1L' : '-1'})`,
)
form('cnot.T=b16|b32|b64', 'd:T a:T', (m) => (wide(m) ? '(i64.extend_i32_u (i64.eqz a))' : '(i32.eqz a)'))
form('shl.T=b16|b32|b64', 'd:T a:T b:u32', (m) =>
  wide(m) ? '(select (i64.shl a (i64.extend_i32_u b)) 0L (i32.lt_u b 64))' : '(select (i32.shl a b) 0 (i32.lt_u b 32))',
)
form('shr.T=b16|u16|b32|u32|b64|u64|s16|s32|s64', 'd:T a:T b:u32', (m) => {
  const limit = wide(m) ? 64 : 32
  if (!signed(m)) {
    const moved = wide(m) ? '(i64.shr_u a (i64.extend_i32_u b))' : '(i32.shr_u a b)'
    return `(select ${moved} ${ZERO(m)} (i32.lt_u b ${limit}))`
  }
  const count = `(select b ${limit - 1} (i32.lt_u b ${limit}))`
  return wide(m) ? `(i64.shr_s a (i64.extend_i32_u ${count}))` : `(i32.shr_s a ${count})`
})
form('shf.!D=l|r.M=clamp|wrap.T=b32', 'd:T a:T b:T c:u32', (m) => {
  const count = m['M'] === 'wrap' ? '(i32.and c 31)' : '(select c 32 (i32.lt_u c 32))'
  const both = '(i64.or (i64.shl (i64.extend_i32_u b) 32L) (i64.extend_i32_u a))'
  const distance = `(i64.extend_i32_u ${count})`
  // A shift to the left keeps the upper half. Shifting 64 bits by 32 is a valid shift in WebAssembly.
  if (m['D'] === 'l') return `(i32.wrap_i64 (i64.shr_u (i64.shl ${both} ${distance}) 32L))`
  return `(i32.wrap_i64 (i64.shr_u ${both} ${distance}))`
})
form('brev.T=b32|b64', 'd:T a:T', (m) =>
  wide(m)
    ? '(i64.or (i64.shl (i64.extend_i32_u ($brev32 (i32.wrap_i64 a))) 32L) (i64.extend_i32_u ($brev32 (i32.wrap_i64 (i64.shr_u a 32L)))))'
    : '($brev32 a)',
)
form('clz.T=b32|b64', 'd:u32 a:T', (m) => (wide(m) ? '(i32.wrap_i64 (i64.clz a))' : '(i32.clz a)'))
form('popc.T=b32|b64', 'd:u32 a:T', (m) => (wide(m) ? '(i32.wrap_i64 (i64.popcnt a))' : '(i32.popcnt a)'))
form('bfind.?shiftamt.T=u32|u64|s32|s64', 'd:u32 a:T', (m) => {
  const value = signed(m) ? `(T.xor a (T.shr_s a ${wide(m) ? '63L' : '31'}))` : 'a'
  const zeros = wide(m) ? `(i32.wrap_i64 (i64.clz ${value}))` : `(i32.clz ${value})`
  const limit = wide(m) ? 64 : 32
  // If no bit is found the position is -1, and the shift amount is -1 as well.
  return m['shiftamt'] ? `(let z ${zeros} (select z -1 (i32.lt_u z ${limit})))` : `(i32.sub ${limit - 1} ${zeros})`
})
form('bfe.T=u32|s32|u64|s64', 'd:T a:T b:u32 c:u32', (m) => `($bfe_${m['T']} a b c)`)
form('bfi.T=b32|b64', 'd:T a:T b:T c:u32 e:u32', (m) => `($bfi_${m['T']} a b c e)`)
form('bmsk.M=clamp|wrap.T=b32', 'd:T a:u32 b:u32', (m) => {
  const mask = '(select (i32.sub (i32.shl 1 w) 1) -1 (i32.lt_u w 32))'
  return m['M'] === 'wrap'
    ? `(let w (i32.and b 31) (i32.shl ${mask} (i32.and a 31)))`
    : `(let w b (select (i32.shl ${mask} a) 0 (i32.lt_u a 32)))`
})
form('szext.M=clamp|wrap.T=u32|s32', 'd:T a:T b:u32', (m) => {
  const count = m['M'] === 'wrap' ? '(i32.and b 31)' : 'b'
  const shift = '(i32.sub 32 n)'
  const value = `(select (i32.shr_${su(m)} (i32.shl a ${shift}) ${shift}) 0 n)`
  return `(let n ${count} (select ${value} a (i32.lt_u n 32)))`
})
form('fns.T=b32', 'd:T a:T b:u32 c:s32', '($fns a b c)')
form('prmt.T=b32', 'd:T a:T b:T c:u32', '($prmt a b c)')
form(
  'prmt.T=b32.M=f4e|b4e|rc8|ecl|ecr|rc16',
  'd:T a:T b:T c:u32',
  (m) => `($prmt_mode a b c ${['f4e', 'b4e', 'rc8', 'ecl', 'ecr', 'rc16'].indexOf(m['M'] ?? '')})`,
)
code('lop3.T=b32', 'd:T a:T b:T c:T e:u32', 'lop3')
code('lop3.B=or|and.T=b32', 'd:T a:T b:T c:T e:u32 g:pred', 'lop3')
for (const opcode of ['add', 'sub']) {
  code(`${opcode}.cc.T=u32|s32|u64|s64`, 'd:T a:T b:T', 'carry')
  code(`${opcode}c.?cc.T=u32|s32|u64|s64`, 'd:T a:T b:T', 'carry')
}
code('mad.!H=lo|hi.cc.T=u32|s32|u64|s64', 'd:T a:T b:T c:T', 'carry')
code('madc.!H=lo|hi.?cc.T=u32|s32|u64|s64', 'd:T a:T b:T c:T', 'carry')

const byteOf = (x: string, at: number, sign: boolean): string =>
  sign ? `(i32.extend8_s (i32.shr_u ${x} ${8 * at}))` : `(i32.and (i32.shr_u ${x} ${8 * at}) 255)`

form('dp4a.A=u32|s32.B=u32|s32', 'd:A a:A b:B c:A', (m) =>
  [0, 1, 2, 3].reduce(
    (sum, at) => `(i32.add ${sum} (i32.mul ${byteOf('a', at, signed(m, 'A'))} ${byteOf('b', at, signed(m, 'B'))}))`,
    'c',
  ),
)
form('dp2a.!M=lo|hi.A=u32|s32.B=u32|s32', 'd:A a:A b:B c:A', (m) =>
  [0, 1].reduce((sum, at) => {
    const half = signed(m, 'A')
      ? `(i32.extend16_s (i32.shr_u a ${16 * at}))`
      : `(i32.and (i32.shr_u a ${16 * at}) 65535)`
    return `(i32.add ${sum} (i32.mul ${half} ${byteOf('b', at + (m['M'] === 'hi' ? 2 : 0), signed(m, 'B'))}))`
  }, 'c'),
)
