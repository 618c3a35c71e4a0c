/**
 * The kinds of work as a recording has them, in one table: the type of recorded work, the checks of line-checks.ts, what the recorder writes, what the
 * player queues again and the memory in recorded-run.ts follow its rows. The compiler finds a kind of `QueuedWork` that has no row.
 */
import { scalarLayout } from '../../foundation/base/element-layout.js'
import { Comparison } from '../../foundation/driver/driver-constants.js'
import type { InternalEvent } from '../../foundation/driver/event-driver.js'
import type {
  ContextHandle,
  EventHandle,
  GraphExecHandle,
  GraphHandle,
  KernelHandle,
  Pointer,
  StreamHandle,
} from '../../foundation/driver/handle-types.js'
import type { LaunchArgument, LaunchShape } from '../../foundation/driver/kernel-driver.js'
import {
  type FillWidth,
  type FillWork,
  type HostFunction,
  type KernelWork,
  memoryOf,
  type NodeWork,
  type QueuedCopy,
  type QueuedWork,
} from '../../foundation/driver/queued-work.js'
import {
  type CopiedBytes,
  type CopyRoute,
  type MemoryValue,
  type TouchedMemory,
  touching,
} from '../../foundation/driver/touched-memory.js'
import {
  type Check,
  type Checked,
  type CheckedFields,
  type Checks,
  has,
  isDigits,
  isEither,
  isFlag,
  isList,
  isMemory,
  isNumber,
  isOneOf,
  isOptional,
  isPointer,
  isRows,
  isShape,
  isSize,
  isText,
} from './field-checks.js'

type Kind = QueuedWork['kind']
/** The driver's form of each kind of work. */
type QueuedWorks = { readonly [W in QueuedWork as W['kind']]: W }

/** The memory that a run has shown until the work was queued. */
export interface KnownMemory {
  /** The bytes that were allocated in streams, by their pointers. */
  readonly allocated: Map<number, number>
  /** The memory that an instance of a graph touches; undefined if that is not known. */
  ofInstance(exec: number): readonly TouchedMemory[] | undefined
  /** The memory that a graph touches; undefined if that is not known. */
  ofGraph(graph: number): readonly TouchedMemory[] | undefined
}

type Recorded<K extends Kind, F extends Checks, O extends Checks> = { readonly kind: K } & CheckedFields<F> & {
    readonly [N in keyof O]?: Checked<O[N]>
  }

/** The ways of one kind of work; Q is the driver's form of it and R that of a recording. */
interface Ways<Q, R> {
  /** The form of a recording, its fields in the order of the file. The memory of an allocation is known by then. */
  recorded(work: Q): R
  /**
   * The driver's form, with which the work is queued again.
   * @param run Runs the host function
   */
  queued(work: R, run: HostFunction['run']): Q
  /** The memory that the work touches; undefined if that is not known, as for a host function. */
  touched(work: R, known: KnownMemory): readonly TouchedMemory[] | undefined
}

/** The row of a kind: its ways, and the check of its fields. */
interface Row<Q, R> extends Ways<Q, R> {
  readonly isValid: Check
}

/**
 * A row of the table.
 * @param fields The fields that all work of the kind has, with their checks. Streams, graphs and memory are the driver's own numbers.
 * @param optional The fields that only some work has.
 */
function row<K extends Kind, F extends Checks, O extends Checks>(
  kind: K,
  fields: F,
  optional: O,
  ways: Ways<QueuedWorks[K], Recorded<K, NoInfer<F>, NoInfer<O>>>,
): Row<QueuedWorks[K], Recorded<K, F, O>> {
  const mayHave = Object.entries(optional).map(([name, check]) => [name, isOptional(check)] as const)
  return { ...ways, isValid: has({ kind: isOneOf([kind]), ...fields, ...Object.fromEntries(mayHave) }) }
}

