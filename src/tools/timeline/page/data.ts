/** The recording as the page holds it, and its times and sizes as text. */
import { BarList, type Bars } from '../bars.js'
import { barColours, deviceInCause, isHostOnly, isInstant } from '../kinds.js'
import type { PageData } from '../page-format.js'

export type Data = ReturnType<typeof dataOf>

export const dataOf = (data: PageData) => ({ ...data, colours: barColours(data) })

/** The short name of a row. */
export function titleOf(data: Data, row: number): string {
  return data.names[data.name[row] ?? 0] ?? ''
}

/** The device that the host waits for as a whole; undefined if a row is about a stream. */
export const wholeDeviceOf = ({ kind, cause }: Data, row: number): number | undefined =>
  isHostOnly(kind[row] ?? 0) ? deviceInCause(cause[row] ?? 0) : undefined

/** The name of the stream or device of a row. */
export function placeOf(data: Data, row: number): string {
  const device = wholeDeviceOf(data, row)
  return device === undefined ? trackName(data, data.track[row] ?? 0) : `device ${device}`
}

export function trackName(data: Data, index: number): string {
  const track = data.tracks[index]
  return data.devices.length > 1 ? `${track?.name}, device ${track?.device}` : (track?.name ?? '')
}

export function timeOf(data: Data, row: number): number {
  const start = data.start[row] ?? Number.NaN
  return Number.isNaN(start) ? (data.called[row] ?? 0) : start
}

/** The row that takes time and that held a row up, through records and waits; -1 if that was not recorded. */
export function causeOf({ blockedBy, kind, length }: Data, row: number): number {
  let by = blockedBy[row] ?? -1
  for (let steps = 0; by >= 0 && isInstant(kind[by] ?? 0) && steps < length; steps += 1) by = blockedBy[by] ?? -1
  return by
}

/** The call site of a row, or ''. */
export const siteOf = (data: Data, row: number): string => data.sites[data.site[row] ?? 0] ?? ''

export class Gaps {
  /** The rows behind the gaps, the longest gap first. */
  readonly all: readonly number[]

  constructor(private readonly data: Data) {
    const rows: number[] = []
    for (let row = 0; row < data.length; row += 1) if (data.stall[row] !== 0) rows.push(row)
    this.all = rows.sort((a, b) => this.lengthOf(b) - this.lengthOf(a) || a - b)
  }

  lengthOf(row: number): number {
    return (this.data.start[row] ?? 0) - (this.data.gapBegin[row] ?? 0)
  }

  /** The gaps of a stall, given its index in `stalls`. */
  of(stall: number): readonly number[] {
    return this.all.filter((row) => this.data.stall[row] === stall + 1)
  }

  /** The gaps of each track as bars. */
  bars(rows: readonly number[]): ReadonlyMap<number, Bars> {
    const { track, gapBegin, start } = this.data
    const lists = new Map<number, BarList>()
    for (const row of rows) {
      const on = track[row] ?? 0
      const list = lists.get(on) ?? new BarList()
      lists.set(on, list)
      list.add(row, gapBegin[row] ?? 0, start[row] ?? 0, 0)
    }
    return new Map([...lists].map(([on, list]) => [on, list.toBars()]))
  }
}

const UNITS = [
  { name: 's', nanoseconds: 1e9 },
  { name: 'ms', nanoseconds: 1e6 },
  { name: 'µs', nanoseconds: 1e3 },
] as const

/** A duration as text. */
export function formatTime(nanoseconds: number, digits = 3): string {
  if (Number.isNaN(nanoseconds)) return 'not known'
  if (nanoseconds === 0) return '0'
  const unit = UNITS.find((one) => Math.abs(nanoseconds) >= one.nanoseconds)
  if (unit === undefined) return `${Math.round(nanoseconds)} ns`
  const value = nanoseconds / unit.nanoseconds
  return `${trimmed(value, value >= 100 ? Math.min(digits, 1) : value >= 10 ? Math.min(digits, 2) : digits)} ${unit.name}`
}

/** A point of time as text, exact to the nanosecond. */
export const formatPoint = (nanoseconds: number): string => {
  const unit = UNITS.find((one) => Math.abs(nanoseconds) >= one.nanoseconds)
  if (unit === undefined) return formatTime(nanoseconds)
  return `${trimmed(nanoseconds / unit.nanoseconds, Math.log10(unit.nanoseconds))} ${unit.name}`
}

/** A point of time with as many digits as `step` needs, in the unit that suits the `largest` one. */
export function formatTick(nanoseconds: number, step: number, largest: number): string {
  if (nanoseconds === 0) return '0'
  const unit = UNITS.find((one) => largest >= one.nanoseconds)
  if (unit === undefined) return `${Math.round(nanoseconds)} ns`
  const digits = Math.max(0, Math.ceil(-Math.log10(Math.max(1, step) / unit.nanoseconds) - 1e-9))
  return `${(nanoseconds / unit.nanoseconds).toFixed(digits)} ${unit.name}`
}

export function formatBytes(bytes: number): string {
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let size = bytes
  let at = 0
  while (size >= 1024 && at < names.length - 1) {
    size /= 1024
    at += 1
  }
  return `${trimmed(size, 2)} ${names[at]}`
}

export function formatCount(count: number): string {
  return count.toLocaleString('en')
}

/** A share from 0 to 1 as a percentage. */
export function formatShare(share: number): string {
  const percent = share * 100
  if (percent > 0 && percent < 0.1) return 'under 0.1 %'
  return `${percent < 10 ? trimmed(percent, 1) : Math.round(percent)} %`
}

function trimmed(value: number, digits: number): string {
  const text = value.toFixed(digits)
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text
}
