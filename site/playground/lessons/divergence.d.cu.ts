// Made of divergence.cu by cuda-streams. Changes here are lost.
import type { DefinedKernel } from 'cuda-streams'

/**
 * One block adds up 256 numbers. In each round every second thread that
 * is left adds its neighbour's sum to its own.
 * divergence.cu, line 3
 */
export declare const add_up: DefinedKernel<readonly [values: 'in i32*', total: 'out i32*']>
