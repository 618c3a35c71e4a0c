/** Memory: allocations, copies, fills, frees, and views of pinned memory. */
import type {
  ContextHandle,
  CopyRoute,
  EventHandle,
  FillWidth,
  MemoryDriver,
  MemoryPlace,
  OwnEvent,
  Pointer,
  StreamHandle,
} from '../driver/driver.js'
import type { Touched } from './operations.js'
import type { SanitizerParts } from './parts.js'

export class SanitizerMemory implements MemoryDriver {
  readonly #parts: SanitizerParts

  constructor(parts: SanitizerParts) {
    this.#parts = parts
  }

  allocate(byteLength: number, stream: StreamHandle, context: ContextHandle): Pointer {
    const pointer = this.#inner.allocate(byteLength, stream, context)
    this.#parts.detector.allocated(pointer, byteLength, stream)
    return pointer
  }

  free(pointer: Pointer, stream: StreamHandle): void {
    this.#inner.free(pointer, stream)
    this.#parts.detector.freed(pointer, stream)
  }

  allocatePinned(
    byteLength: number,
    context: ContextHandle,
  ): { readonly pointer: Pointer; readonly bytes: ArrayBuffer } {
    const pinned = this.#inner.allocatePinned(byteLength, context)
    this.#parts.detector.regions.allocated(pinned.pointer, byteLength, 'pinned')
    return pinned
  }

  closePinned(pointer: Pointer, bytes: ArrayBuffer | undefined, after: readonly OwnEvent[]): void {
    this.#parts.detector.closing(pointer, after, () => this.#inner.closePinned(pointer, bytes, after))
  }

  admit(pointer: Pointer, owner: number, user: number): boolean {
    return this.#inner.admit(pointer, owner, user)
  }

  copy(destination: Pointer, source: Pointer, byteLength: number, stream: StreamHandle, route?: CopyRoute): void {
    const memory: readonly Touched[] = [
      { pointer: destination, byteLength, access: 'out' },
      { pointer: source, byteLength, access: 'in' },
    ]
    this.#probe(stream, 'copy', memory)
    this.#inner.copy(destination, source, byteLength, stream, route)
    this.#parts.detector.work(stream, 'copy', memory)
  }

  fill(pointer: Pointer, value: number, width: FillWidth, count: number, stream: StreamHandle): void {
    const memory: readonly Touched[] = [{ pointer, byteLength: count * width, access: 'out' }]
    this.#probe(stream, 'fill', memory)
    this.#inner.fill(pointer, value, width, count, stream)
    this.#parts.detector.work(stream, 'fill', memory)
  }

  placeOf(pointer: Pointer, byteLength: number, near: number): MemoryPlace {
    const place = this.#inner.placeOf(pointer, byteLength, near)
    this.#parts.detector.regions.foreign(pointer, byteLength)
    return place
  }

  viewed(pointer: Pointer, byteLength: number): void {
    this.#parts.detector.viewed(pointer, byteLength)
    this.#inner.viewed(pointer, byteLength)
  }

  isDone(event: EventHandle): boolean {
    const done = this.#inner.isDone(event)
    const { order } = this.#parts.detector
    if (done) order.hostKnows(order.workOfEvent(event))
    return done
  }

  get #inner(): MemoryDriver {
    return this.#parts.inner().memory
  }

  #probe(stream: StreamHandle, what: string, memory: readonly Touched[]): void {
    if (this.#parts.probes) this.#parts.detector.probe(stream, what, memory)
  }
}
