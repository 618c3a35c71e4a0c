/**
 * What operations do to memory, put off for as long as CUDA allows, so that a wait which is missing shows as wrong bytes
 * in every run. An effect is there when the host goes on in the knowledge that the operation is over, or when what comes
 * after it needs it. Of two operations that touch the same bytes and that nothing orders, the one that was queued later
 * comes first; a free comes before all that nothing puts before it. Time plays no part: all else that can be seen, of
 * time, events, host functions and promises, is as it would be without this.
 */
import type { SimOperation } from './machine-state.js'
import { SimOperationKind, type Touch, touchesOverlap } from './work.js'

/** So many effects of operations that are over are put off; a free of so many MiB counts as so many more. */
const MOST_LATE = 64
const MEBIBYTE = 2 ** 20
/** Effects under way, one before the other: the stack has an end. */
const DEEPEST = 50
const FEW = 4

export class LateEffects {
  /** Queued, in this order, and the effect not there; for a while also those of which it is. */
  #waiting: SimOperation[] = []
  /** How many of them owe their effects. */
  #owing = 0
  /** All of them stand in one stream. */
  #inOneStream = true
  /** How much is put off. */
  #late = 0
  /** Those whose effects are under way: what has to come first is done before. */
  readonly #underWay = new Set<SimOperation>()

  /** `effect` does the effect of an operation. */
  constructor(private readonly effect: (operation: SimOperation) => void) {}

  /** No operation that is queued owes an effect. */
  get isIdle(): boolean {
    return this.#owing === 0
  }

