/** Green contexts: shares of a device's multiprocessors. */
import { checkArray, checkInteger, readOptions } from '../base/arguments.js'
import {
  inspectAsPrinted,
  invalidType,
  invalidValue,
  outOfRange,
  printed,
  refuseReceiver,
  stateError,
} from '../base/errors.js'
import { destroyWhenUnreachable, NativeResource } from '../base/finalization.js'
import { nextSerial, notCloneable } from '../base/identity.js'
import { type Context, type Device, driverOf } from '../device.js'
import type { Driver, GreenContextPart } from '../driver/driver.js'

/** How a device is split. */
export interface SplitOptions<N extends readonly number[] = readonly number[]> {
  /**
   * The least number of multiprocessors of each part: integers of at least 1, together fewer than the device has. CUDA
   * rounds each up to a whole number of groups, which have 8 from compute capability 9.0 on.
   */
  readonly multiprocessors: N
}

/** A green context for each number that was given, and one of the rest. */
export type SplitDevice<N extends readonly number[]> = [
  ...parts: { -readonly [I in keyof N]: GreenContext },
  rest: GreenContext,
]

const MOST_PARTS = 1024

/** Those that are not destroyed. */
const living = new Set<GreenContextCore>()

export class GreenContextCore extends NativeResource {
  readonly driver: Driver
  readonly serial = nextSerial()
  closed = false

  constructor(
    readonly device: Device,
    readonly part: GreenContextPart,
  ) {
    super()
    this.driver = driverOf(device)
    living.add(this)
  }

  checkOpen(): this {
    if (this.closed) throw stateError('ERR_CLOSED', `${this} cannot be used any more`)
    return this
  }

  close(): void {
    this.closed = true
    this.release()
  }

  /** The driver waits for its streams. */
  override destroy(): void {
    if (living.delete(this)) this.driver.greenContextDestroy(this.part.context)
  }

  override toString(): string {
    const { device, part } = this
    const size = `${part.multiprocessors} multiprocessors`
    return `GreenContext(0x${part.context.toString(16)}, ${size} of ${device}${this.closed ? ', closed' : ''})`
  }
}

/**
 * Those that a graph has to keep whose capture ends now, so that the next split is not given parts where the graph still runs:
 * all that there are, since a capture does not tell which streams took part in it.
 */
export const greenContextsOf = (driver: Driver): readonly GreenContextCore[] =>
  [...living].filter((core) => core.driver === driver)

/**
 * The core of a GreenContext; undefined for any other value, also for a proxy of one or an object that inherits from
 * one.
 */
export let greenContextCoreOf: (value: unknown) => GreenContextCore | undefined
let makeGreenContext: (core: GreenContextCore) => GreenContext

/**
 * A share of a device's multiprocessors, made by `device.split()`. Kernels of streams that were made in it run on these
 * and no others, beside the kernels of other green contexts of the same split. Kernels of streams that are in none may run
 * on all multiprocessors of the device, so they still hold up those of a green context. Memory, events, modules and
 * copies are the device's, and know no shares.
 *
 * Not repeated at each member: a closed context is ERR_CLOSED where a stream is to be made in it; all else still answers.
 * @example
 * ```ts
 * const [small, rest] = device.split({ multiprocessors: [16] })
 * const requests = new Stream({ context: small }) // never waits for the kernels of the other
 * const training = new Stream({ context: rest })
 * ```
 */
export class GreenContext implements Context, Disposable {
  /** The device that it is a share of. */
  readonly device: Device
  /** The multiprocessors that it has: as many as were asked for, or more. */
  readonly multiprocessors: number
  /** The number of this object: no other object of this thread has it. */
  readonly serial: number
  /** @internal Keeps the object from being copied to another thread. */
  protected readonly cloning: symbol = notCloneable()
  readonly #core: GreenContextCore

  /** Use `device.split({ multiprocessors })`. */
  private constructor(core: GreenContextCore) {
    if (!(core instanceof GreenContextCore)) {
      throw invalidType('GreenContext', 'obtained from device.split({ multiprocessors })', core)
    }
    this.device = core.device
    this.multiprocessors = core.part.multiprocessors
    this.serial = core.serial
    this.#core = core
    destroyWhenUnreachable(this, core)
  }

  /**
   * The CUcontext (`cuCtxFromGreenCtx`), for other libraries. It keeps nothing alive: hold the object as long as they
   * use it. It can still be read after `close()`.
   */
  get handle(): bigint {
    return BigInt(greenContext(this).part.context)
  }

  /** Was it closed? */
  get closed(): boolean {
    return greenContext(this).closed
  }

  /**
   * Lets no more streams be made in it. Its streams go on. CUDA gives nothing back for a context that is destroyed, so it
   * is kept for the next split of the same shape, once its streams are closed and the graphs are gone that were captured
   * while it was there. May be called twice.
   */
  close(): void {
    greenContext(this).close()
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    greenContext(this)
    this.close()
  }

  get [Symbol.toStringTag](): string {
    return 'GreenContext'
  }

  toString(): string {
    return greenContextCoreOf(this)?.toString() ?? printed(this)
  }

  static {
    makeGreenContext = (core) => new GreenContext(core)
    greenContextCoreOf = (value) =>
      typeof value === 'object' && value !== null && #core in value ? value.#core : undefined
  }
}
inspectAsPrinted(GreenContext)

function greenContext(context: unknown): GreenContextCore {
  return greenContextCoreOf(context) ?? refuseReceiver('a GreenContext', context)
}

/** `device.split()`. */
export function splitDevice(device: Device, options: SplitOptions): GreenContext[] {
  if (options === undefined) throw invalidType('options', 'an object such as { multiprocessors: [16] }', options)
  const { multiprocessors } = readOptions(options, ['multiprocessors'])
  const given = checkArray(multiprocessors, 'options.multiprocessors', 'an array of integers')
  if (given.length === 0 || given.length > MOST_PARTS) {
    throw invalidValue(
      `options.multiprocessors must have from 1 to ${MOST_PARTS} numbers: the rest makes one more part`,
    )
  }
  const all = device.attribute('multiprocessorCount')
  const wanted = given.map((count, index) =>
    checkInteger(
      count,
      `options.multiprocessors[${index}]`,
      1,
      all - 1,
      () => `from 1 to ${all - 1}: ${device} has ${all}`,
    ),
  )
  const sum = wanted.reduce((one, other) => one + other, 0)
  if (sum >= all) {
    const expected = `less than ${all} together, which is what ${device} has, so that some are left for the rest`
    throw outOfRange('options.multiprocessors', expected, `${wanted.join(' + ')} = ${sum}`)
  }
  const parts = driverOf(device).deviceSplit(device.ordinal, wanted)
  return parts.map((part) => makeGreenContext(new GreenContextCore(device, part)))
}
