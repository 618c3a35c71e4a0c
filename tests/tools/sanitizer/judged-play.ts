/** Programs of streams, events, graphs and memory for the judge, and how they are run under a sanitizer. */
import {
  type Device,
  type Event,
  type Graph,
  type GraphExec,
  type GraphNode,
  type PinnedBuffer,
  Stream,
} from 'cuda-streams'
import { Recorder } from 'cuda-streams/recording'
import { Sanitizer, type SanitizerReport } from 'cuda-streams/sanitizer'
import { simulate } from 'cuda-streams/sim'
import fc from 'fast-check'
import { stepsOf, streamsOf, useOf, type Weights } from '../../programs/generate.js'
import type { Use } from '../../programs/steps.js'
import { accessKernel } from './access-kernel.js'
import type { FlagValue, GraphStep, Happened, Program, Side, Step, StreamKind } from './judge.js'

const EVENTS = 3
/** The last piece of memory is pinned. */
const PIECES = 3
const PINNED = PIECES - 1
/** Bytes of a part of memory, and parts of a piece. */
const GRAIN = 8
const GRAINS = 4
const BYTES = GRAIN * GRAINS
const FLAGS = 2

const pinnedUse = useOf(fc.constant(PINNED), GRAINS, fc.constant(true))
const RANGES = {
  event: EVENTS,
  flag: FLAGS,
  value: fc.integer({ min: 1, max: 3 }),
  uses: fc.array(useOf(fc.nat(PIECES - 1), GRAINS), { minLength: 1, maxLength: 2 }),
  used: pinnedUse,
  perhaps: fc.option(pinnedUse, { nil: undefined }),
  isBehind: fc.boolean(),
  device: 1,
}
const STEPS: Weights<Step['what']> = {
  work: 24,
  record: 9,
  wait: 9,
  waitStream: 15,
  hostUse: 6,
  view: 3,
  synchronizeStream: 3,
  queryStream: 3,
  promise: 3,
  synchronizeEvent: 2,
  queryEvent: 1,
  synchronizeDevice: 1,
  turn: 1,
  drain: 1,
  writeWord: 9,
  waitWord: 6,
  launchGraph: 9,
  replace: 5,
}
const GRAPH_STEPS: Weights<GraphStep['what']> = {
  work: 8,
  join: 4,
  recordExternal: 1,
  waitExternal: 1,
  writeWord: 1,
  again: 1,
}
const graph = (weights: Weights<GraphStep['what']>): fc.Arbitrary<GraphStep[]> =>
  stepsOf(weights, { ...RANGES, stream: 2, graph: 1 }, { minLength: 1, maxLength: 8 })
/** The second one has the first one in it. */
const graphs = fc.tuple(graph(GRAPH_STEPS), graph({ ...GRAPH_STEPS, launchGraph: 3 }))

export const programs: fc.Arbitrary<Program> = fc
  .record({
    streams: streamsOf<StreamKind>(['nonBlocking', 'nonBlocking', 'blocking'], 2, 4),
    withNull: fc.boolean(),
    graphs,
  })
  .chain(({ streams: made, withNull, graphs: captured }) => {
    const streams: readonly StreamKind[] = withNull ? [...made, 'null'] : made
    const ranges = { ...RANGES, stream: streams.length, graph: captured.length }
    return fc.record({
      streams: fc.constant(streams),
      graphs: fc.constant(captured),
      steps: stepsOf(STEPS, ranges, { minLength: 4, maxLength: 40 }),
    })
  })

const part = <B extends { subarray(begin: number, end: number): B }>(buffer: B, start: number, end: number): B =>
  buffer.subarray(start * GRAIN, end * GRAIN)

export interface Run {
  readonly happened: readonly Happened[]
  /** Errors only. */
  readonly reports: readonly SanitizerReport[]
}

/**
 * Runs a program on a machine of its own. The seed decides what queries answer and when host functions run. With a path, the run
 * is recorded there.
 */
export async function runProgram(program: Program, seed: number, causal = false, path?: string): Promise<Run> {
  using simulation = simulate({ seed })
  const [device] = simulation.devices
  if (device === undefined) throw new Error('a simulation has a device')
  const recorder = path === undefined ? undefined : Recorder.start(path, { device, stacks: 'all' })
  try {
    return await runOn(device, program, causal)
  } finally {
    recorder?.stopNow()
  }
}

