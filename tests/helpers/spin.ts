/** A kernel that takes as long as it is told to, on a GPU by the GPU's clock, on the simulator as long as `SPIN`. */
import { defineKernel } from 'cuda-streams'

/** Nanoseconds. */
export const SPIN = 2_000_000
export const ONE = { grid: 1, block: 1 }

export const spin = defineKernel({
  name: 'spin',
  source: `extern "C" __global__ void spin(unsigned long long nanoseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - start < nanoseconds);
  }`,
  signature: ['u64'],
  nanoseconds: SPIN,
  simulateGrid() {},
})
