/**
 * The lines of a recording. The first is the header; each other one is JSON: an array for a call that was made, an object for
 * what calls refer to. docs/guides/recording.md describes them for other programs.
 */

import type { Comparison } from '../../foundation/driver/driver-constants.js'
import type { KernelMistakeKind } from '../../foundation/driver/kernel-driver.js'
import type { FillWidth, QueuedCopy } from '../../foundation/driver/queued-work.js'
import type { CopiedBytes, MemoryRows, TouchedMemory } from '../../foundation/driver/touched-memory.js'

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
}

/** A word of memory: its value as decimal digits. */
export interface RecordedWord {
  readonly pointer: number
  readonly bits: 32 | 64
  readonly value: string
}

/** Work in the form of a recording. Streams, graphs and memory are the driver's own numbers. */
export type RecordedWork =
  | {
      readonly kind: 'kernel'
      readonly stream: number
      readonly name: string
      readonly grid: readonly [number, number, number]
      readonly block: readonly [number, number, number]
      readonly sharedMemory: number
      /** The blocks of the kernel that a multiprocessor runs at one time, if the GPU says so. */
      readonly blocksAtOnce?: number
      readonly memory: readonly TouchedMemory[]
    }
  | ({
      readonly kind: 'copy'
      readonly stream: number
      readonly name: QueuedCopy['name']
      /** The copy engine that the copy takes; undefined for a copy within a device, or within the host. */
      readonly engine?: 'toDevice' | 'toHost'
    } & CopiedBytes)
  | { readonly kind: 'copies'; readonly stream: number; readonly copies: readonly CopiedBytes[] }
  | {
      readonly kind: 'fill'
      readonly stream: number
      readonly pointer: number
      readonly value: number
      readonly width: FillWidth
      readonly count: number
      readonly rows: MemoryRows | undefined
    }
  | { readonly kind: 'library'; readonly calls: readonly RecordedLibraryCall[] }
  | { readonly kind: 'allocate'; readonly stream: number; readonly pointer: number; readonly byteLength: number }
  | {
      readonly kind: 'free'
      readonly stream: number
      readonly pointer: number
      /** The events that the free comes after, in place of its stream. */
      readonly after?: readonly number[]
    }
  | { readonly kind: 'hostFunction'; readonly stream: number; readonly internal: boolean; readonly callback: boolean }
  | { readonly kind: 'promise'; readonly stream: number }
  | { readonly kind: 'waitValue'; readonly stream: number; readonly word: RecordedWord; readonly compare: Comparison }
  | { readonly kind: 'writeValue'; readonly stream: number; readonly word: RecordedWord }
  | { readonly kind: 'graph' | 'graphUpload'; readonly stream: number; readonly exec: number }
  | { readonly kind: 'childGraph'; readonly stream: number; readonly graph: number }

export interface RecordedLibraryCall {
  readonly name: string
  readonly stream: number
  readonly memory: readonly TouchedMemory[]
}

/** Work that a node of a graph is given. */
export type RecordedNodeWork = Extract<RecordedWork, { readonly kind: 'kernel' | 'copy' | 'fill' }>