async function runOn(device: Device, program: Program, causal: boolean): Promise<Run> {
  using sanitizer = Sanitizer.start({ device, stacks: 'all', causal })
  const streams = program.streams.map((kind) =>
    kind === 'null' ? device.defaultStream : new Stream({ device, nonBlocking: kind === 'nonBlocking' }),
  )
  const events = Array.from({ length: EVENTS }, () => device.createEvent())
  const pinned = device.allocPinned(BYTES)
  const pieces = [...Array.from({ length: PINNED }, () => device.alloc(BYTES)), pinned]
  const flags = device.allocPinned(4 * FLAGS)
  const words = flags.view(Uint32Array).fill(0)
  device.synchronize()

  const work = (stream: Stream, touched: readonly Use[]): void => {
    const memory = touched.map(({ memory: piece, start, end }) => part(at(pieces, piece), start, end))
    stream.launch(accessKernel(touched.map(({ writes }) => writes)), { grid: 1, block: 1 }, ...memory)
  }
  const writeValue: Stage['writeValue'] = (stream, { flag: nth, value: number }) =>
    stream.writeValue(flags, number, { byteOffset: 4 * nth })
  const captured: Graph[] = []
  for (const each of program.graphs) {
    captured.push(
      capture(each, [new Stream({ device }), new Stream({ device })], { events, work, writeValue, captured }),
    )
  }
  const graphs = captured.map((each) => each.instantiate())
  const happened: Happened[] = []

  for (const [step, what] of program.steps.entries()) {
    if (what.what === 'turn') {
      await new Promise(setImmediate)
      continue
    }
    const held = [...words]
    try {
      const answer = named(`step${step}`, () =>
        perform(
          what,
          { device, streams, events, graphs, work, flags, writeValue },
          (touched) => {
            happened.push({ ran: step })
            if (touched !== undefined) named(`step${step}`, () => part(pinned, touched.start, touched.end).bytes)
          },
          (touched) => void part(pinned, touched.start, touched.end).bytes,
        ),
      )
      happened.push(answer === undefined ? { step, held } : { step, answer, held })
    } catch (error) {
      if (!isDeadlock(error)) throw error
      // A stream waits for a value that nothing writes: the program ends here.
      return { happened, reports: errorsOf(sanitizer) }
    }
  }
  try {
    device.synchronize()
  } catch (error) {
    if (!isDeadlock(error)) throw error
  }
  return { happened, reports: errorsOf(sanitizer) }
}

const errorsOf = ({ reports }: Sanitizer): readonly SanitizerReport[] =>
  reports.filter(({ severity }) => severity === 'error')

const isDeadlock = (error: unknown): boolean => error instanceof Error && Reflect.get(error, 'code') === 'ERR_DEADLOCK'

/** The record of a promise is there; that it is done, the program never learns. */
export function giveUp(stream: Stream): void {
  const wait = new AbortController()
  stream.finished({ signal: wait.signal }).catch(() => {})
  wait.abort()
}

interface Stage {
  readonly device: Device
  readonly flags: PinnedBuffer
  readonly writeValue: (stream: Stream, value: FlagValue) => void
  readonly streams: Stream[]
  readonly events: readonly Event[]
  readonly graphs: readonly GraphExec[]
  readonly work: (stream: Stream, uses: readonly Use[]) => void
}

