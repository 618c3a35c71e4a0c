/** A recording's clock, which also finds out when the operations in its rows ran. One class for each kind of driver. */
import type { StreamHandle } from '../driver/driver.js'
import type { Described, TimelineLane } from './lanes.js'

export interface Meter {
  readonly clock: 'virtual' | 'host'
  /** Nanoseconds since the recording began. */
  now(): number
  /** Describes a stream that is seen for the first time. Never throws. */
  describe(stream: StreamHandle): Described
  /** Does what is queued on the stream become part of a graph, and no operation? */
  captures(stream: StreamHandle): boolean
  /** An operation is about to be queued. False where it will not run: its stream captures. */
  queuing(row: number, stream: StreamHandle, lane: TimelineLane): boolean
  /** Something passes that is not written down: a capture that begins, an operation that there is no room for. */
  unseen(): void
  /** It was queued. */
  queued(row: number, stream: StreamHandle, lane: TimelineLane): void
  /** The driver refused it. */
  refused(row: number): void
  /** A verb of the driver that queues something which is no operation of the program begins, or ends. */
  hide(): void
  show(): void
  hostFunctionBegins(row: number): void
  hostFunctionEnds(row: number): void
  /** Writes down the times of all operations that are done by now. */
  collect(): void
  /** Nothing more is written down; the rows that were are still timed. */
  stop(): void
  /** Resolves when all that is recorded by now is done. */
  finished(): Promise<void>
  /** Lets go of everything; the times that are known stay. */
  close(): void
  /** How far off its times may be, once it is closed. None where they are exact. */
  readonly calibrations: readonly Calibration[]
}

/** How a device's clock was held against the host's. */
export interface Calibration {
  /** The device's ordinal. */
  readonly device: number
  /** Nanoseconds by which the two may be apart at the beginning of the recording, and at its end: NaN after a fault. */
  readonly uncertainty: readonly [begin: number, end: number]
  /** How much faster the device's clock ran, in parts of a million. 0 where the recording was shorter than a second. */
  readonly drift: number
  /** Nanoseconds of host time that it took. */
  readonly cost: number
}
