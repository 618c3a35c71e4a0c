/**
 * What operations do to memory, put off for as long as CUDA allows, so that a wait which is missing shows as wrong bytes
 * in every run. An effect is there when the host goes on in the knowledge that the operation is over, or when what comes
 * after it needs it. Of two operations that touch the same bytes and that nothing orders, the one that was queued later
 * comes first; a free comes before all that nothing puts before it. Time plays no part: all else that can be seen, of
 * time, events, host functions and promises, is as it would be without this. Only a query takes longer while effects of
 * unfinished operations are there: answering that these are unfinished would show an order that no GPU takes, such as an
 * event that is not recorded yet though the kernel behind it has written its result.
 */
import { Search, type SimOperation, type SimStream } from './machine-state.js'
import type { HostWait } from './scheduler.js'
import { isLatch, SimOperationKind, type Touch } from './work.js'

/** So many effects of operations that are over are put off; a free of so many MiB counts as so many more. */
const MOST_LATE = 64
const MEBIBYTE = 2 ** 20
/** Effects under way, one before the other: the stack has an end. */
const DEEPEST = 50
/** So many effects that are done are remembered beside those that are not. */
const SLACK = 64

export class LateEffects {
  /** Queued, in this order, and the effect not there; for a while also those of which it is. */
  #waiting: SimOperation[] = []
  /** How many of them owe their effects. */
  #owing = 0
  /** How much is put off. */
  #late = 0
  /** Those of them that are not in `#places` yet: most are done before any rival matters. */
  #unplaced: SimOperation[] = []
  #places = new Places()
  /** Those whose effects are under way: what has to come first is done before. */
  readonly #underWay = new Set<SimOperation>()
  /** Unfinished operations whose effects are there. Nothing but time keeps them from their ends. */
  readonly #early = new Set<SimOperation>()
  /** The wait until there are none. */
  readonly earlyOnes: HostWait = {
    isOver: () => this.#early.size === 0,
    needs: () => false,
    last: undefined,
    room: undefined,
  }

  /** `effect` does the effect of an operation. */
  constructor(private readonly effect: (operation: SimOperation) => void) {}

  /** No operation that is queued owes an effect. */
  get isIdle(): boolean {
    return this.#owing === 0
  }

