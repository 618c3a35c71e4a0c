// Made of signature.fixed.cu by cuda-streams. Changes here are lost.
import type { DefinedKernel } from 'cuda-streams'

/**
 * Changes every second element in place: from `first` on.
 * signature.fixed.cu, line 4
 */
export declare const add: DefinedKernel<readonly [values: 'inout i32*', first: 'i32', n: 'i32', summand: 'i32']>

/** signature.fixed.cu, line 9 */
export declare const multiply: DefinedKernel<readonly [values: 'inout i32*', first: 'i32', n: 'i32', factor: 'i32']>
