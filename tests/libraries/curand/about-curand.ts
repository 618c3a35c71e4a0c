/** What tests of all of the package know of cuda-streams/curand. */
import assert from 'node:assert/strict'
import type { DeviceBuffer } from 'cuda-streams'
import * as module from 'cuda-streams/curand'
import { RandomGenerator } from 'cuda-streams/curand'
import type { Call } from '../../catalogue/call.js'
import { BYTES } from '../../catalogue/lab.js'
import type { Scene } from '../../catalogue/scene.js'
import { type AboutLibrary, lackOf, mayWait, nodes, onlySimulated, zeros } from '../about-library.js'

const lacks: NonNullable<Call['lacks']> = ({ lab }) =>
  lab.once('cuRAND', () => lackOf(() => new RandomGenerator({ stream: lab.allocationStream }).close()))

/** A graph would go on from the state that other work has left. */
const refuses = ({ situation: { capture } }: Scene): readonly string[] =>
  capture?.of === 'the stream' ? ['ERR_UNSUPPORTED', ...(capture.invalidated ? ['901'] : [])] : []

type Generate = (generator: RandomGenerator, buffer: DeviceBuffer) => unknown

/** A call that has generated as many numbers before: the first of a kind may load code. All numbers that it makes are one word. */
const generating = (member: string, generate: Generate, word: number): Call => ({
  name: `generator.${member}()`,
  members: [`RandomGenerator#${member}`],
  act: 'queues by a library',
  waits: mayWait,
  memory: [{ name: 'numbers', word: 0, becomes: () => word, takes: 'of the device' }],
  nodes,
  takesRoom: 'on both drivers',
  uses: ['the generator'],
  lacks,
  refuses,
  slow: member !== 'normal',
  prepare: (scene) => {
    const { device, stream } = scene
    const generator = scene.keep(new RandomGenerator({ stream }))
    scene.closers.set('the generator', () => generator.close())
    using buffer = zeros(device, stream, BYTES)
    generate(generator, buffer)
    generate(generator, buffer)
    const numbers = scene.buffer(0) as DeviceBuffer
    return () => generate(generator, numbers)
  },
})

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
      const generator = scene.keep(new RandomGenerator({ stream }))
      const numbers = scene.keep(device.alloc(64, { stream: lab.allocationStream }))
      return () => generator.bits(numbers)
    },
  },
  {
    name: 'new RandomGenerator() and generator.close()',
    members: ['new RandomGenerator', 'RandomGenerator#close', 'RandomGenerator#[Symbol.dispose]'],
    act: 'makes',
    waits: 'loading',
    lacks,
    prepare: (scene) => () => {
      using generator = new RandomGenerator({ seed: 1, stream: scene.stream })
      generator.close()
    },
  },
  generating('normal', (generator, buffer) => generator.normal(buffer, { mean: 1, stddev: 0 }), ONE),
  generating('logNormal', (generator, buffer) => generator.logNormal(buffer, { mean: 0, stddev: 0 }), ONE),
]

/** The options of a distribution, all of them given. */
const DISTRIBUTION = { type: 'f32', mean: 0, stddev: 1 } as const

export const about: AboutLibrary = {
  module,
  objects: (stream) => [new RandomGenerator({ stream })],
  calls,
  userCode: (forEachOption) => [
    ...forEachOption(
      'new RandomGenerator',
      'new RandomGenerator(options)',
      ({ device, stream }) => ({ seed: 1, offset: 2, device, stream }),
      ['seed', 'offset', 'device', 'stream'],
      { also: ['ERR_INVALID_ARG_TYPE'], lacks: onlySimulated },
      (scene, hooked) => () => scene.keep(new RandomGenerator(hooked())),
    ),
    ...(['uniform', 'normal', 'logNormal'] as const).flatMap((member) =>
      forEachOption(
        `RandomGenerator#${member}`,
        `generator.${member}(buffer, options)`,
        (): Partial<typeof DISTRIBUTION> => (member === 'uniform' ? { type: 'f32' } : { ...DISTRIBUTION }),
        member === 'uniform' ? ['type'] : ['type', 'mean', 'stddev'],
        {
          uses: ['the generator'],
          also: ['ERR_INVALID_ARG_TYPE'],
          lacks: onlySimulated,
        },
        (scene, hooked) => {
          const generator = scene.keep(new RandomGenerator({ stream: scene.stream }))
          scene.closers.set('the generator', () => generator.close())
          const numbers = scene.keep(scene.device.alloc(64, { stream: scene.lab.allocationStream }))
          return () => generator[member](numbers, hooked())
        },
      ),
    ),
  ],
  quietOptions: {},
  options({ stream, buffer, use }, isSimulated) {
    const file = 'libraries/curand/random-generator'
    const make: ReturnType<AboutLibrary['options']> = [
      [file, 'new RandomGenerator()', 'seed, offset, stream, device', (o) => new RandomGenerator(o)],
    ]
    if (!isSimulated) return make
    const generator = use(new RandomGenerator({ stream }))
    const normal = 'type, mean, stddev'
    return [
      ...make,
      [file, 'generator.uniform()', 'type', (o) => generator.uniform(buffer, o)],
      [file, 'generator.normal()', normal, (o) => generator.normal(buffer, o)],
      [file, 'generator.logNormal()', normal, (o) => generator.logNormal(buffer, o)],
    ]
  },
  publicCalls: {
    'generator.normal()': ({ stream, own }) => {
      const generator = new RandomGenerator({ stream })
      return {
        act: () => generator.normal(own, { mean: 1, stddev: 0 }),
        check: async () => assert.deepEqual([...new Set(await stream.download(own, Float32Array))], [1]),
        end: () => generator.close(),
      }
    },
  },
  accesses: ({ dataOf, numberOf }) => [
    {
      name: 'curand output',
      writes: true,
      on: 'device',
      run: (stage, side, stream) => {
        using generator = new RandomGenerator({ seed: numberOf(side), stream })
        generator.uniform(dataOf(stage) as DeviceBuffer)
      },
    },
  ],
}
