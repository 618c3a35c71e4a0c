/** What a file of CUDA C++ becomes. */

import type { ParameterType } from '../core/kernels/kernel-signature.js'
import type { Struct } from '../foundation/base/element-layout.js'

/** A kernel of a file of CUDA C++. */
export interface CuKernel {
  /** The name under which the module exports it, and which it has in reports: that of the source, and `reduce_float_256` for `reduce<float, 256>`. */
  readonly name: string
  /** The name that C++ gives it, which it has in the cubins. */
  readonly mangledName: string
  /** The kernel's parameters, such as 'in f32*'. */
  readonly signature: readonly ParameterType[]
  /** The names of its parameters in the source. */
  readonly parameterNames: readonly string[]
  /** The file that has it, absolute: the compiled one or one that it includes. */
  readonly file: string
  /** The line of the kernel's name, counted from 1. */
  readonly line: number
  /** The column of the kernel's name, counted from 1. */
  readonly column: number
  /** The comment above it; empty if there is none. */
  readonly comment: string
}

/** A struct that kernels of a file of CUDA C++ take, by value or through pointers. */
export interface CuStruct {
  /** The name under which the module exports it: that of the source. */
  readonly name: string
  /** The struct's members, and how they lie in memory. */
  readonly struct: Struct
  /** The members that are pointers: they are passed as addresses, whose memory is not tracked. */
  readonly addresses: readonly string[]
  /** The file that has it, absolute: the compiled one or one that it includes. */
  readonly file: string
  /** The line at which the struct begins, counted from 1. */
  readonly line: number
  /** The column at which the struct begins, counted from 1. */
  readonly column: number
  /** The comment above it; empty if there is none. */
  readonly comment: string
}

/** What `compileCu()` makes of a file. */
export interface CompiledCu {
  /** The file, absolute. */
  readonly file: string
  /** The code of all kernels. */
  readonly ptx: string
  /** The same as machine code, by the architectures that `cubins` named. */
  readonly cubins: Readonly<Record<string, Uint8Array>>
  /** The kernels, in the order of the source. */
  readonly kernels: readonly CuKernel[]
  /** The structs of their parameters, each behind those that it is made of. */
  readonly structs: readonly CuStruct[]
  /** JavaScript that exports each kernel, made by `defineKernel`, and each struct, made by `struct`. */
  readonly module: string
  /** TypeScript's declarations of that module. */
  readonly declaration: string
  /** The files of the project that it includes, absolute: when one of them changes, the kernels do. */
  readonly includes: readonly string[]
  /** What was left out, and why, for people to read. */
  readonly notes: readonly string[]
}
