/** What tests of all of the package know of cuda-streams/cublas. */
import assert from 'node:assert/strict'
import type { DeviceBuffer, Stream } from 'cuda-streams'
import * as module from 'cuda-streams/cublas'
import { Cublas, type GeamOptions, type GemmOptions, type StridedBatchOptions } from 'cuda-streams/cublas'
import { type Call, onlySimulated, withOptions } from '../../catalogue/call.js'
import { BYTES } from '../../catalogue/lab.js'
import type { Scene } from '../../catalogue/scene.js'
import { type AboutLibrary, deviceBuffers, lackOf, mayWait, nodes } from '../about-library.js'

/** 1, 2 and 16 as f32: the sum and the product of two matrices of 16 x 16 ones. */
const ONE = 0x3f800000
const TWO = 0x40000000
const SIXTEEN = 0x41800000
const SUM = { type: 'f32', m: 16, n: 16 } as const
const SHAPE = { ...SUM, k: 16 } as const
/** All options of a sum, of a product, and of a batch of one. */
const ADDED = {
  type: () => 'f32' as const,
  ...{ m: () => 16, n: () => 16, alpha: () => 1, beta: () => 1, order: () => 'row' as const },
  ...{ transposeA: () => false, transposeB: () => false, lda: () => 16, ldb: () => 16, ldc: () => 16 },
}
const PRODUCT = { ...ADDED, k: () => 16, beta: () => 0 }
const BATCH = { ...PRODUCT, batchCount: () => 1, strideA: () => 256, strideB: () => 256, strideC: () => 256 }

const lacks: NonNullable<Call['lacks']> = ({ lab }) =>
  lab.once('cuBLAS', () => lackOf(() => new Cublas({ device: lab.allocationStream.device }).close()))

const matrix = (name: string) => ({ name, word: ONE, takes: 'of the device' as const })
const sum = { name: 'sum', word: 0, becomes: () => TWO, takes: 'of the device' as const }
const product = { name: 'product', word: 0, becomes: () => SIXTEEN, takes: 'of the device' as const }

function matrices(scene: Scene): readonly [DeviceBuffer, DeviceBuffer, DeviceBuffer] {
  return deviceBuffers(scene, 3) as [DeviceBuffer, DeviceBuffer, DeviceBuffer]
}

/** cuBLAS on the stream, which has computed such a product before: the first of its kind may load code. */
function warmCublas(
  scene: Scene,
  kind: string,
  warm: (cublas: Cublas, stream: Stream, buffers: readonly [DeviceBuffer, DeviceBuffer]) => void,
): Cublas {
  const cublas = scene.keep(new Cublas({ device: scene.stream.device }))
  scene.closers.set('the Cublas', () => cublas.close())
  const { lab, device, stream } = scene
  lab.once(kind, () => {
    const buffers = [0, 1].map(() => device.alloc(BYTES, { stream })) as [DeviceBuffer, DeviceBuffer]
    warm(cublas, stream, buffers)
    for (const buffer of buffers) buffer.close()
  })
  return cublas
}

/** So many products of a kind of their own. */
let newKinds = 0

