/** PTX, compiled to WebAssembly: modules, their kernels, and launches of them. */
import type { Decoded } from './decoding.js'
import type { DeviceMemory } from './device-memory.js'
import { KernelCode } from './kernel-code.js'
import { FUNCTION_WINDOW } from './layout.js'
import { parsePtx } from './parser.js'
import { functionNumber, type Program, prepareProgram } from './program.js'
import { type PtxText, ptxError, type Variable } from './syntax.js'

export interface ModuleHost {
  /** The memory of the machine that the module is loaded on. */
  readonly memory: DeviceMemory
  /** Chooses an address for a variable of the module, as for an allocation. The module makes it known to the memory. */
  allocate(byteLength: number, alignment: number): number
}

/** A module of PTX that is loaded on a machine. */
export class PtxModule {
  readonly #text: PtxText
  readonly #addresses = new Map<string, number>()
  readonly #codes = new Map<string, KernelCode>()

  constructor(
    text: string,
    private readonly host: ModuleHost,
  ) {
    this.#text = parsePtx(text)
  }

  get kernels(): readonly string[] {
    return [...this.#text.functions.values()]
      .filter(({ entry, body }) => entry && body !== undefined)
      .map(({ name }) => name)
  }

  code(name: string, options: { recorded?: boolean; checked?: boolean; stackBytes?: number } = {}): KernelCode {
    const { recorded = false, checked = false, stackBytes = 16384 } = options
    const key = `${name},${recorded},${checked},${stackBytes}`
    const known = this.#codes.get(key)
    if (known !== undefined) return known
    const program: Program = prepareProgram(this.#text, name, { stackBytes })
    const address = (variable: string, decoded: Decoded): bigint => BigInt(this.#addressOf(variable, decoded))
    const code = new KernelCode(program, this.host.memory, { recorded, checked }, address)
    this.#codes.set(key, code)
    return code
  }

  global(name: string): { address: number; byteLength: number } | undefined {
    const variable = this.#text.variables.get(name)
    if (variable === undefined) return undefined
    return { address: this.#addressOf(name, undefined), byteLength: variable.byteLength }
  }

  #addressOf(name: string, decoded: Decoded | undefined): number {
    const known = this.#addresses.get(name)
    if (known !== undefined) return known
    const variable = this.#text.variables.get(name)
    if (variable === undefined || variable.external) {
      const place = decoded?.instruction ?? { line: variable?.line ?? 1 }
      throw ptxError('ERR_COMPILATION', `The variable '${name}' is not in this module: link it in`, place)
    }
    const address = this.host.allocate(Math.max(1, variable.byteLength), Math.max(32, variable.alignment))
    this.#addresses.set(name, address)
    this.host.memory.add(address, Math.max(1, variable.byteLength), {
      load: (bytes) => this.#initialise(variable, bytes),
    })
    return address
  }

  #initialise(variable: Variable, bytes: Uint8Array): void {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    for (const { offset, bytes: width, value, symbol } of variable.initial) {
      let whole = value
      if (symbol !== undefined) {
        const fn = this.#text.functions.get(this.#text.aliases.get(symbol) ?? symbol)
        if (fn !== undefined) whole += FUNCTION_WINDOW + BigInt(16 * functionNumber(this.#text, fn.name))
        else whole += BigInt(this.#addressOf(symbol, undefined))
      }
      if (width === 8) view.setBigInt64(offset, BigInt.asIntN(64, whole), true)
      else if (width === 4) view.setInt32(offset, Number(BigInt.asIntN(32, whole)), true)
      else if (width === 2) view.setInt16(offset, Number(BigInt.asIntN(16, whole)), true)
      else view.setInt8(offset, Number(BigInt.asIntN(8, whole)))
    }
  }
}
