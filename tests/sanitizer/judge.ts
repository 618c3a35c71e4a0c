/**
 * A second opinion on races, written anew from CUDA's rules and as plain as can be: every use of memory and every call is
 * a node, every node knows the full set of those before it, and every pair is looked at. It is given what happened: the
 * calls in their order, what queries answered, and when host functions ran.
 */

export type StreamKind = 'nonBlocking' | 'blocking' | 'null'

/** Bytes of one piece of memory. */
export interface Use {
  readonly memory: number
  readonly start: number
  readonly end: number
  readonly writes: boolean
}

/** What is captured, on the stream that begins the capture (0) or on one that joins it (1). */
export type GraphStep =
  | { readonly what: 'work'; readonly side: 0 | 1; readonly uses: readonly Use[] }
  | { readonly what: 'wait'; readonly side: 0 | 1 }
  | { readonly what: 'recordExternal' | 'waitExternal'; readonly side: 0 | 1; readonly event: number }

export type Step =
  | { readonly what: 'work'; readonly stream: number; readonly uses: readonly Use[] }
  | { readonly what: 'record' | 'wait'; readonly stream: number; readonly event: number }
  | { readonly what: 'waitStream'; readonly stream: number; readonly other: number }
  | { readonly what: 'host'; readonly stream: number; readonly use: Use | undefined }
  | { readonly what: 'view'; readonly use: Use }
  | { readonly what: 'synchronize' | 'query' | 'promise'; readonly stream: number }
  | { readonly what: 'synchronizeEvent' | 'queryEvent'; readonly event: number }
  | { readonly what: 'synchronizeDevice' | 'turn' }
  | { readonly what: 'launch'; readonly stream: number; readonly graph: number }

export interface Program {
  readonly streams: readonly StreamKind[]
  readonly graphs: readonly (readonly GraphStep[])[]
  readonly steps: readonly Step[]
}

/** What happened: a step was done, or the host function of a step ran. */
export type Happened = { readonly step: number; readonly answer?: boolean } | { readonly ran: number }

/** Who is told of in the first report: steps, and for a graph the step within it. */
export interface Side {
  readonly step: number
  readonly node: number | undefined
}

export interface Pair {
  readonly first: Side
  readonly second: Side
}

type Node = number

interface Done {
  readonly side: Side
  readonly use: Use
  /** What has to come after this node comes after the use. */
  readonly node: Node
}

class Judge {
  readonly #program: Program
  readonly #before: Set<Node>[] = []
  readonly #tails: (Node | undefined)[]
  readonly #events = new Map<number, Node>()
  readonly #launches = new Map<number, Node>()
  readonly #seats = new Map<number, Node>()
  readonly #done: Done[] = []
  /** Where host functions have looked: they do not race with each other. */
  readonly #looks = new Set<Node>()
  #host: Node | undefined

  constructor(
    program: Program,
    private readonly isCausal: boolean,
  ) {
    this.#program = program
    this.#tails = program.streams.map(() => undefined)
  }

  /** The first race, if there is one: of the first use that races, with the latest that it races with. */
  look(happened: readonly Happened[]): Pair | undefined {
    for (const one of happened) {
      const pair = 'ran' in one ? this.#ran(one.ran) : this.#step(one.step, one.answer)
      if (pair !== undefined) return pair
    }
    return undefined
  }

  #node(...after: (Node | undefined)[]): Node {
    const before = new Set<Node>()
    for (const node of after) {
      if (node === undefined) continue
      before.add(node)
      for (const earlier of this.#before[node] ?? []) before.add(earlier)
    }
    this.#before.push(before)
    return this.#before.length - 1
  }

