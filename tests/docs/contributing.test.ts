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

for (const page of ['CONTRIBUTING.md', 'docs/internals/architecture.md', 'tests/README.md', 'native/README.md']) {
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
