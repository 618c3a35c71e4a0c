/**
 * Results of `.ftz` next to the smallest normal number, as an H100 was measured: a result is flushed if it is less than that number
 * when it is rounded to as many bits as a normal number has. A denormal result has fewer bits, and may be rounded up to it.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Machine, randomNumbers } from './machine.js'

const COUNT = 512
const LEAST = 2 ** -126
const LEAST_HALF = 2 ** -14
const MODES = ['rn', 'rz', 'rm', 'rp'] as const
type Mode = (typeof MODES)[number]

/** Three operands and a double, and by how many steps of denormal numbers the exact result is less than the smallest normal one. */
interface Case {
  readonly operands: readonly [number, number, number]
  readonly double: number
  readonly negative: boolean
  readonly below: number
}

/** What is left of a result: nothing, or the smallest normal number. */
function isKept({ below, negative }: Case, mode: Mode): boolean {
  if (below <= 0) return true
  if (mode === 'rn') return below <= 1 / 4
  return (mode === 'rm') === negative && mode !== 'rz' && below < 1 / 2
}

const { fround } = Math

function product(random: () => number): Case {
  for (;;) {
    const a = fround((1 + random()) * 2 ** -60)
    const b = fround((LEAST / a) * (1 + (Math.floor(random() * 5) - 2) * 2 ** -23))
    const negative = random() < 0.5
    const below = (LEAST - a * b) * 2 ** 149
    if (below > 0 && below < 1) return { operands: [negative ? -a : a, b, 0], double: 0, negative, below }
  }
}

function sum(random: () => number): Case {
  for (;;) {
    const [a, b] = [fround((1 + random()) * 2 ** -70), fround((1 + random()) * 2 ** -(79 + Math.floor(random() * 5)))]
    const negative = random() < 0.5
    const below = a * b * 2 ** 149
    const sign = negative ? -1 : 1
    if (below < 1) return { operands: [-sign * a, b, sign * LEAST], double: 0, negative, below }
  }
}

function quotient(random: () => number): Case {
  const b = fround((1 + random() * 0.999) * 2 ** 40)
  const a = fround(b * 2 ** -126 * (1 - 2 ** -24))
  const negative = random() < 0.5
  return { operands: [negative ? -a : a, b, 0], double: 0, negative, below: (1 - (a / b) * 2 ** 126) * 2 ** 23 }
}

function double(random: () => number): Case {
  const below = Math.floor(random() * 2 ** 20) / 2 ** 20
  const negative = random() < 0.5
  const value = LEAST - below * 2 ** -149
  return { operands: [0, 0, 0], double: negative ? -value : value, negative, below }
}

/** Of `results` threads, each of which has its operands in %f1 to %f3 and %d1, and leaves a result in %f4. */
function play(instruction: string, target: string, cases: readonly Case[]): Uint32Array {
  const machine = new Machine()
  const module = machine.load(`.version 8.8
.target ${target}
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %d<3>; .reg .b16 %h<9>;
ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 32; add.s64 %rd1, %rd1, %rd3; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd2, %rd2, %rd3;
ld.global.f64 %d1, [%rd1]; ld.global.f64 %d2, [%rd1+8]; cvt.rn.f32.f64 %f1, %d1; cvt.rn.f32.f64 %f2, %d2;
ld.global.f64 %d1, [%rd1+16]; cvt.rn.f32.f64 %f3, %d1; ld.global.f64 %d1, [%rd1+24];
${instruction} st.global.f32 [%rd2], %f4;
ret;
}`)
  const given = machine.put(Float64Array.from(cases.flatMap(({ operands, double: last }) => [...operands, last])))
  const out = machine.put(new Uint32Array(cases.length))
  machine.run(module, 'k', { block: cases.length }, [given, out])
  return machine.get(out, new Uint32Array(cases.length))
}

function check(instruction: string, mode: Mode, make: (random: () => number) => Case, target = 'sm_80'): void {
  const random = randomNumbers(11)
  const cases = Array.from({ length: COUNT }, () => make(random))
  const results = play(instruction, target, cases)
  const kinds = new Set<boolean>()
  for (const [index, each] of cases.entries()) {
    const kept = isKept(each, mode)
    kinds.add(kept)
    const expected = (each.negative ? 0x80000000 : 0) + (kept ? 0x800000 : 0)
    assert.equal(results[index], expected, `${instruction} ${JSON.stringify(each)}`)
  }
  const wouldBeRoundedUp = cases.some((each) => each.below < 1 && each.below > 1 / 4)
  assert.ok(wouldBeRoundedUp)
}

const pair = (instruction: string): string =>
  `mov.b64 %rd4, {%f1, %f1}; mov.b64 %rd5, {%f2, %f2}; mov.b64 %rd6, {%f3, %f3}; ${instruction} mov.b64 {%f5, %f4}, %rd7;`

