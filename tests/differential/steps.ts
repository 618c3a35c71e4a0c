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
} as const

export type What = keyof typeof FIELDS
type StepOf<W extends What> = { readonly what: W } & { readonly [F in (typeof FIELDS)[W][number]]: number }
/** `inside` queues a host function whose body makes steps, and waits for it, with nothing else under way. */
export type Inside = StepOf<'inside'> & { readonly body: readonly Step[] }
export type Step = { [W in Exclude<What, 'inside'>]: StepOf<W> }[Exclude<What, 'inside'>] | Inside

/**
 * Where a stream comes from: the library's own or another's, non-blocking or blocking; the null stream, that wrapped by
 * its handle, and the per-thread stream.
 */
export const ORIGINS = ['own', 'ownBlocking', 'foreign', 'foreignBlocking', 'null', 'wrappedNull', 'perThread'] as const
export type Origin = (typeof ORIGINS)[number]

export interface StreamPlan {
  readonly origin: Origin
  readonly priority: number
  readonly device: number
}

/** How the end of a program is waited for. */
export type Ending = 'blocking' | 'event loop'

export interface Program {
  readonly devices: number
  readonly streams: readonly StreamPlan[]
  /** Whether each event has timing, and its device. */
  readonly events: readonly { readonly timing: boolean; readonly device: number }[]
  readonly ending: Ending
  readonly steps: readonly Step[]
}

/** Every program has these buffers. */
export const BUFFERS = [
  { name: 'd0', pinned: false, device: 0 },
  { name: 'd1', pinned: false, device: 0 },
  { name: 'd2', pinned: false, device: 1 },
  { name: 'p0', pinned: true, device: 0 },
  { name: 'p1', pinned: true, device: 0 },
] as const
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
  ]
}

export function decode(written: Written): Program {
  const [devices, ending, streams, events, steps] = written as unknown as [
    number,
    number,
    [number, number, number][],
    [number, number][],
    Written[],
  ]
  return {
    devices,
    ending: ending === 0 ? 'blocking' : 'event loop',
    streams: streams.map(([origin, priority, device]) => ({ origin: pick(ORIGINS, origin), priority, device })),
    events: events.map(([timing, device]) => ({ timing: timing === 1, device })),
    steps: steps.map(decodeStep),
  }
}

function encodeStep(step: Step): Written {
  const fields = fieldsOf(step.what).map((field) => valueIn(step, field))
  const body = step.what === 'inside' ? [step.body.map(encodeStep)] : []
  return [WHATS.indexOf(step.what), ...fields, ...body]
}

function decodeStep(written: Written): Step {
  const what = pick(WHATS, written[0] as number)
  const fields = fieldsOf(what)
  const step = Object.fromEntries(fields.map((field, index) => [field, written[index + 1]]))
  const body = what === 'inside' ? { body: (written[fields.length + 1] as readonly Written[]).map(decodeStep) } : {}
  return { what, ...step, ...body } as unknown as Step
}

/** A program for a person to read. */
export function listing(program: Program): string {
  const lines = [
    `${program.devices} device(s), ends by ${program.ending}`,
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
  const body = step.what === 'inside' ? ` { ${step.body.map(stepText).join('; ')} }` : ''
  return `${step.what} ${fields.join(' ')}${body}`
}

function fieldText(what: What, field: string, value: number): string {
  switch (kindOf(what, field)) {
    case 'stream':
      return `s${value}`
    case 'event':
      return `e${value}`
    case 'buffer':
      return BUFFERS[value]?.name ?? `buffer ${value}`
    default:
      return `${field}=${value}`
  }
}

/** What a field names. */
function kindOf(what: What, field: string): string {
  if (field === 'source') return 'buffer'
  if (field === 'other') return what === 'elapsed' ? 'event' : 'stream'
  return field
}

/** The same program, with the numbers that name something as small as they can be. */
export function normalized(program: Program): Program {
  const most: Readonly<Record<string, number>> = {
    stream: program.streams.length,
    event: program.events.length,
    buffer: BUFFERS.length,
    at: CELLS,
    from: CELLS,
    device: program.devices,
    width: 3,
    mode: 3,
    about: 3,
  }
  const normalizedStep = (step: Step): Step => {
    const fields = fieldsOf(step.what).map((field) => {
      const [value, limit] = [valueIn(step, field), most[kindOf(step.what, field)]]
      return [field, limit === undefined ? value : value % limit]
    })
    const body = step.what === 'inside' ? { body: step.body.map(normalizedStep) } : {}
    return { what: step.what, ...Object.fromEntries(fields), ...body } as unknown as Step
  }
  return { ...program, steps: program.steps.map(normalizedStep) }
}

const fieldsOf = (what: What): readonly string[] => FIELDS[what]
const valueIn = (step: Step, field: string): number => Reflect.get(step, field) as number

/** One of a list, by a number that is taken modulo its length. */
export function pick<T>(list: readonly T[], index: number): T {
  const item = list[index % list.length]
  if (item === undefined) throw new RangeError(`an empty list has no item ${index}`)
  return item
}
