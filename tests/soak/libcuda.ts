/** The few calls of the NVIDIA driver that a soak makes itself, as another library would. */
import { createRequire } from 'node:module'
import type * as Koffi from 'koffi'

interface Calls {
  readonly fill: (pointer: number, value: number, length: number, stream: number) => number
  readonly pool: (pool: number, device: number) => number
  readonly attribute: (pool: bigint, attribute: number, value: number) => number
  readonly words: BigUint64Array
  readonly at: number
}

let calls: Calls | undefined

function libcuda(): Calls {
  if (calls !== undefined) return calls
  const koffi: typeof Koffi = createRequire(import.meta.url)('koffi')
  const library = koffi.load('libcuda.so.1')
  const at = Number(koffi.alloc('uint64', 2))
  calls = {
    fill: library.func('cuMemsetD8Async', 'int', ['uintptr_t', 'uint8', 'size_t', 'uintptr_t']),
    pool: library.func('cuDeviceGetDefaultMemPool', 'int', ['uintptr_t', 'int']),
    attribute: library.func('cuMemPoolGetAttribute', 'int', ['uintptr_t', 'int', 'uintptr_t']),
    words: new BigUint64Array(koffi.view(BigInt(at), 16)),
    at,
  }
  return calls
}

/** Queues a fill. The context of the stream has to be current, as it is inside of `stream.external()`. */
export function queueForeignFill(pointer: bigint, value: number, length: number, stream: bigint): void {
  const result = libcuda().fill(Number(pointer), value, length, Number(stream))
  if (result !== 0) throw new Error(`cuMemsetD8Async returned ${result}`)
}

/** CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT. */
const RESERVED = 5

/**
 * Bytes that this process has taken from the device for memory in the order of streams. What is free on the device (`cuMemGetInfo`) changes with
 * each process that begins or ends.
 */
export function reservedDeviceBytes(device: number): number {
  const { pool, attribute, words, at } = libcuda()
  const result = pool(at, device) || attribute(words[0] ?? 0n, RESERVED, at + 8)
  if (result !== 0) throw new Error(`cuMemPoolGetAttribute returned ${result}`)
  return Number(words[1])
}
