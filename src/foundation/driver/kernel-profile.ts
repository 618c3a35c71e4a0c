/** What a launch of a kernel does at each line, as the simulator counts it. */

/** The numbers of one line of a kernel, of all warps of a launch together. */
export interface LineProfile {
  /** The file of the source, where the PTX names it (`-lineinfo`). Undefined: `line` is one of the PTX. */
  readonly file: string | undefined
  /** The number of the line, from 1 on. */
  readonly line: number
  /** Instructions of PTX that warps have executed. */
  readonly instructions: number
  /** Threads that were active in each of them, on average: 32 at most, fewer where a branch has divided a warp or the last warp is not full. */
  readonly activeThreads: number
  /** Branches that warps have executed. */
  readonly branches: number
  /** Branches that some threads of a warp took and others did not. */
  readonly divergentBranches: number
  /** Accesses of global memory by warps: loads, stores and atomics. */
  readonly globalRequests: number
  /** Sectors of 32 bytes that those touch: 4 for each request are least where each of 32 threads has 4 bytes of its own. */
  readonly sectors: number
  /** Sectors that those would touch at least: as many as the different bytes fill that the threads of each request want. */
  readonly idealSectors: number
  /** Accesses of shared memory by warps. */
  readonly sharedRequests: number
  /** Passes over the banks that those take: 1 for each request at best, 2 for 8 bytes of each thread, 4 for 16. */
  readonly wavefronts: number
  /** Passes more than at best, as threads want different words of one bank. */
  readonly bankConflicts: number
}

/** The numbers of one launch of a kernel. */
export interface KernelProfile {
  /** The kernel's name in the PTX. */
  readonly kernel: string
  /** The blocks of the launch in each direction. */
  readonly grid: readonly [x: number, y: number, z: number]
  /** The threads of a block in each direction. */
  readonly block: readonly [x: number, y: number, z: number]
  /** The blocks that a multiprocessor has room for at the same time, by their threads and their shared memory. */
  readonly activeBlocks: number
  /** The part of a multiprocessor's warps that those fill, from 0 to 1; registers, which are not known here, may allow less. */
  readonly occupancy: number
  /** The lines that warps have executed, in their order. */
  readonly lines: readonly LineProfile[]
}
