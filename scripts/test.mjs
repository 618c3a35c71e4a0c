// Runs the compiled tests: all of them, or those whose path below tests/ contains one of the words given. `--quick`: few, with
// few combinations; `--nightly`: all combinations, on two seeds of the simulator, and the playground, which takes an hour. `--gpu`: those that
// use a GPU, on that alone. `--without=WORD`: but not those whose path contains this word. `--of-the-day`: of the long files a third, by the day
// (CUDA_STREAMS_TEST_DAY), which is printed. `--reporter=failures`: only the tests that failed, each as a line of JSON.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { inProcesses, leftToOtherDays, root, testFiles } from './test-files.mjs'

const given = process.argv.slice(2)
const effort = ['quick', 'nightly'].find((name) => given.includes(`--${name}`))
const words = given.filter((word) => !word.startsWith('--'))
const onGpu = given.includes('--gpu')
const without = given.find((word) => word.startsWith('--without='))?.slice('--without='.length)
const left = given.includes('--of-the-day') ? await leftToOtherDays() : []
if (left.length > 0) console.log(`left to other days, or to \`npm test\`: ${left.join(' ')}`)
const files = testFiles({ words, without, set: onGpu ? 'gpu' : effort === 'quick' ? 'quick' : 'all' }).filter(
  (file) => !left.includes(file),
)
// On a GPU each process has a context for every device: a few at a time are enough.
const reporter = given.includes('--reporter=failures') ? join(import.meta.dirname, 'failures.mjs') : 'spec'
const options = ['--expose-gc', '--test', `--test-concurrency=${onGpu ? 4 : 3}`, `--test-reporter=${reporter}`]
const env = {
  ...process.env,
  ...(effort === undefined ? {} : { CUDA_STREAMS_TEST_EFFORT: effort }),
  ...(onGpu ? { CUDA_STREAMS_TEST_BACKENDS: 'cuda' } : {}),
}
// The matrix has processes of its own, whose calls are not to wait for contexts that other files make.
const isMatrix = (file) => file === 'conformance/matrix.test.js'
const parts = onGpu ? [files.filter(isMatrix), files.filter((file) => !isMatrix(file))] : [files]
const play = (modules) => spawnSync(process.execPath, [...options, ...modules], { stdio: 'inherit', env })
let status = 0
for (const part of parts) if (part.length > 0) status = Math.max(status, inProcesses(part, play).status ?? 1)
if (effort === 'nightly' && words.length === 0) {
  const playground = ['--prefix', join(root, 'site'), 'run', 'test:playground']
  const isInstalled = existsSync(join(root, 'site', 'node_modules', 'esbuild'))
  if (!isInstalled)
    console.log('skipped: the playground, since site/node_modules is not there: `npm run site` installs it')
  else if (spawnSync('npm', playground, { stdio: 'inherit', env }).status !== 0) process.exit(1)
}
process.exit(status)
