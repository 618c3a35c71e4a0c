/** docs/internals/ptx.md has the table of forms that the engine has. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { countForms, formTable, joinedPatterns, patternsByOpcode } from '../../src/ptx/form-table.js'
import { FORMS, matchForms } from '../../src/ptx/forms.js'
import { root } from '../helpers/root.js'

type Pattern = Parameters<typeof joinedPatterns>[0][number]

test('docs/internals/ptx.md has every form of the table: `node scripts/ptx-forms.mjs` writes it', () => {
  assert.ok(readFileSync(join(root, 'docs/internals/ptx.md'), 'utf8').includes(formTable()))
})

/** An instruction that a pattern stands for. */
const namesOf = (opcode: string, pattern: Pattern): fc.Arbitrary<string> =>
  fc
    .tuple(...pattern.map(({ options, optional }) => fc.constantFrom(...options, ...(optional ? [''] : []))))
    .map((words) => [opcode, ...words.filter((word) => word !== '')].join('.'))

/** Whether a pattern takes these words, in their order. */
const isOf = (pattern: Pattern, words: readonly string[]): boolean => {
  const [slot, ...slots] = pattern
  if (slot === undefined) return words.length === 0
  const [word = '', ...rest] = words
  return (slot.options.includes(word) && isOf(slots, rest)) || (slot.optional && isOf(slots, words))
}

test('the table has the instructions of all forms, and no other', () => {
  const patterns = patternsByOpcode()
  for (const { opcode, slots } of FORMS) {
    const own = patterns.get(opcode) ?? []
    fc.assert(
      fc.property(namesOf(opcode, slots), (name) => own.some((pattern) => isOf(pattern, name.split('.').slice(1)))),
    )
  }
  for (const [opcode, all] of patterns)
    for (const pattern of all) fc.assert(fc.property(namesOf(opcode, pattern), (name) => matchForms(name).length > 0))
})

test('patterns are joined where they differ in one modifier, and only there', () => {
  const slot = (options: string, optional = false): Pattern[number] => ({ options: options.split('/'), optional })
  const joined = (...patterns: readonly Pattern[]): readonly Pattern[] => joinedPatterns(patterns)
  assert.deepEqual(joined([slot('lo'), slot('u32')], [slot('hi'), slot('u32')]), [[slot('lo/hi'), slot('u32')]])
  assert.deepEqual(joined([slot('u32')], [slot('sat'), slot('u32')]), [[slot('sat', true), slot('u32')]])
  const apart = [
    [slot('sat'), slot('u32')],
    [slot('cc'), slot('s32')],
  ]
  assert.deepEqual(joined(...apart), apart)
  const four = [
    [slot('a'), slot('x')],
    [slot('b'), slot('y')],
    [slot('b'), slot('x')],
    [slot('a'), slot('y')],
  ]
  assert.deepEqual(joined(...four), [[slot('a/b'), slot('x/y')]], 'those that were joined are joined again')
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
