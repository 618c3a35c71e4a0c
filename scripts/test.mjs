// Runs the compiled tests: all of them, or those whose path below tests/ contains one of the words given. With --quick those
// that answer at once: no suite of random programs, processes or other languages, and no file that takes more than 3 seconds.
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const tests = join(root, 'dist', 'tests')
const LONG_SUITES = 'differential peers pretend processes properties python soak torture'.split(' ')
const LONG_FILES = [
  ...['conformance/driver-choice', 'conformance/matrix', 'conformance/process-life'],
  ...['driver/cuda/libcuda/one-shot-signals', 'explore/explore', 'sanitizer/explored', 'sanitizer/random'],
  ...['simulator/leaks', 'simulator/refusals', 'simulator/scale', 'simulator/stack', 'timeline/page'],
]
const isLong = (name) =>
  LONG_SUITES.some((suite) => name.startsWith(`${suite}/`)) || LONG_FILES.some((file) => name === `${file}.test.js`)

const given = process.argv.slice(2)
const quick = given.includes('--quick')
const words = given.filter((word) => word !== '--quick')
const files = readdirSync(tests, { recursive: true, encoding: 'utf8' })
  .map((name) => name.replaceAll('\\', '/'))
  .filter((name) => name.endsWith('.test.js') && (words.length === 0 || words.some((word) => name.includes(word))))
  .filter((name) => !(quick && isLong(name)))
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
