/** Launches of `mma` and `wmma` on floats that a GPU recorded, as those of cases.ts: sums that are hard to add, of each shape and type. */
import { kindsOfSums, type RecordedLaunch, seedOf } from './cases.js'
import type { Fill } from './fill.js'

type FactorName = 'f16' | 'bf16' | 'tf32' | 'e4m3' | 'e5m2'
type SumName = 'f16' | 'f32'

interface WarpForm {
  readonly opcode: string
  readonly a: FactorName
  readonly b: FactorName
  /** The types of the sums before and behind. */
  readonly before: SumName
  readonly sum: SumName
  /** The registers of a, of b, of the sums before and of those behind. */
  readonly counts: readonly [number, number, number, number]
}

const EIGHT = ['e4m3', 'e5m2'] as const
const BYTES = { f16: 2, bf16: 2, tf32: 4, e4m3: 1, e5m2: 1, f32: 4 } as const

/** The forms of mma with sixteen rows: a shape, its k, and the types that it has. */
function formsOfMma(): WarpForm[] {
  const kinds: (readonly [k: number, a: FactorName, b: FactorName, sum: SumName])[] = []
  for (const k of [8, 16]) kinds.push([k, 'f16', 'f16', 'f32'], [k, 'f16', 'f16', 'f16'], [k, 'bf16', 'bf16', 'f32'])
  for (const k of [4, 8]) kinds.push([k, 'tf32', 'tf32', 'f32'])
  for (const k of [16, 32]) for (const a of EIGHT) for (const b of EIGHT) kinds.push([k, a, b, 'f32'], [k, a, b, 'f16'])
  return kinds.map(([k, a, b, sum]) => ({
    opcode: `mma.sync.aligned.m16n8k${k}.row.col.${sum}.${a}.${b}.${sum}`,
    a,
    b,
    before: sum,
    sum,
    counts: [(16 * k * BYTES[a]) / 128, (8 * k * BYTES[b]) / 128, sum === 'f16' ? 2 : 4, sum === 'f16' ? 2 : 4],
  }))
}

const OLDEST: readonly WarpForm[] = (['f32', 'f16'] as const).flatMap((sum) =>
  (sum === 'f32' ? (['f32', 'f16'] as const) : (['f16'] as const)).map((before): WarpForm => {
    const registers = { f32: 8, f16: 4 }
    return {
      opcode: `mma.sync.aligned.m8n8k4.row.col.${sum}.f16.f16.${before}`,
      a: 'f16',
      b: 'f16',
      before,
      sum,
      counts: [2, 2, registers[before], registers[sum]],
    }
  }),
)

const list = (name: string, count: number): string => Array.from({ length: count }, (_, i) => `%${name}${i}`).join(',')
const TYPES = { f32: 'f32', f16: 'b32' } as const
const HEAD = '.version 8.7\n.target sm_90a\n.address_size 64\n'

/** A kernel whose lanes load registers, multiply, and store registers. */
function kernelOf({ opcode, before, sum, counts }: WarpForm): string {
  const [a, b, c, d] = counts
  const step = (pointer: string, count: number): string =>
    `mul.wide.u32 %w, %t, ${4 * count}; add.s64 %${pointer}, %${pointer}, %w;`
  const loads = (name: string, count: number, type: string): string =>
    Array.from({ length: count }, (_, i) => `ld.global.${type} %${name}${i}, [%p${name}+${4 * i}];`).join('\n')
  return `${HEAD}.visible .entry multiply(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 po) {
.reg .b64 %pa, %pb, %pc, %po, %w; .reg .b32 %t, %a<${a}>, %b<${b}>; .reg .${TYPES[before]} %c<${c}>; .reg .${TYPES[sum]} %d<${d}>;
ld.param.u64 %pa, [pa]; ld.param.u64 %pb, [pb]; ld.param.u64 %pc, [pc]; ld.param.u64 %po, [po]; mov.u32 %t, %tid.x;
${step('pa', a)} ${step('pb', b)} ${step('pc', c)} ${step('po', d)}
${loads('a', a, 'b32')}
${loads('b', b, 'b32')}
${loads('c', c, TYPES[before])}
${opcode} {${list('d', d)}}, {${list('a', a)}}, {${list('b', b)}}, {${list('c', c)}};
${Array.from({ length: d }, (_, i) => `st.global.${TYPES[sum]} [%po+${4 * i}], %d${i};`).join('\n')}
ret; }
`
}

