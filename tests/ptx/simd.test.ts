/**
 * Threads that run as lanes of SIMD make what they make one after the other: the same bytes, statistics and effort. Random kernels have arithmetic
 * of all widths on numbers that are hard, branches that lanes take together or not, loops, shared memory, and addresses of all kinds.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compiling } from '../../src/ptx/compiled-parts.js'
import type { KernelFinding, Triple } from '../../src/ptx/faults.js'
import type { LaneUse } from '../../src/ptx/lane-shapes.js'
import { runs } from '../helpers/effort.js'
import { faultOf } from './faults.js'
import { Machine, randomNumbers } from './machine.js'

/** The words that a thread reads, and those that it writes. */
const [READ, WRITTEN] = [8, 16]

const REGISTERS = {
  r: Array.from({ length: 8 }, (_, index) => `%r${20 + index}`),
  f: Array.from({ length: 6 }, (_, index) => `%f${1 + index}`),
  d: Array.from({ length: 4 }, (_, index) => `%d${1 + index}`),
  l: Array.from({ length: 4 }, (_, index) => `%rd${10 + index}`),
  h: Array.from({ length: 3 }, (_, index) => `%h${1 + index}`),
  p: Array.from({ length: 4 }, (_, index) => `%p${1 + index}`),
  /** Counters and indices that are the same in many threads. */
  u: ['%r3', '%r4', '%r6', '%r8', '%r40', '%r41'],
}
type Kind = keyof typeof REGISTERS

