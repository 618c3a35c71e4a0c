/** Calls on events, devices, graphs and kernels: rows of the matrix. */
import assert from 'node:assert/strict'
import {
  type CopyNode,
  type Device,
  defineKernel,
  Event,
  type EventOptions,
  type FillNode,
  type FillValueOptions,
  type Graph,
  type GraphExec,
  type GraphNode,
  type KernelNode,
  type LaunchConfig,
  Module,
  PinnedBuffer,
  Program,
  Stream,
} from 'cuda-streams'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { added, addedByPtx, CONFIG, kernelOf, needsCompiler, PTX, SIGNATURE } from './adding.js'
import { type Call, closing, withOptions } from './call.js'
import { BYTES, WORDS } from './lab.js'
import type { Scene } from './scene.js'
import { ANOTHER_PROCESS, EVENT_OPTIONS, OWNED } from './stream-calls.js'

const FILLED = 0x66666666
const ADDED = 5
const written = { name: 'destination', becomes: () => FILLED }
const addedTo = { name: 'operand', becomes: (scene: Scene, times: number) => scene.wordBefore(0) + times * ADDED }

const events: readonly Call[] = [
  withOptions({
    name: 'new Event()',
    members: ['new Event'],
    act: 'makes',
    options: { values: { device: ({ device }) => device, ...EVENT_OPTIONS } },
    prepare:
      (scene) =>
      (options: EventOptions & { device?: Device } = { device: scene.device }) =>
        scene.keep(new Event(options)).handle,
  }),
  withOptions({
    name: 'device.createEvent()',
    members: ['Device#createEvent'],
    act: 'makes',
    options: { values: EVENT_OPTIONS, others: ['device'] },
    prepare:
      (scene) =>
      (options: EventOptions = { timing: true }) =>
        scene.keep(scene.device.createEvent(options)).handle,
  }),
  withOptions({
    name: 'Event.fromHandle()',
    members: ['Event.fromHandle'],
    act: 'makes',
    event: 'behind',
    uses: ['the event'],
    options: { values: OWNED, closedCodes: ['ERR_INVALID_HANDLE'] },
    prepare:
      (scene) =>
      (options: Parameters<typeof Event.fromHandle>[1] = { device: scene.device }) =>
        scene.keep(Event.fromHandle(scene.event.handle, options)),
    answers: (scene, value) => assert.ok((value as Event).equals(scene.event)),
  }),
  withOptions({
    name: 'Event.fromIpcHandle()',
    members: ['Event.fromIpcHandle'],
    act: 'makes',
    refuses: () => ['ERR_INVALID_HANDLE'],
    options: { values: { device: ({ device }) => device }, apart: ANOTHER_PROCESS },
    prepare:
      ({ device }) =>
      (options = { device }) =>
        Event.fromIpcHandle(new Uint8Array(64), options),
  }),
  {
    name: 'event.ipcHandle()',
    members: ['Event#ipcHandle'],
    act: 'makes',
    prepare: (scene) => {
      const event = scene.keep(scene.device.createEvent({ interprocess: true }))
      return () => event.ipcHandle()
    },
    answers: (_scene, value) => assert.equal((value as Uint8Array).length, 64),
  },
  {
    name: 'event.share() and Event.from()',
    members: ['Event#share', 'Event.from'],
    act: 'makes',
    event: 'behind',
    prepare: (scene) => () => Event.from(scene.event.share()),
    answers: (scene, value) => assert.equal(value, scene.event),
  },
  {
    name: 'event.query() of the outside',
    members: ['Event#query'],
    act: 'asks an outside event',
    event: 'before',
    prepare: (scene) => () => scene.event.query(),
    answers: (_scene, value) => assert.equal(value, true),
  },
  {
    name: 'event.query() behind the host function',
    members: [],
    act: 'asks an inside event',
    event: 'behind',
    prepare: (scene) => () => scene.event.query(),
    answers: (scene, value) => assert.ok(!(value && scene.isBehind), 'it is done before the host function has run'),
  },
  {
    name: 'event.query() of one that was never recorded',
    members: [],
    act: 'asks an outside event',
    event: 'never',
    prepare: (scene) => () => scene.event.query(),
    answers: (_scene, value) => assert.equal(value, true),
  },
  {
    name: 'event.synchronize() of the outside',
    members: ['Event#synchronize'],
    act: 'asks an outside event',
    waits: 'perhaps',
    event: 'before',
    prepare: (scene) => () => scene.event.synchronize(),
  },
  {
    name: 'event.synchronize() behind the host function',
    members: [],
    act: 'asks an inside event',
    waits: 'event',
    event: 'behind',
    uses: ['the event'],
    withoutStream: true,
    prepare: (scene) => () => scene.event.synchronize(),
  },
  {
    name: 'event.synchronize() of one that was never recorded',
    members: [],
    act: 'asks an outside event',
    waits: 'perhaps',
    event: 'never',
    prepare: (scene) => () => scene.event.synchronize(),
  },
  {
    name: 'event.finished() of the outside',
    members: ['Event#finished'],
    act: 'makes',
    event: 'before',
    prepare: (scene) => () => scene.event.finished(),
  },
  withOptions({
    name: 'event.finished() behind the host function',
    members: ['Event#finished'],
    act: 'promises an inside event',
    event: 'behind',
    uses: ['the event'],
    options: { values: { signal: () => new AbortController().signal } },
    prepare: (scene) => (options) => scene.event.finished(options),
    answers: ({ ran, isBehind }) => assert.ok(ran === 1 || !isBehind, 'it was done before the host function has run'),
  }),
  {
    name: 'event.finished() of one that was never recorded',
    members: [],
    act: 'makes',
    event: 'never',
    prepare: (scene) => () => scene.event.finished(),
  },
  {
    name: 'event.elapsedSince()',
    members: ['Event#elapsedSince'],
    act: 'makes',
    event: 'before',
    prepare: (scene) => {
      const start = scene.keep(scene.stream.record({ timing: true }))
      return () => scene.event.elapsedSince(start)
    },
    answers: (_scene, value) => assert.ok((value as number) >= 0),
  },
  ...closing('event', 'Event', ({ event }) => event, { event: 'behind' }),
]