const calls: readonly Call[] = [
  {
    name: 'cublas.gemm() of a kind that was not computed before',
    members: [],
    act: 'queues by a library',
    slow: true,
    waits: 'loading',
    nodes,
    lacks,
    prepare: (scene) => {
      const { device, stream, lab } = scene
      const cublas = scene.keep(new Cublas({ device: stream.device }))
      newKinds += 1
      const size = 8 + newKinds
      const [a, b, c] = [0, 0, 0].map(() => scene.keep(device.alloc(4 * size, { stream: lab.allocationStream })))
      assert.ok(a !== undefined && b !== undefined && c !== undefined)
      return () => cublas.gemm(stream, a, b, c, { type: 'f32', m: 1, n: size, k: 1 })
    },
  },
  {
    name: 'new Cublas(), cublas.version and cublas.close()',
    members: ['new Cublas', 'Cublas#version', 'Cublas#close', 'Cublas#[Symbol.dispose]'],
    act: 'makes',
    waits: mayWait,
    lacks,
    prepare: (scene) => () => {
      using cublas = new Cublas({ device: scene.stream.device })
      const { version } = cublas
      cublas.close()
      return version
    },
  },
  withOptions({
    name: 'new Cublas(options)',
    members: ['new Cublas'],
    act: 'makes',
    apart: 'it has a row without options',
    memory: [{ name: 'workspace', takes: 'of the device' }],
    lacks,
    options: {
      values: { device: ({ device }) => device, workspace: (scene) => scene.buffer(0) as DeviceBuffer },
      lacks: onlySimulated,
    },
    prepare: (scene) => (options) => scene.keep(new Cublas(options)),
  }),
  withOptions({
    name: 'cublas.gemm()',
    members: ['Cublas#gemm'],
    act: 'queues by a library',
    waits: mayWait,
    memory: [matrix('matrix A'), matrix('matrix B'), product],
    nodes,
    takesRoom: 'on both drivers',
    uses: ['the Cublas'],
    lacks,
    options: { values: PRODUCT, lacks: onlySimulated },
    prepare: (scene) => {
      const cublas = warmCublas(scene, 'a product', (one, on, [a, c]) => one.gemm(on, a, a, c, SHAPE))
      const [a, b, c] = matrices(scene)
      return (options: GemmOptions = SHAPE) => cublas.gemm(scene.stream, a, b, c, options)
    },
  }),
  withOptions({
    name: 'cublas.geam()',
    members: ['Cublas#geam'],
    act: 'queues by a library',
    waits: mayWait,
    memory: [matrix('matrix A'), matrix('matrix B'), sum],
    nodes,
    takesRoom: 'on both drivers',
    uses: ['the Cublas'],
    lacks,
    options: { values: ADDED, lacks: onlySimulated },
    prepare: (scene) => {
      const cublas = warmCublas(scene, 'a sum', (one, on, [a, c]) => one.geam(on, a, a, c, SUM))
      const [a, b, c] = matrices(scene)
      return (options: GeamOptions = SUM) => cublas.geam(scene.stream, a, b, c, options)
    },
  }),
  withOptions({
    name: 'cublas.gemmStridedBatched()',
    members: ['Cublas#gemmStridedBatched'],
    act: 'queues by a library',
    waits: mayWait,
    memory: [matrix('matrix A'), matrix('matrix B'), product],
    nodes,
    takesRoom: 'on both drivers',
    uses: ['the Cublas'],
    lacks,
    options: { values: BATCH, lacks: onlySimulated },
    slow: true,
    prepare: (scene) => {
      const cublas = warmCublas(scene, 'a batch', (one, on, [a, c]) =>
        one.gemmStridedBatched(on, a, a, c, { ...SHAPE, batchCount: 1 }),
      )
      const [a, b, c] = matrices(scene)
      return (options: StridedBatchOptions = { ...SHAPE, batchCount: 1 }) =>
        cublas.gemmStridedBatched(scene.stream, a, b, c, options)
    },
  }),
]

export const about: AboutLibrary = {
  module,
  objects: (stream) => [new Cublas({ device: stream.device })],
  calls,
  accesses: ({ dataOf, memoryOf, numberOf }) =>
    [true, false].map((writes) => ({
      name: writes ? 'cublas C' : 'cublas A',
      writes,
      on: 'device',
      run: (stage, side, stream) => {
        const cublas = new Cublas({ device: stream.device })
        const [x, y] = [memoryOf(stage, 'one'), memoryOf(stage, `seen by ${side}`)]
        const data = dataOf(stage) as DeviceBuffer
        if (writes) cublas.gemm(stream, x, x, data, { type: 'f32', m: 1, n: 1, k: 1, alpha: numberOf(side) })
        else cublas.gemm(stream, data, x, y, { type: 'f32', m: 1, n: 1, k: 1 })
        cublas.close()
      },
    })),
}
