/** What a launch says of its kernel: faults, which end it, and findings of the checks, with the block and the threads. */

import { type Decoded, describeInstruction } from './decoding.js'
import { type FaultCode, KernelFault, type KernelFinding, type Triple } from './faults.js'
import type { KernelCode } from './kernel-code.js'
import type { LaunchOptions } from './launch-options.js'
import { BLOCK, type LaunchConfiguration } from './layout.js'
import type { Resident } from './resident.js'

export class LaunchReports {
  /** The block that runs now. */
  current: Resident | undefined
  readonly #reported = new Set<string>()

  constructor(
    private readonly code: KernelCode,
    private readonly configuration: LaunchConfiguration,
    private readonly options: LaunchOptions,
  ) {}

  /** Whether somebody gets the findings. */
  get areWanted(): boolean {
    return this.options.report !== undefined
  }

  /** The coordinates in the grid of the block with this number. */
  tripleOf(number: number): Triple {
    const { grid } = this.configuration
    const row = Math.floor(number / grid[0])
    return [number - row * grid[0], row % grid[1], Math.floor(row / grid[1])]
  }

  /** The coordinates in the grid of a resident block. */
  ctaid(resident: Resident | undefined): Triple {
    if (resident === undefined) return [0, 0, 0]
    const at = (resident.cells + BLOCK.ctaid) >> 2
    const [x = 0, y = 0, z = 0] = this.code.memory.words.subarray(at, at + 3)
    return [x, y, z]
  }

  tid(thread: number): Triple {
    const [x, y] = this.configuration.block
    return [thread % x, Math.floor(thread / x) % y, Math.floor(thread / (x * y))]
  }

  fault(code: FaultCode, what: string, site: number, thread: number, address?: number): KernelFault {
    return this.faultAt(code, what, this.code.sites[site], thread, address)
  }

  faultAt(code: FaultCode, what: string, at: Decoded | undefined, thread: number, address?: number): KernelFault {
    const place = {
      kernel: this.code.program.kernel.fn.name,
      block: this.ctaid(this.current),
      thread: this.tid(thread),
      at,
    }
    return new KernelFault(code, what, place, address)
  }

  find(
    kind: KernelFinding['kind'],
    message: string,
    threads: readonly number[],
    at: Decoded | undefined,
    resident: Resident | undefined,
    wayOut = '',
    memory?: KernelFinding['memory'],
  ): void {
    const { report } = this.options
    const line = at?.instruction.line ?? 0
    if (report === undefined || this.#reported.has(`${kind},${line}`)) return
    this.#reported.add(`${kind},${line}`)
    const block = this.ctaid(resident)
    const where = at === undefined ? '' : `, by ${describeInstruction(at.instruction)}`
    report({
      kind,
      message: `${message}. In block (${block.join()})${where}${wayOut}`,
      kernel: this.code.program.kernel.fn.name,
      block,
      threads,
      line,
      source: at?.instruction.source,
      ...(memory === undefined ? {} : { memory }),
    })
  }

  reportEarlyReads(resident: Resident): void {
    if (resident.races === undefined) return
    for (const { address, bytes, thread, at } of resident.races.takeEarlyReads()) {
      const message = `${bytes} bytes at byte ${address} of shared memory are read, and nothing wrote them: they are what a block before left there`
      this.find('uninitialised-read', message, [thread], at, resident)
    }
  }
}
