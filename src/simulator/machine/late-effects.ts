/**
 * The effects of operations on memory, put off for as long as CUDA allows, so that a wait which is missing shows as wrong bytes in every run. An
 * effect is there when the host goes on in the knowledge that the operation is over, or when what comes after it needs it. Of two operations that
 * touch the same bytes and that nothing orders, the one that was queued later comes first; a free comes before all that nothing puts before it. Time
 * plays no part: everything else that a program can observe, of time, events, host functions and promises, is as it would be without this. Only a
 * query takes longer while effects of unfinished operations are there: answering that these are unfinished would show an order that no GPU takes,
 * such as an event that is not recorded yet though the kernel behind it has written its result.
 */
import { Search, type SimOperation, type SimStream } from './machine-state.js'
import type { HostWait } from './scheduler.js'
import type { Slice } from './slice.js'
import { isLatch, SimOperationKind, type Touch } from './work.js'

/** The number of effects of finished operations that are put off at most; a free of so many MiB counts as so many more. */
const MOST_LATE = 64
const MEBIBYTE = 2 ** 20
/** The most effects that are under way at a time, each needing the next: deeper recursion could overflow the stack. */
const DEEPEST = 50
/** The number of done effects that are remembered beside those that are not done. */
const SLACK = 64

export class LateEffects {
  /** The operations that owe their effects, in the order in which they were queued; those whose effects are done stay for a while. */
  #waiting: SimOperation[] = []
  /** The number of operations in `#waiting` that owe their effects. */
  #owing = 0
  /** The weight of what is put off. */
  #late = 0
  /** The operations in `#waiting` that are not in `#places` yet: the effects of most are done before any rival matters. */
  #unplaced: SimOperation[] = []
  #places = new Places()
  /** The operations whose effects are under way: what has to come first is done inside them. */
  readonly #underWay = new Set<SimOperation>()
  /** The unfinished operations whose effects are there. Nothing but time keeps them from ending. */
  readonly #early = new Set<SimOperation>()
  /** The wait until no unfinished operation has had its effect. */
  readonly earlyOnes: HostWait = {
    isOver: () => this.#early.size === 0,
    needs: () => false,
    last: undefined,
    room: undefined,
  }

  /** The slice in which effects are done; undefined while all that is asked for is done at once. */
  #slice: Slice | undefined
  /** Whether the slice was over before all that was asked for was done: nothing else is done in it. */
  #rests = false

  /** @param effect Does the effect of an operation; returns false if the slice was over before it is there */
  constructor(private readonly effect: (operation: SimOperation, slice: Slice | undefined) => boolean) {}

  /** Whether no queued operation owes an effect. */
  get isIdle(): boolean {
    return this.#owing === 0
  }

