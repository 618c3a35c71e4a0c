/** The errors of both backends for a handle that cannot be wrapped. */
import { type CudaError, stateError } from '../base/errors.js'

/** Handles below this are no addresses: the program has taken a library's number for its handle. */
const SMALL = 65_536

/** The kinds of handles that a program can wrap. */
export type WrappedKind = 'stream' | 'event' | 'kernel' | 'memory pool' | 'graph'

/** The names under which other libraries have such handles. */
const ELSEWHERE: Readonly<Record<WrappedKind, string>> = {
  stream: 'in PyTorch take stream.cuda_stream, in CuPy stream.ptr',
  event: 'in PyTorch take event.cuda_event, in CuPy event.ptr',
  kernel:
    'in Triton take the function of a compiled kernel, in CuPy kernel.kernel.ptr, in cuda.core int(kernel.handle)',
  'memory pool': 'in cuda.core take int(memory_resource.handle)',
  graph: 'in PyTorch take graph.raw_cuda_graph(), in CuPy graph.graph',
}

export function refusedHandle(kind: WrappedKind, handle: number, cause: CudaError): Error {
  const article = kind === 'event' ? 'an' : 'a'
  const number = handle < SMALL ? String(handle) : `0x${handle.toString(16)}`
  const hint =
    handle < SMALL
      ? `. It looks like ${article} ${kind}'s id, which is not its handle: ${ELSEWHERE[kind]}`
      : ': was it destroyed, or does it come from another process or driver?'
  return stateError('ERR_INVALID_HANDLE', `${number} is not the handle of a CUDA ${kind} of this driver${hint}`, cause)
}

export function closedHandle(kind: 'stream' | 'event', handle: number): Error {
  return stateError('ERR_CLOSED', `The ${kind} with handle 0x${handle.toString(16)} has been closed`)
}

export function notShareable(pointer: number, cause?: Error): Error {
  const what = `The memory at 0x${pointer.toString(16)} cannot be shared with other processes`
  const how = 'allocate it with device.alloc(byteLength, { interprocess: true }), or with cudaMalloc in another library'
  return stateError('ERR_UNSUPPORTED', `${what}: ${how}`, cause)
}

export function ownMemory(cause?: Error): Error {
  const how = 'use the buffer itself here, and buffer.share() between threads'
  return stateError('ERR_INVALID_HANDLE', `These bytes are memory of this same process: ${how}`, cause)
}

export function notOpened(cause?: Error): Error {
  const why = 'are they what ipcHandle() returned, in another process that still runs and has the memory open?'
  return stateError('ERR_INVALID_HANDLE', `These bytes open no memory: ${why}`, cause)
}

/**
 * The error for bytes of an event that were passed for those of memory. Only the simulator's handles record their kind: CUDA
 * answers with a code of its own.
 */
export function eventIsNoMemory(): Error {
  return stateError('ERR_INVALID_HANDLE', 'These bytes are of an event: open them by Event.fromIpcHandle()')
}

export function memoryIsNoEvent(): Error {
  return stateError('ERR_INVALID_HANDLE', 'These bytes are of memory: open them by DeviceBuffer.fromIpcHandle()')
}

export function noEvent(cause: Error): Error {
  const why = 'are they what ipcHandle() returned, in another process that still runs?'
  return stateError('ERR_INVALID_HANDLE', `These 64 bytes open no event: ${why}`, cause)
}
