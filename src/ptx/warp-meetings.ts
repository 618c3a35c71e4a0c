/** The places where lanes of a warp meet: shuffles, votes, reductions, matrices and steps, which a warp carries out when its lanes are there. */

import type { KernelCode } from './kernel-code.js'
import { LaunchMatrices } from './launch-matrices.js'
import type { LaunchReports } from './launch-reports.js'
import type { LaunchRunTime } from './launch-run-time.js'
import { EXITED } from './layout.js'
import { MATRIX_OPERATIONS } from './matrices.js'
import type { Stop } from './program.js'
import type { Resident } from './resident.js'
import { Shuffles } from './shuffles.js'
import { GONE, meetsBeyondWarp, operationOf, READY, type ThreadPlaces, WAITING, YIELDED } from './thread-places.js'
import { Gathering, maskOperand, WARP_OPERATIONS } from './warp-operations.js'

/**
 * The turns for which lanes that meet without a mask wait for lanes of their warp that used up their turn, since those may themselves wait for them.
 */
const MOST_PATIENCE = 16

export class WarpMeetings {
  readonly #gathering: Gathering
  readonly #shuffles: Shuffles
  readonly #matrixMemory: LaunchMatrices

  constructor(
    private readonly code: KernelCode,
    private readonly places: ThreadPlaces,
    private readonly reports: LaunchReports,
    runTime: LaunchRunTime,
  ) {
    this.#gathering = new Gathering(code.memory.words)
    this.#shuffles = new Shuffles(code)
    this.#matrixMemory = new LaunchMatrices(code, reports, runTime)
  }

