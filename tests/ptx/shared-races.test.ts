/** Races in shared memory: two threads access a byte, one of them writes, and no barrier stands between. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { KernelFinding } from '../../src/ptx/faults.js'
import { kernelTest } from './kernel-test.js'
import { integers, Machine } from './machine.js'

/** A kernel (u64 out): %r1 is the thread, %p1 whether it is not the first, %r3 where its own word of shared memory lies; others are behind and before it. */
const kernel = (body: string): string => `.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %rd<8>;
.shared .align 8 .b8 all[8192];
mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; shl.b32 %r2, %r1, 2; mov.u32 %r3, all; add.u32 %r3, %r3, %r2;
st.shared.u32 [%r3+16], %r1; @!%p1 st.shared.v4.u32 [all], {%r1, %r1, %r1, %r1};
mov.u32 %r4, %ntid.x; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r3; st.shared.u32 [%r4+16], %r1;
add.u32 %r3, %r3, 16; bar.sync 0;
${body}
ret;
}
`

function races(body: string, block: number): readonly KernelFinding[] {
  const machine = new Machine()
  const findings: KernelFinding[] = []
  const module = machine.load(kernel(body))
  machine.run(module, 'k', { block, checked: true, report: (found) => findings.push(found) }, [0])
  return findings
}

const WRONG: readonly (readonly [name: string, body: string])[] = [
  ['s[t] = s[t + 1]', 'ld.shared.u32 %r4, [%r3+4]; st.shared.u32 [%r3], %r4;'],
  [
    's[t] = s[t] + s[t + 1]: the own word is read first',
    'ld.shared.u32 %r4, [%r3]; ld.shared.u32 %r5, [%r3+4]; st.shared.u32 [%r3], %r5;',
  ],
  [
    's[t] = s[t + 1] + s[t]: the own word is read between',
    'ld.shared.u32 %r5, [%r3+4]; ld.shared.u32 %r4, [%r3]; st.shared.u32 [%r3], %r5;',
  ],
  [
    's[t] += s[t - 1]: the own word is read before',
    'ld.shared.u32 %r4, [%r3]; ld.shared.u32 %r5, [%r3+-4]; st.shared.u32 [%r3], %r5;',
  ],
  ['writes of all, of different values', 'st.shared.u32 [all], %r1;'],
  ['writes of the same value that some of the threads read', 'st.shared.u32 [all], 77; ld.shared.u32 %r4, [all];'],
  ['if (t == 0) s = 0; atomicAdd(&s, 1)', '@!%p1 st.shared.u32 [all], 0; atom.shared.add.u32 %r4, [all], 1;'],
  [
    'atomicAdd(&s, 1); if (t == 31) read s',
    'atom.shared.add.u32 %r4, [all], 1; setp.eq.u32 %p2, %r1, 31; @%p2 ld.shared.u32 %r4, [all];',
  ],
  ['atomicAdd(&s, 1); if (t == 0) s = 0', 'red.shared.add.u32 [all], 1; @!%p1 st.shared.u32 [all], 0;'],
  ...[
    'shfl.sync.bfly.b32 %r6, %r1, 1, 31, -1;',
    'vote.sync.ballot.b32 %r6, %p1, -1;',
    'match.any.sync.b32 %r6, %r1, -1;',
    'redux.sync.add.u32 %r6, %r1, -1;',
    'activemask.b32 %r6;',
    'membar.cta;',
  ].map((between) => {
    const body = `st.shared.u32 [%r3], %r1; ${between} ld.shared.u32 %r4, [%r3+4];`
    return [`a store, '${between}', and a load of the word beside it`, body] as const
  }),
]

const RIGHT: readonly (readonly [name: string, body: string, most?: number])[] = [
  [
    's[t] += s[t + 1] with a barrier between',
    'ld.shared.u32 %r4, [%r3]; ld.shared.u32 %r5, [%r3+4]; bar.sync 0; st.shared.u32 [%r3], %r5;',
  ],
  ['words of their own', 'ld.shared.u32 %r4, [%r3]; add.u32 %r4, %r4, 1; st.shared.u32 [%r3], %r4;'],
  ['atomics of all', 'atom.shared.add.u32 %r4, [all], 1; atom.shared.max.u32 %r4, [all], %r4;'],
  [
    'if (t == 0) s = 0; a barrier; atomicAdd(&s, 1); a barrier; read s',
    '@!%p1 st.shared.u32 [all], 0; bar.sync 0; red.shared.add.u32 [all], 1; bar.sync 0; ld.shared.u32 %r4, [all];',
  ],
  [
    'writes of all, of the same value, as compilers make them of sums that all lanes have',
    'st.shared.u32 [all], 77; st.shared.u32 [all], 77; bar.sync 0; ld.shared.u32 %r4, [all];',
  ],
  ['reads of all', 'ld.shared.u32 %r4, [all]; ld.shared.u32 %r4, [all];'],
  [
    'a word of the same warp, behind __syncwarp',
    'st.shared.u32 [%r3], %r1; bar.warp.sync -1; ld.shared.u32 %r4, [%r3+-4];',
    32,
  ],
  [
    'a barrier that reduces, and one that takes a count',
    `st.shared.u32 [%r3], %r1; bar.red.popc.u32 %r4, 0, %p1; ld.shared.u32 %r4, [%r3+4]; mov.u32 %r5, %ntid.x;
     bar.sync 1, %r5; st.shared.u32 [%r3], %r1;`,
  ],
]

describe('without a barrier between them, accesses of different threads race', () => {
  for (const [name, body] of WRONG) {
    for (const block of [32, 128]) {
      it(`${name}, by ${block} threads`, () => {
        const [found, ...others] = races(body, block)
        assert.equal(found?.kind, 'shared-memory-race')
        for (const { kind } of others) assert.equal(kind, 'shared-memory-race')
      })
    }
  }
})

describe('accesses that barriers order, atomics, and reads do not race', () => {
  for (const [name, body, most = 128] of RIGHT) {
    for (const block of [32, 128]) {
      if (block <= most) it(`${name}, by ${block} threads`, () => assert.deepEqual(races(body, block), []))
    }
  }
})

it('a reader of another warp is not hidden by two of the same warp, of which one is the writer and the other comes before it', () => {
  const body = `setp.eq.u32 %p2, %r1, 97; setp.eq.u32 %p3, %r1, 96;
    @!%p1 ld.shared.u32 %r4, [all]; @%p2 ld.shared.u32 %r4, [all]; bar.warp.sync -1;
    @%p3 ld.shared.u32 %r4, [all]; @%p3 st.shared.u32 [all], %r4;`
  assert.deepEqual(
    races(body, 128).map(({ kind, threads }) => [kind, ...threads]),
    [['shared-memory-race', 0, 96]],
  )
})

it('__syncwarp orders no other warp', () => {
  const body = 'st.shared.u32 [%r3], %r1; bar.warp.sync -1; ld.shared.u32 %r4, [%r3+-4];'
  assert.deepEqual(
    races(body, 64).map(({ kind, threads }) => [kind, ...threads]),
    [['shared-memory-race', 31, 32]],
  )
})

kernelTest(
  'waiting',
  'barrier_objects',
  ({ launch }) => {
    const findings: KernelFinding[] = []
    const options = { block: 64, checked: true, report: (found: KernelFinding) => findings.push(found) }
    launch(options, integers(64, 1000), new Int32Array(192))
    assert.deepEqual(findings, [])
  },
  { architectures: [90], gpu: 'not played' },
)
