/**
 * The lines of a recording. The first is the header; each other one is JSON: an array for a call that was made, an object for
 * what calls refer to. docs/guides/recording.md describes them for other programs.
 */

import type { KernelMistake } from '../../foundation/driver/kernel-driver.js'
import type { TouchedMemory } from '../../foundation/driver/touched-memory.js'
import type { CallFields, RecordedRow } from './call-table.js'
import type { RecordedNodeWork, RecordedWork } from './work-table.js'

/** The version of the format: a reader refuses others. */
export const VERSION = 1

export interface RecordedDevice {
  readonly name: string
  readonly multiprocessors: number
  /** The threads that a multiprocessor runs at one time. */
  readonly threads: number
}

export interface Header {
  readonly recording: typeof VERSION
  readonly driver: 'cuda' | 'sim'
  /** The clock of the times; 'virtual' on the simulator. */
  readonly clock: 'virtual' | 'host'
  /** The calls of which the stack was taken. */
  readonly stacks: 'sampled' | 'all' | 'none'
  /** The nanoseconds from 1970 to the beginning of the recording. */
  readonly epoch: number
  readonly devices: readonly RecordedDevice[]
  /** The number of the process among those that a launcher has started together, such as torchrun; absent for one that was started alone. */
  readonly rank?: number
}

/** The value of a field in a call of this name. */
type FieldOf<N extends string, F> = F extends keyof CallFields
  ? CallFields[F]
  : N extends 'updateNode'
    ? RecordedNodeWork
    : RecordedWork

type CallOf<R> = R extends {
  readonly call: infer N extends string
  readonly fields: readonly (infer F extends string)[]
}
  ? { readonly [K in 'call' | F]: K extends 'call' ? N : FieldOf<N, K> }
  : never

/** A call of the program, or something that happened to it, without what differs each time. */
export type RecordedCall = CallOf<RecordedRow>

/** The part of a call that differs each time. */
export interface CallDetails {
  /** The number of the call that this one belongs to. */
  readonly op?: number
  /** The node that the work became in a capture. */
  readonly node?: number
  /** Whether the call became part of a capture. */
  readonly captured?: true
  /** Whether a call `ran` will follow. */
  readonly told?: true
  readonly memory?: readonly TouchedMemory[]
  readonly mistakes?: readonly KernelMistake[]
  /** Whether the call threw, or the promise was rejected. */
  readonly failed?: true
  /** The nanoseconds of the gap before this call in which the recorder worked, if they are many. */
  readonly own?: number
}

/** A call: the number of its definition, nanoseconds since the call before it ended, how long it took, its stack, the rest. */
export type CallLine = readonly [definition: number, gap: number, length: number, stack?: number, more?: CallDetails]

export interface StreamFacts {
  readonly stream: number
  readonly device: number
  readonly context: number
  /** The number of the stream as decimal digits. */
  readonly id: string
  readonly nonBlocking: boolean
  readonly priority: number
  /** The multiprocessors of the stream's green context. */
  readonly multiprocessors?: number | undefined
  /** Whether the handle was read, so that other code may use it. */
  readonly escaped: boolean
  readonly name: string
  /** Whether the program gave the stream its name. */
  readonly given: boolean
}

/** The last line of a complete recording. */
export interface End {
  /** The number of calls in the recording. */
  readonly end: number
  /** The time at which the latest call ended, in nanoseconds since the recording began. */
  readonly nanoseconds: number
}

export type ObjectLine =
  /** The definition of a call; definitions are numbered from 0 since the beginning or the latest `forget`. */
  | RecordedCall
  /** The program's lines of a stack; stacks are numbered from 1 since then, too. */
  | { readonly stack: string }
  | StreamFacts
  /** The bytes of pinned memory, as hexadecimal digits, that a stream may wait for. */
  | { readonly bytes: string; readonly pointer: number }
  /** The times of calls as triples: each call and each beginning as the difference to the one before; and the length. */
  | { readonly times: readonly number[] }
  /** A new start of the numbers of definitions and stacks. */
  | { readonly forget: true }
  | End
