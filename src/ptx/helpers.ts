/**
 * Functions that instructions call: those in WebAssembly as formulas, which stand in each module that uses them, and the
 * signatures of those in JavaScript (numbers.ts), which are imported.
 */
import { SPECIAL_FUNCTION_FORMULAS } from './special-functions.js'
import type { Signature, ValueType } from './wasm-encoder.js'

export interface Helper {
  readonly parameters: readonly { readonly name: string; readonly type: ValueType }[]
  readonly result: ValueType
  /** The formula of the function; undefined for a function in JavaScript. */
  readonly formula: string | undefined
}

function helper(parameters: string, result: ValueType, formula?: string): Helper {
  const list = parameters.split(' ').map((each) => {
    const [name = '', type = 'i32'] = each.split(':')
    return { name, type: type as ValueType }
  })
  return { parameters: list, result, formula }
}

export function signatureOf({ parameters, result }: Helper): Signature<ValueType> {
  return { parameters: parameters.map(({ type }) => type), results: [result] }
}

/** The next f32 towards zero from a value that is not zero. */
const TOWARDS_ZERO = (value: string): string => `(f32.reinterpret_i32 (i32.sub (i32.reinterpret_f32 ${value}) 1))`

const MANTISSA_MASK = (bits: 32 | 64, length: string): string =>
  bits === 32
    ? `(select (i32.sub (i32.shl 1 ${length}) 1) -1 (i32.lt_u ${length} 32))`
    : `(select (i64.sub (i64.shl 1L (i64.extend_i32_u ${length})) 1L) -1L (i32.lt_u ${length} 64))`

/**
 * The formula that cuts out a field; bits beyond the word are dropped. Position and length are the lowest bytes of their operands for words of 32
 * bits; for 64 bits a GPU takes the operands whole.
 */
function extract(bits: 32 | 64, signed: boolean): string {
  const t = `i${bits}`
  const wide = (x: string): string => (bits === 32 ? x : `(i64.extend_i32_u ${x})`)
  const position = field(bits)
  if (!signed) {
    const cut = `(${t}.and (${t}.shr_u a ${wide('p')}) ${MANTISSA_MASK(bits, 'l')})`
    return `${position}(select ${cut} (${t}.const 0) (i32.lt_u p ${bits}))))`
  }
  // The field is moved to the top of the word, and moved back with its sign.
  const room = `(i32.sub ${bits} p)`
  const taken = `(select l ${room} (i32.lt_u l ${room}))`
  const up = wide(`(i32.sub (i32.sub ${bits} p) n)`)
  const down = wide(`(i32.sub ${bits} n)`)
  const inside = `(let n ${taken} (${t}.shr_s (${t}.shl a ${up}) ${down}))`
  const beyond = `(${t}.shr_s a ${wide(String(bits - 1))})`
  return `${position}(if ${t} (i32.eqz l) (${t}.const 0) (if ${t} (i32.lt_u p ${bits}) ${inside} ${beyond}))))`
}

function field(bits: 32 | 64): string {
  return bits === 32 ? '(let p (i32.and pos 255) (let l (i32.and len 255) ' : '(let p pos (let l len '
}

function insert(bits: 32 | 64): string {
  const t = `i${bits}`
  const wide = (x: string): string => (bits === 32 ? x : `(i64.extend_i32_u ${x})`)
  const mask = `(${t}.shl ${MANTISSA_MASK(bits, 'l')} ${wide('p')})`
  const merged = `(let m ${mask} (${t}.or (${t}.and b (${t}.xor m (${t}.const -1))) (${t}.and (${t}.shl a ${wide('p')}) m)))`
  return `${field(bits)}(if ${t} (i32.lt_u p ${bits}) ${merged} b)))`
}

const TWO_SUM = (a: string, b: string, sum: string): string =>
  `(let bb (f64.sub ${sum} ${a}) (f64.add (f64.sub ${a} (f64.sub ${sum} bb)) (f64.sub ${b} bb)))`

const SPLIT = (value: string): string => `(let big (f64.mul ${value} d:134217729) (f64.sub big (f64.sub big ${value})))`

/** The error of the product p of a and b, by Dekker's algorithm. */
const PRODUCT_ERROR = `(let ah ${SPLIT('a')} (let al (f64.sub a ah) (let bh ${SPLIT('b')} (let bl (f64.sub b bh)
  (f64.add (f64.add (f64.add (f64.sub (f64.mul ah bh) p) (f64.mul ah bl)) (f64.mul al bh)) (f64.mul al bl))))))`

