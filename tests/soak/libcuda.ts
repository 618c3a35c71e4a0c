/** The few calls of the NVIDIA driver that a soak makes itself, as another library would. */
import { createRequire } from 'node:module'
import type * as Koffi from 'koffi'
import { DRIVER_FILE } from '../helpers/driver-file.js'

interface Calls {
  readonly fill: (pointer: number, value: number, length: number, stream: number) => number
}

let calls: Calls | undefined

function libcuda(): Calls {
  if (calls !== undefined) return calls
  const koffi: typeof Koffi = createRequire(import.meta.url)('koffi')
  const library = koffi.load(DRIVER_FILE)
  calls = {
    fill: library.func('cuMemsetD8Async', 'int', ['uintptr_t', 'uint8', 'size_t', 'uintptr_t']),
  }
  return calls
}

/** Queues a fill. The context of the stream has to be current, as it is inside of `stream.external()`. */
export function queueForeignFill(pointer: bigint, value: number, length: number, stream: bigint): void {
  const result = libcuda().fill(Number(pointer), value, length, Number(stream))
  if (result !== 0) throw new Error(`cuMemsetD8Async returned ${result}`)
}
