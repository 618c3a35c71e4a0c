/** Memory: allocations, copies, fills, frees, and views of pinned memory. */
import type {
  ContextHandle,
  CopyName,
  CopyRoute,
  FillWidth,
  MemoryPlace,
  OwnEvent,
  PinnedMemory,
  Pointer,
  PoolHandle,
  StreamHandle,
} from '../driver/driver.js'
import { type DriverWrapper, MemoryWrapper } from '../driver/driver-wrapper.js'
import type { Detector } from './detector.js'

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
    this.detector.allocatedApart(pinned.pointer, byteLength, 'pinned', pinned.bytes)
    return pinned
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

  override fill(pointer: Pointer, value: number, width: FillWidth, count: number, stream: StreamHandle): void {
    const memory = [this.detector.touching(pointer, count * width, 'out')]
    this.detector.probe(stream, 'fill', memory)
    super.fill(pointer, value, width, count, stream)
    this.detector.work(stream, 'fill', memory)
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
}