const NAMES: readonly QueuedCopy['name'][] = ['copy', 'upload', 'download']
const ENGINES: readonly ('toDevice' | 'toHost')[] = ['toDevice', 'toHost']
const WIDTHS: readonly FillWidth[] = [1, 2, 4]
const BITS: readonly MemoryValue['bits'][] = [32, 64]
const isRoute: Check<CopyRoute> = isEither(isOneOf(['withinHost'] as const), has({ to: isNumber, from: isNumber }))
const COPIED = {
  destination: isPointer,
  source: isPointer,
  byteLength: isSize,
  route: isOptional(isRoute),
  rows: isOptional(has({ to: isRows, from: isRows })),
}
/** A word of memory: its value as decimal digits. */
const WORD = { pointer: isNumber, bits: isOneOf(BITS), value: isDigits }
/** What a call of another library is for its device, where the trace of a process has timed it. */
const OPERATION = {
  kind: isOneOf(['kernel', 'copy', 'fill'] as const),
  name: isText,
  byteLength: isOptional(isSize),
  engine: isOptional(isOneOf(ENGINES)),
  grid: isOptional(isShape),
  block: isOptional(isShape),
  /** Whether it touches memory that the host uses without a call. */
  host: isFlag,
  /** Whether it may write where `memory` says that it reads. */
  possible: isFlag,
}
/** What the call of a library is for its device. */
export type RecordedOperation = CheckedFields<typeof OPERATION>
const FILL = {
  pointer: isNumber,
  value: isNumber,
  width: isOneOf(WIDTHS),
  count: isSize,
  rows: isOptional(isRows),
}
const KERNEL = { name: isText, grid: isShape, block: isShape, sharedMemory: isSize, memory: isMemory }
const ON_STREAM = { stream: isNumber }
const ON_INSTANCE = { ...ON_STREAM, exec: isNumber }

const bytesOf = ({ destination, source, byteLength, route, rows }: CopiedBytes): CopiedBytes => {
  return { destination, source, byteLength, route, rows }
}
/** The memory without the properties that the objects of a library have besides. */
const touchedOf = ({ pointer, byteLength, access, argument, rows }: TouchedMemory): TouchedMemory => {
  return { pointer, byteLength, access, argument, rows }
}
const recordedWord = ({ pointer, bits, value }: MemoryValue): CheckedFields<typeof WORD> => {
  return { pointer, bits, value: String(value) }
}
const queuedWord = ({ pointer, bits, value }: CheckedFields<typeof WORD>): MemoryValue => {
  return { pointer, bits, value: BigInt(value) }
}

const streamOf = ({ stream }: { readonly stream: number }): StreamHandle => stream as StreamHandle
const NO_STREAM = 0 as StreamHandle
const NO_CONTEXT = 0 as ContextHandle

const recordedEvents = (events: readonly InternalEvent[]): { readonly after?: readonly number[] } =>
  events.length === 0 ? {} : { after: events.map(({ event }) => event) }
const eventOf = (event: number): InternalEvent => ({ context: NO_CONTEXT, event: event as EventHandle })

const BYTE = scalarLayout('u8')

/** Does nothing, since the work of a recording is not done again. */
const nothing = (): void => {}

const unknownMemory = (): undefined => undefined

const fillWork = ({ pointer, value, width, count, rows }: CheckedFields<typeof FILL>): FillWork => {
  return { kind: 'fill', pointer: pointer as Pointer, value, width, count, rows }
}

function kernelWork({ name, grid, block, sharedMemory, memory }: CheckedFields<typeof KERNEL>): KernelWork {
  const length = Math.max(0, ...memory.map(({ argument = 0 }) => argument + 1))
  const given = (argument: number): TouchedMemory | undefined => memory.find((each) => each.argument === argument)
  const indices = Array.from({ length }, (_, argument) => argument)
  const args = indices.map((argument): LaunchArgument => {
    const touched = given(argument)
    return touched === undefined ? 0 : { pointer: touched.pointer, byteLength: touched.byteLength }
  })
  const uses = indices.map((argument) => ({ access: given(argument)?.access, element: BYTE }))
  const kernel = { handle: 0 as KernelHandle, name, uses }
  const shape: LaunchShape = {
    grid,
    block,
    sharedMemory,
    cooperative: false,
    cluster: undefined,
    attributes: undefined,
  }
  return { kind: 'kernel', kernel, shape, args }
}

