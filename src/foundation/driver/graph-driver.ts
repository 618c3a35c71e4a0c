/** The driver interface for captures and graphs. */

import type { CaptureMode, ConditionalType } from './driver-constants.js'
import type { ContextHandle, GraphExecHandle, GraphHandle, NodeHandle, Pointer, StreamHandle } from './handle-types.js'
import type { NodeWork } from './queued-work.js'

/**
 * The kind of a node, from CUgraphNodeType. Memory operations that stand for a host function are one node of that kind.
 */
export type NodeKind =
  | 'kernel'
  | 'copy'
  | 'fill'
  | 'hostFunction'
  | 'eventRecord'
  | 'eventWait'
  | 'graph'
  | 'conditional'
  | 'empty'
  | 'alloc'
  | 'free'
  | 'other'

/**
 * The place at which a conditional node is added: behind the captured work of a stream, or behind the nodes of a body.
 */
export type ConditionalPlace = { readonly stream: StreamHandle } | { readonly body: GraphHandle }

/** A conditional node that is to be added. */
export interface NewConditional {
  readonly context: ContextHandle
  /** A CUgraphConditionalHandle. */
  readonly condition: bigint
  readonly type: ConditionalType
  /** The number of its bodies. */
  readonly size: number
}

/** A conditional node, and the graphs that it plays, which are destroyed together with its own. */
export interface ConditionalFacts {
  readonly type: ConditionalType
  readonly bodies: readonly GraphHandle[]
}

/** The facts that a driver reports of a node. */
export interface NodeFacts {
  readonly node: NodeHandle
  readonly kind: NodeKind
  /** The nodes that it comes after at once. */
  readonly after: readonly NodeHandle[]
  /** The name of a kernel node's kernel. */
  readonly name: string | undefined
  /** The number of bytes that a copy or a fill writes. */
  readonly byteLength: number | undefined
  /** The address at which a copy or a fill writes; undefined for a CUDA array. */
  readonly destination?: Pointer | undefined
  /** The address at which a copy reads; undefined for a CUDA array. */
  readonly source?: Pointer | undefined
  /** The value of a fill, an integer from 0, and its bytes. */
  readonly value?: number | undefined
  readonly width?: number | undefined
  /** The facts of a conditional node that this driver added. */
  readonly conditional?: ConditionalFacts | undefined
}

export interface GraphDriver {
  /** `cuStreamBeginCapture` */
  begin(stream: StreamHandle, mode: CaptureMode): void
  /** `cuStreamEndCapture`, of the capture that this stream began. */
  end(stream: StreamHandle): GraphHandle
  /**
   * `cuStreamGetCaptureInfo`: the driver's number for the capture that the stream is in; undefined where it is in none, or
   * in one that is invalidated. The stream is no null stream.
   */
  captureId(stream: StreamHandle): bigint | undefined
  /**
   * `cuStreamGetCaptureInfo`: the node that was captured on the stream last; undefined where its next work comes after
   * several, or none.
   */
  capturedNode(stream: StreamHandle): NodeHandle | undefined
  /**
   * `cuStreamBeginCaptureToGraph`: what is captured is added to the graph, behind these nodes. `end` gives the same handle.
   * Where it throws the capture's error, the graph is destroyed.
   */
  beginInto(stream: StreamHandle, mode: CaptureMode, graph: GraphHandle, after: readonly NodeHandle[]): void
  /**
   * `cuGraphConditionalHandleCreate`, with CU_GRAPH_COND_ASSIGN_DEFAULT, for the graph of the capture that the stream is in: a
   * condition of this context that has this value when a launch begins. Returns the CUgraphConditionalHandle.
   */
  createCondition(stream: StreamHandle, context: ContextHandle, value: number): bigint
  /**
   * `cuGraphAddNode` of a conditional node, and in a capture `cuStreamUpdateCaptureDependencies`. Its bodies are graphs of their
   * own, which are empty.
   */
  addConditional(place: ConditionalPlace, node: NewConditional): readonly GraphHandle[]
  /**
   * `cuGraphAddChildGraphNode`: adds a copy of the graph to the body of a conditional node, behind what the body has. Returns the
   * copy of each node (`cuGraphNodeFindInClone`). Throws ERR_UNSUPPORTED for a graph with nodes that no body can have.
   */
  addToBody(body: GraphHandle, graph: GraphHandle): ReadonlyMap<NodeHandle, NodeHandle>
  /** Ends the capture that this stream began, if it is still under way, and throws the graph away. */
  abandon(stream: StreamHandle): void
  /**
   * Called when another library's stream, on which a capture was begun here, may be destroyed at any time from now on: it is no
   * longer queried for the state of that capture.
   */
  leave(stream: StreamHandle): void
  /** The graph of another library, which is its own to destroy. Throws ERR_INVALID_HANDLE where it is none. */
  wrap(handle: number): GraphHandle
  /** `cuGraphDestroy` */
  destroy(graph: GraphHandle): void
  /** `cuGraphGetNodes` */
  nodeCount(graph: GraphHandle): number
  /** `cuGraphDebugDotPrint`: the graph in Graphviz's language, also with what its nodes are launched with. */
  toDot(graph: GraphHandle, verbose: boolean): string
  /** `cuGraphInstantiateWithFlags` */
  instantiate(graph: GraphHandle, context: ContextHandle): GraphExecHandle
  /** `cuGraphExecDestroy` */
  destroyExec(exec: GraphExecHandle): void
  /** `cuGraphExecUpdate`: puts another graph of the same shape into an instantiated one. */
  update(exec: GraphExecHandle, graph: GraphHandle): void
  /** `cuGraphGetNodes`, `cuGraphNodeGetType`, `cuGraphGetEdges`: each node comes after those that it depends on. */
  nodes(graph: GraphHandle): readonly NodeFacts[]
  /**
   * `cuGraphExecKernelNodeSetParams`, `cuGraphExecMemcpyNodeSetParams` or `cuGraphExecMemsetNodeSetParams`: gives a node other
   * work of its kind. The node is one of the graph that the instance was made from, or of a body in there, which still lives, and the context the
   * one that it was captured in.
   */
  updateNode(exec: GraphExecHandle, node: NodeHandle, context: ContextHandle, work: NodeWork): void
  /** `cuGraphNodeSetEnabled`, of a kernel, copy or fill; ERR_UNSUPPORTED for a fill of several rows. No context is known for one that another library queued. */
  setEnabled(exec: GraphExecHandle, node: NodeHandle, context: ContextHandle | undefined, enabled: boolean): void
  /** `cuGraphNodeGetEnabled`, of a kernel, copy or fill. */
  isEnabled(exec: GraphExecHandle, node: NodeHandle): boolean
}
