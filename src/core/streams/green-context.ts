/** Green contexts: shares of a device's multiprocessors. */
import { checkArray, checkInteger, readOptions } from '../../foundation/base/arguments.js'
import { invalidType, invalidValue, outOfRange, refuseReceiver } from '../../foundation/base/errors.js'
import { construct, implementation } from '../../foundation/base/library-object.js'
import type { GreenContextPart } from '../../foundation/driver/device-driver.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { ContextHandle } from '../../foundation/driver/handle-types.js'
import { type Context, type Device, driverOf, HandleImpl, HandleObject } from '../device.js'

/** How a device is split. */
export interface SplitOptions<N extends readonly number[] = readonly number[]> {
  /**
   * The least number of multiprocessors of each part: integers of at least 1, together fewer than the device has. CUDA
   * rounds each up to whole groups of multiprocessors, of 8 from compute capability 9.0 on.
   */
  readonly multiprocessors: N
}

/** A green context for each number that was given, and one for the remaining multiprocessors. */
export type SplitDevice<N extends readonly number[]> = [
  ...parts: { -readonly [I in keyof N]: GreenContext },
  rest: GreenContext,
]

const MOST_PARTS = 1024

/** All green contexts that are not destroyed. */
const existing = new Set<GreenContextImpl>()

export class GreenContextImpl extends HandleImpl<ContextHandle> {
  constructor(
    device: Device,
    readonly part: GreenContextPart,
  ) {
    super('GreenContext', device, part.context, part.context)
    existing.add(this)
  }

  /** The driver waits for its streams. */
  override destroy(): void {
    if (existing.delete(this)) this.driver.devices.greenContextDestroy(this.part.context)
  }

  protected override get details(): string {
    return `${this.part.multiprocessors} multiprocessors of ${this.device}`
  }
}

/**
 * The green contexts that a graph has to retain whose capture ends now, so that the next split does not give away
 * multiprocessors on which the graph may still run: all of the driver, since a capture does not report its streams.
 */
export const greenContextsOf = (driver: Driver): readonly GreenContextImpl[] =>
  [...existing].filter((impl) => impl.driver === driver)

/**
 * A share of a device's multiprocessors, made by `device.split()`. Kernels of streams that were made in it run on these
 * multiprocessors and no others, beside the kernels of other green contexts of the same split. Kernels of other streams may
 * run on all multiprocessors of the device, and so delay those of a green context. Memory, events, modules and copies belong
 * to the whole device.
 *
 * Not repeated at each member: to make a stream in a closed context is ERR_CLOSED; all else still works.
 * @example
 * ```ts
 * const [small, rest] = device.split({ multiprocessors: [16] })
 * const requests = new Stream({ context: small }) // never waits for the kernels of the other
 * const training = new Stream({ context: rest })
 * ```
 */
export class GreenContext extends HandleObject implements Context {
  /** The number of its multiprocessors: as many as were asked for, or more. */
  readonly multiprocessors: number
  /** @internal */
  declare readonly [implementation]: GreenContextImpl

  /** Use `device.split({ multiprocessors })`. */
  private constructor(impl: GreenContextImpl) {
    super(impl, GreenContextImpl, 'GreenContext', 'device.split({ multiprocessors })')
    this.multiprocessors = impl.part.multiprocessors
  }

  /** @internal */
  static [construct](impl: GreenContextImpl): GreenContext {
    return new GreenContext(impl)
  }

  /**
   * The CUcontext (`cuCtxFromGreenCtx`), for other libraries. It keeps nothing alive: hold the object as long as they
   * use it. It can still be read after `close()`.
   */
  get handle(): bigint {
    return BigInt(greenContextImpl(this).part.context)
  }

  /**
   * Ends it: no more streams can be made in it, and those that were made go on. CUDA gives nothing back for a destroyed
   * green context, so it is reused by the next split of the same shape, once its streams are closed and the graphs are gone
   * that were captured while it existed. May be called twice.
   */
  close(): void {
    greenContextImpl(this).close()
  }

  get [Symbol.toStringTag](): string {
    return 'GreenContext'
  }
}

export const greenContextImplOf = (value: unknown): GreenContextImpl | undefined =>
  value instanceof GreenContext ? value[implementation] : undefined

const greenContextImpl = (context: unknown): GreenContextImpl =>
  greenContextImplOf(context) ?? refuseReceiver('a GreenContext', context)

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
  const parts = driverOf(device).devices.split(device.ordinal, wanted)
  return parts.map((part) => GreenContext[construct](new GreenContextImpl(device, part)))
}
