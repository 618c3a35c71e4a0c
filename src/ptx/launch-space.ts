/** The memory of a launch that is no block of the device, and the races that are looked for in the device's. */

import { type DeviceMemory, ENGINE_BEGIN, OutOfMachineMemory } from './device-memory.js'
import { GlobalRaces } from './global-races.js'
import type { KernelCode } from './kernel-code.js'
import type { LaunchOptions } from './launch-options.js'
import { align, LAUNCH, type LaunchConfiguration, RESERVED_SHARED_BYTES } from './layout.js'

export class LaunchSpace {
  /** The address of the launch's cells (LAUNCH in layout.ts). */
  readonly cells: number
  /** The bytes of shared memory of a block. */
  readonly sharedBytes: number
  /** The part of the shared memory that the kernel itself asked for; the rest is reserved for CUDA. */
  readonly ownSharedBytes: number
  readonly globalRaces: GlobalRaces | undefined
  readonly gridId: bigint
  /** The address of the bytes by which a barrier over the grid works; undefined if the launch is not cooperative. */
  readonly #workspace: number | undefined
  readonly #memory: DeviceMemory
  static #workspaces = 0

  /** @throws OutOfMachineMemory */
  constructor(
    private readonly code: KernelCode,
    configuration: LaunchConfiguration,
    options: LaunchOptions,
  ) {
    const { memory, program } = code
    const { dynamicSharedBytes = 0, cooperative } = configuration
    this.#memory = memory
    this.ownSharedBytes = program.shared.staticBytes + dynamicSharedBytes
    const { usesReserved } = program.shared
    this.sharedBytes = usesReserved ? align(this.ownSharedBytes, 128) + RESERVED_SHARED_BYTES : this.ownSharedBytes
    const { checked, recorded } = code.options
    const looksForRaces = checked && recorded && options.report !== undefined && options.mayWrite !== undefined
    this.globalRaces = looksForRaces ? new GlobalRaces() : undefined
    this.cells = this.allocate(LAUNCH.parameters + program.parameters.byteLength)
    LaunchSpace.#workspaces = (LaunchSpace.#workspaces + 1) % 65536
    this.gridId = options.gridId ?? BigInt(LaunchSpace.#workspaces)
    if (cooperative === true) {
      // Other launches add nothing to the table of blocks, which they leave unchanged.
      this.#workspace = ENGINE_BEGIN + 256 * LaunchSpace.#workspaces
      memory.add(this.#workspace, 256, { initialised: true })
    }
    this.#writeCells(configuration)
  }

  /** @throws OutOfMachineMemory */
  allocate(byteLength: number): number {
    const at = this.#memory.allocate(byteLength)
    if (at === undefined) throw new OutOfMachineMemory(`${byteLength} bytes of a launch`)
    return at
  }

  #writeCells({ grid, block, parameters, dynamicSharedBytes = 0, cluster }: LaunchConfiguration): void {
    const { view, bytes } = this.#memory
    const { shared, parameters: expected } = this.code.program
    const at = this.cells
    for (let axis = 0; axis < 3; axis++) {
      view.setInt32(at + LAUNCH.ntid + 4 * axis, block[axis] ?? 1, true)
      view.setInt32(at + LAUNCH.nctaid + 4 * axis, grid[axis] ?? 1, true)
      const size = cluster?.[axis] ?? 1
      view.setInt32(at + LAUNCH.clusterSize + 4 * axis, size, true)
      view.setInt32(at + LAUNCH.clusters + 4 * axis, (grid[axis] ?? 1) / size, true)
    }
    view.setInt32(at + LAUNCH.hasClusters, cluster === undefined ? 0 : 1, true)
    view.setInt32(at + LAUNCH.clusterBlocks, cluster === undefined ? 1 : cluster[0] * cluster[1] * cluster[2], true)
    view.setInt32(at + LAUNCH.dynamicShared, dynamicSharedBytes, true)
    view.setInt32(at + LAUNCH.totalShared, shared.staticBytes + dynamicSharedBytes, true)
    view.setInt32(at + LAUNCH.reservedShared, this.sharedBytes - RESERVED_SHARED_BYTES, true)
    view.setBigUint64(at + LAUNCH.gridId, this.gridId, true)
    // A barrier over the grid finds its workspace in the environment, and only a cooperative launch has one.
    const workspace = this.#workspace ?? 0
    view.setInt32(at + LAUNCH.envreg1, Math.floor(workspace / 2 ** 32), true)
    view.setUint32(at + LAUNCH.envreg2, workspace % 2 ** 32, true)
    view.setInt32(at + LAUNCH.threads, block[0] * block[1] * block[2], true)
    bytes.set(parameters.subarray(0, expected.byteLength), at + LAUNCH.parameters)
  }

  close(): void {
    this.#memory.release(this.cells)
    if (this.#workspace !== undefined) this.#memory.remove(this.#workspace)
  }
}
