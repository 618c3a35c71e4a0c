/** One vector on each rank's device becomes the sum of all, on each: by the rendezvous, or by NCCL where it can be. */
import { type Device, Stream } from 'cuda-streams'
import { Communicator, uniqueId } from 'cuda-streams/nccl'
import type { Rendezvous } from './rendezvous.js'

/** Between GPUs, without a copy through the host. Every rank needs a GPU of its own. */
export async function sumByNccl(rendezvous: Rendezvous, device: Device, values: Float32Array): Promise<Float32Array> {
  const { rank, size } = rendezvous
  const id = await rendezvous.broadcast(rank === 0 ? uniqueId() : undefined)
  await using communicator = await Communicator.create({ id, rank, size, device })
  using stream = new Stream({ device })
  using numbers = device.alloc(values.byteLength)
  stream.upload(numbers, values)
  communicator.allReduce(stream, numbers, numbers, { type: 'f32', op: 'sum' })
  return new Float32Array((await stream.download(numbers)).buffer)
}

/** Over the host: what remains for ranks that have no GPU of their own. */
export async function sumByHost(rendezvous: Rendezvous, device: Device, values: Float32Array): Promise<Float32Array> {
  using stream = new Stream({ device })
  using numbers = device.alloc(values.byteLength)
  stream.upload(numbers, values)
  const all = await rendezvous.allGather(await stream.download(numbers))
  const sums = new Float32Array(values.length)
  for (const bytes of all) {
    const theirs = new Float32Array(Uint8Array.from(bytes).buffer)
    for (const [index, value] of theirs.entries()) sums[index] = (sums[index] ?? 0) + value
  }
  stream.upload(numbers, sums)
  return new Float32Array((await stream.download(numbers)).buffer)
}
