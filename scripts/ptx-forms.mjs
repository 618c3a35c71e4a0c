// Writes the table of forms into docs/internals/ptx.md, from the table in src/ptx/forms.ts: `npm run build && node scripts/ptx-forms.mjs`. A
// test compares the two.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './test-files.mjs'

const { formTable } = await import(join(root, 'dist', 'src', 'ptx', 'form-table.js'))
const page = join(root, 'docs', 'internals', 'ptx.md')
const text = readFileSync(page, 'utf8')
const [before] = text.split('<!-- forms -->')
const [, after] = text.split('<!-- end of forms -->')
writeFileSync(page, `${before}<!-- forms -->\n\n${formTable()}\n<!-- end of forms -->${after}`)
