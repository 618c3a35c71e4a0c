/** How the functions of a C library are written down: each row as its header has it. */
import type { CFunction } from '../driver/cuda/libcuda/c-functions.js'
import type { SharedLibrary } from '../driver/cuda/libcuda/shared-library.js'

/** The parameters of a prototype in C, such as 'int *version'. */
export const parametersOf = (prototype: string): string => /\((.*)\)$/.exec(prototype)?.[1] ?? ''

/** @internal Declares the functions of a ledger that return a status. Throws an Error when the library lacks one. */
export function declareFunctions<N extends string>(
  library: SharedLibrary,
  prototypes: Readonly<Record<N, string>>,
): Readonly<Record<N, CFunction>> {
  const rows = Object.entries<string>(prototypes).map(([name, prototype]) => [name, parametersOf(prototype)])
  return library.functions(Object.fromEntries(rows) as Record<N, string>)
}
