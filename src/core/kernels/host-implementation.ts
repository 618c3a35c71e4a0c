/**
 * Runs the host implementation of a kernel as a GPU runs the kernel: block by block, thread by thread, together at each
 * barrier.
 */
import { outOfRange } from '../../foundation/base/errors.js'

/** The number of threads or blocks in each direction. */
export type Extent3 = readonly [x: number, y: number, z: number]

/** The place of a thread or block, or the number of them in each direction. */
export interface Index3 {
  /** The first dimension, which varies fastest. */
  readonly x: number
  /** The second dimension. If the launch has none, a place is 0 and a size is 1. */
  readonly y: number
  /** The third dimension. If the launch has none, a place is 0 and a size is 1. */
  readonly z: number
}

/** A thread of a launch, with CUDA's threadIdx, blockIdx, blockDim and gridDim. */
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
  /** The block's dynamic shared memory. It begins with zeros, which no GPU guarantees. */
  readonly shared: ArrayBuffer
  /**
   * `cudaGraphSetConditional(handle, value)`: sets the condition by which nodes of the graph decide that this kernel is in.
   * `handle` is the argument for the condition, and `value` an integer of 32 bits, without a sign.
   */
  readonly setConditional: (handle: bigint, value: number) => void
}

/** A launch as `simulateGrid` sees it: all of its threads at once. */
export interface SimulatedGrid {
  /** Blocks of the grid. */
  readonly gridDim: Extent3
  /** Threads of a block. */
  readonly blockDim: Extent3
  /** Bytes of dynamic shared memory of each block. */
  readonly sharedMemory: number
  /** Sets the value of a condition, as `SimulatedThread.setConditional` does. */
  readonly setConditional: (handle: bigint, value: number) => void
}

export function runThreads(
  grid: Extent3,
  block: Extent3,
  sharedMemory: number,
  setConditional: SimulatedThread['setConditional'],
  run: (thread: SimulatedThread) => unknown,
): void {
  const gridDim = indexOf(grid)
  const blockDim = indexOf(block)
  for (const blockIdx of indices(grid)) {
    const shared = new ArrayBuffer(sharedMemory)
    let waiting: Iterator<unknown>[] = []
    for (const threadIdx of indices(block)) {
      const globalX = blockIdx.x * blockDim.x + threadIdx.x
      const result = run({ threadIdx, blockIdx, blockDim, gridDim, globalX, shared, setConditional })
      if (isIterator(result)) waiting.push(result)
    }
    // Each thread runs to its next barrier before any passes it.
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

const isIterator = (value: unknown): value is Iterator<unknown> =>
  typeof value === 'object' && value !== null && typeof Reflect.get(value, 'next') === 'function'

type View = Readonly<Record<number, unknown>> & { readonly length: number }

/**
 * The number of threads without an element that get checked views, in the order of `globalX`. A GPU runs whole blocks, and a
 * common mistake is that the last threads of the last block do not return early.
 */
export const CHECKED_THREADS = 1024

/**
 * The arguments of a host implementation with views that throw for an index beyond them, where typed arrays return undefined
 * and drop what is written. They are slow. `names` are those of the arguments.
 */
export function checkedViews<Arguments extends readonly unknown[]>(
  kernel: string,
  args: Arguments,
  names: readonly string[],
): Arguments {
  return args.map((value, index) =>
    ArrayBuffer.isView(value) ? checked(value as unknown as View, kernel, names[index] ?? '') : value,
  ) as unknown as Arguments
}

function checked(view: View, kernel: string, name: string): View {
  const check = (key: string | symbol, does: string): void => {
    if (typeof key === 'symbol') return
    const index = Number(key)
    if (String(index) !== key || (Number.isInteger(index) && index >= 0 && index < view.length)) return
    const wayOut = 'a thread that has no element has to return early: if (globalX >= n) return'
    throw outOfRange(
      `The element of ${name}, that kernel '${kernel}' ${does}`,
      `from 0 to ${view.length - 1} (${wayOut})`,
      index,
    )
  }
  return new Proxy(view, {
    get(target, key) {
      check(key, 'reads')
      const value: unknown = Reflect.get(target, key, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
    set(target, key, value) {
      check(key, 'writes')
      return Reflect.set(target, key, value, target)
    },
  })
}
