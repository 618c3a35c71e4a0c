/** The options of a launch: what it may print, read and write, and who is told what the checks find. */

import type { BlockWorkers } from './block-workers.js'
import type { KernelFinding } from './faults.js'
import type { TextureObjects } from './textures.js'

export interface LaunchOptions {
  /** Receives the text that kernels print. Default: the text is dropped. */
  readonly print?: (text: string) => void
  /** Sets the value of a graph's condition. Default: kernels have no condition to set. */
  readonly setConditional?: (handle: bigint, value: number) => void
  /**
   * Picks one of so many blocks that could run next, and of the warps of a block. Default: in order, and in turns where blocks
   * wait. With it, and with `report`, shared memory that nothing wrote has a pattern.
   */
  readonly choose?: (count: number) => number
  /** Whether the launch may write the memory with these addresses: only there are races between blocks and warps looked for. Default: no memory. */
  readonly mayWrite?: (begin: number, byteLength: number) => boolean
  /** The number of instructions, about, after which the launch ends with CUDA_ERROR_LAUNCH_TIMEOUT. Default: 2e11. */
  readonly instructionLimit?: number
  /** The number of blocks that are on the device at once. Default: as many as 132 multiprocessors of 2048 threads hold. */
  readonly residentBlocks?: number
  /** The clock that %globaltimer reads, in nanoseconds. Default: a clock that advances with the instructions. */
  readonly now?: () => number
  /** The textures and surfaces that kernels find behind handles. Default: none. */
  readonly textures?: TextureObjects
  /** Receives what the checks find. Without it nothing is checked, even in code that was compiled for checks. */
  readonly report?: (finding: KernelFinding) => void
  /** The workers that run blocks of a long launch, if that changes nothing but the time. Default: this thread runs all blocks. */
  readonly workers?: BlockWorkers | undefined
  /** The value of %gridid. Default: a number that no other launch has. */
  readonly gridId?: bigint
}

/** What a schedule picks of so many, as an index. */
export function pickFrom(count: number, choose: (count: number) => number): number {
  return Math.min(count - 1, Math.max(0, Math.trunc(choose(count))))
}
