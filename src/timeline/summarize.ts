/** Works out a summary: adds up what each stream and each device did. */
import type { Bindings } from './bindings.js'
import type { Gap } from './gap.js'
import { inSentences } from './hold-up-sentences.js'
import { holdUpsOf } from './hold-ups.js'
import { durationInWords, timesInWords } from './in-words.js'
import { RowKind } from './kinds.js'
import type { DeviceSummary, HoldUp, StreamSummary, TimelineSummary } from './summary.js'
import { NO_ROW } from './table.js'
import type { Trace } from './trace.js'

type Work = 'copy' | 'compute'

/** The work of a stream, or of a device: nanoseconds, and how often the kind of work changed. */
interface StreamWork {
  readonly copy: number
  readonly compute: number
  readonly changes: number
}

export function summarize(trace: Trace, bindings: Bindings, gaps: readonly Gap[]): TimelineSummary {
  const devices = [...trace.deviceNames].map(([device, name]) => ({ device, name, ...deviceTimes(trace, device) }))
  const works = streamWorks(trace)
  const holdUps = [
    ...holdUpsOf(trace, bindings, gaps),
    ...devices.flatMap((one) => oneStream(trace, one, works)),
    ...ownHostFunctions(trace),
  ]
  return {
    duration: trace.duration,
    streams: streamsOf(trace, works, gaps),
    devices: devices.sort((a, b) => a.device - b.device),
    holdUps: holdUps.sort((a, b) => b.time - a.time),
  }
}

/** What a device does for a row; undefined for none. */
function workOf(kind: number): Work | undefined {
  if (kind === RowKind.COPY) return 'copy'
  return kind === RowKind.KERNEL || kind === RowKind.FILL || kind === RowKind.GRAPH ? 'compute' : undefined
}

/** When it ended; what still ran when the recording was taken ran until then. */
const endOf = ({ end, duration }: Trace, row: number): number =>
  Number.isNaN(end[row] ?? Number.NaN) ? duration : (end[row] ?? 0)

function streamWorks(trace: Trace): StreamWork[] {
  const { length, kind, lane, parent, start, lanes } = trace
  const works = lanes.map(() => ({ copy: 0, compute: 0, changes: 0, last: undefined as Work | undefined }))
  for (let row = 0; row < length; row += 1) {
    const did = workOf(kind[row] ?? 0)
    const own = works[lane[row] ?? 0]
    const began = start[row] ?? Number.NaN
    if (did === undefined || own === undefined || parent[row] !== NO_ROW || Number.isNaN(began)) continue
    own[did] += endOf(trace, row) - began
    if (own.last !== undefined && own.last !== did) own.changes += 1
    own.last = did
  }
  return works
}

function streamsOf({ lanes, laneNames, duration }: Trace, works: StreamWork[], gaps: readonly Gap[]): StreamSummary[] {
  const idle = lanes.map(() => 0)
  for (const { lane, begin, end } of gaps) idle[lane] = (idle[lane] ?? 0) + end - begin
  return lanes.map(({ index, device }) => {
    const { copy, compute } = works[index] ?? { copy: 0, compute: 0 }
    const busy = copy + compute
    const share = duration === 0 ? 0 : busy / duration
    return { stream: index, name: laneNames[index] ?? '', device, busy, share, idle: idle[index] ?? 0 }
  })
}

/** Sweeps over the beginnings and the ends of all that ran on a device. Of a graph with nodes, the nodes count. */
function deviceTimes(trace: Trace, device: number): Pick<DeviceSummary, 'busy' | 'copy' | 'compute' | 'overlap'> {
  const { length, kind, lane, lanes, parent, start } = trace
  const withNodes = new Set<number>()
  for (let row = 0; row < length; row += 1) if (parent[row] !== NO_ROW) withNodes.add(parent[row] ?? NO_ROW)
  const times: Record<Work, { begins: number[]; ends: number[] }> = {
    copy: { begins: [], ends: [] },
    compute: { begins: [], ends: [] },
  }
  for (let row = 0; row < length; row += 1) {
    const did = workOf(kind[row] ?? 0)
    const began = start[row] ?? Number.NaN
    if (did === undefined || lanes[lane[row] ?? 0]?.device !== device || Number.isNaN(began)) continue
    if (withNodes.has(row)) continue
    times[did].begins.push(began)
    times[did].ends.push(endOf(trace, row))
  }
  const copies = new Running(times.copy.begins, times.copy.ends)
  const computes = new Running(times.compute.begins, times.compute.ends)
  const sums = { busy: 0, copy: 0, compute: 0, overlap: 0 }
  for (let now = Math.min(copies.next, computes.next); now < Number.POSITIVE_INFINITY; ) {
    copies.goTo(now)
    computes.goTo(now)
    const until = Math.min(copies.next, computes.next)
    const passed = until === Number.POSITIVE_INFINITY ? 0 : until - now
    if (copies.any) sums.copy += passed
    if (computes.any) sums.compute += passed
    if (copies.any || computes.any) sums.busy += passed
    if (copies.any && computes.any) sums.overlap += passed
    now = until
  }
  return sums
}

