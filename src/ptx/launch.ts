/**
 * Runs a launch of a kernel: its blocks, the threads of each block in turns, and the places where threads meet. A launch
 * runs in slices, so that others can run between them.
 */

import { outOfRange } from '../foundation/base/errors.js'
import { monotonicTime } from '../foundation/base/event-loop.js'
import { type BlockWorkers, memoryOf, mergeInto, taskFor } from './block-workers.js'
import { regionFrom } from './control-flow.js'
import type { Decoded } from './decoding.js'
import { type DeviceMemory, ENGINE_BEGIN, OutOfMachineMemory } from './device-memory.js'
import { BlockOrder, GlobalRaces } from './global-races.js'
import type { KernelCode } from './kernel-code.js'
import { LaunchMatrices } from './launch-matrices.js'
import type { LaunchOptions } from './launch-options.js'
import { LaunchReports } from './launch-reports.js'
import { LaunchRunTime } from './launch-run-time.js'
import {
  align,
  BLOCK,
  EXITED,
  FRAME,
  LAUNCH,
  type LaunchConfiguration,
  MIXED,
  MULTIPROCESSORS,
  RESERVED_SHARED_BYTES,
} from './layout.js'
import { MATRIX_OPERATIONS } from './matrices.js'
import type { PreparedFunction, Stop } from './program.js'
import { programOrder } from './program-order.js'
import { type RecordedAccesses, takeMarks } from './recorded-accesses.js'
import type { Resident } from './resident.js'
import { Shuffles } from './shuffles.js'
import { Gathering, maskOperand, WARP_OPERATIONS } from './warp-operations.js'

/** The work that a launch did, for a model of time. */
export interface LaunchStatistics {
  /** The instructions of all threads, about: each turn of a loop counts, and a branch counts as if both its sides ran. */
  readonly instructions: number
  /** The bytes of global memory that were accessed, about. */
  readonly bytes: number
  readonly blocks: number
  readonly threads: number
}

/** The default limit of a launch's instructions: a fixed number and so many for each thread, at most as many as take about a minute. */
const DEFAULT_LIMIT = { least: 1e10, ofThread: 1e6, most: 2e11 }
/** The cost of stopping a thread and letting it go on, in instructions. */
const STOP_EFFORT = 2000
/** The effort after which another block, or another warp of the block, has its turn, even if no loop in the code has ended the turn before. */
const TURN = { ofBlock: 2 ** 28, whereItMayWait: 2 ** 18 }

/** The most blocks that run before the clock is read; the first portion is smaller where workers may take over. */
const MOST_BLOCKS = 256
const FIRST_BLOCKS = 16

/** The milliseconds that a launch must have taken, and that the rest of it must be expected to take, before workers get the rest. */
const SPREAD = { after: 4, least: 20 }
/**
 * The bytes that may be copied to workers for each millisecond of the rest: a kernel that moves memory more than it computes is as fast on one core.
 */
const MOST_BYTES = 200_000
/** The most bytes that are copied to all workers together: each has a copy, and as many bytes again to record accesses. */
const MOST_COPIED = 2 ** 29

/** The states of a thread while the threads of its block are in different states. */
const READY = 0
const WAITING = 1
const GONE = 2
/** The state of a thread that has used up its turn and goes on in the next round. */
const YIELDED = 3
/**
 * The turns for which lanes that meet without a mask wait for lanes of their warp that used up their turn, since those may themselves wait for them.
 */
const MOST_PATIENCE = 16

/** The number of blocks among which a schedule picks the one that starts next, where blocks do not wait for each other. */
const UPCOMING = 32
/** The byte that fills shared memory, where a read of bytes that nothing wrote shall be noticed: a large number in each type. */
const UNWRITTEN = 0x7f

/** The number of the barrier of a cluster, which a block has beside its own. */
const OF_CLUSTER = -1

/** The properties of a stop that decide what its threads wait for. */
interface StopFacts {
  readonly status: number
  readonly isBarrier: boolean
  /** Whether the thread arrives at a barrier and goes on without waiting. */
  readonly arrives: boolean
  /** The number of the barrier, if it is a constant and the barrier takes all threads of the block. */
  readonly barrier: number | undefined
  /** The mask of an operation of warps, if it is a constant. */
  readonly mask: number | undefined
}

interface BarrierGroup {
  readonly threads: number[]
  readonly count: number | undefined
  readonly stops: Set<Stop>
}

export class KernelLaunch {
  readonly #memory: DeviceMemory
  readonly #threads: number
  readonly #total: number
  readonly #sharedBytes: number
  /** The part of the shared memory that the kernel itself asked for; the rest is reserved for CUDA. */
  readonly #ownSharedBytes: number
  readonly #cells: number
  readonly #workspace: number
  readonly #resident: Resident[] = []
  readonly #idle: Resident[] = []
  readonly #limit: number
  readonly #residentLimit: number
  readonly #gathering: Gathering
  #started = 0
  #finished = 0
  #at = 0
  #stopped = 0
  readonly #turn: number
  /** Whether blocks start in the order of their numbers, since they may wait in a loop for blocks before them. */
  readonly #startsInOrder: boolean
  readonly #globalRaces: GlobalRaces | undefined
  readonly #gridId: bigint
  /** Whether a thread that has used up its turn ends the turn of its block: its loop may wait for other blocks, or a schedule picks the order. */
  readonly #mayWait: boolean
  #workers: BlockWorkers | undefined
  /** The number of the first block that is not run here. */
  #end: number
  /** The effort at which another block, or another warp of the block, has its turn. */
  #turnEnd = 0
  #closed = false
  readonly #costs: number[] = []
  readonly #shuffles: Shuffles
  readonly #stopFacts: (StopFacts | undefined)[] = []
  readonly #reports: LaunchReports
  readonly #runTime: LaunchRunTime
  readonly #matrixMemory: LaunchMatrices
  static #workspaces = 0

