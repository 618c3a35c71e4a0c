/** The pages for those who change the code name files, and functions in them, that are there. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { root } from '../helpers/root.js'

/** Paths in code, such as `tests/conformance`. Names in capitals stand for any. */
const PATH = /`((?:src|tests|docs|scripts|bench|native|site)\/(?![\w./-]*[A-Z]{3})[\w./-]+)`/g
/** A name that a link to its file follows, as in `queue()` of [driver.ts](…). */
const NAME_IN_FILE = /`(?:\w+\.)?(\w+)(?:\(\))?`,? (?:of|in)\s+\[[^\]]+\]\(([^)#]+\.(?:ts|mjs|c))\)/g
/** What a build makes. */
const MADE: readonly string[] = ['site/dist/']

const skip = existsSync(join(root, 'CONTRIBUTING.md'))
  ? false
  : 'the sources are not here, only what was compiled of them'

const PAGES = [
  'CONTRIBUTING.md',
  'docs/internals/architecture.md',
  'docs/internals/how-a-launch-works.md',
  'docs/internals/recipes.md',
  'tests/README.md',
  'native/README.md',
]
/** Lines of the page that is read first, and lines of code that one call is followed through. */
const [LONGEST_PAGE, MOST_CODE] = [80, 40]

for (const page of PAGES) {
  test(`${page} names files that are there, and functions that are in them`, { skip }, () => {
    const text = readFileSync(join(root, page), 'utf8')
    const isMissing = (path: string): boolean => !MADE.includes(path) && !existsSync(join(root, path))
    const files = [...text.matchAll(PATH)].flatMap(([, path = '']) => (isMissing(path) ? [path] : []))
    assert.deepEqual(files, [])
    const names = [...text.matchAll(NAME_IN_FILE)].flatMap(([, name = '', path = '']) => {
      const file = join(root, dirname(page), path)
      const isThere = statSync(file).isFile() && new RegExp(`\\b${name}\\b`).test(readFileSync(file, 'utf8'))
      return isThere ? [] : [`${name} in ${path}`]
    })
    assert.deepEqual(names, [])
  })
}

test(`CONTRIBUTING.md has at most ${LONGEST_PAGE} lines, so that it is read`, { skip }, () => {
  const lines = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8').trimEnd().split('\n')
  assert.ok(lines.length <= LONGEST_PAGE, `${lines.length} lines`)
})

test('how-a-launch-works.md quotes lines of the code, in the order in which their file has them', { skip }, () => {
  const text = readFileSync(join(root, 'docs', 'internals', 'how-a-launch-works.md'), 'utf8')
  const code = [...text.matchAll(/```typescript\n([^`]+)```/g)].flatMap(([, block = '']) => block.trimEnd().split('\n'))
  assert.ok(code.length <= MOST_CODE, `${code.length} lines`)
  let rest = ''
  for (const line of code) {
    const [, file] = /^\/\/ (src\/.*)$/.exec(line) ?? []
    if (file !== undefined) rest = readFileSync(join(root, file), 'utf8')
    else {
      const at = rest.indexOf(`\n${line}`)
      assert.ok(at >= 0, `no such line where it is expected: ${line}`)
      rest = rest.slice(at + 1)
    }
  }
})
