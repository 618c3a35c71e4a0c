/** The times in the trace of a process: when each call began and ended, and when the GPU did what it queued. */
import { MOST_DEVICES } from '../../foundation/base/environment-variables.js'
import { invalidValue } from '../../foundation/base/errors.js'
import { checkCuptiVersion } from '../timeline/cupti/cupti-library.js'
import { ClockOrigin, spanAt } from '../timeline/cupti/record-layouts.js'
import type { RecordedDevice } from './lines.js'
import { TraceKind, TraceReader, type TraceRecord, textIn } from './trace-reader.js'

/** When a call began and ended, in nanoseconds since the trace began. */
export interface CallTimes {
  readonly began: number
  readonly ended: number
  /** The nanoseconds before it that the trace itself took of the thread. */
  readonly own: number
}

export const NO_TIMES: CallTimes = { began: 0, ended: 0, own: 0 }

interface Span {
  readonly start: number
  readonly end: number
}

export class TraceTimes {
  /** The nanoseconds from 1970 to the beginning of the trace. */
  readonly epoch: number
  readonly devices: readonly RecordedDevice[]
  /** The number of the process among those that were started together; undefined for one that was started alone. */
  readonly rank: number | undefined
  readonly #origin: ClockOrigin
  #latest: { readonly correlation: number; readonly times: CallTimes } | undefined
  /** The calls in the recording that queued operations; keys are CUPTI's numbers of the program's calls. */
  readonly #queued = new Map<number, number[]>()
  /** The times of operations by the same numbers. CUPTI may tell them before the call that waits for the operation has returned. */
  readonly #spans = new Map<number, Span[]>()

  /**
   * Reads in a trace what clock it has, and which devices.
   * @throws {Error} ERR_INVALID_ARG_VALUE for a trace without times; ERR_UNSUPPORTED for those of a CUPTI that is not known
   */
  constructor(path: string) {
    const devices: RecordedDevice[] = []
    let clock: { readonly version: number; readonly origin: bigint; readonly epoch: bigint } | undefined
    let rank: number | undefined
    const reader = new TraceReader(path)
    try {
      reader.more((record) => {
        const { kind, view, at } = record
        if (kind === TraceKind.CLOCK) {
          const [version, origin, epoch] = [0, 8, 16].map((offset) => view.getBigUint64(at + offset, true))
          clock = { version: Number(version), origin: origin ?? 0n, epoch: epoch ?? 0n }
        } else if (kind === TraceKind.DEVICE) putDevice(devices, record)
        else if (kind === TraceKind.RANK) rank = Number(view.getBigUint64(at, true))
      })
    } finally {
      reader.close()
    }
    if (clock === undefined)
      throw invalidValue(
        `${path} has no times: the process has printed why, or npx cuda-streams record did not start it`,
      )
    checkCuptiVersion(clock.version)
    this.epoch = Number(clock.epoch)
    this.#origin = new ClockOrigin(clock.origin)
    this.devices = devices
    this.rank = rank
  }

  /** Reads the record of the times of the call that follows. */
  called({ view, at }: TraceRecord): void {
    const [began, ended] = [this.#origin.timeAt(view, at + 8), this.#origin.timeAt(view, at + 16)]
    if (Number.isNaN(began)) throw new RangeError('The call has no beginning')
    // The process ended before the call did.
    const times = { began, ended: Number.isNaN(ended) ? began : ended, own: Number(view.getBigUint64(at + 24, true)) }
    this.#latest = { correlation: view.getUint32(at, true), times }
  }

  /** The times of the call with CUPTI's number; undefined if the trace has none, as for a call during which the process was killed. */
  of(correlation: number): CallTimes | undefined {
    return this.#latest?.correlation === correlation ? this.#latest.times : undefined
  }

  /** Notes that a call in the recording has queued an operation. */
  queued(correlation: number, call: number): void {
    const calls = this.#queued.get(correlation)
    if (calls === undefined) this.#queued.set(correlation, [call])
    else calls.push(call)
  }

  /** Reads a record of CUPTI's. */
  ran({ view, at }: TraceRecord): void {
    const span = spanAt(view, at, this.#origin)
    if (span === undefined || Number.isNaN(span.start) || Number.isNaN(span.end)) return
    const { start, end } = span
    const others = this.#spans.get(span.correlation)
    if (others === undefined) this.#spans.set(span.correlation, [{ start, end }])
    else others.push({ start, end })
  }

  /**
   * The times of all operations that have ended: the call in the recording that queued each, its beginning, its end. The copies of a batch have a
   * time each; a graph, or a copy that CUDA makes in parts, has that from the first beginning to the last end.
   */
  operations(): readonly (readonly [call: number, start: number, end: number])[] {
    return [...this.#queued].flatMap(([correlation, calls]) => {
      const spans = [...(this.#spans.get(correlation) ?? [])].sort((a, b) => a.start - b.start)
      return calls.flatMap((call, at) => {
        const own = at === calls.length - 1 ? spans.slice(at) : spans.slice(at, at + 1)
        const [first] = own
        if (first === undefined) return []
        return [[call, first.start, own.reduce((latest, { end }) => Math.max(latest, end), first.end)] as const]
      })
    })
  }

  /** The number of operations of calls that are not in the trace. */
  get unknown(): number {
    let count = 0
    for (const [correlation, spans] of this.#spans) if (!this.#queued.has(correlation)) count += spans.length
    return count
  }
}

/** Puts a device at its place. A device that the process did not use has a placeholder. */
function putDevice(devices: RecordedDevice[], record: TraceRecord): void {
  const { view, at } = record
  const device = view.getUint32(at, true)
  if (device >= MOST_DEVICES) throw new RangeError(`no machine has a device ${device}`)
  while (devices.length <= device) devices.push(placeholder(devices.length))
  devices[device] = {
    name: textIn(record, at + 12),
    multiprocessors: view.getUint32(at + 4, true),
    threads: view.getUint32(at + 8, true),
  }
}

/** What a recording says of a device of which the trace says nothing. */
export const placeholder = (device: number): RecordedDevice => ({
  name: `GPU ${device}`,
  multiprocessors: 1,
  threads: 2048,
})
