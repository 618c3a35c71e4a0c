/**
 * Recorders: what a program does with its streams is written to a file while it runs, to be checked for races, drawn, and played again with changes,
 * on machines without a GPU too.
 */

import { type Device, driverOf, resolveDevice } from '../../core/device.js'
import { whenNameIsGiven } from '../../core/stream-names.js'
import { capturesUnderWay } from '../../core/streams/capture-record.js'
import { checkChoice, checkThis, type Given, readOptions } from '../../foundation/base/arguments.js'
import { invalidType, invalidValue, messageOf, stateError } from '../../foundation/base/errors.js'
import { every, monotonicTime, timeOrigin } from '../../foundation/base/event-loop.js'
import { construct, notCloneable } from '../../foundation/base/library-object.js'
import { process } from '../../foundation/base/node-modules.js'
import { printError } from '../../foundation/base/standard-error.js'
import type { WrappableDriver } from '../../foundation/driver/wrappable-driver.js'
import { STACK_MODES } from '../sanitizer/operations.js'
import { whenDeclared } from '../sanitizer/sanitizer.js'
import { TimelineInterceptor } from '../timeline/timeline-interceptor.js'
import { Journal, WRITE_EVERY } from './journal.js'
import type { Header } from './lines.js'
import { VERSION } from './lines.js'
import { RecordingInterceptor } from './recording-interceptor.js'

/** The options of a recorder. */
export interface RecorderOptions {
  /** A device of the driver to record: all devices of that driver are recorded. Default: the current device. */
  readonly device?: Device | number | undefined
  /**
   * The calls whose stacks are taken, which costs more than the rest. `sampled` (default): the first sixteen calls of a
   * kind, and then one of sixty-four; `all`; or `none`.
   */
  readonly stacks?: 'sampled' | 'all' | 'none' | undefined
}

/** The numbers of properties in CUdevice_attribute. */
const MULTIPROCESSORS = 16
const THREADS_OF_MULTIPROCESSOR = 39

/** The argument that lets only this file make recorders. */
class Start {
  constructor(
    readonly driver: WrappableDriver,
    readonly path: string,
    readonly stacks: Header['stacks'],
    /** A device that will be used, so that its clock is prepared now. */
    readonly device: number | undefined,
  ) {}
}

interface Under {
  readonly interceptor: RecordingInterceptor
  readonly driver: WrappableDriver
  readonly journal: Journal
}
const underWay = new Set<Under>()

whenNameIsGiven(({ driver, stream, name }) => {
  for (const each of underWay) if (each.driver === driver) each.interceptor.named(stream, name)
})
whenDeclared({
  accessed(driver, stream, memory, what) {
    for (const each of underWay) if (each.driver === driver) each.interceptor.declaredAccess(stream, memory, what)
  },
  waitedForEvent(driver, stream, event) {
    for (const each of underWay) if (each.driver === driver) each.interceptor.declaredWait(stream, event)
  },
  waitedForStream(driver, stream, other) {
    for (const each of underWay) if (each.driver === driver) each.interceptor.declaredStreamWait(stream, other)
  },
})

/**
 * Writes a recording of a driver's streams: all that is queued, with when it ran, until it is stopped. `npx cuda-streams check`,
 * `timeline`, `why` and `what-if` read the file, without a GPU.
 * @example
 * ```ts
 * import { Recorder } from 'cuda-streams/recording'
 *
 * await using recorder = Recorder.start('run.rec')
 * stream.copy(to, from)
 * ```
 */
export class Recorder implements AsyncDisposable, Disposable {
  /** @internal Keeps the object from being copied to another thread. */
  protected readonly cloning: symbol = notCloneable()
  readonly #under: Under
  readonly #takeOut: () => void
  #stopped = false

