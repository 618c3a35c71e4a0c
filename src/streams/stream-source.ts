/** The stream protocol, by which other libraries hand a stream over. */
import { checkArray, checkPointer, isObject } from '../base/arguments.js'
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
  return isObject(value) && protocolOf(value) !== undefined
}

/** The handle in a source, as CUDA knows the stream: 0 to 2 for default streams. */
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
  const { [cudaStream]: ours, __cuda_stream__: pythons } = source as Partial<CudaStreamLike & PythonStreamLike>
  if (typeof ours === 'function') return { name: '[cudaStream]', method: ours }
  if (typeof pythons === 'function') return { name: '__cuda_stream__', method: pythons }
  return undefined
}
