// The hooks of as-in-a-page.mjs, which lead imports to other files as the build of the page does.
import { readFile } from 'node:fs/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { transform } from 'esbuild'
import { inPlaceOf, nodeModules, root } from '../in-place-of-node.mjs'

/** Tests have the storage of contexts that the library has. */
const contextStorage = pathToFileURL(`${root}/dist/tests/helpers/context-storage.js`).href

/** Tests load entry points too that no page can have: their files get what they import, which the build would refuse. */
function foundFor(specifier, importer) {
  try {
    return inPlaceOf(specifier, importer)
  } catch {
    return undefined
  }
}

export function resolve(specifier, context, next) {
  const importer = context.parentURL ?? ''
  if (specifier === 'node:async_hooks' && importer === contextStorage)
    return { url: pathToFileURL(nodeModules).href, shortCircuit: true }
  const found = importer.startsWith('file:') ? foundFor(specifier, fileURLToPath(importer)) : undefined
  return found === undefined ? next(specifier, context) : { url: pathToFileURL(found).href, shortCircuit: true }
}

export async function load(url, context, next) {
  if (!url.startsWith('file:')) return next(url, context)
  const path = fileURLToPath(url)
  if (path.endsWith('.ts')) {
    const { code } = await transform(await readFile(path, 'utf8'), { loader: 'ts', target: 'es2022' })
    return { format: 'module', source: code, shortCircuit: true }
  }
  return next(url, context)
}
