/** Runs a program once in the order that a picker chooses, and returns the outcome. */

import { type Simulation, simulationFor } from '../../core/simulation.js'
import { givenName, numberedStream, streamInSentence } from '../../core/stream-names.js'
import { atNextTick, monotonicTime, nextTurn } from '../../foundation/base/event-loop.js'
import { keepReachable } from '../../foundation/base/finalization.js'
import { inspect, types } from '../../foundation/base/node-modules.js'
import { collectingUncaught } from '../../foundation/base/uncaught.js'
import type { Ranges } from '../../simulator/handles.js'
import { H200_MEMORY } from '../../simulator/limits.js'
import { ChosenScheduler, MOST_IDLE } from '../../simulator/machine/chosen-scheduler.js'
import type { PlannedFault } from '../../simulator/machine/fault-plan.js'
import type { SimStream } from '../../simulator/machine/machine-state.js'
import { SimOperationKind } from '../../simulator/machine/work.js'
import { SimDriver } from '../../simulator/sim-driver.js'
import { OwnTurns } from './own-turns.js'
import { deviationsOf, type Schedule, scheduleOf } from './search.js'
import { type Known, type Picker, type Step, StepRecorder } from './steps.js'

/** A program to be run again and again: it makes all that it needs on the devices of the simulation that it is given. */
export type ExploredProgram<T = unknown> = (simulation: Simulation) => T | Promise<T>

/** The conditions that are the same in all runs of an exploration. */
export interface Conditions {
  readonly devices: number
  readonly seed: number
  readonly faults: readonly PlannedFault[]
  /** The base of the handles and addresses, so that runs do not share them. */
  readonly ranges: Ranges
  /** The time, by `monotonicTime()`, at which a run is given up that has lasted a second at least; Infinity for none. */
  readonly deadline: number
}

export interface Run {
  readonly outcome: Outcome
  readonly schedule: Schedule
  readonly steps: readonly Step[]
  readonly operations: ReadonlyMap<number, Known>
  /** The reason why there are orders that could matter but that no picker can choose. */
  readonly gap: string | undefined
}

/** The milliseconds in which nothing happens, and nothing is to come, after which nothing will; MOST_OF_A_TURN of one turn count. */
const QUIET_TIME = 50
const MOST_OF_A_TURN = 5
/** The milliseconds that a run has, however late it begins. */
const LEAST_TIME = 1000
const NO_WORK =
  'the program has queued no work on the devices of its argument; one that takes the default device is not explored'

export async function runOnce(
  program: ExploredProgram,
  { devices, seed, faults, ranges, deadline }: Conditions,
  pick: Picker,
  wantsSites = false,
): Promise<Run> {
  const latest = Math.max(deadline, monotonicTime() + LEAST_TIME)
  const streamName = ({ handle, id }: SimStream): string =>
    givenName(driver, handle, id) ?? streamInSentence(numberedStream(handle, id))
  const recording = new StepRecorder(pick, streamName, latest, wantsSites)
  ranges.rewind()
  let scheduler: ChosenScheduler | undefined
  const driver = new SimDriver({
    devices,
    seed: 0,
    faultSeed: seed,
    // The memory is the same on all machines, so that an order that was found on one can be replayed on another.
    memory: H200_MEMORY,
    ranges,
    scheduler: (steps) => {
      scheduler = new ChosenScheduler(steps, recording)
      return scheduler
    },
  })
  // The machine need not wake the event loop, since the loop below runs it.
  driver.machine.onWork = () => {}
  for (const fault of faults) driver.machine.faults.add(fault)
  const uncaught: string[] = []
  let deadlock: End | undefined
  const letGo = keepReachable()
  const own = new OwnTurns(
    () => recording.steps.length - 1,
    (since) => scheduler?.turned(since),
    (milliseconds) => recording.leftOut(`a timer of ${milliseconds} ms is taken to come after all else`),
  )
  try {
    const end = await collectingUncaught(
      (error) => {
        uncaught.push(observedError(error))
        if (isDeadlock(error)) deadlock ??= { kind: 'deadlock', value: observedError(error) }
      },
      () => {
        const ended = own.run(() => ending(program, simulationFor(driver)))
        return scheduler === undefined ? ended : reachEnd(ended, scheduler, recording, own)
      },
    )
    const ran = recording.ran.flatMap((process) => recording.operations.get(process) ?? []).map(nameOf)
    return {
      outcome: { ...(deadlock ?? end), uncaught, ran: ran.sort() },
      schedule: scheduleOf(devices, deviationsOf(recording.steps)),
      steps: recording.steps,
      operations: recording.operations,
      gap: recording.gap ?? (recording.operations.size === 0 ? NO_WORK : undefined),
    }
  } finally {
    scheduler?.stop()
    driver.abandon()
    letGo()
    own[Symbol.dispose]()
  }
}

type End = Pick<Outcome, 'kind' | 'value'>

const UNFINISHED: End = { kind: 'unfinished', value: 'it was stopped, because the time limit was reached' }

/** Describes the returned value at once, as it may be memory that changes later. */
async function ending(program: ExploredProgram, simulation: Simulation): Promise<End> {
  try {
    return { kind: 'returned', value: observed(await program(simulation)) }
  } catch (error) {
    return { kind: isDeadlock(error) ? 'deadlock' : 'threw', value: observedError(error) }
  }
}

