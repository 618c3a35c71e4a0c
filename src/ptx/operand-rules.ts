/**
 * What an assembler refuses of operands: registers of other types than the instruction's, variables of other address spaces, constants and names where
 * there can be none. Without these rules a mistake in PTX would run on the simulator, and be refused by the first GPU. The rules are those of ptxas
 * 13.0, found by asking it; what it takes by accident is taken, too.
 */
import { spaceOfOperand } from './asynchronous-operands.js'
import { callParts, type Decoded, decode, whyNotRun } from './decoding.js'
import { type Modifiers, matchForms } from './forms.js'
import { HOST_FUNCTIONS } from './program.js'
import { slotType } from './register-types.js'
import {
  bitsOf,
  type Instruction,
  inWords,
  type Operand,
  type PtxFunction,
  type PtxText,
  type Register,
  type Variable,
} from './syntax.js'
import { whyWarpgroupIsRefused } from './warpgroup-operands.js'

/** Instructions whose operands may be wider than their types. */
const RELAXED = /^(?:ld|ldu|st|cvt|suld|sust)\./
/** Instructions on matrices, whose registers are fragments: their types are those of the elements. */
const OF_FRAGMENTS = /^(?:w?mma|ldmatrix|stmatrix|movmatrix)\./
/** Instructions whose operands may be special registers. */
const TAKES_SPECIAL = /^(?:mov|cvt)\./
/** Instructions whose operands may be the addresses of variables and functions. */
const TAKES_SYMBOL = /^(?:mov|cvta(?!\.to)|call|bra|brx|setmaxnreg)(?:\.|$)/
const NARROW_SPECIAL =
  /^(?:(?:n?tid|n?ctaid)\.[xyzw]|laneid|n?warpid|n?smid|lanemask_..|clock|clock_hi|globaltimer_..|\w+_smem_size)$/
const WIDE_SPECIAL = /^(?:clock64|globaltimer)$/

/** The reason why an assembler refuses functions of a text for the operands of one of their instructions; undefined if it does not. */
export function whyOperandsAreRefused(text: PtxText, functions: Iterable<PtxFunction>): string | undefined {
  for (const fn of functions) {
    const rules = new OperandRules(text, fn)
    for (const instruction of fn.body ?? []) {
      const why = rules.refusal(instruction)
      if (why !== undefined) return `${why}, in '${instruction.opcode}' at ${inWords(instruction)}`
    }
  }
  return undefined
}

type Class = 'bits' | 'integer' | 'float' | 'predicate'

function classOf(type: string): Class {
  if (type === 'pred') return 'predicate'
  if (/^[us]\d+$/.test(type)) return 'integer'
  return /^f(?:16|32|64)$/.test(type) ? 'float' : 'bits'
}

/** Whether a register may stand where an operand has this type. */
function agrees(register: string, type: string, relaxed: boolean): boolean {
  const [own, wanted] = [classOf(register), classOf(type)]
  if (own === 'predicate' || wanted === 'predicate') return own === wanted
  const bits = bitsOf(type)
  const has = bitsOf(register)
  if (/^(?:bf16|bf16x2|tf32|e\dm\d(?:x2)?|ue8m0x2)$/.test(type)) return own === 'bits' && has === Math.max(8, bits)
  if (relaxed ? has < bits : has !== bits) return false
  if (/^(?:f16x2|[us]16x2|f32x2)$/.test(type)) return own === 'bits' || (type === 'f32x2' && own !== 'float')
  if (wanted === 'bits') return true
  if (wanted === 'integer') return own !== 'float'
  // Where a float may be narrower than its register, that is one of bits.
  return own === 'bits' ? register !== 'f16x2' || bits === 32 : own === 'float' && has === bits
}

class OperandRules {
  readonly #version: number
  readonly #target: number

  constructor(
    private readonly text: PtxText,
    private readonly fn: PtxFunction,
  ) {
    this.#version = Number(text.version)
    this.#target = Number(/\d+/.exec(text.target)?.[0] ?? 0)
  }

