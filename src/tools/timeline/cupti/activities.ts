/**
 * CUPTI's activity interface, switched on for as long as a recording wants it. CUPTI has one client in a process: the
 * recordings of a thread share it, and those of other threads are refused meanwhile.
 */

import { type ContextHandle, cudaHandleOf, type StreamHandle } from '../../../foundation/driver/handle-types.js'
import { NativeMemory } from '../../../foundation/native/native-memory.js'
import { ActivityKind, type CuptiLibrary, checkCupti, openCupti } from './cupti-library.js'
import { RecordBuffers } from './record-buffers.js'
import { Records } from './records.js'

const BUFFER_BYTES = 2 ** 20
/** The bytes that CUPTI writes for an operation and for the call that queued it. */
const BYTES_OF_OPERATION = 304
/** The number of buffers for threads, as each thread that uses CUDA has one of its own. */
const BUFFERS_OF_THREADS = 256
const KINDS = Object.values(ActivityKind)
/**
 * The numbers in CUpti_driver_api_trace_cbid and CUpti_runtime_api_trace_cbid of calls that queue kernels, copies, fills and graphs. Recording all
 * calls would cost PyTorch as much again as its launches do.
 */
export const DRIVER_CALLS: ReadonlySet<number> = new Set([
  ...[307, 442, 477, 478, 480, 514, 515, 652, 653], // cuLaunch…, cuGraphLaunch
  ...[276, 277, 278, 279, 280, 281, 287, 288, 289, 290, 291, 305, 306, 318, 319, 320, 321], // cuMemcpy…
  ...[397, 398, 399, 405, 406, 407, 408, 409, 410, 418, 421, 422, 423, 424, 425, 426, 427], // …_ptds, …_ptsz
  ...[776, 777, 778, 779, 796, 797, 798, 799], // cuMemcpyBatchAsync…
  ...[216, 218, 220, 222, 224, 226, 249, 250, 251, 252, 253, 254], // cuMemset…
  ...[411, 412, 413, 414, 415, 416, 428, 429, 430, 431, 432, 433], // …_ptds, …_ptsz
])
export const RUNTIME_CALLS: ReadonlySet<number> = new Set([
  ...[211, 214, 269, 270, 272, 311, 312, 430, 431], // cudaLaunch…, cudaGraphLaunch
  ...[31, 32, 41, 44, 144, 145, 160, 161, 162, 163, 215, 216, 225, 228, 245, 246, 249, 250], // cudaMemcpy…
  ...[49, 50, 51, 52, 142, 143, 233, 234, 235, 236, 243, 244], // cudaMemset…
])
/** A limit that is higher than the number of calls of either kind. */
const MOST_CALLS = 1024
const PER_THREAD = 2
/** The flag CUPTI_ACTIVITY_FLAG_FLUSH_FORCED, with which buffers that are not full are flushed, too. */
const FORCED = 1
/** The number of comparisons of both clocks, of which the closest counts. */
const LOOKS = 12

/** A moment on both clocks: that of the recording, and CUPTI's since its origin. */
export interface ClockLook {
  readonly host: number
  readonly cupti: number
}

let buffers: RecordBuffers | undefined
let shared: Activities | undefined

export class Activities {
  readonly records: Records
  /** The number of records that there was no memory for. */
  dropped = 0
  readonly #memory = new NativeMemory(16)
  readonly #origin: bigint
  #subscriber = 0
  #users = 0

  /**
   * Opens CUPTI for one more recording of at most `limit` operations, which closes it.
   * @throws {Error} ERR_UNSUPPORTED without CUPTI, on another platform than Linux; LibraryError, such as
   * CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED if another tool uses CUPTI
   */
  static open(limit: number): Activities {
    const library = openCupti()
    buffers ??= new RecordBuffers(BUFFER_BYTES)
    shared ??= new Activities(library, buffers)
    shared.#users += 1
    buffers.allow(Math.ceil((limit * BYTES_OF_OPERATION) / BUFFER_BYTES) + BUFFERS_OF_THREADS)
    return shared
  }

  private constructor(
    private readonly library: CuptiLibrary,
    private readonly buffers: RecordBuffers,
  ) {
    const { address } = this.#memory
    // The subscriber receives nothing: it only keeps other tools from taking CUPTI over, and shows that one has.
    checkCupti('cuptiSubscribe', library.cuptiSubscribe(address, buffers.completed, 0))
    this.#subscriber = this.#memory.pointerAt(0)
    this.#origin = this.#timestamp()
    this.records = new Records(library, this.#origin)
    try {
      const { requested, completed } = buffers
      checkCupti('cuptiActivityRegisterCallbacks', library.cuptiActivityRegisterCallbacks(requested, completed))
      for (const kind of KINDS) checkCupti('cuptiActivityEnable', library.cuptiActivityEnable(kind))
      // Switching on single calls has no effect in CUPTI 13.0; switching off all others has.
      for (let call = 1; call < MOST_CALLS; call += 1) {
        if (!DRIVER_CALLS.has(call)) library.cuptiActivityEnableDriverApi(call, 0)
        if (!RUNTIME_CALLS.has(call)) library.cuptiActivityEnableRuntimeApi(call, 0)
      }
    } catch (error) {
      this.#switchOff()
      throw error
    }
  }

  /** The times of both clocks at one moment; `now` reads the recording's. */
  look(now: () => number): ClockLook {
    let [best, width] = [{ host: 0, cupti: 0 }, Number.POSITIVE_INFINITY]
    for (let looks = 0; looks < LOOKS; looks += 1) {
      const before = now()
      const timestamp = this.#timestamp()
      const after = now()
      if (after - before >= width) continue
      width = after - before
      best = { host: before + width / 2, cupti: Number(timestamp - this.#origin) }
    }
    return best
  }

  /** CUPTI's number of a stream, which is not the driver's; undefined if the stream has none. */
  numberOf(context: ContextHandle, stream: StreamHandle): number | undefined {
    const handle = cudaHandleOf(stream)
    const { address, uint32 } = this.#memory
    const [named, perThread] = handle === PER_THREAD ? [0, 1] : [handle, 0]
    return this.library.cuptiGetStreamIdEx(context, named, perThread, address) === 0 ? uint32[0] : undefined
  }

  /** Reads what was written since the last time. */
  collect(): void {
    const { library, records } = this
    // CUPTI refuses the call after a fault; what was written before is still there.
    library.cuptiActivityFlushAll(FORCED)
    this.buffers.drain((buffer) => records.read(buffer))
    if (library.cuptiActivityGetNumDroppedRecords(0, 0, this.#memory.address) === 0) {
      this.dropped += this.#memory.pointerAt(0)
    }
  }

  close(): void {
    this.#users -= 1
    if (this.#users > 0) return
    shared = undefined
    this.#switchOff()
  }

  #switchOff(): void {
    for (const kind of KINDS) this.library.cuptiActivityDisable(kind)
    this.library.cuptiActivityFlushAll(FORCED)
    this.buffers.drain(() => {})
    this.library.cuptiUnsubscribe(this.#subscriber)
    this.records.close()
    this.#memory.free()
  }

  #timestamp(): bigint {
    checkCupti('cuptiGetTimestamp', this.library.cuptiGetTimestamp(this.#memory.address))
    return this.#memory.uint64[0] ?? 0n
  }
}
