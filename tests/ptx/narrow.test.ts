/** Numbers of four and six bits, powers of two in eight, sums of two types, and products of quarters of a warp, against their definitions. */
import assert from 'node:assert/strict'
import { randomNumbers } from './machine.js'
import { onEveryMachine, type TextScene } from './ptx-text.js'
import { bf16Value, halfBitsOf, halfValue, roundedHalf } from './small-floats.js'

const COUNT = 256

/** A kernel that reads two words for each thread, and stores one: `%f` and `%r` have the inputs, `%out` is stored. */
function kernelOf(version: string, target: string, body: string): string {
  return `.version ${version}\n.target ${target}\n.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {
  .reg .b8 %c<2>; .reg .b16 %h<6>; .reg .b32 %r<4>, %i, %out; .reg .f32 %f<4>; .reg .b64 %in, %to, %wide;
  ld.param.u64 %in, [in];
  ld.param.u64 %to, [out];
  mov.u32 %i, %tid.x;
  mul.wide.u32 %wide, %i, 8;
  add.u64 %in, %in, %wide;
  mul.wide.u32 %wide, %i, 4;
  add.u64 %to, %to, %wide;
  ld.global.b32 %r0, [%in];
  ld.global.b32 %r1, [%in+4];
  mov.b32 %f0, %r0;
  mov.b32 %f1, %r1;
${body}
  st.global.b32 [%to], %out;
  ret;
}`
}

interface SmallFormat {
  readonly name: string
  /** The values that are not negative, in the order of their bits. */
  readonly values: readonly number[]
  readonly sign: number
  readonly bitsApart: number
}

function valuesOf(exponentBits: number, fractionBits: number): readonly number[] {
  const bias = 2 ** (exponentBits - 1) - 1
  return Array.from({ length: 2 ** (exponentBits + fractionBits) }, (_, bits) => {
    const [exponent, fraction] = [bits >> fractionBits, (bits % 2 ** fractionBits) / 2 ** fractionBits]
    return exponent === 0 ? fraction * 2 ** (1 - bias) : (1 + fraction) * 2 ** (exponent - bias)
  })
}

const SMALL: readonly SmallFormat[] = [
  { name: 'e2m1x2', values: valuesOf(2, 1), sign: 8, bitsApart: 4 },
  { name: 'e2m3x2', values: valuesOf(2, 3), sign: 32, bitsApart: 8 },
  { name: 'e3m2x2', values: valuesOf(3, 2), sign: 32, bitsApart: 8 },
]

/** The bits of the nearest value, ties to even bits; what is too large becomes the largest, and so does a NaN. */
function nearest(value: number, { values, sign }: SmallFormat, relu: boolean): number {
  const last = values.length - 1
  if (Number.isNaN(value)) return last
  if (relu && value <= 0) return 0
  const size = Math.min(Math.abs(value), values[last] ?? 0)
  const above = values.findIndex((each) => each >= size)
  const [low, high] = [values[above - 1] ?? 0, values[above] ?? 0]
  const isLow = above > 0 && (size - low < high - size || (size - low === high - size && above % 2 === 1))
  return (isLow ? above - 1 : above) + (value < 0 || Object.is(value, -0) ? sign : 0)
}

/** Values around those of the formats, halves between them, and what lies beyond. */
function inputs(): Float32Array {
  const random = randomNumbers(11)
  const list = [
    0,
    -0,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    1e-40,
    2 ** -127,
    1.5 * 2 ** -127,
    2 ** -126,
    3.4e38,
  ]
  for (const { values } of SMALL)
    for (const [at, each] of values.entries()) list.push(each, -(each + (values[at + 1] ?? 9)) / 2)
  while (list.length < 2 * COUNT) list.push(random() * 20 - 10)
  return Float32Array.from(list)
}

function check(expected: (a: number, b: number) => number) {
  return ({ run }: TextScene): void => {
    const given = inputs()
    const out = new Uint32Array(COUNT)
    run('k', { block: COUNT }, [given, out])
    for (let at = 0; at < COUNT; at++) {
      const [a = 0, b = 0] = [given[2 * at], given[2 * at + 1]]
      assert.equal(out[at], expected(a, b) >>> 0, `of ${a} and ${b}`)
    }
  }
}

