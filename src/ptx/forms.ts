/**
 * Every form of instruction that this compiler knows, as one table. The code generator, the table in docs/internals/ptx.md and the
 * tests of single forms are made from it.
 *
 * A pattern is an opcode with its modifiers: `?ftz` may be left out, `T:u32|s32` is one of several by the name T,
 * `?rnd:rn|rz` one of several that may be left out. Modifiers stand in any order, but `!` marks a word of the instruction's name, which stays
 * where it is: `mul.!lo` is no multiplication without it. Operands have a role and a type: d, p and q are written, the others
 * read; `W` is the type twice as wide as T. `->b1` stands for a destination of which only that part is written, as in `%r1.b1`, and `-ab` and `-c`
 * for operands with a minus (video-operands.ts).
 */
import { bitsOf } from './syntax.js'

export type Modifiers = Readonly<Record<string, string | undefined>>

export interface Form {
  readonly opcode: string
  readonly pattern: string
  readonly slots: readonly Slot[]
  readonly operands: readonly OperandSlot[]
  readonly meaning: Meaning
}

interface Slot {
  readonly name: string
  readonly options: readonly string[]
  readonly optional: boolean
  /** Whether the word belongs to the instruction's name, as in mul.lo: it stands before all modifiers. */
  readonly ofName: boolean
}

export interface OperandSlot {
  readonly name: string
  readonly type: string
  readonly written: boolean
  readonly optional: boolean
}

/** The effect of a form: a formula (expression.ts) for its result, or the name of what the code generator writes. */
export type Meaning =
  | { readonly kind: 'formula'; readonly formula: (m: Modifiers) => string; readonly arithmetic: boolean }
  | { readonly kind: 'code'; readonly code: string }
  /** Threads of a warp or block meet at this instruction; warp-operations.ts carries it out. */
  | { readonly kind: 'meeting'; readonly operation: string }
  | { readonly kind: 'nothing' }

const table: Form[] = []

function add(pattern: string, operands: string, meaning: Meaning): void {
  const parts = pattern.split('.')
  const slots = parts.slice(1).map((part): Slot => {
    const optional = part.includes('?')
    const [name = '', list] = part.replace(/^[!?]+/, '').split('=')
    return { name, options: (list ?? name).split('|'), optional, ofName: part.startsWith('!') }
  })
  const list = operands === '' ? [] : operands.split(' ')
  table.push({
    opcode: parts[0] ?? '',
    pattern: pattern.replaceAll('!', ''),
    slots,
    meaning,
    operands: list.map((each) => {
      const [role = '', type = 'T'] = each.split(':')
      const name = role.replace('?', '')
      return { name, type, written: /^[dpq]$/.test(name), optional: role.endsWith('?') }
    }),
  })
}

type Source = string | ((m: Modifiers) => string)

const toFormula = (source: Source): ((m: Modifiers) => string) => (typeof source === 'string' ? () => source : source)

/** A form whose result is a formula; bits of NaN in it matter only to `float`. */
function form(pattern: string, operands: string, source: Source): void {
  add(pattern, operands, { kind: 'formula', formula: toFormula(source), arithmetic: false })
}

/** A form of floating-point arithmetic: a NaN in its result is the one of the GPU. */
function float(pattern: string, operands: string, source: Source): void {
  add(pattern, operands, { kind: 'formula', formula: toFormula(source), arithmetic: true })
}

function code(pattern: string, operands: string, name: string): void {
  add(pattern, operands, { kind: 'code', code: name })
}

function meeting(pattern: string, operands: string, operation: string): void {
  add(pattern, operands, { kind: 'meeting', operation })
}

function nothing(pattern: string, operands: string): void {
  add(pattern, operands, { kind: 'nothing' })
}

const MODE: Readonly<Record<string, number>> = { rn: 0, rz: 1, rm: 2, rp: 3, rna: 4 }
const mode = (m: Modifiers): number => MODE[m['rnd'] ?? 'rn'] ?? 0
const bits = (m: Modifiers, name = 'T'): number => bitsOf(m[name] ?? '')
const signed = (m: Modifiers, name = 'T'): boolean => (m[name] ?? '').startsWith('s')
const su = (m: Modifiers, name = 'T'): string => (signed(m, name) ? 's' : 'u')
const wide = (m: Modifiers): boolean => bits(m) === 64

// Integers ------------------------------------------------------------------------------------------------------------

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
for (const [index, operation] of ['add', 'sub', 'avrg', 'absdiff', 'min', 'max'].entries()) {
  for (const parts of ['2', '4']) {
    const number = (m: Modifiers): number =>
      index +
      (parts === '4' ? 8 : 0) +
      (signed(m, 'A') ? 16 : 0) +
      (signed(m, 'B') ? 32 : 0) +
      (signed(m, 'D') ? 64 : 0) +
      (m['sat'] ? 128 : 0) +
      (m['add'] ? 256 : 0)
    for (const modifier of ['?sat', 'add']) {
      const pattern = `v${operation}${parts}.D=u32|s32.A=u32|s32.B=u32|s32.${modifier}`
      form(pattern, 'd:D a:A b:B c:D', (m) => `($video ${number(m)} a b c)`)
    }
  }
}

/** A scalar video instruction computes in more bits than an operand has: its operands are extended by their own types. */
const extended = (x: string, type: string | undefined): string =>
  `(i64.extend_i32_${type?.startsWith('s') ? 's' : 'u'} ${x})`

/** The lesser or the greater of two integers of 64 bits. */
function extremeOf(operation: string, x: string, y: string): string {
  return `(let p ${x} (let q ${y} (select p q (i64.${operation === 'min' ? 'lt' : 'gt'}_s p q))))`
}

