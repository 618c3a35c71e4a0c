/**
 * Runs threads of a block from a stop to their next stops: the only file of a launch that calls the compiled code of the kernel. Nothing else
 * depends on how the code runs several threads, one after the other or as lanes of one instruction.
 */

import { regionFrom } from './control-flow.js'
import type { KernelCode } from './kernel-code.js'
import type { LaunchEffort } from './launch-effort.js'
import type { LaunchRunTime } from './launch-run-time.js'
import { BLOCK, EXITED, MIXED } from './layout.js'
import type { Resident } from './resident.js'
import type { ThreadPlaces } from './thread-places.js'

export class ThreadRunner {
  readonly #costs: number[] = []

  constructor(
    private readonly code: KernelCode,
    private readonly places: ThreadPlaces,
    private readonly runTime: LaunchRunTime,
    readonly effort: LaunchEffort,
  ) {}

  /**
   * Runs the threads `from` to `to` (exclusive) from a stop until each has reached its next one. Returns that stop if all threads reached the same,
   * EXITED if all have ended, or MIXED: then each thread's frame has its own.
   */
  run(resident: Resident, stop: number, from: number, to: number): number {
    this.effort.add(this.costOf(stop) * (to - from), 1)
    const state = this.code.entry(stop)(resident.cells, from, to)
    // Between meetings it is enough to add up what a whole round took: a loop that used up its turn must count at once.
    if (state === MIXED || (state !== EXITED && this.code.program.stops[state]?.kind === 'turn')) this.account(resident)
    this.runTime.settleWrite()
    return state
  }

  /** Runs this block and those behind it, `count` together, each from its start to its end, in one call of compiled code. */
  runBlocks(resident: Resident, count: number): void {
    const { threads } = this.places
    this.effort.add(count * this.costOf(0) * threads, count)
    this.code.blocks(resident.cells, threads, count)
    this.account(resident)
  }

  /** Adds the instructions that compiled code has counted in the block's cells to those of the launch. */
  account({ cells }: Resident): void {
    const { words } = this.code.memory
    const at = (cells + BLOCK.spent) >> 2
    const spent = (words[at] ?? 0) + (words[at + 1] ?? 0) * 2 ** 32 + ((words[at] ?? 0) < 0 ? 2 ** 32 : 0)
    if (spent === 0) return
    words[at] = 0
    words[at + 1] = 0
    this.runTime.instructions += spent
  }

  /** The number of instructions from a stop up to the next stops, as if every branch were taken once. */
  costOf(stop: number): number {
    const known = this.#costs[stop]
    if (known !== undefined) return known
    const { fn, block } = this.places.stop(stop)
    const { order, loops } = regionFrom(fn.flow, block)
    // Instructions in loops are left out here: the code counts them at each turn.
    const first = order.findIndex((id) => loops.has(id))
    const counted = first < 0 ? order : order.slice(0, Math.max(1, first))
    let cost = 1
    for (const id of counted) cost += fn.flow.blocks[id]?.instructions.length ?? 0
    this.#costs[stop] = cost
    return cost
  }
}