for (const format of SMALL) {
  const register = format.bitsApart === 4 ? '%c0' : '%h0'
  const widen = format.bitsApart === 4 ? 'mov.b16 %h0, {%c0, 0};\n' : ''
  for (const relu of [false, true]) {
    const of = (value: number): number => nearest(value, format, relu)
    const opcode = `cvt.rn.satfinite.${relu ? 'relu.' : ''}${format.name}.f32`
    onEveryMachine(
      `${opcode} gives the nearest number`,
      kernelOf('8.6', 'sm_100a', `${opcode} ${register}, %f0, %f1;\n${widen}cvt.u32.u16 %out, %h0;`),
      check((a, b) => (of(a) << format.bitsApart) | of(b)),
      false,
    )
  }
  for (const relu of [false, true]) {
    const opcode = `cvt.rn.${relu ? 'relu.' : ''}f16x2.${format.name}`
    const narrow = format.bitsApart === 4 ? 'mov.b16 {%c0, %c1}, %h0;\n' : ''
    const of = (bits: number): number => {
      const size = format.values[bits % format.sign] ?? 0
      const isNegative = (bits & format.sign) !== 0
      return halfBitsOf(isNegative ? (relu ? 0 : -size) : size)
    }
    onEveryMachine(
      `${opcode} gives the number itself`,
      kernelOf(
        '8.6',
        'sm_100a',
        `cvt.u16.u32 %h0, %i;\nmul.lo.u16 %h0, %h0, ${format.bitsApart === 4 ? 1 : 257};
and.b16 %h0, %h0, ${format.bitsApart === 4 ? 0xff : 0x3f3f};\n${narrow}${opcode} %out, ${register};`,
      ),
      ({ run }) => {
        const out = new Uint32Array(COUNT)
        run('k', { block: COUNT }, [new Float32Array(2 * COUNT), out])
        for (let i = 0; i < COUNT; i++) {
          const [low, high] = format.bitsApart === 4 ? [i & 15, i >> 4] : [i & 63, i & 63]
          assert.equal(out[i], ((of(high) << 16) | of(low)) >>> 0, `of ${i}`)
        }
      },
      false,
    )
  }
}

/** The exponent of ue8m0: 2^(bits - 127), rounded to zero or up. */
function power(value: number, up: boolean, saturates: boolean): number {
  if (Number.isNaN(value)) return 255
  const size = Math.abs(value)
  if (size === Number.POSITIVE_INFINITY) return saturates ? 254 : 255
  if (size <= 2 ** -127) return 0
  const exponent = Math.floor(Math.log2(size))
  const exact = 2 ** exponent > size ? exponent - 1 : 2 ** (exponent + 1) <= size ? exponent + 1 : exponent
  const bits = Math.max(0, exact + 127 + (up && 2 ** exact < size ? 1 : 0))
  return bits === 255 && saturates ? 254 : bits
}

for (const rounding of ['rz', 'rp'] as const) {
  for (const satfinite of ['', '.satfinite']) {
    const of = (value: number): number => power(value, rounding === 'rp', satfinite !== '')
    onEveryMachine(
      `cvt.${rounding}${satfinite}.ue8m0x2 gives powers of two`,
      kernelOf(
        '8.6',
        'sm_100a',
        `cvt.${rounding}${satfinite}.ue8m0x2.f32 %h0, %f0, %f1;
  shr.u32 %r2, %r0, 16;
  and.b32 %r3, %r1, 0xffff0000;
  or.b32 %r3, %r3, %r2;
  cvt.${rounding}${satfinite}.ue8m0x2.bf16x2 %h1, %r3;
  mov.b32 %out, {%h0, %h1};`,
      ),
      check((a, b) => {
        const cut = (x: number): number => bf16Value((new Uint32Array(Float32Array.of(x).buffer)[0] ?? 0) >>> 16)
        return (of(cut(b)) << 24) | (of(cut(a)) << 16) | (of(a) << 8) | of(b)
      }),
      false,
    )
  }
}

onEveryMachine(
  'cvt.rn.bf16x2.ue8m0x2 gives 2^(bits - 127), and NaN for 255',
  kernelOf('8.6', 'sm_100a', 'cvt.u16.u32 %h0, %i;\nmul.lo.u16 %h0, %h0, 257;\ncvt.rn.bf16x2.ue8m0x2 %out, %h0;'),
  ({ run }) => {
    const out = new Uint32Array(COUNT)
    run('k', { block: COUNT }, [new Float32Array(2 * COUNT), out])
    for (let i = 0; i < COUNT; i++) {
      const [low, high] = [(out[i] ?? 0) & 0xffff, (out[i] ?? 0) >>> 16]
      assert.equal(low, high)
      assert.equal(bf16Value(low), i === 255 ? Number.NaN : 2 ** (i - 127))
    }
    assert.equal(out[255], 0x7fff7fff)
  },
  false,
)

const bitsOf = (value: number): number =>
  Number.isNaN(value) ? 0x7fffffff : (new Uint32Array(Float32Array.of(value).buffer)[0] ?? 0)

for (const [type, decode] of [
  ['f16', halfValue],
  ['bf16', bf16Value],
] as const) {
  const high = (x: number): number => decode((new Uint32Array(Float32Array.of(x).buffer)[0] ?? 0) >>> 16)
  const saturated = (x: number): number => (x > 0 ? Math.min(x, 1) : 0)
  const cases: readonly (readonly [code: string, expected: (a: number, b: number) => number])[] = [
    [`add.f32.${type} %f2, %h1, %f1;`, (a, b) => Math.fround(high(a) + b)],
    [`sub.rn.sat.f32.${type} %f2, %h1, %f1;`, (a, b) => saturated(Math.fround(high(a) - b))],
    // The product of two halves is exact in f64, and so is its sum with what is no farther than 29 bits.
    [`fma.rn.f32.${type} %f2, %h1, %h1, 0f3f800000;`, (a) => Math.fround(high(a) * high(a) + 1)],
  ]
  for (const [code, expected] of cases) {
    onEveryMachine(
      `${code.split(' ')[0]} computes in f32`,
      kernelOf('8.6', 'sm_100', `mov.b32 {%h0, %h1}, %r0;\n${code}\nmov.b32 %out, %f2;`),
      check((a, b) => bitsOf(expected(a, b))),
      false,
    )
  }
}

