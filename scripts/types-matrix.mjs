// Compiles consumer programs (tests/types/consumer) against the packed package, its declarations checked too, under every
// compiler × module resolution × with and without @types/node, and prints the table. `--quick`: the compiler of this
// repository, and the oldest one where an earlier run has installed it. Compilers lie in .cache/typescript.
import { execFile, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { cache, install } from './run-times.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const modules = join(root, 'node_modules')
/** The oldest that is supported, and the last of each line since. */
const VERSIONS = ['5.4.5', '5.5.4', '5.6.3', '5.7.3', '5.8.3', '5.9.3', '6.0.3']
const OWN = JSON.parse(readFileSync(join(modules, 'typescript', 'package.json'), 'utf8')).version
const RESOLUTIONS = { node16: 'node16', nodenext: 'nodenext', bundler: 'esnext' }
/** A project's types: @types/node and no lib but the language's; the lib of browsers; both, as where `lib` is not set. */
const TYPES = {
  '@types/node': { types: ['node'], lib: ['es2022'] },
  'lib dom': { types: [], lib: ['es2022', 'dom', 'dom.iterable'] },
  both: { types: ['node'] },
}

const isQuick = process.argv.includes('--quick')
const compilerIn = (folder) => join(folder, 'node_modules', 'typescript', 'bin', 'tsc')
const folderOf = (version) => (version === OWN ? root : join(cache, 'typescript', version))

function npm(args, cwd) {
  const { status, stdout, stderr } = spawnSync('npm', args, { cwd, encoding: 'utf8' })
  if (status !== 0) throw new Error(`npm ${args.join(' ')} failed:\n${stderr}`)
  return stdout
}

/** A project with the package as npm packs it, its peers, and the program. */
function makeProject() {
  const project = mkdtempSync(join(tmpdir(), 'cuda-streams-types-'))
  const own = join(project, 'node_modules', 'cuda-streams')
  mkdirSync(own, { recursive: true })
  const [{ filename }] = JSON.parse(
    npm(['pack', root, '--ignore-scripts', '--json', '--pack-destination', project], project),
  )
  spawnSync('tar', ['-xzf', join(project, filename), '-C', own, '--strip-components=1'], { stdio: 'inherit' })
  for (const name of ['@opentelemetry', '@types', 'undici-types']) {
    symlinkSync(join(modules, name), join(project, 'node_modules', name))
  }
  cpSync(join(root, 'tests', 'types', 'consumer'), project, { recursive: true })
  writeFileSync(join(project, 'package.json'), '{ "private": true, "type": "module" }')
  return project
}

/** The programs that a compiler has to take: those that require() the package, where it knows that Node can do that to ES modules. */
function programsFor(version, resolution) {
  if (resolution === 'bundler') return ['program.ts']
  const [major, minor] = version.split('.').map(Number)
  const knowsRequire = resolution === 'nodenext' && (major > 5 || minor >= 8)
  return ['program.ts', 'dynamic.cts', ...(knowsRequire ? ['common.cts', 'required.cjs'] : [])]
}

async function compile(project, version, resolution, types) {
  const compilerOptions = {
    ...{ strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, skipLibCheck: false },
    ...{
      allowJs: true,
      checkJs: true,
      noEmit: true,
      target: 'es2022',
      module: RESOLUTIONS[resolution],
      moduleResolution: resolution,
    },
    ...TYPES[types],
  }
  const file = `tsconfig.${version}.${resolution}.${types.replace(/\W/g, '')}.json`
  writeFileSync(join(project, file), JSON.stringify({ compilerOptions, files: programsFor(version, resolution) }))
  const args = [compilerIn(folderOf(version)), '--pretty', 'false', '-p', file]
  try {
    await promisify(execFile)(process.execPath, args, { cwd: project })
    return []
  } catch ({ stdout, stderr }) {
    return `${stdout}${stderr}`.split('\n').filter((line) => line !== '')
  }
}

const [oldest] = VERSIONS
const hasOldest = existsSync(compilerIn(folderOf(oldest)))
if (isQuick && !hasOldest) console.log(`skipped: TypeScript ${oldest} is not here; npm run test:types installs it`)
const versions = isQuick ? [...(hasOldest ? [oldest] : []), OWN] : [...VERSIONS, OWN]
const resolutions = isQuick ? ['nodenext'] : Object.keys(RESOLUTIONS)
const projects = isQuick ? ['lib dom', 'both'] : Object.keys(TYPES)
for (const version of versions) if (version !== OWN) install(join('typescript', version), `typescript@${version}`)
const project = makeProject()
const cells = versions.flatMap((version) =>
  resolutions.flatMap((resolution) => projects.map((types) => ({ version, resolution, types }))),
)
let done = 0
async function worker(queue) {
  for (let cell = queue.shift(); cell !== undefined; cell = queue.shift()) {
    cell.errors = await compile(project, cell.version, cell.resolution, cell.types)
    done += 1
    if (process.stderr.isTTY) process.stderr.write(`\r${done} of ${cells.length}`)
  }
}
try {
  const queue = [...cells]
  await Promise.all(Array.from({ length: availableParallelism() }, () => worker(queue)))
} finally {
  rmSync(project, { recursive: true, force: true })
}
if (process.stderr.isTTY) process.stderr.write('\r')
const columns = resolutions.flatMap((resolution) => projects.map((types) => `${resolution}, ${types}`))
console.log(`| TypeScript | ${columns.join(' | ')} |\n|---|${columns.map(() => '---|').join('')}`)
for (const version of versions) {
  const row = cells.filter((cell) => cell.version === version)
  const said = row.map(({ errors }) => (errors.length === 0 ? 'ok' : `${errors.length} line(s)`))
  console.log(`| ${version} | ${said.join(' | ')} |`)
}
for (const { version, resolution, types, errors } of cells) {
  if (errors.length > 0) console.log(`\nTypeScript ${version}, ${resolution}, ${types}:\n${errors.join('\n')}`)
}
process.exit(cells.every(({ errors }) => errors.length === 0) ? 0 : 1)
