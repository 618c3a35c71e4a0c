/** H1, H3, C2: a host function runs once, between the work before it and the work behind it, when JavaScript is not in the middle of something else. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryBackend } from '../../helpers/suite.js'
import { turns } from '../expect.js'

onEveryBackend('host functions', (bench) => {
  const { device } = bench

  test('H1 one runs after the work before it, and holds up the work behind it', async () => {
    using stream = bench.stream()
    using pinned = device.allocPinned(1)
    using buffer = device.alloc(1, { stream })
    pinned.bytes[0] = 1
    stream.fill(buffer, 5).copy(pinned, buffer)
    stream.launchHostFunc(() => {
      assert.equal(pinned.bytes[0], 5)
      pinned.bytes[0] = 6
    })
    stream.copy(buffer, pinned)
    assert.deepEqual([...(await stream.download(buffer))], [6])
  })

  test('H1 it does not run while work before it is not done', async () => {
    using stream = bench.stream()
    let ran = 0
    using latch = bench.latch(stream)
    stream.launchHostFunc(() => {
      ran += 1
    })
    await turns()
    assert.equal(ran, 0)
    latch.open()
    await stream.finished()
    assert.equal(ran, 1)
  })

  test('H1 host functions of a stream run in the order in which they were queued', async () => {
    using stream = bench.stream()
    const ran: number[] = []
    for (let nth = 0; nth < 5; nth += 1) stream.launchHostFunc(() => ran.push(nth))
    await stream.finished()
    assert.deepEqual(ran, [0, 1, 2, 3, 4])
  })

  test('H1 a stream that waits for one with a host function waits for that, too', async () => {
    using stream = bench.stream()
    using waiting = bench.stream()
    let ran = false
    stream.launchHostFunc(() => {
      ran = true
    })
    waiting.wait(stream)
    assert.equal(waiting.query(), false)
    await waiting.finished()
    assert.equal(ran, true)
  })

  test('C2 it runs inside of a blocking wait, and inside of no other call', () => {
    using stream = bench.stream()
    let ran = false
    stream.launchHostFunc(() => {
      ran = true
    })
    using event = stream.record()
    assert.deepEqual([stream.query(), event.query(), ran], [false, false, false])
    stream.synchronize()
    assert.equal(ran, true)
  })
})
