/** The nodes of a graph, as programs have them. */
import { implementation, LibraryObject, nextSerial, notCloneable } from '../../foundation/base/library-object.js'
import { ConditionalType } from '../../foundation/driver/driver-constants.js'
import type { NodeFacts, NodeKind } from '../../foundation/driver/graph-driver.js'
import type { ContextHandle, GraphHandle, NodeHandle, Pointer } from '../../foundation/driver/handle-types.js'
import type { LaunchShape } from '../../foundation/driver/kernel-driver.js'
import type { Event } from '../event.js'
import type { DefinedKernel } from '../kernels/defined-kernel.js'
import type { Extent, Kernel, LaunchConfigOptions } from '../kernels/kernel.js'
import type { ArgumentsOf, ParameterType } from '../kernels/kernel-signature.js'
import type { NodeKernel } from '../kernels/launchable.js'
import type { TritonKernel } from '../kernels/triton-kernel.js'
import type { CapturedCopy, CapturedFill, NodeNote, NotedNode } from '../streams/capture-record.js'

/** The state of a node, which the library has by its public object. */
export interface NodeState {
  /** The implementation of the graph. */
  readonly graph: object
  /** Whether the node is in the body of a conditional node. */
  readonly isInBody: boolean
  /** The nodes beside it, itself included. */
  readonly siblings: Iterable<GraphNode>
  readonly handle: NodeHandle
  /** The context in which it was captured. Undefined if another library queued it: it cannot be changed then. */
  readonly context: ContextHandle | undefined
  readonly launch: { readonly kernel: NodeKernel; readonly shape: LaunchShape } | undefined
  readonly copy: CapturedCopy | undefined
  readonly fill: CapturedFill | undefined
}

/** The common members of nodes of all kinds. */
abstract class AnyNode<K extends string> extends LibraryObject {
  /** What it does: nodes of one kind have the same type. */
  declare readonly kind: K
  /** The node's place in `graph.nodes`, or in a body. */
  declare readonly index: number
  /** The node's direct predecessors. */
  declare readonly after: readonly GraphNode[]
  /** The number of this object: no other object of this thread has it. */
  declare readonly serial: number
  /** @internal Refuses to be copied to another thread. */
  declare protected readonly cloning: symbol
  /** @internal */
  declare readonly [implementation]: NodeState

  /** @internal */
  constructor(kind: K, index: number, after: readonly GraphNode[]) {
    super()
    this.kind = kind
    this.index = index
    this.after = after
    this.serial = nextSerial()
    this.cloning = notCloneable()
  }

  /** The nodes that come directly after it. */
  get before(): readonly GraphNode[] {
    return [...this[implementation].siblings].filter(({ after }) => after.some((node) => node === (this as unknown)))
  }

  override toString(): string {
    return `${this[Symbol.toStringTag]}(${this.index}, ${this.kind})`
  }
}

/** The state of a node; undefined for any other value. */
export const nodeStateOf = (value: unknown): NodeState | undefined =>
  value instanceof AnyNode ? value[implementation] : undefined

/** A kernel. `exec.update(node, config, ...args)` gives it other arguments, `exec.setEnabled(node, false)` leaves it out. */
export class KernelNode<S extends readonly ParameterType[] = readonly ParameterType[]> extends AnyNode<'kernel'> {
  /** The kernel's name. */
  readonly name: string
  /** The kernel that was launched; undefined if another library launched it, such as cuBLAS. */
  readonly kernel: Kernel<S> | DefinedKernel<S> | TritonKernel<S> | undefined
  /** The configuration that it was captured with, its grid also where that was given as `threads`, if this library launched it. */
  readonly config: (LaunchConfigOptions & { readonly grid: Extent; readonly block: Extent }) | undefined
  /** The arguments that it was captured with, as they were given; undefined if another library launched it. An update leaves them as they are. */
  readonly args: ArgumentsOf<S> | undefined

