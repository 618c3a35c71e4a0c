/** The README shows the run of the bench that is stored, and no other numbers. */
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { picture } from '../../bench/picture.js'
import { benchOf, readmeWith, STORED } from '../../bench/readme.js'
import { type Result, readResult, writeResult } from '../../bench/result.js'
import { root } from '../helpers/root.js'

const readme = readFileSync(join(root, 'README.md'), 'utf8')

const row = { title: 'record(event)', unit: 'ns', group: 'calls' } as const
const played: Result = {
  date: '2026-01-02T03:04:05.678Z',
  commit: '0123456789ab',
  command: 'npm run bench --',
  machine: { GPU: 'A GPU', driver: 'cuda, CUDA 13.0', CPU: 'A CPU', load: '0.1 before, 0.2 after' },
  contestants: [
    { name: 'cuda-streams', kind: 'ours', facts: { version: '1.0.0', node: 'v20.0.0' } },
    { name: 'Node 24', kind: 'ours', facts: { version: '1.0.0', node: 'v24.0.0' } },
    { name: '0.9.0', kind: 'other version', facts: { version: '0.9.0', node: 'v20.0.0' } },
    { name: 'C', kind: 'C', facts: { version: '13.0' } },
    { name: 'CuPy', kind: 'Python', facts: { version: '14.0' } },
    { name: 'PyTorch', kind: 'Python', facts: { version: '3.0' } },
  ],
  leftOut: [],
  failures: [],
  rows: [
    {
      ...row,
      key: 'record',
      samples: {
        'cuda-streams': [100, 130, 120, 110, 1000],
        'Node 24': [90, null, 100, 80, 900],
        '0.9.0': [50, 100, 100, 100, 1000],
        C: [100, 100, 100, 100, 800],
        CuPy: [300, 300, 300, 300, 300],
        PyTorch: [200, 200, 240, 200],
      },
    },
    {
      ...row,
      key: 'copy',
      title: 'copy',
      unit: 'GB/s',
      group: '1 MB',
      bytes: 1e6,
      samples: { 'cuda-streams': [50_000], C: [25_000] },
    },
  ],
}

describe('the bench in the README', () => {
  it('is the run that is stored', () => {
    const stored = join(root, STORED)
    if (!existsSync(stored)) return assert.ok(!benchOf(readme).includes(STORED), `${STORED} is not there`)
    const result = readResult(stored)
    assert.equal(readme, readmeWith(readme, result), 'npm run bench:readme writes it')
    assert.equal(readFileSync(stored.replace('.json', '.svg'), 'utf8'), picture(result))
    assert.match(result.machine['driver'] ?? '', /^cuda, \d/)
    assert.match(result.commit, /^[0-9a-f]+$/, 'of sources that are committed')
  })

  it('has medians, the ratios of the rounds with the half in the middle, and no round that one of the two did not play', () => {
    const lines = benchOf(readmeWith(readme, played)).split('\n')
    const cellsOf = (start: string): string[] =>
      (lines.find((line) => line.startsWith(start)) ?? '')
        .split('|')
        .map((cell) => cell.trim())
        .slice(1, -1)
    assert.deepEqual(cellsOf('|  '), [
      ...['', 'cuda-streams', 'Node 24', '0.9.0', 'C', 'CuPy', 'PyTorch', '±'],
      ...['ours / C', 'ours / 0.9.0', 'Node 24 / C', 'ours / fastest of Python'],
    ])
    assert.deepEqual(cellsOf('| record(event)'), [
      ...['record(event)', '120', '95.0', '100', '100', '300', '200', '8 %'],
      ...['1.20 (1.10–1.25)', '1.20 (1.10–1.30)', '0.95 (0.88–1.03)', '0.53 (0.50–0.58)'],
    ])
    assert.deepEqual(cellsOf('| copy').slice(0, 5), ['copy', '20.0', '-', '-', '40.0'])
    assert.equal(cellsOf('| copy')[8], '2.00 (2.00–2.00)')
  })

  it('takes the place of the run before, and leaves the rest of the page as it is', () => {
    const once = readmeWith(readme, played)
    assert.equal(readmeWith(once, played), once)
    const outside = (text: string): string => text.replace(benchOf(text), '')
    assert.equal(outside(once), outside(readme))
    assert.throws(() => readmeWith('', played), /needs the lines/)
  })

  it('cannot come from a file that was edited', () => {
    const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-result-'))
    const file = join(folder, 'run.json')
    try {
      writeResult(file, played)
      assert.deepEqual(readResult(file), played)
      writeFileSync(file, readFileSync(file, 'utf8').replace('130,', '101,'))
      assert.throws(() => readResult(file), /is not as `npm run bench` wrote it/)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