  queued(operation: SimOperation): void {
    if (this.#owing === 0) this.#forgetDone()
    this.#waiting.push(operation)
    this.#unplaced.push(operation)
    this.#owing += 1
  }

  /** Whether too much has been put off. */
  get isFull(): boolean {
    return this.#late > MOST_LATE
  }

  /** Notes that an operation is over and owes its effect. */
  putOff(operation: SimOperation): void {
    // Done operations are forgotten here and not in `queued`, where the operation that is being queued is not complete yet.
    if (this.#waiting.length >= 2 * this.#owing + SLACK) this.#forgetDone()
    this.#late += weightOf(operation)
    if (freesMemory(operation) && !operation.after.some(({ owesEffect }) => owesEffect)) this.#do(operation, false)
  }

  /** Notes that an operation is over whose effect was there before. */
  earlyIsOver(operation: SimOperation): void {
    this.#early.delete(operation)
  }

  /** Does the effects of all operations that are over, in the order in which they were queued. Returns false if the slice was over before. */
  doAll(slice?: Slice): boolean {
    return this.#within(slice, () => {
      for (const operation of this.#waiting) if (operation.over) this.#do(operation, false)
    })
  }

  /**
   * Does the effects of all operations that come before this one, and its own effect if it is over. Returns false if the slice was over before: then
   * the next call goes on.
   */
  demand(operation: SimOperation, slice?: Slice): boolean {
    const demanded = operation.over ? owing(operation) : operation.after.flatMap(owing)
    if (demanded.length === 0) return true
    const unplaced = this.#unplaced
    this.#unplaced = []
    for (const each of unplaced) if (each.owesEffect) this.#places.add(each)
    return this.#within(slice, () => {
      for (const each of owedBefore(demanded)) this.#do(each, true)
    })
  }

  /**
   * Does the effect of an operation that is about to be over, after all effects before it. Returns false if the slice was over before.
   */
  doNow(operation: SimOperation, slice?: Slice): boolean {
    return this.demand(operation, slice) && this.#within(slice, () => this.#do(operation, false))
  }

  /** Does effects in a slice, inside of which others may have to be done at once. Returns whether all were done. */
  #within(slice: Slice | undefined, doEffects: () => void): boolean {
    const [before, rested] = [this.#slice, this.#rests]
    this.#slice = slice
    this.#rests = false
    try {
      doEffects()
      return !this.#rests
    } finally {
      this.#slice = before
      this.#rests = rested
    }
  }

  comesAfterUnderWay(operation: SimOperation): boolean {
    return [...this.#underWay].some((one) => comesAfter(operation, one))
  }

  /** Forgets the operations that have had their effects. */
  #forgetDone(): void {
    this.#waiting = this.#owing === 0 ? [] : this.#waiting.filter(({ owesEffect }) => owesEffect)
    this.#owing = this.#waiting.length
    this.#unplaced = [...this.#waiting]
    this.#places = new Places()
    for (const operation of this.#early) if (operation.over) this.#early.delete(operation)
  }

  /** Does the effect of an operation, after those that it comes after. If `late`, whatever may come before it does so. */
  #do(operation: SimOperation, late: boolean): void {
    if (this.#rests || !operation.owesEffect || this.#underWay.has(operation)) return
    const hasRivals = late && !freesMemory(operation)
    this.#underWay.add(operation)
    try {
      // What comes before an effect is known when its first part is computed.
      if (hasRivals && this.#underWay.size < DEEPEST && operation.computation === undefined) {
        this.#places.walk(operation, false, this.#doIfPossible)
        if (this.#rests) return
      }
      if (!this.effect(operation, this.#slice)) {
        this.#rests = true
        return
      }
      this.#owing -= 1
      if (operation.over) this.#late -= weightOf(operation)
      else this.#early.add(operation)
    } finally {
      this.#underWay.delete(operation)
    }
    if (hasRivals) this.#places.walk(operation, true, this.#doIfPossible)
  }

  /** Does the effect of a rival, unless it comes after an effect under way, or after something that the host has still to do. */
  readonly #doIfPossible = (operation: SimOperation): void => {
    if (this.#rests) return
    const before = owedBefore([operation], (one) => this.#underWay.has(one) || (!one.over && isHeldUp(one)))
    for (const each of before) this.#do(each, true)
  }
}

/** The places in memory that operations touch which owe effects: pieces without common bytes, in the order of their addresses. */
class Places {
  readonly #places: Place[] = []

  add(operation: SimOperation): void {
    for (const touch of operation.touches) this.#placeFor(touch).add(operation)
  }

  /**
   * Calls `tryIt` with the rivals of an operation, in their order: those that were queued after it, or free memory, and touch the same bytes, and are
   * not ordered after it; or, once it is `done`, those that were queued before it, and write what it has just written.
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

/** A piece of memory, and the operations that touch bytes in it. */
class Place {
  readonly pointer: number
  readonly end: number
  /** The operations of each stream, whose effects are done in the stream's order; an operation in no stream has a line of its own. */
  readonly #lines = new Map<SimStream | SimOperation, Line>()

  /** @param parts The places that have bytes in common with the new one, and become part of it */
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

  /** Calls `tryIt` with the rivals in this place, as `Places.walk` does. If a rival cannot be done, nothing after it in its line can. */
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

/** The walk whose current operation was queued first. */
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

/** The operations of one stream in a place, in their order, or a single operation in no stream. */
class Line {
  #operations: SimOperation[]
  /** The index of the first operation that may owe its effect. */
  #head = 0
  #frees: boolean
  /** The operation that holds up all from the number `#heldFrom` on; without meaning once it is over. */
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

  /** Whether all operations of the line have had their effects. */
  get isDone(): boolean {
    while (this.#operations[this.#head]?.owesEffect === false) this.#head += 1
    return this.#head === this.#operations.length
  }

  /**
   * A walk from the first operation that was queued between these two numbers on, or from the first one at all if any frees memory. Undefined if
   * there is none, or if the host has to do something before.
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

/** A position in a line, which stays valid while the effects of other lines are done. */
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

/** Whether two operations have bytes in common that at least one of them writes, or that both write. */
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

/** The operation itself if it owes its effect; otherwise the operations before it that owe theirs. */
const owing = (operation: SimOperation): readonly SimOperation[] =>
  operation.owesEffect ? [operation] : operation.after.filter(({ owesEffect }) => owesEffect)

/** Whether an operation frees memory: among operations without time only frees have effects. */
const freesMemory = ({ kind }: SimOperation): boolean => kind === SimOperationKind.INSTANT

/** Whether the stream is blocked here until the host has done something, never passes this operation, or gets its next operations only then. */
const isHeldUp = ({ kind, fails }: SimOperation): boolean =>
  fails !== 0 ||
  kind === SimOperationKind.HOST ||
  isLatch(kind) ||
  kind === SimOperationKind.FAULT ||
  kind === SimOperationKind.CONDITIONAL

/** The operations among these, and among all before them, that owe an effect, in order; none if one of them is refused. */
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

/** The operation at which the host has still to do something before the given one can end; undefined if there is none. */
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
