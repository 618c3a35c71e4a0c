/**
 * Writes the WebAssembly of one function: an entry of a kernel, which runs threads one after the other from a stop to
 * their next stops, or a function that is called and never stops.
 */

import { regionFrom } from './control-flow.js'
import type { Decoded } from './decoding.js'
import { FlowWriter } from './flow-writer.js'
import { type EntryPlace, FunctionParts } from './function-parts.js'
import { LaneLoop, type States } from './lane-loop.js'
import { LANES } from './lane-shapes.js'
import { BLOCK, EXITED, FRAME, MIXED, SLICE } from './layout.js'
import type { PreparedFunction, Stop } from './program.js'
import { type RowGuard, rowGuardOf } from './row-guard.js'
import { RowRanges } from './row-ranges.js'
import { continuationSignature, StopWriter } from './stop-writer.js'
import type { Operand } from './syntax.js'
import type { ModuleContext, ValueWriter } from './value-writer.js'
import { type FunctionDescription, i32, memory, set, tee } from './wasm-encoder.js'

/** Writes the code of threads from the current one up to the one in the local `end`, as lanes where that is asked for and pays. */
type RowThreads = (end: number, asLanes?: boolean) => void

export class FunctionWriter {
  readonly #parts: FunctionParts
  readonly #values: ValueWriter
  readonly #stops: StopWriter
  readonly #flow: FlowWriter
  readonly #lanes: LaneLoop
  /** Whether a row may end before its last thread, so that the rest of it is a row of its own. */
  #cutsRows = false
  /** The budget after which no further thread begins. */
  #limit: number | undefined

