/** A launch that rests, as often as its budget says, makes what it makes in one go: memory, findings, statistics and faults. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KernelFault } from '../../src/ptx/faults.js'
import { Machine, randomNumbers, type TestLaunch } from './machine.js'

/** A kernel (u64 out): %r1 is the thread, %r2 its warp, %rd2 the address of its word. */
const kernel = (body: string): string => `.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .f32 %f<4>; .shared .align 8 .b8 all[4096];
ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x;
mad.lo.s32 %r5, %r3, %r4, %r1; mul.wide.u32 %rd2, %r5, 4; add.s64 %rd2, %rd2, %rd1; mul.wide.u32 %rd3, %r1, 4;
${body}
}
`
/** A loop that goes `count` times through `body`. */
const loop = (label: string, count: string, body: string): string =>
  `mov.u32 %r10, 0; ${label}: ${body} add.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, ${count}; @%p1 bra ${label};`
const STORE = 'st.global.u32 [%rd2], %r6;'
/** A number for each thread, so that each goes round its loops another time. */
const UNEVEN = 'and.b32 %r7, %r5, 7; mad.lo.u32 %r7, %r7, 400, 300;'
const ADD = 'mad.lo.u32 %r6, %r6, 5, %r10;'

const SHAPE = { grid: 3, block: 96 }
const CASES: readonly (readonly [name: string, body: string, options: TestLaunch])[] = [
  ['code without loops', `mov.u32 %r6, %r5; ${STORE} ret;`, { grid: 50, block: 64 }],
  ['long loops, as many turns for all', `mov.u32 %r6, 1; ${loop('A', '60000', ADD)} ${STORE} ret;`, SHAPE],
  ['uneven loops', `mov.u32 %r6, 1; ${UNEVEN} ${loop('A', '%r7', ADD)} ${STORE} ret;`, SHAPE],
  [
    'barriers in a loop',
    `mov.u32 %r6, %r5; mov.u64 %rd4, all; add.s64 %rd4, %rd4, %rd3;
     ${loop('A', '300', `st.shared.u32 [%rd4], %r6; bar.sync 0; ld.shared.u32 %r8, [all]; bar.sync 0; add.u32 %r6, %r6, %r8;`)} ${STORE} ret;`,
    SHAPE,
  ],
  [
    'shuffles in uneven loops, and what comes behind them',
    `mov.u32 %r6, %r5; shr.u32 %r7, %r5, 5; mad.lo.u32 %r7, %r7, 40, 60;
     ${loop('A', '%r7', 'shfl.sync.bfly.b32 %r8, %r6, 1, 31, -1; add.u32 %r6, %r6, %r8;')} ${loop('B', '2000', ADD)} ${STORE} ret;`,
    SHAPE,
  ],
  [
    'lanes that part, meet without a mask, and vote',
    `mov.u32 %r6, %r5; and.b32 %r8, %r1, 3; setp.eq.u32 %p2, %r8, 0; @%p2 bra ODD; ${UNEVEN} ${loop('A', '%r7', ADD)}
     activemask.b32 %r9; add.u32 %r6, %r6, %r9; bra.uni JOIN; ODD: ${loop('B', '90', ADD)} JOIN: activemask.b32 %r9;
     add.u32 %r6, %r6, %r9; bar.warp.sync -1; vote.sync.ballot.b32 %r9, %p2, -1; add.u32 %r6, %r6, %r9; ${STORE} ret;`,
    SHAPE,
  ],
  [
    'atomics, whose order shows',
    `${loop('A', '40', 'atom.global.add.u32 %r6, [%rd1+4096], 1;')} ${STORE} ret;`,
    { grid: 2, block: 64 },
  ],
  [
    'a lock, for which threads wait in a loop',
    `LOCK: atom.global.cas.b32 %r8, [%rd1+4096], 0, 1; setp.ne.u32 %p2, %r8, 0; @%p2 bra LOCK; membar.gl;
     ld.volatile.global.u32 %r6, [%rd1+4100]; add.u32 %r6, %r6, 3; st.volatile.global.u32 [%rd1+4100], %r6; membar.gl;
     atom.global.exch.b32 %r8, [%rd1+4096], 0; ${STORE} ret;`,
    { grid: 2, block: 64 },
  ],
  [
    'blocks that wait for the block before',
    `WAIT: ld.volatile.global.u32 %r6, [%rd1+4096]; setp.lt.u32 %p2, %r6, %r3; @%p2 bra WAIT; bar.sync 0;
     setp.ne.u32 %p3, %r1, 0; @%p3 bra END; atom.global.add.u32 %r8, [%rd1+4096], 1; END: ${STORE} ret;`,
    { grid: 8, block: 64 },
  ],
  [
    'a race in shared memory, and one in global memory',
    `mov.u32 %r6, %r1; ${loop('A', '50', 'st.shared.u32 [all], %r6; ld.shared.u32 %r6, [all];')} st.global.u32 [%rd1], %r5; ${STORE} ret;`,
    { ...SHAPE, checked: true, recorded: true, mayWrite: () => true },
  ],
  [
    'a fault of one thread, late',
    `mov.u32 %r6, 0; ${UNEVEN} ${loop('A', '%r7', ADD)} setp.eq.u32 %p3, %r5, 150; @%p3 st.global.u32 [%rd1+1], %r6; ${STORE} ret;`,
    SHAPE,
  ],
  ['a kernel that does not end', `A: add.u32 %r6, %r6, 1; bra A;`, { grid: 2, block: 64, instructionLimit: 3_000_000 }],
]
const BUDGETS: readonly [string, (random: () => number, nth: number) => number][] = [
  ['one instruction', () => 1],
  ['a few thousand', () => 5000],
  ['any number', (random) => Math.floor(10 ** (6 * random()))],
  ['some thousands, and then all the rest', (_, nth) => (nth < 4 ? 20_000 : Number.POSITIVE_INFINITY)],
]

