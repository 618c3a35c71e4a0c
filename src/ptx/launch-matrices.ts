import type { Decoded } from './decoding.js'
import type { KernelCode } from './kernel-code.js'
import type { LaunchReports } from './launch-reports.js'
import type { LaunchRunTime } from './launch-run-time.js'
import { SHADOW, SHARED_WINDOW } from './layout.js'
import type { MatrixMemory } from './matrices.js'

export class LaunchMatrices implements MatrixMemory {
  /** The first thread of the warp whose lanes access memory. */
  warp = 0

  constructor(
    private readonly code: KernelCode,
    private readonly reports: LaunchReports,
    private readonly runTime: LaunchRunTime,
  ) {}

  read(lane: number, address: number, bytes: number, decoded: Decoded): number {
    const at = this.#locate(address, bytes, SHADOW.read, lane, decoded)
    const { view } = this.code.memory
    if (bytes === 8) return view.getFloat64(at, true)
    return bytes === 4 ? view.getInt32(at, true) : bytes === 2 ? view.getUint16(at, true) : view.getUint8(at)
  }

  write(lane: number, address: number, bytes: number, value: number, decoded: Decoded): void {
    const at = this.#locate(address, bytes, SHADOW.written, lane, decoded)
    const { view } = this.code.memory
    if (bytes === 8) view.setFloat64(at, value, true)
    else if (bytes === 4) view.setInt32(at, value, true)
    else if (bytes === 2) view.setUint16(at, value, true)
    else view.setUint8(at, value)
    this.runTime.flush()
  }

  #locate(address: number, bytes: number, access: number, lane: number, decoded: Decoded): number {
    const isShared = (decoded.modifiers['space'] ?? '').startsWith('shared')
    const generic = isShared ? address + Number(SHARED_WINDOW) : address
    const { current } = this.reports
    const thread = this.warp + lane
    const frame = current === undefined ? 0 : current.frames + thread * this.code.program.threadBytes
    return this.runTime.translate(generic, bytes, access, frame, thread, decoded)
  }
}
