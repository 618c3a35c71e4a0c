/** Kernels that add to the words of an operand: as GPU code, and as source with a host implementation. */
import { type DefinedKernel, defineKernel, type Kernel, Module, struct } from 'cuda-streams'
import type { Call } from './call.js'
import { WORDS } from './lab.js'
import type { Scene } from './scene.js'

/** Adds to words. */
export const PTX = `
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .b8 words[16];
.visible .entry add(.param .u64 words, .param .u32 count, .param .u32 value) {
  .reg .pred %outside;
  .reg .u32 %index, %block, %size, %count, %value, %word;
  .reg .u64 %base, %offset, %at;
  ld.param.u64 %base, [words];
  cvta.to.global.u64 %base, %base;
  ld.param.u32 %count, [count];
  ld.param.u32 %value, [value];
  mov.u32 %block, %ctaid.x;
  mov.u32 %size, %ntid.x;
  mov.u32 %index, %tid.x;
  mad.lo.u32 %index, %block, %size, %index;
  setp.ge.u32 %outside, %index, %count;
  @%outside bra done;
  mul.wide.u32 %offset, %index, 4;
  add.u64 %at, %base, %offset;
  ld.global.u32 %word, [%at];
  add.u32 %word, %word, %value;
  st.global.u32 [%at], %word;
done:
  ret;
}
`
export const SIGNATURE = ['inout u32*', 'u32', 'u32'] as const
export const CONFIG = { grid: 1, block: WORDS } as const

export const added = defineKernel({
  name: 'added',
  source: `extern "C" __global__ void added(unsigned* words, unsigned count, unsigned value) {
  unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) words[index] += value;
}`,
  signature: SIGNATURE,
  simulateGrid: (_grid, words, count, value) => {
    for (let index = 0; index < count; index += 1) words[index] = (words[index] ?? 0) + value
  },
})

/** The same, with a struct by value. */
export const addedByStruct = defineKernel({
  name: 'added',
  source: `struct Count { unsigned count; };
extern "C" __global__ void added(unsigned* words, Count given, unsigned value) {
  unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < given.count) words[index] += value;
}`,
  signature: ['inout u32*', struct({ count: 'u32' }), 'u32'],
  simulateGrid: (_grid, words, { count }, value) => {
    for (let index = 0; index < count; index += 1) words[index] = (words[index] ?? 0) + value
  },
})

/** The kernel of the PTX, defined by it. */
export const addedByPtx = defineKernel({ name: 'add', ptx: PTX, signature: SIGNATURE })

const needs =
  (what: string, kernel: Pick<DefinedKernel, 'prepare'>): NonNullable<Call['lacks']> =>
  ({ lab }) =>
    lab.once(what, () =>
      kernel.prepare(lab.device).then(
        () => undefined,
        (error: Error & { readonly code?: string }) => {
          if (error.code !== 'ERR_UNSUPPORTED') throw error
          return error.message
        },
      ),
    )

/** Why NVRTC cannot be used here, if it cannot. Compiles the kernel with a host implementation, too. */
export const needsCompiler = needs('the compiler', added)

/** As `needsCompiler`, for the kernel with a struct. */
export const needsStruct = needs('the compiler, for a struct', addedByStruct)

export const kernelOf = ({ lab }: Scene): Kernel<typeof SIGNATURE> =>
  lab.once('a kernel', () => Module.load(PTX, { device: lab.device }).kernel('add', SIGNATURE))
