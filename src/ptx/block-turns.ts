/** The turns of a block: which of its threads go on, together or warp by warp, until all wait for other blocks or have ended. */

import type { Barriers } from './barriers.js'
import { pickFrom } from './launch-options.js'
import { EXITED, MIXED } from './layout.js'
import type { Stop } from './program.js'
import type { Resident } from './resident.js'
import {
  GONE,
  meetsAtBarrier,
  meetsBeyondWarp,
  meetsInWarpgroup,
  operationOf,
  READY,
  type ThreadPlaces,
  WAITING,
  YIELDED,
} from './thread-places.js'
import type { ThreadRunner } from './thread-runner.js'
import type { WarpMeetings } from './warp-meetings.js'
import type { WarpgroupMeetings } from './warpgroup-meetings.js'

export interface TurnOptions {
  /** Picks one of so many warps that could run next; without it they run in order. */
  readonly choose: ((count: number) => number) | undefined
  /** Whether a thread that has used up its turn ends the turn of its block: its loop may wait for other blocks, or a schedule picks the order. */
  readonly mayWait: boolean
}

/** How a turn of a block ended: the block has ended, or others go on, or the launch rests in the middle of the turn. */
export type TurnEnd = 'ended' | 'others' | 'rests'

/** The position in a run of all threads from one stop, at which the launch rests. */
interface RunRest {
  /** The number of the first thread that has still to run, or the index of its warp in the order of a schedule. */
  readonly next: number
  /** The state that the threads before have reached. */
  readonly state: number | undefined
}

/** The position in a round over the warps of a block, at which the launch rests. */
interface RoundRest {
  readonly index: number
  /** The end of the turn of the whole block. */
  readonly end: number
}

/** Threads that go on from one stop together. */
interface Together {
  readonly state: number
  readonly from: number
  readonly to: number
}

export class BlockTurns {
  /** The first threads of the warps of a block; a schedule changes their order. */
  readonly #warpsInOrder: number[] = []
  /** Whether the launch rests in the middle of a turn, with which the next call of `round` goes on. */
  #rests = false
  #run: RunRest | undefined
  #warpsRun: RunRest | undefined
  #round: RoundRest | undefined
  #together: Together | undefined
  /** Whether a thread has done anything in the latest turn but wait in a loop for an mbarrier, or for other threads. */
  moved = false

  constructor(
    private readonly runner: ThreadRunner,
    private readonly places: ThreadPlaces,
    private readonly warpMeetings: WarpMeetings,
    private readonly warpgroups: WarpgroupMeetings,
    private readonly barriers: Barriers,
    private readonly options: TurnOptions,
  ) {
    for (let first = 0; first < places.threads; first += 32) this.#warpsInOrder.push(first)
  }

  /** Lets the threads of a block run for one turn, or until the launch has to rest. */
  round(resident: Resident): TurnEnd {
    const { effort } = this.runner
    if (!this.#rests) {
      effort.beginTurn()
      this.moved = false
    }
    this.#rests = false
    for (let first = true; ; first = false) {
      if (!first && effort.isTurnOver) return 'others'
      if (!first && this.runner.isToRest(resident)) return this.#rest()
      if (resident.uniform === MIXED) {
        const result = this.#mixedRound(resident)
        if (result !== undefined) return result
        continue
      }
      const state = this.#runAll(resident, resident.uniform)
      if (state === undefined) return this.#rest()
      this.#note(resident.uniform, state)
      resident.uniform = state
      if (state === EXITED) return 'ended'
      if (state === MIXED) {
        this.places.separate(resident)
        continue
      }
      const stop = this.places.stop(state)
      if (stop.kind === 'turn' && (this.options.mayWait || effort.isTurnOver)) return 'others'
      if (stop.kind === 'meeting') {
        if (!this.#meetAll(resident, stop)) {
          resident.uniform = MIXED
          this.places.separate(resident)
        } else if (this.options.choose !== undefined && meetsAtBarrier(stop)) return 'others'
      }
    }
  }

