/** NCCL: one rank, and two in this thread, also on the simulator; two processes, each with a GPU of its own. */
import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { type DeviceBuffer, Stream } from 'cuda-streams'
import {
  Communicator,
  type CommunicatorOptions,
  group,
  type NcclReduction,
  type NcclType,
  ncclVersion,
  uniqueId,
} from 'cuda-streams/nccl'
import { collectUntil, follow, ONE_DEVICE, refused, rejected, turns } from '../../conformance/expect.js'
import { openCudaWorkbench } from '../../helpers/cuda-workbench.js'
import { onEveryBackend } from '../../helpers/suite.js'
import { simWorkbench, type Workbench } from '../../helpers/workbench.js'

// Multicast over NVLink is not to be had on every machine that has two GPUs, and NCCL does not find out by itself.
process.env['NCCL_NVLS_ENABLE'] ??= '0'

const RANK = fileURLToPath(new URL('../children/nccl-rank.js', import.meta.url))
const THREAD = new URL('../children/nccl-thread.js', import.meta.url)
const LONGEST = 90_000

describe('NCCL, wrong arguments', () => {
  const { device } = simWorkbench()
  /** As an id looks: random bytes, then an IPv4 address and port. */
  const id = new Uint8Array(128)
  id.set([1, 2, 3, 4, 5, 6, 7, 8, 2, 0, 0x1f, 0x90, 127, 0, 0, 1])
  const ok: CommunicatorOptions = { id, rank: 0, size: 1, device }

  it('wrong arguments are refused by name first', async () => {
    const create = (options: object) => () => Communicator.create({ ...ok, ...options } as CommunicatorOptions)
    await rejected(() => Communicator.create(undefined as never), 'ERR_INVALID_ARG_TYPE', /options/)
    await rejected(create({ size: 0 }), 'ERR_OUT_OF_RANGE', /options\.size/)
    await rejected(create({ size: 1.5 }), 'ERR_INVALID_ARG_TYPE', /options\.size/)
    await rejected(create({ rank: 1 }), 'ERR_OUT_OF_RANGE', /options\.rank must be from 0 to 0/)
    await rejected(create({ rank: '0' }), 'ERR_INVALID_ARG_TYPE', /options\.rank/)
    await rejected(create({ id: 'x' }), 'ERR_INVALID_ARG_TYPE', /options\.id/)
    await rejected(create({ id: id.subarray(1) }), 'ERR_INVALID_ARG_VALUE', /128 bytes, not 127/)
    await rejected(create({ id: new Uint8Array(128) }), 'ERR_INVALID_ARG_VALUE', /uniqueId/)
    await rejected(create({ id: new Uint8Array(128).fill(0xff) }), 'ERR_INVALID_ARG_VALUE', /uniqueId/)
    await rejected(create({ timeout: 0 }), 'ERR_OUT_OF_RANGE', /options\.timeout/)
    await rejected(create({ timeout: '1' }), 'ERR_INVALID_ARG_TYPE', /options\.timeout/)
    await rejected(create({ signal: {} }), 'ERR_INVALID_ARG_TYPE', /options\.signal/)
    await rejected(create({ device: 99 }), 'ERR_OUT_OF_RANGE', /ordinal/)
    const stranger = simWorkbench().device
    await rejected(
      () => Communicator.createAll([device, stranger]),
      'ERR_DEVICE_MISMATCH',
      /another (driver|simulation)/,
    )
    const alone = new AbortController()
    const waiting = Communicator.create({ ...ok, size: 2, signal: alone.signal })
    await rejected(create({ size: 2, rank: 1, device: stranger }), 'ERR_DEVICE_MISMATCH', /options\.device.*driver/)
    alone.abort(new Error('enough'))
    await assert.rejects(waiting, /enough/)
    assert.throws(() => new (Communicator as unknown as new (x: unknown) => unknown)({}), /Communicator\.create/)
    assert.equal(
      group(() => 5),
      5,
    )
    refused(() => group(async () => assert.fail('it was called')), 'ERR_INVALID_ARG_VALUE', /fn must not be an async/)
    refused(() => group(() => Promise.reject(new Error('mine'))), 'ERR_INVALID_ARG_VALUE', /promise/)
  })
})