  constructor(
    private readonly context: ModuleContext,
    private readonly fn: PreparedFunction,
    private readonly stop: Stop | undefined,
    /** The block at which a function begins that is the rest of an entry for one thread, and that at which the entry begins. */
    private readonly rest?: { readonly block: number; readonly entry: EntryPlace },
  ) {
    const role = stop !== undefined ? 'entry' : rest === undefined ? 'direct' : 'continuation'
    const parameters = rest === undefined ? undefined : continuationSignature(fn, rest.block, rest.entry).parameters
    const entry =
      stop === undefined ? rest?.entry : { block: stop.block, isStart: stop.kind === 'start' || stop.kind === 'enter' }
    this.#parts = new FunctionParts(context, fn, role, entry, parameters)
    this.#values = this.#parts.values
    this.#stops = new StopWriter(this.#parts)
    this.#flow = new FlowWriter(this.#parts, this.#stops, (...parting) => this.#lanes.handOver(...parting))
    this.#lanes = new LaneLoop(this.#parts, this.#stops, this.#flow)
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

  /** Writes the code from a block on, for one thread that other lanes have parted from; returns the state in which the thread stops. */
  #writeRest(block: number, entry: EntryPlace): void {
    const parts = this.#parts
    const { body } = this.#values
    const spent = body.local('i64')
    parts.spent = spent
    if (this.#hasRows) {
      this.#values.tids()
      this.#values.row = body.place()
    }
    this.#stops.receiveContinued(block, entry)
    parts.open('block', 'end')
    this.#flow.writeRegion(block)
    parts.close()
    if (this.context.program.stopsThreads) {
      body.write(this.#values.block, spent, i32(SLICE), parts.fuel, 'i32.sub', 'i64.extend_i32_s', 'i64.add')
      body.write(memory('i64.store', BLOCK.handed))
    }
    body.get(parts.state)
  }

  #writeDirect(): void {
    const { body } = this.#values
    body.write(i32(1 << 29), set(this.#parts.fuel))
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
    this.#values.fail('overflow', this.#parts.firstDecoded)
    body.end()
    this.#stops.initialTop()
    this.#parts.open('block', 'end')
    this.#stops.receiveParameters()
    this.#flow.writeRegion(0)
    this.#parts.mark(undefined)
    this.#parts.close()
  }

  /** Writes entry(block, from, to), which runs the threads `from` to `to` and returns the state that all of them have afterwards, or MIXED. */
  #writeEntry(stop: Stop): void {
    const { body } = this.#values
    const { threadBytes } = this.context.program
    const [first, different] = [body.local('i32'), body.local('i32')]
    const [spent, limit] = [body.local('i64'), body.local('i64')]
    this.#parts.spent = spent
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
    const shapes = this.#lanes.shapesFor(stop, ranges)
    const threads: RowThreads = (last, asLanes = false) => {
      if (asLanes && shapes !== undefined) {
        this.#lanes.write(stop, last, states, shapes, () => {
          if (states !== undefined) this.#endAtLimit(last)
        })
      }
      this.#writeThreads(stop, last, states, asLanes && shapes !== undefined)
    }
    if (ranges === undefined) threads(end, true)
    else this.#writeTwice(ranges, end, threads)
    this.#closeRows()
    if (this.#flow.hasLoops) {
      body.write(0, 0, memory('i64.load', BLOCK.spent), spent, 'i64.add', memory('i64.store', BLOCK.spent))
      if (stops) body.at(body.start, () => body.write(0, memory('i64.load', BLOCK.limit), set(limit)))
    }
    if (stops) {
      body.write(0, 2, memory('i32.store', BLOCK.next))
      body.write(i32(MIXED), first, different, 'select')
    } else body.i32(EXITED)
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
      this.#parts.open('if')
    }
    const reads = (): number => body.readsOf(frame) + body.readsOf(thread)
    const before = reads()
    this.#parts.open('loop', 'threads')
    if (states !== undefined) {
      body.write(i32(SLICE), set(this.#parts.fuel))
    }
    this.#parts.open('block', 'end')
    if (!this.fn.fn.entry) {
      body.write(this.#values.frame, memory('i32.load', FRAME.stack), set(this.#values.stack))
    }
    if (stop.kind === 'start' || stop.kind === 'enter') this.#stops.initialTop()
    if (stop.kind === 'start') this.#stops.clearUndefined(stop.block)
    else if (stop.kind === 'enter') this.#stops.receiveParameters()
    else this.#stops.restore(stop.block)
    this.#flow.writeRegion(stop.block)
    this.#parts.mark(undefined)
    this.#parts.close()
    if (states !== undefined) this.#noteState(states.first, states.different)
    if (this.#flow.hasLoops && this.#parts.spent !== undefined) {
      const spent = this.#parts.spent
      body.write(spent, i32(SLICE), this.#parts.fuel, 'i32.sub', 'i64.extend_i32_s', 'i64.add', set(spent))
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
    this.#parts.close()
    if (mayBeEmpty) {
      this.#parts.close()
    }
    if (isCounted) return
    body.write(frame, end, thread, 'i32.sub', i32(threadBytes), 'i32.mul', 'i32.add', set(frame), end, set(thread))
  }

  /** Ends the range of threads before the next one, if the budget is used up: the launch has to rest. */
  #endAtLimit(end: number): void {
    if (!this.#flow.hasLoops || this.#parts.spent === undefined || this.#limit === undefined) return
    const { body, thread } = this.#values
    body.write(this.#parts.spent, this.#limit, 'i64.gt_s')
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
    this.#parts.open('if')
    this.#parts.instructions.addresses.ranges = ranges
    if (ranges.guard === undefined) {
      ranges.mark(end)
      threads(end, true)
    } else this.#writeGuarded(ranges, ranges.guard, end, threads)
    ranges.isMarked = false
    this.#parts.instructions.addresses.ranges = undefined
    body.else()
    threads(end)
    this.#parts.close()
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
    this.#parts.open('if')
    this.#flow.passes = guard
    ranges.mark(end)
    threads(end, true)
    this.#flow.passes = undefined
    ranges.isMarked = false
    body.else()
    threads(end)
    this.#parts.close()
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
    body.write(
      this.#values.frame,
      this.#parts.state,
      memory('i32.store', FRAME.state),
      this.#values.thread,
      1,
      'i32.eq',
    )
    body.if()
    body.write(this.#parts.state, set(first))
    body.end()
    body.write(different, first, this.#parts.state, 'i32.xor', 'i32.or', set(different))
  }
}
