/** The least version and target of each form, as ptxas 13.0 has them, and texts that their own version or target forbids. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Module } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { requirementsOf } from '../../src/ptx/requirements.js'

/** What ptxas 13.0 says of forms in a text of version 6.0 for sm_50: no version or target is '0.0' and 0. */
const FORMS: readonly (readonly [form: string, version: string, target: number, operands?: number])[] = [
  ['add.u32', '0.0', 0],
  ['shfl.sync.down.b32', '0.0', 0],
  ['add.u16x2', '8.0', 90],
  ['add.f32x2', '8.6', 100],
  ['fma.rn.ftz.f32x2', '8.6', 100],
  ['add.f16', '0.0', 53],
  ['add.bf16', '7.8', 90],
  ['fma.rn.bf16x2', '7.0', 80],
  ['fma.rn.relu.f16', '7.0', 80],
  ['min.f32', '0.0', 0, 3],
  ['min.f32', '8.8', 100, 4],
  ['max.NaN.f32', '7.0', 80, 3],
  ['min.xorsign.abs.f32', '7.2', 86],
  ['min.f16x2', '7.0', 80],
  ['abs.f16', '6.5', 53],
  ['setp.eq.bf16', '7.8', 90],
  ['set.eq.u32.f16', '6.5', 53],
  ['tanh.approx.f32', '7.0', 75],
  ['ex2.approx.ftz.bf16', '7.8', 90],
  ['lop3.or.b32', '8.2', 70],
  ['dp4a.u32.u32', '0.0', 61],
  ['bmsk.clamp.b32', '7.6', 70],
  ['cvt.rn.bf16.f32', '7.0', 80],
  ['cvt.f32.bf16', '7.1', 80],
  ['cvt.rn.f16x2.f32', '7.0', 80],
  ['cvt.rn.satfinite.f16.f32', '8.1', 70],
  ['cvt.rni.s32.bf16', '7.8', 90],
  ['cvt.rna.tf32.f32', '7.0', 80],
  ['cvt.rn.tf32.f32', '7.8', 90],
  ['cvt.pack.sat.u16.s32', '6.5', 72],
  ['cvt.rn.satfinite.e2m1x2.f32', '8.6', 100],
  ['cvt.rn.f16x2.e3m2x2', '8.6', 100],
  ['cvt.rp.satfinite.ue8m0x2.f32', '8.6', 100],
  ['cvt.rn.bf16x2.ue8m0x2', '8.6', 100],
  ['add.f32.f16', '8.6', 100],
  ['fma.rn.f32.bf16', '8.6', 100],
  ['mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32', '8.4', 89],
  ['mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e5m2.f32', '8.7', 89],
  ['mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e5m2.f16', '8.7', 89],
  ['wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16', '8.0', 90],
  ['wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16', '8.2', 90],
  ['mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32', '6.4', 70],
  ['isspacep.shared::cluster', '7.8', 90],
  ['ld.global.L1::evict_last.u32', '7.4', 70],
  ['ld.global.L2::256B.u32', '7.4', 80],
  ['ld.acquire.gpu.global.u32', '0.0', 70],
  ['ld.global.v8.f32', '8.8', 100],
  ['atom.global.cta.add.u32', '0.0', 60],
  ['atom.global.add.f64', '0.0', 60],
  ['red.global.add.noftz.f16x2', '6.2', 60],
  ['red.global.add.noftz.bf16', '7.8', 90],
  ['atom.global.cas.b16', '6.3', 70],
  ['atom.global.exch.b128', '8.3', 90],
  ['fence.acq_rel.gpu', '0.0', 70],
  ['fence.proxy.async', '8.0', 90],
  ['cp.async.ca.shared::cta.global', '7.0', 80],
  ['mbarrier.try_wait.shared.b64', '7.8', 90],
  ['bar.sync', '0.0', 0],
  ['barrier.cta.sync', '7.8', 0],
  ['match.any.sync.b32', '0.0', 70],
  ['redux.sync.add.u32', '7.0', 80],
  ['activemask.b32', '6.2', 0],
  ['elect.sync', '8.0', 90],
  ['nanosleep.u32', '6.2', 70],
  ['mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32', '7.0', 80],
  ['mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64', '7.8', 90],
  ['ldmatrix.sync.aligned.m8n8.x1.b16', '6.5', 75],
  ['stmatrix.sync.aligned.m8n8.x1.b16', '7.8', 90],
]

describe('the least version and target', () => {
  for (const [form, version, target, operands = 3] of FORMS) {
    it(`of ${form}, with ${operands} operands: ${version}, ${target}`, () => {
      const needs = requirementsOf(form, operands)
      assert.deepEqual([needs.version, needs.target], [version, target])
    })
  }
})

describe('a text that uses what its own version or target has not is refused when it is loaded', () => {
  const textOf = (version: string, target: string, body: string): string => `.version ${version}
.target ${target}
.address_size 64
.visible .entry k() { .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; ${body} ret; }
`
  for (const [version, target, body, needs] of [
    ['8.5', 'sm_75', 'add.f32x2 %rd1, %rd2, %rd3;', /'add\.f32x2' at line 4 of the PTX came with PTX 8\.6/],
    ['8.6', 'sm_75', 'add.f32x2 %rd1, %rd2, %rd3;', /needs \.target sm_100 or later, and the text is for sm_75/],
    ['6.0', 'sm_70', 'activemask.b32 %r1;', /came with PTX 6\.2, and the text is of version 6\.0/],
    ['7.0', 'sm_75', 'redux.sync.add.u32 %r1, %r2, -1;', /needs \.target sm_80/],
    ['8.0', 'sm_90', 'setmaxnreg.inc.sync.aligned.u32 64;', /needs a target such as sm_90a/],
    ['6.0', 'sm_50', 'fence.acq_rel.gpu;', /needs \.target sm_70/],
  ] as const) {
    it(`${body} in version ${version} for ${target}`, () => {
      using simulation = simulate()
      const [device] = simulation.devices
      assert.throws(() => Module.load(textOf(version, target, body), { device }), { number: 218, message: needs })
    })
  }

  for (const [version, target, body] of [
    ['6.2', 'sm_30', 'activemask.b32 %r1;'],
    ['7.0', 'sm_80', 'redux.sync.add.u32 %r1, %r2, -1;'],
    ['8.0', 'sm_90a', 'setmaxnreg.inc.sync.aligned.u32 64;'],
    ['8.0', 'sm_90a', 'wgmma.fence.sync.aligned;'],
  ] as const) {
    it(`but not ${body} in version ${version} for ${target}`, () => {
      using simulation = simulate()
      const [device] = simulation.devices
      Module.load(textOf(version, target, body), { device }).close()
    })
  }

  it('also by a function that no kernel calls, as an assembler does', () => {
    const text = `${textOf('6.2', 'sm_50', '')}.func f() { .reg .b32 %r<3>; match.any.sync.b32 %r1, %r2, -1; ret; }\n`
    using simulation = simulate()
    const [device] = simulation.devices
    assert.throws(() => Module.load(text, { device }), { number: 218 })
  })
})
