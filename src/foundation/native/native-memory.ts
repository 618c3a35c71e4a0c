/** Memory outside of the heap of JavaScript. */
import { own } from './c-functions.js'
import { layer } from './layer.js'

/** Memory that does not move, so that C may keep its address. */
export class NativeMemory {
  readonly address: number
  readonly bytes: Uint8Array
  readonly int32: Int32Array
  readonly uint32: Uint32Array
  readonly float32: Float32Array
  readonly uint64: BigUint64Array

  /** Allocates `length` zeros, or views that many bytes of memory that is there already. */
  constructor(length: number, address: number = own().allocate(length)) {
    const buffer = layer().view(address, length)
    this.address = address
    this.bytes = new Uint8Array(buffer)
    this.int32 = new Int32Array(buffer)
    this.uint32 = new Uint32Array(buffer)
    this.float32 = new Float32Array(buffer)
    this.uint64 = new BigUint64Array(buffer)
  }

  /** Allocates a copy of the text or bytes, with a zero behind it. */
  static ofText(text: string | Uint8Array): NativeMemory {
    const bytes = typeof text === 'string' ? new TextEncoder().encode(text) : text
    const memory = new NativeMemory(Math.ceil((bytes.length + 1) / 8) * 8)
    memory.bytes.set(bytes)
    return memory
  }

  /** Frees the memory, whose views must not be used after this. Memory that is never freed lives as long as the process. */
  free(): void {
    own().release(this.address)
  }

  /** Reads the pointer at this offset, a multiple of 8. */
  pointerAt(offset: number): number {
    // Without a bigint, which would have to be allocated.
    return (this.uint32[offset / 4] ?? 0) + (this.uint32[offset / 4 + 1] ?? 0) * 2 ** 32
  }

  /** Writes a pointer, or a length of up to 53 bits, at this offset, a multiple of 8. */
  setPointer(offset: number, value: number): void {
    this.uint32[offset / 4] = value
    this.uint32[offset / 4 + 1] = value / 2 ** 32
  }
}
