/** Tests of kernels against references of their own: on the engine, whose results must be those that a GPU gave, and on a GPU. */
import { test } from 'node:test'
import { ofTheDay } from '../helpers/of-the-day.js'
import { GpuMachine } from './gpu-machine.js'
import { architecturesOf, Machine, type NumericArray, ptxOf, randomNumbers, type TestLaunch } from './machine.js'
import { Results } from './recorded.js'

const gpu = GpuMachine.open()
/** How many tests each kernel has so far: their results are recorded by number. */
const timesSeen = new Map<string, number>()

/** The number of tests of kernels so far: a third of them is also played in parts. */
let kernels = 0

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

/** Tests one kernel of a file, as NVRTC compiled it for sm_75 and, where that is other code, for sm_90. */
export function kernelTest(
  file: string,
  kernel: string,
  check: (scene: Scene) => void,
  options: KernelTestOptions = {},
): void {
  for (const architecture of options.architectures ?? architecturesOf(file)) {
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
  kernels += 1
  const inParts = ofTheDay([0, 1, 2], 3).includes(kernels % 3)
  if (inParts)
    test(`${title} [in parts]`, () =>
      checkInParts(file, kernel, architecture, check, onGpu === 'same bits' ? results.key : undefined))
  if (typeof gpu === 'string' || onGpu === 'not played') return
  test(`${title} [${gpu.name}]`, () => {
    check(sceneOn(gpu, ptxOf(file), kernel, architecture, (arrays) => results.ofGpu(arrays)))
    if (onGpu === 'same bits') results.record(gpu.name)
  })
}

/** Plays a test where each launch rests now and then, as it does while the event loop turns: it has the same bits. */
function checkInParts(
  file: string,
  kernel: string | undefined,
  architecture: number,
  check: (scene: Scene) => void,
  key: string | undefined,
): void {
  const random = randomNumbers(5)
  const machine = new Machine(() => Math.floor(10 ** (3 + 3 * random())))
  const results = new Results(key ?? '')
  check(sceneOn(machine, ptxOf(file), kernel, architecture, (arrays) => results.ofEngine(arrays)))
  if (key !== undefined) results.compare()
}
