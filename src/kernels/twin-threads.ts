/** Runs a kernel's twin as a GPU runs a kernel: block by block, thread by thread, together at each barrier. */

/** The number of threads or blocks in each direction. */
export type Extent3 = readonly [x: number, y: number, z: number]

/** The place of a thread or block, or the number of them in each direction. */
export interface Index3 {
  /** The first dimension: the one that counts fastest. */
  readonly x: number
  /** The second. Where the launch has none, a place is 0 and a size is 1. */
  readonly y: number
  /** The third, likewise. */
  readonly z: number
}

/** One thread, with CUDA's threadIdx, blockIdx, blockDim and gridDim. */
export interface SimulatedThread {
  /** The thread's place in its block. */
  readonly threadIdx: Index3
  /** The block's place in the grid. */
  readonly blockIdx: Index3
  /** Threads of a block. */
  readonly blockDim: Index3
  /** Blocks of the grid. */
  readonly gridDim: Index3
  /** `blockIdx.x * blockDim.x + threadIdx.x`: the index of the thread in a launch of one dimension. */
  readonly globalX: number
  /** The block's dynamic shared memory, of the launch's length. It begins with zeros, which no GPU promises. */
  readonly shared: ArrayBuffer
}

/** A launch as `simulateGrid` sees it: all of its threads at once. */
export interface SimulatedGrid {
  /** Blocks of the grid. */
  readonly gridDim: Extent3
  /** Threads of a block. */
  readonly blockDim: Extent3
  /** Bytes of dynamic shared memory of each block. */
  readonly sharedMemory: number
}

export function runThreads(
  grid: Extent3,
  block: Extent3,
  sharedMemory: number,
  run: (thread: SimulatedThread) => unknown,
): void {
  const gridDim = indexOf(grid)
  const blockDim = indexOf(block)
  for (const blockIdx of indices(grid)) {
    const shared = new ArrayBuffer(sharedMemory)
    let waiting: Iterator<unknown>[] = []
    for (const threadIdx of indices(block)) {
      const globalX = blockIdx.x * blockDim.x + threadIdx.x
      const result = run({ threadIdx, blockIdx, blockDim, gridDim, globalX, shared })
      if (isIterator(result)) waiting.push(result)
    }
    // Each goes on to its next barrier before any passes it.
    while (waiting.length > 0) waiting = waiting.filter((thread) => thread.next().done !== true)
  }
}

const indexOf = ([x, y, z]: Extent3): Index3 => ({ x, y, z })

function* indices([sizeX, sizeY, sizeZ]: Extent3): Generator<Index3> {
  for (let z = 0; z < sizeZ; z += 1) {
    for (let y = 0; y < sizeY; y += 1) {
      for (let x = 0; x < sizeX; x += 1) yield { x, y, z }
    }
  }
}

function isIterator(value: unknown): value is Iterator<unknown> {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, 'next') === 'function'
}
