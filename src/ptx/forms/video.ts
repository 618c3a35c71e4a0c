/** The forms of video instructions: several small integers in one register, and parts of a register. */
import { formList, type Modifiers } from './form.js'
import { signed } from './formulas.js'

const { forms, form } = formList()

export const VIDEO_FORMS = forms

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

/**
 * The form of a scalar video instruction that writes a part of its destination: the other parts are those of the third operand. Into the upper half
 * a GPU writes the upper half of the result.
 */
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
    if (m['part'] === '->h1') return `(i32.or (i32.and c 65535) (i32.and ${result} -65536))`
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
