/** What compile-kernels.ts answers for a file. */

/** A mistake and its place. */
export interface Mistake {
  readonly file: string
  readonly line: number
  readonly column: number
  readonly message: string
}

/** The code for arguments of one kind, with Triton's metadata. */
export interface BuiltVariant {
  /** The parameters that are multiples of 16, counted from 0 without constants. */
  readonly divisible: readonly number[]
  /** The parameters that are 1, and are not passed. */
  readonly ones: readonly number[]
  readonly ptx: string
  /** The kernel's name in the PTX. */
  readonly entry: string
  readonly warps: number
  /** Bytes of dynamic shared memory. */
  readonly shared: number
  /** Blocks of a cluster. */
  readonly cluster: number
  readonly cooperative: boolean
  readonly programmatic: boolean
  /** Bytes of global memory for each block. */
  readonly globalScratch: number
  readonly profileScratch: number
}

/** A value of a constant that JSON can hold. */
export type MetaValue = number | boolean | string | null

export interface BuiltConfig {
  /** The constants of the kernel, with num_warps and num_stages. */
  readonly meta: Readonly<Record<string, MetaValue>>
  readonly variants: readonly BuiltVariant[]
}

export interface BuiltKernel {
  readonly name: string
  readonly line: number
  readonly column: number
  /** The kernel's docstring; empty if there is none. */
  readonly comment: string
  /** The parameters without constants, in Triton's notation, such as '*fp32'. */
  readonly parameters: readonly { readonly name: string; readonly type: string }[]
  readonly configs: readonly BuiltConfig[]
  /** The names of the parameters by which configurations are chosen. */
  readonly key: readonly string[]
}

export interface Answer {
  readonly diagnostics: readonly Mistake[]
  readonly notes: readonly string[]
  readonly kernels: readonly BuiltKernel[]
  /** Files of the project that were imported. */
  readonly includes: readonly string[]
  /** The Triton that was imported; null if there is none. */
  readonly triton: { readonly version: string; readonly file: string } | null
  /** Why Triton cannot be used. */
  readonly missing: string | null
  /** The Python that answered. */
  readonly executable: string
}

/** @returns undefined for a text that is no answer, as when Python ends abruptly */
export function parseAnswer(text: string): Answer | undefined {
  try {
    const answer: Answer = JSON.parse(text.trimEnd().split('\n').at(-1) ?? '')
    return Array.isArray(answer.kernels) && Array.isArray(answer.diagnostics) ? answer : undefined
  } catch {
    return undefined
  }
}
