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
          // A GPU limits unsigned sums and differences to no less than 0, and takes the lower bits of what is too large.
          if (d === 'u32' && !/min|max/.test(opcode)) {
            const positive: Compute = (x, y, z) => most(value(x, y, z), 0n)
            cases.push(
              { code: `${types}.sat %d, %a, %b;`, compute: positive },
              { code: `${types}.sat.add %d, %a, %b, %c;`, compute: (x, y, z) => positive(x, y, z) + z },
            )
            continue
          }
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

/** A word with `bits` of a value at `shift`. */
function withPart(word: bigint, value: bigint, shift: bigint, bits: bigint): bigint {
  const mask = (1n << bits) - 1n
  return (word & ~(mask << shift)) | ((value & mask) << shift)
}

/** Destinations of which only a part is written: the rest is that of the third operand. */
function written(): Case[] {
  const cases: Case[] = []
  const parts = [...[0, 1, 2, 3].map((at) => [`b${at}`, 8 * at, 8] as const), ['h0', 0, 16], ['h1', 16, 16]] as const
  for (const [name, shift, bits] of parts) {
    const into =
      (value: Compute): Compute =>
      (x, y, z) =>
        // Into the upper half a GPU writes the upper half of a result, and not the lower one.
        withPart(z, name === 'h1' ? value(x, y, z) >> 16n : value(x, y, z), BigInt(shift), BigInt(bits))
    for (const [opcode, operation] of Object.entries(OPERATIONS)) {
      for (const d of TYPES) {
        for (const a of TYPES) {
          const value: Compute = (x, y) => operation(extend(x, a), extend(y, 's32'))
          const most32 = 2n ** BigInt(d === 's32' ? bits - 1 : bits) - 1n
          // A GPU takes what does not fit into 32 unsigned bits, negative values, too, for the greatest value.
          const limited: Compute = (x, y, z) => {
            const whole = value(x, y, z)
            return whole < 0n || whole > most32 ? most32 : whole
          }
          const types = `${opcode}.${d}.${a}.s32`
          cases.push(
            { code: `${types} %d.${name}, %a, %b, %c;`, compute: into(value) },
            { code: `${types}.sat %d.${name}, %a, %b, %c;`, compute: into(limited) },
          )
        }
        cases.push({
          code: `${opcode}.${d}.s32.u32 %d.${name}, %a.b3, %b.h0, %c;`,
          compute: into((x, y) => operation(extend(x >> 24n, 's32', 8), extend(y, 'u32', 16))),
        })
      }
    }
    cases.push(
      {
        code: `vset.s32.u32.lt %d.${name}, %a, %b, %c;`,
        compute: into((x, y) => BigInt(extend(x, 's32') < extend(y, 'u32'))),
      },
      {
        code: `vshl.u32.u32.u32.clamp %d.${name}, %a, %b, %c;`,
        compute: into((x, y) => extend(x, 'u32') << least(y, 32n)),
      },
      {
        code: `vshr.s32.s32.u32.wrap %d.${name}, %a.h1, %b, %c;`,
        compute: into((x, y) => extend(x >> 16n, 's32', 16) >> (y & 31n)),
      },
    )
  }
  return cases
}

/** The halves or bytes with these numbers of two words, the first being the lowest of the first word. */
function chosen(x: bigint, y: bigint, numbers: string, bits: bigint): readonly bigint[] {
  const both = BigInt.asUintN(32, x) | (BigInt.asUintN(32, y) << 32n)
  return [...numbers].reverse().map((digit) => (both >> (BigInt(digit) * bits)) & ((1n << bits) - 1n))
}