describe('a result is flushed by what it is in 24 bits', () => {
  for (const mode of MODES) {
    it(`mul.${mode}`, () => check(`mul.${mode}.ftz.f32 %f4, %f1, %f2;`, mode, product))
    it(`fma.${mode}`, () => check(`fma.${mode}.ftz.f32 %f4, %f1, %f2, %f3;`, mode, sum))
    it(`mad.${mode}`, () => check(`mad.${mode}.ftz.f32 %f4, %f1, %f2, %f3;`, mode, sum))
    it(`div.${mode}`, () => check(`div.${mode}.ftz.f32 %f4, %f1, %f2;`, mode, quotient))
    it(`cvt.${mode}`, () => check(`cvt.${mode}.ftz.f32.f64 %f4, %d1;`, mode, double))
    it(`mul.${mode} of two`, () => check(pair(`mul.${mode}.ftz.f32x2 %rd7, %rd4, %rd5;`), mode, product, 'sm_100'))
    it(`fma.${mode} of two`, () => check(pair(`fma.${mode}.ftz.f32x2 %rd7, %rd4, %rd5, %rd6;`), mode, sum, 'sm_100'))
  }

  it('rcp: what is denormal stays so in 24 bits', () => {
    const reciprocal = (random: () => number): Case => {
      const b = 2 ** 126 * (1 + (1 + Math.floor(random() * 3)) * 2 ** -23)
      const negative = random() < 0.5
      return { operands: [0, negative ? -b : b, 0], double: 0, negative, below: (LEAST - 1 / b) * 2 ** 149 }
    }
    for (const mode of MODES) check(`rcp.${mode}.ftz.f32 %f4, %f2;`, mode, reciprocal)
  })

  it('the smallest normal number itself stays, and so does a result that is not denormal without .ftz', () => {
    const exact: Case = { operands: [2 ** -63, 2 ** -63, 0], double: 0, negative: false, below: 0 }
    assert.equal(play('mul.ftz.f32 %f4, %f1, %f2;', 'sm_80', [exact])[0], 0x800000)
    const random = randomNumbers(5)
    const cases = Array.from({ length: 64 }, () => product(random))
    const results = play('mul.f32 %f4, %f1, %f2;', 'sm_80', cases)
    for (const [index, { operands }] of cases.entries()) {
      const bits = new Uint32Array(Float32Array.of(operands[0] * operands[1]).buffer)[0]
      assert.equal(results[index], bits)
    }
  })
})

describe('a half is flushed by what it is in eleven bits', () => {
  /** An 11-bit significand times a power of two. */
  const half = (random: () => number, exponent: number): number =>
    (1024 + Math.floor(random() * 1024)) * 2 ** (exponent - 10)
  const ofHalves = (random: () => number): Case => {
    for (;;) {
      const [a, b] = [half(random, -8), half(random, -7)]
      const negative = random() < 0.5
      const below = (LEAST_HALF - a * b) * 2 ** 24
      if (below > 0 && below < 1) return { operands: [negative ? -a : a, b, 0], double: 0, negative, below }
    }
  }
  const sumOfHalves = (random: () => number): Case => {
    for (;;) {
      const [a, b] = [half(random, -13), half(random, -13)]
      const negative = random() < 0.5
      const below = a * b * 2 ** 24
      const sign = negative ? -1 : 1
      if (below < 1) return { operands: [-sign * a, b, sign * LEAST_HALF], double: 0, negative, below }
    }
  }
  const toHalves = [1, 2, 3].map((index) => `cvt.rn.f16.f32 %h${index}, %f${index};`).join(' ')
  const FROM_HALF = 'cvt.u32.u16 %r2, %h4; mov.b32 %f4, %r2;'
  for (const [instruction, make] of [
    ['mul.rn.ftz.f16 %h4, %h1, %h2;', ofHalves],
    ['mul.ftz.f16 %h4, %h1, %h2;', ofHalves],
    ['fma.rn.ftz.f16 %h4, %h1, %h2, %h3;', sumOfHalves],
    [
      'mov.b32 %r2, {%h1, %h1}; mov.b32 %r3, {%h2, %h2}; mul.rn.ftz.f16x2 %r2, %r2, %r3; mov.b32 {%h5, %h4}, %r2;',
      ofHalves,
    ],
  ] as const) {
    it(instruction, () => {
      const random = randomNumbers(11)
      const cases = Array.from({ length: COUNT }, () => make(random))
      const results = play(`${toHalves} ${instruction} ${FROM_HALF}`, 'sm_80', cases)
      for (const [index, each] of cases.entries()) {
        const expected = (each.negative ? 0x8000 : 0) + (isKept(each, 'rn') ? 0x400 : 0)
        assert.equal(results[index], expected, JSON.stringify(each))
      }
    })
  }
})
