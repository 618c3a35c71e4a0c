/** mma of each shape and type, with the fragments as the PTX manual lays them out, against plain sums. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Machine, randomNumbers } from './machine.js'
import { bf16BitsOf, bf16Value, halfBitsOf, halfValue, roundedHalf } from './small-floats.js'

/** The row and the column of an element, by lane and by its number in the lane's registers. */
type Place = (group: number, lane: number, i: number) => readonly [row: number, column: number]

interface Shape {
  readonly m: number
  readonly n: number
  readonly k: number
  /** Elements of a, b and c in each lane. */
  readonly counts: readonly [number, number, number]
  readonly a: Place
  readonly b: Place
}

const c: Place = (group, lane, i) => [group + (i < 2 ? 0 : 8), lane * 2 + (i & 1)]

// As the manual has them, shape by shape.
const SHAPES: Readonly<Record<string, Shape>> = {
  'm16n8k8 of 16 bits': {
    m: 16,
    n: 8,
    k: 8,
    counts: [4, 2, 4],
    a: (g, t, i) => [i < 2 ? g : g + 8, t * 2 + (i & 1)],
    b: (g, t, i) => [t * 2 + i, g],
  },
  'm16n8k16 of 16 bits': {
    m: 16,
    n: 8,
    k: 16,
    counts: [8, 4, 4],
    a: (g, t, i) => [i < 2 || (i >= 4 && i < 6) ? g : g + 8, t * 2 + (i & 1) + (i >= 4 ? 8 : 0)],
    b: (g, t, i) => [t * 2 + (i & 1) + (i >= 2 ? 8 : 0), g],
  },
  'm16n8k4 of 32 bits': {
    m: 16,
    n: 8,
    k: 4,
    counts: [2, 1, 4],
    a: (g, t, i) => [i === 0 ? g : g + 8, t],
    b: (g, t) => [t, g],
  },
  'm16n8k8 of 32 bits': {
    m: 16,
    n: 8,
    k: 8,
    counts: [4, 2, 4],
    a: (g, t, i) => [i === 0 || i === 2 ? g : g + 8, i < 2 ? t : t + 4],
    b: (g, t, i) => [i === 0 ? t : t + 4, g],
  },
  'm8n8k16 of 8 bits': {
    m: 8,
    n: 8,
    k: 16,
    counts: [4, 4, 2],
    a: (g, t, i) => [g, t * 4 + i],
    b: (g, t, i) => [t * 4 + i, g],
  },
  'm16n8k16 of 8 bits': {
    m: 16,
    n: 8,
    k: 16,
    counts: [8, 4, 4],
    a: (g, t, i) => [i < 4 ? g : g + 8, t * 4 + (i & 3)],
    b: (g, t, i) => [t * 4 + i, g],
  },
  'm16n8k32 of 8 bits': {
    m: 16,
    n: 8,
    k: 32,
    counts: [16, 8, 4],
    a: (g, t, i) => [i < 4 || (i >= 8 && i < 12) ? g : g + 8, t * 4 + (i & 3) + (i < 8 ? 0 : 16)],
    b: (g, t, i) => [t * 4 + (i & 3) + (i < 4 ? 0 : 16), g],
  },
  'm8n8k32 of 4 bits': {
    m: 8,
    n: 8,
    k: 32,
    counts: [8, 8, 2],
    a: (g, t, i) => [g, t * 8 + i],
    b: (g, t, i) => [t * 8 + i, g],
  },
  'm16n8k32 of 4 bits': {
    m: 16,
    n: 8,
    k: 32,
    counts: [16, 8, 4],
    a: (g, t, i) => [i < 8 ? g : g + 8, t * 8 + (i & 7)],
    b: (g, t, i) => [t * 8 + i, g],
  },
  'm16n8k64 of 4 bits': {
    m: 16,
    n: 8,
    k: 64,
    counts: [32, 16, 4],
    a: (g, t, i) => [i < 8 || (i >= 16 && i < 24) ? g : g + 8, t * 8 + (i & 7) + (i < 16 ? 0 : 32)],
    b: (g, t, i) => [t * 8 + (i & 7) + (i < 8 ? 0 : 32), g],
  },
  'm8n8k128 of 1 bit': {
    m: 8,
    n: 8,
    k: 128,
    counts: [32, 32, 2],
    a: (g, t, i) => [g, t * 32 + i],
    b: (g, t, i) => [t * 32 + i, g],
  },
  'm16n8k128 of 1 bit': {
    m: 16,
    n: 8,
    k: 128,
    counts: [64, 32, 4],
    a: (g, t, i) => [i < 32 ? g : g + 8, t * 32 + (i & 31)],
    b: (g, t, i) => [t * 32 + i, g],
  },
  'm16n8k256 of 1 bit': {
    m: 16,
    n: 8,
    k: 256,
    counts: [128, 64, 4],
    a: (g, t, i) => [i < 32 || (i >= 64 && i < 96) ? g : g + 8, t * 32 + (i & 31) + (i < 64 ? 0 : 128)],
    b: (g, t, i) => [t * 32 + (i & 31) + (i < 32 ? 0 : 128), g],
  },
  'm8n8k4 of 64 bits': { m: 8, n: 8, k: 4, counts: [1, 1, 2], a: (g, t) => [g, t], b: (g, t) => [t, g] },
  'm16n8k4 of 64 bits': {
    m: 16,
    n: 8,
    k: 4,
    counts: [2, 1, 4],
    a: (g, t, i) => [i === 0 ? g : g + 8, t],
    b: (g, t) => [t, g],
  },
  'm16n8k8 of 64 bits': {
    m: 16,
    n: 8,
    k: 8,
    counts: [4, 2, 4],
    a: (g, t, i) => [i === 0 || i === 2 ? g : g + 8, i < 2 ? t : t + 4],
    b: (g, t, i) => [i === 0 ? t : t + 4, g],
  },
  'm16n8k16 of 64 bits': {
    m: 16,
    n: 8,
    k: 16,
    counts: [8, 4, 4],
    a: (g, t, i) => [i % 2 === 0 ? g : g + 8, t + 4 * Math.floor(i / 2)],
    b: (g, t, i) => [t + 4 * i, g],
  },
}

