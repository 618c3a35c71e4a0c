/** Copies, fills, allocations and frees, on their way to the driver. */
import type {
  ContextHandle,
  CopyRoute,
  Driver,
  EventHandle,
  FillWidth,
  MemoryDriver,
  MemoryPlace,
  OwnEvent,
  Pointer,
  StreamHandle,
} from '../driver/driver.js'
import { Kind } from './kinds.js'
import type { RowWriter } from './row-writer.js'

export class TimelineMemory implements MemoryDriver {
  readonly #inner: () => Driver
  readonly #recorder: RowWriter
  readonly #names: { readonly copy: number; readonly fill: number; readonly allocate: number; readonly free: number }

  constructor(inner: () => Driver, recorder: RowWriter) {
    this.#inner = inner
    this.#recorder = recorder
    const { names } = recorder
    this.#names = {
      copy: names.of('copy'),
      fill: names.of('fill'),
      allocate: names.of('allocate'),
      free: names.of('free'),
    }
  }

  allocate(byteLength: number, stream: StreamHandle, context: ContextHandle): Pointer {
    const recorder = this.#recorder
    const row = recorder.begin(Kind.ALLOCATE, stream, this.#names.allocate, byteLength)
    return recorder.during(row, stream, () => this.#inner().memory.allocate(byteLength, stream, context))
  }

  free(pointer: Pointer, stream: StreamHandle): void {
    const recorder = this.#recorder
    const row = recorder.begin(Kind.FREE, stream, this.#names.free)
    recorder.during(row, stream, () => this.#inner().memory.free(pointer, stream))
  }

  admit(pointer: Pointer, owner: number, user: number): boolean {
    return this.#inner().memory.admit(pointer, owner, user)
  }

  copy(destination: Pointer, source: Pointer, byteLength: number, stream: StreamHandle, route?: CopyRoute): void {
    const recorder = this.#recorder
    const row = recorder.begin(Kind.COPY, stream, this.#names.copy, byteLength)
    recorder.during(row, stream, () => this.#inner().memory.copy(destination, source, byteLength, stream, route))
  }

  fill(pointer: Pointer, value: number, width: FillWidth, count: number, stream: StreamHandle): void {
    const recorder = this.#recorder
    const row = recorder.begin(Kind.FILL, stream, this.#names.fill, width * count)
    recorder.during(row, stream, () => this.#inner().memory.fill(pointer, value, width, count, stream))
  }

  allocatePinned(
    byteLength: number,
    context: ContextHandle,
  ): { readonly pointer: Pointer; readonly bytes: ArrayBuffer } {
    return this.#inner().memory.allocatePinned(byteLength, context)
  }

  closePinned(pointer: Pointer, bytes: ArrayBuffer | undefined, after: readonly OwnEvent[]): void {
    this.#inner().memory.closePinned(pointer, bytes, after)
  }

  placeOf(pointer: Pointer, byteLength: number, near: number): MemoryPlace {
    return this.#inner().memory.placeOf(pointer, byteLength, near)
  }

  viewed(pointer: Pointer, byteLength: number): void {
    this.#inner().memory.viewed(pointer, byteLength)
  }

  isDone(event: EventHandle): boolean {
    return this.#inner().memory.isDone(event)
  }
}
