/** The kinds of event records, and the colours in which each kind is drawn, on a light ground and on a dark one. */

/** The numbers that event records hold for their kinds. */
export const EventKind = {
  /** No event record: the call was refused, or captured into a graph. */
  NONE: 0,
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
export type EventKind = (typeof EventKind)[keyof typeof EventKind]

/** The work that a device does for a kind. */
export type DeviceWork = 'copy' | 'compute'

interface KindTraits {
  /** The name of the kind in programs and files. */
  readonly name: string
  /** The work that a device does for the kind, which takes time and is timed. */
  readonly work?: DeviceWork
  /** The place of the kind. 'point': at a point of its stream, without time of a device. 'host': on the host only. */
  readonly place?: 'point' | 'host'
  /** The driver's call that queues the kind; `category` is the one that PyTorch's profiler gives to what it finds on a device. */
  readonly call?: string
  readonly category?: string
  /** The colour of the kind. Kernels have the six kernel colours in turn. Default 'quiet'. */
  readonly colour?: (typeof BAR_COLOURS)[number]
}

const KINDS = {
  [EventKind.NONE]: { name: '' },
  [EventKind.KERNEL]: { name: 'kernel', work: 'compute', call: 'cuLaunchKernel', category: 'kernel' },
  [EventKind.COPY]: { name: 'copy', work: 'copy', call: 'cuMemcpyAsync', category: 'gpu_memcpy', colour: 'copy' },
  [EventKind.FILL]: { name: 'fill', work: 'compute', call: 'cuMemsetAsync', category: 'gpu_memset', colour: 'fill' },
  [EventKind.ALLOCATE]: { name: 'allocate', place: 'point', call: 'cuMemAllocAsync' },
  [EventKind.FREE]: { name: 'free', place: 'point', call: 'cuMemFreeAsync' },
  [EventKind.RECORD]: { name: 'record', place: 'point', call: 'cuEventRecord', category: 'cuda_sync' },
  [EventKind.WAIT]: { name: 'wait', place: 'point', call: 'cuStreamWaitEvent', category: 'cuda_sync', colour: 'wait' },
  [EventKind.HOST_FUNCTION]: {
    name: 'hostFunction',
    call: 'cuLaunchHostFunc',
    category: 'host_function',
    colour: 'hostFunction',
  },
  [EventKind.GRAPH]: { name: 'graph', work: 'compute', call: 'cuGraphLaunch', category: 'graph', colour: 'graph' },
  [EventKind.LATCH]: { name: 'latch' },
  [EventKind.FAULT]: { name: 'fault', colour: 'fault' },
  /** A call that blocks until work is complete. */
  [EventKind.SYNCHRONIZE]: { name: 'synchronize', place: 'host', colour: 'blocked' },
  /** A promise that work is complete. */
  [EventKind.AWAIT]: { name: 'await', place: 'host', colour: 'blocked' },
} as const satisfies Readonly<Record<EventKind, KindTraits>>

const ALL = Object.values(KINDS)
const TRAITS: readonly KindTraits[] = ALL
// The traits are split into arrays by kind, which are faster than objects of different shapes.
const WORK = TRAITS.map(({ work }) => work)
const PLACE = TRAITS.map(({ place }) => place)
const CALL = TRAITS.map(({ call }) => call)
const CATEGORY = TRAITS.map(({ category }) => category)

/** The names of all kinds, by their numbers. */
export const KIND_NAMES = ALL.map(({ name }) => name)

/**
 * The kind of an operation. 'latch' and 'fault' are the simulator's own, from `cuda-streams/sim`: a stream that a test holds, and a GPU that breaks.
 * 'wait' is `cuStreamWaitEvent`; a host that waits is a `TimelineCall` instead.
 */
export type OperationKind = Exclude<(typeof KIND_NAMES)[number], 'synchronize' | 'await' | ''>

/** The name of an operation's kind; undefined for a kind that is on the host only. */
export function operationKind(kind: number): OperationKind | undefined {
  const name = KIND_NAMES[kind] ?? ''
  return name === '' || name === 'synchronize' || name === 'await' ? undefined : name
}

/** The work that a device does for a kind; undefined for nothing. */
export const workOf = (kind: number): DeviceWork | undefined => WORK[kind]

/** Whether a device works on the kind, so that its beginning and its end are timed. */
export const isTimed = (kind: number): boolean => WORK[kind] !== undefined

/** Whether the kind is at a point of its stream, and takes no time of a device. */
export const isInstant = (kind: number): boolean => PLACE[kind] === 'point'

/** Whether the kind is on the host only. */
export const isHostOnly = (kind: number): boolean => PLACE[kind] === 'host'

/** The driver's call that queues the kind; undefined for none. */
export const callOf = (kind: number): string | undefined => CALL[kind]

/** The category of the kind in PyTorch's profiler. */
export const categoryOf = (kind: number): string => CATEGORY[kind] ?? KIND_NAMES[kind] ?? ''

/** The `cause` of an event record of the host that waits for a whole device. Other causes are rows, or -1. */
export const wholeDevice = (device: number): number => -2 - device

/** The device that such a cause stands for; undefined for other causes. */
export const deviceInCause = (cause: number): number | undefined => (cause < -1 ? -2 - cause : undefined)

/** The name of the host functions that the library queues for itself, to copy between arrays and pinned memory. */
export const STAGING = 'staging'

/** The colours. Text has a contrast of at least 4.5, bars and hatching of 3; tests/tools/timeline/colours.test.ts lists the pairs. */
export const COLOURS = {
  background: ['#ffffff', '#12151b'],
  panel: ['#f7f8fa', '#181c24'],
  band: ['#f0f2f6', '#1d222b'],
  line: ['#e0e4ea', '#2b323d'],
  text: ['#1c2330', '#e4e8ef'],
  faint: ['#576273', '#8f9bad'],
  accent: ['#0b57d0', '#8ab4ff'],
  critical: ['#d63a30', '#ff7b6e'],
  arrow: ['#7d8797', '#8793a6'],
  gap: ['#a8380a', '#ff9d5c'],
  onBar: ['#ffffff', '#0b0e13'],
  kernel0: ['#3f66d6', '#86a8ff'],
  kernel1: ['#0b78b0', '#5cc3f5'],
  kernel2: ['#6f5bd0', '#b4a3ff'],
  kernel3: ['#4e7191', '#9fb8d0'],
  kernel4: ['#2c4a9a', '#7d93e6'],
  kernel5: ['#0f7a8d', '#5fc9db'],
  copy: ['#0c7d62', '#4fd1ab'],
  fill: ['#557c18', '#a6d05a'],
  hostFunction: ['#a35e0b', '#f0b35a'],
  graph: ['#8a46b8', '#d29bf5'],
  quiet: ['#667283', '#8b97a9'],
  fault: ['#c22a2a', '#ff6b6b'],
  blocked: ['#a3536b', '#e58fa7'],
  wait: ['#7d8898', '#66738a'],
  nullStream: ['#b87410', '#b5832f'],
} as const satisfies Readonly<Record<string, readonly [light: string, dark: string]>>
export type ColourName = keyof typeof COLOURS

/** The colours of bars. The last two are hatched: nothing runs there. */
export const BAR_COLOURS = [
  'kernel0',
  'kernel1',
  'kernel2',
  'kernel3',
  'kernel4',
  'kernel5',
  'copy',
  'fill',
  'hostFunction',
  'graph',
  'quiet',
  'fault',
  'blocked',
  'wait',
  'nullStream',
] as const satisfies readonly ColourName[]
const KERNEL_COLOURS = 6
export const WAIT = BAR_COLOURS.indexOf('wait')
export const NULL_STREAM = BAR_COLOURS.indexOf('nullStream')
export const HOST_FUNCTION = BAR_COLOURS.indexOf('hostFunction')
export const QUIET = BAR_COLOURS.indexOf('quiet')
const COLOUR_OF_KIND = TRAITS.map(({ colour = 'quiet' }) => BAR_COLOURS.indexOf(colour))

/** The index in BAR_COLOURS of each event record. Kernels of one name have one colour, in the order in which they first come. */
export function barColours(rows: { readonly kind: Uint8Array; readonly name: Uint32Array }): Uint8Array {
  const { kind, name } = rows
  const kernels = new Map<number, number>()
  const colours = new Uint8Array(kind.length)
  for (let row = 0; row < kind.length; row += 1) {
    const what = kind[row] ?? 0
    const named = name[row] ?? 0
    if (what === EventKind.KERNEL && !kernels.has(named)) kernels.set(named, kernels.size % KERNEL_COLOURS)
    colours[row] = (what === EventKind.KERNEL ? kernels.get(named) : COLOUR_OF_KIND[what]) ?? QUIET
  }
  return colours
}
