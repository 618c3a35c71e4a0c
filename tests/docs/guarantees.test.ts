/** docs/internals/guarantees.md and the titles of the tests: each guarantee is tested by a test that names it, and no title names another. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { root } from '../helpers/root.js'

/** `test('title'` or `it(`title``, as it stands in a compiled file. */
const TITLE = /\b(?:test|it)\(\s*(?<quote>['"`])(?<title>(?:\\.|(?!\k<quote>).)*)/gs
const CODE = /^[A-Z]\d{1,2}\b/
/** Plays tables of calls against tables of rules; its titles are the names of the calls. */
const WITHOUT_CODES = ['matrix.test.js']

export function titlesOf(text: string): readonly string[] {
  return [...text.matchAll(TITLE)].map(({ groups }) => groups?.['title'] ?? '')
}

const tests = join(root, 'dist', 'tests')
const titles = readdirSync(tests, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.js'))
  .flatMap((name) => titlesOf(readFileSync(join(tests, name), 'utf8')).map((title) => ({ name, title })))
const page = readFileSync(join(root, 'docs', 'internals', 'guarantees.md'), 'utf8')
const guarantees = [...page.matchAll(/^- <a id="(?<anchor>\w+)"><\/a>\*\*(?<code>\w+)\*\*/gm)]

describe('docs/internals/guarantees.md', () => {
  it('gives each guarantee a code of its own, by which it can be linked', () => {
    assert.ok(guarantees.length > 0)
    assert.equal(guarantees.length, page.match(/^- /gm)?.length, 'A guarantee begins with: - <a id="x1"></a>**X1** ')
    const codes = guarantees.map(({ groups }) => groups?.['code'] ?? '')
    assert.deepEqual(
      codes.filter((code, index) => !CODE.test(code) || codes.indexOf(code) !== index),
      [],
    )
    assert.deepEqual(
      guarantees.map(({ groups }) => groups?.['anchor']),
      codes.map((code) => code.toLowerCase()),
    )
  })

  it('has no guarantee that no title of a test begins with', () => {
    const tested = new Set(titles.map(({ title }) => CODE.exec(title)?.[0]))
    const untested = guarantees.map(({ groups }) => groups?.['code'] ?? '').filter((code) => !tested.has(code))
    assert.deepEqual(untested, [], 'Let the title of the test of the guarantee begin with its code')
  })

  it('has the guarantee of each code that a title begins with', () => {
    const known = new Set(guarantees.map(({ groups }) => groups?.['code']))
    const unknown = titles.filter(({ title }) => CODE.test(title) && !known.has(CODE.exec(title)?.[0]))
    assert.deepEqual(
      unknown,
      [],
      'Write the guarantee into docs/internals/guarantees.md, or begin the title with words',
    )
  })

  it('is named by every title of the conformance suite', () => {
    const nameless = titles.filter(({ name, title }) => {
      const [suite = '', file = ''] = name.split(/[/\\]/)
      return suite === 'conformance' && !WITHOUT_CODES.includes(file) && !CODE.test(title)
    })
    assert.deepEqual(nameless, [], 'Begin each title with the code of the guarantee that its test is of')
  })

  it('has for each rule of the conformance suite lines of src that hold it, each of which a test of the rule misses', () => {
    const rules = readFileSync(join(root, 'tests', 'rules.md'), 'utf8')
    const rows = [...rules.matchAll(/^\| (?<rule>[a-z-]+) \| .+\.ts \| \d.*\| (?<foundBy>[^|]*)\|$/gm)].map(
      ({ groups }) => groups,
    )
    const files = readdirSync(join(tests, 'conformance', 'guarantees')).filter((name) => name.endsWith('.test.js'))
    const rowsOf = (file: string) => rows.filter((row) => row?.['rule'] === file.replace('.test.js', ''))
    const without = files.filter((file) => rowsOf(file).length === 0)
    assert.deepEqual(without, [], 'Add a row to tests/rules.md, and run `npm run mutations -- --rules`')
    const gone = [
      ...rules.matchAll(/^\| [a-z-]+ \| .+? \| (?<file>\S+\.ts) \| \d+ \| `(?<line>(?:\\.|[^|])+?)` \|/gm),
    ].filter(
      ({ groups: { file = '', line = '' } = {} }) =>
        !existsSync(join(root, file)) || !readFileSync(join(root, file), 'utf8').includes(line.replaceAll('\\|', '|')),
    )
    assert.deepEqual(
      gone.map(([row]) => row),
      [],
      'A line of tests/rules.md is not in its file',
    )
    const unseen = rows.filter((row) => !/^([A-Z]\d|its tests do not end)/.test(row?.['foundBy'] ?? ''))
    assert.deepEqual(unseen, [], 'A line can be missing, and no test of its rule finds it')
  })

  it('is read as it is written: titles in every kind of quotes', () => {
    const text = [
      "test('one', f)",
      "it(\n  `two of 'em`, f)",
      'test("it\'s three", f)',
      'it(name, f)',
      "split('four')",
    ].join('\n')
    assert.deepEqual(titlesOf(text), ['one', "two of 'em", "it's three"])
  })
})