/** Instructions with kinds of registers in their places; the first is written. */
const OPERATIONS = [
  ...'add sub mul.lo mul.hi min max div rem'.split(' ').flatMap((each) => [`${each}.s32 r r r`, `${each}.u32 r r r`]),
  ...'and or xor shl'.split(' ').map((each) => `${each}.b32 r r r`),
  'add.s32 r r u',
  'mad.lo.s32 r r u r',
  'mul.lo.s32 r u u',
  'sub.s32 r u r',
  'add.s32 u u u',
  'mov.u32 r u',
  'shr.u32 r r r',
  'shr.s32 r r 3',
  'shl.b32 r r 2',
  'shl.b32 r u 5',
  'shr.u32 r r u',
  'mad.lo.u32 r r r r',
  'not.b32 r r',
  'neg.s32 r r',
  'abs.s32 r r',
  'cnot.b32 r r',
  'clz.b32 r r',
  'popc.b32 r r',
  'brev.b32 r r',
  'bfind.u32 r r',
  'add.sat.s32 r r r',
  'sad.u32 r r r r',
  'mul24.lo.s32 r r r',
  'prmt.b32 r r r r',
  'lop3.b32 r r r r 150',
  'lop3.b32 r r r u 202',
  'shf.l.wrap.b32 r r r r',
  'bfe.u32 r r r r',
  'bfe.s32 r r 3 7',
  'bfi.b32 r r r 4 9',
  'dp4a.s32.u32 r r r r',
  'slct.s32.s32 r r r r',
  'selp.b32 r r r p',
  'selp.f32 f f f p',
  'selp.f64 d d d p',
  'selp.b64 l l l p',
  ...'add sub mul div.rn min max'
    .split(' ')
    .flatMap((each) => [`${each}.f32 f f f`, `${each}.ftz.f32 f f f`, `${each}.f64 d d d`]),
  'fma.rn.f32 f f f f',
  'fma.rn.f32 f f f f',
  'fma.rn.ftz.f32 f f f f',
  'fma.rn.sat.f32 f f f f',
  'fma.rn.f64 d d d d',
  'fma.rz.f32 f f f f',
  'fma.rm.f32 f f f f',
  'add.rz.f32 f f f',
  'sqrt.rn.f32 f f',
  'sqrt.rn.f64 d d',
  'rsqrt.approx.f32 f f',
  'rsqrt.approx.ftz.f32 f f',
  'rcp.rn.f32 f f',
  'rcp.approx.ftz.f32 f f',
  'ex2.approx.f32 f f',
  'ex2.approx.ftz.f32 f f',
  'lg2.approx.f32 f f',
  'sin.approx.f32 f f',
  'div.approx.f32 f f f',
  'div.full.f32 f f f',
  'neg.f32 f f',
  'abs.ftz.f32 f f',
  'neg.f64 d d',
  'abs.f64 d d',
  'copysign.f32 f f f',
  'min.NaN.f32 f f f',
  'tanh.approx.f32 f f',
  'mul.f32 f f 0f3F000000',
  'add.f64 d d 0d3FF8000000000000',
  'cvt.rn.f32.s32 f r',
  'cvt.rn.f32.u32 f r',
  'cvt.rzi.s32.f32 r f',
  'cvt.rni.u32.f32 r f',
  'cvt.f64.f32 d f',
  'cvt.rn.f32.f64 f d',
  'cvt.rn.f64.s32 d r',
  'cvt.rn.f64.u32 d r',
  'cvt.rzi.s32.f64 r d',
  'cvt.rzi.s64.f64 l d',
  'cvt.rn.f64.s64 d l',
  'cvt.rn.f32.u64 f l',
  'cvt.s64.s32 l r',
  'cvt.u64.u32 l r',
  'cvt.u32.u64 r l',
  'cvt.s32.s8 r r',
  'cvt.u32.u8 r r',
  'cvt.u16.u32 h r',
  'cvt.s32.s16 r h',
  'cvt.u32.u16 r h',
  'cvt.sat.u8.s32 r r',
  'cvt.rmi.f32.f32 f f',
  'cvt.rn.f16.f32 h f',
  'cvt.f32.f16 f h',
  'cvt.rn.bf16.f32 h f',
  'mov.b32 r f',
  'mov.b32 f r',
  'mov.b64 l d',
  'mov.b64 d l',
  'mov.f32 f 0f7FC00001',
  'mov.u32 r 17',
  'mov.b64 d 0d7FF0000000000001',
  'add.s64 l l l',
  'sub.s64 l l l',
  'mul.lo.s64 l l l',
  'mul.wide.s32 l r r',
  'mul.wide.u32 l r 12',
  'mad.wide.s32 l r r l',
  'mul.hi.u64 l l l',
  'and.b64 l l l',
  'xor.b64 l l l',
  'shl.b64 l l 3',
  'shr.u64 l l r',
  'shr.s64 l l 9',
  'min.s64 l l l',
  'max.u64 l l l',
  'neg.s64 l l',
  'div.s64 l l l',
  'clz.b64 r l',
  'add.s16 h h h',
  'mul.lo.u16 h h h',
  'mul.wide.s16 r h h',
  'shl.b16 h h r',
  'min.u16 h h h',
  'not.b16 h h',
  'add.f16 h h h',
  'fma.rn.f16 h h h h',
  'and.pred p p p',
  'or.pred p p p',
  'not.pred p p',
  'xor.pred p p p',
  ...'eq ne lt le gt ge lo hs'
    .split(' ')
    .flatMap((each) => [`setp.${each}.u32 p r r`, `setp.${each}.s64 p l l`.replace(/lo|hs/, 'lt')]),
  ...'eq ne lt le gtu geu num nan equ'
    .split(' ')
    .flatMap((each) => [`setp.${each}.f32 p f f`, `setp.${each}.f64 p d d`]),
  'setp.lt.s32 p r u',
  'setp.lt.ftz.f32 p f f',
  'setp.lt.and.s32 p r r p',
  'setp.gt.or.u32 p r 7 !p',
  'setp.lt.s32 p|p r r',
  'setp.ge.u64 p l l',
  'set.lt.u32.s32 r r r',
  'set.gt.f32.f32 f f f',
  'mov.u32 r %tid.x',
  'mov.u32 r %laneid',
  'add.s32 r r %ctaid.x',
  'mov.b64 l {r,r}',
  'mov.b64 {r,r} l',
  'mov.b32 r {h,h}',
  'mov.b32 {h,h} r',
] // prettier-ignore

class Generator {
  readonly #lines: string[] = []
  #labels = 0
  #depth = 0

  constructor(private readonly random: () => number) {}

  below(limit: number): number {
    return Math.floor(this.random() * limit)
  }

  pick<T>(list: readonly T[]): T {
    const found = list[this.below(list.length)]
    if (found === undefined) throw new Error('There is nothing to pick')
    return found
  }

  register(kind: Kind): string {
    return this.pick(REGISTERS[kind])
  }