const LARGE = 'd:1e+298'

/**
 * The formula of a fused p + c: in two parts, s and t, then s + (t + e). That is right if t or e is 0, and if a small change of t + e changes
 * nothing; otherwise the sum lies next to the middle between two numbers, and is computed exactly.
 */
const FUSED = `(let s (f64.add p c) (let t ${TWO_SUM('p', 'c', 's')} (let e ${PRODUCT_ERROR} (let w (f64.add t e)
  (if f64 (i32.or (i32.or (f64.eq t d:0) (f64.eq e d:0))
      (f64.eq (f64.add s (f64.mul w d:1.0000000000000009)) (f64.add s (f64.mul w d:0.9999999999999991))))
    (f64.add s w) ($fma64_exact a b c))))))`

/**
 * Steps f32 `d`, the nearest to the sum s of p and q, down if it lies above; if it equals s, the rest of s decides. The direction of rounding cannot
 * be predicted, so the code has no branch.
 */
const DOWN = `(let x (f64.sub (f64.promote_f32 d) s) (let i (i32.reinterpret_f32 d)
  (let below (select -2147483647 (i32.add i (select 1 -1 (i32.lt_s i 0))) (i32.eqz (i32.shl i 1)))
    (f32.reinterpret_i32 (if i32 (f64.eq x d:0)
      (select below i (f64.lt ${TWO_SUM('p', 'q', 's')} d:0))
      (select below i (f64.gt x d:0)))))))`

/** Rounds to odd, so that a result that is rounded again afterwards comes out as if it had been rounded once. */
const ODD = (value: string): string => `(let d (f32.demote_f64 ${value}) (let wide (f64.promote_f32 d)
  (if f32 (i32.or (f64.eq wide ${value}) (f64.ne ${value} ${value})) d
    (let m (if f32 (f64.gt (f64.abs wide) (f64.abs ${value})) ${TOWARDS_ZERO('d')} d)
      (f32.reinterpret_i32 (i32.or (i32.reinterpret_f32 m) 1))))))`

