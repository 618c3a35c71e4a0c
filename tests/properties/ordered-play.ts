/**
 * Random programs for the simulator, and what CUDA's rules say of them: which host function comes after which, and how
 * early each can run. The rules are written down a second time here, from CUDA's documentation, not taken from the simulator.
 */
import { type Event, Stream } from 'cuda-streams'
import { busy, type Simulation, simulate } from 'cuda-streams/sim'
import fc from 'fast-check'
import { stepsOf, streamsOf } from '../programs/generate.js'
import type { StepOf } from '../programs/steps.js'

/** How a program's stream is made: one of ours, or the device's null stream. */
export type StreamKind = 'nonBlocking' | 'blocking' | 'null'

const WEIGHTS = { busy: 3, host: 4, record: 2, wait: 2, waitStream: 1 } as const
export type Step = StepOf<keyof typeof WEIGHTS>

export interface Program {
  readonly streams: readonly StreamKind[]
  readonly steps: readonly Step[]
  /** Wait for it with device.synchronize(), instead of the event loop. */
  readonly blockingly: boolean
}

const EVENTS = 3
const LONGEST = 50_000

/** Programs over two to four streams; only with `kinds` other than the default do the null stream's rules matter. */
export const programs = (kinds: readonly StreamKind[] = ['nonBlocking']): fc.Arbitrary<Program> =>
  streamsOf(kinds, 2, 4).chain((streams) =>
    fc.record({
      streams: fc.constant(streams),
      steps: stepsOf<keyof typeof WEIGHTS>(
        WEIGHTS,
        { stream: streams.length, event: EVENTS, nanoseconds: LONGEST + 1 },
        { minLength: 1, maxLength: 40 },
      ),
      blockingly: fc.boolean(),
    }),
  )

/** A host function that ran: which step it was, and when in virtual time. */
export interface Ran {
  readonly step: number
  readonly now: number
}

/** Runs a program on a machine of its own and tells its host functions in the order in which they ran. */
export async function runProgram(
  program: Program,
  seed: number,
  around: (simulation: Simulation, run: () => Promise<void>) => Promise<unknown> = (_, run) => run(),
): Promise<readonly Ran[]> {
  using simulation = simulate({ seed })
  const [device] = simulation.devices
  if (device === undefined) throw new Error('a simulation has a device')
  const streams = program.streams.map((kind) =>
    kind === 'null' ? device.defaultStream : new Stream({ device, nonBlocking: kind === 'nonBlocking' }),
  )
  const events = Array.from({ length: EVENTS }, () => device.createEvent())
  const trace: Ran[] = []
  await around(simulation, async () => {
    for (const [index, step] of program.steps.entries()) queue(step, index, streams, events, simulation, trace)
    if (program.blockingly) device.synchronize()
    else await device.finished()
  })
  return trace
}

function queue(
  step: Step,
  index: number,
  streams: readonly Stream[],
  events: readonly Event[],
  simulation: Simulation,
  trace: Ran[],
): void {
  const stream = at(streams, step.stream)
  switch (step.what) {
    case 'busy':
      busy(stream, step.nanoseconds)
      break
    case 'host':
      stream.launchHostFunc(() => trace.push({ step: index, now: simulation.now }))
      break
    case 'record':
      stream.record(at(events, step.event))
      break
    case 'wait':
      stream.wait(at(events, step.event))
      break
    case 'waitStream':
      stream.wait(at(streams, step.other))
      break
  }
}

/** What the rules promise of one host function. */
export interface Promised {
  readonly step: number
  /** The steps of the host functions that must have run before. */
  readonly after: ReadonlySet<number>
  /** The work that must be done before takes so long at least. */
  readonly earliest: number
}

/** A point of a stream's work: the host functions before it, and how long the longest chain of work up to it takes. */
class Point {
  readonly after: ReadonlySet<number>
  readonly earliest: number

  constructor(after: ReadonlySet<number> = new Set(), earliest = 0) {
    this.after = after
    this.earliest = earliest
  }

  join(other: Point): Point {
    return new Point(new Set([...this.after, ...other.after]), Math.max(this.earliest, other.earliest))
  }
}

/** What the rules promise of a program's host functions, in the order in which they were queued. */
export function promisesOf(program: Program): readonly Promised[] {
  const promised: Promised[] = []
  // The null stream is one, however many streams of a program stand for it; the first of them does for all.
  const first = program.streams.indexOf('null')
  const key = (stream: number): number => (program.streams[stream] === 'null' ? first : stream)
  const points = program.streams.map(() => new Point())
  const events = Array.from({ length: EVENTS }, () => new Point())
  const pointOf = (stream: number): Point => at(points, key(stream))

  /**
   * Anything queued on the null stream first waits for all blocking streams, and they then for it: they stand at the
   * same point afterwards, seen from whatever is queued next.
   */
  const begin = (stream: number): Point => {
    const kind = program.streams[stream]
    let point = pointOf(stream)
    if (kind === 'null') {
      program.streams.forEach((other, index) => {
        if (other === 'blocking') point = point.join(pointOf(index))
      })
    } else if (kind === 'blocking' && first >= 0) point = point.join(pointOf(first))
    points[key(stream)] = point
    return point
  }

  program.steps.forEach((step, index) => {
    if (step.what === 'waitStream') {
      const recorded = begin(step.other)
      points[key(step.stream)] = begin(step.stream).join(recorded)
      return
    }
    const point = begin(step.stream)
    switch (step.what) {
      case 'busy':
        points[key(step.stream)] = new Point(point.after, point.earliest + step.nanoseconds)
        break
      case 'host':
        promised.push({ step: index, after: point.after, earliest: point.earliest })
        points[key(step.stream)] = new Point(new Set([...point.after, index]), point.earliest)
        break
      case 'record':
        events[step.event] = point
        break
      case 'wait':
        points[key(step.stream)] = point.join(at(events, step.event))
        break
    }
  })
  return promised
}

/** What a trace has that the rules do not allow; undefined where there is nothing. */
export function brokenRule(promised: readonly Promised[], trace: readonly Ran[]): string | undefined {
  const places = new Map(trace.map(({ step }, place) => [step, place]))
  if (trace.length !== promised.length || places.size !== trace.length) {
    return `${promised.length} host functions were queued and ${trace.length} ran, ${places.size} different ones`
  }
  for (const { step, after, earliest } of promised) {
    const place = places.get(step)
    if (place === undefined) return `the host function of step ${step} never ran`
    const { now } = at(trace, place)
    if (now < earliest) return `step ${step} ran at ${now} ns, before the ${earliest} ns that the work before it takes`
    for (const before of after) {
      if ((places.get(before) ?? trace.length) > place) return `step ${step} ran before step ${before}`
    }
  }
  return undefined
}

function at<T>(list: readonly T[], index: number): T {
  const item = list[index]
  if (item === undefined) throw new RangeError(`there is no item ${index} of ${list.length}`)
  return item
}
