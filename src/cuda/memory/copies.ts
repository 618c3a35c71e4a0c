/** Copies of bytes, of rows, and of several pieces at once, and what each needs beyond the call of its name. */

import { cudaHandleOf, isNullStream, type Pointer, type StreamHandle } from '../../foundation/driver/handle-types.js'
import type { WorkDriver } from '../../foundation/driver/queued-work.js'
import type { StreamDriver } from '../../foundation/driver/stream-driver.js'
import { bytesIn, type CopiedBytes, type CopyRoute, type MemoryRows } from '../../foundation/driver/touched-memory.js'
import { type CFunction, own } from '../../foundation/native/c-functions.js'
import { ThreadMemory } from '../../foundation/native/thread-memory.js'
import type { SpareStreams } from '../handles/spare-streams.js'
import type { StreamRecord } from '../handles/stream-records.js'
import type { LibcudaParts } from '../libcuda/driver-calls.js'
import { check } from '../libcuda/libcuda.js'
import type { EventPool } from '../waiting/event-pool.js'
import { type ArrayBox, ArrayTable, boxesOf } from './arrays.js'

/**
 * When a copy's stream has nothing to do, CUDA reads a small source in pinned memory at the call, although work that the null stream puts before
 * the copy may still write there (docs/internals/cuda-facts.md). That was seen up to 24 KiB, and not from 32 KiB on; other GPUs may differ.
 */
const MOST_READ_AT_THE_CALL = 65_536
/** CU_MEMCPY_SRC_ACCESS_ORDER_STREAM. */
const IN_STREAM_ORDER = 1
/**
 * The offsets behind the lists of a batch: of a CUmemcpyAttributes, of the index of the first copy that it is for, and of the
 * copy that failed.
 */
const AttributesAfter = { INDEX: 24, FAILED: 32, BYTES: 40 } as const

/** CUmemorytype. UNIFIED is the kind of memory for which CUDA looks at the pointer. */
export const MemoryType = { HOST: 1, DEVICE: 2, ARRAY: 3, UNIFIED: 4 } as const
/** The fields of a CUDA_MEMCPY3D, in words of 8 bytes. The destination has the same fields `DESTINATION` words later. */
export const Field = {
  X: 0,
  Y: 1,
  Z: 2,
  TYPE: 4,
  HOST: 5,
  DEVICE: 6,
  ARRAY: 7,
  PITCH: 9,
  HEIGHT: 10,
  WIDTH: 22,
  ROWS: 23,
  DEPTH: 24,
} as const
export const DESTINATION = 11
const MEMCPY3D_BYTES = 200

export interface CopiesParts extends LibcudaParts {
  readonly arrays: ArrayTable
  readonly pool: EventPool
  readonly spares: SpareStreams
  readonly driver: {
    readonly streams: Pick<StreamDriver, 'isCapturing'> & { isBlocking(stream: StreamRecord): boolean | undefined }
    readonly work: Pick<WorkDriver, 'queue'>
  }
}

export class Copies {
  readonly #rows = new ThreadMemory(MEMCPY3D_BYTES)
  #batch: ThreadMemory | undefined
  /** Streams that make the copies of null streams within the host, by device. */
  readonly #hostStreams = new Map<number, number>()

  constructor(private readonly parts: CopiesParts) {}

  /** The entries of the hardware queue that a copy takes. */
  entriesOf(destination: Pointer, source: Pointer, byteLength: number): number {
    if (!ArrayTable.has(destination) && !ArrayTable.has(source)) return 1
    const whole = ArrayTable.has(destination) ? destination : source
    return boxesOf(this.parts.arrays.at(whole), whole, byteLength).length
  }

  copy(destination: Pointer, source: Pointer, byteLength: number, stream: StreamHandle, route?: CopyRoute): void {
    const { library, must, contexts, calls } = this.parts
    if (ArrayTable.has(destination) || ArrayTable.has(source)) this.#copyArray(destination, source, byteLength, stream)
    else if (route === 'withinHost') this.#copyWithinHost(destination, source, byteLength, stream)
    else if (route === undefined)
      calls.inContextOf(stream, (raw) => {
        const result = this.#keepOrder(stream, raw, byteLength)
        check('cuMemcpyAsync', result || library.cuMemcpyAsync(destination, source, byteLength, raw))
      })
    else {
      const [to, from] = [contexts.primary(route.to), contexts.primary(route.from)]
      calls.inContextOf(stream, (raw) => must.cuMemcpyPeerAsync(destination, to, source, from, byteLength, raw))
    }
  }

