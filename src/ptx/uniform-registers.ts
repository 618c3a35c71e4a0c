/**
 * Registers that hold the same value in all threads of a block, or of a row of it (threads that differ in %tid.x alone),
 * and registers that grow by a constant from one thread of a row to the next. They are computed once, not by each thread.
 */
import type { ControlFlow } from './control-flow.js'
import { accessesOf, type Decoded } from './decoding.js'
import { bitsOf, type Operand, type Register } from './syntax.js'

/** The threads in which a value is the same: those of the block, or those of a row. */
export type Reach = 'block' | 'row'

export interface UniformRegister {
  readonly reach: Reach
  /** The one instruction that writes the register. */
  readonly definition: Decoded
}

export interface StridedRegister {
  /** The amount by which the register grows with %tid.x, as long as no conversion to 64 bits on the way wraps. */
  readonly stride: number
  readonly definition: Decoded
}

export interface UniformRegisters {
  readonly uniform: ReadonlyMap<number, UniformRegister>
  /** The registers that grow evenly along a row, all of them integers; keys are the registers' ids. */
  readonly strided: ReadonlyMap<number, StridedRegister>
}

export const NO_UNIFORM_REGISTERS: UniformRegisters = { uniform: new Map(), strided: new Map() }

/** The longest stride that is followed. */
const LONGEST = 2 ** 20

/** The operations that are written by code for one result without touching memory; setp, lop3 and mov may have two. */
const PURE_CODE = new Set(['mov', 'cvta', 'setp', 'lop3', 'pack'])

/**
 * Finds the uniform and the strided registers of a function.
 * @param live The registers that are read before they are written
 */
export function uniformRegisters(flow: ControlFlow, live: ReadonlySet<number>): UniformRegisters {
  if (!flow.fn.entry) return NO_UNIFORM_REGISTERS
  return new Search(flow, live).search()
}

/** The threads in which the value of an operand is the same; undefined if each thread may have its own. */
export function reachOf(operand: Operand, uniform: ReadonlyMap<number, UniformRegister>): Reach | undefined {
  switch (operand.kind) {
    case 'register':
      return uniform.get(operand.register.id)?.reach
    case 'integer':
    case 'float':
    case 'symbol':
      return 'block'
    case 'special':
      if (/^(?:ntid|nctaid|ctaid)\.[xyz]$/.test(operand.name)) return 'block'
      return /^tid\.[yz]$/.test(operand.name) ? 'row' : undefined
    case 'not':
      return reachOf(operand.operand, uniform)
    case 'vector':
      return commonReach(operand.items.map((each) => reachOf(each, uniform)))
    default:
      return undefined
  }
}

export function commonReach(all: readonly (Reach | undefined)[]): Reach | undefined {
  if (all.includes(undefined)) return undefined
  return all.includes('row') ? 'row' : 'block'
}

class Search {
  readonly #uniform = new Map<number, UniformRegister>()
  readonly #strided = new Map<number, StridedRegister>()
  /** The instructions that are the only ones to write their register, in the order of the text. */
  readonly #candidates: { readonly register: Register; readonly definition: Decoded }[] = []

  constructor(
    private readonly flow: ControlFlow,
    live: ReadonlySet<number>,
  ) {
    const writes = new Uint32Array(flow.fn.registers.length)
    for (const { instructions, terminator } of flow.blocks) {
      for (const decoded of 'at' in terminator ? [...instructions, terminator.at] : instructions) {
        for (const { id } of accessesOf(decoded).writes) writes[id] = (writes[id] ?? 0) + 1
      }
    }
    for (const { instructions } of flow.blocks) {
      for (const definition of instructions) {
        const [register, second] = accessesOf(definition).writes
        if (register === undefined || second !== undefined || writes[register.id] !== 1) continue
        if (definition.instruction.guard !== undefined || live.has(register.id) || register.type === 'b128') continue
        this.#candidates.push({ register, definition })
      }
    }
  }

