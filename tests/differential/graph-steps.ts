/** The steps of a program that capture, and what is done with the graphs. */
import type { CopyNode, FillNode, Graph, GraphExec, GraphNode, KernelNode } from 'cuda-streams'
import type { MemorySteps } from './memory-steps.js'
import { isError, outcome, SKIPPED } from './outcome.js'
import type { Captured, Instance, Rules } from './rules.js'
import type { Stage } from './stage.js'
import { pick } from './steps.js'
import type { Work } from './work.js'

const MODES = ['global', 'threadLocal', 'relaxed'] as const

const CAN_BE_OFF: ReadonlySet<string> = new Set(['kernel', 'copy', 'fill'])

/** A part of a buffer, and what a fill does there. */
type PartOf = ReturnType<MemorySteps['partOf']>

interface Played {
  readonly exec: GraphExec
  readonly instance: Instance
  readonly nodes: readonly GraphNode[]
  /** What each node does while it is on. */
  works: Work[]
  readonly off: Set<number>
}

export interface GraphParts {
  readonly stage: Stage
  readonly rules: Rules
  readonly guard: (stream: number, works: readonly Work[]) => string
  /** Lets all be done first where the program wants that. False while a capture forbids it. */
  readonly mayAllocate: () => boolean
  /** Is a launch on a stream that captures left out where the graph has host functions? */
  readonly sparesCaptures: boolean
}

export class GraphSteps {
  readonly #parts: GraphParts
  readonly #graphs: { readonly graph: Graph; readonly captured: Captured }[] = []
  readonly #execs: Played[] = []

  constructor(parts: GraphParts) {
    this.#parts = parts
  }

  begin(stream: number, mode: number): string {
    const { stage, rules } = this.#parts
    return outcome(() => {
      stage.stream(stream).beginCapture(pick(MODES, mode))
      rules.begin(stream)
    })
  }

  end(stream: number): string {
    const { stage, rules } = this.#parts
    const began = rules.beganCapture(stream)
    let graph: Graph | undefined
    const result = outcome(() => {
      graph = stage.stream(stream).endCapture()
    })
    if (!began || stage.stream(stream).closed) return result
    const captured = rules.end(stream)
    if (graph !== undefined) this.#graphs.push({ graph, captured })
    return result
  }

  /** Ends all captures. Returns what came of each. */
  endAll(): string {
    const { stage, rules } = this.#parts
    const ends = stage.streams.map((stream, index) =>
      rules.beganCapture(index) && !stream.closed ? this.end(index) : '',
    )
    // Only where a driver does what the rules do not say; twice, since one that joined cannot end a capture.
    for (const stream of [...stage.streams, ...stage.streams]) {
      if (!stream.closed && outcome(() => stream.isCapturing) === 'true') outcome(() => stream.endCapture())
    }
    return ends.join(' ').trim()
  }

  instantiate(index: number): string {
    if (this.#graphs.length === 0 || !this.#parts.mayAllocate()) return SKIPPED
    const { graph, captured } = pick(this.#graphs, index)
    return outcome(() => {
      const exec = graph.instantiate()
      const works = captured.nodes.map(({ work }) => work)
      this.#execs.push({
        exec,
        instance: { nodes: captured.nodes, last: 0n },
        nodes: graph.nodes,
        works,
        off: new Set(),
      })
    })
  }

  launch(index: number, stream: number, guarded: number): string {
    if (this.#execs.length === 0) return SKIPPED
    const { stage, rules, guard, sparesCaptures } = this.#parts
    const { exec, instance } = pick(this.#execs, index)
    const works = instance.nodes.map(({ work }) => work)
    const waits = guarded === 1 ? guard(stream, works) : ''
    const captures = rules.isCapturing(stream)
    // Were it not refused, its host functions would never run.
    if (sparesCaptures && captures && works.some(({ label }) => label !== undefined)) return `${waits}${SKIPPED}`
    const result = outcome(() => void stage.stream(stream).launch(exec))
    if (!isError(result) && !captures) rules.launch(stream, instance)
    return waits + result
  }

  update(exec: number, graph: number): string {
    if (this.#execs.length === 0 || this.#graphs.length === 0 || !this.#parts.mayAllocate()) return SKIPPED
    const [to, from] = [pick(this.#execs, exec), pick(this.#graphs, graph)]
    return outcome(() => {
      to.exec.update(from.graph)
      to.works = from.captured.nodes.map(({ work }) => work)
      this.#put(to, from.captured.nodes)
    })
  }

  /** Gives one of the fills of an instance another part of a buffer. */
  updateNode(index: number, which: number, value: number, { part, work }: PartOf): string {
    const to = this.#execs.length === 0 ? undefined : pick(this.#execs, index)
    const fills = to?.nodes.filter((node): node is FillNode => node.kind === 'fill') ?? []
    if (to === undefined || fills.length === 0) return SKIPPED
    const node = pick(fills, which)
    return outcome(() => {
      to.exec.update(node, part(), value % 256)
      to.works[node.index] = work
      this.#put(to, to.instance.nodes)
    })
  }

  setEnabled(index: number, which: number, on: number): string {
    const to = this.#execs.length === 0 ? undefined : pick(this.#execs, index)
    const nodes = to?.nodes.filter((node): node is KernelNode | CopyNode | FillNode => CAN_BE_OFF.has(node.kind)) ?? []
    if (to === undefined || nodes.length === 0) return SKIPPED
    const node = pick(nodes, which)
    return outcome(() => {
      to.exec.setEnabled(node, on % 2 === 1)
      if (on % 2 === 1) to.off.delete(node.index)
      else to.off.add(node.index)
      this.#put(to, to.instance.nodes)
    })
  }

  /** The instance has these nodes, with the work that they have now. */
  #put(to: Played, nodes: Instance['nodes']): void {
    to.instance.nodes = nodes.map((node, at) => ({ ...node, work: to.off.has(at) ? {} : (to.works[at] ?? {}) }))
  }

  nodeCount(index: number): string {
    return this.#graphs.length === 0 ? SKIPPED : outcome(() => pick(this.#graphs, index).graph.nodeCount)
  }

  closeGraph(index: number): string {
    return this.#graphs.length === 0 ? SKIPPED : outcome(() => pick(this.#graphs, index).graph.close())
  }

  closeExec(index: number): string {
    return this.#execs.length === 0 ? SKIPPED : outcome(() => pick(this.#execs, index).exec.close())
  }

  close(): void {
    for (const { exec } of this.#execs) exec.close()
    for (const { graph } of this.#graphs) graph.close()
  }
}
