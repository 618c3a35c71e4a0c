/**
 * Large new arrays in pages of 2 MiB, where the system has them: in pages of 4 KiB, which it hands out one by one as they
 * are first written, to fill 256 MiB takes five times as long.
 */
import { koffi } from '../libcuda/native.js'

const PAGE_BYTES = 2 * 1024 * 1024
/** Of fewer the whole pages in it are not worth a call. */
const LEAST_BYTES = 4 * PAGE_BYTES
const MADV_HUGEPAGE = 14

type AddressOf = (bytes: ArrayBuffer, same: ArrayBuffer, byteLength: 0) => number
type Advise = (address: number, byteLength: number, advice: number) => number

let libc: { readonly addressOf: AddressOf; readonly advise: Advise } | undefined

/** An ArrayBuffer of zeros, about to be filled. */
export function newArrayBuffer(byteLength: number): ArrayBuffer {
  const buffer = new ArrayBuffer(byteLength)
  if (byteLength >= LEAST_BYTES && process.platform === 'linux') adviseHugePages(buffer)
  return buffer
}

/** Advice: where the system does not take it, all is as before. */
function adviseHugePages(buffer: ArrayBuffer): void {
  libc ??= declare()
  const address = libc.addressOf(buffer, buffer, 0)
  const begin = Math.ceil(address / PAGE_BYTES) * PAGE_BYTES
  const end = Math.floor((address + buffer.byteLength) / PAGE_BYTES) * PAGE_BYTES
  libc.advise(begin, end - begin, MADV_HUGEPAGE)
}

function declare(): { readonly addressOf: AddressOf; readonly advise: Advise } {
  const library = koffi().load(null)
  return {
    // It moves nothing, and returns where it would.
    addressOf: library.func('memmove', 'uintptr_t', ['void *', 'void *', 'size_t']) as AddressOf,
    advise: library.func('madvise', 'int', ['uintptr_t', 'size_t', 'int']) as Advise,
  }
}
