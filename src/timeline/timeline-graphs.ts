/** Launches of graphs, on their way to the driver. */
import type {
  CaptureMode,
  ContextHandle,
  Driver,
  GraphDriver,
  GraphExecHandle,
  GraphHandle,
  StreamHandle,
} from '../driver/driver.js'
import { Kind } from './kinds.js'
import type { RowWriter } from './row-writer.js'

export class TimelineGraphs implements GraphDriver {
  readonly #inner: () => Driver
  readonly #recorder: RowWriter
  readonly #name: number

  constructor(inner: () => Driver, recorder: RowWriter) {
    this.#inner = inner
    this.#recorder = recorder
    this.#name = recorder.names.of('graph')
  }

  launch(exec: GraphExecHandle, stream: StreamHandle): void {
    const recorder = this.#recorder
    const row = recorder.begin(Kind.GRAPH, stream, this.#name)
    recorder.during(row, stream, () => this.#inner().graphs.launch(exec, stream))
  }

  begin(stream: StreamHandle, mode: CaptureMode): void {
    this.#recorder.meter.unseen()
    this.#inner().graphs.begin(stream, mode)
  }

  end(stream: StreamHandle): GraphHandle {
    return this.#inner().graphs.end(stream)
  }

  abandon(stream: StreamHandle): void {
    this.#inner().graphs.abandon(stream)
  }

  destroy(graph: GraphHandle): void {
    this.#inner().graphs.destroy(graph)
  }

  nodeCount(graph: GraphHandle): number {
    return this.#inner().graphs.nodeCount(graph)
  }

  toDot(graph: GraphHandle): string {
    return this.#inner().graphs.toDot(graph)
  }

  instantiate(graph: GraphHandle, context: ContextHandle): GraphExecHandle {
    return this.#inner().graphs.instantiate(graph, context)
  }

  destroyExec(exec: GraphExecHandle): void {
    this.#inner().graphs.destroyExec(exec)
  }

  upload(exec: GraphExecHandle, stream: StreamHandle): void {
    this.#inner().graphs.upload(exec, stream)
  }

  update(exec: GraphExecHandle, graph: GraphHandle): void {
    this.#inner().graphs.update(exec, graph)
  }
}
