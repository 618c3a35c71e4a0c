/**
 * Launches of `wgmma` whose results a GPU recorded (record.py): each shape and type; each layout, exchange of units and offset; sums that are hard to add;
 * sparse matrices.
 */
import { createHash } from 'node:crypto'
import { ptxOf } from '../machine.js'
import type { Fill } from './fill.js'

export type Parameter =
  | { readonly fills: readonly Fill[] }
  | { readonly words: readonly string[] }
  | { readonly number: number }
  /** Memory for so many words of results. */
  | { readonly out: number }

export interface RecordedLaunch {
  readonly key: string
  /** The name of the text, and that of the kernel in it. */
  readonly text: string
  readonly kernel: string
  readonly grid: readonly [number, number, number]
  readonly block: number
  readonly shared: number
  readonly parameters: readonly Parameter[]
  /** Whether the recorder also keeps all words of the result, for whoever looks for a rule. */
  readonly keep?: boolean
}

type FloatName = 'f16' | 'bf16' | 'tf32' | 'e4m3' | 'e5m2'
export type ElementName = FloatName | 's8' | 'u8' | 'b1'
type SumName = 'f16' | 'f32' | 's32'

interface Types {
  readonly a: ElementName
  readonly b: ElementName
  readonly sum: SumName
}

const BYTES = { f16: 2, bf16: 2, tf32: 4, e4m3: 1, e5m2: 1, s8: 1, u8: 1, b1: 1 } as const
const EIGHT = ['e4m3', 'e5m2'] as const
const INTEGERS = ['s8', 'u8'] as const
const FLOAT_TYPES: readonly Types[] = [
  { a: 'f16', b: 'f16', sum: 'f32' },
  { a: 'f16', b: 'f16', sum: 'f16' },
  { a: 'bf16', b: 'bf16', sum: 'f32' },
  { a: 'tf32', b: 'tf32', sum: 'f32' },
  ...(['f32', 'f16'] as const).flatMap((sum) => EIGHT.flatMap((a) => EIGHT.map((b) => ({ a, b, sum })))),
]
const INTEGER_TYPES: readonly Types[] = INTEGERS.flatMap((a) => INTEGERS.map((b) => ({ a, b, sum: 's32' as const })))
const BIT_TYPES: Types = { a: 'b1', b: 'b1', sum: 's32' }

/** The bytes of a row of the pattern in which units of 16 bytes are exchanged; 16 where they are not. */
type Swizzle = 16 | 32 | 64 | 128
const SWIZZLES = [16, 32, 64, 128] as const
const SWIZZLE_CODES = { 16: 0n, 128: 1n, 64: 2n, 32: 3n } as const

interface Place {
  readonly start?: number
  readonly leading: number
  readonly stride: number
  readonly baseOffset?: number
  readonly swizzle: Swizzle
}

function descriptor({ start = 0, leading, stride, baseOffset = 0, swizzle }: Place): bigint {
  const units = (bytes: number): bigint => BigInt((bytes & 0x3ffff) >> 4)
  const distances = (units(leading) << 16n) | (units(stride) << 32n)
  return units(start) | distances | (BigInt(baseOffset) << 49n) | (SWIZZLE_CODES[swizzle] << 62n)
}

/** A dense place of a matrix with so many rows, whose rows of k have so many bytes. */
function dense(rows: number, rowBytes: number, swizzle: Swizzle, isTransposed: boolean): Place {
  if (!isTransposed) {
    if (swizzle === 16) return { leading: 128, stride: 8 * rowBytes, swizzle }
    return { leading: 8 * swizzle * Math.ceil(rows / 8), stride: 8 * swizzle, swizzle }
  }
  const parts = Math.ceil((2 * rows) / swizzle)
  if (swizzle === 16) return { leading: 128 * parts, stride: 128, swizzle }
  return { leading: 8 * swizzle, stride: 8 * swizzle * parts, swizzle }
}

interface Case extends Types {
  readonly name: string
  readonly n: number
  readonly placeA?: Place
  readonly placeB?: Place
  readonly isTransposedA?: boolean
  readonly isTransposedB?: boolean
  readonly isNegativeA?: boolean
  readonly isNegativeB?: boolean
  readonly inRegisters?: boolean
  readonly saturates?: boolean
  readonly sparse?: number
  readonly withoutSums?: boolean
  readonly fillA?: Partial<Fill>
  readonly fillB?: Partial<Fill>
  readonly fillSums?: Partial<Fill>
  readonly keep?: boolean
}

