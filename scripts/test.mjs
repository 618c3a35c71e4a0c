// Runs the compiled tests: all of them, or those whose path below tests/ contains one of the words given. `--quick`: few, on
// one seed of the simulator.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { testFiles, tests } from './test-files.mjs'

const given = process.argv.slice(2)
const quick = given.includes('--quick')
const words = given.filter((word) => word !== '--quick')
const files = testFiles({ words, quick }).map((name) => join(tests, name))
// Each file is a process, and on a GPU each has a context for every device: a few at a time are enough.
const options = ['--expose-gc', '--test', '--test-concurrency=4', '--test-reporter=spec']
const env = quick ? { ...process.env, CUDA_STREAMS_TEST_SEEDS: '1' } : process.env
const { status } = spawnSync(process.execPath, [...options, ...files], { stdio: 'inherit', env })
process.exit(status ?? 1)