const devices: readonly Call[] = [
  {
    name: 'device.synchronize()',
    members: ['Device#synchronize'],
    act: 'waits for the device',
    waits: 'everything',
    withoutStream: true,
    prepare: (scene) => () => scene.device.synchronize(),
  },
  withOptions({
    name: 'device.finished()',
    members: ['Device#finished'],
    act: 'promises the device',
    options: { values: { signal: () => new AbortController().signal } },
    prepare: (scene) => (options) => scene.device.finished(options),
    answers: ({ ran, hold }) => assert.equal(ran, hold === 'nothing' ? 0 : 1, 'so often the host function had run'),
  }),
  {
    name: 'device.drainHostFunctions()',
    members: ['Device#drainHostFunctions'],
    act: 'makes',
    waits: 'everything',
    withoutStream: true,
    prepare: (scene) => () => scene.device.drainHostFunctions(),
  },
]

/** A graph that fills the operand. */
const graphOf = (scene: Scene) => {
  const { allocationStream } = scene.lab
  return scene.keep(allocationStream.capture(() => void allocationStream.fill(scene.buffer(0), FILLED, { width: 4 })))
}
const execOf = (scene: Scene) => {
  const exec = scene.keep(graphOf(scene).instantiate())
  scene.closers.set('the graph exec', () => exec.close())
  return exec
}

/** One node of an instance is given other work, then it is launched. */
function updated<N>(
  what: string,
  memory: NonNullable<Call['memory']>,
  capture: (scene: Scene, allocationStream: Stream) => void,
  nodeOf: (graph: Graph) => N | undefined,
  update: (exec: GraphExec, node: N, scene: Scene) => void,
  lacks?: Call['lacks'],
): Call {
  return {
    name: `stream.launch(exec) of which ${what}`,
    members: [],
    act: 'launches a graph',
    uses: ['the graph exec'],
    memory,
    takesRoom: 'on both drivers',
    lacks: lacks ?? (() => undefined),
    prepare: (scene) => {
      const { allocationStream } = scene.lab
      const graph = scene.keep(allocationStream.capture(() => capture(scene, allocationStream)))
      const exec = scene.keep(graph.instantiate())
      scene.closers.set('the graph exec', () => exec.close())
      const node = nodeOf(graph)
      assert.ok(node !== undefined, 'the graph has the node')
      return () => {
        update(exec, node, scene)
        scene.stream.launch(exec)
      }
    },
  }
}

const HALF = BYTES / 2
const copiedTo = { name: 'destination', becomes: (scene: Scene) => scene.wordRead(1) }
const isCopy = (node: GraphNode): node is CopyNode => node.kind === 'copy'
const isFill = (node: GraphNode): node is FillNode => node.kind === 'fill'

