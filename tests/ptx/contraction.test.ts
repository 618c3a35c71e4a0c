/**
 * Products and sums are one fused multiply-add where a GPU's assembler makes one of them: the table is what ptxas 13.0 made for sm_90. On a
 * GPU its driver is held to the same.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GpuMachine } from './gpu-machine.js'
import type { KernelMachine } from './kernel-test.js'
import { Machine } from './machine.js'

const gpu = GpuMachine.open()

/** A number whose square is rounded down, and that square as it is rounded: their difference tells whether it was rounded. */
const NUMBERS = {
  f16: { suffix: 'b16', factor: '0x3c10', square: '0x3c20', negative: '0xbc20' },
  bf16: { suffix: 'b16', factor: '0x3f88', square: '0x3f90', negative: '0xbf90' },
  f16x2: { suffix: 'b32', factor: '0x3c103c10', square: '0x3c203c20', negative: '0xbc20bc20' },
  bf16x2: { suffix: 'b32', factor: '0x3f883f88', square: '0x3f903f90', negative: '0xbf90bf90' },
  f32: { suffix: 'f32', factor: '0f3F800800', square: '0f3F801000', negative: '0fBF801000' },
  f64: { suffix: 'f64', factor: '0d3FF0000002000000', square: '0d3FF0000004000000', negative: '0dBFF0000004000000' },
} as const
type Type = keyof typeof NUMBERS
const TYPES = Object.keys(NUMBERS) as Type[]

/** `a` and `b` are the factor, `s` its square as rounded, `n` the same negated; what is in `x` and `y` at the end is looked at. */
interface Case {
  readonly title: string
  readonly code: string
  /** Of `x`, and of `y` where there is one. */
  readonly fused: readonly boolean[]
  readonly types?: readonly Type[]
}

const CASES: readonly Case[] = [
  { title: 'a product and a sum', code: 'mul.T p, a, b; add.T x, p, n;', fused: [true], types: TYPES },
  { title: 'the product last', code: 'mul.T p, a, b; add.T x, n, p;', fused: [true], types: TYPES },
  // An approximate quotient is a product with the reciprocal; that of b, which is a, is negated and rounded.
  ...['full', 'approx', 'full.ftz'].flatMap((how): Case[] => {
    const rounded = `div.${how}.T q, b, s; neg.T q, q; div.${how}.T p, a, s;`
    const ftz = how.includes('ftz') ? '.ftz' : ''
    return [
      { title: `a quotient by .${how}`, code: `${rounded} add${ftz}.T x, p, q;`, fused: [true], types: ['f32'] },
      {
        title: `less a quotient by .${how}`,
        code: `${rounded} neg.T q, q; sub${ftz}.T x, q, p;`,
        fused: [true],
        types: ['f32'],
      },
      {
        title: `a rounded sum of a quotient by .${how}`,
        code: `${rounded} add.rn${ftz}.T x, p, q;`,
        fused: [false],
        types: ['f32'],
      },
    ]
  }),
  { title: 'a number less', code: 'mul.T p, a, b; sub.T x, p, s;', fused: [true], types: TYPES },
  { title: 'less a product', code: 'mul.T p, a, b; sub.T x, s, p;', fused: [true], types: TYPES },
  { title: '.ftz in both', code: 'mul.ftz.T p, a, b; add.ftz.T x, p, n;', fused: [true], types: ['f16', 'f32'] },
  { title: '.ftz in the product', code: 'mul.ftz.T p, a, b; add.T x, p, n;', fused: [false], types: ['f16', 'f32'] },
  { title: '.ftz in the sum', code: 'mul.T p, a, b; add.ftz.T x, p, n;', fused: [false], types: ['f16', 'f32'] },
  { title: 'a saturated sum', code: 'mul.T p, a, b; add.sat.T x, p, n;', fused: [true], types: ['f16', 'f32'] },
  { title: 'a rounded product', code: 'mul.rn.T p, a, b; add.T x, p, n;', fused: [false], types: TYPES },
  { title: 'a rounded sum', code: 'mul.T p, a, b; add.rn.T x, p, n;', fused: [false], types: TYPES },
  { title: 'two sums', code: 'mul.T p, a, b; add.T x, p, n; sub.T y, s, p;', fused: [true, true] },
  {
    title: 'a sum that is rounded, too',
    code: 'mul.T p, a, b; add.T x, p, n; add.rn.T y, p, n;',
    fused: [false, false],
  },
  {
    title: 'a product that is needed, too',
    code: 'mul.T p, a, b; add.T x, p, n; st.global.T [%out+24], p;',
    fused: [false],
  },
  {
    title: 'a product that is a factor, too',
    code: 'mul.T p, a, b; add.T x, p, n; mul.rn.T y, p, p; st.global.T [%out+24], y;',
    fused: [false],
  },
  // The other product is its square, which is computed for itself.
  { title: 'the first of two products', code: 'mul.T p, a, b; mul.T q, n, one; add.T x, p, q;', fused: [true] },
  {
    title: 'the first in the sum',
    code: 'mul.T q, s, one; mul.T p, a, b; sub.T x, p, q;',
    fused: [true],
  },
  {
    title: 'the product of fewer sums',
    code: 'mul.T p, n, one; mul.T q, a, b; add.T x, p, q; add.T z, p, one; st.global.T [%out+24], z;',
    fused: [true],
  },
  {
    title: 'a product that another is preferred to',
    code: 'mul.T q, n, one; mul.T p, a, b; add.T z, q, p; add.T y, p, n; add.T x, p, n; sub.T z, z, z; add.T x, x, z;',
    fused: [false, false],
  },
  {
    title: 'twice the product',
    code: 'mul.T p, a, b; add.T x, p, p; sub.rn.T x, x, s; sub.rn.T x, x, s;',
    fused: [false],
  },
  { title: 'a guarded sum', code: 'mul.T p, a, b; mov.T x, zero; @%yes add.T x, p, n;', fused: [true] },
  { title: 'a guarded product', code: 'mov.T p, zero; @%yes mul.T p, a, b; add.T x, p, n;', fused: [false] },
  { title: 'beyond a barrier', code: 'mul.T p, a, b; bar.sync 0; add.T x, p, n;', fused: [true] },
  { title: 'beyond a fence', code: 'mul.T p, a, b; membar.gl; add.T x, p, n;', fused: [false] },
  ...['div.rn.T z, a, s', 'rcp.rn.T z, s', 'sqrt.rn.T z, s'].map(
    (code): Case => ({
      title: `beyond ${code}`,
      code: `mul.T p, a, b; ${code}; add.T x, p, n; st.global.T [%out+24], z;`,
      fused: [false],
      types: ['f32', 'f64'],
    }),
  ),
  ...['div.approx.T z, a, s', 'rcp.approx.T z, s', 'sqrt.approx.T z, s', 'rsqrt.approx.T z, s'].map(
    (code): Case => ({
      title: `beyond ${code}`,
      code: `mul.T p, a, b; ${code}; add.T x, p, n; st.global.T [%out+24], z;`,
      fused: [true],
      types: ['f32'],
    }),
  ),
  ...(['u32', 's32'] as const).map(
    (type): Case => ({
      title: `beyond a division of ${type}`,
      code: `mul.T p, a, b; div.${type} %r1, %r1, %r0; add.T x, p, n; st.global.u32 [%out+24], %r1;`,
      fused: [type === 'u32'],
    }),
  ),
  {
    title: 'beyond an atomic operation',
    code: 'mul.T p, a, b; atom.global.add.u32 %r1, [%out+32], 1; add.T x, p, n;',
    fused: [true],
  },
  {
    title: 'beyond a branch',
    code: 'mul.T p, a, b; @%yes bra ON; st.global.T [%out+24], a; bar.sync 0; ON: add.T x, p, n;',
    fused: [false],
  },
]

