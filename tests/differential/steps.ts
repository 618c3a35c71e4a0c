/**
 * Programs as data: which streams and events there are, and what is done with them, step by step. All fields of a step
 * are numbers, so that a program is short when written down; numbers that name something are taken modulo how many there
 * are, so that a program stays one when fast-check takes steps away.
 */

/** Every step and its fields, in the order in which they are written down. Only append: saved programs go by the place. */
export const FIELDS = {
  host: ['stream'],
  callback: ['stream'],
  record: ['stream', 'event'],
  wait: ['stream', 'event'],
  waitStream: ['stream', 'other'],
  fill: ['stream', 'buffer', 'at', 'cells', 'width', 'value', 'guarded'],
  copy: ['stream', 'buffer', 'at', 'source', 'from', 'cells', 'guarded'],
  mix: ['stream', 'buffer', 'at', 'source', 'from', 'cells', 'rounds', 'guarded'],
  latch: ['stream'],
  open: ['latch'],
  queryStream: ['stream'],
  queryEvent: ['event'],
  elapsed: ['event', 'other'],
  finishedStream: ['stream'],
  finishedEvent: ['event'],
  synchronizeStream: ['stream'],
  synchronizeEvent: ['event'],
  synchronizeDevice: ['device'],
  awaitStream: ['stream'],
  awaitEvent: ['event'],
  turn: [],
  peek: ['buffer'],
  poke: ['buffer', 'at', 'value'],
  begin: ['stream', 'mode'],
  end: ['stream'],
  instantiate: ['graph'],
  launch: ['exec', 'stream', 'guarded'],
  update: ['exec', 'graph'],
  nodeCount: ['graph'],
  isCapturing: ['stream'],
  ask: ['stream', 'about'],
  closeStream: ['stream'],
  closeEvent: ['event'],
  closeBuffer: ['buffer'],
  closeGraph: ['graph'],
  closeExec: ['exec'],
  wrong: ['which', 'stream', 'event', 'buffer'],
  inside: ['stream', 'how'],
  recordExternal: ['stream', 'event'],
  waitExternal: ['stream', 'event'],
  upload: ['stream', 'buffer', 'at', 'cells', 'value', 'guarded'],
  download: ['stream', 'buffer', 'at', 'cells', 'guarded'],
  renewStream: ['stream'],
  renewEvent: ['event'],
  act: ['stream', 'set', 'how'],
  fault: ['stream'],
  updateNode: ['exec', 'node', 'buffer', 'at', 'cells', 'value'],
  setEnabled: ['exec', 'node', 'on'],
  copyRows: ['stream', 'buffer', 'at', 'source', 'from', 'planes', 'rows', 'bytes', 'gap', 'guarded'],
  copyAll: ['stream', 'buffer', 'at', 'source', 'from', 'buffer2', 'at2', 'source2', 'from2', 'guarded'],
  waitDevice: ['stream', 'device'],
  waitPromise: ['stream'],
  settle: ['promise'],
  waitValue: ['stream', 'compare', 'bits'],
  signal: ['stream', 'other', 'compare', 'bits'],
  makePool: ['device', 'limit'],
  closePool: ['pool'],
  usePool: ['pool', 'use', 'value'],
  overfill: ['pool', 'stream'],
  renewBuffer: ['buffer', 'stream', 'pool'],
  launchGraph: ['graph', 'stream'],
  grow: ['graph', 'stream', 'node', 'mode'],
  updateKernel: ['exec', 'node', 'buffer', 'at', 'source', 'from', 'cells', 'rounds'],
  updateCopy: ['exec', 'node', 'buffer', 'at', 'source', 'from', 'cells'],
  updateFill: ['exec', 'node', 'buffer', 'at', 'cells', 'width', 'value'],
  uploadExec: ['exec', 'stream'],
  lend: ['stream', 'buffer', 'at', 'cells', 'value', 'guarded'],
  external: ['stream', 'buffer', 'at', 'cells', 'value', 'guarded'],
  nothing: ['stream', 'buffer', 'call'],
  recordNew: ['stream', 'event'],
  waitBy: ['stream', 'other', 'event'],
  drain: ['device'],
  aborted: ['stream', 'event', 'device', 'call'],
  finishedDevice: ['device'],
  capture: ['stream', 'mode', 'ends'],
  fillRows: ['stream', 'buffer', 'at', 'rows', 'bytes', 'gap', 'width', 'value', 'guarded'],
} as const

