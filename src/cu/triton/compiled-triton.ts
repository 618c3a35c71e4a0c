/** What a file of Triton's kernels becomes. */
import type { ParameterType } from '../../core/kernels/kernel-signature.js'
import type { TritonMeta, TritonVariant } from '../../core/kernels/triton-kernel.js'

/** The options of `compileTriton()`. */
export interface TritonOptions {
  /**
   * The architecture that the kernels are for, such as 'compute_89'; they run on it and on later ones, but those for 'compute_90' on 9.0 alone.
   * Default: 'compute_80'. A declaration in the file may name another, as `arch=89`.
   */
  readonly arch?: string | undefined
  /**
   * The Python that has Triton. Default: that of CUDA_STREAMS_PYTHON, of the active environment, of a folder `.venv` beside the file or above it, or the
   * first on the PATH.
   */
  readonly python?: string | undefined
}

/** A configuration of a kernel, with its code. */
export interface TritonConfig {
  /** The values of `tl.constexpr` parameters, `num_warps` and `num_stages`. */
  readonly meta: TritonMeta
  /** The code for several kinds of arguments; a launch takes the first that its arguments fit. */
  readonly variants: readonly TritonVariant[]
}

/** A kernel of a file of Python. */
export interface CompiledTritonKernel {
  /** The name under which the module exports it, and which it has in reports. */
  readonly name: string
  /** The kernel's parameters without constants, such as 'in f32*'. */
  readonly signature: readonly ParameterType[]
  /** The names of its parameters in the source. */
  readonly parameterNames: readonly string[]
  /** The configurations, the default first. */
  readonly configs: readonly TritonConfig[]
  /** The parameters, counted from 0, by which configurations are chosen. */
  readonly key: readonly number[]
  /** The file, absolute. */
  readonly file: string
  /** The line of `def`, counted from 1. */
  readonly line: number
  /** The column of the kernel's name, counted from 1. */
  readonly column: number
  /** The kernel's docstring; empty if there is none. */
  readonly comment: string
}

/** What `compileTriton()` makes of a file. */
export interface CompiledTriton {
  /** The file, absolute. */
  readonly file: string
  /** The kernels, in the order of their declarations. */
  readonly kernels: readonly CompiledTritonKernel[]
  /** JavaScript that exports each kernel, made by `defineTritonKernel`. */
  readonly module: string
  /** TypeScript's declarations of that module. */
  readonly declaration: string
  /** The files of the project that it imports, absolute: when one of them changes, the kernels may. */
  readonly includes: readonly string[]
  /** What was left out, and why, for people to read. */
  readonly notes: readonly string[]
}
