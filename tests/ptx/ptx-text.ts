/** Tests of PTX that stands in the test: on the engine, and on a GPU where there is one, with the same expected values. */
import { test } from 'node:test'
import { GpuMachine } from './gpu-machine.js'
import { Machine, type NumericArray, type TestLaunch } from './machine.js'

export interface TextScene {
  /** Launches a kernel of the text; arrays go to the device before, and come back into themselves after. */
  run(name: string, options: TestLaunch, parameters: readonly (number | bigint | NumericArray)[]): void
}

const gpu = GpuMachine.open()

/** Tests a text of PTX on the engine, and on a GPU unless `gpuHasIt` is false, as for forms that newer ones have. */
export function onEveryMachine(title: string, text: string, check: (scene: TextScene) => void, gpuHasIt = true): void {
  test(title, () => {
    const machine = new Machine()
    const module = machine.load(text)
    check({
      run: (name, options, parameters) =>
        passing(machine, parameters, (values) => machine.run(module, name, options, values)),
    })
  })
  if (typeof gpu === 'string' || !gpuHasIt) return
  test(`${title} [${gpu.name}]`, () => {
    const module = gpu.load(text)
    check({
      run: (name, options, parameters) => passing(gpu, parameters, (values) => gpu.run(module, name, options, values)),
    })
  })
}

function passing(
  machine: { put(array: NumericArray): number; get<T extends NumericArray>(address: number, like: T): T },
  parameters: readonly (number | bigint | NumericArray)[],
  launch: (values: readonly (number | bigint)[]) => void,
): void {
  const arrays = new Map<NumericArray, number>()
  const values = parameters.map((each) => {
    if (typeof each !== 'object') return each
    const address = arrays.get(each) ?? machine.put(each)
    arrays.set(each, address)
    return address
  })
  launch(values)
  for (const [array, address] of arrays) array.set(machine.get(address, array) as never)
}
