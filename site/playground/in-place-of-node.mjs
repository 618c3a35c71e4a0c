// What takes the place of Node where the library runs in a page: the files that `browser` in its package.json names, and for `inspect()`
// that of Node, since the playground shows what a program prints as Node does.
import { readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))
export const root = resolve(here, '..', '..')
/** The library, compiled. */
export const compiled = join(root, 'dist', 'src')
const { browser, imports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

/** The files of the library that are replaced, below dist/src/, and by which files. */
export const REPLACED = {
  ...Object.fromEntries(Object.entries(browser).map(([file, by]) => [pathIn(join(root, file)), join(root, by)])),
  ...Object.fromEntries(
    Object.values(imports).map(({ default: file, browser: by }) => [pathIn(join(root, file)), join(root, by)]),
  ),
  'foundation/base/inspect-in-page.js': join(here, 'src', 'inspect.ts'),
}
/** What can only run in Node. A page must not load it: something has to be put in its place. */
const ONLY_IN_NODE = /^(foundation\/native|cuda|tools\/timeline\/cupti|libraries|tools\/cli|cu)\/(?!.*-in-page\.js$)/
export const nodeModules = join(compiled, 'foundation', 'base', 'node-modules-in-page.js')

function pathIn(file) {
  return relative(compiled, file).replaceAll('\\', '/')
}
/** Is it a file of the library that a page may have? */
export const runsInPage = (file) => !pathIn(file).startsWith('../') && !ONLY_IN_NODE.test(pathIn(file))

/** The file that an import of `importer` leads to in a page; undefined if the usual one. Throws if there is none. */
export function inPlaceOf(specifier, importer) {
  if (imports[specifier] !== undefined) return join(root, imports[specifier].browser)
  const fromLibrary = runsInPage(importer)
  if (specifier.startsWith('node:') && fromLibrary)
    throw new Error(
      `${pathIn(importer)} imports ${specifier}, which no page has: import it from foundation/base/node-modules.js`,
    )
  if (!specifier.startsWith('.')) return undefined
  const name = pathIn(resolve(dirname(importer), specifier))
  if (REPLACED[name] !== undefined) return REPLACED[name]
  if (fromLibrary && ONLY_IN_NODE.test(name))
    throw new Error(
      `${pathIn(importer)} imports ${name}, which no page can run: name a file for it in "browser" of package.json`,
    )
  return undefined
}

/** The same for esbuild. */
export const inPlaceOfNode = {
  name: 'in-place-of-node',
  setup({ onResolve }) {
    onResolve({ filter: /^(#|node:|\.)/ }, ({ path, importer, kind }) => {
      if (kind === 'entry-point') return undefined
      try {
        const found = inPlaceOf(path, importer)
        return found === undefined ? undefined : { path: found }
      } catch (error) {
        return { errors: [{ text: error.message }] }
      }
    })
  },
}
