// Which of the compiled tests are meant: all, or those whose path below tests/ contains one of the words. With `quick` those
// for between two edits: the folders that mirror the core of src, without the files that take seconds each.
import { existsSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))
export const tests = join(root, 'dist', 'tests')
const QUICK_FOLDERS = 'base conformance docs driver graphs kernels libraries memory native package streams'.split(' ')
const SLOW_FILES = [
  ...['conformance/driver-choice', 'conformance/foreign-streams', 'conformance/large-file', 'conformance/matrix'],
  ...[
    'conformance/process-life',
    'conformance/silent-waits',
    'driver/default-driver',
    'native/signals',
    'package/import',
    'package/package',
    'package/declarations',
    'package/quickstart',
    'package/tarball',
  ],
]
const isQuick = (name) =>
  QUICK_FOLDERS.includes(name.split('/')[0]) && !SLOW_FILES.some((file) => name === `${file}.test.js`)

/** Paths below dist/tests, with `/`. */
export function testFiles({ words, quick }) {
  const gone = SLOW_FILES.filter((file) => !existsSync(join(tests, `${file}.test.js`)))
  if (gone.length > 0) throw new Error(`SLOW_FILES of ${import.meta.url} names what is not there: ${gone.join(', ')}`)
  const files = readdirSync(tests, { recursive: true, encoding: 'utf8' })
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) => name.endsWith('.test.js') && (words.length === 0 || words.some((word) => name.includes(word))))
    .filter((name) => !quick || isQuick(name))
    .sort()
  if (files.length === 0) throw new Error(`No test file has ${words.join(' or ')} in its path`)
  return files
}
