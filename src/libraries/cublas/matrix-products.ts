/** Matrix products and sums by cuBLAS, in stream order. Importing this loads no library. */

import { type Device, resolveDevice } from '../../core/device.js'
import type { DeviceBuffer } from '../../core/memory/device-buffer.js'
import type { Stream } from '../../core/stream.js'
import { openStream } from '../../core/streams/stream-impl.js'
import { checkThis, readOptions } from '../../foundation/base/arguments.js'
import { ELEMENT_TYPES } from '../../foundation/base/element-types.js'
import { invalidValue, outOfRange } from '../../foundation/base/errors.js'
import { implementation } from '../../foundation/base/library-object.js'
import type { MemoryRows } from '../../foundation/driver/touched-memory.js'
import {
  checkHandleOpen,
  HandleOwner,
  LibraryHandle,
  queueCall,
  refuseStream,
  streamOfCall,
} from '../handle-library.js'
import { checkDeviceBuffer, type GivenMemory, openGiven, type UsedMemory, wholeOf } from '../library-call.js'
import { CUBLAS_HANDLES, cublas, versionOf } from './cublas-library.js'
import { type GeamOptions, sumOf } from './geam.js'
import { callOn, type MatrixCall, productOf } from './gemm-call.js'
import type { GemmOptions, Layout, StridedBatchOptions } from './gemm-shape.js'
import { matricesOverlap, shapeOfBatch, shapeOfGemm } from './gemm-shape.js'

/** The options of `new Cublas(options)`. */
export interface CublasOptions {
  /** The device of the work. Default: the current device. */
  readonly device?: Device | number | undefined
  /**
   * Memory that cuBLAS works in, instead of its own (`cublasSetWorkspace`). NVIDIA advises 32 MiB from Hopper on, 4 MiB
   * before. It begins at a multiple of 256 bytes. With a workspace, captures allocate no memory. Work of two streams uses it one after the other: order
   * them, or make a Cublas with a workspace of its own for each. The sanitizer finds where that order is missing.
   */
  readonly workspace?: DeviceBuffer | undefined
}

/** Workspaces begin at a multiple of 256 bytes. */
const WORKSPACE_ALIGNMENT = 256

/**
 * cuBLAS on one device. Each call is given the stream of its work (`cublasSetStream`), so that one object serves all streams. The
 * simulator computes the same in JavaScript, slowly. An object that the program cannot reach any more is closed.
 * @example
 * ```ts
 * import { Cublas } from 'cuda-streams/cublas'
 *
 * using cublas = new Cublas()
 * const [a, b, c] = [device.alloc(4 * 64 * 32), device.alloc(4 * 32 * 16), device.alloc(4 * 64 * 16)]
 * cublas.gemm(stream, a, b, c, { m: 64, n: 16, k: 32, type: 'f32' })
 * ```
 */
export class Cublas extends HandleOwner {
  readonly #workspace: DeviceBuffer | undefined

  /**
   * Loads cuBLAS the first time, and makes a handle (`cublasCreate`). Pending host functions run before, since that
   * call may wait for the device.
   * @param options `device`: the device of the work (default: the current device). `workspace`: memory that cuBLAS works in, instead of its own.
   * @throws {Error} ERR_UNSUPPORTED, with the places tried, if cuBLAS is not found (CUDA_STREAMS_CUBLAS names the
   * file or its folder); ERR_DEADLOCK inside a host function and while a stream waits for a promise;
   * ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for a
   * workspace that begins elsewhere; ERR_CLOSED for a closed workspace; ERR_DEVICE_MISMATCH if device and workspace are not one device;
   * ERR_OUT_OF_RANGE for a device that does not exist
   * @throws {LibraryError} if cuBLAS refuses
   */
  constructor(options?: CublasOptions) {
    refuseStream(options, 'cublas.gemm(stream, a, b, c, options)')
    const { device: given, workspace } = readOptions(options, ['device', 'workspace'])
    const device = resolveDevice(given)
    if (workspace !== undefined) checkDeviceBuffer(workspace, 'options.workspace', WORKSPACE_ALIGNMENT, { device })
    super(new LibraryHandle(cublas, device, CUBLAS_HANDLES))
    this.#workspace = workspace
  }

