// Made of signature.cu by cuda-streams. Changes here are lost.
import type { DefinedKernel } from 'cuda-streams'

/**
 * Changes every second element in place: from `first` on.
 * signature.cu, line 4
 */
export declare const add: DefinedKernel<readonly [values: 'in i32*', first: 'i32', n: 'i32', summand: 'i32']>

/** signature.cu, line 9 */
export declare const multiply: DefinedKernel<readonly [values: 'in i32*', first: 'i32', n: 'i32', factor: 'i32']>
