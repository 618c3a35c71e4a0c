/**
 * What four threads beside each other in a row have in common when they run together, as lanes: registers that are the same in all of them or grow
 * evenly from one to the next, which are computed as for one thread, and the blocks of code that lanes can run. Lanes take the same way through the
 * code, so what an instruction makes of equal operands is equal, whoever else writes the register. Where lanes go on after a stop, the code looks
 * whether it is so.
 */
import type { Block, ControlFlow, Region } from './control-flow.js'
import { edgesWithin, reversePostorder } from './control-flow.js'
import { accessesOf, type Decoded } from './decoding.js'
import { mayWait, type PreparedFunction } from './program.js'
import { wasmTypeOf } from './register-types.js'
import { bitsOf, type Operand } from './syntax.js'
import { reachOf, strideOf, widens } from './uniform-registers.js'

/** The threads that run together. */
export const LANES = 4

/** The choice whether threads run as lanes: where that takes less time, wherever they can, or never. */
export type LaneUse = 'paying' | 'always' | 'never'

/** The cost of an access: it was checked for the whole row, it is checked when it is made, or it is recorded besides, lane by lane. */
export type AccessCost = 'free' | 'checked' | 'recorded'

/** The amount by which a value grows from one lane to the next, 0 if it is the same for all; or that each lane has its own. */
export type LaneShape = number | 'lanes'

/** The operations, besides formulas and accesses, that lanes can run. */
const SUPPORTED = new Set(['mov', 'cvta', 'setp', 'lop3', 'pack', 'isspacep', 'load', 'store'])
/** Accesses whose order among threads matters, and registers that no two reads of give the same. */
const ORDERED = /^(?:ld|st)\.(?:volatile|relaxed|acquire|release|mmio)/
const CLOCKS = /^(?:clock|globaltimer)/
/** How often a loop is taken to run its body. */
const ROUNDS = 16
/** The costs that stand against those of scalar code: lanes have to be faster by that to be worth their compilation. */
const GAIN = 0.8
/** The most instructions that are written again for lanes that part. */
const MOST_WRITTEN = 2000

export class LaneShapes {
  readonly #shapes = new Map<number, LaneShape>()
  /** Whether an address that is the same in all threads may be that of different memory in each. */
  readonly #hasLocal: boolean

  constructor(
    private readonly fn: PreparedFunction,
    localBytes: number,
  ) {
    const { uniform, strided } = fn.uniform
    this.#hasLocal = localBytes > 0 || fn.fn.body?.some(({ opcode }) => opcode.startsWith('alloca')) === true
    for (const id of uniform.keys()) this.#shapes.set(id, 0)
    for (const [id, { stride }] of strided) this.#shapes.set(id, this.#isInteger(id) ? stride : 'lanes')
    for (const id of fn.live.at(0)) this.#join(id, 0)
    while (this.#pass(fn.flow)) {}
  }

  of(id: number): LaneShape {
    return this.#shapes.get(id) ?? 0
  }

  /** The shape of an operand that is no address; undefined if nothing is known of it yet. */
  ofOperand(operand: Operand | undefined): LaneShape | undefined {
    if (operand === undefined) return 0
    if (operand.kind === 'register') {
      return operand.register.type === 'b128' ? 'lanes' : this.#shapes.get(operand.register.id)
    }
    if (operand.kind === 'special' && operand.name === 'tid.x') return 1
    if (operand.kind === 'not') {
      const shape = this.ofOperand(operand.operand)
      return shape === undefined || shape === 0 ? shape : 'lanes'
    }
    if (operand.kind === 'vector' || operand.kind === 'list') {
      const all = operand.items.map((each) => this.ofOperand(each))
      return all.includes('lanes') || all.some((each) => each !== undefined && each !== 0)
        ? 'lanes'
        : all.includes(undefined)
          ? undefined
          : 0
    }
    if (operand.kind === 'address') return this.ofOperand(operand.base)
    return reachOf(operand, this.fn.uniform.uniform) === undefined ? 'lanes' : 0
  }

  /** Whether all lanes access the same memory by this address, if it is the same in all of them. */
  isCommon({ modifiers, form }: Decoded, address: Operand | undefined): boolean {
    const space = modifiers['space'] ?? (form.pattern.startsWith('cp.') ? 'global' : 'generic')
    if (space === 'local') return false
    if (space.startsWith('param') && address?.kind === 'address' && address.base.kind === 'symbol') {
      // What functions return lies in the frame of each thread.
      const { variable } = address.base
      return variable !== undefined && this.fn.fn.parameters.includes(variable)
    }
    if (space === 'generic') {
      const isShared =
        address?.kind === 'address' &&
        address.base.kind === 'symbol' &&
        address.base.variable !== undefined &&
        address.base.variable.space !== 'local'
      return isShared || !this.#hasLocal
    }
    return true
  }

  /** Whether a register is an integer in WebAssembly, to which a stride can be added. */
  #isInteger(id: number): boolean {
    return this.fn.facts.types[id] === 'i32' || this.fn.facts.types[id] === 'i64'
  }

