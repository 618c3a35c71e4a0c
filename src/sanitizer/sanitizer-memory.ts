/** Memory: allocations, copies, fills, frees, and views of pinned memory. */
import {
  type BatchedCopy,
  type ContextHandle,
  type CopyName,
  type CopyRoute,
  extentOf,
  type FillWidth,
  type MemoryPlace,
  type MemoryRows,
  type OwnEvent,
  type PinnedMemory,
  type Pointer,
  type PoolHandle,
  type StreamHandle,
} from '../driver/driver.js'
import { type DriverWrapper, MemoryWrapper } from '../driver/driver-wrapper.js'
import type { Comparison, MemoryValue } from '../driver/values.js'
import type { Detector } from './detector.js'
import type { Touched } from './operations.js'

export class SanitizerMemory extends MemoryWrapper {
  constructor(
    wrapper: DriverWrapper,
    private readonly detector: Detector,
  ) {
    super(wrapper)
  }

  override allocate(byteLength: number, stream: StreamHandle, context: ContextHandle, pool?: PoolHandle): Pointer {
    const pointer = super.allocate(byteLength, stream, context, pool)
    this.detector.allocated(pointer, byteLength, stream)
    return pointer
  }

  override free(pointer: Pointer, stream: StreamHandle): void {
    this.detector.probeFree(pointer, stream)
    super.free(pointer, stream)
    this.detector.freed(pointer, stream)
  }

  override allocatePinned(byteLength: number, context: ContextHandle): PinnedMemory {
    const pinned = super.allocatePinned(byteLength, context)
    this.detector.allocatedApart(pinned.pointer, byteLength, 'pinned', new Uint8Array(pinned.bytes))
    return pinned
  }

  override registerPinned(bytes: Uint8Array, context: ContextHandle): Pointer {
    const pointer = super.registerPinned(bytes, context)
    this.detector.allocatedApart(pointer, bytes.length, 'pinned', bytes)
    this.detector.registered(pointer)
    return pointer
  }

  override closePinned(pointer: Pointer, bytes: ArrayBuffer | undefined, after: readonly OwnEvent[]): void {
    this.detector.closing(pointer, after, () => super.closePinned(pointer, bytes, after))
  }

  override copy(
    destination: Pointer,
    source: Pointer,
    byteLength: number,
    stream: StreamHandle,
    route?: CopyRoute,
    name: CopyName = 'copy',
  ): void {
    const { detector } = this
    const memory = [detector.touching(destination, byteLength, 'out'), detector.touching(source, byteLength, 'in')]
    detector.probe(stream, name, memory)
    super.copy(destination, source, byteLength, stream, route, name)
    detector.work(stream, name, memory)
  }

  override copyRows(
    destination: Pointer,
    source: Pointer,
    to: MemoryRows,
    from: MemoryRows,
    stream: StreamHandle,
    route?: 'withinHost',
  ): void {
    const memory = [this.#inRows(destination, to, 'out'), this.#inRows(source, from, 'in')]
    this.detector.probe(stream, 'copy', memory)
    super.copyRows(destination, source, to, from, stream, route)
    this.detector.work(stream, 'copy', memory)
  }

  override copyBatch(copies: readonly BatchedCopy[], stream: StreamHandle): void {
    const memory = copies.flatMap(({ destination, source, byteLength }) => [
      this.detector.touching(destination, byteLength, 'out'),
      this.detector.touching(source, byteLength, 'in'),
    ])
    this.detector.probe(stream, 'copy', memory)
    super.copyBatch(copies, stream)
    this.detector.work(stream, 'copy', memory)
  }

  override fill(pointer: Pointer, value: number, width: FillWidth, count: number, stream: StreamHandle): void {
    const memory = [this.detector.touching(pointer, count * width, 'out')]
    this.detector.probe(stream, 'fill', memory)
    super.fill(pointer, value, width, count, stream)
    this.detector.work(stream, 'fill', memory)
    this.detector.filled(pointer, value, width, count, stream)
  }

  override waitForValue(at: MemoryValue, compare: Comparison, stream: StreamHandle, context: ContextHandle): void {
    super.waitForValue(at, compare, stream, context)
    this.detector.valueAwaited(at, compare, stream)
  }

  override writeValue(at: MemoryValue, stream: StreamHandle): void {
    super.writeValue(at, stream)
    this.detector.valueWritten(at, stream)
  }

  override placeOf(pointer: Pointer, byteLength: number, near: number): MemoryPlace {
    const place = super.placeOf(pointer, byteLength, near)
    this.detector.regions.foreign(pointer, byteLength)
    return place
  }

  override viewed(pointer: Pointer, byteLength: number): void {
    this.detector.viewed(pointer, byteLength)
    super.viewed(pointer, byteLength)
  }

  #inRows(pointer: Pointer, rows: MemoryRows, access: 'in' | 'out'): Touched {
    const isDense = rows.rowDistance === rows.rowLength && rows.matrixDistance === rows.rows * rows.rowLength
    const touched = this.detector.touching(pointer, extentOf(rows), access)
    return isDense ? touched : { ...touched, rows }
  }
}
