// Builds the playground into dist/: a folder to be served as it is. The library is taken from the root's dist/.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import ts from 'typescript'
import { asText } from './as-text.mjs'
import { compiled, inPlaceOfNode } from './in-place-of-node.mjs'

const here = dirname(fileURLToPath(import.meta.url))
const dist = join(here, 'dist')
const ENTRY_POINTS = ['index', 'sim', 'sanitizer', 'timeline']

if (!existsSync(join(compiled, 'entry-points', 'index.js'))) {
  console.error('The library is not built: run `npm run build` in the root of the repository first')
  process.exit(1)
}
rmSync(dist, { recursive: true, force: true })
mkdirSync(dist, { recursive: true })

const alias = Object.fromEntries(
  ENTRY_POINTS.map((entryPoint) => [
    entryPoint === 'index' ? 'cuda-streams' : `cuda-streams/${entryPoint}`,
    join(compiled, 'entry-points', `${entryPoint}.js`),
  ]),
)

/** What the compiler asks of Node where it finds itself there. */
const noNode = {
  name: 'no-node',
  setup({ onResolve, onLoad }) {
    const filter = /^(node:)?(fs|path|os|inspector|perf_hooks|module|source-map-support|crypto|url|util)$/
    onResolve({ filter }, ({ path }) => ({ path, namespace: 'nothing' }))
    onLoad({ filter: /.*/, namespace: 'nothing' }, () => ({ contents: 'module.exports = {}' }))
  },
}

const common = {
  bundle: true,
  format: 'esm',
  platform: 'browser',
  target: 'es2022',
  // Names are left as they are: errors and values tell of their classes.
  minifyWhitespace: true,
  minifySyntax: true,
  // All of them stand in licences.txt.
  legalComments: 'none',
  nodePaths: [join(here, '..', 'node_modules')],
  alias,
  plugins: [asText, inPlaceOfNode],
  logLevel: 'warning',
}

const outputs = [
  { in: 'src/page/main.ts', out: 'playground.js' },
  // Frames of this file are the library's: it finds its own lines by this name, and what is not in that folder is the program.
  { in: 'src/run/worker.ts', out: 'library/foundation/base/stack.js' },
  { in: 'src/types/worker.ts', out: 'types.js', plugins: [noNode] },
]
/** Packages whose code goes out with the page, by their folders. */
const packages = new Set()
for (const { in: input, out, plugins = [] } of outputs) {
  const { metafile } = await build({
    ...common,
    minifyIdentifiers: !out.startsWith('library'),
    keepNames: out.startsWith('library'),
    plugins: [...plugins, ...common.plugins],
    entryPoints: [join(here, input)],
    outfile: join(dist, out),
    absWorkingDir: here,
    metafile: true,
  })
  for (const path of Object.keys(metafile.inputs)) {
    const folder = /^(.*node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+)[\\/]/.exec(resolve(here, path))?.[1]
    if (folder !== undefined) packages.add(folder)
  }
}
writeFileSync(join(dist, 'licences.txt'), [...packages].sort().map(licenceOf).join('\n\n'))
writeFileSync(join(dist, 'declarations.json'), JSON.stringify(declarations()))
for (const file of ['index.html', 'playground.css'])
  if (existsSync(join(here, file))) cpSync(join(here, file), join(dist, file))

/** What its authors want to be said. */
function licenceOf(folder) {
  const { name, version, license, author } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const file = readdirSync(folder).find((one) => /^(licen[cs]e|copying)/i.test(one))
  const text =
    file === undefined ? `Author: ${author?.name ?? author ?? 'not named'}` : readFileSync(join(folder, file), 'utf8')
  return `${name} ${version} (${license})\n\n${text.trim()}\n${'-'.repeat(72)}`
}

/** The text of each file of declarations that the entry points need, of TypeScript's own for the language, and of the kernels that lessons import. */
function declarations() {
  const program = ts.createProgram(
    ENTRY_POINTS.map((entryPoint) => join(compiled, 'entry-points', `${entryPoint}.d.ts`)),
    {
      lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts'],
      types: [],
      module: ts.ModuleKind.NodeNext,
      skipLibCheck: true,
    },
  )
  const [missing] = program.getOptionsDiagnostics()
  if (missing !== undefined) throw new Error(ts.flattenDiagnosticMessageText(missing.messageText, '\n'))
  const files = {}
  for (const { fileName, text } of program.getSourceFiles()) {
    const isOwn = fileName.startsWith(compiled)
    if (!isOwn && !/[\\/]lib\.[\w.]+\.d\.ts$/.test(fileName)) continue
    const name = isOwn ? `/library/${relative(compiled, fileName)}` : `/lib/${fileName.split(/[\\/]/).at(-1)}`
    files[name.replaceAll('\\', '/')] = text
  }
  const lessons = join(here, 'lessons')
  for (const name of readdirSync(lessons).filter((one) => one.endsWith('.d.cu.ts')))
    files[`/${name}`] = readFileSync(join(lessons, name), 'utf8')
  return files
}

let total = 0
for (const file of readdirSync(dist, { recursive: true })) {
  const path = join(dist, file)
  if (!statSync(path).isFile()) continue
  const bytes = readFileSync(path)
  const zipped = gzipSync(bytes).length
  total += zipped
  console.log(
    `${String(Math.ceil(bytes.length / 1000)).padStart(6)} kB  ${String(Math.ceil(zipped / 1000)).padStart(5)} kB gzip  ${file}`,
  )
}
console.log(`${''.padStart(11)}${String(Math.ceil(total / 1000)).padStart(5)} kB gzip in all`)
