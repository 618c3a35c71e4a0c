// Made of out-of-bounds.cu by cuda-streams. Changes here are lost.
import type { DefinedKernel } from 'cuda-streams'

/**
 * Each thread squares one element.
 * out-of-bounds.cu, line 2
 */
export declare const square: DefinedKernel<readonly [values: 'inout i32*', n: 'i32']>