  /** Copies rows in one entry of the hardware queue, however many rows there are. */
  copyRows(
    destination: Pointer,
    source: Pointer,
    to: MemoryRows,
    from: MemoryRows,
    stream: StreamHandle,
    route?: CopyRoute,
  ): void {
    if (route === 'withinHost') {
      // Each of CUDA's calls that copies rows within the host waits for the stream.
      this.#byHostFunction(stream, (memcpy) => copyEachRow(memcpy, destination, source, to, from))
      return
    }
    const { bytes } = this.#rows
    bytes.fill(0)
    this.#describe(0, source, from)
    this.#describe(DESTINATION, destination, to)
    this.#rows.setPointer(8 * Field.WIDTH, to.rowLength)
    this.#rows.setPointer(8 * Field.ROWS, to.rows)
    this.#rows.setPointer(8 * Field.DEPTH, to.matrices)
    this.#copyDescribed(stream, bytesIn(to))
  }

  #copyDescribed(stream: StreamHandle, byteLength: number): void {
    const { library, calls } = this.parts
    calls.inContextOf(stream, (raw) => {
      const result = this.#keepOrder(stream, raw, byteLength)
      check('cuMemcpy3DAsync', result || library.cuMemcpy3DAsync_v2(this.#rows.address, raw))
    })
  }

  /** Copies bytes of arrays, in as few boxes as they are. Where both ends are arrays, their rows have one length. */
  #copyArray(destination: Pointer, source: Pointer, byteLength: number, stream: StreamHandle): void {
    const whole = ArrayTable.has(destination) ? destination : source
    for (const box of boxesOf(this.parts.arrays.at(whole), whole, byteLength)) {
      const { offset } = box
      this.#copyBox((destination + offset) as Pointer, (source + offset) as Pointer, box, stream)
    }
  }

