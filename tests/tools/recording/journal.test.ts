/** The lines that a journal writes, as they are read. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, it } from 'node:test'
import { Journal } from '../../../src/tools/recording/journal.js'
import { VERSION } from '../../../src/tools/recording/lines.js'
import { Reader } from '../../../src/tools/recording/reader.js'

const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-journal-'))
after(() => rmSync(folder, { recursive: true }))
const header = { recording: VERSION, driver: 'cuda', clock: 'host', stacks: 'all', epoch: 0, devices: [] } as const

it('a call without lines does not have those of an earlier call like it', () => {
  const path = join(folder, 'lines.rec')
  const lines = ['at step (train.py:1)', '', 'at step (train.py:1)']
  let next = 0
  const journal = new Journal(
    path,
    header,
    () => 0,
    () => lines[next] ?? '',
  )
  for (; next < lines.length; next += 1) journal.call({ call: 'synchronizeDevice', device: 0 }, 0, 0)
  journal.close()
  const reader = new Reader(path)
  const read = Array.from(lines, () => reader.next()).map((entry) => entry?.what === 'call' && entry.stack)
  assert.deepEqual(read, lines)
})

it('times are read as they were written, also of more operations than a line has', () => {
  const path = join(folder, 'times.rec')
  const journal = new Journal(path, header, () => 0)
  const operations = Array.from({ length: 1000 }, (_, call) => [call, 1e9 - call * 7, 1e9 - call * 7 + 3] as const)
  journal.times(operations)
  journal.close()
  const read: (readonly [number, number, number])[] = []
  const reader = new Reader(path)
  for (let entry = reader.next(); entry !== undefined; entry = reader.next())
    if (entry.what === 'times') entry.each((...times) => read.push(times))
  assert.deepEqual(read, operations)
})