/** How many of some stretches of time are under way, as time goes on. */
class Running {
  readonly #begins: Float64Array
  readonly #ends: Float64Array
  #begun = 0
  #ended = 0

  constructor(begins: readonly number[], ends: readonly number[]) {
    this.#begins = Float64Array.from(begins).sort()
    this.#ends = Float64Array.from(ends).sort()
  }

  get any(): boolean {
    return this.#begun > this.#ended
  }

  /** When one begins or ends next; Infinity where none does. */
  get next(): number {
    const { POSITIVE_INFINITY } = Number
    return Math.min(this.#begins[this.#begun] ?? POSITIVE_INFINITY, this.#ends[this.#ended] ?? POSITIVE_INFINITY)
  }

  goTo(time: number): void {
    while ((this.#begins[this.#begun] ?? Number.POSITIVE_INFINITY) <= time) this.#begun += 1
    while ((this.#ends[this.#ended] ?? Number.POSITIVE_INFINITY) <= time) this.#ended += 1
  }
}

/** The facts about a stream that no other one and no call held up. */
const NO_OTHER = { by: '', call: '', place: '', on: '', heldPriority: 0, byPriority: 0 }

/** Copies and kernels that could have overlapped, had they not been queued on one stream. */
function oneStream({ lanes, laneNames }: Trace, device: DeviceSummary, works: readonly StreamWork[]): HoldUp[] {
  const mixed = lanes.filter(({ index, device: of }) => of === device.device && (works[index]?.changes ?? 0) > 1)
  const [first] = mixed
  if (first === undefined) return []
  const serial = mixed.map(({ index }) => Math.min(works[index]?.copy ?? 0, works[index]?.compute ?? 0))
  const time = Math.min(
    Math.min(device.copy, device.compute) - device.overlap,
    serial.reduce((sum, one) => sum + one, 0),
  )
  if (time <= 0) return []
  const count = mixed.reduce((sum, { index }) => sum + (works[index]?.changes ?? 0), 0)
  const held = mixed.length === 1 ? `'${laneNames[first.index] ?? ''}'` : `${mixed.length} streams`
  const often = `${timesInWords(count)}: ${durationInWords(time)} could overlap at most`
  const sentences = inSentences('oneStream', { ...NO_OTHER, held, often })
  return [{ kind: 'oneStream', ...sentences, count, time, callSite: undefined, gaps: [] }]
}

/** A stream does nothing while a host function of its own runs: no gap, and time of the device that is lost all the same. */
function ownHostFunctions({ length, kind, lane, start, end, lanes, laneNames }: Trace): HoldUp[] {
  const sums = lanes.map(() => ({ count: 0, time: 0, waited: 0, held: 0 }))
  for (let row = 0; row < length; row += 1) {
    const own = sums[lane[row] ?? 0]
    if (own === undefined) continue
    if (kind[row] === RowKind.HOST_FUNCTION) {
      own.held += 1
      own.waited += (end[row] ?? 0) - (start[row] ?? 0)
    } else if (workOf(kind[row] ?? 0) !== undefined) {
      own.count += own.held
      own.time += own.waited
      own.held = 0
      own.waited = 0
    }
  }
  return sums.flatMap(({ count, time }, on): HoldUp[] => {
    if (!(time > 0)) return []
    const often = `${timesInWords(count)}, ${durationInWords(time)}`
    const facts = { ...NO_OTHER, held: `'${laneNames[on] ?? ''}'`, by: 'its own', often }
    return [{ kind: 'hostFunction', ...inSentences('hostFunction', facts), count, time, callSite: undefined, gaps: [] }]
  })
}