describe('NCCL on the simulator', () => {
  const [{ device }, { device: stranger }] = [simWorkbench(), simWorkbench()]
  const newId = (): Uint8Array => device.run(uniqueId)
  const alone = (id: Uint8Array, rank: number, size: number): Promise<Communicator> =>
    Communicator.create({ id, rank, size, device, timeout: 20 })

  it('an abort waits for nothing that stands', async () => {
    const bench = simWorkbench()
    const { device } = bench
    const communicator = await Communicator.create({ id: newId(), rank: 0, size: 1, device })
    using stream = bench.stream()
    using other = bench.stream()
    using a = device.alloc(4, { stream })
    using held = bench.latch(stream)
    using elsewhere = bench.latch(other)
    communicator.allReduce(stream, a, a, { type: 'f32' })
    await communicator.abort()
    assert.equal(stream.query(), false)
    held.open()
    elsewhere.open()
    assert.deepEqual([...(await stream.fill(a, 1).download(a))], [1, 1, 1, 1])
  })

  it('a rank that gave up is not there: the next one waits for it', async () => {
    const id = newId()
    await rejected(() => alone(id, 0, 2), 'ERR_DEADLOCK', /20 ms/)
    await rejected(() => alone(id, 1, 2), 'ERR_DEADLOCK', /20 ms/)
    const both = await Promise.all([0, 1].map((rank) => alone(id, rank, 2)))
    await Promise.all(both.map((communicator) => communicator.close()))
  })

  it('and when all of them have, nothing is left of the id', async () => {
    const id = newId()
    await rejected(() => alone(id, 0, 3), 'ERR_DEADLOCK', /20 ms/)
    const communicator = await alone(id, 0, 1)
    await communicator.close()
  })

  it('the calls of two drivers cannot be one group', async () => {
    const [first, second] = await Promise.all(
      [device, stranger].map((each) => Communicator.create({ id: newId(), rank: 0, size: 1, device: each })),
    )
    assert.ok(first !== undefined && second !== undefined)
    using a = device.alloc(4)
    using b = stranger.alloc(4)
    const sum = (communicator: Communicator, buffer: DeviceBuffer): unknown =>
      communicator.allReduce(Stream.current(communicator.device), buffer, buffer, { type: 'f32' })
    refused(() => group(() => [sum(first, a), sum(second, b)]), 'ERR_DEVICE_MISMATCH', /two drivers/)
    await Promise.all([first.close(), second.close()])
  })
})

