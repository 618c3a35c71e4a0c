/**
 * The graphs of a traced process whose nodes were added one by one. A recording has graphs that were captured: such a graph becomes captures into one
 * graph, one for each node, when it is needed as a whole.
 */
import type { Pointer } from '../../foundation/driver/handle-types.js'
import type { TouchedMemory } from '../../foundation/driver/touched-memory.js'
import type { RecordedCall } from './lines.js'

/** What a node does. */
export type AddedWork =
  | { readonly kind: 'touches'; readonly name: string; readonly memory: readonly TouchedMemory[] }
  | { readonly kind: 'record' | 'wait'; readonly event: number }
  | { readonly kind: 'graph'; readonly graph: number }
  /** A conditional node. Each launch is taken to run all bodies once, one after the other. */
  | { readonly kind: 'bodies'; readonly bodies: readonly number[] }
  | { readonly kind: 'nothing' }

/** What an empty node does, and one of which nothing is known but its place in the order. */
export const NOTHING: AddedWork = { kind: 'nothing' }

/** The recording, as far as graphs need it. */
export interface GraphRecording {
  /** The program's lines that make the current call. */
  readonly site: string
  /** Writes a call for these lines. `node` is the number of the node that its work becomes. */
  put(call: RecordedCall, site: string, node?: number): void
  /** The stream on which nodes are captured, where the program has none. */
  captureStream(): number
}

interface BuiltNode {
  /** The handles of the nodes that this one comes after. */
  readonly after: ReadonlySet<number>
  /** A child graph whose nodes are known is a copy; a body is the graph itself, to which the program adds more. */
  readonly work: AddedWork | { readonly kind: 'built'; readonly graphs: readonly BuiltGraph[] }
  readonly site: string
  readonly isOff: boolean
  /** Whether captures have made the node, which stands for several whose handles are not known. */
  readonly isCaptured: boolean
}

class BuiltGraph {
  readonly nodes = new Map<number, BuiltNode>()
  /** The handles in the graph that this one is a clone of; keys are the handles here. */
  readonly #originals = new Map<number, number>()
  #isWritten = false

  /** @param isBody Whether a conditional node refers to the graph */
  constructor(readonly isBody = false) {}

  /** Whether the recording has the graph as it is now. */
  get isWritten(): boolean {
    return (
      this.#isWritten && [...this.nodes.values()].every(({ work }) => within(work).every((graph) => graph.isWritten))
    )
  }

  set isWritten(isWritten: boolean) {
    this.#isWritten = isWritten
  }