/** Instructions on halves and bytes that are chosen among those of both operands. */
function packed(): Case[] {
  const cases: Case[] = []
  const add = (
    opcode: string,
    bits: bigint,
    [into, from, other]: readonly [string, string, string],
    operation: (a: bigint, b: bigint) => bigint,
  ): void => {
    const letter = bits === 16n ? 'h' : 'b'
    const all = bits === 16n ? ['10', '10', '32'] : ['3210', '3210', '7654']
    const [d = '', a = '', b = ''] = [into, from, other].map((each) => (each === '' ? '' : `.${letter}${each}`))
    cases.push({
      code: `${opcode} %d${d}, %a${a}, %b${b}, %c;`,
      compute: (x, y, z) => {
        const [first, second] = [chosen(x, y, from || all[1] || '', bits), chosen(x, y, other || all[2] || '', bits)]
        return [...(into || all[0] || '')].reduce((word, digit) => {
          const value = operation(first[Number(digit)] ?? 0n, second[Number(digit)] ?? 0n)
          return withPart(word, value, BigInt(digit) * bits, bits)
        }, z)
      },
    })
  }
  const inRange = (value: bigint, bits: bigint): bigint => most(0n, least((1n << bits) - 1n, value))
  for (const into of ['', '0', '1', '10']) {
    for (const [from, other] of [
      ['', ''],
      ['30', '02'],
      ['', '11'],
    ] as const) {
      const parts = [into, from, other] as const
      add('vadd2.u32.u32.u32', 16n, parts, (a, b) => a + b)
      add('vsub2.u32.u32.u32.sat', 16n, parts, (a, b) => inRange(a - b, 16n))
      add('vmax2.u32.u32.u32', 16n, parts, most)
      add('vset2.u32.u32.ge', 16n, parts, (a, b) => BigInt(a >= b))
    }
  }
  for (const into of ['', '0', '20', '321', '3210']) {
    for (const [from, other] of [
      ['', ''],
      ['7014', '0123'],
      ['0000', ''],
    ] as const) {
      const parts = [into, from, other] as const
      add('vadd4.u32.u32.u32', 8n, parts, (a, b) => a + b)
      add('vadd4.u32.u32.u32.sat', 8n, parts, (a, b) => inRange(a + b, 8n))
      add('vmin4.u32.u32.u32', 8n, parts, least)
      add('vset4.u32.u32.ne', 8n, parts, (a, b) => BigInt(a !== b))
    }
  }
  return cases
}

/** Products with a minus, and what an assembler takes and leaves out. */
function others(): Case[] {
  const signed: Compute = (x, y) => extend(x, 's32') * extend(y, 's32')
  const added = (z: bigint): bigint => extend(z, 's32')
  const types = 'vmad.s32.s32.s32'
  return [
    { code: `${types} %d, -%a, %b, %c;`, compute: (x, y, z) => z - signed(x, y, z) },
    { code: `${types} %d, %a, -%b, %c;`, compute: (x, y, z) => z - signed(x, y, z) },
    { code: `${types} %d, -%a, -%b, %c;`, compute: (x, y, z) => signed(x, y, z) + z },
    { code: `${types} %d, %a, %b, -%c;`, compute: (x, y, z) => signed(x, y, z) - z },
    { code: `${types} %d, %a, -5, %c;`, compute: (x, _, z) => extend(x, 's32') * -5n + z },
    { code: `${types}.sat %d, -%a, %b, %c;`, compute: (x, y, z) => clamp(added(z) - signed(x, y, z), 's32') },
    { code: `${types}.shr7 %d, -%a, %b, %c;`, compute: (x, y, z) => (added(z) - signed(x, y, z)) >> 7n },
    {
      code: `${types}.sat.shr7 %d, %a, %b, -%c;`,
      compute: (x, y, z) => clamp((signed(x, y, z) - added(z)) >> 7n, 's32'),
    },
    {
      code: `${types} %d, -%a.b1, %b.h1, %c;`,
      compute: (x, y, z) => z - extend(x >> 8n, 's32', 8) * extend(y >> 16n, 's32', 16),
    },
    { code: 'vmad.u32.u32.u32 %d, %a, -%b, %c;', compute: (x, y, z) => z - x * y },
    { code: 'vadd.u32.u32.u32 %d, %a, %b, %c;', compute: (x, y) => x + y },
    { code: 'vset.u32.u32.eq %d, %a, %b, %c;', compute: (x, y) => BigInt(x === y) },
  ]
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
  'a part of a register': written(),
  'chosen halves and bytes': packed(),
  'products with a minus': others(),
})) {
  onEveryMachine(
    `video instructions for ${name} give what the manual defines, or else a GPU`,
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
