/**
 * Where things lie. The memory of a machine holds the blocks of the device, and for each launch its parameters, for each
 * resident block its shared memory, and for each thread a frame with its state, its saved registers and its stack.
 */
import type { Triple } from './faults.js'
import { bitsOf, type PtxFunction, type Variable } from './syntax.js'

/** Cells at the start of the memory; no block of the device lies there. */
export const TABLE_POINTER = 16
export const TABLE_COUNT = 20
/** A window that nobody looks through, for accesses that have none of their own. */
export const NO_WINDOW = 64
/** A few bytes that stand for memory outside WebAssembly, while one access is under way. */
export const BOUNCE = 256
export const BOUNCE_END = 1024
/** For a shuffle: by lane, from which one it reads; whether that lies within its segment; and the values of a warp. */
export const ROUTES = 1024
export const SHUFFLED = ROUTES + 256
export const CELLS_END = SHUFFLED + 128
/**
 * Lengths of the rows in the table of blocks: begin (i64), length (i64), where it lies (i32), its shadow (i32), whether all
 * of it counts as written (i32).
 */
export const TABLE_ROW = 32
/**
 * A window of a place that accesses memory: begin (i64), count of accesses that fit (i64), base (i32), shadow (i32), and,
 * behind a word, whether races are looked for there (i32). That for a whole row of threads is as a row of the table of blocks.
 */
export const WINDOW_BYTES = 32

/** What an access does, in the bits of a shadow byte. */
export const SHADOW = { read: 1, written: 2, initialised: 4, atomic: 8 } as const

/** Generic addresses from here on are no memory of the device: no pointer of the simulator is as large. */
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
  /** All blocks are resident at once, so that a barrier over the grid ends. */
  readonly cooperative?: boolean
}

/** Of a launch: grid, block, shared memory, registers of the environment, then the parameters. */
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
  parameters: 64,
} as const

/** What a block has of shared memory besides its own, for headers of CUDA, as on GPUs since sm_80. */
export const RESERVED_SHARED_BYTES = 1024

/** Of a resident block. */
export const BLOCK = {
  ctaid: 0,
  launch: 12,
  shared: 16,
  sharedBytes: 20,
  frames: 24,
  smid: 28,
  /** What was used of the budget, added up by the code (i64). */
  spent: 32,
  bytes: 48,
} as const

/** Blocks are given to them in turns. */
export const MULTIPROCESSORS = 132

/** Of a thread: where it goes on, and where the frame of the function that it is in begins. */
export const FRAME = { state: 0, stack: 4, cells: 8 } as const
export const EXITED = -1
/** What an entry returns when its threads ended in different states. */
export const MIXED = -2

/** Of what a thread may use up before another has its turn. */
export const SLICE = 1 << 17
/** A spin loop uses it up in so many turns. */
export const SPIN_TURNS = 64

export const align = (offset: number, to: number): number => Math.ceil(offset / to) * to

/** Where results and parameters of a function lie in its frame, behind the link to its caller. */
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

/** Where the parameters of a kernel lie. */
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
  /** By register. */
  readonly saved: ReadonlyMap<number, number>
  /** Where the end of the frame, which `alloca` moves, is kept. */
  readonly top: number
  readonly byteLength: number
}

export function frameLayout(fn: PtxFunction, begin: number, saved: Iterable<number>): FrameLayout {
  let end = begin + 8
  const variables = new Map<Variable, number>()
  // Parameters of calls in different braces have the same names, and do not live at the same time.
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
