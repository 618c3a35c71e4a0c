/** Scalar video instructions, and the comparisons of two halves and four bytes, against what the manual defines. */
import assert from 'node:assert/strict'
import { randomNumbers } from './machine.js'
import { onEveryMachine } from './ptx-text.js'

const COUNT = 256
type Compute = (a: bigint, b: bigint, c: bigint) => bigint

interface Case {
  readonly code: string
  readonly compute: Compute
}

type Type = 'u32' | 's32'
const TYPES: readonly Type[] = ['u32', 's32']
const extend = (word: bigint, type: Type, bits = 32): bigint =>
  type === 's32' ? BigInt.asIntN(bits, word) : BigInt.asUintN(bits, word)
const least = (a: bigint, b: bigint): bigint => (a < b ? a : b)
const most = (a: bigint, b: bigint): bigint => (a > b ? a : b)
const clamp = (value: bigint, type: Type): bigint =>
  type === 's32' ? most(-(2n ** 31n), least(2n ** 31n - 1n, value)) : most(0n, least(2n ** 32n - 1n, value))
const size = (value: bigint): bigint => (value < 0n ? -value : value)

const OPERATIONS: Readonly<Record<string, (a: bigint, b: bigint) => bigint>> = {
  vadd: (a, b) => a + b,
  vsub: (a, b) => a - b,
  vabsdiff: (a, b) => size(a - b),
  vmin: least,
  vmax: most,
}
const SECOND: Readonly<Record<string, (value: bigint, c: bigint) => bigint>> = {
  add: (value, c) => value + c,
  min: least,
  max: most,
}

function arithmetic(): Case[] {
  const cases: Case[] = []
  for (const [opcode, operation] of Object.entries(OPERATIONS)) {
    for (const d of TYPES) {
      for (const a of TYPES) {
        for (const b of TYPES) {
          const types = `${opcode}.${d}.${a}.${b}`
          const value: Compute = (x, y) => operation(extend(x, a), extend(y, b))
          cases.push(
            { code: `${types} %d, %a, %b;`, compute: value },
            {
              code: `${types} %d, %a.b2, %b.h1;`,
              compute: (x, y) => operation(extend(x >> 16n, a, 8), extend(y >> 16n, b, 16)),
            },
          )
          // A GPU does not limit unsigned sums and differences as the manual says.
          if (d === 'u32' && !/min|max/.test(opcode)) continue
          cases.push({ code: `${types}.sat %d, %a, %b;`, compute: (x, y, z) => clamp(value(x, y, z), d) })
          // A second operation takes what is left after the first was limited, so that both have 32 bits.
          for (const [name, second] of Object.entries(SECOND))
            cases.push({
              code: `${types}.sat.${name} %d, %a, %b, %c;`,
              compute: (x, y, z) => second(clamp(value(x, y, z), d), extend(z, d)),
            })
        }
      }
    }
  }
  return cases
}

function shifts(): Case[] {
  return TYPES.flatMap((a) =>
    ['clamp', 'wrap'].flatMap((mode): Case[] => {
      const count = (b: bigint): bigint => (mode === 'wrap' ? b & 31n : least(b, 32n))
      return [
        { code: `vshl.u32.${a}.u32.${mode} %d, %a, %b;`, compute: (x, y) => extend(x, a) << count(y) },
        { code: `vshr.${a}.${a}.u32.${mode} %d, %a, %b;`, compute: (x, y) => extend(x, a) >> count(y) },
        {
          code: `vshr.${a}.${a}.u32.${mode}.add %d, %a, %b.b0, %c;`,
          compute: (x, y, z) => (extend(x, a) >> count(y & 255n)) + z,
        },
      ]
    }),
  )
}

const RELATIONS: Readonly<Record<string, (a: bigint, b: bigint) => boolean>> = {
  eq: (a, b) => a === b,
  ne: (a, b) => a !== b,
  lt: (a, b) => a < b,
  le: (a, b) => a <= b,
  gt: (a, b) => a > b,
  ge: (a, b) => a >= b,
}

