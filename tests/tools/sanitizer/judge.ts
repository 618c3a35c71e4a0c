/**
 * A second opinion on races, written independently from CUDA's rules and as plain as can be: every use of memory and every call is
 * a node, every node knows the full set of those before it, and every pair is looked at. It is given what happened: the
 * calls in their order, what queries answered, and when host functions ran.
 */

import type { StepOf, Use } from '../../programs/steps.js'

export type StreamKind = 'nonBlocking' | 'blocking' | 'null'

/** A word that streams write and wait for, and a number there. */
export interface FlagValue {
  readonly flag: number
  readonly value: number
}

/** What is captured, on the stream that begins the capture (0) or on one that joins it (1). */
export type GraphStep = StepOf<
  'work' | 'join' | 'recordExternal' | 'waitExternal' | 'writeWord' | 'launchGraph' | 'again'
>

export type Step = StepOf<
  | 'work'
  | 'record'
  | 'wait'
  | 'waitStream'
  | 'hostUse'
  | 'view'
  | 'synchronizeStream'
  | 'queryStream'
  | 'promise'
  | 'synchronizeEvent'
  | 'queryEvent'
  | 'synchronizeDevice'
  | 'turn'
  | 'drain'
  | 'writeWord'
  | 'waitWord'
  | 'launchGraph'
  | 'replace'
>

export interface Program {
  readonly streams: readonly StreamKind[]
  readonly graphs: readonly (readonly GraphStep[])[]
  readonly steps: readonly Step[]
}

/** What happened: a step was done, or the host function of a step ran; and what the words held before, where a stream uses one. */
export type Happened =
  | { readonly step: number; readonly answer?: boolean; readonly held?: readonly number[] }
  | { readonly ran: number }

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

/** A word was written. */
interface Written {
  readonly value: number
  /** Undefined for what was there. */
  readonly node: Node | undefined
  readonly before: ReadonlySet<Node>
}

/** A stream waits for a word. */
interface Waiting extends FlagValue {
  readonly stream: number
  /** What it comes after without the wait. */
  readonly before: ReadonlySet<Node>
  readonly node: Node
  /** Where the stream stood since. */
  tail: Node
  learned: ReadonlySet<Node> | undefined
}

class Judge {
  readonly #program: Program
  readonly #before: Set<Node>[] = []
  /** Where each stream stands, with those that are closed. */
  readonly #tails: (Node | undefined)[]
  readonly #kinds: StreamKind[]
  /** By its place in the program, the stream that is there now. */
  readonly #streams: number[]
  readonly #events = new Map<number, Node>()
  readonly #launches = new Map<number, Node>()
  readonly #seats = new Map<number, Node>()
  readonly #done: Done[] = []
  /** Where host functions have looked: they do not race with each other. */
  readonly #looks = new Set<Node>()
  #host: Node | undefined
  readonly #written = new Map<number, Written[]>()
  #waiting: Waiting[] = []
  /** Waits that nothing meets yet: what comes behind is not judged. */
  readonly #held = new Set<Node>()
  /** All that any part of JavaScript has known. */
  readonly #known = new Set<Node>()
  /** Host functions that have run. */
  readonly #ran: Node[] = []

  constructor(
    program: Program,
    private readonly isCausal: boolean,
  ) {
    this.#program = program
    this.#tails = program.streams.map(() => undefined)
    this.#kinds = [...program.streams]
    this.#streams = program.streams.map((_, place) => place)
  }

  /** The first race, if there is one: of the first use that races, with the latest that it races with. */
  look(happened: readonly Happened[]): Pair | undefined {
    for (const one of happened) {
      const pair = 'ran' in one ? this.#runs(one.ran) : this.#step(one.step, one.answer, one.held ?? [])
      if (pair !== undefined) return pair
    }
    return undefined
  }

