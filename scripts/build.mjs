// Compiles src, tests, examples and bench into dist/. A stale file in dist/ would be run by the tests, so dist/ starts empty.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildNative } from './build-native.mjs'
import { buildPage } from './build-page.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const compiler = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
/** Those beside Jest's setup file, and of inner files that the playground imports. */
const OTHER_DECLARATIONS = [
  'dist/src/entry-points/jest.d.cts',
  'dist/src/foundation/base/uncaught.d.ts',
  'dist/src/cu/cu-module.d.ts',
]
rmSync(join(root, 'dist'), { recursive: true, force: true })
const { status } = spawnSync(process.execPath, [compiler, '-p', root], { stdio: 'inherit' })
if (status === 0) {
  removeInnerDeclarations()
  exportVariables(join(root, 'dist', 'src', 'core', 'all-members.js'))
  buildNative(root)
}
process.exit(status !== 0 ? (status ?? 1) : buildPage(root, compiler))

/**
 * Exports what a file exports on from others as variables of its own. Turbopack takes a class that is exported on from the file that declares it, and
 * leaves out the file between, though package.json says that it has effects: streams had no bufferFrom() in Next.js.
 */
function exportVariables(file) {
  const text = readFileSync(file, 'utf8').replace(/^export \{ (.*) \} from ('.*');$/gm, (_, names, from) => {
    const all = names.split(', ')
    const imported = all.map((name) => `${name} as ${name}_`).join(', ')
    return [`import { ${imported} } from ${from};`, ...all.map((name) => `export const ${name} = ${name}_;`)].join('\n')
  })
  writeFileSync(file, text)
}

/** Types of inner files that no type of an entry point needs would be a third of the package's declarations. */
function removeInnerDeclarations() {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const types = Object.values(exports).flatMap((target) => target.types ?? [])
  const needed = new Set([...types, ...OTHER_DECLARATIONS].map((path) => join(root, path)))
  // What a set is given while it is iterated over is visited, too.
  for (const file of needed)
    for (const [, path] of readFileSync(file, 'utf8').matchAll(/(?:from|import|import\(|module) ?'(\.[^']+\.c?js)'/g))
      needed.add(join(dirname(file), path.replace(/\.(c?)js$/, '.d.$1ts')))
  const folder = join(root, 'dist', 'src')
  for (const name of readdirSync(folder, { recursive: true }))
    if (/\.d\.c?ts$/.test(name) && !needed.has(join(folder, name))) rmSync(join(folder, name))
}