  /** @internal */
  constructor(
    index: number,
    after: readonly GraphNode[],
    name: string,
    kernel: Kernel<S> | DefinedKernel<S> | TritonKernel<S> | undefined,
    config: (LaunchConfigOptions & { readonly grid: Extent; readonly block: Extent }) | undefined,
    args: ArgumentsOf<S> | undefined,
  ) {
    super('kernel', index, after)
    this.name = name
    this.kernel = kernel
    this.config = config
    this.args = args
  }

  get [Symbol.toStringTag](): string {
    return 'KernelNode'
  }
}

/** A copy between buffers. `exec.update(node, destination, source)` gives it others. */
export class CopyNode extends AnyNode<'copy'> {
  /** The bytes that it moves. */
  readonly byteLength: number
  /** The address at which it was captured to write, as `buffer.pointer`; undefined for a CUDA array of another library. */
  readonly destination: bigint | undefined
  /** The address at which it was captured to read; undefined for a CUDA array of another library. */
  readonly source: bigint | undefined

  /** @internal */
  constructor(index: number, after: readonly GraphNode[], { byteLength = 0, destination, source }: MovedBytes) {
    super('copy', index, after)
    this.byteLength = byteLength
    this.destination = addressOf(destination)
    this.source = addressOf(source)
  }

  get [Symbol.toStringTag](): string {
    return 'CopyNode'
  }
}

/** A fill of a buffer. `exec.update(node, buffer, value, options)` gives it another buffer or value. */
export class FillNode extends AnyNode<'fill'> {
  /** The bytes that it writes, those of all rows together. */
  readonly byteLength: number
  /** The address at which it was captured to write, as `buffer.pointer`. */
  readonly destination: bigint | undefined
  /** The value that it was captured to write again and again: an integer from 0, of `width` bytes. */
  readonly value: number
  /** The bytes of the value: 1, 2 or 4. */
  readonly width: number

  /** @internal */
  constructor(index: number, after: readonly GraphNode[], facts: MovedBytes) {
    super('fill', index, after)
    this.byteLength = facts.byteLength ?? 0
    this.destination = addressOf(facts.destination)
    this.value = facts.value ?? 0
    this.width = facts.width ?? 1
  }

  get [Symbol.toStringTag](): string {
    return 'FillNode'
  }
}

/** A record of an event, or a wait for one, with `external`. It cannot be changed alone. */
export class EventNode extends AnyNode<'eventRecord' | 'eventWait'> {
  /** The event; undefined if another library recorded it or waited for it. */
  readonly event: Event | undefined

  /** @internal */
  constructor(kind: 'eventRecord' | 'eventWait', index: number, after: readonly GraphNode[], event: Event | undefined) {
    super(kind, index, after)
    this.event = event
  }

  get [Symbol.toStringTag](): string {
    return 'EventNode'
  }
}

/** The kinds of other nodes that cannot be changed one at a time. */
export type OtherNodeKind = 'hostFunction' | 'graph' | 'empty' | 'alloc' | 'free' | 'other'

/**
 * A node that cannot be changed alone: a host function (also a copy from pinned to pinned memory), a value that is written or waited for,
 * or what another library made.
 */
export class OtherNode extends AnyNode<OtherNodeKind> {
  get [Symbol.toStringTag](): string {
    return 'OtherNode'
  }
}

/** A conditional node: an if, a while or a switch. */
export class ConditionalNode extends AnyNode<'conditional'> {
  /** How it decides; undefined if another library made it. */
  readonly type: 'if' | 'while' | 'switch' | undefined
  /** The nodes of each of its bodies: for an if what is played if the condition is not 0, then what is played if it is 0. */
  readonly bodies: readonly (readonly GraphNode[])[]

  /** @internal */
  constructor(
    index: number,
    after: readonly GraphNode[],
    type: 'if' | 'while' | 'switch' | undefined,
    bodies: readonly (readonly GraphNode[])[],
  ) {
    super('conditional', index, after)
    this.type = type
    this.bodies = Object.freeze(bodies)
  }

