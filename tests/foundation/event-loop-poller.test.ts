/** The poller of a driver: one turn in each turn of the event loop, however often something is queued meanwhile, and one before the process ends. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { EventLoopPoller } from '../../src/foundation/driver/event-loop-poller.js'

test('there is one turn in each of the event loop, though what is queued keeps the process alive, and then does not, and does again', async () => {
  let [turns, isAlive, goesOn] = [0, false, true]
  const poller = new EventLoopPoller(
    () => {
      turns += 1
      return goesOn ? 'soon' : 'idle'
    },
    { sleep: () => {}, cancel: () => {} },
    () => isAlive,
  )
  for (let nth = 0; nth < 20; nth += 1) {
    isAlive = nth % 2 === 1
    poller.wake()
    isAlive = !isAlive
    poller.wake()
    await turn()
  }
  const before = turns
  for (let nth = 0; nth < 10; nth += 1) await turn()
  assert.ok(turns - before <= 11, `${turns - before} turns in 10 of the event loop`)
  goesOn = false
  await turn()
  await turn()
})

for (const [found, turns] of [
  ['delivered', 2],
  ['soon', 1],
] as const) {
  test(`what is queued after a turn that found '${found}' has ${turns - 1} more before a process ends for which nothing is pending`, () => {
    const program = `
      import { EventLoopPoller } from '${new URL('../../src/foundation/driver/event-loop-poller.js', import.meta.url)}'
      let turns = 0
      const turn = () => {
        turns += 1
        if (turns > 1) return 'idle'
        queueMicrotask(() => poller.wake())
        return '${found}'
      }
      const poller = new EventLoopPoller(turn, { sleep() {}, cancel() {} }, () => turns === 0)
      poller.wake()
      process.on('exit', () => console.log(turns))`
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
      encoding: 'utf8',
    })
    assert.deepEqual([stdout.trim(), stderr], [String(turns), ''])
  })
}
