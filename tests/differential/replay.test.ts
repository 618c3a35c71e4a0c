/** What GPUs did with recorded programs, held against the simulator: a machine without a GPU is told of a difference. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { byEffort } from '../helpers/effort.js'
import { simWorkbench } from '../helpers/workbench.js'
import { differences } from './compare.js'
import { load, type Recorded, recordedOf } from './corpus.js'
import { type Observation, play } from './play.js'
import { encode, listing } from './steps.js'

/** Recordings are no TypeScript: they lie in the sources, not beside this compiled file. */
const FOLDER = fileURLToPath(new URL('../../../tests/differential/corpus', import.meta.url))
const MOST_SHOWN = 5
/** One of so many recorded programs is played. */
const EACH = byEffort({ quick: 5, normal: 5, nightly: 1 })

const files = existsSync(FOLDER) ? readdirSync(FOLDER).filter((name) => name.endsWith('.br')) : []

describe('the simulator does what GPUs did', { timeout: 600_000 }, () => {
  if (files.length === 0)
    it('in recorded programs', { skip: 'there is no recording of a GPU in tests/differential/corpus' })
  for (const file of files) {
    const { header, recorded } = load(join(FOLDER, file))
    it(`in ${Math.ceil(recorded.length / EACH)} of ${recorded.length} programs recorded on ${header.machine}, driver ${header.driverVersion}`, async () => {
      const wrong: string[] = []
      for (const [index, one] of recorded.entries()) {
        if (index % EACH !== 0) continue
        const found = await differencesOf(one)
        if (found.length === 0) continue
        const { program } = one
        wrong.push(
          `program ${index}\n${listing(program)}\n${found.join('\n')}\n--only '${JSON.stringify(encode(program))}'`,
        )
      }
      const shown = wrong.slice(0, MOST_SHOWN).join('\n\n')
      assert.equal(wrong.length, 0, `${wrong.length} of ${recorded.length} programs differ in ${file}\n${shown}`)
    })
  }
})

async function differencesOf(one: Recorded): Promise<string[]> {
  const { program } = one
  const played = await play(program, simWorkbench({ devices: program.devices }))
  const replayed = { ...recordedOf(program, played), broken: played.broken }
  const recorded: Observation = { ...one, broken: [] }
  return differences(program, { name: 'GPU', observation: recorded }, { name: 'simulator', observation: replayed })
}
