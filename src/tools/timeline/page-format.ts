/** A recording as the page draws it, and its encoding in the page's file: the difference of each value from a prediction. */
import type { KernelProfile } from '../../foundation/driver/kernel-profile.js'
import { EventKind, isHostOnly, isInstant } from './kinds.js'
import type { Stall, TimelineSummary } from './summary.js'

export interface PageData extends PageText, PageColumns {}

interface PageText {
  readonly title: string
  readonly driver: string
  readonly clock: string
  readonly duration: number
  readonly dropped: number
  /** The nanoseconds by which times may be wrong; 0 if they are exact. */
  readonly uncertainty: number
  readonly kinds: readonly string[]
  readonly devices: readonly (readonly [number, string])[]
  readonly tracks: readonly {
    readonly name: string
    readonly device: number
    readonly id: string
    readonly priority: number
    readonly nonBlocking: boolean
    readonly nodeLevels: number
  }[]
  readonly names: readonly string[]
  readonly sites: readonly string[]
  readonly streams: TimelineSummary['streams']
  readonly overlaps: TimelineSummary['devices']
  readonly verdict: string
  /** The part of the recording of which gains are predicted. */
  readonly predicted: TimelineSummary['predicted']
  readonly stalls: readonly Omit<Stall, 'gaps'>[]
  /** What the simulator has counted of kernels, with their rows. */
  readonly profiles: readonly (readonly [row: number, profile: KernelProfile])[]
  readonly length: number
}

/** The columns in the order in which they are written: values are predicted from the columns before them. */
export interface PageColumns {
  readonly kind: Uint8Array
  readonly track: Uint32Array
  readonly name: Uint32Array
  readonly parent: Int32Array
  readonly cause: Int32Array
  readonly site: Uint32Array
  readonly bytes: Float64Array
  /** The index in BINDING_KINDS of the reason why the operation began when it did; `blockedBy` is the row that it waited for. */
  readonly why: Uint8Array
  readonly blockedBy: Int32Array
  /** The time of the call, in whole nanoseconds as all times. */
  readonly called: Float64Array
  readonly returned: Float64Array
  readonly start: Float64Array
  readonly end: Float64Array
  /** The level of the row: 0 on the track itself; the nodes of graphs are drawn on the levels below, from 1. */
  readonly level: Uint32Array
  /** The rows on the critical path, as 1. */
  readonly critical: Uint8Array
  /** The rows that other code queued, as 1. */
  readonly foreign: Uint8Array
  /** The index in `stalls`, plus one, of the cause of the gap before the row; `gapBegin` is the beginning of that gap. 0 and NaN without a gap. */
  readonly stall: Uint32Array
  readonly gapBegin: Float64Array
}

export const emptyColumns = (length: number): PageColumns => ({
  kind: new Uint8Array(length),
  track: new Uint32Array(length),
  name: new Uint32Array(length),
  parent: new Int32Array(length),
  cause: new Int32Array(length),
  site: new Uint32Array(length),
  bytes: new Float64Array(length),
  why: new Uint8Array(length),
  blockedBy: new Int32Array(length),
  called: new Float64Array(length),
  returned: new Float64Array(length),
  start: new Float64Array(length),
  end: new Float64Array(length),
  level: new Uint32Array(length),
  critical: new Uint8Array(length),
  foreign: new Uint8Array(length),
  stall: new Uint32Array(length),
  gapBegin: new Float64Array(length),
})

export const BINDING_KINDS = [
  'unknown',
  'stream',
  'wait',
  'nullStream',
  'host',
  'eventLoop',
  'engine',
  'instance',
] as const
const BY_STREAM = BINDING_KINDS.indexOf('stream')
const BY_WAIT = BINDING_KINDS.indexOf('wait')

/** The number of rows that are written column by column, and each column byte by byte of its values, so that similar bytes are together. */
const BLOCK = 65_536

/** The bytes in pieces: the length of a header, the header, and the columns. */
export function encodePage(data: PageData): Uint8Array[] {
  const withoutColumns = (_: string, value: unknown): unknown => (isColumn(value) ? undefined : value)
  const header = new TextEncoder().encode(JSON.stringify(data, withoutColumns))
  const size = new Uint8Array(4)
  new DataView(size.buffer).setUint32(0, header.length, true)
  const parts: Uint8Array[] = [size, header]
  const columns = Object.values(data).filter(isColumn)
  const codes = columns.map(() => new Float64Array(Math.min(BLOCK, data.length)))
  const predictions = new Predictions(data, data.tracks.length)
  for (let from = 0; from < data.length; from += BLOCK) {
    const count = Math.min(BLOCK, data.length - from)
    predictions.inOrder(from, count, (at, row, prediction) => {
      const into = codes[at]
      if (into !== undefined) into[row - from] = codeOf(columns[at]?.[row] ?? 0, prediction)
    })
    for (const column of codes) parts.push(...planesOf(column.subarray(0, count)))
  }
  return parts
}

export function decodePage(bytes: Uint8Array): PageData {
  const begin = 4 + new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true)
  const text: PageText = JSON.parse(new TextDecoder().decode(bytes.subarray(4, begin)))
  const rows = emptyColumns(text.length)
  const columns = Object.values(rows).filter(isColumn)
  const codes = columns.map(() => new Float64Array(Math.min(BLOCK, text.length)))
  const predictions = new Predictions(rows, text.tracks.length)
  let place = begin
  for (let from = 0; from < text.length; from += BLOCK) {
    const count = Math.min(BLOCK, text.length - from)
    for (const into of codes) place = readPlanes(bytes, place, into.subarray(0, count))
    predictions.inOrder(from, count, (at, row, prediction) => {
      const column = columns[at]
      if (column !== undefined) column[row] = decoded(codes[at]?.[row - from] ?? 0, prediction)
    })
  }
  return { ...text, ...rows }
}