/** A value limited to the range of 32 bits; `sign` says which range, and how it is compared. */
function limited(value: string, type: string | undefined): string {
  const [least, most] = type?.startsWith('s') ? ['-2147483648L', '2147483647L'] : ['0L', '4294967295L']
  return extremeOf('min', extremeOf('max', value, least), most)
}

/** The result of a scalar video instruction: limited by `.sat`, and combined with the third operand by a second operation. */
function scalarResult(value: string, m: Modifiers, type: string | undefined): string {
  const result = m['sat'] ? limited(value, type) : value
  const second = m['op2']
  if (second === undefined) return `(i32.wrap_i64 ${result})`
  const c = extended('c', type)
  return `(i32.wrap_i64 ${second === 'add' ? `(i64.add ${result} ${c})` : extremeOf(second, result, c)})`
}

/**
 * The two forms of a scalar video instruction: alone, and with a second operation, whose operand has the type that the modifier
 * `second` names.
 */
function scalar(pattern: string, source: (m: Modifiers) => string, types: string, operand = 'D'): void {
  for (const [second, third] of [
    // Without a second operation, an assembler takes a third operand and leaves it out.
    ['', ' c?:u32'],
    ['.op2=add|min|max', ' c:u32'],
  ]) {
    form(`${pattern}${second}`, `${types}${third}`, (m) => scalarResult(source(m), m, m[operand]))
  }
}

const PARTS_WRITTEN = 'part=->b0|->b1|->b2|->b3|->h0|->h1'

/** The form of a scalar video instruction that writes a part of its destination: the other parts are those of the third operand. */
function scalarPart(pattern: string, source: (m: Modifiers) => string, types: string): void {
  form(`${pattern}.${PARTS_WRITTEN}`, `${types} c:b32`, (m) => {
    const [, kind = '', at = '0'] = /^->(.)(.)$/.exec(m['part'] ?? '') ?? []
    const width = kind === 'b' ? 8 : 16
    const shift = width * Number(at)
    const most = 2 ** (m['D'] === 's32' ? width - 1 : width) - 1
    const low = '(i32.wrap_i64 p)'
    // A GPU limits what does not fit into 32 bits to the greatest value, negative ones, too.
    const result = m['sat']
      ? `(let p ${source(m)} (let q (select -1 ${low} (i64.ne (i64.shr_u p 32L) 0L)) (select q ${most} (i32.le_u q ${most}))))`
      : `(let p ${source(m)} ${low})`
    const mask = 2 ** width - 1
    const rest = BigInt.asIntN(32, ~(BigInt(mask) << BigInt(shift)))
    return `(i32.or (i32.and c ${rest}) (i32.shl (i32.and ${result} ${mask}) ${shift}))`
  })
}

const BOTH = 'A=u32|s32.B=u32|s32'
function difference(operation: string, m: Modifiers): string {
  const [x, y] = [extended('a', m['A']), extended('b', m['B'])]
  if (operation === 'min' || operation === 'max') return extremeOf(operation, x, y)
  if (operation === 'absdiff') return `(let z (i64.sub ${x} ${y}) (select z (i64.sub 0L z) (i64.ge_s z 0L)))`
  return `(i64.${operation} ${x} ${y})`
}
for (const operation of ['add', 'sub', 'absdiff', 'min', 'max'])
  scalarPart(`v${operation}.D=u32|s32.${BOTH}.?sat`, (m) => difference(operation, m), 'd:D a:A b:B')
/** A GPU limits unsigned sums and differences of 32 bits to no less than 0, and takes the lower bits of what is too large. */
for (const operation of ['add', 'sub', 'absdiff']) {
  for (const second of ['', '.op2=add']) {
    form(`v${operation}.D=u32.${BOTH}.sat${second}`, `d:D a:A b:B c${second === '' ? '?' : ''}:u32`, (m) => {
      const result = `(i32.wrap_i64 ${extremeOf('max', difference(operation, m), '0L')})`
      return second === '' ? result : `(i32.add ${result} c)`
    })
  }
}
for (const [operation, kinds] of [
  ...['add', 'sub', 'absdiff'].flatMap((name) => ['D=u32', 'D=s32.?sat'].map((result) => [name, result] as const)),
  ...['min', 'max'].map((name) => [name, 'D=u32|s32.?sat'] as const),
]) {
  const [result, ...sat] = kinds.split('.')
  scalar([`v${operation}`, result, BOTH, ...sat].join('.'), (m) => difference(operation, m), 'd:D a:A b:B')
}
for (const direction of ['l', 'r']) {
  const shifted = (m: Modifiers): string => {
    const count = m['M'] === 'wrap' ? '(i32.and b 31)' : '(select b 32 (i32.lt_u b 32))'
    return `(i64.sh${direction === 'l' ? 'l' : 'r_s'} ${extended('a', m['A'])} (i64.extend_i32_u ${count}))`
  }
  scalar(`vsh${direction}.D=u32|s32.A=u32|s32.u32.?sat.M=clamp|wrap`, shifted, 'd:D a:A b:u32')
  scalarPart(`vsh${direction}.D=u32|s32.A=u32|s32.u32.M=clamp|wrap`, shifted, 'd:D a:A b:u32')
}
/** The condition that the operands of vset are in, as a number. */
const relation = (m: Modifiers, x: string, y: string): string =>
  `(i64.${m['cmp']}${/^(?:eq|ne)$/.test(m['cmp'] ?? '') ? '' : '_s'} ${x} ${y})`
const related = (m: Modifiers): string =>
  `(i64.extend_i32_u ${relation(m, extended('a', m['A']), extended('b', m['B']))})`