  copy(): BuiltGraph {
    const copy = new BuiltGraph()
    copy.#isWritten = this.#isWritten
    for (const [handle, node] of this.nodes) {
      const graphs = within(node.work).map((graph) => graph.copy())
      copy.nodes.set(handle, graphs.length === 0 ? node : { ...node, work: { kind: 'built', graphs } })
    }
    for (const [handle, original] of this.#originals) copy.#originals.set(handle, original)
    return copy
  }

  found(handle: number, original: number): void {
    this.#originals.set(handle, this.keyOf(original))
  }

  keyOf(handle: number): number {
    return this.#originals.get(handle) ?? handle
  }

  put(handle: number, node: BuiltNode): void {
    this.nodes.set(handle, node)
    this.isWritten = false
  }

  /** Changes a node. Returns whether there is such a node. */
  change(handle: number, change: (node: BuiltNode) => Partial<BuiltNode>): boolean {
    const key = this.keyOf(handle)
    const node = this.nodes.get(key)
    if (node === undefined) return false
    this.put(key, { ...node, ...change(node) })
    return true
  }

  /** The nodes of these handles. One that is not known is among those that captures have made: then all of them. Undefined if there are none. */
  known(handles: readonly number[]): readonly number[] | undefined {
    const keys = handles.map((handle) => this.keyOf(handle))
    if (keys.every((key) => this.nodes.has(key))) return keys
    const captured = Array.from(this.nodes).flatMap(([key, { isCaptured }]) => (isCaptured ? [key] : []))
    return captured.length === 0 ? undefined : [...keys.filter((key) => this.nodes.has(key)), ...captured]
  }

  remove(handle: number): void {
    const key = this.keyOf(handle)
    this.nodes.delete(key)
    this.isWritten = false
    for (const [other, node] of this.nodes) {
      if (node.after.has(key)) this.nodes.set(other, { ...node, after: without(node.after, [key]) })
    }
  }

  /** The nodes, each behind those that it comes after. */
  ordered(): readonly (readonly [number, BuiltNode])[] {
    const left = new Map<number, number>()
    const behind = new Map<number, number[]>()
    for (const [handle, { after }] of this.nodes) {
      left.set(handle, after.size)
      for (const before of after) {
        const others = behind.get(before)
        if (others === undefined) behind.set(before, [handle])
        else others.push(handle)
      }
    }
    const ready = [...this.nodes].filter(([, { after }]) => after.size === 0)
    // The list grows while it is read.
    for (const [handle] of ready) {
      for (const other of behind.get(handle) ?? []) {
        const count = (left.get(other) ?? 0) - 1
        left.set(other, count)
        const node = this.nodes.get(other)
        if (count === 0 && node !== undefined) ready.push([other, node])
      }
    }
    return ready
  }
}

const within = (work: BuiltNode['work']): readonly BuiltGraph[] => (work.kind === 'built' ? work.graphs : [])

const without = (all: ReadonlySet<number>, some: readonly number[]): ReadonlySet<number> => {
  return new Set([...all].filter((each) => !some.includes(each)))
}

/** The first number of graphs and nodes that the process does not have itself. */
const OWN_NUMBERS = 2 ** 52
/** The memory of a node that touches none: the node has a place in the order nevertheless. */
const NO_MEMORY: readonly TouchedMemory[] = [
  { pointer: 0 as Pointer, byteLength: 0, access: 'in', argument: undefined, rows: undefined },
]

export class BuiltGraphs {
  readonly #graphs = new Map<number, BuiltGraph>()
  /** The graph of each node. */
  readonly #owners = new Map<number, BuiltGraph>()
  /** The graphs that were captured as a whole. */
  readonly #captured = new Set<number>()
  /** The captures under way that add to graphs, and what they come after; keys are streams. */
  readonly #into = new Map<number, { readonly graph: BuiltGraph; readonly after: readonly number[] }>()
  /** The instances, as their nodes were changed. */
  readonly #execs = new Map<number, BuiltGraph>()
  /** The copies of captured graphs that nodes refer to. */
  readonly #copies = new Set<number>()
  #numbers = OWN_NUMBERS

  /** @param recording Where the graphs are written */
  constructor(private readonly recording: GraphRecording) {}

  graphMade(graph: number): void {
    this.#graphs.set(graph, new BuiltGraph())
  }

  /** Notes that a capture into a graph began, behind these nodes of it. */
  captureBegan(stream: number, graph: number, after: readonly number[]): void {
    const built = this.#built(graph)
    const known = built?.known(after)
    if (built !== undefined && known !== undefined) this.#into.set(stream, { graph: built, after: known })
    else this.#forget(graph)
  }

  /** Notes the end of a capture, which the recording has under the number that is returned. */
  captureEnded(stream: number, graph: number): number {
    const into = this.#into.get(stream)
    this.#into.delete(stream)
    if (into === undefined || (into.graph.nodes.size === 0 && !into.graph.isBody)) {
      this.#graphs.delete(graph)
      this.#captured.add(graph)
      return graph
    }
    const copy = this.#number()
    this.#copies.add(copy)
    const node = this.#node({ kind: 'graph', graph: copy }, into.after)
    into.graph.put(copy, { ...node, isCaptured: true })
    return copy
  }