  operation(): string {
    const [opcode = '', ...operands] = this.pick(OPERATIONS).split(' ')
    const seen = new Set<string>()
    const distinct = (kind: Kind): string => {
      let name = this.register(kind)
      while (seen.has(name)) name = this.register(kind)
      seen.add(name)
      return name
    }
    const filled = operands.map((each, index) => {
      if (index === 0 && each === 'u') return this.pick(['%r40', '%r41'])
      if (/^[{]/.test(each) || each.includes('|'))
        return each.replace(/[rfdlhp](?=[,}|]|$)/g, (kind) => distinct(kind as Kind))
      return each.replace(/^(!?)([rfdlhpu])$/, (_, sign: string, kind: string) => sign + this.register(kind as Kind))
    })
    const guard = this.random() < 0.12 ? `@${this.random() < 0.3 ? '!' : ''}${this.register('p')} ` : ''
    return `${guard}${opcode} ${filled.join(', ')};`
  }

  access(): string {
    const r = this.register('r')
    switch (this.below(8)) {
      case 0: // A gather.
        return `and.b32 %r30, ${r}, 127; mul.wide.u32 %rd20, %r30, 4; add.s64 %rd21, %rd1, %rd20; ld.global.u32 ${this.register('r')}, [%rd21];`
      case 1: // Neighbours, and what all threads read.
        return `mul.wide.u32 %rd20, %r2, 4; add.s64 %rd21, %rd1, %rd20; ld.global.f32 ${this.register('f')}, [%rd21+${4 * this.below(8)}]; ld.global.u32 ${r}, [%rd1+${4 * this.below(20)}];`
      case 2:
        return `mul.wide.u32 %rd20, %r2, 8; add.s64 %rd21, %rd1, %rd20; ld.global.f64 ${this.register('d')}, [%rd21]; ld.global.u64 ${this.register('l')}, [%rd21+8];`
      case 3:
        return `ld.global.v2.u32 {${REGISTERS.r[0]}, ${REGISTERS.r[1]}}, [%rd4]; ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4+16];`
      case 4: // Clamped, as at the edges of an image.
        return `min.s32 %r30, %r2, ${this.below(40)}; max.s32 %r30, %r30, 3; mul.wide.s32 %rd20, %r30, 4; add.s64 %rd21, %rd1, %rd20; ld.global.u32 ${r}, [%rd21];`
      case 5:
        return `and.b32 %r30, ${r}, 63; mul.wide.u32 %rd20, %r30, 1; add.s64 %rd21, %rd1, %rd20; ld.global.s8 ${r}, [%rd21]; ld.global.u16 ${this.register('h')}, [%rd1+6];`
      case 6: // Falling addresses.
        return `sub.s32 %r30, 600, %r1; mul.wide.s32 %rd20, %r30, 4; add.s64 %rd21, %rd1, %rd20; ld.global.u32 ${r}, [%rd21];`
      default:
        return `ld.shared.u32 ${r}, [%r31]; st.shared.u32 [%r31], ${this.register('r')};`
    }
  }

  /** All threads of a block write to shared memory, meet, and read what others wrote. */
  exchange(): string {
    const by = this.pick([1, 2, 4, 5, 16])
    return `st.shared.u32 [%r31], ${this.register('r')}; bar.sync 0; xor.b32 %r30, %r14, ${by}; rem.u32 %r30, %r30, %r17; shl.b32 %r30, %r30, 2;
mov.u32 %r32, cells; add.s32 %r30, %r30, %r32; ld.shared.u32 ${this.register('r')}, [%r30]; bar.sync 0;`
  }

  condition(): string {
    switch (this.below(5)) {
      case 0:
        return `setp.lt.s32 %p5, %r1, ${this.below(24)};`
      case 1:
        return `setp.lt.u32 %p5, ${this.register('u')}, ${this.below(9)};`
      case 2:
        return `setp.gt.f32 %p5, ${this.register('f')}, ${this.register('f')};`
      case 3:
        return `and.b32 %r30, ${this.register('r')}, ${this.pick([1, 3, 12])}; setp.eq.s32 %p5, %r30, 0;`
      default:
        return `setp.ne.s32 %p5, ${this.register('r')}, ${this.register('u')};`
    }
  }

  block(length: number, together: boolean): void {
    for (let step = 0; step < length; step++) this.step(together)
  }