/** Steps that have steps of their own. */
const WITH_BODY = ['inside', 'act', 'grow', 'capture'] as const
type WithBody = (typeof WITH_BODY)[number]

export type What = keyof typeof FIELDS
export type StepOf<W extends What> = { readonly what: W } & { readonly [F in (typeof FIELDS)[W][number]]: number }
/** `inside` queues a host function whose body makes steps, and waits for it, with nothing else under way. */
export type Inside = StepOf<'inside'> & { readonly body: readonly Step[] }
/** `act` queues a host function whose body makes steps whenever it runs, with a stream, an event and memory of its own. */
export type Act = StepOf<'act'> & { readonly body: readonly Step[] }
/** `grow` captures the work of its body into a graph that is there. */
export type Grow = StepOf<'grow'> & { readonly body: readonly Step[] }
/** `capture` captures the work of its body, which may fail. */
export type CaptureStep = StepOf<'capture'> & { readonly body: readonly Step[] }
export type PlainWhat = Exclude<What, WithBody>
export type Plain = { [W in PlainWhat]: StepOf<W> }[PlainWhat]
export type Step = Plain | Inside | Act | Grow | CaptureStep

/**
 * Where a stream comes from: the library's own or another's, non-blocking or blocking; the null stream, that wrapped by
 * its handle, the per-thread stream, and those of green contexts; and a second name for the stream before it. Recordings have them by
 * their places.
 */
export const ORIGINS = [
  'own',
  'ownBlocking',
  'foreign',
  'foreignBlocking',
  'null',
  'wrappedNull',
  'perThread',
  'green',
  'foreignGreen',
  'alias',
] as const
export type Origin = (typeof ORIGINS)[number]

export interface StreamPlan {
  readonly origin: Origin
  readonly priority: number
  readonly device: number
}

/** How the end of a program is waited for. */
export type Ending = 'blocking' | 'event loop'

/**
 * What is played at any time. In the first edition that was less, since nobody knew whether the driver waits: copies within
 * the host, what allocates (instances of graphs, uploads, downloads) and the end of a stream that captures came only when
 * all was done. In the second no buffer was closed that a graph uses. In the third no memory was registered, and what came
 * of promises before a fault was looked at only afterwards. In the fourth graphs and instances were counted from the oldest, and nobody
 * uploaded one on a null stream that takes no work. Programs that were recorded then are played as they were.
 */
export type Edition = 1 | 2 | 3 | 4 | 5

export interface Program {
  readonly edition: Edition
  readonly devices: number
  readonly streams: readonly StreamPlan[]
  /** Whether each event has timing, and its device. */
  readonly events: readonly { readonly timing: boolean; readonly device: number }[]
  readonly ending: Ending
  readonly steps: readonly Step[]
}

/** Every program has these buffers. */
const BUFFERS: readonly BufferPlan[] = [
  { name: 'd0', pinned: false, device: 0 },
  { name: 'd1', pinned: false, device: 0 },
  { name: 'd2', pinned: false, device: 1 },
  { name: 'p0', pinned: true, device: 0 },
  { name: 'p1', pinned: true, device: 0 },
]
/** Memory that JavaScript has already. Programs have it from the fourth edition on. */
const REGISTERED: BufferPlan = { name: 'r0', pinned: true, registered: true, device: 0 }
/** What the host functions of `act` have for themselves, in programs of the second edition. */
export const SETS = 2
const SET_BUFFERS = [
  { name: 'd', pinned: false, device: 0 },
  { name: 'p', pinned: true, device: 0 },
] as const

export interface BufferPlan {
  readonly name: string
  readonly pinned: boolean
  /** Is it memory that JavaScript had before? */
  readonly registered?: boolean
  readonly device: number
}

/** Buffers that steps can name. */
const namedBuffers = ({ edition }: Pick<Program, 'edition'>): readonly BufferPlan[] =>
  edition < 4 ? BUFFERS : [...BUFFERS, REGISTERED]

/** All buffers of a program. Those of the sets come last. */
export function buffersOf(program: Pick<Program, 'edition'>): readonly BufferPlan[] {
  const named = namedBuffers(program)
  if (program.edition === 1) return named
  return [...named, ...Array.from({ length: SETS }, (_, set) => SET_BUFFERS.map((one) => ofSet(one, set))).flat()]
}