/** Whether the error is that of a blocking wait which can never end. */
function isDeadlock(error: unknown): boolean {
  return typeof error === 'object' && error !== null && Reflect.get(error, 'code') === 'ERR_DEADLOCK'
}

/**
 * Lets the machine, and what the program has put into the event loop, go on until the program is over and the machine has
 * nothing to do, or neither can go on.
 */
async function reachEnd(
  ended: Promise<End>,
  scheduler: ChosenScheduler,
  recording: StepRecorder,
  own: OwnTurns,
): Promise<End> {
  let end: End | undefined
  void ended.then((reached) => {
    end = reached
  })
  let quietTime = 0
  let lastTurn = monotonicTime()
  await allJavascript(own, scheduler)
  while (!recording.isLate && scheduler.idle <= 2 * MOST_IDLE) {
    const turns = own.count
    const last = end === undefined ? own.nextOfAll : undefined
    let step = scheduler.next(own.next(end !== undefined))
    if (step === undefined && last !== undefined) step = scheduler.next(last)
    if (step === undefined && end !== undefined) return end
    if (step === 'turn')
      while (own.count === turns && own.nextOfAll !== undefined && !recording.isLate) await nextTurn()
    else if (step !== 'end') await allJavascript(own, scheduler)
    const thisTurn = monotonicTime()
    quietTime = step !== undefined || own.mayCome ? 0 : quietTime + Math.min(thisTurn - lastTurn, MOST_OF_A_TURN)
    if (quietTime > QUIET_TIME) break
    lastTurn = thisTurn
  }
  if (recording.isLate) return UNFINISHED
  return end ?? { kind: 'deadlock', value: standing(recording) }
}

/** Resolves when JavaScript has nothing to do, and before the event loop comes to anything of the program's. */
async function allJavascript(own: OwnTurns, scheduler: ChosenScheduler): Promise<void> {
  for (let rounds = 0; rounds < 4; rounds += 1) {
    await Promise.resolve()
    await new Promise<void>((resolve) => atNextTick(resolve))
  }
  if (own.next(false) !== undefined) return
  scheduler.rest()
  await nextTurn()
}

/** The operations that will never complete, as text. */
function standing({ operations }: StepRecorder): string {
  const left = [...operations.values()].filter(({ operation }) => !operation.over)
  const fronts = left.filter(({ operation }) => operation.after.every(({ over }) => over))
  const isDropped = ({ operation }: Known): boolean => operation.kind === SimOperationKind.HOST && operation.dropped
  const dropped = [...operations.values()].filter(isDropped).map(nameOf)
  const faults = dropped.length === 0 ? '' : `; a fault has dropped ${dropped.join(', ')}`
  return `the program waits, and these stand: ${fronts.map(placeOf).join(', ') || 'none'}${faults}`
}

/** The name of an operation, with the line at which a latch or a wait for a promise was queued. */
function placeOf(known: Known): string {
  const { site } = known.operation
  return site === undefined ? nameOf(known) : `${nameOf(known)}, of ${site}`
}

function nameOf({ what, nth, stream }: Known): string {
  return `${what} ${nth} on ${stream}`
}

/** The outcome of a run of a program. Two that are equal in all of this agree. */
export interface Outcome {
  /** The end of the run: the program returned or threw; or it waits forever; or it was given up when `maxMilliseconds` were over. */
  readonly kind: 'returned' | 'threw' | 'deadlock' | 'unfinished'
  /** The returned or thrown value, as text; for a deadlock, the operations that it waits for. */
  readonly value: string
  /** The errors of host functions, then of kernels' host implementations. */
  readonly uncaught: readonly string[]
  /** The host functions that ran, each named by its stream and its index there. */
  readonly ran: readonly string[]
}

export function sameOutcome(a: Outcome, b: Outcome): boolean {
  return textOf(a) === textOf(b)
}

function textOf({ kind, value, uncaught, ran }: Outcome): string {
  return JSON.stringify([kind, value, uncaught, ran])
}

/** A value as it is now, as text: equal for values of the same structure. */
export function observed(value: unknown): string {
  return inspect(plain(value, new Map()), {
    depth: Number.POSITIVE_INFINITY,
    maxArrayLength: Number.POSITIVE_INFINITY,
    maxStringLength: Number.POSITIVE_INFINITY,
    breakLength: Number.POSITIVE_INFINITY,
    compact: 1000,
    sorted: true,
  })
}

/** The parts of an error that do not depend on where it was made. */
export function observedError(error: unknown): string {
  if (!types.isNativeError(error)) return observed(error)
  const code: unknown = Reflect.get(error, 'code')
  return `${error.name}${code === undefined ? '' : ` ${String(code)}`}: ${error.message}`
}

function plain(value: unknown, seen: Map<object, unknown>): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (types.isNativeError(value)) return observedError(value)
  const known = seen.get(value)
  if (known !== undefined) return known
  if (Array.isArray(value)) {
    const copy: unknown[] = []
    seen.set(value, copy)
    for (const item of value) copy.push(plain(item, seen))
    return copy
  }
  if (types.isMap(value)) return new Map([...value].map(([key, item]) => [plain(key, seen), plain(item, seen)]))
  if (types.isSet(value)) return new Set([...value].map((item) => plain(item, seen)))
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return value
  const copy: Record<string, unknown> = {}
  seen.set(value, copy)
  for (const [key, item] of Object.entries(value)) copy[key] = plain(item, seen)
  return copy
}
