/** The line that says how far long work is. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ProgressLine } from '../../src/base/progress-line.js'

function terminal(isTTY: boolean): {
  isTTY: boolean
  columns: number
  written: string[]
  write(text: string): boolean
} {
  const written: string[] = []
  return { isTTY, columns: 20, written, write: (text) => written.push(text) > 0 }
}

test('is written after half a second, ten times a second, no longer than the terminal, and erased', (t) => {
  let now = 1000
  t.mock.method(performance, 'now', () => now)
  const out = terminal(true)
  const line = new ProgressLine(out)
  for (; now < 3000; now += 10) line.show(() => `${now} and what does not fit`)
  assert.equal(out.written.length, 15)
  assert.equal(out.written[0], '\r\x1b[K1500 and what does \r')
  line.erase()
  line.erase()
  assert.equal(out.written.length, 16)
  assert.equal(out.written.at(-1), '\x1b[K')
})

test('is neither written nor asked for where there is no terminal', (t) => {
  let now = 1000
  t.mock.method(performance, 'now', () => now)
  const out = terminal(false)
  const line = new ProgressLine(out)
  for (; now < 3000; now += 10) line.show(() => assert.fail('nobody sees it'))
  line.erase()
  assert.deepEqual(out.written, [])
})