const WORK = {
  kernel: row(
    'kernel',
    { ...ON_STREAM, ...KERNEL },
    /** The blocks of the kernel that a multiprocessor runs at one time, if the GPU says so. */
    { blocksAtOnce: isNumber },
    {
      recorded(work) {
        const { stream, shape, kernel } = work
        const { grid, block, sharedMemory } = shape
        return { kind: 'kernel', stream, name: kernel.name, grid, block, sharedMemory, memory: memoryOf(work) }
      },
      queued: (work) => ({ ...kernelWork(work), stream: streamOf(work) }),
      touched: ({ memory }) => memory,
    },
  ),
  copy: row(
    'copy',
    { ...ON_STREAM, name: isOneOf(NAMES), ...COPIED },
    /** The copy engine that the copy takes; a copy within a device, or within the host, has none. */
    { engine: isOneOf(ENGINES) },
    {
      recorded: (work) => ({ kind: 'copy', stream: work.stream, name: work.name, ...bytesOf(work) }),
      queued: (work) => ({ kind: 'copy', stream: streamOf(work), name: work.name, ...bytesOf(work) }),
      touched: (work) => memoryOf({ kind: 'copy', ...bytesOf(work) }),
    },
  ),
  copies: row(
    'copies',
    { ...ON_STREAM, copies: isList(has(COPIED)) },
    {},
    {
      recorded: ({ stream, copies }) => ({ kind: 'copies', stream, copies: copies.map(bytesOf) }),
      queued: (work) => ({ kind: 'copies', stream: streamOf(work), copies: work.copies }),
      touched: (work) => memoryOf({ kind: 'copies', stream: streamOf(work), copies: work.copies }),
    },
  ),
  fill: row(
    'fill',
    { ...ON_STREAM, ...FILL },
    {},
    {
      recorded: ({ stream, pointer, value, width, count, rows }) => {
        return { kind: 'fill', stream, pointer, value, width, count, rows }
      },
      queued: (work) => ({ ...fillWork(work), stream: streamOf(work) }),
      touched: (work) => memoryOf(fillWork(work)),
    },
  ),
  library: row(
    'library',
    { calls: isList(has({ name: isText, stream: isNumber, memory: isMemory })) },
    /** What the only call is for its device. */
    { operation: has(OPERATION) },
    {
      recorded: ({ calls }) => ({
        kind: 'library',
        calls: calls.map(({ name, stream, memory }) => ({ name, stream, memory: memory.map(touchedOf) })),
      }),
      queued: ({ calls }) => ({
        kind: 'library',
        calls: calls.map((each) => {
          const { name, memory } = each
          return { name, stream: streamOf(each), memory, context: NO_CONTEXT, call: nothing, host: undefined }
        }),
      }),
      touched: ({ calls }) => calls.flatMap(({ memory }) => memory),
    },
  ),
  allocate: row(
    'allocate',
    { ...ON_STREAM, pointer: isNumber, byteLength: isSize },
    {},
    {
      recorded: ({ stream, pointer, byteLength }) => ({ kind: 'allocate', stream, pointer, byteLength }),
      queued(work) {
        const [pool, pointer] = [undefined, 0 as Pointer]
        const { byteLength } = work
        const stream = streamOf(work)
        return { kind: 'allocate', stream, context: NO_CONTEXT, byteLength, pool, isZeroed: false, pointer }
      },
      touched({ pointer, byteLength }, { allocated }) {
        allocated.set(pointer, byteLength)
        return [touching(pointer as Pointer, byteLength, 'out')]
      },
    },
  ),
  free: row(
    'free',
    { ...ON_STREAM, pointer: isNumber },
    /** The events that the free comes after, in place of its stream. */
    { after: isList(isNumber) },
    {
      recorded: ({ stream, pointer, after }) => ({ kind: 'free', stream, pointer, ...recordedEvents(after) }),
      queued: (work) => {
        const { pointer, after = [] } = work
        return { kind: 'free', stream: streamOf(work), pointer: pointer as Pointer, after: after.map(eventOf) }
      },
      touched({ pointer }, { allocated }) {
        const byteLength = allocated.get(pointer)
        return byteLength === undefined ? undefined : [touching(pointer as Pointer, byteLength, 'out')]
      },
    },
  ),
  hostFunction: row(
    'hostFunction',
    { ...ON_STREAM, internal: isFlag, callback: isFlag },
    {},
    {
      recorded: ({ stream, call: { internal = false, runsAfterFault } }) => {
        return { kind: 'hostFunction', stream, internal, callback: runsAfterFault }
      },
      queued(work, run) {
        const call = { run, runsAfterFault: work.callback, internal: work.internal }
        return { kind: 'hostFunction', stream: streamOf(work), context: NO_CONTEXT, call }
      },
      touched: unknownMemory,
    },
  ),
  promise: row(
    'promise',
    ON_STREAM,
    {},
    {
      recorded: ({ stream }) => ({ kind: 'promise', stream }),
      queued: (work) => {
        return { kind: 'promise', stream: streamOf(work), context: NO_CONTEXT, called: undefined, release: nothing }
      },
      touched: unknownMemory,
    },
  ),
  waitValue: row(
    'waitValue',
    { ...ON_STREAM, word: has(WORD), compare: isOneOf(Object.values(Comparison)) },
    {},
    {
      recorded: ({ stream, word, compare }) => ({ kind: 'waitValue', stream, word: recordedWord(word), compare }),
      queued: (work) => {
        const { word, compare } = work
        return { kind: 'waitValue', stream: streamOf(work), context: NO_CONTEXT, word: queuedWord(word), compare }
      },
      touched: unknownMemory,
    },
  ),
  writeValue: row(
    'writeValue',
    { ...ON_STREAM, word: has(WORD) },
    {},
    {
      recorded: ({ stream, word }) => ({ kind: 'writeValue', stream, word: recordedWord(word) }),
      queued: (work) => ({ kind: 'writeValue', stream: streamOf(work), word: queuedWord(work.word) }),
      touched: ({ word }) => [touching(word.pointer as Pointer, word.bits / 8, 'out')],
    },
  ),
  graph: row(
    'graph',
    ON_INSTANCE,
    {},
    {
      recorded: ({ stream, exec }) => ({ kind: 'graph', stream, exec }),
      queued: (work) => ({ kind: 'graph', stream: streamOf(work), exec: work.exec as GraphExecHandle }),
      touched: ({ exec }, known) => known.ofInstance(exec),
    },
  ),
  graphUpload: row(
    'graphUpload',
    ON_INSTANCE,
    {},
    {
      recorded: ({ stream, exec }) => ({ kind: 'graphUpload', stream, exec }),
      queued: (work) => ({ kind: 'graphUpload', stream: streamOf(work), exec: work.exec as GraphExecHandle }),
      touched: () => [],
    },
  ),
  childGraph: row(
    'childGraph',
    { ...ON_STREAM, graph: isNumber },
    {},
    {
      recorded: ({ stream, graph }) => ({ kind: 'childGraph', stream, graph }),
      queued: (work) => ({ kind: 'childGraph', stream: streamOf(work), graph: work.graph as GraphHandle }),
      touched: ({ graph }, known) => known.ofGraph(graph),
    },
  ),
}