scalar(`vset.${BOTH}.cmp=eq|ne|lt|le|gt|ge`, related, 'd:u32 a:A b:B', 'A')
scalarPart(`vset.${BOTH}.cmp=eq|ne|lt|le|gt|ge`, related, 'd:u32 a:A b:B')
/** A GPU takes other bits of unsigned products for `.sat` and a scale than the manual says: these forms are left out. */
for (const types of ['D=u32.A=u32.B=u32', 'D=s32.A=u32.B=s32', 'D=s32.A=s32.B=u32', 'D=s32.A=s32.B=s32.?sat']) {
  form(`vmad.${types}.?more=po|-ab|-c${types.endsWith('sat') ? '.?scale=shr7|shr15' : ''}`, 'd:D a:A b:B c:D', (m) => {
    const type = m['D']
    const product = `(i64.mul ${extended('a', m['A'])} ${extended('b', m['B'])})`
    const c = extended('c', type)
    const sum =
      m['more'] === '-ab'
        ? `(i64.sub ${c} ${product})`
        : m['more'] === '-c'
          ? `(i64.sub ${product} ${c})`
          : `(i64.add ${product} ${c})`
    const whole = m['more'] === 'po' ? `(i64.add ${sum} 1L)` : sum
    const shift = m['scale']?.slice('shr'.length)
    const scaled = shift === undefined ? whole : `(i64.shr_s ${whole} ${shift}L)`
    return `(i32.wrap_i64 ${m['sat'] ? limited(scaled, type) : scaled})`
  })
}
for (const parts of [2, 4]) {
  for (const second of ['', '.add']) {
    form(`vset${parts}.${BOTH}.cmp=eq|ne|lt|le|gt|ge${second}`, 'd:u32 a:A b:B c:u32', (m) => {
      const width = 32 / parts
      const part = (x: string, at: number, type: string | undefined): string => {
        const shifted = `(i64.extend_i32_u (i32.shr_u ${x} ${at * width}))`
        if (!type?.startsWith('s')) return `(i64.and ${shifted} ${2 ** width - 1}L)`
        return `(i64.extend${width}_s ${shifted})`
      }
      let result = second === '' ? '0' : 'c'
      for (let at = 0; at < parts; at++) {
        const is = relation(m, part('a', at, m['A']), part('b', at, m['B']))
        result = second === '' ? `(i32.or ${result} (i32.shl ${is} ${at * width}))` : `(i32.add ${result} ${is})`
      }
      return result
    })
  }
}

// Comparison and selection --------------------------------------------------------------------------------------------

const COMPARISONS = 'eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan'
const COMPARED = 'b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64'

/** The condition that two operands, in WebAssembly's type `t`, are in this relation. */
function comparison(relation: string, t: string, isFloat: boolean, sign: string, a: string, b: string): string {
  const unsigned: Readonly<Record<string, string>> = { lo: 'lt', ls: 'le', hi: 'gt', hs: 'ge' }
  if (!isFloat) {
    if (relation === 'eq' || relation === 'ne') return `(${t}.${relation} ${a} ${b})`
    const plain = unsigned[relation]
    return plain === undefined ? `(${t}.${relation}_${sign} ${a} ${b})` : `(${t}.${plain}_u ${a} ${b})`
  }
  if (relation === 'num') return `(i32.and (${t}.eq ${a} ${a}) (${t}.eq ${b} ${b}))`
  if (relation === 'nan') return `(i32.or (${t}.ne ${a} ${a}) (${t}.ne ${b} ${b}))`
  // WebAssembly's `ne` is true for NaN, PTX's is not; the forms with `u` are the opposites of ordered ones.
  if (relation === 'ne') return `(i32.or (${t}.lt ${a} ${b}) (${t}.gt ${a} ${b}))`
  if (relation === 'neu') return `(${t}.ne ${a} ${b})`
  if (relation === 'equ') return `(i32.eqz (i32.or (${t}.lt ${a} ${b}) (${t}.gt ${a} ${b})))`
  const opposite: Readonly<Record<string, string>> = { ltu: 'ge', leu: 'gt', gtu: 'le', geu: 'lt' }
  const ordered = opposite[relation]
  return ordered === undefined ? `(${t}.${relation} ${a} ${b})` : `(i32.eqz (${t}.${ordered} ${a} ${b}))`
}

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

const ANY = 'b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64'
form(`selp.T=${ANY}`, 'd:T a:T b:T c:pred', '(select a b c)')
form(`slct.T=${ANY}.S=s32`, 'd:T a:T b:T c:S', '(select a b (i32.ge_s c 0))')
form(`slct.?ftz.T=${ANY}.S=f32`, 'd:T a:T b:T c:S', (m) => `(select a b (f32.ge ${m['ftz'] ? 'c~' : 'c'} f:0))`)

// Floating point ------------------------------------------------------------------------------------------------------

/** Replaces a denormal number by a zero of the same sign. */
function flushed(value: string): string {
  return `(let v ${value} (select (f32.copysign f:0 v) v (f32.lt (f32.abs v) f:1.1754943508222875e-38)))`
}

/** Limits a value to the range from 0 to 1; NaN becomes 0. */
function clamped(value: string, t: 'f32' | 'f64'): string {
  const [zero, one] = t === 'f32' ? ['f:0', 'f:1'] : ['d:0', 'd:1']
  return `(let v ${value} (let w (select v ${zero} (${t}.gt v ${zero})) (select w ${one} (${t}.lt w ${one}))))`
}

/**
 * The effect of `.sat` and `.ftz` on a result of f32. A GPU flushes what is less than the smallest normal number when it is rounded to 24 bits. A
 * denormal result has fewer bits, so that it may be rounded up to that number: then `again` rounds it to 24 bits.
 */