  queued(operation: SimOperation): void {
    if (this.#owing === 0) this.#forgetDone()
    this.#waiting.push(operation)
    this.#unplaced.push(operation)
    this.#owing += 1
  }

  /** It is over, and owes its effect. True where too much is put off by now. */
  putOff(operation: SimOperation): boolean {
    // Not while operations are queued, which are not there yet.
    if (this.#waiting.length >= 2 * this.#owing + SLACK) this.#forgetDone()
    this.#late += weightOf(operation)
    if (freesMemory(operation) && !operation.after.some(({ owesEffect }) => owesEffect)) this.#do(operation, false)
    return this.#late > MOST_LATE
  }

  /** An operation whose effect was there before is over. */
  earlyIsOver(operation: SimOperation): void {
    this.#early.delete(operation)
  }

  /** Does the effects of all operations that are over, in the order in which they were queued. */
  doAll(): void {
    for (const operation of this.#waiting) if (operation.over) this.#do(operation, false)
  }

  /** Does the effects of an operation that is over, and of all before it; of one that is not, those before it. */
  demand(operation: SimOperation): void {
    const demanded = operation.over ? owing(operation) : operation.after.flatMap(owing)
    if (demanded.length === 0) return
    const unplaced = this.#unplaced
    this.#unplaced = []
    for (const each of unplaced) if (each.owesEffect) this.#places.add(each)
    for (const each of owedBefore(demanded)) this.#do(each, true)
  }

  /** Does the effect of an operation that is about to be over, and all before it. */
  doNow(operation: SimOperation): void {
    this.demand(operation)
    this.#do(operation, false)
  }

  comesAfterUnderWay(operation: SimOperation): boolean {
    return [...this.#underWay].some((one) => comesAfter(operation, one))
  }

  /** Forgets those that have had their effects. */
  #forgetDone(): void {
    this.#waiting = this.#owing === 0 ? [] : this.#waiting.filter(({ owesEffect }) => owesEffect)
    this.#owing = this.#waiting.length
    this.#unplaced = [...this.#waiting]
    this.#places = new Places()
    for (const operation of this.#early) if (operation.over) this.#early.delete(operation)
  }

  /** Does an effect, once those that it comes after are there. `late`: what may come before it does. */
  #do(operation: SimOperation, late: boolean): void {
    if (!operation.owesEffect || this.#underWay.has(operation)) return
    const hasRivals = late && !freesMemory(operation)
    this.#underWay.add(operation)
    try {
      if (hasRivals && this.#underWay.size < DEEPEST) {
        this.#places.walk(operation, false, this.#doIfPossible)
      }
      this.effect(operation)
      this.#owing -= 1
      if (operation.over) this.#late -= weightOf(operation)
      else this.#early.add(operation)
    } finally {
      this.#underWay.delete(operation)
    }
    if (hasRivals) this.#places.walk(operation, true, this.#doIfPossible)
  }

  /** Not where that comes after one that is under way, or after what the host has still to do. */
  readonly #doIfPossible = (operation: SimOperation): void => {
    const before = owedBefore([operation], (one) => this.#underWay.has(one) || (!one.over && isHeldUp(one)))
    for (const each of before) this.#do(each, true)
  }
}

/** Where operations that owe effects touch memory: pieces that have no bytes in common, by their addresses. */
class Places {
  readonly #places: Place[] = []

  add(operation: SimOperation): void {
    for (const touch of operation.touches) this.#placeFor(touch).add(operation)
  }

  /**
   * Gives to `tryIt`, in their order, the rivals of an operation: those that were queued after it, or free memory, and touch
   * the same bytes, and are not ordered after it; or, once it is `done`, those that were queued before it, and write what it
   * has just written.
   */
  walk(operation: SimOperation, done: boolean, tryIt: (rival: SimOperation) => void): void {
    const [first, second] = operation.touches
    if (first === undefined) return
    const place = this.#placeFor(first)
    if (second === undefined) place.walk(operation, done, tryIt)
    else {
      const places = new Set(operation.touches.map((touch) => this.#placeFor(touch)))
      for (const each of [...places].sort((a, b) => a.pointer - b.pointer)) each.walk(operation, done, tryIt)
    }
  }

  #placeFor({ pointer, byteLength }: Touch): Place {
    const places = this.#places
    let at = 0
    let beyond = places.length
    while (at < beyond) {
      const middle = (at + beyond) >> 1
      if ((places[middle]?.end ?? 0) <= pointer) at = middle + 1
      else beyond = middle
    }
    const end = pointer + byteLength
    let place = places[at]
    if (place !== undefined && place.pointer <= pointer && place.end >= end) return place
    while (beyond < places.length && (places[beyond]?.pointer ?? 0) < end) beyond += 1
    place = new Place(pointer, end, places.slice(at, beyond))
    places.splice(at, beyond - at, place)
    return place
  }
}

/** A piece of memory, and what touches bytes in it. */
class Place {
  readonly pointer: number
  readonly end: number
  /** By the stream, for those that stand in one: their effects are done in its order. */
  readonly #lines = new Map<SimStream | SimOperation, Line>()

  /** `parts` are those that have bytes in common with it, and end in it. */
  constructor(pointer: number, end: number, parts: readonly Place[]) {
    this.pointer = Math.min(pointer, ...parts.map((part) => part.pointer))
    this.end = Math.max(end, ...parts.map((part) => part.end))
    const all = new Set(parts.flatMap((part) => [...part.#lines.values()].flatMap((line) => line.waiting)))
    for (const operation of [...all].sort((a, b) => a.sequence - b.sequence)) this.add(operation)
  }

  add(operation: SimOperation): void {
    const key = operation.inStream ? operation.stream : operation
    const line = this.#lines.get(key)
    if (line === undefined) this.#lines.set(key, new Line(operation))
    else line.add(operation)
  }

  /** As that of `Places`. Where a rival cannot be done, nothing after it in its line can. */
  walk(operation: SimOperation, done: boolean, tryIt: (rival: SimOperation) => void): void {
    const after = done ? 0 : operation.sequence
    const before = done ? operation.sequence : Number.POSITIVE_INFINITY
    const walks: Walk[] = []
    for (const [key, line] of this.#lines) {
      if (key === operation || (operation.inStream && key === operation.stream)) continue
      if (line.isDone) this.#lines.delete(key)
      else {
        const walk = line.walk(after, before)
        if (walk !== undefined) walks.push(walk)
      }
    }
    for (;;) {
      const next = earliest(walks)
      const other = next?.one
      if (next === undefined || other === undefined || other.sequence > before) return
      const isRival = other.owesEffect && (other.sequence > after || freesMemory(other)) && meet(operation, other, done)
      if (!isRival) next.goOn()
      else if (!done && comesAfter(other, operation)) next.stop()
      else {
        tryIt(other)
        if (other.owesEffect) next.stop()
        else next.goOn()
      }
    }
  }
}

/** The one that stands at the operation that was queued first. */
function earliest(walks: readonly Walk[]): Walk | undefined {
  let found: Walk | undefined
  let sequence = Number.POSITIVE_INFINITY
  for (const walk of walks) {
    const { one } = walk
    if (one === undefined || one.sequence >= sequence) continue
    found = walk
    sequence = one.sequence
  }
  return found
}

/** The operations of one stream in a place, in their order; or one that stands in none. */
class Line {
  #operations: SimOperation[]
  /** Those before it have their effects. */
  #head = 0
  #frees: boolean
  /** It comes before all from this number on; of no use any more once it is over. */
  #holder: SimOperation | undefined
  #heldFrom = 0

  constructor(first: SimOperation) {
    this.#operations = [first]
    this.#frees = freesMemory(first)
  }

  add(operation: SimOperation): void {
    if (this.#operations.at(-1) === operation) return
    this.#operations.push(operation)
    this.#frees ||= freesMemory(operation)
  }

  get waiting(): readonly SimOperation[] {
    return this.#operations.slice(this.#head)
  }

  /** Have all of them their effects? */
  get isDone(): boolean {
    while (this.#operations[this.#head]?.owesEffect === false) this.#head += 1
    return this.#head === this.#operations.length
  }

  /**
   * From the first on that was queued between these two, or the first at all if any frees. Undefined where there is none, or
   * the host has to do something before.
   */
  walk(after: number, before: number): Walk | undefined {
    let at = this.#head
    const isFirst = this.#frees || (this.#operations[at]?.sequence ?? 0) > after
    let beyond = isFirst ? at : this.#operations.length
    while (at < beyond) {
      const middle = (at + beyond) >> 1
      if ((this.#operations[middle]?.sequence ?? 0) <= after) at = middle + 1
      else beyond = middle
    }
    const one = this.#operations[at]
    if (one === undefined || one.sequence > before) return undefined
    if (this.#holder?.over === false && this.#heldFrom <= one.sequence) return undefined
    this.#holder = holderOf(one)
    this.#heldFrom = one.sequence
    return this.#holder === undefined ? new Walk(this.#operations, at) : undefined
  }
}

/** A place in a line, which goes on while others are worked on. */
class Walk {
  constructor(
    private readonly operations: readonly SimOperation[],
    private at: number,
  ) {}

  get one(): SimOperation | undefined {
    return this.operations[this.at]
  }

  goOn(): void {
    this.at += 1
  }

  stop(): void {
    this.at = this.operations.length
  }
}

/** Have they bytes in common that one of them writes, or both? */
function meet(a: SimOperation, b: SimOperation, bothWrite: boolean): boolean {
  for (const one of a.touches) {
    for (const other of b.touches) {
      if (!(bothWrite ? one.writes && other.writes : one.writes || other.writes)) continue
      if (one.pointer < other.pointer + other.byteLength && other.pointer < one.pointer + one.byteLength) return true
    }
  }
  return false
}

const weightOf = (operation: SimOperation): number =>
  1 + (freesMemory(operation) ? (operation.touches[0]?.byteLength ?? 0) / MEBIBYTE : 0)

/** Itself where it owes its effect; else those before it that do, if it is over. */
const owing = (operation: SimOperation): readonly SimOperation[] =>
  operation.owesEffect ? [operation] : operation.after.filter(({ owesEffect }) => owesEffect)

/** Of operations without time only frees have an effect. */
const freesMemory = ({ kind }: SimOperation): boolean => kind === SimOperationKind.INSTANT

/** The stream stands here until the host has done something, does not come past it, or it is not known yet what comes next. */
const isHeldUp = ({ kind, fails }: SimOperation): boolean =>
  fails !== 0 ||
  kind === SimOperationKind.HOST ||
  isLatch(kind) ||
  kind === SimOperationKind.FAULT ||
  kind === SimOperationKind.CONDITIONAL

/** Those of these operations, and of all before them, that owe an effect, in order; none where one is refused. */
function owedBefore(
  operations: readonly SimOperation[],
  refuses: (one: SimOperation) => boolean = () => false,
): readonly SimOperation[] {
  const search = new Search(operations)
  for (const one of search.found) {
    if (refuses(one)) return []
    one.addBeforeTo(search)
  }
  return search.found.filter(({ owesEffect }) => owesEffect).sort((a, b) => a.sequence - b.sequence)
}

/** What the host has still to do before the operation can end, if anything. */
function holderOf(operation: SimOperation): SimOperation | undefined {
  const search = new Search([operation])
  for (const one of search.found) {
    if (one.over) continue
    if (isHeldUp(one)) return one
    one.addBeforeTo(search)
  }
  return undefined
}

function comesAfter(later: SimOperation, earlier: SimOperation): boolean {
  const search = new Search([later])
  for (const one of search.found) {
    if (one === earlier) return true
    if (one.sequence > earlier.sequence) one.addBeforeTo(search)
  }
  return false
}
