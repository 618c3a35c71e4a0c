/**
 * ES modules that are loaded at their first use, without waiting: by `require()`, which gives the module that `import` gives. Where a hook has
 * changed that, as tsx's does, it would make a second copy of the module and of all that it imports.
 */
import { stateError } from './errors.js'
import { fileURLToPath, process } from './node-modules.js'

/** What Node itself loads by require(). Hooks for other languages add theirs, and take the place of that for `.js`. */
const OF_NODE = ['.js', '.json', '.node']

/** How a file is required. */
export interface Required {
  /** One of `createRequire()`, which runners of tests replace, for files beside the module `from`. */
  readonly require: NodeJS.Require
  readonly from: string
}

/**
 * Returns the exports of a file. `plainly` requires it with its name written out, by which tools that copy the files a program needs, those of Next.js and
 * Nuxt, find it; without it `require(file)` does. `what` is what the module has, for an error.
 * @throws ERR_UNSUPPORTED where ES modules cannot be loaded without waiting; what `require` throws, among it MODULE_NOT_FOUND
 */
export function loadEsModule(
  { require, from }: Required,
  file: string,
  what: string,
  plainly: () => ReturnType<NodeJS.Require> = () => require(file),
): ReturnType<NodeJS.Require> {
  try {
    return load({ require, from }, file, plainly)
  } catch (error) {
    if (!/REQUIRE_ESM/.test(Reflect.get(Object(error), 'code'))) throw error
    const wayOut = "With Jest, set `setupFiles: ['cuda-streams/jest']` in its configuration, or use Node 24.9 or later"
    throw stateError(
      'ERR_UNSUPPORTED',
      `cuda-streams loads ${what} by require(), which cannot load ES modules here. ${wayOut}`,
      error,
    )
  }
}

function load(
  { require, from }: Required,
  file: string,
  plainly: () => ReturnType<NodeJS.Require>,
): ReturnType<NodeJS.Require> {
  const isOfNode = !('bun' in process.versions) && !('deno' in process.versions)
  const isHooked = Object.keys(require.extensions ?? {}).some((extension) => !OF_NODE.includes(extension))
  if (!isOfNode || !isHooked) return plainly()
  const path = fileURLToPath(new URL(file, from))
  const { existsSync, readFileSync } = process.getBuiltinModule('node:fs')
  if (!existsSync(path)) return plainly()
  // What Node's own loader calls once it has read a file: no hook stands before it.
  const { Module } = process.getBuiltinModule('node:module')
  const module = new Module(path)
  const compile: unknown = Reflect.get(module, '_compile')
  if (typeof compile !== 'function') return plainly()
  module.filename = path
  Reflect.apply(compile, module, [readFileSync(path, 'utf8'), path, 'module'])
  return module.exports
}