const updates: readonly Call[] = [
  updated(
    'a fill was updated',
    [written],
    (scene, allocationStream) => allocationStream.fill(scene.buffer(0).slice(0, HALF), 1),
    (graph) => graph.nodes.find(isFill),
    (exec, node, scene) => exec.update(node, scene.buffer(0), FILLED, { width: 4 }),
  ),
  updated(
    'a copy was updated',
    [copiedTo, { name: 'source' }],
    (scene, allocationStream) => {
      const [to, from] = [scene.buffer(0), scene.buffer(1)]
      // Within the host it is a host function on a GPU, which no update changes.
      if (to instanceof PinnedBuffer && from instanceof PinnedBuffer) allocationStream.copy(to, from)
      else allocationStream.copy(to.slice(0, HALF), from.slice(HALF, HALF))
    },
    (graph) => graph.nodes[0],
    (exec, node, scene) => {
      if (isCopy(node)) exec.update(node, scene.buffer(0), scene.buffer(1))
    },
  ),
  updated(
    'a fill was switched off',
    [written],
    (scene, allocationStream) =>
      allocationStream.fill(scene.buffer(0), FILLED, { width: 4 }).fill(scene.buffer(0).slice(0, HALF), 1),
    (graph) => graph.nodes.filter(isFill)[1],
    (exec, node) => exec.setEnabled(node, false),
  ),
  updated(
    'a kernel with a host implementation was updated',
    [addedTo],
    (scene, allocationStream) => allocationStream.launch(added, CONFIG, scene.buffer(0), 1, 77),
    (graph) => graph.nodesOf(added)[0],
    (exec, node, scene) => exec.update(node, CONFIG, scene.buffer(0), WORDS, ADDED),
    needsCompiler,
  ),
  updated(
    'a kernel of a module was updated',
    [addedTo],
    (scene, allocationStream) => allocationStream.launch(kernelOf(scene), CONFIG, scene.buffer(0), 1, 77),
    (graph) => graph.nodes.find((node) => node.kind === 'kernel') as KernelNode<typeof SIGNATURE>,
    (exec, node, scene) => exec.update(node, CONFIG, scene.buffer(0), WORDS, ADDED),
  ),
]

const FULL_CONFIG: LaunchConfig = {
  ...CONFIG,
  programmatic: false,
  priority: 0,
  sharedMemoryCarveout: 50,
  memorySyncDomain: 'default',
}
/** A launch has all of these: together they are the full configuration. */
const LAUNCH_OPTIONS = {
  grid: () => 1,
  threads: () => undefined,
  block: () => WORDS,
  sharedMemory: () => 0,
  cooperative: () => false,
  cluster: () => undefined,
  programmatic: () => false,
  priority: () => 0,
  sharedMemoryCarveout: () => 50,
  memorySyncDomain: () => 'default' as const,
  clusterScheduling: () => undefined,
  preferredCluster: () => undefined,
}

