// Made of bank-conflicts.cu by cuda-streams. Changes here are lost.
import type { DefinedKernel } from 'cuda-streams'

/**
 * Mirrors a matrix of 32 rows and columns, through a tile in shared memory:
 * a warp reads a row and writes a row, and takes a column out of the tile.
 * bank-conflicts.cu, line 3
 */
export declare const transpose: DefinedKernel<readonly [from: 'in f32*', to: 'out f32*']>