  queued(operation: SimOperation): void {
    if (this.#owing === 0) this.#tidy()
    this.#inOneStream &&= isOrdered(operation, this.#waiting[0] ?? operation)
    this.#waiting.push(operation)
    this.#owing += 1
  }

  /** It is over, and owes its effect. True where too much is put off by now. */
  putOff(operation: SimOperation): boolean {
    this.#late += weightOf(operation)
    if (freesMemory(operation) && !operation.after.some(({ owesEffect }) => owesEffect)) this.#do(operation, undefined)
    return this.#late > MOST_LATE
  }

  /** Does the effects of all operations that are over, in the order in which they were queued. */
  doAll(): void {
    for (const operation of this.#waiting) if (operation.over) this.#do(operation, undefined)
    this.#tidy()
  }

  /** Does the effects of an operation that is over, and of all before it; of one that is not, those before it. */
  demand(operation: SimOperation): void {
    const demanded = (operation.over ? [operation] : operation.after).flatMap(owing)
    if (demanded.length === 0) return
    this.#tidy()
    const all = this.#inOneStream
      ? this.#waiting.filter(({ sequence }) => demanded.some((one) => sequence <= one.sequence))
      : owedBefore(demanded)
    const rivals = this.#inOneStream || this.#areAlone(all) ? undefined : new Rivals(this.#waiting)
    for (const each of all) this.#do(each, rivals)
  }

  comesAfterUnderWay(operation: SimOperation): boolean {
    return [...this.#underWay].some((one) => comesAfter(operation, one))
  }

  /** Forgets those that have their effects. */
  #tidy(): void {
    if (this.#owing > 0) this.#waiting = this.#waiting.filter(isWaiting)
    else this.#waiting = []
    this.#owing = this.#waiting.length
    const [first] = this.#waiting
    this.#inOneStream = this.#waiting.every((operation) => isOrdered(operation, first))
  }

  /** Are they one after the other, and touch nothing that others do? To find out is worth it where they are few. */
  #areAlone(operations: readonly SimOperation[]): boolean {
    const [first] = operations
    return (
      operations.length <= FEW &&
      operations.every((one) => isOrdered(one, first)) &&
      this.#waiting.every((other) => operations.includes(other) || !operations.some((one) => meet(one, other)))
    )
  }

  /** Does an effect, once those that it comes after are there. */
  #do(operation: SimOperation, rivals: Rivals | undefined): void {
    if (!operation.owesEffect || this.#underWay.has(operation)) return
    this.#underWay.add(operation)
    try {
      if (rivals !== undefined && this.#underWay.size < DEEPEST) {
        for (const rival of rivals.laterThan(operation)) this.#doIfPossible(rival, rivals)
      }
      this.effect(operation)
      this.#owing -= 1
      if (operation.over) this.#late -= weightOf(operation)
    } finally {
      this.#underWay.delete(operation)
    }
    if (rivals === undefined) return
    for (const rival of rivals.overwrittenBy(operation)) this.#doIfPossible(rival, rivals)
  }

  /** Not where that comes after one that is under way, or after what the host has still to do. */
  #doIfPossible(operation: SimOperation, rivals: Rivals): void {
    const before = owedBefore([operation], (one) => this.#underWay.has(one) || (!one.over && isHeldUp(one)))
    for (const each of before) this.#do(each, rivals)
  }
}

/** Operations that touch the same bytes as others, of other streams: found when a demand comes. */
class Rivals {
  /** For each operation the groups in which it is: those that touch bytes in one piece of memory. */
  readonly #groups = new Map<SimOperation, SimOperation[][]>()

  constructor(waiting: readonly SimOperation[]) {
    const uses = waiting.flatMap((operation) =>
      operation.touches.map(({ pointer, byteLength }) => ({ operation, pointer, end: pointer + byteLength })),
    )
    let group: SimOperation[] = []
    let end = 0
    for (const use of uses.sort((a, b) => a.pointer - b.pointer)) {
      if (use.pointer >= end) {
        this.#add(group)
        group = []
      }
      group.push(use.operation)
      end = Math.max(end, use.end)
    }
    this.#add(group)
  }

  #add(group: SimOperation[]): void {
    const [first] = group
    if (group.every((operation) => isOrdered(operation, first))) return
    for (const operation of new Set(group.sort((a, b) => a.sequence - b.sequence))) {
      const known = this.#groups.get(operation)
      if (known === undefined) this.#groups.set(operation, [group])
      else known.push(group)
    }
  }

  /** Those that were queued after an operation, touch the same bytes, and are not ordered after it. */
  *laterThan(operation: SimOperation): Generator<SimOperation> {
    if (freesMemory(operation)) return
    for (const group of this.#groups.get(operation) ?? []) {
      /** Streams of which all that follows comes after it. */
      const ordered = new Set([operation.stream])
      for (const other of group) {
        if (other.sequence < operation.sequence && !freesMemory(other)) continue
        if (
          other === operation ||
          !other.owesEffect ||
          (other.inStream && operation.inStream && ordered.has(other.stream))
        )
          continue
        if (comesAfter(other, operation)) ordered.add(other.stream)
        else if (meet(operation, other)) yield other
      }
    }
  }

  /** Those that were queued before an operation, are not there yet, and write what it has just written. */
  *overwrittenBy(operation: SimOperation): Generator<SimOperation> {
    if (freesMemory(operation)) return
    for (const group of this.#groups.get(operation) ?? []) {
      for (const other of group) {
        if (other.sequence >= operation.sequence) break
        if (other.owesEffect && meetInWrites(operation, other)) yield other
      }
    }
  }
}

const meet = (a: SimOperation, b: SimOperation): boolean => touchesOverlap(a.touches, b.touches) !== undefined

const meetInWrites = (a: SimOperation, b: SimOperation): boolean =>
  touchesOverlap(a.touches.filter(writes), b.touches.filter(writes)) !== undefined

const writes = (touch: Touch): boolean => touch.writes

const weightOf = (operation: SimOperation): number =>
  1 + (freesMemory(operation) ? (operation.touches[0]?.byteLength ?? 0) / MEBIBYTE : 0)

/** Itself where it owes its effect; else those before it that do, if it is over. */
const owing = (operation: SimOperation): readonly SimOperation[] =>
  operation.owesEffect ? [operation] : operation.after.filter(({ owesEffect }) => owesEffect)

/** Not so where the call that was to queue it was cut off. */
const isWaiting = ({ owesEffect, lead }: SimOperation): boolean => owesEffect && lead.queued

/** The two are in one stream, where the one comes after the other. */
const isOrdered = (a: SimOperation, b: SimOperation | undefined): boolean =>
  a.inStream && b?.inStream === true && a.stream === b.stream

/** Of operations without time only frees have an effect. */
const freesMemory = ({ kind }: SimOperation): boolean => kind === SimOperationKind.INSTANT

/** The stream stands here until the host has done something, or does not come past it. */
const isHeldUp = ({ kind, fails }: SimOperation): boolean =>
  fails !== 0 || kind === SimOperationKind.HOST || kind === SimOperationKind.LATCH || kind === SimOperationKind.FAULT

/** Those of these operations, and of all before them, that owe an effect, in order; none where one is refused. */
function owedBefore(
  operations: readonly SimOperation[],
  refuses: (one: SimOperation) => boolean = () => false,
): readonly SimOperation[] {
  const all = new Set(operations)
  for (const one of all) {
    if (refuses(one)) return []
    for (const before of one.after) if (!before.over || before.owes) all.add(before)
  }
  return [...all].filter(({ owesEffect }) => owesEffect).sort((a, b) => a.sequence - b.sequence)
}

function comesAfter(later: SimOperation, earlier: SimOperation): boolean {
  const all = new Set([later])
  for (const one of all) {
    if (one === earlier) return true
    for (const before of one.after) if (before.sequence >= earlier.sequence) all.add(before)
  }
  return false
}
