/** An instruction with the form that it has, its operands by name, and the registers it reads and writes. */
import { type Form, type Match, type Modifiers, matchForms } from './forms.js'
import { type Instruction, inWords, type Operand, ptxError, type Register } from './syntax.js'

export interface Decoded {
  readonly instruction: Instruction
  readonly form: Form
  readonly modifiers: Modifiers
  readonly operands: Readonly<Record<string, Operand | undefined>>
}

/** The instructions on textures and surfaces. */
const TEXTURE = /^(?:tex|tld4|txq|suld|sust|sured|suq|istypep)\./
/**
 * The form of those that are not in the table: with references in place of handles, samplers of their own, or mipmaps. A kernel that has one is loaded,
 * as on a GPU, and its launches are refused (`whyNotRun`).
 */
const OTHER_TEXTURE: Form = {
  opcode: 'tex',
  pattern: '',
  slots: [],
  operands: [],
  meaning: { kind: 'code', code: 'other texture' },
}

const WAYS_OUT: readonly (readonly [pattern: RegExp, what: string])[] = [
  [
    /^multimem/,
    'memory of several GPUs by one address is not simulated: access the memory of each GPU where the target is the simulator',
  ],
  [/^tcgen05/, 'tensor memory is not simulated: use mma.sync or wmma where the target is the simulator'],
  [
    /^clusterlaunch/,
    'launches are not cancelled by the simulator: let each cluster do its own work where it is the target',
  ],
]

/**
 * Finds the form of an instruction and names its operands.
 * @throws ERR_UNSUPPORTED for a form that is not in the table, ERR_COMPILATION for operands that fit none
 */
export function decode(instruction: Instruction): Decoded {
  const { opcode } = instruction
  if (TEXTURE.test(opcode)) return decodeTexture(instruction)
  const { operands } = instruction
  const matches = matchForms(opcode)
  if (matches.length === 0) {
    const way = WAYS_OUT.find(([pattern]) => pattern.test(opcode))?.[1]
    const advice = way ?? 'compile for an older architecture, or write the kernel without it'
    throw ptxError('ERR_UNSUPPORTED', `The simulator does not run '${opcode}': ${advice}`, instruction)
  }
  for (const match of matches) {
    const named = nameOperands(match, operands)
    if (named !== undefined) return { instruction, ...match, operands: named }
  }
  throw ptxError('ERR_COMPILATION', `'${opcode}' does not take ${operands.length} operands`, instruction)
}

/** An instruction on a texture: its coordinates, which stand in the brackets behind the handle, are an operand of their own. */
function decodeTexture(instruction: Instruction): Decoded {
  const operands = instruction.operands.flatMap((each): Operand[] => {
    if (each.kind !== 'address' || each.coordinates === undefined) return [each]
    return [{ kind: 'address', base: each.base, offset: each.offset }, ...each.coordinates]
  })
  const usesHandle = operands.some((each) => each.kind === 'address' && each.base.kind === 'register')
  for (const match of usesHandle ? matchForms(instruction.opcode) : []) {
    const named = nameOperands(match, operands)
    if (named !== undefined) return { instruction, ...match, operands: named }
  }
  return { instruction, form: OTHER_TEXTURE, modifiers: {}, operands: {} }
}

/** The reason why a kernel that has this instruction is loaded, and never runs; undefined for an instruction that runs. */
export function whyNotRun({ form, instruction }: Decoded): string | undefined {
  return form === OTHER_TEXTURE
    ? `the simulator has no texture references, samplers of their own and mipmaps, and the kernel uses ${describeInstruction(instruction)}: pass texture and surface objects without mipmaps, or launch it on a GPU`
    : undefined
}

/** The error of an instruction that the parser accepts and the compiler cannot write. */
export function errorAt(message: string, decoded: Decoded): Error {
  return ptxError('ERR_COMPILATION', message, decoded.instruction)
}

/**
 * The operand with this name.
 * @throws ERR_COMPILATION if the instruction has none
 */
