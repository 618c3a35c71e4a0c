/** Pools of device memory: what they count, keep and give back, their limits and their end, and what is said where memory runs out. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Device, type DeviceBuffer, MemoryPool, Stream } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { nameStream } from 'cuda-streams/timeline'
import { onEveryBackend } from '../helpers/suite.js'
import { checkError, collectUntil, ONE_DEVICE, refused, refusedByDriver, secondDevice, turns } from './expect.js'

const MIB = 2 ** 20
/** What a pool takes from the device at least. */
const STEP = 32 * MIB

/** No limit of any device can be reached by what other tests or processes do: pools of one's own have theirs. */
onEveryBackend('memory pools', (bench) => {
  const { device } = bench
  const figures = ({ used, peakUsed, reserved, peakReserved }: MemoryPool) => [used, peakUsed, reserved, peakReserved]

  test('M11 a device says how much memory it has, and how much of it is free', () => {
    const { free, total } = device.memory
    assert.ok(Number.isSafeInteger(total) && total >= 2 ** 30, `${total} bytes`)
    assert.ok(Number.isSafeInteger(free) && free > 0 && free <= total, `${free} of ${total} bytes`)
  })

  test('M12 a pool counts the bytes that are used and reserved, now and at most', () => {
    using stream = bench.stream()
    using pool = new MemoryPool({ device })
    assert.deepEqual(figures(pool), [0, 0, 0, 0])
    const [small, large] = [1000, 33 * MIB].map((bytes) => device.alloc(bytes, { stream, pool }))
    assert.ok(small && large)
    assert.deepEqual(figures(pool), [33 * MIB + 1000, 33 * MIB + 1000, 2 * STEP, 2 * STEP])
    large.close()
    assert.deepEqual([pool.used, pool.peakUsed], [1000, 33 * MIB + 1000], 'a free counts when it is queued')
    pool.resetPeaks()
    assert.deepEqual([pool.used, pool.peakUsed], [1000, 1000])
    small.close()
    stream.synchronize()
    assert.equal(pool.used, 0)
    assert.equal(pool.reserved, 2 * STEP, 'what was freed is kept')
    pool.trim()
    assert.equal(pool.reserved, 0)
    pool.resetPeaks()
    assert.deepEqual(figures(pool), [0, 0, 0, 0])
  })

  test('M12 trim() keeps what it is told to, what is in use, and what is freed behind work that is not done', async () => {
    using stream = bench.stream()
    using pool = new MemoryPool({ device })
    const [kept, freed] = [1, 70 * MIB].map((bytes) => device.alloc(bytes, { stream, pool }))
    assert.ok(kept && freed)
    using latch = bench.latch(stream)
    freed.close()
    const before = pool.reserved
    assert.ok(before >= 3 * STEP)
    assert.equal(pool.trim().reserved, before, 'nothing is waited for')
    latch.open()
    await stream.finished()
    assert.equal(pool.trim(2 * STEP - 1).reserved, 2 * STEP)
    assert.equal(pool.trim().reserved, STEP)
    kept.close()
    await stream.finished()
    assert.equal(pool.trim().reserved, 0)
  })

  test('M13 memory that was freed stays with its pool, but for what the release threshold lets it give back', () => {
    using stream = bench.stream()
    using pool = new MemoryPool({ device })
    assert.equal(pool.releaseThreshold, Number.POSITIVE_INFINITY)
    const round = (bytes: number): number => {
      device.alloc(bytes, { stream, pool }).close()
      stream.synchronize()
      return pool.reserved
    }
    assert.equal(round(100 * MIB), 4 * STEP)
    for (const [threshold, reserved] of [
      [3 * STEP + 1, 3 * STEP],
      [STEP, STEP],
      [0, 0],
    ] as const) {
      pool.releaseThreshold = threshold
      assert.equal(pool.releaseThreshold, threshold)
      assert.equal(round(100 * MIB), reserved)
    }
    using other = new MemoryPool({ device, releaseThreshold: 2 ** 40 })
    assert.equal(other.releaseThreshold, 2 ** 40)
  })

  test('M13 the pool of the device is shared and is set to keep memory, unless it is told otherwise', () => {
    const pool = device.memoryPool
    assert.equal(device.memoryPool, pool)
    assert.equal(pool.device, device)
    assert.equal(pool.maxBytes, undefined)
    assert.equal(pool.releaseThreshold, Number.POSITIVE_INFINITY)
    pool.releaseThreshold = 0
    const { used } = pool
    using buffer = device.alloc(1000)
    assert.equal(pool.used, used + buffer.byteLength)
    assert.equal(pool.releaseThreshold, 0, 'an allocation leaves what was chosen')
    pool.releaseThreshold = Number.POSITIVE_INFINITY
    pool.close()
    assert.equal(pool.closed, false)
    assert.match(String(pool), /^MemoryPool\(0x[0-9a-f]+, Device\(0, \w+\)\)$/)
  })

  test('M14 a pool lends no more than it may have, and says who holds it', () => {
    using stream = bench.stream()
    nameStream(stream, 'decoding')
    using pool = new MemoryPool({ device, maxBytes: 2 * STEP - 1 })
    assert.equal(pool.maxBytes, 2 * STEP - 1)
    const buffers = [40, 10].map((mebibytes) => device.alloc(mebibytes * MIB, { stream, pool }))
    const error = refusedByDriver(() => device.alloc(30 * MIB, { stream, pool }), 2)
    checkError(
      error,
      'CUDA_ERROR_OUT_OF_MEMORY',
      /no 30\.0 MiB left/,
      /free of \d+\.\d GiB/,
      /reserved 64\.0 MiB, of at most 64\.0 MiB, and 50\.0 MiB/,
      /most on: Stream\(0x[0-9a-f]+, decoding, Device\(0, \w+\)\) 50\.0 MiB in 2 buffers/,
    )
    assert.equal(error.call, 'cuMemAllocFromPoolAsync')
    for (const buffer of buffers) buffer.close()
    device.alloc(60 * MIB, { stream, pool }).close()
    refusedByDriver(() => device.alloc(65 * MIB, { stream, pool }), 2)
  })

  test('M14 who holds memory is said without the driver, which knows nothing of streams that are closed', () => {
    using pool = new MemoryPool({ device, maxBytes: STEP })
    const allocationStream = nameStream(bench.stream(), 'gone')
    using buffer = device.alloc(STEP, { stream: allocationStream, pool })
    allocationStream.close()
    using stream = bench.stream()
    checkError(
      refusedByDriver(() => device.alloc(1, { stream, pool }), 2),
      'CUDA_ERROR_OUT_OF_MEMORY',
      /Stream\(0x[0-9a-f]+, gone, Device\(0, \w+\), closed\) 32\.0 MiB in 1 buffer/,
    )
    assert.equal(buffer.closed, false)
  })

  test('M14 where a pool is full, memory that is freed behind work in flight is lent without waiting', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using pool = new MemoryPool({ device, maxBytes: STEP })
    const first = device.alloc(STEP, { stream, pool })
    using latch = bench.latch(stream)
    stream.fill(first, 1)
    first.close()
    const second = device.alloc(STEP, { stream: other, pool })
    latch.open()
    assert.equal((await other.fill(second, 2).download(second.subarray(0, 1)))[0], 2)
    second.close()
  })

  test('M15 a pool that is closed lends nothing more, and its buffers stay as they are', async () => {
    using stream = bench.stream()
    const pool = new MemoryPool({ device })
    const buffer = device.alloc(64, { stream, pool })
    pool.close()
    pool.close()
    assert.equal(pool.closed, true)
    assert.match(String(pool), /closed\)$/)
    assert.equal(pool.device, device)
    refused(() => device.alloc(1, { stream, pool }), 'ERR_CLOSED', /MemoryPool/)
    for (const act of [
      () => pool.used,
      () => pool.reserved,
      () => pool.peakUsed,
      () => pool.peakReserved,
      () => pool.releaseThreshold,
      () => (pool.releaseThreshold = 0),
      () => pool.trim(),
      () => pool.resetPeaks(),
    ]) {
      refused(act, 'ERR_CLOSED', /MemoryPool/)
    }
    stream.fill(buffer, 7)
    assert.deepEqual([...(await stream.download(buffer.subarray(0, 2)))], [7, 7])
    buffer.close()
    await stream.finished()
  })

  test('M15 an unreachable pool is destroyed, and its buffers stay as they are', async () => {
    using stream = bench.stream()
    using buffer = (() => device.alloc(64, { stream, pool: new MemoryPool({ device }) }))()
    const before = device.memory.free
    let abandoned: WeakRef<MemoryPool> | undefined
    const abandon = (): void => {
      const pool = new MemoryPool({ device })
      device.alloc(8 * STEP, { stream, pool }).close()
      abandoned = new WeakRef(pool)
    }
    abandon()
    stream.synchronize()
    await collectUntil(() => abandoned?.deref() === undefined)
    if (bench.name === 'sim') await collectUntil(() => device.memory.free === before)
    stream.fill(buffer, 9)
    assert.equal((await stream.download(buffer))[63], 9)
  })

  test('M15 pools that are closed before, in and after their work give everything back', async () => {
    using stream = bench.stream()
    stream.synchronize()
    const before = device.memory.free
    for (let round = 0; round < 30; round += 1) {
      const pool = new MemoryPool({ device })
      const buffer = device.alloc(MIB, { stream, pool })
      using latch = bench.latch(stream)
      stream.fill(buffer, round)
      const acts = [() => pool.close(), () => buffer.close(), () => latch.open()]
      for (const at of [round, round + 1, round + 2]) acts[at % 3]?.()
      await stream.finished()
    }
    device.synchronize()
    // On a GPU other processes come and go.
    if (bench.name === 'sim') assert.equal(device.memory.free, before)
  })

  test('M15 five thousand pools can be made and closed one after the other, which is more than a driver keeps', async () => {
    for (let round = 0; round < 50; round += 1) {
      for (let left = 100; left > 0; left -= 1) new MemoryPool({ device }).close()
      await turns(1)
    }
    using pool = new MemoryPool({ device })
    assert.equal(device.alloc(MIB, { stream: bench.stream(), pool }).byteLength, MIB)
  })

  test('M16 pools are made, asked, trimmed and closed beside a capture, which goes on', () => {
    using stream = bench.stream()
    using other = bench.stream()
    using early = new MemoryPool({ device })
    for (const mode of ['global', 'threadLocal', 'relaxed'] as const) {
      stream.beginCapture(mode)
      using pool = new MemoryPool({ device, maxBytes: 1 })
      device.alloc(1, { stream: other, pool }).close()
      early.releaseThreshold = 1000
      early.trim().resetPeaks()
      void [device.memory, early.used, device.memoryPool.releaseThreshold]
      device.alloc(1, { stream, pool }).close()
      stream.endCapture().close()
    }
  })

  test('M16 memory of a pool is freed in the order of its allocationStream, wherever it was used', async () => {
    using allocationStream = bench.stream()
    using other = bench.stream()
    using pool = new MemoryPool({ device })
    const buffer = device.alloc(4, { stream: allocationStream, pool })
    allocationStream.fill(buffer, 1)
    other.wait(allocationStream)
    using latch = bench.latch(other)
    const bytes = other.download(buffer)
    buffer.close()
    latch.open()
    assert.deepEqual([...(await bytes)], [1, 1, 1, 1])
  })

  test('M16 a pool is of one device, whose memory other devices reach', async (context) => {
    const second = secondDevice(bench)
    if (second === undefined) return context.diagnostic(ONE_DEVICE)
    using pool = new MemoryPool({ device: second })
    refused(() => device.alloc(1, { pool }), 'ERR_DEVICE_MISMATCH', /MemoryPool/)
    using theirs = bench.stream({ device: second })
    using ours = bench.stream()
    for (let round = 0; round < 3; round += 1) {
      // Each may have the handle of the one before: its access is not.
      const each = new MemoryPool({ device: second })
      const buffer: DeviceBuffer = second.alloc(4, { stream: theirs, pool: each })
      assert.equal((await ours.fill(buffer, round).download(buffer))[3], round)
      buffer.close()
      each.close()
      await theirs.finished()
    }
  })

  test('M16 wrong pools, limits and thresholds are refused', () => {
    using pool = new MemoryPool({ device })
    refused(() => device.alloc(1, { pool: {} as never }), 'ERR_INVALID_ARG_TYPE', /options\.pool must be a MemoryPool/)
    refused(() => device.alloc(1, { pool, interprocess: true }), 'ERR_INVALID_ARG_VALUE', /exclude each other/)
    for (const [wrong, code] of [
      [-1, 'ERR_OUT_OF_RANGE'],
      [2 ** 60, 'ERR_OUT_OF_RANGE'],
      [0.5, 'ERR_INVALID_ARG_TYPE'],
      [Number.NaN, 'ERR_INVALID_ARG_TYPE'],
      ['1', 'ERR_INVALID_ARG_TYPE'],
      [1n, 'ERR_INVALID_ARG_TYPE'],
      [null, 'ERR_INVALID_ARG_TYPE'],
    ] as const) {
      const bytes = wrong as number
      refused(() => (pool.releaseThreshold = bytes), code, /releaseThreshold/)
      refused(() => new MemoryPool({ device, releaseThreshold: bytes }), code, /options\.releaseThreshold/)
      refused(() => new MemoryPool({ device, maxBytes: bytes }), code, /options\.maxBytes/)
      refused(() => pool.trim(bytes), code, /bytesToKeep/)
    }
    refused(() => new MemoryPool({ device, maxBytes: 0 }), 'ERR_OUT_OF_RANGE', /maxBytes/)
    refused(() => new MemoryPool({ device: 99 }), 'ERR_OUT_OF_RANGE')
    assert.throws(() => structuredClone(pool), { name: 'DataCloneError' })
  })
})

