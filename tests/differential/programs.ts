/** Programs for both drivers: steps of any kind, and among them captures, faults and the like, which chance makes too seldom. */
import fc from 'fast-check'
import { isFakeDriver } from '../fake-driver/fake-cuda.js'
import { oneOf, type Ranges, stepOf, stepsOf, withBody } from '../programs/generate.js'
import {
  ANYTHING,
  HARMLESS,
  normalized,
  ORIGINS,
  type Origin,
  type Plain,
  type PlainWhat,
  type Program,
  QUEUED,
  SETS,
  type Step,
  type StreamPlan,
  type Weights,
} from './steps.js'
import { WRONG_CALLS } from './wrong-calls.js'

/** Numbers that name something are taken modulo how many there are. */
const RANGES: Ranges = {
  guarded: fc.constantFrom(0, 1, 1, 1, 1, 1),
  rounds: fc.constantFrom(0, 1, 7, 2000),
  cells: 4,
  latch: 4,
  how: 2,
  which: WRONG_CALLS.length,
  value: fc.nat(0xffff_ffff),
  stream: 12,
  event: 12,
  graph: 8,
  exec: 8,
  pool: 8,
  planes: 3,
  rows: 3,
  gap: 16,
  rest: 64,
}
const step = (what: PlainWhat): fc.Arbitrary<Step> => stepOf(what, RANGES)
const among = (weights: Weights): fc.Arbitrary<Plain> => oneOf(weights, RANGES)

const SOME = { maxLength: 6, size: 'max' } as const
const captureOf = (weights: Weights): fc.Arbitrary<Step> =>
  withBody(
    'capture',
    { ...RANGES, mode: 3, ends: fc.constantFrom(0, 0, 0, 0, 0, 0, 2, 3) },
    stepsOf(weights, RANGES, SOME),
  )