function comparisons(): Case[] {
  const cases: Case[] = []
  for (const [name, relation] of Object.entries(RELATIONS)) {
    for (const a of TYPES) {
      for (const b of TYPES) {
        const is: Compute = (x, y) => BigInt(relation(extend(x, a), extend(y, b)))
        cases.push(
          { code: `vset.${a}.${b}.${name} %d, %a, %b;`, compute: is },
          { code: `vset.${a}.${b}.${name}.add %d, %a, %b, %c;`, compute: (x, y, z) => is(x, y, z) + z },
          { code: `vset.${a}.${b}.${name}.max %d, %a, %b, %c;`, compute: (x, y, z) => most(is(x, y, z), extend(z, a)) },
          {
            code: `vset.${a}.${b}.${name} %d, %a.h1, %b.b3;`,
            compute: (x, y) => BigInt(relation(extend(x >> 16n, a, 16), extend(y >> 24n, b, 8))),
          },
        )
        for (const parts of [2, 4]) {
          const bits = 32 / parts
          const each = (x: bigint, y: bigint): bigint[] =>
            Array.from({ length: parts }, (_, at) => {
              const shift = BigInt(at * bits)
              return BigInt(relation(extend(x >> shift, a, bits), extend(y >> shift, b, bits)))
            })
          const types = `vset${parts}.${a}.${b}.${name}`
          cases.push(
            {
              code: `${types} %d, %a, %b, %c;`,
              compute: (x, y) => each(x, y).reduce((sum, one, at) => sum + (one << BigInt(at * bits)), 0n),
            },
            {
              code: `${types}.add %d, %a, %b, %c;`,
              compute: (x, y, z) => each(x, y).reduce((sum, one) => sum + one, z),
            },
          )
        }
      }
    }
  }
  return cases
}

function products(): Case[] {
  const cases: Case[] = []
  for (const a of TYPES) {
    for (const b of TYPES) {
      const type = a === 's32' || b === 's32' ? 's32' : 'u32'
      for (const [scale, shift] of [
        ['', 0n],
        ['.shr7', 7n],
        ['.shr15', 15n],
      ] as const) {
        for (const [po, one] of [
          ['', 0n],
          ['.po', 1n],
        ] as const) {
          if (scale !== '' && (a === 'u32' || b === 'u32')) continue
          const value: Compute = (x, y, z) => (extend(x, a) * extend(y, b) + extend(z, type) + one) >> shift
          const types = `vmad.${type}.${a}.${b}`
          cases.push({ code: `${types}${po}${scale} %d, %a, %b, %c;`, compute: value })
          if (a === 's32' && b === 's32')
            cases.push({
              code: `${types}.sat${po}${scale} %d, %a, %b, %c;`,
              compute: (x, y, z) => clamp(value(x, y, z), type),
            })
        }
      }
    }
  }
  return cases
}

const kernelOf = (
  { code }: Case,
  index: number,
): string => `.visible .entry k${index}(.param .u64 in, .param .u64 out) {
  .reg .b32 %a, %b, %c, %d, %i; .reg .b64 %in, %to, %wide;
  ld.param.u64 %in, [in];
  ld.param.u64 %to, [out];
  mov.u32 %i, %tid.x;
  mul.wide.u32 %wide, %i, 12;
  add.u64 %in, %in, %wide;
  mul.wide.u32 %wide, %i, 4;
  add.u64 %to, %to, %wide;
  ld.global.b32 %a, [%in];
  ld.global.b32 %b, [%in+4];
  ld.global.b32 %c, [%in+8];
  ${code}
  st.global.b32 [%to], %d;
  ret;
}`

function operands(): Uint32Array {
  const random = randomNumbers(3)
  const ends = [0, 1, 31, 32, 33, 127, 128, 255, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x00ff7f80]
  const one = (): number => (random() < 0.5 ? (ends[Math.floor(random() * ends.length)] ?? 0) : random() * 2 ** 32)
  return Uint32Array.from({ length: 3 * COUNT }, one)
}

for (const [name, cases] of Object.entries({
  'arithmetic of one value': arithmetic(),
  'shifts of one value': shifts(),
  comparisons: comparisons(),
  'products with a sum': products(),
})) {
  onEveryMachine(
    `video instructions for ${name} give what the manual defines`,
    `.version 7.0\n.target sm_75\n.address_size 64\n${cases.map(kernelOf).join('\n')}`,
    ({ run }) => {
      const given = operands()
      const wrong: string[] = []
      for (const [index, { code, compute }] of cases.entries()) {
        const out = new Uint32Array(COUNT)
        run(`k${index}`, { block: COUNT }, [given, out])
        for (let at = 0; at < COUNT; at++) {
          const [a = 0n, b = 0n, c = 0n] = [...given.subarray(3 * at, 3 * at + 3)].map(BigInt)
          const expected = Number(BigInt.asUintN(32, compute(a, b, c)))
          if (out[at] === expected) continue
          wrong.push(`${code} of ${a}, ${b}, ${c} is ${out[at]}, not ${expected}`)
          break
        }
      }
      assert.deepEqual(wrong, [])
    },
  )
}
