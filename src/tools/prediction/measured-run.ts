/**
 * The times of each operation as a recording shows them: how long it worked, apart from waiting for its turn on the device, how long it took the
 * device to begin, and how long the host took to notice that something was done.
 */
import type { Operation, RecordedRun, Step } from './run.js'
import { isHeldByHost, StreamOrder } from './stream-order.js'

export interface MeasuredRun {
  /** The nanoseconds that each operation works; indices are numbers of steps. */
  readonly works: Float64Array
  /** The nanoseconds from the call that queued each operation to its beginning, if nothing else holds it up. */
  readonly latency: Float64Array
  /** The nanoseconds from the end of what each operation comes after to its beginning. */
  readonly overhead: Float64Array
  /** The nanoseconds from the end of what the host waits for until it goes on; NaN if that was done before the host asked. */
  readonly reaction: Float64Array
  /**
   * The nanoseconds from the end of what a host function comes after to its own end, for those that an idle host ran at once and that queue nothing:
   * they run whatever else the host waits for. Keys are the numbers of their calls; `alone` has the steps that are theirs.
   */
  readonly lengths: ReadonlyMap<number, number>
  readonly alone: ReadonlySet<number>
  /** The nanoseconds from the first call to the end of all. */
  readonly duration: number
  readonly began: number
}

export function measure(run: RecordedRun): MeasuredRun {
  const { steps } = run
  const free = whenFree(run)
  const ends = endsOfPlaces(steps)
  const works = new Float64Array(steps.length)
  const latency = new Float64Array(steps.length)
  const overhead = new Float64Array(steps.length)
  const reaction = new Float64Array(steps.length).fill(Number.NaN)
  const heldUntil = whenLetGo(steps)
  const order = new StreamOrder<number>((all) => [latestOf(all)])
  const pending = new Map<number, number>()
  const byHost: number[] = []
  const byOrder: number[] = []
  const latencies: number[] = []
  let last = 0
  for (const [index, step] of steps.entries()) {
    if (step.what === 'operation') {
      const before = latestOf(order.beforeOperation(step))
      const reached = Math.max(step.began, before)
      let end = reached
      if (isHeldByHost(step)) {
        order.reached.set(step.number, [reached])
        end = Math.max(reached, heldUntil.get(step.number) ?? reached)
        order.hostFunctions.set(step.number, end)
      } else if (!Number.isNaN(step.end)) {
        end = step.end
        works[index] = Math.max(0, end - Math.max(step.start, free.get(index) ?? step.start))
        if (step.start > reached && ends.get(placeOf(step))?.has(step.start) === true) {
          // It began when another operation made room for it, and so was ready before.
          byOrder.push(index)
        } else if (before <= step.began) {
          byHost.push(index)
          latency[index] = Math.max(0, step.start - step.began)
          latencies.push(latency[index] ?? 0)
        } else {
          byOrder.push(index)
          overhead[index] = Math.max(0, step.start - before)
        }
      }
      order.queued(step, end)
      last = Math.max(last, end)
    } else follow(order, step)
    if (step.what === 'begin') pending.set(index, latestOf(order.awaited(step.awaited)))
    const awaited =
      step.what === 'go'
        ? pending.get(step.begun)
        : step.what === 'seen'
          ? latestOf(order.awaited(step.awaited))
          : undefined
    const since = steps[index - 1]?.ended ?? 0
    if (awaited !== undefined && awaited > since) reaction[index] = step.ended - awaited
    last = Math.max(last, step.ended)
  }
  const usual = quantile(latencies, 1 / 2)
  for (const index of byOrder) latency[index] = usual
  // A delay of few operations is not taken for a delay of all.
  const usualOverhead = quantile(
    byOrder.map((index) => overhead[index] ?? 0),
    1 / 4,
  )
  for (const index of byHost) overhead[index] = usualOverhead
  const began = steps[0]?.began ?? 0
  return { works, latency, overhead, reaction, ...hostFunctionsAlone(steps, reaction), duration: last - began, began }
}

