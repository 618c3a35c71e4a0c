/** Writes the control flow of a function: its blocks and branches as WebAssembly nests them, and loops, whose turns use up the turn of their thread. */
import { type Block, edgesWithin, functionCalledBy, type Region, regionFrom } from './control-flow.js'
import { accessesOf, type Decoded } from './decoding.js'
import type { FunctionParts } from './function-parts.js'
import { LANES } from './lane-shapes.js'
import { SLICE, SPIN_TURNS } from './layout.js'
import { mayWait } from './program.js'
import type { RowGuard } from './row-guard.js'
import { isCall } from './segments.js'
import type { StopWriter } from './stop-writer.js'
import type { Operand, Register } from './syntax.js'
import { i32, i64, set, tee } from './wasm-encoder.js'

/** The cost of one turn of a loop: `weight` is taken from the thread's own turn, `instructions` is added to those of the launch. */
interface LoopWeight {
  readonly weight: number
  readonly instructions: number
  /** The blocks that lead back to the start, and have changed nothing in registers then: a lane yields at once where lanes go in step. */
  readonly fruitless: ReadonlySet<number>
}

/** Writes what lanes do that part, or come to a block that they cannot run together (`LaneLoop.handOver`). */
export type HandOver = (from: number | undefined, targets: readonly number[], bits?: number) => void

export class FlowWriter {
  /** The guard that all threads of the current row pass, so that its branch is not written. */
  passes: RowGuard | undefined
  readonly #loopWeights = new Map<number, LoopWeight>()
  #hasLoops = false
  /** The region of the entry, whose loops are counted; the rest of an entry may begin within a loop, and have other loops. */
  #counted: Region | undefined

  constructor(
    private readonly parts: FunctionParts,
    private readonly stops: StopWriter,
    private readonly handOver: HandOver,
  ) {}

  /** Whether the code that was written has loops, whose instructions are counted. */
  get hasLoops(): boolean {
    return this.#hasLoops
  }

  /** Writes the code from a block on, up to where threads stop or end. */
  writeRegion(block: number): void {
    const { fn, role, entry } = this.parts
    const region = regionFrom(fn.flow, block)
    const counted = role === 'continuation' && entry !== undefined ? regionFrom(fn.flow, entry.block) : region
    this.#counted = counted
    const predecessors = this.#predecessorsIn(counted)
    for (const loop of counted.loops) this.#loopWeights.set(loop, this.#weigh(counted, loop, predecessors))
    if (counted.loops.size > 0) this.#hasLoops = true
    if (region.reducible) this.#nest(region, block)
    else this.#dispatch(region)
  }

  // Turns of loops -------------------------------------------------------------------------------------------------------

  /** The cost of a branch that begins another turn of a loop of the entry; undefined for other branches. */
  costOf(from: number, target: number): LoopWeight | undefined {
    const { position, loops } = this.#counted ?? {}
    const isTurn = loops?.has(target) === true && (position?.get(target) ?? 0) <= (position?.get(from) ?? 0)
    return isTurn ? this.#loopWeights.get(target) : undefined
  }