function finished(value: string, m: Modifiers, again?: string): string {
  const flat = !m['ftz'] ? value : again === undefined ? flushed(value) : flushedAgain(value, again)
  return m['sat'] ? clamped(flat, 'f32') : flat
}

function flushedAgain(value: string, again: string): string {
  const isLeast = '(f32.eq (f32.abs v) f:1.1754943508222875e-38)'
  return `(let v ${value} (if f32 ${isLeast} ${again} ${flushed('v')}))`
}

const operand = (name: string, m: Modifiers): string => (m['ftz'] ? `${name}~` : name)
const ROUND = '?rnd=rn|rz|rm|rp'

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
/** The approximations .approx and .full both multiply by a reciprocal of 24 bits. The one of .approx is an f32, so it is never 2^-126 or less. */
float('div.M=approx|full.?ftz.T=f32', 'd:T a:T b:T', (m) => {
  const [a, b] = [operand('a', m), operand('b', m)]
  if (m['M'] === 'approx') {
    // A divisor below 2^-126 is scaled up before the division, and the quotient afterwards.
    const product = (divisor: string): string => `(f32.mul ${a} ${flushed(`(f32.div f:1 ${divisor})`)})`
    if (m['ftz'])
      return `(let q ${flushed(`(f32.div f:1 ${b})`)} ${finished(`(f32.mul ${a} q)`, m, `($mul32_ftz ${a} q 0)`)})`
    const scale = '(select f:16777216 f:1 (f32.lt (f32.abs v) f:1.1754943508222875e-38))'
    return `(let v ${b} (let s ${scale} (f32.mul ${product('(f32.mul v s)')} s)))`
  }
  const reciprocal = `(let q (f64.div d:1 (f64.promote_f32 ${b}))
    (f64.reinterpret_i64 (i64.and (i64.add (i64.reinterpret_f64 q) 0x10000000L) -536870912L)))`
  const product = `(f64.mul (f64.promote_f32 ${a}) ${reciprocal})`
  return `(let p ${product} ${finished('(f32.demote_f64 p)', m, '($f64_to_f32_ftz p 0)')})`
})
float('div.rnd=rn|rz|rm|rp.T=f64', 'd:T a:T b:T', (m) =>
  mode(m) === 0 ? '(f64.div a b)' : `($div64_mode a b ${mode(m)})`,
)
float('rcp.rnd=approx|rn|rz|rm|rp.?ftz.T=f32', 'd:T a:T', (m) => {
  const a = operand('a', m)
  const reciprocal = mode(m) === 0 ? `(f32.div f:1 ${a})` : `($div32_mode f:1 ${a} ${mode(m)})`
  return finished(reciprocal, m, `($div32_ftz f:1 ${a} ${mode(m)})`)
})
float('rcp.rnd=rn|rz|rm|rp.T=f64', 'd:T a:T', (m) =>
  mode(m) === 0 ? '(f64.div d:1 a)' : `($div64_mode d:1 a ${mode(m)})`,
)
/** The upper 32 bits of an f64: its approximations read only these of an operand, and give only these of a result. `.ftz` applies to both. */
function upperHalf(value: string): string {
  const flat = (x: string): string =>
    `(let v ${x} (select (f64.copysign d:0 v) v (f64.lt (f64.abs v) d:2.2250738585072014e-308)))`
  const upper = (x: string): string => `(i64.and (i64.reinterpret_f64 ${x}) -4294967296L)`
  const result = `(let r ${flat(value)} (select ${upper('r')} 0x7fffffff00000000L (f64.eq r r)))`
  return `(let x ${flat(`(f64.reinterpret_i64 ${upper('a')})`)} (f64.reinterpret_i64 ${result}))`
}
float('rcp.approx.ftz.T=f64', 'd:T a:T', upperHalf('(f64.div d:1 x)'))
float('rsqrt.approx.ftz.T=f64', 'd:T a:T', upperHalf('(f64.div d:1 (f64.sqrt x))'))
float('sqrt.rnd=approx|rn|rz|rm|rp.?ftz.T=f32', 'd:T a:T', (m) => {
  const a = operand('a', m)
  return finished(mode(m) === 0 ? `(f32.sqrt ${a})` : `($sqrt32_mode ${a} ${mode(m)})`, m)
})
float('sqrt.rnd=rn|rz|rm|rp.T=f64', 'd:T a:T', (m) => (mode(m) === 0 ? '(f64.sqrt a)' : `($sqrt64_mode a ${mode(m)})`))
float('rsqrt.approx.?ftz.T=f32', 'd:T a:T', (m) =>
  finished(`(f32.demote_f64 (f64.div d:1 (f64.sqrt (f64.promote_f32 ${operand('a', m)}))))`, m),
)
float(
  'rsqrt.approx.T=f64',
  'd:T a:T',
  `(let r (f64.div d:1 (f64.sqrt a))
  (if f64 (i32.and (f64.gt r d:0) (f64.lt r d:Infinity)) ($rsqrt64 a) r))`,
)
for (const opcode of ['sin', 'cos', 'lg2']) {
  float(`${opcode}.approx.?ftz.T=f32`, 'd:T a:T', (m) => finished(`($${opcode} ${operand('a', m)})`, m))
}
float('ex2.approx.?ftz.T=f32', 'd:T a:T', (m) => finished(`($exp2 ${operand('a', m)})`, m))
float('tanh.approx.T=f32', 'd:T a:T', '($tanh a)')
float('neg.?ftz.T=f32', 'd:T a:T', (m) => `(f32.neg ${operand('a', m)})`)
float('abs.?ftz.T=f32', 'd:T a:T', (m) => `(f32.abs ${operand('a', m)})`)
// The two instructions leave a NaN its sign and payload, but make it quiet.
form('neg.T=f64', 'd:T a:T', '(select (f64.neg a) (f64.add a a) (f64.eq a a))')
form('abs.T=f64', 'd:T a:T', '(select (f64.abs a) (f64.add a a) (f64.eq a a))')

