/** koffi, loaded at the first use of a real driver: importing the package loads no library. */
import { createRequire } from 'node:module'
import type * as Koffi from 'koffi'

let loaded: typeof Koffi | undefined

export function koffi(): typeof Koffi {
  loaded ??= createRequire(import.meta.url)('koffi') as typeof Koffi
  return loaded
}

/** Memory outside V8's heap: it does not move, so that C may keep its address. */
export class NativeMemory {
  readonly address: number
  readonly bytes: Uint8Array
  readonly int32: Int32Array
  readonly uint32: Uint32Array
  readonly float32: Float32Array
  readonly uint64: BigUint64Array

  constructor(length: number, address: number = Number(koffi().alloc('uint64', length / 8))) {
    const buffer = koffi().view(BigInt(address), length)
    this.address = address
    this.bytes = new Uint8Array(buffer)
    this.int32 = new Int32Array(buffer)
    this.uint32 = new Uint32Array(buffer)
    this.float32 = new Float32Array(buffer)
    this.uint64 = new BigUint64Array(buffer)
  }

  /** Gives it back: the views must not be used any more. Without this it lives as long as the process. */
  free(): void {
    koffi().free(BigInt(this.address))
  }

  /** The pointer stored at this offset, a multiple of 8. */
  pointerAt(offset: number): number {
    return Number(this.uint64[offset / 8])
  }
}
