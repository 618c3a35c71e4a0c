/** The places of a block's threads: the stop that each goes on from, what it waits for there, and the values that it brought. */

import type { DeviceMemory } from './device-memory.js'
import type { KernelCode } from './kernel-code.js'
import { EXITED, FRAME } from './layout.js'
import { MATRIX_OPERATIONS } from './matrices.js'
import type { PreparedFunction, Stop } from './program.js'
import { programOrder } from './program-order.js'
import type { Resident } from './resident.js'
import { GONE, READY, WAITING, YIELDED } from './thread-status.js'
import { isWaitingLoop } from './waiting-loops.js'
import { maskOperand } from './warp-operations.js'

export { GONE, READY, WAITING, YIELDED }

/** The number of the barrier of a cluster, which a block has beside its own. */
export const OF_CLUSTER = -1

/** The properties of a stop that decide what its threads wait for. */
interface StopFacts {
  readonly status: number
  readonly isBarrier: boolean
  /** Whether threads of several warps meet there. */
  readonly meetsBeyondWarp: boolean
  /** Whether the thread arrives at a barrier and goes on without waiting. */
  readonly arrives: boolean
  /** The number of the barrier, if it is a constant and the barrier takes all threads of the block. */
  readonly barrier: number | undefined
  /** The mask of an operation of warps, if it is a constant. */
  readonly mask: number | undefined
}

export function meetsAtBarrier(stop: Stop): boolean {
  return operationOf(stop).startsWith('barrier')
}

/** Whether the warps of a warpgroup meet at a stop. */
export function meetsInWarpgroup(stop: Stop): boolean {
  return operationOf(stop).startsWith('warpgroup')
}

/** Whether threads of several warps meet at a stop. */
export function meetsBeyondWarp(stop: Stop): boolean {
  return meetsAtBarrier(stop) || meetsInWarpgroup(stop)
}

/** The operation at which threads meet at a stop; an empty text if it is no meeting. */
export function operationOf({ at }: Stop): string {
  const meaning = at?.form.meaning
  return meaning?.kind === 'meeting' ? meaning.operation : ''
}

export class ThreadPlaces {
  readonly #memory: DeviceMemory
  readonly #stopFacts: (StopFacts | undefined)[] = []

  constructor(
    private readonly code: KernelCode,
    /** The number of threads of a block. */
    readonly threads: number,
  ) {
    this.#memory = code.memory
  }

  stop(id: number): Stop {
    const stop = this.code.program.stops[id]
    if (stop === undefined) throw new Error(`There is no stop ${id}`)
    return stop
  }

  frame(resident: Resident, thread: number): number {
    return resident.frames + thread * this.code.program.threadBytes
  }

  stateOf(resident: Resident, thread: number): number {
    return this.#memory.words[(this.frame(resident, thread) + FRAME.state) >> 2] ?? EXITED
  }

  /** Whether a stop is an operation without a mask inside a function, where lanes meet only if they came by the same calls. */
  comesTogether(stop: Stop): boolean {
    const { at, fn } = stop
    const operation = operationOf(stop)
    return at !== undefined && !fn.fn.entry && maskOperand(at) === undefined && !(operation in MATRIX_OPERATIONS)
  }

