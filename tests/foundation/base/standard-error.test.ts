/** The line that says how far long work is. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isatty } from 'node:tty'
import { clock } from '../../../src/foundation/base/event-loop.js'
import { ProgressLine } from '../../../src/foundation/base/standard-error.js'

const written: string[] = []
const terminal = { columns: 20, write: (text: string) => written.push(text) > 0 }

test('is written after half a second, ten times a second, no longer than the terminal, and erased', (t) => {
  let now = 1000
  t.mock.method(clock, 'now', () => now)
  const line = new ProgressLine(terminal)
  for (; now < 3000; now += 10) line.show(() => `${now} and what does not fit`)
  assert.equal(written.length, 15)
  assert.equal(written[0], '\r\x1b[K1500 and what does \r')
  line.erase()
  line.erase()
  assert.equal(written.length, 16)
  assert.equal(written.at(-1), '\x1b[K')
})

test('is neither written nor asked for where there is no terminal', (t) => {
  if (isatty(2)) return t.skip('standard error is a terminal here')
  let now = 1000
  t.mock.method(clock, 'now', () => now)
  const line = new ProgressLine()
  for (; now < 3000; now += 10) line.show(() => assert.fail('it is shown'))
  line.erase()
})