/** A recording's form of each kind of work. */
type RecordedWorks = { readonly [K in Kind]: ReturnType<(typeof WORK)[K]['recorded']> }

/** Work in the form of a recording. */
export type RecordedWork = RecordedWorks[Kind]

const NODE_KINDS = ['kernel', 'copy', 'fill'] as const satisfies readonly NodeWork['kind'][]

/** Work that a node of a graph is given. */
export type RecordedNodeWork = RecordedWorks[NodeWork['kind']]

/** The rows as one type for each kind, so that a row takes the work whose kind it was found by. */
const ROWS: { readonly [K in Kind]: Row<QueuedWorks[K], RecordedWorks[K]> } = WORK

/** The form of queued work in a recording: the memory of an allocation is known by then. */
export function recorded<K extends Kind>(work: QueuedWorks[K] & { readonly kind: K }): RecordedWorks[K] {
  const kind: K = work.kind
  return ROWS[kind].recorded(work)
}

/** The form of the work of a graph's node in a recording, where it has no stream of its own. */
export function recordedNode(work: NodeWork): RecordedNodeWork {
  return work.kind === 'copy'
    ? recorded({ ...work, stream: NO_STREAM, name: 'copy' })
    : recorded({ ...work, stream: NO_STREAM })
}

/**
 * The driver's form of recorded work.
 * @param run Runs the host function
 */
export function queued<K extends Kind>(
  work: RecordedWorks[K] & { readonly kind: K },
  run: HostFunction['run'] = nothing,
): QueuedWorks[K] {
  const kind: K = work.kind
  return ROWS[kind].queued(work, run)
}

/** The memory that recorded work touches, and notes what an allocation adds to what is known; undefined if that is not known. */
export function touchedBy<K extends Kind>(
  work: RecordedWorks[K] & { readonly kind: K },
  known: KnownMemory,
): readonly TouchedMemory[] | undefined {
  const kind: K = work.kind
  return ROWS[kind].touched(work, known)
}

const isKind = (name: unknown): name is Kind => typeof name === 'string' && Object.hasOwn(ROWS, name)

/** Whether the fields of a value are those of recorded work of the kind that it names. */
export function isRecordedWork(value: unknown): value is RecordedWork {
  if (!has({ kind: isText })(value) || !isKind(value.kind)) return false
  return ROWS[value.kind].isValid(value)
}

/** Whether the fields of a value are those of recorded work that a node of a graph may be given. */
export const isRecordedNodeWork = (value: unknown): value is RecordedNodeWork =>
  isRecordedWork(value) && NODE_KINDS.some((kind) => kind === value.kind)
