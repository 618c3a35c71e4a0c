/** H2, P3: a wait that could never end is an error at once. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryBackend } from '../../helpers/suite.js'
import { refused, stillWorks } from '../expect.js'

onEveryBackend('deadlocks', (bench) => {
  test('H2 a host function that waits for its own stream', () => {
    using stream = bench.stream()
    let isRefused = false
    stream.launchHostFunc(() => {
      refused(() => stream.synchronize(), 'ERR_DEADLOCK', /inside a host function/)
      isRefused = true
    })
    stream.synchronize()
    assert.equal(isRefused, true)
    stillWorks(bench, stream)
  })

  test('H2 a host function that waits for a stream that waits for its own', () => {
    using stream = bench.stream()
    using waiting = bench.stream()
    let isRefused = false
    stream.launchHostFunc(() => {
      refused(() => waiting.synchronize(), 'ERR_DEADLOCK')
      isRefused = true
    })
    waiting.wait(stream)
    waiting.synchronize()
    assert.equal(isRefused, true)
  })

  test('H2 a host function may wait for a stream that does not wait for its own', () => {
    using stream = bench.stream()
    using other = bench.stream()
    let hasWaited = false
    bench.busy(other, 10_000)
    stream.launchHostFunc(() => {
      other.synchronize()
      hasWaited = other.query()
    })
    stream.synchronize()
    assert.equal(hasWaited, true)
  })

  test('P3 blocking for work behind a promise that has not settled', async () => {
    using stream = bench.stream()
    let resolve = (): void => {}
    stream.wait(
      new Promise<void>((settle) => {
        resolve = settle
      }),
    )
    refused(() => stream.synchronize(), 'ERR_DEADLOCK', /promise/)
    resolve()
    await stream.finished()
  })
})
