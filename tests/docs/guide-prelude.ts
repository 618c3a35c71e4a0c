/**
 * What fragments in the guides and doc comments may use without declaring it. A block that needs more declares it itself, which is better
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
  const image: cuda.OpaqueArray
  const texture: cuda.TextureObject
  const surface: cuda.SurfaceObject
  const x: cuda.DeviceBuffer
  const y: cuda.DeviceBuffer
  const parentPort: typeof import('node:worker_threads').parentPort
  const worker: import('node:worker_threads').Worker
  const axpy: cuda.Kernel<readonly ['f32', 'in f32*', 'inout f32*', 'i32']>
  const filter: cuda.DefinedKernel<readonly ['in f32*', 'out f32*']>
  const config: cuda.LaunchConfig
  const python: import('cuda-streams/python').Python
  const compileCu: typeof import('cuda-streams/cu').compileCu
  const compileTriton: typeof import('cuda-streams/cu').compileTriton
  const float32Array: Float32Array
  const file: import('node:stream').Readable
  function queueOurWork(handle: bigint): void

  // What expressions in tables use.
  const a: cuda.Stream
  const b: cuda.Stream
  const arg: string
  const args: readonly []
  const array: Uint8Array
  const blockingSync: boolean
  const bytes: Uint8Array
  const callback: () => void
  const condition: cuda.Condition
  const exec: cuda.GraphExec
  const external: boolean
  const shared: cuda.SharedEvent
  const work: cuda.ExternalWork
  const call: (handle: bigint) => void
  const context: cuda.GreenContext
  const dict: import('cuda-streams/dlpack').CudaArrayInterface
  const dtype: import('cuda-streams/dlpack').DType
  const fromCudaArrayInterface: typeof import('cuda-streams/dlpack').fromCudaArrayInterface
  const fromDLPack: typeof import('cuda-streams/dlpack').fromDLPack
  const fn: () => void
  const from: cuda.DeviceBuffer
  const graph: cuda.Graph
  const id: string
  const interprocess: boolean
  const kernel: cuda.Kernel<readonly []>
  const node: cuda.KernelNode<readonly []>
  const pool: cuda.MemoryPool
  const shape: readonly number[]
  const tensor: import('cuda-streams/dlpack').DLPackTensor
  const toCudaArrayInterface: typeof import('cuda-streams/dlpack').toCudaArrayInterface
  const toDLPack: typeof import('cuda-streams/dlpack').toDLPack
  const name: cuda.DeviceAttribute
  const nonBlocking: boolean
  const options: cuda.EventOptions
  const ordinal: number
  const owner: object
  const priority: number
  const signal: AbortSignal
  const source: cuda.CudaStreamLike
  const start: cuda.Event
  const streams: cuda.StreamPool
  const timing: boolean
  const to: cuda.DeviceBuffer
  const value: number
  const wrapped: cuda.ExternalStream
}
`
