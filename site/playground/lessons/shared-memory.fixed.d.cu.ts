// Made of shared-memory.fixed.cu by cuda-streams. Changes here are lost.
import type { DefinedKernel } from 'cuda-streams'

/**
 * One block adds up 256 numbers. In each round half of the threads
 * that are left add another thread's sum to their own.
 * shared-memory.fixed.cu, line 3
 */
export declare const add_up: DefinedKernel<readonly [values: 'in i32*', total: 'out i32*']>
