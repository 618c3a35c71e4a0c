/** The steps of a run, how they are recorded, and which of them are in conflict, so that their order can be observed. */
import { monotonicTime } from '../../foundation/base/event-loop.js'
import { shortCallSite } from '../../foundation/base/stack.js'
import { type Choice, type Director, isFreeBeside, type Where } from '../../simulator/machine/chosen-scheduler.js'
import type { SimOperation, SimStream } from '../../simulator/machine/machine-state.js'
import type { HostLook } from '../../simulator/machine/scheduler.js'
import { SimOperationKind, type Touch, touchesOverlap } from '../../simulator/machine/work.js'

/** The number that stands for the host among those of the operations. */
export const HOST = 0

export interface Step {
  readonly kind: Choice['kind']
  /** The number of the operation, or HOST. */
  readonly process: number
  /** The process that the default schedule chooses. */
  readonly defaultProcess: number
  /** The operation whose host function JavaScript was in; HOST if it was in none. */
  readonly inside: number
  /** Whether JavaScript runs in this step. */
  readonly javascript: boolean
  /** Whether JavaScript begins to run in this step. Before, the host waited or the event loop had nothing to do. */
  readonly begins: boolean
  /** The number of blocking waits, one inside the other, that the host was in before. */
  readonly depth: number
  /** The only operations whose host functions could have run instead, whether due or not; undefined if any could. */
  readonly runnable: ReadonlySet<number> | undefined
  /** The earlier steps without which this one could not happen. */
  readonly causes: readonly number[]
  touches: readonly Touch[]
  /** The operations that the host queried. */
  looks: ReadonlySet<number>
  /** The operations that this step completed. */
  ended: ReadonlySet<number>
  /** Whether the devices were lost in this step. */
  faults: boolean
  /** The call stacks of what JavaScript did, if they were requested. */
  site: string | undefined
}

/** The reason why the order of two steps matters. */
export type Conflict = 'memory' | 'look' | 'javascript' | 'fault'

/** The reason why the order of two steps matters; undefined if it does not. */
export function conflictOf(a: Step, b: Step): Conflict | undefined {
  if (touchesOverlap(a.touches, b.touches) !== undefined) return 'memory'
  if (meet(a.looks, b.ended) || meet(b.looks, a.ended)) return 'look'
  if (a.javascript && b.javascript) return 'javascript'
  return a.faults || b.faults ? 'fault' : undefined
}

function meet(looked: ReadonlySet<number>, ended: ReadonlySet<number>): boolean {
  for (const operation of looked) if (ended.has(operation)) return true
  return false
}

/** Chooses the process that makes the step at `place` of the run. */
export type Picker = (choices: readonly Choice[], place: number, steps: readonly Step[]) => Choice

export const processOf = ({ operation }: Choice): number => operation?.sequence ?? HOST

const RANKS: Readonly<Record<Choice['kind'], number>> = { host: 0, run: 1, settle: 2, end: 3, turn: 4 }

/** The default schedule: JavaScript first, then operations in the order they were queued; turns of the event loop come last. */
export function defaultChoice(choices: readonly Choice[]): Choice {
  return choices.reduce((best, choice) => {
    const ranks = RANKS[choice.kind] - RANKS[best.kind]
    return ranks < 0 || (ranks === 0 && processOf(choice) < processOf(best)) ? choice : best
  })
}

/** The description of an operation in a report. */
export interface Known {
  readonly operation: SimOperation
  /** The name of the operation, such as 'kernel scale'. */
  readonly what: string
  readonly stream: string
  /** The number of the operation among those of the same name in its stream, from 1. */
  readonly nth: number
  readonly touches: readonly Touch[]
  /** The step that queued the operation. */
  readonly queuedAt: number
  readonly site: string | undefined
}

export class StepRecorder implements Director {
  readonly steps: Step[] = []
  readonly operations = new Map<number, Known>()
  /** The operations whose host functions the program queued, and those of them that ran. */
  readonly ran: number[] = []
  readonly #counts = new Map<string, number>()
  /** The operations whose host functions run now, the innermost last. */
  readonly #inside: number[] = []
  readonly #overAt = new Map<number, number>()
  /** The steps that opened latches. Operations behind a latch come after it. */
  readonly #openedAt = new Map<number, number>()
  /** The memory that JavaScript has views of. */
  #viewed: Touch[] = []
  /** The steps that completed operations which held entries of a stream's hardware queue. */
  readonly #freed = new Map<SimStream, number[]>()
  #lastRun = 0
  #lastFree = 0
  /** The reason why there are orders that could matter but cannot be chosen, and the place of that, if it is known. */
  gap: string | undefined

  /** @param latest The time, by `monotonicTime()`, at which the program is given up */
  constructor(
    private readonly pick: Picker,
    private readonly nameOf: (stream: SimStream) => string,
    private readonly latest: number,
    private readonly wantsSites = false,
  ) {
    const where: Where = { running: false, depth: 0, wait: undefined, runnable: undefined, since: undefined }
    this.#begin({ kind: 'host', operation: undefined }, HOST, where)
  }

  get isLate(): boolean {
    return monotonicTime() >= this.latest
  }

  checkTime(): void {
    if (this.isLate) throw new Error('The run was stopped, because the time limit was reached')
  }

  leftOut(why: string): void {
    if (this.gap !== undefined) return
    const site = shortCallSite()
    this.gap = site === undefined ? why : `${why}, at ${site}`
  }

  choose(choices: readonly Choice[], where: Where): Choice {
    const chosen = this.pick(choices, this.steps.length, this.steps)
    this.#begin(chosen, processOf(defaultChoice(choices)), where)
    return chosen
  }