  /** Lets the threads of whole warps, or all that are left of one warp, meet at an operation of warps; false if a lane is missing. */
  meetRange(resident: Resident, stop: Stop, from: number, to: number): boolean {
    const maskName = stop.at === undefined ? undefined : maskOperand(stop.at)
    if (this.places.comesTogether(stop) && !this.places.haveSameCallers(resident, stop, from, to)) return false
    if (operationOf(stop) === 'shfl' && this.#shuffles.run(resident, stop, maskName, from, to)) return true
    const gathering = this.#gathering
    gathering.words = this.code.memory.words
    const gather = (begin: number): number => {
      gathering.clear()
      const last = Math.min(to, (begin & ~31) + 32)
      for (let thread = begin; thread < last; thread++)
        gathering.add(thread & 31, this.places.frame(resident, thread), stop)
      return last
    }
    for (let begin = from; maskName !== undefined && begin < to; ) {
      begin = gather(begin)
      const all = gathering.mask
      for (const lane of gathering.lanes) if ((gathering.source(lane, maskName) & all) !== all) return false
    }
    for (let begin = from; begin < to; ) {
      const warp = begin & ~31
      begin = gather(begin)
      this.#perform(resident, gathering, warp)
    }
    const { races } = resident
    if (races !== undefined && gathering.operation === 'warp.sync') races.warpBarrier(to - from > 32 ? -1 : from >> 5)
    return true
  }

  #perform(resident: Resident, gathering: Gathering, first: number): void {
    const { decoded, operation } = gathering
    const apply = WARP_OPERATIONS[operation]
    if (apply !== undefined) {
      apply(gathering, (kind, lane, other) => {
        const message = `Lane ${lane} reads from lane ${other}, which does not take part: the value is undefined on a GPU`
        this.reports.find(kind, message, [first + lane], decoded, resident)
      })
      return
    }
    const matrix = MATRIX_OPERATIONS[operation]
    if (matrix === undefined) throw new Error(`Nothing is known of '${operation}'`)
    this.#matrixMemory.warp = first
    matrix(gathering, this.#matrixMemory)
    gathering.words = this.code.memory.words
  }

  /** Lets lanes of a warp that wait for each other go on, if all of them are there. */
  meetInWarp(resident: Resident, first: number, end: number): boolean {
    if (!this.places.waitsInWarp(resident, first, end)) return false
    const { status } = resident
    let [live, yielded, looping] = [0, 0, 0]
    const groups = new Map<string, { mask: number; lanes: number }>()
    const withoutMask = new Map<string, { readonly thread: number; lanes: number }>()
    // The group of the lane before is tried first, since most lanes wait where that one does.
    let [last, lastGroup]: [number, { mask: number; lanes: number } | undefined] = [EXITED, undefined]
    for (let thread = first; thread < end; thread++) {
      const lane = thread - first
      if (status[thread] !== GONE) live |= 1 << lane
      if (status[thread] === YIELDED) {
        yielded++
        if (this.places.stop(this.places.stateOf(resident, thread)).kind === 'turn') looping++
      }
      if (status[thread] !== WAITING) continue
      const state = this.places.stateOf(resident, thread)
      if (state === last && lastGroup !== undefined && ((lastGroup.mask >>> lane) & 1) !== 0) {
        lastGroup.lanes |= 1 << lane
        continue
      }
      const stop = this.places.stop(state)
      if (stop.at === undefined || meetsBeyondWarp(stop)) continue
      const name = maskOperand(stop.at)
      const operation = operationOf(stop)
      if (name === undefined) {
        if (operation in MATRIX_OPERATIONS) {
          // A meeting whose mask is -1 takes all lanes.
          const group = groups.get(operation)
          if (group === undefined) groups.set(operation, { mask: -1, lanes: 1 << lane })
          else group.lanes |= 1 << lane
        } else {
          const key = `${stop.id} ${this.places.comesTogether(stop) ? this.places.callersInWords(resident, thread, stop) : ''}`
          const group = withoutMask.get(key)
          if (group === undefined) withoutMask.set(key, { thread, lanes: 1 << lane })
          else group.lanes |= 1 << lane
        }
        continue
      }
      const { mask: constant } = this.places.factsOf(state)
      const mask = constant ?? this.places.cellValue(resident, thread, stop, name) ?? -1
      if (((mask >>> lane) & 1) === 0) {
        this.reports.find(
          'lane-not-in-mask',
          `Lane ${lane} is not in the mask of its own operation`,
          [thread],
          stop.at,
          resident,
        )
      }
      const key = `${operation},${mask}`
      const group = groups.get(key) ?? { mask: mask | (1 << lane), lanes: 0 }
      groups.set(key, group)
      group.lanes |= 1 << lane
      if (constant !== undefined) [last, lastGroup] = [state, group]
    }
    for (const { mask, lanes } of groups.values()) {
      if ((mask & live & ~lanes) === 0) {
        this.#meetLanes(resident, first, lanes)
        return true
      }
    }
    // The lanes that are behind in program order go first, as on a GPU: those ahead of them wait where the branches come together.
    let chosen: { readonly thread: number; lanes: number } | undefined
    for (const group of withoutMask.values()) {
      if (chosen === undefined || this.places.isBehind(resident, group.thread, chosen.thread)) chosen = group
    }
    if (chosen === undefined) return false
    const { patience } = resident
    const waited = patience[first >> 5] ?? 0
    if (yielded === 0) patience[first >> 5] = 0
    else if (waited < MOST_PATIENCE && !(this.places.goesInStep(resident, chosen.thread) && yielded === looping)) {
      patience[first >> 5] = waited + 1
      return false
    }
    this.#meetLanes(resident, first, chosen.lanes)
    return true
  }

  #meetLanes(resident: Resident, first: number, lanes: number): void {
    const gathering = this.#gathering
    gathering.words = this.code.memory.words
    gathering.clear()
    for (let lane = 0; lane < 32; lane++) {
      if (((lanes >>> lane) & 1) === 0) continue
      const thread = first + lane
      gathering.add(lane, this.places.frame(resident, thread), this.places.stop(this.places.stateOf(resident, thread)))
      resident.status[thread] = READY
    }
    this.#perform(resident, gathering, first)
    if (gathering.operation === 'warp.sync') resident.races?.warpBarrier(first >> 5)
  }
}