  search(): UniformRegisters {
    for (let changed = true; changed; ) {
      changed = false
      for (const { register, definition } of this.#candidates) {
        if (this.#uniform.has(register.id) || this.#strided.has(register.id)) continue
        const reach = this.#reachOf(definition)
        if (reach !== undefined) this.#uniform.set(register.id, { reach, definition })
        else {
          const stride = strideOf(register, definition, (operand) => this.#operandStride(operand))
          if (stride === undefined || stride === 0) continue
          this.#strided.set(register.id, { stride, definition })
        }
        changed = true
      }
    }
    return { uniform: this.#uniform, strided: this.#strided }
  }

  #reachOf({ form, modifiers, operands }: Decoded): Reach | undefined {
    const { meaning } = form
    if (meaning.kind === 'code' && meaning.code === 'load') {
      const address = operands['a']
      if (address?.kind !== 'address' || address.base.kind !== 'symbol' || modifiers['vec'] !== undefined)
        return undefined
      // The results of calls are read in the same way.
      const { variable } = address.base
      return variable !== undefined && this.flow.fn.parameters.includes(variable) ? 'block' : undefined
    }
    if (meaning.kind !== 'formula' && !(meaning.kind === 'code' && PURE_CODE.has(meaning.code))) return undefined
    const [target] = form.operands.filter(({ written }) => written)
    if (target === undefined || operands[target.name]?.kind !== 'register') return undefined
    const read = form.operands.filter(({ name, written }) => !written && operands[name] !== undefined)
    return commonReach(read.map(({ name }) => reachOf(operands[name] ?? { kind: 'sink' }, this.#uniform)))
  }

  #operandStride(operand: Operand | undefined): number | undefined {
    if (operand === undefined) return undefined
    if (operand.kind === 'special' && operand.name === 'tid.x') return 1
    if (operand.kind === 'register') {
      const known = this.#strided.get(operand.register.id)
      if (known !== undefined) return known.stride
    }
    return reachOf(operand, this.#uniform) === undefined ? undefined : 0
  }
}

function shiftOf(operand: Operand | undefined): bigint {
  return operand?.kind === 'integer' && operand.value >= 0n && operand.value <= 20n ? operand.value : 21n
}

/**
 * The amount by which the result of an instruction grows from one thread to the next, from those of its operands; undefined if it does not grow
 * evenly, or if nothing is known of an operand.
 */
export function strideOf(
  register: Register,
  { form, modifiers, operands }: Decoded,
  of: (operand: Operand | undefined) => number | undefined,
): number | undefined {
  const { opcode, pattern } = form
  const [a, b, c] = ['a', 'b', 'c'].map((name) => of(operands[name]))
  const type = modifiers['T'] ?? ''
  const wide = opcode === 'mul' && pattern.includes('.wide')
  if (modifiers['sat'] !== undefined || modifiers['cc'] !== undefined || !/^[sub](?:32|64)$/.test(type)) return
  if (bitsOf(register.type) !== (wide ? 64 : bitsOf(type))) return undefined
  let stride: number | undefined
  if (opcode === 'mov' || opcode === 'cvta') {
    if (opcode === 'mov' || modifiers['space'] === 'global') stride = a
  } else if (opcode === 'cvt') {
    const source = modifiers['S'] ?? ''
    if (bitsOf(type) === 64 && /^[su]32$/.test(source)) stride = a
  } else if (a !== undefined && b !== undefined) {
    if (/^add\.T/.test(pattern)) stride = a + b
    else if (/^sub\.T/.test(pattern)) stride = a - b
    else if (opcode === 'shl')
      stride = productStride(operands['a'], { kind: 'integer', value: 1n << shiftOf(operands['b']) }, of)
    else if (/^mul\.(?:lo|wide)\.T/.test(pattern)) stride = productStride(operands['a'], operands['b'], of)
    else if (/^mad\.lo\.T/.test(pattern) && c !== undefined) {
      const product = productStride(operands['a'], operands['b'], of)
      if (product !== undefined) stride = product + c
    }
  }
  return stride !== undefined && Math.abs(stride) <= LONGEST ? stride : undefined
}

function productStride(
  a: Operand | undefined,
  b: Operand | undefined,
  of: (operand: Operand | undefined) => number | undefined,
): number | undefined {
  const [x, y] = [of(a), of(b)]
  if (x === 0 && y === 0) return 0
  const constant = (operand: Operand | undefined): number | undefined =>
    operand?.kind === 'integer' && operand.value >= 0n && operand.value <= LONGEST ? Number(operand.value) : undefined
  const [p, q] = [constant(a), constant(b)]
  if (x !== undefined && q !== undefined) return x * q
  return y !== undefined && p !== undefined ? y * p : undefined
}

/** Whether an instruction makes 64 bits of 32 on the way to an address, so that its stride holds only as long as nothing wraps. */
export function widens({ form, modifiers }: Decoded): boolean {
  return form.pattern.includes('.wide') || (form.opcode === 'cvt' && bitsOf(modifiers['T'] ?? '') === 64)
}
