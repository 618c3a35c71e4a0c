/** Basic blocks of a function, which registers live where, and how its branches nest. */
import { contractionsOf } from './contraction.js'
import { accessesOf, callParts, type Decoded, decode } from './decoding.js'
import { type Operand, type PtxFunction, type PtxText, ptxError, type Register, type Scope } from './syntax.js'

export type Terminator =
  | { readonly kind: 'goto'; readonly target: number }
  | {
      readonly kind: 'branch'
      readonly register: Register
      readonly negated: boolean
      readonly target: number
      readonly next: number
    }
  | { readonly kind: 'switch'; readonly index: Operand; readonly targets: readonly number[] }
  | { readonly kind: 'return' }
  | { readonly kind: 'exit' }
  | { readonly kind: 'trap'; readonly at: Decoded }
  /** The thread stops here. It goes on at `next` once the other threads have come, or once the called function has returned. */
  | { readonly kind: 'meeting' | 'call'; readonly at: Decoded; readonly next: number }

export interface Block {
  readonly instructions: Decoded[]
  terminator: Terminator
  /** The meeting or call whose results are received at the start of this block. */
  receives: Decoded | undefined
  /** The first instruction of the block, whose line messages give. */
  readonly at: Decoded | undefined
  /** The instruction that ends the block, if one does. */
  end: Decoded | undefined
}

export interface ControlFlow {
  readonly fn: PtxFunction
  readonly blocks: Block[]
}

/**
 * The control flow of a function.
 * @param stops Whether a call stops its thread, since the called function may
 */
export function controlFlowOf(fn: PtxFunction, stops: (call: Decoded) => boolean): ControlFlow {
  return new FlowBuilder(fn, stops).build()
}

class FlowBuilder {
  readonly #blocks: Block[] = []
  /** The block that begins at each instruction; keys are indices of instructions. */
  readonly #blockAt = new Map<number, number>()
  readonly #decoded: Decoded[]
  #contractions: ReadonlyMap<number, readonly Decoded[]> = new Map()

  constructor(
    private readonly fn: PtxFunction,
    private readonly stops: (call: Decoded) => boolean,
  ) {
    this.#decoded = (fn.body ?? []).map(decode)
  }

  build(): ControlFlow {
    const starts = this.#starts()
    this.#contractions = contractionsOf(this.#decoded, starts)
    const leaders = this.#leaders(starts)
    for (const index of leaders) this.#blockAt.set(index, this.#newBlock(this.#decoded[index]))
    const end = this.#decoded.length
    for (const [position, from] of leaders.entries()) this.#fill(from, leaders[position + 1] ?? end)
    if (leaders.length === 0) this.#newBlock(undefined)
    return { fn: this.fn, blocks: this.#blocks }
  }

  #newBlock(at: Decoded | undefined): number {
    return (
      this.#blocks.push({ instructions: [], terminator: { kind: 'return' }, receives: undefined, at, end: undefined }) -
      1
    )
  }