function outcome(body: string, options: TestLaunch, budget: ((nth: number) => number) | undefined): unknown {
  const machine = new Machine()
  const module = machine.load(kernel(body))
  const out = machine.put(new Uint32Array(4096))
  machine.memory.use(out, 16_384)
  const findings: unknown[] = []
  const report = options.checked === true ? { report: (found: unknown) => void findings.push(found) } : {}
  const launch = machine.prepare(module, 'k', { ...options, ...report, gridId: 1n }, [out])
  let [fault, parts]: [unknown, number] = [undefined, 1]
  try {
    for (; launch.run(budget?.(parts)) === 'more'; parts += 1);
  } catch (error) {
    if (!(error instanceof KernelFault)) throw error
    fault = error.code
    // Which thread is named where none ends is a matter of when one looks.
    if (error.code !== 'CUDA_ERROR_LAUNCH_TIMEOUT') fault = [error.message, error.block, error.thread]
  }
  if (budget === undefined) assert.equal(parts, 1)
  const memory = fault === undefined ? [...machine.get(out, new Uint32Array(4096))] : undefined
  const { statistics, effort } = launch
  return {
    fault,
    memory,
    findings,
    accesses: launch.accesses(),
    ...(fault === undefined ? { statistics, effort } : {}),
  }
}

for (const [name, body, options] of CASES) {
  test(`${name}: in parts as in one go`, () => {
    for (const schedule of [undefined, 3]) {
      const random = randomNumbers(7)
      // A schedule is a random one, which has to be asked in the same order.
      const choosing = (): TestLaunch => {
        if (schedule === undefined) return options
        const numbers = randomNumbers(schedule)
        return { ...options, choose: (count) => Math.floor(numbers() * count) }
      }
      const whole = outcome(body, choosing(), undefined)
      for (const [what, budget] of BUDGETS) {
        const parts = outcome(body, choosing(), (nth) => budget(random, nth))
        assert.deepEqual(parts, whole, `parts of ${what}, ${schedule === undefined ? 'in order' : 'by a schedule'}`)
      }
    }
  })
}

test('a budget that is used up ends a part, in loops of one thread, of a warp and of a block', () => {
  for (const block of [1, 32, 1024]) {
    const machine = new Machine()
    const out = machine.put(new Uint32Array(4096))
    const launch = machine.prepare(
      machine.load(kernel(`mov.u32 %r6, 1; ${loop('A', '20000', ADD)} ${STORE} ret;`)),
      'k',
      { block },
      [out],
    )
    let [before, most]: [number, number] = [0, 0]
    while (launch.run(1000) === 'more') {
      const { instructions, stops } = launch.effort
      most = Math.max(most, instructions + 2000 * stops - before)
      before = instructions + 2000 * stops
    }
    // A thread goes on until its own turn is over, and others have to wait for the next part.
    assert.ok(most < 400_000, `${most} in one part of a block of ${block}`)
  }
})
