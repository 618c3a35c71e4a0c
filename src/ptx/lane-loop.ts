/** Writes the loop that runs threads of an entry as lanes, several at once, as long as that pays, and lets lanes that part go on by themselves. */
import { regionFrom } from './control-flow.js'
import type { Decoded } from './decoding.js'
import type { FlowWriter } from './flow-writer.js'
import type { FunctionParts } from './function-parts.js'
import { type AccessCost, LANES, LaneShapes } from './lane-shapes.js'
import { LaneWriter } from './lane-writer.js'
import { BLOCK, EXITED, FRAME, SLICE } from './layout.js'
import type { PreparedFunction, Stop } from './program.js'
import { checkWidened, type RowRanges } from './row-ranges.js'
import { continued, type StopWriter } from './stop-writer.js'
import { i32, i64, memory, set } from './wasm-encoder.js'

/** The locals in which an entry compares the states of its threads. */
export interface States {
  readonly first: number
  readonly different: number
}

/** The share of a turn below which lanes that part have run together in vain, and how often in a row they may. */
const EARLY = 256
const MOST_MISSES = 6

const shapesOf = new WeakMap<PreparedFunction, LaneShapes>()

export class LaneLoop {
  /** The locals in which lanes note their states, if they may stop. */
  #states: States | undefined
  /** The local that counts how often lanes have parted early. */
  #misses = 0

  constructor(
    private readonly parts: FunctionParts,
    private readonly stops: StopWriter,
    private readonly flow: FlowWriter,
  ) {}

  /** What lanes have in common, if threads from this stop on are to run as lanes. */
  shapesFor({ block }: Stop, ranges: RowRanges | undefined): LaneShapes | undefined {
    const { context, fn, values } = this.parts
    const { lanes, recorded, checked, program } = context
    if (lanes === 'never' || checked || !fn.fn.entry || values.usesAlloca) return undefined
    const region = regionFrom(fn.flow, block)
    if (!region.reducible) return undefined
    let shapes = shapesOf.get(fn)
    if (shapes === undefined) {
      shapes = new LaneShapes(fn, program.localBytes)
      shapesOf.set(fn, shapes)
    }
    const costOf = (decoded: Decoded): AccessCost => {
      const range = ranges?.of(decoded)
      if (range !== undefined && (!recorded || range.isWhole)) return 'free'
      return recorded && !/^shared/.test(decoded.modifiers['space'] ?? '') ? 'recorded' : 'checked'
    }
    return shapes.pays(region, lanes, costOf) ? shapes : undefined
  }

