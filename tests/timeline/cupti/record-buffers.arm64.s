// What MACHINE_CODES.arm64 of src/timeline/cupti/record-buffers.ts is; a test assembles this and compares.
//
// State: 0 the node handed back last, 8 buffers asked for, 16 how many may be, 24 malloc, 32 bytes of a node.
// Node: 0 the node handed back before, 8 how many bytes are records, 16 the buffer.
	.text
requested:			// (uint8_t **buffer, size_t *size, size_t *maxNumRecords)
	hint #34		// bti c
	stp x29, x30, [sp, #-48]!
	mov x29, sp
	stp x19, x20, [sp, #16]
	str x21, [sp, #32]
	mov x19, x0
	mov x20, x1
	ldr x21, state
	str xzr, [x2]		// as many records as there is room for
	ldr x12, [x21, #16]
	add x9, x21, #8
count:
	ldaxr x10, [x9]
	cmp x10, x12
	b.hs none
	add x10, x10, #1
	stlxr w13, x10, [x9]
	cbnz w13, count
	ldr x0, [x21, #32]
	ldr x9, [x21, #24]
	blr x9
	cbz x0, give
	ldr x9, [x21, #32]
	sub x9, x9, #16
	add x0, x0, #16
	b give
none:
	clrex
	mov x0, xzr		// no buffer: CUPTI counts what it drops
	mov x9, xzr
give:
	str x0, [x19]
	str x9, [x20]
	ldr x21, [sp, #32]
	ldp x19, x20, [sp, #16]
	ldp x29, x30, [sp], #48
	ret
	.balign 16
completed:			// (CUcontext, uint32_t stream, uint8_t *buffer, size_t size, size_t validSize)
	hint #34
	ldr x9, state
	sub x10, x2, #16
	str x4, [x10, #8]
retry:
	ldr x11, [x9]
	str x11, [x10]
again:
	ldaxr x12, [x9]
	cmp x12, x11
	b.ne retry
	stlxr w13, x10, [x9]
	cbnz w13, again
	ret
	.balign 8
state:
