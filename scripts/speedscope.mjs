// Has speedscope, the program itself in a browser, open a recording, and compares what it shows with the recording.
// `npm run build && node scripts/speedscope.mjs`: speedscope is installed into .cache/; where that or a Chromium is not to be
// had, it is skipped, which is printed. Perfetto's trace processor is on no package registry: tests/tools/timeline/trace-readers.ts
// reads as it does.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { findChromium } from '../dist/tests/helpers/chromium.js'
import { install } from './run-times.mjs'

const VERSION = '1.25.0'
const ITEMS = 2000
const BYTES = 250_000

const executablePath = findChromium()
const folder = tryTo(() => install(`speedscope-${VERSION}`, `speedscope@${VERSION}`))
if (executablePath === undefined) console.log('speedscope is skipped: there is no Chromium on the PATH')
else if (folder !== undefined) await compare(join(folder, 'node_modules/speedscope/dist/release/index.html'))

async function compare(viewer) {
  const scratch = mkdtempSync(join(tmpdir(), 'cuda-streams-speedscope-'))
  try {
    const timeline = await record()
    const trace = join(scratch, 'trace.json')
    await timeline.save(trace)
    const { shown, warnings } = await open(viewer, trace, join(scratch, 'shown.json'))
    assert.deepEqual(warnings, [], 'speedscope complains of nothing')
    const recorded = recordedOn(timeline)
    assert.deepEqual(shown.sort(), recorded.sort())
    console.log(`speedscope ${VERSION} shows ${shown.length} operations of streams as they were recorded`)
  } finally {
    rmSync(scratch, { recursive: true })
  }
}

/** Copies of 5 µs right behind each other, kernels that wait for them, host functions, and a graph. */
async function record() {
  const { Stream } = await import('../dist/src/entry-points/index.js')
  const { busy, simulate } = await import('../dist/src/entry-points/sim.js')
  const { nameStream, Timeline } = await import('../dist/src/entry-points/timeline.js')
  const simulation = simulate()
  const [device] = simulation.devices
  const [upload, compute] = ['upload', 'compute'].map((name) => nameStream(new Stream({ device }), name))
  const [memory, pinned] = [device.alloc(BYTES), device.allocPinned(BYTES)]
  const exec = compute.capture(() => busy(compute, 333)).instantiate()
  return Timeline.record(
    async () => {
      for (let item = 0; item < ITEMS; item += 1) {
        upload.copy(memory, pinned).copy(memory, pinned)
        compute.wait(upload)
        busy(compute, 1001 + item)
        compute.launch(exec)
        if (item % 50 === 49) compute.launchHostFunc(() => upload.synchronize())
        if (item % 100 === 99) compute.synchronize()
      }
      await compute.finished()
    },
    { simulation },
  )
}

function recordedOn({ operations }) {
  const takesTime = ({ kind, start, end }) => !['record', 'wait', 'allocate', 'free'].includes(kind) || end > start
  return operations
    .filter(takesTime)
    .map(({ name, stream, start, end, graph }) =>
      text(graph === undefined ? stream.name : `${stream.name}, graph nodes 1`, name, end - start),
    )
}

function text(stream, name, duration) {
  return `${stream}: ${name} ${Math.round(duration)} ns`
}

/** What it exports is what it shows. */
async function open(viewer, trace, to) {
  const { chromium } = await import('playwright-core')
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--allow-file-access-from-files'] })
  try {
    const page = await browser.newPage({ acceptDownloads: true })
    const warnings = []
    page.on('console', (message) => {
      if (/Tried to end|still open/.test(message.text())) warnings.push(message.text())
    })
    await page.goto(pathToFileURL(viewer).href)
    await page.waitForSelector('input[type=file]', { state: 'attached' })
    await page.setInputFiles('input[type=file]', trace)
    await page.waitForSelector('text=Export')
    const download = page.waitForEvent('download')
    await page.keyboard.press('Control+s')
    await (await download).saveAs(to)
    const { profiles, shared } = JSON.parse(readFileSync(to, 'utf8'))
    return { shown: profiles.flatMap((profile) => slicesOf(profile, shared.frames)), warnings }
  } finally {
    await browser.close()
  }
}

function slicesOf({ name, unit, events }, frames) {
  assert.equal(unit, 'microseconds')
  const [, stream] = /^Simulated GPU \(pid 0\), (.*) \(tid \d+\)$/.exec(name) ?? []
  if (stream === undefined) return []
  const open = []
  const slices = []
  for (const { type, frame, at } of events) {
    if (type === 'O') open.push({ frame, at })
    else slices.push(text(stream, frames[frame].name.replace(/ \{.*/, ''), (at - open.pop().at) * 1000))
  }
  return slices
}

function tryTo(get) {
  try {
    return get()
  } catch (error) {
    console.log(`speedscope is skipped: it cannot be installed (${error.message.split('\n')[0]})`)
    return undefined
  }
}
