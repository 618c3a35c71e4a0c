/** The turns of a block: which of its threads go on, together or warp by warp, until all wait for other blocks or have ended. */

import type { Barriers } from './barriers.js'
import { pickFrom } from './launch-options.js'
import { EXITED, MIXED } from './layout.js'
import type { Stop } from './program.js'
import type { Resident } from './resident.js'
import { GONE, meetsAtBarrier, operationOf, READY, type ThreadPlaces, WAITING, YIELDED } from './thread-places.js'
import type { ThreadRunner } from './thread-runner.js'
import type { WarpMeetings } from './warp-meetings.js'

export interface TurnOptions {
  /** Picks one of so many warps that could run next; without it they run in order. */
  readonly choose: ((count: number) => number) | undefined
  /** Whether a thread that has used up its turn ends the turn of its block: its loop may wait for other blocks, or a schedule picks the order. */
  readonly mayWait: boolean
}

export class BlockTurns {
  /** The first threads of the warps of a block; a schedule changes their order. */
  readonly #warpsInOrder: number[] = []

  constructor(
    private readonly runner: ThreadRunner,
    private readonly places: ThreadPlaces,
    private readonly warpMeetings: WarpMeetings,
    private readonly barriers: Barriers,
    private readonly options: TurnOptions,
  ) {
    for (let first = 0; first < places.threads; first += 32) this.#warpsInOrder.push(first)
  }

  /** Lets the threads of a block run for one turn; returns whether all have ended. */
  round(resident: Resident): boolean {
    this.runner.effort.beginTurn()
    for (let first = true; ; first = false) {
      if (!first && this.runner.effort.isTurnOver) return false
      if (resident.uniform === MIXED) {
        const result = this.#mixedRound(resident)
        if (result !== undefined) return result
        continue
      }
      const state = this.#runAll(resident, resident.uniform)
      resident.uniform = state
      if (state === EXITED) return true
      if (state === MIXED) {
        this.places.separate(resident)
        continue
      }
      const stop = this.places.stop(state)
      if (stop.kind === 'turn' && (this.options.mayWait || this.runner.effort.isTurnOver)) return false
      if (stop.kind === 'meeting') {
        if (!this.#meetAll(resident, stop)) {
          resident.uniform = MIXED
          this.places.separate(resident)
        } else if (this.options.choose !== undefined && meetsAtBarrier(stop)) return false
      }
    }
  }

