/** The recording, as the page holds it. */
import { kernelColours } from '../kernel-colours.js'
import { deviceInCause, isHostOnly } from '../kinds.js'
import type { PageColumn, PageData } from '../page-format.js'

export type Data = ReturnType<typeof readData>

export function readData() {
  const text = document.getElementById('data')?.textContent ?? '{}'
  const { columns, ...rest } = JSON.parse(text) as PageData
  const column = <A>(type: new (bytes: ArrayBuffer) => A, name: PageColumn): A => {
    const binary = atob(columns[name])
    const bytes = new Uint8Array(binary.length)
    for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at)
    return new type(bytes.buffer)
  }
  const kind = column(Uint8Array, 'kind')
  const name = column(Uint32Array, 'name')
  return {
    ...rest,
    kind,
    name,
    /** Which of the kernels' colours, by the number of the name. */
    colours: kernelColours({ length: kind.length, kind, name }),
    lane: column(Uint32Array, 'lane'),
    bytes: column(Float64Array, 'bytes'),
    called: column(Float64Array, 'called'),
    returned: column(Float64Array, 'returned'),
    start: column(Float64Array, 'start'),
    end: column(Float64Array, 'end'),
    cause: column(Int32Array, 'cause'),
    parent: column(Int32Array, 'parent'),
    site: column(Uint32Array, 'site'),
    track: column(Uint32Array, 'track'),
    why: column(Uint8Array, 'why'),
    heldUpBy: column(Int32Array, 'heldUpBy'),
    path: column(Int32Array, 'path'),
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
