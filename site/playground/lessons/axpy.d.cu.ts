// Made of axpy.cu by cuda-streams. Changes here are lost.
import type { DefinedKernel } from 'cuda-streams'

/**
 * y = a x + y: each thread computes one element.
 * axpy.cu, line 2
 */
export declare const axpy: DefinedKernel<readonly [a: 'f32', x: 'in f32*', y: 'inout f32*', n: 'i32']>
