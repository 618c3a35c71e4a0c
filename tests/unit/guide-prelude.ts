/**
 * What fragments in the guides may use without declaring it. A block that needs more declares it itself, which is better
 * for the reader too.
 */
export const PRELUDE = `
import type * as cuda from 'cuda-streams'

declare global {
  const Readable: typeof import('node:stream').Readable
  const handle: bigint
  const pointer: bigint
  const byteLength: number
  const device: cuda.Device
  const stream: cuda.Stream
  const ours: cuda.Stream
  const theirs: cuda.Stream
  const other: cuda.Stream
  const event: cuda.Event
  const buffer: cuda.DeviceBuffer
  const pinned: cuda.PinnedBuffer
  const x: cuda.DeviceBuffer
  const y: cuda.DeviceBuffer
  const axpy: cuda.Kernel<readonly ['f32', 'in f32*', 'inout f32*', 'i32']>
  const config: cuda.LaunchConfig
  const float32Array: Float32Array
  const file: import('node:stream').Readable
  function queueOurWork(handle: bigint): void
}
`