const ofSet = (plan: BufferPlan, set: number): BufferPlan => ({ ...plan, name: `${plan.name} of set ${set}` })

/** The stream that an alias is a second name for; any other stream itself. */
export function namedBy(streams: readonly Pick<StreamPlan, 'origin'>[], stream: number): number {
  let at = stream
  while (at > 0 && streams[at]?.origin === 'alias') at -= 1
  return at
}

/** The program with the streams and events of the sets behind its own. */
export function withSets(program: Program): Program {
  if (program.edition === 1) return program
  const streams = Array.from({ length: SETS }, (): StreamPlan => ({ origin: 'own', priority: 0, device: 0 }))
  const events = Array.from({ length: SETS }, () => ({ timing: true, device: 0 }))
  return { ...program, streams: [...program.streams, ...streams], events: [...program.events, ...events] }
}

/** A step of a host function's body, with the names of what its set has. */
export function inSet(program: Program, set: number, step: Step): Step {
  const { streams, events } = program
  const place: Readonly<Record<string, (value: number) => number>> = {
    stream: () => streams.length + set,
    event: () => events.length + set,
    buffer: (value) => namedBuffers(program).length + set * SET_BUFFERS.length + (value % SET_BUFFERS.length),
  }
  return mapFields(step, (kind, value) => place[kind]?.(value) ?? value)
}

/** A buffer is so many cells of so many bytes; work is done with whole cells. */
export const CELLS = 4
export const CELL_BYTES = 16

const WHATS = Object.keys(FIELDS) as What[]

type Written = readonly (number | readonly Written[])[]

/** A program as nested arrays of numbers, to be saved or printed as JSON. */
export function encode(program: Program): Written {
  return [
    program.devices,
    program.ending === 'blocking' ? 0 : 1,
    program.streams.map(({ origin, priority, device }) => [ORIGINS.indexOf(origin), priority, device]),
    program.events.map(({ timing, device }) => [timing ? 1 : 0, device]),
    program.steps.map(encodeStep),
    ...(program.edition === 1 ? [] : [program.edition]),
  ]
}

export function decode(written: Written): Program {
  const [devices, ending, streams, events, steps, edition = 1] = written as unknown as [
    number,
    number,
    [number, number, number][],
    [number, number][],
    Written[],
    Edition | undefined,
  ]
  return {
    edition,
    devices,
    ending: ending === 0 ? 'blocking' : 'event loop',
    streams: streams.map(([origin, priority, device]) => ({ origin: pick(ORIGINS, origin), priority, device })),
    events: events.map(([timing, device]) => ({ timing: timing === 1, device })),
    steps: steps.map(decodeStep),
  }
}

function encodeStep(step: Step): Written {
  const fields = fieldsOf(step.what).map((field) => valueIn(step, field))
  const body = 'body' in step ? [step.body.map(encodeStep)] : []
  return [WHATS.indexOf(step.what), ...fields, ...body]
}

function decodeStep(written: Written): Step {
  const what = pick(WHATS, written[0] as number)
  const fields = fieldsOf(what)
  const step = Object.fromEntries(fields.map((field, index) => [field, written[index + 1]]))
  const hasBody = (WITH_BODY as readonly What[]).includes(what)
  const body = hasBody ? { body: (written[fields.length + 1] as readonly Written[]).map(decodeStep) } : {}
  return { what, ...step, ...body } as unknown as Step
}

/** A program for a person to read. */
export function listing(program: Program): string {
  const lines = [
    `edition ${program.edition}, ${program.devices} device(s), ends by ${program.ending}`,
    ...program.streams.map(({ origin, priority, device }, index) => {
      const more = `${priority === 0 ? '' : ` priority ${priority}`}${device === 0 ? '' : ` device ${device}`}`
      return `s${index}: ${origin}${more}`
    }),
    ...program.events.map(({ timing, device }, index) => {
      return `e${index}: ${timing ? 'timing' : 'no timing'}${device === 0 ? '' : ` device ${device}`}`
    }),
    ...program.steps.map((step, index) => `${String(index).padStart(3)}  ${stepText(step)}`),
  ]
  return lines.join('\n')
}

export function stepText(step: Step): string {
  const fields = fieldsOf(step.what).map((field) => fieldText(step.what, field, valueIn(step, field)))
  const body = 'body' in step ? ` { ${step.body.map(stepText).join('; ')} }` : ''
  return `${step.what} ${fields.join(' ')}${body}`
}