  #predecessorsIn(region: Region): ReadonlyMap<number, readonly number[]> {
    const predecessors = new Map<number, number[]>()
    if (region.loops.size === 0) return predecessors
    for (const from of region.order) {
      const block = this.parts.fn.flow.blocks[from]
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
    const all = [...inside].flatMap((id) => this.parts.fn.flow.blocks[id]?.instructions ?? [])
    const { waiting, text, goesInStep } = this.parts.context.program
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
      fruitless: new Set(fruitless),
    }
  }

  /**
   * Whether a turn of a loop, through these blocks, changes no register with which the next begins: that would do the same until another thread
   * changes memory.
   */
  #isFruitless(blocks: ReadonlySet<number>, header: number): boolean {
    const { flow, needed } = this.parts.fn
    const kept = needed.at(header)
    const isKept = ({ id }: Register): boolean => kept.has(id)
    return [...blocks].every((block) =>
      flow.blocks[block]?.instructions.every((decoded) => !accessesOf(decoded).writes.some(isKept)),
    )
  }

  /** Takes the cost of a turn of a loop from the thread's own turn, where a branch begins one. */
  #pay(from: number, target: number): void {
    const cost = this.costOf(from, target)
    if (cost === undefined) return
    const { values, fuel, spent, lanes } = this.parts
    const { body } = values
    const weight = cost.fruitless.has(from) ? SLICE + 1 : cost.weight
    body.write(fuel, i32(weight), 'i32.sub', set(fuel))
    if (spent === undefined || weight === cost.instructions) return
    // The weight is counted as instructions below, so the difference between both is taken back here.
    const threads = lanes === undefined ? 1 : LANES
    body.write(spent, i64(BigInt(threads * (weight - cost.instructions))), 'i64.sub', set(spent))
  }

  /** Writes the check at the start of a loop of the entry: a thread that has used up its turn lets others go on. */
  #turn(id: number): void {
    const { parts } = this
    const { fn, values, fuel } = parts
    parts.mark(undefined)
    values.body.write(fuel, i32(0), 'i32.lt_s')
    parts.open('if')
    const stop = fn.stopAt.get(id)
    if (stop === undefined) values.fail('endless', fn.flow.blocks[id]?.instructions[0] ?? parts.firstDecoded)
    else this.stops.stopAt(stop)
    parts.close()
  }

  // Blocks and branches --------------------------------------------------------------------------------------------------

  /**
   * Nests blocks by the tree of dominators (Ramsey, "Beyond Relooper"): a block that several branches reach is written behind the block of
   * WebAssembly that they leave. A list of tasks takes the place of recursion, which kernels may make too deep.
   */
  #nest(region: Region, entry: number): void {
    const tasks: (() => void)[] = [() => this.#tree(region, entry, tasks)]
    for (let task = tasks.pop(); task !== undefined; task = tasks.pop()) task()
  }

  #tree(region: Region, id: number, tasks: (() => void)[]): void {
    const { parts } = this
    const content = parts.fn.flow.blocks[id]
    if (parts.lanes !== undefined && content !== undefined && !parts.lanes.shapes.canRun(content)) {
      this.handOver(undefined, [id])
      return
    }
    const behind = (region.children.get(id) ?? []).filter((child) => region.merges.has(child))
    const isLoop = region.loops.has(id)
    const steps: (() => void)[] = []
    if (isLoop) steps.push(() => parts.open('loop', 'loop', id))
    if (this.#counted?.loops.has(id)) steps.push(() => this.#turn(id))
    // The block that comes last must be the outermost block of WebAssembly.
    const outermostFirst = [...behind].sort((a, b) => (region.position.get(b) ?? 0) - (region.position.get(a) ?? 0))
    for (const merge of outermostFirst) steps.push(() => parts.open('block', 'block', merge))
    steps.push(() => {
      const block = parts.fn.flow.blocks[id]
      if (block !== undefined) this.#writeBlock(region, id, block, tasks)
    })
    for (const merge of outermostFirst.reverse()) {
      steps.push(() => parts.close())
      steps.push(() => this.#tree(region, merge, tasks))
    }
    if (isLoop) steps.push(() => parts.close())
    for (const step of steps.reverse()) tasks.push(step)
  }

  #writeBlock(region: Region, id: number, block: Block, tasks: (() => void)[]): void {
    const { parts } = this
    const { body } = parts.values
    this.#writeContent(id, block)
    parts.mark(block.end)
    const { terminator } = block
    switch (terminator.kind) {
      case 'goto':
        this.#go(region, id, terminator.target, tasks)
        return
      case 'branch': {
        if (this.passes?.block === id) {
          this.#go(region, id, terminator.next, tasks)
          return
        }
        if (parts.lanes?.shapes.of(terminator.register.id) === 'lanes') {
          this.#branchOfLanes(region, id, terminator, tasks)
          return
        }
        parts.values.pushRegister(terminator.register)
        if (terminator.negated) body.op('i32.eqz')
        parts.open('if')
        const steps = [
          () => this.#go(region, id, terminator.target, tasks),
          () => body.else(),
          () => this.#go(region, id, terminator.next, tasks),
          () => parts.close(),
        ]
        for (const step of steps.reverse()) tasks.push(step)
        return
      }
      case 'switch': {
        this.#switch(region, id, terminator.index, terminator.targets, tasks)
        return
      }
      default:
        this.stops.leave(block)
    }
  }

  /** Writes a branch of lanes: they take it together, or part. */
  #branchOfLanes(
    region: Region,
    id: number,
    { register, negated, target, next }: Extract<Block['terminator'], { kind: 'branch' }>,
    tasks: (() => void)[],
  ): void {
    const { parts } = this
    const { body } = parts.values
    const all = (1 << LANES) - 1
    const bits = body.temporary('i32')
    parts.lanes?.pushMask(register)
    body.op('i32x4.bitmask')
    if (negated) body.write(i32(all), 'i32.xor')
    body.write(tee(bits), i32(all), 'i32.eq')
    parts.open('if')
    const steps = [
      () => this.#go(region, id, target, tasks),
      () => {
        body.else()
        body.write(bits, 'i32.eqz')
        parts.open('if')
      },
      () => this.#go(region, id, next, tasks),
      () => {
        body.else()
        this.handOver(id, [target, next], bits)
        body.release('i32', bits)
        parts.close()
        parts.close()
      },
    ]
    for (const step of steps.reverse()) tasks.push(step)
  }

  /** Writes a `brx`: targets that only this branch reaches get a block of WebAssembly each, to the others it branches. */
  #switch(region: Region, id: number, index: Operand, targets: readonly number[], tasks: (() => void)[]): void {
    const { parts } = this
    const distinct = [...new Set(targets)]
    for (const target of distinct) parts.open('block', 'other', target)
    parts.values.push(index, 'u32')
    // The innermost block of WebAssembly belongs to the last target.
    const depths = targets.map((target) => distinct.length - 1 - distinct.indexOf(target))
    parts.values.body.brTable(depths, depths.at(-1) ?? 0)
    const steps: (() => void)[] = []
    for (const target of distinct.reverse()) {
      steps.push(() => parts.close())
      steps.push(() => this.#go(region, id, target, tasks))
    }
    for (const step of steps.reverse()) tasks.push(step)
  }

  #go(region: Region, from: number, target: number, tasks: (() => void)[]): void {
    this.#pay(from, target)
    if ((region.position.get(target) ?? 0) <= (region.position.get(from) ?? 0)) {
      this.parts.branch('loop', target)
    } else if (region.merges.has(target)) this.parts.branch('block', target)
    else tasks.push(() => this.#tree(region, target, tasks))
  }

  /** Writes a region whose loops have several entries: a loop around all blocks, which branches to the block with the current number. */
  #dispatch(region: Region): void {
    const { parts } = this
    const { fn, values } = parts
    const { body } = values
    const next = body.local('i32')
    body.write(i32(0), set(next))
    parts.open('loop', 'loop', DISPATCH)
    // The first block is the innermost, so that its number is also the depth of its label.
    for (const id of [...region.order].reverse()) parts.open('block', 'other', id)
    body.get(next)
    body.brTable(
      region.order.map((_, index) => index),
      0,
    )
    const jump = (from: number, target: number): void => {
      this.#pay(from, target)
      body.write(i32(region.position.get(target) ?? 0), set(next))
      parts.branch('loop', DISPATCH)
    }
    for (const id of region.order) {
      parts.close()
      const block = fn.flow.blocks[id]
      if (block === undefined) continue
      if (this.#counted?.loops.has(id)) this.#turn(id)
      this.#writeContent(id, block)
      parts.mark(block.end)
      const { terminator } = block
      if (terminator.kind === 'goto') jump(id, terminator.target)
      else if (terminator.kind === 'branch') {
        values.pushRegister(terminator.register)
        if (terminator.negated) body.op('i32.eqz')
        parts.open('if')
        jump(id, terminator.target)
        parts.close()
        jump(id, terminator.next)
      } else if (terminator.kind === 'switch') {
        const index = body.temporary('i32')
        values.push(terminator.index, 'u32')
        body.set(index)
        for (const [number, target] of terminator.targets.entries()) {
          body.write(index, i32(number), 'i32.eq')
          parts.open('if')
          jump(id, target)
          parts.close()
        }
        body.release('i32', index)
        jump(id, terminator.targets.at(-1) ?? id)
      } else this.stops.leave(block)
    }
    parts.close()
  }

  // What is in a block ---------------------------------------------------------------------------------------------------

  #writeContent(id: number, block: Block): void {
    const { counts, addresses } = this.parts.instructions
    let part = 0
    counts.enterSegment(id, part)
    if (block.receives !== undefined) this.stops.receive(block.receives)
    addresses.groupAccesses(block.instructions)
    for (const decoded of block.instructions) {
      this.#instruction(decoded)
      if (isCall(decoded)) counts.enterSegment(id, ++part)
    }
  }

  /** Writes an instruction, which its guard may skip. */
  #instruction(decoded: Decoded): void {
    const { parts } = this
    const { values, lanes } = parts
    const { guard } = decoded.instruction
    if (values.isShared(decoded)) return
    parts.mark(decoded)
    if (lanes !== undefined && guard !== undefined && lanes.shapes.of(guard.register.id) === 'lanes') {
      lanes.writeGuarded(decoded, guard.register, guard.negated)
      return
    }
    if (guard !== undefined) {
      values.pushRegister(guard.register)
      if (guard.negated) values.body.op('i32.eqz')
      parts.open('if')
    }
    parts.instructions.counts.countAccess(decoded)
    if (lanes === undefined) parts.instructions.write(decoded)
    else lanes.write(decoded)
    if (guard !== undefined) parts.close()
  }
}

/** In place of a block, the loop around all blocks of a region. */
const DISPATCH = -2

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
