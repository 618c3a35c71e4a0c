/**
 * One of two Node processes with a GPU each: nccl-rank.js RANK PACKAGE; or one with both: nccl-rank.js both PACKAGE. Rank 0 says
 * 'id HEX', rank 1 reads it; then each process says 'ready VERSION' and answers 'run KEY COUNT' with 'ns' and how long one
 * allReduce took, until its input ends. The key ends with the bytes, or with 'group'.
 */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import type { Device, DeviceBuffer, Stream } from 'cuda-streams'
import type { Communicator } from 'cuda-streams/nccl'
import { IN_GROUP } from './catalogue.js'

const [which = '', folder = ''] = process.argv.slice(2)
const { resolve } = createRequire(join(folder, 'package.json'))
const cuda: typeof import('cuda-streams') = await import(pathToFileURL(resolve('cuda-streams')).href)
const nccl: typeof import('cuda-streams/nccl') = await import(pathToFileURL(resolve('cuda-streams/nccl')).href)

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const say = (line: string): void => void process.stdout.write(`${line}\n`)

/** One of the ranks of this process. */
class Rank {
  readonly stream: Stream
  readonly #buffers = new Map<number, DeviceBuffer>()

  constructor(
    readonly device: Device,
    readonly communicator: Communicator,
  ) {
    this.stream = new cuda.Stream({ device })
  }

  allReduce(bytes: number): void {
    let buffer = this.#buffers.get(bytes)
    if (buffer === undefined) {
      buffer = this.device.alloc(bytes, { stream: this.stream })
      this.stream.fill(buffer, 0)
      this.#buffers.set(bytes, buffer)
    }
    this.communicator.allReduce(this.stream, buffer, buffer, { type: 'f32' })
  }
}

async function open(): Promise<readonly Rank[]> {
  if (which === 'both') {
    const devices = [cuda.Device.get(0), cuda.Device.get(1)]
    const communicators = await nccl.Communicator.createAll(devices)
    return communicators.map((communicator) => new Rank(communicator.device, communicator))
  }
  const rank = Number(which)
  const device = cuda.Device.get(rank)
  device.use()
  return [new Rank(device, await nccl.Communicator.create({ id: await idOfBoth(rank), rank, size: 2, device }))]
}

async function idOfBoth(rank: number): Promise<Uint8Array> {
  if (rank !== 0) return Uint8Array.from(Buffer.from(`${(await lines.next()).value}`, 'hex'))
  const id = nccl.uniqueId()
  say(`id ${Buffer.from(id).toString('hex')}`)
  return id
}

const ranks = await open()
const synchronize = (): void => {
  for (const { stream } of ranks) stream.synchronize()
}

/** Two ranks of one thread wait for each other, so they belong into a group. */
function once(sizes: readonly number[]): void {
  const queue = (): void => {
    for (const bytes of sizes) for (const rank of ranks) rank.allReduce(bytes)
  }
  if (sizes.length > 1 || ranks.length > 1) nccl.group(queue)
  else queue()
}

say(`ready Node ${process.version}, NCCL ${nccl.ncclVersion()}`)
for (let next = await lines.next(); !next.done; next = await lines.next()) {
  const [, key = '', count = ''] = `${next.value}`.split(' ')
  const size = key.slice(key.lastIndexOf('-') + 1)
  // Different buffers: what is in one group runs side by side.
  const sizes = size === 'group' ? Array.from({ length: IN_GROUP }, (_, nth) => 1024 + 4 * nth) : [Number(size)]
  try {
    once(sizes)
    synchronize()
    const begin = process.hrtime.bigint()
    for (let left = Number(count); left > 0; left -= 1) once(sizes)
    synchronize()
    say(`ns ${Number(process.hrtime.bigint() - begin) / Number(count)}`)
  } catch (error) {
    say(`fail ${error instanceof Error ? error.message.split('\n')[0] : error}`)
  }
}
await Promise.all(ranks.map(({ communicator }) => communicator.close()))
