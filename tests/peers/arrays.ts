/** Small arrays of floats and kernels over them, for programs that the other libraries' users write with theirs. */
import assert from 'node:assert/strict'
import { type Device, type DeviceBuffer, defineKernel, type PinnedBuffer, type Stream } from 'cuda-streams'

/** Adds one to each element. */
const increment = defineKernel({
  name: 'increment',
  source: `extern "C" __global__ void increment(float* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] += 1;
  }`,
  signature: ['inout f32*', 'i32'],
  simulateGrid(_grid, a, n) {
    for (let i = 0; i < n; i += 1) a[i] = (a[i] ?? 0) + 1
  },
})

/** to = from + 1 */
export const incrementInto = defineKernel({
  name: 'increment_into',
  source: `extern "C" __global__ void increment_into(const float* from, float* to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i] + 1;
  }`,
  signature: ['in f32*', 'out f32*', 'i32'],
  simulateGrid(_grid, from, to, n) {
    for (let i = 0; i < n; i += 1) to[i] = (from[i] ?? 0) + 1
  },
})

/** c = a + b */
export const add = defineKernel({
  name: 'add',
  source: `extern "C" __global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
  }`,
  signature: ['in f32*', 'in f32*', 'out f32*', 'i32'],
  simulateGrid(_grid, a, b, c, n) {
    for (let i = 0; i < n; i += 1) c[i] = (a[i] ?? 0) + (b[i] ?? 0)
  },
})

/** A capture may load no code: this does it before. */
export async function prepareKernels(devices: readonly Device[]): Promise<void> {
  for (const device of devices) {
    for (const kernel of [increment, incrementInto, add]) await kernel.prepare(device)
  }
}

export const LENGTH = 4096
export const BYTES = 4 * LENGTH
export const GRID = { grid: LENGTH / 256, block: 256 }

export function increased(stream: Stream, array: DeviceBuffer | PinnedBuffer): void {
  stream.launch(increment, GRID, array, LENGTH)
}

/** A new array of one value, written by the stream. */
export function filled(stream: Stream, value: number): DeviceBuffer {
  const array = stream.device.alloc(BYTES, { stream })
  stream.fill(array, new Uint32Array(Float32Array.of(value).buffer)[0] ?? 0, { width: 4 })
  return array
}

async function read(stream: Stream, array: DeviceBuffer): Promise<Float32Array> {
  const bytes = await stream.download(array)
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4)
}

/** Reads the array on the stream, and asserts that it has this value from end to end. */
export async function holds(stream: Stream, array: DeviceBuffer, value: number): Promise<void> {
  const wrong = [...new Set(await read(stream, array))].filter((found) => found !== value)
  assert.deepEqual(wrong, [], `each element was to be ${value}`)
}
