/** Files of CUDA C++ for sm_90: tensor maps among the parameters, and clusters. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Module } from 'cuda-streams'
import { compileCu } from 'cuda-streams/cu'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { onEveryBackend } from '../helpers/suite.js'
import { cuFile } from './cu-files.js'
import { machine, ramp } from './machine.js'

const compile = () => compileCu(cuFile('tiles.cu'), { arch: 'compute_90' })

onEveryBackend('files of CUDA C++ for sm_90', (bench) => {
  const skip = lacksNvrtc() || (bench.device.computeCapability.major < 9 && 'needs compute capability 9.0')

  test('a parameter CUtensorMap takes a tensor map, with what the kernel does by it', { skip }, async () => {
    const { ptx, kernels } = await compile()
    const [{ name = '', signature } = {}] = kernels
    assert.deepEqual(signature, ['in tensorMap', 'out tensorMap'])
    using module = Module.load(ptx, { device: bench.device })
    const transpose = module.kernel(name, ['in tensorMap', 'out tensorMap'])
    const { stream, put } = machine(bench)
    const [rows, columns] = [32, 48]
    const values = ramp(rows * columns, (i) => i)
    const [from, to] = [put(values), put(new Float32Array(rows * columns))]
    const box = [16, 16]
    const maps = [
      from.tensorMap({ type: 'f32', shape: [rows, columns], box }),
      to.tensorMap({ type: 'f32', shape: [columns, rows], box }),
    ] as const
    stream.launch(transpose, { grid: [columns / 16, rows / 16], block: 64 }, ...maps)
    const turned = await stream.download(to, Float32Array)
    assert.deepEqual(
      turned,
      values.map((_, i) => (i % rows) * columns + Math.floor(i / rows)),
    )
  })

  test('a kernel has the clusters that it requires', { skip }, async () => {
    const { ptx, kernels } = await compile()
    using module = Module.load(ptx, { device: bench.device })
    const sum = module.kernel(kernels[1]?.name ?? '', ['in i32*', 'out i32*'])
    const { stream, put } = machine(bench)
    const sums = put(new Int32Array(2))
    stream.launch(sum, { grid: 8, block: 32 }, put(Int32Array.from({ length: 256 }, (_, i) => i)), sums)
    assert.deepEqual(await stream.download(sums, Int32Array), Int32Array.of(8128, 24_512))
  })
})
