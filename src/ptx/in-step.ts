/**
 * Lanes of a warp go in step on a GPU, and programs rely on it: a sum over a warp that has no `__syncwarp()` reads what other lanes wrote
 * the instruction before. Here each thread runs until it stops, so a stop is put before each access of which the result could differ: lanes
 * that come to it wait for those that are behind. It is no order of memory: what relies on it is still reported as a race.
 */
import { type Block, type ControlFlow, functionCalledBy, reversePostorder, successorsOf } from './control-flow.js'
import { type Decoded, decode } from './decoding.js'
import type { Form } from './forms.js'
import { type PtxFunction, type PtxText, ptxError, type Register } from './syntax.js'

/** The accesses before which lanes come together: volatile ones, or all accesses of shared memory besides. */
export type InStep = 'volatile' | 'shared'

const READ = 1
const WRITE = 2
/** The kinds of memory that lanes may have accessed since they came together: each has a bit for reads and one for writes. */
const PLAIN_SHARED = 1
const VOLATILE_SHARED = 4
const VOLATILE_GLOBAL = 16
/** Lanes that have waited for an mbarrier: the next phase must not end before all lanes that wait for this one have seen it. */
const MBARRIER = 64

/** The form of the stop. It is no instruction of PTX, so the table of forms does not have it. */
const STEP: Form = {
  opcode: 'step',
  pattern: 'step',
  slots: [],
  operands: [],
  meaning: { kind: 'meeting', operation: 'step' },
}

/** Whether a stop is one at which lanes come together. */
export const isStep = ({ form }: Decoded): boolean => form === STEP

interface Access {
  /** The kind of the access itself. */
  readonly mark: number
  /** The kinds of earlier accesses, by other lanes, whose order matters to it. */
  readonly conflicts: number
}

/** The accesses of one function, and what of them decides where its lanes stop. */
class StepSearch {
  readonly #order: readonly number[]
  readonly #position: ReadonlyMap<number, number>
  readonly #predecessors = new Map<number, number[]>()
  /** The blocks of each loop; keys are the blocks at which it starts. */
  readonly #loops = new Map<number, Set<number>>()
  /** The loops whose lanes come together before the first round, and need not within. */
  readonly #entered = new Set<number>()
  /** What lanes may have accessed at the end of each block: since they came together, and since all lanes of the warp certainly did. */
  readonly #since = new Map<number, number>()
  readonly #ever = new Map<number, number>()
  readonly #wholeMasks: ReadonlySet<Register>

  constructor(
    private readonly flow: ControlFlow,
    private readonly accessOf: (decoded: Decoded) => Access | undefined,
  ) {
    const { blocks } = flow
    this.#order = reversePostorder(blocks, 0, successorsOf)
    this.#position = new Map(this.#order.map((block, index) => [block, index]))
    for (const id of this.#order) {
      for (const target of this.#successors(id)) {
        const list = this.#predecessors.get(target)
        if (list === undefined) this.#predecessors.set(target, [id])
        else list.push(id)
      }
    }
    this.#wholeMasks = wholeMasksOf(blocks)
    this.#findLoops()
  }

