/**
 * The calls of the driver interface as a recording has them, in one table: the types of lines.ts, the checks of line-checks.ts, the recorder and the
 * player follow it. The compiler finds a method of the driver that has no row.
 */

import type { DriverParts } from '../../foundation/driver/driver.js'
import type { TouchedMemory } from '../../foundation/driver/touched-memory.js'
import { PARTS } from '../../foundation/driver/wrappable-driver.js'

/** The fields of recorded calls, beside work (work-table.ts): a name means the same in all of them. Streams, graphs and memory are the driver's own numbers. */
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

/** An argument that is not written. The player passes this value. */
interface Unwritten {
  readonly played: unknown
}
/** A context, or another handle or number on which no order depends. */
const ZERO: Unwritten = { played: 0 }
const NOTHING: Unwritten = { played: undefined }
/** Ignores errors, since no code awaits the promises of a recording. */
const SETTLE: Unwritten = { played: (): void => {} }

/** The way in which a method of the driver is written. */
export interface Row {
  /** The name of the call in the recording. */
  readonly call: string
  /** The fields in the order of the file. */
  readonly fields: readonly CallField[]
  /** The field that each argument is written to. Default: `fields`. */
  readonly args?: readonly (CallField | Unwritten)[]
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
  ? Row &
      (
        | { readonly args: { readonly [I in keyof Required<A>]: CallField | Unwritten } }
        | { readonly args?: never; readonly fields: { readonly [I in keyof Required<A>]: CallField } }
      )
  : never

/** The methods that neither order work nor touch memory; what `importMemory` returns is written as `closeImported`. */
const UNRECORDED = {
  devices: [
    'count',
    'name',
    'uuid',
    'pciBusId',
    'attribute',
    'streamPriorityRange',
    'profile',
    'usage',
    'contextCheck',
    'contextFault',
    'relaxed',
    'split',
    'greenContextDestroy',
  ],
  streams: [
    'wrapped',
    'isEscaped',
    'getId',
    'getFlags',
    'getPriority',
    'setPriority',
    'copyAttributes',
    'setMemorySyncDomain',
    'isCapturing',
    'blockedBy',
  ],
  events: ['blockedBy', 'getIpcHandle'],
  work: ['reserve', 'hasCapacity'],
  memory: ['detachPinned', 'enablePeerAccess', 'canAccessPeer', 'isDone', 'newArrayBuffer', 'copyBytes'],
  pools: ['info', 'current', 'create', 'destroy', 'threshold', 'setThreshold', 'usage', 'resetPeaks', 'trim', 'wrap'],
  kernels: [
    'compileNow',
    'compile',
    'load',
    'unload',
    'kernel',
    'functionOf',
    'wrap',
    'release',
    'names',
    'variable',
    'limits',
    'activeBlocks',
    'encodeTensorMap',
  ],
  graphs: ['captureId', 'capturedNode', 'createCondition', 'leave', 'nodeCount', 'toDot', 'nodes', 'isEnabled', 'wrap'],
  libraries: ['hostFunctionsPending', 'call', 'callOnThread', 'makeOnThread', 'waitUntil'],
  sharing: [
    'exportMemory',
    'importMemory',
    'register',
    'unregister',
    'readRegistration',
    'watchRegistration',
    'watchShared',
    'watchReceived',
  ],
  textures: ['arrayHandle', 'createTexture', 'createSurface'],
} as const satisfies { readonly [P in keyof DriverParts]: readonly (keyof DriverParts[P])[] }

/** The rows by part and method of the driver. */
const DRIVER_CALLS = {
  devices: {
    context: {
      call: 'deviceContext',
      fields: ['device', 'context'],
      args: ['device'],
      result: 'context',
      isQuiet: true,
    },
    synchronize: { call: 'synchronizeDevice', fields: ['device'], written: 'blocks' },
    finished: { call: 'deviceFinished', fields: ['device'], args: ['device', SETTLE] },
    recordInternal: { call: 'recordDevice', fields: ['event', 'device'], written: 'true' },
  },
  streams: {
    create: { call: 'createStream', fields: ['stream', 'context', 'flags'], args: ['context', 'flags', ZERO] },
    destroy: { call: 'destroyStream', fields: ['stream'] },
    wrap: { call: 'wrapStream', fields: ['stream', 'cuda', 'device'], args: ['cuda', 'device'] },
    escaped: { call: 'escaped', fields: ['stream'] },
    query: { call: 'streamIsIdle', fields: ['stream'], args: ['stream', NOTHING], written: 'true' },
    synchronize: { call: 'synchronizeStream', fields: ['stream'], uses: ['stream'], written: 'blocks' },
    waitEvent: { call: 'wait', fields: ['stream', 'event', 'external'], uses: ['stream'] },
    waitStream: { call: 'waitStream', fields: ['stream', 'other', 'context'], uses: ['other', 'stream'] },
    finished: { call: 'streamFinished', fields: ['stream', 'context'], args: ['stream', 'context', SETTLE] },
  },
  events: {
    create: {
      call: 'createEvent',
      fields: ['event', 'context', 'flags'],
      args: ['context', 'flags', NOTHING],
      result: 'event',
      isQuiet: true,
    },
    destroy: { call: 'destroyEvent', fields: ['event'], isQuiet: true },
    recycle: { call: 'recycleEvent', fields: ['event'], args: [ZERO, 'event', NOTHING, NOTHING], isQuiet: true },
    wrap: { call: 'wrapEvent', fields: ['event'], isQuiet: true },
    record: { call: 'record', fields: ['event', 'stream', 'external'], uses: ['stream'] },
    recordInternal: { call: 'recordInternal', fields: ['event', 'stream'], uses: ['stream'], isQuiet: true },
    query: { call: 'eventIsDone', fields: ['event'], args: ['event', NOTHING], written: 'true' },
    synchronize: { call: 'synchronizeEvent', fields: ['event'], written: 'blocks' },
    finished: { call: 'eventFinished', fields: ['event'], args: ['event', SETTLE] },
    elapsedTime: { call: 'elapsedTime', fields: ['start', 'end'] },
    openIpcHandle: { call: 'openEvent', fields: ['event'], args: [ZERO, NOTHING], result: 'event', isQuiet: true },
  },
  work: {
    queue: { call: 'queue', fields: ['work'] },
    drainHostFunctions: { call: 'drain', fields: [], written: 'blocks' },
  },
  memory: {
    allocatePinned: { call: 'allocatePinned', fields: ['pointer', 'byteLength'], args: ['byteLength', ZERO] },
    registerPinned: { call: 'registerPinned', fields: ['pointer', 'byteLength'], args: ['byteLength', ZERO] },
    closePinned: { call: 'closePinned', fields: ['pointer', 'after'], args: ['pointer', NOTHING, 'after'] },
    placeOf: {
      call: 'placeOf',
      fields: ['pointer', 'byteLength'],
      args: ['pointer', 'byteLength', ZERO],
      isQuiet: true,
    },
    viewed: { call: 'viewed', fields: ['pointer', 'byteLength'] },
  },
  pools: {},
  kernels: {},
  graphs: {
    begin: { call: 'beginCapture', fields: ['stream'], args: ['stream', ZERO] },
    end: { call: 'endCapture', fields: ['stream', 'graph'], args: ['stream'] },
    beginInto: {
      call: 'beginCaptureInto',
      fields: ['stream', 'graph', 'after'],
      args: ['stream', ZERO, 'graph', 'after'],
    },
    addConditional: { call: 'addConditional', fields: ['into', 'bodies'], args: ['into', ZERO], result: 'bodies' },
    addToBody: { call: 'addToBody', fields: ['body', 'graph', 'copies'], args: ['body', 'graph'] },
    abandon: { call: 'abandonCapture', fields: ['stream'] },
    destroy: { call: 'destroyGraph', fields: ['graph'], isQuiet: true },
    instantiate: { call: 'instantiate', fields: ['graph', 'exec'], args: ['graph', ZERO], result: 'exec' },
    destroyExec: { call: 'destroyExec', fields: ['exec'], isQuiet: true },
    update: { call: 'updateGraph', fields: ['exec', 'graph'] },
    updateNode: { call: 'updateNode', fields: ['exec', 'node', 'work'], args: ['exec', 'node', ZERO, 'work'] },
    setEnabled: { call: 'setEnabled', fields: ['exec', 'node', 'enabled'], args: ['exec', 'node', ZERO, 'enabled'] },
  },
  libraries: {},
  sharing: {
    allocate: {
      call: 'allocateShared',
      fields: ['pointer', 'byteLength'],
      args: ['byteLength', ZERO],
      result: 'pointer',
    },
    free: { call: 'freeShared', fields: ['pointer', 'after'] },
  },
  textures: {
    createArray: {
      call: 'createArray',
      fields: ['pointer', 'byteLength'],
      args: ['byteLength', NOTHING, ZERO],
      result: 'pointer',
    },
    destroyArray: { call: 'destroyArray', fields: ['pointer', 'after'] },
    destroyTexture: { call: 'destroyTexture', fields: ['after'], args: [ZERO, 'after'] },
    destroySurface: { call: 'destroySurface', fields: ['after'], args: [ZERO, 'after'] },
  },
} as const satisfies {
  readonly [P in keyof DriverParts]: {
    readonly [M in Exclude<keyof DriverParts[P], (typeof UNRECORDED)[P][number]>]: RowOf<DriverParts[P][M]>
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
  /** What the host of a whole process did with page-locked memory, of which its trace knows. */
  hostAccess: { call: 'hostAccess', fields: ['what', 'memory'] },
  /** The end of the kernel of the call `op` on the simulator. */
  ran: { call: 'ran', fields: [] },
  /** A turn of the event loop after a host function was queued. */
  turn: { call: 'turn', fields: [] },
} as const satisfies Readonly<Record<string, Pick<Row, 'call' | 'fields'>>>

type DriverCalls = typeof DRIVER_CALLS
type DriverRow<P extends keyof DriverCalls> = P extends unknown ? DriverCalls[P][keyof DriverCalls[P]] : never

/** The rows of all calls that a recording has. */
export type RecordedRow = DriverRow<keyof DriverCalls> | (typeof OTHER_CALLS)[keyof typeof OTHER_CALLS]

/** A method of the driver, and its row. */
export interface DriverCall {
  readonly part: keyof DriverParts
  readonly method: string
  readonly row: Row
}

/** The methods of a part that are recorded. */
export const callsOf = (part: keyof DriverParts): readonly DriverCall[] =>
  Object.entries<Row>(DRIVER_CALLS[part]).map(([method, row]) => ({ part, method, row }))

/** The recorded methods by the names of their calls. */
export const CALLS_BY_NAME: ReadonlyMap<string, DriverCall> = new Map(
  PARTS.flatMap(callsOf).map((each) => [each.row.call, each]),
)

/** The fields and values that the arguments of a call are. */
export const argumentsOf = ({ args, fields }: Row): readonly (CallField | Unwritten)[] => args ?? fields

/** Calls the method with these arguments. */
export const applied = (driver: DriverParts, { part, method }: DriverCall, args: readonly unknown[]): unknown =>
  Reflect.apply(Reflect.get(driver[part], method), undefined, args)
