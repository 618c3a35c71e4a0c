/** A stream for kernels of files of CUDA C++, and what their results are compared by. */
import assert from 'node:assert/strict'
import type { DeviceBuffer } from 'cuda-streams'
import type { Workbench } from '../helpers/workbench.js'

type Numbers =
  | Int8Array
  | Uint8Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | Float32Array
  | Float64Array

export function machine({ device, stream: make }: Workbench) {
  const stream = make()
  const put = (array: Numbers): DeviceBuffer => {
    const buffer = device.alloc(array.byteLength, { stream })
    void stream.upload(buffer, array)
    return buffer
  }
  return { device, stream, put }
}

export const ramp = (length: number, of: (index: number) => number): Float32Array =>
  Float32Array.from({ length }, (_, index) => of(index))

export function close(found: ArrayLike<number>, expected: readonly number[], most: number): void {
  assert.equal(found.length, expected.length)
  for (const [index, value] of expected.entries()) {
    const difference = Math.abs((found[index] ?? Number.NaN) - value)
    assert.ok(difference <= most, `element ${index} is ${found[index]}, and not ${value}`)
  }
}
