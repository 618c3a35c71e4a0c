/** `cuda-streams compile`: files of CUDA C++ as modules of JavaScript, with declarations. */
import { type FSWatcher, mkdirSync, watch } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { compileCu } from '../../cu/compile-cu.js'
import type { CuKernel, CuStruct } from '../../cu/compiled-cu.js'
import { typeText } from '../../cu/cu-module.js'
import { isCuError } from '../../cu/diagnostics.js'
import { writeChanged } from '../../cu/write-changed.js'
import { messageOf } from '../../foundation/base/errors.js'
import { printError } from '../../foundation/base/standard-error.js'

export interface CompileRequest {
  readonly files: readonly string[]
  /** The folder to write into; undefined for the folder of each source. */
  readonly out: string | undefined
  readonly arch: string | undefined
  /** The architectures for which the modules have machine code, too. */
  readonly cubins: readonly string[]
  /** Whether only declarations are written, for a project whose bundler or Node compiles the kernels. */
  readonly types: boolean
  /** Whether the PTX is written to a file of its own, too. */
  readonly ptx: boolean
  readonly watch: boolean
  /** The options for NVRTC. */
  readonly options: readonly string[]
}

/** Compiles all files, and prints the result of each. Returns whether all compile; with `watch` it never returns. */
export async function compileFiles(request: CompileRequest): Promise<boolean> {
  const { files } = request
  const watched = new Set(files.map((file) => resolve(file)))
  const said = new Map<string, string>()
  const compileAll = async (): Promise<boolean> => {
    let ok = true
    for (const file of files) {
      const { text, compiles, includes } = await compileOne(file, request)
      ok &&= compiles
      for (const include of includes) watched.add(include)
      if (said.get(file) === text) continue
      said.set(file, text)
      if (compiles) console.log(text)
      else printError(text)
    }
    return ok
  }
  if (!request.watch) return compileAll()
  return watchFor(watched, compileAll)
}

/** Compiles at once and whenever one of the files changes. */
async function watchFor(files: ReadonlySet<string>, compileAll: () => Promise<boolean>): Promise<never> {
  const folders = new Map<string, FSWatcher>()
  let hasChanged = false
  let changed = (): void => {}
  const watchAll = (): void => {
    for (const folder of new Set([...files].map((file) => dirname(file)))) {
      if (folders.has(folder)) continue
      const note = (_: string, name: string | null): void => {
        if (name !== null && !files.has(join(folder, name))) return
        hasChanged = true
        changed()
      }
      folders.set(folder, watch(folder, note))
      // A file that was read before may have changed before it was watched.
      hasChanged = true
    }
  }
  watchAll()
  for (;;) {
    hasChanged = false
    await compileAll()
    watchAll()
    if (!hasChanged) await new Promise<void>((resolve) => (changed = resolve))
  }
}

async function compileOne(
  file: string,
  { out, arch, cubins, options, types, ptx }: CompileRequest,
): Promise<{ readonly text: string; readonly compiles: boolean; readonly includes: readonly string[] }> {
  try {
    const compiled = await compileCu(file, { arch, cubins, options })
    const name = basename(file).replace(/\.cu$/, '')
    const folder = out ?? dirname(file)
    mkdirSync(folder, { recursive: true })
    const written = {
      [`${name}.d.cu.ts`]: compiled.declaration,
      ...(types ? {} : { [`${name}.cu.js`]: compiled.module, [`${name}.cu.d.ts`]: compiled.declaration }),
      ...(ptx ? { [`${name}.ptx`]: compiled.ptx } : {}),
    }
    for (const [path, text] of Object.entries(written)) writeChanged(join(folder, path), text)
    const names = Object.keys(written).map((path) => relative('.', join(folder, path)))
    const lines = [
      `${relative('.', file)} -> ${names.join(', ')}`,
      ...compiled.kernels.map((kernel) => lineOf(kernel, compiled.structs)),
    ]
    const text = [...lines, ...compiled.notes.map((note) => `  note: ${note}`)].join('\n')
    return { text, compiles: true, includes: compiled.includes }
  } catch (error) {
    return { text: messageOf(error), compiles: false, includes: isCuError(error) ? error.includes : [] }
  }
}

function lineOf({ name, signature, parameterNames }: CuKernel, structs: readonly CuStruct[]): string {
  const parameters = signature.map((type, index) => `${parameterNames[index]}: ${typeText(type, structs)}`)
  return `  ${name}(${parameters.join(', ')})`
}
