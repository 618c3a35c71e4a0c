/**
 * What a recording costs: `node dist/bench/timeline.js`. Each call is timed with and without one, in turns, in one run;
 * the medians are printed. On a GPU only the calls are timed, on the simulator also the work of running them.
 * BENCH_ROUNDS (60) adjusts it.
 */
import { Device, defineKernel, type Stream } from 'cuda-streams'
import { Timeline, type TimelineSession } from 'cuda-streams/timeline'
import { ProgressLine } from '../src/foundation/base/standard-error.js'
import { closePipeline, OPERATIONS, openPipeline, runPipeline, SLOTS } from './pipeline.js'
import { median } from './statistics.js'
import { table } from './table.js'

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 60)
const WARM_UP = 10
const CALLS = 1000
const OPERATIONS_OF_PIPELINE = 100_000
const ITEMS_BETWEEN_SYNCHRONIZATIONS = 100
const PIPELINE_ROUNDS = 7

const nothing = defineKernel({
  name: 'nothing',
  source: 'extern "C" __global__ void nothing(int n) {}',
  signature: ['i32'],
  nanoseconds: 1000,
  simulateGrid() {},
})

const device = Device.get(0)
await nothing.prepare(device)
const stream = device.createStream()
const other = device.createStream()
const event = device.createEvent()
other.record(event)
const [pinned, buffer] = [device.allocPinned(4), device.alloc(4)]
const exec = stream.capture(() => void stream.launch(nothing, { grid: 1, block: 1 }, 0)).instantiate()

interface Row {
  readonly title: string
  /** Rows that it writes. */
  readonly operations: number
  readonly call: (stream: Stream) => void
}

const rows: readonly Row[] = [
  { title: 'record(event)', operations: 1, call: (on) => void on.record(event) },
  { title: 'wait(event)', operations: 1, call: (on) => void on.wait(event) },
  { title: 'wait(stream)', operations: 2, call: (on) => void on.wait(other) },
  { title: 'launch(kernel)', operations: 1, call: (on) => void on.launch(nothing, { grid: 1, block: 1 }, 0) },
  { title: 'launch(graph)', operations: 1, call: (on) => void on.launch(exec) },
  { title: 'copy(4 bytes)', operations: 1, call: (on) => void on.copy(buffer, pinned) },
]

/** Nanoseconds a call. */
function time({ call }: Row): number {
  const start = process.hrtime.bigint()
  for (let i = 0; i < CALLS; i += 1) call(stream)
  if (device.driver === 'sim') stream.synchronize()
  const spent = Number(process.hrtime.bigint() - start) / CALLS
  stream.synchronize()
  return spent
}

const line = new ProgressLine()
const lines = []
for (const row of rows) {
  const without: number[] = []
  const recorded: number[] = []
  for (let round = 0; round < ROUNDS + WARM_UP; round += 1) {
    line.show(() => `${row.title}: round ${round} of ${ROUNDS + WARM_UP}`)
    const bare = time(row)
    const recording: TimelineSession = Timeline.start({ device })
    const timed = time(row)
    const timeline = recording.stopNow()
    if (timeline.operations.length < CALLS * row.operations) throw new Error(`${row.title}: rows are missing`)
    // The turns of the event loop in which a recording prepares itself are nobody's.
    await new Promise((resolve) => setImmediate(resolve))
    if (round < WARM_UP) continue
    without.push(bare)
    recorded.push(timed)
  }
  const [bare = 0, timed = 0] = [median(without), median(recorded)]
  const each = (timed - bare) / row.operations
  lines.push([row.title, bare.toFixed(0), timed.toFixed(0), each.toFixed(0)])
}
line.erase()
console.log(
  `${device.name}, driver ${device.driver}, Node ${process.version}; median of ${ROUNDS} rounds of ${CALLS} calls\n`,
)
console.log(table(['nanoseconds a call', 'without', 'recorded', 'more for each operation'], lines))

/**
 * Microseconds of the host's time for an operation of a pipeline over three streams, on a GPU without those spent waiting;
 * and for the end of the recording, when the times are read.
 */
function timePipeline(recorded: boolean): { readonly run: number; readonly end: number } {
  const pipeline = openPipeline(device)
  runPipeline(pipeline, SLOTS, SLOTS)
  const recording = recorded ? Timeline.start({ device }) : undefined
  const start = process.hrtime.bigint()
  const waited = runPipeline(pipeline, OPERATIONS_OF_PIPELINE / OPERATIONS, ITEMS_BETWEEN_SYNCHRONIZATIONS)
  const spent = Number(process.hrtime.bigint() - start) - (device.driver === 'sim' ? 0 : waited)
  const atEnd = process.hrtime.bigint()
  const timeline = recording?.stopNow()
  const end = Number(process.hrtime.bigint() - atEnd)
  const written = timeline?.operations.length ?? OPERATIONS_OF_PIPELINE
  if (written < OPERATIONS_OF_PIPELINE) throw new Error(`of the pipeline only ${written} operations were written`)
  closePipeline(pipeline)
  return { run: spent / 1000 / OPERATIONS_OF_PIPELINE, end: end / 1000 / OPERATIONS_OF_PIPELINE }
}

const pipelines: Record<'without' | 'recorded' | 'end', number[]> = { without: [], recorded: [], end: [] }
for (let round = 0; round <= PIPELINE_ROUNDS; round += 1) {
  line.show(() => `a pipeline: round ${round} of ${PIPELINE_ROUNDS}`)
  const [without, recorded] = [timePipeline(false), timePipeline(true)]
  await new Promise((resolve) => setImmediate(resolve))
  if (round === 0) continue
  pipelines.without.push(without.run)
  pipelines.recorded.push(recorded.run)
  pipelines.end.push(recorded.end)
}
line.erase()
const [plain = 0, withRecording = 0, end = 0] = [pipelines.without, pipelines.recorded, pipelines.end].map(median)
console.log(
  `\na pipeline of ${OPERATIONS_OF_PIPELINE} operations, µs each, median of ${PIPELINE_ROUNDS}: ${plain.toFixed(2)} without, ${withRecording.toFixed(2)} recorded, ${(withRecording - plain).toFixed(2)} more; ${end.toFixed(2)} to read the times at the end`,
)

const began = process.hrtime.bigint()
Timeline.start({ device }).stopNow()
console.log(`\nto start and stop a recording: ${(Number(process.hrtime.bigint() - began) / 1e6).toFixed(2)} ms`)