/** The registers of a thread with sums. */
const registersOf = ({ n, sum }: Pick<Case, 'n' | 'sum'>): number => (sum === 'f16' ? n / 4 : n / 2)

function opcodeOf(each: Case): string {
  const k = (each.a === 'b1' ? 256 : 32 / BYTES[each.a]) * (each.sparse === undefined ? 1 : 2)
  const { n, a, b, sum } = each
  const types = `${each.saturates === true ? '.satfinite' : ''}.${sum}.${a}.${b}${a === 'b1' ? '.and.popc' : ''}`
  return `wgmma.mma_async${each.sparse === undefined ? '' : '.sp'}.sync.aligned.m64n${n}k${k}${types}`
}

const list = (name: string, count: number): string => Array.from({ length: count }, (_, i) => `%${name}${i}`).join(',')

/** A kernel that copies an image to shared memory, multiplies matrices in it by one instruction, and stores the sums. */
function kernelOf(each: Case): string {
  const { a, inRegisters = false, sparse } = each
  const count = registersOf(each)
  const type = { f32: 'f32', f16: 'b32', s32: 's32' }[each.sum]
  const sign = (isNegative = false): number => (isNegative ? -1 : 1)
  const flag = (is = false): number => (is ? 1 : 0)
  const isFloat = each.sum !== 's32'
  const operands = [
    `{${list('d', count)}}`,
    inRegisters ? `{${list('a', 4)}}` : '%da',
    '%db',
    ...(sparse === undefined ? [] : ['%places', sparse]),
    '%p',
    ...(isFloat ? [sign(each.isNegativeA), sign(each.isNegativeB)] : []),
    ...(BYTES[a] === 2 && !inRegisters ? [flag(each.isTransposedA)] : []),
    ...(BYTES[a] === 2 ? [flag(each.isTransposedB)] : []),
  ]
  return `.version 8.4
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 image[];
.visible .entry multiply(.param .u64 pi, .param .u32 pn, .param .u64 pa, .param .u64 pc, .param .u64 po, .param .u64 pd, .param .u32 ps, .param .u64 pp) {
.reg .b64 %i, %a, %c, %o, %d, %e, %w, %da, %db; .reg .b32 %t, %n, %k, %s, %u, %v, %scale, %places, %q<4>; .reg .pred %p, %l;
.reg .${type} %d<${count}>; .reg .b32 %a<4>;
ld.param.u64 %i, [pi]; ld.param.u32 %n, [pn]; ld.param.u64 %a, [pa]; ld.param.u64 %c, [pc]; ld.param.u64 %o, [po];
ld.param.u64 %d, [pd]; ld.param.u32 %scale, [ps]; ld.param.u64 %e, [pp];
mov.u32 %t, %tid.x; mov.u32 %s, image; shl.b32 %k, %t, 4;
copy: setp.ge.u32 %l, %k, %n; @%l bra copied;
cvt.u64.u32 %w, %k; add.s64 %w, %w, %i; ld.global.v4.b32 {%q0, %q1, %q2, %q3}, [%w];
add.u32 %u, %s, %k; st.shared.v4.b32 [%u], {%q0, %q1, %q2, %q3}; add.u32 %k, %k, 2048; bra copy;
copied: fence.proxy.async; bar.sync 0;
ld.global.u64 %da, [%d]; ld.global.u64 %db, [%d+8];
shr.u32 %v, %s, 4; cvt.u64.u32 %w, %v; add.s64 %da, %da, %w; add.s64 %db, %db, %w; setp.ne.u32 %p, %scale, 0;
mul.wide.u32 %w, %t, 4; add.s64 %e, %e, %w; ld.global.u32 %places, [%e];
mul.wide.u32 %w, %t, ${4 * count}; add.s64 %c, %c, %w; add.s64 %o, %o, %w; mul.wide.u32 %w, %t, 16; add.s64 %a, %a, %w;
${Array.from({ length: count }, (_, i) => `ld.global.${type} %d${i}, [%c+${4 * i}];`).join('\n')}
ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%a];
wgmma.fence.sync.aligned;
${opcodeOf(each)} ${operands.join(', ')};
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
${Array.from({ length: count }, (_, i) => `st.global.${type} [%o+${4 * i}], %d${i};`).join('\n')}
ret; }
`
}

const BIAS = { f16: 15, bf16: 127, tf32: 127, e4m3: 7, e5m2: 15, f32: 127 } as const
const GREATEST = { f16: 30, bf16: 254, tf32: 254, e4m3: 14, e5m2: 30, f32: 254 } as const

