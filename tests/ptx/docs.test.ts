/** docs/internals/ptx.md has the table of forms that the engine has. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { countForms, formTable } from '../../src/ptx/form-table.js'
import { FORMS, matchForms } from '../../src/ptx/forms.js'
import { root } from '../helpers/root.js'

test('docs/internals/ptx.md has every form of the table: `node scripts/ptx-forms.mjs` writes it', () => {
  assert.ok(readFileSync(join(root, 'docs/internals/ptx.md'), 'utf8').includes(formTable()))
})

test('the first form of every row is found by its name', () => {
  for (const form of FORMS) {
    const words = form.slots.filter(({ optional }) => !optional).map(({ options }) => options[0])
    const found = matchForms([form.opcode, ...words].join('.'))
    assert.ok(
      found.some((each) => each.form === form),
      form.pattern,
    )
    assert.ok(countForms(form) >= 1)
  }
})
