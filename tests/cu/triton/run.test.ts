/** Ten kernels of Triton on the simulator, and what an H200 made of the same code and arguments. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { brotliDecompressSync } from 'node:zlib'
import type { DeviceBuffer } from 'cuda-streams'
import { TritonKernel } from 'cuda-streams/triton'
import { root } from '../../helpers/root.js'
import { onEveryBackend } from '../../helpers/suite.js'
import { simWorkbench } from '../../helpers/workbench.js'
import { CASES, type Case, fromF16, type Numbers } from './cases.js'
import { importStored } from './triton-files.js'

interface Recorded {
  readonly device: string
  /** Arrays as base64, by the names of cases. */
  readonly outputs: Readonly<Record<string, readonly string[]>>
}

const file = join(root, 'tests', 'cu', 'triton', 'recorded.json.br')
const recorded: Recorded = JSON.parse(brotliDecompressSync(readFileSync(file)).toString())

const numbersOf = (values: Numbers, { ofHalves = false }: Case): ArrayLike<number> =>
  ofHalves ? Float32Array.from(values, fromF16) : values

function compare(found: ArrayLike<number>, expected: ArrayLike<number>, most: number, what: string): void {
  assert.equal(found.length, expected.length)
  for (let at = 0; at < found.length; at++) {
    const difference = Math.abs((found[at] ?? Number.NaN) - (expected[at] ?? 0))
    assert.ok(difference <= most, `${what}: element ${at} is ${found[at]}, and not ${expected[at]}`)
  }
}

onEveryBackend('kernels of Triton', (bench) => {
  for (const each of CASES) {
    test(`${each.name} is what JavaScript and an H200 make of it`, async () => {
      const kernel = (await importStored(each.file))[each.kernel]
      assert.ok(kernel instanceof TritonKernel)
      const meta = kernel.configs[each.config ?? 0]
      if (meta !== undefined) kernel.choose({ meta })
      const stream = bench.stream()
      const args = each.arguments.map((given) => (typeof given === 'number' ? given : stream.bufferFrom(given)))
      stream.launch(kernel, { grid: [...each.grid] }, ...args)
      const gpu = recorded.outputs[each.name] ?? []
      for (const [number, [index, expected]] of [...each.expected].entries()) {
        const given = each.arguments[index]
        assert.ok(typeof given === 'object')
        const found = await stream.download(args[index] as DeviceBuffer, given.constructor as Uint16ArrayConstructor)
        compare(numbersOf(found, each), expected, each.error, 'JavaScript')
        const bytes = Buffer.from(gpu[number] ?? '', 'base64')
        const ofGpu = new (given.constructor as Uint16ArrayConstructor)(Uint8Array.from(bytes).buffer)
        compare(numbersOf(found, each), numbersOf(ofGpu, each), each.gpuError ?? 0, recorded.device)
      }
    })
  }
})

test('a fault names the line of the file of Python', async () => {
  const { device, stream: make } = simWorkbench()
  const { add } = await importStored('add.py')
  assert.ok(add instanceof TritonKernel)
  const stream = make()
  const [x, out] = [device.alloc(64, { stream }), device.alloc(4096, { stream })]
  stream.launch(add, { grid: 1 }, x, out, out, 1024)
  await assert.rejects(stream.finished(), (error: Error) => {
    assert.match(error.message, /add\.py:11\b/)
    return true
  })
})
