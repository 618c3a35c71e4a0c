/** The reduction leaves out no order that could matter: held against all orders of small random programs. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Ranges } from '../../src/driver/sim/handles.js'
import { runOnce } from '../../src/explore/run.js'
import { Search } from '../../src/explore/search.js'
import { type ExploredStep, exploredPrograms, programOf } from './exploration-program.js'

/** Of fast-check: which programs are tried. CUDA_STREAMS_TEST_SEED tries others. */
const SEED = Number(process.env['CUDA_STREAMS_TEST_SEED'] ?? 20_251_120)
const PROGRAMS = Number(process.env['CUDA_STREAMS_TEST_PROGRAMS'] ?? 1000)
/** A program with more orders is left out, and another one taken. */
const MOST_ORDERS = 100
const CONDITIONS = { devices: 1, seed: 1, faults: [], ranges: new Ranges() }

interface Explored {
  readonly runs: number
  readonly outcomes: ReadonlySet<string>
}

/** Undefined where there are more orders than `most`. */
async function outcomesOf(steps: readonly ExploredStep[], search: Search, most: number): Promise<Explored | undefined> {
  const program = programOf(steps)
  const outcomes = new Set<string>()
  for (let runs = 1; runs <= most; runs += 1) {
    const run = await runOnce(program, CONDITIONS, search.pick)
    outcomes.add(JSON.stringify(run.outcome))
    if (!search.next(run.steps)) return { runs, outcomes }
  }
  return undefined
}

describe('the reduction', { timeout: 300_000 }, () => {
  it(`comes to all that brute force comes to, for ${PROGRAMS} random programs (fast-check seed ${SEED})`, async (t) => {
    let compared = 0
    let [reducedRuns, everyRun, several] = [0, 0, 0]
    const property = fc.asyncProperty(exploredPrograms(6), async (steps) => {
      const every = await outcomesOf(steps, new Search(false), MOST_ORDERS)
      fc.pre(every !== undefined)
      const reduced = await outcomesOf(steps, new Search(), Number.POSITIVE_INFINITY)
      compared += 1
      everyRun += every?.runs ?? 0
      reducedRuns += reduced?.runs ?? 0
      if ((every?.outcomes.size ?? 0) > 1) several += 1
      assert.deepEqual([...(reduced?.outcomes ?? [])].sort(), [...(every?.outcomes ?? [])].sort())
    })
    await fc.assert(property, { seed: SEED, numRuns: PROGRAMS, maxSkipsPerRun: 10 })
    t.diagnostic(
      `${compared} programs: ${everyRun} orders, ${reducedRuns} runs reduced; ${several} have several outcomes`,
    )
    assert.equal(compared, PROGRAMS)
    assert.ok(several > PROGRAMS / 10, 'too few of the programs depend on their order')
  })
})
