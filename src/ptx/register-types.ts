/** The WebAssembly type of each register of a function, and the registers that may show the bits of a NaN. */

import type { Block, ControlFlow } from './control-flow.js'
import { accessesOf, type Decoded } from './decoding.js'
import { bitsOf, type Operand, type Register } from './syntax.js'
import type { ValueType } from './wasm-encoder.js'

export function wasmTypeOf(type: string): ValueType {
  if (type === 'f32') return 'f32'
  if (type === 'f64') return 'f64'
  return bitsOf(type) === 64 ? 'i64' : 'i32'
}

/** The type of an operand slot, with the names T, S, W and so on replaced. */
export function slotType(type: string, { modifiers }: Decoded): string {
  if (type === 'W') {
    const narrow = modifiers['T'] ?? 'u32'
    return `${narrow[0]}${2 * bitsOf(narrow)}`
  }
  return /^[A-Z]$/.test(type) ? (modifiers[type] ?? 'b32') : type
}

export interface RegisterFacts {
  readonly types: readonly ValueType[]
  /** Registers of f32 whose bits reach memory or integers: a NaN in them must be that of the GPU. */
  readonly observed: ReadonlySet<number>
  /** Registers of f32 that never hold denormal numbers. */
  readonly flushed: ReadonlySet<number>
  /** The value of float registers that are only ever given one constant. */
  readonly constants: ReadonlyMap<number, number>
}

function decodedOf(blocks: readonly Block[]): Decoded[] {
  return blocks.flatMap(({ instructions, terminator }) =>
    'at' in terminator ? [...instructions, terminator.at] : instructions,
  )
}

export function registerFacts(flow: ControlFlow): RegisterFacts {
  const all = decodedOf(flow.blocks)
  const types = chooseTypes(flow, all)
  return {
    types,
    observed: observedRegisters(all, types),
    flushed: flushedRegisters(all),
    constants: constantRegisters(all),
  }
}

/** Chooses the WebAssembly type of each register. A register that is declared by its bits alone is a float if it is used as one more often. */
function chooseTypes({ fn }: ControlFlow, all: readonly Decoded[]): ValueType[] {
  const votes = new Int32Array(fn.registers.length)
  const count = (operand: Operand | undefined, vote: number): void => {
    if (operand?.kind === 'register') votes[operand.register.id] = (votes[operand.register.id] ?? 0) + vote
    else if (operand?.kind === 'vector') for (const each of operand.items) count(each, vote)
  }
  for (const decoded of all) {
    for (const { name, type } of decoded.form.operands) {
      const own = slotType(type, decoded)
      if (own === 'f32' || own === 'f64') count(decoded.operands[name], 1)
      else if (/^[us](32|64)$/.test(own)) count(decoded.operands[name], -1)
    }
  }
  return fn.registers.map(({ id, type }) => {
    const bits = bitsOf(type)
    if (type === 'f32' || type === 'f64') return type
    if (/^b(32|64)$/.test(type) && (votes[id] ?? 0) > 0) return bits === 64 ? 'f64' : 'f32'
    return bits >= 64 ? 'i64' : 'i32'
  })
}

function isArithmetic({ form }: Decoded): boolean {
  return form.meaning.kind === 'formula' && form.meaning.arithmetic
}

function observedRegisters(all: readonly Decoded[], types: readonly ValueType[]): Set<number> {
  const observed = new Set<number>()
  /** The sources of each register that only passes a value on. */
  const sources = new Map<number, Register[]>()
  for (const decoded of all) {
    const { reads, writes } = accessesOf(decoded)
    if (isArithmetic(decoded)) {
      for (const { name, type } of decoded.form.operands) {
        const operand = decoded.operands[name]
        if (operand?.kind === 'register' && slotType(type, decoded) !== 'f32') observed.add(operand.register.id)
      }
      continue
    }
    const [target] = writes
    const isComparison = /^(setp|testp)$/.test(decoded.form.opcode)
    if (isComparison) continue
    const passesOn = writes.length === 1 && target !== undefined && types[target.id] === 'f32'
    for (const each of reads) {
      if (types[each.id] !== 'f32') continue
      if (passesOn && decoded.instruction.operands.every(({ kind }) => kind === 'register' || kind === 'float')) {
        const list = sources.get(target.id)
        if (list === undefined) sources.set(target.id, [each])
        else list.push(each)
      } else observed.add(each.id)
    }
  }
  const queue = [...observed]
  for (let id = queue.pop(); id !== undefined; id = queue.pop()) {
    for (const each of sources.get(id) ?? []) {
      if (observed.has(each.id)) continue
      observed.add(each.id)
      queue.push(each.id)
    }
  }
  return observed
}

function flushedRegisters(all: readonly Decoded[]): Set<number> {
  const [flushed, others] = [new Set<number>(), new Set<number>()]
  for (const decoded of all) {
    const into = isArithmetic(decoded) && decoded.modifiers['ftz'] !== undefined ? flushed : others
    for (const { id } of accessesOf(decoded).writes) into.add(id)
  }
  for (const id of others) flushed.delete(id)
  return flushed
}

function constantRegisters(all: readonly Decoded[]): Map<number, number> {
  const constants = new Map<number, number>()
  const written = new Set<number>()
  for (const decoded of all) {
    const source = decoded.operands['a']
    for (const { id } of accessesOf(decoded).writes) {
      if (!written.has(id) && decoded.form.opcode === 'mov' && source?.kind === 'float') constants.set(id, source.value)
      else constants.delete(id)
      written.add(id)
    }
  }
  return constants
}
