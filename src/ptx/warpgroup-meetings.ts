/** The places where the four warps of a warpgroup meet: `wgmma.mma_async`, which multiplies matrices of all of them. */

import { describeInstruction } from './decoding.js'
import type { KernelCode } from './kernel-code.js'
import type { LaunchReports } from './launch-reports.js'
import type { LaunchRunTime } from './launch-run-time.js'
import type { Stop } from './program.js'
import type { Resident } from './resident.js'
import { GONE, meetsInWarpgroup, READY, type ThreadPlaces, WAITING } from './thread-places.js'
import { hazardsOf } from './warpgroup-hazards.js'
import { WARPGROUP_THREADS, WarpgroupMatrices } from './warpgroup-matrices.js'

/** The numbers of the warps of a warpgroup. */
const WARPS = [0, 1, 2, 3] as const

export class WarpgroupMeetings {
  readonly #matrices: WarpgroupMatrices

  constructor(
    code: KernelCode,
    private readonly places: ThreadPlaces,
    private readonly reports: LaunchReports,
    runTime: LaunchRunTime,
  ) {
    this.#matrices = new WarpgroupMatrices(code, runTime)
  }

  /** Lets all threads of a block meet at one instruction; false if they are no whole warpgroups. */
  meetAll(resident: Resident, stop: Stop): boolean {
    const { threads } = this.places
    if (threads % WARPGROUP_THREADS !== 0) return false
    const stops = WARPS.map(() => stop)
    this.#reportHazards(resident, stop, 0)
    for (let first = 0; first < threads; first += WARPGROUP_THREADS) this.#matrices.multiply(resident, stops, first)
    return true
  }

  /** Lets the warpgroups go on of which all warps wait at the same instruction. Returns whether any did. */
  meet(resident: Resident): boolean {
    let any = false
    for (let first = 0; first < this.places.threads; first += WARPGROUP_THREADS) {
      const warps = WARPS.map((warp) => this.#stopOf(resident, first + 32 * warp))
      const stops = warps.filter((stop) => stop !== 'ended' && stop !== 'elsewhere')
      const [stop] = stops
      if (stop?.at === undefined) continue
      const ended = warps.indexOf('ended')
      if (ended >= 0) this.#failWithout(ended, first, stop)
      const { instruction } = stop.at
      if (stops.length < WARPS.length) continue
      if (stops.some(({ at }) => at?.instruction.opcode !== instruction.opcode)) continue
      this.#reportHazards(resident, stop, first)
      this.#matrices.multiply(resident, stops, first)
      for (let thread = first; thread < first + WARPGROUP_THREADS; thread++) {
        if (resident.status[thread] === WAITING) resident.status[thread] = READY
      }
      any = true
    }
    return any
  }

  /** Reports the registers of a product that its function touches too early. */
  #reportHazards(resident: Resident, { at, fn }: Stop, first: number): void {
    if (at === undefined || !this.reports.areWanted) return
    for (const { kind, product, other, register } of hazardsOf(fn.flow).get(at) ?? []) {
      const of = describeInstruction(other.instruction)
      const message =
        kind === 'early read'
          ? `'${register}' of a product is read by ${of}, and no wgmma.wait_group stands between`
          : `'${register}' of a product is changed by ${of}, and no wgmma.fence stands between`
      this.reports.find('unfinished-product', message, [first], product, resident)
    }
  }

  /** The stop at which a warp waits to multiply: 'ended' if none of its lanes is left, 'elsewhere' if some are not there. */
  #stopOf(resident: Resident, first: number): Stop | 'ended' | 'elsewhere' {
    let state: number | undefined
    let ended = 0
    for (let thread = first; thread < first + 32; thread++) {
      const status = thread < this.places.threads ? resident.status[thread] : GONE
      if (status === GONE) ended++
      else if (status !== WAITING) return 'elsewhere'
      else {
        state ??= this.places.stateOf(resident, thread)
        if (this.places.stateOf(resident, thread) !== state) return 'elsewhere'
      }
    }
    if (state === undefined) return 'ended'
    const stop = this.places.stop(state)
    if (!meetsInWarpgroup(stop)) return 'elsewhere'
    if (ended > 0) {
      const message = `${ended} lanes of a warp have ended, and the others multiply matrices: all lanes of four warps do`
      this.reports.find('diverging-barrier', message, [first], stop.at, resident)
    }
    return stop
  }

  /** Ends the launch, as a GPU does, since a warp has ended that others multiply with. */
  #failWithout(ended: number, first: number, { at }: Stop): never {
    const warp = (first >> 5) + ended
    const missing = 32 * warp < this.places.threads ? `warp ${warp} has ended` : `the block has no warp ${warp}`
    const message = `Four warps multiply matrices together, and ${missing}`
    throw this.reports.faultAt('CUDA_ERROR_ILLEGAL_INSTRUCTION', message, at, first)
  }
}
