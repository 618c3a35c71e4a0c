/**
 * Runs a launch of a kernel in slices, so that others can run between them: its blocks take turns (launch-blocks.ts), the threads of a block
 * within its turn (block-turns.ts). What the launch did is read here.
 */

import { outOfRange } from '../foundation/base/errors.js'
import { monotonicTime } from '../foundation/base/event-loop.js'
import { Barriers } from './barriers.js'
import { BlockTurns } from './block-turns.js'
import { type BlockRun, type BlockWorkers, memoryOf, mergeInto, taskFor } from './block-workers.js'
import { ClusterGrid } from './cluster.js'
import type { Decoded } from './decoding.js'
import { type DeviceMemory, ENGINE_BEGIN } from './device-memory.js'
import type { KernelFault } from './faults.js'
import type { KernelCode } from './kernel-code.js'
import { LaunchBlocks } from './launch-blocks.js'
import { LaunchCounts, type LineCounts } from './launch-counts.js'
import { deadlockOfBlocks } from './launch-deadlocks.js'
import { LaunchEffort, OutOfEffort, STOP_EFFORT } from './launch-effort.js'
import type { LaunchOptions } from './launch-options.js'
import { LaunchReports } from './launch-reports.js'
import { LaunchRunTime } from './launch-run-time.js'
import { LaunchSpace } from './launch-space.js'
import { EXITED, type LaunchConfiguration, MULTIPROCESSORS } from './layout.js'
import { type RecordedAccesses, takeMarks, withListed } from './recorded-accesses.js'
import type { Resident } from './resident.js'
import { ThreadPlaces } from './thread-places.js'
import { ThreadRunner } from './thread-runner.js'
import { WarpMeetings } from './warp-meetings.js'
import { WarpgroupMeetings } from './warpgroup-meetings.js'

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
/** The effort after which another block, or another warp of the block, has its turn, even if no loop in the code has ended the turn before. */
const TURN = { ofBlock: 2 ** 28, whereItMayWait: 2 ** 18 }

/** The most blocks that run before the clock is read; the first portion is smaller where workers may take over. */
const MOST_BLOCKS = 256
const FIRST_BLOCKS = 16

/** The milliseconds after which it is measured again how fast blocks run, and workers are offered the others. */
const INTERVAL = 2
/** The most bytes that are copied to all workers together: each has a copy, and as many bytes again to record accesses. */
const MOST_COPIED = 2 ** 29

export class KernelLaunch {
  readonly #memory: DeviceMemory
  readonly #threads: number
  readonly #space: LaunchSpace
  readonly #reports: LaunchReports
  readonly #runTime: LaunchRunTime
  readonly #effort: LaunchEffort
  readonly #places: ThreadPlaces
  readonly #runner: ThreadRunner
  readonly #blocks: LaunchBlocks
  readonly #turns: BlockTurns
  /** Whether blocks run one after the other, each from its start to its end. */
  readonly #runsThrough: boolean
  #workers: BlockWorkers | undefined
  /** What the warps of the launch do, if its code tells that. */
  readonly #counts: LaunchCounts | undefined
  /** The work that workers do: all blocks that have not started here. */
  #spread: { readonly run: BlockRun; readonly instructionLimit: number } | undefined
  /** The milliseconds for which blocks have run here, and the blocks of the next portion, while workers may take over. */
  #computed = 0
  #portion = FIRST_BLOCKS
  /** The milliseconds at the end of the latest interval whose speed was measured, and the number of blocks that had ended then. */
  #measured = { milliseconds: 0, finished: 0 }
  /** The index of the resident block in the middle of whose turn the launch rests. */
  #restsAt: number | undefined
  #closed = false

