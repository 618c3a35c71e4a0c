/** Runs a program once, looked at by the sanitizer and recorded; or in every order that could matter; or counts what its kernels do. The same in Node and in a page. */
import * as cuda from 'cuda-streams'
import * as sanitizer from 'cuda-streams/sanitizer'
import * as sim from 'cuda-streams/sim'
import * as timeline from 'cuda-streams/timeline'
import { format } from 'node-inspect-extracted'
import { driverOf } from '../../../../dist/src/core/device.js'
import { collectingUncaught } from '../../../../dist/src/foundation/base/uncaught.js'
import { backendOf } from '../../../../dist/src/foundation/driver/wrappable-driver.js'
import { Ranges } from '../../../../dist/src/simulator/handles.js'
import { SimDriver } from '../../../../dist/src/simulator/sim-driver.js'
import { observed, observedError, runOnce } from '../../../../dist/src/tools/explore/run.js'
import { parseSchedule, Route } from '../../../../dist/src/tools/explore/search.js'
import type { PageData } from '../../../../dist/src/tools/timeline/page-format.js'
import { pageDataOf } from '../../../../dist/src/tools/timeline/timeline.js'
import { assert } from './assert.js'
import { type Body, brief, compile, lineIn } from './compile.js'
import { insertionsIn } from './insertions.js'
import { kernelModule } from './kernel-modules.js'
import type { Explored, Failure, Finding, KernelTexts, Level, Memory, Order, Outcome, Ran, Side } from './messages.js'
import * as timers from './timers.js'

export type Tell = (level: Level, text: string) => void

const MODULES: Readonly<Record<string, unknown>> = {
  'cuda-streams': cuda,
  'cuda-streams/sim': sim,
  'cuda-streams/sanitizer': sanitizer,
  'cuda-streams/timeline': timeline,
  'node:assert/strict': assert,
  'node:assert': assert,
  'node:timers/promises': timers,
}

/** Bytes of a buffer that are shown. */
const MOST_SHOWN = 64
const MOST_BUFFERS = 24
const EXPLORED_RUNS = 500
/** Lines of the console: a loop without end must not drown the page. */
const MOST_LINES = 1000
/** Steps of an order that are shown, and how many of them come before the orders part. */
const MOST_STEPS = 400
const BEFORE = 200

/** What a program has made for its variables. */
class Names {
  readonly streams = new Map<string, cuda.Stream>()
  readonly buffers = new Map<string, cuda.DeviceBuffer | cuda.PinnedBuffer>()

  readonly give = (name: string, value: unknown): unknown => {
    const several = name.split(',').map((one) => one.trim())
    if (Array.isArray(value)) {
      for (const [at, one] of value.entries())
        this.give(several.length > 1 ? (several[at] ?? '') : `${name}[${at}]`, one)
    } else if (value instanceof cuda.Stream) {
      const free = unused(this.streams, name)
      this.streams.set(free, value)
      timeline.nameStream(value, free)
    } else if (value instanceof cuda.DeviceBuffer || value instanceof cuda.PinnedBuffer)
      this.buffers.set(unused(this.buffers, name), value)
    return value
  }
}

/** A second one of the name is no variable that a line could be written with. */
function unused(known: ReadonlyMap<string, unknown>, name: string): string {
  let free = name
  for (let nth = 2; known.has(free); nth += 1) free = `${name} #${nth}`
  return free
}

interface Played {
  readonly exports: Record<string, unknown>
  readonly lines: string[]
  readonly names: Names
}

/** Calls the program's body. `devices` stand for the machine's own, where they are given. */
async function play(
  body: Body,
  tell: Tell,
  played: Played,
  kernels: KernelTexts,
  devices?: readonly cuda.Device[],
): Promise<void> {
  const write =
    (level: Level) =>
    (...values: unknown[]): void => {
      const { lines } = played
      if (lines.length > MOST_LINES) return
      const text = lines.length === MOST_LINES ? 'More lines are not shown' : brief(format(...values))
      lines.push(text)
      tell(level, text)
    }
  const [log, warn, error] = [write('log'), write('warn'), write('error')]
  const console = { log, info: log, debug: log, table: log, warn, error, trace: error }
  const modules = new Map<string, unknown>(Object.entries(MODULES))
  if (devices !== undefined) modules.set('cuda-streams', onDevices(devices))
  const require = (name: string): unknown => {
    const file = /^\.\/([\w.-]+\.cu)$/.exec(name)?.[1]
    // As everywhere, each import of a file is the same module.
    if (file !== undefined && !modules.has(name)) modules.set(name, kernelModule(file, kernels[file], require))
    if (modules.has(name)) return modules.get(name)
    throw new Error(
      `'${name}' cannot be imported here: ${[...Object.keys(MODULES), 'a file of kernels such as ./axpy.cu'].join(', ')} can`,
    )
  }
  await body(require, played.exports, console, played.names.give)
}

/** The library with `Device.get()` and `Device.count()` of a simulation. */
function onDevices(devices: readonly cuda.Device[]): object {
  const get = (ordinal = 0): cuda.Device => {
    const device = devices[ordinal]
    if (device === undefined) throw new RangeError(`There is no device ${ordinal}`)
    return device
  }
  const Device = new Proxy(cuda.Device, {
    get: (target, name) => (name === 'get' ? get : name === 'count' ? () => devices.length : Reflect.get(target, name)),
  })
  return { ...cuda, Device }
}

export const newlyPlayed = (): Played => ({ exports: {}, lines: [], names: new Names() })

const exported = (exports: Record<string, unknown>): Record<string, string> =>
  Object.fromEntries(
    Object.keys(exports)
      .filter((name) => name !== '__esModule')
      .map((name) => [name, observed(exports[name]).replaceAll(/\s+/g, ' ')]),
  )

/** Runs it once, on the simulator that programs get where there is no GPU. */
export async function run(code: string, tell: Tell, kernels: KernelTexts = {}): Promise<Ran> {
  const body = compile(code)
  const device = cuda.Device.get(0)
  const played = newlyPlayed()
  const failures: Failure[] = []
  const fail = (error: unknown): void => {
    const line = lineIn(error instanceof Error ? error.stack : undefined)
    const text = brief(observedError(error))
    failures.push({ text, line })
    tell('error', line === undefined ? `Uncaught ${text}` : `Uncaught ${text}\n    at program.ts:${line}`)
  }
  const recording = timeline.Timeline.start({ device, callSites: true })
  // Outermost: its stacks are short, and the recording's frames would be among them.
  const looking = sanitizer.Sanitizer.start({ device, stacks: 'all' })
  await collectingUncaught(fail, async () => {
    try {
      await play(body, tell, played, kernels)
      for (let ordinal = 0; ordinal < cuda.Device.count(); ordinal += 1) await cuda.Device.get(ordinal).finished()
    } catch (error) {
      fail(error)
    }
  })
  const { reports } = looking
  looking.stop()
  const page = pageDataOf(recording.stopNow())
  const data = withOwnSites(page)
  const errors = failures.map(({ text }) => text)
  const outcome: Outcome = { exports: exported(played.exports), console: played.lines, errors }
  return { outcome, failures, findings: reports.map(findingOf), timeline: data, duration: page.duration }
}

/** Lines of the runner are none of the program's. */
function withOwnSites(page: PageData): PageData {
  const own = page.sites.map((site) => (lineIn(site) === undefined ? '' : brief(site)))
  const sites = [...new Set(['', ...own])]
  const site = page.site.map((at) => sites.indexOf(own[at] ?? ''))
  const stalls = page.stalls.map((one) =>
    one.callSite === undefined ? one : { ...one, callSite: brief(one.callSite) },
  )
  return { ...page, sites, site, stalls }
}

function findingOf(report: sanitizer.SanitizerReport): Finding {
  const { kind, severity, first, second, advice, message } = report
  const places = {
    captured: advice.includes('inside the capture') ? second.capturedAt[0] : undefined,
    queued: advice.includes(' is queued') ? second.queuedAt[0] : undefined,
    launched: / is launched (.+)$/.exec(advice)?.[1],
  }
  const before = places.captured ?? places.queued ?? places.launched ?? second.stack[0]
  return {
    kind,
    severity,
    first: first === undefined ? undefined : sideOf(first),
    second: sideOf(second),
    advice: brief(advice),
    message: brief(message.replaceAll(/^\s+at (?!.*\bprogram\.ts:).*\n/gm, '')),
    insertions: insertionsIn(advice, lineIn(before)),
  }
}

const sideOf = ({ what, stream, stack, capturedAt }: sanitizer.ReportedOperation): Side => ({
  what,
  stream,
  line: lineIn(capturedAt[0] ?? stack[0]),
})

/**
 * Runs it once more, and counts what its kernels do, which takes them many times as long. Resolves with nothing for a program that fails: what it fails
 * with is told by the run.
 */
export async function profile(code: string, kernels: KernelTexts = {}): Promise<readonly sim.KernelProfile[]> {
  const body = compile(code)
  const simulation = sim.simulationOf(cuda.Device.get(0))
  let profiles: readonly sim.KernelProfile[] = []
  await collectingUncaught(
    () => {},
    async () => {
      profiles = await simulation.profile(() => play(body, () => {}, newlyPlayed(), kernels)).catch(() => [])
    },
  )
  return profiles
}

/** Runs it in every order that could matter, and tells of the two that come to different ends. */
export async function explore(
  code: string,
  progress: (runs: number, maxRuns: number) => void,
  kernels: KernelTexts = {},
): Promise<Explored> {
  const body = compile(code)
  let played = newlyPlayed()
  const program = async ({ devices }: sim.Simulation): Promise<unknown> => {
    played = newlyPlayed()
    const { exports, lines } = played
    const [device] = devices
    await device?.run(() => play(body, () => {}, played, kernels, devices))
    return { exports: Object.entries(exports), console: lines }
  }
  const found = await sim.explore(program, {
    maxRuns: EXPLORED_RUNS,
    onProgress: ({ runs, maxRuns }) => progress(runs, maxRuns),
  })
  const { verdict, complete, runs, disagreement, deadlock, message } = found
  const orders = disagreement === undefined ? [deadlock] : [disagreement.first, disagreement.second]
  const from = Math.max(0, (disagreement?.step ?? 0) - BEFORE)
  const shown: Order[] = []
  let named = (text: string): string => text
  for (const order of orders) {
    if (order === undefined) continue
    const memory: Memory[][] = []
    named = await memoryInEachStep(program, order.schedule, () => played.names, memory)
    const outcome = outcomeText(order.outcome, played)
    const steps = stepsOf(order, from, memory, named)
    shown.push({ schedule: order.schedule, outcome, steps, from, all: order.listing.split('\n').length })
  }
  const place = disagreement?.missing.split('Missing: ')[1] ?? ''
  const missing = named(brief(disagreement?.missing ?? ''))
  const advice = missing.split('Missing: ')[1] ?? ''
  const [summary = ''] = message.split('\n')
  return {
    verdict,
    complete,
    runs,
    summary: named(brief(summary)),
    missing,
    insertions: insertionsIn(advice, lineIn(place)),
    orders: shown,
  }
}

function outcomeText({ kind, value, uncaught }: sim.Outcome, { exports, lines }: Played): string {
  const results = Object.entries(exported(exports)).map(([name, text]) => `${name} = ${text}`)
  const returned = results.length > 0 ? results : lines
  const end = kind === 'returned' ? returned : [`${kind === 'threw' ? 'throws' : 'waits forever:'} ${value}`]
  return brief([...end, ...uncaught.map((error) => `uncaught ${error}`)].join('\n'))
}

/** Goes that way once more, and looks at the memory after each step. Returns what gives streams their names. */
async function memoryInEachStep(
  program: sim.ExploredProgram,
  schedule: string,
  names: () => Names,
  memory: Memory[][],
): Promise<(text: string) => string> {
  const { devices, deviations } = parseSchedule(schedule)
  const route = new Route(deviations)
  const ranges = new Ranges()
  let look = (): Memory[] => []
  const streams = new Map<string, string>()
  const watched: sim.ExploredProgram = (simulation) => {
    look = () => {
      for (const [name, stream] of names().streams) {
        if (!stream.closed) streams.set(`${Number(stream.id) - 2 * devices}`, name)
      }
      return [...names().buffers].slice(0, MOST_BUFFERS).map(([name, buffer]) => memoryOf(simulation, name, buffer))
    }
    return program(simulation)
  }
  const conditions = { devices, seed: 1, faults: [], ranges, deadline: Number.POSITIVE_INFINITY }
  try {
    await runOnce(
      watched,
      conditions,
      (choices, place, steps) => {
        memory.push(look())
        return route.pick(choices, place, steps)
      },
      true,
    )
    memory.push(look())
  } finally {
    ranges.giveBack()
  }
  const buffers = [...names().buffers]
  const bufferAt = (address: string): string => {
    const at = BigInt(address)
    const found = buffers.find(([, { pointer, byteLength }]) => at >= pointer && at < pointer + BigInt(byteLength))
    return found === undefined ? '' : ` of ${found[0]}`
  }
  return (text) =>
    text
      .replace(/\bstream ?(\d+)\b/g, (whole, number) => streams.get(number) ?? whole)
      .replace(/(\d+) byte\(s\) at (0x[0-9a-f]+)/g, (_, count, address) => `${count} bytes${bufferAt(address)}`)
      .replaceAll(/\bprogram\.ts:(\d+)/g, 'line $1')
}

function memoryOf(
  { devices }: sim.Simulation,
  name: string,
  { pointer, byteLength, closed }: cuda.DeviceBuffer | cuda.PinnedBuffer,
): Memory {
  const [device] = devices
  const driver = device === undefined ? undefined : backendOf(driverOf(device))
  if (closed || !(driver instanceof SimDriver)) return { name, byteLength, bytes: undefined }
  const shown = Math.min(byteLength, MOST_SHOWN)
  try {
    const bytes = driver.memory.bytesAt(Number(pointer) as never, shown, 'cuMemcpy')
    return { name, byteLength, bytes: bytes.slice() }
  } catch {
    return { name, byteLength, bytes: undefined }
  }
}

function stepsOf(
  order: sim.Order,
  from: number,
  memory: readonly Memory[][],
  named: (text: string) => string,
): Order['steps'] {
  const rows = order.listing.split('\n').slice(from, from + MOST_STEPS)
  return rows.map((row, at) => ({
    text: named(brief(row.slice(2).replace(/^\s*\d+\s+/, ''))),
    line: lineIn(row),
    parts: row.startsWith('>'),
    races: row[1] === '*',
    memory: memory[from + at] ?? memory.at(-1) ?? [],
  }))
}
