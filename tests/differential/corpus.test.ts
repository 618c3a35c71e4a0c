/** A recording holds what was observed, and one that says something else is found out. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { simWorkbench } from '../helpers/workbench.js'
import { differences } from './compare.js'
import { load, type Recorded, recordedOf, save } from './corpus.js'
import { play } from './play.js'
import { programs } from './programs.js'
import { shrink } from './shrink.js'
import type { Program } from './steps.js'

const SEED = 1
const COUNT = 200
/** A corpus of four thousand must stay below a megabyte. */
const BYTES_EACH = 250
const HEADER = { machine: 'none', driverVersion: 'none', recorded: '2000-01-01', platform: 'none' }

const sample = (): Program[] => fc.sample(programs(), { seed: SEED, numRuns: COUNT })
const named = (name: string, { results, promises, ran, bytes }: Recorded) => {
  return { name, observation: { results, promises, ran, bytes, broken: [] } }
}

describe('a recording', () => {
  it('is read as it was saved, and is small', async () => {
    const recorded: Recorded[] = []
    for (const program of sample()) recorded.push(recordedOf(program, await play(program, simWorkbench())))
    const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-'))
    try {
      const file = join(folder, 'corpus.br')
      save(file, HEADER, recorded)
      const read = load(file)
      assert.deepEqual(read, structuredClone({ header: HEADER, recorded }))
      const each = statSync(file).size / COUNT
      assert.ok(each < BYTES_EACH, `${each} bytes for a program`)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it('that says something else of a result, a promise, a host function or bytes is found out', async () => {
    let changed = 0
    for (const program of sample().slice(0, 20)) {
      const right = recordedOf(program, await play(program, simWorkbench()))
      assert.deepEqual(differences(program, named('a', right), named('b', right)), [])
      const wrong: Recorded[] = [
        ...right.results.map((_, index) => ({ ...right, results: right.results.with(index, 'else') })),
        ...right.promises.map((_, index) => ({ ...right, promises: right.promises.with(index, 'else') })),
        ...right.bytes.map((_, index) => ({ ...right, bytes: right.bytes.with(index, 'else') })),
        { ...right, ran: `${right.ran} h1:2` },
      ]
      for (const one of wrong) assert.equal(differences(program, named('a', right), named('b', one)).length, 1)
      changed += wrong.length
    }
    assert.ok(changed > 400, `${changed} changes were tried`)
  })

  it('gives the shortest program that shows a difference', async () => {
    const [program] = sample().filter(({ steps }) => steps.some(({ what }) => what === 'latch'))
    assert.ok(program)
    const shortest = await shrink(program, async ({ steps }) => steps.some(({ what }) => what === 'latch'))
    assert.deepEqual(
      shortest.steps.map(({ what }) => what),
      ['latch'],
    )
  })
})
