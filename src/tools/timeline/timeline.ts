/** Timelines: what ran when, recorded from any driver, for programs, for Perfetto, and as a page to look at. */

import { type Device, driverOf, isDevice, resolveDevice } from '../../core/device.js'
import type { Simulation } from '../../core/simulation.js'
import {
  checkArray,
  checkBoolean,
  checkFunction,
  checkInteger,
  checkThis,
  type Given,
  readOptions,
  readProperties,
} from '../../foundation/base/arguments.js'
import { invalidType, invalidValue, stateError } from '../../foundation/base/errors.js'
import { construct, notCloneable } from '../../foundation/base/library-object.js'
import { process } from '../../foundation/base/node-modules.js'
import type { KernelProfile } from '../../foundation/driver/kernel-profile.js'
import { type Analysis, analyse } from './analysis.js'
import type { BindingKind, Gap } from './bindings.js'
import { gzip } from './compression.js'
import { type Calibration, NO_ROW } from './event-records.js'
import { pageData, toHtml } from './html.js'
import { EventKind, isHostOnly, type OperationKind, operationKind } from './kinds.js'
import type { PageData } from './page-format.js'
import { DEFAULT_LIMIT, Session } from './session.js'
import { type TimelineSummary, toText } from './summary.js'
import { type SvgOptions, toSvg } from './svg.js'
import { isTrace, type Trace } from './trace.js'
import { type TraceFile, toJson, toTraceEvents } from './trace-events.js'

/** The options of a recording. */
export interface TimelineOptions {
  /** A device of the driver to record: all devices of that driver are recorded. Default: the current device. */
  readonly device?: Device | number | undefined
  /** A simulated machine to record, instead of a device. Excludes `device`. */
  readonly simulation?: Simulation | undefined
  /** Whether the place in the program of each call is recorded. Costs about ten microseconds a call. Default false. */
  readonly callSites?: boolean | undefined
  /** The most operations that are recorded, from 1 to 2 ** 28; later ones are only counted (`dropped`). Default a million. */
  readonly limit?: number | undefined
  /**
   * Whether the work that other code queues on the GPU is recorded, too: other libraries, such as PyTorch in the same process, and other threads.
   * This needs CUPTI, which comes with CUDA and with PyTorch. The simulator has no other code. Default false.
   */
  readonly everything?: boolean | undefined
  /**
   * Whether the simulator counts what kernels do, line by line, as `simulation.profile()`: the `profile` of each operation has it, and the page. Such
   * kernels take many times as long, but not in virtual time. A GPU counts nothing: ERR_UNSUPPORTED there. Default false.
   */
  readonly profile?: boolean | undefined
}

/** The options of the page. */
export interface HtmlOptions {
  /** The title of the page. Default 'Timeline'. */
  readonly title?: string | undefined
}

const MOST = 2 ** 28

/** The data of the page, for a page that itself records. */
export let pageDataOf: (timeline: Timeline) => PageData

/** A recording under way. */
export class TimelineSession implements AsyncDisposable, Disposable {
  /** @internal Keeps the object from being copied to another thread. */
  protected readonly cloning: symbol = notCloneable()
  readonly #session: Session

  /** Made by `Timeline.start()` alone. */
  private constructor(session: Session) {
    if (!(session instanceof Session))
      throw invalidType('TimelineSession', 'obtained from Timeline.start(options)', session)
    this.#session = session
    running.push(this)
  }

  /** @internal */
  static [construct](session: Session): TimelineSession {
    return new TimelineSession(session)
  }

