/** The sanitizer and a judge that looks at every pair agree on random programs: is there a race, and which is the first? */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import { byEffort, runs } from '../../helpers/effort.js'
import { withoutPromiseHooks } from '../../helpers/run-time.js'
import { judge, type Program } from './judge.js'
import { programs, runProgram, sideOf } from './judged-play.js'

const RUNS = runs({ quick: 200, normal: 200, nightly: 3000 })
/** Other programs every night; the same in each other run. */
const RANDOM = byEffort({ quick: false, normal: false, nightly: true })
const SEED = 20251120
/** Two writes of one graph meet a wait, behind which work stands: the judge lost that. */
const MET_TWICE: Program = {
  streams: ['nonBlocking', 'blocking'],
  graphs: [
    [
      { what: 'writeWord', stream: 0, flag: 1, value: 2 },
      { what: 'writeWord', stream: 0, flag: 1, value: 1 },
    ],
  ],
  steps: [
    { what: 'waitWord', stream: 1, flag: 1, value: 1 },
    { what: 'work', stream: 1, uses: [{ memory: 1, start: 0, end: 1, writes: false }] },
    { what: 'launchGraph', stream: 0, graph: 0 },
    { what: 'synchronizeDevice', device: 0 },
    { what: 'work', stream: 0, uses: [{ memory: 1, start: 0, end: 1, writes: true }] },
  ],
}

for (const causal of [false, true]) {
  const skip = causal && withoutPromiseHooks
  it(`agrees with the judge on ${RUNS} programs${causal ? ', causal' : ''}`, { skip }, async (context) => {
    let racy = 0
    await fc.assert(
      fc.asyncProperty(programs, fc.nat(99), async (program, seed) => {
        const { happened, reports } = await runProgram(program, seed, causal)
        const [report] = reports
        const found =
          report?.first === undefined ? undefined : { first: sideOf(report.first), second: sideOf(report.second) }
        const expected = judge(program, happened, causal)
        if (expected !== undefined) racy += 1
        assert.deepEqual(found, expected)
      }),
      { numRuns: RUNS, examples: [[MET_TWICE, 0]], ...(RANDOM ? {} : { seed: SEED }) },
    )
    context.diagnostic(`${racy} of ${RUNS} programs had a race`)
    assert.ok(racy > RUNS / 10 && racy < RUNS - RUNS / 10, 'both kinds of programs are there')
  })
}
