/** Graphs, their instances, and nodes that are changed. */
import assert from 'node:assert/strict'
import {
  type CopyNode,
  type FillNode,
  type FillValueOptions,
  type ForeignGraphOptions,
  Graph,
  type GraphExec,
  type GraphNode,
  type KernelNode,
  type LaunchConfig,
  PinnedBuffer,
  type Stream,
} from 'cuda-streams'
import { added, CONFIG, kernelOf, needsCompiler, type SIGNATURE } from './adding.js'
import { type Call, withOptions } from './call.js'
import { BYTES, WORDS } from './lab.js'
import { ADDED, addedTo, FULL_CONFIG, LAUNCH_OPTIONS } from './launches.js'
import type { Scene } from './scene.js'
import { OWNED } from './values.js'

const FILLED = 0x66666666

const written = { name: 'destination', becomes: () => FILLED }

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
    (scene, allocationStream) => allocationStream.fill(scene.buffer(0).subarray(0, HALF), 1),
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
      else allocationStream.copy(to.subarray(0, HALF), from.subarray(HALF, 2 * HALF))
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
      allocationStream.fill(scene.buffer(0), FILLED, { width: 4 }).fill(scene.buffer(0).subarray(0, HALF), 1),
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
  withOptions({
    name: 'Graph.from()',
    members: ['Graph.from', 'Graph#handle'],
    act: 'makes',
    memory: [{ name: 'destination' }],
    options: { values: OWNED, closedCodes: ['ERR_INVALID_HANDLE'] },
    prepare: (scene) => {
      const { handle } = graphOf(scene)
      return (options: ForeignGraphOptions = { device: scene.device }) =>
        scene.keep(Graph.from(handle, options)).handle - handle
    },
    answers: (_scene, value) => assert.equal(value, 0n),
  }),
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
    name: 'exec.update(node, buffer, value), exec.setEnabled(node, enabled) and exec.isEnabled(node)',
    members: ['GraphExec#update', 'GraphExec#setEnabled', 'GraphExec#isEnabled'],
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
        return exec.closed || !exec.isEnabled(node)
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
  withOptions({
    name: 'graph.toDot(options)',
    members: ['Graph#toDot'],
    act: 'makes',
    options: { of: 'Graph#toDot', values: { verbose: () => true } },
    memory: [{ name: 'destination' }],
    prepare: (scene) => {
      const graph = graphOf(scene)
      return (options?: { readonly verbose?: boolean }) => graph.toDot(options)
    },
    answers: (_scene, value) => assert.match(String(value), /^digraph/),
  }),
  {
    name: 'graph.nodeCount',
    members: ['Graph#nodeCount'],
    act: 'makes',
    memory: [{ name: 'destination' }],
    prepare: (scene) => {
      const graph = graphOf(scene)
      return () => graph.nodeCount
    },
    answers: (_scene, value) => assert.equal(value, 1),
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

export const graphCalls: readonly Call[] = graphs
