/** Fourier transforms by cuFFT, in stream order. Importing this loads no library. */

import { resolveDevice } from '../../core/device.js'
import type { DeviceBuffer } from '../../core/memory/device-buffer.js'
import type { Stream } from '../../core/stream.js'
import { checkThis, readOptions } from '../../foundation/base/arguments.js'
import { invalidType, invalidValue, outOfRange, stateError } from '../../foundation/base/errors.js'
import { implementation } from '../../foundation/base/library-object.js'
import { LIBRARY_ENTRIES } from '../../foundation/driver/driver-constants.js'
import { implementedInParts } from '../../foundation/driver/library-driver.js'
import { alignmentOf, HandleOwner, queueCall, refuseStream, streamOfCall } from '../handle-library.js'
import { checkDeviceBuffer, type GivenMemory, type UsedMemory } from '../library-call.js'
import { CUFFT_DIRECTION, callFft, type Direction, FftPlan, type FftPointers } from './cufft-library.js'
import {
  checkFftOptions,
  FFT_OPTIONS,
  type FftOptions,
  type FftShape,
  type FftType,
  FORMS,
  shapeOfFft,
} from './fft-shape.js'
import { transform } from './host-transform.js'

/**
 * A plan of cuFFT for Fourier transforms of one type and size. Results are not divided by the number of elements: `inverse()` after
 * `forward()` multiplies by it. The simulator computes the same in JavaScript. An object that the program cannot reach any more is closed.
 * @example
 * ```ts
 * import { Fft } from 'cuda-streams/cufft'
 *
 * using fft = new Fft({ type: 'r2c', shape: [1024] })
 * const [signal, spectrum] = [device.alloc(fft.inputBytes), device.alloc(fft.outputBytes)]
 * fft.forward(stream, signal, spectrum)
 * ```
 */
export class Fft extends HandleOwner {
  /** @internal */
  declare readonly [implementation]: FftPlan

  /**
   * Loads cuFFT the first time, and makes a plan (`cufftMakePlanMany64`). Pending host functions run before, since that call may wait
   * for the device: make plans when the program starts.
   * @param options `type` and `shape` of the transform, and more: see FftOptions
   * @throws {Error} ERR_UNSUPPORTED, with the places tried, if cuFFT is not found (CUDA_STREAMS_CUFFT names the file or its folder);
   * ERR_DEADLOCK inside a host function and while a stream waits for a promise; ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE;
   * ERR_OUT_OF_RANGE for sizes that are out of range, and a device that does not exist
   * @throws {CudaError} 906, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, while a blocking stream of the device captures, of this thread or another,
   * which is not invalidated: cuFFT works on the null stream meanwhile. A capture of such a stream that another thread begins during the
   * call is invalidated
   * @throws {LibraryError} if cuFFT refuses
   */
  constructor(options: FftOptions) {
    refuseStream(options, 'fft.forward(stream, input, output)')
    const given = readOptions(checkFftOptions(options), FFT_OPTIONS)
    const shape = shapeOfFft(given)
    super(new FftPlan(resolveDevice(given.device), shape))
  }

  /** What is transformed into what. */
  get type(): FftType {
    return shapeOf(this).type
  }

  /** The sizes of an array, the slowest first. */
  get shape(): readonly number[] {
    return shapeOf(this).sizes
  }

  /** The number of arrays. */
  get batch(): number {
    return shapeOf(this).batch
  }

  /** The bytes that the input of all arrays takes. */
  get inputBytes(): number {
    return bytesOf(shapeOf(this)).input
  }

  /** The bytes that the output of all arrays takes. */
  get outputBytes(): number {
    return bytesOf(shapeOf(this)).output
  }

  /**
   * Queues a forward transform (`cufftExecC2C` with CUFFT_FORWARD, `cufftExecR2C`, and those of f64), whose exponent is negative. The
   * buffers may be closed as soon as this returns. The first transform on a stream allocates memory to work in, in the order of that
   * stream, and the first of a kind may load code, so pending host functions run before, on a GPU.
   * @param stream The stream of the work. One plan serves all streams, each with memory of its own to work in.
   * @param input The arrays, one behind the other, each in row-major order.
   * @param output Receives the result. Of real input it is only the first half of the last size, and one more: the rest is its
   * conjugate. Default: the input, if the type is `c2c` or `z2z`. Otherwise the two must not overlap.
   * @throws {Error} ERR_OUT_OF_RANGE for a buffer that is too short; ERR_INVALID_ARG_TYPE; ERR_INVALID_ARG_VALUE for a buffer that
   * begins in the middle of a complex number, and buffers that overlap; ERR_UNSUPPORTED for the types `c2r` and `z2d`, and on a stream
   * that captures and on which the object has not transformed before; ERR_CLOSED; ERR_DEVICE_MISMATCH for a buffer of another device;
   * ERR_DEADLOCK for the first of its kind inside a host function and while a stream waits for a promise. Nothing is queued then.
   * @throws {LibraryError} if cuFFT refuses
   */
  forward(stream: Stream, input: DeviceBuffer, output?: DeviceBuffer): this {
    checkThis(this, isFft, 'an Fft').#queue(stream, 'forward', input, output)
    return this
  }

