/** The options of streams, records and waits. */
import type { Device } from '../device.js'
import type { EventOptions } from './event-core.js'
import type { GreenContext } from './green-context.js'

/** How a stream is made. */
export interface StreamOptions {
  /** A Device, or an ordinal of the current device's driver. Default: the current device. */
  readonly device?: Device | number | undefined
  /** An integer. Lower goes first; clamped to the device's `priorityRange`, as CUDA does. Default 0. */
  readonly priority?: number | undefined
  /** The stream does not wait for the null stream, nor the null stream for it. Default true. */
  readonly nonBlocking?: boolean | undefined
  /**
   * A part of the device, from `device.split()`: the stream's kernels run on its multiprocessors. Such a stream is always
   * non-blocking. Default: none, and they run on all of the device.
   */
  readonly context?: GreenContext | undefined
  /**
   * The memory domain of what is launched on the stream, by other libraries too (compute capability 9.0 and later;
   * `cuStreamSetAttribute`): 'remote' keeps its fences from waiting for writes of other streams' kernels. Default:
   * 'default'.
   */
  readonly memorySyncDomain?: 'default' | 'remote' | undefined
}

/** The device and the owner of a stream that another library owns. */
export interface ExternalStreamOptions {
  /** The device that the stream must be on. The driver is asked for it; -1 means not known. */
  readonly device?: Device | number | undefined
  /** Kept reachable while the wrapper lives. Default: the protocol object it was made from. */
  readonly owner?: object | undefined
}

/** The options of a record, and of the event that it makes where none is given. */
export interface RecordOptions extends EventOptions {
  /** While capturing: an event node that work outside the graph can wait for. No effect otherwise. Default false. */
  readonly external?: boolean | undefined
}

/** How a stream waits for an event. */
export interface WaitEventOptions {
  /** While capturing: a wait for an event recorded outside the graph. No effect otherwise. Default false. */
  readonly external?: boolean | undefined
}
