/** The table of forms as Markdown, for docs/internals/ptx.md. */
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

/** The rows of the table, one for each opcode: its patterns, with optional modifiers in braces and alternatives separated by strokes. */
export function formTable(): string {
  const rows = new Map<string, Set<string>>()
  for (const form of FORMS) {
    const modifiers = form.slots.map(({ options, optional }) => {
      const text = `.${inShort(options).join('|')}`
      return optional ? `{${text}}` : text
    })
    const list = rows.get(form.opcode) ?? new Set()
    list.add(modifiers.join(' ').replaceAll('|', '/'))
    rows.set(form.opcode, list)
  }
  const lines = [...rows]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([opcode, patterns]) => {
      const cells = [...patterns].map((pattern) => (pattern === '' ? 'alone' : `\`${pattern}\``))
      return `| \`${opcode}\` | ${cells.join('<br>')} |`
    })
  return `| opcode | modifiers |\n| --- | --- |\n${lines.join('\n')}\n`
}
