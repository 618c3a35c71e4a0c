/** Shared memory as the blocks of a cluster address it: their own, and that of each other. */
import type { Decoded } from './decoding.js'
import type { LaunchReports } from './launch-reports.js'
import type { LaunchSpace } from './launch-space.js'
import { CLUSTER_STRIDE, SHADOW, SHARED_WINDOW } from './layout.js'
import type { Resident } from './resident.js'

/** The bytes from which on an address lies in the shared memory of no block: to access it is another fault. */
const WINDOW_OF_BLOCK = 2 ** 18 - 1024

/** Bytes of shared memory. */
export interface SharedPlace {
  /** The location in WebAssembly's memory. */
  readonly location: number
  readonly owner: Resident
  /** The offset within the shared memory of the owner. */
  readonly offset: number
}

export class ClusterMemory {
  constructor(
    private readonly space: LaunchSpace,
    private readonly reports: LaunchReports,
  ) {}

  /**
   * The place of bytes by their generic address; undefined if the block itself has no such bytes.
   * @throws KernelFault for an address of another block that is wrong
   */
  place(
    address: number,
    bytes: number,
    access: number,
    at: Decoded | undefined,
    thread: number,
  ): SharedPlace | undefined {
    const { current } = this.reports
    const distance = address - Number(SHARED_WINDOW)
    if (current === undefined) return undefined
    const offset = distance % CLUSTER_STRIDE
    const isOwn = distance < CLUSTER_STRIDE
    const rank = isOwn ? current.rank : Math.floor(distance / CLUSTER_STRIDE) - 1
    const fits = offset + bytes <= this.space.sharedBytes
    if (isOwn) return fits ? { location: current.shared + offset, owner: current, offset } : undefined
    const does = (access & SHADOW.written) === 0 ? 'reads' : 'writes'
    const what = `An access ${does} ${bytes} bytes at byte ${offset} of the shared memory of the block with rank ${rank}`
    const fault = (
      code: 'CUDA_ERROR_ILLEGAL_ADDRESS' | 'CUDA_ERROR_ILLEGAL_INSTRUCTION' | 'CUDA_ERROR_LAUNCH_FAILED',
      why: string,
    ) => this.reports.faultAt(code, `${what}, ${why}`, at, thread, address)
    if (at !== undefined && isForOwnBlock(at))
      throw fault(
        'CUDA_ERROR_ILLEGAL_INSTRUCTION',
        'and the instruction is for that of its own block: write .shared::cluster',
      )
    const { blocks } = current.cluster
    const owner = blocks[rank]
    if (owner === undefined) throw fault('CUDA_ERROR_LAUNCH_FAILED', `and the cluster has ${blocks.length} blocks`)
    if (!fits) {
      const code = offset >= WINDOW_OF_BLOCK ? 'CUDA_ERROR_ILLEGAL_ADDRESS' : 'CUDA_ERROR_LAUNCH_FAILED'
      throw fault(code, `which has ${this.space.sharedBytes} bytes`)
    }
    if (owner !== current && current.cluster.hasEnded(owner)) {
      const why = 'which has ended: let all blocks of the cluster meet at barrier.cluster before the first of them ends'
      this.reports.find('block-that-ended', `${what}, ${why}`, [thread], at, current)
      // A GPU drops what is written to a block that has ended.
      if ((access & SHADOW.read) !== 0) throw fault('CUDA_ERROR_LAUNCH_FAILED', why)
    }
    return { location: owner.shared + offset, owner, offset }
  }
}

/** Whether an instruction is for shared memory of the block that runs it. */
function isForOwnBlock({ modifiers, form }: Decoded): boolean {
  return /^shared(?:::cta)?$/.test(modifiers['space'] ?? '') && form.opcode !== 'fence'
}