const graphs: readonly Call[] = [
  {
    name: 'stream.launch(exec)',
    members: ['Stream#launch'],
    act: 'launches a graph',
    uses: ['the graph exec'],
    memory: [written],
    takesRoom: 'on both drivers',
    prepare: (scene) => {
      const exec = execOf(scene)
      return () => scene.stream.launch(exec)
    },
  },
  {
    name: 'exec.launch(stream)',
    members: ['GraphExec#launch'],
    act: 'launches a graph',
    uses: ['the graph exec'],
    memory: [written],
    takesRoom: 'on both drivers',
    prepare: (scene) => {
      const exec = execOf(scene)
      return () => exec.launch(scene.stream)
    },
  },
  {
    name: 'exec.launch() of a host function',
    members: [],
    act: 'launches a graph',
    uses: ['the graph exec'],
    takesRoom: 'on both drivers',
    prepare: (scene) => {
      const { allocationStream } = scene.lab
      const graph = scene.keep(
        allocationStream.capture(() => void allocationStream.launchHostFunc(() => scene.log.push('call'))),
      )
      const exec = scene.keep(graph.instantiate())
      scene.closers.set('the graph exec', () => exec.close())
      return () => exec.launch(scene.stream)
    },
    answers: ({ log }) => assert.equal(log.filter((each) => each === 'call').length, 1, 'so often the function ran'),
  },
  {
    name: 'stream.launch(graph)',
    members: [],
    act: 'adds a graph',
    memory: [written],
    uses: ['the graph'],
    nodes: () => 1,
    prepare: (scene) => {
      const graph = graphOf(scene)
      scene.closers.set('the graph', () => graph.close())
      return () => scene.stream.launch(graph)
    },
  },
  {
    name: 'stream.launch(graph) of a host function',
    members: [],
    act: 'adds a graph',
    nodes: () => 1,
    prepare: (scene) => {
      const { allocationStream } = scene.lab
      const graph = scene.keep(
        allocationStream.capture(() => void allocationStream.launchHostFunc(() => scene.log.push('call'))),
      )
      return () => scene.stream.launch(graph)
    },
    answers: ({ log, stream }) => {
      if (!stream.closed) assert.equal(log.filter((each) => each === 'call').length, 1, 'so often the function ran')
    },
  },
  ...updates,
  {
    name: 'stream.capture() of a graph and a host function, graph.instantiate() and exec.launch()',
    members: [],
    act: 'begins a capture',
    memory: [written],
    prepare: (scene) => {
      const inner = graphOf(scene)
      return () => {
        const { stream } = scene
        const capture = () => void stream.launch(inner).launchHostFunc(() => scene.log.push('call'))
        scene.keep(scene.keep(stream.capture(capture)).instantiate()).launch(stream)
      }
    },
    answers: ({ log }) => assert.equal(log.filter((each) => each === 'call').length, 1, 'so often the function ran'),
  },
  {
    name: 'exec.upload(stream)',
    members: ['GraphExec#upload'],
    act: 'uploads a graph',
    memory: [{ name: 'destination' }],
    prepare: (scene) => {
      const exec = execOf(scene)
      return () => exec.upload(scene.stream)
    },
  },
  {
    name: 'graph.instantiate()',
    members: ['Graph#instantiate'],
    act: 'makes',
    memory: [{ name: 'destination' }],
    prepare: (scene) => {
      const graph = graphOf(scene)
      return () => scene.keep(graph.instantiate()).closed
    },
  },
  {
    name: 'exec.update(graph)',
    members: ['GraphExec#update'],
    act: 'makes',
    memory: [{ name: 'destination' }],
    prepare: (scene) => {
      const [exec, graph] = [execOf(scene), graphOf(scene)]
      return () => exec.update(graph).closed
    },
  },
  withOptions({
    name: 'exec.update(node, buffer, value), and exec.setEnabled(node, enabled)',
    members: ['GraphExec#update', 'GraphExec#setEnabled'],
    act: 'makes',
    uses: ['the graph', 'the graph exec'],
    options: { values: { width: () => 4 as const, type: () => undefined } },
    memory: [{ name: 'destination' }],
    prepare: (scene) => {
      const graph = graphOf(scene)
      const exec = scene.keep(graph.instantiate())
      scene.closers.set('the graph', () => graph.close())
      scene.closers.set('the graph exec', () => exec.close())
      const [node] = graph.nodes as [FillNode]
      return (options: FillValueOptions = { width: 4 }) => {
        exec.update(node, scene.buffer(0), FILLED, options).setEnabled(node, false).setEnabled(node, true)
        return exec.closed
      }
    },
  }),
  withOptions({
    name: 'exec.update(node, config, ...args)',
    members: ['GraphExec#update'],
    act: 'makes',
    uses: ['the graph', 'the graph exec'],
    options: { values: LAUNCH_OPTIONS },
    memory: [{ name: 'destination' }],
    lacks: needsCompiler,
    prepare: (scene) => {
      const { allocationStream } = scene.lab
      const graph = scene.keep(
        allocationStream.capture(() => void allocationStream.launch(added, FULL_CONFIG, scene.buffer(0), WORDS, ADDED)),
      )
      const exec = scene.keep(graph.instantiate())
      scene.closers.set('the graph', () => graph.close())
      scene.closers.set('the graph exec', () => exec.close())
      const [node] = graph.nodesOf(added)
      assert.ok(node)
      return (config: LaunchConfig = FULL_CONFIG) => exec.update(node, config, scene.buffer(0), WORDS, ADDED).closed
    },
  }),
  {
    name: 'graph.nodes and graph.nodesOf(kernel)',
    members: ['Graph#nodes', 'Graph#nodesOf'],
    act: 'makes',
    memory: [{ name: 'destination' }],
    prepare: (scene) => {
      const graph = graphOf(scene)
      return () => `${graph.nodes.map(({ kind }) => kind)} ${graph.nodesOf(added).length}`
    },
    answers: (_scene, value) => assert.equal(value, 'fill 0'),
  },
  {
    name: 'graph.nodeCount and graph.toDot()',
    members: ['Graph#nodeCount', 'Graph#toDot'],
    act: 'makes',
    memory: [{ name: 'destination' }],
    prepare: (scene) => {
      const graph = graphOf(scene)
      return () => `${graph.nodeCount} ${graph.toDot()}`
    },
    answers: (_scene, value) => assert.match(String(value), /^1 digraph/),
  },
  ...(['close', Symbol.dispose] as const).map(
    (how): Call => ({
      name: `graph${typeof how === 'symbol' ? '[Symbol.dispose]' : '.close'}(), and of its instance, launched or not`,
      members:
        typeof how === 'symbol'
          ? ['Graph#[Symbol.dispose]', 'GraphExec#[Symbol.dispose]']
          : ['Graph#close', 'GraphExec#close'],
      act: 'makes',
      memory: [written],
      prepare: (scene) => {
        const graph = graphOf(scene)
        const [idle, launched] = [graph.instantiate(), graph.instantiate()]
        // Nothing orders the launch after what another device has written.
        scene.lab.settle()
        launched.launch(scene.lab.allocationStream)
        return () => {
          for (const each of [graph, idle, launched]) each[how]()
        }
      },
    }),
  ),
]

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

export const otherCalls: readonly Call[] = [...events, ...devices, ...graphs, ...kernels]
