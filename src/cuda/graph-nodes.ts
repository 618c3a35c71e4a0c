/**
 * The nodes of graphs on a real GPU. The parameters of a node go through one struct, CUgraphNodeParams, and CUDA's generic functions: it
 * has announced that it will deprecate the functions that are for one kind of node each. Before CUDA 13.2 those alone read parameters.
 */

import type { ConditionalFacts, NewConditional, NodeFacts, NodeKind } from '../foundation/driver/graph-driver.js'
import type {
  ContextHandle,
  GraphExecHandle,
  GraphHandle,
  NodeHandle,
  Pointer,
} from '../foundation/driver/handle-types.js'
import type { LaunchShape } from '../foundation/driver/kernel-driver.js'
import type { FillWork } from '../foundation/driver/queued-work.js'
import { own } from '../foundation/native/c-functions.js'
import { layer } from '../foundation/native/layer.js'
import { NativeMemory } from '../foundation/native/native-memory.js'
import { ThreadMemory } from '../foundation/native/thread-memory.js'
import type { LibcudaParts } from './libcuda/driver-calls.js'
import { DESTINATION, Field, MemoryType } from './memory/copies.js'

/** The kinds of nodes, in the order of CUgraphNodeType. */
const KINDS: readonly NodeKind[] = [
  ...(['kernel', 'copy', 'fill', 'hostFunction', 'graph', 'empty', 'eventWait', 'eventRecord'] as const),
  ...(['other', 'other', 'alloc', 'free', 'other', 'conditional'] as const),
]

/** The CUgraphNodeType of nodes whose parameters are read or written here. */
export const NodeType = { KERNEL: 0, MEMCPY: 1, MEMSET: 2, GRAPH: 4, BATCH_MEM_OP: 12, CONDITIONAL: 13 } as const
type NodeType = (typeof NodeType)[keyof typeof NodeType]

/** The offsets of the fields of a CUgraphNodeParams, in bytes. A test compares them with cuda.h. */
export const NodeParams = {
  SIZE: 256,
  TYPE: 0,
  KERNEL_FUNC: 16,
  KERNEL_GRID: 24,
  KERNEL_BLOCK: 36,
  KERNEL_SHARED_MEMORY: 48,
  KERNEL_PARAMS: 56,
  MEMCPY_CONTEXT: 24,
  /** A CUDA_MEMCPY3D. */
  MEMCPY_PARAMS: 32,
  MEMSET_DST: 16,
  MEMSET_VALUE: 32,
  MEMSET_ELEMENT_SIZE: 36,
  MEMSET_WIDTH: 40,
  MEMSET_HEIGHT: 48,
  MEMSET_CONTEXT: 56,
  GRAPH: 16,
  MEM_OP_CONTEXT: 16,
  MEM_OP_COUNT: 24,
  MEM_OP_ARRAY: 32,
  CONDITION: 16,
  CONDITIONAL_TYPE: 24,
  CONDITIONAL_SIZE: 28,
  /** The address of the graphs of the bodies, which CUDA writes. */
  CONDITIONAL_GRAPHS: 32,
  CONDITIONAL_CONTEXT: 40,
} as const

/** The functions that read parameters before CUDA 13.2, and where in a CUgraphNodeParams the fields belong that they write. */
const OLD_READERS = {
  [NodeType.KERNEL]: ['cuGraphKernelNodeGetParams_v2', NodeParams.KERNEL_FUNC],
  [NodeType.MEMCPY]: ['cuGraphMemcpyNodeGetParams', NodeParams.MEMCPY_PARAMS],
  [NodeType.MEMSET]: ['cuGraphMemsetNodeGetParams', NodeParams.MEMSET_DST],
  [NodeType.GRAPH]: ['cuGraphChildGraphNodeGetGraph', NodeParams.GRAPH],
} as const

const NONE: ReadonlySet<never> = new Set()
const NO_CONDITIONALS: ReadonlyMap<NodeHandle, ConditionalFacts> = new Map()

/** What a kernel is launched with, as CUDA takes it. */
export interface KernelCall {
  /** The CUfunction. */
  readonly func: number
  /** The address of the pointers to the parameters. */
  readonly params: number
  readonly shape: LaunchShape
}

/** What a fill writes, and where. */
type FillParameters = Pick<FillWork, 'pointer' | 'value' | 'width' | 'count'>

export class GraphNodes {
  readonly #params = new ThreadMemory(NodeParams.SIZE)

  constructor(private readonly parts: Pick<LibcudaParts, 'library' | 'must' | 'memory'>) {}