/** The smaller or the larger of two values; if only one of them is a number, that one. */
function extremum(operation: string, t: string, a: string, b: string, m: Modifiers): string {
  const plain = `(${t}.${operation} ${a} ${b})`
  if (m['NaN']) return plain
  // Zeros of different signs are equal, so a comparison cannot order them. WebAssembly's min and max can, but are slower, so they are used only
  // there.
  const first = `(i32.or (${t}.${operation === 'min' ? 'lt' : 'gt'} ${a} ${b}) (${t}.ne ${b} ${b}))`
  return `(if ${t} (${t}.eq ${a} ${b}) ${plain} (select ${a} ${b} ${first}))`
}

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

// Half precision ------------------------------------------------------------------------------------------------------

/** The value of f16 or bf16 bits as f32. */
function toF32(type: string, x: string, m: Modifiers): string {
  const value = type.startsWith('bf16') ? `(f32.reinterpret_i32 (i32.shl ${x} 16))` : `($half_to_f32 ${x})`
  return m['ftz'] && type.startsWith('f16') ? flushedHalf(value) : value
}

function flushedHalf(value: string): string {
  return `(let v ${value} (select (f32.copysign f:0 v) v (f32.lt (f32.abs v) f:6.103515625e-05)))`
}

function half(x: string, at: 0 | 1): string {
  return at === 0 ? `(i32.and ${x} 65535)` : `(i32.shr_u ${x} 16)`
}

/** The bits of an f32 or f64 as f16 or bf16. */
function fromFloat(type: string, value: string, from: 'f32' | 'f64', m: Modifiers): string {
  const clipped = m['sat'] ? clamped(value, from) : m['relu'] ? relu(value, from) : value
  const isBf16 = type.startsWith('bf16')
  if (m['ftz'] && !isBf16) {
    // The result of f16 becomes zero if it is still denormal after rounding to eleven bits; denormal numbers themselves are rounded to fewer.
    const isLess = `(${from}.lt (${from}.abs s) ${from === 'f32' ? 'f' : 'd'}:${2 ** -14 - 2 ** -26})`
    return `(let s ${clipped} (let h ($${from}_to_half s) (select (i32.and h 0x8000) h ${isLess})))`
  }
  return `($${from}_to_${isBf16 ? 'bf16' : 'half'} ${clipped})`
}

/** Replaces a negative value by zero, and NaN by the canonical one. */
function relu(value: string, t: 'f32' | 'f64'): string {
  const zero = t === 'f32' ? 'f:0' : 'd:0'
  return `(let v ${value} (if ${t} (${t}.ne v v) v (${t}.max v ${zero})))`
}

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
halves('ex2.approx.?ftz', 'a', (m, [a]) => cutOff(m, `($exp2 ${a})`))
halves('tanh.approx', 'a', (m, [a]) => cutOff(m, `($tanh ${a})`))

// Conversion ----------------------------------------------------------------------------------------------------------

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

// Movement ------------------------------------------------------------------------------------------------------------

code(`mov.T=${ANY}|pred|f16|bf16|f16x2|b128`, 'd:T a:T', 'mov')
code(`mov.vec=v2|v4.T=${ANY}`, 'd:T a:T', 'mov')
code('cvta.space=global|shared|shared::cta|local|const|param.T=u32|u64', 'd:T a:T', 'cvta')
code('cvta.!to.space=global|shared|shared::cta|local|const|param.T=u32|u64', 'd:T a:T', 'cvta')
code('isspacep.space=global|shared|shared::cta|shared::cluster|local|const|param', 'd:pred a:u64', 'isspacep')

const DATA = 'b8|b16|b32|b64|b128|u8|u16|u32|u64|s8|s16|s32|s64|f16|f16x2|bf16|bf16x2|f32|f64|pred'
const SPACE = '?space=global|shared|shared::cta|shared::cluster|local|const|param|param::entry|param::func'
const EVICT =
  '?L1=L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate.?L2=L2::evict_normal|L2::evict_first|L2::evict_last.?hint=L2::cache_hint.?fetch=L2::64B|L2::128B|L2::256B'