  /** @param together Whether all threads of the block come here, so that they can meet */
  step(together: boolean): void {
    const kind = this.random()
    const label = `L${this.#labels++}`
    if (kind < 0.68 || this.#depth > 2) this.#lines.push(this.operation())
    else if (kind < 0.82) this.#lines.push(this.access())
    else if (kind < 0.86) this.#lines.push(together ? this.exchange() : this.operation())
    else if (kind < 0.94) {
      this.#depth++
      this.#lines.push(this.condition(), `@${this.random() < 0.3 ? '!' : ''}%p5 bra ${label};`)
      this.block(1 + this.below(5), false)
      if (this.random() < 0.5) {
        this.#lines.push(`bra ${label}_end;`, `${label}:`)
        this.block(1 + this.below(5), false)
        this.#lines.push(`${label}_end:`)
      } else this.#lines.push(`${label}:`)
      this.#depth--
    } else {
      // A counter of its own for each depth: the same in all threads, or not.
      const counter = `%r${50 + this.#depth}`
      const isCommon = this.random() < 0.6
      this.#depth++
      this.#lines.push(
        isCommon ? `mov.u32 ${counter}, ${this.below(6)};` : `and.b32 ${counter}, ${this.register('r')}, 7;`,
        `${label}:`,
      )
      this.block(1 + this.below(6), together && isCommon)
      this.#lines.push(`setp.lt.s32 %p6, ${counter}, 1;`, `sub.s32 ${counter}, ${counter}, 1;`, `@!%p6 bra ${label};`)
      this.#depth--
    }
  }

  kernel(): string {
    const guard = this.pick(['', 'setp.ge.u32 %p1, %r2, %r3; @%p1 bra DONE;'])
    this.block(6 + this.below(24), guard === '')
    const stores = Array.from({ length: WRITTEN }, (_, at) => {
      const kind = this.pick(['r', 'r', 'f'] as const)
      if (at % 2 === 0 && this.random() < 0.3) return `st.global.f64 [%rd5+${4 * at}], ${this.register('d')};`
      if (at % 2 === 0 && this.random() < 0.3) return `st.global.u64 [%rd5+${4 * at}], ${this.register('l')};`
      if (this.random() < 0.1) return `st.global.u16 [%rd5+${4 * at}], ${this.register('h')};`
      return `st.global.${kind === 'f' ? 'f32' : 'u32'} [%rd5+${4 * at}], ${this.register(kind)};`
    })
    return `.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n, .param .u32 m)
{
.reg .b16 %h<8>; .reg .b32 %r<60>; .reg .b64 %rd<40>; .reg .pred %p<8>; .reg .f32 %f<12>; .reg .f64 %d<8>;
.shared .align 4 .b8 cells[4096];
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r3, [n]; ld.param.u32 %r4, [m];
mov.u32 %r1, %tid.x; mov.u32 %r5, %ntid.x; mov.u32 %r6, %tid.y; mov.u32 %r8, %ctaid.x; mov.u32 %r9, %ntid.y;
mad.lo.s32 %r14, %r6, %r5, %r1; mul.lo.s32 %r17, %r5, %r9; mad.lo.s32 %r2, %r8, %r17, %r14;
mov.u32 %r30, cells; shl.b32 %r31, %r14, 2; add.s32 %r31, %r31, %r30;
mul.wide.u32 %rd3, %r2, ${4 * READ}; add.s64 %rd4, %rd1, %rd3; mul.wide.u32 %rd3, %r2, ${4 * WRITTEN}; add.s64 %rd5, %rd2, %rd3;
${guard}
st.shared.u32 [%r31], %r2; mov.u32 %r40, %r4; mov.u32 %r41, 5;
ld.global.u32 %r20, [%rd4]; ld.global.u32 %r21, [%rd4+4]; ld.global.f32 %f1, [%rd4]; ld.global.f32 %f2, [%rd4+8];
ld.global.f32 %f3, [%rd4+12]; ld.global.f64 %d1, [%rd4+16]; ld.global.f64 %d2, [%rd4+24]; ld.global.u64 %rd10, [%rd4+16];
ld.global.u16 %h1, [%rd4+2]; mov.u32 %r22, %r1; add.s32 %r23, %r2, 9; cvt.rn.f32.s32 %f4, %r2; cvt.f64.f32 %d3, %f3;
setp.lt.s32 %p1, %r1, 5; setp.gt.f32 %p2, %f1, %f2; setp.eq.s32 %p3, %r4, 2; cvt.u64.u32 %rd11, %r20;
${this.#lines.join('\n')}
${stores.join('\n')}
DONE: ret;
}
`
  }
}

