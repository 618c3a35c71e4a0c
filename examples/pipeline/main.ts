/**
 * `npm start`: the pipeline, on whatever driver is there, beside the two ways in which it is usually written. Writes
 * timeline.html, and with `--svg FILE.svg` a picture of the first frames, and FILE-narrow.svg for
 * phones.
 */
import { writeFileSync } from 'node:fs'
import { Device } from 'cuda-streams'
import { simulationOf } from 'cuda-streams/sim'
import { nameStream, Timeline } from 'cuda-streams/timeline'
import { FRAME_BYTES, type Ordering, openStages, type Run, runPipeline } from './pipeline.js'

const FRAMES = 48
const PAGE = 'timeline.html'
/** How much of the pipeline each picture shows, by the end of its name. */
const PICTURES = [
  ['.svg', { nanoseconds: 5.5e6, width: 720 }],
  ['-narrow.svg', { nanoseconds: 3e6, width: 342 }],
] as const

const device = Device.get(0)
const isSimulated = device.driver === 'sim'
const clock = isSimulated ? (): number => simulationOf(device).now / 1e6 : (): number => performance.now()

console.log(
  isSimulated ? 'Driver: sim, a simulated GPU. Times are virtual.' : `Driver: cuda, ${device.name}. Times are real.`,
)
const stages = await openStages(device)
console.log(
  `\n${FRAMES} frames of ${FRAME_BYTES / 1024} KiB through ${stages.length} stages, each on a stream of its own:`,
)
for (const { name, stream, nanoseconds } of stages) {
  nameStream(stream, name)
  console.log(`  ${name.padEnd(8)} ${(nanoseconds / 1e6).toFixed(1)} ms a frame   ${stream}`)
}
console.log('\nQueuing all frames at once; a host function tells when each is done:')
await runPipeline(device, stages, 'events', 4, clock)
const runs: Run[] = []
const begun = clock()
const timeline = await Timeline.record(
  async () => {
    runs.push(await runPipeline(device, stages, 'events', FRAMES, clock, report))
  },
  { device },
)
for (const ordering of ['one stream', 'synchronize()', 'nothing'] as const) {
  runs.push(await runPipeline(device, stages, ordering, FRAMES, clock))
}
printTable(runs)
writeFileSync(PAGE, timeline.toHtml({ title: 'Frames through three streams' }))
console.log(`\nWhat the streams did in the first of these runs: open ${PAGE} in a browser.`)
const picture = process.argv.indexOf('--svg')
if (picture >= 0) drawInto((process.argv[picture + 1] ?? 'timeline.svg').replace(/\.svg$/, ''))
const [events, , , nothing] = runs
if (events?.right !== FRAMES || nothing === undefined || nothing.right === FRAMES) {
  console.error('\nNot as expected: every frame should be right with events, and not without them.')
  process.exitCode = 1
}

function report(frame: number): void {
  if ((frame + 1) % 8 === 0)
    console.log(`  frame ${String(frame + 1).padStart(2)} done at ${(clock() - begun).toFixed(1)} ms`)
}

function printTable(all: readonly Run[]): void {
  const titles: Readonly<Record<Ordering, string>> = {
    events: 'three streams, joined by events',
    'one stream': 'one stream',
    'synchronize()': 'three streams, synchronize() between stages',
    nothing: 'three streams, the waits left out',
  }
  console.log(`\n${'how the stages are joined'.padEnd(44)} frames  right  ms a frame`)
  for (const { ordering, frames, right, milliseconds } of all) {
    const perFrame = (milliseconds / frames).toFixed(2)
    console.log(
      `${titles[ordering].padEnd(44)} ${String(frames).padStart(6)}  ${String(right).padStart(5)}  ${perFrame.padStart(10)}`,
    )
  }
  console.log(
    '\nWithout the waits it is faster, and wrong: a stage works on a frame that the one before has not finished.',
  )
}

/** The first frames, from the first operation on. */
function drawInto(path: string): void {
  const names = stages.map(({ name }) => name)
  const first = timeline.operations.find(({ stream, kind }) => names.includes(stream.name) && kind !== 'wait')
  const from = first?.start ?? 0
  for (const [end, { nanoseconds, width }] of PICTURES)
    writeFileSync(path + end, timeline.toSvg({ from, to: from + nanoseconds, width }))
}