  #codeOf({ form }: Decoded): string {
    return form.meaning.kind === 'code' ? form.meaning.code : form.meaning.kind
  }

  /** Whether an instruction ends its block. */
  #ends(decoded: Decoded): boolean {
    const code = this.#codeOf(decoded)
    if (code === 'call') return this.stops(decoded)
    return /^(branch|return|exit|trap|meeting)$/.test(code)
  }

  #label(scope: Scope, name: string, decoded: Decoded): number {
    for (let at: Scope | undefined = scope; at !== undefined; at = at.outer) {
      const index = at.labels.get(name)
      if (index !== undefined) return index
    }
    throw ptxError('ERR_COMPILATION', `The label '${name}' is nowhere`, decoded.instruction)
  }

  /** The targets of a branch, as indices of instructions. */
  #targets(decoded: Decoded): readonly number[] {
    const { instruction, form, operands } = decoded
    const operand = form.opcode === 'brx' ? operands['b'] : operands['a']
    if (operand?.kind !== 'symbol') throw ptxError('ERR_COMPILATION', 'A branch needs a label', instruction)
    if (form.opcode === 'bra') return [this.#label(instruction.scope, operand.name, decoded)]
    for (let at: Scope | undefined = instruction.scope; at !== undefined; at = at.outer) {
      const names = at.targets.get(operand.name)
      if (names !== undefined) return names.map((name) => this.#label(instruction.scope, name, decoded))
    }
    throw ptxError('ERR_COMPILATION', `The list of targets '${operand.name}' is nowhere`, instruction)
  }

  /** The indices of instructions that start a block: targets of branches, and what follows an instruction that ends a block but is no meeting. */
  #starts(): Set<number> {
    const starts = new Set<number>([0])
    for (const [index, decoded] of this.#decoded.entries()) {
      const code = this.#codeOf(decoded)
      if (this.#ends(decoded) && code !== 'meeting') starts.add(index + 1)
      if (code === 'branch') for (const target of this.#targets(decoded)) starts.add(target)
    }
    return starts
  }

  #leaders(starts: ReadonlySet<number>): number[] {
    const behindMeetings = this.#decoded.flatMap((each, index) => (this.#codeOf(each) === 'meeting' ? [index + 1] : []))
    return [...new Set([...starts, ...behindMeetings])]
      .filter((index) => index < this.#decoded.length)
      .sort((a, b) => a - b)
  }

  /** The block that begins at an instruction; behind the last instruction it is a block that returns. */
  #at(index: number): number {
    const known = this.#blockAt.get(index)
    if (known !== undefined) return known
    const block = this.#newBlock(undefined)
    this.#blockAt.set(index, block)
    return block
  }

  #fill(from: number, to: number): void {
    const id = this.#at(from)
    const block = this.#blocks[id]
    if (block === undefined) return
    for (let index = from; index < to; index++) {
      const decoded = this.#decoded[index]
      if (decoded === undefined) return
      if (!this.#ends(decoded)) {
        block.instructions.push(...(this.#contractions.get(index) ?? [decoded]))
        continue
      }
      const { guard } = decoded.instruction
      block.end = decoded
      const next = this.#at(index + 1)
      const code = this.#codeOf(decoded)
      if (code === 'branch' && decoded.form.opcode === 'bra') {
        const target = this.#at(this.#targets(decoded)[0] ?? 0)
        block.terminator = guard === undefined ? { kind: 'goto', target } : { kind: 'branch', ...guard, target, next }
        return
      }
      const last = this.#terminator(decoded, code, index, next)
      if (guard === undefined) block.terminator = last
      else {
        // An instruction with a guard that ends its block gets a block of its own, which a branch skips.
        const own = this.#newBlock(decoded)
        const guarded = this.#blocks[own]
        if (guarded !== undefined) {
          guarded.terminator = last
          guarded.end = decoded
        }
        block.terminator = { kind: 'branch', ...guard, target: own, next }
      }
      return
    }
    block.terminator = { kind: 'goto', target: this.#at(to) }
  }

  #terminator(decoded: Decoded, code: string, index: number, next: number): Terminator {
    switch (code) {
      case 'branch': {
        const targets = this.#targets(decoded).map((each) => this.#at(each))
        if (targets.length === 0) throw ptxError('ERR_COMPILATION', 'brx.idx has no targets', decoded.instruction)
        return { kind: 'switch', index: decoded.operands['a'] ?? { kind: 'sink' }, targets }
      }
      case 'return':
        return { kind: 'return' }
      case 'exit':
        return { kind: 'exit' }
      case 'trap':
        return { kind: 'trap', at: decoded }
      default: {
        // The block in which a thread goes on belongs to this stop alone, even if a branch leads to the same instruction.
        const own = this.#newBlock(this.#decoded[index + 1])
        const resumed = this.#blocks[own]
        if (resumed !== undefined) {
          resumed.receives = decoded
          resumed.terminator = { kind: 'goto', target: next }
        }
        return { kind: code === 'call' ? 'call' : 'meeting', at: decoded, next: own }
      }
    }
  }
}

export function successorsOf({ terminator }: Block): readonly number[] {
  switch (terminator.kind) {
    case 'goto':
      return [terminator.target]
    case 'branch':
      return [terminator.target, terminator.next]
    case 'switch':
      return terminator.targets
    case 'meeting':
    case 'call':
      return [terminator.next]
    default:
      return []
  }
}

/** The registers in which a meeting or call leaves its results when its thread goes on. */
function receivedBy(decoded: Decoded): readonly Register[] {
  return accessesOf(decoded).writes
}

/** The registers that live at the start of each block. A long kernel has thousands of blocks and of registers, so that sets are made where one is asked for. */
export class LiveRegisters {
  readonly #sets = new Map<number, ReadonlySet<number>>()

  /**
   * @param bits A bit for each register, by blocks
   * @param left The registers that do not count
   */
  constructor(
    private readonly bits: readonly Uint32Array[],
    private readonly left: { has(id: number): boolean } = new Set(),
  ) {}

  get blocks(): number {
    return this.bits.length
  }

  at(block: number): ReadonlySet<number> {
    const known = this.#sets.get(block)
    if (known !== undefined) return known
    const set = new Set<number>()
    this.forEach(block, (id) => set.add(id))
    this.#sets.set(block, set)
    return set
  }

  forEach(block: number, visit: (id: number) => void): void {
    const words = this.bits[block] ?? new Uint32Array()
    for (let index = 0; index < words.length; index++) {
      for (let word = words[index] ?? 0; word !== 0; word &= word - 1) {
        const id = 32 * index + 31 - Math.clz32(word & -word)
        if (!this.left.has(id)) visit(id)
      }
    }
  }

  /** The same without some registers. */
  without(left: { has(id: number): boolean }): LiveRegisters {
    return new LiveRegisters(this.bits, left)
  }
}

/** The registers that are needed at the start of each block, before it receives anything. */
export function liveAtStart({ fn, blocks }: ControlFlow): LiveRegisters {
  const words = (fn.registers.length + 31) >>> 5
  const facts = blocks.map((block) => {
    const [uses, kills] = [new Uint32Array(words), new Uint32Array(words)]
    const use = ({ id }: Register): void => {
      const bit = 1 << (id & 31)
      if (((kills[id >>> 5] ?? 0) & bit) === 0) uses[id >>> 5] = (uses[id >>> 5] ?? 0) | bit
    }
    const kill = ({ id }: Register): void => {
      kills[id >>> 5] = (kills[id >>> 5] ?? 0) | (1 << (id & 31))
    }
    if (block.receives !== undefined) for (const each of receivedBy(block.receives)) kill(each)
    for (const decoded of block.instructions) {
      const { reads, writes } = accessesOf(decoded)
      for (const each of reads) use(each)
      // An instruction with a guard may leave the old value, so that the register stays live.
      for (const each of writes) {
        if (decoded.instruction.guard !== undefined) use(each)
        else kill(each)
      }
    }
    const { terminator } = block
    if (terminator.kind === 'branch') use(terminator.register)
    if (terminator.kind === 'switch' && terminator.index.kind === 'register') use(terminator.index.register)
    if (terminator.kind === 'meeting' || terminator.kind === 'call') {
      for (const each of accessesOf(terminator.at).reads) use(each)
    }
    return { uses, kills, live: Uint32Array.from(uses) }
  })
  // A block comes behind those that it leads to, so that most are looked at once: blocks behind meetings stand at the end of the list.
  const order = reversePostorder(blocks, 0, successorsOf).reverse()
  const place = new Int32Array(blocks.length).fill(-1)
  const isDue = new Uint8Array(blocks.length)
  const predecessors = blocks.map((): number[] => [])
  for (const [index, id] of order.entries()) {
    place[id] = index
    isDue[id] = 1
    const block = blocks[id]
    for (const successor of block === undefined ? [] : successorsOf(block)) predecessors[successor]?.push(id)
  }
  for (let next = 0; next < order.length; ) {
    const id = order[next] ?? 0
    next++
    const [block, fact] = [blocks[id], facts[id]]
    if (isDue[id] === 0 || block === undefined || fact === undefined) continue
    isDue[id] = 0
    let changed = false
    for (const successor of successorsOf(block)) {
      const after = facts[successor]?.live
      if (after === undefined) continue
      for (let word = 0; word < words; word++) {
        const old = fact.live[word] ?? 0
        const merged = (old | ((after[word] ?? 0) & ~(fact.kills[word] ?? 0))) >>> 0
        if (merged === old) continue
        fact.live[word] = merged
        changed = true
      }
    }
    if (!changed) continue
    for (const from of predecessors[id] ?? []) {
      isDue[from] = 1
      // A loop leads back: what it gives to a block that was looked at before is looked at again.
      next = Math.min(next, place[from] ?? next)
    }
  }
  return new LiveRegisters(facts.map(({ live }) => live))
}

/** The blocks that are reached from an entry without stopping, and how they nest. */
export interface Region {
  readonly entry: number
  /** The blocks in reverse postorder. */
  readonly order: readonly number[]
  readonly position: ReadonlyMap<number, number>
  /** The blocks that several branches reach. */
  readonly merges: ReadonlySet<number>
  readonly loops: ReadonlySet<number>
  /** The blocks that each block dominates directly, in the order of the text. */
  readonly children: ReadonlyMap<number, readonly number[]>
  /** Whether every loop has one entry; if not, branches cannot be nested. */
  readonly reducible: boolean
}

/** The blocks to which control goes from a block without leaving the region, which it does at a stop. */
export function edgesWithin(block: Block): readonly number[] {
  const { kind } = block.terminator
  return kind === 'meeting' || kind === 'call' ? [] : successorsOf(block)
}

export function regionFrom(flow: ControlFlow, entry: number): Region {
  const order = reversePostorder(flow.blocks, entry, edgesWithin)
  const position = new Map(order.map((block, index) => [block, index]))
  const predecessors = new Map<number, number[]>()
  const loops = new Set<number>()
  const merges = new Set<number>()
  for (const block of order) {
    const from = position.get(block) ?? 0
    const content = flow.blocks[block]
    if (content === undefined) continue
    for (const target of edgesWithin(content)) {
      const list = predecessors.get(target)
      if (list === undefined) predecessors.set(target, [block])
      else list.push(block)
      if ((position.get(target) ?? 0) <= from) loops.add(target)
    }
  }
  const dominators = immediateDominators(order, position, predecessors)
  let reducible = true
  const children = new Map<number, number[]>()
  for (const block of order) {
    const own = position.get(block) ?? 0
    let forward = 0
    for (const predecessor of predecessors.get(block) ?? []) {
      const from = position.get(predecessor) ?? 0
      if (from < own) forward++
      else if (!dominates(own, from, dominators)) reducible = false
    }
    if (forward > 1) merges.add(block)
    if (own === 0) continue
    const parent = order[dominators[own] ?? 0] ?? entry
    const list = children.get(parent)
    if (list === undefined) children.set(parent, [block])
    else list.push(block)
  }
  return { entry, order, position, merges, loops, children, reducible }
}

/** The blocks that are reached from an entry, each before those that it leads to, but for loops. */
export function reversePostorder(
  blocks: readonly Block[],
  entry: number,
  edgesOf: (block: Block) => readonly number[],
): number[] {
  const seen = new Set<number>([entry])
  const order: number[] = []
  const stack: { readonly block: number; readonly targets: readonly number[]; next: number }[] = []
  const enter = (block: number): void => {
    const content = blocks[block]
    stack.push({ block, targets: content === undefined ? [] : edgesOf(content), next: 0 })
  }
  enter(entry)
  for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
    const target = top.targets[top.next++]
    if (target === undefined) {
      order.push(top.block)
      stack.pop()
    } else if (!seen.has(target)) {
      seen.add(target)
      enter(target)
    }
  }
  return order.reverse()
}