function hostFunctionsAlone(steps: readonly Step[], reaction: Float64Array): Pick<MeasuredRun, 'lengths' | 'alone'> {
  const lengths = new Map<number, number>()
  const alone = new Set<number>()
  for (const [index, step] of steps.entries()) {
    const reacted = reaction[index] ?? Number.NaN
    if (step.what !== 'seen' || step.awaited.of !== 'reached' || Number.isNaN(reacted)) continue
    let end = index + 1
    while (steps[end]?.what === 'host') end += 1
    const last = steps[end]
    if (last?.what !== 'let' || last.operation !== step.awaited.operation) continue
    lengths.set(last.operation, Math.max(0, reacted + last.ended - step.ended))
    for (let own = index; own <= end; own += 1) alone.add(own)
  }
  return { lengths, alone }
}

export function follow<T>(order: StreamOrder<T>, step: Step): void {
  if (step.what === 'record') order.record(step.stream, step.event)
  else if (step.what === 'recordDevice') order.recordDevice(step.device, step.event)
  else if (step.what === 'wait') order.wait(step.stream, step.event)
  else if (step.what === 'waitStream') order.waitStream(step.stream, step.other)
}

const latestOf = (times: readonly number[]): number => {
  let latest = 0
  for (const time of times) if (time > latest) latest = time
  return latest
}

function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length * part)] ?? 0
}

/** The times at which the host let streams go on that waited for it; keys are the calls that queued what the streams waited for. */
function whenLetGo(steps: readonly Step[]): Map<number, number> {
  const times = new Map<number, number>()
  for (const step of steps) if (step.what === 'let') times.set(step.operation, step.ended)
  return times
}

/** The place at which an operation has to wait for others: an engine of its device, or the room for kernels. */
const placeOf = ({ stream, engine }: Operation): string => `${stream.device} ${engine ?? 'kernels'}`

/** The times at which operations made room for others; keys are places. */
function endsOfPlaces(steps: readonly Step[]): ReadonlyMap<string, ReadonlySet<number>> {
  const places = new Map<string, Set<number>>()
  for (const step of steps) {
    if (!isOccupying(step)) continue
    const place = placeOf(step)
    const known = places.get(place)
    if (known === undefined) places.set(place, new Set([step.end]))
    else known.add(step.end)
  }
  return places
}

interface Occupied {
  readonly from: number
  readonly until: number
  readonly share: number
}

/**
 * The time at which there was room for each operation; keys are numbers of steps. A measured beginning is when its stream came to it; work of other
 * streams may have occupied the device for a while still.
 */
function whenFree({ steps }: RecordedRun): Map<number, number> {
  const timed = steps.flatMap((step, index) => (isOccupying(step) ? [{ step, index }] : []))
  timed.sort((a, b) => a.step.end - b.step.end || a.index - b.index)
  const places = new Map<string, Occupied[]>()
  const free = new Map<number, number>()
  for (const { step, index } of timed) {
    const key = placeOf(step)
    const share = step.engine === undefined ? step.share : 1
    const known = places.get(key) ?? []
    // Operations that ended before this one began do not matter to it; those that begin later may.
    const beside = known.filter(({ until }) => until > step.start)
    let from = step.start
    for (const candidate of [step.start, ...beside.map(({ until }) => until)]) {
      from = candidate
      const used = beside.reduce(
        (sum, other) => (other.from <= from && other.until > from ? sum + other.share : sum),
        0,
      )
      if (used + share <= FULL) break
    }
    free.set(index, Math.min(from, step.end))
    known.push({ from: Math.min(from, step.end), until: step.end, share })
    places.set(key, known.length > MOST_BESIDE ? known.slice(-MOST_BESIDE / 2) : known)
  }
  return free
}

const isOccupying = (step: Step): step is Operation =>
  step.what === 'operation' && !Number.isNaN(step.end) && (step.engine !== undefined || step.share > 0)

/** The sum of shares that counts as full, a little more than 1, since sums are rounded. */
const FULL = 1.000_001
/** The number of operations that are compared with a later one. */
const MOST_BESIDE = 512
