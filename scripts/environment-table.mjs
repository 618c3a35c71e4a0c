// Writes the tables of the library's environment variables into docs/reference/environment.md, from src/foundation/base/environment-variables.ts, after a build.
// `--check` ends with 1 if the page has others.
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const page = join(root, 'docs', 'reference', 'environment.md')
const { SANITIZER_WORDS, VARIABLES } = await import('../dist/src/foundation/base/environment-variables.js')

const code = (text) => text.replace(/'([^']+)'/g, '`$1`')
const tableOf = (...rows) => {
  const [head = [], ...rest] = rows.map((cells) => `| ${cells.join(' | ')} |`)
  return [head, `|${' --- |'.repeat(rows[0]?.length ?? 0)}`, ...rest].join('\n')
}

/** Rows of the table. Libraries, which have their values and default in common, are one. */
const rows = new Map()
for (const { name, row } of Object.values(VARIABLES)) {
  const byDefault = row.defaultText ?? (typeof row.default === 'string' ? `\`${row.default}\`` : String(row.default))
  const key = byDefault.startsWith('[see below]') ? byDefault : name
  const { names = [], docs = [] } = rows.get(key) ?? {}
  rows.set(key, { names: [...names, `\`${name}\``], values: code(row.values), byDefault, docs: [...docs, row.doc] })
}

const TABLES = {
  variables: tableOf(
    ['variable', 'values', 'default', 'meaning'],
    ...[...rows.values()].map(({ names, values, byDefault, docs }) => [
      names.join(', '),
      values,
      byDefault,
      docs.join('; '),
    ]),
  ),
  words: tableOf(
    ['word', 'option of `Sanitizer.start()`', 'meaning'],
    ...Object.values(SANITIZER_WORDS).map(({ form, option, doc }) => [`\`${form}\``, `\`${option}\``, doc]),
  ),
}

const text = readFileSync(page, 'utf8')
const written = Object.entries(TABLES).reduce((all, [name, table]) => {
  const place = new RegExp(`(<!-- ${name}: [^\n]*-->\n).*?(\n<!-- end of ${name} -->)`, 's')
  if (!place.test(all)) throw new Error(`${page} has no place for the table of ${name}`)
  return all.replace(place, (_, begin, end) => `${begin}\n${table}\n${end}`)
}, text)
if (written === text) process.exit()
if (process.argv.includes('--check')) {
  console.error(
    'docs/reference/environment.md has other tables than the code: run `node scripts/environment-table.mjs` after a build',
  )
  process.exitCode = 1
} else writeFileSync(page, written)
