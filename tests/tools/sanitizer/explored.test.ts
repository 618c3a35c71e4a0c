/**
 * Exploration as the judge: where every order of a random program comes to the same, the sanitizer says nothing; where two
 * do not, it has seen the race in one run of the default schedule. Nothing that a program writes can be undone by another write,
 * so every race shows in some order.
 */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import {
  type DefinedKernel,
  type Device,
  type DeviceBuffer,
  defineKernel,
  ExternalStream,
  type Graph,
  PinnedBuffer,
  Stream,
} from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { destroyForeignStream, explore, foreignStream, type Simulation, simulate } from 'cuda-streams/sim'
import fc from 'fast-check'
import { runs } from '../../helpers/effort.js'
import { stepsOf, streamsOf, useOf, type Weights } from '../../programs/generate.js'
import type { StepOf, Use } from '../../programs/steps.js'
import { giveUp } from './judged-play.js'

const PROGRAMS = runs({ quick: 50, normal: 50, nightly: 500 })
const WORDS = 2
const EVENTS = 2
/** Memory 0 is on the device, memory 1 is pinned, memory 2 an array that is registered, which streams only read. */
const PIECES = 3
const ARRAY = 2
/** Word 0 is for writes of any stream, word 1 for those of the stream that writes there first. */
const FLAGS = 2

type StreamKind = 'nonBlocking' | 'blocking' | 'null' | 'foreign' | 'foreignBlocking'
/** `waitWord` is for so many of the writes of word 1, as far as there are; for any of word 0. */
type Step = StepOf<
  | 'work'
  | 'record'
  | 'wait'
  | 'waitStream'
  | 'giveUpCapture'
  | 'replace'
  | 'host'
  | 'synchronizeStream'
  | 'awaitStream'
  | 'promise'
  | 'launchGraph'
  | 'writeWord'
  | 'waitWord'
  | 'look'
  | 'array'
  | 'drain'
>

interface GraphUse {
  readonly side: number
  readonly waits: boolean
  readonly use: Use
}

interface Program {
  readonly streams: readonly StreamKind[]
  /** Uses of a graph on two branches, and whether each waits for the other branch. */
  readonly graph: readonly GraphUse[]
  /** The graph, and one that is like it, are launched within another, on these branches of that one. */
  readonly within: readonly { readonly side: number; readonly waits: boolean }[]
  /** Another capture adds this to the graph, behind all of it or behind nothing. */
  readonly added: { readonly use: Use; readonly isBehind: boolean } | undefined
  /** What words hold at the beginning. */
  readonly held: number
  readonly steps: readonly Step[]
}

type Looks = 'host' | 'view' | 'array' | 'values'

const use = useOf(fc.nat(PIECES - 1), WORDS).map((one) => ({ ...one, writes: one.writes && one.memory !== ARRAY }))
const RANGES = {
  event: EVENTS,
  graph: 1,
  device: 1,
  flag: FLAGS,
  value: fc.integer({ min: 1, max: 3 }),
  used: use,
  uses: use.map((one) => [one]),
}
const WEIGHTS: Weights<Step['what']> = {
  work: 42,
  record: 6,
  wait: 6,
  waitStream: 24,
  launchGraph: 6,
  promise: 6,
  replace: 6,
  giveUpCapture: 6,
}
// That a host function has run is taken as a fact, so where JavaScript waits meanwhile one run does not tell of all.
const WAITS: Weights<Step['what']> = { synchronizeStream: 6, awaitStream: 6 }
const LOOKS: Readonly<Record<Looks, Weights<Step['what']>>> = {
  host: { host: 15, drain: 3 },
  view: { look: 18, ...WAITS },
  array: { array: 18, ...WAITS },
  values: { writeWord: 36, waitWord: 18, ...WAITS },
}

