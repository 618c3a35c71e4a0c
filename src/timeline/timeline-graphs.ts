/** Launches of graphs, on their way to the driver. */
import type { CaptureMode, GraphExecHandle, StreamHandle } from '../driver/driver.js'
import { type DriverWrapper, GraphWrapper } from '../driver/driver-wrapper.js'
import { RowKind } from './kinds.js'
import type { RowWriter } from './row-writer.js'

export class TimelineGraphs extends GraphWrapper {
  /** The row of the latest launch of each instance. */
  readonly #launches = new Map<GraphExecHandle, number>()

  constructor(
    wrapper: DriverWrapper,
    private readonly writer: RowWriter,
  ) {
    super(wrapper)
  }

  override launch(exec: GraphExecHandle, stream: StreamHandle): void {
    const { writer } = this
    const row = writer.begin(RowKind.GRAPH, stream, writer.common.graph, Number.NaN, this.#launches.get(exec))
    writer.during(row, stream, () => super.launch(exec, stream))
    if (writer.table.has(row)) this.#launches.set(exec, row)
    else this.#launches.delete(exec)
  }

  /** The handle may be another instance's from now on. */
  override destroyExec(exec: GraphExecHandle): void {
    super.destroyExec(exec)
    this.#launches.delete(exec)
  }

  override begin(stream: StreamHandle, mode: CaptureMode): void {
    this.writer.meter.unseen()
    super.begin(stream, mode)
  }
}