const HARD = [
  0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000, 0x3f800000, 0xbf800000, 0x7f7fffff, 0x7f800000, 0xff800000,
  0x7fc00000, 0x7f800001, 0x40490fdb, 0x4b000001, 0xffffffff,
]

function inputs(random: () => number, words: number): Uint32Array {
  return Uint32Array.from({ length: words }, () => {
    const kind = random()
    if (kind < 0.2) return HARD[Math.floor(random() * HARD.length)] ?? 0
    if (kind < 0.7) {
      const view = new DataView(new ArrayBuffer(4))
      view.setFloat32(0, (random() - 0.5) * 2 ** (random() * 40 - 16))
      return view.getUint32(0)
    }
    return kind < 0.85 ? Math.floor(random() * 100) : Math.floor(random() * 2 ** 32)
  })
}

interface Shape {
  readonly grid: Triple
  readonly block: Triple
  readonly budget: number | undefined
  readonly recorded?: boolean
}

function outcome(
  text: string,
  lanes: LaneUse,
  { grid, block, budget, recorded = false }: Shape,
  data: Uint32Array,
  rest: readonly number[],
) {
  const machine = new Machine()
  const module = machine.load(text)
  const threads = grid[0] * block[0] * block[1]
  const out = new Uint32Array(threads * WRITTEN)
  const [a, b] = [machine.put(data), machine.put(out)]
  for (const [begin, bytes] of [
    [a, data.byteLength],
    [b, out.byteLength],
  ] as const)
    machine.memory.use(begin, bytes)
  const launch = machine.prepare(module, 'k', { grid, block, lanes, recorded }, [a, b, ...rest])
  if (recorded) launch.accesses()
  while (launch.run(budget) === 'more') {}
  const accesses = recorded ? launch.accesses() : undefined
  return { memory: machine.get(b, out), statistics: launch.statistics, effort: launch.effort, accesses }
}

// CUDA_STREAMS_TEST_RUNS says how many: 10 000 take about ten minutes.
test('random kernels make the same with threads as lanes and with one after the other', (context) => {
  const rounds = runs({ quick: 30, normal: 120, nightly: 5000 })
  const first = Number(process.env['CUDA_STREAMS_TEST_SEED'] || 1)
  for (let seed = first; seed < first + rounds; seed++) {
    const random = randomNumbers(seed)
    const generator = new Generator(random)
    const text = generator.kernel()
    const block: Triple = generator.pick([
      [32, 1, 1],
      [7, 3, 1],
      [16, 2, 1],
      [5, 1, 1],
      [64, 1, 1],
      [33, 2, 1],
      [12, 4, 1],
    ])
    const grid: Triple = [1 + generator.below(3), 1, 1]
    const threads = grid[0] * block[0] * block[1]
    const shape = {
      grid,
      block,
      recorded: random() < 0.3,
      budget: random() < 0.3 ? 100 + generator.below(20_000) : undefined,
    }
    const data = inputs(random, Math.max(1024, threads * READ + 64))
    const rest = [generator.below(threads + 20), generator.below(4)]
    try {
      const [one, lanes] = (['never', 'always'] as const).map((each) => outcome(text, each, shape, data, rest))
      assert.deepEqual(lanes, one)
    } catch (error) {
      assert.fail(`Seed ${seed}: ${error}\n${text}`)
    }
  }
  context.diagnostic(`${rounds} kernels, seeds ${first} to ${first + rounds - 1}: no difference`)
})

const HEADER = '.version 8.0\n.target sm_80\n.address_size 64\n'