onEveryBackend('NCCL with one rank', (bench: Workbench) => {
  const { device } = bench
  const newId = (): Uint8Array => device.run(uniqueId)
  const make = (): Promise<Communicator> => Communicator.create({ id: newId(), rank: 0, size: 1, device })

  it('says its version', (context) => {
    const version = device.run(ncclVersion)
    context.diagnostic(`NCCL ${version}`)
    assert.ok(bench.name === 'sim' ? version === 0 : version >= 21400)
  })

  it('reduces, gathers and sends to itself, in stream order', async () => {
    await using communicator = await make()
    using stream = bench.stream()
    using a = device.alloc(16, { stream })
    using b = device.alloc(16, { stream })
    const values = async (): Promise<number[]> => [...new Float32Array((await stream.download(b)).buffer)]
    for (let round = 1; round <= 20; round += 1) {
      bench.busy(stream, 50_000)
      void stream.upload(a, Float32Array.of(round, 2, 3, 4))
      communicator.allReduce(stream, a, b, { type: 'f32' })
      assert.deepEqual(await values(), [round, 2, 3, 4])
    }
    void stream.upload(a, Float32Array.of(5, 6, 7, 8))
    communicator.allGather(stream, a, b, { type: 'f32' })
    assert.deepEqual(await values(), [5, 6, 7, 8])
    void stream.upload(a, Float32Array.of(9, 10, 11, 12))
    group(() => {
      communicator.send(stream, a, { type: 'f32', peer: 0 })
      communicator.recv(stream, b, { type: 'f32', peer: 0 })
    })
    assert.deepEqual(await values(), [9, 10, 11, 12])
    refused(() => communicator.send(stream, a, { type: 'f32', peer: 0 }), 'ERR_DEADLOCK', /group\(\)/)
    await communicator.finished()
  })

  it('takes the null stream, and follows the current one', async () => {
    await using communicator = await make()
    using stream = bench.stream()
    using a = device.alloc(4, { stream })
    using b = device.alloc(4, { stream })
    void stream.upload(a, Float32Array.of(3))
    stream.synchronize()
    communicator.allReduce(device.defaultStream, a, b, { type: 'f32' })
    device.defaultStream.synchronize()
    assert.deepEqual([...new Float32Array((await stream.download(b)).buffer)], [3])
    using gate = bench.latch(stream)
    stream.run(() => communicator.allReduce(Stream.current(communicator.device), a, b, { type: 'f32' }))
    assert.equal(stream.query(), false)
    gate.open()
    await communicator.finished()
  })

  it('its work is finished when it is done, whichever object is asked, and whether its stream is closed by then or not', async () => {
    await using communicator = await make()
    using stream = bench.stream()
    using a = device.alloc(4, { stream })
    using b = device.alloc(4, { stream })
    stream.synchronize()
    communicator.allReduce(stream, a, b, { type: 'f32' })
    await communicator.finished()

    using gate = bench.latch(stream)
    communicator.allReduce(stream, a, b, { type: 'f32' })
    const both = [communicator.finished(), communicator.finished()]
    using later = bench.latch(stream)
    communicator.allReduce(stream, a, b, { type: 'f32' })
    const third = communicator.finished()
    const states = [...both, third].map(follow)
    await turns()
    assert.deepEqual(
      states.map(({ settled }) => settled),
      [false, false, false],
    )
    gate.open()
    await Promise.all(both)
    await turns()
    assert.equal(states[2]?.settled, false, 'later work is another matter')
    later.open()
    await third

    const gone = bench.stream()
    using last = bench.latch(gone)
    communicator.allReduce(gone, a, b, { type: 'f32' })
    gone.close()
    const closed = communicator.finished()
    const state = follow(closed)
    await turns()
    assert.equal(state.settled, false)
    last.open()
    await closed
    await communicator.finished()
  })

  it('what a capture takes up is not waited for, and what was queued before it is', async () => {
    const communicator = await make()
    using stream = bench.stream()
    using a = device.alloc(4, { stream })
    using b = device.alloc(4, { stream })
    communicator.allReduce(stream, a, b, { type: 'f32' })
    stream.synchronize()
    using gate = bench.latch(stream)
    communicator.allReduce(stream, a, b, { type: 'f32' })
    stream.beginCapture()
    communicator.allReduce(stream, a, b, { type: 'f32' })
    const finished = communicator.finished()
    const state = follow(finished)
    await turns()
    assert.equal(state.settled, false)
    gate.open()
    await finished
    const graph = stream.endCapture()
    assert.ok(graph.nodeCount >= 1)
    assert.equal(communicator.closed, false)
    communicator.allReduce(stream, a, b, { type: 'f32' })
    await communicator.finished()
    graph.close()
    await communicator.close()
  })

  it('keeps no stream reachable that it was used on', async () => {
    await using communicator = await make()
    using a = device.alloc(4)
    const useOne = async (): Promise<WeakRef<Stream>> => {
      using stream = bench.stream()
      communicator.allReduce(stream, a, a, { type: 'f32' })
      await stream.finished()
      return new WeakRef(stream)
    }
    const streams: WeakRef<Stream>[] = []
    while (streams.length < 30) streams.push(await useOne())
    assert.ok(
      await collectUntil(() => streams.every((stream) => stream.deref() === undefined)),
      'some are reachable still',
    )
  })

  it('is made and closed while streams stand at host functions', async () => {
    using stream = bench.stream()
    let ran = 0
    const call = (): void => {
      ran += 1
    }
    stream.launchHostFunc(call)
    const making = make()
    stream.launchHostFunc(call)
    const communicator = await making
    stream.launchHostFunc(call)
    const closing = communicator.close()
    stream.launchHostFunc(call)
    await closing
    await stream.finished()
    assert.equal(ran, 4)
  })

  for (const moment of ['before', 'meanwhile', 'while it is freed'] as const) {
    it(`close() rejects with the signal's reason though a stream stands at a host function: aborted ${moment}`, async () => {
      const communicator = await make()
      using stream = bench.stream()
      using a = device.alloc(4, { stream })
      using held = bench.latch(stream)
      communicator.allReduce(stream, a, a, { type: 'f32' })
      const wait = new AbortController()
      const reason = new Error('given up')
      if (moment === 'before') wait.abort(reason)
      const closing = communicator.close({ signal: wait.signal })
      if (moment === 'while it is freed') await turns(20)
      wait.abort(reason)
      await assert.rejects(closing, (error) => error === reason)
      assert.equal(communicator.closed, true)
      refused(() => communicator.allReduce(stream, a, a, { type: 'f32' }), 'ERR_CLOSED')
      held.open()
      await communicator.abort()
      await stream.finished()
    })
  }

  for (const moment of ['before', 'meanwhile'] as const) {
    it(`create() rejects with the signal's reason though a stream stands at a host function: aborted ${moment}`, async () => {
      using stream = bench.stream()
      using held = bench.latch(stream)
      const wait = new AbortController()
      const reason = new Error('given up')
      if (moment === 'before') wait.abort(reason)
      const id = newId()
      const making = Communicator.create({ id, rank: 0, size: 2, device, signal: wait.signal })
      wait.abort(reason)
      await assert.rejects(making, (error) => error === reason)
      held.open()
      await stream.finished()
    })
  }

  it('is captured, and runs with each launch', async () => {
    const communicator = await make()
    using stream = bench.stream()
    using a = device.alloc(4, { stream })
    using b = device.alloc(4, { stream })
    communicator.allReduce(stream, a, b, { type: 'f32' })
    stream.synchronize()
    const graph = stream.capture(() => communicator.allReduce(stream, a, b, { type: 'f32' }) && undefined)
    assert.ok(graph.nodeCount >= 1, `${graph.nodeCount} nodes`)
    const exec = graph.instantiate()
    for (const value of [1, 2, 3]) {
      void stream.upload(a, Float32Array.of(value))
      exec.launch(stream)
      assert.deepEqual([...new Float32Array((await stream.download(b)).buffer)], [value])
    }
    exec.close()
    graph.close()
    await communicator.close()
  })

  it('an abort ends it, and leaves the device as good as before', async () => {
    const communicator = await make()
    using stream = bench.stream()
    using a = device.alloc(4, { stream })
    communicator.allReduce(stream, a, a, { type: 'f32' })
    await communicator.abort()
    await communicator.abort()
    refused(() => communicator.allReduce(stream, a, a, { type: 'f32' }), 'ERR_CLOSED', /abort/)
    stream.fill(a, 1)
    assert.deepEqual([...(await stream.download(a))], [1, 1, 1, 1])
  })

  it('a wait for one that is aborted rejects with a code', async () => {
    const communicator = await make()
    using stream = bench.stream()
    using a = device.alloc(4, { stream })
    using held = bench.latch(stream)
    communicator.allReduce(stream, a, a, { type: 'f32' })
    const wait = rejected(() => communicator.finished(), 'ERR_CLOSED', /abort/)
    const aborted = communicator.abort()
    await wait
    held.open()
    await aborted
  })

  it('many waits with one signal are one listener of it', async () => {
    const warnings: Error[] = []
    // Another warning may come of the first use of the default driver.
    const note = (warning: Error): void => {
      if (warning.name === 'MaxListenersExceededWarning') warnings.push(warning)
    }
    process.on('warning', note)
    await using communicator = await make()
    using stream = bench.stream()
    using a = device.alloc(4, { stream })
    using held = bench.latch(stream)
    communicator.allReduce(stream, a, a, { type: 'f32' })
    const { signal } = new AbortController()
    const waits = Array.from({ length: 20 }, () => communicator.finished({ signal }))
    await new Promise(setImmediate)
    held.open()
    await Promise.all(waits)
    process.off('warning', note)
    assert.deepEqual(warnings, [])
  })

  it('no process answers at the address of an id: the signal ends the wait', async () => {
    const id = newId()
    // Port 1 of this machine: nobody listens there.
    id.set([0, 1, 127, 0, 0, 1], 10)
    await assert.rejects(
      () => Communicator.create({ id, rank: 1, size: 2, device, signal: AbortSignal.timeout(1000) }),
      (error: Error) => error.name === 'TimeoutError' || error.name === 'LibraryError',
    )
  })
})