interface Element {
  readonly bits: number
  /** A small number that the type has. */
  value(random: () => number): number
  /** Its bits. */
  encode(value: number): number
}

const whole = (least: number, most: number) => (random: () => number) =>
  least + Math.floor(random() * (most - least + 1))
const single = (value: number): number => new Uint32Array(Float32Array.of(value).buffer)[0] ?? 0

const TYPES: Readonly<Record<string, Element>> = {
  f16: { bits: 16, value: (random) => whole(-16, 16)(random) / 4, encode: halfBitsOf },
  bf16: { bits: 16, value: (random) => whole(-16, 16)(random) / 4, encode: bf16BitsOf },
  tf32: { bits: 32, value: (random) => whole(-500, 500)(random) / 8, encode: single },
  s8: { bits: 8, value: whole(-128, 127), encode: (value) => value & 255 },
  u8: { bits: 8, value: whole(0, 255), encode: (value) => value },
  s4: { bits: 4, value: whole(-8, 7), encode: (value) => value & 15 },
  u4: { bits: 4, value: whole(0, 15), encode: (value) => value },
  b1: { bits: 1, value: whole(0, 1), encode: (value) => value },
  // 2^e, with either sign: the exponents of both formats of eight bits.
  e4m3: {
    bits: 8,
    value: (random) => 2 ** whole(-3, 3)(random) * (random() < 0.5 ? -1 : 1),
    encode: (value) => (value < 0 ? 128 : 0) | ((Math.log2(Math.abs(value)) + 7) << 3),
  },
  e5m2: {
    bits: 8,
    value: (random) => 2 ** whole(-3, 3)(random) * (random() < 0.5 ? -1 : 1),
    encode: (value) => (value < 0 ? 128 : 0) | ((Math.log2(Math.abs(value)) + 15) << 2),
  },
  f64: { bits: 64, value: (random) => whole(-1000, 1000)(random) / 16, encode: () => 0 },
}

