/** A simulated machine for tests of src/ptx alone: memory, modules of checked-in PTX, and launches. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { DeviceMemory } from '../../src/ptx/device-memory.js'
import { KernelLaunch } from '../../src/ptx/launch.js'
import { PtxModule } from '../../src/ptx/ptx.js'
import { root } from '../helpers/root.js'
import { GpuMachine } from './gpu-machine.js'
import { type NumericArray, parameterBytes, type TestLaunch, triple } from './launches.js'
import { Results } from './recorded.js'

export type { NumericArray, TestLaunch } from './launches.js'

export class Machine {
  readonly memory = new DeviceMemory()
  #next = 0x7f00_0000_0000

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
    const { recorded = false, checked = false } = options
    const code = module.code(name, { recorded, checked })
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
    while (launch.run(options.budget) === 'more') {}
    return launch
  }
}

const texts = new Map<string, string>()

export function ptxOf(name: string): string {
  const known = texts.get(name)
  if (known !== undefined) return known
  const text = readFileSync(join(root, 'tests/ptx/kernels', `${name}.ptx`), 'utf8')
  texts.set(name, text)
  return text
}

/** What a test of a kernel needs of a machine: the engine, or a GPU. */
export interface KernelMachine {
  put(array: NumericArray): number
  set(address: number, array: NumericArray): void
  get<T extends NumericArray>(address: number, like: T): T
}

export interface KernelModule {
  readonly kernels: readonly string[]
  global(name: string): { readonly address: number; readonly byteLength: number } | undefined
}

export interface Scene {
  readonly machine: KernelMachine
  readonly module: KernelModule
  readonly architecture: number
  /** Launches the kernel of the test; arrays go to the device before, and come back into themselves after. */
  launch(options: TestLaunch, ...parameters: readonly (number | bigint | NumericArray | Value)[]): void
}

/** A parameter that is passed as it is, not as the address of memory. */
export class Value {
  constructor(readonly bytes: NumericArray) {}
}

/** A scene on a machine: each launch gives its arrays to `seen`, by the name of the file and the kernel. */
function sceneOn<M extends KernelModule>(
  machine: KernelMachine & {
    load(text: string): M
    run(module: M, name: string, options: TestLaunch, parameters: readonly (number | bigint | NumericArray)[]): unknown
  },
  text: string,
  kernel: string | undefined,
  architecture: number,
  seen: (arrays: readonly NumericArray[]) => void,
): Scene {
  const module = machine.load(text)
  const name = kernel ?? module.kernels[0] ?? ''
  return {
    machine,
    module,
    architecture,
    launch: (options, ...parameters) => {
      const arrays = new Map<NumericArray, number>()
      const values = parameters.map((each) => {
        if (each instanceof Value) return each.bytes
        if (typeof each !== 'object') return each
        const address = arrays.get(each) ?? machine.put(each)
        arrays.set(each, address)
        return address
      })
      try {
        machine.run(module, name, options, values)
      } finally {
        for (const [array, address] of arrays) array.set(machine.get(address, array) as never)
      }
      seen([...arrays.keys()])
    },
  }
}

export interface KernelTestOptions {
  readonly architectures?: readonly number[]
  /**
   * What a GPU says of it. 'same bits': its results are recorded, and the engine must have them. 'any order': the result depends on
   * which thread comes first, so that only the test's own reference counts. 'not played': the test is about faults, printing or time.
   */
  readonly gpu?: 'same bits' | 'any order' | 'not played'
}

/** Tests one kernel of a file, as NVRTC compiled it for sm_75 and for sm_90. */
export function kernelTest(
  file: string,
  kernel: string,
  check: (scene: Scene) => void,
  options: KernelTestOptions = {},
): void {
  for (const architecture of options.architectures ?? [75, 90]) {
    onEachMachine(`${file}.sm_${architecture}`, kernel, architecture, check, options)
  }
}

/** Plays a test on the engine, and on the GPU where there is one. */
export function onEachMachine(
  file: string,
  kernel: string | undefined,
  architecture: number,
  check: (scene: Scene) => void,
  options: KernelTestOptions = {},
): void {
  const title = `${file}${kernel === undefined ? '' : `, ${kernel},`} computes what its reference does`
  const key = `${file} ${kernel ?? ''}`.trim()
  const nth = (timesSeen.get(key) ?? 0) + 1
  timesSeen.set(key, nth)
  const results = new Results(nth === 1 ? key : `${key} ${nth}`)
  const onGpu = options.gpu ?? 'same bits'
  test(title, () => {
    check(sceneOn(new Machine(), ptxOf(file), kernel, architecture, (arrays) => results.ofEngine(arrays)))
    if (onGpu === 'same bits') results.compare()
  })
  if (typeof gpu === 'string' || onGpu === 'not played') return
  test(`${title} [${gpu.name}]`, () => {
    check(sceneOn(gpu, ptxOf(file), kernel, architecture, (arrays) => results.ofGpu(arrays)))
    if (onGpu === 'same bits') results.record(gpu.name)
  })
}

const gpu = GpuMachine.open()
const timesSeen = new Map<string, number>()

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
