/** The part of the wall that graphs are behind. As in driver.ts, a verb that the GPU refuses throws `CudaError`. */
import type { ContextHandle, GraphExecHandle, GraphHandle, StreamHandle } from './handles.js'

/** CUstreamCaptureMode. */
export const CaptureMode = { GLOBAL: 0, THREAD_LOCAL: 1, RELAXED: 2 } as const
export type CaptureMode = (typeof CaptureMode)[keyof typeof CaptureMode]

export interface GraphDriver {
  begin(stream: StreamHandle, mode: CaptureMode): void
  /** Ends the capture that this stream began. */
  end(stream: StreamHandle): GraphHandle
  /** Ends the capture that this stream began, if that is still under way, and throws away what was captured. */
  abandon(stream: StreamHandle): void
  destroy(graph: GraphHandle): void
  nodeCount(graph: GraphHandle): number
  /** The graph in Graphviz's language. */
  toDot(graph: GraphHandle): string
  instantiate(graph: GraphHandle, context: ContextHandle): GraphExecHandle
  destroyExec(exec: GraphExecHandle): void
  upload(exec: GraphExecHandle, stream: StreamHandle): void
  launch(exec: GraphExecHandle, stream: StreamHandle): void
  /** Puts another graph of the same shape into an instantiated one. */
  update(exec: GraphExecHandle, graph: GraphHandle): void
}
