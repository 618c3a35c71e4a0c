/** `cuda-streams compile`: files of CUDA C++ and of Triton as modules of JavaScript, with declarations. */
import { type FSWatcher, mkdirSync, watch } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { compileCu } from '../../cu/compile-cu.js'
import { declarationFile, isPython } from '../../cu/compile-file.js'
import type { CuKernel, CuStruct } from '../../cu/compiled-cu.js'
import { typeText } from '../../cu/cu-module.js'
import { isCuError } from '../../cu/diagnostics.js'
import { compileTriton } from '../../cu/triton/compile-triton.js'
import type { CompiledTritonKernel } from '../../cu/triton/compiled-triton.js'
import { writeChanged } from '../../cu/write-changed.js'
import { invalidValue, messageOf } from '../../foundation/base/errors.js'
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
    const compiled = await compiledFile(file, { arch, cubins, options })
    const name = basename(file)
    const folder = out ?? dirname(file)
    mkdirSync(folder, { recursive: true })
    const written = {
      [declarationFile(name)]: compiled.declaration,
      ...(types ? {} : { [`${name}.js`]: compiled.module, [`${name}.d.ts`]: compiled.declaration }),
      ...(ptx ? compiled.ptx : {}),
    }
    for (const [path, text] of Object.entries(written)) writeChanged(join(folder, path), text)
    const names = Object.keys(written).map((path) => relative('.', join(folder, path)))
    const lines = [`${relative('.', file)} -> ${names.join(', ')}`, ...compiled.lines]
    const text = [...lines, ...compiled.notes.map((note) => `  note: ${note}`)].join('\n')
    return { text, compiles: true, includes: compiled.includes }
  } catch (error) {
    return { text: messageOf(error), compiles: false, includes: isCuError(error) ? error.includes : [] }
  }
}

/** What comes of a file, as the command writes and prints it. */
interface WrittenFile {
  readonly module: string
  readonly declaration: string
  readonly includes: readonly string[]
  readonly notes: readonly string[]
  /** A line for each kernel. */
  readonly lines: readonly string[]
  /** The code, by the names of files. */
  readonly ptx: Readonly<Record<string, string>>
}

async function compiledFile(
  file: string,
  { arch, cubins, options }: Pick<CompileRequest, 'arch' | 'cubins' | 'options'>,
): Promise<WrittenFile> {
  if (!isPython(file)) {
    const compiled = await compileCu(file, { arch, cubins, options })
    const lines = compiled.kernels.map((kernel) => lineOf(kernel, compiled.structs))
    return { ...compiled, lines, ptx: { [basename(file).replace(/\.cu$/, '.ptx')]: compiled.ptx } }
  }
  if (cubins.length > 0 || options.length > 0)
    throw invalidValue(`${file} is compiled by Triton, to PTX: --cubin and the options behind -- are NVRTC's`)
  const compiled = await compileTriton(file, { arch })
  const code = compiled.kernels.flatMap(({ name, configs }) =>
    configs.flatMap(({ variants }, config) =>
      variants.map(({ ptx }, variant): [string, string] => [`${name}.${config}.${variant}.ptx`, `${ptx}\n`]),
    ),
  )
  const lines = compiled.kernels.map((kernel) => `${lineOf(kernel, [])}${configurations(kernel)}`)
  return { ...compiled, lines, ptx: Object.fromEntries(code) }
}

function lineOf(
  { name, signature, parameterNames }: Pick<CuKernel, 'name' | 'signature' | 'parameterNames'>,
  structs: readonly CuStruct[],
): string {
  const parameters = signature.map((type, index) => `${parameterNames[index]}: ${typeText(type, structs)}`)
  return `  ${name}(${parameters.join(', ')})`
}

const configurations = ({ configs }: CompiledTritonKernel): string =>
  configs.length === 1 ? '' : `, in ${configs.length} configurations`
