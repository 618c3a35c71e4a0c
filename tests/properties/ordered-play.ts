/**
 * Random programs for the simulator, and what CUDA's rules say of them: which host function comes after which, and how
 * early each can run. The rules are those by which the differential suite judges a GPU, and are not taken from the simulator.
 */
import { type Event, Stream } from 'cuda-streams'
import { busy, type Simulation, simulate } from 'cuda-streams/sim'
import fc from 'fast-check'
import { Rules } from '../differential/rules.js'
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

const ORIGINS = { nonBlocking: 'own', blocking: 'ownBlocking', null: 'null' } as const

/** What the rules promise of a program's host functions, in the order in which they were queued. */
export function promisesOf(program: Program): readonly Promised[] {
  const streams = program.streams.map((kind) => ({ origin: ORIGINS[kind], priority: 0, device: 0 }))
  const events = Array.from({ length: EVENTS }, () => ({ timing: false, device: 0 }))
  const rules = new Rules({ edition: 1, streams, events }, { keepsWaits: true })
  const recorded = new Set<number>()
  /** By its number, when work is done at the earliest: the length of the longest chain up to it. */
  const ends = new Map<number, number>()
  /** The steps of host functions, by their number. */
  const hosts = new Map<number, number>()
  const promised: Promised[] = []
  program.steps.forEach((step, index) => {
    switch (step.what) {
      case 'busy':
      case 'host': {
        const number = rules.queue(step.stream, step.what === 'host' ? { label: String(index) } : {})
        const before = [...ends.keys()].filter((other) => rules.isOrdered(other, number))
        const earliest = Math.max(0, ...before.map((other) => ends.get(other) ?? 0))
        ends.set(number, earliest + (step.what === 'busy' ? step.nanoseconds : 0))
        if (step.what === 'busy') break
        promised.push({ step: index, after: new Set(before.flatMap((other) => hosts.get(other) ?? [])), earliest })
        hosts.set(number, index)
        break
      }
      case 'record':
        rules.record(step.stream, step.event)
        recorded.add(step.event)
        break
      case 'wait':
        // A wait for an event that was never recorded is none, and so no work of the null stream either.
        if (recorded.has(step.event)) rules.wait(step.stream, step.event)
        break
      case 'waitStream':
        rules.waitStream(step.stream, step.other)
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