type Column = PageColumns[keyof PageColumns]
const isColumn = (value: unknown): value is Column => ArrayBuffer.isView(value)

/**
 * The code of a value: 0 for the predicted one, 1 for NaN, an even number for a larger one, and an odd number for a smaller
 * one.
 */
function codeOf(value: number, prediction: number): number {
  if (Number.isNaN(value)) return 1
  return value >= prediction ? 2 * (value - prediction) : 2 * (prediction - value) + 1
}

function decoded(code: number, prediction: number): number {
  if (code === 1) return Number.NaN
  return code % 2 === 0 ? prediction + code / 2 : prediction - (code - 1) / 2
}

/** The number of bytes of the values, then the lowest byte of each, then the next. */
function planesOf(codes: Float64Array): Uint8Array[] {
  let left = codes.reduce((most, code) => Math.max(most, code), 0)
  const planes: Uint8Array[] = [new Uint8Array(1)]
  for (let weight = 1; left >= 1; weight *= 256, left /= 256) {
    const plane = new Uint8Array(codes.length)
    for (let row = 0; row < codes.length; row += 1) plane[row] = Math.floor((codes[row] ?? 0) / weight) % 256
    planes.push(plane)
  }
  planes[0]?.fill(planes.length - 1)
  return planes
}

/** Reads the bytes of a column, and returns the offset behind them. */
function readPlanes(bytes: Uint8Array, place: number, into: Float64Array): number {
  const count = bytes[place] ?? 0
  let at = place + 1
  into.fill(0)
  for (let plane = 0, weight = 1; plane < count; plane += 1, weight *= 256) {
    for (let row = 0; row < into.length; row += 1) into[row] = (into[row] ?? 0) + (bytes[at + row] ?? 0) * weight
    at += into.length
  }
  return at
}

/** Predicts each value from the rows before, and from the columns before in its own row. */
class Predictions {
  /** The latest row of each track; `#busyUntil` is the time until which the track was busy. */
  readonly #latest: Int32Array
  readonly #busyUntil: Float64Array
  /** The row that the latest operation waited for, for each kind of binding. */
  readonly #by = new Int32Array(BINDING_KINDS.length)
  /** The time at which the latest call of the host returned. */
  #now = 0
  /** The prediction of each column; undefined for a column without one. */
  readonly #ofColumn: readonly (((row: number) => number) | undefined)[]

  constructor(
    private readonly rows: PageColumns,
    tracks: number,
  ) {
    this.#latest = new Int32Array(tracks).fill(-1)
    this.#busyUntil = new Float64Array(tracks)
    const { kind, track, parent, cause, why, blockedBy, called, returned, start, end, stall } = rows
    const latest = (row: number): number => this.#latest[track[row] ?? 0] ?? -1
    /** The end of another row; 0 if that row comes later, since its end is not known when this one is read. */
    const endOf = (by: number, row: number): number => (by >= 0 && by < row ? (end[by] ?? 0) || 0 : 0)
    const ofName: Partial<Record<keyof PageColumns, (row: number) => number>> = {
      parent: (row) => parent[row - 1] ?? -1,
      cause: (row) => (kind[row] === EventKind.WAIT ? row - 1 : -1),
      blockedBy: (row) => {
        if (why[row] === BY_STREAM) return latest(row)
        return (why[row] === BY_WAIT ? cause[row] : this.#by[why[row] ?? 0]) ?? 0
      },
      called: (row) => {
        const launch = parent[row] ?? -1
        return launch >= 0 && launch < row ? (called[launch] ?? 0) || 0 : this.#now
      },
      returned: (row) => called[row] || 0,
      start: (row) => {
        const asked = (isInstant(kind[row] ?? 0) ? returned[row] : called[row]) || 0
        return Math.max(asked, endOf(latest(row), row), endOf(blockedBy[row] ?? 0, row))
      },
      end: (row) => Math.max((start[row] ?? 0) || 0, kind[row] === EventKind.WAIT ? endOf(cause[row] ?? -1, row) : 0),
      gapBegin: (row) => (stall[row] === 0 ? 0 : (this.#busyUntil[track[row] ?? 0] ?? 0)),
    }
    const byName = new Map(Object.entries(ofName))
    this.#ofColumn = Object.keys(emptyColumns(0)).map((name) => byName.get(name))
  }

  /** Visits each value of `count` rows with its prediction: first the columns without one, then row by row. */
  inOrder(first: number, count: number, visit: (column: number, row: number, prediction: number) => void): void {
    const predicted: (readonly [column: number, prediction: (row: number) => number])[] = []
    for (const [column, prediction] of this.#ofColumn.entries()) {
      if (prediction !== undefined) predicted.push([column, prediction])
      else for (let row = first; row < first + count; row += 1) visit(column, row, 0)
    }
    for (let row = first; row < first + count; row += 1) {
      for (const [column, prediction] of predicted) visit(column, row, prediction(row))
      this.#passed(row)
    }
  }

  /** Updates the predictions with a row of which all is known. */
  #passed(row: number): void {
    const { kind, track, parent, why, blockedBy, called, returned, end } = this.rows
    const what = kind[row] ?? 0
    this.#by[why[row] ?? 0] = blockedBy[row] ?? 0
    if (parent[row] !== -1) return
    this.#now = (what === EventKind.AWAIT ? called[row] : returned[row]) || 0
    if (isHostOnly(what)) return
    this.#latest[track[row] ?? 0] = row
    if (!isInstant(what)) this.#busyUntil[track[row] ?? 0] = (end[row] ?? 0) || 0
  }
}
