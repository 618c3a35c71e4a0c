/** How ranks find each other, and what they hand out: processes of this machine, without a GPU. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { describe, it } from 'node:test'
import { placeOf } from '../../examples/ranks/environment.js'
import { Rendezvous } from '../../examples/ranks/rendezvous.js'
import { openCudaWorkbench } from '../helpers/cuda-workbench.js'
import { freePort, runRanks, start, told } from './run-ranks.js'

const MAIN = 'examples/ranks/main.js'
const RANK_SCRIPT = 'tests/processes/children/rank.js'
const here = { address: '127.0.0.1', port: 29_501 }

describe('the place of a rank', () => {
  it('is read as each launcher tells it', () => {
    const torchrun = { RANK: '5', WORLD_SIZE: '8', LOCAL_RANK: '1', MASTER_ADDR: 'node0', MASTER_PORT: '1234' }
    assert.deepEqual(placeOf(torchrun), { rank: 5, size: 8, localRank: 1, address: 'node0', port: 1235 })
    const mpirun = { OMPI_COMM_WORLD_RANK: '2', OMPI_COMM_WORLD_SIZE: '4', OMPI_COMM_WORLD_LOCAL_RANK: '0' }
    assert.deepEqual(placeOf(mpirun), { rank: 2, size: 4, localRank: 0, ...here })
    const slurm = { SLURM_PROCID: '1', SLURM_NTASKS: '2', SLURM_LOCALID: '0' }
    assert.deepEqual(placeOf(slurm), { rank: 1, size: 2, localRank: 0, ...here })
    assert.deepEqual(placeOf({ PMI_RANK: '1', PMI_SIZE: '2' }), { rank: 1, size: 2, localRank: 1, ...here })
    assert.deepEqual(placeOf({}), { rank: 0, size: 1, localRank: 0, ...here })
    assert.equal(placeOf({ ...torchrun, ...mpirun }).rank, 5, "torchrun's come first")
  })

  it('has a port of its own beside that of torchrun', () => {
    assert.equal(placeOf({ MASTER_PORT: '65535' }).port, 65_534)
    assert.equal(placeOf({ MASTER_PORT: '1000', RENDEZVOUS_PORT: '77' }).port, 77)
  })

  it('is refused where it contradicts itself', () => {
    assert.throws(() => placeOf({ RANK: '2', WORLD_SIZE: '2' }), /RANK must be a whole number from 0 to 1, not '2'/)
    assert.throws(() => placeOf({ RANK: 'x', WORLD_SIZE: '2' }), /RANK/)
    assert.throws(() => placeOf({ RANK: '0', WORLD_SIZE: '' }), /WORLD_SIZE/)
    assert.throws(() => placeOf({ MASTER_PORT: '0' }), /MASTER_PORT/)
  })
})

describe('the rendezvous', () => {
  it('of three processes hands out bytes of any length in the order of the ranks', async () => {
    const ended = await runRanks(3, RANK_SCRIPT, ['exchange'])
    const sums = Array.from({ length: 50 }, (_, step) => 3 + 3 * step)
    for (const [rank, one] of ended.entries()) {
      assert.equal(one.code, 0, told(one))
      const expected = { rank, lengths: [0, 5, 300_000], pure: true, first: 'from rank 0', sums }
      assert.deepEqual(JSON.parse(one.stdout), expected)
    }
  })

  it("meets beside torchrun's store, which has MASTER_PORT itself", async () => {
    const store = createServer().listen((await freePort()) - 1, '127.0.0.1')
    await once(store, 'listening')
    const address = store.address()
    assert.ok(address !== null && typeof address === 'object')
    const env = { WORLD_SIZE: '2', MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(address.port) }
    const ended = await Promise.all(['0', '1'].map((RANK) => start(RANK_SCRIPT, ['leave'], { ...env, RANK })))
    store.close()
    assert.deepEqual(
      ended.map(({ code }) => code),
      [0, 0],
      ended.map(told).join('\n'),
    )
  })

  it('does not wait forever for a rank that is gone', async () => {
    const ended = await runRanks(3, RANK_SCRIPT, ['leave'])
    for (const one of ended) assert.equal(one.code, 0, told(one))
    for (const rank of [0, 2]) assert.match(ended[rank]?.stdout ?? '', /another rank has left|closed|reset/i)
  })

  it('says that a rank has left, whichever half of the connection broke', async () => {
    const place = { rank: 0, size: 2, localRank: 0, address: '127.0.0.1', port: await freePort() }
    const [first, second] = await Promise.all([Rendezvous.join(place), Rendezvous.join({ ...place, rank: 1 })])
    second.close()
    for (let time = 0; time < 3; time += 1) await assert.rejects(first.barrier(), /rank 0: another rank has left/)
    first.close()
  })

  it('does not wait forever for a rank that never comes', async () => {
    const port = String(await freePort())
    const env = { RANK: '0', WORLD_SIZE: '2', RENDEZVOUS_PORT: port }
    const alone = await start(RANK_SCRIPT, ['absent'], env)
    assert.equal(alone.code, 0, told(alone))
    assert.match(alone.stdout, /rank 0 of 2 did not meet all others at 127\.0\.0\.1/)
    const lost = await start(RANK_SCRIPT, ['absent'], { ...env, RANK: '1' })
    assert.match(lost.stdout, /rank 0 does not listen at 127\.0\.0\.1/, told(lost))
  })

  it('sends away who does not belong to it, and goes on', async () => {
    const place = { rank: 0, size: 2, localRank: 0, address: '127.0.0.1', port: await freePort() }
    const first = Rendezvous.join(place)
    const greeting = { greeting: 'cuda-streams ranks 1', rank: 1, size: 2 }
    await listening(place.port)
    const wrong = ['GET / HTTP/1.1\r\n\r\n', '', framed({ ...greeting, size: 3 }), framed({ ...greeting, rank: 2 })]
    for (const text of [...wrong, framed({ ...greeting, rank: '1' }), framed([])]) {
      const stranger = connect({ port: place.port, host: place.address }).on('error', () => {})
      await once(stranger, 'connect')
      stranger.end(text)
      stranger.resume()
      await once(stranger, 'close')
    }
    const silent = connect({ port: place.port, host: place.address }).on('error', () => {})
    await once(silent, 'connect')
    const second = await Rendezvous.join({ ...place, rank: 1 })
    const ranks = [await first, second]
    const all = await Promise.all(ranks.map((one) => one.allGather(Uint8Array.of(one.rank))))
    for (const given of all) assert.deepEqual(given, [Buffer.of(0), Buffer.of(1)])
    for (const one of ranks) one.close()
    silent.resume()
    await once(silent, 'close')
  })
})

describe('the example', () => {
  it('trains on four ranks without a GPU', async () => {
    const ended = await runRanks(4, 'examples/ranks/train.js', [], { CUDA_STREAMS_DRIVER: 'sim' })
    for (const one of ended) assert.equal(one.code, 0, told(one))
    assert.match(ended[0]?.stdout ?? '', /4 rank\(s\), Simulated GPU[\s\S]*the same on every rank, right/)
  })

  it('sums over three ranks without a GPU', async () => {
    const ended = await runRanks(3, MAIN, [], { CUDA_STREAMS_DRIVER: 'sim' })
    for (const one of ended) assert.equal(one.code, 0, told(one))
    const [first = '', ...rest] = ended.map(({ stdout }) => stdout)
    assert.match(first, /262144 numbers of each of 3 rank\(s\) by NCCL\.$/m)
    assert.equal(first.match(/^ {2}rank \d of 3 on .*: right$/gm)?.length, 3, first)
    assert.deepEqual(rest, ['', ''])
  })

  it('sums by NCCL where each rank has a GPU', async (context) => {
    const cuda = openCudaWorkbench()
    if (typeof cuda === 'string') return context.skip(`no NVIDIA driver here: ${cuda}`)
    const size = Math.min(cuda.devices.length, 4)
    const ended = await runRanks(size, MAIN, [], { CUDA_STREAMS_DRIVER: 'cuda' })
    for (const one of ended) assert.equal(one.code, 0, told(one))
    const first = ended[0]?.stdout ?? ''
    assert.match(first, /by NCCL\.$/m, ended.map(told).join('\n'))
    assert.equal(first.match(/^ {2}rank \d of \d on .*cuda.*: right$/gm)?.length, size, first)
    return context.diagnostic(`${size} rank(s)`)
  })

  it('goes through the rendezvous where ranks are more than GPUs', async (context) => {
    const cuda = openCudaWorkbench()
    if (typeof cuda === 'string') return context.skip(`no NVIDIA driver here: ${cuda}`)
    const size = cuda.devices.length + 1
    const ended = await runRanks(size, MAIN, [], { CUDA_STREAMS_DRIVER: 'cuda' })
    for (const one of ended) assert.equal(one.code, 0, told(one))
    return assert.match(ended[0]?.stdout ?? '', /by the rendezvous, on simulated GPUs/)
  })
})

async function listening(port: number): Promise<void> {
  for (;;) {
    const probe = connect({ port, host: '127.0.0.1' })
    try {
      await once(probe, 'connect')
      return
    } catch {
      // Not yet.
    } finally {
      probe.destroy()
    }
  }
}

function framed(value: unknown): Buffer {
  const bytes = Buffer.from(JSON.stringify(value))
  const length = Buffer.alloc(4)
  length.writeUInt32LE(bytes.length)
  return Buffer.concat([length, bytes])
}
