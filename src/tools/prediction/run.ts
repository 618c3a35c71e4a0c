/** A run as it is played again: the calls of the host in their order, and the work of the streams with its times. */

import type { IntervalMap } from '../../foundation/base/interval-map.js'
import type { QueuedWork } from '../../foundation/driver/queued-work.js'
import type { TouchedMemory } from '../../foundation/driver/touched-memory.js'

/** A stream, from its creation to its end. */
export interface RecordedStream {
  readonly index: number
  readonly device: number
  readonly nonBlocking: boolean
  readonly isNull: boolean
  readonly priority: number
  readonly name: string
}

/** The facts that every step has. */
export interface InRun {
  readonly number: number
  readonly began: number
  readonly ended: number
  /** The nanoseconds since the call before it that the recorder itself took. */
  readonly own: number
  /** The place at which the program made the call: 'path:row'; empty if that is not known. */
  readonly site: string
}

/** An operation of a stream. */
export interface Operation extends InRun {
  readonly what: 'operation'
  readonly stream: RecordedStream
  /** The kind of the work. 'declared': work of another library, of which only the memory is known. */
  readonly kind: QueuedWork['kind'] | 'declared'
  readonly name: string
  /** The memory that the operation touches; undefined if that is not known, as for a host function. */
  readonly memory: readonly TouchedMemory[] | undefined
  /** The engine that the operation needs alone: one that copies, or the device's memory, for which copies and fills within a GPU take turns. */
  readonly engine: 'toDevice' | 'toHost' | 'memory' | undefined
  /** The part of its device that a kernel occupies, up to 1; 0 if it shares the device with any others. */
  readonly share: number
  /** The instance of a graph that the operation launches: launches of one come one after another. */
  readonly instance: number | undefined
  /** Whether only the beginnings of what it touches are known, as for kernels in the trace of a process. */
  readonly isPartlyKnown: boolean
  /** Whether it touches memory that the host uses without a call which would be recorded. */
  readonly sharesWithHost: boolean
  /** The time at which the operation began; `end` is that at which it ended. NaN if they are not known. */
  start: number
  end: number
}

/** The object of a wait of the host. */
export type Awaited =
  | { readonly of: 'stream'; readonly stream: RecordedStream }
  | { readonly of: 'event'; readonly event: number }
  | { readonly of: 'device'; readonly device: number }
  | { readonly of: 'hostFunctions' }
  /** The host function to which the stream has come. */
  | { readonly of: 'reached'; readonly operation: number }

export type Step =
  | Operation
  | (InRun & { readonly what: 'record'; readonly stream: RecordedStream; readonly event: number })
  | (InRun & { readonly what: 'recordDevice'; readonly device: number; readonly event: number })
  | (InRun & { readonly what: 'wait'; readonly stream: RecordedStream; readonly event: number })
  | (InRun & { readonly what: 'waitStream'; readonly stream: RecordedStream; readonly other: RecordedStream })
  /** The beginning of a wait for what is queued by now; the host goes on at once. */
  | (InRun & { readonly what: 'begin'; readonly awaited: Awaited })
  /** The end of a wait: the host goes on when what the step `begun` waits for is done. */
  | (InRun & { readonly what: 'go'; readonly begun: number })
  /** A query that was answered with yes, or the beginning of a host function: the host has waited for that. */
  | (InRun & { readonly what: 'seen'; readonly awaited: Awaited })
  /** The end of a host function, or a promise that has let a stream go on. */
  | (InRun & { readonly what: 'let'; readonly operation: number })
  /** Anything else, which takes the host its time. */
  | (InRun & { readonly what: 'host' })

export interface RecordedRun {
  readonly steps: readonly Step[]
  readonly streams: readonly RecordedStream[]
  /** The memory of the host, as far as the recording shows it. */
  readonly hostMemory: IntervalMap<true>
}

/** The name of host functions that are the library's own, which copy within the host. */
export const STAGING = 'staging'

type Shape = readonly [number, number, number]
/** The part of a launch that says how much of a device it occupies. */
export interface LaunchSize {
  readonly grid: Shape
  readonly block: Shape
  readonly blocksAtOnce?: number | undefined
}
/** The part of a device, up to 1, that a kernel occupies. */
export function shareOf(
  { grid, block, blocksAtOnce = 0 }: LaunchSize,
  { multiprocessors, threads }: DeviceSize,
): number {
  const blocks = grid[0] * grid[1] * grid[2]
  const inBlock = block[0] * block[1] * block[2]
  const atOnce = multiprocessors * (blocksAtOnce > 0 ? blocksAtOnce : Math.max(1, Math.floor(threads / inBlock)))
  return Math.min(1, blocks / atOnce)
}

/** The size of a device. */
export interface DeviceSize {
  readonly multiprocessors: number
  /** The threads that a multiprocessor runs at one time. */
  readonly threads: number
}