/** A call of the program, or something that happened to it, without what differs each time. */
export type RecordedCall =
  | { readonly call: 'queue'; readonly work: RecordedWork }
  | { readonly call: 'record'; readonly event: number; readonly stream: number; readonly external: 0 | 1 }
  | { readonly call: 'recordInternal'; readonly event: number; readonly stream: number }
  | { readonly call: 'recordDevice'; readonly event: number; readonly device: number }
  | { readonly call: 'wait'; readonly stream: number; readonly event: number; readonly external: 0 | 1 }
  | { readonly call: 'waitStream'; readonly stream: number; readonly other: number; readonly context: number }
  /** The calls that block: what happens meanwhile is between them and `return`. */
  | { readonly call: 'synchronizeDevice'; readonly device: number }
  | { readonly call: 'synchronizeStream'; readonly stream: number }
  | { readonly call: 'synchronizeEvent'; readonly event: number }
  | { readonly call: 'drain' }
  /** The run of the host function of the call `op`, until `return`. */
  | { readonly call: 'host' }
  | { readonly call: 'return' }
  /** The promises; `settled` and `cancelled` refer to them by `op`. */
  | { readonly call: 'deviceFinished'; readonly device: number }
  | { readonly call: 'streamFinished'; readonly stream: number; readonly context: number }
  | { readonly call: 'eventFinished'; readonly event: number }
  | { readonly call: 'settled' | 'cancelled' }
  /** The end of the promise that a stream waits for. */
  | { readonly call: 'release' }
  /** The queries that were answered with true. */
  | { readonly call: 'streamIsIdle'; readonly stream: number }
  | { readonly call: 'eventIsDone'; readonly event: number }
  | { readonly call: 'elapsedTime'; readonly start: number; readonly end: number }
  | { readonly call: 'deviceContext'; readonly device: number; readonly context: number }
  | { readonly call: 'createStream'; readonly stream: number; readonly context: number; readonly flags: number }
  | { readonly call: 'wrapStream'; readonly stream: number; readonly cuda: number; readonly device: number }
  | { readonly call: 'destroyStream'; readonly stream: number }
  | { readonly call: 'escaped'; readonly stream: number }
  | { readonly call: 'nameStream'; readonly stream: number; readonly name: string }
  | { readonly call: 'createEvent'; readonly event: number; readonly context: number; readonly flags: number }
  | { readonly call: 'destroyEvent' | 'recycleEvent' | 'wrapEvent' | 'openEvent'; readonly event: number }
  | { readonly call: 'allocatePinned' | 'registerPinned'; readonly pointer: number; readonly byteLength: number }
  | { readonly call: 'allocateShared'; readonly pointer: number; readonly byteLength: number }
  | { readonly call: 'closePinned' | 'freeShared'; readonly pointer: number; readonly after: readonly number[] }
  | { readonly call: 'closeImported'; readonly after: readonly number[] }
  | { readonly call: 'placeOf' | 'viewed'; readonly pointer: number; readonly byteLength: number }
  | { readonly call: 'beginCapture'; readonly stream: number }
  | {
      readonly call: 'beginCaptureInto'
      readonly stream: number
      readonly graph: number
      readonly after: readonly number[]
    }
  /** A conditional node. `into`: a stream that captures, or the body of another conditional node. `bodies`: those of the new one. */
  | {
      readonly call: 'addConditional'
      readonly into: { readonly stream: number } | { readonly body: number }
      readonly bodies: readonly number[]
    }
  /** The addition of a graph to a body. `copies`: pairs of a node of the graph and its copy in the body. */
  | {
      readonly call: 'addToBody'
      readonly body: number
      readonly graph: number
      readonly copies: readonly (readonly [number, number])[]
    }
  | { readonly call: 'endCapture'; readonly stream: number; readonly graph: number }
  | { readonly call: 'abandonCapture' | 'captureFailed'; readonly stream: number }
  | { readonly call: 'destroyGraph'; readonly graph: number }
  | { readonly call: 'instantiate' | 'updateGraph'; readonly graph: number; readonly exec: number }
  | { readonly call: 'destroyExec'; readonly exec: number }
  | { readonly call: 'updateNode'; readonly exec: number; readonly node: number; readonly work: RecordedNodeWork }
  | { readonly call: 'setEnabled'; readonly exec: number; readonly node: number; readonly enabled: boolean }
  /** The program's declaration of what another library has queued. */
  | {
      readonly call: 'declareAccess'
      readonly stream: number
      readonly what: string
      readonly memory: readonly TouchedMemory[]
    }
  /** The end of the kernel of the call `op` on the simulator. */
  | { readonly call: 'ran' }
  /** A turn of the event loop after a host function was queued. */
  | { readonly call: 'turn' }

export interface RecordedMistake {
  readonly kind: KernelMistakeKind
  readonly message: string
}

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
  readonly mistakes?: readonly RecordedMistake[]
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
