# What MACHINE_CODES.x64 of src/timeline/cupti/record-buffers.ts is; a test assembles this and compares.
#
# State: 0 the node handed back last, 8 buffers asked for, 16 how many may be, 24 malloc, 32 bytes of a node.
# Node: 0 the node handed back before, 8 how many bytes are records, 16 the buffer.
	.intel_syntax noprefix
	.text
requested:			# (uint8_t **buffer, size_t *size, size_t *maxNumRecords)
	endbr64
	push rbx
	push r12
	push r13
	mov rbx, rdi
	mov r12, rsi
	mov r13, [rip + state]
	mov qword ptr [rdx], 0	# as many records as there is room for
	xor eax, eax
	mov ecx, 1
	lock xadd [r13 + 8], rcx
	cmp rcx, [r13 + 16]
	jae none
	mov rdi, [r13 + 32]
	call [r13 + 24]
	test rax, rax
	jnz some
none:
	lock dec qword ptr [r13 + 8]
	mov [rbx], rax		# no buffer: CUPTI counts what it drops
	mov [r12], rax
	jmp out
some:
	mov rcx, [r13 + 32]
	sub rcx, 16
	add rax, 16
	mov [rbx], rax
	mov [r12], rcx
out:
	pop r13
	pop r12
	pop rbx
	ret
	.balign 16
completed:			# (CUcontext, uint32_t stream, uint8_t *buffer, size_t size, size_t validSize)
	endbr64
	mov rcx, [rip + state]
	sub rdx, 16
	mov [rdx + 8], r8
	mov rax, [rcx]
again:
	mov [rdx], rax
	lock cmpxchg [rcx], rdx
	jne again
	ret
	.balign 8
state:
