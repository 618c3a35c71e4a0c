/** The stream protocol, by which other libraries hand a stream over. */
import { checkArray, checkPointer, propertyOf } from '../base/arguments.js'
import { invalidType } from '../base/errors.js'

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
export function isStreamLike(value: unknown): value is CudaStreamLike | PythonStreamLike {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false
  return protocolOf(value) !== undefined
}

/** The handle in a source, as CUDA knows the stream: 0 to 2 for default streams. */
export function handleOf(source: StreamSource): number {
  if (typeof source === 'bigint' || typeof source === 'number') return checkPointer(source, 'source', EXPECTED)
  if ((typeof source !== 'object' && typeof source !== 'function') || source === null) {
    throw invalidType('source', EXPECTED, source)
  }
  const protocol = protocolOf(source)
  if (protocol === undefined) throw invalidType('source', EXPECTED, source)
  const { name, method } = protocol
  const returned: unknown = method.call(source)
  const [what, expected] = [`The result of ${name}()`, '[0, handle]: version 0 of the protocol']
  const reply = checkArray(returned, what, expected)
  if (reply.length !== 2 || (reply[0] !== 0 && reply[0] !== 0n)) throw invalidType(what, expected, returned)
  return checkPointer(reply[1], `The handle that ${name}() returns`, 'a bigint or a safe integer')
}

function protocolOf(source: object): { readonly name: string; readonly method: () => unknown } | undefined {
  const ours: unknown = propertyOf(source, cudaStream)
  if (typeof ours === 'function') return { name: '[cudaStream]', method: ours as () => unknown }
  const pythons: unknown = propertyOf(source, '__cuda_stream__')
  if (typeof pythons === 'function') return { name: '__cuda_stream__', method: pythons as () => unknown }
  return undefined
}
