/** Files with kernels, by their endings: CUDA C++, and Python with Triton. */
import { readFileSync } from 'node:fs'
import { compileCu, compileCuNow } from './compile-cu.js'
import type { CompiledCu } from './compiled-cu.js'
import type { CuOptions } from './cu-options.js'
import { compileTriton, compileTritonNow, hasTritonKernels } from './triton/compile-triton.js'
import type { CompiledTriton } from './triton/compiled-triton.js'

/** What bundlers and hooks need of a compiled file. */
export type CompiledFile = Pick<CompiledCu | CompiledTriton, 'module' | 'declaration' | 'includes'>

export interface FileOptions extends CuOptions {
  readonly python?: string | undefined
}

export const KERNEL_FILES: RegExp = /\.(?:cu|py)$/

export const isPython = (file: string): boolean => file.endsWith('.py')

/** Is it a file that is compiled here? A file of Python without kernels is another tool's. */
export function isOfKernels(file: string): boolean {
  if (!isPython(file)) return KERNEL_FILES.test(file)
  try {
    return hasTritonKernels(readFileSync(file, 'utf8'))
  } catch {
    return false
  }
}

/** The file of declarations for imports of a file itself: axpy.d.cu.ts for axpy.cu. */
export const declarationFile = (file: string): string => file.replace(/\.(cu|py)$/, '.d.$1.ts')

export const compileFile = (file: string, options: FileOptions = {}): Promise<CompiledFile> =>
  isPython(file) ? compileTriton(file, ofTriton(options)) : compileCu(file, ofCuda(options))

export const compileFileNow = (file: string): CompiledFile =>
  isPython(file) ? compileTritonNow(file) : compileCuNow(file)

const ofTriton = ({ arch, python }: FileOptions): Pick<FileOptions, 'arch' | 'python'> => ({ arch, python })

const ofCuda = ({ python: _, ...options }: FileOptions): CuOptions => options