const CASES: readonly (readonly [shape: string, opcode: string, a: string, b: string, sum: string])[] = [
  ['m16n8k8 of 16 bits', 'm16n8k8.row.col.f32.f16.f16.f32', 'f16', 'f16', 'f32'],
  ['m16n8k8 of 16 bits', 'm16n8k8.row.col.f16.f16.f16.f16', 'f16', 'f16', 'f16'],
  ['m16n8k8 of 16 bits', 'm16n8k8.row.col.f32.bf16.bf16.f32', 'bf16', 'bf16', 'f32'],
  ['m16n8k16 of 16 bits', 'm16n8k16.row.col.f32.f16.f16.f32', 'f16', 'f16', 'f32'],
  ['m16n8k16 of 16 bits', 'm16n8k16.row.col.f16.f16.f16.f16', 'f16', 'f16', 'f16'],
  ['m16n8k16 of 16 bits', 'm16n8k16.row.col.f32.bf16.bf16.f32', 'bf16', 'bf16', 'f32'],
  ['m16n8k4 of 32 bits', 'm16n8k4.row.col.f32.tf32.tf32.f32', 'tf32', 'tf32', 'f32'],
  ['m16n8k8 of 32 bits', 'm16n8k8.row.col.f32.tf32.tf32.f32', 'tf32', 'tf32', 'f32'],
  ['m8n8k16 of 8 bits', 'm8n8k16.row.col.s32.s8.s8.s32', 's8', 's8', 's32'],
  ['m16n8k16 of 8 bits', 'm16n8k16.row.col.s32.u8.s8.s32', 'u8', 's8', 's32'],
  ['m16n8k32 of 8 bits', 'm16n8k32.row.col.s32.s8.u8.s32', 's8', 'u8', 's32'],
  ['m16n8k32 of 8 bits', 'm16n8k32.row.col.f32.e4m3.e5m2.f32', 'e4m3', 'e5m2', 'f32'],
  ['m8n8k32 of 4 bits', 'm8n8k32.row.col.s32.s4.s4.s32', 's4', 's4', 's32'],
  ['m16n8k32 of 4 bits', 'm16n8k32.row.col.s32.u4.s4.s32', 'u4', 's4', 's32'],
  ['m16n8k64 of 4 bits', 'm16n8k64.row.col.s32.s4.u4.s32', 's4', 'u4', 's32'],
  ['m8n8k128 of 1 bit', 'm8n8k128.row.col.s32.b1.b1.s32.xor.popc', 'b1', 'b1', 's32'],
  ['m16n8k128 of 1 bit', 'm16n8k128.row.col.s32.b1.b1.s32.and.popc', 'b1', 'b1', 's32'],
  ['m16n8k256 of 1 bit', 'm16n8k256.row.col.s32.b1.b1.s32.xor.popc', 'b1', 'b1', 's32'],
  ['m8n8k4 of 64 bits', 'm8n8k4.row.col.f64.f64.f64.f64', 'f64', 'f64', 'f64'],
  ['m16n8k4 of 64 bits', 'm16n8k4.row.col.f64.f64.f64.f64', 'f64', 'f64', 'f64'],
  ['m16n8k8 of 64 bits', 'm16n8k8.row.col.f64.f64.f64.f64', 'f64', 'f64', 'f64'],
  ['m16n8k16 of 64 bits', 'm16n8k16.row.col.f64.f64.f64.f64', 'f64', 'f64', 'f64'],
]

const registersFor = (count: number, bits: number): number => Math.max(1, (count * bits) / 32) / (bits === 64 ? 2 : 1)

/** A kernel that loads the registers of each lane, multiplies, and stores those of the result. */
function kernelFor(opcode: string, counts: readonly [number, number, number], wide: boolean): string {
  const type = wide ? 'f64' : 'b32'
  const sum = /\.row\.col\.(f32|f16|s32|f64)/.exec(opcode)?.[1]
  const resultType = sum === 'f32' ? 'f32' : type
  const size = wide ? 8 : 4
  const names = ['a', 'b', 'c'] as const
  const lines: string[] = []
  let offset = 0
  names.forEach((name, operand) => {
    const own = name === 'c' ? resultType : type
    lines.push(`.reg .${own} ${Array.from({ length: counts[operand] ?? 0 }, (_, i) => `%${name}${i}`).join(', ')};`)
    for (let i = 0; i < (counts[operand] ?? 0); i++, offset += size)
      lines.push(`ld.global.${own} %${name}${i}, [%in+${offset}];`)
  })
  const list = (name: string, count: number): string =>
    `{${Array.from({ length: count }, (_, i) => `%${name}${i}`).join(', ')}}`
  lines.push(`.reg .${resultType} ${Array.from({ length: counts[2] }, (_, i) => `%d${i}`).join(', ')};`)
  lines.push(
    `mma.sync.aligned.${opcode} ${list('d', counts[2])}, ${list('a', counts[0])}, ${list('b', counts[1])}, ${list('c', counts[2])};`,
  )
  for (let i = 0; i < counts[2]; i++) lines.push(`st.global.${resultType} [%out+${i * size}], %d${i};`)
  return `.version 8.4\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u64 q) {
.reg .b64 %in, %out, %w; .reg .b32 %t;
ld.param.u64 %in, [p]; ld.param.u64 %out, [q]; mov.u32 %t, %tid.x;
mul.wide.u32 %w, %t, ${offset}; add.s64 %in, %in, %w; mul.wide.u32 %w, %t, ${counts[2] * size}; add.s64 %out, %out, %w;
${lines.join('\n')}
ret;
}`
}