  #isBefore(a: Node, b: Node): boolean {
    return a === b || this.#before[b]?.has(a) === true
  }

  /** Queues something: behind the stream, behind what JavaScript knows, and by the null stream's rules. */
  #queue(stream: number, ...after: (Node | undefined)[]): Node {
    const node = this.#node(this.#tails[stream], this.#host, ...this.#nullStreamsFor(stream), ...after)
    this.#tails[stream] = node
    return node
  }

  /** On a blocking stream a wait is no work that the null stream's comes before. */
  #wait(stream: number, recorded: Node): void {
    if (this.#program.streams[stream] !== 'blocking') this.#queue(stream, recorded)
    else this.#tails[stream] = this.#node(this.#tails[stream], this.#host, recorded)
  }

  /** A record comes after what work would come after, but without timing it is no work of a blocking stream. */
  #record(stream: number): Node {
    if (this.#program.streams[stream] !== 'blocking') return this.#queue(stream)
    return this.#node(this.#tails[stream], this.#host, ...this.#nullStreamsFor(stream))
  }

  #nullStreamsFor(stream: number): (Node | undefined)[] {
    const { streams } = this.#program
    if (streams[stream] === 'nonBlocking') return []
    const others = streams[stream] === 'null' ? ['blocking', 'null'] : ['null']
    return this.#tails.filter((_, other) => others.includes(streams[other] ?? ''))
  }

  #step(index: number, answer: boolean | undefined): Pair | undefined {
    const step = this.#program.steps[index]
    switch (step?.what) {
      case 'work': {
        const node = this.#queue(step.stream)
        return this.#use({ step: index, node: undefined }, step.uses, node, node)
      }
      case 'record':
        this.#events.set(step.event, this.#record(step.stream))
        return undefined
      case 'wait': {
        const recorded = this.#events.get(step.event)
        if (recorded !== undefined) this.#wait(step.stream, recorded)
        return undefined
      }
      case 'waitStream':
        this.#wait(step.stream, this.#record(step.other))
        return undefined
      case 'host':
        this.#seats.set(index, this.#queue(step.stream))
        return undefined
      case 'view':
        return this.#look({ step: index, node: undefined }, step.use, undefined)
      case 'promise':
        this.#record(step.stream)
        return undefined
      case 'query':
        if (answer === true) this.#knows(...this.#heldBy(step.stream))
        return undefined
      case 'synchronize':
        this.#knows(...this.#heldBy(step.stream))
        return undefined
      case 'queryEvent':
        if (answer === true) this.#knows(this.#events.get(step.event))
        return undefined
      case 'synchronizeEvent':
        this.#knows(this.#events.get(step.event))
        return undefined
      case 'synchronizeDevice':
        this.#knows(...this.#tails)
        return undefined
      case 'launch':
        return this.#launch(index, step.stream, step.graph)
      default:
        return undefined
    }
  }

  #knows(...nodes: (Node | undefined)[]): void {
    this.#host = this.#node(this.#host, ...nodes)
  }

  /** All that is done when the stream is. */
  #heldBy(stream: number): (Node | undefined)[] {
    const { streams } = this.#program
    if (streams[stream] !== 'null') return [this.#tails[stream]]
    return this.#tails.filter((_, other) => streams[other] !== 'nonBlocking')
  }

  /** A host function ran: JavaScript comes after what was before it in its stream, if only by chance. */
  #ran(index: number): Pair | undefined {
    const step = this.#program.steps[index]
    const seat = this.#seats.get(index)
    if (step?.what !== 'host' || seat === undefined) throw new Error(`step ${index} is no host function`)
    if (!this.isCausal) this.#knows(seat)
    return step.use === undefined ? undefined : this.#look({ step: index, node: undefined }, step.use, seat)
  }

  #launch(index: number, stream: number, graph: number): Pair | undefined {
    const begin = this.#queue(stream, this.#launches.get(graph))
    const tails: [Node, Node] = [begin, begin]
    let joined = false
    let pair: Pair | undefined
    for (const [at, step] of (this.#program.graphs[graph] ?? []).entries()) {
      const side = step.side
      if (side === 1 && !joined) {
        joined = true
        tails[1] = tails[0]
      }
      if (step.what === 'wait') {
        if (side === 0 && !joined) continue
        tails[side] = this.#node(...tails)
        continue
      }
      const outside = step.what === 'waitExternal' ? this.#events.get(step.event) : undefined
      const node = this.#node(tails[side], outside)
      tails[side] = node
      if (step.what === 'recordExternal') this.#events.set(step.event, node)
      if (step.what === 'work') pair ??= this.#use({ step: index, node: at }, step.uses, node, node)
    }
    const end = this.#queue(stream, ...tails)
    this.#launches.set(graph, end)
    return pair
  }

  #use(side: Side, uses: readonly Use[], from: Node, node: Node): Pair | undefined {
    const pair = this.#raceOf(side, uses, (other) => this.#isBefore(other, from))
    for (const use of uses) this.#done.push({ side, use, node })
    return pair
  }

  /**
   * JavaScript looks, after all that it knows. A host function knows what was before it in its stream, and is before all
   * that comes behind it; what else was done when it ran is chance.
   */
  #look(side: Side, use: Use, seat: Node | undefined): Pair | undefined {
    const known = seat ?? this.#host
    const pair = this.#raceOf(side, [use], (other) => {
      const before = known !== undefined && this.#isBefore(other, known)
      return before || (seat !== undefined && this.#isBefore(seat, other)) || this.#looks.has(other)
    })
    // These programs only look. What is queued later comes after that where it comes after the host function.
    if (this.isCausal && seat !== undefined) {
      this.#looks.add(seat)
      this.#done.push({ side, use: { ...use, writes: false }, node: seat })
    }
    return pair
  }

  #raceOf(side: Side, uses: readonly Use[], isOrdered: (other: Node) => boolean): Pair | undefined {
    for (const other of [...this.#done].reverse().sort((a, b) => b.side.step - a.side.step)) {
      if (isOrdered(other.node)) continue
      if (!uses.some((use) => clashes(use, other.use))) continue
      // A host function runs late, but was queued when it was.
      return other.side.step <= side.step ? { first: other.side, second: side } : { first: side, second: other.side }
    }
    return undefined
  }
}

function clashes(a: Use, b: Use): boolean {
  return a.memory === b.memory && a.start < b.end && b.start < a.end && (a.writes || b.writes)
}

export function judge(program: Program, happened: readonly Happened[], isCausal: boolean): Pair | undefined {
  return new Judge(program, isCausal).look(happened)
}
