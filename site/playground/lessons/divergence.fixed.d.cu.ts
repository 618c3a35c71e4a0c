// Made of divergence.fixed.cu by cuda-streams. Changes here are lost.
import type { DefinedKernel } from 'cuda-streams'

/**
 * One block adds up 256 numbers. In each round the first half of the
 * threads that are left adds the sums of the second half to its own.
 * divergence.fixed.cu, line 3
 */
export declare const add_up: DefinedKernel<readonly [values: 'in i32*', total: 'out i32*']>