test('lanes that part in a long loop use up their turns one by one, and count what threads count', () => {
  // Thread t goes round 30 000 * (t % 6) + 10 times: lanes part, and most threads stop within the loop more than once.
  const text = `${HEADER}.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n, .param .u32 m)
{
.reg .b32 %r<10>; .reg .b64 %rd<6>; .reg .pred %p<3>;
ld.param.u64 %rd1, [b]; mov.u32 %r1, %tid.x; rem.u32 %r2, %r1, 6; mad.lo.u32 %r3, %r2, 30000, 10; mov.u32 %r4, %r1;
AGAIN: mad.lo.u32 %r4, %r4, 1664525, 1013904223; xor.b32 %r4, %r4, %r3;
and.b32 %r5, %r3, 64; setp.ne.u32 %p2, %r5, 0; @%p2 bra NEXT;
add.u32 %r4, %r4, %r1;
NEXT: sub.u32 %r3, %r3, 1; setp.ne.u32 %p1, %r3, 0; @%p1 bra AGAIN;
mul.wide.u32 %rd2, %r1, 64; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r4; ret;
}
`
  for (const budget of [undefined, 50_000]) {
    const shape = { grid: [1, 1, 1], block: [38, 1, 1], budget } as const
    const [one, lanes] = (['never', 'always'] as const).map((each) =>
      outcome(text, each, shape, new Uint32Array(4), [0, 0]),
    )
    assert.deepEqual(lanes, one)
  }
})

test('the fault of a lane names its thread and address, and what the lanes before it wrote is there', () => {
  // Thread 13 reads where no memory is, by an address that does not grow evenly.
  const text = `${HEADER}.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n, .param .u32 m)
{
.reg .b32 %r<10>; .reg .b64 %rd<8>; .reg .pred %p<3>;
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 13; selp.b32 %r2, 1000000, %r1, %p1;
xor.b32 %r2, %r2, 1; mul.wide.u32 %rd3, %r2, 4; add.u64 %rd4, %rd1, %rd3; ld.global.u32 %r3, [%rd4];
mul.wide.u32 %rd5, %r1, 64; add.u64 %rd6, %rd2, %rd5; st.global.u32 [%rd6], %r3; ret;
}
`
  const faults = (['never', 'always'] as const).map((lanes) => {
    const machine = new Machine()
    const module = machine.load(text)
    const out = new Uint32Array(32 * WRITTEN)
    const [a, b] = [machine.put(Uint32Array.from({ length: 64 }, (_, at) => 100 + at)), machine.put(out)]
    const fault = faultOf(() => machine.run(module, 'k', { block: 32, lanes }, [a, b, 0, 0]))
    const written = machine.get(b, out).filter((_, at) => at % WRITTEN === 0)
    return {
      fault: [fault.code, fault.message, fault.thread, fault.address, fault.line],
      written: [...written.slice(0, 12)],
    }
  })
  assert.deepEqual(faults[1], faults[0])
  assert.deepEqual(faults[0]?.fault[2], [13, 0, 0])
  assert.deepEqual(
    faults[0]?.written,
    Array.from({ length: 12 }, (_, at) => 100 + (at ^ 1)),
  )
})

test('lanes whose addresses lie beside each other record what threads record, and find the thread that reads what nothing wrote', () => {
  // An index that is clamped, so that only the values show that most lanes are neighbours.
  const text = `${HEADER}.visible .entry k(.param .u64 a, .param .u64 b)
{
.reg .b32 %r<10>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; max.s32 %r2, %r1, 3; min.s32 %r2, %r2, 27;
mul.wide.s32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
ld.global.u32 %r3, [%rd4];
add.s32 %r3, %r3, %r2; st.global.u32 [%rd5], %r3; ret;
}
`
  const seen = (['never', 'always'] as const).map((lanes) => {
    const machine = new Machine()
    const [a, b] = [machine.allocate(256), machine.allocate(256)]
    for (const block of [a, b]) machine.memory.add(block, 256)
    const findings: KernelFinding[] = []
    const report = (finding: KernelFinding): void => void findings.push(finding)
    const module = machine.load(text)
    const run = (...parameters: readonly number[]): unknown =>
      machine.run(module, 'k', { block: 32, lanes, recorded: true, report }, parameters).accesses()
    // Shadows are made by the first launch.
    machine.memory.markInitialised(a, 256)
    machine.memory.markInitialised(b, 64)
    const accesses = [run(a, a), run(a, b), run(b, a), run(b, a)]
    const none = findings.length
    const [c] = [machine.allocate(256)]
    machine.memory.add(c, 256)
    // The first launch finds the first thread, and makes the shadow; the others find word 13.
    run(c, a)
    machine.memory.markInitialised(c, 52)
    machine.memory.markInitialised(c + 56, 200)
    const last = run(c, a)
    return { accesses, none, last, findings: findings.map(({ kind, line, threads }) => [kind, line, threads]) }
  })
  assert.deepEqual(seen[1], seen[0])
  assert.equal(seen[0]?.none, 0)
  assert.deepEqual(seen[0]?.findings.at(-1)?.[2], [13])
})