function perform(
  step: Step,
  { device, streams, events, graphs, work, flags, writeValue }: Stage,
  ran: (use: Use | undefined) => void,
  view: (use: Use) => void,
): boolean | undefined {
  switch (step.what) {
    case 'work':
      work(at(streams, step.stream), step.uses)
      return undefined
    case 'record':
      at(streams, step.stream).record(at(events, step.event))
      return undefined
    case 'wait':
      at(streams, step.stream).wait(at(events, step.event))
      return undefined
    case 'waitStream':
      at(streams, step.stream).wait(at(streams, step.other))
      return undefined
    case 'hostUse':
      at(streams, step.stream).launchHostFunc(ran, step.perhaps)
      return undefined
    case 'view':
      view(step.used)
      return undefined
    case 'queryStream':
      return at(streams, step.stream).query()
    case 'queryEvent':
      return at(events, step.event).query()
    case 'promise':
      giveUp(at(streams, step.stream))
      return undefined
    case 'synchronizeStream':
      at(streams, step.stream).synchronize()
      return undefined
    case 'synchronizeEvent':
      at(events, step.event).synchronize()
      return undefined
    case 'synchronizeDevice':
      device.synchronize()
      return undefined
    case 'drain':
      device.drainHostFunctions()
      return undefined
    case 'writeWord':
      writeValue(at(streams, step.stream), step)
      return undefined
    case 'waitWord':
      at(streams, step.stream).waitValue(flags, step.value, { byteOffset: 4 * step.flag })
      return undefined
    case 'launchGraph':
      at(graphs, step.graph).launch(at(streams, step.stream))
      return undefined
    case 'replace':
      replace(streams, step.stream, device)
      return undefined
    case 'turn':
      return undefined
  }
}

/** At so many closed streams the sanitizer looks which of their components can be used again: those that were made first come first. */
const PASSING = 16

/** Closes a stream and makes another in its place. Others that wait for it come and go, too, which orders nothing. */
function replace(streams: Stream[], place: number, device: Device): void {
  const old = at(streams, place)
  if (old === device.defaultStream) return
  const { nonBlocking } = old
  const passing = Array.from({ length: PASSING }, () => new Stream({ device }))
  for (const each of passing) each.wait(old)
  old.close()
  for (const each of passing) each.close()
  streams[place] = new Stream({ device, nonBlocking })
}

type CaptureStage = Pick<Stage, 'events' | 'work' | 'writeValue'> & { readonly captured: readonly Graph[] }

/** What follows an `again` is captured into the graph of what was before. */
function capture(
  steps: readonly GraphStep[],
  [main, other]: readonly [Stream, Stream],
  { events, work, writeValue, captured }: CaptureStage,
): Graph {
  let into: Graph | undefined
  let after: readonly GraphNode[] = []
  const captureSteps = (from: number, to: number): Graph => {
    let joined = false
    const fn = (): void => {
      for (const [nth, step] of steps.slice(from, to).entries()) {
        // The parts are cut where captures begin.
        if (step.what === 'again') continue
        if (step.stream === 1 && !joined) {
          joined = true
          other.wait(main)
        }
        const stream = step.stream === 0 ? main : other
        if (step.what === 'work') named(`node${from + nth}`, () => work(stream, step.uses))
        else if (step.what === 'writeWord') writeValue(stream, step)
        else if (step.what === 'launchGraph') stream.launch(at(captured, step.graph))
        else if (step.what === 'recordExternal') stream.record(at(events, step.event), { external: true })
        else if (step.what === 'waitExternal') stream.wait(at(events, step.event), { external: true })
        else if (joined) stream.wait(step.stream === 0 ? other : main)
      }
      if (joined) main.wait(other)
    }
    return into === undefined ? main.capture(fn) : main.capture(fn, { into, after })
  }
  let from = 0
  for (const [index, step] of [...steps.entries()]) {
    if (step.what !== 'again') continue
    into = captureSteps(from, index)
    after = step.isBehind ? into.nodes : []
    from = index + 1
  }
  return captureSteps(from, steps.length)
}

/** Calls a function so that stacks show a name. */
function named<R>(name: string, fn: () => R): R {
  const holder = { [name]: (): R => fn() }
  return at(Object.values(holder), 0)()
}

/** Which step a side of a report is about, by the names in its stacks. */
export function sideOf({
  stack,
  capturedAt,
}: {
  readonly stack: readonly string[]
  readonly capturedAt: readonly string[]
}): Side {
  const step = numberIn(stack, /\bstep(\d+)\b/)
  if (step === undefined) throw new Error(`no step in the stack:\n${stack.join('\n')}`)
  return { step, node: numberIn(capturedAt, /\bnode(\d+)\b/) }
}

function numberIn(lines: readonly string[], pattern: RegExp): number | undefined {
  for (const line of lines) {
    const found = pattern.exec(line)
    if (found !== null) return Number(found[1])
  }
  return undefined
}

function at<T>(list: readonly T[], index: number): T {
  const found = list[index]
  if (found === undefined) throw new RangeError(`${index}`)
  return found
}
