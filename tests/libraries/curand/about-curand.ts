/** What tests of all of the package know of cuda-streams/curand. */
import type { DeviceBuffer } from 'cuda-streams'
import * as module from 'cuda-streams/curand'
import { type NormalOptions, RandomGenerator, type RandomOptions } from 'cuda-streams/curand'
import { type Call, onlySimulated, withOptions } from '../../catalogue/call.js'
import { BYTES } from '../../catalogue/lab.js'
import type { Scene } from '../../catalogue/scene.js'
import { type AboutLibrary, lackOf, mayWait, nodes, zeros } from '../about-library.js'

const lacks: NonNullable<Call['lacks']> = ({ lab }) =>
  lab.once('cuRAND', () => lackOf(() => new RandomGenerator({ device: lab.allocationStream.device }).close()))

/** A graph would go on from the state that other work has left. */
const refuses = ({ situation: { capture } }: Pick<Scene, 'situation'>): readonly string[] =>
  capture?.of === 'the stream' ? ['ERR_UNSUPPORTED', ...(capture.invalidated ? ['901'] : [])] : []

/** A call that has generated as many numbers before: the first of a kind may load code. All numbers that it makes are one word. */
const generating = (member: 'normal' | 'logNormal', mean: number): Call =>
  withOptions({
    name: `generator.${member}()`,
    members: [`RandomGenerator#${member}`],
    act: 'queues by a library',
    waits: mayWait,
    memory: [{ name: 'numbers', word: 0, becomes: () => ONE, takes: 'of the device' }],
    nodes,
    takesRoom: 'on both drivers',
    uses: ['the generator'],
    lacks,
    refuses,
    slow: member !== 'normal',
    options: {
      values: { type: () => 'f32' as const, mean: () => mean, stddev: () => 0 },
      lacks: onlySimulated,
    },
    prepare: (scene) => {
      const { device, stream } = scene
      const generator = generatorOf(scene)
      using buffer = zeros(device, stream, BYTES)
      const own = { mean, stddev: 0 }
      generator[member](stream, buffer, own)[member](stream, buffer, own)
      const numbers = scene.buffer(0) as DeviceBuffer
      return (options: NormalOptions = own) => generator[member](stream, numbers, options)
    },
  })

function generatorOf(scene: Scene): RandomGenerator {
  const generator = scene.keep(new RandomGenerator({ device: scene.stream.device }))
  scene.closers.set('the generator', () => generator.close())
  return generator
}

/** 1 as f32. Of a distribution without deviation each number is the mean, or e to the power of it. */
const ONE = 0x3f800000

const calls: readonly Call[] = [
  {
    name: 'generator.bits() for the first time',
    members: ['RandomGenerator#bits', 'RandomGenerator#uniform'],
    act: 'queues by a library',
    slow: true,
    waits: 'loading',
    nodes,
    lacks,
    refuses,
    prepare: (scene) => {
      const { device, stream, lab } = scene
      const generator = scene.keep(new RandomGenerator({ device: stream.device }))
      const numbers = scene.keep(device.alloc(64, { stream: lab.allocationStream }))
      return () => generator.bits(stream, numbers)
    },
  },
  withOptions({
    name: 'new RandomGenerator() and generator.close()',
    members: ['new RandomGenerator', 'RandomGenerator#close', 'RandomGenerator#[Symbol.dispose]'],
    act: 'makes',
    waits: 'loading',
    lacks,
    options: {
      values: {
        ...{ seed: () => 1, offset: () => 2 },
        device: ({ device }: Scene) => device,
      },
      lacks: onlySimulated,
    },
    prepare:
      (scene) =>
      (options: RandomOptions = { seed: 1, device: scene.device }) => {
        using generator = new RandomGenerator(options)
        generator.close()
      },
  }),
  generating('normal', 1),
  generating('logNormal', 0),
  withOptions({
    name: 'generator.uniform(stream, buffer, options)',
    members: ['RandomGenerator#uniform'],
    act: 'queues by a library',
    apart: 'its numbers are of the seed: tests/libraries/curand',
    uses: ['the generator'],
    lacks,
    options: { values: { type: () => 'f32' as const }, lacks: onlySimulated },
    prepare: (scene) => {
      const [generator, numbers] = [generatorOf(scene), scene.keep(scene.device.alloc(64))]
      return (options) => generator.uniform(scene.stream, numbers, options)
    },
  }),
]

export const about: AboutLibrary = {
  module,
  objects: (stream) => [new RandomGenerator({ device: stream.device })],
  calls,
  accesses: ({ dataOf, numberOf }) => [
    {
      name: 'curand output',
      writes: true,
      on: 'device',
      run: (stage, side, stream) => {
        using generator = new RandomGenerator({ seed: numberOf(side), device: stream.device })
        generator.uniform(stream, dataOf(stage) as DeviceBuffer)
      },
    },
  ],
}
