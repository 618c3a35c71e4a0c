// Runs the compiled tests: all of them, or those whose path below tests/ contains one of the words given. `--quick`: few, with
// few combinations; `--nightly`: all combinations, on two seeds of the simulator, and the playground, which takes an hour. `--gpu`: those that
// use a GPU, on that alone.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { root, testFiles, tests } from './test-files.mjs'

const given = process.argv.slice(2)
const effort = ['quick', 'nightly'].find((name) => given.includes(`--${name}`))
const words = given.filter((word) => !word.startsWith('--'))
const onGpu = given.includes('--gpu')
const files = testFiles({ words, set: onGpu ? 'gpu' : effort === 'quick' ? 'quick' : 'all' }).map((name) =>
  join(tests, name),
)
const options = ['--expose-gc', join(root, 'scripts', 'run-files.mjs')]
const env = {
  ...process.env,
  ...(effort === undefined ? {} : { CUDA_STREAMS_TEST_EFFORT: effort }),
  ...(onGpu ? { CUDA_STREAMS_TEST_BACKENDS: 'cuda' } : {}),
}
const { status } = spawnSync(process.execPath, [...options, ...files], { stdio: 'inherit', env })
if (effort === 'nightly' && words.length === 0) {
  const playground = ['--prefix', join(root, 'site'), 'run', 'test:playground']
  const isInstalled = existsSync(join(root, 'site', 'node_modules', 'esbuild'))
  if (!isInstalled)
    console.log('skipped: the playground, since site/node_modules is not there: `npm run site` installs it')
  else if (spawnSync('npm', playground, { stdio: 'inherit', env }).status !== 0) process.exit(1)
}
process.exit(status ?? 1)
