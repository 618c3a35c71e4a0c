/** A stretch in which a stream stood idle, and what an operation can have had to wait for. */

/** What an operation had to wait for last before it could begin. */
export type BindingKind =
  /** What came before in the stream. */
  | 'stream'
  /** A wait for an event or a stream. */
  | 'wait'
  /** The null stream's rules. */
  | 'nullStream'
  /** The program had not queued it yet. */
  | 'host'
  /** JavaScript was busy: a host function was due. */
  | 'eventLoop'
  /** The launch before it of the same instance of a graph: CUDA runs those one after another. */
  | 'instance'
  /** All of the device's engines or kernel slots for this were taken. */
  | 'engine'
  /** Nothing that was recorded. */
  | 'unknown'

/** A stretch of time in which a stream that has work before and after it did none. */
export interface Gap {
  readonly lane: number
  readonly begin: number
  readonly end: number
  /** The operation that could not begin sooner. */
  readonly next: number
  readonly reason: BindingKind
  /** The wait in the stream that held it up, or NO_ROW. */
  readonly wait: number
  /** The operation that was waited for, or NO_ROW. */
  readonly cause: number
}
