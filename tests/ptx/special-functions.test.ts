/**
 * The functions of a GPU's special function unit, bit for bit, for all numbers that have an exponent: the sums of the results of 2^23 numbers,
 * as an NVIDIA H200 (driver 580.159.04) made them by the same kernel.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ofTheDay, playedToday } from '../helpers/of-the-day.js'
import { Machine } from './machine.js'

/** An instruction, the upper nine bits of the numbers, sign and exponent, and the sum for all lower 23. */
const SUMS: readonly (readonly [instruction: string, upper: number, sum: bigint])[] = [
  ['ex2.approx.f32', 127, 0x86e4cf500f8df5c6n],
  ['ex2.approx.f32', 383, 0xb1f112ac96075475n],
  ['ex2.approx.f32', 0, 0xf367aeb863000000n],
  ['ex2.approx.f32', 133, 0x2dedfabe081aa2c0n],
  ['ex2.approx.f32', 388, 0xe480405259be7d00n],
  ['ex2.approx.f32', 389, 0xf1e7cc1930d71f25n],
  ['ex2.approx.ftz.f32', 110, 0x0fbbd2e40be40000n],
  ['ex2.approx.ftz.f32', 126, 0xa7468ee5903bbb02n],
  ['ex2.approx.ftz.f32', 130, 0x9a1c98bc8cc74578n],
  ['ex2.approx.ftz.f32', 382, 0x8a14a77ba1d7de66n],
  ['ex2.approx.ftz.f32', 386, 0x30e4e1f79d031100n],
  ['ex2.approx.ftz.f32', 389, 0x595dcd6737083a90n],
  ['lg2.approx.f32', 0, 0x701a1a04b963101fn],
  ['lg2.approx.f32', 126, 0x19e3e3e491c9eb40n],
  ['lg2.approx.f32', 127, 0xc63c97203eb76a3fn],
  ['lg2.approx.f32', 257, 0x776403e6a2000000n],
  ['lg2.approx.ftz.f32', 0, 0xb4a7aeb863000000n],
  ['lg2.approx.ftz.f32', 1, 0x9532ab4b76b99486n],
  ['lg2.approx.ftz.f32', 128, 0x888f420b783058f4n],
  ['lg2.approx.ftz.f32', 254, 0x736099538e466b7an],
  ['lg2.approx.ftz.f32', 255, 0x776403e6a1eef373n],
  ['rcp.approx.f32', 0, 0x5f51a72ab23b3893n],
  ['rcp.approx.f32', 127, 0xdbffb8906a0723a9n],
  ['rcp.approx.f32', 253, 0xe01ae69a4829945fn],
  ['rcp.approx.f32', 254, 0xbd99510a2604d82an],
  ['rcp.approx.f32', 508, 0xec0c38906a0723a9n],
  ['rcp.approx.ftz.f32', 126, 0x8c7d3890a60723a9n],
  ['rcp.approx.ftz.f32', 508, 0xec0c38906a0723a9n],
  ['rcp.approx.ftz.f32', 253, 0x1ff92eb863800000n],
  ['rcp.approx.ftz.f32', 256, 0xb4a7aeb863000000n],
  ['rsqrt.approx.f32', 0, 0x16174fb082d255a1n],
  ['rsqrt.approx.f32', 127, 0xf02bced820e19c81n],
  ['rsqrt.approx.f32', 256, 0x776403e621eef373n],
  ['rsqrt.approx.ftz.f32', 128, 0x667e406002e66208n],
  ['rsqrt.approx.ftz.f32', 254, 0xf79bc06002e66208n],
  ['rsqrt.approx.ftz.f32', 383, 0x776403e6a2000000n],
  ['sqrt.approx.f32', 0, 0x1dfbca18b901bc52n],
  ['sqrt.approx.f32', 127, 0x7bcf7cf6cdcf9840n],
  ['sqrt.approx.f32', 255, 0x776403e6a1eef373n],
  ['sqrt.approx.ftz.f32', 128, 0xa8987ce7f8af403dn],
  ['sqrt.approx.ftz.f32', 1, 0xc7c0fcf6cdcf9840n],
  ['sqrt.approx.ftz.f32', 256, 0xa2792eb863000000n],
  ['sin.approx.f32', 127, 0x1f811267ea1441b1n],
  ['sin.approx.f32', 129, 0xfeb104ead084c4f2n],
  ['sin.approx.f32', 389, 0xf2a2c1272a110670n],
  ['sin.approx.f32', 145, 0xc8e5eefd0f870493n],
  ['sin.approx.ftz.f32', 0, 0x1ff92eb863000000n],
  ['sin.approx.ftz.f32', 120, 0xcc5d221ad3cc33ben],
  ['sin.approx.ftz.f32', 128, 0x5ac564c37964619dn],
  ['sin.approx.ftz.f32', 255, 0x776403e6a2000000n],
  ['cos.approx.f32', 126, 0x0116333dff65dae3n],
  ['cos.approx.f32', 128, 0xc8399d3a76572cb5n],
  ['cos.approx.f32', 386, 0x1f64c69b753e602en],
  ['cos.approx.ftz.f32', 117, 0x63fbcfe49135d9e0n],
  ['cos.approx.ftz.f32', 127, 0xdf116f4aa300a212n],
  ['cos.approx.ftz.f32', 140, 0xe339aaa50643c34en],
  ['tanh.approx.f32', 118, 0xf391ca2a6c800000n],
  ['tanh.approx.f32', 119, 0x55cd360630a32400n],
  ['tanh.approx.f32', 377, 0x48af9c5db68cf600n],
  ['tanh.approx.f32', 122, 0xe2420ce2e25ae9c0n],
  ['tanh.approx.f32', 123, 0x43c870b88fbe8400n],
  ['tanh.approx.f32', 124, 0x20a9b739a76c0700n],
  ['tanh.approx.f32', 381, 0x1f489f5affc01080n],
  ['tanh.approx.f32', 126, 0x3ddcc333ff6d26c0n],
  ['tanh.approx.f32', 127, 0x35472c7a399cf360n],
  ['tanh.approx.f32', 128, 0x5c204a12c9095fd0n],
  ['tanh.approx.f32', 129, 0x468b986721704630n],
  ['tanh.approx.f32', 130, 0xf367aeb863000000n],
  ['tanh.approx.f32', 255, 0x776403e661eef373n],
]

