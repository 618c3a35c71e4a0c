/** How the functions of a C library are written down, and declared for koffi: each row in C, and its arguments beside it. */
import type { LoadedLibrary } from '../driver/cuda/libcuda/find-library.js'

/** koffi's names for the C types in use; pointers, handles and size_t go as numbers. 'ncclUniqueId' is passed by value. */
export type LibraryArgument = 'int' | 'int64' | 'uintptr_t' | 'ncclUniqueId'

export interface LibrarySignature {
  /** As in the library's header, with the name that it exports. */
  readonly c: string
  readonly args: readonly LibraryArgument[]
}

export type LibraryFunction = ((...args: (number | object)[]) => number) & {
  /** Calls it on a thread of its own. */
  async(...args: unknown[]): void
}

/** @internal Declares the functions of a ledger that return a status. `typeOf` says what koffi makes of types of the library's own. */
export function declareFunctions<N extends string>(
  library: LoadedLibrary,
  signatures: Readonly<Record<N, LibrarySignature>>,
  typeOf: (type: LibraryArgument) => string | object = (type) => type,
): Readonly<Record<N, LibraryFunction>> {
  const functions: Partial<Record<N, LibraryFunction>> = {}
  for (const [name, { args }] of Object.entries<LibrarySignature>(signatures)) {
    functions[name as N] = library.func(name, 'int', args.map(typeOf) as string[]) as LibraryFunction
  }
  return functions as Record<N, LibraryFunction>
}