  /**
   * cuBLAS's own number, such as 130100 (`cublasGetVersion`); 0 on the simulator.
   * @throws {Error} ERR_CLOSED
   */
  get version(): number {
    checkHandleOpen(checkThis(this, isCublas, 'a Cublas'))
    return versionOf(this[implementation])
  }

  /**
   * Queues C = alpha · A · B + beta · C (`cublasGemmEx`). Matrices are row-major unless `order` says otherwise; sums are
   * kept in f32, those of f64 in f64. The buffers may be closed as soon as this returns. The first product of its kind on a
   * device may load code, so pending host functions run before, on a GPU. Inside a host function they cannot: there only
   * kinds of products are possible that were computed before.
   * @param stream The stream of the work.
   * @param a A: m × k elements.
   * @param b B: k × n elements.
   * @param c C: m × n elements; must not overlap A or B.
   * @param options `m`, `n`, `k`, the element `type`, and more: see GemmOptions
   * @throws {Error} ERR_OUT_OF_RANGE for a buffer that is too short and a size or distance out of range; ERR_INVALID_ARG_TYPE,
   * ERR_INVALID_ARG_VALUE for an unknown type or order, and a buffer that begins in the middle of an element;
   * ERR_CLOSED, ERR_DEVICE_MISMATCH for a buffer of another device; ERR_DEADLOCK for the first of its kind inside a
   * host function and while a stream waits for a promise. Nothing is queued then.
   * @throws {LibraryError} if cuBLAS refuses
   */
  gemm(stream: Stream, a: DeviceBuffer, b: DeviceBuffer, c: DeviceBuffer, options: GemmOptions): this {
    checkThis(this, isCublas, 'a Cublas').#queue(
      streamOfCall(this, stream),
      productOf('cublasGemmEx', shapeOfGemm(options)),
      a,
      b,
      c,
    )
    return this
  }

  /**
   * Queues many products as `gemm` does, of the same sizes and at equal distances (`cublasGemmStridedBatchedEx`).
   * @param stream The stream of the work.
   * @param a The first A.
   * @param b The first B.
   * @param c The first C.
   * @param options As for `gemm`, and the number of products and their distances: see StridedBatchOptions.
   * @throws {Error} as `gemm`; ERR_OUT_OF_RANGE for a `strideC` at which the results overlap
   * @throws {LibraryError} as `gemm`
   */
  gemmStridedBatched(
    stream: Stream,
    a: DeviceBuffer,
    b: DeviceBuffer,
    c: DeviceBuffer,
    options: StridedBatchOptions,
  ): this {
    const self = checkThis(this, isCublas, 'a Cublas')
    self.#queue(streamOfCall(self, stream), productOf('cublasGemmStridedBatchedEx', shapeOfBatch(options)), a, b, c)
    return this
  }

  /**
   * Queues C = alpha · A + beta · B (`cublasSgeam`, for f64 `cublasDgeam`), of matrices or their transposes. Without B it only
   * scales or transposes A. Matrices are row-major unless `order` says otherwise. The buffers may be closed as soon as this
   * returns. The first sum of its kind on a device may load code, as the first product does: see `gemm`.
   * @param stream The stream of the work.
   * @param a A: m × n elements; with `transposeA` memory has n × m.
   * @param b B: m × n elements; with `transposeB` memory has n × m. With undefined nothing is added.
   * @param c C: m × n elements; must not overlap A or B, but may be one of them that is not transposed and has the same
   * leading dimension.
   * @param options `m`, `n`, the element `type`, and more: see GeamOptions
   * @example
   * ```ts
   * import { Cublas } from 'cuda-streams/cublas'
   *
   * // Pixels of three colours become three planes, as models want them: rows of C, each with one colour of all pixels.
   * using cublas = new Cublas()
   * const [pixels, planes] = [device.alloc(4 * 224 * 224 * 3), device.alloc(4 * 224 * 224 * 3)]
   * cublas.geam(stream, pixels, undefined, planes, { m: 3, n: 224 * 224, transposeA: true, type: 'f32' })
   * ```
   * @throws {Error} as `gemm`; ERR_INVALID_ARG_VALUE for a `beta` that is not 0 without B, and if C overlaps A or B otherwise
   * @throws {LibraryError} as `gemm`
   */
  geam(stream: Stream, a: DeviceBuffer, b: DeviceBuffer | undefined, c: DeviceBuffer, options: GeamOptions): this {
    checkThis(this, isCublas, 'a Cublas').#queue(
      streamOfCall(this, stream),
      sumOf(options, b !== undefined),
      a,
      b === undefined ? a : b,
      c,
    )
    return this
  }

  get [Symbol.toStringTag](): string {
    return 'Cublas'
  }

  #queue(stream: Stream, call: MatrixCall, a: DeviceBuffer, b: DeviceBuffer, c: DeviceBuffer): void {
    const { name, shape, reads, kind, host } = call
    const { bytes } = ELEMENT_TYPES[shape.type]
    const given = (buffer: DeviceBuffer, letter: 'A' | 'B' | 'C', layout: Layout): GivenMemory => {
      checkDeviceBuffer(buffer, letter, bytes, stream)
      const { elements } = layout
      const byteLength = elements * bytes
      if (buffer.byteLength < byteLength) {
        const expected = `${byteLength} bytes long or longer, for ${elements} elements of ${shape.type}`
        throw outOfRange(letter, expected, buffer.byteLength)
      }
      const isRead = reads.includes(letter)
      if (letter !== 'C' && !isRead) return { buffer, access: 'in', byteLength: 0, rows: undefined }
      const access = letter !== 'C' ? 'in' : isRead ? 'inout' : 'out'
      return { buffer, access, byteLength, rows: rowsOf(layout, shape.batchCount, bytes) }
    }
    const matrices = [given(a, 'A', shape.a), given(b, 'B', shape.b), given(c, 'C', shape.c)]
    const workspace = this.#workspace === undefined ? [] : [wholeOf(this.#workspace, 'inout')]
    const memory = [...matrices, ...workspace]
    if (shape.c.elements === 0) {
      // cuBLAS returns at once.
      checkHandleOpen(this)
      openGiven(memory, openStream(stream))
      return
    }
    queueCall(this, stream, {
      name,
      memory,
      check: (memory) => checkOperands(call, memory),
      kind,
      call: (memory, raw) => callOn(raw, this[implementation].address, call, memory),
      host,
    })
  }
}