  refusal(instruction: Instruction): string | undefined {
    const { opcode, guard, operands } = instruction
    if (guard !== undefined && guard.register.type !== 'pred') return 'a guard is a predicate'
    if (matchForms(opcode).length === 0) return undefined
    // What the table does not have is refused where it is used, with a way out.
    let decoded: Decoded
    try {
      decoded = decode(instruction)
    } catch {
      return undefined
    }
    // A texture instruction that never runs here is a GPU's to refuse.
    if (whyNotRun(decoded) !== undefined) return undefined
    if (decoded.form.meaning.kind === 'code' && decoded.form.meaning.code === 'call') return this.#call(instruction)
    if (opcode.startsWith('brx.') && operands[0]?.kind === 'integer') return 'the index is in a register'
    const own = this.#ofInstruction(decoded) ?? whyWarpgroupIsRefused(decoded)
    if (own !== undefined) return own
    for (const { name, type, written } of decoded.form.operands) {
      const operand = decoded.operands[name]
      if (operand === undefined) continue
      // The fragments and descriptors of a warpgroup have been looked at.
      if (decoded.form.opcode === 'wgmma' && type !== 'pred' && type !== 'b32') continue
      const why =
        type === 'address'
          ? this.#address(operand, decoded)
          : type === 'label' || type === 'list'
            ? undefined
            : this.#operand(operand, slotType(type, decoded), decoded, written)
      if (why !== undefined) return why
    }
    return operands.some((each) => each.kind === 'address' && !hasAddress(decoded))
      ? 'there is no address here'
      : undefined
  }