  /** Puts the stops into the blocks of the function. */
  insert(): void {
    this.#settle()
    for (const [header, body] of this.#loops) {
      if (this.#needsStepsFromOutsideAlone(header, body)) this.#entered.add(header)
    }
    if (this.#entered.size > 0) this.#settle()
    for (const id of this.#order) this.#split(id)
    for (const header of this.#entered) this.#stopBefore(header)
  }

  #successors(id: number): readonly number[] {
    const block = this.flow.blocks[id]
    return block === undefined ? [] : successorsOf(block)
  }

  /** The instructions of a block, with the call at its end in which a thread may stop. */
  #codeOf(id: number): readonly Decoded[] {
    const block = this.flow.blocks[id]
    if (block === undefined) return []
    return block.terminator.kind === 'call' ? [...block.instructions, block.terminator.at] : block.instructions
  }

  #isBackwards(from: number, to: number): boolean {
    return (this.#position.get(to) ?? 0) <= (this.#position.get(from) ?? 0)
  }

  #findLoops(): void {
    for (const from of this.#order) {
      for (const header of this.#successors(from)) {
        if (!this.#isBackwards(from, header)) continue
        const body = this.#loops.get(header) ?? new Set([header])
        this.#loops.set(header, body)
        for (const queue = [from]; queue.length > 0; ) {
          const block = queue.pop() ?? header
          if (body.has(block) || (this.#position.get(block) ?? 0) < (this.#position.get(header) ?? 0)) continue
          body.add(block)
          queue.push(...(this.#predecessors.get(block) ?? []))
        }
      }
    }
  }

  /** Finds what lanes may have accessed at the end of each block, until nothing changes. */
  #settle(): void {
    this.#since.clear()
    this.#ever.clear()
    for (let changed = true; changed; ) {
      changed = false
      for (const id of this.#order) {
        const { since, ever } = this.#through(id, this.#atStart(id))
        if (this.#since.get(id) === since && this.#ever.get(id) === ever) continue
        this.#since.set(id, since)
        this.#ever.set(id, ever)
        changed = true
      }
    }
  }

  #atStart(id: number): { since: number; ever: number } {
    let [since, ever] = [0, 0]
    const predecessors = this.#predecessors.get(id) ?? []
    let ways = 0
    for (const from of predecessors) {
      const isBackwards = this.#isBackwards(from, id)
      if (!isBackwards && this.#entered.has(id)) continue
      if (!isBackwards) ways++
      since |= this.#since.get(from) ?? 0
      ever |= this.#ever.get(from) ?? 0
      for (const [header, body] of this.#loops) {
        if (!body.has(from) || body.has(id)) continue
        // Lanes leave a loop at different times: those behind may still access what those ahead look at.
        ways = 2
        if (!this.#entered.has(header)) continue
        for (const before of this.#predecessors.get(header) ?? []) {
          if (!body.has(before)) ever |= this.#ever.get(before) ?? 0
        }
      }
    }
    // Where branches come together, a stop within one of them was none for the lanes of the other.
    return ways > 1 ? { since: since | ever, ever } : { since, ever }
  }

  /** Goes through a block from a state at its start; calls `stop` with each instruction before which lanes must come together. */
  #through(id: number, start: { since: number; ever: number }, stop?: (index: number) => void) {
    let { since, ever } = start
    const block = this.flow.blocks[id]
    for (const [index, decoded] of this.#codeOf(id).entries()) {
      const access = this.accessOf(decoded)
      if (access === undefined) continue
      if ((since & access.conflicts) !== 0) {
        since = 0
        stop?.(index)
      }
      since |= access.mark
      ever |= access.mark
    }
    const terminator = block?.terminator
    if (terminator?.kind === 'meeting' && this.#isOfWholeWarp(terminator.at)) return { since: 0, ever: 0 }
    return { since, ever }
  }

  /** Whether all lanes of a warp that have not ended meet at an instruction. */
  #isOfWholeWarp(decoded: Decoded): boolean {
    const { form, operands } = decoded
    if (form.meaning.kind !== 'meeting') return false
    const { operation } = form.meaning
    if (operation.startsWith('barrier')) return !operation.endsWith('.arrive')
    const mask = operands[operation === 'warp.sync' || operation === 'elect' ? 'a' : 'e']
    if (mask?.kind === 'integer') return BigInt.asIntN(32, mask.value) === -1n
    return mask?.kind === 'register' && this.#wholeMasks.has(mask.register)
  }

  /** Whether lanes of a loop stop only for what was accessed before it, as those do that wait for a flag: then they stop before the loop, once. */
  #needsStepsFromOutsideAlone(header: number, body: ReadonlySet<number>): boolean {
    if (header === 0) return false
    let [marks, conflicts] = [0, 0]
    for (const id of body) {
      for (const decoded of this.#codeOf(id)) {
        const access = this.accessOf(decoded)
        marks |= access?.mark ?? 0
        conflicts |= access?.conflicts ?? 0
      }
    }
    let before = 0
    for (const from of this.#predecessors.get(header) ?? []) if (!body.has(from)) before |= this.#ever.get(from) ?? 0
    return (marks & conflicts) === 0 && (before & conflicts) !== 0
  }

  #split(id: number): void {
    const stops: number[] = []
    this.#through(id, this.#atStart(id), (index) => stops.push(index))
    for (const index of stops.reverse()) {
      const block = this.flow.blocks[id]
      const at = this.#codeOf(id)[index]
      if (block === undefined || at === undefined) continue
      const { terminator } = block
      this.#stopAt(block, at, { instructions: block.instructions.splice(index), terminator, end: block.end })
    }
  }

  /** Makes the block end at a stop, behind which a block of its own goes on with `rest`. */
  #stopAt(block: Block, at: Decoded, rest: Pick<Block, 'instructions' | 'terminator' | 'end'>): void {
    const { blocks } = this.flow
    const step = stepBefore(at)
    block.terminator = { kind: 'meeting', at: step, next: blocks.length }
    block.end = step
    blocks.push({ ...rest, receives: step, at })
  }

  /** Lets the lanes that enter a loop stop before it. */
  #stopBefore(header: number): void {
    const { blocks } = this.flow
    const block = blocks[header]
    const at = block?.at
    if (at === undefined) return
    const before = blocks.length
    const terminator = { kind: 'goto', target: header } as const
    const entry: Block = { instructions: [], terminator, receives: undefined, at, end: undefined }
    blocks.push(entry)
    this.#stopAt(entry, at, { instructions: [], terminator, end: undefined })
    const body = this.#loops.get(header) ?? new Set()
    for (const from of this.#predecessors.get(header) ?? []) {
      if (!body.has(from)) this.#redirect(from, header, before)
    }
  }

  /** Lets a block, or what is left of it behind its stops, lead to another one. */
  #redirect(from: number, old: number, target: number): void {
    let block = this.flow.blocks[from]
    while (block?.terminator.kind === 'meeting' && block.terminator.at.form === STEP) {
      block = this.flow.blocks[block.terminator.next]
    }
    if (block === undefined) return
    const { terminator } = block
    const moved = (each: number): number => (each === old ? target : each)
    switch (terminator.kind) {
      case 'goto':
        block.terminator = { kind: 'goto', target: moved(terminator.target) }
        return
      case 'branch':
        block.terminator = { ...terminator, target: moved(terminator.target), next: moved(terminator.next) }
        return
      case 'switch':
        block.terminator = { ...terminator, targets: terminator.targets.map(moved) }
        return
      default:
        throw ptxError('ERR_COMPILATION', 'A loop is entered from no branch', block.at?.instruction ?? { line: 1 })
    }
  }
}

/** A stop before an instruction, whose line it has. Lanes stop whether their guard is true or not. */
function stepBefore({ instruction }: Decoded): Decoded {
  return { instruction: { ...instruction, guard: undefined, operands: [] }, form: STEP, modifiers: {}, operands: {} }
}

/** The registers that hold the mask of all lanes and nothing else. */
function wholeMasksOf(blocks: readonly Block[]): ReadonlySet<Register> {
  const [whole, others] = [new Set<Register>(), new Set<Register>()]
  for (const { instructions } of blocks) {
    for (const { form, operands } of instructions) {
      const { d: result, a: source } = operands
      if (result?.kind !== 'register') continue
      const isWhole = form.opcode === 'mov' && source?.kind === 'integer' && BigInt.asIntN(32, source.value) === -1n
      ;(isWhole ? whole : others).add(result.register)
    }
  }
  for (const each of others) whole.delete(each)
  return whole
}

/** What an instruction accesses, where it matters in which order lanes do so. */
function accessOf({ form, modifiers, operands }: Decoded, inStep: InStep): Access | undefined {
  if (form.opcode === 'mbarrier' && modifiers['op'] !== undefined)
    return /_wait$/.test(modifiers['op'])
      ? { mark: MBARRIER * READ, conflicts: 0 }
      : { mark: 0, conflicts: MBARRIER * READ }
  if (operands['m'] !== undefined) return { mark: 0, conflicts: MBARRIER * READ }
  if (form.opcode !== 'ld' && form.opcode !== 'st') return undefined
  const { space = '', order } = modifiers
  const isShared = space.startsWith('shared')
  if (!isShared && space !== '' && space !== 'global') return undefined
  const isVolatile = order === 'volatile'
  if (!isVolatile && !isShared) return undefined
  const kinds = isVolatile
    ? (space === 'global' ? 0 : VOLATILE_SHARED) | (isShared ? 0 : VOLATILE_GLOBAL)
    : PLAIN_SHARED
  const [own, other] = form.opcode === 'ld' ? [READ, WRITE] : [WRITE, READ]
  let against = kinds
  if (isVolatile && space !== 'global') against |= PLAIN_SHARED
  if (!isVolatile) against = inStep === 'shared' ? PLAIN_SHARED | VOLATILE_SHARED : VOLATILE_SHARED
  return { mark: kinds * own, conflicts: against * other }
}

const ACCESSES = {
  volatile: /^(?:(?:ld|st)\.(?:.*\.)?volatile\b|mbarrier\.(?:test|try)_wait)/,
  shared: /^(?:(?:ld|st)\.(?:.*\.)?(?:volatile|shared)\b|mbarrier\.(?:test|try)_wait)/,
} as const

/** Puts stops into the functions of a text in which lanes rely on going in step. */
export class StepPlacer {
  /** What each function accesses, itself and in what it calls; undefined while that is not known. */
  readonly #called = new Map<string, Access | undefined>()

  constructor(
    private readonly text: PtxText,
    private readonly inStep: InStep,
  ) {}

  place(flow: ControlFlow): void {
    if (!this.#isLookedAt(flow.fn)) return
    new StepSearch(flow, (decoded) => accessOf(decoded, this.inStep) ?? this.#accessOfCall(decoded)).insert()
  }

  /** Whether lanes of a function may have to come together: nothing is looked for where there are no such accesses. */
  #isLookedAt({ body = [] }: PtxFunction): boolean {
    return body.some(({ opcode }) => ACCESSES[this.inStep].test(opcode) || opcode.startsWith('call'))
  }

  #accessOfCall(decoded: Decoded): Access | undefined {
    const callee = functionCalledBy(decoded, this.text)
    if (callee === undefined) return undefined
    if (this.#called.has(callee)) return this.#called.get(callee)
    this.#called.set(callee, undefined)
    let [mark, conflicts] = [0, 0]
    for (const instruction of this.text.functions.get(callee)?.body ?? []) {
      if (!/^(?:ld|st|call|mbarrier|cp)\b/.test(instruction.opcode)) continue
      const each = decode(instruction)
      const access = accessOf(each, this.inStep) ?? this.#accessOfCall(each)
      mark |= access?.mark ?? 0
      conflicts |= access?.conflicts ?? 0
    }
    const access = mark === 0 && conflicts === 0 ? undefined : { mark, conflicts }
    this.#called.set(callee, access)
    return access
  }
}