const STREAMS: readonly StreamKind[] = ['nonBlocking', 'nonBlocking', 'blocking', 'null', 'foreign', 'foreignBlocking']
const programs: fc.Arbitrary<Program> = fc
  .record({
    streams: streamsOf(STREAMS, 2, 3),
    graph: fc.array(fc.record({ side: fc.nat(1), waits: fc.boolean(), use }), { minLength: 1, maxLength: 3 }),
    within: fc.oneof(fc.constant([]), fc.array(fc.record({ side: fc.nat(1), waits: fc.boolean() }), { maxLength: 2 })),
    added: fc.option(fc.record({ use, isBehind: fc.boolean() }), { nil: undefined, freq: 2 }),
    held: fc.constantFrom(0, 0, 0, 1),
    looks: fc.constantFrom<Looks>('host', 'view', 'array', 'values', 'values'),
  })
  .chain(({ streams, looks, ...others }) =>
    stepsOf<Step['what']>(
      { ...WEIGHTS, ...LOOKS[looks] },
      { ...RANGES, stream: streams.length },
      { minLength: 3, maxLength: 11 },
    ).map((steps) => ({ streams, ...others, steps })),
  )

const word = (memory: number, writes: boolean): Use => ({ memory, start: 0, end: 1, writes })
const rest = {
  graph: [{ side: 0, waits: false, use: word(0, false) }],
  within: [],
  added: undefined,
  held: 0,
}
/** What random programs seldom come upon. */
const found: readonly Program[] = [
  {
    // A record without timing leaves a blocking stream as idle as it was: the wait for it does not wait for the null stream.
    streams: ['null', 'blocking'],
    ...rest,
    steps: [
      { what: 'work', stream: 0, uses: [word(1, true)] },
      { what: 'record', stream: 1, event: 0 },
      { what: 'synchronizeStream', stream: 1 },
      { what: 'look' },
    ],
  },
  {
    // To wait for an event that was never recorded is no work of the null stream, which would order the blocking streams.
    streams: ['blocking', 'blocking', 'null'],
    ...rest,
    steps: [
      { what: 'work', stream: 0, uses: [word(1, false)] },
      { what: 'wait', stream: 2, event: 0 },
      { what: 'host', stream: 1 },
    ],
  },
  {
    // A promise is no more than such a record: to wait for the stream is still not to wait for the null stream.
    streams: ['null', 'blocking', 'nonBlocking'],
    ...rest,
    steps: [
      { what: 'work', stream: 0, uses: [word(0, true)] },
      { what: 'promise', stream: 1 },
      { what: 'synchronizeStream', stream: 1 },
      { what: 'work', stream: 2, uses: [word(0, true)] },
    ],
  },
  {
    // On the null stream that record is work.
    streams: ['blocking', 'blocking', 'null'],
    ...rest,
    steps: [
      { what: 'work', stream: 0, uses: [word(0, true)] },
      { what: 'promise', stream: 2 },
      { what: 'work', stream: 1, uses: [word(0, true)] },
    ],
  },
]

type Buffer = DeviceBuffer | PinnedBuffer
type Work = DefinedKernel<readonly ['inout u32*']> | DefinedKernel<readonly ['in u32*']>

/** A kernel that no other commutes with, or one that tells what it read. */
function workOf(index: number, writes: boolean, seen: string[]): Work {
  const [factor, term] = [2 * index + 3, 7 * index * index + 1]
  if (writes) {
    return defineKernel({
      name: `write${index}`,
      source: '',
      signature: ['inout u32*'],
      simulateGrid: (_, words) => {
        for (const [at, word] of words.entries()) words[at] = Math.imul(word, factor) + term
      },
    })
  }
  return defineKernel({
    name: `read${index}`,
    source: '',
    signature: ['in u32*'],
    simulateGrid: (_, words) => {
      seen[index] = `${seen[index] ?? ''} ${[...words]}`
    },
  })
}

