/**
 * Finds missing waits: two uses of the same memory that nothing orders. It stands before a driver, real or simulated, and
 * follows the calls; one run covers every timing of the GPU that this order of calls can have.
 */
import { checkArray, checkChoice, checkFunction, checkThis, isInstance, readOptions } from '../base/arguments.js'
import { invalidType, stateError } from '../base/errors.js'
import { notCloneable } from '../base/identity.js'
import { another, type Device, driverOf, resolveDevice } from '../device.js'
import { whenDriverOpens } from '../driver/default-driver.js'
import type { Driver } from '../driver/driver.js'
import { whenNameIsGiven } from '../driver/stream-names.js'
import type { WrappableDriver } from '../driver/wrappable-driver.js'
import { type Event, eventCoreOf } from '../event.js'
import '../shortcuts.js'
import '../memory/device-buffer.js'
import { isMemory, openMemory } from '../memory/buffer.js'
import type { DeviceBuffer } from '../memory/device-buffer.js'
import type { PinnedBuffer } from '../memory/pinned-buffer.js'
import type { Stream } from '../stream.js'
import { isStream, openStream } from '../streams/stream-core.js'
import type { Stacks } from './detector.js'
import { Findings, SanitizerError } from './findings.js'
import { checkMode, type SanitizerMode } from './modes.js'
import type { Touched } from './operations.js'
import type { SanitizerReport } from './reports.js'
import { SanitizerDriver } from './sanitizer-driver.js'
import '../memory/transfers.js'

/** What a sanitizer looks at, and how it tells what it finds. */
export interface SanitizerOptions {
  /**
   * - `collect` (default): what is found stands in `reports`
   * - `throw`: besides, the call that completes a race throws a `SanitizerError`; copies, fills and kernels are not queued then
   * - `print`: what is found is printed to stderr when the process ends, or at `stop()`
   */
  readonly mode?: SanitizerMode | undefined
  /** A device of the driver to look at: all devices of that driver are. Default: the default driver, once it is opened. */
  readonly device?: Device | number | undefined
  /**
   * Whose stacks are taken, which costs more than the rest. `sampled` (default): the first sixteen of what one stream does
   * with one piece of memory, and then one of sixty-four; `all`; or `none`.
   */
  readonly stacks?: 'sampled' | 'all' | 'none' | undefined
}

/** How much a sanitizer remembers at present. */
export interface SanitizerStatistics {
  /** Ranges of bytes with the operations that still matter for them. */
  readonly ranges: number
  /** Pieces of memory; up to 4096 that were given back are among them. */
  readonly regions: number
  /** Streams and branches of graphs. */
  readonly strands: number
  /** Events that are not closed. */
  readonly events: number
}

const STACKS: readonly Stacks[] = ['sampled', 'all', 'none']

const running = new Set<Sanitizer>()

/** Sanitizers that print when the process ends. Together they have one listener: Node warns of a leak where it has many. */
const printing = new Set<Sanitizer>()
let printAll: () => void

/** Lets only this file make sanitizers. */
class Start {
  readonly mode: SanitizerMode
  readonly device: Device | undefined
  readonly stacks: Stacks
  constructor(mode: SanitizerMode, device: Device | undefined, stacks: Stacks) {
    this.mode = mode
    this.device = device
    this.stacks = stacks
  }
}

/** The sanitizers that look at a driver. */
let wrappersOn: (driver: Driver) => readonly SanitizerDriver[]
let isSanitizer: (value: unknown) => value is Sanitizer

/** Looks for missing waits while it runs. */
export class Sanitizer implements Disposable {
  /** How it tells what it finds. */
  readonly mode: SanitizerMode
  /** Keeps it from being copied to another thread. */
  protected readonly cloning: symbol = notCloneable()
  readonly #findings: Findings
  readonly #takeBack: () => void
  #front: WrappableDriver | undefined
  #wrapper: SanitizerDriver | undefined
  #unwrap: (() => void) | undefined
  #stopped = false

