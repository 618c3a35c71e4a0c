/** Random programs of streams, events, graphs and memory, and how they are run under a sanitizer. */
import { type Event, type GraphExec, Stream } from 'cuda-streams'
import { Sanitizer, type SanitizerReport } from 'cuda-streams/sanitizer'
import { simulate } from 'cuda-streams/sim'
import fc from 'fast-check'
import { accessKernel } from './access-kernel.js'
import type { GraphStep, Happened, Program, Side, Step, StreamKind, Use } from './judge.js'

const EVENTS = 3
/** The last piece of memory is pinned. */
const PIECES = 3
const PINNED = PIECES - 1
const BYTES = 32
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
const graphStep: fc.Arbitrary<GraphStep> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ what: fc.constant('work' as const), side, uses }) },
  { weight: 2, arbitrary: fc.record({ what: fc.constant('wait' as const), side }) },
  {
    weight: 1,
    arbitrary: fc.record({ what: fc.constantFrom('recordExternal' as const, 'waitExternal' as const), side, event }),
  },
)

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
      { weight: 1, arbitrary: fc.record({ what: of('synchronizeDevice', 'turn') }) },
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
    graphs: fc.array(fc.array(graphStep, { minLength: 1, maxLength: 8 }), { minLength: 2, maxLength: 2 }),
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

/** Runs a program on a machine of its own. The seed decides what queries answer and when host functions run. */
export async function runProgram(program: Program, seed: number, causal = false): Promise<Run> {
  using simulation = simulate({ seed })
  const [device] = simulation.devices
  if (device === undefined) throw new Error('a simulation has a device')
  using sanitizer = Sanitizer.start({ device, stacks: 'all', causal })
  const streams = program.streams.map((kind) =>
    kind === 'null' ? device.defaultStream : new Stream({ device, nonBlocking: kind === 'nonBlocking' }),
  )
  const events = Array.from({ length: EVENTS }, () => device.createEvent())
  const pinned = device.allocPinned(BYTES)
  const pieces = [...Array.from({ length: PINNED }, () => device.alloc(BYTES)), pinned]
  device.synchronize()

  const work = (stream: Stream, touched: readonly Use[]): void => {
    const memory = touched.map(({ memory: piece, start, end }) => at(pieces, piece).slice(start, end - start))
    stream.launch(accessKernel(touched.map(({ writes }) => writes)), { grid: 1, block: 1 }, ...memory)
  }
  const graphs = program.graphs.map((graph) =>
    capture(graph, new Stream({ device }), new Stream({ device }), events, work),
  )
  const happened: Happened[] = []

  for (const [step, what] of program.steps.entries()) {
    if (what.what === 'turn') {
      await new Promise(setImmediate)
      continue
    }
    const answer = named(`step${step}`, () =>
      perform(
        what,
        { streams, events, graphs, work, synchronize: () => device.synchronize() },
        (touched) => {
          happened.push({ ran: step })
          if (touched !== undefined)
            named(`step${step}`, () => pinned.slice(touched.start, touched.end - touched.start).bytes)
        },
        (touched) => void pinned.slice(touched.start, touched.end - touched.start).bytes,
      ),
    )
    happened.push(answer === undefined ? { step } : { step, answer })
  }
  await device.finished()
  return { happened, reports: sanitizer.reports.filter(({ severity }) => severity === 'error') }
}

/** The record of a promise is there; that it is done, the program never learns. */
export function giveUp(stream: Stream): void {
  const wait = new AbortController()
  stream.finished({ signal: wait.signal }).catch(() => {})
  wait.abort()
}

interface Stage {
  readonly streams: readonly Stream[]
  readonly events: readonly Event[]
  readonly graphs: readonly GraphExec[]
  readonly work: (stream: Stream, uses: readonly Use[]) => void
  readonly synchronize: () => void
}

function perform(
  step: Step,
  { streams, events, graphs, work, synchronize }: Stage,
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
      synchronize()
      return undefined
    case 'launch':
      at(graphs, step.graph).launch(at(streams, step.stream))
      return undefined
    case 'turn':
      return undefined
  }
}

function capture(
  graph: readonly GraphStep[],
  main: Stream,
  other: Stream,
  events: readonly Event[],
  work: (stream: Stream, uses: readonly Use[]) => void,
): GraphExec {
  let joined = false
  const captured = main.capture(() => {
    for (const [index, step] of graph.entries()) {
      if (step.side === 1 && !joined) {
        joined = true
        other.wait(main)
      }
      const stream = step.side === 0 ? main : other
      if (step.what === 'work') named(`node${index}`, () => work(stream, step.uses))
      else if (step.what === 'recordExternal') stream.record(at(events, step.event), { external: true })
      else if (step.what === 'waitExternal') stream.wait(at(events, step.event), { external: true })
      else if (joined) stream.wait(step.side === 0 ? other : main)
    }
    if (joined) main.wait(other)
  })
  return captured.instantiate()
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