  /**
   * Notes a node. A graph of which nothing is known is one under capture, or the body of a conditional node, and nothing is concluded from a graph of
   * which another node is not known.
   */
  added(graph: number, node: number, after: readonly number[], work: AddedWork): void {
    const built = this.#built(graph)
    if (built === undefined) return
    const known = built.known(after)
    if (known === undefined) {
      this.#forget(graph)
      return
    }
    built.put(node, this.#node(this.#placed(work), known))
    this.#owners.set(node, built)
  }

  changed(node: number, work: AddedWork): void {
    const { site } = this.recording
    this.#owners.get(node)?.change(node, () => ({ work: this.#placed(work), site }))
  }

  removed(node: number): void {
    this.#owners.get(node)?.remove(node)
    this.#owners.delete(node)
    this.#dropCopies()
  }

  /** Notes edges, from each node of a list to that of another. */
  joined(graph: number, from: readonly number[], to: readonly number[]): void {
    const built = this.#built(graph)
    if (built === undefined) return
    for (const [at, node] of to.entries()) {
      const before = built.known(from.slice(at, at + 1))
      const isKnown =
        before !== undefined && built.change(node, ({ after }) => ({ after: new Set([...after, ...before]) }))
      if (!isKnown) this.#forget(graph)
    }
  }

  parted(graph: number, from: readonly number[], to: readonly number[]): void {
    const built = this.#graphs.get(graph)
    for (const [at, node] of to.entries()) {
      const before = built?.keyOf(from[at] ?? 0) ?? 0
      built?.change(node, ({ after }) => ({ after: without(after, [before]) }))
    }
  }

  cloned(clone: number, graph: number): void {
    const built = this.#built(graph)
    if (built === undefined) return
    const copy = built.copy()
    copy.isWritten = false
    this.#graphs.set(clone, copy)
  }

  foundInClone(node: number, original: number, clone: number): void {
    const built = this.#graphs.get(clone)
    if (built === undefined) return
    built.found(node, original)
    this.#owners.set(node, built)
  }

  instantiated(exec: number, graph: number): void {
    this.#instance(exec, graph)
    this.#put({ call: 'instantiate', exec, graph })
  }

  updated(exec: number, graph: number): void {
    this.#instance(exec, graph)
    this.#put({ call: 'updateGraph', exec, graph })
  }

  /** Notes that a node of an instance was changed. Nothing is concluded from an instance of which another node was. */
  execChanged(exec: number, node: number, work: AddedWork): void {
    const { site } = this.recording
    this.#changeExec(exec, node, () => ({ work: this.#placed(work), site }))
  }

  enabled(exec: number, node: number, isEnabled: boolean): void {
    this.#changeExec(exec, node, () => ({ isOff: !isEnabled }))
  }

  #changeExec(exec: number, node: number, change: (node: BuiltNode) => Partial<BuiltNode>): void {
    if (this.#execs.get(exec)?.change(node, change) !== true) this.execEnded(exec)
  }

  /** Called before a launch, for which the recording needs the nodes as they are now. */
  launched(exec: number): void {
    const built = this.#execs.get(exec)
    if (built === undefined || built.isWritten) return
    const graph = this.#number()
    this.#write(graph, built)
    this.#put({ call: 'updateGraph', exec, graph })
    this.#put({ call: 'destroyGraph', graph })
  }

  execEnded(exec: number): void {
    this.#execs.delete(exec)
    this.#put({ call: 'destroyExec', exec })
    this.#dropCopies()
  }

  graphEnded(graph: number): void {
    this.#captured.delete(graph)
    this.#forget(graph)
    this.#dropCopies()
  }

  #forget(graph: number): void {
    const built = this.#graphs.get(graph)
    this.#graphs.delete(graph)
    if (built !== undefined) for (const [node, owner] of this.#owners) if (owner === built) this.#owners.delete(node)
    const bodies = [...(built?.nodes.values() ?? [])].flatMap(({ work }) => within(work))
    if (bodies.length > 0) for (const [body, other] of this.#graphs) if (bodies.includes(other)) this.#forget(body)
    this.#put({ call: 'destroyGraph', graph })
  }

  #instance(exec: number, graph: number): void {
    const built = this.#graphs.get(graph)
    this.#execs.delete(exec)
    if (built === undefined) return
    if (!built.isWritten) this.#write(graph, built)
    this.#execs.set(exec, built.copy())
  }

  /** The graph as one to which nodes can be added. What was captured becomes one node of it. */
  #built(graph: number): BuiltGraph | undefined {
    const known = this.#graphs.get(graph)
    if (known !== undefined || !this.#captured.delete(graph)) return known
    const built = new BuiltGraph()
    const copy = this.#copyOf(graph)
    built.put(copy, { ...this.#node({ kind: 'graph', graph: copy }, []), isCaptured: true })
    this.#graphs.set(graph, built)
    return built
  }

  #node(work: BuiltNode['work'], after: readonly number[]): BuiltNode {
    return { after: new Set(after), work, site: this.recording.site, isOff: false, isCaptured: false }
  }

  /** The work with the child graph as it is now: the program may change it, or end it. */
  #placed(work: AddedWork): BuiltNode['work'] {
    if (work.kind === 'bodies') {
      const graphs = work.bodies.map((body) => {
        const made = new BuiltGraph(true)
        this.#graphs.set(body, made)
        return made
      })
      return { kind: 'built', graphs }
    }
    if (work.kind !== 'graph') return work
    const built = this.#graphs.get(work.graph)
    if (built !== undefined) return { kind: 'built', graphs: [built.copy()] }
    return this.#captured.has(work.graph) ? { kind: 'graph', graph: this.#copyOf(work.graph) } : NOTHING
  }

  #copyOf(graph: number): number {
    const copy = this.#number()
    const stream = this.recording.captureStream()
    this.#put({ call: 'beginCapture', stream })
    this.#put({ call: 'queue', work: { kind: 'childGraph', stream, graph } })
    this.#put({ call: 'endCapture', stream, graph: copy })
    this.#copies.add(copy)
    return copy
  }

