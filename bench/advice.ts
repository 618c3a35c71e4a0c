/**
 * The advice of a timeline against the truth: `node dist/bench/advice.js` records ten programs that are slow each in its own way, takes the
 * advice with the largest gain, and measures the program changed as it says. Without a GPU the simulator runs them, in virtual time.
 */
import { Device } from 'cuda-streams'
import { simulationOf } from 'cuda-streams/sim'
import { Timeline } from 'cuda-streams/timeline'
import { type AdviceProgram, programs } from './advice-programs.js'
import { median } from './statistics.js'
import { table } from './table.js'

const ROUNDS = 7
/** How far the gain that was said may be from the measured one, as a part of what was said. */
const NEAR = 1 / 3

const device = Device.get()

/** Nanoseconds, of the simulator virtual ones. */
const now = (): number => (device.driver === 'sim' ? simulationOf(device).now : performance.now() * 1e6)

async function time(run: () => Promise<unknown>): Promise<number> {
  const began = now()
  await run()
  return now() - began
}

async function follow({ title, kind, advises, prepare }: AdviceProgram) {
  const run = prepare(device)
  await device.finished()
  // A wait that usually takes as long is noticed at once when it ends, so each of the two runs by itself. All code is slow at first.
  const timesOf = async (changed: boolean): Promise<readonly number[]> => {
    const times: number[] = []
    for (let round = -2; round < ROUNDS; round += 1) {
      const taken = await time(() => run(changed))
      if (round >= 0) times.push(taken)
    }
    return times
  }
  const [before, after] = [await timesOf(false), await timesOf(true)]
  await Timeline.record(() => run(false))
  const { summary } = await Timeline.record(() => run(false))
  const [stall] = summary.stalls
  const [original = 0, changed = 0] = [median(before), median(after)]
  const [said = 0, gained] = [stall?.gain, original - changed]
  const isNear = stall?.kind === kind && advises.test(stall.advice) && Math.abs(gained - said) <= said * NEAR
  const times = [original, changed, said, gained].map((nanoseconds) => (nanoseconds / 1000).toFixed(0))
  return { isNear, cells: [title, ...times, isNear ? 'yes' : 'no'], says: `${title}: ${summary.verdict}` }
}

console.log(`${device.name}, driver ${device.driver}, medians of ${ROUNDS} runs, µs\n`)
const results = []
for (const program of programs) results.push(await follow(program))
const header = ['program', 'as it is', 'changed', 'said', 'gained', 'within a third']
console.log(
  table(
    header,
    results.map(({ cells }) => cells),
  ),
)
console.log(`\n${results.map(({ says }) => says).join('\n')}`)
console.log(`\n${results.filter(({ isNear }) => isNear).length} of ${results.length} within a third`)
