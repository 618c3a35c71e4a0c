/** Copies, fills, allocations and frees, on their way to the driver. */
import type { ContextHandle, CopyRoute, FillWidth, Pointer, StreamHandle } from '../driver/driver.js'
import { type DriverWrapper, MemoryWrapper } from '../driver/driver-wrapper.js'
import { Kind } from './kinds.js'
import type { RowWriter } from './row-writer.js'

export class TimelineMemory extends MemoryWrapper {
  readonly #names: { readonly copy: number; readonly fill: number; readonly allocate: number; readonly free: number }

  constructor(
    wrapper: DriverWrapper,
    private readonly writer: RowWriter,
  ) {
    super(wrapper)
    const { names } = writer
    this.#names = {
      copy: names.of('copy'),
      fill: names.of('fill'),
      allocate: names.of('allocate'),
      free: names.of('free'),
    }
  }

  override allocate(byteLength: number, stream: StreamHandle, context: ContextHandle): Pointer {
    const writer = this.writer
    const row = writer.begin(Kind.ALLOCATE, stream, this.#names.allocate, byteLength)
    return writer.during(row, stream, () => super.allocate(byteLength, stream, context))
  }

  override free(pointer: Pointer, stream: StreamHandle): void {
    const writer = this.writer
    const row = writer.begin(Kind.FREE, stream, this.#names.free)
    writer.during(row, stream, () => super.free(pointer, stream))
  }

  override copy(
    destination: Pointer,
    source: Pointer,
    byteLength: number,
    stream: StreamHandle,
    route?: CopyRoute,
  ): void {
    const writer = this.writer
    const row = writer.begin(Kind.COPY, stream, this.#names.copy, byteLength)
    writer.during(row, stream, () => super.copy(destination, source, byteLength, stream, route))
  }

  override fill(pointer: Pointer, value: number, width: FillWidth, count: number, stream: StreamHandle): void {
    const writer = this.writer
    const row = writer.begin(Kind.FILL, stream, this.#names.fill, width * count)
    writer.during(row, stream, () => super.fill(pointer, value, width, count, stream))
  }
}
