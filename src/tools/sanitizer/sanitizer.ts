/**
 * Finds missing waits: two uses of the same memory that nothing orders. A sanitizer stands before a driver, real or simulated, and follows the calls;
 * one run covers every timing of the GPU that this order of calls can have.
 */

import { whenDriverOpens } from '../../core/default-driver.js'
import { another, type Device, driverOf, resolveDevice } from '../../core/device.js'
import { type Event, eventImplOf } from '../../core/event.js'
import { isMemory, openMemory } from '../../core/memory/buffer.js'
import type { DeviceBuffer } from '../../core/memory/device-buffer.js'
import type { PinnedBuffer } from '../../core/memory/pinned-buffer.js'
import { isStream, type Stream } from '../../core/stream.js'
import { whenNameIsGiven } from '../../core/stream-names.js'
import { openStream } from '../../core/streams/stream-impl.js'
import {
  checkArray,
  checkBoolean,
  checkChoice,
  checkFunction,
  checkInteger,
  checkThis,
  readOptions,
} from '../../foundation/base/arguments.js'
import { noteClosingPlaces } from '../../foundation/base/closing-places.js'
import { invalidType, stateError } from '../../foundation/base/errors.js'
import { construct, notCloneable } from '../../foundation/base/library-object.js'
import { process } from '../../foundation/base/node-modules.js'
import { printError } from '../../foundation/base/standard-error.js'
import { isInTestRunner } from '../../foundation/base/test-runner.js'
import { throwUncaught } from '../../foundation/base/uncaught.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { EventHandle, StreamHandle } from '../../foundation/driver/handle-types.js'
import { type TouchedMemory, touching } from '../../foundation/driver/touched-memory.js'
import { type WrappableDriver, whenDriverIsMade } from '../../foundation/driver/wrappable-driver.js'
import { checkContinuations } from './continuations.js'
import type { Detector } from './detector.js'
import {
  Findings,
  MODES,
  SanitizerError,
  type SanitizerMode,
  type SanitizerReport,
  type Suppression,
  type SuppressionUse,
} from './findings.js'
import { STACK_MODES, type StackMode, Stacks } from './operations.js'
import { SanitizerInterceptor } from './sanitizer-interceptor.js'

/** The options of a sanitizer. */
export interface SanitizerOptions {
  /**
   * The way in which findings are reported:
   * - `collect` (default): in `reports`
   * - `throw`: besides, the call that completes a race throws a `SanitizerError`; copies, fills and kernels are not
   *   queued then
   * - `print`: on stderr, when the process ends or at `stop()`
   */
  readonly mode?: SanitizerMode | undefined
  /** A device of the driver to watch: all devices of that driver are watched. Default: the default driver, once it is opened. */
  readonly device?: Device | number | undefined
  /**
   * The calls whose stacks are taken, which costs more than the rest. `sampled` (default): the first sixteen uses of
   * one piece of memory by one stream, and then one of sixty-four; `all`; or `none`.
   */
  readonly stacks?: 'sampled' | 'all' | 'none' | undefined
  /**
   * Queues the wait that is missing before the work that lacks it, or lets JavaScript wait where it lacks one, so that
   * the program runs right while it is fixed. Reports say whether that could be done. Default false.
   */
  readonly fix?: boolean | undefined
  /**
   * The findings that are not to be reported, thrown or fixed, and why. Those that were held back are listed where the findings are printed.
   * Default: nothing.
   */
  readonly suppress?: readonly Suppression[] | undefined
  /**
   * JavaScript's waits order only what comes of them: an `await` the code behind it, a callback what that does. What has
   * ended by chance meanwhile is not known then, and a `query()` is answered with `false` where `true` would be chance,
   * unless it is asked again. On Node alone. Default false: all that is queued after a wait comes after it.
   */
  readonly causal?: boolean | undefined
  /** Whether each finding is printed when it is found, instead of at the end. Default false. */
  readonly atOnce?: boolean | undefined
  /** The exit code of the process, 1 to 255, if there is an error among the findings. Default: the code that it has without. */
  readonly exitCode?: number | undefined
}