  /** Notes whether threads have gone on from one stop to another. */
  #note(from: number, to: number): void {
    if (from !== to || !this.places.onlyWaits(from)) this.moved = true
  }

  #rest(): 'rests' {
    this.#rests = true
    return 'rests'
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
    if (meetsInWarpgroup(stop)) return this.warpgroups.meetAll(resident, stop)
    return this.warpMeetings.meetRange(resident, stop, 0, this.places.threads)
  }

  /**
   * Runs all threads of a block from one stop, in the order of their numbers or, warp by warp, in the order of a schedule. Returns the state that they
   * reach; undefined if the launch has to rest before all have run.
   */
  #runAll(resident: Resident, stop: number): number | undefined {
    const { threads } = this.places
    if (this.options.choose === undefined || threads <= 32) return this.#runRange(resident, stop, 0, threads)
    if (this.#warpsRun === undefined) this.#warps(this.options.choose)
    let { next, state }: RunRest = this.#warpsRun ?? { next: 0, state: undefined }
    this.#warpsRun = undefined
    for (; next < this.#warpsInOrder.length; next++) {
      const from = this.#warpsInOrder[next] ?? 0
      const reached = this.#runRange(resident, stop, from, Math.min(from + 32, threads))
      if (reached === undefined) {
        this.#warpsRun = { next, state }
        return undefined
      }
      state = this.#joined(state, reached)
    }
    return state ?? EXITED
  }

  /** Runs a range of threads from one stop. Returns the state that they reach; undefined if the launch has to rest before all have run. */
  #runRange(resident: Resident, stop: number, first: number, end: number): number | undefined {
    let { next, state }: RunRest = this.#run ?? { next: first, state: undefined }
    this.#run = undefined
    for (;;) {
      const reached = this.runner.run(resident, stop, next, end)
      next = this.runner.next
      if (next >= end && state === undefined) return reached
      state = this.#joined(state, reached)
      if (next >= end) return state
      if (!this.runner.isToRest(resident)) continue
      this.#run = { next, state }
      return undefined
    }
  }

  /** The state of threads of which the first have reached `state` and the others `reached`. Together they count as one stop. */
  #joined(state: number | undefined, reached: number): number {
    if (state === undefined) return reached
    this.runner.effort.stops--
    return state === reached ? reached : MIXED
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

  /** Lets each warp run as far as it can. Returns how the turn ended; undefined if it goes on. */
  #mixedRound(resident: Resident): TurnEnd | undefined {
    const { status } = resident
    const { effort } = this.runner
    let hasRun = false
    for (let progress = true; progress; ) {
      // A warp that the launch rested in has made progress.
      progress = this.#round !== undefined
      const end = this.#round?.end ?? effort.turnEnd
      const warps = this.#round === undefined ? this.#warps(this.options.choose) : this.#warpsInOrder
      for (let index = this.#round?.index ?? 0; index < warps.length; index++) {
        const first = warps[index] ?? 0
        if (this.#round === undefined) effort.beginTurn()
        this.#round = undefined
        const ran = this.#runWarp(resident, first, Math.min(first + 32, this.places.threads))
        if (ran === undefined) {
          this.#round = { index, end }
          return this.#rest()
        }
        if (ran) {
          progress = true
          hasRun = true
        }
      }
      effort.turnEnd = end
      if (this.warpgroups.meet(resident) || this.barriers.meet(resident)) {
        progress = true
        this.moved = true
        if (this.places.unite(resident)) return undefined
        if (this.options.choose !== undefined) return 'others'
      }
      if (progress && effort.isTurnOver) {
        for (let thread = 0; thread < this.places.threads; thread++)
          if (status[thread] === YIELDED) status[thread] = READY
        return 'others'
      }
    }
    let [yielded, waiting] = [0, 0]
    for (let thread = 0; thread < this.places.threads; thread++) {
      if (status[thread] === YIELDED) {
        status[thread] = READY
        yielded++
      } else if (status[thread] === WAITING) waiting++
    }
    // Threads that used up the turn before, when they were not apart yet, have not had one.
    if (yielded > 0 && !hasRun) this.moved = true
    if (yielded > 0) return 'others'
    if (waiting === 0) return 'ended'
    if (this.barriers.waitsForCluster(resident)) return 'others'
    this.barriers.deadlock(resident)
  }

  /** Lets a warp run as far as it can. Returns whether any of it ran; undefined if the launch has to rest before it is as far. */
  #runWarp(resident: Resident, first: number, end: number): boolean | undefined {
    const { status } = resident
    let any = false
    for (;;) {
      let ran = false
      let from = first
      if (this.#together !== undefined) {
        const { state, to } = this.#together
        from = this.#together.from
        this.#together = undefined
        if (!this.#runTogether(resident, { state, from, to }, first, end)) return undefined
        from = to
        ran = true
      }
      for (; from < end; from++) {
        if (status[from] !== READY) continue
        const state = this.places.stateOf(resident, from)
        let to = from + 1
        while (to < end && status[to] === READY && this.places.stateOf(resident, to) === state) to++
        if (!this.#runTogether(resident, { state, from, to }, first, end)) return undefined
        from = to - 1
        ran = true
      }
      if (!ran && !this.warpMeetings.meetInWarp(resident, first, end)) return any
      any = true
      if (this.runner.effort.isTurnOver) {
        for (let thread = first; thread < end; thread++) if (status[thread] === READY) status[thread] = YIELDED
      }
      if (this.runner.isToRest(resident)) return undefined
    }
  }

  /**
   * Runs threads that go on from the same stop for as long as they stay together, and notes where they stopped. Returns false if the launch has to
   * rest before they have stopped.
   */
  #runTogether(resident: Resident, together: Together, first: number, end: number): boolean {
    const { status } = resident
    const { from, to } = together
    for (let stop = together.state; ; ) {
      const at = this.#runRange(resident, stop, from, to)
      if (at === undefined) {
        this.#together = { state: stop, from, to }
        return false
      }
      this.#note(stop, at)
      stop = at
      if (at === MIXED) {
        for (let thread = from; thread < to; thread++) this.places.classify(resident, thread)
        return true
      }
      if (at === EXITED) {
        status.fill(GONE, from, to)
        return true
      }
      const place = this.places.stop(at)
      if (place.kind === 'turn') {
        status.fill(YIELDED, from, to)
        return true
      }
      if (place.kind === 'meeting') {
        const operation = operationOf(place)
        const isWide = meetsBeyondWarp(place)
        if (operation.endsWith('.arrive') || (!isWide && !this.#areAllOfWarp(resident, from, to, first, end))) {
          for (let thread = from; thread < to; thread++) this.places.classify(resident, thread)
          return true
        }
        if (isWide || !this.warpMeetings.meetRange(resident, place, from, to)) {
          status.fill(WAITING, from, to)
          return true
        }
        if (this.runner.effort.isTurnOver) {
          status.fill(YIELDED, from, to)
          return true
        }
      }
      if (!this.runner.isToRest(resident)) continue
      this.#together = { state: at, from, to }
      return false
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
