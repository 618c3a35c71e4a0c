/**
 * One of two Node processes: nccl-rank.js RANK. Rank 0 says 'id HEX', rank 1 reads it; then both say 'ready VERSION' and
 * answer 'round BYTES COUNT' with the milliseconds that one allReduce took, until their input ends.
 */
import { createInterface } from 'node:readline'
import { Device, type DeviceBuffer, Stream } from 'cuda-streams'
import { Communicator, ncclVersion, uniqueId } from 'cuda-streams/nccl'

const rank = Number(process.argv[2])
const device = Device.get(rank)
const stream = new Stream({ device })
device.use()
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const say = (line: string): void => void process.stdout.write(`${line}\n`)

async function idOfBoth(): Promise<Uint8Array> {
  if (rank !== 0) return Uint8Array.from(Buffer.from(`${(await lines.next()).value}`, 'hex'))
  const id = uniqueId()
  say(`id ${Buffer.from(id).toString('hex')}`)
  return id
}

const buffers = new Map<number, DeviceBuffer>()

function bufferOf(bytes: number): DeviceBuffer {
  let buffer = buffers.get(bytes)
  if (buffer === undefined) {
    buffer = device.alloc(bytes, { stream })
    stream.fill(buffer, 0)
    buffers.set(bytes, buffer)
  }
  return buffer
}

const communicator = await Communicator.create({ id: await idOfBoth(), rank, size: 2, device })
say(`ready Node ${process.version}, NCCL ${ncclVersion()}`)
for (let next = await lines.next(); !next.done; next = await lines.next()) {
  const [, bytes = 0, count = 0] = `${next.value}`.split(' ').map(Number)
  const buffer = bufferOf(bytes)
  stream.synchronize()
  const begin = performance.now()
  for (let left = count; left > 0; left -= 1) communicator.allReduce(buffer, buffer, { type: 'f32', stream })
  stream.synchronize()
  say(String((performance.now() - begin) / count))
}
await communicator.close()