/** A kernel that loads fragments of matrices that lie in rows, b in columns, multiplies, and stores the sums. */
function kernelOfFragments(shape: string, type: FactorName, sum: SumName): string {
  const [, m = 0, n = 0, k = 0] = /m(\d+)n(\d+)k(\d+)/.exec(shape)?.map(Number) ?? []
  const [a, b] = type === 'f16' ? [8, 8] : type === 'tf32' ? [4, 4] : [(m * k) / 64, (k * n) / 64]
  const c = sum === 'f16' ? 4 : 8
  const types = type === 'f16' ? `${sum}.${sum}` : `${sum}.${type}.${type}.${sum}`
  return `${HEAD}.visible .entry multiply(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 po) {
.reg .b64 %pa, %pb, %pc, %po; .reg .b32 %a<${a}>, %b<${b}>; .reg .${TYPES[sum]} %c<${c}>, %d<${c}>;
ld.param.u64 %pa, [pa]; ld.param.u64 %pb, [pb]; ld.param.u64 %pc, [pc]; ld.param.u64 %po, [po];
wmma.load.a.sync.aligned.row.${shape}.global.${type} {${list('a', a)}}, [%pa], ${k};
wmma.load.b.sync.aligned.col.${shape}.global.${type} {${list('b', b)}}, [%pb], ${k};
wmma.load.c.sync.aligned.row.${shape}.global.${sum} {${list('c', c)}}, [%pc], ${n};
wmma.mma.sync.aligned.row.col.${shape}.${types} {${list('d', c)}}, {${list('a', a)}}, {${list('b', b)}}, {${list('c', c)}};
wmma.store.d.sync.aligned.row.${shape}.global.${sum} [%po], {${list('d', c)}}, ${n};
ret; }
`
}

/** The launches of mma, and those of wmma. */
export function warpLaunches(): readonly RecordedLaunch[] {
  const launches: RecordedLaunch[] = []
  const add = (
    key: string,
    text: string,
    warps: number,
    [a, b, before]: readonly [FactorName, FactorName, SumName],
    /** The bytes of a, of b and of the sums before, and the words of those behind, for each warp. */
    sizes: readonly [number, number, number, number],
  ): void => {
    for (const [name, kind] of Object.entries(kindsOfSums(a, b, before))) {
      if (kind.withoutSums === true) continue
      const seed = seedOf(`${name} ${key}`)
      const fill = (type: Fill['type'] & keyof typeof BYTES, at: number, bytes: number, own: Partial<Fill>): Fill => ({
        type,
        seed: seed + at,
        count: (warps * bytes) / BYTES[type],
        ...own,
      })
      launches.push({
        key: `${name} ${key}`,
        text,
        kernel: 'multiply',
        grid: [1, 1, 1],
        block: 32 * warps,
        shared: 0,
        parameters: [
          { fills: [fill(a, 0, sizes[0], kind.fillA)] },
          { fills: [fill(b, 1, sizes[1], kind.fillB)] },
          { fills: [fill(before, 2, sizes[2], kind.fillSums)] },
          { out: warps * sizes[3] },
        ],
        keep: true,
      })
    }
  }
  for (const form of [...formsOfMma(), ...OLDEST]) {
    const [a, b, c, d] = form.counts
    const types = [form.a, form.b, form.before] as const
    add(form.opcode.replace('.sync.aligned', ''), kernelOf(form), 4, types, [128 * a, 128 * b, 128 * c, 32 * d])
  }
  for (const [shape, type, sum] of [
    ['m16n16k16', 'f16', 'f32'],
    ['m16n16k16', 'f16', 'f16'],
    ['m32n8k16', 'f16', 'f32'],
    ['m8n32k16', 'f16', 'f16'],
    ['m16n16k16', 'bf16', 'f32'],
    ['m8n32k16', 'bf16', 'f32'],
    ['m16n16k8', 'tf32', 'f32'],
  ] as const) {
    const [, m = 0, n = 0, k = 0] = /m(\d+)n(\d+)k(\d+)/.exec(shape)?.map(Number) ?? []
    const bytes = BYTES[type]
    const words = (m * n) / (sum === 'f16' ? 2 : 1)
    const sizes = [m * k * bytes, n * k * bytes, 4 * words, words] as const
    add(`wmma.${shape}.${type}.${sum}`, kernelOfFragments(shape, type, sum), 1, [type, type, sum], sizes)
  }
  return launches
}