  /** @throws OutOfMachineMemory, and ERR_OUT_OF_RANGE for an invalid grid, block or list of parameters */
  constructor(
    private readonly code: KernelCode,
    private readonly configuration: LaunchConfiguration,
    private readonly options: LaunchOptions = {},
  ) {
    const { grid, block, dynamicSharedBytes = 0, parameters } = configuration
    const { program } = code
    this.#memory = code.memory
    this.#threads = block[0] * block[1] * block[2]
    this.#total = grid[0] * grid[1] * grid[2]
    this.#warpsInOrder = []
    for (let first = 0; first < Math.min(this.#threads, 1024); first += 32) this.#warpsInOrder.push(first)
    this.#end = this.#total
    if (!(this.#threads > 0 && this.#threads <= 1024 && Number.isInteger(this.#threads)))
      throw outOfRange('block', '1 to 1024 threads', block.join('×'))
    if (!(this.#total > 0 && Number.isSafeInteger(this.#total)))
      throw outOfRange('grid', 'at least one block', grid.join('×'))
    if (parameters.byteLength < program.parameters.byteLength)
      throw outOfRange('parameters', `at least ${program.parameters.byteLength} bytes`, parameters.byteLength)
    const ownShared = program.shared.staticBytes + dynamicSharedBytes
    this.#ownSharedBytes = ownShared
    this.#sharedBytes = program.shared.usesReserved ? align(ownShared, 128) + RESERVED_SHARED_BYTES : ownShared
    const { least, ofThread, most } = DEFAULT_LIMIT
    this.#limit = options.instructionLimit ?? Math.min(most, least + ofThread * this.#threads * this.#total)
    const waits = program.waiting.has(program.kernel.fn.name)
    this.#turn = waits ? TURN.whereItMayWait : TURN.ofBlock
    this.#mayWait = waits || options.choose !== undefined
    this.#startsInOrder =
      configuration.cooperative === true || (waits && program.stops.some(({ kind }) => kind === 'turn'))
    const { checked, recorded } = code.options
    if (checked && recorded && options.report !== undefined && options.mayWrite !== undefined) {
      this.#globalRaces = new GlobalRaces()
    }
    const occupancy = Math.max(1, Math.floor(2048 / (32 * Math.ceil(this.#threads / 32))))
    this.#residentLimit = configuration.cooperative
      ? this.#total
      : Math.max(1, options.residentBlocks ?? MULTIPROCESSORS * occupancy)
    this.#cells = this.#allocate(LAUNCH.parameters + program.parameters.byteLength)
    KernelLaunch.#workspaces = (KernelLaunch.#workspaces + 1) % 65536
    this.#workspace = ENGINE_BEGIN + 256 * KernelLaunch.#workspaces
    this.#gridId = options.gridId ?? BigInt(KernelLaunch.#workspaces)
    const { choose, workers } = options
    if (choose === undefined && !configuration.cooperative && !code.runsAlone) this.#workers = workers
    // The workspace is added to the table of blocks for cooperative launches only, so that other launches leave the table unchanged.
    if (configuration.cooperative) this.#memory.add(this.#workspace, 256, { initialised: true })
    this.#writeCells(dynamicSharedBytes)
    this.#gathering = new Gathering(this.#memory.words)
    this.#shuffles = new Shuffles(code)
    const [cells, sharedBytes, globalRaces] = [this.#cells, this.#sharedBytes, this.#globalRaces]
    this.#reports = new LaunchReports(code, configuration, options)
    this.#runTime = new LaunchRunTime(
      code,
      options,
      { cells, sharedBytes, ownSharedBytes: ownShared, globalRaces },
      this.#reports,
    )
    this.#matrixMemory = new LaunchMatrices(code, this.#reports, this.#runTime)
  }

  #allocate(byteLength: number): number {
    const at = this.#memory.allocate(byteLength)
    if (at === undefined) throw new OutOfMachineMemory(`${byteLength} bytes of a launch`)
    return at
  }

  #writeCells(dynamicSharedBytes: number): void {
    const { grid, block, parameters } = this.configuration
    const { view, bytes } = this.#memory
    const at = this.#cells
    for (let axis = 0; axis < 3; axis++) {
      view.setInt32(at + LAUNCH.ntid + 4 * axis, block[axis] ?? 1, true)
      view.setInt32(at + LAUNCH.nctaid + 4 * axis, grid[axis] ?? 1, true)
    }
    view.setInt32(at + LAUNCH.dynamicShared, dynamicSharedBytes, true)
    view.setInt32(at + LAUNCH.totalShared, this.code.program.shared.staticBytes + dynamicSharedBytes, true)
    view.setInt32(at + LAUNCH.reservedShared, this.#sharedBytes - RESERVED_SHARED_BYTES, true)
    view.setBigUint64(at + LAUNCH.gridId, this.#gridId, true)
    // A barrier over the grid finds its workspace in the environment, and only a cooperative launch has one.
    const workspace = this.configuration.cooperative ? this.#workspace : 0
    view.setInt32(at + LAUNCH.envreg1, Math.floor(workspace / 2 ** 32), true)
    view.setInt32(at + LAUNCH.envreg2, workspace | 0, true)
    if (workspace !== 0) view.setUint32(at + LAUNCH.envreg2, workspace % 2 ** 32, true)
    view.setInt32(at + LAUNCH.threads, this.#threads, true)
    bytes.set(parameters.subarray(0, this.code.program.parameters.byteLength), at + LAUNCH.parameters)
  }

  /**
   * Runs until about `budget` instructions are done, or all blocks are.
   * @throws KernelFault if the kernel does what a GPU reports as an error
   */
  run(budget = Number.POSITIVE_INFINITY): 'done' | 'more' {
    if (this.#closed) return 'done'
    if (this.#advance(this.#runTime.instructions + budget) === 'more') return 'more'
    this.close()
    return 'done'
  }

  /** Runs these blocks and no others. Throws the errors that `run` throws. */
  runBlocks(begin: number, end: number): void {
    this.#started = begin
    this.#finished = begin
    this.#end = end
    this.#advance(Number.POSITIVE_INFINITY)
  }

  #advance(until: number): 'done' | 'more' {
    this.code.runTime = this.#runTime
    try {
      this.#memory.updateTable()
      this.code.renewWindows()
      const clock = this.#workers && { start: monotonicTime(), finished: this.#finished, blocks: FIRST_BLOCKS }
      while (this.#finished < this.#end) {
        if (this.#runsThrough) this.#runSeveral(until, clock?.blocks ?? MOST_BLOCKS)
        else this.#step()
        if (this.#effort > this.#limit) this.#endless()
        if (this.#runTime.instructions >= until && this.#finished < this.#end) return 'more'
        if (clock !== undefined && this.#workers !== undefined && this.#resident.length === 0) {
          const spent = monotonicTime() - clock.start
          if (spent >= SPREAD.after) this.#spread(this.#workers, spent / (this.#finished - clock.finished))
          else clock.blocks = Math.min(MOST_BLOCKS, 2 * clock.blocks)
        }
      }
    } catch (error) {
      this.close()
      throw this.#asFault(error)
    } finally {
      this.code.settle()
      this.code.runTime = undefined
    }
    return 'done'
  }

  /** Lets workers run the blocks that have not started, if that is worth it; `milliseconds` is the time that one block takes here. */
  #spread(workers: BlockWorkers, milliseconds: number): void {
    const rest = (this.#end - this.#finished) * milliseconds
    if (rest < SPREAD.least || !workers.isReady()) return
    this.#workers = undefined
    const { configuration, code } = this
    const blocks = memoryOf(this.#memory, configuration.parameters, code.variables.values())
    const byteLength = blocks?.reduce((sum, each) => sum + each.byteLength, 0) ?? Number.POSITIVE_INFINITY
    if (blocks === undefined || byteLength > Math.min(MOST_COPIED / workers.count, rest * MOST_BYTES)) return
    const range = { begin: this.#finished, end: this.#end }
    const instructionLimit = this.#limit - this.#effort
    const task = taskFor(this.#memory, blocks, workers, range, {
      configuration,
      gridId: this.#gridId,
      instructionLimit,
    })
    const results = task && workers.run(task, rest)
    const sum = (name: 'instructions' | 'stops'): number => results?.reduce((all, each) => all + each[name], 0) ?? 0
    const [instructions, stops] = [sum('instructions'), sum('stops')]
    const fits = instructions + STOP_EFFORT * stops <= instructionLimit
    if (results === undefined || !fits || !mergeInto(this.#memory, results)) {
      code.runsAlone = true
      return
    }
    this.#runTime.instructions += instructions
    this.#stopped += stops
    this.#started = this.#end
    this.#finished = this.#end
  }

  /** The instructions and stops of the launch so far. */
  get effort(): { readonly instructions: number; readonly stops: number } {
    return { instructions: this.#runTime.instructions, stops: this.#stopped }
  }

  /** Converts an error that WebAssembly itself throws to a fault of the kernel. */
  #asFault(error: unknown): unknown {
    if (error instanceof RangeError && /call stack/i.test(error.message)) {
      return this.#reports.fault('CUDA_ERROR_HARDWARE_STACK_ERROR', 'A recursion of the kernel goes too deep', -1, 0)
    }
    if (error instanceof Error && error.name === 'RuntimeError') {
      return this.#reports.fault('CUDA_ERROR_LAUNCH_FAILED', `The code of the kernel failed (${error.message})`, -1, 0)
    }
    return error
  }

  /** Frees the memory of the launch, which must not run any further. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    for (const { cells, shared, frames } of [...this.#resident, ...this.#idle]) {
      for (const each of [cells, shared, frames]) this.#memory.release(each)
    }
    this.#memory.release(this.#cells)
    if (this.configuration.cooperative) this.#memory.remove(this.#workspace)
  }

  get statistics(): LaunchStatistics {
    const threads = this.#threads * this.#finished
    const bytes = this.#runTime.instructions * this.#bytesPerInstruction()
    return { instructions: this.#runTime.instructions, bytes, blocks: this.#finished, threads }
  }

  // Blocks --------------------------------------------------------------------------------------------------------------

  #canStart(): boolean {
    return this.#started < this.#end && this.#resident.length < this.#residentLimit
  }

  /** Lets one block run until it has ended or its threads wait for other blocks. */
  #step(): void {
    const count = this.#resident.length + (this.#canStart() ? 1 : 0)
    const { choose } = this.options
    let index = choose === undefined ? this.#at % count : pickFrom(count, choose)
    if (index >= this.#resident.length) index = this.#start()
    const resident = this.#resident[index]
    if (resident === undefined) throw new Error('There is no block to run')
    this.#reports.current = resident
    const done = this.#round(resident)
    this.#account(resident)
    if (done) {
      this.#reports.reportEarlyReads(resident)
      this.#finished++
      if (index === this.#resident.length - 1) this.#resident.pop()
      else this.#resident.splice(index, 1)
      this.#idle.push(resident)
      this.#at = index
    } else this.#at = index + 1
  }

  /** Makes the next block of the grid resident; returns its index. */
  #start(): number {
    const resident = this.#idle.pop() ?? this.#newResident()
    resident.uniform = 0
    if (resident.arrived.size > 0) resident.arrived.clear()
    if (resident.arrivedInCluster.size > 0) resident.arrivedInCluster.clear()
    resident.patience.fill(0)
    resident.races = undefined
    const number = this.#nextBlock()
    resident.order = this.#globalRaces && new BlockOrder(number)
    this.#place(resident, number)
    this.#clearShared(resident.shared)
    const { bytes } = this.#memory
    const { hasLocalMemory, threadBytes } = this.code.program
    if (hasLocalMemory) bytes.fill(0, resident.frames, resident.frames + threadBytes * this.#threads)
    return this.#resident.push(resident) - 1
  }

  readonly #upcoming: number[] = []
  #listed = 0

  /** The number of the block that starts next. */
  #nextBlock(): number {
    const { choose } = this.options
    const next = this.#started++
    if (choose === undefined || this.#startsInOrder) return next
    const upcoming = this.#upcoming
    while (upcoming.length < UPCOMING && this.#listed < this.#end) upcoming.push(this.#listed++)
    const at = pickFrom(upcoming.length, choose)
    const number = upcoming[at] ?? next
    upcoming[at] = upcoming.at(-1) ?? next
    upcoming.pop()
    return number
  }

  /**
   * Fills a block's shared memory before it starts. A GPU leaves what an earlier block wrote; the checks want a pattern, as zeros hide missing
   * writes.
   */
  #clearShared(begin: number): void {
    if (this.#sharedBytes === 0) return
    const { bytes } = this.#memory
    const isShown = this.options.choose !== undefined || this.options.report !== undefined
    const own = begin + this.#ownSharedBytes
    bytes.fill(isShown ? UNWRITTEN : 0, begin, own)
    if (this.#sharedBytes > this.#ownSharedBytes) bytes.fill(0, own, begin + this.#sharedBytes)
  }

  /** Gives a resident block its number in the grid and resets its counters. */
  #place(resident: Resident, number: number): void {
    const { words } = this.#memory
    const cells = resident.cells >> 2
    const ctaid = cells + (BLOCK.ctaid >> 2)
    words.set(this.#reports.tripleOf(number), ctaid)
    words[cells + (BLOCK.smid >> 2)] = number % MULTIPROCESSORS
    words[cells + (BLOCK.spent >> 2)] = 0
    words[cells + (BLOCK.spent >> 2) + 1] = 0
  }

  /** Whether blocks run one after the other, each from its start to its end. */
  get #runsThrough(): boolean {
    const { stopsThreads, readsClock } = this.code.program
    const inOrder = this.options.choose === undefined && this.#globalRaces === undefined
    return inOrder && !stopsThreads && !readsClock && this.#sharedBytes === 0
  }

  /** Runs several blocks without coming back between them, as many as the budget and the limit have room for. */
  #runSeveral(until: number, most: number): void {
    const resident = this.#idle.pop() ?? this.#newResident()
    this.#place(resident, this.#finished)
    this.#reports.current = resident
    const cost = this.#cost(0) * this.#threads
    const ofBudget = Math.ceil((until - this.#runTime.instructions) / cost)
    const ofLimit = Math.floor((this.#limit - this.#effort) / (cost + STOP_EFFORT))
    const count = Math.min(this.#end - this.#finished, most, Math.max(1, Math.min(ofBudget, ofLimit)))
    this.#stopped += count
    this.#runTime.instructions += count * cost
    if (this.#effort > this.#limit) this.#endless()
    this.code.blocks(resident.cells, this.#threads, count)
    this.#account(resident)
    this.#finished += count
    this.#started = this.#finished
    this.#idle.push(resident)
  }

  #newResident(): Resident {
    const { threadBytes } = this.code.program
    const cells = this.#allocate(64)
    const shared = this.#allocate(Math.max(16, this.#sharedBytes))
    const frames = this.#allocate(threadBytes * this.#threads)
    const { view, bytes } = this.#memory
    bytes.fill(0, cells, cells + 64)
    bytes.fill(0, frames, frames + threadBytes * this.#threads)
    view.setInt32(cells + BLOCK.launch, this.#cells, true)
    view.setInt32(cells + BLOCK.shared, shared, true)
    view.setInt32(cells + BLOCK.sharedBytes, this.#sharedBytes, true)
    view.setInt32(cells + BLOCK.frames, frames, true)
    return {
      cells,
      shared,
      frames,
      uniform: 0,
      status: new Uint8Array(this.#threads),
      arrived: new Map(),
      arrivedInCluster: new Set(),
      patience: new Uint8Array(32),
      races: undefined,
      order: undefined,
    }
  }

  /** Adds the instructions that compiled code has counted in the block's cells to those of the launch. */
  #account({ cells }: Resident): void {
    const { words } = this.#memory
    const at = (cells + BLOCK.spent) >> 2
    const spent = (words[at] ?? 0) + (words[at + 1] ?? 0) * 2 ** 32 + ((words[at] ?? 0) < 0 ? 2 ** 32 : 0)
    if (spent === 0) return
    words[at] = 0
    words[at + 1] = 0
    this.#runTime.instructions += spent
  }

  #share: number | undefined

  /** The bytes of global memory that one instruction of the kernel accesses on average. */
  #bytesPerInstruction(): number {
    if (this.#share !== undefined) return this.#share
    let [instructions, bytes] = [1, 0]
    for (const { instructions: list } of this.code.program.kernel.flow.blocks) {
      for (const { form, instruction } of list) {
        instructions++
        if (/^(ld|st|atom|red)$/.test(form.opcode) && /\.global/.test(instruction.opcode)) bytes += 4
      }
    }
    this.#share = bytes / instructions
    return this.#share
  }

  /** The number of instructions from a stop up to the next stops, as if every branch were taken once. */
  #cost(stop: number): number {
    const known = this.#costs[stop]
    if (known !== undefined) return known
    const { fn, block } = this.#stop(stop)
    const { order, loops } = regionFrom(fn.flow, block)
    // Instructions in loops are left out here: the code counts them at each turn.
    const first = order.findIndex((id) => loops.has(id))
    const counted = first < 0 ? order : order.slice(0, Math.max(1, first))
    let cost = 1
    for (const id of counted) cost += fn.flow.blocks[id]?.instructions.length ?? 0
    this.#costs[stop] = cost
    return cost
  }

  #stop(id: number): Stop {
    const stop = this.code.program.stops[id]
    if (stop === undefined) throw new Error(`There is no stop ${id}`)
    return stop
  }

  #run(resident: Resident, stop: number, from: number, to: number): number {
    const cost = this.#cost(stop) * (to - from)
    this.#stopped++
    this.#runTime.instructions += cost
    if (this.#effort > this.#limit) this.#endless()
    const state = this.code.entry(stop)(resident.cells, from, to)
    // Between meetings it is enough to add up what a whole round took: a loop that used up its turn must count at once.
    if (state === MIXED || (state !== EXITED && this.code.program.stops[state]?.kind === 'turn'))
      this.#account(resident)
    this.#runTime.settleWrite()
    return state
  }

  /** Runs all threads of a block from one stop, in the order of their numbers or, warp by warp, in the order of a schedule. */
  #runAll(resident: Resident, stop: number): number {
    const { choose } = this.options
    if (choose === undefined || this.#threads <= 32) return this.#run(resident, stop, 0, this.#threads)
    let state: number | undefined
    for (const first of this.#warps(choose)) {
      const next = this.#run(resident, stop, first, Math.min(first + 32, this.#threads))
      // Starting from one place counts as one stop of the block, as it does without a schedule.
      if (state !== undefined) this.#stopped--
      state = state === undefined || state === next ? next : MIXED
    }
    return state ?? EXITED
  }

  /** The first threads of the warps of a block; a schedule changes their order. */
  readonly #warpsInOrder: number[]

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

  get #effort(): number {
    return this.#runTime.instructions + STOP_EFFORT * this.#stopped
  }

  get #isTurnOver(): boolean {
    return this.#effort >= this.#turnEnd
  }

  /** Lets the threads of a block run for one turn; returns whether all have ended. */
  #round(resident: Resident): boolean {
    this.#turnEnd = this.#effort + this.#turn
    for (let first = true; ; first = false) {
      if (!first && this.#isTurnOver) return false
      if (resident.uniform === MIXED) {
        const result = this.#mixedRound(resident)
        if (result !== undefined) return result
        continue
      }
      const state = this.#runAll(resident, resident.uniform)
      resident.uniform = state
      if (state === EXITED) return true
      if (state === MIXED) {
        this.#separate(resident)
        continue
      }
      const stop = this.#stop(state)
      if (stop.kind === 'turn' && (this.#mayWait || this.#isTurnOver)) return false
      if (stop.kind === 'meeting') {
        if (!this.#meetAll(resident, stop)) {
          resident.uniform = MIXED
          this.#separate(resident)
        } else if (this.options.choose !== undefined && this.#isBarrier(stop)) return false
      }
    }
  }

  #isBarrier({ at }: Stop): boolean {
    const meaning = at?.form.meaning
    return meaning?.kind === 'meeting' && meaning.operation.startsWith('barrier')
  }

  #operationOf({ at }: Stop): string {
    const meaning = at?.form.meaning
    return meaning?.kind === 'meeting' ? meaning.operation : ''
  }

  #frame(resident: Resident, thread: number): number {
    return resident.frames + thread * this.code.program.threadBytes
  }

  #stateOf(resident: Resident, thread: number): number {
    return this.#memory.words[(this.#frame(resident, thread) + FRAME.state) >> 2] ?? EXITED
  }

  /** Whether a stop is an operation without a mask inside a function, where lanes meet only if they came by the same calls. */
  #comesTogether(stop: Stop): boolean {
    const { at, fn } = stop
    const operation = this.#operationOf(stop)
    return at !== undefined && !fn.fn.entry && maskOperand(at) === undefined && !(operation in MATRIX_OPERATIONS)
  }

  /** The calls by which a thread came into the function that it is in, the innermost first. */
  #callersOf(resident: Resident, thread: number, { fn }: Stop): readonly Stop[] {
    const { words } = this.#memory
    let link = words[(this.#frame(resident, thread) + FRAME.stack) >>> 2] ?? 0
    const callers: Stop[] = []
    for (let at = fn; !at.fn.entry; ) {
      const caller = this.#stop(words[link >>> 2] ?? 0)
      callers.push(caller)
      link = words[(link >> 2) + 1] ?? 0
      at = caller.fn
    }
    return callers
  }

  #callersInWords(resident: Resident, thread: number, stop: Stop): string {
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
  #isBehind(resident: Resident, thread: number, other: number): boolean {
    const placesOf = (each: number): readonly number[] => {
      const stop = this.#stop(this.#stateOf(resident, each))
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

  #haveSameCallers(resident: Resident, stop: Stop, from: number, to: number): boolean {
    const callers = this.#callersInWords(resident, from, stop)
    for (let thread = from + 1; thread < to; thread++) {
      if (this.#callersInWords(resident, thread, stop) !== callers) return false
    }
    return true
  }

  /** Lets all threads of a block meet at one instruction; false if they have to be looked at one by one. */
  #meetAll(resident: Resident, stop: Stop): boolean {
    const operation = this.#operationOf(stop)
    if (operation === 'barrier') {
      if (stop.cells?.sources.some(({ name, constant }) => name === 'b' || constant === undefined)) return false
      this.#passBarrier(resident)
      return true
    }
    if (operation.startsWith('barrier')) return false
    return this.#meetRange(resident, stop, 0, this.#threads)
  }

  #passBarrier(resident: Resident): void {
    this.#reports.reportEarlyReads(resident)
    resident.races?.barrier()
    resident.order?.barrier()
  }

  /** Lets the threads of whole warps, or all that are left of one warp, meet at an operation of warps; false if a lane is missing. */
  #meetRange(resident: Resident, stop: Stop, from: number, to: number): boolean {
    const maskName = stop.at === undefined ? undefined : maskOperand(stop.at)
    if (this.#comesTogether(stop) && !this.#haveSameCallers(resident, stop, from, to)) return false
    if (this.#operationOf(stop) === 'shfl' && this.#shuffles.run(resident, stop, maskName, from, to)) return true
    const gathering = this.#gathering
    gathering.words = this.#memory.words
    const gather = (begin: number): number => {
      gathering.clear()
      const last = Math.min(to, (begin & ~31) + 32)
      for (let thread = begin; thread < last; thread++) gathering.add(thread & 31, this.#frame(resident, thread), stop)
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
        this.#reports.find(kind, message, [first + lane], decoded, resident)
      })
      return
    }
    const matrix = MATRIX_OPERATIONS[operation]
    if (matrix === undefined) throw new Error(`Nothing is known of '${operation}'`)
    this.#matrixMemory.warp = first
    matrix(gathering, this.#matrixMemory)
    gathering.words = this.#memory.words
  }

  // Threads in different states -----------------------------------------------------------------------------------------

  #separate(resident: Resident): void {
    const { words } = this.#memory
    const stride = this.code.program.threadBytes >> 2
    const { status } = resident
    let at = (resident.frames + FRAME.state) >> 2
    for (let thread = 0; thread < this.#threads; thread++, at += stride) {
      if (words[at] === EXITED) status[thread] = GONE
      else this.#classify(resident, thread)
    }
  }

  #classify(resident: Resident, thread: number): void {
    const state = this.#stateOf(resident, thread)
    if (state === EXITED) {
      resident.status[thread] = GONE
      return
    }
    const { status, arrives } = this.#factsOf(state)
    resident.status[thread] = status
    if (!arrives) return
    const stop = this.#stop(state)
    if (this.#operationOf(stop) === 'barrier.cluster.arrive') {
      resident.arrivedInCluster.add(thread)
      return
    }
    const id = this.#cellValue(resident, thread, stop, 'a') ?? 0
    resident.arrived.set(id, (resident.arrived.get(id) ?? 0) + 1)
  }

  #factsOf(state: number): StopFacts {
    const known = this.#stopFacts[state]
    if (known !== undefined) return known
    const stop = this.#stop(state)
    const operation = stop.kind === 'meeting' ? this.#operationOf(stop) : ''
    const arrives = operation.endsWith('.arrive')
    const isBarrier = stop.kind === 'meeting' && this.#isBarrier(stop)
    const status = stop.kind === 'turn' ? YIELDED : stop.kind === 'meeting' && !arrives ? WAITING : READY
    const cells = stop.cells?.sources ?? []
    const number = cells.find(({ name }) => name === 'a')?.constant ?? 0n
    const isPlain = isBarrier && cells.every(({ name, offset }) => name === 'a' && offset === undefined)
    const isOfCluster = operation === 'barrier.cluster.wait'
    const barrier = isOfCluster ? OF_CLUSTER : isPlain ? Number(BigInt.asIntN(32, number)) : undefined
    const maskName = stop.kind === 'meeting' && stop.at !== undefined ? maskOperand(stop.at) : undefined
    const constant = cells.find(({ name }) => maskName !== undefined && name === maskName)?.constant
    const mask = constant === undefined ? undefined : Number(BigInt.asIntN(32, constant))
    const facts = { status, isBarrier, arrives, barrier, mask }
    this.#stopFacts[state] = facts
    return facts
  }

  #cellValue(resident: Resident, thread: number, stop: Stop, name: string): number | undefined {
    const cell = stop.cells?.sources.find((each) => each.name === name)
    if (cell === undefined) return undefined
    if (cell.offset === undefined) return Number(BigInt.asIntN(32, cell.constant ?? 0n))
    return this.#memory.words[(this.#frame(resident, thread) + cell.offset) >> 2]
  }

  /** Lets each warp run as far as it can. Returns true if the block has ended, false if others shall run, and undefined if it goes on. */
  #mixedRound(resident: Resident): boolean | undefined {
    const { status } = resident
    for (let progress = true; progress; ) {
      progress = false
      const end = this.#turnEnd
      const warps = this.#warps(this.options.choose)
      for (let index = 0; index < warps.length; index++) {
        const first = warps[index] ?? 0
        this.#turnEnd = this.#effort + this.#turn
        if (this.#runWarp(resident, first, Math.min(first + 32, this.#threads))) progress = true
      }
      this.#turnEnd = end
      if (this.#meetAtBarriers(resident)) {
        progress = true
        if (this.#unite(resident)) return undefined
        if (this.options.choose !== undefined) return false
      }
      if (progress && this.#isTurnOver) {
        for (let thread = 0; thread < this.#threads; thread++) if (status[thread] === YIELDED) status[thread] = READY
        return false
      }
    }
    let [yielded, waiting] = [0, 0]
    for (let thread = 0; thread < this.#threads; thread++) {
      if (status[thread] === YIELDED) {
        status[thread] = READY
        yielded++
      } else if (status[thread] === WAITING) waiting++
    }
    if (yielded > 0) return false
    if (waiting > 0) this.#deadlock(resident)
    return true
  }

  /** Whether all threads of the block can go on from the same stop; if so, they do so together. */
  #unite(resident: Resident): boolean {
    const state = this.#stateOf(resident, 0)
    for (let thread = 0; thread < this.#threads; thread++) {
      if (resident.status[thread] !== READY || this.#stateOf(resident, thread) !== state) return false
    }
    resident.uniform = state
    return true
  }

  #runWarp(resident: Resident, first: number, end: number): boolean {
    const { status } = resident
    let any = false
    for (;;) {
      let ran = false
      for (let from = first; from < end; from++) {
        if (status[from] !== READY) continue
        const state = this.#stateOf(resident, from)
        let to = from + 1
        while (to < end && status[to] === READY && this.#stateOf(resident, to) === state) to++
        this.#runTogether(resident, state, from, to, first, end)
        from = to - 1
        ran = true
      }
      if (!ran && !this.#meetInWarp(resident, first, end)) return any
      any = true
      if (!this.#isTurnOver) continue
      for (let thread = first; thread < end; thread++) if (status[thread] === READY) status[thread] = YIELDED
    }
  }

  /** Runs threads that go on from the same stop for as long as they stay together, and notes where they stopped. */
  #runTogether(resident: Resident, state: number, from: number, to: number, first: number, end: number): void {
    const { status } = resident
    for (let at = this.#run(resident, state, from, to); ; at = this.#run(resident, at, from, to)) {
      if (at === MIXED) {
        for (let thread = from; thread < to; thread++) this.#classify(resident, thread)
        return
      }
      if (at === EXITED) {
        status.fill(GONE, from, to)
        return
      }
      const stop = this.#stop(at)
      if (stop.kind === 'turn') {
        status.fill(YIELDED, from, to)
        return
      }
      if (stop.kind !== 'meeting') continue
      const operation = this.#operationOf(stop)
      const isBarrier = operation.startsWith('barrier')
      if (operation.endsWith('.arrive') || (!isBarrier && !this.#areAllOfWarp(resident, from, to, first, end))) {
        for (let thread = from; thread < to; thread++) this.#classify(resident, thread)
        return
      }
      if (isBarrier || !this.#meetRange(resident, stop, from, to)) {
        status.fill(WAITING, from, to)
        return
      }
      if (this.#isTurnOver) {
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

  /** Lets lanes of a warp that wait for each other go on, if all of them are there. */
  #meetInWarp(resident: Resident, first: number, end: number): boolean {
    if (!this.#waitsInWarp(resident, first, end)) return false
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
        if (this.#stop(this.#stateOf(resident, thread)).kind === 'turn') looping++
      }
      if (status[thread] !== WAITING) continue
      const state = this.#stateOf(resident, thread)
      if (state === last && lastGroup !== undefined && ((lastGroup.mask >>> lane) & 1) !== 0) {
        lastGroup.lanes |= 1 << lane
        continue
      }
      const stop = this.#stop(state)
      if (stop.at === undefined || this.#isBarrier(stop)) continue
      const name = maskOperand(stop.at)
      const operation = this.#operationOf(stop)
      if (name === undefined) {
        if (operation in MATRIX_OPERATIONS) {
          // A meeting whose mask is -1 takes all lanes.
          const group = groups.get(operation)
          if (group === undefined) groups.set(operation, { mask: -1, lanes: 1 << lane })
          else group.lanes |= 1 << lane
        } else {
          const key = `${stop.id} ${this.#comesTogether(stop) ? this.#callersInWords(resident, thread, stop) : ''}`
          const group = withoutMask.get(key)
          if (group === undefined) withoutMask.set(key, { thread, lanes: 1 << lane })
          else group.lanes |= 1 << lane
        }
        continue
      }
      const { mask: constant } = this.#factsOf(state)
      const mask = constant ?? this.#cellValue(resident, thread, stop, name) ?? -1
      if (((mask >>> lane) & 1) === 0) {
        this.#reports.find(
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
      if (chosen === undefined || this.#isBehind(resident, group.thread, chosen.thread)) chosen = group
    }
    if (chosen === undefined) return false
    const { patience } = resident
    const waited = patience[first >> 5] ?? 0
    if (yielded === 0) patience[first >> 5] = 0
    else if (waited < MOST_PATIENCE && !(this.#goesInStep(resident, chosen.thread) && yielded === looping)) {
      patience[first >> 5] = waited + 1
      return false
    }
    this.#meetLanes(resident, first, chosen.lanes)
    return true
  }

  /** Whether a lane only goes in step: it waits for no lanes in long loops, which may wait for it, such as for a lock that it holds. */
  #goesInStep(resident: Resident, thread: number): boolean {
    return this.#operationOf(this.#stop(this.#stateOf(resident, thread))) === 'step'
  }

  /** Whether a lane waits for others of its warp. */
  #waitsInWarp(resident: Resident, first: number, end: number): boolean {
    for (let thread = first; thread < end; thread++) {
      if (resident.status[thread] === WAITING && !this.#factsOf(this.#stateOf(resident, thread)).isBarrier) return true
    }
    return false
  }

  #meetLanes(resident: Resident, first: number, lanes: number): void {
    const gathering = this.#gathering
    gathering.words = this.#memory.words
    gathering.clear()
    for (let lane = 0; lane < 32; lane++) {
      if (((lanes >>> lane) & 1) === 0) continue
      const thread = first + lane
      gathering.add(lane, this.#frame(resident, thread), this.#stop(this.#stateOf(resident, thread)))
      resident.status[thread] = READY
    }
    this.#perform(resident, gathering, first)
    if (gathering.operation === 'warp.sync') resident.races?.warpBarrier(first >> 5)
  }

  /** Lets threads go on that wait at a barrier, if enough are there. */
  #meetAtBarriers(resident: Resident): boolean {
    const { status } = resident
    const groups = new Map<number, BarrierGroup>()
    let live = 0
    // The group of the thread before is tried first, since most threads wait at the same barrier.
    let [last, lastGroup]: [number, BarrierGroup | undefined] = [EXITED, undefined]
    for (let thread = 0; thread < this.#threads; thread++) {
      if (status[thread] !== GONE) live++
      if (status[thread] !== WAITING) continue
      const state = this.#stateOf(resident, thread)
      if (state === last && lastGroup !== undefined) {
        lastGroup.threads.push(thread)
        continue
      }
      const facts = this.#factsOf(state)
      if (!facts.isBarrier) continue
      const stop = this.#stop(state)
      const id = facts.barrier ?? this.#cellValue(resident, thread, stop, 'a') ?? 0
      const count = facts.barrier === undefined ? this.#cellValue(resident, thread, stop, 'b') : undefined
      const group = groups.get(id) ?? { threads: [], count, stops: new Set() }
      groups.set(id, group)
      group.threads.push(thread)
      group.stops.add(stop)
      if (facts.barrier !== undefined) [last, lastGroup] = [state, group]
    }
    let any = false
    for (const [id, { threads, count, stops }] of groups) {
      if (id === OF_CLUSTER && !this.#haveArrivedInCluster(resident)) continue
      const arrived = id === OF_CLUSTER ? live : (resident.arrived.get(id) ?? 0)
      const there = count === undefined ? threads.length + arrived : this.#arrivals(resident, threads) + arrived
      if (there < (count ?? live)) continue
      if (stops.size > 1) {
        const lines = [...stops].map(({ at }) => at?.instruction.line).join(' and ')
        const at = [...stops][0]?.at
        this.#reports.find(
          'diverging-barrier',
          `Threads wait at barriers of lines ${lines} for each other`,
          threads,
          at,
          resident,
        )
      }
      this.#reduceAtBarrier(resident, threads, stops)
      if (id === OF_CLUSTER) resident.arrivedInCluster.clear()
      else resident.arrived.delete(id)
      for (const thread of threads) status[thread] = READY
      this.#passBarrier(resident)
      any = true
    }
    return any
  }

  /** Whether all threads have arrived at the barrier of the cluster that have not ended. */
  #haveArrivedInCluster({ status, arrivedInCluster }: Resident): boolean {
    for (let thread = 0; thread < this.#threads; thread++) {
      if (status[thread] !== GONE && !arrivedInCluster.has(thread)) return false
    }
    return true
  }

  /** The number of arrivals that these threads count as at a barrier: each arrives together with the threads of its warp that have ended. */
  #arrivals(resident: Resident, threads: readonly number[]): number {
    const warps = new Set(threads.map((thread) => thread >> 5))
    let count = threads.length
    for (const warp of warps) {
      for (let thread = 32 * warp; thread < 32 * warp + 32; thread++) {
        if (thread >= this.#threads || resident.status[thread] === GONE) count++
      }
    }
    return count
  }

  #reduceAtBarrier(resident: Resident, threads: readonly number[], among: ReadonlySet<Stop>): void {
    if (![...among].some((stop) => this.#operationOf(stop) === 'barrier.red')) return
    const stops = threads.map((thread) => this.#stop(this.#stateOf(resident, thread)))
    let count = 0
    for (const [index, thread] of threads.entries()) {
      const stop = stops[index]
      if (stop !== undefined && ((this.#cellValue(resident, thread, stop, 'c') ?? 0) & 1) !== 0) count++
    }
    for (const [index, thread] of threads.entries()) {
      const stop = stops[index]
      const offset = stop?.cells?.results[0]?.offset
      if (stop === undefined || offset === undefined) continue
      const operation = stop.at?.modifiers['op']
      const value = operation === 'popc' ? count : (operation === 'and' ? count === threads.length : count > 0) ? 1 : 0
      this.#memory.words[(this.#frame(resident, thread) + offset) >> 2] = value
    }
  }

  // Faults and findings -----------------------------------------------------------------------------------------------------

  /** Ends the launch with a fault, since threads wait and none can go on. */
  #deadlock(resident: Resident): never {
    const places = new Map<string, number[]>()
    let at: Decoded | undefined
    for (let thread = 0; thread < this.#threads; thread++) {
      if (resident.status[thread] !== WAITING) continue
      const stop = this.#stop(this.#stateOf(resident, thread))
      at ??= stop.at
      const key = `'${stop.at?.instruction.opcode}' of line ${stop.at?.instruction.line}`
      const list = places.get(key)
      if (list === undefined) places.set(key, [thread])
      else list.push(thread)
    }
    const gone = resident.status.filter((each) => each === GONE).length
    const where = [...places].map(([key, list]) => `${list.length} threads (${list[0]}, …) at ${key}`).join(', ')
    const message = `The block waits forever: ${where}; ${gone} threads have ended`
    this.#reports.find('diverging-barrier', message, [...places.values()].flat(), at, resident)
    throw this.#reports.faultAt('CUDA_ERROR_LAUNCH_TIMEOUT', message, at, [...places.values()][0]?.[0] ?? 0)
  }

  #endless(): never {
    let at: Decoded | undefined
    let thread = 0
    for (const resident of this.#resident) {
      for (let each = 0; each < this.#threads && at === undefined; each++) {
        const state = this.#stateOf(resident, each)
        if (state === EXITED) continue
        at = this.code.program.stops[state]?.at
        thread = each
        this.#reports.current = resident
      }
    }
    const message = `The kernel does not end: it ran more than ${this.#limit} instructions`
    throw this.#reports.faultAt('CUDA_ERROR_LAUNCH_TIMEOUT', message, at, thread)
  }

  /** Whether races in global memory were looked for in a part of the launch only, since it has more barriers and releases than are kept. */
  get isCheckedInPart(): boolean {
    return this.#globalRaces?.isFull === true
  }

  /** The accesses of the launch to memory since the last call, if its code records them. */
  accesses(): readonly RecordedAccesses[] {
    const all: RecordedAccesses[] = []
    for (const { block, parts } of this.#memory.takeTouched()) {
      const { begin, shadow, marks } = block
      const words = marks === undefined ? this.#memory.words : new Int32Array(marks.buffer)
      const found = takeMarks(words, shadow ?? 0, parts, begin)
      // Marks of the compiler's own memory are cleared as well, but not returned.
      if (begin >= ENGINE_BEGIN) continue
      if (found.reads.length + found.writes.length > 0) all.push(found)
    }
    return all
  }
}

function pickFrom(count: number, choose: (count: number) => number): number {
  return Math.min(count - 1, Math.max(0, Math.trunc(choose(count))))
}
