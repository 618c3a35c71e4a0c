/** Pieces of formulas that forms of several families share. */
import { bitsOf } from '../syntax.js'
import type { Modifiers } from './form.js'

const MODE: Readonly<Record<string, number>> = { rn: 0, rz: 1, rm: 2, rp: 3, rna: 4 }
export const mode = (m: Modifiers): number => MODE[m['rnd'] ?? 'rn'] ?? 0
export const bits = (m: Modifiers, name = 'T'): number => bitsOf(m[name] ?? '')
export const signed = (m: Modifiers, name = 'T'): boolean => (m[name] ?? '').startsWith('s')
export const su = (m: Modifiers, name = 'T'): string => (signed(m, name) ? 's' : 'u')
export const wide = (m: Modifiers): boolean => bits(m) === 64

export const operand = (name: string, m: Modifiers): string => (m['ftz'] ? `${name}~` : name)

export const ROUND = '?rnd=rn|rz|rm|rp'

/** Replaces a denormal number by a zero of the same sign. */
export function flushed(value: string): string {
  return `(let v ${value} (select (f32.copysign f:0 v) v (f32.lt (f32.abs v) f:1.1754943508222875e-38)))`
}

/** Limits a value to the range from 0 to 1; NaN becomes 0. */
export function clamped(value: string, t: 'f32' | 'f64'): string {
  const [zero, one] = t === 'f32' ? ['f:0', 'f:1'] : ['d:0', 'd:1']
  return `(let v ${value} (let w (select v ${zero} (${t}.gt v ${zero})) (select w ${one} (${t}.lt w ${one}))))`
}

/**
 * The effect of `.sat` and `.ftz` on a result of f32. A GPU flushes what is less than the smallest normal number when it is rounded to 24 bits. A
 * denormal result has fewer bits, so that it may be rounded up to that number: then `again` rounds it to 24 bits.
 */
export function finished(value: string, m: Modifiers, again?: string): string {
  const flat = !m['ftz'] ? value : again === undefined ? flushed(value) : flushedAgain(value, again)
  return m['sat'] ? clamped(flat, 'f32') : flat
}

function flushedAgain(value: string, again: string): string {
  const isLeast = '(f32.eq (f32.abs v) f:1.1754943508222875e-38)'
  return `(let v ${value} (if f32 ${isLeast} ${again} ${flushed('v')}))`
}

/** The smaller or the larger of two values; if only one of them is a number, that one. */
export function extremum(operation: string, t: string, a: string, b: string, m: Modifiers): string {
  const plain = `(${t}.${operation} ${a} ${b})`
  if (m['NaN']) return plain
  // Zeros of different signs are equal, so a comparison cannot order them. WebAssembly's min and max can, but are slower, so they are used only
  // there.
  const first = `(i32.or (${t}.${operation === 'min' ? 'lt' : 'gt'} ${a} ${b}) (${t}.ne ${b} ${b}))`
  return `(if ${t} (${t}.eq ${a} ${b}) ${plain} (select ${a} ${b} ${first}))`
}

/** The value of f16 or bf16 bits as f32. */
export function toF32(type: string, x: string, m: Modifiers): string {
  const value = type.startsWith('bf16') ? `(f32.reinterpret_i32 (i32.shl ${x} 16))` : `($half_to_f32 ${x})`
  return m['ftz'] && type.startsWith('f16') ? flushedHalf(value) : value
}

function flushedHalf(value: string): string {
  return `(let v ${value} (select (f32.copysign f:0 v) v (f32.lt (f32.abs v) f:6.103515625e-05)))`
}

export function half(x: string, at: 0 | 1): string {
  return at === 0 ? `(i32.and ${x} 65535)` : `(i32.shr_u ${x} 16)`
}

/** The bits of an f32 or f64 as f16 or bf16. */
export function fromFloat(type: string, value: string, from: 'f32' | 'f64', m: Modifiers): string {
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
export function relu(value: string, t: 'f32' | 'f64'): string {
  const zero = t === 'f32' ? 'f:0' : 'd:0'
  return `(let v ${value} (if ${t} (${t}.ne v v) v (${t}.max v ${zero})))`
}

/** The condition that two operands, in WebAssembly's type `t`, are in this relation. */
export function comparison(relation: string, t: string, isFloat: boolean, sign: string, a: string, b: string): string {
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

export const ANY = 'b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64'
