/**
 * What a recording of a million operations costs: `node --expose-gc dist/bench/recording.js`. Prints the time of a call with and without
 * a recorder, the size of the file, the memory that writing takes, and how long it takes to check, to draw and to play again.
 * BENCH_ROUNDS (1 000 000) is the number of operations.
 */
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Device } from 'cuda-streams'
import { Recorder } from 'cuda-streams/recording'
import { checkRecording } from '../src/tools/recording/check.js'
import { Reader } from '../src/tools/recording/reader.js'
import { timelineOfRecording } from '../src/tools/recording/recorded-timeline.js'
import { whatIf } from '../src/tools/recording/what-if.js'
import { closePipeline, OPERATIONS, openPipeline, runPipeline } from './pipeline.js'

const OPERATIONS_WANTED = Number(process.env['BENCH_ROUNDS'] ?? 1_000_000)
const BETWEEN_WAITS = 100

const device = Device.get(0)
const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-recording-'))
const path = join(folder, 'run.rec')
const items = Math.ceil(OPERATIONS_WANTED / OPERATIONS)
const megabytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`
let most = 0

/** Milliseconds of so many items, and the most memory meanwhile. */
async function run(count: number): Promise<number> {
  const pipeline = await openPipeline(device)
  const began = performance.now()
  for (let done = 0; done < count; done += BETWEEN_WAITS) {
    runPipeline(pipeline, Math.min(BETWEEN_WAITS, count - done), BETWEEN_WAITS)
    device.synchronize()
    most = Math.max(most, process.memoryUsage().rss)
    // As a program does that is alive: the recorder writes what it knows meanwhile.
    if (done % (100 * BETWEEN_WAITS) === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  const took = performance.now() - began
  closePipeline(pipeline)
  return took
}

async function time<R>(what: string, work: () => Promise<R>): Promise<R> {
  const began = performance.now()
  const cpu = process.cpuUsage()
  const result = await work()
  const { user, system } = process.cpuUsage(cpu)
  const seconds = (performance.now() - began) / 1000
  console.log(`${what}: ${seconds.toFixed(1)} s, ${((user + system) / 1e6).toFixed(1)} s of a CPU`)
  return result
}

try {
  await run(10_000)
  globalThis.gc?.()
  most = 0
  const bare = await run(items)
  const without = most
  globalThis.gc?.()
  most = 0
  const recorder = Recorder.start(path, { device })
  const recorded = await run(items)
  await recorder.stop()
  const operations = items * OPERATIONS
  console.log(`${operations} operations, driver ${device.driver}`)
  console.log(
    `a call: ${((1e6 * bare) / operations).toFixed(0)} ns, recorded ${((1e6 * recorded) / operations).toFixed(0)} ns`,
  )
  const { size } = statSync(path)
  console.log(`the file: ${megabytes(size)}, ${(size / operations).toFixed(1)} bytes an operation`)
  console.log(`memory while writing: ${megabytes(most - without)} more than without`)
  const { reports, calls } = await time('check', () => checkRecording(new Reader(path)))
  console.log(`  ${calls} calls, ${reports.length} findings`)
  await time('timeline', async () => (await timelineOfRecording(new Reader(path))).toText())
  const { recorded: took, played } = await time('what-if, one change', () => whatIf(path, [{ kind: 'idle-host' }], 60))
  console.log(`  recorded ${(took / 1e6).toFixed(1)} ms, played again ${(played / 1e6).toFixed(1)} ms`)
} finally {
  rmSync(folder, { recursive: true })
}