function fieldText(what: What, field: string, value: number): string {
  switch (kindOf(what, field)) {
    case 'stream':
      return `s${value}`
    case 'event':
      return `e${value}`
    case 'buffer':
      return buffersOf({ edition: 5 })[value]?.name ?? `buffer ${value}`
    default:
      return `${field}=${value}`
  }
}

/** What a field names. */
function kindOf(what: What, field: string): string {
  if (field === 'source' || field === 'buffer2' || field === 'source2') return 'buffer'
  if (field === 'at2' || field === 'from2') return 'at'
  if (field === 'other') return what === 'elapsed' ? 'event' : 'stream'
  return field
}

/** The same program, with the numbers that name something as small as they can be. */
export function normalized(program: Program): Program {
  const most: Readonly<Record<string, number>> = {
    stream: program.streams.length,
    event: program.events.length,
    buffer: namedBuffers(program).length,
    at: CELLS,
    from: CELLS,
    device: program.devices,
    width: 3,
    mode: 3,
    about: 6,
    call: 5,
    ends: 4,
    set: SETS,
    compare: 4,
    bits: 2,
  }
  const steps = program.steps.map((step) => mapFields(step, (kind, value) => value % (most[kind] ?? value + 1)))
  return { ...program, steps }
}

/** The same step, with other numbers in the fields that name something of a kind; the steps of its body too. */
function mapFields(step: Step, map: (kind: string, value: number) => number): Step {
  const { what } = step
  const fields = fieldsOf(what).map((field) => [field, map(kindOf(what, field), valueIn(step, field))])
  const body = 'body' in step ? { body: step.body.map((one) => mapFields(one, map)) } : {}
  return { what, ...Object.fromEntries(fields), ...body } as unknown as Step
}

const fieldsOf = (what: What): readonly string[] => FIELDS[what]
const valueIn = (step: Step, field: string): number => Reflect.get(step, field) as number

/** One of a list, by a number that is taken modulo its length. */
export function pick<T>(list: readonly T[], index: number): T {
  const item = list[index % list.length]
  if (item === undefined) throw new RangeError(`an empty list has no item ${index}`)
  return item
}

/** How often a program has a step: where work is queued alone, and at all. */
export type Weights = Partial<Record<PlainWhat, number>>

export const QUEUED: Weights = {
  host: 6,
  callback: 1,
  record: 6,
  wait: 6,
  waitStream: 3,
  fill: 4,
  copy: 5,
  mix: 6,
  recordExternal: 1,
  waitExternal: 1,
  copyRows: 3,
  fillRows: 2,
  copyAll: 2,
  signal: 2,
  waitDevice: 1,
  external: 2,
  waitBy: 1,
  recordNew: 1,
  nothing: 1,
}
export const HARMLESS: Weights = { queryEvent: 2, queryStream: 2, isCapturing: 1, ask: 2, wrong: 2 }
export const ANYTHING: Weights = {
  ...QUEUED,
  ...HARMLESS,
  latch: 3,
  open: 1,
  queryStream: 4,
  queryEvent: 5,
  elapsed: 2,
  finishedStream: 1,
  finishedEvent: 1,
  finishedDevice: 1,
  aborted: 1,
  drain: 1,
  synchronizeStream: 2,
  synchronizeEvent: 2,
  synchronizeDevice: 1,
  awaitStream: 1,
  awaitEvent: 1,
  turn: 1,
  peek: 2,
  upload: 1,
  download: 1,
  poke: 2,
  begin: 1,
  end: 1,
  instantiate: 1,
  launch: 2,
  update: 1,
  nodeCount: 1,
  updateFill: 1,
  updateCopy: 1,
  updateKernel: 1,
  setEnabled: 1,
  uploadExec: 1,
  lend: 1,
  waitPromise: 2,
  settle: 1,
  waitValue: 1,
  renewBuffer: 2,
  closeStream: 1,
  renewStream: 1,
  renewEvent: 2,
  closeEvent: 1,
  closeBuffer: 1,
  closeGraph: 1,
  closeExec: 1,
}

