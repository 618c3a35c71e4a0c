/**
 * The calls of the driver interface as a recording has them, in one table: the types of lines.ts, the checks of line-checks.ts, the recorder and the
 * player follow it. The compiler finds a method of the driver that has no row.
 */

import type { DriverParts } from '../../foundation/driver/driver.js'
import type { TouchedMemory } from '../../foundation/driver/touched-memory.js'
import { PARTS } from '../../foundation/driver/wrappable-driver.js'

/** The fields of recorded calls, beside work: a name means the same in all of them. Streams, graphs and memory are the driver's own numbers. */
export interface CallFields {
  readonly stream: number
  readonly other: number
  readonly context: number
  readonly event: number
  readonly device: number
  readonly graph: number
  readonly exec: number
  readonly node: number
  readonly cuda: number
  readonly flags: number
  readonly start: number
  readonly end: number
  readonly pointer: number
  readonly byteLength: number
  readonly body: number
  readonly external: 0 | 1
  readonly name: string
  readonly what: string
  readonly enabled: boolean
  /** Events, or nodes of a graph. */
  readonly after: readonly number[]
  readonly bodies: readonly number[]
  /** Pairs of a node of a graph and its copy in a body. */
  readonly copies: readonly (readonly [number, number])[]
  /** A stream that captures, or the body of another conditional node. */
  readonly into: { readonly stream: number } | { readonly body: number }
  readonly memory: readonly TouchedMemory[]
}
export type CallField = keyof CallFields | 'work'

/** An argument that is not written. The player passes the value. */
interface Unwritten {
  readonly played: unknown
}
const unwritten = (played: unknown): Unwritten => ({ played })
/** The context of a call, or another handle or number that tells nothing about order. */
const UNWRITTEN = unwritten(0)
/** Ignores errors, since no code awaits the promises of a recording. */
const SETTLE = unwritten((): void => {})

/** The way in which a method of the driver is written. */
export interface Row {
  /** The name of the call in the recording. */
  readonly call: string
  /** The fields in the order of the file. */
  readonly fields: readonly CallField[]
  /** The field that each argument is written to. */
  readonly args: readonly (CallField | Unwritten)[]
  /** The field that the result is written to. */
  readonly result?: CallField
  /** The streams whose facts are written before the call, if they are not known. */
  readonly uses?: readonly ('other' | 'stream')[]
  /** `blocks`: other calls may be made meanwhile; `true`: the call is written if its result is true. Default: it is written when it returns. */
  readonly written?: 'blocks' | 'true'
  /** Whether the program's lines that led to the call are of no interest. */
  readonly isQuiet?: true
}

/** A row for a method: as many arguments as that takes at most. */
type RowOf<M> = M extends (...args: infer A) => unknown
  ? Row & { readonly args: { readonly [I in keyof Required<A>]: CallField | Unwritten } }
  : never

/** A method that neither orders work nor touches memory. */
export const UNRECORDED = undefined

const ON_EVENT = { fields: ['event'], isQuiet: true } as const

