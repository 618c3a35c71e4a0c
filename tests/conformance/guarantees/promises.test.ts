/** P1, P2: a stream waits for a promise, and nothing blocks meanwhile. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryBackend } from '../../helpers/suite.js'
import { turns } from '../expect.js'

function unsettled(): { readonly promise: Promise<void>; resolve(): void; reject(reason: unknown): void } {
  let [resolve, reject]: [() => void, (reason: unknown) => void] = [() => {}, () => {}]
  const promise = new Promise<void>((...both) => {
    ;[resolve, reject] = both
  })
  return { promise, resolve, reject }
}

onEveryBackend('promises', (bench) => {
  const { device } = bench

  test('P1 work behind a promise runs once it is resolved, and not before', async () => {
    using stream = bench.stream()
    using pinned = device.allocPinned(1)
    using buffer = device.alloc(1, { stream })
    const { promise, resolve } = unsettled()
    pinned.bytes[0] = 1
    const bytes = stream.wait(promise).copy(buffer, pinned).download(buffer)
    await turns()
    assert.equal(stream.query(), false)
    pinned.bytes[0] = 2
    resolve()
    assert.deepEqual([...(await bytes)], [2])
  })

  test('P1 it holds up its stream and those that wait for that, and no other', async () => {
    using stream = bench.stream()
    using waiting = bench.stream()
    using free = bench.stream()
    const { promise, resolve } = unsettled()
    waiting.wait(stream.wait(promise))
    bench.busy(free, 1000)
    await free.finished()
    assert.deepEqual([stream.query(), waiting.query()], [false, false])
    resolve()
    await waiting.finished()
  })

  test('P2 of one that is rejected the wait of the host behind it is told, and the stream goes on', async () => {
    using stream = bench.stream()
    const { promise, reject } = unsettled()
    stream.wait(promise)
    const done = stream.finished()
    reject(new Error('no input'))
    await assert.rejects(done, /no input/)
    await stream.finished()
    assert.equal(stream.query(), true)
  })
})