  /** The calls by which a thread came into the function that it is in, the innermost first. */
  #callersOf(resident: Resident, thread: number, { fn }: Stop): readonly Stop[] {
    const { words } = this.#memory
    let link = words[(this.frame(resident, thread) + FRAME.stack) >>> 2] ?? 0
    const callers: Stop[] = []
    for (let at = fn; !at.fn.entry; ) {
      const caller = this.stop(words[link >>> 2] ?? 0)
      callers.push(caller)
      link = words[(link >> 2) + 1] ?? 0
      at = caller.fn
    }
    return callers
  }

  callersInWords(resident: Resident, thread: number, stop: Stop): string {
    return this.#callersOf(resident, thread, stop)
      .map(({ id }) => id)
      .join(' ')
  }

  readonly #orders = new Map<PreparedFunction, Int32Array>()

  /** The position of a stop in the program order of its function. */
  #placeOf({ fn, block }: Stop): number {
    let order = this.#orders.get(fn)
    if (order === undefined) {
      order = programOrder(fn.flow)
      this.#orders.set(fn, order)
    }
    return order[block] ?? 0
  }

  /** Whether a thread is behind another one in program order: in the kernel, or in the functions that both have called. */
  isBehind(resident: Resident, thread: number, other: number): boolean {
    const placesOf = (each: number): readonly number[] => {
      const stop = this.stop(this.stateOf(resident, each))
      return [stop, ...this.#callersOf(resident, each, stop)].reverse().map((at) => this.#placeOf(at))
    }
    const [own, others] = [placesOf(thread), placesOf(other)]
    for (const [depth, place] of own.entries()) {
      const against = others[depth]
      if (against === undefined) return true
      if (place !== against) return place < against
    }
    return false
  }

  haveSameCallers(resident: Resident, stop: Stop, from: number, to: number): boolean {
    const callers = this.callersInWords(resident, from, stop)
    for (let thread = from + 1; thread < to; thread++) {
      if (this.callersInWords(resident, thread, stop) !== callers) return false
    }
    return true
  }

  cellValue(resident: Resident, thread: number, stop: Stop, name: string): number | undefined {
    const cell = stop.cells?.sources.find((each) => each.name === name)
    if (cell === undefined) return undefined
    if (cell.offset === undefined) return Number(BigInt.asIntN(32, cell.constant ?? 0n))
    return this.#memory.words[(this.frame(resident, thread) + cell.offset) >> 2]
  }

  separate(resident: Resident): void {
    const { words } = this.#memory
    const stride = this.code.program.threadBytes >> 2
    const { status } = resident
    let at = (resident.frames + FRAME.state) >> 2
    for (let thread = 0; thread < this.threads; thread++, at += stride) {
      if (words[at] === EXITED) status[thread] = GONE
      else this.classify(resident, thread)
    }
  }

  classify(resident: Resident, thread: number): void {
    const state = this.stateOf(resident, thread)
    if (state === EXITED) {
      resident.status[thread] = GONE
      return
    }
    const { status, arrives } = this.factsOf(state)
    resident.status[thread] = status
    if (!arrives) return
    const stop = this.stop(state)
    if (operationOf(stop) === 'barrier.cluster.arrive') {
      resident.cluster.arrive(resident, thread)
      return
    }
    const id = this.cellValue(resident, thread, stop, 'a') ?? 0
    resident.arrived.set(id, (resident.arrived.get(id) ?? 0) + 1)
  }

  factsOf(state: number): StopFacts {
    const known = this.#stopFacts[state]
    if (known !== undefined) return known
    const stop = this.stop(state)
    const operation = stop.kind === 'meeting' ? operationOf(stop) : ''
    const arrives = operation.endsWith('.arrive')
    const isBarrier = stop.kind === 'meeting' && meetsAtBarrier(stop)
    const status = stop.kind === 'turn' ? YIELDED : stop.kind === 'meeting' && !arrives ? WAITING : READY
    const cells = stop.cells?.sources ?? []
    const number = cells.find(({ name }) => name === 'a')?.constant ?? 0n
    const isPlain = isBarrier && cells.every(({ name, offset }) => name === 'a' && offset === undefined)
    const isOfCluster = operation === 'barrier.cluster.wait'
    const barrier = isOfCluster ? OF_CLUSTER : isPlain ? Number(BigInt.asIntN(32, number)) : undefined
    const maskName = stop.kind === 'meeting' && stop.at !== undefined ? maskOperand(stop.at) : undefined
    const constant = cells.find(({ name }) => maskName !== undefined && name === maskName)?.constant
    const mask = constant === undefined ? undefined : Number(BigInt.asIntN(32, constant))
    const facts = { status, isBarrier, meetsBeyondWarp: isBarrier || meetsInWarpgroup(stop), arrives, barrier, mask }
    this.#stopFacts[state] = facts
    return facts
  }

  readonly #waitingLoops: (boolean | undefined)[] = []

  /** Whether a thread at a stop does nothing but wait for an mbarrier. */
  onlyWaits(state: number): boolean {
    const known = this.#waitingLoops[state]
    if (known !== undefined) return known
    const waits = state >= 0 && isWaitingLoop(this.stop(state))
    if (state >= 0) this.#waitingLoops[state] = waits
    return waits
  }

  /** Whether all threads of the block can go on from the same stop; if so, they do so together. */
  unite(resident: Resident): boolean {
    const state = this.stateOf(resident, 0)
    for (let thread = 0; thread < this.threads; thread++) {
      if (resident.status[thread] !== READY || this.stateOf(resident, thread) !== state) return false
    }
    resident.uniform = state
    return true
  }

  /** Whether a lane only goes in step: it waits for no lanes in long loops, which may wait for it, such as for a lock that it holds. */
  goesInStep(resident: Resident, thread: number): boolean {
    return operationOf(this.stop(this.stateOf(resident, thread))) === 'step'
  }

  /** Whether a lane waits for others of its warp. */
  waitsInWarp(resident: Resident, first: number, end: number): boolean {
    for (let thread = first; thread < end; thread++) {
      if (resident.status[thread] !== WAITING) continue
      if (!this.factsOf(this.stateOf(resident, thread)).meetsBeyondWarp) return true
    }
    return false
  }
}
