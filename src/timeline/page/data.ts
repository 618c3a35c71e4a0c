/** The recording, as the page holds it. */
export interface Gap {
  readonly lane: number
  readonly begin: number
  readonly end: number
  readonly next: number
  readonly reason: string
  readonly wait: number
  readonly cause: number
}

interface Written {
  readonly title: string
  readonly driver: string
  readonly clock: string
  readonly duration: number
  readonly dropped: number
  readonly uncertainty: number
  readonly kinds: readonly string[]
  readonly bindings: readonly string[]
  readonly devices: readonly (readonly [number, string])[]
  readonly lanes: readonly {
    readonly name: string
    readonly device: number
    readonly id: string
    readonly priority: number
    readonly nonBlocking: boolean
    readonly nodeTracks: number
  }[]
  readonly names: readonly string[]
  readonly sites: readonly string[]
  readonly length: number
  readonly columns: Readonly<Record<string, string>>
  /** The longest; of all there are so many, of so many nanoseconds together. */
  readonly gaps: readonly Gap[]
  readonly gapCount: number
  readonly gapTime: number
}

export interface Data extends Omit<Written, 'columns'> {
  readonly kind: Uint8Array
  readonly lane: Uint16Array
  readonly name: Uint32Array
  readonly bytes: Float64Array
  readonly called: Float64Array
  readonly returned: Float64Array
  readonly start: Float64Array
  readonly end: Float64Array
  readonly cause: Int32Array
  readonly parent: Int32Array
  readonly site: Uint32Array
  readonly track: Uint16Array
  readonly why: Uint8Array
  readonly heldUpBy: Int32Array
  readonly path: Int32Array
}

/** As in kinds.ts. */
export const K = {
  KERNEL: 1,
  COPY: 2,
  FILL: 3,
  ALLOCATE: 4,
  FREE: 5,
  RECORD: 6,
  WAIT: 7,
  HOST_FUNCTION: 8,
  GRAPH: 9,
  LATCH: 10,
  FAULT: 11,
  SYNCHRONIZE: 12,
  AWAIT: 13,
} as const

export const isInstantKind = (kind: number): boolean => kind >= K.ALLOCATE && kind <= K.WAIT

export function readData(): Data {
  const text = document.getElementById('data')?.textContent ?? '{}'
  const { columns, ...rest } = JSON.parse(text) as Written
  const bytes = (name: string): ArrayBuffer => {
    const binary = atob(columns[name] ?? '')
    const array = new Uint8Array(binary.length)
    for (let at = 0; at < binary.length; at += 1) array[at] = binary.charCodeAt(at)
    return array.buffer
  }
  return {
    ...rest,
    kind: new Uint8Array(bytes('kind')),
    lane: new Uint16Array(bytes('lane')),
    name: new Uint32Array(bytes('name')),
    bytes: new Float64Array(bytes('bytes')),
    called: new Float64Array(bytes('called')),
    returned: new Float64Array(bytes('returned')),
    start: new Float64Array(bytes('start')),
    end: new Float64Array(bytes('end')),
    cause: new Int32Array(bytes('cause')),
    parent: new Int32Array(bytes('parent')),
    site: new Uint32Array(bytes('site')),
    track: new Uint16Array(bytes('track')),
    why: new Uint8Array(bytes('why')),
    heldUpBy: new Int32Array(bytes('heldUpBy')),
    path: new Int32Array(bytes('path')),
  }
}

/** What a row is called where there is no room for more. */
export function titleOf(data: Data, row: number): string {
  return data.names[data.name[row] ?? 0] ?? ''
}

/** On the host, or on which stream. */
export function placeOf(data: Data, row: number): string {
  const kind = data.kind[row] ?? 0
  if (kind >= K.SYNCHRONIZE && (data.cause[row] ?? 0) < -1) return `device ${-2 - (data.cause[row] ?? 0)}`
  const lane = data.lanes[data.lane[row] ?? 0]
  return data.devices.length > 1 ? `${lane?.name}, device ${lane?.device}` : (lane?.name ?? '')
}