/** Exponents around that of 1, as far as the type has them. */
function around(type: keyof typeof BIAS, least: number, greatest: number): Partial<Fill> {
  const inside = (value: number): number => Math.max(0, Math.min(GREATEST[type], BIAS[type] + value))
  return { exponents: [inside(least), inside(greatest)] }
}

const isFloatName = (name: string): name is keyof typeof BIAS => name in BIAS
const isFactor = (name: ElementName): name is FloatName => isFloatName(name)

function elements(name: ElementName, count: number, seed: number, fill: Partial<Fill> = {}): Fill {
  if (name === 'b1') return { type: 'word', seed, count: count / 4 }
  if (!isFloatName(name)) return { type: name, seed, count, ...fill }
  return { type: name, seed, count: count / BYTES[name], ...around(name, -2, 2), ...fill }
}

/** The bytes of the image that a is taken from; those of b begin behind it. */
const BYTES_A = 8192

/** A seed of its own for each key, so that a new launch changes no other. */
export function seedOf(key: string): number {
  return createHash('sha256').update(key).digest().readUInt32LE() >>> 1
}

function launchOf(each: Case): RecordedLaunch {
  const { n, a, b, sum, sparse } = each
  const key = `${each.name} ${opcodeOf(each).replace('.mma_async', '').replace('.sync.aligned', '')}`
  const seed = seedOf(key)
  const rowBytes = sparse === undefined ? 32 : 64
  const placeA = each.placeA ?? dense(64, 32, 16, each.isTransposedA ?? false)
  const placeB = each.placeB ?? dense(n, rowBytes, 16, each.isTransposedB ?? false)
  // More than the matrix has, as far as its layout reaches.
  const bytesB = Math.ceil((n * Math.max(rowBytes, placeB.swizzle) + 4096) / 1024) * 1024
  const words = 128 * registersOf(each)
  const sums: Fill =
    sum === 'f32'
      ? { type: 'f32', seed: seed + 2, count: words, ...around('f32', -3, 4), ...each.fillSums }
      : sum === 'f16'
        ? { type: 'f16', seed: seed + 2, count: 2 * words, ...around('f16', -3, 4), ...each.fillSums }
        : { type: 'word', seed: seed + 2, count: words, ...each.fillSums }
  const inB = { ...placeB, start: BYTES_A + (placeB.start ?? 0) }
  return {
    key,
    text: kernelOf(each),
    kernel: 'multiply',
    grid: [1, 1, 1],
    block: 128,
    shared: BYTES_A + bytesB,
    parameters: [
      { fills: [elements(a, BYTES_A, seed, each.fillA), elements(b, bytesB, seed + 1, each.fillB)] },
      { number: BYTES_A + bytesB },
      { fills: [elements(a, 128 * 16, seed + 3, each.fillA)] },
      { fills: [sums] },
      { out: words },
      { words: [descriptor(placeA), descriptor(inB)].map((word) => word.toString(16)) },
      { number: each.withoutSums === true ? 0 : 1 },
      { fills: [{ type: a === 'tf32' ? 'places of tf32' : 'places', seed: seed + 4, count: 128 }] },
    ],
    ...(each.keep === true ? { keep: true } : {}),
  }
}

const COLUMNS = Array.from({ length: 32 }, (_, index) => 8 * (index + 1))
const COLUMNS_OF_INTEGERS = COLUMNS.filter((n) => n <= 32 || n % 16 === 0)

/** Each shape with each combination of types, and in turns the layouts, exchanges and signs. */
function shapes(): Case[] {
  const all: Case[] = []
  const kinds: readonly (readonly [Types, readonly number[]])[] = [
    ...FLOAT_TYPES.map((types) => [types, COLUMNS] as const),
    ...INTEGER_TYPES.map((types) => [types, COLUMNS_OF_INTEGERS] as const),
    [BIT_TYPES, COLUMNS_OF_INTEGERS],
  ]
  for (const [kind, [types, columns]] of kinds.entries()) {
    for (const [index, n] of columns.entries()) {
      const turn = index + 5 * kind
      const isFloat = types.sum !== 's32'
      const canTranspose = BYTES[types.a] === 2
      const isTransposedA = canTranspose && (turn & 4) !== 0
      const isTransposedB = canTranspose && (turn & 8) !== 0
      all.push({
        ...types,
        name: 'shape',
        n,
        inRegisters: turn % 3 === 0,
        isTransposedA,
        isTransposedB,
        placeA: dense(64, 32, SWIZZLES[(turn >> 1) & 3] ?? 16, isTransposedA),
        placeB: dense(n, 32, SWIZZLES[turn & 3] ?? 16, isTransposedB),
        isNegativeA: isFloat && turn % 5 === 0,
        isNegativeB: isFloat && turn % 7 === 0,
        saturates: types.a !== 'b1' && !isFloat && turn % 2 === 0,
      })
    }
  }
  return all
}