/** The present size of a sanitizer's memory. */
export interface SanitizerStatistics {
  /** The number of ranges of bytes with the operations that still matter for them. */
  readonly ranges: number
  /** The number of pieces of memory; up to 4096 that were given back are among them. */
  readonly regions: number
  /** The number of streams and branches of graphs. */
  readonly components: number
  /** The number of events that are not closed. */
  readonly events: number
}

const running = new Set<Sanitizer>()

/** The sanitizers that have something to do when the process ends. They share their listeners, since Node warns of many. */
const atEnd = new Set<Sanitizer>()
let endAll: () => void
const KEYS = ['mode', 'fix', 'causal', 'device', 'stacks', 'suppress', 'atOnce', 'exitCode'] as const
const SIGNALS = ['SIGINT', 'SIGTERM'] as const

/** Prints the findings, and sends the signal again if the program does not listen to it, so that the process ends. */
function endBySignal(signal: NodeJS.Signals): void {
  endAll()
  listen('off')
  atEnd.clear()
  if (process.listenerCount(signal) === 0) process.kill(process.pid, signal)
}

function listen(how: 'on' | 'off'): void {
  process[how]('exit', endAll)
  for (const signal of SIGNALS) process[how](signal, endBySignal)
}

/** The checked options of a sanitizer. */
interface Settings {
  readonly mode: SanitizerMode
  readonly fix: boolean
  readonly causal: boolean
  readonly device: Device | undefined
  readonly stacks: StackMode
  readonly suppress: readonly Suppression[]
  readonly atOnce: boolean
  readonly exitCode: number | undefined
  /** Whether the simulations that the program makes while the sanitizer runs are watched, too, if there is no device. */
  readonly withSimulations: boolean
  /**
   * Whether errors have to fail tests: in a test runner, whose workers' ends and exit codes are lost, each error is an uncaught one, and warnings
   * are printed at once.
   */
  readonly failsTests: boolean
}

/** The argument that lets only this file make sanitizers. */
class Start {
  constructor(readonly settings: Settings) {}
}

/** The detectors that watch a driver. */
let detectorsOn: (driver: Driver) => readonly Detector[]

/**
 * Looks for missing waits while it runs.
 * @example
 * ```ts
 * import { Sanitizer } from 'cuda-streams/sanitizer'
 *
 * using sanitizer = Sanitizer.start()
 * ours.fill(buffer, 1)
 * theirs.fill(buffer, 2) // nothing orders the two
 * console.log(sanitizer.reports[0]?.message)
 * ```
 */
export class Sanitizer implements Disposable {
  /** The way in which findings are reported. */
  readonly mode: SanitizerMode
  /** @internal Keeps the object from being copied to another thread. */
  protected readonly cloning: symbol = notCloneable()
  readonly #findings: Findings
  readonly #takeBack: (() => void)[] = []
  readonly #prints: boolean
  readonly #exitCode: number | undefined
  /** The drivers that the sanitizer watches, with their detectors. */
  readonly #watched: { readonly driver: Driver; readonly detector: Detector; readonly unwrap: () => void }[] = []
  #stopped = false
  /** Whether the process ends, so that no uncaught error can follow. */
  #ends = false
  /** The reports that a test runner has got already. */
  readonly #told = new Set<SanitizerReport>()

