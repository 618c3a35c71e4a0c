// Makes .gpu/: all that a machine with a GPU, but without Node, npm and network, needs to run the tests, the example
// and the benchmark. `bash .gpu/run.sh test|start|bench|<script>` unpacks and runs it there.
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const LIMIT_MB = 45
const root = dirname(dirname(fileURLToPath(import.meta.url)))
const bundle = join(root, '.gpu')
const app = join(bundle, 'app')
const nodeArchive = join(bundle, `node-${process.version}.xz`)

mkdirSync(bundle, { recursive: true })
rmSync(app, { recursive: true, force: true })
if (!existsSync(nodeArchive)) {
  console.log('Compressing Node ...')
  const packed = execFileSync('xz', ['-9', '-T0', '-c', process.execPath], { maxBuffer: 2 ** 28 })
  writeFileSync(nodeArchive, packed)
}

const beside = [join('tests', 'differential', 'corpus'), join('tests', 'gpu-facts'), join('tests', 'pretend')]
for (const name of ['package.json', 'dist', 'docs', 'bench', 'scripts', ...beside]) copy(name)
for (const name of ['fast-check', 'pure-rand'])
  copy(join('node_modules', name), (path) => !/\.(d\.ts|map|md)$|\/cjs\//.test(path))
copy(join('node_modules', '@opentelemetry', 'api'), (path) => !/\.(d\.ts|map|md)$|\/build\/(esm|esnext)/.test(path))
copy(
  join('node_modules', 'koffi'),
  (path) => !/\/koffi\/(doc|lib|vendor|src\/koffi\/src\/(abi|.*\.(cc|hh|inc)))/.test(path),
)
copy(join('node_modules', '@koromix', 'koffi-linux-x64'), (path) => !path.includes('musl'))
writeFileSync(join(bundle, 'run.sh'), readFileSync(join(root, 'scripts', 'gpu-run.sh')))

const bytes = Number(execFileSync('du', ['-sb', bundle], { encoding: 'utf8' }).split('\t')[0])
const megabytes = (bytes / 1e6).toFixed(1)
if (bytes > LIMIT_MB * 1e6) throw new Error(`.gpu/ has ${megabytes} MB, more than the ${LIMIT_MB} that it may have`)
console.log(`.gpu/ has ${megabytes} MB (Node: ${(statSync(nodeArchive).size / 1e6).toFixed(1)} MB)`)

function copy(name, filter = () => true) {
  cpSync(join(root, name), join(app, name), { recursive: true, filter, dereference: true })
}
