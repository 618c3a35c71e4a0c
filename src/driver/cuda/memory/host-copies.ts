/**
 * Copies from one piece of the host's memory to another. `cuMemcpyAsync` returns from these only when the stream has come
 * to them (docs/cuda-facts.md), which behind a host function is never; `cuMemcpyBatchAsync` queues them like any other.
 */
import {
  type ContextHandle,
  cudaHandleOf,
  type Driver,
  isNullStream,
  type MemoryRows,
  type Pointer,
  type StreamHandle,
} from '../../driver.js'
import type { StreamReserve } from '../handles/stream-reserve.js'
import { type CFunction, own } from '../libcuda/c-functions.js'
import { check } from '../libcuda/library.js'
import { NativeMemory } from '../libcuda/native.js'
import type { LibcudaParts } from '../libcuda/stream-calls.js'
import type { EventPool } from '../waiting/event-pool.js'

/** CU_MEMCPY_SRC_ACCESS_ORDER_STREAM. */
const IN_STREAM_ORDER = 1
const CALL = 'cuMemcpyBatchAsync'

export type HostCopiesDriver = Pick<Driver, 'streamIsCapturing' | 'streamLaunchHostFunction'>

export interface HostCopiesParts extends LibcudaParts {
  readonly pool: EventPool
  readonly reserve: StreamReserve
  readonly driver: HostCopiesDriver
}

export class HostCopies {
  /** One copy of a batch: its addresses, its length, and a CUmemcpyAttributes of zeros but for the order. */
  #batch: NativeMemory | undefined
  /** The streams beside null streams, by context. */
  readonly #besides = new Map<ContextHandle, number>()

  constructor(private readonly parts: HostCopiesParts) {}

  copy(destination: Pointer, source: Pointer, byteLength: number, stream: StreamHandle): void {
    const { library, contexts, driver } = this.parts
    const context = this.#contextOf(stream)
    const isCapturing = (): boolean => !isNullStream(stream) && driver.streamIsCapturing(stream)
    // A graph takes such a copy, but its launch would wait for the stream as the copy does.
    if (library.cuMemcpyBatchAsync === undefined || isCapturing()) {
      this.#byHostFunction(stream, context, (memcpy) => void memcpy(destination, source, byteLength))
      return
    }
    contexts.within(context, () => {
      if (isNullStream(stream)) this.#besideNullStream(destination, source, byteLength, context)
      else check(CALL, this.#queue(destination, source, byteLength, cudaHandleOf(stream)))
    })
  }

  /** By a host function: each of CUDA's calls that copies rows waits for the stream here, too. */
  copyRows(destination: Pointer, source: Pointer, to: MemoryRows, from: MemoryRows, stream: StreamHandle): void {
    this.#byHostFunction(stream, this.#contextOf(stream), (memcpy) => {
      for (let matrix = 0; matrix < to.matrices; matrix += 1) {
        for (let row = 0; row < to.rows; row += 1) {
          const at = destination + matrix * to.matrixDistance + row * to.rowDistance
          memcpy(at, source + matrix * from.matrixDistance + row * from.rowDistance, to.rowLength)
        }
      }
    })
  }

  #byHostFunction(stream: StreamHandle, context: ContextHandle, copy: (memcpy: CFunction) => void): void {
    const run = (): void => copy(own().copy)
    this.parts.driver.streamLaunchHostFunction(stream, context, { run, runsAfterFault: false, own: true })
  }

  #contextOf(stream: StreamHandle): ContextHandle {
    return this.parts.streams.of(stream).context
  }

  /** The call refuses the null stream: a stream beside it makes its copies, each between two waits. */
  #besideNullStream(destination: Pointer, source: Pointer, byteLength: number, context: ContextHandle): void {
    const { library, contexts, pool, reserve } = this.parts
    const beside = this.#besides.get(context) ?? reserve.lend(contexts.deviceOf(context))
    this.#besides.set(context, beside)
    const event = pool.shared(context)
    check('cuEventRecord', library.cuEventRecord(event, 0))
    check('cuStreamWaitEvent', library.cuStreamWaitEvent(beside, event, 0))
    check(CALL, this.#queue(destination, source, byteLength, beside))
    check('cuEventRecord', library.cuEventRecord(event, beside))
    check('cuStreamWaitEvent', library.cuStreamWaitEvent(0, event, 0))
  }

  /** Returns a CUresult. */
  #queue(destination: Pointer, source: Pointer, byteLength: number, raw: number): number {
    this.#batch ??= new NativeMemory(72)
    const { address, uint32, uint64 } = this.#batch
    uint64.fill(0n)
    uint64[0] = BigInt(destination)
    uint64[1] = BigInt(source)
    uint64[2] = BigInt(byteLength)
    uint32[6] = IN_STREAM_ORDER
    const [attributes, indices, failed] = [address + 24, address + 48, address + 56]
    const copy = this.parts.library.cuMemcpyBatchAsync
    return copy?.(address, address + 8, address + 16, 1, attributes, indices, 1, failed, raw) ?? 0
  }
}