/** What JavaScript does to pinned memory: nothing else commutes with it. */
function look(words: Uint32Array, index: number): void {
  for (const [at, word] of words.entries()) words[at] = Math.imul(word, 2 * index + 3) + 7 * index * index + 2
}

const at = <T>(list: readonly T[], index: number): T => list[index] as T

function open(kind: StreamKind, device: Device, foreign: Map<Stream, bigint>): Stream {
  if (kind === 'null') return device.defaultStream
  if (kind === 'nonBlocking' || kind === 'blocking') return new Stream({ device, nonBlocking: kind === 'nonBlocking' })
  const handle = foreignStream(device, { nonBlocking: kind === 'foreign' })
  const stream = new ExternalStream(handle, { device })
  foreign.set(stream, handle)
  return stream
}

async function run(
  { streams: kinds, graph, within, added, held, steps: all }: Program,
  simulation: Simulation,
): Promise<unknown> {
  const [device] = simulation.devices
  if (device === undefined) throw new Error('a simulation has a device')
  const seen: string[] = []
  const foreign = new Map<Stream, bigint>()
  const streams = kinds.map((kind) => open(kind, device, foreign))
  const replace = (index: number): void => {
    const [stream, kind] = [at(streams, index), at(kinds, index)]
    if (kind === 'null') return
    stream.close()
    const handle = foreign.get(stream)
    if (handle !== undefined) destroyForeignStream(handle)
    streams[index] = open(kind, device, foreign)
  }
  const giveUpCapture = (origin: number, other: number, used: Use): void => {
    const joined = at(streams, other)
    if (kinds[origin] === 'null' || kinds[other] === 'null' || origin === other) return
    at(streams, origin).beginCapture()
    joined.wait(at(streams, origin))
    work(joined, 0, used)
    replace(origin)
  }
  const events = Array.from({ length: EVENTS }, () => device.createEvent())
  const pinned = device.allocPinned(4 * WORDS)
  const data = device.alloc(4 * WORDS)
  device.defaultStream.fill(data, 1)
  pinned.bytes.fill(1)
  const array = new Uint32Array(WORDS).fill(1)
  const registered = PinnedBuffer.from(array, { device })
  const flags = device.allocPinned(4 * FLAGS)
  flags.view(Uint32Array).fill(held)
  device.synchronize()

  const work = (stream: Stream, index: number, { memory, start, end, writes }: Use): void => {
    const buffer = at<Buffer>([data, pinned, registered], memory)
    const part = buffer.subarray(4 * start, 4 * end)
    stream.launch(workOf(index, writes, seen) as DefinedKernel<readonly ['inout u32*']>, { grid: 1, block: 1 }, part)
  }
  const [main, side] = [new Stream({ device }), new Stream({ device })]
  const capture = <T extends { readonly side: number; readonly waits: boolean }>(
    each: readonly T[],
    queue: (stream: Stream, one: T, index: number) => unknown,
  ): Graph =>
    main.capture(() => {
      side.wait(main)
      for (const [index, one] of each.entries()) {
        const [stream, other] = one.side === 0 ? [main, side] : [side, main]
        if (one.waits) stream.wait(other)
        queue(stream, one, index)
      }
      main.wait(side)
    })
  const captured = capture(graph, (stream, { use: used }, index) => work(stream, 100 + index, used))
  // The same kernel twice comes to the same in both orders.
  const alike = capture(graph, (stream, { use: used }, index) => work(stream, 300 + index, used))
  if (added !== undefined) {
    const after = added.isBehind ? captured.nodes : []
    main.capture(() => work(main, 200, added.use), { into: captured, after })
  }
  const launchInner = (stream: Stream, _: unknown, index: number) => stream.launch(index === 0 ? captured : alike)
  const outer = within.length === 0 ? captured : capture(within, launchInner)
  const exec = outer.instantiate()
  // A stream waits for writes that are queued already: none can be missed. Word 0 is not written any more after that.
  const written = { counts: [0, 0], by: undefined as number | undefined, isAwaited: false }
  const writeValue = (index: number, flag: number): void => {
    if (flag === 0 && written.isAwaited) return
    if (flag === 1 && (written.by ?? index) !== index) return
    if (flag === 1) written.by = index
    written.counts[flag] = (written.counts[flag] ?? 0) + 1
    at(streams, index).writeValue(flags, held + (written.counts[flag] ?? 0), { byteOffset: 4 * flag })
  }
  const waitValue = (index: number, flag: number, writes: number): void => {
    const most = written.counts[flag] ?? 0
    if (flag === 0 && most > 0) written.isAwaited = true
    if (most > 0) at(streams, index).waitValue(flags, flag === 0 ? 1 : Math.min(writes, most), { byteOffset: 4 * flag })
  }

  for (const [index, step] of all.entries()) {
    if (step.what === 'work') for (const used of step.uses) work(at(streams, step.stream), index, used)
    else if (step.what === 'record') at(streams, step.stream).record(at(events, step.event))
    else if (step.what === 'wait') at(streams, step.stream).wait(at(events, step.event))
    else if (step.what === 'waitStream') at(streams, step.stream).wait(at(streams, step.other))
    else if (step.what === 'host') at(streams, step.stream).launchHostFunc(() => look(pinned.view(Uint32Array), index))
    else if (step.what === 'writeWord') writeValue(step.stream, step.flag)
    else if (step.what === 'waitWord') waitValue(step.stream, step.flag, step.value)
    else if (step.what === 'array') look(array, index)
    else if (step.what === 'drain') device.drainHostFunctions()
    else if (step.what === 'synchronizeStream') at(streams, step.stream).synchronize()
    else if (step.what === 'awaitStream') await at(streams, step.stream).finished()
    else if (step.what === 'promise') giveUp(at(streams, step.stream))
    else if (step.what === 'replace') replace(step.stream)
    else if (step.what === 'giveUpCapture') giveUpCapture(step.stream, step.other, step.used)
    else if (step.what === 'launchGraph') exec.launch(at(streams, step.stream))
    else look(pinned.view(Uint32Array), index)
  }
  await device.finished()
  const last = device.allocPinned(4 * WORDS)
  device.defaultStream.copy(last, data)
  device.defaultStream.synchronize()
  return { seen, words: [...last.view(Uint32Array), ...pinned.view(Uint32Array), ...array] }
}

