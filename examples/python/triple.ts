/** The kernel of ours in the pipeline, for GPUs and the simulator. */
import { defineKernel, type LaunchConfig } from 'cuda-streams'

/** Three times what it was, plus a value. */
export const TRIPLE = defineKernel({
  name: 'triple',
  source: `extern "C" __global__ void triple(int* numbers, int value, int length) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < length) numbers[at] = numbers[at] * 3 + value;
  }`,
  signature: ['inout i32*', 'i32', 'i32'],
  simulateGrid(_grid, numbers, value, length) {
    for (let at = 0; at < length; at += 1) numbers[at] = Math.imul(numbers[at] ?? 0, 3) + value
  },
})

/** A launch on so many numbers. */
export const tripleConfig = (length: number): LaunchConfig => ({ threads: length })
