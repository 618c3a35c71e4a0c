/**
 * The layout of a machine's memory. It holds the blocks of the device, and for each launch its parameters, for each resident block its shared memory,
 * and for each thread a frame with its state, its saved registers and its stack.
 */
import type { Triple } from './faults.js'
import { bitsOf, type PtxFunction, type Variable } from './syntax.js'

/** The offsets of cells at the start of the memory; no block of the device lies there. */
export const TABLE_POINTER = 16
export const TABLE_COUNT = 20
/** A window that no access is compared with, for accesses that have none of their own. */
export const NO_WINDOW = 64
/** The offset of a few bytes that stand for memory outside WebAssembly, while one access is under way. */
export const BOUNCE = 256
export const BOUNCE_END = 1024
/** The offset of a shuffle's routes: the lane from which each lane reads, whether that lies within its segment, and the values of a warp. */
export const ROUTES = 1024
export const SHUFFLED = ROUTES + 256
/** The offset of the operands of an asynchronous copy, while the run time carries it out: so many words of 64 bits. */
export const OPERANDS = SHUFFLED + 128
export const MOST_OPERANDS = 32
const AFTER_OPERANDS = OPERANDS + 8 * MOST_OPERANDS
/** The offsets of what an instruction on a texture or surface is given, in words and in values of up to 8 bytes, and of its results. */
export const TEXTURE_CELLS = {
  coordinates: AFTER_OPERANDS,
  values: AFTER_OPERANDS + 16,
  results: AFTER_OPERANDS + 48,
} as const
/** The table of special-functions.ts. */
export const SPECIAL_FUNCTIONS = { begin: TEXTURE_CELLS.results + 32, bytes: 15_136 } as const
export const CELLS_END = SPECIAL_FUNCTIONS.begin + SPECIAL_FUNCTIONS.bytes
/** The bytes of a row in the table of blocks: begin (i64), length (i64), location (i32), shadow (i32), whether all of it counts as written (i32). */
export const TABLE_ROW = 32
/**
 * The bytes of a window of a place that accesses memory: begin (i64), count of accesses that fit (i64), base (i32), shadow (i32), and, behind a word,
 * whether races are looked for there (i32). The window for a whole row of threads has the layout of a row in the table of blocks.
 */
export const WINDOW_BYTES = 32

/** The bits of a shadow byte, which say what accesses did to the byte. */
export const SHADOW = { read: 1, written: 2, initialised: 4, atomic: 8 } as const

/** The first generic addresses that are not device memory: no pointer of the simulator is as large. */
export const SHARED_WINDOW = 1n << 47n
export const LOCAL_WINDOW = (1n << 47n) + (1n << 33n)
export const PARAMETER_WINDOW = (1n << 47n) + (2n << 33n)
export const FUNCTION_WINDOW = (1n << 47n) + (3n << 33n)

export interface LaunchConfiguration {
  readonly grid: Triple
  readonly block: Triple
  readonly dynamicSharedBytes?: number
  /** The parameters, each at the offset that the kernel's facts give. */
  readonly parameters: Uint8Array
  /** Whether all blocks are resident at once, so that a barrier over the grid ends. */
  readonly cooperative?: boolean
  /** The blocks of a cluster in each direction, of which the grid is a multiple. Default: each block is a cluster of its own. */
  readonly cluster?: Triple | undefined
}

/** The offsets in the cells of a launch: grid, block, shared memory, registers of the environment, then the parameters. */
export const LAUNCH = {
  ntid: 0,
  nctaid: 12,
  dynamicShared: 24,
  totalShared: 28,
  gridId: 32,
  envreg1: 40,
  envreg2: 44,
  threads: 48,
  parameterBytes: 52,
  reservedShared: 56,
  /** Whether the launch has clusters. */
  hasClusters: 60,
  clusterSize: 64,
  clusters: 76,
  clusterBlocks: 88,
  parameters: 128,
} as const

/**
 * The distance of the shared memory of one block of a cluster from that of the next in addresses of the cluster. The memory of rank r lies at
 * (r + 1) · CLUSTER_STRIDE; below the first, addresses are those of the block itself.
 */
export const CLUSTER_STRIDE_BITS = 24
export const CLUSTER_STRIDE = 2 ** CLUSTER_STRIDE_BITS

/** The bytes of shared memory that a block has besides its own, for CUDA's own headers, as on GPUs since sm_80. */
export const RESERVED_SHARED_BYTES = 1024