  /** @throws OutOfMachineMemory, and ERR_OUT_OF_RANGE for an invalid grid, block or list of parameters */
  constructor(
    private readonly code: KernelCode,
    private readonly configuration: LaunchConfiguration,
    options: LaunchOptions = {},
  ) {
    const { grid, block, parameters, cooperative = false, cluster } = configuration
    const { program } = code
    const threads = block[0] * block[1] * block[2]
    const blocks = grid[0] * grid[1] * grid[2]
    if (!(threads > 0 && threads <= 1024 && Number.isInteger(threads)))
      throw outOfRange('block', '1 to 1024 threads', block.join('×'))
    if (!(blocks > 0 && Number.isSafeInteger(blocks))) throw outOfRange('grid', 'at least one block', grid.join('×'))
    if (parameters.byteLength < program.parameters.byteLength)
      throw outOfRange('parameters', `at least ${program.parameters.byteLength} bytes`, parameters.byteLength)
    if (cluster?.some((size, axis) => (grid[axis] ?? 1) % size !== 0) === true)
      throw outOfRange('grid', `whole clusters of ${cluster.join('×')} blocks`, grid.join('×'))
    const clusters = cluster === undefined ? undefined : new ClusterGrid(grid, cluster)
    const { choose, workers, report } = options
    this.#memory = code.memory
    this.#threads = threads
    const mayUseWorkers = choose === undefined && !cooperative && clusters === undefined
    if (mayUseWorkers && !code.runsAlone && !code.options.counted) this.#workers = workers
    this.#space = new LaunchSpace(code, configuration, options)
    this.#reports = new LaunchReports(code, configuration, options)
    if (code.options.counted) this.#counts = new LaunchCounts(code, threads)
    this.#runTime = new LaunchRunTime(code, options, this.#space, this.#reports, this.#counts)
    const waits = program.waiting.has(program.kernel.fn.name)
    const { least, ofThread, most } = DEFAULT_LIMIT
    this.#effort = new LaunchEffort(
      this.#runTime,
      options.instructionLimit ?? Math.min(most, least + ofThread * threads * blocks),
      waits ? TURN.whereItMayWait : TURN.ofBlock,
    )
    const places = new ThreadPlaces(code, threads)
    this.#places = places
    this.#runner = new ThreadRunner(code, places, this.#runTime, this.#effort)
    const blocksOfMultiprocessor = Math.max(1, Math.floor(2048 / (32 * Math.ceil(threads / 32))))
    this.#blocks = new LaunchBlocks(code, this.#space, this.#reports, {
      blocks,
      threads,
      residentLimit: cooperative
        ? blocks
        : Math.max(1, options.residentBlocks ?? MULTIPROCESSORS * blocksOfMultiprocessor),
      startsInOrder: cooperative || (waits && program.stops.some(({ kind }) => kind === 'turn')),
      showsUnwritten: choose !== undefined || report !== undefined,
      choose,
      clusters,
    })
    this.#turns = new BlockTurns(
      this.#runner,
      places,
      new WarpMeetings(code, places, this.#reports, this.#runTime),
      new WarpgroupMeetings(code, places, this.#reports, this.#runTime),
      new Barriers(code, places, this.#reports),
      { choose, mayWait: waits || choose !== undefined },
    )
    const { stopsThreads, readsClock } = program
    const inOrder = choose === undefined && this.#space.globalRaces === undefined && this.#counts === undefined
    this.#runsThrough =
      inOrder && clusters === undefined && !stopsThreads && !readsClock && this.#space.sharedBytes === 0
  }

  /**
   * Runs until about `budget` instructions are done, where a stop of a thread counts for 2000, or all blocks are. While workers run the blocks it
   * waits for them, at most so many `milliseconds`.
   * @throws KernelFault if the kernel does what a GPU reports as an error
   */
  run(budget = Number.POSITIVE_INFINITY, milliseconds = Number.POSITIVE_INFINITY): 'done' | 'more' {
    if (this.#closed) return 'done'
    const resting = this.#restsAt === undefined ? undefined : this.#blocks.resident[this.#restsAt]
    const soFar = this.#effort.spent + (resting === undefined ? 0 : this.#runner.unaccounted(resting))
    if (this.#advance(soFar + budget, milliseconds) === 'more') return 'more'
    this.close()
    return 'done'
  }

  /** Runs these blocks and no others. Throws the errors that `run` throws. */
  runBlocks(begin: number, end: number): void {
    this.#blocks.limitTo(begin, end)
    this.#advance(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY)
  }

  #advance(until: number, milliseconds: number): 'done' | 'more' {
    this.code.runTime = this.#runTime
    this.#effort.restAt = until
    try {
      this.#memory.updateTable()
      this.code.renewWindows()
      const start = this.#workers && monotonicTime() - this.#computed
      while (this.#blocks.finished < this.#blocks.end) {
        if (this.#spread !== undefined) {
          if (!this.#awaitWorkers(this.#spread, milliseconds)) return 'more'
          continue
        }
        if (this.#runsThrough) this.#runSeveral(until, start === undefined ? MOST_BLOCKS : this.#portion)
        else this.#step()
        this.#effort.checkLimit()
        if (start !== undefined && this.#workers !== undefined && this.#blocks.resident.length === 0) {
          this.#computed = monotonicTime() - start
          this.#measure(this.#workers)
        }
        const rests = this.#restsAt !== undefined || this.#effort.spent >= until
        if (rests && this.#blocks.finished < this.#blocks.end) return 'more'
      }
    } catch (error) {
      const fault = this.#asFault(error)
      this.close()
      throw fault
    } finally {
      this.code.settle()
      this.code.runTime = undefined
    }
    return 'done'
  }

  /**
   * Measures how fast blocks run, and offers the others to workers. Code becomes faster when the engine optimises it, and seems to be slower when other
   * programs have the core: the speed is that of the latest interval or of the launch so far, whichever is higher.
   */
  #measure(workers: BlockWorkers): void {
    const { finished } = this.#blocks
    const milliseconds = this.#computed - this.#measured.milliseconds
    if (milliseconds < INTERVAL) {
      this.#portion = Math.min(MOST_BLOCKS, 2 * this.#portion)
      return
    }
    const ofBlock = Math.min(milliseconds / (finished - this.#measured.finished), this.#computed / finished)
    this.#measured = { milliseconds: this.#computed, finished }
    this.code.computed += milliseconds
    if (this.#blocks.finished < this.#blocks.end) this.#spreadOver(workers, (this.#blocks.end - finished) * ofBlock)
  }

  /** Lets workers run the blocks that have not started, which take so many milliseconds here, if that is worth it. */
  #spreadOver(workers: BlockWorkers, rest: number): void {
    const { configuration, code } = this
    const blocks = memoryOf(this.#memory, configuration.parameters, code.variables.values())
    const byteLength = blocks?.reduce((sum, each) => sum + each.byteLength, 0) ?? Number.POSITIVE_INFINITY
    if (blocks === undefined || byteLength > MOST_COPIED / workers.count) {
      this.#workers = undefined
      return
    }
    if (!workers.isWorth({ computed: code.computed, rest, byteLength }) || !workers.isReady()) return
    this.#workers = undefined
    const range = { begin: this.#blocks.finished, end: this.#blocks.end }
    const instructionLimit = this.#effort.limit - this.#effort.spent
    const task = taskFor(this.#memory, blocks, workers, range, {
      configuration,
      gridId: this.#space.gridId,
      instructionLimit,
    })
    if (task === undefined) code.runsAlone = true
    else this.#spread = { run: workers.run(task, rest), instructionLimit }
  }

  /** Waits for workers, at most so long. Returns false if they are still at work; what they did in vain is done here. */
  #awaitWorkers(
    { run, instructionLimit }: { readonly run: BlockRun; readonly instructionLimit: number },
    milliseconds: number,
  ): boolean {
    const results = run.results(milliseconds)
    if (results === 'pending') return false
    this.#spread = undefined
    const sum = (name: 'instructions' | 'stops'): number => results?.reduce((all, each) => all + each[name], 0) ?? 0
    const [instructions, stops] = [sum('instructions'), sum('stops')]
    const fits = instructions + STOP_EFFORT * stops <= instructionLimit
    if (results === undefined || !fits || !mergeInto(this.#memory, results)) {
      this.code.runsAlone = true
      return true
    }
    this.#runTime.instructions += instructions
    this.#effort.stops += stops
    this.#blocks.started = this.#blocks.end
    this.#blocks.finished = this.#blocks.end
    return true
  }

  /** The instructions and stops of the launch so far. */
  get effort(): { readonly instructions: number; readonly stops: number } {
    return { instructions: this.#runTime.instructions, stops: this.#effort.stops }
  }

  /** Converts what ended the launch to a fault of the kernel: its limit, or an error that WebAssembly itself throws. */
  #asFault(error: unknown): unknown {
    if (error instanceof OutOfEffort) return this.#endless()
    if (error instanceof RangeError && /call stack/i.test(error.message)) {
      return this.#reports.fault('CUDA_ERROR_HARDWARE_STACK_ERROR', 'A recursion of the kernel goes too deep', -1, 0)
    }
    if (error instanceof Error && error.name === 'RuntimeError') {
      return this.#reports.fault('CUDA_ERROR_LAUNCH_FAILED', `The code of the kernel failed (${error.message})`, -1, 0)
    }
    return error
  }

  /** The fault of a kernel that does not end, at the place of the first thread that stopped at an instruction. */
  #endless(): KernelFault {
    let at: Decoded | undefined
    let last = 0
    for (const resident of this.#blocks.resident) {
      for (let thread = 0; thread < this.#threads && at === undefined; thread++) {
        const state = this.#places.stateOf(resident, thread)
        if (state === EXITED) continue
        at = this.code.program.stops[state]?.at
        last = thread
        this.#reports.current = resident
      }
    }
    const message = `The kernel does not end: it ran more than ${this.#effort.limit} instructions`
    return this.#reports.faultAt('CUDA_ERROR_LAUNCH_TIMEOUT', message, at, last)
  }

  /** Frees the memory of the launch, which must not run any further. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#blocks.close()
    this.#space.close()
  }

  get statistics(): LaunchStatistics {
    const threads = this.#threads * this.#blocks.finished
    const bytes = this.#runTime.instructions * this.#bytesPerInstruction()
    return { instructions: this.#runTime.instructions, bytes, blocks: this.#blocks.finished, threads }
  }

  /** Lets one block run until it has ended or its threads wait for other blocks. */
  #step(): void {
    const index = this.#restsAt ?? this.#blocks.next()
    this.#restsAt = undefined
    const resident = this.#blocks.resident[index]
    if (resident === undefined) throw new Error('There is no block to run')
    this.#reports.current = resident
    if (resident.missed.size > 0) resident.missed.clear()
    const end = this.#turns.round(resident)
    this.#counts?.turnEnded(resident, end === 'ended')
    if (end === 'rests') {
      this.#restsAt = index
      return
    }
    const done = end === 'ended'
    this.#runner.account(resident)
    if (done) this.#reports.reportEarlyReads(resident)
    this.#blocks.turnEnded(index, done)
    this.#lookForDeadlock(done || this.#turns.moved ? undefined : resident)
  }

  /** The blocks that have done nothing but wait since any other block went on. */
  readonly #waiting = new Set<Resident>()

  /** Ends the launch with a fault if all blocks wait for each other: at barriers of their clusters, or in loops for mbarriers. */
  #lookForDeadlock(waiting: Resident | undefined): void {
    if (waiting === undefined) {
      if (this.#waiting.size > 0) this.#waiting.clear()
      return
    }
    this.#waiting.add(waiting)
    if (this.#waiting.size < this.#blocks.resident.length || this.#blocks.canStart) return
    throw deadlockOfBlocks(this.code, this.#places, this.#reports, this.#blocks.resident)
  }

  /** Runs several blocks without coming back between them, as many as the budget and the limit have room for. */
  #runSeveral(until: number, most: number): void {
    const blocks = this.#blocks
    const resident = blocks.beginRun()
    this.#reports.current = resident
    const cost = this.#runner.costOf(0) * this.#threads
    const ofBudget = Math.ceil((until - this.#effort.spent) / (cost + STOP_EFFORT))
    const ofLimit = Math.floor((this.#effort.limit - this.#effort.spent) / (cost + STOP_EFFORT))
    const count = Math.min(blocks.end - blocks.finished, most, Math.max(1, Math.min(ofBudget, ofLimit)))
    this.#runner.runBlocks(resident, count)
    blocks.endRun(resident, count)
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

  /** Whether races in global memory were looked for in a part of the launch only, since it has more barriers and releases than are kept. */
  get isCheckedInPart(): boolean {
    return this.#space.globalRaces?.isFull === true
  }

  /** What the warps of the launch have done at each line, if its code counts that. */
  lines(): readonly LineCounts[] {
    return this.#counts?.lines() ?? []
  }

  /** The accesses of the launch to memory since the last call, if its code records them. */
  accesses(): readonly RecordedAccesses[] {
    const all: RecordedAccesses[] = []
    for (const { block, parts, listed } of this.#memory.takeTouched()) {
      const { begin, shadow, marks } = block
      const words = marks === undefined ? this.#memory.words : new Int32Array(marks.buffer)
      const found = withListed(takeMarks(words, shadow ?? 0, parts, begin), listed)
      // Marks of the compiler's own memory are cleared as well, but not returned.
      if (begin >= ENGINE_BEGIN) continue
      if (found.reads.length + found.writes.length > 0) all.push(found)
    }
    return all
  }
}
