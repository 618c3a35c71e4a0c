/** The modifiers of an instruction stand in any order, as ptxas 13.0 takes them, and the words of its name where they are. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { canonicalOpcode, matchForms } from '../../src/ptx/forms.js'
import { onEveryMachine } from './ptx-text.js'

/** What ptxas 13.0 takes, and the same in the order of the manual. */
const TAKEN: readonly (readonly [written: string, canonical: string])[] = [
  ['ldmatrix.sync.aligned.x4.m8n8.shared.b16', 'ldmatrix.sync.aligned.m8n8.x4.shared.b16'],
  ['ldmatrix.sync.aligned.trans.m8n8.x4.shared.b16', 'ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16'],
  ['stmatrix.sync.aligned.x2.m8n8.shared.b16.trans', 'stmatrix.sync.aligned.m8n8.x2.trans.shared.b16'],
  ['div.ftz.rn.f32', 'div.rn.ftz.f32'],
  ['add.f32.ftz.rn', 'add.rn.ftz.f32'],
  ['fma.f32.rn', 'fma.rn.f32'],
  ['cvt.rn.e4m3x2.f32.satfinite', 'cvt.rn.satfinite.e4m3x2.f32'],
  ['cvt.satfinite.rn.e5m2x2.f16x2', 'cvt.rn.satfinite.e5m2x2.f16x2'],
  ['cvt.f32.rn.f64', 'cvt.rn.f32.f64'],
  ['cvt.f32.f64.rn', 'cvt.rn.f32.f64'],
  ['vote.ballot.sync.b32', 'vote.sync.ballot.b32'],
  ['shfl.sync.b32.down', 'shfl.sync.down.b32'],
  ['match.b32.any.sync', 'match.any.sync.b32'],
  [
    'mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32.satfinite',
    'mma.sync.aligned.m16n8k16.row.col.satfinite.s32.s8.u8.s32',
  ],
  ['mma.aligned.s32.s8.s8.s32.sync.row.col.m16n8k16', 'mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32'],
  ['setp.f32.and.lt', 'setp.lt.and.f32'],
  ['set.u32.f32.lt', 'set.lt.u32.f32'],
  ['mad.lo.s32.cc', 'mad.lo.cc.s32'],
  ['barrier.aligned.sync', 'barrier.sync.aligned'],
  ['bar.red.pred.and', 'bar.red.and.pred'],
  ['wmma.load.a.sync.aligned.m16n16k16.global.row.f16', 'wmma.load.a.sync.aligned.row.m16n16k16.global.f16'],
  ['cp.async.ca.L2::128B.shared.global', 'cp.async.ca.shared.global.L2::128B'],
  ['mbarrier.init.b64.shared', 'mbarrier.init.shared.b64'],
  ['atom.u32.add.global', 'atom.global.add.u32'],
  ['ld.global.f32.v2', 'ld.global.v2.f32'],
  ['lop3.b32.or', 'lop3.or.b32'],
]

/** What ptxas 13.0 refuses: words of the name that moved, types or spaces that changed places, a modifier twice. */
const REFUSED = [
  'mul.s32.lo',
  'mul.s32.wide',
  'mad.cc.lo.s32',
  'dp2a.s32.u32.lo',
  'shf.wrap.l.b32',
  'cvt.sat.pack.u8.s32.b32',
  'cvta.shared.to.u64',
  'bar.sync.cta',
  'bar.and.red.pred',
  'barrier.aligned.arrive',
  'mbarrier.b64.init.shared',
  'mbarrier.parity.try_wait.shared.b64',
  'mbarrier.arrive.shared.expect_tx.b64',
  'wmma.load.sync.aligned.a.row.m16n16k16.f16',
  'cp.ca.async.shared.global',
  'cp.async.ca.global.shared',
  'cp.commit_group.async',
  'fence.async.proxy',
  'setmaxnreg.sync.aligned.inc.u32',
  'createpolicy.L2::evict_last.fractional.b64',
  'cvt.f16x2.rn.e4m3x2.f32',
  'add.f32.f32',
  'add.ftz.ftz.f32',
  'mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32',
]

for (const [written, canonical] of TAKEN) {
  test(`${written} is ${canonical}`, () => {
    assert.equal(canonicalOpcode(written), canonical)
    assert.equal(canonicalOpcode(canonical), canonical)
  })
}

test('words of a name stay where they are, types keep their order, and nothing stands twice', () => {
  assert.deepEqual(
    REFUSED.filter((each) => matchForms(each).length > 0),
    [],
  )
})

onEveryMachine(
  'instructions compute the same with their modifiers in another order',
  `.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out) {
  .reg .pred %p; .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .f64 %d; .reg .b64 %rd<4>;
  .shared .align 16 .b8 tile[128];
  ld.u64.param %rd1, [out];
  mov.u32 %r1, %laneid;
  mul.wide.u32 %rd2, %r1, 16;
  add.u64 %rd1, %rd1, %rd2;
  mov.u32 %r2, tile;
  shl.b32 %r3, %r1, 2;
  add.u32 %r3, %r2, %r3;
  st.u32.shared [%r3], %r1;
  bar.sync 0;
  and.b32 %r4, %r1, 7;
  shl.b32 %r4, %r4, 4;
  add.u32 %r4, %r2, %r4;
  ldmatrix.x1.sync.b16.aligned.shared.m8n8 {%r5}, [%r4];
  st.u32.global [%rd1], %r5;
  setp.u32.lt %p, %r1, 5;
  vote.ballot.b32.sync %r6, %p, -1;
  st.global.b32 [%rd1+4], %r6;
  cvt.f32.rn.u32 %f1, %r1;
  div.f32.ftz.rn %f2, %f1, 0f40400000;
  st.f32.global [%rd1+8], %f2;
  cvt.u32.f32.rzi %r7, %f2;
  st.global.u32 [%rd1+12], %r7;
  ret;
}`,
  ({ run }) => {
    const out = new Uint32Array(128)
    run('k', { block: 32 }, [out])
    const expected = Array.from({ length: 32 }, (_, lane) => {
      const third = Math.fround(lane / 3)
      return [lane, 31, new Uint32Array(Float32Array.of(third).buffer)[0], Math.trunc(third)]
    })
    assert.deepEqual([...out], expected.flat())
  },
)
