// Made of coalescing.cu by cuda-streams. Changes here are lost.
import type { DefinedKernel } from 'cuda-streams'

/**
 * Mirrors a matrix of 32 rows and columns: each thread moves one element.
 * The 32 threads of a warp have the same row, and each a column of its own.
 * coalescing.cu, line 3
 */
export declare const transpose: DefinedKernel<readonly [from: 'in f32*', to: 'out f32*']>
