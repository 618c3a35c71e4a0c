/** The barriers of a block: who arrived, who is missing, and what a barrier that reduces gives its threads. */

import type { Decoded } from './decoding.js'
import type { KernelCode } from './kernel-code.js'
import type { LaunchReports } from './launch-reports.js'
import { EXITED } from './layout.js'
import type { Stop } from './program.js'
import type { Resident } from './resident.js'
import { GONE, OF_CLUSTER, operationOf, READY, type ThreadPlaces, WAITING } from './thread-places.js'

/** The threads that wait at barriers of one number. */
interface BarrierGroup {
  readonly threads: number[]
  readonly count: number | undefined
  readonly stops: Set<Stop>
}

export class Barriers {
  constructor(
    private readonly code: KernelCode,
    private readonly places: ThreadPlaces,
    private readonly reports: LaunchReports,
  ) {}

  /** Notes that the threads of a block have met at a barrier. */
  pass(resident: Resident): void {
    this.reports.reportEarlyReads(resident)
    resident.races?.barrier()
    resident.order?.barrier()
  }

  /** Lets threads go on that wait at a barrier, if enough are there. */
  meet(resident: Resident): boolean {
    const { status } = resident
    const groups = new Map<number, BarrierGroup>()
    let live = 0
    // The group of the thread before is tried first, since most threads wait at the same barrier.
    let [last, lastGroup]: [number, BarrierGroup | undefined] = [EXITED, undefined]
    for (let thread = 0; thread < this.places.threads; thread++) {
      if (status[thread] !== GONE) live++
      if (status[thread] !== WAITING) continue
      const state = this.places.stateOf(resident, thread)
      if (state === last && lastGroup !== undefined) {
        lastGroup.threads.push(thread)
        continue
      }
      const facts = this.places.factsOf(state)
      if (!facts.isBarrier) continue
      const stop = this.places.stop(state)
      const id = facts.barrier ?? this.places.cellValue(resident, thread, stop, 'a') ?? 0
      const count = facts.barrier === undefined ? this.places.cellValue(resident, thread, stop, 'b') : undefined
      const group = groups.get(id) ?? { threads: [], count, stops: new Set() }
      groups.set(id, group)
      group.threads.push(thread)
      group.stops.add(stop)
      if (facts.barrier !== undefined) [last, lastGroup] = [state, group]
    }
    let any = false
    for (const [id, { threads, count, stops }] of groups) {
      if (id === OF_CLUSTER) {
        any = this.#meetInCluster(resident, threads) || any
        continue
      }
      const arrived = resident.arrived.get(id) ?? 0
      const there = count === undefined ? threads.length + arrived : this.#arrivals(resident, threads) + arrived
      if (there < (count ?? live)) continue
      // Warps of different roles meet at a barrier with a number of threads, each from a line of its own. Only a warp must not part there.
      if (stops.size > 1 && (count === undefined || this.#partsWarp(resident, threads))) {
        const lines = [...stops].map(({ at }) => at?.instruction.line).join(' and ')
        const at = [...stops][0]?.at
        this.reports.find(
          'diverging-barrier',
          `Threads wait at barriers of lines ${lines} for each other`,
          threads,
          at,
          resident,
        )
      }
      this.#reduceAtBarrier(resident, threads, stops)
      resident.arrived.delete(id)
      for (const thread of threads) status[thread] = READY
      this.pass(resident)
      any = true
    }
    return any
  }

  /** Whether threads of one warp wait at different places. The threads are in their order. */
  #partsWarp(resident: Resident, threads: readonly number[]): boolean {
    return threads.some((thread, index) => {
      const before = threads[index - 1]
      if (before === undefined || before >> 5 !== thread >> 5) return false
      return this.places.stateOf(resident, before) !== this.places.stateOf(resident, thread)
    })
  }

  /** Lets those of a block's threads go on from the barrier of the cluster for which all others have arrived. */
  #meetInCluster(resident: Resident, threads: readonly number[]): boolean {
    const { cluster, status } = resident
    let any = false
    for (const thread of threads) {
      if (!cluster.haveMet(resident, thread)) continue
      cluster.leave(resident, thread)
      status[thread] = READY
      any = true
    }
    if (any) this.pass(resident)
    return any
  }

  /** Whether a thread of a block waits for other blocks of its cluster. */
  waitsForCluster(resident: Resident): boolean {
    if (resident.cluster.blocks.length === 1) return false
    for (let thread = 0; thread < this.places.threads; thread++) {
      if (resident.status[thread] !== WAITING) continue
      if (this.places.factsOf(this.places.stateOf(resident, thread)).barrier === OF_CLUSTER) return true
    }
    return false
  }

  /** The number of arrivals that these threads count as at a barrier: each arrives together with the threads of its warp that have ended. */
  #arrivals(resident: Resident, threads: readonly number[]): number {
    const warps = new Set(threads.map((thread) => thread >> 5))
    let count = threads.length
    for (const warp of warps) {
      for (let thread = 32 * warp; thread < 32 * warp + 32; thread++) {
        if (thread >= this.places.threads || resident.status[thread] === GONE) count++
      }
    }
    return count
  }

  #reduceAtBarrier(resident: Resident, threads: readonly number[], among: ReadonlySet<Stop>): void {
    if (![...among].some((stop) => operationOf(stop) === 'barrier.red')) return
    const stops = threads.map((thread) => this.places.stop(this.places.stateOf(resident, thread)))
    let count = 0
    for (const [index, thread] of threads.entries()) {
      const stop = stops[index]
      if (stop !== undefined && ((this.places.cellValue(resident, thread, stop, 'c') ?? 0) & 1) !== 0) count++
    }
    for (const [index, thread] of threads.entries()) {
      const stop = stops[index]
      const offset = stop?.cells?.results[0]?.offset
      if (stop === undefined || offset === undefined) continue
      const operation = stop.at?.modifiers['op']
      const value = operation === 'popc' ? count : (operation === 'and' ? count === threads.length : count > 0) ? 1 : 0
      this.code.memory.words[(this.places.frame(resident, thread) + offset) >> 2] = value
    }
  }

  /** Ends the launch with a fault, since threads wait and none can go on. */
  deadlock(resident: Resident): never {
    const places = new Map<string, number[]>()
    let at: Decoded | undefined
    for (let thread = 0; thread < this.places.threads; thread++) {
      if (resident.status[thread] !== WAITING) continue
      const stop = this.places.stop(this.places.stateOf(resident, thread))
      at ??= stop.at
      const key = `'${stop.at?.instruction.opcode}' of line ${stop.at?.instruction.line}`
      const list = places.get(key)
      if (list === undefined) places.set(key, [thread])
      else list.push(thread)
    }
    const gone = resident.status.filter((each) => each === GONE).length
    const where = [...places].map(([key, list]) => `${list.length} threads (${list[0]}, …) at ${key}`).join(', ')
    const message = `The block waits forever: ${where}; ${gone} threads have ended`
    this.reports.find('diverging-barrier', message, [...places.values()].flat(), at, resident)
    throw this.reports.faultAt('CUDA_ERROR_LAUNCH_TIMEOUT', message, at, [...places.values()][0]?.[0] ?? 0)
  }
}
