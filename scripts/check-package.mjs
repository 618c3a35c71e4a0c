// Is the native layer in what `npm pack` packs, is that below its limit of size, do npm and pnpm install that into a new project without a warning, and have publint and
// attw (are the types wrong?) nothing against it? These are installed into .cache/; when npm cannot reach its registry they are skipped,
// which is printed.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { COMPILER, TARGETS, thisTarget } from './build-native.mjs'
import { install } from './run-times.mjs'
import { root } from './test-files.mjs'

const TOOLS = [
  { package: 'publint', version: '0.3.25', file: 'src/cli.js', options: (tarball) => ['run', tarball, '--strict'] },
  {
    package: '@arethetypeswrong/cli',
    version: '0.18.5',
    file: 'dist/index.js',
    // The package is ESM, which Node 20.19 and later can require(); resolution as in Node 10 knows no entry points.
    options: (tarball) => [tarball, '--profile', 'esm-only', '--ignore-rules', 'cjs-resolves-to-esm', '--no-emoji'],
  },
]

const PNPM = '12.21.0'
/** Bytes of the tarball of a release, and what the native layers that a build for one machine lacks take of them. */
const LIMIT = 1_980_000
const OTHER_LAYERS = 210_000

// `--all`: as a release has it.
const isBuilt = thisTarget() in TARGETS && spawnSync(COMPILER[0], ['--version']).status === 0
const isRelease = process.argv.includes('--all')
const targets = isRelease ? Object.keys(TARGETS) : isBuilt ? [thisTarget()] : []

const scratch = mkdtempSync(join(tmpdir(), 'cuda-streams-package-'))
try {
  const packed = run('npm', ['pack', root, '--ignore-scripts', '--json', '--pack-destination', scratch])
  if (packed.status !== 0) throw new Error(packed.stderr)
  const [{ filename, files, size }] = JSON.parse(packed.stdout)
  for (const target of targets) {
    const layer = `dist/native/${target}.node`
    if (!files.some(({ path }) => path === layer)) throw new Error(`${layer} is not in the package`)
    console.log(`${layer} is in the package`)
  }
  const limit = isRelease ? LIMIT : LIMIT - OTHER_LAYERS
  console.log(`the package has ${size} bytes, of at most ${limit}`)
  if (size >= limit) process.exitCode = 1
  const tarball = join(scratch, filename)
  const pnpm = installed('pnpm', PNPM)
  if (pnpm !== undefined) {
    checkInstall('npm', 'npm', ['install', '--no-audit', '--no-fund', tarball])
    checkInstall('pnpm', process.execPath, [join(pnpm, 'bin', 'pnpm.mjs'), 'add', tarball])
  }
  for (const tool of TOOLS) check(tool, tarball)
} finally {
  rmSync(scratch, { recursive: true })
}

/** The folder of a package; undefined when it cannot be had. */
function installed(name, version) {
  try {
    return join(install(`${name.replace(/.*\//, '')}-${version}`, `${name}@${version}`), 'node_modules', name)
  } catch (error) {
    console.log(`${name} is skipped: it cannot be installed (${error.message.split('\n')[0]})`)
    return undefined
  }
}

/** No package that a user installs may have an install script: npm warns of it, and pnpm ends with 1. */
function checkInstall(name, command, args) {
  const project = join(scratch, name)
  mkdirSync(project)
  writeFileSync(join(project, 'package.json'), '{ "private": true }\n')
  const { status, stdout, stderr } = run(command, args, project)
  const isSilent = status === 0 && !/warn/i.test(stdout + stderr)
  console.log(`${name} install of the package: ${isSilent ? 'nothing wrong' : `exit code ${status}`}`)
  if (isSilent) return
  console.log(`${stdout}${stderr}`)
  process.exitCode = 1
}

function check({ package: name, version, file, options }, tarball) {
  const folder = installed(name, version)
  if (folder === undefined) return
  const { status, stdout, stderr } = run(process.execPath, [join(folder, file), ...options(tarball)])
  console.log(`${name} ${version}: ${status === 0 ? 'nothing wrong' : `exit code ${status}`}`)
  if (status === 0) return
  console.log(`${stdout}${stderr}`)
  process.exitCode = 1
}

function run(command, args, cwd = root) {
  return spawnSync(command, args, { encoding: 'utf8', cwd, shell: command === 'npm' && process.platform === 'win32' })
}
