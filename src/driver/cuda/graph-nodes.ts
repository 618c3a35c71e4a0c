/** The nodes of a graph on a real GPU: what the driver tells of them, and how one of an instance is changed. */
import type {
  ContextHandle,
  FillWidth,
  GraphExecHandle,
  GraphHandle,
  NodeFacts,
  NodeHandle,
  NodeKind,
  Pointer,
} from '../driver.js'
import { layer } from './libcuda/layer.js'
import { check } from './libcuda/library.js'
import { NativeMemory } from './libcuda/native.js'
import type { LibcudaParts } from './libcuda/stream-calls.js'
import { DESTINATION, Field, STRUCT_BYTES, UNIFIED } from './memory/row-copies.js'

/** By CUgraphNodeType. */
const KINDS: readonly NodeKind[] = [
  ...(['kernel', 'copy', 'fill', 'hostFunction', 'graph', 'empty', 'eventWait', 'eventRecord'] as const),
  ...(['other', 'other', 'alloc', 'free'] as const),
]
/** Of CUDA_MEMSET_NODE_PARAMS, in words of 64 bits; the value and the width of it share one. */
const Fill = { TO: 0, VALUE: 2, COUNT: 3, HEIGHT: 4 } as const

export class GraphNodes {
  readonly #params = new NativeMemory(STRUCT_BYTES)

  constructor(private readonly parts: LibcudaParts) {}

