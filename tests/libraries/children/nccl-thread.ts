/** One of two ranks, each in a thread of its own: sums its number with that of the other, and says the sum. */
import { parentPort, workerData } from 'node:worker_threads'
import { Device, Stream } from 'cuda-streams'
import { Communicator } from 'cuda-streams/nccl'

const { id, rank } = workerData as { readonly id: Uint8Array; readonly rank: number }
const device = Device.get(0)
await using communicator = await Communicator.create({ id, rank, size: 2, device })
using stream = new Stream({ device })
using buffer = stream.bufferFrom(Int32Array.of(rank + 1))
communicator.allReduce(stream, buffer, buffer, { type: 'i32' })
parentPort?.postMessage((await stream.download(buffer, Int32Array))[0])
