/** The check of a recording reports what the sanitizer reported while the program ran. */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import fc from 'fast-check'
import { checkRecording } from '../../src/recording/check.js'
import { Reader } from '../../src/recording/reader.js'
import { byEffort, runs } from '../helpers/effort.js'
import { programs, runProgram } from '../sanitizer/random-programs.js'

const RUNS = runs({ quick: 100, normal: 200, nightly: 3000 })
const RANDOM = byEffort({ quick: false, normal: false, nightly: true })
const SEED = 20261126

it(`reports the same of ${RUNS} random programs as the sanitizer that watched them`, async (context) => {
  const path = join(tmpdir(), `cuda-streams-${process.pid}.rec`)
  let racy = 0
  await fc.assert(
    fc.asyncProperty(programs, fc.nat(99), async (program, seed) => {
      const { reports } = await runProgram(program, seed, false, path)
      const checked = await checkRecording(new Reader(path))
      assert.ok(checked.isComplete)
      const errors = checked.reports.filter(({ severity }) => severity === 'error')
      if (reports.length > 0) racy += 1
      assert.deepEqual(
        errors.map(({ message }) => message),
        reports.map(({ message }) => message),
      )
    }),
    { numRuns: RUNS, ...(RANDOM ? {} : { seed: SEED }) },
  )
  rmSync(path)
  context.diagnostic(`${racy} of ${RUNS} programs had a race`)
  assert.ok(racy > RUNS / 10 && racy < RUNS - RUNS / 10, 'both kinds of programs are there')
})
