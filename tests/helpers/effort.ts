/**
 * How much is tried: `quick` while one works, `normal` in each run of the tests, `nightly` all that there is. The variable
 * CUDA_STREAMS_TEST_EFFORT says which; scripts/test.mjs sets it by its options.
 */
export const EFFORTS = ['quick', 'normal', 'nightly'] as const
export type Effort = (typeof EFFORTS)[number]

const given = process.env['CUDA_STREAMS_TEST_EFFORT'] || 'normal'
const found = EFFORTS.find((one) => one === given)
if (found === undefined) throw new Error(`CUDA_STREAMS_TEST_EFFORT must be one of ${EFFORTS.join(', ')}, not ${given}`)

const effort: Effort = found

/** What is tried with this effort: numbers or lists, mostly. */
export function byEffort<T>(choices: Readonly<Record<Effort, T>>): T {
  return choices[effort]
}

/** How many random programs or rounds are tried; CUDA_STREAMS_TEST_RUNS says another number. */
export const runs = (choices: Readonly<Record<Effort, number>>): number =>
  Number(process.env['CUDA_STREAMS_TEST_RUNS'] || byEffort(choices))