  /**
   * Writes a loop that runs threads as lanes as long as there are enough of them up to `end`; the others are left.
   * @param ended Writes what comes behind the lanes of a turn of the loop
   */
  write(stop: Stop, end: number, states: States | undefined, shapes: LaneShapes, ended: () => void): void {
    const { parts } = this
    const { values, instructions, fuel, spent } = parts
    const { body, frame, thread } = values
    const { threadBytes } = parts.context.program
    const lanes = new LaneWriter(values, instructions, shapes)
    parts.context.tellLanes()
    parts.lanes = lanes
    instructions.addresses.lanes = shapes
    this.#states = states
    const failed = body.local('i32')
    this.#misses = body.local('i32')
    parts.open('block')
    this.#checkWidened(shapes, stop.block, end)
    parts.open('loop', 'threads')
    body.write(end, thread, 'i32.sub', i32(LANES), 'i32.lt_s')
    const isMissed = body.place()
    body.brIf(1)
    if (states !== undefined) body.write(i32(SLICE), set(fuel))
    if (stop.kind === 'start') {
      this.stops.clearUndefined(stop.block)
      for (const id of parts.fn.live.at(stop.block)) lanes.clear(id)
    } else {
      body.write(i32(0), set(failed))
      for (const [id, offset] of this.stops.savedAt(stop.block)) lanes.restore(id, offset, failed)
      body.get(failed)
      body.brIf(1)
    }
    parts.open('block', 'handed')
    parts.open('block', 'end')
    this.flow.writeRegion(stop.block)
    parts.close()
    if (states !== undefined) for (let lane = 0; lane < LANES; lane++) this.#noteLane(lane, states)
    if (this.flow.hasLoops && spent !== undefined) {
      body.write(spent, i32(SLICE), fuel, 'i32.sub', i32(LANES), 'i32.mul', 'i64.extend_i32_s')
      body.write('i64.add', set(spent))
    }
    if (body.readsOf(this.#misses) > 0) {
      body.write(this.#misses, this.#misses, i32(0), 'i32.ne', 'i32.sub', set(this.#misses))
      body.at(isMissed, () => body.write(this.#misses, i32(MOST_MISSES), 'i32.gt_s', 'i32.or'))
    }
    parts.close()
    body.write(frame, i32(LANES * threadBytes), 'i32.add', set(frame), thread, i32(LANES), 'i32.add', set(thread))
    if (values.row !== undefined) {
      const [x = 0] = values.tids()
      body.write(x, i32(LANES), 'i32.add', set(x))
    }
    ended()
    body.br(0)
    parts.close()
    parts.close()
    parts.lanes = undefined
    instructions.addresses.lanes = undefined
  }

  /** Writes checks that what is taken to grow evenly along a row does not wrap there: if it does, no threads of the row run as lanes. */
  #checkWidened(shapes: LaneShapes, block: number, end: number): void {
    const { fn, values } = this.parts
    const widened = shapes.widened(regionFrom(fn.flow, block))
    if (widened.length === 0) return
    const { body, thread } = values
    const last = body.temporary('i32')
    body.write(end, thread, 'i32.sub', i32(1), 'i32.sub', set(last))
    values.atFirst(() => {
      for (const each of widened) checkWidened(values, each, last)
    })
    body.release('i32', last)
  }

  /** Stores the state in which a lane stopped, and compares it with that of the first thread. */
  #noteLane(lane: number, { first, different }: States): void {
    const { values, state, context } = this.parts
    const { body, frame, thread } = values
    const at = FRAME.state + lane * context.program.threadBytes
    body.write(frame, state, memory('i32.store', at))
    if (lane === 0) {
      body.write(state, first, thread, 1, 'i32.eq', 'select', set(first))
    }
    body.write(different, first, state, 'i32.xor', 'i32.or', set(different))
  }

  /** Lets each lane go on by itself: those of which `bits` has a bit at the first block, the others at the second one. */
  handOver(from: number | undefined, targets: readonly number[], bits?: number): void {
    const { parts } = this
    const { lanes, entry, spent, fuel, state } = parts
    const { body, block, frame, thread } = parts.values
    if (lanes === undefined) throw new Error('There are no lanes')
    const { threadBytes } = parts.context.program
    const states = this.#states
    if (entry === undefined) throw new Error('Only an entry has lanes')
    const goOn = (target: number, lane: number): void => {
      const loop = from === undefined ? undefined : this.flow.costOf(from, target)
      const next = parts.fn.flow.blocks[target]
      const ends = next?.instructions.length === 0 && /^(?:return|exit)$/.test(next.terminator.kind)
      const pushFuel = (): void => {
        body.get(fuel)
        if (loop !== undefined) body.write(i32(loop.weight), 'i32.sub')
      }
      if (loop !== undefined && spent !== undefined && loop.weight !== loop.instructions) {
        body.write(spent, i64(BigInt(loop.weight - loop.instructions)), 'i64.sub', set(spent))
      }
      if (ends) {
        if (states !== undefined) {
          body.i32(SLICE)
          pushFuel()
          body.write('i32.sub', 'i64.extend_i32_s', set(spentByLane))
        }
        body.write(i32(EXITED), set(state))
        return
      }
      body.write(block, frame, i32(lane * threadBytes), 'i32.add', thread, i32(lane), 'i32.add')
      pushFuel()
      for (const id of continued(parts.fn, target, entry)) lanes.pushLane(id, lane)
      body.call(parts.context.continuation(parts.fn, target, entry))
      body.set(state)
      if (states !== undefined) body.write(block, memory('i64.load', BLOCK.handed), set(spentByLane))
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
      if (spent !== undefined) body.write(spent, spentByLane, 'i64.add', set(spent))
    }
    body.release('i64', spentByLane)
    // Where lanes part early again and again, threads do not run as lanes any more.
    const misses = this.#misses
    body.write(misses, i32(2))
    if (states !== undefined) body.write(i32(0), fuel, i32(SLICE - EARLY), 'i32.gt_s', 'select')
    body.write('i32.add', set(misses))
    parts.branch('handed')
  }
}