  /** Lets all threads of a block meet at one instruction; false if they have to be looked at one by one. */
  #meetAll(resident: Resident, stop: Stop): boolean {
    const operation = operationOf(stop)
    if (operation === 'barrier') {
      if (stop.cells?.sources.some(({ name, constant }) => name === 'b' || constant === undefined)) return false
      this.barriers.pass(resident)
      return true
    }
    if (operation.startsWith('barrier')) return false
    return this.warpMeetings.meetRange(resident, stop, 0, this.places.threads)
  }

  /** Runs all threads of a block from one stop, in the order of their numbers or, warp by warp, in the order of a schedule. */
  #runAll(resident: Resident, stop: number): number {
    const { choose } = this.options
    if (choose === undefined || this.places.threads <= 32)
      return this.runner.run(resident, stop, 0, this.places.threads)
    let state: number | undefined
    for (const first of this.#warps(choose)) {
      const next = this.runner.run(resident, stop, first, Math.min(first + 32, this.places.threads))
      // Starting from one place counts as one stop of the block, as it does without a schedule.
      if (state !== undefined) this.runner.effort.stops--
      state = state === undefined || state === next ? next : MIXED
    }
    return state ?? EXITED
  }

  /** The first threads of the warps of a block, in the order in which they run. */
  #warps(choose: ((count: number) => number) | undefined): readonly number[] {
    const warps = this.#warpsInOrder
    if (choose === undefined) return warps
    for (let last = warps.length - 1; last > 0; last--) {
      const at = pickFrom(last + 1, choose)
      const picked = warps[at] ?? 0
      warps[at] = warps[last] ?? 0
      warps[last] = picked
    }
    return warps
  }

  /** Lets each warp run as far as it can. Returns true if the block has ended, false if others shall run, and undefined if it goes on. */
  #mixedRound(resident: Resident): boolean | undefined {
    const { status } = resident
    for (let progress = true; progress; ) {
      progress = false
      const end = this.runner.effort.turnEnd
      const warps = this.#warps(this.options.choose)
      for (let index = 0; index < warps.length; index++) {
        const first = warps[index] ?? 0
        this.runner.effort.beginTurn()
        if (this.#runWarp(resident, first, Math.min(first + 32, this.places.threads))) progress = true
      }
      this.runner.effort.turnEnd = end
      if (this.barriers.meet(resident)) {
        progress = true
        if (this.places.unite(resident)) return undefined
        if (this.options.choose !== undefined) return false
      }
      if (progress && this.runner.effort.isTurnOver) {
        for (let thread = 0; thread < this.places.threads; thread++)
          if (status[thread] === YIELDED) status[thread] = READY
        return false
      }
    }
    let [yielded, waiting] = [0, 0]
    for (let thread = 0; thread < this.places.threads; thread++) {
      if (status[thread] === YIELDED) {
        status[thread] = READY
        yielded++
      } else if (status[thread] === WAITING) waiting++
    }
    if (yielded > 0) return false
    if (waiting > 0) this.barriers.deadlock(resident)
    return true
  }

  #runWarp(resident: Resident, first: number, end: number): boolean {
    const { status } = resident
    let any = false
    for (;;) {
      let ran = false
      for (let from = first; from < end; from++) {
        if (status[from] !== READY) continue
        const state = this.places.stateOf(resident, from)
        let to = from + 1
        while (to < end && status[to] === READY && this.places.stateOf(resident, to) === state) to++
        this.#runTogether(resident, state, from, to, first, end)
        from = to - 1
        ran = true
      }
      if (!ran && !this.warpMeetings.meetInWarp(resident, first, end)) return any
      any = true
      if (!this.runner.effort.isTurnOver) continue
      for (let thread = first; thread < end; thread++) if (status[thread] === READY) status[thread] = YIELDED
    }
  }

  /** Runs threads that go on from the same stop for as long as they stay together, and notes where they stopped. */
  #runTogether(resident: Resident, state: number, from: number, to: number, first: number, end: number): void {
    const { status } = resident
    for (let at = this.runner.run(resident, state, from, to); ; at = this.runner.run(resident, at, from, to)) {
      if (at === MIXED) {
        for (let thread = from; thread < to; thread++) this.places.classify(resident, thread)
        return
      }
      if (at === EXITED) {
        status.fill(GONE, from, to)
        return
      }
      const stop = this.places.stop(at)
      if (stop.kind === 'turn') {
        status.fill(YIELDED, from, to)
        return
      }
      if (stop.kind !== 'meeting') continue
      const operation = operationOf(stop)
      const isBarrier = operation.startsWith('barrier')
      if (operation.endsWith('.arrive') || (!isBarrier && !this.#areAllOfWarp(resident, from, to, first, end))) {
        for (let thread = from; thread < to; thread++) this.places.classify(resident, thread)
        return
      }
      if (isBarrier || !this.warpMeetings.meetRange(resident, stop, from, to)) {
        status.fill(WAITING, from, to)
        return
      }
      if (this.runner.effort.isTurnOver) {
        status.fill(YIELDED, from, to)
        return
      }
    }
  }

  /** Whether all other threads of the warp have ended. */
  #areAllOfWarp({ status }: Resident, from: number, to: number, first: number, end: number): boolean {
    for (let thread = first; thread < end; thread++) {
      if ((thread < from || thread >= to) && status[thread] !== GONE) return false
    }
    return true
  }
}