const [BLOCKS, THREADS] = [32, 256]

/** Adds the product of each result, which is turned round by a constant, and a number that belongs to the place. */
const kernel = (instruction: string): string => `.version 8.0
.target sm_90
.address_size 64
.visible .entry total(.param .u64 total, .param .u32 upper) {
  .reg .u64 %rd<8>; .reg .f32 %f<4>; .reg .u32 %r<8>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [total];
  ld.param.u32 %r1, [upper];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r2, ${THREADS}, %r3;
  mov.u64 %rd2, 0;
again:
  or.b32 %r5, %r4, %r1;
  mov.b32 %f1, %r5;
  ${instruction} %f2, %f1;
  mov.b32 %r6, %f2;
  xor.b32 %r6, %r6, 0x9e3779b9;
  cvt.u64.u32 %rd3, %r6;
  cvt.u64.u32 %rd4, %r4;
  mul.lo.u64 %rd4, %rd4, 0x9e3779b97f4a7c15;
  or.b64 %rd4, %rd4, 1;
  mad.lo.u64 %rd2, %rd3, %rd4, %rd2;
  add.u32 %r4, %r4, ${BLOCKS * THREADS};
  setp.lt.u32 %p1, %r4, 0x800000;
  @%p1 bra again;
  red.global.add.u64 [%rd1], %rd2;
  ret;
}`

test("each function is the H200's for all numbers of an exponent", (context) => {
  const played = ofTheDay(SUMS, 6)
  context.diagnostic(playedToday(played.length, SUMS.length))
  const machine = new Machine()
  const total = machine.put(new BigUint64Array(1))
  let before = 0n
  for (const [instruction, upper, sum] of played) {
    const shape = { grid: BLOCKS, block: THREADS }
    machine.run(machine.load(kernel(instruction)), 'total', shape, [total, (upper << 23) | 0])
    const [after = 0n] = machine.get(total, new BigUint64Array(1))
    assert.equal(BigInt.asUintN(64, after - before).toString(16), sum.toString(16), `${instruction} with ${upper}`)
    before = after
  }
})
