/** Matrix products by cuBLAS, in stream order. Importing this loads no library. */
import { checkThis, readOptions } from '../../base/arguments.js'
import { inspectAsPrinted, invalidType, invalidValue, outOfRange, printed, stateError } from '../../base/errors.js'
import { destroyWhenUnreachable } from '../../base/finalization.js'
import { nextSerial } from '../../base/identity.js'
import { type Device, elsewhere, resolveDevice } from '../../device.js'
import { LIBRARY_ENTRIES, type LibraryCall, type MemoryRows } from '../../driver/driver.js'
import type { DeviceBuffer } from '../../memory/device-buffer.js'
import { queueWith } from '../../memory/queue-with-memory.js'
import { isStream, Stream } from '../../stream.js'
import { recordOf } from '../../streams/capture-record.js'
import { openStream } from '../../streams/stream-core.js'
import { checkDeviceBuffer, type GivenMemory, openGiven, type UsedMemory, wholeOf } from '../library-memory.js'
import { callGemm, type GemmFunction } from './gemm-call.js'
import {
  type GemmOptions,
  type GemmShape,
  type Layout,
  type StridedBatchOptions,
  shapeOfBatch,
  shapeOfGemm,
} from './gemm-shape.js'
import { multiply } from './gemm-twin.js'
import { CublasHandle } from './handle.js'
import { isKnown, kindOf, learn } from './known-products.js'
import { CUBLAS_TYPES } from './library.js'
import { matricesOverlap } from './matrix-overlap.js'

/** The options of `new Cublas(stream, options)`. */
export interface CublasOptions {
  /**
   * The device whose current stream is followed. Default: the device of the stream that is given, else the current
   * device.
   */
  readonly device?: Device | number | undefined
  /**
   * Memory that cuBLAS works in, instead of its own (`cublasSetWorkspace`). NVIDIA advises 32 MiB from Hopper on, 4 MiB
   * before. It begins at a multiple of 256 bytes. Work on two streams at one time must not share it. With one, captures
   * make no memory of their own.
   */
  readonly workspace?: DeviceBuffer | undefined
}

/** Workspaces begin at a multiple of 256 bytes. */
const WORKSPACE_ALIGNMENT = 256

let isCublas: (value: unknown) => value is Cublas

/**
 * cuBLAS on one device. Its work goes into the stream given or, without one, into the stream that is current when it is
 * queued. The simulator computes the same in JavaScript, slowly. An object that the program cannot reach any more is
 * closed.
 * @example
 * ```ts
 * import { Cublas } from 'cuda-streams/cublas'
 *
 * using cublas = new Cublas(stream)
 * const [a, b, c] = [device.alloc(4 * 64 * 32), device.alloc(4 * 32 * 16), device.alloc(4 * 64 * 16)]
 * cublas.gemm(a, b, c, { m: 64, n: 16, k: 32, type: 'f32' })
 * ```
 */
export class Cublas implements Disposable {
  /** The device that the work runs on. */
  readonly device: Device
  /** The number of this object: no other object of this thread has it. */
  readonly serial: number = nextSerial()
  readonly #stream: Stream | undefined
  readonly #workspace: DeviceBuffer | undefined
  readonly #handle: CublasHandle
  #closed = false