/** Layouts of both matrices, with places within a pattern and base offsets. */
function layouts(): Case[] {
  const all: Case[] = []
  for (const types of [FLOAT_TYPES[0], FLOAT_TYPES[3], INTEGER_TYPES[0]]) {
    if (types === undefined) continue
    for (const isTransposed of BYTES[types.a] === 2 ? [false, true] : [false]) {
      for (const swizzle of SWIZZLES) {
        for (const [start, baseOffset] of [
          [0, 0],
          [32, 0],
          [96, 0],
          [128, 1],
          [384, 3],
          [1024 + 160, 0],
          [16, 5],
        ] as const) {
          const place = { ...dense(64, 32, swizzle, isTransposed), start, baseOffset }
          const suffix = `${isTransposed ? 'transposed ' : ''}${swizzle} at ${start} with ${baseOffset}`
          all.push({ ...types, name: `a ${suffix}`, n: 8, placeA: place, isTransposedA: isTransposed })
          all.push({
            ...types,
            name: `b ${suffix}`,
            n: 64,
            placeB: place,
            isTransposedB: isTransposed,
            inRegisters: true,
          })
        }
        const place = { leading: 272, stride: 528, swizzle }
        all.push({
          ...types,
          name: `a with gaps ${isTransposed} ${swizzle}`,
          n: 8,
          placeA: place,
          isTransposedA: isTransposed,
        })
      }
    }
  }
  return all
}

/** The fills of matrices and sums before them. */
export interface KindOfSums {
  readonly fillA: Partial<Fill>
  readonly fillB: Partial<Fill>
  readonly fillSums: Partial<Fill>
  readonly withoutSums?: boolean
}

/** Kinds of sums that are hard to add: exponents far from each other, infinities and NaN, zeros, denormal numbers. */
export function kindsOfSums(a: FloatName, b: FloatName, sum: 'f16' | 'f32'): Readonly<Record<string, KindOfSums>> {
  const ofA = (least: number, greatest: number): Partial<Fill> => around(a, least, greatest)
  const ofB = (least: number, greatest: number): Partial<Fill> => around(b, least, greatest)
  const before = (least: number, greatest: number): Partial<Fill> => around(sum, least, greatest)
  const [nearA, nearB, nearSum] = [ofA(-2, 2), ofB(-2, 2), before(-3, 4)]
  const near: KindOfSums = { fillA: nearA, fillB: nearB, fillSums: nearSum }
  const mostly = { zeros: 170 }
  return {
    near,
    wide: { fillA: ofA(-14, 14), fillB: ofB(-14, 14), fillSums: before(-30, 30) },
    'large sum': { ...near, fillSums: before(4, 24) },
    'small sum': { ...near, fillSums: before(-32, -2) },
    tiny: { fillA: ofA(-200, -11), fillB: ofB(-200, -11), fillSums: before(-56, -20) },
    'tiny without': { fillA: ofA(-200, -11), fillB: ofB(-200, -11), fillSums: nearSum, withoutSums: true },
    large: { fillA: ofA(100, 200), fillB: ofB(100, 200), fillSums: before(8, 34) },
    zeros: { fillA: { ...nearA, ...mostly }, fillB: { ...nearB, ...mostly }, fillSums: { ...nearSum, ...mostly } },
    'few specials': { fillA: { ...nearA, any: 3 }, fillB: { ...nearB, any: 3 }, fillSums: { ...nearSum, any: 2 } },
    any: { fillA: { any: 256 }, fillB: { any: 256 }, fillSums: { any: 256 } },
    all: {
      fillA: { exponents: [0, GREATEST[a]] },
      fillB: { exponents: [0, GREATEST[b]] },
      fillSums: { exponents: [0, GREATEST[sum]] },
    },
    // A factor of zero beside a large one may have an exponent of its own.
    'zeros times large': { fillA: { zeros: 256 }, fillB: ofB(100, 200), fillSums: before(-20, -4) },
    'large times zeros': { fillA: ofA(100, 200), fillB: { zeros: 256 }, fillSums: before(-20, -4) },
    'zeros times largest': { fillA: { zeros: 256 }, fillB: ofB(100, 200), fillSums: before(-120, -24) },
    'few zeros times large': {
      fillA: { ...ofA(-200, -13), zeros: 128 },
      fillB: ofB(-14, 14),
      fillSums: before(-60, -24),
    },
    'zero sum': { fillA: ofA(-200, -12), fillB: ofB(-200, -12), fillSums: { ...nearSum, zeros: 256 } },
    'zero sum of low': { fillA: ofA(-70, -60), fillB: ofB(-75, -60), fillSums: { zeros: 200, exponents: [0, 3] } },
    lower: { fillA: ofA(-87, -65), fillB: ofB(-77, -65), fillSums: { zeros: 250, exponents: [0, 3] } },
    low: { fillA: ofA(-69, -59), fillB: ofB(-69, -59), fillSums: { exponents: [0, 12] } },
    high: { fillA: ofA(57, 69), fillB: ofB(57, 69), fillSums: before(120, 200) },
  }
}

