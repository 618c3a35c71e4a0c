/** What ran when: recorded from any driver, for Perfetto, for a page to look at, and for programs. */
import { writeFile } from '#platform'
import {
  checkArray,
  checkBoolean,
  checkFunction,
  checkInteger,
  checkThis,
  type Given,
  readOptions,
  readProperties,
} from '../base/arguments.js'
import { invalidType, invalidValue, stateError } from '../base/errors.js'
import { notCloneable } from '../base/library-object.js'
import { type Device, driverOf, isDevice, resolveDevice } from '../device.js'
import type { Simulation } from '../simulation/simulation.js'
import { type Analysis, analyse } from './analysis.js'
import { checkExtension, contentsOf } from './file-format.js'
import { toHtml } from './html.js'
import type { Calibration } from './meter.js'
import {
  callAt,
  gapOf,
  type IdleGap,
  operationAt,
  rowsOf,
  streamsOf,
  type TimelineCall,
  type TimelineOperation,
  type TimelineStream,
} from './operations.js'
import { pageData } from './page-data.js'
import type { PageData } from './page-format.js'
import { DEFAULT_LIMIT, Session } from './session.js'
import type { TimelineSummary } from './summary.js'
import { type SvgOptions, toSvg } from './svg.js'
import { toText } from './text.js'
import { isTrace, type Trace } from './trace.js'
import { type TraceFile, toJson, toTraceEvents } from './trace-events.js'

/** The options of a recording. */
export interface TimelineOptions {
  /** A device of the driver to record: all devices of that driver are recorded. Default: the current device. */
  readonly device?: Device | number | undefined
  /** Instead of a device: a simulated machine. Excludes `device`. */
  readonly simulation?: Simulation | undefined
  /** Writes down where in the program each call was made. Costs about ten microseconds a call. Default false. */
  readonly callSites?: boolean | undefined
  /**
   * Most operations that are recorded, from 1 to 2 ** 28; later ones are only counted (`dropped`). Default a million.
   */
  readonly limit?: number | undefined
  /**
   * Records also what other code queues on the GPU: other libraries, such as PyTorch in the same process, and other
   * threads. It needs CUPTI, which comes with CUDA and with PyTorch. The simulator has no other code. Default false.
   */
  readonly everything?: boolean | undefined
}

/** The options of the page. */
export interface HtmlOptions {
  /** The title of the page. Default 'Timeline'. */
  readonly title?: string | undefined
}

const MOST = 2 ** 28

let isRecording: (value: unknown) => value is Recording
let isTimeline: (value: unknown) => value is Timeline
let record: (session: Session) => Recording
/** The timeline of a recording that is over. */
export let timelineOf: (trace: Trace) => Timeline
/** What a page draws, for a page that draws it in the place where it was recorded. */
export let pageDataOf: (timeline: Timeline) => PageData

/** A recording under way. */
export class Recording {
  /** @internal Keeps it from being copied to another thread. */
  protected readonly cloning: symbol = notCloneable()
  readonly #session: Session

  /** Use `Timeline.start()`. */
  private constructor(session: Session) {
    if (!(session instanceof Session)) throw invalidType('Recording', 'obtained from Timeline.start(options)', session)
    this.#session = session
    running.push(this)
  }

