/** Random programs, by fast-check. */
import fc from 'fast-check'
import { FIELDS, normalized, ORIGINS, type Program, type Step, type What } from './steps.js'
import { WRONG_CALLS } from './wrong-calls.js'

const SMALL = fc.nat(63)
const SPECIAL: Readonly<Record<string, fc.Arbitrary<number>>> = {
  guarded: fc.constantFrom(0, 1, 1, 1, 1, 1),
  rounds: fc.constantFrom(0, 1, 7, 2000),
  cells: fc.nat(3),
  latch: fc.nat(3),
  how: fc.nat(1),
  which: fc.nat(WRONG_CALLS.length - 1),
  value: fc.nat(0xffff_ffff),
  stream: fc.nat(11),
  other: fc.nat(11),
  event: fc.nat(11),
  graph: fc.nat(7),
  exec: fc.nat(7),
}

function step(what: Exclude<What, 'inside'>): fc.Arbitrary<Step> {
  const fields = FIELDS[what].map((field: string) => [field, SPECIAL[field] ?? SMALL])
  return fc.record({ what: fc.constant(what), ...Object.fromEntries(fields) }) as unknown as fc.Arbitrary<Step>
}

type Weights = Partial<Record<Exclude<What, 'inside'>, number>>

const QUEUED: Weights = {
  host: 6,
  callback: 1,
  record: 6,
  wait: 6,
  waitStream: 3,
  fill: 4,
  copy: 5,
  mix: 6,
  recordExternal: 1,
  waitExternal: 1,
}
const HARMLESS: Weights = { queryEvent: 2, queryStream: 2, isCapturing: 1, ask: 1, wrong: 2 }
const ANYTHING: Weights = {
  ...QUEUED,
  ...HARMLESS,
  latch: 3,
  open: 1,
  queryStream: 4,
  queryEvent: 5,
  elapsed: 2,
  finishedStream: 1,
  finishedEvent: 1,
  synchronizeStream: 2,
  synchronizeEvent: 2,
  synchronizeDevice: 1,
  awaitStream: 1,
  awaitEvent: 1,
  turn: 1,
  peek: 2,
  upload: 1,
  download: 1,
  poke: 2,
  begin: 1,
  end: 1,
  instantiate: 1,
  launch: 2,
  update: 1,
  nodeCount: 1,
  closeStream: 1,
  renewStream: 1,
  renewEvent: 2,
  closeEvent: 1,
  closeBuffer: 1,
  closeGraph: 1,
  closeExec: 1,
}

function among(weights: Weights): fc.Arbitrary<Step> {
  const choices = Object.entries(weights).map(([what, weight]) => ({
    weight,
    arbitrary: step(what as Exclude<What, 'inside'>),
  }))
  return fc.oneof(...choices)
}

const inside: fc.Arbitrary<Step> = fc.record({
  what: fc.constant('inside' as const),
  stream: fc.nat(11),
  how: fc.nat(1),
  body: fc.array(among({ ...QUEUED, ...HARMLESS, elapsed: 1, closeEvent: 1, synchronizeStream: 2 }), {
    maxLength: 6,
    size: 'max',
  }),
})

/** A capture that goes well, spreads over a second stream, and is launched a few times. */
const capture: fc.Arbitrary<Step[]> = fc
  .record({
    stream: fc.nat(11),
    other: fc.nat(11),
    event: fc.nat(11),
    mode: fc.nat(2),
    first: fc.array(among(QUEUED), { maxLength: 3 }),
    branch: fc.array(among(QUEUED), { maxLength: 3 }),
    last: fc.array(among({ ...QUEUED, ...HARMLESS }), { maxLength: 2 }),
    joins: fc.constantFrom(true, true, true, false),
    launches: fc.array(step('launch'), { maxLength: 3 }),
    graph: fc.nat(7),
  })
  .map(({ stream, other, event, mode, first, branch, last, joins, launches, graph }) => {
    const on = (steps: readonly Step[], where: number): Step[] => {
      return steps.map((one) => ('stream' in one ? { ...one, stream: where } : one))
    }
    const join: Step[] = [
      { what: 'record', stream: other, event },
      { what: 'wait', stream, event },
    ]
    return [
      { what: 'begin', stream, mode },
      ...on(first, stream),
      { what: 'waitStream', stream: other, other: stream },
      ...on(branch, other),
      ...on(last, stream),
      ...(joins ? join : []),
      { what: 'end', stream },
      { what: 'instantiate', graph },
      ...launches,
    ]
  })

const steps: fc.Arbitrary<Step[]> = fc
  .array(
    fc.oneof(
      { weight: 30, arbitrary: among(ANYTHING).map((one) => [one]) },
      { weight: 1, arbitrary: inside.map((one) => [one]) },
      { weight: 1, arbitrary: capture },
    ),
    { minLength: 1, maxLength: 40, size: 'max' },
  )
  .map((parts) => parts.flat())

export function programs(devices = 1): fc.Arbitrary<Program> {
  const device = fc.nat(devices - 1)
  const program: fc.Arbitrary<Program> = fc.record({
    devices: fc.constant(devices),
    streams: fc.array(
      fc.record({
        origin: fc.constantFrom('own' as const, ...ORIGINS),
        priority: fc.integer({ min: -6, max: 1 }),
        device,
      }),
      { minLength: 1, maxLength: 5, size: 'max' },
    ),
    events: fc.array(fc.record({ timing: fc.boolean(), device }), { minLength: 1, maxLength: 4, size: 'max' }),
    ending: fc.constantFrom('blocking' as const, 'event loop' as const),
    steps,
  })
  return program.map(normalized)
}