/** The immediate dominator of each block, by the algorithm of Cooper, Harvey and Kennedy. Blocks are given as positions in reverse postorder. */
function immediateDominators(
  order: readonly number[],
  position: ReadonlyMap<number, number>,
  predecessors: ReadonlyMap<number, readonly number[]>,
): readonly number[] {
  const dominators = new Array<number>(order.length).fill(-1)
  dominators[0] = 0
  const common = (one: number, other: number): number => {
    let [a, b] = [one, other]
    while (a !== b) {
      while (a > b) a = dominators[a] ?? 0
      while (b > a) b = dominators[b] ?? 0
    }
    return a
  }
  for (let changed = true; changed; ) {
    changed = false
    for (let index = 1; index < order.length; index++) {
      let found = -1
      for (const predecessor of predecessors.get(order[index] ?? 0) ?? []) {
        const from = position.get(predecessor) ?? 0
        if (dominators[from] === -1) continue
        found = found === -1 ? from : common(found, from)
      }
      if (found !== dominators[index]) {
        dominators[index] = found
        changed = true
      }
    }
  }
  return dominators
}

function dominates(above: number, below: number, dominators: readonly number[]): boolean {
  let at = below
  while (at > above) at = dominators[at] ?? 0
  return at === above
}

/** The function that a call names directly; undefined if the address of the callee is computed. */
export function calleeOf(decoded: Decoded): string | undefined {
  const { target } = callParts(decoded.instruction)
  return target.kind === 'symbol' ? target.name : undefined
}

/** The function that an instruction calls by its name. */
export function functionCalledBy(decoded: Decoded, text: PtxText): string | undefined {
  const callee = decoded.form.opcode === 'call' ? calleeOf(decoded) : undefined
  return callee === undefined ? undefined : (text.aliases.get(callee) ?? callee)
}
