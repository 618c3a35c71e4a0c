/** Plug-ins for bundlers. Their interfaces are declared here as far as they are used, so that no bundler is needed for the types. */
import { statSync } from 'node:fs'
import { checkBoolean, checkText, readOptions } from '../foundation/base/arguments.js'
import { type CompiledFile, compileFile, declarationFile, isOfKernels, KERNEL_FILES } from './compile-file.js'
import { CU_OPTIONS, type CuOptions, readCuOptions } from './cu-options.js'
import { type CuDiagnostic, isCuError } from './diagnostics.js'
import { writeChanged } from './write-changed.js'

/** The options of `cuRollup()` and `cuEsbuild()`. */
export interface CuPluginOptions extends CuOptions {
  /** Whether `axpy.d.cu.ts` is written beside each `axpy.cu`, for TypeScript. Default: true. */
  readonly declarations?: boolean | undefined
  /** The Python that has Triton, for kernels in files of Python. Default: as for `compileTriton()`. */
  readonly python?: string | undefined
}

/** What `cuRollup()` uses of the bundler. */
export interface CuRollupContext {
  /**
   * Builds again when this file changes.
   * @param file Its path.
   */
  addWatchFile(file: string): void
  /**
   * Ends the build.
   * @param error The mistake, with its place and a code frame.
   */
  error(error: {
    readonly message: string
    readonly id: string
    readonly frame: string
    readonly loc: { readonly file: string; readonly line: number; readonly column: number }
  }): never
}

/** A plug-in of Rollup, Rolldown and Vite. */
export interface CuRollupPlugin {
  /** The plug-in's name in messages of the bundler. */
  readonly name: string
  /** The place of the plug-in in Vite: before Vite's own plug-ins, which take such files for assets. */
  readonly enforce: 'pre'
  /**
   * Called by the bundler for each module.
   * @param this The bundler's context.
   * @param id The path of the module, and perhaps a query.
   * @returns a promise of the module's JavaScript; of null for other files than those with kernels
   */
  load(this: CuRollupContext, id: string): Promise<{ code: string; map: { mappings: '' } } | null>
}

/** A plug-in of esbuild and Bun. */
export interface CuEsbuildPlugin {
  /** The plug-in's name in messages of the bundler. */
  readonly name: string
  /**
   * Called by the bundler.
   * @param build Where it registers what it does.
   */
  setup(build: {
    onLoad(
      options: { filter: RegExp },
      load: (given: { path: string }) => Promise<CuEsbuildModule | undefined>,
    ): unknown
  }): void
}

/** What `cuEsbuild()` answers for a file. */
export interface CuEsbuildModule {
  /** JavaScript. */
  contents?: string
  /** The language of `contents`. */
  loader: 'js'
  /** The project's headers, which are watched too. */
  watchFiles: string[]
  /** Mistakes with their places. */
  errors?: { text: string; location: { file: string; line: number; column: number; lineText: string } }[]
}

const NAME = 'cuda-streams:cu'
const OPTIONS = [...CU_OPTIONS, 'declarations', 'python'] as const

type Compile = (file: string) => Promise<CompiledFile>

export function compilerOf(options: CuPluginOptions | undefined): Compile {
  const { declarations, python, ...own } = readOptions(options, OPTIONS)
  readCuOptions(own)
  const named = python === undefined ? undefined : checkText(python, 'options.python', 'a path')
  const writes = checkBoolean(declarations, 'options.declarations', true)
  return async (file) => {
    const compiled = await compileAsItIs(file, { ...own, python: named })
    if (writes) writeChanged(declarationFile(file), compiled.declaration)
    return compiled
  }
}

/** A file that is saved while it is compiled is compiled again: watchers drop a change that follows another one at once. */
async function compileAsItIs(file: string, options: CuPluginOptions): Promise<CompiledFile> {
  const saved = timeOf(file)
  try {
    const compiled = await compileFile(file, options)
    if (timeOf(file) === saved) return compiled
  } catch (error) {
    if (timeOf(file) === saved) throw error
  }
  return compileAsItIs(file, options)
}

/** The time at which a file was saved, in nanoseconds. */
const timeOf = (file: string): bigint | undefined => statSync(file, { bigint: true, throwIfNoEntry: false })?.mtimeNs

/**
 * A plug-in for Vite, Rollup and Rolldown: modules import files of CUDA C++, and those of Python that have Triton kernels. They are built again when a file or one of its
 * headers changes, and mistakes have their places.
 * @param options `arch`, `cubins` and `options` as for `compileCu()`; `python` as for `compileTriton()`; `declarations`: whether they are written beside the files (default: true)
 * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE
 */
export function cuRollup(options?: CuPluginOptions): CuRollupPlugin {
  const compile = compilerOf(options)
  return {
    name: NAME,
    enforce: 'pre',
    async load(id) {
      const file = id.replace(/\?.*$/, '')
      if (!isOfKernels(file)) return null
      try {
        const { module: code, includes } = await compile(file)
        for (const include of includes) this.addWatchFile(include)
        return { code, map: { mappings: '' } }
      } catch (error) {
        if (!isCuError(error)) throw error
        for (const include of error.includes) this.addWatchFile(include)
        const [first] = error.diagnostics
        if (first === undefined) throw error
        const loc = { file: first.file, line: first.line, column: Math.max(0, first.column - 1) }
        return this.error({ message: titleOf(first, error.diagnostics), id: file, frame: first.frame, loc })
      }
    },
  }
}

/**
 * A plug-in for esbuild and Bun: modules import files of CUDA C++, and those of Python that have Triton kernels. When a file or one of its headers changes, esbuild builds them
 * again; mistakes have their places.
 * @param options `arch`, `cubins` and `options` as for `compileCu()`; `python` as for `compileTriton()`; `declarations`: whether they are written beside the files (default: true)
 * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE
 */
export function cuEsbuild(options?: CuPluginOptions): CuEsbuildPlugin {
  const compile = compilerOf(options)
  return {
    name: NAME,
    setup(build) {
      build.onLoad({ filter: KERNEL_FILES }, async ({ path }) => {
        if (!isOfKernels(path)) return undefined
        try {
          const { module: contents, includes } = await compile(path)
          return { contents, loader: 'js', watchFiles: [path, ...includes] }
        } catch (error) {
          // Bun takes no list of errors.
          if (!isCuError(error) || process.versions['bun'] !== undefined) throw error
          const errors = error.diagnostics.map(({ file, line, column, message, frame }) => {
            // The frame shows tabs as spaces, and the bundler counts columns in the text that it is given.
            const lineText = /^> *\d+ \| ?(.*)$/m.exec(frame)?.[1] ?? ''
            const mark = /^ +\| ?( *)\^$/m.exec(frame)?.[1]?.length
            return { text: message, location: { file, line, column: mark ?? Math.max(0, column - 1), lineText } }
          })
          return { loader: 'js', watchFiles: [path, ...error.includes], errors }
        }
      })
    },
  }
}

const titleOf = ({ message }: CuDiagnostic, { length }: readonly CuDiagnostic[]): string =>
  length === 1 ? message : `${message} (and ${length - 1} more)`
