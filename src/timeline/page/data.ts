/** The recording, as the page holds it. */
import { kernelColours } from '../kernel-colours.js'
import { deviceInCause, isHostOnly } from '../kinds.js'
import type { PageColumn, PageData } from '../page-format.js'

export interface Data extends Omit<PageData, 'columns'> {
  readonly kind: Uint8Array
  readonly lane: Uint32Array
  readonly name: Uint32Array
  readonly bytes: Float64Array
  readonly called: Float64Array
  readonly returned: Float64Array
  readonly start: Float64Array
  readonly end: Float64Array
  readonly cause: Int32Array
  readonly parent: Int32Array
  readonly site: Uint32Array
  readonly track: Uint32Array
  readonly why: Uint8Array
  readonly heldUpBy: Int32Array
  readonly path: Int32Array
  /** Which of the kernels' colours, by the number of the name. */
  readonly colours: ReadonlyMap<number, number>
}

export function readData(): Data {
  const text = document.getElementById('data')?.textContent ?? '{}'
  const { columns, ...rest } = JSON.parse(text) as PageData
  const bytes = (name: PageColumn): ArrayBuffer => {
    const binary = atob(columns[name])
    const array = new Uint8Array(binary.length)
    for (let at = 0; at < binary.length; at += 1) array[at] = binary.charCodeAt(at)
    return array.buffer
  }
  const kind = new Uint8Array(bytes('kind'))
  const name = new Uint32Array(bytes('name'))
  return {
    ...rest,
    kind,
    name,
    colours: kernelColours({ length: kind.length, kind, name }),
    lane: new Uint32Array(bytes('lane')),
    bytes: new Float64Array(bytes('bytes')),
    called: new Float64Array(bytes('called')),
    returned: new Float64Array(bytes('returned')),
    start: new Float64Array(bytes('start')),
    end: new Float64Array(bytes('end')),
    cause: new Int32Array(bytes('cause')),
    parent: new Int32Array(bytes('parent')),
    site: new Uint32Array(bytes('site')),
    track: new Uint32Array(bytes('track')),
    why: new Uint8Array(bytes('why')),
    heldUpBy: new Int32Array(bytes('heldUpBy')),
    path: new Int32Array(bytes('path')),
  }
}

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
  if (device !== undefined) return `device ${device}`
  const lane = data.lanes[data.lane[row] ?? 0]
  return data.devices.length > 1 ? `${lane?.name}, device ${lane?.device}` : (lane?.name ?? '')
}