  get [Symbol.toStringTag](): string {
    return 'ConditionalNode'
  }
}

/** A node of a graph, of the type that `kind` names. */
export type GraphNode = KernelNode | CopyNode | FillNode | EventNode | ConditionalNode | OtherNode

const TYPES = {
  [ConditionalType.IF]: 'if',
  [ConditionalType.WHILE]: 'while',
  [ConditionalType.SWITCH]: 'switch',
} as const

type MovedBytes = Pick<NodeFacts, 'byteLength' | 'destination' | 'source' | 'value' | 'width'>

const addressOf = (pointer: Pointer | undefined): bigint | undefined =>
  pointer === undefined ? undefined : BigInt(pointer)

const UNKNOWN: Partial<NotedNode> = {}

/** The nodes that the driver reports, with what is noted of them. `factsOf` gives the nodes of a body. */
export function nodesOf(
  graph: object,
  facts: readonly NodeFacts[],
  notes: ReadonlyMap<NodeHandle, NotedNode>,
  factsOf: (body: GraphHandle) => readonly NodeFacts[],
  isInBody = false,
): readonly GraphNode[] {
  const made = new Map<NodeHandle, GraphNode>()
  for (const [index, each] of facts.entries()) {
    const after = each.after.flatMap((before) => made.get(before) ?? [])
    const { note, context } = notes.get(each.node) ?? UNKNOWN
    const { conditional } = each
    const bodies = (conditional?.bodies ?? []).map((body) => nodesOf(graph, factsOf(body), notes, factsOf, true))
    const node =
      each.kind === 'conditional'
        ? new ConditionalNode(index, after, conditional && TYPES[conditional.type], bodies)
        : nodeOf(index, { ...each, kind: each.kind }, after, note)
    const launch = note !== undefined && 'shape' in note ? note : undefined
    const state: NodeState = {
      graph,
      isInBody,
      siblings: { [Symbol.iterator]: () => made.values() },
      handle: each.node,
      context,
      launch: launch === undefined ? undefined : { kernel: launch.kernel as NodeKernel, shape: launch.shape },
      copy: note !== undefined && 'to' in note ? note : undefined,
      fill: note !== undefined && 'fills' in note ? note : undefined,
    }
    // Not enumerable, since programs compare nodes by their properties.
    Object.defineProperty(node, implementation, { value: state })
    Object.freeze(node)
    made.set(each.node, node)
  }
  return Object.freeze([...made.values()])
}

function nodeOf(
  index: number,
  { kind, name, ...moved }: NodeFacts & { readonly kind: Exclude<NodeKind, 'conditional'> },
  after: readonly GraphNode[],
  note: NodeNote | undefined,
): GraphNode {
  if (kind === 'copy') return new CopyNode(index, after, moved)
  if (kind === 'fill') return new FillNode(index, after, moved)
  if (kind === 'eventRecord' || kind === 'eventWait') {
    return new EventNode(kind, index, after, note !== undefined && 'event' in note ? (note.event as Event) : undefined)
  }
  if (kind !== 'kernel') return new OtherNode(kind, index, after)
  if (note === undefined || !('shape' in note)) {
    return new KernelNode(index, after, name ?? 'unknown', undefined, undefined, undefined)
  }
  const kernel = note.kernel as Kernel | DefinedKernel | TritonKernel
  return new KernelNode(index, after, kernel.name, kernel, configOf(note.shape), Object.freeze([...note.args]) as never)
}

/** The configuration as a program writes it: a number for an extent of one dimension. */
function configOf({ grid, block, sharedMemory, cooperative, cluster }: LaunchShape): NonNullable<KernelNode['config']> {
  const config = { grid: extentOf(grid), block: extentOf(block), sharedMemory }
  if (!cooperative && cluster === undefined) return Object.freeze(config)
  return Object.freeze({ ...config, cooperative, cluster })
}

const extentOf = (extent: readonly [number, number, number]): Extent =>
  extent[1] === 1 && extent[2] === 1 ? extent[0] : extent
