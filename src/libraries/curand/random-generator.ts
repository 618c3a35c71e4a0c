/** Random numbers by cuRAND, in stream order. Importing this loads no library. */

import { type Device, resolveDevice } from '../../core/device.js'
import type { DeviceBuffer } from '../../core/memory/device-buffer.js'
import type { Stream } from '../../core/stream.js'
import { openStream } from '../../core/streams/stream-impl.js'
import { checkChoice, checkInteger, checkThis, readOptions } from '../../foundation/base/arguments.js'
import { ELEMENT_TYPES } from '../../foundation/base/element-types.js'
import { invalidType, invalidValue, outOfRange, stateError } from '../../foundation/base/errors.js'
import { implementation } from '../../foundation/base/library-object.js'
import { alignmentOf, checkHandleOpen, HandleOwner, queueCall, refuseStream, streamOfCall } from '../handle-library.js'
import { checkDeviceBuffer, wholeOf } from '../library-call.js'
import { type CurandFunction, curand, GeneratorHandle } from './curand-library.js'
import { type Distribution, Philox } from './philox.js'

/** The options of `new RandomGenerator(options)`. */
export interface RandomOptions {
  /**
   * The number that selects the sequence: generators with the same seed generate the same numbers. From 0 to 2 ** 53 - 1. Default
   * 0.
   */
  readonly seed?: number | undefined
  /** How many numbers are left out at the beginning. From 0 to 2 ** 53 - 1. Default 0. */
  readonly offset?: number | undefined
  /** The device of the work. Default: the current device. */
  readonly device?: Device | number | undefined
}

/** The options of `generator.uniform()`. */
export interface NumberOptions {
  /** The type of the numbers. Default 'f32'. */
  readonly type?: 'f32' | 'f64' | undefined
}

/** The options of `generator.normal()` and `generator.logNormal()`. */
export interface NormalOptions extends NumberOptions {
  /** The mean of the normal distribution. Default 0. */
  readonly mean?: number | undefined
  /** The standard deviation of the numbers, at least 0. Default 1. */
  readonly stddev?: number | undefined
}

const LARGEST = Number.MAX_SAFE_INTEGER
const TYPES = ['f32', 'f64'] as const

/** The functions of cuRAND. */
const CALLS: Readonly<Record<Distribution['of'], Readonly<Record<'f32' | 'f64', CurandFunction>>>> = {
  bits: { f32: 'curandGenerate', f64: 'curandGenerate' },
  uniform: { f32: 'curandGenerateUniform', f64: 'curandGenerateUniformDouble' },
  normal: { f32: 'curandGenerateNormal', f64: 'curandGenerateNormalDouble' },
  logNormal: { f32: 'curandGenerateLogNormal', f64: 'curandGenerateLogNormalDouble' },
}

/**
 * A generator of cuRAND: Philox 4x32-10, whose numbers depend on the seed and the place among them alone, in the order that cuRAND
 * guarantees for all of its releases (`CURAND_ORDERING_PSEUDO_LEGACY`). Its state is on the device, and each call continues where the call before has
 * ended: one on another stream than the call before waits there for that call. The simulator computes the same numbers in JavaScript. An object that the program
 * cannot reach any more is closed.
 * @example
 * ```ts
 * import { RandomGenerator } from 'cuda-streams/curand'
 *
 * using generator = new RandomGenerator({ seed: 1234 })
 * generator.normal(stream, buffer, { mean: 10, stddev: 2 })
 * ```
 */
export class RandomGenerator extends HandleOwner {
  /** @internal */
  declare readonly [implementation]: GeneratorHandle
  /** The simulator's. It changes when the work is done, as the state on a GPU does. */
  readonly #philox: Philox
  /** Has the generator generated numbers? */
  #hasBegun = false

  /**
   * Loads cuRAND the first time, and makes a generator (`curandCreateGenerator`). Pending host functions run before, since that call may
   * wait for the device: make generators when the program starts.
   * @param options `seed`, `offset` and `device`: see RandomOptions
   * @throws {Error} ERR_UNSUPPORTED, with the places tried, if cuRAND is not found (CUDA_STREAMS_CURAND names the file or its folder);
   * ERR_DEADLOCK inside a host function and while a stream waits for a promise; ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE;
   * ERR_OUT_OF_RANGE for a seed or an offset that is out of range, and a device that does not exist
   * @throws {LibraryError} if cuRAND refuses
   */
  constructor(options?: RandomOptions) {
    refuseStream(options, 'generator.uniform(stream, buffer)')
    const given = readOptions(options, ['seed', 'offset', 'device'])
    const seed = checkInteger(given.seed ?? 0, 'options.seed', 0, LARGEST)
    const offset = checkInteger(given.offset ?? 0, 'options.offset', 0, LARGEST)
    super(new GeneratorHandle(resolveDevice(given.device), seed, offset))
    this.#philox = new Philox(seed, offset)
  }

  /**
   * Queues numbers of 32 bits, each as probable as any other (`curandGenerate`). The buffer may be closed as soon as this returns. The
   * first call of a generator, and the first of a kind on a device, may load code, so pending host functions run before, on a GPU.
   * @param stream The stream of the work.
   * @param buffer Receives them: all of it is written. Its length is a multiple of 4 bytes.
   * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_INVALID_ARG_VALUE for a buffer that begins in the middle of a number, or is no whole number of
   * them; ERR_UNSUPPORTED while the stream captures, since each launch of the graph would go on from the state that another has left;
   * ERR_CLOSED; ERR_DEVICE_MISMATCH for a buffer of another device; ERR_DEADLOCK for the first call inside a host function and while a
   * stream waits for a promise. Nothing is queued then.
   * @throws {LibraryError} if cuRAND refuses
   */
  bits(stream: Stream, buffer: DeviceBuffer): this {
    checkThis(this, isGenerator, 'a RandomGenerator').#queue(stream, buffer, { of: 'bits', type: 'u32' })
    return this
  }

