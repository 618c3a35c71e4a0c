/** The one kernel of the programs: integers only, one thread a word, so that its result is the same everywhere. */
import { defineKernel } from 'cuda-streams'

export const mix = defineKernel({
  name: 'mix',
  source: `extern "C" __global__ void mix(unsigned* to, const unsigned* from, unsigned rounds) {
    unsigned i = threadIdx.x;
    unsigned value = from[i];
    for (unsigned round = 0; round < rounds; ++round) value = value * 1664525u + 1013904223u;
    to[i] = (to[i] ^ value) + i;
  }`,
  signature: ['inout u32*', 'in u32*', 'u32'],
  simulate({ threadIdx: { x: i } }, to, from, rounds) {
    let value = from[i] ?? 0
    for (let round = 0; round < rounds; round += 1) value = (Math.imul(value, 1664525) + 1013904223) >>> 0
    to[i] = (((to[i] ?? 0) ^ value) + i) >>> 0
  },
})
