/**
 * Makes a recording of the trace of a whole process: of all calls of the CUDA driver that any library made in it, which native/injection/trace.c has
 * written.
 */
import { upperBound } from '../../foundation/base/interval-map.js'
import type { Pointer } from '../../foundation/driver/handle-types.js'
import type { MemoryRows, TouchedMemory } from '../../foundation/driver/touched-memory.js'
import { COPY_DURING_CALL, COPY_IN_ANY_ORDER } from '../sanitizer/findings.js'
import { IN_PYTORCH } from '../sanitizer/waits-of-libraries.js'
import { type AddedWork, BuiltGraphs, type GraphRecording, NOTHING } from './built-graphs.js'
import { type ForeignAccess, ForeignKernel, type KernelPointer, usesInPtx } from './foreign-kernels.js'
import { Journal } from './journal.js'
import type { RecordedCall, StreamFacts } from './lines.js'
import { VERSION } from './lines.js'
import { TraceKind, TraceReader, type TraceRecord, textIn } from './trace-reader.js'
import { NO_TIMES, placeholder, TraceTimes } from './trace-times.js'
import type { RecordedOperation, RecordedWork } from './work-table.js'

/** How the host used memory: the bits of a HOST_USE, as in host.c. */
const [WRITES, MAY_KNOW, COMPARED, BY_SYSTEM, AFTER_CALL] = [1, 2, 4, 8, 16]

/** When a copy of a batch reads its source: CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL and ANY. */
const [DURING_CALL, IN_ANY_ORDER] = [2, 3]
/** The first handle of streams that the process does not have: the orders in which such copies read, and that on which nodes are captured. */
const OWN_STREAMS = 2 ** 51

/** The words of a call's head, and the bit of the thread that says that null streams are those of threads. */
const HEAD = 24
const OF_THREAD = 2 ** 31

/** The stream handles that CUDA gives a meaning. */
const LEGACY = 1
const PER_THREAD = 2
/** The first handle of the null streams of threads, which no other stream has. */
const THREAD_STREAMS = 2 ** 50

/** The first number of null streams, which no other stream has. */
const NULL_STREAMS = 2 ** 40

/** The flag CU_STREAM_NON_BLOCKING. */
const NON_BLOCKING = 1

/** The fields of one side of a copy of rows, as indices of words. */
interface SideOfRows {
  readonly x: number
  readonly y: number
  readonly z?: number
  readonly type: number
  readonly host: number
  readonly device: number
  readonly pitch: number
  readonly height?: number
}
interface RowsLayout {
  readonly source: SideOfRows
  readonly target: SideOfRows
  readonly width: number
  readonly height: number
  readonly depth?: number
}
/** CUDA_MEMCPY2D. */
const IN_2D: RowsLayout = {
  source: { x: 0, y: 1, type: 2, host: 3, device: 4, pitch: 6 },
  target: { x: 7, y: 8, type: 9, host: 10, device: 11, pitch: 13 },
  width: 14,
  height: 15,
}
/** CUDA_MEMCPY3D. */
const IN_3D: RowsLayout = {
  source: { x: 0, y: 1, z: 2, type: 4, host: 5, device: 6, pitch: 9, height: 10 },
  target: { x: 11, y: 12, z: 13, type: 15, host: 16, device: 17, pitch: 20, height: 21 },
  width: 22,
  height: 23,
  depth: 24,
}
/** The values of CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_ARRAY and CU_MEMORYTYPE_UNIFIED. */
const [ON_HOST, IN_ARRAY, UNIFIED] = [1, 3, 4]

export interface TraceOptions {
  /** Whether memory of which it is not known whether a kernel reads or writes it is taken to be written. */
  readonly possible: boolean
}

/**
 * Writes the recording of a trace. Returns the number of its calls.
 * @throws {Error} ERR_INVALID_ARG_VALUE for a file that is no trace
 */
export function recordTrace(path: string, recording: string, options: TraceOptions): number {
  const conversion = new Conversion(path, recording, options)
  try {
    conversion.more()
  } finally {
    conversion.close()
  }
  return conversion.calls
}

/** What is in the recording of a trace with times. */
export interface TimedRecording {
  readonly calls: number
  /** The operations that have times, and those that have none, as where the process ended before they did. */
  readonly timed: number
  readonly untimed: number
  /** The operations of which the trace does not have the call. They are not in the recording. */
  readonly unknown: number
}

/**
 * Writes the recording of a trace with times, as `npx cuda-streams record` makes it.
 * @throws {Error} ERR_INVALID_ARG_VALUE for a file that is no trace, or has no times; ERR_UNSUPPORTED for those of a CUPTI that is not known
 */
export function recordTimedTrace(path: string, recording: string): TimedRecording {
  const times = new TraceTimes(path)
  const conversion = new Conversion(path, recording, { possible: false }, times)
  try {
    conversion.more()
  } finally {
    conversion.close()
  }
  const { calls, operations } = conversion
  const timed = times.operations().length
  return { calls, timed, untimed: operations - timed, unknown: times.unknown }
}

/** Makes a recording of a trace, also of one that grows meanwhile. */
export class Conversion {
  readonly #journal: Journal
  readonly #functions: string[] = []
  readonly #sites: string[] = ['']
  readonly #kernels = new Map<number, ForeignKernel>()
  readonly #ptx = new Map<string, readonly ('none' | 'read' | 'write' | 'read-write' | 'unknown')[]>()
  /** The device of each context; keys are numbers of contexts. */
  readonly #devices = new Map<number, number>()
  readonly #memory = new Allocations()
  /** The streams whose facts have been written. */
  readonly #streams = new Set<number>()
  readonly #flags = new Map<number, number>()
  readonly #ids = new Map<number, string>()
  #ownStreams = 0
  #captureStream = 0
  /** The memory that nodes of graphs allocate: it comes and goes with launches, at one address. */
  readonly #ofGraphs = new Set<number>()
  readonly #readOrders = new Map<number, number>()
  /** The lines for which PyTorch has made streams. */
  readonly #pooled = new Set<string>()
  /** The number of streams that were met. */
  #made = 0
  #site = ''
  #thread = 0
  #device = 0
  #captures = 0
  /** CUPTI's number of the call that is read, and its times. */
  #correlation = 0
  #times = NO_TIMES
  /** The number of operations that take a device time, where times are recorded. */
  operations = 0
  readonly #reader: TraceReader

