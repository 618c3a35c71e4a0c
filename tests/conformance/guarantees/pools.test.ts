/** M12 to M14: freed memory stays with its pool, and is given to the next allocation that comes after its uses. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryPool } from 'cuda-streams'
import { onEveryBackend } from '../../helpers/suite.js'
import { refused } from '../expect.js'

const STEP = 32 * 2 ** 20

onEveryBackend('pools', (bench) => {
  const { device } = bench

  test('M13 freed memory is given out again', async () => {
    using stream = bench.stream()
    using pool = new MemoryPool({ device, maxBytes: STEP })
    for (let round = 0; round < 3; round += 1) {
      using buffer = device.alloc(STEP, { stream, pool })
      await stream.fill(buffer, round).finished()
    }
    assert.equal(pool.reserved, STEP)
  })

  test('M13 it is, in the order of one stream, before its uses are done', async () => {
    using stream = bench.stream()
    using pool = new MemoryPool({ device, maxBytes: STEP })
    await stream.finished()
    using latch = bench.latch(stream)
    const first = device.alloc(STEP, { stream, pool })
    const early = stream.fill(first, 1).download(first.subarray(0, 1))
    first.close()
    using second = device.alloc(STEP, { stream, pool })
    const late = stream.fill(second, 2).download(second.subarray(0, 1))
    latch.open()
    assert.deepEqual([(await early)[0], (await late)[0]], [1, 2])
  })

  test('M12 the pool keeps what was freed, until it is trimmed', async () => {
    using stream = bench.stream()
    using pool = new MemoryPool({ device })
    device.alloc(1024, { stream, pool }).close()
    await stream.finished()
    assert.deepEqual([pool.used, pool.reserved], [0, STEP])
    pool.trim()
    assert.equal(pool.reserved, 0)
  })

  test('M14 a pool has no more than its limit', () => {
    using stream = bench.stream()
    using pool = new MemoryPool({ device, maxBytes: STEP })
    using first = device.alloc(STEP, { stream, pool })
    refused(() => device.alloc(STEP, { stream, pool }), 'CUDA_ERROR_OUT_OF_MEMORY')
    assert.equal(pool.used, first.byteLength)
  })
})
