/** The event loop's sleep between two queries of a GPU. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BackOffTimer } from '../../../src/cuda/waiting/back-off-timer.js'
import { UsualWaits } from '../../../src/cuda/waiting/usual-waits.js'
import { withoutFakeTimers } from '../../helpers/run-time.js'

/** As it is before the test puts a fake one in its place. */
const { setImmediate: atNextTurn } = globalThis

const skip = withoutFakeTimers

test('a program with fake timers is woken all the same, at once and after a while', { skip }, async (t) => {
  t.mock.timers.enable({ apis: ['setImmediate', 'setTimeout', 'setInterval'] })
  const timer = new BackOffTimer()
  const begin = process.hrtime.bigint()
  let woken = 0
  const again = (): void => {
    woken += 1
    if (process.hrtime.bigint() - begin < 5_000_000n) timer.sleep(again)
    else woken = Number.POSITIVE_INFINITY
  }
  timer.sleep(again)
  for (let turn = 0; turn < 1_000_000 && Number.isFinite(woken); turn += 1)
    await new Promise((next) => atNextTurn(next))
  assert.equal(woken, Number.POSITIVE_INFINITY)
  timer.cancel()
})

test('what awaits a wake-up goes on, each time and though nothing else happens', async () => {
  const timer = new BackOffTimer()
  const waits = async (): Promise<string> => {
    for (const nanoseconds of [1_000_000n, 1_000_000n, 5_000_000n]) {
      const begin = process.hrtime.bigint()
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          if (process.hrtime.bigint() - begin < nanoseconds) timer.sleep(wake)
          else resolve()
        }
        timer.sleep(wake)
      })
      timer.cancel()
    }
    return 'all went on'
  }
  let limit: NodeJS.Timeout | undefined
  const late = new Promise<string>((resolve) => {
    limit = setTimeout(resolve, 10_000, 'one did not')
  })
  assert.equal(await Promise.race([waits(), late]), 'all went on')
  clearTimeout(limit)
})

test('the event loop polls for a wait at first, and sleeps at once if the two waits before were long', () => {
  const usual = new UsualWaits()
  const timer = new BackOffTimer({ functions: [0, 0], awaited: () => ({ events: [1, 2] as never }) }, usual)
  const rows: readonly (readonly [milliseconds: number, polls: boolean])[] = [
    [10, true],
    [10, false],
    [0.02, true],
    [1, true],
    [3, false],
  ]
  assert.equal(timer.polls, true, 'nothing is known')
  for (const [milliseconds, polls] of rows) {
    usual.ended(milliseconds)
    assert.equal(timer.polls, polls, `after one of ${milliseconds} ms`)
  }
})

test('a wait is expected to take as long as the last one where the last two were alike', () => {
  const usual = new UsualWaits()
  const lengths = [4, 4.5, 5.9, 8, 2, 2].map((milliseconds) => {
    usual.ended(milliseconds)
    return usual.length
  })
  assert.deepEqual(lengths, [0, 4.5, 5.9, 0, 0, 2])
})

test('of a wait that was over when it was first looked for it is not known how long it took: the next is looked at as if nothing were expected', () => {
  const usual = new UsualWaits()
  const ended = (...waits: readonly number[]): number => {
    for (const each of waits) usual.ended(each)
    return usual.length
  }
  assert.equal(ended(8, 8), 8)
  assert.equal(ended(7.75), 0, 'it ended before, and was noticed when the end was expected')
  assert.equal(ended(6), 6, 'as long as it really takes')
  assert.equal(ended(2), 0, 'noticed by a query long before')
  assert.equal(ended(1, 1.05), 1.05)
  assert.equal(ended(1.04), 1.04, 'a little less is usual')
})