test('code that another machine has compiled tells whether it has lanes, and is not taken for code without them', () => {
  const text = `${HEADER}.visible .entry k(.param .u64 a)
{
.reg .b32 %r<3>; .reg .b64 %rd<4>; .reg .f32 %f<4>;
ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
ld.global.f32 %f1, [%rd3]; sqrt.rn.f32 %f2, %f1; mul.f32 %f3, %f2, %f2; st.global.f32 [%rd3], %f3; ret;
}
`
  // Modules are kept, so that their text and all that was compiled of it stays.
  const modules = (['paying', 'paying', 'never', 'never', 'paying'] as const).map((lanes) => {
    const before = compiling.parts
    const module = new Machine().load(text)
    const { hasLanes } = module.code('k', { lanes })
    return { module, seen: [hasLanes, compiling.parts - before] }
  })
  const seen = modules.map((each) => each.seen)
  assert.deepEqual(
    seen.map(([hasLanes]) => hasLanes),
    [true, true, false, false, true],
  )
  const compiled = seen.map(([, parts]) => parts)
  assert.deepEqual([compiled[1], compiled[3], compiled[4]], [0, 0, 0], 'known parts are taken')
  assert.equal(compiled[0], compiled[2], 'each kind is compiled once')
})

test('threads run as lanes by themselves only where it pays', () => {
  // A kernel of arithmetic has instructions of SIMD; one that only adds atomically has none, as its threads have an order.
  const machine = new Machine()
  const kernel = (body: string): string => `${HEADER}.visible .entry k(.param .u64 a)
{
.reg .b32 %r<10>; .reg .b64 %rd<6>; .reg .f32 %f<8>;
ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
${body}
ret;
}
`
  const runsAsLanes = (body: string, lanes?: LaneUse): boolean =>
    machine.load(kernel(body)).code('k', lanes === undefined ? {} : { lanes }).hasLanes
  const sum =
    'ld.global.f32 %f1, [%rd3]; sqrt.rn.f32 %f2, %f1; mul.f32 %f3, %f2, %f2; add.f32 %f4, %f3, %f1; st.global.f32 [%rd3], %f4;'
  assert.equal(runsAsLanes(sum), true)
  assert.equal(runsAsLanes(sum, 'never'), false)
  assert.equal(runsAsLanes(`${sum} red.global.add.u32 [%rd1], 1;`, 'always'), false)
  assert.equal(runsAsLanes('ld.global.u32 %r2, [%rd3]; st.global.u32 [%rd3], %r2;'), true)
  assert.equal(
    runsAsLanes(
      'ld.global.u32 %r2, [%rd3]; rem.u32 %r3, 1234567, %r2; mul.wide.u32 %rd4, %r3, 4; add.u64 %rd5, %rd1, %rd4; st.global.u32 [%rd5], %r2;',
    ),
    false,
  )
})

test('2^x has the same bits where its polynomial is fused, in lanes, as where it is not', () => {
  const text = `${HEADER}.visible .entry k(.param .u64 a, .param .u64 b)
{
.reg .b32 %r<8>; .reg .b64 %rd<6>; .reg .f32 %f<4>;
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 256, %r1;
mul.wide.u32 %rd3, %r3, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
ld.global.f32 %f1, [%rd1]; ex2.approx.f32 %f2, %f1; st.global.f32 [%rd2], %f2; ret;
}
`
  const count = 1 << 18
  const random = randomNumbers(7)
  // Most are numbers whose power is neither 0 nor infinite.
  const given = Float32Array.from({ length: count }, () => (random() - 0.5) * 2 ** Math.floor(random() * 34 - 24))
  given.set([0, -0, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 200, -200, 127.99999, -149.5, 0.5])
  const [one, lanes] = (['never', 'always'] as const).map((use) => {
    const machine = new Machine()
    const [from, to] = [machine.put(given), machine.put(new Float32Array(count))]
    machine.run(machine.load(text), 'k', { grid: count / 256, block: 256, lanes: use }, [from, to])
    return machine.get(to, new Uint32Array(count))
  })
  assert.deepEqual(lanes, one)
  // The power of one number is exact, so that the kernel has run.
  assert.equal(new Float32Array((one ?? new Uint32Array(1)).buffer)[5], Number.POSITIVE_INFINITY)
})
