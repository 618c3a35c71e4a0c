/** Graphs: captures, instances, launches. */
import type {
  CaptureMode,
  ContextHandle,
  GraphDriver,
  GraphExecHandle,
  GraphHandle,
  StreamHandle,
} from '../driver/driver.js'
import type { SanitizerParts } from './parts.js'

export class SanitizerGraphs implements GraphDriver {
  readonly #parts: SanitizerParts

  constructor(parts: SanitizerParts) {
    this.#parts = parts
  }

  begin(stream: StreamHandle, mode: CaptureMode): void {
    this.#order.stream(stream)
    this.#inner.begin(stream, mode)
    this.#order.captureBegins(stream)
  }

  end(stream: StreamHandle): GraphHandle {
    try {
      const graph = this.#inner.end(stream)
      this.#order.captureEnds(stream, graph)
      return graph
    } catch (error) {
      if (!this.#stillCaptures(stream)) this.#order.captureEnds(stream, undefined)
      throw error
    }
  }

  abandon(stream: StreamHandle): void {
    this.#inner.abandon(stream)
    if (!this.#stillCaptures(stream)) this.#order.captureEnds(stream, undefined)
  }

  destroy(graph: GraphHandle): void {
    this.#inner.destroy(graph)
    this.#order.graphDestroyed(graph)
  }

  nodeCount(graph: GraphHandle): number {
    return this.#inner.nodeCount(graph)
  }

  toDot(graph: GraphHandle): string {
    return this.#inner.toDot(graph)
  }

  instantiate(graph: GraphHandle, context: ContextHandle): GraphExecHandle {
    const exec = this.#inner.instantiate(graph, context)
    this.#order.graphInstantiated(graph, exec)
    return exec
  }

  destroyExec(exec: GraphExecHandle): void {
    this.#inner.destroyExec(exec)
    this.#order.execDestroyed(exec)
  }

  upload(exec: GraphExecHandle, stream: StreamHandle): void {
    this.#inner.upload(exec, stream)
  }

  launch(exec: GraphExecHandle, stream: StreamHandle): void {
    this.#inner.launch(exec, stream)
    this.#parts.detector.launched(exec, stream)
  }

  update(exec: GraphExecHandle, graph: GraphHandle): void {
    this.#inner.update(exec, graph)
    this.#order.graphUpdated(exec, graph)
  }

  get #inner(): GraphDriver {
    return this.#parts.inner().graphs
  }

  get #order(): SanitizerParts['detector']['order'] {
    return this.#parts.detector.order
  }

  #stillCaptures(stream: StreamHandle): boolean {
    try {
      return this.#parts.inner().streamIsCapturing(stream)
    } catch {
      return false
    }
  }
}