onEveryBackend('NCCL with two ranks in this thread', (bench) => {
  const devices = bench.devices.slice(0, 2)
  const skip = devices.length < 2 ? ONE_DEVICE : false

  it('their calls are made in a group, and one alone is refused', { skip }, async () => {
    const communicators = await Communicator.createAll(devices)
    const buffers = devices.map((device) => device.alloc(1024))
    for (const [rank, buffer] of buffers.entries()) {
      buffer.device.defaultStream.fill(buffer, rank + 1, { width: 4 })
    }
    const each = (call: (communicator: Communicator, rank: number) => void): void => communicators.forEach(call)
    const bufferOf = (rank: number) => buffers[rank] ?? assert.fail('a buffer for each')
    refused(
      () =>
        communicators[0]?.allReduce(Stream.current(communicators[0].device), bufferOf(0), bufferOf(0), { type: 'i32' }),
      'ERR_DEADLOCK',
      /rank 1/,
    )
    group(() =>
      each((communicator, rank) =>
        communicator.allReduce(Stream.current(communicator.device), bufferOf(rank), bufferOf(rank), { type: 'i32' }),
      ),
    )
    for (const buffer of buffers) {
      const values = new Int32Array((await buffer.device.defaultStream.download(buffer)).buffer)
      assert.ok(
        values.every((value) => value === 3),
        `${values.slice(0, 4)}`,
      )
    }
    // What a group has queued is a use of the memory: closing it at once is safe.
    group(() =>
      each((communicator, rank) =>
        communicator.allReduce(Stream.current(communicator.device), bufferOf(rank), bufferOf(rank), { type: 'i32' }),
      ),
    )
    for (const buffer of buffers) buffer.close()
    await Promise.all(communicators.map((communicator) => communicator.finished()))
    await Promise.all(communicators.map((communicator) => communicator.close()))
  })

  it('every call gives what it says, after the earlier work of both and before the later', { skip }, async () => {
    const communicators = await Communicator.createAll(devices)
    const streams = devices.map((device) => bench.stream({ device }))
    const ranks = devices.map((device, rank) => {
      const [communicator, stream] = [communicators[rank], streams[rank]]
      assert.ok(communicator !== undefined && stream !== undefined)
      const [small, both] = [device.alloc(16, { stream }), device.alloc(32, { stream })]
      return { rank, communicator, stream, small, both, half: both.subarray(0, 16) }
    })
    const put = (values: readonly number[]): void => {
      for (const { rank, stream, small } of ranks) {
        bench.busy(stream, 50_000 * (rank + 1))
        void stream.upload(
          small,
          Float32Array.from(values, (value) => value + 10 * rank),
        )
      }
    }
    const got = (): Promise<number[][]> =>
      Promise.all(ranks.map(async ({ stream, both }) => [...new Float32Array((await stream.download(both)).buffer)]))
    const together = (call: (each: (typeof ranks)[number]) => void): void => group(() => ranks.forEach(call))

    put([1, 2, 3, 4])
    together(({ communicator, stream, small, both }) => communicator.allGather(stream, small, both, { type: 'f32' }))
    const gathered = [1, 2, 3, 4, 11, 12, 13, 14]
    assert.deepEqual(await got(), [gathered, gathered])

    together(({ communicator, stream, small, both }) =>
      communicator.reduceScatter(stream, both, small, { type: 'f32', op: 'avg' }),
    )
    together(({ communicator, stream, small, half, rank }) =>
      communicator.broadcast(stream, rank === 1 ? small : undefined, half, { type: 'f32', root: 1 }),
    )
    assert.deepEqual(
      (await got()).map((values) => values.slice(0, 4)),
      [
        [11, 12, 13, 14],
        [11, 12, 13, 14],
      ],
    )

    put([1, -2, 3, 4])
    together(({ communicator, stream, small, half, rank }) =>
      communicator.reduce(stream, small, rank === 0 ? half : undefined, { type: 'f32', op: 'prod' }),
    )
    assert.deepEqual((await got())[0]?.slice(0, 4), [11, -16, 39, 56])

    together(({ communicator, stream, small, half, rank }) => {
      communicator.send(stream, small, { type: 'f32', peer: 1 - rank })
      communicator.recv(stream, half, { type: 'f32', peer: 1 - rank })
    })
    assert.deepEqual(
      (await got()).map((values) => values.slice(0, 4)),
      [
        [11, 8, 13, 14],
        [1, -2, 3, 4],
      ],
    )

    // In place.
    put([1, 2, 3, 4])
    for (const { rank, stream, small, both } of ranks) stream.copy(both.subarray(rank * 16, (rank + 1) * 16), small)
    together(({ rank, communicator, stream, both }) =>
      communicator.allGather(stream, both.subarray(rank * 16, (rank + 1) * 16), both, { type: 'f32' }),
    )
    assert.deepEqual(await got(), [gathered, gathered])
    together(({ rank, communicator, stream, both }) =>
      communicator.reduceScatter(stream, both, both.subarray(rank * 16, (rank + 1) * 16), { type: 'f32' }),
    )
    assert.deepEqual(
      (await got()).map((values, rank) => values.slice(rank * 4, rank * 4 + 4)),
      [
        [2, 4, 6, 8],
        [22, 24, 26, 28],
      ],
    )
    put([1, -2, 3, 4])
    for (const op of ['min', 'sum'] as const) {
      together(({ communicator, stream, small }) => communicator.allReduce(stream, small, small, { type: 'f32', op }))
    }
    for (const { stream, small, half } of ranks) stream.copy(half, small)
    assert.deepEqual((await got())[0]?.slice(0, 4), [2, -4, 6, 8])

    await Promise.all(communicators.map((communicator) => communicator.close()))
    for (const { small, both, stream } of ranks) for (const each of [small, both, stream]) each.close()
  })

  it('calls of one group that write what another uses are refused, for NCCL runs them side by side', {
    skip,
  }, async () => {
    const communicators = await Communicator.createAll(devices)
    const streams = devices.map((device) => bench.stream({ device }))
    const buffers = devices.map((device, rank) => device.alloc(64, { stream: streams[rank] }))
    const both = (call: (communicator: Communicator, buffer: DeviceBuffer, stream: Stream) => void): void =>
      group(() => {
        for (const [rank, communicator] of communicators.entries()) {
          const [buffer, stream] = [buffers[rank], streams[rank]]
          assert.ok(buffer !== undefined && stream !== undefined)
          call(communicator, buffer, stream)
        }
      })
    const twice = (first: [number, number], second: [number, number]): void =>
      both((communicator, buffer, stream) => {
        for (const [from, to] of [first, second]) {
          communicator.allReduce(stream, buffer.subarray(from, from + 16), buffer.subarray(to, to + 16), {
            type: 'f32',
          })
        }
      })
    for (const second of [
      [0, 0],
      [16, 32],
      [32, 0],
      [32, 12],
    ] as [number, number][]) {
      refused(() => twice([0, 16], second), 'ERR_INVALID_ARG_VALUE', /of one group use the same \d+ bytes/)
    }
    twice([0, 16], [0, 32])
    twice([0, 0], [16, 16])
    await Promise.all(communicators.map((communicator) => communicator.close()))
    for (const each of [...buffers, ...streams]) each.close()
  })

  it('whole numbers of every width, half precision, and their reductions', { skip }, async () => {
    const communicators = await Communicator.createAll(devices)
    const streams = devices.map((device) => bench.stream({ device }))
    const sums: [NcclType, NcclReduction, ArrayBufferView, ArrayBufferView, ArrayBufferView][] = [
      ['i8', 'sum', Int8Array.of(100, -7), Int8Array.of(50, 3), Int8Array.of(-106, -4)],
      ['u8', 'max', Uint8Array.of(200, 7), Uint8Array.of(50, 30), Uint8Array.of(200, 30)],
      ['i32', 'prod', Int32Array.of(-5, 7), Int32Array.of(6, 8), Int32Array.of(-30, 56)],
      ['u32', 'sum', Uint32Array.of(2 ** 31, 7), Uint32Array.of(2 ** 30, 8), Uint32Array.of(3 * 2 ** 30, 15)],
      [
        'i64',
        'min',
        BigInt64Array.of(-(2n ** 60n), 7n),
        BigInt64Array.of(5n, -9n),
        BigInt64Array.of(-(2n ** 60n), -9n),
      ],
      [
        'u64',
        'sum',
        BigUint64Array.of(2n ** 63n, 7n),
        BigUint64Array.of(1n, 1n),
        BigUint64Array.of(2n ** 63n + 1n, 8n),
      ],
      ['f64', 'avg', Float64Array.of(1, 2), Float64Array.of(2, -4), Float64Array.of(1.5, -1)],
      // 1.5 and 2, and 0.25 and -0.5.
      ['f16', 'sum', Uint16Array.of(0x3e00, 0x3400), Uint16Array.of(0x4000, 0xb800), Uint16Array.of(0x4300, 0xb400)],
      ['bf16', 'sum', Uint16Array.of(0x3fc0, 0x3e80), Uint16Array.of(0x4000, 0xbf00), Uint16Array.of(0x4060, 0xbe80)],
    ]
    for (const [type, op, mine, yours, expected] of sums) {
      const buffers = devices.map((device, rank) => device.alloc(mine.byteLength, { stream: streams[rank] }))
      for (const [rank, buffer] of buffers.entries()) void streams[rank]?.upload(buffer, rank === 0 ? mine : yours)
      group(() => {
        for (const [rank, buffer] of buffers.entries()) {
          const on = streams[rank]
          if (on !== undefined) communicators[rank]?.allReduce(on, buffer, buffer, { type, op })
        }
      })
      for (const [rank, buffer] of buffers.entries()) {
        const bytes = await streams[rank]?.download(buffer)
        assert.deepEqual(bytes, new Uint8Array(expected.buffer), `${type} ${op}`)
        buffer.close()
      }
    }
    await Promise.all(communicators.map((communicator) => communicator.close()))
    for (const stream of streams) stream.close()
  })
})