const SCOPE = '?scope=cta|cluster|gpu|sys'
code(
  `ld.?order=weak|volatile|relaxed|acquire|mmio.${SCOPE}.${SPACE}.?cop=ca|cg|cs|lu|cv.?nc.${EVICT}.?vec=v2|v4|v8.T=${DATA}`,
  'd:T a:address e?:b64',
  'load',
)
code(`ldu.?space=global.?vec=v2|v4.T=${DATA}`, 'd:T a:address', 'load')
code(
  `st.?order=weak|volatile|relaxed|release|mmio.${SCOPE}.${SPACE}.?cop=wb|cg|cs|wt.${EVICT}.?vec=v2|v4|v8.T=${DATA}`,
  'a:address b:T e?:b64',
  'store',
)
const ATOMIC_SPACE = '?space=global|shared|shared::cta|shared::cluster'
const ORDER = '?order=relaxed|acquire|release|acq_rel'
const HINT = '?hint=L2::cache_hint'
const ATOMIC_TYPES: readonly (readonly [operation: string, types: string])[] = [
  ['and|or|xor', 'b32|b64'],
  ['add', 'u32|s32|u64|s64|f32|f64'],
  ['min|max', 'u32|s32|u64|s64'],
  ['inc|dec', 'u32'],
]
for (const [operation, types] of ATOMIC_TYPES) {
  code(
    `atom.${ORDER}.${SCOPE}.${ATOMIC_SPACE}.op=${operation}.${HINT}.T=${types}`,
    'd:T a:address b:T e?:b64',
    'atomic',
  )
  code(
    `red.?order=relaxed|release.${SCOPE}.${ATOMIC_SPACE}.op=${operation}.${HINT}.T=${types}`,
    'a:address b:T e?:b64',
    'atomic',
  )
}
code(`atom.${ORDER}.${SCOPE}.${ATOMIC_SPACE}.op=exch.${HINT}.T=b32|b64|b128`, 'd:T a:address b:T e?:b64', 'atomic')
code(
  `atom.${ORDER}.${SCOPE}.${ATOMIC_SPACE}.op=cas.${HINT}.T=b16|b32|b64|b128`,
  'd:T a:address b:T c:T e?:b64',
  'atomic',
)
code(
  `atom.${ORDER}.${SCOPE}.${ATOMIC_SPACE}.op=add.noftz.${HINT}.T=f16|f16x2|bf16|bf16x2`,
  'd:T a:address b:T e?:b64',
  'atomic',
)
code(
  `red.?order=relaxed|release.${SCOPE}.${ATOMIC_SPACE}.op=add.noftz.${HINT}.T=f16|f16x2|bf16|bf16x2`,
  'a:address b:T e?:b64',
  'atomic',
)
code(`atom.${ORDER}.${SCOPE}.?space=global.op=add.${HINT}.vec=v2|v4.T=f32`, 'd:T a:address b:T e?:b64', 'atomic')
code(
  `red.?order=relaxed|release.${SCOPE}.?space=global.op=add.${HINT}.vec=v2|v4.T=f32`,
  'a:address b:T e?:b64',
  'atomic',
)
code(
  `atom.${ORDER}.${SCOPE}.?space=global.op=add|min|max.noftz.${HINT}.vec=v2|v4|v8.T=f16|bf16|f16x2|bf16x2`,
  'd:T a:address b:T e?:b64',
  'atomic',
)
code(
  `red.?order=relaxed|release.${SCOPE}.?space=global.op=add|min|max.noftz.${HINT}.vec=v2|v4|v8.T=f16|bf16|f16x2|bf16x2`,
  'a:address b:T e?:b64',
  'atomic',
)

nothing('prefetch.?space=global|local.L=L1|L2', 'a:address')
nothing('prefetch.?space=global.L=L2::evict_last|L2::evict_normal', 'a:address')
nothing('prefetch.?tensormap', 'a:address')
nothing('prefetchu.L1', 'a:address')
nothing('applypriority.?global.L2::evict_normal', 'a:address b:u32')
nothing('discard.?global.L2', 'a:address b:u32')
form(
  'createpolicy.!fractional.p=L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged.?s=L2::evict_first|L2::evict_unchanged.b64',
  'd:b64 a?:f32',
  '0L',
)
nothing('membar.level=cta|gl|sys', '')
nothing('fence.?order=sc|acq_rel|acquire|release.scope=cta|cluster|gpu|sys', '')
nothing('fence.!proxy.kind=alias|async.?space=global|shared::cta|shared::cluster', '')
nothing('fence.!mbarrier_init.release.cluster', '')
code('nanosleep.T=u32', 'a:T', 'nanosleep')

code(
  'cp.!async.cop=ca|cg.shared.global.?hint=L2::cache_hint.?fetch=L2::64B|L2::128B|L2::256B',
  'a:address b:address c:u32 e?:b32 g?:b64',
  'copy',
)
code(
  'cp.!async.cop=ca|cg.shared::cta.global.?hint=L2::cache_hint.?fetch=L2::64B|L2::128B|L2::256B',
  'a:address b:address c:u32 e?:b32 g?:b64',
  'copy',
)
nothing('cp.!async.!commit_group', '')
nothing('cp.!async.!wait_group', 'a:u32')
nothing('cp.!async.!wait_all', '')
code('cp.!async.!mbarrier.!arrive.?noinc.?space=shared|shared::cta.b64', 'a:address', 'mbarrier')

const MBARRIER = '?space=shared|shared::cta'
code(`mbarrier.!op=init.${MBARRIER}.b64`, 'a:address b:u32', 'mbarrier')
code(`mbarrier.!op=inval.${MBARRIER}.b64`, 'a:address', 'mbarrier')
code(
  `mbarrier.!op=arrive|arrive_drop.!?expect_tx.?noComplete.?sem=release|relaxed.?scope=cta.${MBARRIER}.b64`,
  'd:b64 a:address b?:u32',
  'mbarrier',
)
code(`mbarrier.!op=expect_tx|complete_tx.?sem=relaxed.?scope=cta.${MBARRIER}.b64`, 'a:address b:u32', 'mbarrier')
code(
  `mbarrier.!op=test_wait|try_wait.!?parity.?sem=acquire|relaxed.?scope=cta.${MBARRIER}.b64`,
  'd:pred a:address b:b64 c?:u32',
  'mbarrier',
)
form('mbarrier.!op=pending_count.b64', 'd:b32 a:b64', '(i32.wrap_i64 (i64.and a 0xfffffL))')

// Control -------------------------------------------------------------------------------------------------------------

code('bra.?uni', 'a:label', 'branch')
code('brx.!idx.?uni', 'a:u32 b:label', 'branch')
code('call.?uni', 'a:list', 'call')
code('ret.?uni', '', 'return')
code('exit', '', 'exit')
code('trap', '', 'trap')
nothing('brkpt', '')
nothing('pmevent', 'a:u32')
nothing('pmevent.!mask', 'a:u32')
nothing('setmaxnreg.!op=inc|dec.sync.aligned.u32', 'a:u32')
nothing('griddepcontrol.op=launch_dependents|wait', '')
code('alloca.T=u32|u64', 'd:T a:T b?:u32', 'alloca')
code('stacksave.T=u32|u64', 'd:T', 'stack')
code('stackrestore.T=u32|u64', 'a:T', 'stack')

