/** A simulated machine for tests of src/ptx alone: memory, modules of checked-in PTX, and launches. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliDecompressSync } from 'node:zlib'
import { DeviceMemory } from '../../src/ptx/device-memory.js'
import type { Triple } from '../../src/ptx/faults.js'
import type { InStep } from '../../src/ptx/in-step.js'
import type { LaneUse } from '../../src/ptx/lane-shapes.js'
import { KernelLaunch } from '../../src/ptx/launch.js'
import type { LaunchOptions } from '../../src/ptx/launch-options.js'
import type { ParameterLayout } from '../../src/ptx/layout.js'
import { PtxModule } from '../../src/ptx/ptx.js'
import { root } from '../helpers/root.js'

export type NumericArray =
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | Float32Array
  | Float64Array
  | BigInt64Array
  | BigUint64Array

export interface TestLaunch extends LaunchOptions {
  readonly grid?: number | Triple
  readonly block?: number | Triple
  readonly shared?: number
  readonly cooperative?: boolean
  readonly recorded?: boolean
  readonly checked?: boolean
  readonly inStep?: InStep
  readonly lanes?: LaneUse | undefined
  readonly budget?: number
}

export const triple = (given: number | Triple | undefined): Triple =>
  given === undefined ? [1, 1, 1] : typeof given === 'number' ? [given, 1, 1] : given

export class Machine {
  readonly memory = new DeviceMemory()
  #next = 0x7f00_0000_0000

  /** @param budget The instructions of the next part of a launch, where none are given. Default: all. */
  constructor(private readonly budget: () => number | undefined = () => undefined) {}

  allocate(byteLength: number): number {
    const begin = this.#next
    this.#next += Math.ceil((byteLength + 512) / 512) * 512
    return begin
  }

  /** The address of new memory with these contents. */
  put(array: NumericArray): number {
    const begin = this.allocate(array.byteLength)
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
    this.memory.add(begin, array.byteLength, { load: (into) => into.set(bytes) })
    return begin
  }

  set(begin: number, array: NumericArray): void {
    const bytes = this.memory.use(begin, array.byteLength)
    if (bytes === undefined) throw new Error('There is no such block')
    bytes.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength))
  }

  /** What lies at an address now, as an array like `like`. */
  get<T extends NumericArray>(begin: number, like: T): T {
    const bytes = this.memory.use(begin, like.byteLength)
    if (bytes === undefined) throw new Error('There is no such block')
    const copy = like.slice() as T
    new Uint8Array(copy.buffer).set(bytes)
    return copy
  }

  load(text: string): PtxModule {
    return new PtxModule(text, { memory: this.memory, allocate: (byteLength) => this.allocate(byteLength) })
  }

  /** A launch that has not run. */
  prepare(
    module: PtxModule,
    name: string,
    options: TestLaunch,
    parameters: readonly (number | bigint | NumericArray)[],
  ) {
    const { recorded = false, checked = false, inStep = 'volatile', lanes } = options
    const code = module.code(name, { recorded, checked, inStep, ...(lanes === undefined ? {} : { lanes }) })
    return new KernelLaunch(
      code,
      {
        grid: triple(options.grid),
        block: triple(options.block),
        parameters: parameterBytes(name, code.program.parameters, parameters),
        dynamicSharedBytes: options.shared ?? 0,
        cooperative: options.cooperative ?? false,
      },
      options,
    )
  }

  run(module: PtxModule, name: string, options: TestLaunch, parameters: readonly (number | bigint | NumericArray)[]) {
    const launch = this.prepare(module, name, options, parameters)
    while (launch.run(options.budget ?? this.budget()) === 'more') {}
    return launch
  }
}

/** The bytes of a kernel's parameters: numbers are written as the parameters are declared, arrays are their bytes. */
export function parameterBytes(
  name: string,
  layout: ParameterLayout,
  parameters: readonly (number | bigint | NumericArray)[],
): Uint8Array {
  const bytes = new Uint8Array(layout.byteLength)
  const view = new DataView(bytes.buffer)
  for (const [index, [variable, offset]] of [...layout.offsets].entries()) {
    const value = parameters[index]
    if (value === undefined) throw new Error(`${name} has more parameters`)
    if (typeof value === 'object') {
      bytes.set(new Uint8Array(value.buffer, value.byteOffset, value.byteLength), offset)
    } else if (variable.type === 'f32') view.setFloat32(offset, Number(value), true)
    else if (variable.type === 'f64') view.setFloat64(offset, Number(value), true)
    else if (variable.byteLength === 8) view.setBigInt64(offset, BigInt(value), true)
    else view.setInt32(offset, Number(value), true)
  }
  return bytes
}

const texts = new Map<string, string>()
const fileOf = (name: string): string => join(root, 'tests/ptx/kernels', `${name}.ptx.br`)

/** The architectures for which the file is stored: one, where a compiler wrote the same code for all. */
export function architecturesOf(file: string): readonly number[] {
  const architectures = [75, 80, 90].filter((each) => existsSync(fileOf(`${file}.sm_${each}`)))
  if (architectures.length === 0) throw new Error(`No PTX of ${file} is stored`)
  return architectures
}

/** The PTX of a stored file, as a compiler wrote it. */
export function ptxOf(name: string): string {
  const known = texts.get(name)
  if (known !== undefined) return known
  const text = brotliDecompressSync(readFileSync(fileOf(name))).toString()
  texts.set(name, text)
  return text
}

/** Numbers that are the same in each run. */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    let mixed = state ^ (state >>> 16)
    mixed = Math.imul(mixed, 0x45d9f3b)
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32
  }
}

export function floats(count: number, seed = 1, scale = 1): Float32Array {
  const random = randomNumbers(seed)
  return Float32Array.from({ length: count }, () => (random() * 2 - 1) * scale)
}

export function integers(count: number, below: number, seed = 1): Int32Array {
  const random = randomNumbers(seed)
  return Int32Array.from({ length: count }, () => Math.floor(random() * below))
}