  /**
   * Queues numbers of more than 0 and at most 1, distributed evenly (`curandGenerateUniform`, `curandGenerateUniformDouble`), as
   * `bits()` does.
   * @param stream The stream of the work.
   * @param buffer Receives them: all of it is written.
   * @param options `type`: 'f32' (default) or 'f64'
   * @throws {Error} as `bits()`
   * @throws {LibraryError} as `bits()`
   */
  uniform(stream: Stream, buffer: DeviceBuffer, options?: NumberOptions): this {
    const generator = checkThis(this, isGenerator, 'a RandomGenerator')
    const { type = 'f32' } = readOptions(options, ['type'])
    generator.#queue(stream, buffer, { of: 'uniform', type: checkChoice(type, 'options.type', TYPES) })
    return this
  }

  /**
   * Queues numbers of the normal distribution (`curandGenerateNormal`, `curandGenerateNormalDouble`), as `bits()` does. They come in pairs.
   * @param stream The stream of the work.
   * @param buffer Receives them: all of it is written, an even number of them.
   * @param options `type`, `mean` and `stddev`: see NormalOptions
   * @throws {Error} as `bits()`; ERR_INVALID_ARG_VALUE for an odd number; ERR_OUT_OF_RANGE for a deviation of less than 0
   * @throws {LibraryError} as `bits()`
   */
  normal(stream: Stream, buffer: DeviceBuffer, options?: NormalOptions): this {
    checkThis(this, isGenerator, 'a RandomGenerator').#queue(stream, buffer, normalOf('normal', options))
    return this
  }

  /**
   * Queues numbers whose logarithms are of the normal distribution (`curandGenerateLogNormal`, `curandGenerateLogNormalDouble`), as
   * `normal()` does.
   * @param stream The stream of the work.
   * @param buffer Receives them: all of it is written, an even number of them.
   * @param options `type`, and the `mean` and `stddev` of the logarithms: see NormalOptions
   * @throws {Error} as `normal()`
   * @throws {LibraryError} as `bits()`
   */
  logNormal(stream: Stream, buffer: DeviceBuffer, options?: NormalOptions): this {
    checkThis(this, isGenerator, 'a RandomGenerator').#queue(stream, buffer, normalOf('logNormal', options))
    return this
  }

  get [Symbol.toStringTag](): string {
    return 'RandomGenerator'
  }

  #queue(on: Stream, buffer: DeviceBuffer, distribution: Distribution): void {
    const { of, type } = distribution
    const stream = streamOfCall(this, on)
    const { bytes } = ELEMENT_TYPES[type]
    checkDeviceBuffer(buffer, 'buffer', bytes, stream)
    const count = buffer.byteLength / bytes
    if (!Number.isInteger(count))
      throw invalidValue(`buffer is no whole number of elements of ${bytes} bytes: ${buffer}`)
    const isPaired = of === 'normal' || of === 'logNormal'
    if (isPaired && count % 2 !== 0) {
      throw invalidValue(`buffer has ${count} elements: ${of}() makes an even number of them, since they come in pairs`)
    }
    checkHandleOpen(this)
    const { driver, handle } = openStream(stream)
    if (driver.streams.isCapturing(handle)) {
      const why = 'each launch of the graph would go on from the state that other work has left'
      throw stateError('ERR_UNSUPPORTED', `${stream} captures, and ${of}() cannot be captured: ${why}`)
    }
    if (count === 0) return
    const name = CALLS[of][type === 'f64' ? 'f64' : 'f32']
    const more = 'mean' in distribution ? [distribution.mean, distribution.stddev] : []
    queueCall(this, stream, {
      name,
      memory: [wholeOf(buffer, 'out')],
      // With its first numbers it makes its state, too.
      kind: ([used]) => `${count} ${alignmentOf(used)}${this.#hasBegun ? '' : ` by ${this.serial}`}`,
      begin: () => this[implementation].waitOn(stream),
      call: ([used], raw) => {
        const { address } = this[implementation]
        curand.call('curandSetStream', address, raw)
        curand.call(name, address, used?.pointer ?? 0, count, ...more)
      },
      host: {
        nanoseconds: durationOf(buffer.byteLength),
        run: ([written = NOTHING]) => this.#philox.generate(distribution, written),
      },
    })
    this.#hasBegun = true
    this[implementation].queuedOn(stream)
  }
}

const NOTHING = new Uint8Array()

const isGenerator = (value: unknown): value is RandomGenerator =>
  value instanceof RandomGenerator && value[implementation] !== undefined

function normalOf(of: 'normal' | 'logNormal', options: NormalOptions | undefined): Distribution {
  const { type = 'f32', mean = 0, stddev = 1 } = readOptions(options, ['type', 'mean', 'stddev'])
  if (typeof mean !== 'number') throw invalidType('options.mean', 'a number', mean)
  if (typeof stddev !== 'number') throw invalidType('options.stddev', 'a number', stddev)
  if (!Number.isFinite(mean)) throw outOfRange('options.mean', 'finite', mean)
  if (!(stddev >= 0 && Number.isFinite(stddev))) throw outOfRange('options.stddev', 'finite, and at least 0', stddev)
  return { of, type: checkChoice(type, 'options.type', TYPES), mean, stddev }
}

/** The virtual nanoseconds of so many bytes: about the time of a GPU that writes 1 TB/s. */
const durationOf = (byteLength: number): number => 2000 + Math.round(byteLength / 1000)