meeting('bar.!?cta.!sync', 'a:u32 b?:u32', 'barrier')
meeting('bar.!?cta.!arrive', 'a:u32 b:u32', 'barrier.arrive')
meeting('bar.!?cta.!red.op=popc.u32', 'd:u32 a:u32 b?:u32 c:pred', 'barrier.red')
meeting('bar.!?cta.!red.op=and|or.pred', 'd:pred a:u32 b?:u32 c:pred', 'barrier.red')
meeting('barrier.!?cta.sync.?aligned', 'a:u32 b?:u32', 'barrier')
meeting('barrier.!?cta.!arrive.?aligned', 'a:u32 b:u32', 'barrier.arrive')
meeting('barrier.!?cta.!red.op=popc.?aligned.u32', 'd:u32 a:u32 b?:u32 c:pred', 'barrier.red')
meeting('barrier.!?cta.!red.op=and|or.?aligned.pred', 'd:pred a:u32 b?:u32 c:pred', 'barrier.red')
// A launch has no clusters, and a block outside of them is one of its own: a barrier of the cluster is one of the block.
meeting('barrier.!cluster.!arrive.?sem=release|relaxed.?aligned', '', 'barrier.cluster.arrive')
meeting('barrier.!cluster.!wait.?acquire.?aligned', '', 'barrier.cluster.wait')
meeting('bar.!warp.!sync', 'a:b32', 'warp.sync')
meeting('shfl.sync.M=up|down|bfly|idx.b32', 'd:b32 a:b32 b:u32 c:u32 e:b32', 'shfl')
meeting('shfl.M=up|down|bfly|idx.b32', 'd:b32 a:b32 b:u32 c:u32', 'shfl')
meeting('vote.sync.op=all|any|uni.pred', 'd:pred a:pred e:b32', 'vote')
meeting('vote.sync.op=ballot.b32', 'd:b32 a:pred e:b32', 'vote')
meeting('vote.op=all|any|uni.pred', 'd:pred a:pred', 'vote')
meeting('vote.op=ballot.b32', 'd:b32 a:pred', 'vote')
meeting('match.op=any.sync.T=b32|b64', 'd:b32 a:T e:b32', 'match')
meeting('match.op=all.sync.T=b32|b64', 'd:b32 a:T e:b32', 'match')
meeting('redux.sync.op=add|min|max.T=u32|s32', 'd:T a:T e:b32', 'redux')
meeting('redux.sync.op=and|or|xor.T=b32', 'd:T a:T e:b32', 'redux')
meeting('redux.sync.op=min|max.?abs.?NaN.T=f32', 'd:T a:T e:b32', 'redux')
meeting('activemask.b32', 'd:b32', 'activemask')
meeting('elect.sync', 'd:b32 a:b32', 'elect')

// Matrices ------------------------------------------------------------------------------------------------------------

const SHAPES = 'm16n16k16|m8n32k16|m32n8k16|m16n16k8|m8n8k4|m8n8k32|m8n8k128'
const LAYOUT = 'row|col'
const WMMA_SPACE = '?space=global|shared|shared::cta'
const WMMA_TYPES = 'f16|bf16|tf32|f32|f64|s8|u8|s4|u4|b1|s32'
meeting(
  `wmma.!load.!m=a|b|c.sync.aligned.layout=${LAYOUT}.shape=${SHAPES}.${WMMA_SPACE}.T=${WMMA_TYPES}`,
  'd:b32 a:address b?:u32',
  'wmma.load',
)
meeting(
  `wmma.!store.!m=d.sync.aligned.layout=${LAYOUT}.shape=${SHAPES}.${WMMA_SPACE}.T=f16|f32|f64|s32`,
  'a:address b:T c?:u32',
  'wmma.store',
)
meeting(
  `wmma.!mma.sync.aligned.A=${LAYOUT}.B=${LAYOUT}.shape=${SHAPES}.D=f16|f32.C=f16|f32.?satfinite`,
  'd:D a:b32 b:b32 c:C',
  'wmma.mma',
)
meeting(
  `wmma.!mma.sync.aligned.A=${LAYOUT}.B=${LAYOUT}.shape=${SHAPES}.?rnd=rn|rz|rm|rp.D=f32|s32|f64.X=bf16|tf32|s8|u8|s4|u4|f64.Y=bf16|tf32|s8|u8|s4|u4|f64.C=f32|s32|f64.?satfinite.?rounded=rn|rz|rm|rp`,
  'd:D a:X b:Y c:C',
  'wmma.mma',
)
meeting(
  `wmma.!mma.op=xor|and.popc.sync.aligned.A=row.B=col.shape=m8n8k128.D=s32.X=b1.Y=b1.C=s32`,
  'd:D a:b32 b:b32 c:C',
  'wmma.mma',
)
const MMA_SHAPES = 'm16n8k4|m16n8k8|m16n8k16|m16n8k32|m16n8k64|m8n8k16|m8n8k32|m8n8k128|m16n8k128|m16n8k256'
const MMA_TYPES = 'f16|bf16|tf32|e4m3|e5m2|s8|u8|s4|u4'
meeting(
  'mma.sync.aligned.shape=m8n8k4|m16n8k4|m16n8k8|m16n8k16.A=row.B=col.?rnd=rn|rz|rm|rp.D=f64.X=f64.Y=f64.C=f64.?rounded=rn|rz|rm|rp',
  'd:D a:X b:Y c:C',
  'mma',
)
for (const types of ['D=f32.X=f16.Y=f16.C=f16|f32', 'D=f16.X=f16.Y=f16.C=f16']) {
  meeting(`mma.sync.aligned.shape=m8n8k4.A=${LAYOUT}.B=${LAYOUT}.${types}`, 'd:D a:X b:Y c:C', 'mma')
}
meeting(
  `mma.sync.aligned.shape=${MMA_SHAPES}.A=row.B=col.?satfinite.D=f16|f32|s32.X=${MMA_TYPES}.Y=${MMA_TYPES}.C=f16|f32|s32`,
  'd:D a:X b:Y c:C',
  'mma',
)
meeting(
  `mma.sync.aligned.shape=${MMA_SHAPES}.A=row.B=col.D=s32.X=b1.Y=b1.C=s32.op=xor|and.popc`,
  'd:D a:b32 b:b32 c:C',
  'mma',
)
meeting(
  'ldmatrix.sync.aligned.shape=m8n8.num=x1|x2|x4.?trans.?space=shared|shared::cta.b16',
  'd:b32 a:address',
  'ldmatrix',
)
meeting(
  'stmatrix.sync.aligned.shape=m8n8.num=x1|x2|x4.?trans.?space=shared|shared::cta.b16',
  'a:address b:b32',
  'stmatrix',
)
meeting('movmatrix.sync.aligned.shape=m8n8.trans.b16', 'd:b32 a:b32', 'movmatrix')

