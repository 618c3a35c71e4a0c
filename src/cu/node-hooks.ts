/** Node's hook that loads a module, for files with kernels. */
import { fileURLToPath } from 'node:url'
import { type CompiledFile, compileFile, compileFileNow, isOfKernels } from './compile-file.js'

interface LoadedModule {
  readonly format: string | null | undefined
  readonly source?: unknown
  readonly shortCircuit?: boolean
}

const hasKernels = (url: string): boolean => /^file:[^?#]*\.(?:cu|py)(?:[?#]|$)/.test(url) && isOfKernels(pathOf(url))

const pathOf = (url: string): string => fileURLToPath(url.replace(/[?#].*$/, ''))

const loadedOf = ({ module: source }: CompiledFile): LoadedModule => ({ format: 'module', source, shortCircuit: true })

/** The hook for `module.registerHooks()`, which is synchronous. */
export function loadNow<C>(url: string, context: C, next: (url: string, context: C) => LoadedModule): LoadedModule {
  return hasKernels(url) ? loadedOf(compileFileNow(pathOf(url))) : next(url, context)
}

/** Tells the thread of hooks which program runs, beside which NVRTC is looked for: Node calls it with the data of `module.register()`. */
export function initialize(program: unknown): void {
  if (process.argv[1] === undefined && typeof program === 'string') process.argv[1] = program
}

/** The hook for `module.register()`, which looks for a function of this name. */
export async function load<C>(
  url: string,
  context: C,
  next: (url: string, context: C) => Promise<LoadedModule>,
): Promise<LoadedModule> {
  return hasKernels(url) ? loadedOf(await compileFile(pathOf(url))) : next(url, context)
}