/** Alone it may do nearly all that a program may, and leave a capture behind. */
const ALONE: Weights = {
  ...QUEUED,
  ...HARMLESS,
  elapsed: 1,
  synchronizeStream: 2,
  begin: 3,
  end: 2,
  instantiate: 1,
  launch: 3,
  update: 1,
  upload: 1,
  download: 1,
  finishedStream: 1,
  closeStream: 1,
  closeEvent: 1,
  closeBuffer: 1,
  renewBuffer: 1,
  closeGraph: 1,
  closeExec: 1,
}
const inside: fc.Arbitrary<Step> = fc
  .tuple(
    withBody(
      'inside',
      RANGES,
      fc.array(
        fc.oneof(
          { weight: 12, arbitrary: among(ALONE) },
          { weight: 1, arbitrary: captureOf({ ...QUEUED, ...HARMLESS }) },
        ),
        SOME,
      ),
    ),
    /** Does it capture its own stream? */
    fc.option(fc.nat(2), { freq: 5 }),
  )
  .map(([step, mode]) => {
    const begin: Step[] = mode === null ? [] : [{ what: 'begin', stream: step.stream, mode }]
    return { ...step, body: [...begin, ...step.body] }
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
  fillRows: 1,
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
  external: 2,
  waitBy: 1,
  nothing: 1,
  aborted: 1,
}
/** Captured, it touches the same things. */
const CAPTURED_BESIDE: Weights = {
  host: 3,
  record: 2,
  wait: 1,
  fill: 4,
  copy: 4,
  mix: 3,
  external: 2,
  wrong: 1,
  nothing: 1,
}
const act: fc.Arbitrary<Step> = withBody(
  'act',
  { ...RANGES, set: SETS },
  fc.array(fc.oneof({ weight: 12, arbitrary: among(BESIDE) }, { weight: 1, arbitrary: captureOf(CAPTURED_BESIDE) }), {
    minLength: 1,
    maxLength: 8,
    size: 'max',
  }),
)

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
  .tuple(step('fault'), stepsOf(AFTER_FAULT, RANGES, { maxLength: 12, size: 'max' }))
  .map(([first, later]) => [first, ...later])
/** On a GPU each program with a fault needs a process of its own. */
const ONE_FAULT_IN = 400

const LAUNCHES: Weights = { launch: 5, updateFill: 1, updateCopy: 1, updateKernel: 1, setEnabled: 2, uploadExec: 1 }

const on = (steps: readonly Step[], where: number): Step[] =>
  steps.map((one) => ('stream' in one ? { ...one, stream: where } : one))

/** A capture that goes well, spreads over a second stream, and is launched a few times. */
const capture: fc.Arbitrary<Step[]> = fc
  .record({
    stream: fc.nat(11),
    other: fc.nat(11),
    event: fc.nat(11),
    mode: fc.nat(2),
    first: stepsOf(QUEUED, RANGES, { maxLength: 3 }),
    branch: stepsOf(QUEUED, RANGES, { maxLength: 3 }),
    last: stepsOf({ ...QUEUED, ...HARMLESS }, RANGES, { maxLength: 2 }),
    joins: fc.constantFrom(true, true, true, false),
    launches: stepsOf(LAUNCHES, RANGES, { maxLength: 5 }),
    graph: fc.nat(7),
    within: fc.option(stepsOf(QUEUED, RANGES, { maxLength: 2 }), { freq: 2 }),
    grown: fc.option(stepsOf(QUEUED, RANGES, { minLength: 1, maxLength: 3 }), { freq: 3 }),
  })
  .map(({ stream, other, event, mode, first, branch, last, joins, launches, graph, within, grown }) => {
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

/** Work that an instance can be given other values of. */
const ALIKE: Weights = {
  fill: 4,
  copy: 4,
  mix: 5,
  host: 2,
  copyRows: 1,
  fillRows: 1,
  external: 1,
  recordExternal: 1,
  waitExternal: 1,
}
/** Two captures that do nearly the same, of which the first becomes an instance that the second updates. */
const alike: fc.Arbitrary<Step[]> = fc
  .record({
    stream: fc.nat(11),
    other: fc.nat(11),
    mode: fc.nat(2),
    first: stepsOf(ALIKE, RANGES, { minLength: 1, maxLength: 3 }),
    branch: fc.option(stepsOf(ALIKE, RANGES, { minLength: 1, maxLength: 2 }), { freq: 1 }),
    value: fc.nat(63),
    change: fc.constantFrom('values', 'values', 'values', 'order', 'fewer', 'place'),
    launches: stepsOf({ launch: 4, turn: 1, setEnabled: 1, updateFill: 1 }, RANGES, { minLength: 1, maxLength: 4 }),
  })
  .map(({ stream, other, mode, first, branch, value, change, launches }) => {
    const capture = (steps: readonly Step[], beside: readonly Step[]): Step[] => [
      { what: 'begin', stream, mode },
      ...on(steps, stream),
      ...(branch === null ? [] : [{ what: 'waitStream' as const, stream: other, other: stream }]),
      ...on(beside, other),
      ...(branch === null ? [] : [{ what: 'waitStream' as const, stream, other }]),
      { what: 'end', stream },
    ]
    const changed = first.map((one): Step => {
      if (one.what === 'fill' || one.what === 'external')
        return { ...one, value, at: change === 'place' ? value : one.at }
      return one.what === 'mix' ? { ...one, rounds: value % 8, at: change === 'place' ? value : one.at } : one
    })
    const second = change === 'order' ? changed.toReversed() : change === 'fewer' ? changed.slice(1) : changed
    return [
      ...capture(first, branch ?? []),
      { what: 'instantiate', graph: 0 },
      { what: 'launch', exec: 0, stream, guarded: 1 },
      ...capture(second, branch ?? []),
      { what: 'update', exec: 0, graph: 0 },
      { what: 'launch', exec: 0, stream, guarded: 1 },
      ...launches.map((one): Step => ('exec' in one ? { ...one, exec: 0 } : one)),
    ]
  })

/** Two captures at a time, which may meet. */
const twoCaptures: fc.Arbitrary<Step[]> = fc
  .record({
    streams: fc.tuple(fc.nat(11), fc.nat(11)),
    modes: fc.tuple(fc.nat(2), fc.nat(2)),
    steps: fc.array(
      fc.tuple(fc.nat(1), among({ ...QUEUED, ask: 1, wrong: 1, closeBuffer: 1, uploadExec: 1, launch: 1 })),
      {
        maxLength: 10,
        size: 'max',
      },
    ),
    meets: fc.constantFrom(false, false, true),
    isCrossed: fc.boolean(),
  })
  .map(({ streams: [one, two], modes, steps: list, meets, isCrossed }) => [
    { what: 'begin', stream: one, mode: modes[0] },
    { what: 'begin', stream: two, mode: modes[1] },
    ...list.flatMap(([which, step]) => on([step], which === 0 ? one : two)),
    ...(meets ? [{ what: 'waitStream' as const, stream: one, other: two }] : []),
    { what: 'end', stream: isCrossed ? two : one },
    { what: 'end', stream: isCrossed ? one : two },
    { what: 'instantiate', graph: 0 },
  ])

/** A capture that is invalidated, and what its stream answers then: queued work, and calls that are wrong besides. */
const invalidated: fc.Arbitrary<Step[]> = fc
  .record({
    stream: fc.nat(11),
    mode: fc.nat(2),
    before: stepsOf(QUEUED, RANGES, { maxLength: 3 }),
    how: fc.nat(2),
    steps: stepsOf(
      { ...QUEUED, external: 5, wrong: 6, ask: 2, nothing: 2, upload: 1, download: 1, launchGraph: 1 },
      RANGES,
      {
        minLength: 1,
        maxLength: 8,
        size: 'max',
      },
    ),
  })
  .map(({ stream, mode, before, how, steps: list }) => {
    const mistakes: readonly Step[] = [
      { what: 'queryStream', stream },
      { what: 'synchronizeStream', stream },
      { what: 'launch', exec: 0, stream, guarded: 0 },
    ]
    const [mistake] = mistakes.slice(how)
    return [
      { what: 'begin', stream, mode },
      ...on(before, stream),
      ...(mistake === undefined ? [] : [mistake]),
      ...on(list, stream),
      { what: 'end', stream },
    ]
  })

/** One event, recorded again and again while work stands, in a capture and beside it. */
const sameEvent: fc.Arbitrary<Step[]> = fc
  .record({
    stream: fc.nat(11),
    event: fc.nat(11),
    mode: fc.option(fc.constantFrom(0, 1, 2, 2, 2), { freq: 1 }),
    steps: stepsOf(
      {
        record: 4,
        wait: 4,
        recordExternal: 4,
        waitExternal: 4,
        waitBy: 2,
        recordNew: 1,
        host: 2,
        fill: 2,
        queryEvent: 2,
        awaitEvent: 1,
      },
      RANGES,
      { minLength: 3, maxLength: 10, size: 'max' },
    ),
    isOnOne: fc.boolean(),
  })
  .map(({ stream, event, mode, steps: list, isOnOne }) => {
    const same = list.map((one): Step => ('event' in one ? { ...one, event } : one))
    const played = isOnOne ? on(same, stream) : same
    if (mode === null) return [{ what: 'host', stream }, ...played]
    return [
      { what: 'begin', stream, mode },
      ...played,
      { what: 'end', stream },
      { what: 'instantiate', graph: 0 },
      { what: 'launch', exec: 0, stream, guarded: 1 },
    ]
  })

/** Memory of a stream that captures is freed, on it and elsewhere. */
const freed: fc.Arbitrary<Step[]> = fc
  .record({
    stream: fc.nat(11),
    buffer: fc.nat(2),
    mode: fc.nat(2),
    steps: stepsOf({ ...QUEUED, closeBuffer: 5, renewBuffer: 2 }, RANGES, { minLength: 1, maxLength: 6, size: 'max' }),
    isBeside: fc.boolean(),
  })
  .map(({ stream, buffer, mode, steps: list, isBeside }) => [
    { what: 'renewBuffer', buffer, stream, pool: 0 },
    { what: 'fill', stream, buffer, at: 0, cells: 3, width: 0, value: buffer, guarded: 1 },
    { what: 'begin', stream, mode },
    ...(isBeside ? list : on(list, stream)),
    { what: 'closeBuffer', buffer },
    { what: 'end', stream },
    { what: 'instantiate', graph: 0 },
    { what: 'launch', exec: 0, stream, guarded: 1 },
  ])

/** What the null stream answers while a blocking stream captures. */
const besideBlocking: fc.Arbitrary<Step[]> = fc
  .record({
    stream: fc.constantFrom(1, 1, 1, 0, 2, 3),
    mode: fc.nat(2),
    isFirst: fc.boolean(),
    steps: stepsOf({ ask: 8, uploadExec: 6, external: 1, queryStream: 1, record: 1, isCapturing: 1, fill: 1 }, RANGES, {
      minLength: 1,
      maxLength: 6,
      size: 'max',
    }),
  })
  .map(({ stream, mode, steps: list, isFirst }) => [
    { what: 'begin', stream, mode },
    ...(isFirst ? on(list, 0) : list),
    { what: 'end', stream },
  ])

/** A pool, and what is done with it. */
const pool: fc.Arbitrary<Step[]> = fc
  .tuple(
    step('makePool'),
    stepsOf({ renewBuffer: 4, usePool: 5, overfill: 1, closeBuffer: 1, fill: 1, closePool: 1 }, RANGES, {
      maxLength: 8,
    }),
  )
  .map(([first, later]) => [first, ...later])

const part = fc.oneof(
  { weight: 60, arbitrary: among(ANYTHING).map((one) => [one]) },
  { weight: 3, arbitrary: inside.map((one) => [one]) },
  { weight: 4, arbitrary: act.map((one) => [one]) },
  { weight: 3, arbitrary: capture },
  { weight: 2, arbitrary: captureOf({ ...QUEUED, ...HARMLESS, end: 1, begin: 1 }).map((one) => [one]) },
  { weight: 1, arbitrary: twoCaptures },
  { weight: 1, arbitrary: alike },
  { weight: 1, arbitrary: invalidated },
  { weight: 1, arbitrary: sameEvent },
  { weight: 1, arbitrary: freed },
  { weight: 1, arbitrary: besideBlocking },
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

/** Those that the driver of this process can play: a fake one has one device, which never faults. */
export const playable = (devices: number): fc.Arbitrary<Program> =>
  isFakeDriver() ? programsOf(1, steps) : programs(devices)

/** The first stream has nothing before it that it could name. */
const namesFirst = (program: Program): Program => {
  const streams = program.streams.map((plan, at) =>
    at === 0 && plan.origin === 'alias' ? { ...plan, origin: 'own' as const } : plan,
  )
  return { ...program, streams }
}

function programsOf(devices: number, played: fc.Arbitrary<Step[]>): fc.Arbitrary<Program> {
  const device = fc.nat(devices - 1)
  const streamOf = (...origins: readonly Origin[]): fc.Arbitrary<StreamPlan> =>
    fc.record({ origin: fc.constantFrom(...origins), priority: fc.integer({ min: -6, max: 1 }), device })
  // The null stream and a blocking one forbid each other most.
  const withNull = fc
    .tuple(
      streamOf('null', 'wrappedNull'),
      streamOf('ownBlocking', 'foreignBlocking', 'perThread'),
      fc.array(streamOf(...ORIGINS), { maxLength: 3, size: 'max' }),
    )
    .map(([first, second, others]) => [first, second, ...others])
  const program: fc.Arbitrary<Program> = fc.record({
    edition: fc.constant(5 as const),
    devices: fc.constant(devices),
    streams: fc.oneof(
      { weight: 4, arbitrary: fc.array(streamOf('own', ...ORIGINS), { minLength: 1, maxLength: 5, size: 'max' }) },
      { weight: 1, arbitrary: withNull },
    ),
    events: fc.array(fc.record({ timing: fc.boolean(), device }), { minLength: 1, maxLength: 4, size: 'max' }),
    ending: fc.constantFrom('blocking' as const, 'event loop' as const),
    steps: played,
  })
  return program.map(namesFirst).map(normalized)
}