  /** Use `Sanitizer.start()`. */
  private constructor(start: Start) {
    if (!isInstance(start, Start)) throw invalidType('Sanitizer', 'had from Sanitizer.start(options)', start)
    const { mode, device, stacks } = start
    this.mode = mode
    this.#findings = new Findings(mode === 'throw')
    const wrap = (driver: WrappableDriver): void => this.#wrap(driver, stacks)
    if (device === undefined) this.#takeBack = whenDriverOpens(wrap)
    else {
      wrap(driverOf(device))
      this.#takeBack = () => {}
    }
    if (mode === 'print') {
      if (printing.size === 0) process.on('exit', printAll)
      printing.add(this)
    }
    running.add(this)
  }

  /**
   * Looks at all that is queued from now on. Without a device nothing is opened: it begins with the default driver.
   * @throws ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE; ERR_OUT_OF_RANGE for a device that does not exist
   */
  static start(options?: SanitizerOptions): Sanitizer {
    const { mode = 'collect', device, stacks = 'sampled' } = readOptions(options, ['mode', 'device', 'stacks'])
    const where = device === undefined ? undefined : resolveDevice(device)
    const wanted = checkMode(mode, 'options.mode')
    return new Sanitizer(new Start(wanted, where, checkChoice(stacks, 'options.stacks', STACKS)))
  }

  /** Those that have not been stopped, that of CUDA_STREAMS_SANITIZER among them. */
  static get running(): readonly Sanitizer[] {
    return [...running]
  }

  /** What was found so far, in the order in which it was; a hundred at most. */
  get reports(): readonly SanitizerReport[] {
    return checkThis(this, isSanitizer, 'a Sanitizer').#findings.reports
  }

  /** How much it remembers at present. */
  get statistics(): SanitizerStatistics {
    const detector = checkThis(this, isSanitizer, 'a Sanitizer').#wrapper?.detector
    if (detector === undefined) return { ranges: 0, regions: 0, strands: 0, events: 0 }
    const { order, regions } = detector
    const { rangeCount, count } = regions
    return { ranges: rangeCount, regions: count, strands: order.strands.count, events: order.events.count }
  }

  /** Looks no further. The reports stay. May be called twice. */
  stop(): void {
    const sanitizer = checkThis(this, isSanitizer, 'a Sanitizer')
    if (sanitizer.#stopped) return
    this.#stopped = true
    running.delete(this)
    this.#takeBack()
    this.#unwrap?.()
    if (!printing.delete(this)) return
    if (printing.size === 0) process.off('exit', printAll)
    this.#print()
  }

  /** `stop()`, for `using`. */
  [Symbol.dispose](): void {
    checkThis(this, isSanitizer, 'a Sanitizer').stop()
  }

  #wrap(driver: WrappableDriver, stacks: Stacks): void {
    const options = { findings: this.#findings, stacks, probes: this.mode === 'throw' }
    const { wrapper, unwrap } = driver.wrap((inner) => new SanitizerDriver(inner, options))
    this.#front = driver
    this.#wrapper = wrapper
    this.#unwrap = unwrap
  }

  #print(): void {
    if (this.reports.length === 0) return
    const texts = this.reports.map(({ message }) => message)
    process.stderr.write(`cuda-streams sanitizer: ${texts.length} finding(s)\n\n${texts.join('\n\n')}\n`)
  }