  /** Made by `Recorder.start()` alone. */
  private constructor(start: Start) {
    if (!(start instanceof Start)) throw invalidType('Recorder', 'obtained from Recorder.start(path, options)', start)
    const { driver, path, stacks, device } = start
    if (capturesUnderWay()) {
      const why = 'what it has captured already would be taken for work that ran'
      throw stateError(
        'ERR_UNSUPPORTED',
        `A stream captures, and ${why}: start the recorder before, or after endCapture()`,
      )
    }
    for (const { journal } of underWay) {
      if (journal.path === path)
        throw invalidValue(`${path} is being recorded to: stop that recorder, or give another path`)
    }
    const journal = new Journal(path, headerOf(driver, stacks), clockOf(driver))
    const timing = driver.wrap((inner) => new TimelineInterceptor(inner, device))
    const { wrapper, unwrap } = driver.wrap((inner) => new RecordingInterceptor(inner, timing.wrapper, journal))
    const endLooks = every(WRITE_EVERY, () => wrapper.look())
    this.#under = { interceptor: wrapper, driver, journal }
    underWay.add(this.#under)
    // A recorder that is open at the end of its process is stopped.
    const atTheEnd = (): void => {
      try {
        this.stopNow()
      } catch (error) {
        printError(`cuda-streams: the recording ${path} is not complete: ${messageOf(error)}`)
      }
    }
    process.once('exit', atTheEnd)
    this.#takeOut = () => {
      process.removeListener('exit', atTheEnd)
      endLooks()
      unwrap()
      timing.unwrap()
      underWay.delete(this.#under)
    }
  }

  /** @internal */
  static [construct](start: Start): Recorder {
    return new Recorder(start)
  }

  /**
   * Records all work that is queued from now on.
   * @param path The path of the file, which is written from its beginning.
   * @param options `device` (default: the current one) and `stacks` (default 'sampled'): see RecorderOptions
   * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_INVALID_ARG_VALUE, also for a file that another recorder of this thread writes; ERR_UNSUPPORTED
   * while a stream captures; ERR_OUT_OF_RANGE for a device that does not exist; any error of the file system, such as EACCES
   */
  static start(path: string, options?: RecorderOptions): Recorder {
    if (typeof path !== 'string') throw invalidType('path', 'a text', path)
    const given: Given<RecorderOptions, 'device' | 'stacks'> = readOptions(options, ['device', 'stacks'])
    const stacks = checkChoice(given.stacks ?? 'sampled', 'options.stacks', STACK_MODES)
    const device = resolveDevice(given.device)
    const whole = process.getBuiltinModule('node:path').resolve(path)
    return recorderOf(driverOf(device), whole, stacks, device.ordinal)
  }

  /** The whole path of the file. */
  get path(): string {
    return checkThis(this, Recorder.#is, 'a Recorder').#under.journal.path
  }

  /**
   * Ends the recording at once, and resolves when all recorded work is done and the file is complete.
   * @throws {Error} (as a rejection) ERR_CLOSED if it was stopped before; the error of the file system if it could not write all
   */
  async stop(): Promise<void> {
    const recorder = Recorder.#end(this)
    try {
      await recorder.#under.interceptor.durations.finished()
    } finally {
      recorder.#close()
    }
  }

  /**
   * Ends the recording at once: operations that are not done yet have no times. For the end of a process.
   * @throws {Error} ERR_CLOSED if it was stopped before; the error of the file system if it could not write all
   */
  stopNow(): void {
    Recorder.#end(this).#close()
  }

  /** Ends the recording at once, as `stopNow()`, if it is under way: for `using`. */
  [Symbol.dispose](): void {
    const recorder = checkThis(this, Recorder.#is, 'a Recorder')
    if (!recorder.#stopped) recorder.stopNow()
  }

  /** Ends the recording, as `stop()`, if it is under way: for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    const recorder = checkThis(this, Recorder.#is, 'a Recorder')
    if (!recorder.#stopped) await recorder.stop()
  }

  #close(): void {
    const { interceptor, journal } = this.#under
    interceptor.durations.close()
    journal.close()
  }

  static #end(value: Recorder): Recorder {
    const recorder = checkThis(value, Recorder.#is, 'a Recorder')
    if (recorder.#stopped) throw stateError('ERR_CLOSED', 'This recorder has already been stopped')
    recorder.#stopped = true
    recorder.#takeOut()
    return recorder
  }

  static #is(value: unknown): value is Recorder {
    return typeof value === 'object' && value !== null && #under in value
  }
}

/** Makes the recorder of a driver, for the environment variable. */
export const recorderOf = (
  driver: WrappableDriver,
  path: string,
  stacks: Header['stacks'],
  device?: number,
): Recorder => Recorder[construct](new Start(driver, path, stacks, device))

/** The clock of a recorder. Virtual time does not pass while the recorder works. */
const clockOf = ({ name }: WrappableDriver): (() => number) => (name === 'sim' ? () => 0 : () => monotonicTime() * 1e6)

function headerOf(driver: WrappableDriver, stacks: Header['stacks']): Header {
  const ordinals = Array.from({ length: driver.devices.count() }, (_, ordinal) => ordinal)
  const devices = ordinals.map((ordinal) => {
    return {
      name: driver.devices.name(ordinal),
      multiprocessors: driver.devices.attribute(ordinal, MULTIPROCESSORS),
      threads: driver.devices.attribute(ordinal, THREADS_OF_MULTIPROCESSOR),
    }
  })
  const epoch = Math.round((timeOrigin + monotonicTime()) * 1000) * 1000
  const clock = driver.name === 'sim' ? 'virtual' : 'host'
  return { recording: VERSION, driver: driver.name, clock, stacks, epoch, devices }
}