  /** Each comes after those that it depends on. To CUDA the gate of a host function is a batch of memory operations. */
  factsOf(graph: GraphHandle, gates: ReadonlySet<number>): readonly NodeFacts[] {
    const after = new Map<NodeHandle, NodeHandle[]>()
    for (const node of this.#nodesOf(graph)) after.set(node, [])
    if (after.size > 1) for (const [from, to] of this.#edgesOf(graph)) after.get(to)?.push(from)
    return [...after].map(([node, before]) => {
      const kind = gates.has(node) ? 'hostFunction' : this.#kindOf(node)
      return { node, kind, after: before, name: this.#nameOf(node, kind), byteLength: this.#bytesOf(node, kind) }
    })
  }

  updateCopy(
    exec: GraphExecHandle,
    node: NodeHandle,
    context: ContextHandle,
    to: Pointer,
    from: Pointer,
    byteLength: number,
  ): void {
    const { address, uint64 } = this.#params
    uint64.fill(0n)
    for (const [at, pointer] of [
      [0, from],
      [DESTINATION, to],
    ] as const) {
      uint64[at + Field.TYPE] = UNIFIED
      uint64[at + Field.DEVICE] = BigInt(pointer)
    }
    uint64[Field.WIDTH] = BigInt(byteLength)
    uint64[Field.ROWS] = 1n
    uint64[Field.DEPTH] = 1n
    const result = this.parts.library.cuGraphExecMemcpyNodeSetParams(exec, node, address, context)
    check('cuGraphExecMemcpyNodeSetParams', result)
  }

  updateFill(
    exec: GraphExecHandle,
    node: NodeHandle,
    context: ContextHandle,
    to: Pointer,
    value: number,
    width: FillWidth,
    count: number,
  ): void {
    const { address, uint64 } = this.#params
    uint64.fill(0n)
    uint64[Fill.TO] = BigInt(to)
    uint64[Fill.VALUE] = BigInt(value) | (BigInt(width) << 32n)
    uint64[Fill.COUNT] = BigInt(count)
    uint64[Fill.HEIGHT] = 1n
    const result = this.parts.library.cuGraphExecMemsetNodeSetParams(exec, node, address, context)
    check('cuGraphExecMemsetNodeSetParams', result)
  }

  /** Gives a fill of one row what it was captured with. */
  resetFill(exec: GraphExecHandle, node: NodeHandle, context: ContextHandle): void {
    this.#getFill(node)
    const result = this.parts.library.cuGraphExecMemsetNodeSetParams(exec, node, this.#params.address, context)
    check('cuGraphExecMemsetNodeSetParams', result)
  }

  /** Undefined for a node that is no fill. */
  rowsOfFill(node: NodeHandle): number | undefined {
    if (this.#kindOf(node) !== 'fill') return undefined
    this.#getFill(node)
    return this.#params.pointerAt(8 * Fill.HEIGHT)
  }

  #getFill(node: NodeHandle): void {
    const result = this.parts.library.cuGraphMemsetNodeGetParams(node, this.#params.address)
    check('cuGraphMemsetNodeGetParams', result)
  }

  #nodesOf(graph: GraphHandle): NodeHandle[] {
    const { memory, library } = this.parts
    check('cuGraphGetNodes', library.cuGraphGetNodes(graph, 0, memory.address))
    const count = memory.pointerAt(0)
    // CUDA refuses a list for none.
    if (count === 0) return []
    const list = new NativeMemory(8 * count)
    try {
      check('cuGraphGetNodes', library.cuGraphGetNodes(graph, list.address, memory.address))
      return Array.from({ length: memory.pointerAt(0) }, (_, index) => list.pointerAt(8 * index) as NodeHandle)
    } finally {
      list.free()
    }
  }

  #edgesOf(graph: GraphHandle): (readonly [from: NodeHandle, to: NodeHandle])[] {
    const { memory, library } = this.parts
    const call = 'cuGraphGetEdges'
    check(call, library.cuGraphGetEdges_v2(graph, 0, 0, 0, memory.address))
    const most = memory.pointerAt(0)
    if (most === 0) return []
    // Three lists: from where, to where, and eight bytes for how.
    const lists = new NativeMemory(24 * most)
    try {
      const [from, to, how] = [0, 8 * most, 16 * most].map((offset) => lists.address + offset)
      check(call, library.cuGraphGetEdges_v2(graph, from ?? 0, to ?? 0, how ?? 0, memory.address))
      return Array.from({ length: memory.pointerAt(0) }, (_, index) => {
        return [lists.pointerAt(8 * index) as NodeHandle, lists.pointerAt(8 * (most + index)) as NodeHandle] as const
      })
    } finally {
      lists.free()
    }
  }

  #kindOf(node: NodeHandle): NodeKind {
    const { memory, library } = this.parts
    check('cuGraphNodeGetType', library.cuGraphNodeGetType(node, memory.address))
    return KINDS[memory.uint32[0] ?? 0] ?? 'other'
  }

  #nameOf(node: NodeHandle, kind: NodeKind): string | undefined {
    if (kind !== 'kernel') return undefined
    const { memory, library } = this.parts
    const result = library.cuGraphKernelNodeGetParams_v2(node, this.#params.address)
    check('cuGraphKernelNodeGetParams', result)
    const handle = this.#params.pointerAt(0)
    if (handle === 0 || library.cuFuncGetName(memory.address, handle) !== 0) return undefined
    return layer().text(memory.pointerAt(0))
  }

  #bytesOf(node: NodeHandle, kind: NodeKind): number | undefined {
    const { address, uint32 } = this.#params
    if (kind === 'copy') {
      check('cuGraphMemcpyNodeGetParams', this.parts.library.cuGraphMemcpyNodeGetParams(node, address))
      return [Field.WIDTH, Field.ROWS, Field.DEPTH].reduce((product, at) => product * this.#params.pointerAt(8 * at), 1)
    }
    if (kind !== 'fill') return undefined
    check('cuGraphMemsetNodeGetParams', this.parts.library.cuGraphMemsetNodeGetParams(node, address))
    const [count, height] = [Fill.COUNT, Fill.HEIGHT].map((at) => this.#params.pointerAt(8 * at))
    return (uint32[2 * Fill.VALUE + 1] ?? 1) * (count ?? 0) * (height ?? 1)
  }
}
