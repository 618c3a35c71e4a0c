/** The options of streams, records and waits, and the stream protocol by which other libraries hand a stream over. */
import { checkArray, checkPointer, isObject } from '../../foundation/base/arguments.js'
import { invalidType } from '../../foundation/base/errors.js'
import type { Device } from '../device.js'
import type { EventOptions } from './event-impl.js'
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
   * non-blocking. Default: none, so that kernels run on all of the device.
   */
  readonly context?: GreenContext | undefined
  /**
   * The memory domain of what is launched on the stream, by other libraries too (compute capability 9.0 and later;
   * `cuStreamSetAttribute`): 'remote' keeps its fences from waiting for writes of other streams' kernels. Default:
   * 'default'.
   */
  readonly memorySyncDomain?: 'default' | 'remote' | undefined
  /** What errors, reports of the sanitizer and timelines call the stream. Not empty. Default: its number, as in 'stream 3'. */
  readonly name?: string | undefined
}

/** The device, the owner and the name of a stream that another library owns. */
export interface ExternalStreamOptions {
  /** The device that the stream must be on. The driver knows it, so it may be left out; -1 means not known. */
  readonly device?: Device | number | undefined
  /** An object that is kept reachable until the wrapper is closed. Default: the protocol object. */
  readonly owner?: object | undefined
  /**
   * What errors, reports of the sanitizer and timelines call the stream, by all of its wrappers. Not empty. Default: the name
   * that it has, or its number, as in 'stream 3'.
   */
  readonly name?: string | undefined
}

/** The options of a record, and of the event that it makes if none is given. */
export interface RecordOptions extends EventOptions {
  /**
   * Whether a record in a capture becomes an event node that work outside the graph can wait for. No effect otherwise. Default
   * false.
   */
  readonly external?: boolean | undefined
}

/** How a stream waits for an event. */
export interface WaitEventOptions {
  /** Whether a wait in a capture is for an event recorded outside the graph. No effect otherwise. Default false. */
  readonly external?: boolean | undefined
}

/** How a stream waits for a promise. */
export interface WaitPromiseOptions {
  /** Gives up the wait: the stream goes on, as if the promise were rejected with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/**
 * The name of the method that returns a stream's handle: `Symbol.for('cuda.stream')`, the same in every copy of this
 * library.
 */
export const cudaStream: unique symbol = Symbol.for('cuda.stream') as never

/** A CUDA stream as a JavaScript library hands it over. */
export interface CudaStreamLike {
  /** Returns version 0 of the protocol, and the CUstream. */
  [cudaStream](): readonly [version: number, handle: bigint | number]
}

/** A CUDA stream as Python libraries spell it: CUDA's `__cuda_stream__` protocol, version 0. */
export interface PythonStreamLike {
  /** Returns version 0 of the protocol, and the CUstream. */
  __cuda_stream__(): readonly [version: number, handle: bigint | number]
}

/** The source of a wrapped stream: a CUstream as a number, or an object with the stream protocol. */
export type StreamSource = bigint | number | CudaStreamLike | PythonStreamLike

const EXPECTED = 'a stream handle (a bigint or a safe integer) or an object with [cudaStream]() or __cuda_stream__()'

/** Does the value have the protocol, in either spelling? */
export const isStreamLike = (value: unknown): value is CudaStreamLike | PythonStreamLike =>
  isObject(value) && protocolOf(value) !== undefined

/** The handle of a source, as CUDA has it: 0 to 2 for default streams. */
export function handleOf(source: StreamSource): number {
  if (typeof source === 'bigint' || typeof source === 'number') return checkPointer(source, 'source', EXPECTED)
  const protocol = isObject(source) ? protocolOf(source) : undefined
  if (protocol === undefined) throw invalidType('source', EXPECTED, source)
  const { name, method } = protocol
  const returned: unknown = method.call(source)
  const [what, expected] = [`The result of ${name}()`, '[0, handle]: version 0 of the protocol']
  const reply = checkArray(returned, what, expected)
  if (reply.length !== 2 || (reply[0] !== 0 && reply[0] !== 0n)) throw invalidType(what, expected, returned)
  return checkPointer(reply[1], `The handle that ${name}() returns`, 'a bigint or a safe integer')
}

function protocolOf(source: object): { readonly name: string; readonly method: () => unknown } | undefined {
  const { [cudaStream]: ours, __cuda_stream__: python } = source as Partial<CudaStreamLike & PythonStreamLike>
  if (typeof ours === 'function') return { name: '[cudaStream]', method: ours }
  if (typeof python === 'function') return { name: '__cuda_stream__', method: python }
  return undefined
}
