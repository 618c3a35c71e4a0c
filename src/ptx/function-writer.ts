/**
 * Writes the WebAssembly of one function: an entry of a kernel, which runs threads one after the other from a stop to
 * their next stops, or a function that is called and never stops.
 */

import { type Block, edgesWithin, functionCalledBy, liveAtStart, type Region, regionFrom } from './control-flow.js'
import { accessesOf, type Decoded, operandOf, registersOf } from './decoding.js'
import { InstructionWriter } from './instruction-writer.js'
import { type AccessCost, LANES, LaneShapes } from './lane-shapes.js'
import { LaneWriter } from './lane-writer.js'
import { BLOCK, EXITED, FRAME, LOCAL_WINDOW, MIXED, SHARED_WINDOW, SLICE, SPIN_TURNS } from './layout.js'
import { mayWait, type PreparedFunction, type Stop } from './program.js'
import { type RowGuard, rowGuardOf } from './row-guard.js'
import { checkWidened, RowRanges } from './row-ranges.js'
import { isCall } from './segments.js'
import { bitsOf, type Operand, ptxError, type Register } from './syntax.js'
import { type ModuleContext, ValueWriter } from './value-writer.js'
import {
  call,
  type FunctionDescription,
  i32,
  i64,
  type LocalType,
  memory,
  type Signature,
  set,
  tee,
} from './wasm-encoder.js'

type Label = { readonly kind: 'block' | 'loop' | 'threads' | 'end' | 'handed' | 'other'; readonly block: number }

/** The locals in which an entry compares the states of its threads. */
interface States {
  readonly first: number
  readonly different: number
}

/** Writes the code of threads from the current one up to the one in the local `end`, as lanes where that is asked for and pays. */
type RowThreads = (end: number, asLanes?: boolean) => void

/** The parameters of a continuation before the registers: the block's cells, the frame, the thread, and the fuel that it has left. */
const REST_PARAMETERS: readonly LocalType[] = ['i32', 'i32', 'i32', 'i32']
/** The share of a turn below which lanes that part have run together in vain, and how often in a row they may. */
const EARLY = 256
const MOST_MISSES = 6

/** The registers that an entry has to do with: the others that live at its start stay where they are saved. */
interface EntryRegisters {
  /** The registers that the entry reads or writes. */
  readonly used: ReadonlySet<number>
  /** The registers that are saved when the entry begins, and that it leaves as they are. */
  readonly kept: ReadonlySet<number>
}

/** The beginning of an entry: its block, and whether its threads begin there, so that nothing is saved yet. */
export interface EntryPlace {
  readonly block: number
  readonly isStart: boolean
}

const registersOfEntries = new WeakMap<PreparedFunction, Map<string, EntryRegisters>>()

function entryRegisters(fn: PreparedFunction, { block, isStart }: EntryPlace): EntryRegisters {
  const known = registersOfEntries.get(fn) ?? new Map<string, EntryRegisters>()
  registersOfEntries.set(fn, known)
  const key = `${block},${isStart}`
  let found = known.get(key)
  if (found === undefined) {
    found = findEntryRegisters(fn, { block, isStart })
    known.set(key, found)
  }
  return found
}

function findEntryRegisters({ fn, flow, live }: PreparedFunction, { block, isStart }: EntryPlace): EntryRegisters {
  const [used, written] = [new Set<number>(), new Set<number>()]
  const add = (decoded: Decoded): void => {
    const { reads, writes } = accessesOf(decoded)
    for (const { id } of [...reads, ...writes]) used.add(id)
    for (const { id } of writes) written.add(id)
  }
  for (const id of regionFrom(flow, block).order) {
    const each = flow.blocks[id]
    if (each === undefined) continue
    if (each.receives !== undefined) add(each.receives)
    for (const decoded of each.instructions) add(decoded)
    const { terminator } = each
    if (terminator.kind === 'branch') used.add(terminator.register.id)
    if (terminator.kind === 'switch' && terminator.index.kind === 'register') used.add(terminator.index.register.id)
    if ('at' in terminator) for (const { id } of accessesOf(terminator.at).reads) used.add(id)
  }
  const saved = live[block] ?? new Set<number>()
  // What a function returns is read where it ends, and is not looked for there.
  if (isStart || !fn.entry) return { used: new Set([...used, ...saved]), kept: new Set() }
  return { used, kept: new Set([...saved].filter((id) => !written.has(id))) }
}

/** The registers that a continuation takes: those that live at its block, but for those that stay saved. */
function continued(fn: PreparedFunction, block: number, entry: EntryPlace): readonly number[] {
  const { used, kept } = entryRegisters(fn, entry)
  return [...(fn.live[block] ?? [])].filter((id) => used.has(id) || !kept.has(id))
}

const shapesOf = new WeakMap<PreparedFunction, LaneShapes>()

/** The type of the function with the code from a block on, for one thread. */
export function continuationSignature(fn: PreparedFunction, block: number, entry: EntryPlace): Signature {
  const registers = continued(fn, block, entry).map((id) => fn.facts.types[id] ?? 'i32')
  return { parameters: [...REST_PARAMETERS, ...registers], results: ['i32'] }
}

/** The cost of one turn of a loop: `weight` is taken from the thread's own turn, `instructions` is added to those of the launch. */
interface LoopWeight {
  readonly weight: number
  readonly instructions: number
  readonly spins: boolean
  /** The blocks that lead back to the start, and have changed nothing in registers then: a lane yields at once where lanes go in step. */
  readonly fruitless: ReadonlySet<number>
}

export class FunctionWriter {
  readonly #values: ValueWriter
  readonly #labels: Label[] = []
  readonly #instructions: InstructionWriter
  readonly #fuel: number
  /** The registers that are read at each block of code or behind it before they are written; undefined while that is not asked for. */
  #needed: readonly ReadonlySet<number>[] | undefined
  readonly #state: number
  /** The guard that all threads of the current row pass, so that its branch is not written. */
  #passes: RowGuard | undefined
  /** Whether a row may end before its last thread, so that the rest of it is a row of its own. */
  #cutsRows = false
  /** The local in which an entry adds up the instructions of its loops. */
  #spent: number | undefined
  /** The budget after which no further thread begins. */
  #limit: number | undefined
  #loopWeights = new Map<number, LoopWeight>()
  #counts = false
  /** Writes the code of several threads at once; undefined in code for one. */
  #lanes: LaneWriter | undefined
  /** The locals in which lanes note their states, if they may stop. */
  #states: States | undefined
  /** The local that counts how often lanes have parted early. */
  #misses = 0
  /** The region of the entry, whose loops are counted; the rest of an entry may begin within a loop, and have other loops. */
  #counted: Region | undefined