  /** The rules of single instructions. */
  #ofInstruction({ instruction: { opcode }, operands, modifiers, form }: Decoded): string | undefined {
    const number = (name: string): number | undefined => {
      const operand = operands[name]
      return operand?.kind === 'integer' ? Number(operand.value) : undefined
    }
    if (/^(?:vote|shfl)\.(?!sync)/.test(opcode) && this.#version >= 6.4 && this.#target >= 70)
      return 'it needs .sync from PTX 6.4 on, for sm_70 and later'
    if (/^bar(?:rier)?\.(?!warp|cluster)/.test(opcode)) {
      const [barrier = 0, threads = 0] = [number('a'), number('b')]
      if (barrier < 0 || barrier > 15) return `a block has the barriers 0 to 15, not ${barrier}`
      if (threads % 32 !== 0) return `${threads} threads are not whole warps`
    }
    if (/^setp?\./.test(opcode)) return comparison(modifiers)
    if (opcode.startsWith('cvta.') && /u32$/.test(opcode) && this.#target >= 90) return 'an address has 64 bits'
    if (opcode.startsWith('elect.') && operands['d']?.kind !== 'pair') return 'elect gives a predicate, too'
    if (opcode.startsWith('cvt.') && modifiers['sat'] !== undefined && fitsAlways(modifiers))
      return 'nothing is limited by .sat'
    if (opcode.startsWith('match.any') && operands['d']?.kind === 'pair') return 'match.any has no predicate'
    if (/^atom\..*add\..*s64/.test(opcode)) return 'sums of 64 bits are .u64'
    if (/^cp\.async\.cg\./.test(opcode) && number('c') !== 16) return '.cg copies 16 bytes'
    if (opcode.startsWith('cp.async.bulk.wait_group') && number('c') === undefined)
      return 'the number of groups is a constant'
    if (/^cp\.(?:reduce\.)?async\.bulk\./.test(opcode) && (number('c') ?? 0) % 16 !== 0)
      return 'the size of a bulk copy is a multiple of 16'
    if (opcode.startsWith('cp.async.wait_group') && number('a') === undefined)
      return 'the number of groups is a constant'
    if (!/^(?:ld|st)\./.test(`${form.opcode}.`)) return undefined
    const { order = '', scope, space = '', cop, T: type = '' } = modifiers
    if (/^(?:relaxed|acquire|release)$/.test(order) && scope === undefined)
      return `.${order} needs a scope, such as .gpu`
    if (order === 'volatile' && cop !== undefined) return `.volatile has no .${cop}`
    if (modifiers['nc'] !== undefined && space !== 'global') return '.nc is for .global'
    if (/^(?:b?f16(?:x2)?|pred)$/.test(type))
      return `no memory has the type .${type}: it is .b${Math.max(8, bitsOf(type))}`
    if (form.opcode === 'st' && space === 'const') return 'constant memory is not written'
    return undefined
  }

  #operand(operand: Operand, type: string, decoded: Decoded, written: boolean): string | undefined {
    const { opcode } = decoded.instruction
    if (OF_FRAGMENTS.test(opcode)) return operand.kind === 'vector' ? fragment(operand.items) : undefined
    switch (operand.kind) {
      case 'register':
        // An assembler takes a predicate as the flag that ignores the source, and addresses of 32 bits.
        if (opcode.startsWith('cp.async.') && operand.register.type === 'pred') return undefined
        if (opcode.startsWith('isspacep.') && bitsOf(operand.register.type) === 32) return undefined
        if (opcode.startsWith('mbarrier.') && modifiersOf(opcode).has('parity') && type === 'b64')
          return agrees(operand.register.type, 'b32', false) ? undefined : mismatch(operand.register, 'b32')
        return agrees(operand.register.type, type, RELAXED.test(opcode) && type !== 'pred')
          ? undefined
          : mismatch(operand.register, type)
      case 'not':
        // Before a constant it is an operator of C.
        if (operand.operand.kind === 'integer') return this.#operand(operand.operand, type, decoded, written)
        if (type !== 'pred') return `'!' is for predicates`
        return this.#operand(operand.operand, type, decoded, written)
      case 'pair':
        if (/^(?:shfl|match)\./.test(opcode)) {
          if (operand.first.kind === 'sink' && opcode.startsWith('shfl'))
            return 'the value of a shuffle is not left out'
          return this.#operand(operand.first, type, decoded, true) ?? this.#predicate(operand.second)
        }
        return /^(?:setp|elect|lop3)\./.test(opcode) && type === 'pred'
          ? (this.#predicate(operand.first) ?? this.#predicate(operand.second))
          : undefined
      case 'sink':
        return /^(?:mov|ld|ldu|cvt|cvta|shfl|match|vote)\./.test(opcode) || decoded.form.meaning.kind === 'formula'
          ? 'the result is not left out'
          : undefined
      case 'integer':
        if (written) return 'the result goes into a register'
        if (/^(?:b?f16(?:x2)?)$/.test(type))
          return `a constant of .${type} is not written so: move its bits into a register`
        return classOf(type) === 'float' ? `a constant of .${type} has a point, or is written 0f3f800000` : undefined
      case 'float':
        if (written) return 'the result goes into a register'
        return this.#float(operand.width, type)
      case 'special':
        if (!TAKES_SPECIAL.test(opcode)) return `%${operand.name} is read by mov alone`
        if (NARROW_SPECIAL.test(operand.name) && bitsOf(type) > 32) return `%${operand.name} has 32 bits`
        return WIDE_SPECIAL.test(operand.name) && bitsOf(type) < 64 ? `%${operand.name} has 64 bits` : undefined
      case 'symbol':
        return this.#symbol(operand, type, decoded)
      case 'vector':
        return this.#vector(operand.items, type, decoded)
      default:
        return undefined
    }
  }

  #predicate(operand: Operand): string | undefined {
    if (operand.kind === 'sink') return undefined
    return operand.kind === 'register' && operand.register.type === 'pred' ? undefined : 'a predicate is expected'
  }

