/** The steps of a program that capture, and what is done with the graphs. */
import type { CopyNode, FillNode, Graph, GraphExec, GraphNode, KernelNode } from 'cuda-streams'
import { mix } from './kernel.js'
import { type MemorySteps, WIDTHS } from './memory-steps.js'
import { isError, outcome, SKIPPED } from './outcome.js'
import type { Captured, Instance, Rules } from './rules.js'
import type { Stage } from './stage.js'
import { type CaptureStep, CELL_BYTES, type Grow, pick, type StepOf } from './steps.js'
import { type Node, type Work, worksOf } from './work.js'

const MODES = ['global', 'threadLocal', 'relaxed'] as const

const CAN_BE_OFF: ReadonlySet<string> = new Set(['kernel', 'copy', 'fill'])

interface Played {
  readonly exec: GraphExec
  readonly instance: Instance
  readonly nodes: readonly GraphNode[]
  readonly kernels: ReturnType<typeof kernelsOf>
  /** Was it updated by a graph with the same nodes in another order? Nobody says which of them is which then. */
  isMixed: boolean
  /** What each node does while it is on. */
  works: Work[]
  readonly off: Set<number>
}

export interface GraphParts {
  readonly stage: Stage
  readonly rules: Rules
  readonly guard: (stream: number, works: readonly Work[]) => string
  readonly memory: Pick<MemorySteps, 'fillOf' | 'copyOf'>
  /** Is a node left as it is where nobody says which it is? */
  readonly sparesMixed: boolean
  /** Lets all be done first where the program wants that. False while a capture forbids it. */
  readonly mayAllocate: () => boolean
  /** Are no instances made while anything stands? In green contexts there is place for few: host functions are run first. */
  readonly sparesGreens: boolean
  /** Is a launch on a stream that captures left out where the graph has host functions? */
  readonly sparesCaptures: boolean
  /** Is nothing uploaded on a null stream that takes no work? */
  readonly sparesForbidden: boolean
  /** Is the first graph or instance the newest? A program cannot know how many there are. */
  readonly countsFromNewest: boolean
}

