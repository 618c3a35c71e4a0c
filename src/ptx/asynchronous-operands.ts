/** The operands of instructions that the run time carries out by itself: where each lies among the words in memory, and in which address space. */
import { type Decoded, errorAt } from './decoding.js'
import { MOST_OPERANDS } from './layout.js'
import type { Operand } from './syntax.js'

/** The words of an instruction's operands, by the operands' names: the index of the first, and their number. */
export type OperandWords = Readonly<Record<string, { readonly at: number; readonly count: number }>>

const known = new WeakMap<Decoded, OperandWords>()

/** The place of each operand among the words of an instruction. Coordinates of a tensor map follow its address. */
export function operandWords(decoded: Decoded): OperandWords {
  const found = known.get(decoded)
  if (found !== undefined) return found
  const words: Record<string, { readonly at: number; readonly count: number }> = {}
  let at = 0
  for (const { name } of decoded.form.operands) {
    const operand = decoded.operands[name]
    if (operand === undefined) continue
    const count = partsOf(operand).length
    words[name] = { at, count }
    at += count
  }
  if (at > MOST_OPERANDS) throw errorAt(`'${decoded.instruction.opcode}' has too many operands`, decoded)
  known.set(decoded, words)
  return words
}

/** The operands that an operand is made of. */
export function partsOf(operand: Operand): readonly Operand[] {
  if (operand.kind === 'vector' || operand.kind === 'list') return operand.items
  if (operand.kind !== 'address') return [operand]
  return [operand, ...(operand.coordinates ?? []).flatMap((each) => (each.kind === 'vector' ? each.items : [each]))]
}

/** The address space of an operand that is an address, as the opcode says; undefined for a generic one. */
export function spaceOfOperand({ modifiers }: Decoded, name: string): string | undefined {
  if (name === 'm') return 'shared::cluster'
  return name === 'b' ? modifiers['src'] : name === 'a' ? modifiers['dst'] : undefined
}

/** Throws ERR_COMPILATION for vectors of other lengths than the instruction's. */
export function checkOperands(decoded: Decoded): void {
  const { dim, vec, mode } = decoded.modifiers
  const words = operandWords(decoded)
  const check = (name: string, wanted: number, what: string): void => {
    if (words[name]?.count !== wanted)
      throw errorAt(
        `'${decoded.instruction.opcode}' takes ${wanted} ${what}, and ${words[name]?.count ?? 0} are given`,
        decoded,
      )
  }
  const rank = Number(dim?.[0] ?? 0)
  if (dim !== undefined) check('t', rank + 1, 'words of a map and its coordinates')
  if (mode === 'im2col') check('i', rank - 2, 'offsets')
  if (vec !== undefined) check('b', Number(vec.slice(1)), 'values')
}