  /** @throws {Error} of the file system, if the trace cannot be read or the recording not be written */
  constructor(
    path: string,
    recording: string,
    private readonly options: TraceOptions,
    /** The times of the trace, if they are recorded. */
    private readonly timing?: TraceTimes,
  ) {
    this.#reader = new TraceReader(path)
    const header = {
      recording: VERSION,
      driver: 'cuda',
      clock: 'host',
      stacks: 'all',
      epoch: timing?.epoch ?? 0,
      devices: timing?.devices ?? Array.from({ length: 16 }, (_, device) => placeholder(device)),
      ...(timing?.rank === undefined ? {} : { rank: timing.rank }),
    } as const
    this.#journal = new Journal(
      recording,
      header,
      () => 0,
      () => this.#site,
    )
  }

  get calls(): number {
    return this.#journal.calls
  }

  /**
   * Reads the records that the trace has by now, and gives the recording's lines to the system.
   * @throws {Error} ERR_INVALID_ARG_VALUE if the file is no trace
   */
  more(): void {
    this.#reader.more((record) => this.#record(record))
    this.#journal.flush()
  }

  /** Ends the recording, which is complete then. */
  close(): void {
    this.#reader.close()
    if (this.timing !== undefined) this.#journal.times(this.timing.operations())
    this.#journal.close()
  }

  #record(record: TraceRecord): void {
    const { kind, view, at } = record
    if (kind === TraceKind.CALL) this.#called(record)
    else if (kind === TraceKind.HOST_USE) this.#usedByHost(record)
    else if (kind === TraceKind.CONTEXT) this.#devices.set(view.getUint32(at, true), view.getUint32(at + 4, true))
    else if (kind === TraceKind.CALL_TIMES) this.timing?.called(record)
    else if (kind === TraceKind.ACTIVITY) this.timing?.ran(record)
    else if (kind !== TraceKind.CLOCK && kind !== TraceKind.DEVICE && kind !== TraceKind.RANK) {
      const number = Number(view.getBigUint64(at, true))
      const text = textIn(record, at + 8)
      if (kind === TraceKind.FUNCTION) this.#functions[number] = text
      else if (kind === TraceKind.SITE) this.#sites[number] = text
      else if (kind === TraceKind.PTX) for (const [name, uses] of usesInPtx(text)) this.#ptx.set(name, uses)
      else if (kind === TraceKind.KERNEL) {
        const [name = '', readable = ''] = text.split('\n')
        this.#kernels.set(number, new ForeignKernel(name, readable, this.#ptx.get(name)))
      }
    }
  }

  #called({ view, at, end }: TraceRecord): void {
    const word = (index: number): number => view.getUint32(at + 4 * index, true)
    if (at + HEAD + 8 * word(4) > end) throw new RangeError('The record ends before its values do')
    const values = Array.from({ length: word(4) }, (_, index) => Number(view.getBigUint64(at + HEAD + 8 * index, true)))
    this.#thread = word(1)
    this.#site = this.#sites[word(2)] ?? ''
    this.#device = this.#devices.get(word(3)) ?? 0
    this.#correlation = word(5)
    // The process was killed during a call whose times are missing.
    const unknown = { began: this.#journal.last, ended: this.#journal.last, own: 0 }
    if (this.timing !== undefined) this.#times = this.timing.of(word(5)) ?? unknown
    const name = (this.#functions[word(0)] ?? '').replace(/_v\d+$/, '')
    READERS[name]?.(this.steps, values, this)
  }

  /** Notes what the host did with page-locked memory. Where it may have learned otherwise that the copy was over, it is possible only. */
  #usedByHost({ view, at }: TraceRecord): void {
    const [pointer, byteLength] = [Number(view.getBigUint64(at, true)), Number(view.getBigUint64(at + 8, true))]
    const uses = view.getUint32(at + 24, true)
    this.#site = this.#sites[view.getUint32(at + 16, true)] ?? ''
    if (byteLength === 0 || !this.#memory.has(pointer) || ((uses & MAY_KNOW) !== 0 && !this.options.possible)) return
    const how = [
      (uses & BY_SYSTEM) === 0 ? [] : 'by a call of the system such as read(2)',
      (uses & COMPARED) === 0 ? [] : 'before this call',
      (uses & AFTER_CALL) === 0 ? [] : 'after this call',
    ]
      .flat()
      .map((part) => `, ${part}`)
      .join('')
    const memory = [touched(pointer, byteLength, (uses & WRITES) === 0 ? 'in' : 'out')]
    this.#put({ call: 'hostAccess', what: `the host${how === '' ? '' : `${how},`}`, memory })
  }

  /** The effects of the calls of the driver. */
  readonly steps = {
    allocated: (pointer: number, byteLength: number, place: Place = 'device'): void => {
      if (byteLength === 0) return
      this.#ofGraphs.delete(pointer)
      this.#memory.add(pointer, byteLength, place)
      this.#put({ call: 'allocateShared', pointer, byteLength })
    },
    /** Notes that memory is freed. The call waits for the device if `waits`. */
    freed: (pointer: number, waits: boolean): void => {
      if (waits && this.#ofGraphs.has(pointer)) this.steps.deviceDone()
      if (this.#ofGraphs.has(pointer) || !this.#memory.remove(pointer)) return
      if (waits) this.steps.deviceDone()
      this.#put({ call: 'freeShared', pointer, after: [] })
    },
    queuedAllocation: (pointer: number, byteLength: number, handle: number): void => {
      this.#ofGraphs.delete(pointer)
      this.#memory.add(pointer, byteLength, 'device')
      this.#queue({ kind: 'allocate', stream: this.#stream(handle), pointer, byteLength })
    },
    queuedFree: (pointer: number, handle: number): void => {
      const stream = this.#stream(handle)
      if (this.#ofGraphs.has(pointer)) this.#touch(this.works.freed(pointer), stream)
      else if (this.#memory.remove(pointer)) this.#queue({ kind: 'free', stream, pointer })
    },
    /** Notes a copy. `waits` is for a copy to or from memory that is not page-locked. `way`: where the call itself says from where to where. */
    copied: (copy: Copied, handle: number, waits: boolean, way?: Way): void => {
      const { to, from, byteLength } = copy
      const stream = this.#stream(handle)
      const isKnown = this.#memory.has(to)
      const memory = [
        ...(this.#memory.has(from) ? [touched(from, byteLength, 'in')] : []),
        ...(isKnown ? [touched(to, byteLength, 'out')] : []),
      ]
      const isWait = waits || !isKnown
      if (byteLength > 0) this.#work({ name: 'copy', stream, memory }, this.#copy(copy, way), isWait)
      if (isWait) this.steps.streamDone(handle)
    },
    /** Notes a copy of a batch, whose source may be read outside of the order of its stream: then a stream of its own stands for the read. */
    batchCopied: (copy: BatchedCopy, handle: number): void => {
      const { to, from, order } = copy
      const stream = this.#stream(handle)
      const writes = this.#memory.has(to) && copy.toBytes > 0 ? [touched(to, copy.toBytes, 'out')] : []
      const reads = this.#memory.has(from) && copy.fromBytes > 0 ? [touched(from, copy.fromBytes, 'in')] : []
      const isApart = reads.length > 0 && (order === DURING_CALL || order === IN_ANY_ORDER)
      if (isApart) {
        const other = this.#readOrder(stream)
        const name = order === DURING_CALL ? COPY_DURING_CALL : COPY_IN_ANY_ORDER
        this.#queue({ kind: 'library', calls: [{ name, stream: other, memory: reads }] })
        if (order === DURING_CALL) this.#waited({ call: 'synchronizeStream', stream: other })
        else this.#put({ call: 'waitStream', stream, other, context: 0 })
      }
      const memory = isApart ? writes : [...reads, ...writes]
      this.#work({ name: 'copy of a batch', stream, memory }, this.#copy({ to, from, byteLength: copy.toBytes }))
    },
    filled: (pointer: number, byteLength: number, handle: number): void => {
      if (byteLength === 0 || !this.#isOfInterest(this.#memory.has(pointer))) return
      const memory = this.#memory.has(pointer) ? [touched(pointer, byteLength, 'out')] : []
      const host = this.#isOfHost(pointer)
      this.#work(
        { name: 'fill', stream: this.#stream(handle), memory },
        { kind: 'fill', name: 'fill', byteLength, host },
      )
    },
    rows: (words: readonly number[], handle: number, waits: boolean): void => {
      const { source, target, width, height } = IN_2D
      const word = (index: number): number => words[index] ?? 0
      const addressOf = (side: SideOfRows): number => word(word(side.type) === ON_HOST ? side.host : side.device)
      const copy = { to: addressOf(target), from: addressOf(source), byteLength: word(width) * word(height) }
      const way = wayOf(word(source.type), word(target.type))
      const call = { ...this.works.copied(words, IN_2D), stream: this.#stream(handle) }
      if (copy.byteLength > 0) this.#work(call, this.#copy(copy, way), waits)
      if (waits) this.steps.streamDone(handle)
    },
    launched: (handle: number, stream: number, shape: readonly number[], words: readonly number[]): void => {
      const { name, memory, ...kernel } = this.works.launched(handle, words)
      if (!this.#isOfInterest(memory.length > 0)) return
      const [x = 1, y = 1, z = 1, width = 1, height = 1, depth = 1] = shape
      const call = { name, stream: this.#stream(stream), memory }
      this.#work(call, {
        kind: 'kernel',
        name: kernel.called,
        grid: [x, y, z],
        block: [width, height, depth],
        host: kernel.host,
        possible: kernel.possible,
      })
    },
    streamMade: (stream: number, flags: number): void => {
      this.#streams.delete(stream)
      this.#site = this.#siteOfStream(this.#site)
      this.#flags.set(stream, flags)
      this.#stream(stream)
      this.#put({ call: 'createStream', stream, context: this.#device + 1, flags })
    },
    streamEnded: (stream: number): void => {
      if (!this.#streams.delete(stream)) return
      this.#put({ call: 'destroyStream', stream })
      this.#ids.delete(stream)
      const order = this.#readOrders.get(stream)
      this.#readOrders.delete(stream)
      if (order !== undefined) this.steps.streamEnded(order)
    },
    streamDone: (handle: number): void => this.#waited({ call: 'synchronizeStream', stream: this.#stream(handle) }),
    streamIsIdle: (handle: number): void => this.#put({ call: 'streamIsIdle', stream: this.#stream(handle) }),
    deviceDone: (): void => this.#waited({ call: 'synchronizeDevice', device: this.#device }),
    eventMade: (event: number, flags: number): void =>
      this.#put({ call: 'createEvent', event, context: this.#device + 1, flags }),
    eventEnded: (event: number): void => this.#put({ call: 'destroyEvent', event }),
    recorded: (event: number, handle: number, flags: number): void =>
      this.#put({ call: 'record', event, stream: this.#stream(handle), external: flags === 1 ? 1 : 0 }),
    awaited: (handle: number, event: number, flags: number): void =>
      this.#put({ call: 'wait', stream: this.#stream(handle), event, external: flags === 1 ? 1 : 0 }),
    eventDone: (event: number): void => this.#waited({ call: 'synchronizeEvent', event }),
    eventIsDone: (event: number): void => this.#put({ call: 'eventIsDone', event }),
    /** Notes that a stream waits for a value. Who writes the value, and when, is not recorded: it may come after all that was queued. */
    valueAwaited: (handle: number): void => {
      const stream = this.#stream(handle)
      for (const other of this.#streams)
        if (other !== stream) this.#put({ call: 'waitStream', stream, other, context: 0 })
    },
    captureBegan: (handle: number): void => {
      this.#captures += 1
      this.#put({ call: 'beginCapture', stream: this.#stream(handle) })
    },
    captureIntoBegan: (handle: number, graph: number, after: readonly number[]): void => {
      this.graphs.captureBegan(this.#stream(handle), graph, after)
      this.steps.captureBegan(handle)
    },
    captureEnded: (handle: number, handleOfGraph: number): void => {
      const stream = this.#stream(handle)
      const graph = this.graphs.captureEnded(stream, handleOfGraph)
      this.#captures -= 1
      this.#put({ call: 'endCapture', stream, graph })
    },
    graphLaunched: (exec: number, handle: number): void => {
      this.graphs.launched(exec)
      this.#queue({ kind: 'graph', stream: this.#stream(handle), exec })
    },
  }

  readonly graphs = new BuiltGraphs(this.#graphRecording())

  #graphRecording(): GraphRecording {
    const site = (): string => this.#site
    return {
      get site() {
        return site()
      },
      put: (call, lines, node) => {
        const here = this.#site
        this.#site = lines
        const details = { captured: true, ...(node === undefined ? {} : { node }) } as const
        this.#journal.call(call, 0, 0, call.call === 'queue' ? details : undefined)
        this.#site = here
      },
      captureStream: () => {
        if (this.#captureStream === 0) this.#captureStream = this.#ownStream('0')
        return this.#captureStream
      },
    }
  }

  /** What calls and nodes of graphs touch. */
  readonly works = {
    launched: (handle: number, words: readonly number[]): KernelWork => {
      const kernel = this.#kernels.get(handle) ?? new ForeignKernel('?', '', undefined)
      const pointers: KernelPointer[] = []
      for (let at = 0; at + 1 < words.length; at += 2) {
        const [place = 0, pointer = 0] = [words[at], words[at + 1]]
        if (!this.#memory.has(pointer)) continue
        pointers.push({ parameter: Math.floor(place / 2 ** 32), offset: place % 2 ** 32, pointer })
      }
      const accesses = kernel.accesses(pointers)
      const memory = pointers.map(({ pointer }, at) => touched(pointer, 1, this.#accessOf(accesses[at] ?? 'either')))
      return {
        name: `kernel ${kernel.title}`,
        memory: merged(memory),
        called: kernel.called,
        host: pointers.some(({ pointer }) => this.#isOfHost(pointer)),
        possible: accesses.includes('either'),
      }
    },
    copied: (words: readonly number[], layout: RowsLayout): TouchingWork => {
      const get = (index: number | undefined, otherwise: number): number =>
        index === undefined ? otherwise : (words[index] ?? 0)
      const [rowLength, rows, matrices] = [get(layout.width, 0), get(layout.height, 0), get(layout.depth, 1)]
      const memory = (['source', 'target'] as const).flatMap((name) => {
        const side = layout[name]
        const type = get(side.type, 0)
        if (type === IN_ARRAY || rowLength * rows * matrices === 0) return []
        const pitch = get(side.pitch, 0) || rowLength
        const matrix = pitch * (get(side.height, 0) || rows)
        const base = get(type === ON_HOST ? side.host : side.device, 0)
        const pointer = base + get(side.z, 0) * matrix + get(side.y, 0) * pitch + get(side.x, 0)
        if (!this.#memory.has(pointer)) return []
        const matrixDistance = matrices === 1 ? 0 : matrix
        return [inRows(pointer, name === 'source' ? 'in' : 'out', rowLength, rows, pitch, matrices, matrixDistance)]
      })
      return { name: 'copy', memory }
    },
    filled: (pointer: number, pitch: number, rowLength: number, rows: number): TouchingWork => {
      const isKnown = this.#memory.has(pointer) && rowLength * rows > 0
      return { name: 'fill', memory: isKnown ? [inRows(pointer, 'out', rowLength, rows, pitch)] : [] }
    },
    /** An allocation by a node of a graph: each launch makes it, at an address that is known before. */
    allocated: (pointer: number, byteLength: number): TouchingWork => {
      if (!this.#memory.has(pointer)) this.steps.allocated(pointer, byteLength)
      this.#ofGraphs.add(pointer)
      return { name: 'allocation', memory: [touched(pointer, byteLength, 'out')] }
    },
    freed: (pointer: number): TouchingWork => {
      const byteLength = this.#memory.bytesAt(pointer)
      return { name: 'free', memory: byteLength === 0 ? [] : [touched(pointer, byteLength, 'out')] }
    },
  }

  /**
   * The lines that made a stream. PyTorch makes the streams of its pool together, for the line that asks for the first: the program's lines say
   * nothing of the others.
   */
  #siteOfStream(site: string): string {
    const inPyTorch = site.split('\n').filter((line) => IN_PYTORCH.test(line))
    if (inPyTorch.length === 0) return site
    if (!this.#pooled.has(site)) {
      this.#pooled.add(site)
      return site
    }
    return inPyTorch.join('\n')
  }

  #accessOf(access: ForeignAccess): TouchedMemory['access'] {
    if (access !== 'either') return access
    return this.options.possible ? 'inout' : 'in'
  }

  #touch({ name, memory }: TouchingWork, stream: number): void {
    if (memory.length > 0) this.#queue({ kind: 'library', calls: [{ name, stream, memory }] })
  }

  #queue(work: RecordedWork, isAwaited = false): void {
    const number = this.#write({ call: 'queue', work }, isAwaited)
    const isOperation = work.kind === 'graph' || (work.kind === 'library' && work.operation !== undefined)
    if (this.timing === undefined || this.#captures > 0 || !isOperation) return
    this.timing.queued(this.#correlation, number)
    this.operations += 1
  }

  /** Without times only what touches known memory is of interest. */
  #isOfInterest(touchesKnownMemory: boolean): boolean {
    return this.timing !== undefined || touchesKnownMemory
  }

  /** Notes a call that queues an operation. */
  #work(
    call: LibraryCall,
    operation: Pick<RecordedOperation, 'kind' | 'name' | 'host'> & Partial<RecordedOperation>,
    isAwaited = false,
  ): void {
    if (!this.#isOfInterest(call.memory.length > 0)) return
    if (this.timing === undefined) {
      this.#queue({ kind: 'library', calls: [call] })
      return
    }
    const none = { byteLength: undefined, engine: undefined, grid: undefined, block: undefined, possible: false }
    this.#queue({ kind: 'library', calls: [call], operation: { ...none, ...operation } }, isAwaited)
  }

  #copy(
    { to, from, byteLength }: Copied,
    way = this.#wayOf(to, from),
  ): Pick<RecordedOperation, 'kind' | 'name' | 'byteLength' | 'engine' | 'host'> {
    const engine = way === 'within' ? undefined : way
    const name = engine === 'toDevice' ? 'upload' : engine === 'toHost' ? 'download' : 'copy'
    const host = this.#isOfHost(to) || this.#isOfHost(from)
    return { kind: 'copy', name, byteLength, engine, host }
  }

  /** The way of a copy by its memory. Memory that is not allocated by CUDA is the host's. */
  #wayOf(to: number, from: number): Way {
    const [isTo, isFrom] = [to, from].map((pointer) => (this.#memory.placeOf(pointer) ?? 'host') === 'host')
    return isTo === isFrom ? 'within' : isTo === true ? 'toHost' : 'toDevice'
  }

  /** Whether the host may use memory without a call. */
  #isOfHost(pointer: number): boolean {
    return this.#memory.placeOf(pointer) !== 'device'
  }

  #put(call: RecordedCall): void {
    this.#write(call)
  }

  /** Writes a call, and returns its number. `isAwaited`: it lasts until the wait that is written next is over. */
  #write(call: RecordedCall, isAwaited = false): number {
    const { began, ended, own } = this.#times
    const from = Math.max(began, this.#journal.last)
    const to = isAwaited ? from : Math.max(ended, from)
    this.#times = { began, ended, own: 0 }
    const isCaptured = this.#captures > 0 && call.call === 'queue'
    return this.#journal.call(call, from, to, isCaptured ? { captured: true } : undefined, true, own)
  }

  #waited(call: RecordedCall): void {
    this.#write(call, true)
    const ended = Math.max(this.#times.ended, this.#journal.last)
    this.#journal.call({ call: 'return' }, ended, ended, undefined, false)
  }

  /** The number by which reports name a stream. A read order has that of its stream. */
  #idOf(stream: number, isNull: boolean): string {
    const id = this.#ids.get(stream) ?? String(isNull ? NULL_STREAMS + this.#device : ++this.#made)
    this.#ids.set(stream, id)
    return id
  }

  /** The stream that stands for the order in which copies of a stream read, which nothing but the host's knowledge precedes. */
  #readOrder(stream: number): number {
    const known = this.#readOrders.get(stream)
    if (known !== undefined) return known
    const order = this.#ownStream(this.#ids.get(stream) ?? '')
    this.#readOrders.set(stream, order)
    return order
  }

  #ownStream(id: string): number {
    const stream = OWN_STREAMS + 16 * this.#ownStreams
    this.#ownStreams += 1
    this.#flags.set(stream, NON_BLOCKING)
    this.#ids.set(stream, id)
    return this.#stream(stream)
  }

  /** The recording's number of a stream, whose facts are written at its first use. */
  #stream(handle: number): number {
    const ofThread = this.#thread >= OF_THREAD
    const isOfThread = handle === PER_THREAD || (handle === 0 && ofThread)
    const isNull = !isOfThread && (handle === 0 || handle === LEGACY)
    const stream = isNull
      ? this.#device * 4
      : isOfThread
        ? THREAD_STREAMS + this.#device * 2 ** 20 + (this.#thread % OF_THREAD) * 16
        : handle
    if (!this.#streams.has(stream)) {
      this.#streams.add(stream)
      const nonBlocking = !isNull && ((this.#flags.get(stream) ?? 0) & NON_BLOCKING) !== 0
      const facts: StreamFacts = {
        stream,
        device: this.#device,
        context: this.#device + 1,
        id: this.#idOf(stream, isNull),
        nonBlocking,
        priority: 0,
        escaped: false,
        name: '',
        given: false,
      }
      this.#journal.object(facts)
    }
    return stream
  }
}

/** What work of another library is called in reports, and what it touches. */
type LibraryCall = Extract<RecordedWork, { readonly kind: 'library' }>['calls'][number]

/** The place of memory. The host uses managed memory, too. */
type Place = 'device' | 'host' | 'managed'
/** The way of a copy: between the host and a device, or between two places on either side. */
type Way = 'toDevice' | 'toHost' | 'within'

/** The way of a copy by the types of memory; undefined if these leave it to the addresses. */
function wayOf(from: number, to: number): Way | undefined {
  if (from === UNIFIED || to === UNIFIED) return undefined
  if ((from === ON_HOST) === (to === ON_HOST)) return 'within'
  return to === ON_HOST ? 'toHost' : 'toDevice'
}

interface Copied {
  readonly to: number
  readonly from: number
  readonly byteLength: number
}

/** Work and what it touches; nothing, where that is no memory that is known. */
interface TouchingWork {
  readonly name: string
  readonly memory: readonly TouchedMemory[]
}

interface KernelWork extends TouchingWork {
  /** The name of the kernel alone. */
  readonly called: string
  /** Whether one of its arguments is memory that the host may use without a call. */
  readonly host: boolean
  /** Whether it is not known of an argument whether it is read or written. */
  readonly possible: boolean
}

interface BatchedCopy {
  readonly to: number
  readonly from: number
  readonly toBytes: number
  readonly fromBytes: number
  readonly order: number
}

function touched(
  pointer: number,
  byteLength: number,
  access: TouchedMemory['access'],
  rows?: MemoryRows,
): TouchedMemory {
  return { pointer: pointer as Pointer, byteLength, access, argument: undefined, rows }
}

function inRows(
  pointer: number,
  access: TouchedMemory['access'],
  rowLength: number,
  rows: number,
  pitch: number,
  matrices = 1,
  matrixDistance = 0,
): TouchedMemory {
  const rowDistance = rows === 1 ? rowLength : pitch
  const byteLength = (matrices - 1) * matrixDistance + (rows - 1) * rowDistance + rowLength
  const isWhole = rowDistance === rowLength && (matrices === 1 || matrixDistance === rows * rowLength)
  const gaps = { rows, rowLength, rowDistance, matrices, matrixDistance }
  return touched(pointer, byteLength, access, isWhole ? undefined : gaps)
}

/** The accesses with one for each address: a kernel may be given a pointer twice. */
function merged(memory: readonly TouchedMemory[]): readonly TouchedMemory[] {
  const byPointer = new Map<number, TouchedMemory>()
  for (const each of memory) {
    const known = byPointer.get(each.pointer)
    const access = known === undefined || known.access === each.access ? each.access : 'inout'
    byPointer.set(each.pointer, { ...each, access })
  }
  return [...byPointer.values()]
}

/** The memory that is allocated, by its addresses. */
class Allocations {
  readonly #starts: number[] = []
  readonly #known = new Map<number, { readonly byteLength: number; readonly place: Place }>()

  add(pointer: number, byteLength: number, place: Place): void {
    if (!this.#known.has(pointer)) this.#starts.splice(this.#after(pointer), 0, pointer)
    this.#known.set(pointer, { byteLength, place })
  }

  remove(pointer: number): boolean {
    if (!this.#known.delete(pointer)) return false
    this.#starts.splice(this.#after(pointer) - 1, 1)
    return true
  }

  has(pointer: number): boolean {
    return this.placeOf(pointer) !== undefined
  }

  /** The place of memory; undefined if it is not allocated. */
  placeOf(pointer: number): Place | undefined {
    const start = this.#starts[this.#after(pointer) - 1]
    const known = start === undefined ? undefined : this.#known.get(start)
    return start !== undefined && known !== undefined && pointer < start + known.byteLength ? known.place : undefined
  }

  /** The length of what was allocated at this address; 0 if nothing was. */
  bytesAt(pointer: number): number {
    return this.#known.get(pointer)?.byteLength ?? 0
  }

  /** The number of allocations that begin at this address or before it. */
  #after(pointer: number): number {
    return upperBound(this.#starts.length, (index) => this.#starts[index] ?? 0, pointer)
  }
}

type Steps = Conversion['steps']
type Read = (steps: Steps, values: readonly number[], trace: Conversion) => void

/** The words of a call, with zeros for those that are missing. */
const at = (values: readonly number[], index: number): number => values[index] ?? 0

/** The copy of a call whose words are the destination, the source and the length. */
const copied = (v: readonly number[]): Copied => ({ to: at(v, 0), from: at(v, 1), byteLength: at(v, 2) })
const copy =
  (waits: boolean, way?: Way): Read =>
  (steps, v) =>
    steps.copied(copied(v), waits ? 0 : at(v, 3), waits, way)
const fill =
  (width: number, isQueued: boolean): Read =>
  (steps, v) =>
    steps.filled(at(v, 0), width * at(v, 2), isQueued ? at(v, 3) : 0)
const fillRows =
  (width: number): Read =>
  (steps, v) =>
    steps.filled(at(v, 0), (at(v, 4) - 1) * at(v, 1) + width * at(v, 3), at(v, 5))
/** The copies of a batch: the stream, and five words of each. */
const batch: Read = (steps, v) => {
  for (let index = 1; index + 4 < v.length; index += 5) {
    const copy = { to: at(v, index), from: at(v, index + 1), toBytes: at(v, index + 2), fromBytes: at(v, index + 3) }
    steps.batchCopied({ ...copy, order: at(v, index + 4) }, at(v, 0))
  }
}
const launch: Read = (steps, v) => steps.launched(at(v, 0), at(v, 8), v.slice(1, 7), v.slice(9))
const allocateOnHost: Read = (steps, v) => steps.allocated(at(v, 0), at(v, 1), 'host')
const awaitValue: Read = (steps, v) => steps.valueAwaited(at(v, 0))
const instantiate: Read = (_, v, { graphs }) => graphs.instantiated(at(v, 0), at(v, 1))

/** Reads what a node does from the words of its parameters. */
type ReadNode = (parameters: readonly number[], works: Conversion['works']) => AddedWork

const touches = (work: TouchingWork): AddedWork => ({ kind: 'touches', ...work })
const kernelNode: ReadNode = (v, works) => {
  const { name, memory } = works.launched(at(v, 0), v.slice(1))
  return touches({ name, memory })
}
const copyNode: ReadNode = (v, works) => touches(works.copied(v, IN_3D))
const fillNode: ReadNode = (v, works) => touches(works.filled(at(v, 0), at(v, 1), at(v, 2) * at(v, 3), at(v, 4)))
const allocationNode: ReadNode = (v, works) => touches(works.allocated(at(v, 0), at(v, 1)))
const freeNode: ReadNode = (v, works) => touches(works.freed(at(v, 0)))
const graphNode: ReadNode = (v) => ({ kind: 'graph', graph: at(v, 0) })
const waitNode: ReadNode = (v) => ({ kind: 'wait', event: at(v, 0) })
const recordNode: ReadNode = (v) => ({ kind: 'record', event: at(v, 0) })
const conditionalNode: ReadNode = (v) => ({ kind: 'bodies', bodies: v })
const emptyNode: ReadNode = () => NOTHING

/** The readers of nodes by their CUgraphNodeType; others, such as host functions, have a place in the order alone. */
const NODES: Readonly<Record<number, ReadNode>> = {
  0: kernelNode,
  1: copyNode,
  2: fillNode,
  4: graphNode,
  6: waitNode,
  7: recordNode,
  10: allocationNode,
  11: freeNode,
  13: conditionalNode,
}
const anyNode: ReadNode = (v, works) => (NODES[at(v, 0)] ?? emptyNode)(v.slice(1), works)

/** The lists at the end of a call, each of so many nodes. */
function listsOf(v: readonly number[], length: number, count: number): readonly (readonly number[])[] {
  const begin = Math.max(0, v.length - count * length)
  return Array.from({ length: count }, (_, index) => v.slice(begin + index * length, begin + (index + 1) * length))
}

/** A node that is added: its handle, its graph, the number of those that it comes after, its parameters, and those. */
const addNode =
  (read: ReadNode): Read =>
  (_, v, { graphs, works }) => {
    const [after = []] = listsOf(v, at(v, 2), 1)
    graphs.added(at(v, 1), at(v, 0), after, read(v.slice(3, Math.max(3, v.length - after.length)), works))
  }
const changeNode =
  (read: ReadNode): Read =>
  (_, v, { graphs, works }) =>
    graphs.changed(at(v, 0), read(v.slice(1), works))
const changeInExec =
  (read: ReadNode): Read =>
  (_, v, { graphs, works }) =>
    graphs.execChanged(at(v, 0), at(v, 1), read(v.slice(2), works))

/** The readers of calls, by the name of a function without its version. */
const READERS: Readonly<Record<string, Read>> = {
  cuMemAlloc: (steps, v) => steps.allocated(at(v, 0), at(v, 1)),
  cuMemAllocPitch: (steps, v) => steps.allocated(at(v, 0), at(v, 1) * at(v, 3)),
  cuMemAllocManaged: (steps, v) => steps.allocated(at(v, 0), at(v, 1), 'managed'),
  cuMemMap: (steps, v) => steps.allocated(at(v, 0), at(v, 1)),
  cuMemUnmap: (steps, v) => steps.freed(at(v, 0), false),
  cuMemFree: (steps, v) => steps.freed(at(v, 0), true),
  cuMemAllocAsync: (steps, v) => steps.queuedAllocation(at(v, 0), at(v, 1), at(v, 2)),
  cuMemAllocFromPoolAsync: (steps, v) => steps.queuedAllocation(at(v, 0), at(v, 1), at(v, 3)),
  cuMemFreeAsync: (steps, v) => steps.queuedFree(at(v, 0), at(v, 1)),
  cuMemAllocHost: allocateOnHost,
  cuMemHostAlloc: allocateOnHost,
  cuMemHostRegister: allocateOnHost,
  cuMemFreeHost: (steps, v) => steps.freed(at(v, 0), true),
  cuMemHostUnregister: (steps, v) => steps.freed(at(v, 0), true),
  cuMemcpy: copy(true),
  cuMemcpyHtoD: copy(true, 'toDevice'),
  cuMemcpyDtoH: copy(true, 'toHost'),
  cuMemcpyDtoD: (steps, v) => steps.copied(copied(v), 0, false, 'within'),
  cuMemcpyAsync: copy(false),
  cuMemcpyHtoDAsync: copy(false, 'toDevice'),
  cuMemcpyDtoHAsync: copy(false, 'toHost'),
  cuMemcpyDtoDAsync: copy(false, 'within'),
  cuMemcpyPeerAsync: (steps, v) =>
    steps.copied({ to: at(v, 0), from: at(v, 2), byteLength: at(v, 4) }, at(v, 5), false, 'within'),
  cuMemcpyBatchAsync: batch,
  cuMemcpy3DBatchAsync: batch,
  cuMemcpy2D: (steps, v) => steps.rows(v, 0, true),
  cuMemcpy2DUnaligned: (steps, v) => steps.rows(v, 0, true),
  cuMemcpy2DAsync: (steps, v) => steps.rows(v, at(v, 16), false),
  cuMemsetD8: fill(1, false),
  cuMemsetD16: fill(2, false),
  cuMemsetD32: fill(4, false),
  cuMemsetD8Async: fill(1, true),
  cuMemsetD16Async: fill(2, true),
  cuMemsetD32Async: fill(4, true),
  cuMemsetD2D8Async: fillRows(1),
  cuMemsetD2D16Async: fillRows(2),
  cuMemsetD2D32Async: fillRows(4),
  cuLaunchKernel: launch,
  cuLaunchCooperativeKernel: launch,
  // The configuration comes first: seven numbers and the stream.
  cuLaunchKernelEx: (steps, v) => steps.launched(at(v, 8), at(v, 7), v.slice(0, 6), v.slice(9)),
  cuStreamCreate: (steps, v) => steps.streamMade(at(v, 0), at(v, 1)),
  cuStreamCreateWithPriority: (steps, v) => steps.streamMade(at(v, 0), at(v, 1)),
  cuStreamDestroy: (steps, v) => steps.streamEnded(at(v, 0)),
  cuStreamSynchronize: (steps, v) => steps.streamDone(at(v, 0)),
  cuStreamQuery: (steps, v) => steps.streamIsIdle(at(v, 0)),
  cuStreamWaitEvent: (steps, v) => steps.awaited(at(v, 0), at(v, 1), at(v, 2)),
  cuEventCreate: (steps, v) => steps.eventMade(at(v, 0), at(v, 1)),
  cuEventDestroy: (steps, v) => steps.eventEnded(at(v, 0)),
  cuEventRecord: (steps, v) => steps.recorded(at(v, 0), at(v, 1), 0),
  cuEventRecordWithFlags: (steps, v) => steps.recorded(at(v, 0), at(v, 1), at(v, 2)),
  cuEventQuery: (steps, v) => steps.eventIsDone(at(v, 0)),
  cuEventSynchronize: (steps, v) => steps.eventDone(at(v, 0)),
  // It is answered only where both events are done.
  cuEventElapsedTime: (steps, v) => {
    for (const event of [at(v, 1), at(v, 2)]) steps.eventIsDone(event)
  },
  cuCtxSynchronize: (steps) => steps.deviceDone(),
  cuStreamWaitValue32: awaitValue,
  cuStreamWaitValue64: awaitValue,
  cuStreamBatchMemOp: awaitValue,
  cuStreamBeginCapture: (steps, v) => steps.captureBegan(at(v, 0)),
  cuStreamBeginCaptureToGraph: (steps, v) => steps.captureIntoBegan(at(v, 0), at(v, 1), listsOf(v, at(v, 2), 1).flat()),
  cuStreamEndCapture: (steps, v) => steps.captureEnded(at(v, 0), at(v, 1)),
  cuGraphInstantiate: instantiate,
  cuGraphInstantiateWithFlags: instantiate,
  cuGraphInstantiateWithParams: instantiate,
  cuGraphExecUpdate: (_, v, { graphs }) => graphs.updated(at(v, 0), at(v, 1)),
  cuGraphExecDestroy: (_, v, { graphs }) => graphs.execEnded(at(v, 0)),
  cuGraphDestroy: (_, v, { graphs }) => graphs.graphEnded(at(v, 0)),
  cuGraphLaunch: (steps, v) => steps.graphLaunched(at(v, 0), at(v, 1)),
  cuGraphCreate: (_, v, { graphs }) => graphs.graphMade(at(v, 0)),
  cuGraphClone: (_, v, { graphs }) => graphs.cloned(at(v, 0), at(v, 1)),
  cuGraphNodeFindInClone: (_, v, { graphs }) => graphs.foundInClone(at(v, 0), at(v, 1), at(v, 2)),
  cuGraphAddKernelNode: addNode(kernelNode),
  cuGraphAddMemcpyNode: addNode(copyNode),
  cuGraphAddMemsetNode: addNode(fillNode),
  cuGraphAddHostNode: addNode(emptyNode),
  cuGraphAddEmptyNode: addNode(emptyNode),
  cuGraphAddChildGraphNode: addNode(graphNode),
  cuGraphAddEventRecordNode: addNode(recordNode),
  cuGraphAddEventWaitNode: addNode(waitNode),
  cuGraphAddExternalSemaphoresSignalNode: addNode(emptyNode),
  cuGraphAddExternalSemaphoresWaitNode: addNode(emptyNode),
  cuGraphAddBatchMemOpNode: addNode(emptyNode),
  cuGraphAddMemAllocNode: addNode(allocationNode),
  cuGraphAddMemFreeNode: addNode(freeNode),
  cuGraphAddNode: addNode(anyNode),
  cuGraphDestroyNode: (_, v, { graphs }) => graphs.removed(at(v, 0)),
  cuGraphAddDependencies: (_, v, { graphs }) => {
    const [from = [], to = []] = listsOf(v, at(v, 1), 2)
    graphs.joined(at(v, 0), from, to)
  },
  cuGraphRemoveDependencies: (_, v, { graphs }) => {
    const [from = [], to = []] = listsOf(v, at(v, 1), 2)
    graphs.parted(at(v, 0), from, to)
  },
  cuGraphKernelNodeSetParams: changeNode(kernelNode),
  cuGraphMemcpyNodeSetParams: changeNode(copyNode),
  cuGraphMemsetNodeSetParams: changeNode(fillNode),
  cuGraphEventRecordNodeSetEvent: changeNode(recordNode),
  cuGraphEventWaitNodeSetEvent: changeNode(waitNode),
  cuGraphNodeSetParams: changeNode(anyNode),
  cuGraphExecKernelNodeSetParams: changeInExec(kernelNode),
  cuGraphExecMemcpyNodeSetParams: changeInExec(copyNode),
  cuGraphExecMemsetNodeSetParams: changeInExec(fillNode),
  cuGraphExecChildGraphNodeSetParams: changeInExec(graphNode),
  cuGraphExecEventRecordNodeSetEvent: changeInExec(recordNode),
  cuGraphExecEventWaitNodeSetEvent: changeInExec(waitNode),
  cuGraphExecNodeSetParams: changeInExec(anyNode),
  cuGraphNodeSetEnabled: (_, v, { graphs }) => graphs.enabled(at(v, 0), at(v, 1), at(v, 2) !== 0),
}
