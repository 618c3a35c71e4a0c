// Runs the compiled tests: all of them, or those whose path contains one of the words given.
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const tests = join(root, 'dist', 'tests')
const words = process.argv.slice(2)
const files = readdirSync(tests, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.js') && (words.length === 0 || words.some((word) => name.includes(word))))
  .map((name) => join(tests, name))
  .sort()
if (files.length === 0) {
  console.error(`No test file has ${words.join(' or ')} in its path`)
  process.exit(1)
}
// Each file is a process, and on a GPU each has a context for every device: a few at a time are enough.
const options = ['--expose-gc', '--test', '--test-concurrency=4', '--test-reporter=spec']
const { status } = spawnSync(process.execPath, [...options, ...files], { stdio: 'inherit' })
process.exit(status ?? 1)
