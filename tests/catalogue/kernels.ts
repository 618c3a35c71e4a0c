/** Kernels, modules and green contexts. */
import assert from 'node:assert/strict'
import {
  defineKernel,
  type ForeignKernelOptions,
  Kernel,
  type LaunchConfig,
  Module,
  Program,
  Stream,
} from 'cuda-streams'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { added, addedByPtx, CONFIG, kernelOf, needsCompiler, PTX, SIGNATURE } from './adding.js'
import { type Call, closing, withOptions } from './call.js'
import { BYTES, WORDS } from './lab.js'
import { ADDED, addedTo, FULL_CONFIG, LAUNCH_OPTIONS } from './launches.js'
import { OWNED } from './values.js'

const WITHOUT_NVRTC = lacksNvrtc()

/** Of a source alone: on the simulator a kernel with a host implementation needs no compiler. */
const needsSource: NonNullable<Call['lacks']> = ({ bench, lab }) =>
  bench.name === 'sim' ? WITHOUT_NVRTC || undefined : needsCompiler({ bench, lab })

const kernels: readonly Call[] = [
  withOptions({
    name: 'stream.launch(a kernel with a host implementation)',
    members: ['Stream#launch'],
    act: 'queues',
    memory: [addedTo],
    takesRoom: 'on both drivers',
    lacks: needsCompiler,
    options: { values: LAUNCH_OPTIONS },
    prepare:
      (scene) =>
      (config: LaunchConfig = CONFIG) =>
        scene.stream.launch(added, config, scene.buffer(0), WORDS, ADDED),
  }),
  {
    name: 'stream.launch(a kernel with a host implementation) with attributes',
    members: [],
    act: 'queues',
    memory: [addedTo],
    takesRoom: 'on both drivers',
    lacks: needsCompiler,
    prepare: (scene) => () => scene.stream.launch(added, FULL_CONFIG, scene.buffer(0), WORDS, ADDED),
  },
  {
    name: 'stream.launch(kernel)',
    members: [],
    act: 'queues',
    memory: [addedTo],
    takesRoom: 'on both drivers',
    uses: ['the module'],
    prepare: (scene) => {
      const kernel = kernelOf(scene)
      scene.closers.set('the module', () => {
        kernel.module.close()
        scene.lab.forget('a kernel')
      })
      return () => scene.stream.launch(kernel, CONFIG, scene.buffer(0), WORDS, ADDED)
    },
  },
  withOptions({
    name: 'device.split()',
    members: ['Device#split'],
    act: 'makes',
    slow: true,
    // CUDA waits for the whole device, so host functions run first.
    waits: 'everything',
    withoutStream: true,
    options: { values: { multiprocessors: () => [8] as const } },
    prepare:
      (scene) =>
      (options = { multiprocessors: [8] as const }) => {
        for (const part of scene.device.split(options)) scene.keep(part)
      },
  }),
  ...closing(
    'greenContext',
    'GreenContext',
    (scene) => {
      const [context, rest] = scene.device.split({ multiprocessors: [8] })
      rest.close()
      return context
    },
    { slow: true },
  ),
  ...closing(
    'a green context with a stream: greenContext',
    'GreenContext',
    (scene) => {
      const [context, rest] = scene.device.split({ multiprocessors: [8] })
      rest.close()
      scene.keep(new Stream({ context }))
      return context
    },
    { slow: true },
  ),
  {
    name: 'Module.load()',
    members: ['Module.load'],
    act: 'makes',
    // CUDA waits for the whole device, so host functions run first.
    waits: ({ bench }) => (bench.name === 'sim' ? 'loading' : 'everything'),
    prepare: (scene) => () => scene.keep(Module.load(PTX, { device: scene.device })).closed,
  },
  {
    name: 'module.kernel() and kernel.activeBlocks()',
    members: ['Module#kernel', 'Kernel#activeBlocks'],
    act: 'makes',
    prepare: (scene) => {
      const { module } = kernelOf(scene)
      return () => module.kernel('add', SIGNATURE).activeBlocks(WORDS)
    },
    answers: (_scene, value) => assert.ok((value as number) > 0),
  },
  withOptions({
    name: 'Kernel.from()',
    members: ['Kernel.from', 'Kernel#handle', 'Module#handle'],
    act: 'makes',
    options: { values: OWNED, closedCodes: ['ERR_INVALID_HANDLE'] },
    prepare: (scene) => {
      const { handle } = kernelOf(scene)
      return (options: ForeignKernelOptions = { device: scene.device }) => {
        const kernel = Kernel.from(handle, SIGNATURE, options)
        scene.keep(kernel.module)
        return kernel.handle - handle
      }
    },
    answers: (_scene, value) => assert.equal(value, 0n),
  }),
  {
    name: 'module.global()',
    members: ['Module#global'],
    act: 'makes',
    prepare: (scene) => {
      const { module } = kernelOf(scene)
      return () => module.global('words').byteLength
    },
    answers: (_scene, value) => assert.equal(value, 16),
  },
  {
    name: 'kernel.global()',
    members: ['DefinedKernel#global'],
    act: 'makes',
    prepare: (scene) => {
      // Loads it.
      addedByPtx.global('words', scene.device)
      return () => addedByPtx.global('words', scene.device).byteLength
    },
    answers: (_scene, value) => assert.equal(value, 16),
  },
  ...closing('module', 'Module', ({ device }) => Module.load(PTX, { device })),
  {
    name: 'Program.compile()',
    members: ['Program.compile'],
    act: 'makes',
    slow: true,
    lacks: needsSource,
    prepare: (scene) => () =>
      Program.compile('extern "C" __global__ void nothing() {}', { device: scene.device }).then((module) =>
        module.close(),
      ),
  },
  {
    name: 'kernel.prepare(device)',
    members: ['DefinedKernel#prepare', 'defineKernel'],
    act: 'makes',
    slow: true,
    lacks: needsCompiler,
    prepare: (scene) => {
      const one = defineKernel({
        name: 'one',
        source: 'extern "C" __global__ void one(unsigned char* bytes) { *bytes = 1; }',
        signature: ['out u8*'],
        simulateGrid: (_grid, bytes) => bytes.fill(1, 0, 1),
      })
      return () => one.prepare(scene.device)
    },
  },
  {
    name: 'the first launch of a kernel that was not prepared',
    members: [],
    act: 'queues',
    slow: true,
    waits: ({ bench }) => (bench.name === 'sim' ? 'loading' : 'everything'),
    lacks: needsCompiler,
    prepare: (scene) => {
      const buffer = scene.keep(scene.device.alloc(BYTES, { stream: scene.lab.allocationStream }))
      const first = defineKernel({
        name: 'first',
        source: 'extern "C" __global__ void first(unsigned char* bytes) { *bytes = 1; }',
        signature: ['out u8*'],
        simulateGrid: (_grid, bytes) => bytes.fill(1, 0, 1),
      })
      return () => scene.stream.launch(first, { grid: 1, block: 1 }, buffer)
    },
  },
]

export const kernelCalls: readonly Call[] = kernels