  /**
   * Queues an inverse transform (`cufftExecC2C` with CUFFT_INVERSE, `cufftExecC2R`, and those of f64), whose exponent is positive, as
   * `forward()` does.
   * @param stream The stream of the work.
   * @param input The arrays, one behind the other. Of the types `c2r` and `z2d`: as `forward()` of real input gives them; they are
   * overwritten, with undefined bytes.
   * @param output Receives the result. Default: the input, if the type is `c2c` or `z2z`. Otherwise the two must not overlap.
   * @throws {Error} as `forward()`; ERR_UNSUPPORTED for the types `r2c` and `d2z`
   * @throws {LibraryError} as `forward()`
   */
  inverse(stream: Stream, input: DeviceBuffer, output?: DeviceBuffer): this {
    checkThis(this, isFft, 'an Fft').#queue(stream, 'inverse', input, output)
    return this
  }

  get [Symbol.toStringTag](): string {
    return 'Fft'
  }

  #queue(on: Stream, direction: Direction, input: DeviceBuffer, given: DeviceBuffer | undefined): void {
    const plan = this[implementation]
    const { shape } = plan
    const { type } = shape
    const { bytes, call: name, isReal, ways, back } = FORMS[type]
    if (!ways.includes(direction)) {
      const wayOut = `make an Fft of type '${back}' for ${direction}()`
      throw stateError('ERR_UNSUPPORTED', `An Fft of type '${type}' has no ${direction}(): ${wayOut}`)
    }
    if (isReal && given === undefined) throw invalidType('output', 'a DeviceBuffer', given)
    const stream = streamOfCall(this, on)
    const output = given === undefined ? input : given
    const lengths = bytesOf(shape)
    const piece = (buffer: DeviceBuffer, side: 'input' | 'output', access: 'in' | 'out'): GivenMemory => {
      checkDeviceBuffer(buffer, side, 2 * bytes, stream)
      const byteLength = lengths[side]
      if (buffer.byteLength >= byteLength) return { buffer, access, byteLength, rows: undefined }
      throw outOfRange(side, `${byteLength} bytes long or longer, for ${describe(shape)}`, buffer.byteLength)
    }
    const read = piece(input, 'input', 'in')
    const destination = piece(output, 'output', 'out')
    const inPlace = !isReal && input.pointer === output.pointer
    const isOverwritten = inPlace || (isReal && direction === 'inverse')
    const source: GivenMemory = isOverwritten ? { ...read, access: 'inout' } : read
    const memory = inPlace ? [source] : [source, destination]
    const pointersOf = (used: readonly UsedMemory[]): FftPointers => ({
      input: used[0]?.pointer ?? 0,
      output: used[memory.length - 1]?.pointer ?? 0,
      area: used[memory.length]?.pointer,
    })
    queueCall(this, stream, {
      name,
      memory,
      area: (use) => {
        if (plan.hasArea(use) || !use.driver.streams.isCapturing(use.handle)) return plan.areaOn(use)
        const what = `${stream} captures, and ${this} has no memory to work in there yet`
        throw stateError('ERR_UNSUPPORTED', `${what}: transform once on this stream before the capture begins`)
      },
      check: inPlace ? () => {} : checkApart,
      kind: (used) => `${describe(shape)} ${direction} ${inPlace} ${used.map(alignmentOf)}`,
      entries: shape.sizes.length * LIBRARY_ENTRIES,
      call: (used, raw) => callFft(plan, direction, pointersOf(used), raw),
      host: implementedInParts(durationOf(shape), ([from = NOTHING, to = NOTHING]) =>
        transform(shape, CUFFT_DIRECTION[direction], from, inPlace ? from : to),
      ),
    })
  }
}

const NOTHING = new Uint8Array()

const isFft = (value: unknown): value is Fft => value instanceof Fft && value[implementation] !== undefined

const shapeOf = (value: unknown): FftShape => checkThis(value, isFft, 'an Fft')[implementation].shape

function bytesOf({ type, realBytes, complexBytes }: FftShape): { readonly input: number; readonly output: number } {
  const { isReal, ways } = FORMS[type]
  const isForward = ways.includes('forward')
  return {
    input: isReal && isForward ? realBytes : complexBytes,
    output: isReal && !isForward ? realBytes : complexBytes,
  }
}

const describe = ({ type, sizes, batch }: FftShape): string => `${batch} x ${type} of ${sizes.join(' x ')}`

/** Throws ERR_INVALID_ARG_VALUE if input and output have bytes in common. */
function checkApart([input, output]: readonly UsedMemory[]): void {
  if (input === undefined || output === undefined) return
  const distance = output.pointer - input.pointer
  if (distance >= input.byteLength || -distance >= output.byteLength) return
  throw invalidValue(
    "input and output overlap: give them memory of their own, or let a transform of type 'c2c' or 'z2z' have no output",
  )
}

/** The virtual nanoseconds of a transform: about the time of a GPU that moves 2 TB/s. */
const durationOf = ({ complexBytes, sizes }: FftShape): number =>
  2000 * sizes.length + Math.round((2 * sizes.length * complexBytes) / 2000)
