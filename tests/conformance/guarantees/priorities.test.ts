/** O9: a priority orders nothing. Work of a high priority waits for work of a low one where the program says so, and behind it in a stream. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryBackend } from '../../helpers/suite.js'
import { turns } from '../expect.js'

onEveryBackend('priorities', (bench) => {
  const { device } = bench
  const { least, greatest } = device.priorityRange

  test('O9 a stream of the highest priority waits for one of the lowest', async () => {
    using low = bench.stream({ priority: least })
    using high = bench.stream({ priority: greatest })
    using latch = bench.latch(low)
    high.wait(low)
    using buffer = device.alloc(4, { stream: high })
    high.fill(buffer, 1)
    await turns()
    assert.equal(high.query(), false)
    latch.open()
    await high.finished()
  })

  test('O9 a stream of the highest priority that stands holds up none of the lowest', async () => {
    using low = bench.stream({ priority: least })
    using high = bench.stream({ priority: greatest })
    using buffer = device.alloc(4, { stream: low })
    await low.finished()
    using latch = bench.latch(high)
    low.fill(buffer, 1).synchronize()
    assert.equal(high.query(), false)
    latch.open()
    await high.finished()
  })
})
