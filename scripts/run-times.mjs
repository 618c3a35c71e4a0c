// The run times that the library is for, from npm's packages, in .cache/ of the repository; and how each runs a test file.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { root } from './test-files.mjs'

const { platform, arch } = process
const exe = platform === 'win32' ? '.exe' : ''
const cpu = arch === 'arm64' ? 'aarch64' : arch
const system = platform === 'win32' ? 'windows' : platform

/** Milliseconds for one test: Bun alone has a limit, of five seconds unless told otherwise. */
const LONGEST_TEST = 300_000

// The packages `node`, `bun` and `deno` have install scripts that only choose one of those named here.
const node = (version) => ({
  name: `node${version.split('.')[0]}`,
  version,
  package: `node-${platform === 'win32' ? 'win' : platform}-${arch}`,
  binary: join('bin', `node${exe}`),
  testArguments: ['--expose-gc'],
  report: (path) => [
    ...['--test-reporter=junit', `--test-reporter-destination=${path}`],
    ...['--test-reporter=spec', '--test-reporter-destination=stdout'],
  ],
})

const bun = (version) => ({
  name: 'bun',
  version,
  package: `@oven/bun-${system}-${cpu}`,
  binary: join('bin', `bun${exe}`),
  testArguments: ['test', '--preload', join(root, 'scripts', 'gc-on-bun.mjs'), '--timeout', String(LONGEST_TEST)],
  report: (path) => ['--reporter=junit', `--reporter-outfile=${path}`],
})

const deno = (version) => ({
  name: 'deno',
  version,
  package: `@deno/${platform}-${arch}${platform === 'linux' ? '-glibc' : ''}`,
  binary: `deno${exe}`,
  testArguments: ['test', '--allow-all', '--no-check', '--v8-flags=--expose-gc'],
  report: (path) => [`--junit-path=${path}`],
})

/** Those between the Node that plays all tests and the latest one: what the language and the modules do, these two show. */
export const BETWEEN = ['node22', 'node24']

export const RUN_TIMES = [...['20.20.2', '22.23.3', '24.21.0', '26.10.0'].map(node), bun('1.4.5'), deno('2.9.6')]

export const cache = join(root, '.cache')

/** Installs packages of npm into a folder of the cache of this name, once; throws an Error with what npm says. */
export function install(name, ...packages) {
  const folder = join(cache, name)
  if (existsSync(folder)) return folder
  // An install that is cut off leaves nothing that would be taken for a whole one.
  mkdirSync(dirname(folder), { recursive: true })
  const begun = mkdtempSync(`${folder}.begun-`)
  writeFileSync(join(begun, 'package.json'), '{ "private": true }\n')
  const quiet = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock', '--loglevel=error']
  const options = { cwd: begun, encoding: 'utf8', shell: platform === 'win32' }
  const { status, stderr, error } = spawnSync('npm', ['install', ...quiet, ...packages], options)
  if (status !== 0) throw new Error(`npm install ${packages.join(' ')}: ${(error?.message ?? stderr).trim()}`)
  // Another process may have installed the same meanwhile.
  if (existsSync(folder)) rmSync(begun, { recursive: true })
  else renameSync(begun, folder)
  return folder
}

/** The path of its program, installed where it is not there yet. */
export function programOf({ name, version, package: from, binary }) {
  return join(install(`${name}-${version}`, `${from}@${version}`), 'node_modules', from, binary)
}