/** Sums that are hard to add, of each combination of types. */
function sums(): Case[] {
  const all: Case[] = []
  for (const { a, b, sum } of FLOAT_TYPES) {
    if (!isFactor(a) || !isFactor(b) || sum === 's32') continue
    for (const [name, kind] of Object.entries(kindsOfSums(a, b, sum))) {
      all.push({ a, b, sum, name, n: 24, keep: true, ...kind })
    }
  }
  for (const types of INTEGER_TYPES) {
    for (const saturates of [false, true]) {
      all.push({ ...types, name: 'extreme', n: 24, saturates, fillSums: { type: 'extreme' } })
      all.push({ ...types, name: 'without', n: 24, saturates, withoutSums: true })
    }
  }
  return all
}

function sparse(): Case[] {
  const all: Case[] = []
  for (const types of [...FLOAT_TYPES, ...INTEGER_TYPES]) {
    for (const selected of BYTES[types.a] === 1 ? [0] : [0, 1]) {
      for (const inRegisters of [false, true]) {
        all.push({
          ...types,
          name: `sparse ${selected}${inRegisters ? ' in registers' : ''}`,
          n: 48,
          sparse: selected,
          inRegisters,
          keep: true,
        })
      }
    }
    for (const [index, swizzle] of SWIZZLES.entries()) {
      const isTransposedB = BYTES[types.a] === 2 && index % 2 === 1
      const placeB = dense(64, 64, swizzle, isTransposedB)
      all.push({ ...types, name: `sparse exchanged ${swizzle}`, n: 64, sparse: 0, placeB, isTransposedB, keep: true })
      const placeA = dense(64, 32, swizzle, false)
      all.push({ ...types, name: `sparse a exchanged ${swizzle}`, n: 16, sparse: 0, placeA, keep: true })
    }
    const wide = isFloatName(types.a) && isFloatName(types.b) && types.sum !== 's32'
    if (wide && isFloatName(types.a) && isFloatName(types.b)) {
      const fillA = around(types.a, -14, 14)
      all.push({ ...types, name: 'sparse wide', n: 24, sparse: 0, keep: true, fillA, fillB: around(types.b, -14, 14) })
    }
  }
  return all
}

/** The kernels of kernels/warpgroups.cu. */
function wholeKernels(): RecordedLaunch[] {
  const text = ptxOf('warpgroups.sm_90')
  const [m, n, k] = [256, 128, 192]
  const base = { text, shared: 0 }
  const floats = (type: 'f16' | 'bf16' | 'f32', seed: number, count: number): Parameter => ({
    fills: [{ type, seed, count, ...around(type, -6, 2) }],
  })
  const sizes: readonly Parameter[] = [{ out: m * n }, { number: n }, { number: k }]
  return [
    {
      ...base,
      key: 'matmul_warpgroups',
      kernel: 'matmul_warpgroups',
      grid: [n / 64, m / 128, 1],
      block: 256,
      parameters: [floats('f16', 50_001, m * k), floats('f16', 50_002, n * k), ...sizes],
    },
    {
      ...base,
      key: 'matmul_registers',
      kernel: 'matmul_registers',
      grid: [n / 64, m / 64, 1],
      block: 128,
      parameters: [floats('f32', 50_003, m * k), floats('bf16', 50_004, n * k), ...sizes],
    },
  ]
}

export function allLaunches(): readonly RecordedLaunch[] {
  const single = [...shapes(), ...layouts(), ...sums(), ...sparse()].map(launchOf)
  return [...single, ...wholeKernels()]
}