const cuda = openCudaWorkbench()
const count = typeof cuda === 'string' ? 0 : cuda.devices.length
const tooFew = count >= 2 ? false : `two GPUs are needed, here are ${count}`
if (typeof tooFew === 'string') console.log(`skipped: ${tooFew}`)
const DRIVERS = [
  { driver: 'sim', skip: false, megabytes: 4 },
  { driver: 'cuda', skip: tooFew, megabytes: 1024 },
] as const

interface Ended {
  readonly code: number | null
  readonly result: Record<string, unknown> | undefined
  readonly stderr: string
}

/** Runs both ranks, and passes on what rank 0 has for rank 1. */
async function bothRanks(driver: string, scenario: string): Promise<[Ended, Ended]> {
  const children = [0, 1].map((rank) =>
    fork(RANK, [scenario, String(rank)], {
      env: { ...process.env, NODE_TEST_CONTEXT: undefined, CUDA_STREAMS_DRIVER: driver, CUDA_STREAMS_SIM_DEVICES: '2' },
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
      timeout: LONGEST,
    }),
  )
  const [first, second] = children as [ChildProcess, ChildProcess]
  const ended = (child: ChildProcess): Promise<Ended> =>
    new Promise((resolve) => {
      let result: Record<string, unknown> | undefined
      let stderr = ''
      child.stderr?.on('data', (text) => {
        stderr += text
      })
      child.on('message', (message: { id?: string; result?: Record<string, unknown> }) => {
        if (message.id !== undefined) second.send(message)
        if (message.result !== undefined) result = message.result
      })
      child.on('close', (code) => resolve({ code, result, stderr }))
    })
  return Promise.all([ended(first), ended(second)])
}