function textOf({ code, fused }: Case, type: Type): string {
  const { suffix, factor, square, negative } = NUMBERS[type]
  const one = {
    f32: '0f3F800000',
    f64: '0d3FF0000000000000',
    f16: '0x3c00',
    bf16: '0x3f80',
    f16x2: '0x3c003c00',
    bf16x2: '0x3f803f80',
  }[type]
  const zero = type === 'f32' ? '0f00000000' : type === 'f64' ? '0d0000000000000000' : '0'
  // Values that the assembler knows would be computed by it.
  const loaded = Object.entries({ a: factor, b: factor, s: square, n: negative, one, zero }).map(
    ([name, value]) => `mov.${suffix} ${name}, ${value}; @!%yes mov.${suffix} ${name}, ${zero};`,
  )
  const written = code.replaceAll(/\b(st\.global|mov)\.T\b/g, `$1.${suffix}`).replaceAll('.T ', `.${type} `)
  const stored = ['x', 'y'].slice(0, fused.length).map((name, at) => `st.global.${suffix} [%out+${8 * at}], ${name};`)
  return `.version 8.6
.target sm_90
.address_size 64
.visible .entry run(.param .u64 out, .param .u32 yes) {
  .reg .b64 %out; .reg .b32 %r<2>; .reg .pred %yes;
  .reg .${suffix} a, b, s, n, one, zero, p, q, x, y, z;
  ld.param.u64 %out, [out]; ld.param.u32 %r0, [yes]; mov.u32 %r1, %clock; setp.ne.u32 %yes, %r0, 0;
  ${loaded.join('\n  ')}
  ${written}
  ${stored.join(' ')}
  ret;
}
`
}

/** What differs from zero has kept the bits that rounding takes off. */
function fusedOn<M>(
  machine: KernelMachine & {
    load(text: string): M
    run(module: M, name: string, options: object, values: number[]): unknown
  },
  given: Case,
  type: Type,
): readonly boolean[] {
  const out = new Float64Array(5)
  const address = machine.put(out)
  machine.run(machine.load(textOf(given, type)), 'run', {}, [address, 1])
  const bytes = machine.get(address, new Uint8Array(16))
  return given.fused.map((_, at) => bytes.subarray(8 * at, 8 * at + 8).some((byte) => (byte & 0x7f) !== 0))
}

for (const given of CASES) {
  for (const type of given.types ?? ['f32', 'f16']) {
    const title = `${given.title}: of ${type} ${given.fused.some((each) => each) ? '' : 'not '}fused`
    test(title, () => assert.deepEqual(fusedOn(new Machine(), given, type), given.fused))
    if (typeof gpu === 'string') continue
    test(`${title} [${gpu.name}]`, () => assert.deepEqual(fusedOn(gpu, given, type), given.fused))
  }
}