/** The table of all forms. */
export const FORMS: readonly Form[] = table

const byOpcode = new Map<string, Form[]>()
for (const each of table) {
  const known = byOpcode.get(each.opcode)
  if (known === undefined) byOpcode.set(each.opcode, [each])
  else known.push(each)
}

export interface Match {
  readonly form: Form
  readonly modifiers: Modifiers
  /** The opcode with its modifiers in the order of the table. */
  readonly canonical: string
}

const matches = new Map<string, readonly Match[]>()

/**
 * The forms that an opcode with its modifiers may be; the number of operands decides between several. Modifiers stand in any order, as an assembler
 * takes them: NVIDIA's own headers have `atom.add.release.gpu`, and `ldmatrix.sync.aligned.x4.m8n8.shared.b16`.
 */
export function matchForms(opcode: string): readonly Match[] {
  const known = matches.get(opcode)
  if (known !== undefined) return known
  const [head = '', ...words] = opcode.split('.')
  const found: Match[] = []
  const look = (fill: (slots: readonly Slot[], words: readonly string[]) => Modifiers | undefined): void => {
    for (const form of byOpcode.get(head) ?? []) {
      const modifiers = fill(form.slots, words)
      if (modifiers === undefined) continue
      const ordered = form.slots.flatMap(({ name }) => modifiers[name] ?? [])
      found.push({ form, modifiers, canonical: [head, ...ordered].join('.') })
    }
  }
  look(fitsInOrder)
  if (found.length === 0) look(fitsInAnyOrder)
  // The cache has a limit, so that texts from unknown sources cannot fill the memory.
  if (matches.size < 10_000) matches.set(opcode, found)
  return found
}

/** An opcode with its modifiers in the order of the table; one that is not known as it is. */
export function canonicalOpcode(opcode: string): string {
  return matchForms(opcode)[0]?.canonical ?? opcode
}

function fitsInOrder(slots: readonly Slot[], words: readonly string[]): Modifiers | undefined {
  const modifiers: Record<string, string> = {}
  return fits(slots, 0, words, 0, modifiers) ? modifiers : undefined
}

function fits(
  slots: readonly Slot[],
  slot: number,
  words: readonly string[],
  word: number,
  modifiers: Record<string, string>,
): boolean {
  const next = slots[slot]
  if (next === undefined) return word === words.length
  const text = words[word]
  if (text !== undefined && next.options.includes(text)) {
    modifiers[next.name] = text
    if (fits(slots, slot + 1, words, word + 1, modifiers)) return true
    delete modifiers[next.name]
  }
  return next.optional && fits(slots, slot + 1, words, word, modifiers)
}

/**
 * The kind of a modifier that an instruction may have several of, which keep their order among each other: types, of which the first is that of the
 * result; layouts of matrices; address spaces, of which the first is written. Other modifiers are known by their name alone.
 */
function kindOf(word: string): 'type' | 'layout' | 'space' | undefined {
  if (bitsOf(word) > 0 || /^[bsu]\d+$/.test(word)) return 'type'
  if (word === 'row' || word === 'col') return 'layout'
  return /^(?:global|shared|local|const|param)(?:::\w+)?$/.test(word) ? 'space' : undefined
}

function fitsInAnyOrder(slots: readonly Slot[], words: readonly string[]): Modifiers | undefined {
  const modifiers: Record<string, string> = {}
  const last = { name: -1, type: -1, layout: -1, space: -1 }
  let inName = true
  for (const word of words) {
    const kind = kindOf(word)
    const isFree = ({ name, options }: Slot): boolean => modifiers[name] === undefined && options.includes(word)
    let at = slots.findIndex((slot, index) => slot.ofName && inName && index > last.name && isFree(slot))
    if (at >= 0) last.name = at
    else {
      inName = false
      const behind = kind === undefined ? -1 : last[kind]
      at = slots.findIndex((slot, index) => !slot.ofName && index > behind && isFree(slot))
      if (kind !== undefined) last[kind] = at
    }
    const slot = slots[at]
    if (slot === undefined) return undefined
    modifiers[slot.name] = word
  }
  return slots.every(({ name, optional }) => optional || modifiers[name] !== undefined) ? modifiers : undefined
}