  #join(id: number, shape: LaneShape): boolean {
    const known = this.#shapes.get(id)
    if (known === shape || known === 'lanes') return false
    this.#shapes.set(id, known === undefined ? shape : 'lanes')
    return true
  }

  #pass({ blocks }: ControlFlow): boolean {
    const { uniform, strided } = this.fn.uniform
    let changed = false
    for (const { instructions, terminator } of blocks) {
      for (const decoded of instructions) {
        for (const register of accessesOf(decoded).writes) {
          if (uniform.has(register.id) || strided.has(register.id)) continue
          const shape = this.#result(decoded, register)
          if (shape !== undefined && this.#join(register.id, shape)) changed = true
        }
      }
      if (!('at' in terminator)) continue
      for (const { id } of accessesOf(terminator.at).writes) if (this.#join(id, 'lanes')) changed = true
    }
    return changed
  }

  #result(decoded: Decoded, register: { readonly id: number; readonly type: string; readonly name: string }) {
    const { form, operands, instruction } = decoded
    const { meaning } = form
    if (register.type === 'b128') return 'lanes'
    if (instruction.guard !== undefined) {
      const guard = this.#shapes.get(instruction.guard.register.id)
      if (guard !== 0) return guard === undefined ? undefined : 'lanes'
    }
    const code = meaning.kind === 'code' ? meaning.code : meaning.kind
    if (code === 'load') {
      const address = operands['a']
      const shape = this.ofOperand(address)
      return shape === undefined ? undefined : shape === 0 && this.isCommon(decoded, address) ? 0 : 'lanes'
    }
    if (code !== 'formula' && (!SUPPORTED.has(code) || code === 'store')) return 'lanes'
    const shapes = form.operands
      .filter(({ name, written }) => !written && operands[name] !== undefined)
      .map(({ name }) => this.ofOperand(operands[name]))
    if (shapes.every((each) => each === 0)) return 0
    if (shapes.includes('lanes')) return 'lanes'
    if (shapes.includes(undefined)) return undefined
    if (widens(decoded)) return 'lanes'
    const stride = strideOf(register, decoded, (operand) => {
      const shape = this.ofOperand(operand)
      return typeof shape === 'number' ? shape : undefined
    })
    return stride !== undefined && this.#isInteger(register.id) ? stride : 'lanes'
  }

  /** Whether lanes can run a block: it has nothing whose order among threads matters beyond one instruction, and calls nothing. */
  canRun(block: Block): boolean {
    if (!block.instructions.every((each) => this.#isSupported(each))) return false
    const { terminator } = block
    if (terminator.kind === 'switch') return this.ofOperand(terminator.index) === 0
    return terminator.kind !== 'call' && terminator.kind !== 'trap'
  }

  #isSupported(decoded: Decoded): boolean {
    const { meaning } = decoded.form
    if (mayWait(decoded) || ORDERED.test(decoded.instruction.opcode)) return false
    if (meaning.kind === 'code' && !SUPPORTED.has(meaning.code)) return false
    // Threads that all write to one place have an order here, though no program can rely on it.
    const isStore = meaning.kind === 'code' && meaning.code === 'store'
    const to = decoded.operands['a']
    if (isStore && this.ofOperand(to) === 0 && this.isCommon(decoded, to)) return false
    const { reads, writes } = accessesOf(decoded)
    if ([...reads, ...writes].some(({ type }) => type === 'b128')) return false
    const isClock = (operand: Operand | undefined): boolean => operand?.kind === 'special' && CLOCKS.test(operand.name)
    return !Object.values(decoded.operands).some(isClock)
  }

  /** Whether lanes are likely to run a region in less time than threads one after the other. */
  pays(region: Region, use: LaneUse, costOf: (decoded: Decoded) => AccessCost): boolean {
    const { flow } = this.fn
    const depths = loopDepths(flow, region)
    let [lanes, scalar] = [12, 0]
    const parts = new Set<number>()
    const isReached = new Set<number>([region.entry])
    for (const id of region.order) {
      const block = flow.blocks[id]
      if (block === undefined || !isReached.has(id)) continue
      // Behind a block that lanes cannot run, threads run one by one.
      if (!this.canRun(block)) {
        if (id === region.entry) return false
        parts.add(id)
        continue
      }
      for (const target of edgesWithin(block)) isReached.add(target)
      const { terminator } = block
      if (terminator.kind === 'branch' && this.of(terminator.register.id) === 'lanes') {
        parts.add(terminator.target)
        parts.add(terminator.next)
      }
      const rounds = ROUNDS ** Math.min(3, depths.get(id) ?? 0)
      for (const decoded of block.instructions) {
        const cost = this.#cost(decoded, costOf(decoded))
        lanes += rounds * cost.lanes
        scalar += rounds * LANES * cost.scalar
      }
    }
    return use === 'always' || (lanes < GAIN * scalar && this.#isShort(parts))
  }

  /** Whether the code that lanes run by themselves from these blocks on, which is written once more for each of them, is short enough. */
  #isShort(parts: ReadonlySet<number>): boolean {
    const { blocks } = this.fn.flow
    let written = 0
    for (const part of parts) {
      for (const id of reversePostorder(blocks, part, edgesWithin)) written += blocks[id]?.instructions.length ?? 0
      if (written > MOST_WRITTEN) return false
    }
    return true
  }

  #cost(decoded: Decoded, access: AccessCost): { readonly lanes: number; readonly scalar: number } {
    const { meaning } = decoded.form
    if (meaning.kind === 'nothing') return { lanes: 0, scalar: 0 }
    const [target] = accessesOf(decoded).writes
    if (target !== undefined && this.fn.uniform.uniform.has(target.id)) return { lanes: 0, scalar: 0 }
    const isCommon = target !== undefined && this.of(target.id) !== 'lanes'
    const code = meaning.kind === 'code' ? meaning.code : 'formula'
    if (code === 'load' || code === 'store') {
      const scalar = access === 'free' ? 2 : 6
      if (isCommon) return { lanes: scalar, scalar }
      const address = decoded.operands['a']
      const shape = this.ofOperand(address)
      const isEven =
        access !== 'recorded' && typeof shape === 'number' && !(shape === 0 && !this.isCommon(decoded, address))
      return { lanes: isEven ? scalar + 3 : LANES * (scalar + 2), scalar }
    }
    if (meaning.kind !== 'formula') return { lanes: isCommon ? 1 : 2, scalar: 1 }
    const text = meaning.formula(decoded.modifiers)
    const operations = text.match(/\(/g)?.length ?? 1
    const calls = text.match(/\$/g)?.length ?? 0
    const scalar = operations + 20 * calls
    if (isCommon) return { lanes: scalar, scalar }
    if (/\.(?:div|rem)_[su]/.test(text)) return { lanes: LANES * (scalar + 3), scalar }
    const type = wasmTypeOf(decoded.modifiers['T'] ?? 'b32')
    const isWide = type === 'i64' || type === 'f64' || /[if]64\./.test(text)
    const isCalled = /\$(?:rsqrt64|\w+_mode)/.test(text)
    return { lanes: isCalled ? LANES * (scalar + 3) : operations * (isWide ? 2 : 1) + 30 * calls, scalar }
  }

  /** The instructions of a region that make 64 bits of 32 on the way to a register that is taken to grow evenly, with what they read. */
  widened(
    region: Region,
  ): readonly { readonly operand: Operand; readonly stride: number; readonly isSigned: boolean }[] {
    const { strided } = this.fn.uniform
    return region.order.flatMap((id) =>
      (this.fn.flow.blocks[id]?.instructions ?? []).flatMap((decoded) => {
        const [target] = accessesOf(decoded).writes
        if (target === undefined || !strided.has(target.id) || !widens(decoded)) return []
        const type = (decoded.form.opcode === 'cvt' ? decoded.modifiers['S'] : decoded.modifiers['T']) ?? 's32'
        return ['a', 'b'].flatMap((name) => {
          const operand = decoded.operands[name]
          const stride = operand?.kind === 'register' ? strided.get(operand.register.id)?.stride : undefined
          const isTid = operand?.kind === 'special' && operand.name === 'tid.x'
          if (operand === undefined || isTid || stride === undefined || stride === 0 || bitsOf(type) !== 32) return []
          return [{ operand, stride, isSigned: type.startsWith('s') }]
        })
      }),
    )
  }
}

/** How many loops of a region each block lies in. */
function loopDepths(flow: ControlFlow, region: Region): ReadonlyMap<number, number> {
  const predecessors = new Map<number, number[]>()
  for (const from of region.order) {
    const block = flow.blocks[from]
    for (const target of block === undefined ? [] : edgesWithin(block)) {
      const list = predecessors.get(target)
      if (list === undefined) predecessors.set(target, [from])
      else list.push(from)
    }
  }
  const depths = new Map<number, number>()
  for (const header of region.loops) {
    const own = region.position.get(header) ?? 0
    const inside = new Set<number>([header])
    const queue = (predecessors.get(header) ?? []).filter((from) => (region.position.get(from) ?? 0) >= own)
    for (let at = queue.pop(); at !== undefined; at = queue.pop()) {
      if (inside.has(at) || (region.position.get(at) ?? 0) < own) continue
      inside.add(at)
      queue.push(...(predecessors.get(at) ?? []))
    }
    for (const id of inside) depths.set(id, (depths.get(id) ?? 0) + 1)
  }
  return depths
}
