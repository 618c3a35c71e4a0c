/** The orders that a run would lose without some of its waits, and of which it does not show whether the program needs them. */
import { follow } from './measured-run.js'
import { type Operation, type RecordedRun, type RecordedStream, STAGING, type Step } from './run.js'
import { isHeldByHost, StreamOrder } from './stream-order.js'

/** The number, within each stream, of the latest operation that something comes after. */
type Clock = ReadonlyMap<RecordedStream, number>

/** The order of operations, with some waits or without them. */
class Known {
  readonly order = new StreamOrder<Clock>((all) => [latestOf(all)])
  /** The operations that the host has waited for. */
  host: Clock = new Map()
  readonly #begun = new Map<number, Clock>()

  constructor(private readonly skipped: ReadonlySet<number>) {}

  /** The operations that this one comes after. It becomes the operation with this number in its stream. */
  queue(operation: Operation, place: number): Clock {
    const { order } = this
    const before = latestOf([this.host, ...order.beforeOperation(operation)])
    const end = new Map(before).set(operation.stream, place)
    if (isHeldByHost(operation)) {
      order.reached.set(operation.number, [before])
      order.hostFunctions.set(operation.number, end)
    }
    order.queued(operation, end)
    return before
  }

  follow(step: Exclude<Step, Operation>, index: number): void {
    if (step.what === 'begin') this.#begun.set(index, latestOf(this.order.awaited(step.awaited)))
    else if (step.what === 'let') {
      this.order.reached.delete(step.operation)
      this.order.hostFunctions.delete(step.operation)
    } else if (step.what === 'go') {
      const awaited = this.#begun.get(step.begun)
      this.#begun.delete(step.begun)
      if (awaited !== undefined && !this.skipped.has(step.begun)) this.host = latestOf([this.host, awaited])
    } else if (!this.skipped.has(index)) follow(this.order, step)
  }
}

function latestOf(clocks: readonly Clock[]): Clock {
  const [first = new Map<RecordedStream, number>(), ...others] = clocks
  if (others.length === 0) return first
  const latest = new Map(first)
  for (const clock of others)
    for (const [stream, place] of clock) if (place > (latest.get(stream) ?? NONE)) latest.set(stream, place)
  return latest
}

const NONE = -1

/**
 * Whether the program without these waits loses an order that the sanitizer cannot check: that of an operation whose memory is not known, or of bytes
 * that were written for the host and the host, which may read them through a view that it kept.
 */
export function ordersUnknown({ steps, hostMemory }: RecordedRun, skipped: ReadonlySet<number>): boolean {
  const [kept, without] = [new Known(new Set()), new Known(skipped)]
  const places = new Map<RecordedStream, number>()
  /** The numbers of operations, within each stream, whose memory is not known. */
  const unknown = new Map<RecordedStream, number[]>()
  const forHost = new Map<RecordedStream, number[]>()
  /** The promises that streams wait for: the program may settle them because it has waited. */
  const promises = new Set<number>()
  for (const [index, step] of steps.entries()) {
    if (step.what === 'operation') {
      const place = (places.get(step.stream) ?? NONE) + 1
      places.set(step.stream, place)
      const [before, still] = [kept.queue(step, place), without.queue(step, place)]
      const isUnknown = hasUnknownMemory(step)
      if (isLost(before, still, isUnknown ? undefined : unknown)) return true
      if (isUnknown) note(unknown, step.stream, place)
      if (writesForHost(step, hostMemory)) note(forHost, step.stream, place)
      if (step.kind === 'promise') promises.add(step.number)
    } else {
      kept.follow(step, index)
      without.follow(step, index)
      if (step.what === 'let') promises.delete(step.operation)
      if (step.what !== 'go') continue
      if (skipped.has(step.begun) && promises.size > 0) return true
      if (isLost(kept.host, without.host, forHost)) return true
    }
  }
  return false
}

/** Whether there is an operation that only the first clock comes after, among those with these numbers, or among all. */
function isLost(
  first: Clock,
  second: Clock,
  places: ReadonlyMap<RecordedStream, readonly number[]> | undefined,
): boolean {
  for (const [stream, place] of first) {
    const still = second.get(stream) ?? NONE
    if (place <= still) continue
    if (places === undefined) return true
    const latest = places.get(stream)?.findLast((at) => at <= place) ?? NONE
    if (latest > still) return true
  }
  return false
}

function note(places: Map<RecordedStream, number[]>, stream: RecordedStream, place: number): void {
  const known = places.get(stream)
  if (known === undefined) places.set(stream, [place])
  else known.push(place)
}

/** Whether the memory of an operation is not known. Frees come after all that uses the memory, and staging uses memory of the library's own. */
export const hasUnknownMemory = (operation: Operation): boolean =>
  operation.isPartlyKnown || (operation.memory === undefined && operation.kind !== 'free' && !isStaging(operation))

const isStaging = ({ kind, name }: Operation): boolean => kind === 'hostFunction' && name === STAGING

const writesForHost = (operation: Operation, hostMemory: RecordedRun['hostMemory']): boolean =>
  operation.sharesWithHost ||
  operation.engine === 'toHost' ||
  isStaging(operation) ||
  (operation.memory ?? []).some(
    ({ pointer, byteLength, access }) =>
      access !== 'in' && !hostMemory.overlapping(pointer, pointer + byteLength).next().done,
  )
