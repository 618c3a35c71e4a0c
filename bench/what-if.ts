/**
 * What-if against the truth: `node dist/bench/what-if.js` records ten programs, predicts what a change of each gains, makes the
 * change, and measures. It needs no more than a minute on a GPU; without one the simulator runs the programs, in virtual time. With
 * `--keep FOLDER` the recordings stay there. (`--only TITLE` prints the time of one program, for a change of the environment.)
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Device } from 'cuda-streams'
import { Recorder } from 'cuda-streams/recording'
import { simulationOf } from 'cuda-streams/sim'
import { whatIf } from '../src/tools/recording/what-if.js'
import { median } from './statistics.js'
import { table } from './table.js'
import { harder, programs, type TruthProgram } from './what-if-programs.js'

const ROUNDS = 7
const RECORDED = 24
/** How far the predicted gain may be from the measured one, as a part of that. */
const NEAR = 1 / 3

const device = Device.get()
const { keep, only } = parseArgs({ options: { keep: { type: 'string' }, only: { type: 'string' } } }).values
if (keep !== undefined) mkdirSync(keep, { recursive: true })
const folder = keep ?? mkdtempSync(join(tmpdir(), 'cuda-streams-what-if-'))

/** Nanoseconds, of the simulator virtual ones. */
const now = (): number => (device.driver === 'sim' ? simulationOf(device).now : performance.now() * 1e6)

async function time(run: () => Promise<void> | void): Promise<number> {
  const began = now()
  await run()
  return now() - began
}

interface Result {
  readonly cells: readonly (string | number)[]
  readonly isNear: boolean
}

const percent = (part: number): string => `${(100 * part).toFixed(1)} %`
const microseconds = (nanoseconds: number): string => (nanoseconds / 1000).toFixed(0)

/** The times as it is, and changed. */
async function timesOf(
  run: (changed: boolean) => Promise<void> | void,
): Promise<{ before: number[]; after: number[] }> {
  const times: { before: number[]; after: number[] } = { before: [], after: [] }
  for (let round = -1; round < ROUNDS; round += 1) {
    const [before, after] = [await time(() => run(false)), await time(() => run(true))]
    if (round < 0) continue
    times.before.push(before)
    times.after.push(after)
  }
  return times
}

function timesInProcesses(
  title: string,
  [name, value]: readonly [string, string],
): { before: number[]; after: number[] } {
  const measured = (more: NodeJS.ProcessEnv): number[] => {
    const args = [fileURLToPath(import.meta.url), '--only', title]
    const { stdout, stderr, status } = spawnSync(process.execPath, args, {
      env: { ...process.env, ...more },
      encoding: 'utf8',
    })
    if (status !== 0) throw new Error(stderr)
    return JSON.parse(stdout)
  }
  return { before: measured({}), after: measured({ [name]: value }) }
}

async function compare({ title, proposal, variable, prepare }: TruthProgram, index: number): Promise<Result> {
  const run = await prepare(device)
  const { before, after } = variable === undefined ? await timesOf(run) : timesInProcesses(title, variable)
  const path = join(folder, `${index}.rec`)
  const recorder = Recorder.start(path, { device })
  // All code is slow at first, that of the driver with a recorder in front of it, too.
  for (let round = 0; round < RECORDED; round += 1) await run(false)
  await recorder.stop()
  const { recorded, played, unchanged, predictions } = await whatIf(path, [proposal], 60)
  const [prediction] = predictions
  if (prediction === undefined) throw new Error(`${title}: nothing was predicted`)
  const [original = 0, changed = 0] = [median(before), median(after)]
  const measured = (changed - original) / original
  const isNear = Math.abs(prediction.change - measured) <= Math.abs(measured) * NEAR
  const perRun = [recorded, played, unchanged, prediction.nanoseconds].map((time) => time / RECORDED)
  const times = [original, ...perRun, changed].map(microseconds)
  return { cells: [title, ...times, percent(prediction.change), percent(measured), isNear ? 'yes' : 'no'], isNear }
}

const HEADER = [
  'µs',
  'measured',
  'recorded',
  'played again',
  'without recorder',
  'predicted',
  'measured changed',
  'predicted gain',
  'measured gain',
  'within a third',
]

async function compareAll(): Promise<void> {
  console.log(`${device.name}, driver ${device.driver}, medians of ${ROUNDS} runs\n`)
  for (const [group, all] of [programs, harder].entries()) {
    const results: Result[] = []
    for (const [index, program] of all.entries()) results.push(await compare(program, 100 * group + index))
    console.log(
      table(
        HEADER,
        results.map(({ cells }) => cells),
      ),
    )
    console.log(`\n${results.filter(({ isNear }) => isNear).length} of ${results.length} within a third\n`)
  }
}

try {
  const one = harder.find(({ title }) => title === only)
  if (one === undefined) await compareAll()
  else console.log(JSON.stringify((await timesOf(await one.prepare(device))).before))
} finally {
  if (keep === undefined) rmSync(folder, { recursive: true })
}