/** The offsets in the cells of a resident block. */
export const BLOCK = {
  ctaid: 0,
  launch: 12,
  shared: 16,
  sharedBytes: 20,
  frames: 24,
  smid: 28,
  /** The budget used so far, which the code adds up (i64). */
  spent: 32,
  /** The budget after which threads that have not run yet wait for the next call (i64), and the first of those threads. */
  limit: 40,
  next: 48,
  /** The budget that a thread used which went on by itself (i64). */
  handed: 56,
  bytes: 64,
} as const

/** The number of simulated multiprocessors, to which blocks are given in turns. */
export const MULTIPROCESSORS = 132

/** The offsets in the frame of a thread: the stop at which it goes on, and the location of the frame of the function that it is in. */
export const FRAME = { state: 0, stack: 4, cells: 8 } as const
export const EXITED = -1
/** The value that an entry returns when its threads ended in different states. */
export const MIXED = -2

/** The budget that a thread may use up before another has its turn. */
export const SLICE = 1 << 17
/** The number of turns of a spin loop that use up a thread's budget. */
export const SPIN_TURNS = 64

export const align = (offset: number, to: number): number => Math.ceil(offset / to) * to

/** The offsets of a function's results and parameters in its frame, behind the link to its caller. */
export interface CallLayout {
  readonly offsets: ReadonlyMap<string, number>
  readonly results: readonly { readonly offset: number; readonly variable: Variable }[]
  readonly parameters: readonly { readonly offset: number; readonly variable: Variable }[]
  readonly end: number
}

const LINK_BYTES = 16

export function callLayout(fn: Pick<PtxFunction, 'results' | 'parameters'>): CallLayout {
  let end = LINK_BYTES
  const offsets = new Map<string, number>()
  const place = (variable: Variable): { offset: number; variable: Variable } => {
    const offset = align(end, Math.max(variable.alignment, 1))
    end = offset + variable.byteLength
    offsets.set(variable.name, offset)
    return { offset, variable }
  }
  const results = fn.results.map(place)
  const parameters = fn.parameters.map(place)
  return { offsets, results, parameters, end: align(end, 16) }
}

/** The offsets of a kernel's parameters. */
export interface ParameterLayout {
  readonly offsets: ReadonlyMap<Variable, number>
  readonly byteLength: number
}

export function parameterLayout(parameters: readonly Variable[]): ParameterLayout {
  let end = 0
  const offsets = new Map<Variable, number>()
  for (const each of parameters) {
    const offset = align(end, Math.max(each.alignment, 1))
    offsets.set(each, offset)
    end = offset + each.byteLength
  }
  return { offsets, byteLength: end }
}

/** The frame of a function: variables of its own, parameters of the calls it makes, and saved registers. */
export interface FrameLayout {
  readonly variables: ReadonlyMap<Variable, number>
  /** The offsets of saved registers; keys are the registers' ids. */
  readonly saved: ReadonlyMap<number, number>
  /** The offset of the word that holds the end of the frame, which `alloca` moves. */
  readonly top: number
  readonly byteLength: number
}

export function frameLayout(fn: PtxFunction, begin: number, saved: Iterable<number>): FrameLayout {
  let end = begin + 8
  const variables = new Map<Variable, number>()
  // Parameters of calls in different braces may have the same name; they share their bytes, as they do not live at the same time.
  const byName = new Map<string, { offset: number; byteLength: number }>()
  for (const each of fn.variables) {
    if (each.space !== 'local' && each.space !== 'param') continue
    const known = byName.get(each.name)
    if (each.space === 'param' && known !== undefined && known.byteLength >= each.byteLength) {
      variables.set(each, known.offset)
      continue
    }
    const offset = align(end, Math.max(each.alignment, 8))
    end = offset + each.byteLength
    variables.set(each, offset)
    if (each.space === 'param') byName.set(each.name, { offset, byteLength: each.byteLength })
  }
  end = align(end, 8)
  const slots = new Map<number, number>()
  for (const id of saved) {
    const bytes = Math.max(32, bitsOf(fn.registers[id]?.type ?? 'b64')) / 8
    end = align(end, Math.min(bytes, 8))
    slots.set(id, end)
    end += bytes
  }
  return { variables, saved: slots, top: begin, byteLength: align(end, 16) }
}