export function operandOf(decoded: Decoded, name: string): Operand {
  const operand = decoded.operands[name]
  if (operand === undefined) throw errorAt(`'${decoded.instruction.opcode}' lacks an operand`, decoded)
  return operand
}

/** Gives operands their names; if there are too few, the last of those that may be missing are missing. */
function nameOperands({ form, modifiers }: Match, given: readonly Operand[]): Decoded['operands'] | undefined {
  const { operands: slots } = form
  if (form.meaning.kind === 'code' && form.meaning.code === 'call') return {}
  let missing = slots.length - given.length
  const named: Record<string, Operand> = {}
  const skipped = new Set<string>()
  for (let index = slots.length - 1; index >= 0 && missing > 0; index--) {
    const slot = slots[index]
    // A cache policy is the last operand, and is there only if the opcode has the modifier for it.
    if (slot === undefined || !slot.optional || (slot.type === 'b64' && modifiers['hint'] !== undefined)) continue
    skipped.add(slot.name)
    missing--
  }
  if (missing !== 0) return undefined
  let at = 0
  for (const { name } of slots) {
    if (skipped.has(name)) continue
    const operand = given[at++]
    if (operand !== undefined) named[name] = operand
  }
  return named
}

/** Adds the registers of an operand to the list `into`. */
export function registersOf(operand: Operand | undefined, into: Register[]): void {
  switch (operand?.kind) {
    case 'register':
      into.push(operand.register)
      break
    case 'address':
      registersOf(operand.base, into)
      for (const each of operand.coordinates ?? []) registersOf(each, into)
      break
    case 'not':
      registersOf(operand.operand, into)
      break
    case 'pair':
      registersOf(operand.first, into)
      registersOf(operand.second, into)
      break
    case 'vector':
    case 'list':
      for (const each of operand.items) registersOf(each, into)
  }
}

/** The parts of a call: `call (results), target, (arguments), prototype`. */
export interface CallParts {
  readonly results: readonly Operand[]
  readonly target: Operand
  readonly parameters: readonly Operand[]
  /** The name of the call's prototype, or of its list of targets. */
  readonly list: string | undefined
}

export function callParts(instruction: Instruction): CallParts {
  const rest = [...instruction.operands]
  const results = rest[0]?.kind === 'list' ? rest.shift() : undefined
  const target = rest.shift()
  const parameters = rest[0]?.kind === 'list' ? rest.shift() : undefined
  const list = rest.shift()
  const listName = list?.kind === 'symbol' ? list.name : undefined
  if (target === undefined || rest.length > 0 || (list !== undefined && listName === undefined)) {
    throw ptxError('ERR_COMPILATION', 'A call needs (results), a function and (arguments)', instruction)
  }
  return {
    results: results?.kind === 'list' ? results.items : [],
    target,
    parameters: parameters?.kind === 'list' ? parameters.items : [],
    list: listName,
  }
}

export interface Accesses {
  readonly reads: readonly Register[]
  readonly writes: readonly Register[]
}

/** The registers that an instruction reads and writes. An instruction with a guard may leave the old value in those that it writes. */
export function accessesOf({ instruction, form, operands }: Decoded): Accesses {
  const [reads, writes]: [Register[], Register[]] = [[], []]
  if (instruction.guard !== undefined) reads.push(instruction.guard.register)
  if (form.meaning.kind === 'code' && form.meaning.code === 'call') {
    const { results, target, parameters } = callParts(instruction)
    for (const each of results) registersOf(each, writes)
    registersOf(target, reads)
    for (const each of parameters) registersOf(each, reads)
    return { reads, writes }
  }
  for (const { name, written, read } of form.operands) {
    if (read) registersOf(operands[name], reads)
    if (written) registersOf(operands[name], writes)
  }
  return { reads, writes }
}

/** An instruction's opcode as it is written, and its line, for messages. */
export function describeInstruction(instruction: Instruction): string {
  return `'${instruction.opcode}' at ${inWords(instruction)}`
}
