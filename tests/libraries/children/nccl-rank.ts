/**
 * One of two ranks, each in a process of its own with a GPU of its own: `nccl-rank.js SCENARIO RANK`. Rank 0 sends the id
 * to its parent, which passes it on. What happened is sent to the parent as an object.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Device, Stream } from 'cuda-streams'
import { Communicator, group, uniqueId } from 'cuda-streams/nccl'

const [scenario = '', rankText = ''] = process.argv.slice(2)
const rank = Number(rankText)
/** Parts of the buffer that have a value of their own. */
const PARTS = 64

const device = Device.get(rank)
device.use()
const stream = new Stream({ device })
stream.use()

async function idOfBoth(): Promise<Uint8Array> {
  if (rank === 0) {
    const id = uniqueId()
    process.send?.({ id: Buffer.from(id).toString('hex') })
    return id
  }
  const [message] = (await once(process, 'message')) as [{ id: string }]
  return Uint8Array.from(Buffer.from(message.id, 'hex'))
}

async function join(): Promise<Communicator> {
  return Communicator.create({ id: await idOfBoth(), rank, size: 2, device, timeout: 60_000 })
}

const bitsOf = (value: number): number => new Int32Array(Float32Array.of(value).buffer)[0] ?? 0

const scenarios: Readonly<Record<string, () => Promise<object>>> = {
  /** 1 GiB, on the simulator 4 MiB: every element of the sum is looked at. */
  async allReduce() {
    const communicator = await join()
    const buffer = device.alloc(device.driver === 'cuda' ? 2 ** 30 : 2 ** 22)
    const part = buffer.byteLength / PARTS
    for (let index = 0; index < PARTS; index += 1) {
      stream.fill(buffer.subarray(index * part, (index + 1) * part), bitsOf(index * 3 + rank), { width: 4 })
    }
    communicator.allReduce(Stream.current(communicator.device), buffer, buffer, { type: 'f32' })
    const bytes = await stream.download(buffer)
    const values = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4)
    let wrong = 0
    for (let at = 0; at < values.length; at += 1) {
      if (values[at] !== Math.floor(at / (part / 4)) * 6 + 1) wrong += 1
    }
    buffer.close()
    await communicator.close()
    return { wrong, elements: values.length }
  },

  /** Every other call, with small buffers. */
  async calls() {
    const communicator = await join()
    const small = device.alloc(16)
    const both = device.alloc(32)
    const put = async (values: readonly number[]): Promise<void> => {
      void stream.upload(small, Float32Array.from(values))
    }
    const got = async (): Promise<number[]> => [...new Float32Array((await stream.download(both)).buffer)]
    const mine = [1, 2, 3, 4].map((value) => value + 10 * rank)
    const result: Record<string, number[]> = {}
    await put(mine)
    communicator.allGather(Stream.current(communicator.device), small, both, { type: 'f32' })
    result['allGather'] = await got()
    communicator.reduceScatter(Stream.current(communicator.device), both, small, { type: 'f32', op: 'max' })
    communicator.broadcast(Stream.current(communicator.device), rank === 1 ? small : undefined, both.subarray(0, 16), {
      type: 'f32',
      root: 1,
    })
    result['broadcast'] = (await got()).slice(0, 4)
    await put(mine)
    communicator.reduce(Stream.current(communicator.device), small, rank === 0 ? both.subarray(16, 32) : undefined, {
      type: 'f32',
      op: 'prod',
    })
    result['reduce'] = (await got()).slice(4)
    group(() => {
      communicator.send(Stream.current(communicator.device), small, { type: 'f32', peer: 1 - rank })
      communicator.recv(Stream.current(communicator.device), both.subarray(0, 16), { type: 'f32', peer: 1 - rank })
    })
    result['exchanged'] = (await got()).slice(0, 4)
    communicator.allReduce(Stream.current(communicator.device), small, small, { type: 'f32', op: 'avg' })
    stream.copy(both.subarray(0, 16), small)
    result['average'] = (await got()).slice(0, 4)
    await communicator.close()
    return result
  },

  /** The first call waits for the other rank, which comes late, and runs host functions meanwhile. */
  async late() {
    const communicator = await join()
    const buffer = device.alloc(4)
    stream.fill(buffer, bitsOf(rank + 1), { width: 4 })
    stream.synchronize()
    let ran = 0
    if (rank === 1) await new Promise((resolve) => setTimeout(resolve, 1000))
    else {
      const other = new Stream({ device })
      for (let count = 0; count < 3; count += 1) {
        other.launchHostFunc(() => {
          ran += 1
        })
      }
    }
    const begin = performance.now()
    communicator.allReduce(Stream.current(communicator.device), buffer, buffer, { type: 'f32' })
    const ranInside = ran
    const waited = performance.now() - begin
    const [value] = new Float32Array((await stream.download(buffer)).buffer)
    await communicator.close()
    return { value, waited, ranInside }
  },

  /** Rank 1 is gone, without a word, when rank 0 calls. */
  async killed() {
    const communicator = await join()
    const buffer = device.alloc(1024)
    stream.fill(buffer, 0)
    communicator.allReduce(Stream.current(communicator.device), buffer, buffer, { type: 'f32' })
    await communicator.finished()
    if (rank === 1) process.kill(process.pid, 'SIGKILL')
    await new Promise((resolve) => setTimeout(resolve, 500))
    const begin = performance.now()
    let told: unknown
    try {
      communicator.allReduce(Stream.current(communicator.device), buffer, buffer, { type: 'f32' })
      await communicator.finished({ signal: AbortSignal.timeout(3000) })
    } catch (error) {
      told = error
    }
    const waited = performance.now() - begin
    assert.ok(told instanceof Error, 'nothing was told')
    // The streams go on: the device is as good as before.
    stream.fill(buffer, 7)
    const bytes = await stream.download(buffer)
    return { told: told.name, message: told.message, waited, closed: communicator.closed, byte: bytes[0] }
  },

  /** A call to a rank of another process is captured, and then made. */
  async captured() {
    const communicator = await join()
    const buffer = stream.bufferFrom(Int32Array.of(rank + 1))
    stream.beginCapture('relaxed')
    let code: unknown
    try {
      communicator.allReduce(Stream.current(communicator.device), buffer, buffer, { type: 'i32' })
    } catch (error) {
      code = error instanceof Error && 'code' in error ? error.code : error
    }
    stream.endCapture().close()
    communicator.allReduce(Stream.current(communicator.device), buffer, buffer, { type: 'i32' })
    const [sum] = await stream.download(buffer, Int32Array)
    await communicator.close()
    return { code, sum }
  },

  /** Rank 1 never comes. */
  async absent() {
    if (rank === 1) {
      await idOfBoth()
      return {}
    }
    const begin = performance.now()
    const told = await Communicator.create({
      ...{ id: await idOfBoth(), rank, size: 2, device },
      signal: AbortSignal.timeout(2000),
    }).then(
      () => 'it was made',
      (error: Error) => error.name,
    )
    return { told, waited: performance.now() - begin }
  },
}

const run = scenarios[scenario]
assert.ok(run !== undefined, `no scenario '${scenario}'`)
const result = await run()
process.send?.({ result })
process.disconnect()
