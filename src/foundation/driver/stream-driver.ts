/** The types of the driver interface for streams. */

import type { GreenContextPart } from './device-driver.js'
import type { ContextHandle, StreamHandle } from './handle-types.js'

/** A wrapper of a stream. The stream lives while the wrapper is open, unless its owner destroys it too early. */
export interface Wrapper {
  isOpen: boolean
}

export interface WrappedStream {
  readonly stream: StreamHandle
  /**
   * The context of the stream. For a stream in a green context it is the primary context, whose events, memory and
   * modules can be used in both.
   */
  readonly context: ContextHandle
  readonly device: number
  /** The green context of the stream, if it is in one. */
  readonly green?: GreenContextPart | undefined
}
