// What takes the place of Node where the library runs in a page: the files of src/node/. Files of the library that use Node in ways of their
// own are replaced as a whole, by their paths; of Node's modules and globals the others get those that src/node/node-modules.ts exports.
import { readFile } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))
export const root = resolve(here, '..', '..')
/** The library, compiled. */
export const compiled = join(root, 'dist', 'src')
const folder = join(here, 'src', 'node')

/** The files of the library that are replaced, below dist/src/, and by which of src/node/. */
const REPLACED = {
  'base/event-loop.js': 'event-loop.ts',
  'base/once-in-all-threads.js': 'once-in-all-threads.ts',
  'driver/backends.js': 'backends.ts',
  'driver/backends-in-bundle.js': 'backends.ts',
  'native/nvrtc.js': 'nvrtc.ts',
  'timeline/compression.js': 'compression.ts',
  'timeline/cupti/listen.js': 'cupti.ts',
}
/** What can only run in Node. A page must not load it: something has to be put in its place. */
const ONLY_IN_NODE = /^(native|driver\/cuda|timeline\/cupti|libraries|cli|cu)\//
const MODULES = ['async_hooks', 'buffer', 'diagnostics_channel', 'url', 'util', 'worker_threads']

/** Has the exports of all those modules. */
export const nodeModules = join(folder, 'node-modules.ts')
/** Stands in front of the code of each file of the library, on its first line. */
export const GLOBALS = `import { Buffer, process } from ${JSON.stringify(nodeModules)}; `

const pathIn = (file) => relative(compiled, file).replaceAll('\\', '/')
/** Is it a file of the library that a page may have? */
export const runsInPage = (file) => !pathIn(file).startsWith('../') && !ONLY_IN_NODE.test(pathIn(file))

/** The file that an import of `importer` leads to in a page; undefined if the usual one. Throws if there is none. */
export function inPlaceOf(specifier, importer) {
  if (specifier === '#backends') return join(folder, REPLACED['driver/backends.js'])
  const fromLibrary = runsInPage(importer)
  if (specifier.startsWith('node:') && fromLibrary) {
    if (MODULES.includes(specifier.slice('node:'.length))) return nodeModules
    throw new Error(`${pathIn(importer)} imports ${specifier}, which no page has: export it from ${nodeModules}`)
  }
  if (!specifier.startsWith('.')) return undefined
  const name = pathIn(resolve(dirname(importer), specifier))
  if (REPLACED[name] !== undefined) return join(folder, REPLACED[name])
  if (fromLibrary && ONLY_IN_NODE.test(name))
    throw new Error(`${pathIn(importer)} imports ${name}, which no page can run: put a file of ${folder} in its place`)
  return undefined
}

/** The same for esbuild. */
export const inPlaceOfNode = {
  name: 'in-place-of-node',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(#backends$|node:|\.)/ }, ({ path, importer, kind }) => {
      if (kind === 'entry-point') return undefined
      try {
        const found = inPlaceOf(path, importer)
        return found === undefined ? undefined : { path: found }
      } catch (error) {
        return { errors: [{ text: error.message }] }
      }
    })
    onLoad({ filter: /\.js$/ }, async ({ path }) => {
      if (!runsInPage(path)) return undefined
      return { contents: GLOBALS + (await readFile(path, 'utf8')), loader: 'js' }
    })
  },
}
