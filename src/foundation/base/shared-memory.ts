/** Memory that several threads have. */

/** Memory that threads share; where a page has none, memory of its one thread. */
export const newSharedMemory = (byteLength: number): ArrayBufferLike =>
  typeof SharedArrayBuffer === 'function' ? new SharedArrayBuffer(byteLength) : new ArrayBuffer(byteLength)

export const isSharedMemory = (memory: unknown): memory is ArrayBufferLike =>
  memory instanceof (typeof SharedArrayBuffer === 'function' ? SharedArrayBuffer : ArrayBuffer)
