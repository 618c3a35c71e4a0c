/** The reduction leaves out no order that could matter: held against all orders of small random programs. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { simulate } from 'cuda-streams/sim'
import fc from 'fast-check'
import { Ranges } from '../../src/simulator/handles.js'
import { type Outcome, observed, observedError, runOnce } from '../../src/tools/explore/run.js'
import { Search } from '../../src/tools/explore/search.js'
import { runs } from '../helpers/effort.js'
import { type ExploredStep, exploredPrograms, programOf } from './explored-play.js'

/** Of fast-check: which programs are tried. CUDA_STREAMS_TEST_SEED tries others. */
const SEED = Number(process.env['CUDA_STREAMS_TEST_SEED'] ?? 20_251_120)
const PROGRAMS = runs({ quick: 50, normal: 50, nightly: 1000 })
/** A program with more orders is left out, and another one taken. */
const MOST_ORDERS = 100
const CONDITIONS = { devices: 1, seed: 1, faults: [], ranges: new Ranges(), deadline: Number.POSITIVE_INFINITY }

/** Of the simulator, for each program. */
const SEEDS = 10
/** The simulator took orders of these that no GPU takes: effects were there of work that queries called unfinished. */
const EXAMPLES: [readonly ExploredStep[]][] = [
  [
    [
      { what: 'setByte', stream: 1, buffer: 0, value: 1 },
      { what: 'mixByte', stream: 0, buffer: 0, source: 0 },
      { what: 'keptSynchronize', stream: 1 },
      { what: 'queryStream', stream: 0 },
    ],
  ],
  [
    [
      { what: 'setByte', stream: 1, buffer: 0, value: 1 },
      { what: 'record', stream: 0, event: 0 },
      { what: 'mixByte', stream: 0, buffer: 1, source: 1 },
      { what: 'record', stream: 0, event: 1 },
      { what: 'mixByte', stream: 0, buffer: 0, source: 0 },
      { what: 'synchronizeStream', stream: 1 },
      { what: 'queryEvent', event: 1 },
    ],
  ],
]
/** Turns of the event loop after which a program waits for what does not come. */
const MOST_TURNS = 60

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

/** What a program returns, or the error it throws; undefined where it waits forever. */
async function valueUnder(steps: readonly ExploredStep[], seed: number): Promise<string | undefined> {
  using simulation = simulate({ seed })
  let value: string | undefined
  void (async () => {
    try {
      value = observed(await programOf(steps)(simulation))
    } catch (error) {
      value = observedError(error)
    }
  })()
  for (let turns = 0; turns < MOST_TURNS && value === undefined; turns += 1) await setImmediate()
  return value
}

describe('exploration', { timeout: 300_000 }, () => {
  it(`has every order that the simulator takes under ${SEEDS} seeds (fast-check seed ${SEED})`, async (t) => {
    let compared = 0
    const property = fc.asyncProperty(exploredPrograms(6), async (steps) => {
      // A fault ends some of the programs by what nobody handles.
      fc.pre(steps.every(({ what }) => what !== 'fault'))
      const values = new Set<string>()
      const reduced = await outcomesOf(steps, new Search(), MOST_ORDERS)
      fc.pre(reduced !== undefined)
      for (const outcome of reduced?.outcomes ?? []) values.add((JSON.parse(outcome) as Outcome).value)
      for (let seed = 0; seed < SEEDS; seed += 1) {
        const value = await valueUnder(steps, seed)
        assert.ok(value === undefined || values.has(value), `seed ${seed}: ${value}, and not ${[...values].join(', ')}`)
      }
      compared += 1
    })
    // With a part of a run fast-check would not end.
    const numRuns = EXAMPLES.length + Math.ceil(PROGRAMS / 4)
    await fc.assert(property, { seed: SEED, numRuns, maxSkipsPerRun: 10, examples: EXAMPLES })
    t.diagnostic(`${compared} programs`)
    assert.equal(compared, numRuns)
  })
})

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
