// Makes .gpu/: all that a machine with a GPU, but without Node, npm and network, needs to run the tests, the example
// and the benchmark. `bash .gpu/run.sh test|start|bench|<script>` unpacks and runs it there. `--node 20` puts only these
// versions of Node in, of those in run-times.mjs.
import { execFileSync, spawnSync } from 'node:child_process'
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { cache, programOf, RUN_TIMES } from './run-times.mjs'

const LIMIT_MIB = 55
const { values } = parseArgs({ options: { node: { type: 'string', default: '20,24,26' } } })
const root = dirname(dirname(fileURLToPath(import.meta.url)))
const bundle = join(root, '.gpu')
const app = join(bundle, 'app')

rmSync(bundle, { recursive: true, force: true })
mkdirSync(bundle, { recursive: true })
const archive = archiveOf(values.node.split(','))
copyFileSync(archive, join(bundle, 'nodes.tar.xz'))

// Tests read sources and pages, too.
const tracked = execFileSync('git', ['ls-files', '-z'], { cwd: root, encoding: 'utf8' }).split('\0')
for (const name of ['dist', ...tracked.filter((each) => each !== '' && existsSync(join(root, each)))]) copy(name)
for (const name of ['fast-check', 'jpeg-js', 'pure-rand'])
  copy(join('node_modules', name), (path) => !/\.(d\.ts|map|md)$|\/cjs\//.test(path))
copy(join('node_modules', '@opentelemetry', 'api'), (path) => !/\.(d\.ts|map|md)$|\/build\/(esm|esnext)/.test(path))
copy(
  join('node_modules', 'koffi'),
  (path) => !/\/koffi\/(doc|lib|vendor|src\/koffi\/src\/(abi|.*\.(cc|hh|inc)))/.test(path),
)
copy(join('node_modules', '@koromix', 'koffi-linux-x64'), (path) => !path.includes('musl'))
writeFileSync(join(bundle, 'run.sh'), readFileSync(join(root, 'scripts', 'gpu-run.sh')))
const { stdout: commit } = spawnSync('git', ['describe', '--always', '--dirty', '--abbrev=12'], {
  cwd: root,
  encoding: 'utf8',
})
writeFileSync(join(app, 'commit'), commit || 'unknown')
execFileSync('tar', ['-cJf', join(bundle, 'app.tar.xz'), '-C', bundle, '--owner=0', '--group=0', 'app'])
rmSync(app, { recursive: true })

const mebibytes = (bytes) => (bytes / 2 ** 20).toFixed(1)
const bytes = Number(execFileSync('du', ['-sb', bundle], { encoding: 'utf8' }).split('\t')[0])
if (bytes > LIMIT_MIB * 2 ** 20) {
  throw new Error(`.gpu/ has ${mebibytes(bytes)} MiB, more than the ${LIMIT_MIB} that it may have: leave out a Node`)
}
console.log(`.gpu/ has ${mebibytes(bytes)} MiB, of it Node ${mebibytes(statSync(archive).size)}`)

/** Several versions have much in common: packed as one, without symbols, three take little more than two would alone. */
function archiveOf(majors) {
  const nodes = majors.map((major) => {
    const found = RUN_TIMES.find(({ name }) => name === `node${major}`)
    if (found === undefined) throw new Error(`--node ${major}: scripts/run-times.mjs has no such version`)
    return { name: found.name, version: found.version, program: programOf(found) }
  })
  const file = join(cache, `nodes-${nodes.map(({ version }) => version).join('-')}.tar.xz`)
  if (existsSync(file)) return file
  console.log('Compressing Node, which takes minutes ...')
  mkdirSync(cache, { recursive: true })
  const scratch = mkdtempSync(join(tmpdir(), 'cuda-streams-bundle-'))
  for (const { name, program } of nodes) {
    copyFileSync(program, join(scratch, name))
    spawnSync('strip', ['--strip-all', join(scratch, name)])
  }
  const tar = join(scratch, 'nodes.tar')
  const names = nodes.map(({ name }) => name)
  execFileSync('tar', ['-cf', tar, '-C', scratch, '--owner=0', '--group=0', ...names])
  const filters = [...(process.arch === 'x64' ? ['--x86'] : []), '--lzma2=preset=9e,dict=512MiB']
  execFileSync('xz', ['-T1', '-k', ...filters, tar])
  copyFileSync(`${tar}.xz`, file)
  rmSync(scratch, { recursive: true })
  return file
}

function copy(name, filter = () => true) {
  cpSync(join(root, name), join(app, name), { recursive: true, filter, dereference: true })
}
