/**
 * Large new arrays in pages of 2 MiB, where the system has them: in pages of 4 KiB, which it hands out one by one as they
 * are first written, to fill 256 MiB takes five times as long.
 */
import { own } from '../libcuda/c-functions.js'
import { layer } from '../libcuda/layer.js'

/** Of fewer the whole pages in it are not worth a call. */
const LEAST_BYTES = 8 * 1024 * 1024

/** An ArrayBuffer of zeros, about to be filled. */
export function newArrayBuffer(byteLength: number): ArrayBuffer {
  const buffer = new ArrayBuffer(byteLength)
  if (byteLength >= LEAST_BYTES) own().largePages(layer().addressOf(new Uint8Array(buffer)), byteLength)
  return buffer
}