  /**
   * Describes the nodes of a graph. `hostFunctions` has those that are host functions, which to CUDA are batches of memory operations;
   * `conditionals` the conditional nodes that the library has added; `parts` the nodes that are graphs whose nodes stand for themselves.
   */
  factsOf(
    graph: GraphHandle,
    hostFunctions: ReadonlySet<number> = NONE,
    conditionals: ReadonlyMap<NodeHandle, ConditionalFacts> = NO_CONDITIONALS,
    parts: ReadonlySet<NodeHandle> = NONE,
  ): readonly NodeFacts[] {
    const after = new Map<NodeHandle, NodeHandle[]>()
    for (const node of this.#nodesOf(graph)) after.set(node, [])
    if (after.size > 1) for (const [from, to] of this.#edgesOf(graph)) after.get(to)?.push(from)
    const facts: NodeFacts[] = []
    /** What comes after a node comes after these. */
    const ends = new Map<NodeHandle, readonly NodeHandle[]>()
    for (const [node, all] of after) {
      const before = parts.size === 0 ? all : all.flatMap((one) => ends.get(one) ?? [one])
      if (parts.has(node)) {
        const inner = this.factsOf(this.graphOf(node))
        const followed = new Set(inner.flatMap((each) => each.after))
        for (const each of inner) facts.push(each.after.length > 0 ? each : { ...each, after: before })
        ends.set(
          node,
          inner.flatMap((each) => (followed.has(each.node) ? [] : [each.node])),
        )
        continue
      }
      const kind = hostFunctions.has(node) ? 'hostFunction' : this.#kindOf(node)
      const conditional = conditionals.get(node)
      const [name, moved] = [this.#nameOf(node, kind), this.#movedBy(node, kind)]
      facts.push({ node, kind, after: before, name, ...moved, conditional })
    }
    return facts
  }

  /** The kind of the first node of the graph that no body of a conditional node can have. */
  refusedInBody(graph: GraphHandle): NodeKind | undefined {
    for (const node of this.#nodesOf(graph)) {
      const kind = this.#kindOf(node)
      if (kind === 'graph') {
        const refused = this.refusedInBody(this.graphOf(node))
        if (refused !== undefined) return refused
      } else if (kind !== 'kernel' && kind !== 'copy' && kind !== 'fill' && kind !== 'empty') return kind
    }
    return undefined
  }

  /** Adds a copy of a graph to another graph, behind one node of it or behind none. */
  addGraphBehind(into: GraphHandle, after: NodeHandle | undefined, graph: GraphHandle): NodeHandle {
    const { memory } = this.parts
    if (after !== undefined) memory.setPointer(8, after)
    return this.addGraph(into, after === undefined ? 0 : memory.address + 8, after === undefined ? 0 : 1, graph)
  }

  /** Adds a copy of a graph to another graph, as a node behind the nodes at the address `after`. */
  addGraph(into: number, after: number, count: number, graph: GraphHandle): NodeHandle {
    const { must, memory } = this.parts
    const { address } = this.#begin(NodeType.GRAPH)
    this.#params.setPointer(NodeParams.GRAPH, graph)
    must.cuGraphAddNode_v2(memory.address, into, after, 0, count, address)
    return memory.pointerAt(0) as NodeHandle
  }

  /** Adds a conditional node to a graph, behind the nodes at the address `after`. */
  addConditional(
    into: number,
    after: number,
    count: number,
    { context, condition, type, size }: NewConditional,
  ): { readonly node: NodeHandle; readonly bodies: readonly GraphHandle[] } {
    const { must, memory } = this.parts
    const params = this.#begin(NodeType.CONDITIONAL)
    params.uint64[NodeParams.CONDITION / 8] = condition
    params.uint32[NodeParams.CONDITIONAL_TYPE / 4] = type
    params.uint32[NodeParams.CONDITIONAL_SIZE / 4] = size
    params.setPointer(NodeParams.CONDITIONAL_CONTEXT, context)
    must.cuGraphAddNode_v2(memory.address, into, after, 0, count, params.address)
    const graphs = new NativeMemory(8 * size)
    try {
      own().copy(graphs.address, params.pointerAt(NodeParams.CONDITIONAL_GRAPHS), 8 * size)
      const bodies = Array.from({ length: size }, (_, index) => graphs.pointerAt(8 * index) as GraphHandle)
      return { node: memory.pointerAt(0) as NodeHandle, bodies }
    } finally {
      graphs.free()
    }
  }

  /** The copies that a node which is a copy of the graph has of its nodes. */
  copiesOf(graph: GraphHandle, node: NodeHandle): ReadonlyMap<NodeHandle, NodeHandle> {
    const { memory, must } = this.parts
    const copy = this.graphOf(node)
    const copyOf = (original: NodeHandle): NodeHandle => {
      must.cuGraphNodeFindInClone(memory.address, original, copy)
      return memory.pointerAt(0) as NodeHandle
    }
    return new Map(this.#nodesOf(graph).map((original) => [original, copyOf(original)]))
  }

  /** The copy of a graph that such a node has. */
  graphOf(node: NodeHandle): GraphHandle {
    return this.#read(node, NodeType.GRAPH).pointerAt(NodeParams.GRAPH) as GraphHandle
  }

  /** Gives a node that is a batch of memory operations the operations at this address. */
  setOperations(node: number, context: ContextHandle, operations: number, count: number): void {
    const params = this.#begin(NodeType.BATCH_MEM_OP)
    params.setPointer(NodeParams.MEM_OP_CONTEXT, context)
    params.uint32[NodeParams.MEM_OP_COUNT / 4] = count
    params.setPointer(NodeParams.MEM_OP_ARRAY, operations)
    this.parts.must.cuGraphNodeSetParams(node, params.address)
  }

  updateKernel(exec: GraphExecHandle, node: NodeHandle, { func, params: values, shape }: KernelCall): void {
    const params = this.#begin(NodeType.KERNEL)
    params.setPointer(NodeParams.KERNEL_FUNC, func)
    params.uint32.set(shape.grid, NodeParams.KERNEL_GRID / 4)
    params.uint32.set(shape.block, NodeParams.KERNEL_BLOCK / 4)
    params.uint32[NodeParams.KERNEL_SHARED_MEMORY / 4] = shape.sharedMemory
    params.setPointer(NodeParams.KERNEL_PARAMS, values)
    this.#update(exec, node)
  }

  updateCopy(
    exec: GraphExecHandle,
    node: NodeHandle,
    context: ContextHandle,
    to: Pointer,
    from: Pointer,
    byteLength: number,
  ): void {
    const params = this.#begin(NodeType.MEMCPY)
    params.setPointer(NodeParams.MEMCPY_CONTEXT, context)
    const set = (field: number, value: number): void => params.setPointer(NodeParams.MEMCPY_PARAMS + 8 * field, value)
    for (const [at, pointer] of [[0, from] as const, [DESTINATION, to] as const]) {
      set(at + Field.TYPE, MemoryType.UNIFIED)
      set(at + Field.DEVICE, pointer)
    }
    set(Field.WIDTH, byteLength)
    set(Field.ROWS, 1)
    set(Field.DEPTH, 1)
    this.#update(exec, node)
  }

  updateFill(
    exec: GraphExecHandle,
    node: NodeHandle,
    context: ContextHandle,
    { pointer, value, width, count }: FillParameters,
  ): void {
    const params = this.#begin(NodeType.MEMSET)
    params.setPointer(NodeParams.MEMSET_DST, pointer)
    params.uint32[NodeParams.MEMSET_VALUE / 4] = value
    params.uint32[NodeParams.MEMSET_ELEMENT_SIZE / 4] = width
    params.setPointer(NodeParams.MEMSET_WIDTH, count)
    params.setPointer(NodeParams.MEMSET_HEIGHT, 1)
    params.setPointer(NodeParams.MEMSET_CONTEXT, context)
    this.#update(exec, node)
  }

  /** Gives a fill of one row the parameters that it was captured with. */
  resetFill(exec: GraphExecHandle, node: NodeHandle, context: ContextHandle): void {
    this.#read(node, NodeType.MEMSET)
    this.#params.setPointer(NodeParams.MEMSET_CONTEXT, context)
    this.#update(exec, node)
  }

  /** The number of rows of a fill; undefined for other nodes. */
  rowsOfFill(node: NodeHandle): number | undefined {
    if (this.#kindOf(node) !== 'fill') return undefined
    return this.#read(node, NodeType.MEMSET).pointerAt(NodeParams.MEMSET_HEIGHT)
  }

  /** The struct with this type, and zeros everywhere else. */
  #begin(type: NodeType): NativeMemory {
    this.#params.bytes.fill(0)
    this.#params.uint32[NodeParams.TYPE] = type
    return this.#params
  }

  #update(exec: GraphExecHandle, node: NodeHandle): void {
    this.parts.must.cuGraphExecNodeSetParams(exec, node, this.#params.address)
  }

  #read(node: NodeHandle, type: keyof typeof OLD_READERS): NativeMemory {
    const { library, must } = this.parts
    const { address } = this.#begin(type)
    const [old, offset] = OLD_READERS[type]
    // A driver that has neither function does not start.
    if (library.cuGraphNodeGetParams === undefined) must[old](node, address + offset)
    else must.cuGraphNodeGetParams(node, address)
    return this.#params
  }

  #nodesOf(graph: GraphHandle): NodeHandle[] {
    const { memory, must } = this.parts
    must.cuGraphGetNodes(graph, 0, memory.address)
    const count = memory.pointerAt(0)
    // CUDA refuses a list of no nodes.
    if (count === 0) return []
    const list = new NativeMemory(8 * count)
    try {
      must.cuGraphGetNodes(graph, list.address, memory.address)
      return Array.from({ length: memory.pointerAt(0) }, (_, index) => list.pointerAt(8 * index) as NodeHandle)
    } finally {
      list.free()
    }
  }

  #edgesOf(graph: GraphHandle): (readonly [from: NodeHandle, to: NodeHandle])[] {
    const { memory, must } = this.parts
    must.cuGraphGetEdges_v2(graph, 0, 0, 0, memory.address)
    const most = memory.pointerAt(0)
    if (most === 0) return []
    // The lists of nodes that edges come from, of nodes that they go to, and of their data.
    const lists = new NativeMemory(24 * most)
    try {
      const { address } = lists
      must.cuGraphGetEdges_v2(graph, address, address + 8 * most, address + 16 * most, memory.address)
      return Array.from({ length: memory.pointerAt(0) }, (_, index) => {
        return [lists.pointerAt(8 * index) as NodeHandle, lists.pointerAt(8 * (most + index)) as NodeHandle] as const
      })
    } finally {
      lists.free()
    }
  }

  #kindOf(node: NodeHandle): NodeKind {
    const { memory, must } = this.parts
    must.cuGraphNodeGetType(node, memory.address)
    return KINDS[memory.uint32[0] ?? 0] ?? 'other'
  }