  constructor(
    readonly context: ModuleContext,
    readonly fn: PreparedFunction,
    private readonly stop: Stop | undefined,
    /** The block at which a function begins that is the rest of an entry for one thread, and that at which the entry begins. */
    private readonly rest?: { readonly block: number; readonly entry: EntryPlace },
  ) {
    const role = stop !== undefined ? 'entry' : rest === undefined ? 'direct' : 'continuation'
    const parameters = rest === undefined ? undefined : continuationSignature(fn, rest.block, rest.entry).parameters
    this.#values = new ValueWriter(context, fn, role, parameters)
    this.#fuel = this.#values.body.local('i32')
    this.#state = this.#values.body.local('i32')
    this.#instructions = new InstructionWriter(this.#values)
  }

  /** Writes the function; returns its encoded body. */
  write(): Uint8Array {
    if (this.stop !== undefined) this.#writeEntry(this.stop)
    else if (this.rest !== undefined) this.#writeRest(this.rest.block, this.rest.entry)
    else this.#writeDirect()
    return this.#values.body.encode()
  }

  /** What an inspector shows of the function once it is written. */
  describe(): FunctionDescription {
    return { name: this.fn.fn.name, locals: this.#values.names(), marks: this.#values.body.marks() }
  }

  /** Marks the code from here on as that of an instruction, or as that of none, in code that is made for stepping. */
  #mark(decoded: Decoded | undefined): void {
    if (this.context.isStepped) this.#values.body.mark(decoded?.instruction)
  }