  /**
   * Loads cuBLAS at the first time, and makes a handle (`cublasCreate`). Pending host functions run before, since that
   * call may wait for the device.
   * @param stream The stream for the work. Default: at each call, the current stream of the device.
   * @param options `device`: see above. `workspace`: memory that cuBLAS works in, instead of its own.
   * @throws {Error} ERR_UNSUPPORTED, with the places tried, where cuBLAS is not found (CUDA_STREAMS_CUBLAS names the
   * file or its folder); ERR_DEADLOCK inside a host function and while a stream waits for a promise;
   * ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for a
   * workspace that begins elsewhere; ERR_CLOSED for a closed stream or workspace; ERR_DEVICE_MISMATCH where stream,
   * device and workspace are not on one device; ERR_OUT_OF_RANGE for a device that does not exist
   * @throws {LibraryError} where cuBLAS refuses
   */
  constructor(stream?: Stream, options?: CublasOptions) {
    if (stream !== undefined && !isStream(stream)) throw invalidType('stream', 'a Stream', stream)
    const { device, workspace } = readOptions(options, ['device', 'workspace'])
    if (stream !== undefined) openStream(stream)
    this.device = stream === undefined || device !== undefined ? resolveDevice(device) : stream.device
    if (stream !== undefined && stream.device !== this.device) {
      const where = `not on ${elsewhere(this.device, stream.device)} as options.device says`
      throw stateError('ERR_DEVICE_MISMATCH', `${stream} is on ${stream.device}, ${where}`)
    }
    this.#stream = stream
    if (workspace !== undefined) {
      checkDeviceBuffer(workspace, 'options.workspace', WORKSPACE_ALIGNMENT, stream ?? Stream.current(this.device))
    }
    this.#workspace = workspace
    this.#handle = new CublasHandle(this.device)
    destroyWhenUnreachable(this, this.#handle)
  }

  /**
   * cuBLAS's own number, such as 130100 (`cublasGetVersion`); 0 on the simulator.
   * @throws {Error} ERR_CLOSED
   */
  get version(): number {
    const cublas = checkThis(this, isCublas, 'a Cublas')
    cublas.#checkOpen()
    return cublas.#handle.version
  }

  /** Was it closed? */
  get closed(): boolean {
    return checkThis(this, isCublas, 'a Cublas').#closed
  }

  /**
   * Queues C = alpha · A · B + beta · C (`cublasGemmEx`). Matrices lie row after row unless `order` says otherwise;
   * sums are kept in f32, those of f64 in f64. The buffers may be closed as soon as this returns. The first product of
   * its kind on a device may load code, so pending host functions run before, on a GPU; inside a host function that cannot be,
   * and only products of kinds that were computed before are possible.
   * @param a A: m × k elements.
   * @param b B: k × n elements.
   * @param c C: m × n elements; must not overlap A or B.
   * @param options `m`, `n`, `k`, the element `type`, and more: see GemmOptions
   * @throws {Error} ERR_OUT_OF_RANGE for a buffer that is too short and a size or distance out of range; ERR_INVALID_ARG_TYPE,
   * ERR_INVALID_ARG_VALUE for an unknown type or order, and a buffer that begins in the middle of an element;
   * ERR_CLOSED, ERR_DEVICE_MISMATCH for a buffer of another device; ERR_DEADLOCK for the first of its kind inside a
   * host function and while a stream waits for a promise. Nothing is queued then.
   * @throws {LibraryError} where cuBLAS refuses
   */
  gemm(a: DeviceBuffer, b: DeviceBuffer, c: DeviceBuffer, options: GemmOptions): this {
    checkThis(this, isCublas, 'a Cublas').#queue('cublasGemmEx', shapeOfGemm(options), a, b, c)
    return this
  }

  /**
   * As `gemm`, for many products of the same sizes that lie at equal distances (`cublasGemmStridedBatchedEx`).
   * @param a The first A.
   * @param b The first B.
   * @param c The first C.
   * @param options As for `gemm`, and the number of products and their distances: see StridedBatchOptions.
   * @throws {Error} as `gemm`; ERR_OUT_OF_RANGE for a `strideC` at which the results overlap
   * @throws {LibraryError} as `gemm`
   */
  gemmStridedBatched(a: DeviceBuffer, b: DeviceBuffer, c: DeviceBuffer, options: StridedBatchOptions): this {
    checkThis(this, isCublas, 'a Cublas').#queue('cublasGemmStridedBatchedEx', shapeOfBatch(options), a, b, c)
    return this
  }

  /**
   * Lets go of the handle, which is kept for the next Cublas of the device. Queued work still completes. The workspace
   * is the caller's to close. May be called twice.
   */
  close(): void {
    const cublas = checkThis(this, isCublas, 'a Cublas')
    if (cublas.#closed) return
    this.#closed = true
    this.#handle.release()
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    checkThis(this, isCublas, 'a Cublas').close()
  }

  get [Symbol.toStringTag](): string {
    return 'Cublas'
  }

  toString(): string {
    if (!isCublas(this)) return printed(this)
    return `Cublas(${this.#stream ?? this.device}${this.#closed ? ', closed' : ''})`
  }

  #checkOpen(): void {
    if (this.#closed) throw stateError('ERR_CLOSED', `${this} cannot be used any more`)
  }

  #queue(name: GemmFunction, shape: GemmShape, a: DeviceBuffer, b: DeviceBuffer, c: DeviceBuffer): void {
    const stream = this.#stream ?? Stream.current(this.device)
    const { bytes } = CUBLAS_TYPES[shape.type]
    const given = (buffer: DeviceBuffer, letter: 'A' | 'B' | 'C', layout: Layout): GivenMemory => {
      checkDeviceBuffer(buffer, letter, bytes, stream)
      const { elements } = layout
      const byteLength = elements * bytes
      if (buffer.byteLength < byteLength) {
        const expected = `${byteLength} bytes long or longer, for ${elements} elements of ${shape.type}`
        throw outOfRange(letter, expected, buffer.byteLength)
      }
      const access = letter !== 'C' ? 'in' : shape.beta === 0 ? 'out' : 'inout'
      return { buffer, access, byteLength, rows: rowsOf(layout, shape.batchCount, bytes) }
    }
    const matrices = [given(a, 'A', shape.a), given(b, 'B', shape.b), given(c, 'C', shape.c)]
    const workspace = this.#workspace === undefined ? [] : [wholeOf(this.#workspace, 'inout')]
    const open = () => {
      this.#checkOpen()
      const use = openStream(stream)
      return { use, memory: openGiven([...matrices, ...workspace], use) }
    }
    const before = open()
    checkOperandsApart(shape, before.memory)
    const kind = kindOf(name, shape, before.memory)
    const isNew = !isKnown(this.device, kind)
    // Runs the host functions that are pending, which may close what is used here. Inside of one it throws.
    if (isNew) before.use.driver.libraries.call(before.use.context, () => {})
    openStream(stream).makeRoom(LIBRARY_ENTRIES)
    const { use, memory } = open()
    const work: LibraryCall = {
      name,
      stream: use.handle,
      context: use.context,
      memory,
      call: (raw) => callGemm(this.#handle, name, shape, memory, raw),
      host: { nanoseconds: durationOf(shape), run: (contents) => multiply(shape, contents) },
    }
    use.driver.streamHandedOut(use.handle)
    recordOf(use)?.keeps.add(this.#handle)
    queueWith(use, memory, () => use.driver.queue({ kind: 'library', calls: [work] }))
    // What a capture has taken up is not computed yet.
    if (isNew && !use.driver.streamIsCapturing(use.handle)) learn(this.device, kind)
  }

  static {
    isCublas = (value): value is Cublas => typeof value === 'object' && value !== null && #workspace in value
  }
}
inspectAsPrinted(Cublas)

/** Undefined where there are no gaps. */
function rowsOf(layout: Layout, batchCount: number, bytes: number): MemoryRows | undefined {
  const { lines, length, leading, stride, elements } = layout
  if (lines * length * batchCount === elements) return undefined
  const [rowLength, rowDistance, matrixDistance] = [length * bytes, leading * bytes, stride * bytes]
  return { rowLength, rows: lines, rowDistance, matrices: batchCount, matrixDistance }
}

/** Where C overlaps A or B cuBLAS would write elements that it has yet to read. Throws ERR_INVALID_ARG_VALUE. */
function checkOperandsApart(shape: GemmShape, [first, second, result]: readonly UsedMemory[]): void {
  const { type, a, b, c, batchCount } = shape
  for (const [letter, layout, read] of [['A', a, first] as const, ['B', b, second] as const]) {
    const distance = ((result?.pointer ?? 0) - (read?.pointer ?? 0)) / CUBLAS_TYPES[type].bytes
    if (!matricesOverlap(layout, c, distance, batchCount)) continue
    throw invalidValue(`${letter} and C have elements in common: a product cannot be written over what it is made of`)
  }
}

/** About what a GPU of 50 TFLOP/s takes. */
function durationOf({ m, n, k, batchCount }: GemmShape): number {
  return 2000 + Math.round((2 * m * n * k * batchCount) / 50_000)
}
