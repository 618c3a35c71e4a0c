/** What the library offers and the programs do not play is named in docs/internals/differential.md, with the reason. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { isQuiet, publicMembers } from '../catalogue/members.js'
import { root } from '../helpers/root.js'
import { programs } from './programs.js'
import { FIELDS, PLAYED, type Step, type What } from './steps.js'

/** Steps of recorded programs only. */
const OLD: readonly What[] = ['updateNode']

const NOUNS =
  /^(new )?(Device|Stream|ExternalStream|Event|DeviceBuffer|PinnedBuffer|Graph|GraphExec|\w+Node|MemoryPool|GreenContext|DLPackTensor)\b/
const FUNCTIONS = /^(to|from)[A-Z]\w*$/
/** Where the options of these are declared. */
const SOURCES = [
  'core',
  'core/graphs',
  'core/kernels',
  'core/memory',
  'core/streams',
  'foundation/driver',
  'libraries/dlpack',
]
/** Those of kernels and of the simulator are played by no step. */
const OPTIONS = /^export interface (?!(?:Compile|SimDriver|Simulation)Options\b)(\w+Options)\b[^{]*\{(.*?)^\}/gms

const page = readFileSync(join(root, 'docs', 'internals', 'differential.md'), 'utf8')
const named = new Set([...page.matchAll(/`([^`\n]+)`/g)].flatMap(([, name]) => name ?? []))
const played = new Set(Object.values(PLAYED).flatMap((names) => names.split(/,\s*/)))

const sources = SOURCES.flatMap((folder) => {
  const path = join(root, 'src', folder)
  return readdirSync(path)
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFileSync(join(path, name), 'utf8'))
})

function members(): readonly string[] {
  return publicMembers().filter((name) => (NOUNS.test(name) || FUNCTIONS.test(name)) && !isQuiet(name))
}

function options(): readonly string[] {
  return sources
    .flatMap((text) => [...text.matchAll(OPTIONS)])
    .flatMap(([, of, body = '']) => [...body.matchAll(/^ {2}readonly (\w+)\??:/gm)].map(([, name]) => `${of}.${name}`))
}

describe('the programs', () => {
  for (const [what, all] of Object.entries({ call: members(), option: options() })) {
    test(`play each ${what} of the library, or the page says why not`, () => {
      assert.ok(all.length > 30, `${all.length} are known`)
      const missing = all.filter((name) => !played.has(name) && !named.has(name))
      assert.deepEqual(missing, [], 'add a step, or a row to the table in docs/internals/differential.md')
      const both = all.filter((name) => played.has(name) && named.has(name))
      assert.deepEqual(both, [], 'the page says that no step plays it')
    })
  }

  test('are said to play only what there is', () => {
    const all = new Set([...members(), ...options()])
    assert.deepEqual(
      [...played].filter((name) => name !== '' && !all.has(name)),
      [],
    )
    const stale = [...named].filter((name) => /^(new \w+|\w+#\S+|[A-Z]\w+\.\w+)$/.test(name) && !all.has(name))
    assert.deepEqual(stale, [], 'docs/internals/differential.md names what is gone')
  })

  test('contain every step', () => {
    const found = new Set<string>()
    const look = (step: Step): void => {
      found.add(step.what)
      if ('body' in step) step.body.forEach(look)
    }
    for (const { steps } of fc.sample(programs(2, 4), { seed: 1, numRuns: 300 })) steps.forEach(look)
    const expected = Object.keys(FIELDS).filter((what) => !OLD.includes(what as What))
    assert.deepEqual(
      expected.filter((what) => !found.has(what)),
      [],
    )
  })
})