for (const [shapeName, opcode, aType, bType, sumType] of CASES) {
  test(`mma.sync.aligned.${opcode} multiplies as the manual lays it out`, () => {
    const shape = SHAPES[shapeName]
    const [a, b] = [TYPES[aType], TYPES[bType]]
    if (shape === undefined || a === undefined || b === undefined) throw new Error('No such case')
    const { m, n, k } = shape
    const random = randomNumbers(opcode.length)
    const make = (count: number, element: Element): number[] =>
      Array.from({ length: count }, () => element.value(random))
    const [matrixA, matrixB] = [make(m * k, a), make(k * n, b)]
    const matrixC = Array.from({ length: m * n }, () => Math.floor(random() * 64) - 32)
    const wide = sumType === 'f64'
    const sumBits = sumType === 'f16' ? 16 : wide ? 64 : 32
    const registers = [
      registersFor(shape.counts[0], a.bits),
      registersFor(shape.counts[1], b.bits),
      registersFor(shape.counts[2], sumBits),
    ] as const
    const words: number[] = []
    const doubles: number[] = []
    const pack = (count: number, element: Element, at: (i: number) => number): void => {
      if (wide) {
        for (let i = 0; i < count; i++) doubles.push(at(i))
        return
      }
      const perWord = 32 / element.bits
      for (let word = 0; word < count / perWord; word++) {
        let packed = 0n
        for (let part = 0; part < perWord; part++) {
          packed |= BigInt(element.encode(at(word * perWord + part))) << BigInt(part * element.bits)
        }
        words.push(Number(packed))
      }
    }
    const sumElement: Element = {
      bits: sumBits,
      value: () => 0,
      encode: (value) => (sumType === 's32' ? value >>> 0 : sumType === 'f16' ? halfBitsOf(value) : single(value)),
    }
    for (let lane = 0; lane < 32; lane++) {
      const at =
        (place: Place, matrix: readonly number[], columns: number) =>
        (i: number): number => {
          const [row, column] = place(lane >> 2, lane & 3, i)
          return matrix[row * columns + column] ?? 0
        }
      pack(shape.counts[0], a, at(shape.a, matrixA, k))
      pack(shape.counts[1], b, at(shape.b, matrixB, n))
      pack(shape.counts[2], sumElement, at(c, matrixC, n))
    }
    const machine = new Machine()
    const module = machine.load(kernelFor(opcode, registers, wide))
    const input = machine.put(wide ? Float64Array.from(doubles) : Uint32Array.from(words))
    const size = registers[2] * 32
    const output = machine.put(wide ? new Float64Array(size) : new Uint32Array(size))
    machine.run(module, 'k', { block: 32 }, [input, output])
    const results = machine.get(output, wide ? new Float64Array(size) : new Uint32Array(size))
    for (let lane = 0; lane < 32; lane++) {
      for (let i = 0; i < shape.counts[2]; i++) {
        const [row, column] = c(lane >> 2, lane & 3, i)
        let sum = matrixC[row * n + column] ?? 0
        for (let at = 0; at < k; at++) {
          const [x, y] = [matrixA[row * k + at] ?? 0, matrixB[at * n + column] ?? 0]
          sum += opcode.includes('xor') ? x ^ y : x * y
        }
        const word = results[lane * registers[2] + (sumType === 'f16' ? i >> 1 : i)] ?? 0
        const view = new DataView(new ArrayBuffer(4))
        view.setUint32(0, word)
        const actual = wide
          ? word
          : sumType === 's32'
            ? word | 0
            : sumType === 'f16'
              ? halfValue((word >>> (16 * (i & 1))) & 0xffff)
              : view.getFloat32(0)
        assert.equal(actual, sumType === 'f16' ? roundedHalf(sum) : sum, `row ${row}, column ${column}`)
      }
    }
  })
}

test('bf16 has the values that the cases take', () => {
  assert.equal(bf16Value(bf16BitsOf(-3.75)), -3.75)
})
