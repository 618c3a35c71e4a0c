/**
 * The layouts of CUPTI's records. The offsets are those of CUpti_ActivityKernel9 to 13, CUpti_ActivityMemcpy5 to 7, CUpti_ActivityMemcpyPtoP4,
 * CUpti_ActivityMemset4 and 5, and CUpti_ActivityAPI: newer ones add fields at their ends.
 */
import { ActivityKind } from './cupti-library.js'

/** The offsets in a record of the values that are read. */
interface Layout {
  readonly start: number
  readonly end: number
  readonly correlation: number
  readonly device?: number
  readonly stream?: number
  readonly bytes?: number
  readonly name?: number
  readonly thread?: number
}

const COPY: Layout = { bytes: 8, start: 16, end: 24, device: 32, stream: 40, correlation: 44 }
const CALL: Layout = { start: 8, end: 16, thread: 28, correlation: 32 }
export const LAYOUTS: Readonly<Record<number, Layout>> = {
  [ActivityKind.CONCURRENT_KERNEL]: { start: 16, end: 24, device: 40, stream: 48, correlation: 92, name: 104 },
  [ActivityKind.MEMCPY]: COPY,
  [ActivityKind.MEMCPY2]: { ...COPY, correlation: 60 },
  [ActivityKind.MEMSET]: COPY,
  [ActivityKind.DRIVER]: CALL,
  [ActivityKind.RUNTIME]: CALL,
}

/** What a record of any kind says. Times are nanoseconds since the origin; NaN if it was not over. */
interface RecordSpan {
  /** The number of its ActivityKind. */
  readonly kind: number
  readonly layout: Layout
  readonly start: number
  readonly end: number
  /** The number that an operation has in common with the call that queued it. */
  readonly correlation: number
}

/** A time of CUPTI's clock from which others are counted: no double represents one exactly. */
export class ClockOrigin {
  readonly #high: number
  readonly #low: number

  /** @param origin A time in CUPTI's nanoseconds */
  constructor(origin: bigint) {
    this.#high = Number(origin >> 32n)
    this.#low = Number(origin & 0xffff_ffffn)
  }

  /** The nanoseconds from the origin to the time that is written at a place; NaN for none. */
  timeAt(view: DataView, at: number): number {
    const [low, high] = [view.getUint32(at, true), view.getUint32(at + 4, true)]
    if (low === 0 && high === 0) return Number.NaN
    return (high - this.#high) * 2 ** 32 + (low - this.#low)
  }
}

/** Reads what records of all kinds have. Undefined for a kind that is not known. */
export function spanAt(view: DataView, at: number, origin: ClockOrigin): RecordSpan | undefined {
  const kind = view.getUint32(at, true)
  const layout = LAYOUTS[kind]
  if (layout === undefined) return undefined
  const [start, end] = [origin.timeAt(view, at + layout.start), origin.timeAt(view, at + layout.end)]
  return { kind, layout, start, end, correlation: view.getUint32(at + layout.correlation, true) }
}
