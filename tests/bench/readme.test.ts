/** The README and docs/internals/benchmarks.md show the run of the bench that is stored, and no other numbers. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { picture } from '../../bench/picture.js'
import { benchOf, PAGES, pageWith, STORED } from '../../bench/readme.js'
import { type Result, readResult, writeResult } from '../../bench/result.js'
import { root } from '../helpers/root.js'

const pageOf = (name: string): string => readFileSync(join(root, name), 'utf8')

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

/** The lines that the page of all rows has of it. */
const wholePage = (): readonly string[] =>
  benchOf(pageWith('docs/internals/benchmarks.md', pageOf('docs/internals/benchmarks.md'), played)).split('\n')
const cellsIn = (line: string): readonly string[] =>
  line
    .split('|')
    .map((cell) => cell.trim())
    .slice(1, -1)

describe('the bench in the README and in docs/internals/benchmarks.md', () => {
  it('is the run that is stored', () => {
    const stored = join(root, STORED)
    const result = readResult(stored)
    for (const name of PAGES)
      assert.equal(pageOf(name), pageWith(name, pageOf(name), result), 'npm run bench:readme writes it')
    assert.equal(readFileSync(stored.replace('.json', '.svg'), 'utf8'), picture(result))
    assert.equal(readFileSync(stored.replace('.json', '-narrow.svg'), 'utf8'), picture(result, true))
    assert.match(result.machine['driver'] ?? '', /^cuda, \d/)
    assert.match(result.commit, /^[0-9a-f]+$/, 'of sources that are committed')
  })

  it('has medians, the ratios of the rounds with the half in the middle, and no round that one of the two did not play', () => {
    const cellsOf = (start: string): readonly string[] =>
      cellsIn(wholePage().find((line) => line.startsWith(start)) ?? '')
    assert.deepEqual(cellsOf('| calls'), [
      ...['calls, ns', 'cuda-streams', 'Node 24', '0.9.0', 'C', 'CuPy', 'PyTorch', '±'],
      ...['ours / C', 'ours / 0.9.0', '0.9.0 / C', 'Node 24 / C', 'ours / fastest of Python'],
    ])
    assert.deepEqual(cellsOf('| record(event)'), [
      ...['record(event)', '120', '95.0', '100', '100', '300', '200', '8 %'],
      ...['1.20 (1.10–1.25)', '1.20 (1.10–1.30)', '1.00 (1.00–1.00)', '0.95 (0.88–1.03)', '0.53 (0.50–0.58)'],
    ])
  })

  it('has a table for each group, without the columns that are empty there', () => {
    const [head = '', rule = '', copy = ''] = wholePage().slice(
      wholePage().findIndex((line) => line.startsWith('| 1 MB')),
    )
    assert.deepEqual(cellsIn(head), ['1 MB, GB/s', 'cuda-streams', 'C', '±', 'ours / C'])
    assert.match(rule, /^\|-+\|(-+:\|){4}$/)
    assert.deepEqual(cellsIn(copy), ['copy', '20.0', '40.0', '0 %', '2.00 (2.00–2.00)'])
  })

  it('has the medians of few rows in the README', () => {
    const lines = benchOf(pageWith('README.md', pageOf('README.md'), played)).split('\n')
    const rows = lines.filter((line) => line.startsWith('|')).map((line) => line.split('|').map((cell) => cell.trim()))
    assert.deepEqual(
      rows.map((row) => row.slice(1, -1)).filter((_, at) => at !== 1),
      [
        ['', 'cuda-streams', 'C', 'CuPy', 'PyTorch', 'cuda.core', 'Numba'],
        ['record(event)', '120', '100', '300', '200', '-', '-'],
      ],
    )
    assert.ok(lines.some((line) => line.includes('A GPU, Node v20.0.0, 2026-01-02')))
  })

  it('takes the place of the run before, and leaves the rest of the page as it is', () => {
    for (const name of PAGES) {
      const page = pageOf(name)
      const once = pageWith(name, page, played)
      assert.equal(pageWith(name, once, played), once)
      const outside = (text: string): string => text.replace(benchOf(text), '')
      assert.equal(outside(once), outside(page))
      assert.throws(() => pageWith(name, '', played), /needs the lines/)
    }
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