export class GraphSteps {
  readonly #parts: GraphParts
  readonly #graphs: { readonly graph: Graph; captured: Captured }[] = []
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
    const { rules, mayAllocate, sparesGreens } = this.#parts
    if (this.#graphs.length === 0 || !mayAllocate() || (sparesGreens && rules.anyStands)) return SKIPPED
    const { graph, captured } = this.#pick(this.#graphs, index)
    return outcome(() => {
      const exec = graph.instantiate()
      const works = captured.nodes.map(({ work }) => work)
      this.#execs.push({
        exec,
        instance: { nodes: captured.nodes, last: 0n },
        nodes: graph.nodes,
        kernels: kernelsOf(graph),
        isMixed: false,
        works,
        off: new Set(),
      })
    })
  }

  launch(index: number, stream: number, guarded: number): string {
    if (this.#execs.length === 0) return SKIPPED
    const { stage, rules, guard, sparesCaptures } = this.#parts
    const { exec, instance } = this.#pick(this.#execs, index)
    const works = worksOf(instance.nodes)
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
    const [to, from] = [this.#pick(this.#execs, exec), this.#pick(this.#graphs, graph)]
    if (to.works.some(({ node }, at) => isSpecial(node) !== isSpecial(from.captured.nodes[at]?.work.node)))
      return SKIPPED
    return outcome(() => {
      to.exec.update(from.graph)
      if (!isAlike(to.instance.nodes, from.captured.nodes)) to.isMixed = true
      to.works = from.captured.nodes.map(({ work }) => work)
      this.#put(to, from.captured.nodes)
    })
  }

  /** Gives one of the fills of an instance another part of a buffer. */
  updateFill(step: StepOf<'updateFill'> | StepOf<'updateNode'>): string {
    const to = this.#changed(step.exec)
    const fills = to?.nodes.filter((node): node is FillNode => node.kind === 'fill') ?? []
    if (to === undefined || fills.length === 0) return SKIPPED
    const node = pick(fills, step.node)
    const parts = this.#parts.memory.fillOf(step)
    return this.#change(to, node, parts.work, () => {
      const width = step.what === 'updateNode' ? 1 : pick(WIDTHS, step.width)
      to.exec.update(node, parts.to(), step.value % 2 ** (8 * width), { width })
    })
  }

  updateCopy(step: StepOf<'updateCopy'>): string {
    const to = this.#changed(step.exec)
    const copies = to?.nodes.filter((node): node is CopyNode => node.kind === 'copy') ?? []
    if (to === undefined || copies.length === 0) return SKIPPED
    const node = pick(copies, step.node)
    const parts = this.#parts.memory.copyOf(step)
    return this.#change(to, node, parts.work, () => to.exec.update(node, parts.to(), parts.from()))
  }

  updateKernel(step: StepOf<'updateKernel'>): string {
    const to = this.#changed(step.exec)
    if (to === undefined || to.kernels.length === 0) return SKIPPED
    const node = pick(to.kernels, step.node)
    const parts = this.#parts.memory.copyOf(step)
    return this.#change(to, node, parts.work, () => {
      const config = { grid: 1, block: (parts.cells * CELL_BYTES) / 4 }
      to.exec.update(node, config, parts.to(), parts.from(), step.rounds)
    })
  }

  /** The instance that a node is changed of. */
  #changed(index: number): Played | undefined {
    const to = this.#execs.length === 0 ? undefined : this.#pick(this.#execs, index)
    // Which kind of node another library's work is, the library does not know.
    if (to?.works.some(({ node }) => node === 'external')) return undefined
    return to?.isMixed && this.#parts.sparesMixed ? undefined : to
  }

  #pick<T>(list: readonly T[], index: number): T {
    return pick(list, this.#parts.countsFromNewest ? list.length - 1 - (index % list.length) : index)
  }

  #change(to: Played, { index }: GraphNode, work: () => Work, change: () => unknown): string {
    return outcome(() => {
      change()
      to.works[index] = work()
      this.#put(to, to.instance.nodes)
    })
  }

  setEnabled(index: number, which: number, on: number): string {
    const to = this.#changed(index)
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

  uploadExec(index: number, stream: number): string {
    const { stage, rules, sparesForbidden } = this.#parts
    if (this.#execs.length === 0 || (sparesForbidden && rules.isForbidden(stream))) return SKIPPED
    return outcome(() => {
      this.#pick(this.#execs, index).exec.upload(stage.stream(stream))
      if (!rules.isCapturing(stream)) rules.queueNothing(stream)
    })
  }

  /** Captures the work of the body; its end may throw, or return a promise, which is refused. Nobody has the graph where it is not kept. */
  capture(
    { stream, mode, ends, body }: CaptureStep,
    isKept: boolean,
    play: (step: CaptureStep['body'][number]) => string,
  ): string {
    const { stage, rules } = this.#parts
    const results: string[] = []
    let graph: Graph | undefined
    let began = false
    const result = outcome(() => {
      const work = (): unknown => {
        began = true
        rules.begin(stream)
        for (const step of body) results.push(play(step))
        if (ends === 2) throw new Error('thrown')
        return ends === 3 ? Promise.resolve() : undefined
      }
      graph = stage.stream(stream).capture(work, { mode: pick(MODES, mode) })
    })
    if (began) {
      const captured = rules.end(stream)
      if (isKept && graph !== undefined) this.#graphs.push({ graph, captured })
      else graph?.close()
    }
    return [...results, result].join(' | ')
  }

  /** Puts a copy of a graph into a capture. */
  launchGraph(index: number, stream: number): string {
    if (this.#graphs.length === 0) return SKIPPED
    const { stage, rules } = this.#parts
    const { graph, captured } = this.#pick(this.#graphs, index)
    // On a GPU host functions may be one graph deep.
    if (captured.nodes.some(({ work }) => work.within !== undefined && worksOf(work.within).some(isOnHost)))
      return SKIPPED
    return outcome(() => {
      stage.stream(stream).launch(graph)
      rules.queue(stream, { within: [...captured.nodes] })
    })
  }

  /** Captures the work of the body into a graph, behind one of its nodes. */
  grow({ graph: index, stream, node, mode, body }: Grow, play: (step: Grow['body'][number]) => string): string {
    if (this.#graphs.length === 0) return SKIPPED
    const { stage, rules } = this.#parts
    const known = this.#pick(this.#graphs, index)
    const { graph, captured } = known
    const results: string[] = []
    let began = false
    const result = outcome(() => {
      const after = graph.nodeCount === 0 ? [] : [pick(graph.nodes, node)]
      const work = (): void => {
        began = true
        rules.begin(
          stream,
          captured.nodes,
          after.map(({ index: at }) => at),
        )
        for (const step of body) results.push(play('stream' in step ? { ...step, stream } : step))
      }
      stage.stream(stream).capture(work, { into: graph, after, mode: pick(MODES, mode) })
    })
    if (began) {
      const grown = rules.end(stream)
      if (!isError(result)) known.captured = { nodes: [...grown.nodes] }
    }
    return [...results, result].join(' | ')
  }

  /** The instance has these nodes, with the work that they have now. */
  #put(to: Played, nodes: Instance['nodes']): void {
    to.instance.nodes = nodes.map((node, at) => ({ ...node, work: to.off.has(at) ? {} : (to.works[at] ?? {}) }))
  }

  nodeCount(index: number): string {
    return this.#graphs.length === 0 ? SKIPPED : outcome(() => this.#pick(this.#graphs, index).graph.nodeCount)
  }

  closeGraph(index: number): string {
    return this.#graphs.length === 0 ? SKIPPED : outcome(() => this.#pick(this.#graphs, index).graph.close())
  }

  closeExec(index: number): string {
    return this.#execs.length === 0 ? SKIPPED : outcome(() => this.#pick(this.#execs, index).exec.close())
  }

  close(): void {
    for (const { exec } of this.#execs) exec.close()
    for (const { graph } of this.#graphs) graph.close()
  }
}

const kernelsOf = (graph: Graph) => graph.nodesOf(mix)

const isOnHost = ({ label, node }: Work): boolean => label !== undefined || node === 'host'

/** What an update makes of them, or out of other nodes, nobody has measured. */
const isSpecial = (node: Work['node']): Work['node'] => (node === 'host' ? undefined : node)

/** Have two graphs the same order among their nodes? CUDA pairs nodes by it. */
function isAlike(a: readonly Node[], b: readonly Node[]): boolean {
  const shape = (nodes: readonly Node[]): string =>
    nodes.map(({ after }) => [...after].sort((one, two) => one - two).join(' ')).join(',')
  return shape(a) === shape(b)
}
