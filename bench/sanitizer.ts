/**
 * What the sanitizer costs: `node dist/bench/sanitizer.js`. A pipeline over three streams, without it and with it in turns, in
 * one process on the default driver; microseconds an operation that the sanitizer adds, and how that grows.
 */
import { Device, type DeviceBuffer, type Event, type PinnedBuffer, Stream } from 'cuda-streams'
import { Sanitizer, type SanitizerOptions } from 'cuda-streams/sanitizer'
import { median, table } from './table.js'

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 7)
const SLOTS = 4
const BYTES = 1024
/** Calls for each item of the pipeline. */
const CALLS = 10

interface Slot {
  readonly input: PinnedBuffer
  readonly data: DeviceBuffer
  readonly result: DeviceBuffer
  readonly output: PinnedBuffer
  readonly uploaded: Event
  readonly computed: Event
  readonly downloaded: Event
}

interface Pipeline {
  readonly upload: Stream
  readonly compute: Stream
  readonly download: Stream
  readonly slots: readonly Slot[]
}

function open(device: Device): Pipeline {
  const stream = (): Stream => new Stream({ device })
  const slot = (): Slot => ({
    input: device.allocPinned(BYTES),
    data: device.alloc(BYTES),
    result: device.alloc(BYTES),
    output: device.allocPinned(BYTES),
    uploaded: device.createEvent(),
    computed: device.createEvent(),
    downloaded: device.createEvent(),
  })
  const pipeline = {
    upload: stream(),
    compute: stream(),
    download: stream(),
    slots: Array.from({ length: SLOTS }, slot),
  }
  device.synchronize()
  return pipeline
}

function go({ upload, compute, download, slots }: Pipeline, items: number, synchronizeEvery: number): void {
  for (let item = 0; item < items; item += 1) {
    const { input, data, result, output, uploaded, computed, downloaded } = slots[item % SLOTS] as Slot
    upload.wait(downloaded)
    upload.copy(data, input)
    upload.record(uploaded)
    compute.wait(uploaded)
    compute.fill(result, item % 256)
    compute.copy(result, data)
    compute.record(computed)
    download.wait(computed)
    download.copy(output, result)
    download.record(downloaded)
    if (item % synchronizeEvery === synchronizeEvery - 1) download.synchronize()
  }
  download.synchronize()
}

/** Microseconds an operation, of a run in which every event has been recorded before. */
function measure(device: Device, items: number, every: number, options: SanitizerOptions | undefined): number {
  const pipeline = open(device)
  const sanitizer = options === undefined ? undefined : Sanitizer.start({ ...options, device })
  go(pipeline, SLOTS, SLOTS)
  const start = process.hrtime.bigint()
  go(pipeline, items, every)
  const nanoseconds = Number(process.hrtime.bigint() - start)
  sanitizer?.stop()
  const errors = sanitizer?.reports.filter(({ severity }) => severity === 'error') ?? []
  if (errors.length > 0) throw new Error(errors[0]?.message)
  for (const { input, data, result, output } of pipeline.slots) {
    for (const buffer of [input, data, result, output]) buffer.close()
  }
  for (const stream of [pipeline.upload, pipeline.compute, pipeline.download]) stream.close()
  return nanoseconds / 1000 / (items * CALLS)
}

const KINDS: readonly (readonly [string, SanitizerOptions | undefined])[] = [
  ['without', undefined],
  ["stacks 'none'", { stacks: 'none' }],
  ["stacks 'sampled'", { stacks: 'sampled' }],
  ["stacks 'all'", { stacks: 'all' }],
]

const device = Device.get(0)
console.log(`${device.name}, Node ${process.version}; µs an operation, medians of ${ROUNDS} rounds that take turns\n`)
const lines: (string | number)[][] = []
for (const [title, every] of [
  ['synchronized every 100 items', 100],
  ['synchronized at the end', 1e9],
] as const) {
  for (const operations of [12_500, 25_000, 50_000, 100_000]) {
    const taken = KINDS.map((): number[] => [])
    for (const [, options] of KINDS) measure(device, 500, every, options)
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const [index, [, options]] of KINDS.entries()) {
        taken[index]?.push(measure(device, operations / CALLS, every, options))
      }
    }
    const medians = taken.map((values) => median(values) ?? Number.NaN)
    const [without = Number.NaN] = medians
    const added = medians.slice(1).map((value) => `+${(value - without).toFixed(2)}`)
    lines.push([`${operations} operations, ${title}`, without.toFixed(2), ...added])
  }
}
console.log(table(['pipeline', ...KINDS.map(([title]) => title)], lines))
