// Runs the compiled tests: all of them, or those whose path below tests/ contains one of the words given. With --quick those
// for between two edits: the conformance suite on one seed of the simulator, and the folders that mirror the core of src,
// without the files that take seconds each.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const tests = join(root, 'dist', 'tests')
const QUICK_FOLDERS = 'base conformance docs driver graphs kernels libraries memory package streams'.split(' ')
const SLOW_FILES = [
  ...['conformance/driver-choice', 'conformance/foreign-streams', 'conformance/large-file', 'conformance/matrix'],
  ...['conformance/process-life', 'driver/cuda/libcuda/one-shot-signals', 'package/import', 'package/package'],
]
const isQuick = (name) =>
  QUICK_FOLDERS.includes(name.split('/')[0]) && !SLOW_FILES.some((file) => name === `${file}.test.js`)

const gone = SLOW_FILES.filter((file) => !existsSync(join(tests, `${file}.test.js`)))
if (gone.length > 0) throw new Error(`SLOW_FILES of scripts/test.mjs names what is not there: ${gone.join(', ')}`)

const given = process.argv.slice(2)
const quick = given.includes('--quick')
const words = given.filter((word) => word !== '--quick')
const files = readdirSync(tests, { recursive: true, encoding: 'utf8' })
  .map((name) => name.replaceAll('\\', '/'))
  .filter((name) => name.endsWith('.test.js') && (words.length === 0 || words.some((word) => name.includes(word))))
  .filter((name) => !quick || isQuick(name))
  .map((name) => join(tests, name))
  .sort()
if (files.length === 0) {
  console.error(`No test file has ${words.join(' or ')} in its path`)
  process.exit(1)
}
// Each file is a process, and on a GPU each has a context for every device: a few at a time are enough.
const options = ['--expose-gc', '--test', '--test-concurrency=4', '--test-reporter=spec']
const env = quick ? { ...process.env, CUDA_STREAMS_TEST_SEEDS: '1' } : process.env
const { status } = spawnSync(process.execPath, [...options, ...files], { stdio: 'inherit', env })
process.exit(status ?? 1)
