/**
 * What rules.ts takes to be forced is: the simulator gives the same under every seed. This is what makes a difference
 * between the simulator and a GPU a mistake of one of them.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { runs } from '../helpers/effort.js'
import { simWorkbench } from '../helpers/workbench.js'
import { differences } from './compare.js'
import { type Observation, play } from './play.js'
import { programs } from './programs.js'
import { decode, encode, listing, type Program } from './steps.js'

/** Of fast-check: which programs are tried. CUDA_STREAMS_TEST_SEED tries others, CUDA_STREAMS_TEST_RUNS more of them. */
const SEED = Number(process.env['CUDA_STREAMS_TEST_SEED'] ?? 20_261_120)
const RUNS = runs({ quick: 50, normal: 50, nightly: 2000 })
const SEEDS = [0, 1, 2, 3]

const on = (program: Program, seed: number): Promise<Observation> =>
  play(program, simWorkbench({ devices: program.devices, seed }))

/** Mostly of one device, which is what most machines have; and some of which half end in a fault. */
const anyProgram = fc.oneof(
  { weight: 16, arbitrary: programs(1) },
  { weight: 3, arbitrary: programs(2) },
  { weight: 1, arbitrary: programs(2, 2) },
)

describe('a random program', { timeout: 3_600_000 }, () => {
  it(`gives what the rules force, under ${SEEDS.length} seeds (${RUNS} programs, fast-check seed ${SEED})`, async () => {
    await fc.assert(
      fc.asyncProperty(anyProgram, async (program) => {
        const [first, ...others] = SEEDS
        const natural = { name: `seed ${first}`, observation: await on(program, first ?? 0) }
        for (const seed of others) {
          const other = { name: `seed ${seed}`, observation: await on(program, seed) }
          const found = differences(program, natural, other)
          if (found.length > 0) assert.fail(`${listing(program)}\n${found.join('\n')}`)
        }
      }),
      { seed: SEED, numRuns: RUNS },
    )
  })

  it('whose wait is refused has recorded the event that was given: one that waits for it is in that capture', async () => {
    // The capture of s2 goes on; s1, whose capture was invalidated, may not wait: it joins by the event later.
    const [sync, waitBy, waitExternal] = [
      [15, 1],
      [70, 1, 2, 0],
      [39, 1, 0],
    ]
    const steps = [[37, 2, 1, [[23, 2, 2]]], [23, 1, 0], sync, waitBy, [24, 1], waitExternal, [0, 1]]
    const streams = [
      [0, 0, 0],
      [9, 0, 0],
      [6, 0, 0],
    ]
    const events = [
      [0, 0],
      [0, 0],
    ]
    const { broken } = await on(decode([1, 0, streams, events, steps, 5]), 0)
    assert.deepEqual(broken, [])
  })

  it('is the same after it was written down and read', () => {
    fc.assert(
      fc.property(programs(2), (program) => assert.deepEqual(decode(encode(program)), structuredClone(program))),
    )
  })
})
