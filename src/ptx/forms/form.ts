/** The type of a form of instruction, and the list to which a family of forms is written, in the notation that ../forms.ts explains. */

export type Modifiers = Readonly<Record<string, string | undefined>>

export interface Form {
  readonly opcode: string
  readonly pattern: string
  readonly slots: readonly Slot[]
  readonly operands: readonly OperandSlot[]
  readonly meaning: Meaning
}

export interface Slot {
  readonly name: string
  readonly options: readonly string[]
  readonly optional: boolean
  /** Whether the word belongs to the instruction's name, as in mul.lo: it stands before all modifiers. */
  readonly ofName: boolean
}

export interface OperandSlot {
  readonly name: string
  readonly type: string
  readonly written: boolean
  /** Whether the operand is read: all are that are not written, and the sum of a product that goes on. */
  readonly read: boolean
  readonly optional: boolean
}

/** The effect of a form: a formula (expression.ts) for its result, or the name of what the code generator writes. */
export type Meaning =
  | { readonly kind: 'formula'; readonly formula: (m: Modifiers) => string; readonly arithmetic: boolean }
  | { readonly kind: 'code'; readonly code: string }
  /** Threads of a warp or block meet at this instruction; warp-operations.ts carries it out. */
  | { readonly kind: 'meeting'; readonly operation: string }
  | { readonly kind: 'nothing' }

export type Formula = string | ((m: Modifiers) => string)

/** The forms of a family, in the order in which they are added by the functions beside them. */
export interface FormList {
  readonly forms: readonly Form[]
  /** Adds a form whose result is a formula; bits of NaN in it matter only to `float`. */
  readonly form: (pattern: string, operands: string, source: Formula) => void
  /** Adds a form of floating-point arithmetic: a NaN in its result is the one of the GPU. */
  readonly float: (pattern: string, operands: string, source: Formula) => void
  /** Adds a form that the code generator writes, which knows it by this name. */
  readonly code: (pattern: string, operands: string, name: string) => void
  /** Adds a form at which threads of a warp or block meet. */
  readonly meeting: (pattern: string, operands: string, operation: string) => void
  /** Adds a form without any effect. */
  readonly nothing: (pattern: string, operands: string) => void
}

export function formList(): FormList {
  const forms: Form[] = []
  const add = (pattern: string, operands: string, meaning: Meaning): void => {
    forms.push(formOf(pattern, operands, meaning))
  }
  const formula = (source: Formula, arithmetic: boolean): Meaning => ({
    kind: 'formula',
    formula: typeof source === 'string' ? () => source : source,
    arithmetic,
  })
  return {
    forms,
    form: (pattern, operands, source) => add(pattern, operands, formula(source, false)),
    float: (pattern, operands, source) => add(pattern, operands, formula(source, true)),
    code: (pattern, operands, code) => add(pattern, operands, { kind: 'code', code }),
    meeting: (pattern, operands, operation) => add(pattern, operands, { kind: 'meeting', operation }),
    nothing: (pattern, operands) => add(pattern, operands, { kind: 'nothing' }),
  }
}

function formOf(pattern: string, operands: string, meaning: Meaning): Form {
  const parts = pattern.split('.')
  const slots = parts.slice(1).map((part): Slot => {
    const optional = part.includes('?')
    const [name = '', list] = part.replace(/^[!?]+/, '').split('=')
    return { name, options: (list ?? name).split('|'), optional, ofName: part.startsWith('!') }
  })
  const list = operands === '' ? [] : operands.split(' ')
  return {
    opcode: parts[0] ?? '',
    pattern: pattern.replaceAll('!', ''),
    slots,
    meaning,
    operands: list.map((each) => {
      const [role = '', type = 'T'] = each.split(':')
      const name = role.replace(/[?+]/, '')
      const written = /^[dpq]$/.test(name)
      return { name, type, written, read: !written || role.endsWith('+'), optional: role.endsWith('?') }
    }),
  }
}
