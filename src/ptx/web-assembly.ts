/** WebAssembly as every run time has it; the types of browsers and of Node are not assumed to be there. */

export interface WasmModule {
  readonly kind?: never
}

export interface WasmMemory {
  readonly buffer: ArrayBuffer
  grow(pages: number): number
}

export type WasmFunction = (...args: (number | bigint)[]) => number | bigint | undefined

export interface WasmInstance {
  readonly exports: Readonly<Record<string, WasmFunction>>
}

// The binding exists in the scope of the module only; at run time it is the global one.
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => WasmModule
  Instance: new (module: WasmModule, imports: Record<string, Record<string, unknown>>) => WasmInstance
  Memory: new (descriptor: { initial: number; maximum: number }) => WasmMemory
  validate(bytes: Uint8Array): boolean
}

export const PAGE_BYTES = 65536

export function newMemory(initialPages: number, maximumPages: number): WasmMemory {
  return new WebAssembly.Memory({ initial: initialPages, maximum: maximumPages })
}

export function compileWasm(bytes: Uint8Array): WasmModule {
  return new WebAssembly.Module(bytes)
}

export function instantiateWasm(module: WasmModule, imports: Record<string, unknown>): WasmInstance {
  return new WebAssembly.Instance(module, { i: imports })
}

export function isValidWasm(bytes: Uint8Array): boolean {
  return WebAssembly.validate(bytes)
}
