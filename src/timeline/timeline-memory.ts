/** Copies, fills, allocations and frees, on their way to the driver. */
import {
  type BatchedCopy,
  bytesIn,
  type ContextHandle,
  type CopyName,
  type CopyRoute,
  type FillWidth,
  type MemoryRows,
  type Pointer,
  type PoolHandle,
  type StreamHandle,
} from '../driver/driver.js'
import { type DriverWrapper, MemoryWrapper } from '../driver/driver-wrapper.js'
import type { Comparison, MemoryValue } from '../driver/values.js'
import { RowKind } from './kinds.js'
import type { RowWriter } from './row-writer.js'

export class TimelineMemory extends MemoryWrapper {
  constructor(
    wrapper: DriverWrapper,
    private readonly writer: RowWriter,
  ) {
    super(wrapper)
  }

  override allocate(byteLength: number, stream: StreamHandle, context: ContextHandle, pool?: PoolHandle): Pointer {
    const { writer } = this
    const row = writer.begin(RowKind.ALLOCATE, stream, writer.common.allocate, byteLength)
    return writer.during(row, stream, () => super.allocate(byteLength, stream, context, pool))
  }

  override free(pointer: Pointer, stream: StreamHandle): void {
    const { writer } = this
    const row = writer.begin(RowKind.FREE, stream, writer.common.free)
    writer.during(row, stream, () => super.free(pointer, stream))
  }

  override copy(
    destination: Pointer,
    source: Pointer,
    byteLength: number,
    stream: StreamHandle,
    route?: CopyRoute,
    name?: CopyName,
  ): void {
    const { writer } = this
    const row = writer.begin(RowKind.COPY, stream, writer.common[name ?? 'copy'], byteLength)
    writer.during(row, stream, () => super.copy(destination, source, byteLength, stream, route, name))
  }

  override copyRows(
    destination: Pointer,
    source: Pointer,
    to: MemoryRows,
    from: MemoryRows,
    stream: StreamHandle,
    route?: 'withinHost',
  ): void {
    const { writer } = this
    const row = writer.begin(RowKind.COPY, stream, writer.common.copy, bytesIn(to))
    writer.during(row, stream, () => super.copyRows(destination, source, to, from, stream, route))
  }

  override copyBatch(copies: readonly BatchedCopy[], stream: StreamHandle): void {
    const { writer } = this
    const bytes = copies.reduce((sum, { byteLength }) => sum + byteLength, 0)
    const row = writer.begin(RowKind.COPY, stream, writer.common.copy, bytes)
    writer.during(row, stream, () => super.copyBatch(copies, stream))
  }

  override waitForValue(at: MemoryValue, compare: Comparison, stream: StreamHandle, context: ContextHandle): void {
    const { writer } = this
    const row = writer.begin(RowKind.WAIT, stream, writer.names.of('waitValue'))
    writer.during(row, stream, () => super.waitForValue(at, compare, stream, context))
  }

  override writeValue(at: MemoryValue, stream: StreamHandle): void {
    const { writer } = this
    const row = writer.begin(RowKind.FILL, stream, writer.names.of('writeValue'), at.bits / 8)
    writer.during(row, stream, () => super.writeValue(at, stream))
  }

  override fill(pointer: Pointer, value: number, width: FillWidth, count: number, stream: StreamHandle): void {
    const { writer } = this
    const row = writer.begin(RowKind.FILL, stream, writer.common.fill, width * count)
    writer.during(row, stream, () => super.fill(pointer, value, width, count, stream))
  }
}