export const HELPERS: Readonly<Record<string, Helper>> = {
  // Functions on floating-point numbers, in WebAssembly.
  half_to_f32: helper(
    'h:i32',
    'f32',
    `(let e (i32.and h 0x7c00) (f32.reinterpret_i32 (i32.or (i32.shl (i32.and h 0x8000) 16)
      (if i32 (i32.eq e 0x7c00) (i32.or 0x7f800000 (i32.shl (i32.and h 0x3ff) 13))
        (i32.reinterpret_f32 (f32.mul (f32.reinterpret_i32 (i32.shl (i32.and h 0x7fff) 13)) f:5.192296858534828e+33))))))`,
  ),
  f32_to_half: helper(
    'x:f32',
    'i32',
    `(let i (i32.reinterpret_f32 x) (let s (i32.and (i32.shr_u i 16) 0x8000) (let m (i32.and i 0x7fffffff)
      (if i32 (i32.gt_u m 0x7f800000) 0x7fff
      (if i32 (i32.ge_u m 0x477ff000) (i32.or s 0x7c00)
      (if i32 (i32.lt_u m 0x38800000)
        (i32.or s (i32.sub (i32.reinterpret_f32 (f32.add (f32.reinterpret_i32 m) f:0.5)) 0x3f000000))
        (i32.or s (i32.shr_u (i32.sub (i32.add (i32.add m 0xfff) (i32.and (i32.shr_u m 13) 1)) 0x38000000) 13))))))))`,
  ),
  // Rounds towards zero, except where a half has no exponent for the value.
  f32_to_half_cut: helper(
    'x:f32',
    'i32',
    `(let i (i32.reinterpret_f32 x) (let s (i32.and (i32.shr_u i 16) 0x8000) (let m (i32.and i 0x7fffffff)
      (if i32 (i32.gt_u m 0x7f800000) 0x7fff
      (if i32 (i32.ge_u m 0x47800000) (i32.or s 0x7c00)
      (if i32 (i32.lt_u m 0x38800000)
        (i32.or s (i32.trunc_sat_f32_u (f32.mul (f32.abs x) f:16777216)))
        (i32.or s (i32.shr_u (i32.sub m 0x38000000) 13))))))))`,
  ),
  f32_to_bf16_cut: helper('x:f32', 'i32', '(if i32 (f32.ne x x) 0x7fff (i32.shr_u (i32.reinterpret_f32 x) 16))'),
  f64_to_half: helper('x:f64', 'i32', `($f32_to_half ${ODD('x')})`),
  f32_to_bf16: helper(
    'x:f32',
    'i32',
    `(let i (i32.reinterpret_f32 x) (if i32 (f32.ne x x) 0x7fff
      (i32.shr_u (i32.add (i32.add i 0x7fff) (i32.and (i32.shr_u i 16) 1)) 16)))`,
  ),
  f64_to_bf16: helper('x:f64', 'i32', `($f32_to_bf16 ${ODD('x')})`),
  fma64: helper(
    'a:f64 b:f64 c:f64',
    'f64',
    `(let p (f64.mul a b) (if f64
      (i32.and (i32.and (f64.lt (f64.abs a) ${LARGE}) (f64.lt (f64.abs b) ${LARGE}))
        (i32.and (f64.lt (f64.abs c) ${LARGE}) (i32.and (f64.lt (f64.abs p) ${LARGE}) (f64.gt (f64.abs p) d:1e-280))))
      ${FUSED}
      (if f64 (i32.or (f64.eq a d:0) (f64.eq b d:0)) (f64.add p c) ($fma64_exact a b c))))`,
  ),
  // The fused a * b + c for values where rounding the sum in f64 to f32 may be wrong: the sum is rounded to odd first.
  fma32_near: helper(
    'a:f32 b:f32 c:f32',
    'f32',
    `(let p (f64.mul (f64.promote_f32 a) (f64.promote_f32 b)) (let q (f64.promote_f32 c) (let s (f64.add p q)
      (let t ${TWO_SUM('p', 'q', 's')} (f32.demote_f64 (if f64 (i32.or (f64.eq t d:0) (f64.ne t t)) s
        (let k (i64.reinterpret_f64 s) (f64.reinterpret_i64 (i64.or 1L
          (i64.sub k (i64.extend_i32_u (i32.ne (f64.gt t d:0) (f64.gt s d:0))))))))))))) `,
  ),
  fma32_down: helper(
    'a:f32 b:f32 c:f32',
    'f32',
    `(let p (f64.mul (f64.promote_f32 a) (f64.promote_f32 b)) (let q (f64.promote_f32 c) (let s (f64.add p q)
      (if f32 (f64.eq s d:0) ($fma32_mode a b c 2)
        (let d (f32.demote_f64 s) ${DOWN})))))`,
  ),
  ...Object.fromEntries(
    Object.entries(SPECIAL_FUNCTION_FORMULAS).map(([name, formula]) => [name, helper('a:f32', 'f32', formula)]),
  ),
  // Functions on bits.
  bfe_u32: helper('a:i32 pos:i32 len:i32', 'i32', extract(32, false)),
  bfe_s32: helper('a:i32 pos:i32 len:i32', 'i32', extract(32, true)),
  bfe_u64: helper('a:i64 pos:i32 len:i32', 'i64', extract(64, false)),
  bfe_s64: helper('a:i64 pos:i32 len:i32', 'i64', extract(64, true)),
  bfi_b32: helper('a:i32 b:i32 pos:i32 len:i32', 'i32', insert(32)),
  bfi_b64: helper('a:i64 b:i64 pos:i32 len:i32', 'i64', insert(64)),
  brev32: helper(
    'a:i32',
    'i32',
    `(let b (i32.or (i32.and (i32.shr_u a 1) 0x55555555) (i32.shl (i32.and a 0x55555555) 1))
     (let c (i32.or (i32.and (i32.shr_u b 2) 0x33333333) (i32.shl (i32.and b 0x33333333) 2))
     (let d (i32.or (i32.and (i32.shr_u c 4) 0x0f0f0f0f) (i32.shl (i32.and c 0x0f0f0f0f) 4))
       (i32.or (i32.rotl (i32.and d 0x00ff00ff) 24) (i32.and (i32.rotl d 8) 0x00ff00ff)))))`,
  ),
  mulhi_u64: helper(
    'a:i64 b:i64',
    'i64',
    `(let al (i64.and a 0xffffffffL) (let ah (i64.shr_u a 32L) (let bl (i64.and b 0xffffffffL) (let bh (i64.shr_u b 32L)
     (let m (i64.add (i64.mul ah bl) (i64.shr_u (i64.mul al bl) 32L))
     (let n (i64.add (i64.mul al bh) (i64.and m 0xffffffffL))
       (i64.add (i64.mul ah bh) (i64.add (i64.shr_u m 32L) (i64.shr_u n 32L)))))))))`,
  ),
  mulhi_s64: helper(
    'a:i64 b:i64',
    'i64',
    `(i64.sub (i64.sub ($mulhi_u64 a b) (i64.and (i64.shr_s a 63L) b)) (i64.and (i64.shr_s b 63L) a))`,
  ),
  // Selects a byte of the eight of b and a, or its sign.
  prmt_byte: helper(
    'w:i64 s:i32',
    'i32',
    `(let v (i32.and (i32.wrap_i64 (i64.shr_u w (i64.extend_i32_u (i32.shl (i32.and s 7) 3)))) 255)
      (select (i32.and (i32.shr_s (i32.shl v 24) 31) 255) v (i32.and s 8)))`,
  ),
  prmt: helper(
    'a:i32 b:i32 s:i32',
    'i32',
    `(let w (i64.or (i64.extend_i32_u a) (i64.shl (i64.extend_i32_u b) 32L))
      (i32.or (i32.or ($prmt_byte w s) (i32.shl ($prmt_byte w (i32.shr_u s 4)) 8))
        (i32.or (i32.shl ($prmt_byte w (i32.shr_u s 8)) 16) (i32.shl ($prmt_byte w (i32.shr_u s 12)) 24))))`,
  ),
  // Functions in JavaScript (numbers.ts).
  prmt_mode: helper('a:i32 b:i32 s:i32 mode:i32', 'i32'),
  fns: helper('mask:i32 base:i32 offset:i32', 'i32'),
  video: helper('operation:i32 a:i32 b:i32 c:i32', 'i32'),
  fma64_exact: helper('a:f64 b:f64 c:f64', 'f64'),
  fma32_mode: helper('a:f32 b:f32 c:f32 mode:i32', 'f32'),
  add32_mode: helper('a:f32 b:f32 mode:i32', 'f32'),
  mul32_mode: helper('a:f32 b:f32 mode:i32', 'f32'),
  div32_mode: helper('a:f32 b:f32 mode:i32', 'f32'),
  sqrt32_mode: helper('a:f32 mode:i32', 'f32'),
  fma64_mode: helper('a:f64 b:f64 c:f64 mode:i32', 'f64'),
  add64_mode: helper('a:f64 b:f64 mode:i32', 'f64'),
  sub64_mode: helper('a:f64 b:f64 mode:i32', 'f64'),
  mul64_mode: helper('a:f64 b:f64 mode:i32', 'f64'),
  div64_mode: helper('a:f64 b:f64 mode:i32', 'f64'),
  sqrt64_mode: helper('a:f64 mode:i32', 'f64'),
  f64_to_f32_mode: helper('a:f64 mode:i32', 'f32'),
  fma32_ftz: helper('a:f32 b:f32 c:f32 mode:i32', 'f32'),
  mul32_ftz: helper('a:f32 b:f32 mode:i32', 'f32'),
  div32_ftz: helper('a:f32 b:f32 mode:i32', 'f32'),
  f64_to_f32_ftz: helper('a:f64 mode:i32', 'f32'),
  f64_to_half_mode: helper('a:f64 mode:i32', 'i32'),
  f64_to_bf16_mode: helper('a:f64 mode:i32', 'i32'),
  f32_to_tf32_mode: helper('a:f32 mode:i32', 'f32'),
  int64_to_f32_mode: helper('low:i32 high:i32 signed:i32 mode:i32', 'f32'),
  int64_to_f64_mode: helper('low:i32 high:i32 signed:i32 mode:i32', 'f64'),
  int64_to_bf16_mode: helper('low:i32 high:i32 signed:i32 mode:i32', 'i32'),
  f32_to_small: helper('a:f32 format:i32 relu:i32', 'i32'),
  small_to_half: helper('a:i32 format:i32', 'i32'),
  rsqrt64: helper('a:f64', 'f64'),
}