  get #entry(): EntryPlace | undefined {
    if (this.stop === undefined) return this.rest?.entry
    return { block: this.stop.block, isStart: this.stop.kind === 'start' || this.stop.kind === 'enter' }
  }

  get #isDirect(): boolean {
    return this.stop === undefined && this.rest === undefined
  }

  // Functions -----------------------------------------------------------------------------------------------------------

  /** Writes the code from a block on, for one thread that other lanes have parted from; returns the state in which the thread stops. */
  #writeRest(block: number, entry: EntryPlace): void {
    const { body } = this.#values
    const spent = body.local('i64')
    this.#spent = spent
    if (this.#hasRows) {
      this.#values.tids()
      this.#values.row = body.place()
    }
    body.write(REST_PARAMETERS.length - 1, set(this.#fuel))
    for (const [index, id] of continued(this.fn, block, entry).entries()) {
      body.write(REST_PARAMETERS.length + index, set(this.#values.localOfId(id)))
    }
    body.block()
    this.#labels.push({ kind: 'end', block: -1 })
    this.#writeRegion(block)
    this.#labels.pop()
    body.end()
    if (this.context.program.stopsThreads) {
      body.write(this.#values.block, spent, i32(SLICE), this.#fuel, 'i32.sub', 'i64.extend_i32_s', 'i64.add')
      body.write(memory('i64.store', BLOCK.handed))
    }
    body.get(this.#state)
  }

  #writeDirect(): void {
    const { body } = this.#values
    body.write(i32(1 << 29), set(this.#fuel))
    // A check of the stack ends a recursion that goes too deep before its frames leave the stack.
    body.write(
      this.#values.stack,
      i32(this.fn.frame.byteLength),
      'i32.add',
      this.#values.frame,
      i32(this.context.program.threadBytes),
      'i32.add',
      'i32.gt_u',
    )
    body.if()
    this.#values.fail('overflow', this.#firstDecoded())
    body.end()
    this.#initialTop()
    body.block()
    this.#labels.push({ kind: 'end', block: -1 })
    this.#receiveParameters()
    this.#writeRegion(0)
    this.#mark(undefined)
    this.#labels.pop()
    body.end()
  }

  #firstDecoded(): Decoded | undefined {
    for (const { instructions, terminator } of this.fn.flow.blocks) {
      const first = instructions[0] ?? ('at' in terminator ? terminator.at : undefined)
      if (first !== undefined) return first
    }
    return undefined
  }

  /** Initialises the word of the frame that holds the end of the frame, in functions that use `alloca`. */
  #initialTop(): void {
    if (!this.#values.usesAlloca) return
    const { body } = this.#values
    body.write(
      this.#values.stack,
      this.#values.stack,
      i32(this.fn.frame.byteLength),
      'i32.add',
      memory('i32.store', this.fn.frame.top),
    )
  }

  /** Loads the parameters that are registers from memory, in which all parameters are passed. */
  #receiveParameters(): void {
    for (const { offset, variable } of this.fn.call.parameters) {
      const register = this.fn.fn.parameterRegisters.get(variable.name)
      if (register === undefined) continue
      this.#instructions.calls.receiveParameter(register, offset)
    }
  }

  /** Stores the results that are registers to memory, in which all results are passed. */
  #leaveResults(): void {
    for (const { offset, variable } of this.fn.call.results) {
      const register = this.fn.fn.parameterRegisters.get(variable.name)
      if (register === undefined) continue
      this.#instructions.calls.leaveResult(register, offset)
    }
  }

  /** Writes entry(block, from, to), which runs the threads `from` to `to` and returns the state that all of them have afterwards, or MIXED. */
  #writeEntry(stop: Stop): void {
    const { body } = this.#values
    const { threadBytes } = this.context.program
    const [first, different] = [body.local('i32'), body.local('i32')]
    const [spent, limit] = [body.local('i64'), body.local('i64')]
    this.#spent = spent
    this.#limit = limit
    body.at(body.start, () => {
      body.write(
        1,
        set(this.#values.thread),
        0,
        memory('i32.load', BLOCK.frames),
        1,
        i32(threadBytes),
        'i32.mul',
        'i32.add',
        set(this.#values.frame),
      )
    })
    // If no thread can stop, all threads have ended when they come back.
    const stops = this.context.program.stopsThreads
    const end = this.#openRows()
    const ranges = stop.kind === 'start' ? this.#rangesOf(stop) : undefined
    const states = stops ? { first, different } : undefined
    const shapes = this.#lanesFor(stop, ranges)
    const threads: RowThreads = (last, asLanes = false) => {
      if (asLanes && shapes !== undefined) this.#writeLanes(stop, last, states, shapes)
      this.#writeThreads(stop, last, states, asLanes && shapes !== undefined)
    }
    if (ranges === undefined) threads(end, true)
    else this.#writeTwice(ranges, end, threads)
    this.#closeRows()
    if (this.#counts) {
      body.write(0, 0, memory('i64.load', BLOCK.spent), spent, 'i64.add', memory('i64.store', BLOCK.spent))
      if (stops) body.at(body.start, () => body.write(0, memory('i64.load', BLOCK.limit), set(limit)))
    }
    if (stops) {
      body.write(0, 2, memory('i32.store', BLOCK.next))
      body.write(i32(MIXED), first, different, 'select')
    } else body.i32(EXITED)
  }

  /** What lanes have in common, if threads from this stop on are to run as lanes. */
  #lanesFor({ block }: Stop, ranges: RowRanges | undefined): LaneShapes | undefined {
    const { lanes, recorded, checked, program } = this.context
    if (lanes === 'never' || checked || !this.fn.fn.entry || this.#values.usesAlloca) return undefined
    const region = regionFrom(this.fn.flow, block)
    if (!region.reducible) return undefined
    let shapes = shapesOf.get(this.fn)
    if (shapes === undefined) {
      shapes = new LaneShapes(this.fn, program.localBytes)
      shapesOf.set(this.fn, shapes)
    }
    const costOf = (decoded: Decoded): AccessCost => {
      const range = ranges?.of(decoded)
      if (range !== undefined && (!recorded || range.isWhole)) return 'free'
      return recorded && !/^shared/.test(decoded.modifiers['space'] ?? '') ? 'recorded' : 'checked'
    }
    return shapes.pays(region, lanes, costOf) ? shapes : undefined
  }

  /** Writes a loop that runs threads as lanes as long as there are enough of them up to `end`; the others are left. */
  #writeLanes(stop: Stop, end: number, states: States | undefined, shapes: LaneShapes): void {
    const { body, frame, thread } = this.#values
    const { threadBytes } = this.context.program
    const lanes = new LaneWriter(this.#values, this.#instructions, shapes)
    this.context.tellLanes()
    this.#lanes = lanes
    this.#instructions.addresses.lanes = shapes
    this.#states = states
    const failed = body.local('i32')
    this.#misses = body.local('i32')
    body.block()
    this.#labels.push({ kind: 'other', block: -1 })
    this.#checkWidened(shapes, stop.block, end)
    body.loop()
    this.#labels.push({ kind: 'threads', block: -1 })
    body.write(end, thread, 'i32.sub', i32(LANES), 'i32.lt_s')
    const isMissed = body.place()
    body.brIf(1)
    if (states !== undefined) body.write(i32(SLICE), set(this.#fuel))
    if (stop.kind === 'start') {
      this.#clearUndefined(stop.block)
      for (const id of this.fn.live[stop.block] ?? []) lanes.clear(id)
    } else {
      body.write(i32(0), set(failed))
      for (const id of this.fn.live[stop.block] ?? []) {
        const offset = this.fn.frame.saved.get(id)
        if (offset !== undefined && this.#isUsed(id)) lanes.restore(id, offset, failed)
      }
      body.get(failed)
      body.brIf(1)
    }
    body.block()
    this.#labels.push({ kind: 'handed', block: -1 })
    body.block()
    this.#labels.push({ kind: 'end', block: -1 })
    this.#writeRegion(stop.block)
    this.#labels.pop()
    body.end()
    if (states !== undefined) for (let lane = 0; lane < LANES; lane++) this.#noteLane(lane, states)
    if (this.#counts && this.#spent !== undefined) {
      const spent = this.#spent
      body.write(spent, i32(SLICE), this.#fuel, 'i32.sub', i32(LANES), 'i32.mul', 'i64.extend_i32_s')
      body.write('i64.add', set(spent))
    }
    if (body.readsOf(this.#misses) > 0) {
      body.write(this.#misses, this.#misses, i32(0), 'i32.ne', 'i32.sub', set(this.#misses))
      body.at(isMissed, () => body.write(this.#misses, i32(MOST_MISSES), 'i32.gt_s', 'i32.or'))
    }
    this.#labels.pop()
    body.end()
    body.write(frame, i32(LANES * threadBytes), 'i32.add', set(frame), thread, i32(LANES), 'i32.add', set(thread))
    if (this.#values.row !== undefined) {
      const [x = 0] = this.#values.tids()
      body.write(x, i32(LANES), 'i32.add', set(x))
    }
    if (states !== undefined) this.#endAtLimit(end)
    body.br(0)
    this.#labels.pop()
    body.end()
    this.#labels.pop()
    body.end()
    this.#lanes = undefined
    this.#instructions.addresses.lanes = undefined
  }

  /** Writes checks that what is taken to grow evenly along a row does not wrap there: if it does, no threads of the row run as lanes. */
  #checkWidened(shapes: LaneShapes, block: number, end: number): void {
    const widened = shapes.widened(regionFrom(this.fn.flow, block))
    if (widened.length === 0) return
    const { body, thread } = this.#values
    const last = body.temporary('i32')
    body.write(end, thread, 'i32.sub', i32(1), 'i32.sub', set(last))
    this.#values.atFirst(() => {
      for (const each of widened) checkWidened(this.#values, each, last)
    })
    body.release('i32', last)
  }

  /** Stores the state in which a lane stopped, and compares it with that of the first thread. */
  #noteLane(lane: number, { first, different }: States): void {
    const { body, frame, thread } = this.#values
    const at = FRAME.state + lane * this.context.program.threadBytes
    body.write(frame, this.#state, memory('i32.store', at))
    if (lane === 0) {
      body.write(this.#state, first, thread, 1, 'i32.eq', 'select', set(first))
    }
    body.write(different, first, this.#state, 'i32.xor', 'i32.or', set(different))
  }

  /** Lets each lane go on by itself: those of which `bits` has a bit at the first block, the others at the second one. */
  #handOver(from: number | undefined, targets: readonly number[], bits?: number): void {
    const { body, frame, thread } = this.#values
    const lanes = this.#lanes
    if (lanes === undefined) throw new Error('There are no lanes')
    const { threadBytes } = this.context.program
    const states = this.#states
    const entry = this.#entry
    if (entry === undefined) throw new Error('Only an entry has lanes')
    const goOn = (target: number, lane: number): void => {
      const loop = from !== undefined && this.#isCounted(from, target) ? this.#loopWeights.get(target) : undefined
      const block = this.fn.flow.blocks[target]
      const ends = block?.instructions.length === 0 && /^(?:return|exit)$/.test(block.terminator.kind)
      const fuel = (): void => {
        body.get(this.#fuel)
        if (loop !== undefined) body.write(i32(loop.weight), 'i32.sub')
      }
      if (loop !== undefined && this.#spent !== undefined && loop.weight !== loop.instructions) {
        body.write(this.#spent, i64(BigInt(loop.weight - loop.instructions)), 'i64.sub', set(this.#spent))
      }
      if (ends) {
        if (states !== undefined) {
          body.i32(SLICE)
          fuel()
          body.write('i32.sub', 'i64.extend_i32_s', set(spentByLane))
        }
        body.write(i32(EXITED), set(this.#state))
        return
      }
      body.write(this.#values.block, frame, i32(lane * threadBytes), 'i32.add', thread, i32(lane), 'i32.add')
      fuel()
      for (const id of continued(this.fn, target, entry)) lanes.pushLane(id, lane)
      body.call(this.context.continuation(this.fn, target, entry))
      body.set(this.#state)
      if (states !== undefined) body.write(this.#values.block, memory('i64.load', BLOCK.handed), set(spentByLane))
    }
    const spentByLane = body.temporary('i64')
    const [target = 0, next = target] = targets
    for (let lane = 0; lane < LANES; lane++) {
      if (bits === undefined) goOn(target, lane)
      else {
        body.write(bits, i32(1 << lane), 'i32.and')
        body.if()
        goOn(target, lane)
        body.else()
        goOn(next, lane)
        body.end()
      }
      if (states === undefined) continue
      this.#noteLane(lane, states)
      if (this.#spent !== undefined) body.write(this.#spent, spentByLane, 'i64.add', set(this.#spent))
    }
    body.release('i64', spentByLane)
    // Where lanes part early again and again, threads do not run as lanes any more.
    const misses = this.#misses
    body.write(misses, i32(2))
    if (states !== undefined) body.write(i32(0), this.#fuel, i32(SLICE - EARLY), 'i32.gt_s', 'select')
    body.write('i32.add', set(misses))
    this.#branch('handed', -1)
  }

  /** Writes the code that each thread runs, from the current thread to the one at `end`. */
  #writeThreads(stop: Stop, end: number, states: States | undefined, mayBeEmpty: boolean): void {
    const { body } = this.#values
    const { threadBytes } = this.context.program
    const { frame, thread } = this.#values
    const inRow = this.#values.row === undefined || states !== undefined ? undefined : body.local('i32')
    const [x = 0] = inRow === undefined ? [] : this.#values.tids()
    if (inRow !== undefined) body.write(x, end, thread, 'i32.sub', 'i32.add', set(inRow))
    if (mayBeEmpty) {
      body.write(thread, end, 'i32.lt_u')
      body.if()
      this.#labels.push({ kind: 'other', block: -1 })
    }
    const reads = (): number => body.readsOf(frame) + body.readsOf(thread)
    const before = reads()
    body.loop()
    this.#labels.push({ kind: 'threads', block: -1 })
    if (states !== undefined) {
      body.write(i32(SLICE), set(this.#fuel))
    }
    body.block()
    this.#labels.push({ kind: 'end', block: -1 })
    if (!this.fn.fn.entry) {
      body.write(this.#values.frame, memory('i32.load', FRAME.stack), set(this.#values.stack))
    }
    if (stop.kind === 'start' || stop.kind === 'enter') this.#initialTop()
    if (stop.kind === 'start') this.#clearUndefined(stop.block)
    else if (stop.kind === 'enter') this.#receiveParameters()
    else this.#restore(stop.block)
    this.#writeRegion(stop.block)
    this.#mark(undefined)
    this.#labels.pop()
    body.end()
    if (states !== undefined) this.#noteState(states.first, states.different)
    if (this.#counts && this.#spent !== undefined) {
      const spent = this.#spent
      body.write(spent, i32(SLICE), this.#fuel, 'i32.sub', 'i64.extend_i32_s', 'i64.add', set(spent))
    }
    // Code that needs neither the number of its thread nor the frame counts %tid.x alone.
    const isCounted = inRow === undefined || reads() !== before
    if (isCounted) {
      body.write(frame, i32(threadBytes), 'i32.add', set(frame), thread, i32(1), 'i32.add', set(thread))
    }
    if (this.#values.row !== undefined) {
      const [tid = 0] = this.#values.tids()
      body.write(tid, i32(1), 'i32.add', set(tid))
    }
    if (states !== undefined) this.#endAtLimit(end)
    if (isCounted) body.write(thread, end, 'i32.lt_u')
    else body.write(x, inRow, 'i32.lt_u')
    body.brIf(0)
    this.#labels.pop()
    body.end()
    if (mayBeEmpty) {
      this.#labels.pop()
      body.end()
    }
    if (isCounted) return
    body.write(frame, end, thread, 'i32.sub', i32(threadBytes), 'i32.mul', 'i32.add', set(frame), end, set(thread))
  }

  /** Ends the range of threads before the next one, if the budget is used up: the launch has to rest. */
  #endAtLimit(end: number): void {
    if (!this.#counts || this.#spent === undefined || this.#limit === undefined) return
    const { body, thread } = this.#values
    body.write(this.#spent, this.#limit, 'i64.gt_s')
    body.if()
    body.write(thread, set(2))
    if (end !== 2) body.write(thread, set(end))
    body.end()
  }

  /** The accesses that can be checked for all threads of a row, if there are any. */
  #rangesOf({ block }: Stop): RowRanges | undefined {
    if (this.context.checked || this.context.isStepped || this.#values.row === undefined) return undefined
    const { flow } = this.fn
    const blocks = regionFrom(flow, block).order.flatMap((id) => flow.blocks[id] ?? [])
    // A called function may free memory that a range lies in, so blocks with calls are not checked by rows.
    const calls = ({ form }: Decoded): boolean => form.meaning.kind === 'code' && form.meaning.code === 'call'
    const instructions = blocks.flatMap((each) => each.instructions)
    if (instructions.some(calls) || blocks.some(({ terminator }) => terminator.kind === 'call')) return undefined
    const guard = rowGuardOf(this.#values, flow, block)
    const first = flow.blocks[block]?.instructions ?? []
    const always = new Set([...first, ...(guard === undefined ? [] : (flow.blocks[guard.next]?.instructions ?? []))])
    const ranges = new RowRanges(this.#values, instructions, always, guard)
    return ranges.isEmpty ? undefined : ranges
  }

  /** Writes the code of the threads twice: with checks, and without them for rows that were checked as a whole. */
  #writeTwice(ranges: RowRanges, end: number, threads: RowThreads): void {
    const { body, thread } = this.#values
    const count = body.temporary('i32')
    body.write(end, thread, 'i32.sub', set(count))
    ranges.check(this.#values.tids()[0] ?? 0, count)
    body.release('i32', count)
    body.if()
    this.#labels.push({ kind: 'other', block: -1 })
    this.#instructions.addresses.ranges = ranges
    if (ranges.guard === undefined) {
      ranges.mark(end)
      threads(end, true)
    } else this.#writeGuarded(ranges, ranges.guard, end, threads)
    ranges.isMarked = false
    this.#instructions.addresses.ranges = undefined
    body.else()
    threads(end)
    this.#labels.pop()
    body.end()
  }

  /**
   * Writes the code of the threads of a checked row twice: without the guard, and with it for threads that do not all pass. A row that does not pass as
   * a whole, as at the edge of a grid, ends after a few threads, and the rest is the next row.
   */
  #writeGuarded(ranges: RowRanges, guard: RowGuard, end: number, threads: RowThreads): void {
    const { body, thread } = this.#values
    this.#cutsRows = true
    const passes = body.temporary('i32')
    body.loop()
    ranges.checkGuard(end)
    body.write(tee(passes), 'i32.eqz', end, thread, 'i32.sub', i32(LANES), 'i32.gt_u', 'i32.and')
    body.if()
    body.write(thread, i32(LANES), 'i32.add', set(end))
    body.br(1)
    body.end()
    body.end()
    body.get(passes)
    body.release('i32', passes)
    body.if()
    this.#labels.push({ kind: 'other', block: -1 })
    this.#passes = guard
    ranges.mark(end)
    threads(end, true)
    this.#passes = undefined
    ranges.isMarked = false
    body.else()
    threads(end)
    this.#labels.pop()
    body.end()
  }

  /** Whether the code reads %tid: then its threads run in rows, whose threads differ in %tid.x alone. */
  get #hasRows(): boolean {
    const reads = (operand: Operand): boolean => {
      if (operand.kind === 'special') return operand.name.startsWith('tid.')
      if (operand.kind === 'vector' || operand.kind === 'list') return operand.items.some(reads)
      return operand.kind === 'address' && reads(operand.base)
    }
    return (this.fn.fn.body ?? []).some(({ operands }) => operands.some(reads))
  }

  /** Begins a loop over the rows of threads; returns the local that has the end of the row. */
  #openRows(): number {
    if (!this.#hasRows) return 2
    const { body, thread } = this.#values
    const [x = 0] = this.#values.tids()
    const [end, rest] = [body.local('i32'), body.local('i32')]
    body.loop()
    body.write(this.#values.blockDimension(0), x, 'i32.sub', tee(rest), 2, thread, 'i32.sub', rest)
    body.write(2, thread, 'i32.sub', 'i32.lt_u', 'select', thread, 'i32.add', set(end))
    this.#values.row = body.place()
    return end
  }

  /** Ends the loop over rows: where tid.x has counted up to ntid.x, the next row has the next tid.y or tid.z. */
  #closeRows(): void {
    if (this.#values.row === undefined) return
    const { body, thread } = this.#values
    const [x = 0, y = 0, z = 0] = this.#values.tids()
    if (this.#cutsRows) {
      body.write(x, this.#values.blockDimension(0), 'i32.eq')
      body.if()
    }
    body.write(i32(0), set(x), y, i32(1), 'i32.add', tee(y), this.#values.blockDimension(1), 'i32.eq')
    body.if()
    body.write(i32(0), set(y), z, i32(1), 'i32.add', set(z))
    body.end()
    if (this.#cutsRows) body.end()
    body.write(thread, 2, 'i32.lt_u')
    body.brIf(0)
    body.end()
  }

  /** Stores the state in which a thread stopped, and compares it with the state of the first thread. */
  #noteState(first: number, different: number): void {
    const { body } = this.#values
    body.write(this.#values.frame, this.#state, memory('i32.store', FRAME.state), this.#values.thread, 1, 'i32.eq')
    body.if()
    body.write(this.#state, set(first))
    body.end()
    body.write(different, first, this.#state, 'i32.xor', 'i32.or', set(different))
  }

  /** Sets registers that are read before they are written to zero, for every thread. */
  #clearUndefined(block: number): void {
    for (const id of this.fn.live[block] ?? []) {
      const type = this.#values.typeOfId(id)
      if (type === 'i32') this.#values.body.i32(0)
      else if (type === 'i64') this.#values.body.i64(0n)
      else if (type === 'f32') this.#values.body.f32(0)
      else this.#values.body.f64(0n)
      this.#values.body.set(this.#values.localOfId(id))
    }
  }

  #isUsed(id: number): boolean {
    const entry = this.#entry
    return entry === undefined || entryRegisters(this.fn, entry).used.has(id)
  }

  #isKept(id: number): boolean {
    const entry = this.#entry
    return entry !== undefined && entryRegisters(this.fn, entry).kept.has(id)
  }

  #restore(block: number): void {
    for (const id of this.fn.live[block] ?? []) {
      const register = this.fn.fn.registers[id]
      const offset = this.fn.frame.saved.get(id)
      if (register === undefined || offset === undefined || !this.#isUsed(id)) continue
      this.#values.body.get(this.#values.stack)
      this.#loadRegister(register, offset)
    }
  }

  #save(block: number): void {
    for (const id of this.fn.live[block] ?? []) {
      const register = this.fn.fn.registers[id]
      const offset = this.fn.frame.saved.get(id)
      if (this.#isKept(id)) continue
      if (this.#lanes !== undefined && offset !== undefined) this.#lanes.save(id, offset)
      else if (register !== undefined && offset !== undefined) this.#storeRegister(register, this.#values.stack, offset)
    }
  }

  /** Loads a register; the base of the address is on the stack. */
  #loadRegister(register: Register, offset: number): void {
    const type = this.#values.typeOfId(register.id)
    if (register.type === 'b128') {
      const base = this.#values.body.temporary('i32')
      this.#values.body.tee(base)
      this.#values.body.memory('i64.load', offset)
      this.#values.body.set(this.#values.localOfId(register.id))
      this.#values.body.get(base)
      this.#values.body.memory('i64.load', offset + 8)
      this.#values.body.set(this.#values.upperOf(register))
      this.#values.body.release('i32', base)
      return
    }
    this.#values.body.memory(`${type}.load`, offset)
    this.#values.body.set(this.#values.localOfId(register.id))
  }

  #storeRegister(register: Register, base: number, offset: number): void {
    const type = this.#values.typeOfId(register.id)
    this.#values.body.get(base)
    this.#values.body.get(this.#values.localOfId(register.id))
    this.#values.body.memory(`${type}.store`, offset)
    if (register.type !== 'b128') return
    this.#values.body.get(base)
    this.#values.body.get(this.#values.upperOf(register))
    this.#values.body.memory('i64.store', offset + 8)
  }

  // Control flow --------------------------------------------------------------------------------------------------------

  #writeRegion(entry: number): void {
    const region = regionFrom(this.fn.flow, entry)
    const counted = this.rest === undefined ? region : regionFrom(this.fn.flow, this.rest.entry.block)
    this.#counted = counted
    const predecessors = this.#predecessorsIn(counted)
    for (const loop of counted.loops) this.#loopWeights.set(loop, this.#weigh(counted, loop, predecessors))
    if (counted.loops.size > 0) this.#counts = true
    if (region.reducible) this.#nest(region, entry)
    else this.#dispatch(region)
  }

  #predecessorsIn(region: Region): ReadonlyMap<number, readonly number[]> {
    const predecessors = new Map<number, number[]>()
    if (region.loops.size === 0) return predecessors
    for (const from of region.order) {
      const block = this.fn.flow.blocks[from]
      for (const target of block === undefined ? [] : edgesWithin(block)) {
        const list = predecessors.get(target)
        if (list === undefined) predecessors.set(target, [from])
        else list.push(from)
      }
    }
    return predecessors
  }

  /**
   * The cost of one turn of a loop: the number of its instructions, or more if it may wait for another thread. Blocks before its first one do not
   * belong to it: they lead to a loop that is entered in the middle.
   */
  #weigh(region: Region, header: number, predecessors: ReadonlyMap<number, readonly number[]>): LoopWeight {
    const own = region.position.get(header) ?? 0
    const sources = (predecessors.get(header) ?? []).filter((from) => (region.position.get(from) ?? 0) >= own)
    const inside = insideOf(region, header, sources, predecessors)
    const all = [...inside].flatMap((id) => this.fn.flow.blocks[id]?.instructions ?? [])
    const { waiting, text, goesInStep } = this.context.program
    const waits = (decoded: Decoded): boolean => mayWait(decoded) || waiting.has(functionCalledBy(decoded, text) ?? '')
    const spins = all.length < 60 && all.some(waits)
    const count = Math.max(1, all.length)
    const fruitless = sources.filter(
      (from) => spins && goesInStep && this.#isFruitless(insideOf(region, header, [from], predecessors), header),
    )
    // A loop that waits for another thread reads memory past the caches, so each of its instructions counts for several.
    return {
      weight: spins ? SLICE / SPIN_TURNS : count,
      instructions: spins ? 8 * count : count,
      spins,
      fruitless: new Set(fruitless),
    }
  }

  /**
   * Whether a turn of a loop, through these blocks, changes no register with which the next begins: that would do the same until another thread
   * changes memory.
   */
  #isFruitless(blocks: ReadonlySet<number>, header: number): boolean {
    const { flow } = this.fn
    this.#needed ??= liveAtStart(flow)
    const kept = this.#needed[header]
    const isKept = ({ id }: Register): boolean => kept?.has(id) !== false
    return [...blocks].every((block) =>
      flow.blocks[block]?.instructions.every((decoded) => !accessesOf(decoded).writes.some(isKept)),
    )
  }

  /**
   * Nests blocks by the tree of dominators (Ramsey, "Beyond Relooper"): a block that several branches reach is written behind the block of
   * WebAssembly that they leave. A list of tasks takes the place of recursion, which kernels may make too deep.
   */
  #nest(region: Region, entry: number): void {
    const tasks: (() => void)[] = [() => this.#tree(region, entry, tasks)]
    for (let task = tasks.pop(); task !== undefined; task = tasks.pop()) task()
  }

  #tree(region: Region, id: number, tasks: (() => void)[]): void {
    const { body } = this.#values
    const content = this.fn.flow.blocks[id]
    if (this.#lanes !== undefined && content !== undefined && !this.#lanes.shapes.canRun(content)) {
      this.#handOver(undefined, [id])
      return
    }
    const behind = (region.children.get(id) ?? []).filter((child) => region.merges.has(child))
    const isLoop = region.loops.has(id)
    const steps: (() => void)[] = []
    if (isLoop) {
      steps.push(() => {
        body.loop()
        this.#labels.push({ kind: 'loop', block: id })
      })
    }
    if (this.#counted?.loops.has(id)) steps.push(() => this.#turn(id))
    // The block that comes last must be the outermost block of WebAssembly.
    const outermostFirst = [...behind].sort((a, b) => (region.position.get(b) ?? 0) - (region.position.get(a) ?? 0))
    for (const merge of outermostFirst) {
      steps.push(() => {
        body.block()
        this.#labels.push({ kind: 'block', block: merge })
      })
    }
    steps.push(() => {
      const block = this.fn.flow.blocks[id]
      if (block !== undefined) this.#writeBlock(region, id, block, tasks)
    })
    for (const merge of outermostFirst.reverse()) {
      steps.push(() => {
        this.#labels.pop()
        body.end()
      })
      steps.push(() => this.#tree(region, merge, tasks))
    }
    if (isLoop) {
      steps.push(() => {
        this.#labels.pop()
        body.end()
      })
    }
    for (const step of steps.reverse()) tasks.push(step)
  }

  #writeBlock(region: Region, id: number, block: Block, tasks: (() => void)[]): void {
    const { body } = this.#values
    this.#writeContent(id, block)
    this.#mark(block.end)
    const { terminator } = block
    switch (terminator.kind) {
      case 'goto':
        this.#go(region, id, terminator.target, tasks)
        return
      case 'branch': {
        if (this.#passes?.block === id) {
          this.#go(region, id, terminator.next, tasks)
          return
        }
        if (this.#lanes?.shapes.of(terminator.register.id) === 'lanes') {
          this.#branchOfLanes(region, id, terminator, tasks)
          return
        }
        this.#values.pushRegister(terminator.register)
        if (terminator.negated) body.op('i32.eqz')
        body.if()
        this.#labels.push({ kind: 'other', block: -1 })
        const steps = [
          () => this.#go(region, id, terminator.target, tasks),
          () => body.else(),
          () => this.#go(region, id, terminator.next, tasks),
          () => {
            this.#labels.pop()
            body.end()
          },
        ]
        for (const step of steps.reverse()) tasks.push(step)
        return
      }
      case 'switch': {
        this.#switch(region, id, terminator.index, terminator.targets, tasks)
        return
      }
      default:
        this.#leave(block)
    }
  }

  /** Writes a branch of lanes: they take it together, or part. */
  #branchOfLanes(
    region: Region,
    id: number,
    { register, negated, target, next }: Extract<Block['terminator'], { kind: 'branch' }>,
    tasks: (() => void)[],
  ): void {
    const { body } = this.#values
    const all = (1 << LANES) - 1
    const bits = body.temporary('i32')
    this.#lanes?.pushMask(register)
    body.op('i32x4.bitmask')
    if (negated) body.write(i32(all), 'i32.xor')
    body.write(tee(bits), i32(all), 'i32.eq')
    const open = (): void => {
      body.if()
      this.#labels.push({ kind: 'other', block: -1 })
    }
    const close = (): void => {
      this.#labels.pop()
      body.end()
    }
    open()
    const steps = [
      () => this.#go(region, id, target, tasks),
      () => {
        body.else()
        body.write(bits, 'i32.eqz')
        open()
      },
      () => this.#go(region, id, next, tasks),
      () => {
        body.else()
        this.#handOver(id, [target, next], bits)
        body.release('i32', bits)
        close()
        close()
      },
    ]
    for (const step of steps.reverse()) tasks.push(step)
  }

  /** Writes a `brx`: targets that only this branch reaches get a block of WebAssembly each, to the others it branches. */
  #switch(region: Region, id: number, index: Operand, targets: readonly number[], tasks: (() => void)[]): void {
    const { body } = this.#values
    const distinct = [...new Set(targets)]
    for (const target of distinct) {
      body.block()
      this.#labels.push({ kind: 'other', block: target })
    }
    this.#values.push(index, 'u32')
    // The innermost block of WebAssembly belongs to the last target.
    const depths = targets.map((target) => distinct.length - 1 - distinct.indexOf(target))
    body.brTable(depths, depths.at(-1) ?? 0)
    const steps: (() => void)[] = []
    for (const target of distinct.reverse()) {
      steps.push(() => {
        this.#labels.pop()
        body.end()
      })
      steps.push(() => this.#go(region, id, target, tasks))
    }
    for (const step of steps.reverse()) tasks.push(step)
  }

  /** Whether a branch begins another round of a loop of the entry. */
  #isCounted(from: number, target: number): boolean {
    const { position, loops } = this.#counted ?? {}
    return loops?.has(target) === true && (position?.get(target) ?? 0) <= (position?.get(from) ?? 0)
  }

  #go(region: Region, from: number, target: number, tasks: (() => void)[]): void {
    if (this.#isCounted(from, target)) this.#pay(from, target)
    if ((region.position.get(target) ?? 0) <= (region.position.get(from) ?? 0)) {
      this.#branch('loop', target)
    } else if (region.merges.has(target)) this.#branch('block', target)
    else tasks.push(() => this.#tree(region, target, tasks))
  }

  #branch(kind: Label['kind'], block: number): void {
    for (let depth = 0; depth < this.#labels.length; depth++) {
      const label = this.#labels[this.#labels.length - 1 - depth]
      if (label?.kind === kind && label.block === block) {
        this.#values.body.br(depth)
        return
      }
    }
    throw new Error('A branch leads nowhere')
  }

  #pay(from: number, loop: number): void {
    const { body } = this.#values
    const { weight: usual = 1, instructions = 1, fruitless } = this.#loopWeights.get(loop) ?? {}
    const weight = fruitless?.has(from) ? SLICE + 1 : usual
    body.write(this.#fuel, i32(weight), 'i32.sub', set(this.#fuel))
    if (this.#spent === undefined || weight === instructions) return
    // The weight is counted as instructions below, so the difference between both is taken back here.
    const threads = this.#lanes === undefined ? 1 : LANES
    body.write(this.#spent, i64(BigInt(threads * (weight - instructions))), 'i64.sub', set(this.#spent))
  }

  /** Writes the check at the start of a loop: a thread that has used up its turn lets others go on. */
  #turn(id: number): void {
    const { body } = this.#values
    this.#mark(undefined)
    body.write(this.#fuel, i32(0), 'i32.lt_s')
    body.if()
    this.#labels.push({ kind: 'other', block: -1 })
    const stop = this.fn.stopAt.get(id)
    if (stop === undefined) this.#values.fail('endless', this.#firstOf(id))
    else this.#stopAt(stop)
    this.#labels.pop()
    body.end()
  }

  #firstOf(id: number): Decoded | undefined {
    return this.fn.flow.blocks[id]?.instructions[0] ?? this.#firstDecoded()
  }

  /** Writes a region whose loops have several entries: a loop around all blocks, which branches to the block with the current number. */
  #dispatch(region: Region): void {
    const { body } = this.#values
    const next = body.local('i32')
    body.write(i32(0), set(next))
    body.loop()
    this.#labels.push({ kind: 'loop', block: -2 })
    // The first block is the innermost, so that its number is also the depth of its label.
    for (const id of [...region.order].reverse()) {
      body.block()
      this.#labels.push({ kind: 'other', block: id })
    }
    body.get(next)
    body.brTable(
      region.order.map((_, index) => index),
      0,
    )
    const jump = (from: number, target: number): void => {
      if (this.#isCounted(from, target)) this.#pay(from, target)
      body.write(i32(region.position.get(target) ?? 0), set(next))
      this.#branch('loop', -2)
    }
    for (const id of region.order) {
      this.#labels.pop()
      body.end()
      const block = this.fn.flow.blocks[id]
      if (block === undefined) continue
      if (this.#counted?.loops.has(id)) this.#turn(id)
      this.#writeContent(id, block)
      this.#mark(block.end)
      const { terminator } = block
      if (terminator.kind === 'goto') jump(id, terminator.target)
      else if (terminator.kind === 'branch') {
        this.#values.pushRegister(terminator.register)
        if (terminator.negated) body.op('i32.eqz')
        body.if()
        this.#labels.push({ kind: 'other', block: -1 })
        jump(id, terminator.target)
        this.#labels.pop()
        body.end()
        jump(id, terminator.next)
      } else if (terminator.kind === 'switch') {
        const index = body.temporary('i32')
        this.#values.push(terminator.index, 'u32')
        body.set(index)
        for (const [number, target] of terminator.targets.entries()) {
          body.write(index, i32(number), 'i32.eq')
          body.if()
          this.#labels.push({ kind: 'other', block: -1 })
          jump(id, target)
          this.#labels.pop()
          body.end()
        }
        body.release('i32', index)
        jump(id, terminator.targets.at(-1) ?? id)
      } else this.#leave(block)
    }
    this.#labels.pop()
    body.end()
  }

  #writeContent(id: number, block: Block): void {
    let part = 0
    this.#enterSegment(id, part)
    if (block.receives !== undefined) this.#receive(block.receives)
    this.#instructions.addresses.groupAccesses(block.instructions)
    for (const decoded of block.instructions) {
      this.#instruction(decoded)
      if (isCall(decoded)) this.#enterSegment(id, ++part)
    }
  }

  /** Tells that the thread comes to a part of a block, in code that counts. */
  #enterSegment(block: number, part: number): void {
    if (!this.context.isCounted) return
    const { body, thread } = this.#values
    body.write(i32(this.context.segment(this.fn, block, part)), thread, call(this.context.runtime('entered')))
  }

  /** Tells which memory an instruction is about to access, in code that counts. */
  #countAccess(decoded: Decoded): void {
    const { meaning } = decoded.form
    if (!this.context.isCounted || meaning.kind !== 'code') return
    const { T: type = 'b32', vec = 'v1' } = decoded.modifiers
    if (/^(?:load|store|atomic)$/.test(meaning.code)) {
      const bytes = (Math.max(8, bitsOf(type)) / 8) * Number(vec.slice(1))
      const operand = operandOf(decoded, 'a')
      if (!/^const/.test(decoded.modifiers['space'] ?? ''))
        this.#countAddress(operand, this.#instructions.addresses.spaceOf(decoded, operand), bytes, decoded)
    } else if (meaning.code === 'copy') {
      const size = operandOf(decoded, 'c')
      const bytes = size.kind === 'integer' ? Number(size.value) : 0
      this.#countAddress(operandOf(decoded, 'a'), 'shared', bytes, decoded)
      this.#countAddress(operandOf(decoded, 'b'), 'global', bytes, decoded)
    }
  }

  #countAddress(operand: Operand, space: string, bytes: number, decoded: Decoded): void {
    if (operand.kind !== 'address' || !/^(?:generic|global|shared)$/.test(space)) return
    const { body, thread } = this.#values
    body.i32(this.context.site(decoded).number)
    if (space === 'shared') {
      this.#values.push(operand.base, 'u32')
      body.write(i32(Number(BigInt.asIntN(32, operand.offset))), 'i32.add', 'i64.extend_i32_u')
      body.write(i64(SHARED_WINDOW), 'i64.add')
    } else this.#values.push(operand, 'u64')
    body.write('f64.convert_i64_u', i32(bytes), thread, call(this.context.runtime('accessed')))
  }

  #instruction(decoded: Decoded): void {
    const { guard } = decoded.instruction
    if (this.#values.isShared(decoded)) return
    this.#mark(decoded)
    const lanes = this.#lanes
    if (lanes !== undefined && guard !== undefined && lanes.shapes.of(guard.register.id) === 'lanes') {
      lanes.writeGuarded(decoded, guard.register, guard.negated)
      return
    }
    if (guard !== undefined) {
      this.#values.pushRegister(guard.register)
      if (guard.negated) this.#values.body.op('i32.eqz')
      this.#values.body.if()
      this.#labels.push({ kind: 'other', block: -1 })
    }
    this.#countAccess(decoded)
    if (lanes === undefined) this.#instructions.write(decoded)
    else lanes.write(decoded)
    if (guard !== undefined) {
      this.#labels.pop()
      this.#values.body.end()
    }
  }

  /** Writes the ends of a block that leave the region. */
  #leave({ terminator, end }: Block): void {
    const { body } = this.#values
    this.#mark(end)
    switch (terminator.kind) {
      case 'return':
        this.#return()
        return
      case 'exit':
        if (this.#isDirect) {
          // An `exit` in a function that was called directly would have to leave the whole block of threads, so it fails.
          this.#values.fail('exit', this.#firstDecoded())
          return
        }
        body.write(i32(EXITED), set(this.#state))
        this.#branch('end', -1)
        return
      case 'trap':
        this.#values.fail('trap', terminator.at)
        return
      case 'meeting':
        this.#meet(terminator.at, terminator.next)
        return
      case 'call':
        this.#instructions.calls.callStopping(terminator.at)
        body.set(this.#state)
        this.#stopAtBlock(terminator.next, terminator.at)
    }
  }

  #return(): void {
    const { body } = this.#values
    this.#leaveResults()
    if (this.#isDirect) {
      this.#branch('end', -1)
      return
    }
    if (this.fn.fn.entry) {
      body.write(i32(EXITED), set(this.#state))
    } else {
      // The link in the frame consists of the caller's state and the caller's frame.
      body.write(
        this.#values.stack,
        memory('i32.load', 0),
        set(this.#state),
        this.#values.frame,
        this.#values.stack,
        memory('i32.load', 4),
        memory('i32.store', FRAME.stack),
      )
    }
    this.#branch('end', -1)
  }

  #meet(decoded: Decoded, next: number): void {
    const stop = this.fn.stopAt.get(next)
    if (stop?.cells === undefined) throw new Error('A meeting has no stop')
    for (const cell of stop.cells.sources) {
      const { offset } = cell
      if (offset === undefined) continue
      const write = (): void => {
        this.#values.body.get(this.#values.frame)
        if (cell.operand.kind === 'register') this.#values.push(cell.operand, cell.bytes === 8 ? 'b64' : 'b32')
        else if (cell.operand.kind === 'not') this.#values.push(cell.operand, 'pred')
        else this.#pushAddress(cell.operand, decoded)
        this.#values.body.memory(cell.bytes === 8 ? 'i64.store' : 'i32.store', offset)
      }
      const reads: Register[] = []
      registersOf(cell.operand, reads)
      if (this.#lanes === undefined) write()
      else if (!this.#lanes.saveCell(cell.operand, offset, cell.bytes)) this.#lanes.eachLane(reads, [], write)
    }
    this.#stopAt(stop)
  }

  #pushAddress(operand: Operand, decoded: Decoded): void {
    this.#values.push(operand, 'u64')
    if (operand.kind !== 'address') return
    const variable = operand.base.kind === 'symbol' ? this.#values.variableOf(operand.base) : undefined
    // The compiler knows the address space of a name; the run time gets generic addresses unless the opcode says the space.
    if (variable?.space === 'local' && decoded.modifiers['space'] === undefined) {
      this.#values.body.i64(LOCAL_WINDOW)
      this.#values.body.op('i64.add')
    }
  }

  #stopAtBlock(block: number, at: Decoded): void {
    const stop = this.fn.stopAt.get(block)
    if (stop === undefined) throw ptxError('ERR_UNSUPPORTED', 'A thread cannot stop here', at.instruction)
    this.#save(stop.block)
    this.#branch('end', -1)
  }

  #stopAt(stop: Stop): void {
    this.#save(stop.block)
    this.#values.body.i32(stop.id)
    this.#values.body.set(this.#state)
    this.#branch('end', -1)
  }

  #receive(decoded: Decoded): void {
    this.#mark(decoded)
    if (decoded.form.meaning.kind !== 'meeting') {
      const receive = (): void => this.#instructions.calls.receiveResults(decoded)
      if (this.#lanes === undefined) receive()
      else this.#lanes.eachLane([], accessesOf(decoded).writes, receive)
      return
    }
    const stop = [...this.fn.stopAt.values()].find((each) => each.at === decoded && each.kind === 'meeting')
    for (const cell of stop?.cells?.results ?? []) {
      const { operand, offset } = cell
      if (offset === undefined || operand.kind !== 'register') continue
      const write = (): void => {
        this.#values.body.get(this.#values.frame)
        this.#values.body.memory(cell.bytes === 8 ? 'i64.load' : 'i32.load', offset)
        this.#values.popTo(operand.register, cell.bytes === 8 ? 'b64' : 'b32')
      }
      if (this.#lanes === undefined) write()
      else if (!this.#lanes.restoreCell(operand.register, offset, cell.bytes))
        this.#lanes.eachLane([], [operand.register], write)
    }
  }
}

/** The blocks of a loop from which these blocks lead back to its start. */
function insideOf(
  region: Region,
  header: number,
  sources: readonly number[],
  predecessors: ReadonlyMap<number, readonly number[]>,
): ReadonlySet<number> {
  const inside = new Set<number>([header])
  const own = region.position.get(header) ?? 0
  const queue = [...sources]
  for (let at = queue.pop(); at !== undefined; at = queue.pop()) {
    if (inside.has(at) || (region.position.get(at) ?? 0) < own) continue
    inside.add(at)
    for (const each of predecessors.get(at) ?? []) queue.push(each)
  }
  return inside
}
