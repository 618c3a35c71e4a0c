/** What tests of all of the package know of cuda-streams/cufft. */
import assert from 'node:assert/strict'
import type { DeviceBuffer, Stream } from 'cuda-streams'
import * as module from 'cuda-streams/cufft'
import { Fft, type FftOptions } from 'cuda-streams/cufft'
import { type Call, onlySimulated, withOptions } from '../../catalogue/call.js'
import { BYTES } from '../../catalogue/lab.js'
import type { Scene } from '../../catalogue/scene.js'
import { type AboutLibrary, deviceBuffers, lackOf, mayWait, nodes, zeros } from '../about-library.js'

/** 1 as f32. The transform of one element is the element. */
const ONE = 0x3f800000
const SINGLE = { type: 'c2c', shape: [1], batch: BYTES / 8 } as const

const lacks: NonNullable<Call['lacks']> = ({ lab }) =>
  lab.once('cuFFT', () => lackOf(() => new Fft({ ...SINGLE, device: lab.allocationStream.device }).close()))

/** A plan that has transformed on the stream before: the first transform there needs memory, and the first of a kind may load code. */
function warmFft(
  scene: Scene,
  warm: (fft: Fft, stream: Stream, buffers: readonly [DeviceBuffer, DeviceBuffer]) => void,
): Fft {
  const { device, stream } = scene
  const fft = scene.keep(new Fft({ ...SINGLE, device: stream.device }))
  scene.closers.set('the Fft', () => fft.close())
  const buffers = [0, 1].map(() => zeros(device, stream, BYTES)) as [DeviceBuffer, DeviceBuffer]
  warm(fft, stream, buffers)
  for (const buffer of buffers) buffer.close()
  return fft
}

/** So many transforms of a kind of their own. */
let newKinds = 0

const calls: readonly Call[] = [
  {
    name: 'fft.forward() of a kind that was not computed before',
    members: [],
    act: 'queues by a library',
    slow: true,
    waits: 'loading',
    nodes,
    lacks,
    prepare: (scene) => {
      const { device, stream, lab } = scene
      newKinds += 1
      const fft = scene.keep(new Fft({ type: 'c2c', shape: [8 + newKinds], device: stream.device }))
      const data = scene.keep(device.alloc(fft.inputBytes, { stream: lab.allocationStream }))
      // It has memory to work in afterwards.
      fft.inverse(stream, data)
      return () => fft.forward(stream, data)
    },
  },
  {
    name: 'new Fft(), its properties and fft.close()',
    members: [
      ...['new Fft', 'Fft#type', 'Fft#shape', 'Fft#batch', 'Fft#inputBytes', 'Fft#outputBytes'],
      ...['Fft#close', 'Fft#[Symbol.dispose]'],
    ],
    act: 'works on the null stream',
    on: 'null',
    waits: 'loading',
    lacks,
    prepare: (scene) => () => {
      using fft = new Fft({ type: 'd2z', shape: [2, 3, 5], batch: 7, device: scene.stream.device })
      const { type, shape, batch, inputBytes, outputBytes } = fft
      assert.deepEqual([type, shape, batch, inputBytes, outputBytes], ['d2z', [2, 3, 5], 7, 1680, 2016])
      fft.close()
    },
  },
  withOptions({
    name: 'new Fft(options)',
    members: ['new Fft'],
    act: 'works on the null stream',
    apart: 'it has a row with its properties',
    lacks,
    options: {
      values: {
        ...{ type: () => SINGLE.type, shape: () => SINGLE.shape, batch: () => SINGLE.batch },
        device: ({ device }: Scene) => device,
      },
      lacks: onlySimulated,
      closedCodes: ['ERR_INVALID_ARG_TYPE'],
    },
    prepare:
      (scene) =>
      (options: FftOptions = SINGLE) =>
        scene.keep(new Fft(options)),
  }),
  {
    name: 'fft.forward()',
    members: ['Fft#forward'],
    act: 'queues by a library',
    waits: mayWait,
    memory: [
      { name: 'input', word: ONE, takes: 'of the device' },
      { name: 'output', word: 0, becomes: () => ONE, takes: 'of the device' },
    ],
    nodes,
    takesRoom: 'on both drivers',
    uses: ['the Fft'],
    lacks,
    prepare: (scene) => {
      const fft = warmFft(scene, (one, on, [from, to]) => one.forward(on, from, to))
      const [from, to] = deviceBuffers(scene, 2) as [DeviceBuffer, DeviceBuffer]
      return () => fft.forward(scene.stream, from, to)
    },
  },
  {
    name: 'fft.inverse() in place',
    members: ['Fft#inverse'],
    act: 'queues by a library',
    waits: mayWait,
    memory: [{ name: 'array', word: ONE, takes: 'of the device' }],
    nodes,
    takesRoom: 'on both drivers',
    uses: ['the Fft'],
    lacks,
    slow: true,
    prepare: (scene) => {
      const fft = warmFft(scene, (one, on, [data]) => one.inverse(on, data))
      const [data] = deviceBuffers(scene, 1) as [DeviceBuffer]
      return () => fft.inverse(scene.stream, data)
    },
  },
]

export const about: AboutLibrary = {
  module,
  objects: (stream) => [new Fft({ type: 'c2c', shape: [2, 4], device: stream.device })],
  calls,
  accesses: ({ dataOf, memoryOf, numberOf }) =>
    [true, false].map((writes) => ({
      name: writes ? 'cufft output' : 'cufft input',
      writes,
      on: 'device',
      run: (stage, side, stream) => {
        using fft = new Fft({ type: writes ? 'c2r' : 'r2c', shape: [1], device: stream.device })
        const data = dataOf(stage) as DeviceBuffer
        const other = memoryOf(stage, `transform of ${side}`, 8)
        if (!writes) {
          fft.forward(stream, data, other)
          stream.copy(memoryOf(stage, `seen by ${side}`), other.subarray(0, 4))
          return
        }
        const [bits = 0] = new Uint32Array(Float32Array.of(numberOf(side)).buffer)
        stream.fill(other, bits, { width: 4 })
        fft.inverse(stream, other, data)
      },
    })),
}
