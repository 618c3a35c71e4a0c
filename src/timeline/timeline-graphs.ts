/** Launches of graphs, on their way to the driver. */
import type { CaptureMode, GraphExecHandle, StreamHandle } from '../driver/driver.js'
import { type DriverWrapper, GraphWrapper } from '../driver/driver-wrapper.js'
import { RowKind } from './kinds.js'
import type { RowWriter } from './row-writer.js'

export class TimelineGraphs extends GraphWrapper {
  constructor(
    wrapper: DriverWrapper,
    private readonly writer: RowWriter,
  ) {
    super(wrapper)
  }

  override launch(exec: GraphExecHandle, stream: StreamHandle): void {
    const { writer } = this
    const row = writer.begin(RowKind.GRAPH, stream, writer.common.graph)
    writer.during(row, stream, () => super.launch(exec, stream))
  }

  override begin(stream: StreamHandle, mode: CaptureMode): void {
    this.writer.meter.unseen()
    super.begin(stream, mode)
  }
}
