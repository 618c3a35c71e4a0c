/** Graphs: captures, instances, launches. */
import type { CaptureMode, ContextHandle, GraphExecHandle, GraphHandle, StreamHandle } from '../driver/driver.js'
import { type DriverWrapper, GraphWrapper } from '../driver/driver-wrapper.js'
import type { Detector } from './detector.js'
import type { HappensBefore } from './happens-before.js'

export class SanitizerGraphs extends GraphWrapper {
  constructor(
    private readonly driver: DriverWrapper,
    private readonly detector: Detector,
  ) {
    super(driver)
  }

  override begin(stream: StreamHandle, mode: CaptureMode): void {
    this.#order.streams.at(stream)
    super.begin(stream, mode)
    this.#order.captureBegins(stream)
  }

  override end(stream: StreamHandle): GraphHandle {
    try {
      const graph = super.end(stream)
      this.#order.captureEnds(stream, graph)
      return graph
    } catch (error) {
      if (!this.#stillCaptures(stream)) this.#order.captureEnds(stream, undefined)
      throw error
    }
  }

  override abandon(stream: StreamHandle): void {
    super.abandon(stream)
    if (!this.#stillCaptures(stream)) this.#order.captureEnds(stream, undefined)
  }

  override destroy(graph: GraphHandle): void {
    super.destroy(graph)
    this.#order.graphDestroyed(graph)
  }

  override instantiate(graph: GraphHandle, context: ContextHandle): GraphExecHandle {
    const exec = super.instantiate(graph, context)
    this.#order.graphInstantiated(graph, exec)
    return exec
  }

  override destroyExec(exec: GraphExecHandle): void {
    super.destroyExec(exec)
    this.#order.execDestroyed(exec)
  }

  override launch(exec: GraphExecHandle, stream: StreamHandle): void {
    super.launch(exec, stream)
    this.detector.launched(exec, stream)
  }

  override update(exec: GraphExecHandle, graph: GraphHandle): void {
    super.update(exec, graph)
    this.#order.graphUpdated(exec, graph)
  }

  get #order(): HappensBefore {
    return this.detector.order
  }

  #stillCaptures(stream: StreamHandle): boolean {
    try {
      return this.driver.inner.streamIsCapturing(stream)
    } catch {
      return false
    }
  }
}
