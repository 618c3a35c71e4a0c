/**
 * What the sanitizer costs: `node dist/bench/sanitizer.js`. A pipeline over three streams, without it and with it in turns, in
 * one process on the default driver; microseconds an operation that the sanitizer adds, and how that grows.
 */
import { Device } from 'cuda-streams'
import { Sanitizer, type SanitizerOptions } from 'cuda-streams/sanitizer'
import { ProgressLine } from '../src/foundation/base/standard-error.js'
import { closePipeline, OPERATIONS, openPipeline, runPipeline, SLOTS } from './pipeline.js'
import { median } from './statistics.js'
import { table } from './table.js'

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 7)
/** Microseconds an operation, of a run in which every event has been recorded before. */
function measure(device: Device, items: number, every: number, options: SanitizerOptions | undefined): number {
  const pipeline = openPipeline(device)
  const sanitizer = options === undefined ? undefined : Sanitizer.start({ ...options, device })
  runPipeline(pipeline, SLOTS, SLOTS)
  const start = process.hrtime.bigint()
  runPipeline(pipeline, items, every)
  const nanoseconds = Number(process.hrtime.bigint() - start)
  sanitizer?.stop()
  const errors = sanitizer?.reports.filter(({ severity }) => severity === 'error') ?? []
  if (errors.length > 0) throw new Error(errors[0]?.message)
  closePipeline(pipeline)
  return nanoseconds / 1000 / (items * OPERATIONS)
}

const KINDS: readonly (readonly [string, SanitizerOptions | undefined])[] = [
  ['without', undefined],
  ["stacks 'none'", { stacks: 'none' }],
  ["stacks 'sampled'", { stacks: 'sampled' }],
  ["stacks 'all'", { stacks: 'all' }],
]

const device = Device.get(0)
console.log(`${device.name}, Node ${process.version}; µs an operation, medians of ${ROUNDS} rounds that take turns\n`)
const line = new ProgressLine()
const lines: (string | number)[][] = []
for (const [title, every] of [
  ['synchronized every 100 items', 100],
  ['synchronized at the end', 1e9],
] as const) {
  for (const operations of [12_500, 25_000, 50_000, 100_000]) {
    const taken = KINDS.map((): number[] => [])
    for (const [, options] of KINDS) measure(device, 500, every, options)
    for (let round = 0; round < ROUNDS; round += 1) {
      line.show(() => `${operations} operations, ${title}: round ${round} of ${ROUNDS}`)
      for (const [index, [, options]] of KINDS.entries()) {
        taken[index]?.push(measure(device, operations / OPERATIONS, every, options))
      }
    }
    const medians = taken.map((values) => median(values) ?? Number.NaN)
    const [without = Number.NaN] = medians
    const added = medians.slice(1).map((value) => `+${(value - without).toFixed(2)}`)
    lines.push([`${operations} operations, ${title}`, without.toFixed(2), ...added])
  }
}
line.erase()
console.log(table(['pipeline', ...KINDS.map(([title]) => title)], lines))