async function isReported(program: Program): Promise<boolean> {
  using simulation = simulate()
  const [device] = simulation.devices
  using sanitizer = Sanitizer.start({ device, stacks: 'none' })
  await run(program, simulation)
  return sanitizer.reports.some(({ severity }) => severity === 'error')
}

it(`agrees with exploration on ${PROGRAMS} programs`, async (context) => {
  const counts = { agree: 0, disagree: 0, unknown: 0 }
  let runs = 0
  await fc.assert(
    fc.asyncProperty(programs, async (program) => {
      const found = await explore((simulation) => run(program, simulation), { maxRuns: 200, strategy: 'reduced' })
      runs += found.runs
      const { verdict, complete } = found
      assert.notEqual(verdict, 'deadlock', found.message)
      const reported = await isReported(program)
      counts[verdict === 'disagree' ? 'disagree' : complete ? 'agree' : 'unknown'] += 1
      if (verdict === 'disagree') assert.ok(reported, `not reported:\n${found.message}`)
      else if (complete) assert.ok(!reported, 'reported, but every order comes to the same')
    }),
    { numRuns: PROGRAMS, examples: found.map((program): [Program] => [program]) },
  )
  context.diagnostic(`${counts.agree} agree, ${counts.disagree} disagree, ${counts.unknown} too large; ${runs} runs`)
  assert.ok(counts.agree > PROGRAMS / 10 && counts.disagree > PROGRAMS / 10 && counts.unknown < PROGRAMS / 5)
})
