/** How the verbs for memory and kernels put work into streams: the driver itself. */
import type { StreamHandle } from '../driver.js'
import type { SimOperation } from './machine/machine-state.js'
import type { SimOperationKind, Work } from './machine/work.js'

export interface WorkQueue {
  /** Queues an operation; in a stream that captures it becomes a node of the graph. */
  enqueue(handle: StreamHandle, kind: SimOperationKind, amount: number, call: string, work: Work): SimOperation
  /** The error of a call about a stream that is refused, which invalidates the capture that the stream is in. */
  refuse(handle: StreamHandle, call: string, result: number): Error
}
