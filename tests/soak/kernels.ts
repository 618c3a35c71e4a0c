/** Kernels whose results are whole numbers, so that they are the same everywhere; and each of them once more, for the models. */
import { defineKernel } from 'cuda-streams'

/** Each byte times three, and so much more. */
export const affine = defineKernel({
  name: 'affine',
  source: `extern "C" __global__ void affine(unsigned char* bytes, int count, unsigned char more) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) bytes[i] = (unsigned char)(bytes[i] * 3 + more);
  }`,
  signature: ['inout u8*', 'i32', 'u8'],
  simulateGrid: (_, bytes, count, more) => affineModel(bytes.subarray(0, count), more),
  nanoseconds: 2000,
})

export function affineModel(bytes: Uint8Array, more: number): void {
  for (const [at, byte] of bytes.entries()) bytes[at] = byte * 3 + more
}

/** Adds bytes to others. */
export const add = defineKernel({
  name: 'add',
  source: `extern "C" __global__ void add(unsigned char* to, const unsigned char* from, unsigned long long count) {
    unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) to[i] += from[i];
  }`,
  signature: ['inout u8*', 'in u8*', 'u64'],
  simulateGrid: (_, to, from, count) => addModel(to.subarray(0, Number(count)), from),
  nanoseconds: 5000,
})

export function addModel(to: Uint8Array, from: Uint8Array): void {
  for (const [at, byte] of to.entries()) to[at] = byte + (from[at] ?? 0)
}

/** Turns the bytes of each block around, all threads together. */
export const mirror = defineKernel({
  name: 'mirror',
  source: `extern "C" __global__ void mirror(unsigned char* bytes) {
    unsigned char* mine = bytes + blockIdx.x * blockDim.x;
    unsigned char other = mine[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    mine[threadIdx.x] = other;
  }`,
  signature: ['inout u8*'],
  *simulate({ threadIdx, blockIdx, blockDim }, bytes) {
    const from = blockIdx.x * blockDim.x
    const other = bytes[from + blockDim.x - 1 - threadIdx.x] ?? 0
    yield
    bytes[from + threadIdx.x] = other
  },
})

export function mirrorModel(bytes: Uint8Array, block: number): void {
  for (let from = 0; from + block <= bytes.length; from += block) bytes.subarray(from, from + block).reverse()
}