  /** Writes the nodes as captures into a graph, which has no others then. */
  #write(graph: number, built: BuiltGraph): void {
    const stream = this.recording.captureStream()
    const numbers = new Map<number, number>()
    this.#put({ call: 'beginCapture', stream })
    this.#put({ call: 'endCapture', stream, graph })
    for (const [handle, { after, work, site, isOff }] of built.ordered()) {
      const put = (call: RecordedCall, number?: number): void => this.recording.put(call, site, number)
      const number = this.#number()
      numbers.set(handle, number)
      const children = within(work).map((child) => {
        const its = this.#number()
        this.#write(its, child)
        return its
      })
      put({ call: 'beginCaptureInto', stream, graph, after: [...after].map((before) => numbers.get(before) ?? 0) })
      if (work.kind === 'record') put({ call: 'record', event: work.event, stream, external: 1 })
      else if (work.kind === 'wait') put({ call: 'wait', stream, event: work.event, external: 1 })
      for (const added of work.kind === 'graph' ? [work.graph] : children) {
        put({ call: 'queue', work: { kind: 'childGraph', stream, graph: added } })
      }
      const touches = work.kind === 'touches' && !isOff && work.memory.length > 0 ? work : undefined
      const { name = 'node', memory = NO_MEMORY } = touches ?? {}
      put({ call: 'queue', work: { kind: 'library', calls: [{ name, stream, memory }] } }, number)
      put({ call: 'endCapture', stream, graph })
      for (const child of children) put({ call: 'destroyGraph', graph: child })
    }
    built.isWritten = true
  }

  /** Ends the copies of captured graphs that no node refers to any more. */
  #dropCopies(): void {
    if (this.#copies.size === 0) return
    const used = new Set<number>()
    const use = ({ nodes }: BuiltGraph): void => {
      for (const { work } of nodes.values()) {
        if (work.kind === 'graph') used.add(work.graph)
        for (const graph of within(work)) use(graph)
      }
    }
    for (const built of [...this.#graphs.values(), ...this.#execs.values()]) use(built)
    for (const copy of this.#copies) {
      if (used.has(copy)) continue
      this.#copies.delete(copy)
      this.#put({ call: 'destroyGraph', graph: copy })
    }
  }

  #number(): number {
    this.#numbers += 1
    return this.#numbers
  }

  #put(call: RecordedCall): void {
    this.recording.put(call, this.recording.site)
  }
}