  /** Made by `Sanitizer.start()` alone. */
  private constructor(start: Start) {
    if (!(start instanceof Start)) throw invalidType('Sanitizer', 'obtained from Sanitizer.start(options)', start)
    const { mode, fix, causal, device, stacks, suppress, atOnce, exitCode, withSimulations, failsTests } =
      start.settings
    this.mode = mode
    this.#prints = mode === 'print' && !atOnce
    this.#exitCode = exitCode
    const onReport = (report: SanitizerReport): void => {
      if (failsTests && !this.#ends && isInTestRunner()) this.#tell(report)
      else if (atOnce) printError(report.message)
    }
    this.#findings = new Findings({ mode, fix, suppress, onReport })
    const wrap = (driver: WrappableDriver): void => this.#wrap(driver, stacks, causal)
    if (device !== undefined) wrap(driverOf(device))
    else {
      this.#takeBack.push(whenDriverOpens(wrap))
      if (withSimulations) this.#takeBack.push(whenDriverIsMade(wrap))
    }
    if (this.#prints || exitCode !== undefined || suppress.length > 0) {
      if (atEnd.size === 0) listen('on')
      atEnd.add(this)
    }
    this.#takeBack.push(noteClosingPlaces())
    running.add(this)
  }

  /** @internal */
  static [construct](start: Start): Sanitizer {
    return new Sanitizer(start)
  }

  /**
   * Looks at all work that is queued from now on. Without a device nothing is opened: it begins with the default
   * driver.
   * @param options `mode` (default 'collect'), `device` (default: the default driver's), `stacks` (default 'sampled'),
   * `fix`, `causal`, `suppress`, `atOnce` and `exitCode`: see SanitizerOptions
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE; ERR_OUT_OF_RANGE for a device that does not exist, and
   * an `exitCode` that is none; ERR_UNSUPPORTED for `causal` where the run time has no promise hooks, as Bun and Deno
   */
  static start(options?: SanitizerOptions): Sanitizer {
    return startWatching(options, false)
  }

  /** The sanitizers that have not been stopped, that of CUDA_STREAMS_SANITIZER among them. */
  static get running(): readonly Sanitizer[] {
    return [...running]
  }

  /** The findings so far, in their order; a hundred at most. */
  get reports(): readonly SanitizerReport[] {
    const sanitizer = checkThis(this, Sanitizer.#is, 'a Sanitizer')
    // Kernels that have not run by now are taken by what their launches say.
    for (const { detector } of sanitizer.#watched) detector.reportHeld()
    return sanitizer.#findings.reports
  }

  /** The suppressions, with the number of different findings that each has held back. */
  get suppressed(): readonly SuppressionUse[] {
    return checkThis(this, Sanitizer.#is, 'a Sanitizer').#findings.suppressed
  }

  /** The present size of the sanitizer's memory. */
  get statistics(): SanitizerStatistics {
    const sum = { ranges: 0, regions: 0, components: 0, events: 0 }
    for (const { detector } of checkThis(this, Sanitizer.#is, 'a Sanitizer').#watched) {
      const { order, regions } = detector
      sum.ranges += regions.rangeCount
      sum.regions += regions.count
      sum.components += order.components.count
      sum.events += order.events.count
    }
    return sum
  }

  /** Ends the observation. The reports stay. May be called twice. */
  stop(): void {
    const sanitizer = checkThis(this, Sanitizer.#is, 'a Sanitizer')
    if (sanitizer.#stopped) return
    this.#stopped = true
    running.delete(this)
    for (const takeBack of this.#takeBack) takeBack()
    for (const { detector, unwrap } of this.#watched) {
      detector.reportHeld()
      detector.order.stop()
      detector.exchange.stop()
      unwrap()
    }
    if (!atEnd.delete(this)) return
    if (atEnd.size === 0) listen('off')
    this.#end()
  }

  /** Ends the observation as `stop()` does, for `using`. */
  [Symbol.dispose](): void {
    checkThis(this, Sanitizer.#is, 'a Sanitizer').stop()
  }

  #wrap(driver: WrappableDriver, stacks: StackMode, isCausal: boolean): void {
    const { wrapper, unwrap } = driver.wrap(
      (inner) => new SanitizerInterceptor(inner, this.#findings, new Stacks(stacks), isCausal),
    )
    this.#watched.push({ driver, detector: wrapper.detector, unwrap })
  }

  #tell(report: SanitizerReport): void {
    this.#told.add(report)
    if (isUnfixedError(report)) throwUncaught(new SanitizerError([report]))
    else printError(report.message)
  }

  #end(): void {
    this.#ends = true
    for (const { detector } of this.#watched) detector.reportHeld()
    const { suppressed } = this.#findings
    const reports = this.#findings.reports.filter((report) => !this.#told.has(report))
    if (this.#prints && reports.length > 0) {
      const fixed = reports.filter((report) => report.fixed).length
      const ofThem = fixed === 0 ? '' : `, ${fixed} fixed`
      const texts = reports.map(({ message }) => message).join('\n\n')
      printError(`cuda-streams sanitizer: ${reports.length} finding(s)${ofThem}\n\n${texts}`)
    }
    for (const { match, reason, count } of suppressed) {
      if (this.mode !== 'collect')
        printError(`cuda-streams sanitizer: ${count} finding(s) with '${match}' suppressed: ${reason}`)
    }
    const isError = this.#findings.reports.some(isUnfixedError)
    if (isError && this.#exitCode !== undefined) process.exitCode ||= this.#exitCode
  }

  static {
    detectorsOn = (driver) =>
      [...running].flatMap((one) => one.#watched.flatMap((each) => (each.driver === driver ? [each.detector] : [])))
    endAll = () => {
      for (const one of atEnd) one.#end()
    }
  }

  static #is(value: unknown): value is Sanitizer {
    return typeof value === 'object' && value !== null && #findings in value
  }
}

const isUnfixedError = ({ severity, fixed }: SanitizerReport): boolean => severity === 'error' && fixed !== true

/** @internal Starts the sanitizer of the environment variable, which in 'print' mode fails the tests of a runner. */
export const startForProcess = (options: SanitizerOptions): Sanitizer =>
  startWatching(options, false, options.mode === 'print')

function startWatching(options: SanitizerOptions | undefined, withSimulations: boolean, failsTests = false): Sanitizer {
  const given = readOptions(options, KEYS)
  const { mode = 'collect', device, stacks = 'sampled', suppress = [], exitCode } = given
  const settings: Settings = {
    device: device === undefined ? undefined : resolveDevice(device),
    mode: checkChoice(mode, 'options.mode', MODES),
    stacks: checkChoice(stacks, 'options.stacks', STACK_MODES),
    fix: checkBoolean(given.fix, 'options.fix', false),
    causal: checkCausal(given.causal),
    atOnce: checkBoolean(given.atOnce, 'options.atOnce', false),
    exitCode: exitCode === undefined ? undefined : checkInteger(exitCode, 'options.exitCode', 1, 255),
    suppress: checkSuppressions(suppress),
    withSimulations,
    failsTests,
  }
  return Sanitizer[construct](new Start(settings))
}

function checkCausal(given: unknown): boolean {
  const causal = checkBoolean(given, 'options.causal', false)
  if (causal) checkContinuations()
  return causal
}

function checkSuppressions(given: unknown): readonly Suppression[] {
  return checkArray(given, 'options.suppress', 'an array of { match, reason }').map((each, index) => {
    const name = `options.suppress[${index}]`
    const { match, reason } = readOptions(each as Suppression | undefined, ['match', 'reason'], name)
    for (const [key, text] of Object.entries({ match, reason })) {
      if (typeof text !== 'string' || text === '') throw invalidType(`${name}.${key}`, 'a text that is not empty', text)
    }
    return { match: String(match), reason: String(reason) }
  })
}

/**
 * Runs a function under a sanitizer, and waits for it. Without `device` it watches the default driver, and the machines that `simulate()`
 * makes meanwhile; one that was made before has to be given by one of its devices.
 * @param fn A function, sync or async.
 * @param options `device`, `stacks`, `causal` and `suppress`, as for `Sanitizer.start()`
 * @returns a promise of the function's result
 * @throws {Error} (as a rejection) a SanitizerError, ERR_RACE, with the findings, warnings aside, and with the error of the
 * function as its `cause`; else any error of the function; for wrong options as `Sanitizer.start()`
 * @example
 * ```ts
 * import { sanitize } from 'cuda-streams/sanitizer'
 *
 * await sanitize(async () => {
 *   await stream.upload(buffer, float32Array)
 *   await stream.download(buffer)
 * })
 * ```
 */
export async function sanitize<R>(
  fn: () => R | Promise<R>,
  options?: Pick<SanitizerOptions, 'device' | 'stacks' | 'causal' | 'suppress'>,
): Promise<R> {
  checkFunction(fn, 'fn')
  const { device, stacks, causal, suppress } = readOptions(options, ['device', 'stacks', 'causal', 'suppress'])
  const sanitizer = startWatching({ device, stacks, causal, suppress, mode: 'collect' }, true)
  const refuseRaces = (options?: { readonly cause: unknown }): void => {
    const errors = sanitizer.reports.filter(({ severity }) => severity === 'error')
    if (errors.length > 0) throw new SanitizerError(errors, options)
  }
  try {
    let result: R
    try {
      result = await fn()
    } catch (cause) {
      // An assertion often fails first for what a race has done to the data, so the report of the race comes with that error as its cause.
      refuseRaces({ cause })
      throw cause
    }
    refuseRaces()
    return result
  } finally {
    sanitizer.stop()
  }
}

/** @internal Follows what programs declare of the work of other libraries. */
export interface DeclarationListener {
  accessed(driver: Driver, stream: StreamHandle, memory: readonly TouchedMemory[], what: string): void
  waitedForEvent(driver: Driver, stream: StreamHandle, event: EventHandle): void
  waitedForStream(driver: Driver, stream: StreamHandle, other: StreamHandle): void
}
const declarationListeners = new Set<DeclarationListener>()

/** @internal Calls the listener with all that the program declares from now on. */
export function whenDeclared(listener: DeclarationListener): void {
  declarationListeners.add(listener)
}

/** The memory that work of another library touches. */
export interface DeclaredAccess {
  /** The buffers that the work reads. Default: none. */
  readonly reads?: readonly (DeviceBuffer | PinnedBuffer)[] | undefined
  /** The buffers that the work writes, or reads and writes. Default: none. */
  readonly writes?: readonly (DeviceBuffer | PinnedBuffer)[] | undefined
}

/**
 * Declares the work that another library has just queued on a stream: no call of this library shows it. Has no
 * effect while no sanitizer runs.
 * @param stream The stream of the work.
 * @param access `reads` and `writes`: the buffers that it uses
 * @param what The name of the work in reports. Default 'work of another library'.
 * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_CLOSED, ERR_DEVICE_MISMATCH; a SanitizerError, ERR_RACE, in 'throw' mode
 * @example
 * ```ts
 * import { declareAccess } from 'cuda-streams/sanitizer'
 *
 * declareAccess(theirs, { reads: [x], writes: [y] }, 'torch.matmul')
 * ```
 */
export function declareAccess(stream: Stream, access: DeclaredAccess, what = 'work of another library'): void {
  const { reads = [], writes = [] } = readOptions(access, ['reads', 'writes'], 'access')
  const written = checkArray(writes, 'access.writes', 'an array of buffers')
  const read = checkArray(reads, 'access.reads', 'an array of buffers')
  if (typeof what !== 'string') throw invalidType('what', 'a string', what)
  const { driver, handle } = openedStream(stream, 'stream')
  const memory = [...touched(written, 'access.writes', 'out', driver), ...touched(read, 'access.reads', 'in', driver)]
  for (const detector of detectorsOn(driver)) detector.work(handle, what, memory)
  for (const listener of declarationListeners) listener.accessed(driver, handle, memory, what)
}

/**
 * Declares that another library has just made a stream wait: for an event, or for all queued work of another stream.
 * Has no effect while no sanitizer runs.
 * @param stream The stream that waits.
 * @param target The event or stream that it waits for.
 * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_CLOSED; ERR_DEVICE_MISMATCH for an object of another driver
 */
export function declareWait(stream: Stream, target: Event | Stream): void {
  const { driver, handle } = openedStream(stream, 'stream')
  const own = eventImplOf(target)
  if (own !== undefined) {
    const event = own.openFor(driver)
    for (const detector of detectorsOn(driver)) detector.order.wait(handle, event, false)
    for (const listener of declarationListeners) listener.waitedForEvent(driver, handle, event)
    return
  }
  const other = openedStream(target, 'target')
  if (other.driver !== driver) {
    throw stateError(
      'ERR_DEVICE_MISMATCH',
      `${target} belongs to ${another(other.driver, driver)} than ${stream}, which cannot wait for it`,
    )
  }
  for (const detector of detectorsOn(driver)) detector.order.waitForStream(handle, other.handle)
  for (const listener of declarationListeners) listener.waitedForStream(driver, handle, other.handle)
}

whenNameIsGiven(({ driver, stream, name }) => {
  for (const detector of detectorsOn(driver)) detector.order.streams.at(stream).name = name
})

function openedStream(stream: unknown, name: string): ReturnType<typeof openStream> {
  if (!isStream(stream)) throw invalidType(name, 'a Stream', stream)
  return openStream(stream)
}

function touched(buffers: readonly unknown[], name: string, access: 'in' | 'out', driver: Driver): TouchedMemory[] {
  return buffers.map((buffer) => {
    if (!isMemory(buffer)) throw invalidType(name, 'an array of DeviceBuffers and PinnedBuffers', buffer)
    return touching(openMemory(buffer, driver).pointer, buffer.byteLength, access)
  })
}
