/**
 * What each way of watching a program costs its calls, in one process on the default driver: `node dist/bench/watchers.js`.
 * Microseconds of the host's time for an operation of a pipeline, without those spent waiting, in rounds that take turns.
 */
import { Device } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { publish, Timeline } from 'cuda-streams/timeline'
import { ProgressLine } from '../src/foundation/base/standard-error.js'
import { closePipeline, OPERATIONS, openPipeline, runPipeline, SLOTS } from './pipeline.js'
import { median } from './statistics.js'
import { table } from './table.js'

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 9)
const ITEMS = 2000
const EVERY = 100
const device = Device.get(0)

const watchers: Readonly<Record<string, () => () => unknown>> = {
  none: () => () => {},
  sanitizer: () => {
    const sanitizer = Sanitizer.start({ device })
    return () => {
      sanitizer.stop()
      if (sanitizer.reports[0] !== undefined) throw new Error(sanitizer.reports[0].message)
    }
  },
  timeline: () => {
    const recording = Timeline.start({ device })
    return () => recording.stopNow()
  },
  publish: () => {
    const publisher = publish({ device })
    return () => publisher.close()
  },
}

function measure(start: () => () => unknown, allocates: boolean): number {
  const pipeline = openPipeline(device)
  const stop = start()
  runPipeline(pipeline, 10 * SLOTS, SLOTS, allocates)
  const begin = process.hrtime.bigint()
  const waited = runPipeline(pipeline, ITEMS, EVERY, allocates)
  const spent = Number(process.hrtime.bigint() - begin) - (device.driver === 'sim' ? 0 : waited)
  stop()
  closePipeline(pipeline)
  return spent / 1000 / (ITEMS * (OPERATIONS + (allocates ? 2 : 0)))
}

const line = new ProgressLine()
const result: Record<string, Record<string, number>> = {}
for (const [title, allocates] of [
  ['pipeline', false],
  ['with a new buffer a frame', true],
] as const) {
  const taken = Object.fromEntries(Object.keys(watchers).map((name): [string, number[]] => [name, []]))
  for (let round = -1; round < ROUNDS; round += 1) {
    line.show(() => `${title}: round ${round} of ${ROUNDS}`)
    for (const [name, start] of Object.entries(watchers)) {
      const microseconds = measure(start, allocates)
      if (round >= 0) taken[name]?.push(microseconds)
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  result[title] = Object.fromEntries(
    Object.entries(taken).map(([name, values]) => [name, Number((median(values) ?? Number.NaN).toFixed(2))]),
  )
}
line.erase()
console.log(`${device.name}, Node ${process.version}; µs an operation, medians of ${ROUNDS} rounds that take turns\n`)
const names = Object.keys(watchers)
const cells = Object.entries(result).map(([title, medians]) => {
  const { none = Number.NaN } = medians
  return [
    title,
    ...names.map((name) => (name === 'none' ? none : `+${((medians[name] ?? Number.NaN) - none).toFixed(2)}`)),
  ]
})
console.log(table(['', ...names], cells))
console.log(JSON.stringify({ device: device.name, node: process.version, microseconds: result }))
