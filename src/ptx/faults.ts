/** The faults that end a launch, and the findings of the checks. */
import { type Decoded, describeInstruction } from './decoding.js'
import type { SourceLine } from './syntax.js'

export type Triple = readonly [x: number, y: number, z: number]

/** The driver's results that a kernel can cause. */
export const FAULTS = {
  CUDA_ERROR_ILLEGAL_ADDRESS: 700,
  CUDA_ERROR_LAUNCH_TIMEOUT: 702,
  CUDA_ERROR_ASSERT: 710,
  CUDA_ERROR_HARDWARE_STACK_ERROR: 714,
  CUDA_ERROR_ILLEGAL_INSTRUCTION: 715,
  CUDA_ERROR_MISALIGNED_ADDRESS: 716,
  CUDA_ERROR_INVALID_ADDRESS_SPACE: 717,
  CUDA_ERROR_INVALID_PC: 718,
  CUDA_ERROR_LAUNCH_FAILED: 719,
} as const

export type FaultCode = keyof typeof FAULTS

export interface FaultPlace {
  readonly kernel: string
  /** The index of the block in the grid (ctaid) and of the thread in the block (tid). */
  readonly block: Triple
  readonly thread: Triple
  readonly at: Decoded | undefined
}

/** A fault of a kernel, as the driver would report it, with the place in the code, which the driver does not give. */
export class KernelFault extends Error {
  /** The name of the CUresult. */
  readonly code: FaultCode
  /** The number of the CUresult. */
  readonly number: number
  readonly kernel: string
  readonly block: Triple
  readonly thread: Triple
  /** The line of the PTX, or 0 if it is not known. */
  readonly line: number
  /** The line of the source, if the PTX has `.loc`. */
  readonly source: SourceLine | undefined
  /** The address that was accessed. */
  readonly address: number | undefined

  constructor(code: FaultCode, what: string, place: FaultPlace, address?: number) {
    const { kernel, block, thread, at } = place
    const where = at === undefined ? '' : `, ${describeInstruction(at.instruction)}`
    super(`${what}, in ${kernel}, block (${block.join()}), thread (${thread.join()})${where}`)
    this.code = code
    this.number = FAULTS[code]
    this.kernel = kernel
    this.block = block
    this.thread = thread
    this.line = at?.instruction.line ?? 0
    this.source = at?.instruction.source
    this.address = address
  }

  static {
    KernelFault.prototype.name = 'KernelFault'
  }
}

/** Something that a GPU leaves undefined, and that the checks of a launch found. */
export interface KernelFinding {
  readonly kind:
    | 'shared-memory-race'
    | 'global-memory-race'
    | 'diverging-barrier'
    | 'shuffle-from-absent-lane'
    | 'lane-not-in-mask'
    | 'unfinished-product'
    | 'uninitialised-read'
    | 'unfinished-copy'
    | 'missing-proxy-fence'
    | 'wrong-copy'
    | 'block-that-ended'
  readonly message: string
  readonly kernel: string
  readonly block: Triple
  /** The threads of the block that take part, as numbers within the block. */
  readonly threads: readonly number[]
  readonly line: number
  readonly source: SourceLine | undefined
  /** The bytes of global memory that a read found unwritten. */
  readonly memory?: { readonly address: number; readonly bytes: number }
}
