/** The errors of both backends for a handle that cannot be wrapped. */
import { type CudaError, stateError } from '../base/errors.js'

/** Handles below this are no addresses: the program has taken a library's number for its handle. */
const SMALL = 65_536

export function refusedHandle(kind: 'stream' | 'event', handle: number, cause: CudaError): Error {
  const article = kind === 'event' ? 'an' : 'a'
  const number = handle < SMALL ? String(handle) : `0x${handle.toString(16)}`
  const hint =
    handle < SMALL
      ? `. It looks like ${article} ${kind}'s id, which is not its handle: in PyTorch take ${kind}.cuda_${kind}, in CuPy ${kind}.ptr`
      : ': was it destroyed, or does it come from another process or driver?'
  return stateError('ERR_INVALID_HANDLE', `${number} is not the handle of a CUDA ${kind} of this driver${hint}`, cause)
}

export function closedHandle(kind: 'stream' | 'event', handle: number): Error {
  return stateError('ERR_CLOSED', `The ${kind} with handle 0x${handle.toString(16)} has been closed`)
}