  /**
   * Ends the recording at once, and resolves when all recorded work is done.
   * @throws {Error} (as a rejection) ERR_CLOSED where it was stopped before
   */
  async stop(): Promise<Timeline> {
    Recording.#end(this)
    return timelineOf(await this.#session.stop())
  }

  /**
   * Ends the recording at once: operations that are not done yet have no end. For the end of a process.
   * @throws {Error} ERR_CLOSED where it was stopped before
   */
  stopNow(): Timeline {
    Recording.#end(this)
    return timelineOf(this.#session.stopNow())
  }

  static #end(value: Recording): void {
    const recording = checkThis(value, isRecording, 'a Recording')
    if (recording.#session.stopped) throw stateError('ERR_CLOSED', 'This recording was stopped before')
    running.splice(running.indexOf(recording), 1)
  }

  static {
    record = (session) => new Recording(session)
    isRecording = (value): value is Recording => typeof value === 'object' && value !== null && #session in value
  }
}

const running: Recording[] = []

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

  /** Use `Timeline.record()`. */
  private constructor(trace: Trace) {
    if (!isTrace(trace)) throw invalidType('Timeline', 'obtained from Timeline.record(fn)', trace)
    this.#trace = trace
    this.streams = streamsOf(trace)
  }

  /**
   * Records the work that a function queues, and waits until all of it is done. Where the function throws or rejects,
   * so does this, and the recording is over.
   * @param fn A function, sync or async.
   * @param options `device` or `simulation`, `callSites` and `everything` (default false), `limit` (default a million operations)
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
   * @param options `device` or `simulation`, `callSites` and `everything` (default false), `limit` (default a million operations)
   * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_INVALID_ARG_VALUE for `device` and `simulation` together;
   * ERR_OUT_OF_RANGE for the limit, or a device that does not exist; for `everything`, ERR_UNSUPPORTED without CUPTI or on
   * other platforms than Linux, and LibraryError where another tool uses CUPTI
   */
  static start(options?: TimelineOptions): Recording {
    const given = readOptions(options, ['device', 'simulation', 'callSites', 'limit', 'everything'])
    const device = deviceFor(given)
    const { limit = DEFAULT_LIMIT } = given
    checkInteger(limit, 'options.limit', 1, MOST)
    const callSites = checkBoolean(given.callSites, 'options.callSites', false)
    const everything = checkBoolean(given.everything, 'options.everything', false)
    return record(new Session(driverOf(device), device.ordinal, limit, callSites, everything))
  }

  /**
   * Stops the recording that was started last.
   * @throws {Error} (as a rejection) ERR_CLOSED where none is under way
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

  /** 'virtual' on the simulator, which has exact times; 'host' on a GPU. */
  get clock(): 'virtual' | 'host' {
    return Timeline.#traceOf(this).clock
  }

  /**
   * Nanoseconds from the beginning of the recording to its end, or to the end of the last operation, whichever is
   * later.
   */
  get duration(): number {
    return Timeline.#traceOf(this).duration
  }

  /** The number of operations that came after the limit, and are not among `operations`. */
  get dropped(): number {
    return Timeline.#traceOf(this).dropped
  }

  /**
   * The precision of each GPU's clock. Empty on the simulator, and where an overlapping recording still went on or
   * waited.
   */
  get calibrations(): readonly Calibration[] {
    return Timeline.#traceOf(this).calibrations
  }

  /** The operations of streams, in the order of the calls. Always the same objects. */
  get operations(): readonly TimelineOperation[] {
    const trace = Timeline.#traceOf(this)
    this.#operations ??= rowsOf(trace, 'operations').map((row) => operationAt(trace, this.streams, row))
    return this.#operations
  }

  /** Where the host blocked, or awaited, in the order of the calls. */
  get calls(): readonly TimelineCall[] {
    const trace = Timeline.#traceOf(this)
    return rowsOf(trace, 'calls').map((row) => callAt(trace, this.streams, row))
  }

  /** The chain of operations that ends with the last one, each held up by the one before: to be faster, begin here. */
  get criticalPath(): readonly TimelineOperation[] {
    return Timeline.#analysisOf(this).criticalPath.map((row) => this.#operation(row))
  }

  /** Where streams stood idle between two operations, and why; the longest first. */
  get gaps(): readonly IdleGap[] {
    return Timeline.#analysisOf(this).gaps.map((gap) => gapOf(gap, this.streams, (row) => this.#operation(row)))
  }

  /** How busy each stream was, how much of each device's copies and kernels overlapped, and what held them up. */
  get summary(): TimelineSummary {
    return Timeline.#analysisOf(this).summary
  }

  /** The recording in the Trace Event format, as PyTorch's profiler writes it: an object for `JSON.stringify`. */
  toTraceEvents(): TraceFile {
    return toTraceEvents(Timeline.#traceOf(this))
  }

  /** The same as text: open it at ui.perfetto.dev. */
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
    const text = checkThis(this, isTimeline, 'a Timeline').render(path)
    await writeFile(path, contentsOf(path, text))
  }

  /**
   * The text that `save` would write; for `.json.gz`, before it is compressed.
   * @param path The path of the file: only its extension matters.
   * @throws {Error} ERR_INVALID_ARG_VALUE for another extension than those of `save`, ERR_INVALID_ARG_TYPE
   */
  render(path: string): string {
    checkThis(this, isTimeline, 'a Timeline')
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
    return checkThis(timeline, isTimeline, 'a Timeline').#trace
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

  static {
    timelineOf = (trace) => new Timeline(trace)
    pageDataOf = (timeline) => pageData(timeline.#trace, Timeline.#analysisOf(timeline), '')
    isTimeline = (value): value is Timeline => typeof value === 'object' && value !== null && #trace in value
  }
}

function deviceFor({ device, simulation }: Given<TimelineOptions, 'device' | 'simulation'>): Device {
  if (simulation === undefined) return resolveDevice(device)
  if (device !== undefined) throw invalidValue('Give either options.device or options.simulation, not both')
  const { devices = [] } = readProperties(simulation, ['devices'], 'options.simulation')
  const [first] = checkArray(devices, 'options.simulation.devices', 'an array of devices')
  if (!isDevice(first)) throw invalidType('options.simulation', 'what simulate() returned', simulation)
  return first
}
