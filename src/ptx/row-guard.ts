/**
 * Guards such as `if (x >= width || y >= height) return`, which most kernels have: if the first and the last thread of a row pass one, all do, since
 * what it compares grows evenly along the row. Then it is not checked for each thread.
 */
import type { ControlFlow } from './control-flow.js'
import { accessesOf, type Decoded } from './decoding.js'
import type { Operand } from './syntax.js'
import type { ValueWriter } from './value-writer.js'

/** One of the conditions of a guard, none of which may hold. */
export type GuardCondition =
  | { readonly kind: 'uniform'; readonly operand: Operand }
  | {
      readonly kind: 'comparison'
      /** The relation in the name of the i64 comparison, without the suffix for the sign. */
      readonly relation: string
      readonly isSigned: boolean
      readonly sides: readonly [GuardSide, GuardSide]
    }

export interface GuardSide {
  readonly operand: Operand
  readonly stride: number
}

export interface RowGuard {
  /** The block of code that ends with the guard; `next` is the one with which threads that pass go on. */
  readonly block: number
  readonly next: number
  readonly conditions: readonly GuardCondition[]
}

const RELATIONS: Readonly<Record<string, string>> = {
  lt: 'lt',
  le: 'le',
  gt: 'gt',
  ge: 'ge',
  lo: 'lt',
  ls: 'le',
  hi: 'gt',
  hs: 'ge',
}

/** The guard at the end of a block of code, if it has one that can be checked for a row. */
export function rowGuardOf(writer: ValueWriter, flow: ControlFlow, block: number): RowGuard | undefined {
  const code = flow.blocks[block]
  if (code?.terminator.kind !== 'branch' || code.terminator.negated) return undefined
  const { register, target, next } = code.terminator
  const end = flow.blocks[target]
  if (end === undefined || end.instructions.length > 0 || !/^(?:return|exit)$/.test(end.terminator.kind))
    return undefined
  const definitions = new Map<number, Decoded | undefined>()
  for (const decoded of code.instructions) {
    for (const { id } of accessesOf(decoded).writes) {
      definitions.set(id, definitions.has(id) || decoded.instruction.guard !== undefined ? undefined : decoded)
    }
  }
  const conditions = conditionsOf(writer, { kind: 'register', register }, definitions)
  return conditions === undefined ? undefined : { block, next, conditions }
}

function conditionsOf(
  writer: ValueWriter,
  operand: Operand | undefined,
  definitions: ReadonlyMap<number, Decoded | undefined>,
): readonly GuardCondition[] | undefined {
  if (operand?.kind !== 'register') return undefined
  const { uniform, strided } = writer.fn.uniform
  if (uniform.has(operand.register.id)) return [{ kind: 'uniform', operand }]
  const definition = definitions.get(operand.register.id)
  if (definition === undefined) return undefined
  const { form, modifiers, operands } = definition
  if (form.opcode === 'or') {
    const [a, b] = ['a', 'b'].map((name) => conditionsOf(writer, operands[name], definitions))
    return a === undefined || b === undefined ? undefined : [...a, ...b]
  }
  const relation = RELATIONS[modifiers['cmp'] ?? '']
  const type = modifiers['T'] ?? ''
  const isPlain = operands['d']?.kind === 'register' && modifiers['bool'] === undefined
  if (form.opcode !== 'setp' || relation === undefined || !isPlain || !/^[su]32$/.test(type)) return undefined
  const side = (given: Operand | undefined): GuardSide | undefined => {
    if (given?.kind === 'integer') return { operand: given, stride: 0 }
    if (given?.kind !== 'register') return undefined
    const stride = uniform.has(given.register.id) ? 0 : strided.get(given.register.id)?.stride
    return stride === undefined ? undefined : { operand: given, stride }
  }
  const [a, b] = [side(operands['a']), side(operands['b'])]
  if (a === undefined || b === undefined) return undefined
  return [{ kind: 'comparison', relation, isSigned: type === 's32', sides: [a, b] }]
}