for (const { driver, skip, megabytes } of DRIVERS)
  describe(`NCCL with two processes [${driver}]`, { skip }, () => {
    it('the sum of many bytes is right in every element, in both', async (context) => {
      for (const { code, result, stderr } of await bothRanks(driver, 'allReduce')) {
        context.diagnostic(JSON.stringify(result))
        assert.equal(code, 0, stderr)
        assert.deepEqual(result, { wrong: 0, elements: megabytes * 2 ** 18 }, stderr)
      }
    })

    it('every other call does what it says', async () => {
      const [zero, one] = await bothRanks(driver, 'calls')
      assert.deepEqual([zero.code, one.code], [0, 0], zero.stderr + one.stderr)
      const gathered = [1, 2, 3, 4, 11, 12, 13, 14]
      for (const { result } of [zero, one]) {
        assert.deepEqual(result?.['allGather'], gathered)
        // Rank 1 has the second half of the maximum, and is the root.
        assert.deepEqual(result?.['broadcast'], [11, 12, 13, 14])
        assert.deepEqual(result?.['average'], [6, 7, 8, 9])
      }
      assert.deepEqual(zero.result?.['reduce'], [11, 24, 39, 56])
      assert.deepEqual(zero.result?.['exchanged'], [11, 12, 13, 14])
      assert.deepEqual(one.result?.['exchanged'], [1, 2, 3, 4])
    })

    it('the first call waits for the rank that is late, and runs host functions meanwhile', async (context) => {
      const [zero, one] = await bothRanks(driver, 'late')
      context.diagnostic(JSON.stringify([zero.result, one.result]))
      assert.deepEqual([zero.code, one.code], [0, 0], zero.stderr + one.stderr)
      assert.deepEqual([zero.result?.['value'], one.result?.['value']], [3, 3])
      // On the simulator a call never waits.
      if (driver === 'cuda') assert.equal(zero.result?.['ranInside'], 3)
    })

    it('a rank whose process is killed does not make the other hang: it is told, and its device goes on', async (context) => {
      const [zero] = await bothRanks(driver, 'killed')
      context.diagnostic(JSON.stringify(zero.result))
      assert.equal(zero.code, 0, zero.stderr)
      assert.equal(zero.result?.['closed'], true)
      assert.equal(zero.result?.['byte'], 7)
      assert.ok(Number(zero.result?.['waited']) < 30_000)
    })

    // A capture that NCCL takes is played with two ranks in one thread.
    if (driver === 'sim') {
      it('a call to another process is refused in a capture, and counts for nothing', async () => {
        for (const { code, result, stderr } of await bothRanks(driver, 'captured')) {
          assert.equal(code, 0, stderr)
          assert.deepEqual(result, { code: 'ERR_UNSUPPORTED', sum: 3 })
        }
      })

      it('ranks in two threads of one process have the same sum', async () => {
        const id = simWorkbench().device.run(() => uniqueId())
        const env = { ...process.env, CUDA_STREAMS_DRIVER: 'sim' }
        const workers = [0, 1].map((rank) => new Worker(THREAD, { workerData: { id, rank }, env }))
        const sums = await Promise.all(workers.map(async (worker) => (await once(worker, 'message'))[0]))
        assert.deepEqual(sums, [3, 3])
      })
    }

    it('a rank that never comes ends with the signal', async (context) => {
      const [zero, one] = await bothRanks(driver, 'absent')
      context.diagnostic(JSON.stringify(zero.result))
      assert.deepEqual([zero.code, one.code], [0, 0], zero.stderr + one.stderr)
      assert.equal(zero.result?.['told'], 'TimeoutError')
    })
  })
