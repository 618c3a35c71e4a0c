/**
 * A worker that is terminated runs no JavaScript any more, yet its streams may stand at gates that only it could open,
 * and hold up the whole device. What does run then is a C function with one pointer. So the bytes that open every gate
 * lie ready in the buffer of a FILE whose file is the gate memory, and the function is fflush.
 */
import { koffi } from '../libcuda/native.js'

const FULLY_BUFFERED = 0
const P = 'uintptr_t'

/** Fills memory with this byte when the thread's JavaScript ends, however it ends. Only where the C library can. */
export function fillAtExit(address: number, length: number, byte: number): void {
  if (process.platform !== 'linux') return
  const libc = koffi().load(null)
  const malloc = libc.func('malloc', P, [P])
  const setvbuf = libc.func('setvbuf', 'int', [P, P, 'int', P])
  const fmemopen = libc.func('fmemopen', P, [P, P, 'str'])
  const fwrite = libc.func('fwrite', P, ['void *', P, P, P])
  const addHook = libc.func('napi_add_env_cleanup_hook', 'int', ['void *', P, P])
  // Larger than what is written, or it would be written at once; glibc does so with any buffer of less than 128 bytes.
  const bufferLength = Math.max(2 * length, 4096)
  const file = fmemopen(address, length, 'r+') as number
  setvbuf(file, malloc(bufferLength), FULLY_BUFFERED, bufferLength)
  fwrite(new Uint8Array(length).fill(byte), 1, length, file)
  addHook(koffi().node.env, Number(libc.symbol('fflush')), file)
}