  queued(operation: SimOperation): void {
    const what = whatOf(operation)
    const stream = this.nameOf(operation.stream)
    const nth = (this.#counts.get(`${what} ${operation.stream.id}`) ?? 0) + 1
    this.#counts.set(`${what} ${operation.stream.id}`, nth)
    const touches = operation.work?.touches ?? []
    // Closing pinned memory detaches JavaScript's views.
    if (what === 'free') this.#viewed = this.#viewed.filter((view) => touchesOverlap([view], touches) === undefined)
    const queuedAt = this.steps.length - 1
    const site = this.wantsSites ? shortCallSite() : undefined
    this.operations.set(operation.sequence, { operation, what, stream, nth, touches, queuedAt, site })
  }

  over({ sequence, stream, takesEntry, inStream }: SimOperation): void {
    const place = this.steps.length - 1
    this.#overAt.set(sequence, place)
    this.#step.ended = added(this.#step.ended, sequence)
    if (this.#inside.includes(sequence)) this.#inside.splice(this.#inside.indexOf(sequence), 1)
    if (takesEntry && inStream) {
      const freed = this.#freed.get(stream)
      if (freed === undefined) this.#freed.set(stream, [place])
      else freed.push(place)
    }
    if (stream.device.fault !== 0) this.#step.faults = true
  }

  opened({ sequence }: SimOperation): void {
    this.#openedAt.set(sequence, this.steps.length - 1)
  }

  looks({ operations, memory }: HostLook): void {
    const step = this.#step
    if (this.wantsSites) step.site ??= shortCallSite()
    for (const operation of operations ?? [])
      if (operation !== undefined) step.looks = added(step.looks, operation.sequence)
    if (memory === undefined) return
    const { pointer, byteLength } = memory
    const touch = { pointer, byteLength, writes: true }
    step.touches = [...step.touches, touch]
    const isKnown = this.#viewed.some((known) => known.pointer === pointer && known.byteLength === byteLength)
    if (!isKnown) this.#viewed = [...this.#viewed, touch]
  }

  isViewed({ work }: SimOperation): boolean {
    return work !== undefined && touchesOverlap(work.touches, this.#viewed) !== undefined
  }

  get #step(): Step {
    return this.steps[this.steps.length - 1] as Step
  }

  #begin(choice: Choice, defaultProcess: number, where: Where): void {
    const { kind, operation } = choice
    const javascript = kind !== 'end'
    const begins = javascript && !where.running
    // When JavaScript begins to run it may read any view that it kept.
    const viewed = begins ? this.#viewed : []
    if (kind === 'run') this.#inside.push(processOf(choice))
    if (kind === 'run') this.#lastRun = this.steps.length
    if (kind === 'run' && operation?.host?.internal !== true) this.ran.push(processOf(choice))
    const own = operation?.work?.touches ?? []
    const touches = kind === 'end' ? own : kind === 'run' ? [...viewed, ...own] : viewed
    this.steps.push({
      kind,
      process: processOf(choice),
      defaultProcess,
      inside: kind === 'run' ? processOf(choice) : (this.#inside.at(-1) ?? HOST),
      javascript,
      begins,
      depth: where.depth,
      runnable: where.runnable && new Set([...where.runnable].map(({ sequence }) => sequence)),
      causes: this.#causesOf(choice, where),
      touches,
      looks: NONE,
      ended: NONE,
      faults: false,
      site: undefined,
    })
  }

  #causesOf({ kind, operation }: Choice, { wait, since }: Where): number[] {
    if (operation === undefined) {
      if (since !== undefined) return [since]
      if (wait === undefined) return []
      if (wait.last !== undefined) return this.#ends([wait.last])
      if (wait.room === undefined) return [this.#lastRun]
      const { stream, left } = wait.room
      const freed = this.#freed.get(stream) ?? []
      const place = freed[freed.length + stream.entries - left - 1]
      return place === undefined ? [] : [place]
    }
    if (kind === 'settle') return this.#ends([operation])
    const queuedAt = this.operations.get(operation.sequence)?.queuedAt ?? 0
    const causes = [queuedAt, ...this.#ends(operation.after)]
    if (isFreeBeside(operation)) {
      causes.unshift(this.#lastFree)
      this.#lastFree = this.steps.length
    }
    return causes
  }

  #ends(operations: readonly SimOperation[]): number[] {
    const places = operations.flatMap(({ sequence }) => [this.#overAt.get(sequence), this.#openedAt.get(sequence)])
    return places.filter((place) => place !== undefined)
  }
}

const NONE: ReadonlySet<number> = new Set()

/** The set with one number more. An empty one is shared, since most steps have nothing to add. */
function added(numbers: ReadonlySet<number>, number: number): ReadonlySet<number> {
  return numbers === NONE ? new Set([number]) : (numbers as Set<number>).add(number)
}

const NAMES: Readonly<Record<number, string>> = {
  [SimOperationKind.INSTANT]: 'mark',
  [SimOperationKind.KERNEL]: 'kernel',
  [SimOperationKind.HOST]: 'host function',
  [SimOperationKind.LATCH]: 'latch',
  [SimOperationKind.FAULT]: 'fault',
  [SimOperationKind.COPY]: 'copy',
  [SimOperationKind.PROMISE]: 'promise',
  [SimOperationKind.CONDITIONAL]: 'conditional',
}

function whatOf({ kind, work }: SimOperation): string {
  return work?.what ?? NAMES[kind] ?? 'operation'
}