  /** A node that comes after these, and nothing else. */
  #behind(before: ReadonlySet<Node>): Node {
    this.#before.push(new Set(before))
    return this.#before.length - 1
  }

  #pastOf(node: Node): Set<Node> {
    return new Set([...(this.#before[node] ?? []), node])
  }

  /** Where all that was written is done, a word holds what is there now. */
  #lookAt(flag: number, held: readonly number[]): Written[] {
    const written = this.#written.get(flag) ?? []
    if (written.some(({ node }) => node !== undefined && !this.#known.has(node))) return written
    const base = [{ value: held[flag] ?? 0, node: undefined, before: new Set(this.#known) }]
    this.#written.set(flag, base)
    return base
  }

  #writeValue({ flag, value }: FlagValue, node: Node, held: readonly number[]): void {
    const write = { value, node, before: this.#pastOf(node) }
    this.#written.set(flag, [...this.#lookAt(flag, held), write])
    for (const wait of this.#waiting) {
      if (wait.flag !== flag || value < wait.value || this.#isBefore(wait.node, node)) continue
      const isFirst = wait.learned === undefined
      if (!isFirst && this.#tails[wait.stream] !== wait.tail) continue
      this.#learn(wait, write)
      this.#held.delete(wait.node)
    }
  }

  #learn(wait: Waiting, { before }: Written): void {
    const isFirst = wait.learned === undefined
    wait.learned = new Set([...before].filter((node) => wait.learned?.has(node) ?? true))
    const tail = this.#tails[wait.stream]
    // Once something stands behind the wait, that keeps what it came after.
    const rest = tail === wait.tail ? wait.before : isFirst && tail !== undefined ? this.#pastOf(tail) : undefined
    if (rest === undefined) return
    const node = this.#behind(new Set([...rest, wait.node, ...wait.learned]))
    this.#tails[wait.stream] = node
    if (tail === wait.tail) wait.tail = node
  }

  /** The stream comes after what all writes come after that can meet the wait. */
  #waitValue({ flag, value }: FlagValue, stream: number, held: readonly number[]): void {
    const written = this.#lookAt(flag, held)
    const before = this.#pastOf(this.#queue(stream))
    const node = this.#behind(before)
    const wait: Waiting = { flag, value, stream, before, node, tail: node, learned: undefined }
    this.#tails[stream] = node
    const isKnown = ({ node: one }: Written): boolean => one === undefined || before.has(one)
    for (const [index, write] of written.entries()) {
      const isOver = written.some(
        (later, nth) =>
          nth > index &&
          isKnown(later) &&
          later.node !== undefined &&
          (write.node === undefined || this.#isBefore(write.node, later.node)),
      )
      if (!isOver && write.value >= value) this.#learn(wait, write)
    }
    this.#waiting.push(wait)
    if (wait.learned !== undefined) return
    // Perhaps it comes after all that is queued.
    wait.tail = this.#node(node, ...this.#tails)
    this.#tails[stream] = wait.tail
    this.#held.add(wait.node)
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
    if (this.#kinds[stream] !== 'blocking') this.#queue(stream, recorded)
    else this.#tails[stream] = this.#node(this.#tails[stream], this.#host, recorded)
  }

  /** A record comes after what work would come after, but without timing it is no work of a blocking stream. */
  #record(stream: number): Node {
    if (this.#kinds[stream] !== 'blocking') return this.#queue(stream)
    return this.#node(this.#tails[stream], this.#host, ...this.#nullStreamsFor(stream))
  }

  #nullStreamsFor(stream: number): (Node | undefined)[] {
    const kinds = this.#kinds
    if (kinds[stream] === 'nonBlocking') return []
    const others = kinds[stream] === 'null' ? ['blocking', 'null'] : ['null']
    return this.#tails.filter((_, other) => others.includes(kinds[other] ?? ''))
  }

  #step(index: number, answer: boolean | undefined, held: readonly number[]): Pair | undefined {
    const given = this.#program.steps[index]
    const step = given && this.#withStreams(given)
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
      case 'hostUse':
        this.#seats.set(index, this.#queue(step.stream))
        return undefined
      case 'view':
        return this.#look({ step: index, node: undefined }, step.used, undefined)
      case 'promise':
        this.#record(step.stream)
        return undefined
      case 'queryStream':
        if (answer === true) this.#knows(...this.#blockedBy(step.stream))
        return undefined
      case 'synchronizeStream':
        this.#knows(...this.#blockedBy(step.stream))
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
      case 'launchGraph':
        return this.#launch(index, step.stream, step.graph, held)
      case 'drain':
        this.#knows(...this.#ran)
        return undefined
      case 'replace': {
        const kind = this.#kinds[step.stream]
        const place = given !== undefined && 'stream' in given ? given.stream : 0
        if (kind !== undefined && kind !== 'null') this.#streams[place] = this.#kinds.push(kind) - 1
        return undefined
      }
      case 'writeWord':
        this.#writeValue(step, this.#queue(step.stream), held)
        return undefined
      case 'waitWord':
        this.#waitValue(step, step.stream, held)
        return undefined
      default:
        return undefined
    }
  }

  /** The step, with the streams that are at its places now. */
  #withStreams(step: Step): Step {
    const now = (place: number): number => this.#streams[place] ?? place
    const placed = 'stream' in step ? { ...step, stream: now(step.stream) } : step
    return 'other' in placed ? { ...placed, other: now(placed.other) } : placed
  }

  #knows(...nodes: (Node | undefined)[]): void {
    this.#host = this.#node(this.#host, ...nodes)
    for (const node of this.#before[this.#host] ?? []) this.#known.add(node)
  }

  /** All that is done when the stream is. */
  #blockedBy(stream: number): (Node | undefined)[] {
    const kinds = this.#kinds
    if (kinds[stream] !== 'null') return [this.#tails[stream]]
    return this.#tails.filter((_, other) => kinds[other] !== 'nonBlocking')
  }

  /** A host function ran: JavaScript comes after what was before it in its stream, if only by chance. */
  #runs(index: number): Pair | undefined {
    const step = this.#program.steps[index]
    const seat = this.#seats.get(index)
    if (step?.what !== 'hostUse' || seat === undefined) throw new Error(`step ${index} is no host function`)
    this.#ran.push(seat)
    for (const node of this.#pastOf(seat)) this.#known.add(node)
    if (!this.isCausal) this.#knows(seat)
    return step.perhaps === undefined ? undefined : this.#look({ step: index, node: undefined }, step.perhaps, seat)
  }

  #launch(index: number, stream: number, graph: number, held: readonly number[]): Pair | undefined {
    const begin = this.#queue(stream, this.#launches.get(graph))
    const { pair, tails } = this.#runGraph(index, graph, begin, held)
    const end = this.#queue(stream, ...tails)
    this.#launches.set(graph, end)
    return pair
  }

  #runGraph(
    index: number,
    graph: number,
    begin: Node,
    held: readonly number[],
  ): { readonly pair: Pair | undefined; readonly tails: readonly Node[] } {
    let tails: [Node, Node] = [begin, begin]
    const ends: Node[] = []
    let joined = false
    let pair: Pair | undefined
    for (const [at, step] of (this.#program.graphs[graph] ?? []).entries()) {
      if (step.what === 'again') {
        ends.push(...tails)
        const node = step.isBehind ? this.#node(...ends) : begin
        tails = [node, node]
        joined = false
        continue
      }
      const side = step.stream === 0 ? 0 : 1
      if (side === 1 && !joined) {
        joined = true
        tails[1] = tails[0]
      }
      if (step.what === 'join') {
        if (side === 0 && !joined) continue
        tails[side] = this.#node(...tails)
        continue
      }
      if (step.what === 'launchGraph') {
        const inner = this.#runGraph(index, step.graph, tails[side], held)
        pair ??= inner.pair
        tails[side] = this.#node(...inner.tails)
        continue
      }
      const outside = step.what === 'waitExternal' ? this.#events.get(step.event) : undefined
      const node = this.#node(tails[side], outside)
      tails[side] = node
      if (step.what === 'recordExternal') this.#events.set(step.event, node)
      if (step.what === 'writeWord') this.#writeValue(step, node, held)
      if (step.what === 'work') pair ??= this.#use({ step: index, node: at }, step.uses, node, node)
    }
    return { pair, tails: [...ends, ...tails] }
  }

  #use(side: Side, uses: readonly Use[], from: Node, node: Node): Pair | undefined {
    const pair = this.#raceOf(side, uses, (other) => this.#isBefore(other, from) || this.#isHeld(from))
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
      const before = known !== undefined && (this.#isBefore(other, known) || this.#isHeld(known))
      return before || (seat !== undefined && this.#isBefore(seat, other)) || this.#looks.has(other)
    })
    // These programs only look. What is queued later comes after that where it comes after the host function.
    if (this.isCausal && seat !== undefined) {
      this.#looks.add(seat)
      this.#done.push({ side, use: { ...use, writes: false }, node: seat })
    }
    return pair
  }

  /** Does it come behind a wait that nothing meets yet? */
  #isHeld(node: Node): boolean {
    for (const wait of this.#held) if (this.#isBefore(wait, node)) return true
    return false
  }

  #raceOf(side: Side, uses: readonly Use[], isOrdered: (other: Node) => boolean): Pair | undefined {
    for (const other of [...this.#done].reverse().sort((a, b) => b.side.step - a.side.step)) {
      if (isOrdered(other.node) || this.#isHeld(other.node)) continue
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
