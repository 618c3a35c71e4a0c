/** train.cu as PTX: `node scripts/ptx-kernels.mjs ranks` makes it. */
export const KERNELS = `
.version 7.0
.target sm_75
.address_size 64

	// .globl	gradient

.visible .entry gradient(
	.param .u64 gradient_param_0,
	.param .u64 gradient_param_1,
	.param .u64 gradient_param_2,
	.param .u64 gradient_param_3,
	.param .u32 gradient_param_4,
	.param .u32 gradient_param_5
)
{
	.reg .pred 	%p<12>;
	.reg .f32 	%f<46>;
	.reg .b32 	%r<40>;
	.reg .b64 	%rd<59>;


	ld.param.u64 	%rd28, [gradient_param_0];
	ld.param.u64 	%rd27, [gradient_param_1];
	ld.param.u64 	%rd29, [gradient_param_2];
	ld.param.u64 	%rd30, [gradient_param_3];
	ld.param.u32 	%r21, [gradient_param_4];
	ld.param.u32 	%r20, [gradient_param_5];
	cvta.to.global.u64 	%rd1, %rd29;
	cvta.to.global.u64 	%rd2, %rd28;
	cvta.to.global.u64 	%rd3, %rd30;
	mov.u32 	%r22, %ntid.x;
	mov.u32 	%r23, %ctaid.x;
	mov.u32 	%r24, %tid.x;
	mad.lo.s32 	%r1, %r23, %r22, %r24;
	setp.ge.s32 	%p1, %r1, %r21;
	@%p1 bra 	$L__BB0_16;

	cvta.to.global.u64 	%rd31, %rd27;
	mul.lo.s32 	%r25, %r1, %r20;
	cvt.s64.s32 	%rd4, %r25;
	mul.wide.s32 	%rd32, %r1, 4;
	add.s64 	%rd33, %rd31, %rd32;
	ld.global.f32 	%f9, [%rd33];
	neg.f32 	%f45, %f9;
	setp.lt.s32 	%p2, %r20, 1;
	@%p2 bra 	$L__BB0_8;

	add.s32 	%r27, %r20, -1;
	and.b32  	%r35, %r20, 3;
	setp.lt.u32 	%p3, %r27, 3;
	mov.u32 	%r34, 0;
	@%p3 bra 	$L__BB0_5;

	sub.s32 	%r33, %r20, %r35;
	shl.b64 	%rd34, %rd4, 2;
	add.s64 	%rd35, %rd2, %rd34;
	add.s64 	%rd51, %rd35, 8;
	mov.u32 	%r34, 0;
	mov.u64 	%rd52, %rd1;

$L__BB0_4:
	ld.global.f32 	%f11, [%rd51+-8];
	ld.global.f32 	%f12, [%rd52];
	fma.rn.f32 	%f13, %f12, %f11, %f45;
	ld.global.f32 	%f14, [%rd51+-4];
	ld.global.f32 	%f15, [%rd52+4];
	fma.rn.f32 	%f16, %f15, %f14, %f13;
	ld.global.f32 	%f17, [%rd51];
	ld.global.f32 	%f18, [%rd52+8];
	fma.rn.f32 	%f19, %f18, %f17, %f16;
	ld.global.f32 	%f20, [%rd51+4];
	ld.global.f32 	%f21, [%rd52+12];
	fma.rn.f32 	%f45, %f21, %f20, %f19;
	add.s32 	%r34, %r34, 4;
	add.s64 	%rd52, %rd52, 16;
	add.s64 	%rd51, %rd51, 16;
	add.s32 	%r33, %r33, -4;
	setp.ne.s32 	%p4, %r33, 0;
	@%p4 bra 	$L__BB0_4;

$L__BB0_5:
	setp.eq.s32 	%p5, %r35, 0;
	@%p5 bra 	$L__BB0_8;

	cvt.s64.s32 	%rd36, %r34;
	add.s64 	%rd37, %rd36, %rd4;
	shl.b64 	%rd38, %rd37, 2;
	add.s64 	%rd54, %rd2, %rd38;
	mul.wide.s32 	%rd39, %r34, 4;
	add.s64 	%rd53, %rd1, %rd39;

$L__BB0_7:
	.pragma "nounroll";
	ld.global.f32 	%f22, [%rd54];
	ld.global.f32 	%f23, [%rd53];
	fma.rn.f32 	%f45, %f23, %f22, %f45;
	add.s64 	%rd54, %rd54, 4;
	add.s64 	%rd53, %rd53, 4;
	add.s32 	%r35, %r35, -1;
	setp.ne.s32 	%p6, %r35, 0;
	@%p6 bra 	$L__BB0_7;

$L__BB0_8:
	@%p2 bra 	$L__BB0_15;

	add.s32 	%r30, %r20, -1;
	and.b32  	%r39, %r20, 3;
	setp.lt.u32 	%p8, %r30, 3;
	mov.u32 	%r38, 0;
	@%p8 bra 	$L__BB0_12;

	sub.s32 	%r37, %r20, %r39;
	shl.b64 	%rd40, %rd4, 2;
	add.s64 	%rd41, %rd2, %rd40;
	add.s64 	%rd55, %rd41, 8;
	mov.u32 	%r38, 0;
	mov.u64 	%rd56, %rd3;

$L__BB0_11:
	ld.global.f32 	%f24, [%rd55+-8];
	mul.f32 	%f25, %f45, %f24;
	atom.global.add.f32 	%f26, [%rd56], %f25;
	ld.global.f32 	%f27, [%rd55+-4];
	mul.f32 	%f28, %f45, %f27;
	add.s64 	%rd42, %rd56, 4;
	atom.global.add.f32 	%f29, [%rd42], %f28;
	ld.global.f32 	%f30, [%rd55];
	mul.f32 	%f31, %f45, %f30;
	add.s64 	%rd43, %rd56, 8;
	atom.global.add.f32 	%f32, [%rd43], %f31;
	ld.global.f32 	%f33, [%rd55+4];
	mul.f32 	%f34, %f45, %f33;
	add.s64 	%rd44, %rd56, 12;
	atom.global.add.f32 	%f35, [%rd44], %f34;
	add.s32 	%r38, %r38, 4;
	add.s64 	%rd56, %rd56, 16;
	add.s64 	%rd55, %rd55, 16;
	add.s32 	%r37, %r37, -4;
	setp.ne.s32 	%p9, %r37, 0;
	@%p9 bra 	$L__BB0_11;

$L__BB0_12:
	setp.eq.s32 	%p10, %r39, 0;
	@%p10 bra 	$L__BB0_15;

	cvt.s64.s32 	%rd45, %r38;
	add.s64 	%rd46, %rd45, %rd4;
	shl.b64 	%rd47, %rd46, 2;
	add.s64 	%rd58, %rd2, %rd47;
	mul.wide.s32 	%rd48, %r38, 4;
	add.s64 	%rd57, %rd3, %rd48;

$L__BB0_14:
	.pragma "nounroll";
	ld.global.f32 	%f36, [%rd58];
	mul.f32 	%f37, %f45, %f36;
	atom.global.add.f32 	%f38, [%rd57], %f37;
	add.s64 	%rd58, %rd58, 4;
	add.s64 	%rd57, %rd57, 4;
	add.s32 	%r39, %r39, -1;
	setp.ne.s32 	%p11, %r39, 0;
	@%p11 bra 	$L__BB0_14;

$L__BB0_15:
	mul.wide.s32 	%rd49, %r20, 4;
	add.s64 	%rd50, %rd3, %rd49;
	mul.f32 	%f39, %f45, %f45;
	atom.global.add.f32 	%f40, [%rd50], %f39;

$L__BB0_16:
	ret;

}
	// .globl	descend
.visible .entry descend(
	.param .u64 descend_param_0,
	.param .u64 descend_param_1,
	.param .f32 descend_param_2,
	.param .u32 descend_param_3
)
{
	.reg .pred 	%p<3>;
	.reg .f32 	%f<6>;
	.reg .b32 	%r<7>;
	.reg .b64 	%rd<9>;


	ld.param.u64 	%rd2, [descend_param_0];
	ld.param.u64 	%rd3, [descend_param_1];
	ld.param.f32 	%f1, [descend_param_2];
	ld.param.u32 	%r2, [descend_param_3];
	cvta.to.global.u64 	%rd4, %rd3;
	mov.u32 	%r3, %ntid.x;
	mov.u32 	%r4, %ctaid.x;
	mov.u32 	%r5, %tid.x;
	mad.lo.s32 	%r1, %r4, %r3, %r5;
	setp.ge.s32 	%p1, %r1, %r2;
	mul.wide.s32 	%rd5, %r1, 4;
	add.s64 	%rd1, %rd4, %rd5;
	@%p1 bra 	$L__BB1_2;

	cvta.to.global.u64 	%rd6, %rd2;
	ld.global.f32 	%f2, [%rd1];
	mul.f32 	%f3, %f2, %f1;
	add.s64 	%rd8, %rd6, %rd5;
	ld.global.f32 	%f4, [%rd8];
	sub.f32 	%f5, %f4, %f3;
	st.global.f32 	[%rd8], %f5;

$L__BB1_2:
	setp.gt.s32 	%p2, %r1, %r2;
	@%p2 bra 	$L__BB1_4;

	mov.u32 	%r6, 0;
	st.global.u32 	[%rd1], %r6;

$L__BB1_4:
	ret;

}
`
