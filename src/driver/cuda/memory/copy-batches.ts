/** Several copies in one call, `cuMemcpyBatchAsync`, where the driver and the stream have it. */
import { type CopiedBytes, type Driver, isNullStream, type StreamHandle } from '../../driver.js'
import type { CudaGreenContexts } from '../cuda-green-contexts.js'
import { NativeMemory } from '../libcuda/native.js'
import type { LibcudaParts } from '../libcuda/stream-calls.js'
import type { CopyOrder } from './copy-order.js'

/** CU_MEMCPY_SRC_ACCESS_ORDER_STREAM. */
const IN_STREAM_ORDER = 1
/** A CUmemcpyAttributes, the index of the first copy that it is for, and which copy failed. */
const MORE_BYTES = 40

export interface CopyBatchesParts extends LibcudaParts {
  readonly driver: Pick<Driver, 'streamIsCapturing'>
  readonly green: Pick<CudaGreenContexts, 'isGreen'>
}

export class CopyBatches {
  #arguments: NativeMemory | undefined

  constructor(
    private readonly parts: CopyBatchesParts,
    private readonly order: CopyOrder,
  ) {}

  /**
   * False where they have to be made one by one: the call refuses the null stream, and streams that capture; with memory of
   * pools it crashes on streams of green contexts, or never returns.
   */
  copy(copies: readonly CopiedBytes[], stream: StreamHandle): boolean {
    const { library, calls, driver, green } = this.parts
    const { cuMemcpyBatchAsync } = library
    if (cuMemcpyBatchAsync === undefined || isNullStream(stream) || green.isGreen(stream)) return false
    if (driver.streamIsCapturing(stream)) return false
    const { length } = copies
    const { address, uint64, uint32 } = this.#room(24 * length + MORE_BYTES)
    let shortest = Number.MAX_SAFE_INTEGER
    for (const [index, { destination, source, byteLength }] of copies.entries()) {
      uint64[index] = BigInt(destination)
      uint64[length + index] = BigInt(source)
      uint64[2 * length + index] = BigInt(byteLength)
      shortest = Math.min(shortest, byteLength)
    }
    const attributes = address + 24 * length
    uint64.fill(0n, 3 * length, 3 * length + MORE_BYTES / 8)
    uint32[6 * length] = IN_STREAM_ORDER
    const [sources, sizes, indices, failed] = [8 * length, 16 * length, 24 * length + 24, 24 * length + 32]
    calls.inContextOf(
      stream,
      'cuMemcpyBatchAsync',
      (raw) =>
        this.order.before(stream, raw, shortest) ||
        cuMemcpyBatchAsync(
          address,
          address + sources,
          address + sizes,
          length,
          attributes,
          address + indices,
          1,
          address + failed,
          raw,
        ),
    )
    return true
  }

  #room(byteLength: number): NativeMemory {
    if (this.#arguments !== undefined && this.#arguments.bytes.length >= byteLength) return this.#arguments
    this.#arguments?.free()
    this.#arguments = new NativeMemory(byteLength)
    return this.#arguments
  }
}