const isCublas = (value: unknown): value is Cublas => value instanceof Cublas && value[implementation] !== undefined

/** The rows of a matrix; undefined if there are no gaps between them. */
function rowsOf(layout: Layout, batchCount: number, bytes: number): MemoryRows | undefined {
  const { lines, length, leading, stride, elements } = layout
  if (lines * length * batchCount === elements) return undefined
  const [rowLength, rowDistance, matrixDistance] = [length * bytes, leading * bytes, stride * bytes]
  return { rowLength, rows: lines, rowDistance, matrices: batchCount, matrixDistance }
}

/** Throws ERR_INVALID_ARG_VALUE if C overlaps A or B, so that cuBLAS would write elements that it has yet to read. */
function checkOperands({ shape, mayBeInPlace }: MatrixCall, [first, second, result]: readonly UsedMemory[]): void {
  const { type, a, b, c, transposeA, transposeB, batchCount } = shape
  for (const [letter, layout, read, transposed] of [
    ['A', a, first, transposeA] as const,
    ['B', b, second, transposeB] as const,
  ]) {
    const distance = ((result?.pointer ?? 0) - (read?.pointer ?? 0)) / ELEMENT_TYPES[type].bytes
    if (!matricesOverlap(layout, c, distance, batchCount)) continue
    if (mayBeInPlace && distance === 0 && !transposed && layout.leading === c.leading) continue
    const what = `${letter} and C have elements in common`
    if (!mayBeInPlace) throw invalidValue(`${what}: a product cannot be written over what it is made of`)
    throw invalidValue(
      `${what}: C can be ${letter} only without a transposition and with ld${letter.toLowerCase()} and ldc alike`,
    )
  }
}