test('M14 on a simulated device the largest holders are named, the largest first', () => {
  using simulation = simulate({ memory: 4 * STEP })
  const [device] = simulation.devices as readonly [Device]
  assert.deepEqual(device.memory, { free: 4 * STEP, total: 4 * STEP })
  const streams = Array.from({ length: 7 }, (_, index) => nameStream(new Stream({ device }), `worker ${index}`))
  const held = streams.map((stream, index) => device.alloc((index + 1) * MIB, { stream }))
  const error = refusedByDriver(() => device.alloc(4 * STEP), 2)
  assert.match(error.message, /has 96\.0 MiB free of 128\.0 MiB\. The pool has reserved 32\.0 MiB, and 28\.0 MiB/)
  assert.match(
    error.message,
    /most on: Stream\(0x[0-9a-f]+, worker 6, .* 7\.0 MiB in 1 buffer, Stream\(0x[0-9a-f]+, worker 5, .*, 2 others 3\.0 MiB\./,
  )
  for (const buffer of held) buffer.close()
  const none = refusedByDriver(() => device.alloc(5 * STEP), 2)
  assert.doesNotMatch(none.message, /This thread/)
  device.alloc(4 * STEP).close()
})

test('M14 what one pool keeps another can have, once the host knows that it was freed', async () => {
  using simulation = simulate({ memory: 4 * STEP })
  const [device] = simulation.devices as readonly [Device]
  using stream = new Stream({ device })
  using one = new MemoryPool({ device })
  using other = new MemoryPool({ device })
  device.alloc(3 * STEP, { stream, pool: one }).close()
  await stream.finished()
  assert.equal(one.reserved, 3 * STEP)
  using buffer = device.alloc(2 * STEP, { stream, pool: other })
  assert.deepEqual([one.reserved, other.reserved, buffer.closed], [0, 2 * STEP, false])
})
