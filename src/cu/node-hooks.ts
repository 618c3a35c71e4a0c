/** Node's hook that loads a module, for files of CUDA C++. */
import { fileURLToPath } from 'node:url'
import { compileCu, compileCuNow } from './compile-cu.js'
import type { CompiledCu } from './compiled-cu.js'

interface LoadedModule {
  readonly format: string | null | undefined
  readonly source?: unknown
  readonly shortCircuit?: boolean
}

const isCu = (url: string): boolean => /^file:[^?#]*\.cu(?:[?#]|$)/.test(url)

const pathOf = (url: string): string => fileURLToPath(url.replace(/[?#].*$/, ''))

const loadedOf = ({ module: source }: CompiledCu): LoadedModule => ({ format: 'module', source, shortCircuit: true })

/** The hook for `module.registerHooks()`, which is synchronous. */
export function loadNow<C>(url: string, context: C, next: (url: string, context: C) => LoadedModule): LoadedModule {
  return isCu(url) ? loadedOf(compileCuNow(pathOf(url))) : next(url, context)
}

/** The hook for `module.register()`, which looks for a function of this name. */
export async function load<C>(
  url: string,
  context: C,
  next: (url: string, context: C) => Promise<LoadedModule>,
): Promise<LoadedModule> {
  return isCu(url) ? loadedOf(await compileCu(pathOf(url))) : next(url, context)
}
