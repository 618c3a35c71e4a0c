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

/** A budget that no part of a launch uses up. */
const NO_LIMIT = 2 ** 53

export class ThreadRunner {
  readonly #costs: number[] = []
  /** Whether blocks may have a limit of an earlier part of the launch. */
  #hasRested = false
  /** The first thread that the latest call of `run` did not run. */
  next = 0

  constructor(
    private readonly code: KernelCode,
    private readonly places: ThreadPlaces,
    private readonly runTime: LaunchRunTime,
    readonly effort: LaunchEffort,
  ) {}

  /**
   * Runs the threads `from` to `to` (exclusive) from a stop until each has reached its next one. If the launch has to rest, the last of them do not run:
   * `next` says which. Returns that stop if all threads reached the same,
   * EXITED if all have ended, or MIXED: then each thread's frame has its own.
   */
  run(resident: Resident, stop: number, from: number, to: number): number {
    const cost = this.costOf(stop)
    const rests = this.effort.restAt !== Number.POSITIVE_INFINITY
    const last = rests ? Math.min(to, from + this.#portion(resident, cost)) : to
    this.effort.add(cost * (last - from), 1)
    if (rests || this.#hasRested) this.#limit(resident)
    const state = this.code.entry(stop)(resident.cells, from, last)
    this.next = last
    // Code without stops has no loops, and runs all threads.
    if (rests && this.code.program.stopsThreads) {
      this.next = this.code.memory.words[(resident.cells + BLOCK.next) >> 2] ?? last
      this.runTime.instructions -= cost * (last - this.next)
    }
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

  /** Whether the launch has to rest now, for others to run. */
  isToRest(resident: Resident): boolean {
    const { restAt } = this.effort
    return restAt !== Number.POSITIVE_INFINITY && this.#effortSoFar(resident) >= restAt
  }

  /** The number of threads for which there is room before the launch has to rest, if none of them loops; at least one. */
  #portion(resident: Resident, cost: number): number {
    return Math.max(1, Math.ceil((this.effort.restAt - this.#effortSoFar(resident)) / cost))
  }

  /** Lets the code begin no further thread once its loops have used up the budget. */
  #limit(resident: Resident): void {
    this.#hasRested = true
    const left = Math.min(NO_LIMIT, Math.max(0, this.effort.restAt - this.#effortSoFar(resident)))
    const { words } = this.code.memory
    const at = (resident.cells + BLOCK.limit) >> 2
    words[at] = left % 2 ** 32
    words[at + 1] = Math.floor(left / 2 ** 32)
  }

  #effortSoFar(resident: Resident): number {
    return this.effort.spent + this.unaccounted(resident)
  }

  /** The instructions that compiled code has counted in the block's cells. */
  unaccounted({ cells }: Resident): number {
    const { words } = this.code.memory
    const at = (cells + BLOCK.spent) >> 2
    return (words[at] ?? 0) + (words[at + 1] ?? 0) * 2 ** 32 + ((words[at] ?? 0) < 0 ? 2 ** 32 : 0)
  }

  /** Adds the instructions that compiled code has counted in the block's cells to those of the launch. */
  account(resident: Resident): void {
    const spent = this.unaccounted(resident)
    if (spent === 0) return
    const { words } = this.code.memory
    const at = (resident.cells + BLOCK.spent) >> 2
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