  #float(width: 32 | 64 | 0, type: string): string | undefined {
    const wanted = classOf(type)
    if (wanted === 'float' && type !== 'f16') return undefined
    if (wanted === 'bits' && (width === 32 ? type === 'b32' : type === 'b64')) return undefined
    return `a constant of .${type} is an integer`
  }

  #vector(items: readonly Operand[], type: string, decoded: Decoded): string | undefined {
    const { opcode } = decoded.instruction
    if (RELAXED.test(opcode)) {
      if (decoded.modifiers['vec'] === undefined && items.length > 1) return 'the instruction has no vector'
      if (items.every(({ kind }) => kind === 'sink')) return 'a vector has at least one register'
      return items.map((each) => this.#element(each, bitsOf(type))).find((why) => why !== undefined)
    }
    if (opcode.startsWith('mov.') && decoded.modifiers['vec'] === undefined) {
      if (!/^b(?:16|32|64|128)$/.test(type)) return `a word of .${type} has no parts: it is .b${bitsOf(type)}`
      const bits = bitsOf(type) / items.length
      for (const each of items) {
        if (each.kind === 'register' && each.register.type !== 'pred' && bitsOf(each.register.type) !== bits)
          return `parts of ${bits} bits make a word of .${type}, and '${each.register.name}' is .${each.register.type}`
      }
    }
    return decoded.form.meaning.kind === 'formula' ? 'the instruction has no vector' : undefined
  }

  #element(each: Operand, bits: number): string | undefined {
    if (each.kind !== 'register') return undefined
    const { type, name } = each.register
    return type === 'pred' || bitsOf(type) < bits ? `'${name}' of .${type} does not hold ${bits} bits` : undefined
  }

  #variable(operand: Operand): Variable | undefined {
    return operand.kind === 'symbol' ? (operand.variable ?? this.text.variables.get(operand.name)) : undefined
  }

  #isFunction(name: string): boolean {
    return this.text.functions.has(this.text.aliases.get(name) ?? name) || HOST_FUNCTIONS.has(name)
  }

  #symbol(operand: Operand & { kind: 'symbol' }, type: string, decoded: Decoded): string | undefined {
    const { opcode } = decoded.instruction
    const variable = this.#variable(operand)
    if (!TAKES_SYMBOL.test(opcode)) return `the address of '${operand.name}' is moved into a register first`
    if (variable === undefined && !this.#isFunction(operand.name)) return `'${operand.name}' is not declared`
    if (classOf(type) === 'float' || classOf(type) === 'predicate')
      return `the address of '${operand.name}' is no .${type}`
    if (opcode.startsWith('cvta.') && variable !== undefined)
      return this.#space(variable, decoded.modifiers['space'], false)
    const isShort =
      operand.offset !== 0n ||
      variable?.space === 'shared' ||
      variable?.space === 'local' ||
      variable?.space === 'param'
    return bitsOf(type) < 64 && !isShort && this.#target >= 90
      ? `the address of '${operand.name}' has 64 bits`
      : undefined
  }

  #space({ name, space }: Variable, given: string | undefined, written: boolean): string | undefined {
    const wanted = given?.split('::')[0]
    if (wanted === undefined)
      return space === 'const' && written ? `'${name}' in constant memory is not written` : undefined
    return wanted === space ? undefined : `'${name}' is in .${space}, not in .${wanted}`
  }

  #address(operand: Operand, decoded: Decoded): string | undefined {
    const { instruction, form, modifiers, operands } = decoded
    const base = operand.kind === 'address' ? operand.base : operand
    if (operand.kind !== 'address')
      return /^(?:prefetch|mbarrier|cp)/.test(form.opcode) ? undefined : 'an address is in brackets'
    const isCopy = instruction.opcode.startsWith('cp.async.c')
    const isAsynchronous = form.meaning.kind === 'code' && form.meaning.code === 'asynchronous'
    const given = isAsynchronous
      ? spaceOfOperand(decoded, nameOf(operand, operands))
      : isCopy
        ? operand === operands['a']
          ? 'shared'
          : 'global'
        : modifiers['space']
    const isWritten = /^(?:st|red|atom)$/.test(form.opcode)
    switch (base.kind) {
      case 'register': {
        const { name, type } = base.register
        if (classOf(type) === 'float' || type === 'pred' || type === 'f16x2')
          return `'${name}' of .${type} is no address`
        const isWide = given === undefined || given === 'global'
        return isWide && bitsOf(type) === 32 && this.#target >= 90
          ? `'${name}' has 32 bits, and an address 64`
          : undefined
      }
      case 'integer':
        return given === 'local' || !/^(?:ld|st|atom|red|ldu)$/.test(form.opcode)
          ? undefined
          : 'an address that is a number is one in .local'
      case 'special':
        return `%${base.name} is no address: move it into a register`
      case 'symbol': {
        const variable = this.#variable(base)
        if (variable === undefined) return undefined
        const isInput = this.fn.entry && this.fn.parameters.includes(variable)
        if (isWritten && isInput && form.opcode === 'st')
          return `the parameter '${base.name}' of a kernel is not written`
        return this.#space(variable, given, isWritten)
      }
      default:
        return undefined
    }
  }

  #call(instruction: Instruction): string | undefined {
    const { results, target, parameters, list } = callParts(instruction)
    if (target.kind !== 'symbol' || list !== undefined) return undefined
    const name = this.text.aliases.get(target.name) ?? target.name
    const called = this.text.functions.get(name)
    if (called === undefined) return undefined
    if (called.entry) return `'${name}' is a kernel, and a call is of a function`
    for (const [what, passed, wanted] of [
      ['results', results, called.results],
      ['arguments', parameters, called.parameters],
    ] as const) {
      if (passed.length !== wanted.length)
        return `'${name}' has ${wanted.length} ${what}, and ${passed.length} are given`
      for (const [index, operand] of passed.entries()) {
        const variable = wanted[index]
        if (variable === undefined || operand.kind !== 'register') continue
        const isRegister = called.parameterRegisters.has(variable.name)
        if (isRegister && !agrees(operand.register.type, variable.type, false))
          return mismatch(operand.register, variable.type)
      }
    }
    return undefined
  }
}