/** By the step that plays them: calls, and options as `Options.name`. What a step does before and after counts, too. */
export const PLAYED: Readonly<Record<What | 'every program', string>> = {
  'every program': `new Stream, StreamOptions.device, StreamOptions.priority, StreamOptions.nonBlocking, StreamOptions.context,
    new ExternalStream, ExternalStreamOptions.device, Device#createEvent, EventOptions.timing, Device#alloc, AllocOptions.stream,
    Device#allocPinned, PinnedBuffer.from, PinnedBuffer#bytes, DeviceBuffer#subarray, PinnedBuffer#subarray, Device#split,
    SplitOptions.multiprocessors`,
  host: 'Stream#launchHostFunc',
  callback: 'Stream#addCallback',
  record: 'Stream#record',
  wait: 'Stream#wait',
  waitStream: 'Stream#wait',
  fill: 'Stream#fill, FillValueOptions.width',
  copy: 'Stream#copy',
  mix: 'Stream#launch, LaunchConfigOptions.block',
  latch: '',
  open: '',
  queryStream: 'Stream#query',
  queryEvent: 'Event#query',
  elapsed: 'Event#elapsedSince',
  finishedStream: 'Stream#finished',
  finishedEvent: 'Event#finished',
  synchronizeStream: 'Stream#synchronize',
  synchronizeEvent: 'Event#synchronize',
  synchronizeDevice: 'Device#synchronize',
  awaitStream: 'Stream#finished',
  awaitEvent: 'Event#finished',
  turn: 'Device#finished',
  peek: 'PinnedBuffer#bytes',
  poke: 'PinnedBuffer#bytes',
  begin: 'Stream#beginCapture',
  end: 'Stream#endCapture',
  instantiate: 'Graph#instantiate, Graph#nodes, Graph#nodesOf',
  launch: 'Stream#launch',
  update: 'GraphExec#update',
  nodeCount: 'Graph#nodeCount',
  isCapturing: 'Stream#isCapturing',
  ask: 'Stream#priority, Stream#nonBlocking, Stream#id, Stream#share, Stream.from',
  closeStream: 'Stream#close',
  closeEvent: 'Event#close',
  closeBuffer: 'DeviceBuffer#close, PinnedBuffer#close',
  closeGraph: 'Graph#close',
  closeExec: 'GraphExec#close',
  wrong: 'new Event, Stream#capture',
  inside: 'Stream#launchHostFunc',
  recordExternal: 'RecordOptions.external',
  waitExternal: 'WaitEventOptions.external',
  upload: 'Stream#upload',
  download: 'Stream#download',
  renewStream: 'Stream#close',
  renewEvent: 'Event#close',
  act: 'Stream#launchHostFunc, Stream#addCallback',
  fault: '',
  updateNode: 'GraphExec#update',
  setEnabled: 'GraphExec#setEnabled',
  copyRows: 'CopyOptions.shape, CopyOptions.destinationStrides, CopyOptions.sourceStrides',
  copyAll: 'Stream#copy',
  waitDevice: 'Stream#wait',
  waitPromise: 'Stream#wait',
  settle: '',
  waitValue: 'Stream#waitValue, WaitValueOptions.compare, PinnedBuffer#view',
  signal: 'Stream#writeValue, WriteValueOptions.byteOffset',
  makePool: 'new MemoryPool, MemoryPoolOptions.device, MemoryPoolOptions.maxBytes, MemoryPoolOptions.releaseThreshold',
  closePool: 'MemoryPool#close',
  usePool: `MemoryPool#used, MemoryPool#peakUsed, MemoryPool#reserved, MemoryPool#peakReserved, MemoryPool#trim,
    MemoryPool#releaseThreshold, MemoryPool#resetPeaks`,
  overfill: 'Device#alloc',
  renewBuffer: 'AllocOptions.pool',
  launchGraph: 'Stream#launch',
  grow: 'Stream#capture, CaptureOptions.mode, CaptureOptions.into, CaptureOptions.after',
  updateKernel: 'GraphExec#update',
  updateCopy: 'GraphExec#update',
  updateFill: 'GraphExec#update',
  uploadExec: 'GraphExec#upload',
  external: 'Stream#external',
  nothing: 'Stream#fill',
  recordNew: 'Stream#record',
  waitBy: 'WaitStreamOptions.event',
  drain: 'Device#drainHostFunctions',
  aborted: 'WaitOptions.signal',
  finishedDevice: 'Device#finished',
  capture: 'Stream#capture',
  fillRows: 'FillOptions.shape, FillOptions.strides',
  lend: `toDLPack, ToDLPackOptions.stream, ElementOptions.dtype, ElementOptions.shape, fromDLPack, FromDLPackOptions.stream`,
}
