/** Graphs: captures, instances, launches. */
import {
  type ArgumentUse,
  type CaptureMode,
  type ContextHandle,
  type FillWidth,
  type GraphExecHandle,
  type GraphHandle,
  type KernelHandle,
  type LaunchArgument,
  type LaunchShape,
  memoryAmong,
  type NodeHandle,
  type Pointer,
  type StreamHandle,
  type Twin,
} from '../driver/driver.js'
import { type DriverWrapper, GraphWrapper } from '../driver/driver-wrapper.js'
import type { Detector } from './detector.js'
import { type CapturedNodes, GraphInstance } from './graph-instance.js'
import type { HappensBefore } from './happens-before.js'
import { type Touched, touching } from './operations.js'

export class SanitizerGraphs extends GraphWrapper {
  /** Those that are known as a whole: of one that is not here nothing is concluded. */
  readonly #graphs = new Map<GraphHandle, CapturedNodes>()
  readonly #instances = new Map<GraphExecHandle, GraphInstance>()
  /** Those of which only a part is known. */
  readonly #unknown = new Set<GraphHandle>()

  /** Graphs that captures add to, by the streams that began those: what was added is known at the end. */
  readonly #growing = new Map<StreamHandle, GraphHandle>()

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
      const nodes = this.#order.captureEnds(stream)
      if (nodes === undefined || this.#unknown.has(graph)) this.#graphs.delete(graph)
      else this.#graphs.set(graph, nodes)
      return graph
    } catch (error) {
      if (!this.#stillCaptures(stream)) this.#order.captureEnds(stream)
      throw error
    }
  }

  override beginInto(stream: StreamHandle, mode: CaptureMode, graph: GraphHandle, after: readonly NodeHandle[]): void {
    this.#order.streams.at(stream)
    super.beginInto(stream, mode, graph, after)
    this.#order.captureBegins(stream, this.#graphs.get(graph), after)
    this.#growing.set(stream, graph)
    if (!this.#graphs.has(graph)) this.#unknown.add(graph)
  }

  override addGraph(stream: StreamHandle, graph: GraphHandle): void {
    super.addGraph(stream, graph)
    this.detector.graphAdded(stream, this.#graphs.get(graph) ?? [])
  }

  override abandon(stream: StreamHandle): void {
    super.abandon(stream)
    if (!this.#stillCaptures(stream)) this.#order.captureEnds(stream)
  }

  override destroy(graph: GraphHandle): void {
    super.destroy(graph)
    this.#unknown.delete(graph)
    this.#graphs.delete(graph)
  }

  override instantiate(graph: GraphHandle, context: ContextHandle): GraphExecHandle {
    const exec = super.instantiate(graph, context)
    const nodes = this.#nodesOf(graph)
    if (nodes === undefined) this.#instances.delete(exec)
    else this.#instances.set(exec, new GraphInstance(nodes))
    return exec
  }

  override destroyExec(exec: GraphExecHandle): void {
    super.destroyExec(exec)
    this.#forget(exec)
  }

  #nodesOf(graph: GraphHandle): CapturedNodes | undefined {
    for (const [stream, growing] of this.#growing) {
      if (growing !== graph) continue
      if (this.#stillCaptures(stream)) return undefined
      this.#growing.delete(stream)
    }
    return this.#graphs.get(graph)
  }

  #forget(exec: GraphExecHandle): void {
    for (const strand of this.#instances.get(exec)?.strands ?? []) this.#order.strands.end(strand)
    this.#instances.delete(exec)
  }

  override launch(exec: GraphExecHandle, stream: StreamHandle): void {
    const instance = this.#instances.get(exec)
    this.detector.probeLaunch(instance, stream)
    super.launch(exec, stream)
    this.detector.launched(`launch of graph ${exec}`, instance, stream)
  }

  override update(exec: GraphExecHandle, graph: GraphHandle): void {
    super.update(exec, graph)
    const nodes = this.#nodesOf(graph)
    if (nodes === undefined) this.#forget(exec)
    else this.#instances.get(exec)?.update(nodes)
  }

  override updateKernel(
    exec: GraphExecHandle,
    node: NodeHandle,
    context: ContextHandle,
    kernel: KernelHandle,
    shape: LaunchShape,
    args: readonly LaunchArgument[],
    uses: readonly ArgumentUse[],
  ): void {
    super.updateKernel(exec, node, context, kernel, shape, args, uses)
    this.#updated(exec, node, memoryAmong(args, uses))
  }

  override updateTwin(exec: GraphExecHandle, node: NodeHandle, twin: Twin): void {
    super.updateTwin(exec, node, { ...twin, comparesAll: true })
    this.#updated(exec, node, twin.memory)
  }

  override updateCopy(
    exec: GraphExecHandle,
    node: NodeHandle,
    context: ContextHandle,
    destination: Pointer,
    source: Pointer,
    byteLength: number,
  ): void {
    super.updateCopy(exec, node, context, destination, source, byteLength)
    this.#updated(exec, node, [touching(destination, byteLength, 'out'), touching(source, byteLength, 'in')])
  }

  override updateFill(
    exec: GraphExecHandle,
    node: NodeHandle,
    context: ContextHandle,
    pointer: Pointer,
    value: number,
    width: FillWidth,
    count: number,
  ): void {
    super.updateFill(exec, node, context, pointer, value, width, count)
    this.#updated(exec, node, [touching(pointer, width * count, 'out')])
  }

  override setEnabled(
    exec: GraphExecHandle,
    node: NodeHandle,
    context: ContextHandle | undefined,
    enabled: boolean,
  ): void {
    super.setEnabled(exec, node, context, enabled)
    this.#instances.get(exec)?.setEnabled(node, enabled)
  }

  #updated(exec: GraphExecHandle, node: NodeHandle, memory: readonly Touched[]): void {
    const instance = this.#instances.get(exec)
    if (instance !== undefined) this.detector.nodeUpdated(instance, node, memory)
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