  #nameOf(node: NodeHandle, kind: NodeKind): string | undefined {
    if (kind !== 'kernel') return undefined
    const { memory, library } = this.parts
    const func = this.#read(node, NodeType.KERNEL).pointerAt(NodeParams.KERNEL_FUNC)
    if (func === 0 || library.cuFuncGetName(memory.address, func) !== 0) return undefined
    return layer().text(memory.pointerAt(0))
  }

  /** The facts of a copy or a fill that other nodes do not have. */
  #movedBy(node: NodeHandle, kind: NodeKind): Moved {
    if (kind === 'copy') {
      const params = this.#read(node, NodeType.MEMCPY)
      const fieldOf = (field: number): number => params.pointerAt(NodeParams.MEMCPY_PARAMS + 8 * field)
      const byteLength = fieldOf(Field.WIDTH) * fieldOf(Field.ROWS) * fieldOf(Field.DEPTH)
      return { byteLength, destination: placeIn(fieldOf, DESTINATION), source: placeIn(fieldOf, 0) }
    }
    if (kind !== 'fill') return { byteLength: undefined }
    const params = this.#read(node, NodeType.MEMSET)
    const rows = params.pointerAt(NodeParams.MEMSET_WIDTH) * params.pointerAt(NodeParams.MEMSET_HEIGHT)
    const width = params.uint32[NodeParams.MEMSET_ELEMENT_SIZE / 4] ?? 1
    return {
      byteLength: width * rows,
      destination: params.pointerAt(NodeParams.MEMSET_DST) as Pointer,
      value: params.uint32[NodeParams.MEMSET_VALUE / 4] ?? 0,
      width,
    }
  }
}

type Moved = Pick<NodeFacts, 'byteLength' | 'destination' | 'source' | 'value' | 'width'>

/** The address at one end of a CUDA_MEMCPY3D, whose fields begin at `at`; undefined for a CUDA array. */
function placeIn(fieldOf: (field: number) => number, at: number): Pointer | undefined {
  const type = fieldOf(at + Field.TYPE) % 2 ** 32
  if (type !== MemoryType.HOST && type !== MemoryType.DEVICE && type !== MemoryType.UNIFIED) return undefined
  const first = fieldOf(at + (type === MemoryType.HOST ? Field.HOST : Field.DEVICE))
  const [pitch, height] = [fieldOf(at + Field.PITCH), fieldOf(at + Field.HEIGHT)]
  const [x, y, z] = [fieldOf(at + Field.X), fieldOf(at + Field.Y), fieldOf(at + Field.Z)]
  return (first + x + pitch * (y + height * z)) as Pointer
}