/** The rows by part and method of the driver. */
export const DRIVER_CALLS = {
  devices: {
    count: UNRECORDED,
    name: UNRECORDED,
    uuid: UNRECORDED,
    pciBusId: UNRECORDED,
    attribute: UNRECORDED,
    context: {
      call: 'deviceContext',
      fields: ['device', 'context'],
      args: ['device'],
      result: 'context',
      isQuiet: true,
    },
    streamPriorityRange: UNRECORDED,
    synchronize: { call: 'synchronizeDevice', fields: ['device'], args: ['device'], written: 'blocks' },
    finished: { call: 'deviceFinished', fields: ['device'], args: ['device', SETTLE] },
    recordInternal: { call: 'recordDevice', fields: ['event', 'device'], args: ['event', 'device'], written: 'true' },
    contextCheck: UNRECORDED,
    contextFault: UNRECORDED,
    relaxed: UNRECORDED,
    split: UNRECORDED,
    greenContextDestroy: UNRECORDED,
  },
  streams: {
    create: {
      call: 'createStream',
      fields: ['stream', 'context', 'flags'],
      args: ['context', 'flags', UNWRITTEN],
      result: 'stream',
    },
    destroy: { call: 'destroyStream', fields: ['stream'], args: ['stream'], isQuiet: true },
    wrap: { call: 'wrapStream', fields: ['stream', 'cuda', 'device'], args: ['cuda', 'device'] },
    wrapped: UNRECORDED,
    escaped: { call: 'escaped', fields: ['stream'], args: ['stream'], isQuiet: true },
    isEscaped: UNRECORDED,
    getId: UNRECORDED,
    getFlags: UNRECORDED,
    getPriority: UNRECORDED,
    setMemorySyncDomain: UNRECORDED,
    isCapturing: UNRECORDED,
    query: { call: 'streamIsIdle', fields: ['stream'], args: ['stream', unwritten(undefined)], written: 'true' },
    synchronize: {
      call: 'synchronizeStream',
      fields: ['stream'],
      args: ['stream'],
      uses: ['stream'],
      written: 'blocks',
    },
    waitEvent: {
      call: 'wait',
      fields: ['stream', 'event', 'external'],
      args: ['stream', 'event', 'external'],
      uses: ['stream'],
    },
    waitStream: {
      call: 'waitStream',
      fields: ['stream', 'other', 'context'],
      args: ['stream', 'other', 'context'],
      uses: ['other', 'stream'],
    },
    blockedBy: UNRECORDED,
    finished: {
      call: 'streamFinished',
      fields: ['stream', 'context'],
      args: ['stream', 'context', SETTLE],
    },
  },
  events: {
    create: {
      call: 'createEvent',
      fields: ['event', 'context', 'flags'],
      args: ['context', 'flags', unwritten(undefined)],
      result: 'event',
      isQuiet: true,
    },
    destroy: { call: 'destroyEvent', ...ON_EVENT, args: ['event'] },
    recycle: {
      call: 'recycleEvent',
      ...ON_EVENT,
      args: [UNWRITTEN, 'event', unwritten(undefined), unwritten(undefined)],
    },
    wrap: { call: 'wrapEvent', ...ON_EVENT, args: ['event'] },
    record: {
      call: 'record',
      fields: ['event', 'stream', 'external'],
      args: ['event', 'stream', 'external'],
      uses: ['stream'],
    },
    recordInternal: {
      call: 'recordInternal',
      fields: ['event', 'stream'],
      args: ['event', 'stream'],
      uses: ['stream'],
      isQuiet: true,
    },
    query: { call: 'eventIsDone', fields: ['event'], args: ['event', unwritten(undefined)], written: 'true' },
    synchronize: { call: 'synchronizeEvent', fields: ['event'], args: ['event'], written: 'blocks' },
    blockedBy: UNRECORDED,
    finished: { call: 'eventFinished', fields: ['event'], args: ['event', SETTLE] },
    elapsedTime: { call: 'elapsedTime', fields: ['start', 'end'], args: ['start', 'end'] },
    getIpcHandle: UNRECORDED,
    openIpcHandle: {
      call: 'openEvent',
      ...ON_EVENT,
      args: [UNWRITTEN, unwritten(new Uint8Array())],
      result: 'event',
    },
  },
  work: {
    queue: { call: 'queue', fields: ['work'], args: ['work'] },
    reserve: UNRECORDED,
    hasCapacity: UNRECORDED,
    drainHostFunctions: { call: 'drain', fields: [], args: [], written: 'blocks' },
  },
  memory: {
    allocatePinned: { call: 'allocatePinned', fields: ['pointer', 'byteLength'], args: ['byteLength', UNWRITTEN] },
    registerPinned: { call: 'registerPinned', fields: ['pointer', 'byteLength'], args: ['byteLength', UNWRITTEN] },
    closePinned: {
      call: 'closePinned',
      fields: ['pointer', 'after'],
      args: ['pointer', unwritten(undefined), 'after'],
    },
    detachPinned: UNRECORDED,
    enablePeerAccess: UNRECORDED,
    placeOf: {
      call: 'placeOf',
      fields: ['pointer', 'byteLength'],
      args: ['pointer', 'byteLength', UNWRITTEN],
      isQuiet: true,
    },
    viewed: { call: 'viewed', fields: ['pointer', 'byteLength'], args: ['pointer', 'byteLength'] },
    isDone: UNRECORDED,
    newArrayBuffer: UNRECORDED,
    copyBytes: UNRECORDED,
  },
  pools: {
    info: UNRECORDED,
    current: UNRECORDED,
    create: UNRECORDED,
    destroy: UNRECORDED,
    threshold: UNRECORDED,
    setThreshold: UNRECORDED,
    usage: UNRECORDED,
    resetPeaks: UNRECORDED,
    trim: UNRECORDED,
  },
  kernels: {
    compileNow: UNRECORDED,
    compile: UNRECORDED,
    load: UNRECORDED,
    unload: UNRECORDED,
    kernel: UNRECORDED,
    names: UNRECORDED,
    variable: UNRECORDED,
    limits: UNRECORDED,
    activeBlocks: UNRECORDED,
  },
  graphs: {
    begin: { call: 'beginCapture', fields: ['stream'], args: ['stream', UNWRITTEN], uses: ['stream'] },
    end: { call: 'endCapture', fields: ['stream', 'graph'], args: ['stream'], result: 'graph' },
    captureId: UNRECORDED,
    capturedNode: UNRECORDED,
    beginInto: {
      call: 'beginCaptureInto',
      fields: ['stream', 'graph', 'after'],
      args: ['stream', UNWRITTEN, 'graph', 'after'],
      uses: ['stream'],
    },
    createCondition: UNRECORDED,
    addConditional: {
      call: 'addConditional',
      fields: ['into', 'bodies'],
      args: ['into', UNWRITTEN],
      result: 'bodies',
    },
    addToBody: { call: 'addToBody', fields: ['body', 'graph', 'copies'], args: ['body', 'graph'] },
    abandon: { call: 'abandonCapture', fields: ['stream'], args: ['stream'] },
    leave: UNRECORDED,
    destroy: { call: 'destroyGraph', fields: ['graph'], args: ['graph'], isQuiet: true },
    nodeCount: UNRECORDED,
    toDot: UNRECORDED,
    instantiate: { call: 'instantiate', fields: ['graph', 'exec'], args: ['graph', UNWRITTEN], result: 'exec' },
    destroyExec: { call: 'destroyExec', fields: ['exec'], args: ['exec'], isQuiet: true },
    update: { call: 'updateGraph', fields: ['exec', 'graph'], args: ['exec', 'graph'] },
    nodes: UNRECORDED,
    updateNode: {
      call: 'updateNode',
      fields: ['exec', 'node', 'work'],
      args: ['exec', 'node', UNWRITTEN, 'work'],
    },
    setEnabled: {
      call: 'setEnabled',
      fields: ['exec', 'node', 'enabled'],
      args: ['exec', 'node', UNWRITTEN, 'enabled'],
    },
  },
  libraries: {
    hostFunctionsPending: UNRECORDED,
    call: UNRECORDED,
    callOnThread: UNRECORDED,
    makeOnThread: UNRECORDED,
    waitUntil: UNRECORDED,
  },
  sharing: {
    allocate: {
      call: 'allocateShared',
      fields: ['pointer', 'byteLength'],
      args: ['byteLength', UNWRITTEN],
      result: 'pointer',
    },
    free: { call: 'freeShared', fields: ['pointer', 'after'], args: ['pointer', 'after'] },
    exportMemory: UNRECORDED,
    importMemory: UNRECORDED,
    register: UNRECORDED,
    unregister: UNRECORDED,
    readRegistration: UNRECORDED,
    watchRegistration: UNRECORDED,
    watchShared: UNRECORDED,
    watchReceived: UNRECORDED,
  },
} as const satisfies {
  readonly [P in keyof DriverParts]: {
    readonly [M in keyof DriverParts[P]]: RowOf<DriverParts[P][M]> | typeof UNRECORDED
  }
}

