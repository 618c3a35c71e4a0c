/** The table of forms as Markdown, for docs/internals/ptx.md. */
import type { Slot } from './forms/form.js'
import { FORMS, type Form } from './forms.js'

/** The number of forms that a row of the table stands for: each choice of modifiers is one. */
export function countForms({ slots }: Form): number {
  return slots.reduce((product, { options, optional }) => product * (options.length + (optional ? 1 : 0)), 1)
}

/** The options of a modifier; of a long list of shapes the first and the last. */
function inShort(options: readonly string[]): readonly string[] {
  const [first = '', last = ''] = [options[0], options.at(-1)]
  return options.length > 12 && first.startsWith('m64') ? [first, '…', last] : options
}

type Pattern = readonly Pick<Slot, 'options' | 'optional'>[]

const isSame = (one: readonly string[], other: readonly string[]): boolean =>
  one.length === other.length && one.every((option) => other.includes(option))
const areAlike = (one: Pattern, other: Pattern): boolean =>
  one.length === other.length &&
  one.every(
    ({ options, optional }, at) => optional === other[at]?.optional && isSame(options, other[at]?.options ?? []),
  )

/** The pattern that takes what either takes and nothing else, if there is one: they differ in one modifier, or the longer has one more. */
function joined(one: Pattern, other: Pattern): Pattern | undefined {
  const [short, long] = one.length <= other.length ? [one, other] : [other, one]
  for (const [at, slot] of long.entries()) {
    const without = long.toSpliced(at, 1)
    if (long.length === short.length + 1 && areAlike(without, short)) return long.with(at, { ...slot, optional: true })
    const instead = short[at]
    if (long.length !== short.length || instead === undefined || !areAlike(without, short.toSpliced(at, 1))) continue
    const [before, after] = [one[at] ?? slot, other[at] ?? slot]
    const options = [...new Set([...before.options, ...after.options])]
    return one.with(at, { options, optional: before.optional || after.optional })
  }
  return undefined
}

/** As few patterns as stand for the same: each is put into the first that it can be joined with. */
export function joinedPatterns(patterns: readonly Pattern[]): readonly Pattern[] {
  const found: Pattern[] = []
  for (const pattern of patterns) {
    const joins = found.map((other) => joined(other, pattern))
    const at = joins.findIndex((join) => join !== undefined)
    const join = joins[at]
    if (join === undefined) found.push(pattern)
    else found[at] = join
  }
  return found.length === patterns.length ? found : joinedPatterns(found)
}

/** Each opcode with its forms, as few patterns. */
export function patternsByOpcode(): ReadonlyMap<string, readonly Pattern[]> {
  const patterns = new Map<string, Pattern[]>()
  for (const { opcode, slots } of FORMS) patterns.set(opcode, [...(patterns.get(opcode) ?? []), slots])
  return new Map(Array.from(patterns, ([opcode, all]) => [opcode, joinedPatterns(all)]))
}

/** As in NVIDIA's manual modifiers stand together, `{.ftz}{.sat}.f32`, but for a choice without braces, which a space shows the ends of. */
function written(pattern: Pattern): string {
  const isBareChoice = (slot: Pattern[number] | undefined): boolean =>
    slot !== undefined && slot.options.length > 1 && !slot.optional
  const words = pattern.map((slot, at) => {
    const text = `.${inShort(slot.options).join('/')}`
    const isApart = at > 0 && (isBareChoice(slot) || isBareChoice(pattern[at - 1]))
    return (isApart ? ' ' : '') + (slot.optional ? `{${text}}` : text)
  })
  return words.join('')
}

/**
 * The rows of the table, one for all opcodes with the same patterns: optional modifiers stand in braces, and alternatives are separated by strokes.
 */
export function formTable(): string {
  const rows = new Map<string, string[]>()
  for (const [opcode, patterns] of [...patternsByOpcode()].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const cell = patterns.map((pattern) => (pattern.length === 0 ? 'alone' : `\`${written(pattern)}\``)).join('<br>')
    rows.set(cell, [...(rows.get(cell) ?? []), `\`${opcode}\``])
  }
  const lines = Array.from(rows, ([cell, opcodes]) => `| ${opcodes.join(', ')} | ${cell} |`)
  return `| opcode | modifiers |\n| --- | --- |\n${lines.join('\n')}\n`
}
