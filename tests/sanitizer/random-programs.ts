/** Random programs of streams, events, graphs and memory, and how they are run under a sanitizer. */
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
import { accessKernel } from './access-kernel.js'
import type { FlagValue, GraphStep, Happened, Program, Side, Step, StreamKind, Use } from './judge.js'

const EVENTS = 3
/** The last piece of memory is pinned. */
const PIECES = 3
const PINNED = PIECES - 1
const BYTES = 32
const FLAGS = 2
const GRAIN = 8

function use(memory: fc.Arbitrary<number>, writes: fc.Arbitrary<boolean>): fc.Arbitrary<Use> {
  const grains = BYTES / GRAIN
  return fc
    .record({ memory, start: fc.nat(grains - 1), length: fc.integer({ min: 1, max: grains }), writes })
    .map(({ memory: piece, start, length, writes: isWrite }) => ({
      memory: piece,
      start: start * GRAIN,
      end: Math.min(BYTES, (start + length) * GRAIN),
      writes: isWrite,
    }))
}

const anyUse = use(fc.nat(PIECES - 1), fc.boolean())
const pinnedUse = use(fc.constant(PINNED), fc.constant(true))
const uses = fc.array(anyUse, { minLength: 1, maxLength: 2 })

const side = fc.constantFrom(0 as const, 1 as const)
const event = fc.nat(EVENTS - 1)
const flag = fc.nat(FLAGS - 1)
const value = fc.integer({ min: 1, max: 3 })
const graphSteps: readonly fc.WeightedArbitrary<GraphStep>[] = [
  { weight: 8, arbitrary: fc.record({ what: fc.constant('work' as const), side, uses }) },
  { weight: 4, arbitrary: fc.record({ what: fc.constant('wait' as const), side }) },
  {
    weight: 2,
    arbitrary: fc.record({ what: fc.constantFrom('recordExternal' as const, 'waitExternal' as const), side, event }),
  },
  { weight: 1, arbitrary: fc.record({ what: fc.constant('writeValue' as const), side, flag, value }) },
  {
    weight: 1,
    arbitrary: fc.record({
      what: fc.constant('added' as const),
      side: fc.constant(0 as const),
      isBehind: fc.boolean(),
    }),
  },
]
const inner: fc.WeightedArbitrary<GraphStep> = {
  weight: 3,
  arbitrary: fc.record({ what: fc.constant('graph' as const), side, graph: fc.constant(0) }),
}
const graph = (...more: fc.WeightedArbitrary<GraphStep>[]): fc.Arbitrary<GraphStep[]> =>
  fc.array(fc.oneof(...graphSteps, ...more), { minLength: 1, maxLength: 8 })

function steps(streams: number, graphs: number): fc.Arbitrary<Step[]> {
  const stream = fc.nat(streams - 1)
  const of = <T extends string>(...what: T[]): fc.Arbitrary<T> => fc.constantFrom(...what)
  return fc.array(
    fc.oneof(
      { weight: 8, arbitrary: fc.record({ what: of('work'), stream, uses }) },
      { weight: 3, arbitrary: fc.record({ what: of('record'), stream, event }) },
      { weight: 3, arbitrary: fc.record({ what: of('wait'), stream, event }) },
      { weight: 5, arbitrary: fc.record({ what: of('waitStream'), stream, other: stream }) },
      { weight: 2, arbitrary: fc.record({ what: of('host'), stream, use: fc.option(pinnedUse, { nil: undefined }) }) },
      { weight: 1, arbitrary: fc.record({ what: of('view'), use: pinnedUse }) },
      { weight: 3, arbitrary: fc.record({ what: of('synchronize', 'query', 'promise'), stream }) },
      { weight: 1, arbitrary: fc.record({ what: of('synchronizeEvent', 'queryEvent'), event }) },
      { weight: 1, arbitrary: fc.record({ what: of('synchronizeDevice', 'turn', 'drain') }) },
      { weight: 3, arbitrary: fc.record({ what: of('writeValue'), stream, flag, value }) },
      { weight: 2, arbitrary: fc.record({ what: of('waitValue'), stream, flag, value }) },
      { weight: 3, arbitrary: fc.record({ what: of('launch'), stream, graph: fc.nat(graphs - 1) }) },
    ),
    { minLength: 4, maxLength: 40 },
  )
}

export const programs: fc.Arbitrary<Program> = fc
  .record({
    streams: fc.array(fc.constantFrom<StreamKind>('nonBlocking', 'nonBlocking', 'blocking'), {
      minLength: 2,
      maxLength: 4,
    }),
    withNull: fc.boolean(),
    graphs: fc.tuple(graph(), graph(inner)),
  })
  .chain(({ streams: made, withNull, graphs }) => {
    const streams: readonly StreamKind[] = withNull ? [...made, 'null'] : made
    return fc.record({
      streams: fc.constant(streams),
      graphs: fc.constant(graphs),
      steps: steps(streams.length, graphs.length),
    })
  })

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
    const memory = touched.map(({ memory: piece, start, end }) => at(pieces, piece).subarray(start, end))
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
            if (touched !== undefined) named(`step${step}`, () => pinned.subarray(touched.start, touched.end).bytes)
          },
          (touched) => void pinned.subarray(touched.start, touched.end).bytes,
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
  readonly streams: readonly Stream[]
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
    case 'host':
      at(streams, step.stream).launchHostFunc(ran, step.use)
      return undefined
    case 'view':
      view(step.use)
      return undefined
    case 'query':
      return at(streams, step.stream).query()
    case 'queryEvent':
      return at(events, step.event).query()
    case 'promise':
      giveUp(at(streams, step.stream))
      return undefined
    case 'synchronize':
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
    case 'writeValue':
      writeValue(at(streams, step.stream), step)
      return undefined
    case 'waitValue':
      at(streams, step.stream).waitValue(flags, step.value, { byteOffset: 4 * step.flag })
      return undefined
    case 'launch':
      at(graphs, step.graph).launch(at(streams, step.stream))
      return undefined
    case 'turn':
      return undefined
  }
}

type CaptureStage = Pick<Stage, 'events' | 'work' | 'writeValue'> & { readonly captured: readonly Graph[] }

/** What follows an `added` is captured into the graph of what was before. */
function capture(
  steps: readonly GraphStep[],
  [main, other]: readonly [Stream, Stream],
  { events, work, writeValue, captured }: CaptureStage,
): Graph {
  let into: Graph | undefined
  let after: readonly GraphNode[] = []
  const part = (from: number, to: number): Graph => {
    let joined = false
    const fn = (): void => {
      for (const [nth, step] of steps.slice(from, to).entries()) {
        const index = from + nth
        if (step.side === 1 && !joined) {
          joined = true
          other.wait(main)
        }
        const stream = step.side === 0 ? main : other
        if (step.what === 'work') named(`node${index}`, () => work(stream, step.uses))
        else if (step.what === 'writeValue') writeValue(stream, step)
        else if (step.what === 'graph') stream.launch(at(captured, step.graph))
        else if (step.what === 'recordExternal') stream.record(at(events, step.event), { external: true })
        else if (step.what === 'waitExternal') stream.wait(at(events, step.event), { external: true })
        else if (joined) stream.wait(step.side === 0 ? other : main)
      }
      if (joined) main.wait(other)
    }
    return into === undefined ? main.capture(fn) : main.capture(fn, { into, after })
  }
  let from = 0
  for (const [index, step] of [...steps.entries()]) {
    if (step.what !== 'added') continue
    into = part(from, index)
    after = step.isBehind ? into.nodes : []
    from = index + 1
  }
  return part(from, steps.length)
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
