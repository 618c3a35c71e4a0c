/** A simulated machine for kernels of files of CUDA C++, and what their results are compared by. */
import assert from 'node:assert/strict'
import { type DeviceBuffer, Stream } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'

type Numbers =
  | Int8Array
  | Uint8Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | Float32Array
  | Float64Array

export function machine() {
  const [device] = simulate().devices
  assert.ok(device)
  const stream = new Stream({ device })
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