/** Registers of a fragment: one, two, four or eight of one width. */
function fragment(items: readonly Operand[]): string | undefined {
  if (![1, 2, 4, 8].includes(items.length)) return `no fragment has ${items.length} registers`
  const widths = new Set(items.flatMap((each) => (each.kind === 'register' ? [bitsOf(each.register.type)] : [])))
  return widths.size > 1 ? 'the registers of a fragment have one width' : undefined
}

const modifiersOf = (opcode: string): ReadonlySet<string> => new Set(opcode.split('.'))

function hasAddress({ form }: Decoded): boolean {
  return form.operands.some(({ type }) => type === 'address') || OF_FRAGMENTS.test(`${form.opcode}.`)
}

/** Whether an integer of one type has each value of the other. */
function fitsAlways({ T = '', S = '' }: Modifiers): boolean {
  if (classOf(T) !== 'integer' || classOf(S) !== 'integer') return false
  if (T[0] === S[0]) return bitsOf(T) >= bitsOf(S)
  return T.startsWith('s') && bitsOf(T) > bitsOf(S)
}

/** The types that a comparison has. */
function comparison({ cmp = '', T = '', S = T }: Modifiers): string | undefined {
  const kind = classOf(S)
  const isFloat = kind === 'float' || /^b?f16/.test(S)
  const takes = isFloat
    ? /^(?:eq|ne|lt|le|gt|ge|...|num|nan)$/
    : kind === 'bits'
      ? /^(?:eq|ne)$/
      : S.startsWith('u')
        ? /^(?:eq|ne|lt|le|gt|ge|lo|ls|hi|hs)$/
        : /^(?:eq|ne|lt|le|gt|ge)$/
  return takes.test(cmp) ? undefined : `values of .${S} are not compared by .${cmp}`
}

const nameOf = (operand: Operand, operands: Decoded['operands']): string =>
  Object.keys(operands).find((name) => operands[name] === operand) ?? ''

const mismatch = ({ name, type }: Register, wanted: string): string =>
  `'${name}' is .${type}, and the operand .${wanted}`