// Four products of 8 by 4 by 8, one for each quad of lanes and the one 16 lanes further.
for (const [aLayout, bLayout] of [
  ['row', 'col'],
  ['col', 'row'],
  ['row', 'row'],
  ['col', 'col'],
] as const) {
  for (const type of ['f32', 'f16'] as const) {
    const registers = type === 'f32' ? 8 : 4
    const names = (letter: string, count: number): string =>
      `{${Array.from({ length: count }, (_, index) => `%${letter}${index}`).join(', ')}}`
    onEveryMachine(
      `mma.m8n8k4 of f16 in ${type}, ${aLayout} and ${bLayout}, is four products of quarters`,
      `.version 6.4\n.target sm_70\n.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {
  .reg .b32 %a<2>, %b<2>, %i, %c<8>; .reg .b64 %pa, %pb, %pc, %w;
  ld.param.u64 %pa, [a];
  ld.param.u64 %pb, [b];
  ld.param.u64 %pc, [c];
  mov.u32 %i, %laneid;
  mul.wide.u32 %w, %i, 8;
  add.u64 %pa, %pa, %w;
  add.u64 %pb, %pb, %w;
  mul.wide.u32 %w, %i, ${4 * registers};
  add.u64 %pc, %pc, %w;
  ld.global.v2.b32 ${names('a', 2)}, [%pa];
  ld.global.v2.b32 ${names('b', 2)}, [%pb];
${Array.from({ length: registers }, (_, at) => `  ld.global.b32 %c${at}, [%pc+${4 * at}];`).join('\n')}
  mma.sync.aligned.m8n8k4.${aLayout}.${bLayout}.${type}.f16.f16.${type} ${names('c', registers)}, ${names('a', 2)}, ${names('b', 2)}, ${names('c', registers)};
${Array.from({ length: registers }, (_, at) => `  st.global.b32 [%pc+${4 * at}], %c${at};`).join('\n')}
  ret;
}`,
      ({ run }) => {
        const random = randomNumbers(5)
        const small = (): number => Math.floor(random() * 9) - 4
        const matrix = (rows: number, columns: number): number[][] =>
          Array.from({ length: rows }, () => Array.from({ length: columns }, small))
        const products = Array.from({ length: 4 }, () => ({ a: matrix(8, 4), b: matrix(4, 8), c: matrix(8, 8) }))
        const [a, b] = [new Uint16Array(128), new Uint16Array(128)]
        const c = type === 'f32' ? new Float32Array(256) : new Uint16Array(256)
        const encode = (value: number): number => (type === 'f32' ? value : halfBitsOf(value))
        /** The row and the column of an element of the result, as the manual has it. */
        const placeOf = (lane: number, i: number): readonly [number, number] => {
          const upper = lane < 16 ? 0 : 4
          if (type === 'f16') return [(lane % 4) + upper, i]
          return [(lane & 0b1) + (i & 0b10) + upper, (i & 0b100) + (lane & 0b10) + (i & 0b1)]
        }
        for (let lane = 0; lane < 32; lane++) {
          const product = products[Math.floor((lane % 16) / 4)]
          const upper = lane < 16 ? 0 : 4
          for (let i = 0; i < 4; i++) {
            const [row, column] = aLayout === 'row' ? [(lane % 4) + upper, i] : [i + upper, lane % 4]
            a[4 * lane + i] = halfBitsOf(product?.a[row]?.[column] ?? 0)
            const [down, along] = bLayout === 'row' ? [lane % 4, i + upper] : [i, (lane % 4) + upper]
            b[4 * lane + i] = halfBitsOf(product?.b[down]?.[along] ?? 0)
          }
          for (let i = 0; i < 8; i++) {
            const [row, column] = placeOf(lane, i)
            c[8 * lane + i] = encode(product?.c[row]?.[column] ?? 0)
          }
        }
        run('k', { block: 32 }, [a, b, c])
        for (let lane = 0; lane < 32; lane++) {
          const product = products[Math.floor((lane % 16) / 4)]
          for (let i = 0; i < 8; i++) {
            const [row, column] = placeOf(lane, i)
            let sum = product?.c[row]?.[column] ?? 0
            for (let k = 0; k < 4; k++) sum += (product?.a[row]?.[k] ?? 0) * (product?.b[k]?.[column] ?? 0)
            assert.equal(c[8 * lane + i], encode(roundedHalf(sum)), `lane ${lane}, element ${i}`)
          }
        }
      },
    )
  }
}
