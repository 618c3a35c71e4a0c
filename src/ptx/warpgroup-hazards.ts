/**
 * Registers of `wgmma` that code touches too early: a sum that is read before `wgmma.wait_group` has waited for its product, and registers that are
 * changed and multiplied or added to without `wgmma.fence` between. PTX leaves both undefined; an assembler that sees them waits for each product. Moves
 * pass a register on and touch none, since compilers write them where values only change their names.
 */
import { type ControlFlow, successorsOf } from './control-flow.js'
import { accessesOf, type Decoded, registersOf } from './decoding.js'
import type { Register } from './syntax.js'

export interface Hazard {
  readonly kind: 'early read' | 'no fence'
  /** The product whose sum is read, or that takes the changed register. */
  readonly product: Decoded
  /** The instruction that reads or has changed the register. */
  readonly other: Decoded
  readonly register: string
}

/** The products that `wait_group` tells apart; older ones count as the oldest. */
const OLDEST = 16

/** A product under way, and the number of groups that were committed since: -1 if its own was not. */
interface UnderWay {
  readonly product: Decoded
  readonly groups: number
}

class State {
  /** The product that each register of sums waits for, and the instruction that changed each register since a fence; keys are the registers' ids. */
  constructor(
    readonly sums = new Map<number, UnderWay>(),
    readonly changed = new Map<number, Decoded>(),
  ) {}

  copy(): State {
    return new State(new Map(this.sums), new Map(this.changed))
  }

  /** Takes what another way to the same code leaves; returns whether that is more. */
  join({ sums, changed }: State): boolean {
    let isMore = false
    for (const [id, each] of sums) {
      const own = this.sums.get(id)
      if (own !== undefined && own.groups <= each.groups) continue
      this.sums.set(id, each)
      isMore = true
    }
    for (const [id, each] of changed) {
      if (this.changed.has(id)) continue
      this.changed.set(id, each)
      isMore = true
    }
    return isMore
  }
}

const isProduct = ({ form }: Decoded): boolean => form.pattern.startsWith('wgmma.mma_async')

function registersIn(decoded: Decoded, name: string): readonly Register[] {
  const found: Register[] = []
  const operand = decoded.operands[name]
  if (operand?.kind === 'vector') registersOf(operand, found)
  return found
}

/** Goes through an instruction; `report` gets what it touches too early. */
function step(state: State, decoded: Decoded, report: (hazard: Hazard) => void): void {
  const { sums, changed } = state
  const { form, operands } = decoded
  if (isProduct(decoded)) {
    const own = registersIn(decoded, 'd')
    const factors = registersIn(decoded, 'a')
    for (const { id, name } of factors) {
      const under = sums.get(id)
      if (under !== undefined) report({ kind: 'early read', product: under.product, other: decoded, register: name })
    }
    for (const { id, name } of [...own, ...factors]) {
      const other = changed.get(id)
      if (other !== undefined) report({ kind: 'no fence', product: decoded, other, register: name })
    }
    for (const { id } of own) sums.set(id, { product: decoded, groups: -1 })
    return
  }
  if (form.pattern.startsWith('wgmma.fence')) changed.clear()
  else if (form.pattern.startsWith('wgmma.commit_group')) {
    for (const [id, { product, groups }] of sums) sums.set(id, { product, groups: Math.min(groups + 1, OLDEST) })
  } else if (form.pattern.startsWith('wgmma.wait_group')) {
    const left = operands['a']?.kind === 'integer' ? Number(operands['a'].value) : 0
    for (const [id, { groups }] of sums) if (groups >= left) sums.delete(id)
  } else {
    const { reads, writes } = accessesOf(decoded)
    const [from] = reads
    if (form.opcode === 'mov' && reads.length === 1 && writes.length === 1 && from !== undefined) {
      const [under, other] = [sums.get(from.id), changed.get(from.id)]
      for (const { id } of writes) {
        sums.delete(id)
        changed.delete(id)
        if (under !== undefined) sums.set(id, under)
        if (other !== undefined) changed.set(id, other)
      }
      return
    }
    for (const { id, name } of reads) {
      const under = sums.get(id)
      if (under !== undefined) report({ kind: 'early read', product: under.product, other: decoded, register: name })
    }
    for (const { id } of writes) {
      sums.delete(id)
      // A constant is no change that an earlier instruction could be late with.
      if (form.opcode === 'mov' && reads.length === 0) changed.delete(id)
      else changed.set(id, decoded)
    }
  }
}

const known = new WeakMap<ControlFlow, ReadonlyMap<Decoded, readonly Hazard[]>>()

/** The hazards of a function, by the product to which they belong. */
export function hazardsOf(flow: ControlFlow): ReadonlyMap<Decoded, readonly Hazard[]> {
  const found = known.get(flow)
  if (found !== undefined) return found
  const { blocks } = flow
  const states = blocks.map((): State | undefined => undefined)
  states[0] = new State()
  const go = (id: number, report: (hazard: Hazard) => void): State => {
    const state = states[id]?.copy() ?? new State()
    const block = blocks[id]
    for (const each of block?.instructions ?? []) step(state, each, report)
    if (block !== undefined && 'at' in block.terminator) step(state, block.terminator.at, report)
    return state
  }
  const due = [0]
  for (let id = due.pop(); id !== undefined; id = due.pop()) {
    const state = go(id, () => {})
    const block = blocks[id]
    for (const next of block === undefined ? [] : successorsOf(block)) {
      const before = states[next]
      if (before === undefined) states[next] = state.copy()
      else if (!before.join(state)) continue
      due.push(next)
    }
  }
  const all = new Map<Decoded, Hazard[]>()
  for (const [id, state] of states.entries()) {
    if (state === undefined) continue
    go(id, (hazard) => {
      const list = all.get(hazard.product)
      if (list === undefined) all.set(hazard.product, [hazard])
      else if (!list.some(({ kind }) => kind === hazard.kind)) list.push(hazard)
    })
  }
  known.set(flow, all)
  return all
}