  #copyBox(destination: Pointer, source: Pointer, { bytes, rows, planes }: ArrayBox, stream: StreamHandle): void {
    const dense = {
      rowLength: bytes,
      rows,
      rowDistance: bytes,
      matrices: planes,
      matrixDistance: bytes * rows,
    }
    this.#rows.bytes.fill(0)
    this.#describe(0, source, dense)
    this.#describe(DESTINATION, destination, dense)
    this.#rows.setPointer(8 * Field.WIDTH, bytes)
    this.#rows.setPointer(8 * Field.ROWS, rows)
    this.#rows.setPointer(8 * Field.DEPTH, planes)
    this.#copyDescribed(stream, bytes * rows * planes)
  }

  #describe(at: number, pointer: Pointer, { rows, rowDistance, matrices, matrixDistance }: MemoryRows): void {
    const set = (field: number, value: number): void => this.#rows.setPointer(8 * (at + field), value)
    if (ArrayTable.has(pointer)) {
      const array = this.parts.arrays.at(pointer)
      const [box] = boxesOf(array, pointer, 1)
      set(Field.X, box?.x ?? 0)
      set(Field.Y, box?.y ?? 0)
      set(Field.Z, box?.z ?? 0)
      set(Field.TYPE, MemoryType.ARRAY)
      set(Field.ARRAY, array.handle)
      return
    }
    set(Field.TYPE, MemoryType.UNIFIED)
    set(Field.DEVICE, pointer)
    set(Field.PITCH, rowDistance)
    set(Field.HEIGHT, matrices === 1 ? rows : matrixDistance / rowDistance)
  }

  /**
   * Makes several copies in one call. Returns false when they must be made one by one: the call refuses the null stream and streams that capture;
   * with memory of pools it crashes on streams of green contexts, or never returns.
   */
  copyBatch(copies: readonly CopiedBytes[], stream: StreamHandle): boolean {
    const { library, calls, streams, driver } = this.parts
    if (library.cuMemcpyBatchAsync === undefined || isNullStream(stream)) return false
    if (streams.of(stream).green !== undefined || driver.streams.isCapturing(stream)) return false
    const shortest = copies.reduce((least, { byteLength }) => Math.min(least, byteLength), Number.POSITIVE_INFINITY)
    calls.inContextOf(stream, (raw) => {
      check('cuMemcpyBatchAsync', this.#keepOrder(stream, raw, shortest) || this.#callBatch(copies, raw))
    })
    return true
  }

  /** Returns a CUresult. */
  #callBatch(copies: readonly Pick<CopiedBytes, 'destination' | 'source' | 'byteLength'>[], raw: number): number {
    const { length } = copies
    const attributes = 24 * length
    if (this.#batch === undefined || this.#batch.bytes.length < attributes + AttributesAfter.BYTES) {
      this.#batch?.free()
      this.#batch = new ThreadMemory(attributes + AttributesAfter.BYTES)
    }
    const batch = this.#batch
    for (const [index, { destination, source, byteLength }] of copies.entries()) {
      batch.setPointer(8 * index, destination)
      batch.setPointer(8 * (length + index), source)
      batch.setPointer(8 * (2 * length + index), byteLength)
    }
    batch.bytes.fill(0, attributes, attributes + AttributesAfter.BYTES)
    batch.uint32[attributes / 4] = IN_STREAM_ORDER
    const [to, from, sizes] = [batch.address, batch.address + 8 * length, batch.address + 16 * length]
    const at = batch.address + attributes
    const [index, failed] = [at + AttributesAfter.INDEX, at + AttributesAfter.FAILED]
    return this.parts.library.cuMemcpyBatchAsync?.(to, from, sizes, length, at, index, 1, failed, raw) ?? 0
  }

  /**
   * `cuMemcpyAsync` within the host returns only when the stream has come to the copy (docs/internals/cuda-facts.md), which behind a host function is never.
   * `cuMemcpyBatchAsync` queues the copy like any other.
   */
  #copyWithinHost(destination: Pointer, source: Pointer, byteLength: number, stream: StreamHandle): void {
    const { library, contexts, streams, driver } = this.parts
    const { context, device } = streams.of(stream)
    const isCapturing = (): boolean => !isNullStream(stream) && driver.streams.isCapturing(stream)
    // A graph takes such a copy, but its launch would wait for the stream as the copy does.
    if (library.cuMemcpyBatchAsync === undefined || isCapturing()) {
      this.#byHostFunction(stream, (memcpy) => void memcpy(destination, source, byteLength))
      return
    }
    const queue = (raw: number): void =>
      check('cuMemcpyBatchAsync', this.#callBatch([{ destination, source, byteLength }], raw))
    contexts.within(context, () => {
      if (isNullStream(stream)) this.#besideNullStream(device, queue)
      else queue(cudaHandleOf(stream))
    })
  }

  /** The call refuses the null stream, so another stream makes the copy, between two waits. */
  #besideNullStream(device: number, queue: (raw: number) => void): void {
    const { must, contexts, pool, spares } = this.parts
    const other = this.#hostStreams.get(device) ?? spares.lend(device)
    this.#hostStreams.set(device, other)
    const event = pool.shared(contexts.primary(device))
    must.cuEventRecord(event, 0)
    must.cuStreamWaitEvent(other, event, 0)
    queue(other)
    must.cuEventRecord(event, other)
    must.cuStreamWaitEvent(0, event, 0)
  }

  #byHostFunction(stream: StreamHandle, copy: (memcpy: CFunction) => void): void {
    const { driver, streams } = this.parts
    const run = (): void => copy(own().copy)
    const { context } = streams.of(stream)
    driver.work.queue({ kind: 'hostFunction', stream, context, call: { run, runsAfterFault: false, internal: true } })
  }

  /**
   * Keeps a small copy in the null stream's order: a record and a wait for it, in front of the copy, give the stream something to do for just as long.
   * To be called with the stream's context current. Returns a CUresult.
   */
  #keepOrder(stream: StreamHandle, raw: number, byteLength: number): number {
    if (byteLength > MOST_READ_AT_THE_CALL) return 0
    const { library, pool, streams, driver } = this.parts
    const record = streams.of(stream)
    // The source of a copy in a graph is never read early.
    if ((record.isBlocking ?? driver.streams.isBlocking(record)) !== true) return 0
    const event = pool.shared(record.context)
    return library.cuEventRecord(event, raw) || library.cuStreamWaitEvent(raw, event, 0)
  }
}

function copyEachRow(memcpy: CFunction, destination: Pointer, source: Pointer, to: MemoryRows, from: MemoryRows): void {
  for (let matrix = 0; matrix < to.matrices; matrix += 1) {
    for (let row = 0; row < to.rows; row += 1) {
      const at = destination + matrix * to.matrixDistance + row * to.rowDistance
      memcpy(at, source + matrix * from.matrixDistance + row * from.rowDistance, to.rowLength)
    }
  }
}
