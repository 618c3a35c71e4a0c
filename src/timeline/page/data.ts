/** A recording, as the page holds it. */
import { barColours } from '../colours.js'
import { deviceInCause, isHostOnly, isInstant } from '../kinds.js'
import type { PageData } from '../page-format.js'

export type Data = ReturnType<typeof dataOf>

export const dataOf = (data: PageData) => ({ ...data, colours: barColours(data) })

/** What a row is called where there is no room for more. */
export function titleOf(data: Data, row: number): string {
  return data.names[data.name[row] ?? 0] ?? ''
}

/** The device that the host waits for as a whole; undefined where a row is about a stream. */
export const wholeDeviceOf = ({ kind, cause }: Data, row: number): number | undefined =>
  isHostOnly(kind[row] ?? 0) ? deviceInCause(cause[row] ?? 0) : undefined

/** On the host, or on which stream. */
export function placeOf(data: Data, row: number): string {
  const device = wholeDeviceOf(data, row)
  return device === undefined ? laneName(data, data.lane[row] ?? 0) : `device ${device}`
}

export function laneName(data: Data, index: number): string {
  const lane = data.lanes[index]
  return data.devices.length > 1 ? `${lane?.name}, device ${lane?.device}` : (lane?.name ?? '')
}

export function timeOf(data: Data, row: number): number {
  const start = data.start[row] ?? Number.NaN
  return Number.isNaN(start) ? (data.called[row] ?? 0) : start
}

/** What held a row up, through records and waits, until something that takes time; -1 where that was not recorded. */
export function causeOf({ heldUpBy, kind, length }: Data, row: number): number {
  let by = heldUpBy[row] ?? -1
  for (let steps = 0; by >= 0 && isInstant(kind[by] ?? 0) && steps < length; steps += 1) by = heldUpBy[by] ?? -1
  return by
}

/** Where the program queued a row: the line, or where lines were not recorded the time. */
export const siteOf = (data: Data, row: number): string => data.sites[data.site[row] ?? 0] ?? ''
