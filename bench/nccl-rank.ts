/**
 * One of two Node processes: nccl-rank.js RANK PACKAGE. Rank 0 says 'id HEX', rank 1 reads it; then both say 'ready VERSION' and
 * answer 'run all-reduce-BYTES COUNT' with 'ns' and how long one took, until their input ends.
 */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import type { DeviceBuffer } from 'cuda-streams'
import { IN_GROUP } from './catalogue.js'

const [rank = 0, folder = ''] = [Number(process.argv[2]), process.argv[3]]
const { resolve } = createRequire(join(folder, 'package.json'))
const cuda: typeof import('cuda-streams') = await import(pathToFileURL(resolve('cuda-streams')).href)
const nccl: typeof import('cuda-streams/nccl') = await import(pathToFileURL(resolve('cuda-streams/nccl')).href)

const device = cuda.Device.get(rank)
const stream = new cuda.Stream({ device })
device.use()
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const say = (line: string): void => void process.stdout.write(`${line}\n`)

async function idOfBoth(): Promise<Uint8Array> {
  if (rank !== 0) return Uint8Array.from(Buffer.from(`${(await lines.next()).value}`, 'hex'))
  const id = nccl.uniqueId()
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

const communicator = await nccl.Communicator.create({ id: await idOfBoth(), rank, size: 2, device })
say(`ready Node ${process.version}, NCCL ${nccl.ncclVersion()}`)
for (let next = await lines.next(); !next.done; next = await lines.next()) {
  const [, key = '', count = ''] = `${next.value}`.split(' ')
  const size = key.replace('all-reduce-', '')
  const buffer = bufferOf(size === 'group' ? 1024 : Number(size))
  const reduce = (): void => void communicator.allReduce(buffer, buffer, { type: 'f32', stream })
  const all = Array.from({ length: size === 'group' ? IN_GROUP : 0 }, (_, nth) => bufferOf(1024 + 4 * nth))
  const once = (): void => {
    if (size !== 'group') reduce()
    else nccl.group(() => all.forEach((each) => void communicator.allReduce(each, each, { type: 'f32', stream })))
  }
  stream.synchronize()
  const begin = process.hrtime.bigint()
  for (let left = Number(count); left > 0; left -= 1) once()
  stream.synchronize()
  say(`ns ${Number(process.hrtime.bigint() - begin) / Number(count)}`)
}
await communicator.close()