/** What a recording has beside the driver's methods. */
export const OTHER_CALLS = {
  /** The run of the host function of the call `op`, until `return`. */
  host: { call: 'host', fields: [] },
  return: { call: 'return', fields: [] },
  /** The ends of promises; they refer to these by `op`. */
  settled: { call: 'settled', fields: [] },
  cancelled: { call: 'cancelled', fields: [] },
  /** The end of the promise that a stream waits for. */
  release: { call: 'release', fields: [] },
  nameStream: { call: 'nameStream', fields: ['stream', 'name'] },
  captureFailed: { call: 'captureFailed', fields: ['stream'] },
  closeImported: { call: 'closeImported', fields: ['after'] },
  /** The program's declaration of what another library has queued. */
  declareAccess: { call: 'declareAccess', fields: ['stream', 'what', 'memory'] },
  /** The end of the kernel of the call `op` on the simulator. */
  ran: { call: 'ran', fields: [] },
  /** A turn of the event loop after a host function was queued. */
  turn: { call: 'turn', fields: [] },
} as const satisfies Readonly<Record<string, Pick<Row, 'call' | 'fields'>>>

type DriverCalls = typeof DRIVER_CALLS
type DriverRow = { readonly [P in keyof DriverCalls]: DriverCalls[P][keyof DriverCalls[P]] }[keyof DriverCalls]

/** The rows of all calls that a recording has. */
export type RecordedRow = Exclude<DriverRow, typeof UNRECORDED> | (typeof OTHER_CALLS)[keyof typeof OTHER_CALLS]

/** A method of the driver, and its row. */
export interface DriverCall {
  readonly part: keyof DriverParts
  readonly method: string
  readonly row: Row
}

/** The methods of a part that are recorded. */
export const callsOf = (part: keyof DriverParts): readonly DriverCall[] =>
  Object.entries<Row | typeof UNRECORDED>(DRIVER_CALLS[part]).flatMap(([method, row]) =>
    row === UNRECORDED ? [] : [{ part, method, row }],
  )

/** The recorded methods by the names of their calls. */
export const CALLS_BY_NAME: ReadonlyMap<string, DriverCall> = new Map(
  PARTS.flatMap(callsOf).map((each) => [each.row.call, each]),
)

/** Calls the method with these arguments. */
export const applied = (driver: DriverParts, { part, method }: DriverCall, args: readonly unknown[]): unknown =>
  Reflect.apply(Reflect.get(driver[part], method), undefined, args)
