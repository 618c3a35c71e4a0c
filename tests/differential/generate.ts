/** Random programs, by fast-check. */
import fc from 'fast-check'
import { isPretended } from '../pretend/pretend.js'
import { FIELDS, normalized, ORIGINS, type PlainWhat, type Program, SETS, type Step } from './steps.js'
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
  pool: fc.nat(7),
  planes: fc.nat(2),
  rows: fc.nat(2),
  gap: fc.nat(15),
}

function step(what: PlainWhat): fc.Arbitrary<Step> {
  const fields = FIELDS[what].map((field: string) => [field, SPECIAL[field] ?? SMALL])
  return fc.record({ what: fc.constant(what), ...Object.fromEntries(fields) }) as unknown as fc.Arbitrary<Step>
}

type Weights = Partial<Record<PlainWhat, number>>

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
  copyRows: 3,
  copyAll: 2,
  signal: 2,
  waitDevice: 1,
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
  updateFill: 1,
  updateCopy: 1,
  updateKernel: 1,
  setEnabled: 1,
  uploadExec: 1,
  lend: 1,
  waitPromise: 2,
  settle: 1,
  waitValue: 1,
  renewBuffer: 2,
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
    arbitrary: step(what as PlainWhat),
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

/**
 * What a host function does with what it has for itself, at whatever moment it runs: a stream of the program may capture
 * then, so it does not ask how far anything is.
 */
const BESIDE: Weights = {
  isCapturing: 1,
  ask: 1,
  wrong: 2,
  host: 4,
  callback: 1,
  record: 4,
  wait: 2,
  waitStream: 1,
  fill: 5,
  copy: 6,
  copyRows: 2,
  copyAll: 1,
  mix: 5,
  upload: 3,
  download: 4,
  finishedStream: 2,
  finishedEvent: 1,
  elapsed: 1,
  closeEvent: 1,
  closeBuffer: 1,
  closeStream: 1,
}
const act: fc.Arbitrary<Step> = fc.record({
  what: fc.constant('act' as const),
  stream: fc.nat(11),
  set: fc.nat(SETS - 1),
  how: fc.nat(1),
  body: fc.array(among(BESIDE), { minLength: 1, maxLength: 8, size: 'max' }),
})

/** A fault, and what is called afterwards. */
const AFTER_FAULT: Weights = {
  host: 1,
  callback: 1,
  record: 2,
  wait: 2,
  waitStream: 1,
  fill: 1,
  copy: 1,
  mix: 1,
  queryStream: 2,
  queryEvent: 2,
  synchronizeStream: 1,
  synchronizeEvent: 1,
  synchronizeDevice: 1,
  finishedStream: 1,
  finishedEvent: 1,
  download: 1,
  closeStream: 1,
  closeEvent: 1,
  closeBuffer: 1,
}
const fault: fc.Arbitrary<Step[]> = fc
  .tuple(step('fault'), fc.array(among(AFTER_FAULT), { maxLength: 12, size: 'max' }))
  .map(([first, later]) => [first, ...later])
/** On a GPU each program with a fault needs a process of its own. */
const ONE_FAULT_IN = 400

const LAUNCHES: Weights = { launch: 5, updateFill: 1, updateCopy: 1, updateKernel: 1, setEnabled: 2, uploadExec: 1 }

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
    launches: fc.array(among(LAUNCHES), { maxLength: 5 }),
    graph: fc.nat(7),
    within: fc.option(fc.array(among(QUEUED), { maxLength: 2 }), { freq: 2 }),
    grown: fc.option(fc.array(among(QUEUED), { minLength: 1, maxLength: 3 }), { freq: 3 }),
  })
  .map(({ stream, other, event, mode, first, branch, last, joins, launches, graph, within, grown }) => {
    const on = (steps: readonly Step[], where: number): Step[] => {
      return steps.map((one) => ('stream' in one ? { ...one, stream: where } : one))
    }
    const join: Step[] = [
      { what: 'record', stream: other, event },
      { what: 'wait', stream, event },
    ]
    const inner: Step[] =
      within === null ? [] : [{ what: 'begin', stream, mode }, ...on(within, stream), { what: 'end', stream }]
    return [
      ...inner,
      { what: 'begin', stream, mode },
      ...on(first, stream),
      ...(within === null ? [] : [{ what: 'launchGraph' as const, graph, stream }]),
      { what: 'waitStream', stream: other, other: stream },
      ...on(branch, other),
      ...on(last, stream),
      ...(joins ? join : []),
      { what: 'end', stream },
      ...(grown === null ? [] : [{ what: 'grow' as const, graph, stream, node: event, mode, body: grown }]),
      { what: 'instantiate', graph },
      ...launches,
    ]
  })

/** A pool, and what is done with it. */
const pool: fc.Arbitrary<Step[]> = fc
  .tuple(
    step('makePool'),
    fc.array(among({ renewBuffer: 4, usePool: 5, overfill: 1, closeBuffer: 1, fill: 1, closePool: 1 }), {
      maxLength: 8,
    }),
  )
  .map(([first, later]) => [first, ...later])

const part = fc.oneof(
  { weight: 60, arbitrary: among(ANYTHING).map((one) => [one]) },
  { weight: 2, arbitrary: inside.map((one) => [one]) },
  { weight: 4, arbitrary: act.map((one) => [one]) },
  { weight: 3, arbitrary: capture },
  { weight: 1, arbitrary: pool },
)
const steps: fc.Arbitrary<Step[]> = fc
  .array(part, { minLength: 1, maxLength: 40, size: 'max' })
  .map((parts) => parts.flat())

/** Of so many programs one ends in a fault. */
export function programs(devices = 1, oneFaultIn = ONE_FAULT_IN): fc.Arbitrary<Program> {
  const end: fc.Arbitrary<Step[]> = fc.oneof(
    { weight: oneFaultIn - 1, arbitrary: fc.constant<Step[]>([]) },
    { weight: 1, arbitrary: fault },
  )
  return programsOf(
    devices,
    fc.tuple(steps, end).map((parts) => parts.flat()),
  )
}

/** Those that the driver of this process can play: a pretended one has one device, which never faults. */
export const playable = (devices: number): fc.Arbitrary<Program> =>
  isPretended() ? programsOf(1, steps) : programs(devices)

function programsOf(devices: number, played: fc.Arbitrary<Step[]>): fc.Arbitrary<Program> {
  const device = fc.nat(devices - 1)
  const program: fc.Arbitrary<Program> = fc.record({
    edition: fc.constant(4 as const),
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
    steps: played,
  })
  return program.map(normalized)
}