  /**
   * Ends the recording at once, and resolves when all recorded work is done.
   * @throws {Error} (as a rejection) ERR_CLOSED if it was stopped before
   */
  async stop(): Promise<Timeline> {
    TimelineSession.#end(this)
    return timelineOf(await this.#session.stop())
  }

  /**
   * Ends the recording at once: operations that are not done yet have no end. For the end of a process.
   * @throws {Error} ERR_CLOSED if it was stopped before
   */
  stopNow(): Timeline {
    TimelineSession.#end(this)
    return timelineOf(this.#session.stopNow())
  }

  /** Ends the recording at once, as `stopNow()`, if it is under way, and throws it away: for `using`. */
  [Symbol.dispose](): void {
    const session = checkThis(this, TimelineSession.#is, 'a TimelineSession')
    if (!session.#session.stopped) session.stopNow()
  }

  /** Ends the recording, as `stop()`, if it is under way, waits for its work, and throws it away: for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    const session = checkThis(this, TimelineSession.#is, 'a TimelineSession')
    if (!session.#session.stopped) await session.stop()
  }

  static #end(value: TimelineSession): void {
    const recording = checkThis(value, TimelineSession.#is, 'a TimelineSession')
    if (recording.#session.stopped) throw stateError('ERR_CLOSED', 'This recording has already been stopped')
    running.splice(running.indexOf(recording), 1)
  }

  static #is(value: unknown): value is TimelineSession {
    return typeof value === 'object' && value !== null && #session in value
  }
}

const running: TimelineSession[] = []

/**
 * The work of a program's streams, and its times: nanoseconds since the recording began.
 * @example
 * ```ts
 * import { Timeline } from 'cuda-streams/timeline'
 *
 * const timeline = await Timeline.record(() => stream.copy(to, from))
 * await timeline.save('timeline.html')
 * ```
 */
export class Timeline {
  /** @internal Keeps it from being copied to another thread: send `toJson()`, or the plain objects that it has. */
  protected readonly cloning: symbol = notCloneable()
  readonly #trace: Trace
  #operations: readonly TimelineOperation[] | undefined
  #byRow: ReadonlyMap<number, TimelineOperation> | undefined
  #analysis: Analysis | undefined
  /** The streams that were used, each at its `index`; also those that only an overlapping recording saw. */
  readonly streams: readonly TimelineStream[]

  /** Made by `Timeline.record()` alone. */
  private constructor(trace: Trace, analysis?: Analysis) {
    if (!isTrace(trace)) throw invalidType('Timeline', 'obtained from Timeline.record(fn)', trace)
    this.#trace = trace
    this.#analysis = analysis
    this.streams = streamsOf(trace)
  }

  /** @internal */
  static [construct](trace: Trace, analysis?: Analysis): Timeline {
    return new Timeline(trace, analysis)
  }

  /**
   * Records the work that a function queues, and waits until all of it is done. Where the function throws or rejects,
   * so does this, and the recording is over.
   * @param fn A function, sync or async.
   * @param options `device` or `simulation`, `callSites`, `everything` and `profile` (default false), `limit` (default a million operations)
   * @throws {Error} (as a rejection) as `Timeline.start(options)`; ERR_INVALID_ARG_TYPE for no function; any error of
   * the function
   */
  static async record(fn: () => unknown, options?: TimelineOptions): Promise<Timeline> {
    checkFunction(fn, 'fn')
    const recording = Timeline.start(options)
    try {
      await fn()
    } catch (error) {
      if (running.includes(recording)) recording.stopNow()
      throw error
    }
    return recording.stop()
  }

  /**
   * Begins to record. Recordings may overlap; each has the operations between its own start and stop.
   * @param options `device` or `simulation`, `callSites`, `everything` and `profile` (default false), `limit` (default a million operations)
   * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_INVALID_ARG_VALUE for `device` and `simulation` together;
   * ERR_OUT_OF_RANGE for the limit, or a device that does not exist; ERR_UNSUPPORTED for `profile` on a GPU; for `everything`,
   * ERR_UNSUPPORTED without CUPTI or on other platforms than Linux, and LibraryError where another tool uses CUPTI
   */
  static start(options?: TimelineOptions): TimelineSession {
    const given = readOptions(options, ['device', 'simulation', 'callSites', 'limit', 'everything', 'profile'])
    const device = deviceFor(given)
    const { limit = DEFAULT_LIMIT } = given
    checkInteger(limit, 'options.limit', 1, MOST)
    const callSites = checkBoolean(given.callSites, 'options.callSites', false)
    const everything = checkBoolean(given.everything, 'options.everything', false)
    const profile = checkBoolean(given.profile, 'options.profile', false)
    const driver = driverOf(device)
    if (profile && driver.name !== 'sim') {
      const way = 'record a device of simulate(), or profile the program with Nsight Compute'
      throw stateError(
        'ERR_UNSUPPORTED',
        `options.profile is true, and only the simulator counts what kernels do: ${way}`,
      )
    }
    return TimelineSession[construct](new Session(driver, device.ordinal, limit, callSites, everything, profile))
  }

  /**
   * Stops the recording that was started last.
   * @throws {Error} (as a rejection) ERR_CLOSED if none is under way
   */
  static async stop(): Promise<Timeline> {
    const last = running.at(-1)
    if (last === undefined) throw stateError('ERR_CLOSED', 'No recording is under way: call Timeline.start() first')
    return last.stop()
  }

  /** The recorded driver: 'cuda', the NVIDIA driver, or 'sim', the simulator. */
  get driver(): 'cuda' | 'sim' {
    return Timeline.#traceOf(this).driver
  }

  /** The clock: 'virtual' on the simulator, which has exact times; 'host' on a GPU. */
  get clock(): 'virtual' | 'host' {
    return Timeline.#traceOf(this).clock
  }

  /** The nanoseconds from the beginning of the recording to its end, or to the end of the last operation, whichever is later. */
  get duration(): number {
    return Timeline.#traceOf(this).duration
  }

  /** The number of operations that came after the limit, and are not among `operations`. */
  get dropped(): number {
    return Timeline.#traceOf(this).dropped
  }

  /** The precision of each GPU's clock. Empty on the simulator, and if an overlapping recording still went on or waited. */
  get calibrations(): readonly Calibration[] {
    return Timeline.#traceOf(this).calibrations
  }

  /** The operations of streams, in the order of the calls. Always the same objects. */
  get operations(): readonly TimelineOperation[] {
    const trace = Timeline.#traceOf(this)
    this.#operations ??= rowsOf(trace, 'operations').map((row) => operationAt(trace, this.streams, row))
    return this.#operations
  }

  /** The calls in which the host blocked, or awaited, in the order of the calls. */
  get calls(): readonly TimelineCall[] {
    const trace = Timeline.#traceOf(this)
    return rowsOf(trace, 'calls').map((row) => callAt(trace, this.streams, row))
  }

  /** The chain of operations that ends with the last one, each held up by the one before: to be faster, begin here. */
  get criticalPath(): readonly TimelineOperation[] {
    return Timeline.#analysisOf(this).criticalPath.map((row) => this.#operation(row))
  }

  /** The times in which streams were idle between two operations, and why; the longest first. */
  get gaps(): readonly IdleGap[] {
    return Timeline.#analysisOf(this).gaps.map((gap) => gapOf(gap, this.streams, (row) => this.#operation(row)))
  }

  /** The summary: how busy each stream was, how much of each device's copies and kernels overlapped, and what held them up. */
  get summary(): TimelineSummary {
    return Timeline.#analysisOf(this).summary
  }

  /** The recording in the Trace Event format, as PyTorch's profiler writes it: an object for `JSON.stringify`. */
  toTraceEvents(): TraceFile {
    return toTraceEvents(Timeline.#traceOf(this))
  }

  /** The recording in the Trace Event format as text: open it at ui.perfetto.dev. */
  toJson(): string {
    return toJson(Timeline.#traceOf(this))
  }

  /**
   * One page with the whole recording, as text: save it and open it in a browser. It needs no network.
   * @param options `title` of the page (default 'Timeline')
   * @throws {Error} ERR_INVALID_ARG_TYPE
   */
  toHtml(options?: HtmlOptions): string {
    const analysis = Timeline.#analysisOf(this)
    const { title = 'Timeline' } = readOptions(options, ['title'])
    if (typeof title !== 'string') throw invalidType('options.title', 'a text', title)
    return toHtml(pageData(this.#trace, analysis, title))
  }

  /**
   * A picture for documents, as the text of an SVG file, in light or dark as the reader's system is.
   * @param options `width` in pixels (default 1200), `from` and `to` in nanoseconds (default: all), and more: see
   * SvgOptions
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for a width, or a stretch of no length
   */
  toSvg(options?: SvgOptions): string {
    const analysis = Timeline.#analysisOf(this)
    return toSvg(pageData(this.#trace, analysis, ''), options)
  }

  /** The summary as text: how busy streams and devices were, and what held them up, with what to write instead. */
  toText(): string {
    const { summary } = Timeline.#analysisOf(this)
    return toText(this.#trace, summary)
  }

  /**
   * Writes a file: `.html` (also `.htm`), `.json`, `.json.gz`, `.svg` or `.txt`, by its extension. Perfetto opens
   * `.json.gz` as it is; it is a twentieth as large.
   * @param path The path of the file.
   * @throws {Error} (as a rejection) ERR_INVALID_ARG_VALUE for another extension, ERR_INVALID_ARG_TYPE; any error of
   * the file system, such as ENOENT
   */
  async save(path: string): Promise<void> {
    const text = checkThis(this, Timeline.#is, 'a Timeline').render(path)
    await process.getBuiltinModule('node:fs').promises.writeFile(path, contentsOf(path, text))
  }

  /**
   * The text that `save` would write; for `.json.gz`, before it is compressed.
   * @param path The path of the file: only its extension matters.
   * @throws {Error} ERR_INVALID_ARG_VALUE for another extension than those of `save`, ERR_INVALID_ARG_TYPE
   */
  render(path: string): string {
    checkThis(this, Timeline.#is, 'a Timeline')
    if (typeof path !== 'string') throw invalidType('path', 'a text', path)
    switch (checkExtension(path, 'The path of a timeline').kind) {
      case 'json':
        return this.toJson()
      case 'svg':
        return this.toSvg()
      case 'txt':
        return this.toText()
      default:
        return this.toHtml()
    }
  }

  static #traceOf(timeline: Timeline): Trace {
    return checkThis(timeline, Timeline.#is, 'a Timeline').#trace
  }

  static #analysisOf(timeline: Timeline): Analysis {
    const trace = Timeline.#traceOf(timeline)
    timeline.#analysis ??= analyse(trace)
    return timeline.#analysis
  }

  #operation(row: number): TimelineOperation {
    this.#byRow ??= new Map(this.operations.map((operation) => [operation.id, operation]))
    const found = this.#byRow.get(row)
    if (found === undefined) throw new RangeError(`row ${row} is no operation`)
    return found
  }

  static #is(value: unknown): value is Timeline {
    return typeof value === 'object' && value !== null && #trace in value
  }

  static {
    pageDataOf = (timeline) => pageData(timeline.#trace, Timeline.#analysisOf(timeline), '')
  }
}

/** Makes the timeline of a recording that is over. Without an analysis it is made when it is asked for. */
export const timelineOf = (trace: Trace, analysis?: Analysis): Timeline => Timeline[construct](trace, analysis)

function deviceFor({ device, simulation }: Given<TimelineOptions, 'device' | 'simulation'>): Device {
  if (simulation === undefined) return resolveDevice(device)
  if (device !== undefined) throw invalidValue('Give either options.device or options.simulation, not both')
  const { devices = [] } = readProperties(simulation, ['devices'], 'options.simulation')
  const [first] = checkArray(devices, 'options.simulation.devices', 'an array of devices')
  if (!isDevice(first)) throw invalidType('options.simulation', 'what simulate() returned', simulation)
  return first
}

/** A stream of a timeline. */
export interface TimelineStream {
  /** The index of the stream among the timeline's streams, from 0. */
  readonly index: number
  /** The driver's number for the stream (`stream.id`); CUPTI's for a stream that only other code used. */
  readonly id: bigint
  /** The ordinal of the device. */
  readonly device: number
  /**
   * The stream's name, of its options or `nameStream`; otherwise 'stream 13', by `id`, or 'stream 13 (16 multiprocessors)' in a green context, 'null stream'
   * or 'per-thread stream', of device 1 'null stream of device 1'; 'foreign stream 13' if only other code used it.
   */
  readonly name: string
  /** The priority of the stream (`stream.priority`): lower numbers go first. */
  readonly priority: number
  /** The property `stream.nonBlocking`: false if the stream waits for the null stream, and the null stream for it. */
  readonly nonBlocking: boolean
  /** The multiprocessors of the green context that the stream is in; undefined if it is in none. */
  readonly multiprocessors: number | undefined
}

/** One operation of a stream. Times are nanoseconds since the recording began. */
export interface TimelineOperation {
  /** The index of the operation among the event records of the timeline, in the order of the calls. */
  readonly id: number
  /** The kind of the operation: 'kernel', 'copy', 'record' and so on. */
  readonly kind: OperationKind
  /** The name of a kernel; for other operations, their kind. */
  readonly name: string
  /** The stream on which the operation ran. */
  readonly stream: TimelineStream
  /** The bytes moved, filled or allocated; undefined if there are none. */
  readonly byteLength: number | undefined
  /** The time at which the call that queued the operation began. */
  readonly called: number
  /** The time at which that call returned. */
  readonly returned: number
  /**
   * The time at which the operation began to run; undefined if it had not when the recording was stopped. A wait begins when its stream gets there.
   */
  readonly start: number | undefined
  /** The time at which the operation was done; undefined if it was not when the recording was stopped. */
  readonly end: number | undefined
  /**
   * The `id` of the record that a wait refers to, if that was recorded. If the library lets a stream wait for memory, it is that of the operation
   * that makes the memory or uses it last.
   */
  readonly record: number | undefined
  /** The `id` of the launch, for a node of a graph. Only on the simulator, and on a GPU with the option `everything`. */
  readonly graph: number | undefined
  /** Whether other code queued the operation: another library, or another thread. Only with the option `everything`. */
  readonly foreign: boolean
  /** The place of the call as 'path:line:column', with the option `callSites`. */
  readonly callSite: string | undefined
  /**
   * What a kernel did, line by line, with the option `profile`. Undefined for other operations, for kernels that the simulator runs as JavaScript, for
   * those that faulted, and for those that had not run when the recording was stopped.
   */
  readonly profile: KernelProfile | undefined
}

/** A call that blocked the host, or a promise that it awaited. Times are nanoseconds since the recording began. */
export interface TimelineCall {
  /** The index of the call among the event records of the timeline, where operations have theirs, too. */
  readonly id: number
  /** The call as it is written: 'stream.synchronize()'. */
  readonly name: string
  /** Whether the call returned a promise, so that the host did other things meanwhile. */
  readonly awaits: boolean
  /** The stream that was waited for; undefined for a whole device. */
  readonly stream: TimelineStream | undefined
  /** The time at which the call was made. */
  readonly called: number
  /** The time at which the call returned, or its promise settled; `called` if neither had happened by the end. */
  readonly returned: number
  /** The place of the call as 'path:line:column', with the option `callSites`. */
  readonly callSite: string | undefined
}

/** A time in which a stream was idle between two operations. Times are nanoseconds since the recording began. */
export interface IdleGap {
  /** The stream that was idle. */
  readonly stream: TimelineStream
  /** The time at which the operation before the gap was done. */
  readonly begin: number
  /** The time at which `next` began. */
  readonly end: number
  /** The operation that could not begin sooner. */
  readonly next: TimelineOperation
  /** The reason: 'wait' for a wait in the stream, 'host' if the program had not queued the operation yet, and so on. */
  readonly reason: BindingKind
  /** The wait in the stream that held the operation up; undefined if there was none. */
  readonly wait: TimelineOperation | undefined
  /** The operation that was waited for; undefined if it was not recorded. */
  readonly cause: TimelineOperation | undefined
}

function streamsOf({ tracks, trackNames }: Trace): TimelineStream[] {
  return tracks.map(({ index, id, device, priority, nonBlocking, multiprocessors }) => {
    return { index, id, device, name: trackNames[index] ?? '', priority, nonBlocking, multiprocessors }
  })
}

function operationAt(trace: Trace, streams: readonly TimelineStream[], row: number): TimelineOperation {
  const stream = streams[trace.track[row] ?? 0]
  const kind = operationKind(trace.kind[row] ?? 0)
  if (stream === undefined || kind === undefined) {
    throw new RangeError(`row ${row} is no operation`)
  }
  return {
    id: row,
    kind,
    name: trace.name[row] ?? '',
    stream,
    byteLength: known(trace.bytes[row]),
    called: trace.called[row] ?? 0,
    returned: trace.returned[row] ?? 0,
    start: known(trace.start[row]),
    end: known(trace.end[row]),
    record: kind === 'wait' ? rowOrNone(trace.cause[row]) : undefined,
    graph: rowOrNone(trace.parent[row]),
    foreign: trace.foreign[row] === 1,
    callSite: trace.site[row] || undefined,
    profile: trace.profiles.get(row),
  }
}

function callAt(trace: Trace, streams: readonly TimelineStream[], row: number): TimelineCall {
  const isWholeDevice = (trace.cause[row] ?? NO_ROW) < NO_ROW
  return {
    id: row,
    name: trace.name[row] ?? '',
    awaits: trace.kind[row] === EventKind.AWAIT,
    stream: isWholeDevice ? undefined : streams[trace.track[row] ?? 0],
    called: trace.called[row] ?? 0,
    returned: trace.returned[row] ?? 0,
    callSite: trace.site[row] || undefined,
  }
}

/** The rows of the host's calls, or those of operations. */
const rowsOf = ({ kind }: Trace, which: 'calls' | 'operations'): number[] =>
  Array.from(kind.keys()).filter((row) => isHostOnly(kind[row] ?? 0) === (which === 'calls'))

function gapOf(
  { track, begin, end, next, reason, wait, cause }: Gap,
  streams: readonly TimelineStream[],
  operation: (row: number) => TimelineOperation,
): IdleGap {
  const stream = streams[track]
  if (stream === undefined) throw new RangeError(`no stream ${track}`)
  const orNone = (row: number): TimelineOperation | undefined => (row === NO_ROW ? undefined : operation(row))
  return { stream, begin, end, next: operation(next), reason, wait: orNone(wait), cause: orNone(cause) }
}

const known = (value: number | undefined): number | undefined =>
  value === undefined || Number.isNaN(value) ? undefined : value
const rowOrNone = (row: number | undefined): number | undefined => (row === undefined || row < 0 ? undefined : row)

const KNOWN = /\.(html|htm|json|svg|txt)$|\.(json)\.gz$/i

/** The kind of file that a path stands for. `option` names where the path was given. */
export function checkExtension(path: string, option: string): { readonly kind: string; readonly extension: string } {
  const [extension = '', plain, compressed = ''] = KNOWN.exec(path) ?? []
  if (extension === '') throw invalidValue(`${option} must end in .html, .json, .json.gz, .svg or .txt, not '${path}'`)
  return { kind: (plain ?? compressed).toLowerCase(), extension }
}

/** The contents of the file: text, or compressed text. */
export const contentsOf = (path: string, text: string): string | Uint8Array =>
  path.toLowerCase().endsWith('.gz') ? gzip(text) : text
