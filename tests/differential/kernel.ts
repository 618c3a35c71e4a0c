/**
 * The one kernel of the programs, as GPUs and the simulator run it: integers only, one thread a word, so that its result is the
 * same everywhere. NVRTC made the PTX of this source, for every GPU that the library works with:
 *
 *     void mix(unsigned* to, const unsigned* from, unsigned rounds) {
 *       unsigned i = threadIdx.x;
 *       unsigned value = from[i];
 *       for (unsigned round = 0; round < rounds; ++round) value = value * 1664525u + 1013904223u;
 *       to[i] = (to[i] ^ value) + i;
 *     }
 */
import { defineKernel } from 'cuda-streams'

const PTX = `
.version 7.0
.target sm_75
.address_size 64

	// .globl	mix

.visible .entry mix(
	.param .u64 mix_param_0,
	.param .u64 mix_param_1,
	.param .u32 mix_param_2
)
{
	.reg .pred 	%p<6>;
	.reg .b32 	%r<30>;
	.reg .b64 	%rd<10>;


	ld.param.u64 	%rd2, [mix_param_0];
	ld.param.u64 	%rd3, [mix_param_1];
	ld.param.u32 	%r15, [mix_param_2];
	mov.u32 	%r16, %tid.x;
	cvt.u64.u32 	%rd1, %r16;
	cvta.to.global.u64 	%rd4, %rd3;
	mul.wide.u32 	%rd5, %r16, 4;
	add.s64 	%rd6, %rd4, %rd5;
	ld.global.u32 	%r29, [%rd6];
	setp.eq.s32 	%p1, %r15, 0;
	@%p1 bra 	$L__BB0_6;

	add.s32 	%r18, %r15, -1;
	and.b32  	%r28, %r15, 3;
	setp.lt.u32 	%p2, %r18, 3;
	@%p2 bra 	$L__BB0_4;

	sub.s32 	%r24, %r15, %r28;

$L__BB0_3:
	mad.lo.s32 	%r29, %r29, 158984081, -1426500812;
	add.s32 	%r24, %r24, -4;
	setp.ne.s32 	%p3, %r24, 0;
	@%p3 bra 	$L__BB0_3;

$L__BB0_4:
	setp.eq.s32 	%p4, %r28, 0;
	@%p4 bra 	$L__BB0_6;

$L__BB0_5:
	.pragma "nounroll";
	mad.lo.s32 	%r29, %r29, 1664525, 1013904223;
	add.s32 	%r28, %r28, -1;
	setp.ne.s32 	%p5, %r28, 0;
	@%p5 bra 	$L__BB0_5;

$L__BB0_6:
	cvta.to.global.u64 	%rd7, %rd2;
	shl.b64 	%rd8, %rd1, 2;
	add.s64 	%rd9, %rd7, %rd8;
	ld.global.u32 	%r19, [%rd9];
	xor.b32  	%r20, %r19, %r29;
	cvt.u32.u64 	%r21, %rd1;
	add.s32 	%r22, %r20, %r21;
	st.global.u32 	[%rd9], %r22;
	ret;

}
`

export const mix = defineKernel({ name: 'mix', ptx: PTX, signature: ['inout u32*', 'in u32*', 'u32'] })