  static {
    wrappersOn = (driver) =>
      [...running].flatMap((one) => (one.#front === driver && one.#wrapper ? [one.#wrapper] : []))
    printAll = () => {
      for (const one of printing) one.#print()
    }
    isSanitizer = (value): value is Sanitizer => typeof value === 'object' && value !== null && #findings in value
  }
}

/**
 * Runs a function, sync or async, under a sanitizer, and waits for it.
 * @throws (as a rejection) SanitizerError with what was found, warnings aside; else what the function throws; for wrong
 * options as `Sanitizer.start()`
 */
export async function sanitize<R>(fn: () => R | Promise<R>, options?: Omit<SanitizerOptions, 'mode'>): Promise<R> {
  checkFunction(fn, 'fn')
  const { device, stacks } = readOptions(options, ['device', 'stacks'])
  const sanitizer = Sanitizer.start({ device, stacks, mode: 'collect' })
  try {
    const result = await fn()
    const errors = sanitizer.reports.filter(({ severity }) => severity === 'error')
    if (errors.length > 0) throw new SanitizerError(errors)
    return result
  } finally {
    sanitizer.stop()
  }
}

/** The memory that work of another library touches. */
export interface DeclaredAccess {
  /** What it reads. Default: nothing. */
  readonly reads?: readonly (DeviceBuffer | PinnedBuffer)[] | undefined
  /** What it writes, or reads and writes. Default: nothing. */
  readonly writes?: readonly (DeviceBuffer | PinnedBuffer)[] | undefined
}

/**
 * Says what another library has just queued on a stream, which no call of ours shows: `declareAccess(torchStream,
 * { reads: [a, b], writes: [c] }, 'torch.matmul')`. Nothing happens while no sanitizer looks.
 * @throws ERR_INVALID_ARG_TYPE, ERR_CLOSED, ERR_DEVICE_MISMATCH; SanitizerError in 'throw' mode
 */
export function declareAccess(stream: Stream, access: DeclaredAccess, what = 'work of another library'): void {
  const { reads = [], writes = [] } = readOptions(access, ['reads', 'writes'], 'access')
  const [written, read] = [
    checkArray(writes, 'access.writes', 'an array of buffers'),
    checkArray(reads, 'access.reads', 'an array of buffers'),
  ]
  if (typeof what !== 'string') throw invalidType('what', 'a string', what)
  const { driver, handle } = openedStream(stream, 'stream')
  const memory = [...touched(written, 'access.writes', 'out', driver), ...touched(read, 'access.reads', 'in', driver)]
  for (const { detector } of wrappersOn(driver)) detector.work(handle, what, memory)
}

/**
 * Says that another library has just made a stream wait for an event, or for all that another stream holds. Nothing
 * happens while no sanitizer looks.
 * @throws ERR_INVALID_ARG_TYPE, ERR_CLOSED; ERR_DEVICE_MISMATCH for what belongs to another driver
 */
export function declareWait(stream: Stream, target: Event | Stream): void {
  const { driver, handle } = openedStream(stream, 'stream')
  const own = eventCoreOf(target)
  if (own !== undefined) {
    const event = own.openFor(driver)
    for (const { detector } of wrappersOn(driver)) detector.order.wait(handle, event, false)
    return
  }
  const other = openedStream(target, 'target')
  if (other.driver !== driver) {
    throw stateError(
      'ERR_DEVICE_MISMATCH',
      `${target} belongs to ${another(other.driver, driver)} than ${stream}, which cannot wait for it`,
    )
  }
  for (const { detector } of wrappersOn(driver)) detector.order.waitForStream(handle, other.handle)
}

whenNameIsGiven(({ driver, stream, name }) => {
  for (const { detector } of wrappersOn(driver)) detector.order.stream(stream).name = name
})

function openedStream(stream: unknown, name: string): ReturnType<typeof openStream> {
  if (!isStream(stream)) throw invalidType(name, 'a Stream', stream)
  return openStream(stream)
}

function touched(buffers: readonly unknown[], name: string, access: 'in' | 'out', driver: Driver): Touched[] {
  return buffers.map((buffer) => {
    if (!isMemory(buffer)) throw invalidType(name, 'an array of DeviceBuffers and PinnedBuffers', buffer)
    return { pointer: openMemory(buffer, driver).pointer, byteLength: buffer.byteLength, access }
  })
}
