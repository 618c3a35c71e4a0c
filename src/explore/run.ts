/** Runs a program once, in the order that a picker gives. */
import { setImmediate } from 'node:timers/promises'
import { keepReachable } from '../base/finalization.js'
import { collectingUncaught } from '../base/uncaught.js'
import type { Ranges } from '../driver/sim/handles.js'
import { ChosenScheduler } from '../driver/sim/machine/chosen-scheduler.js'
import type { PlannedFault } from '../driver/sim/machine/fault-plan.js'
import { SimOperationKind } from '../driver/sim/machine/work.js'
import { SimDriver } from '../driver/sim/sim-driver.js'
import { type Simulation, simulationFor } from '../simulation/simulation.js'
import { type Outcome, observed, observedError } from './outcome.js'
import { detoursOf, type Schedule, scheduleOf } from './schedule.js'
import { type Known, type Picker, StepRecorder } from './step-recorder.js'
import type { Step } from './steps.js'

/** A program to be run again and again: it makes all that it needs on the devices of the simulation that it is given. */
export type ExploredProgram<T = unknown> = (simulation: Simulation) => T | Promise<T>

/** The conditions that are the same in all runs of an exploration. */
export interface Conditions {
  readonly devices: number
  readonly seed: number
  readonly faults: readonly PlannedFault[]
  /** Where handles and addresses lie. */
  readonly ranges: Ranges
  /** When a run is given up that has had a second at least: by `Date.now()`, or Infinity. */
  readonly deadline: number
}

export interface Run {
  readonly outcome: Outcome
  readonly schedule: Schedule
  readonly steps: readonly Step[]
  readonly operations: ReadonlyMap<number, Known>
}

/** Turns of the event loop without anything to do after which nothing will come of itself. */
const QUIET_TURNS = 20
/** Milliseconds that a run has, however late it begins. */
const LEAST_TIME = 1000

export async function runOnce(
  program: ExploredProgram,
  { devices, seed, faults, ranges, deadline }: Conditions,
  pick: Picker,
  wantsSites = false,
): Promise<Run> {
  const recording = new StepRecorder(pick, devices, wantsSites)
  ranges.rewind()
  let scheduler: ChosenScheduler | undefined
  const driver = new SimDriver({
    devices,
    seed: 0,
    faultSeed: seed,
    ranges,
    scheduler: (steps) => {
      scheduler = new ChosenScheduler(steps, recording)
      return scheduler
    },
  })
  for (const fault of faults) driver.machine.faults.add(fault)
  const uncaught: string[] = []
  let deadlock: End | undefined
  const letGo = keepReachable()
  const latest = Math.max(deadline, Date.now() + LEAST_TIME)
  const isLate = (): boolean => Date.now() >= latest
  try {
    const end = await collectingUncaught(
      (error) => {
        uncaught.push(observedError(error))
        if (isDeadlock(error)) deadlock ??= { kind: 'deadlock', value: observedError(error) }
      },
      async () => {
        let isOver = false
        const ended = ending(program, simulationFor(driver)).finally(() => {
          isOver = true
        })
        const reached = await Promise.race([ended, quiet(driver, recording, () => isOver || isLate())])
        isOver = true
        while (scheduler?.stuck === false && !isLate()) await setImmediate()
        if (scheduler?.stuck === false) return UNFINISHED
        return reached ?? { kind: 'deadlock' as const, value: standing(recording) }
      },
    )
    const ran = recording.ran.flatMap((process) => recording.operations.get(process) ?? []).map(nameOf)
    return {
      outcome: { ...(deadlock ?? end), uncaught, ran: ran.sort() },
      schedule: scheduleOf(devices, detoursOf(recording.steps)),
      steps: recording.steps,
      operations: recording.operations,
    }
  } finally {
    scheduler?.stop()
    driver.abandon()
    letGo()
  }
}

type End = Pick<Outcome, 'kind' | 'value'>

const UNFINISHED: End = { kind: 'unfinished', value: 'it was given up: there was no more time' }

/** The returned value is looked at at once: it may be memory that changes later. */
async function ending(program: ExploredProgram, simulation: Simulation): Promise<End> {
  try {
    return { kind: 'returned', value: observed(await program(simulation)) }
  } catch (error) {
    return { kind: isDeadlock(error) ? 'deadlock' : 'threw', value: observedError(error) }
  }
}

/** A wait that can never end is an error where the host blocks. */
function isDeadlock(error: unknown): boolean {
  return typeof error === 'object' && error !== null && Reflect.get(error, 'code') === 'ERR_DEADLOCK'
}

/** Resolves when the program waits for the GPU, and the GPU for the program; or when `isOver`. */
async function quiet({ machine }: SimDriver, { steps }: StepRecorder, isOver: () => boolean): Promise<undefined> {
  let seen = 0
  for (let turns = 0; turns < QUIET_TURNS && !isOver(); ) {
    const waits = machine.waitsPending + machine.hostFunctionsPending + machine.hostFunctionsDropped > 0
    turns = waits && steps.length === seen ? turns + 1 : 0
    seen = steps.length
    await setImmediate()
  }
}

/** The operations that will never be over. */
function standing({ operations }: StepRecorder): string {
  const left = [...operations.values()].filter(({ operation }) => !operation.over)
  const fronts = left.filter(({ operation }) => operation.after.every(({ over }) => over))
  const isDropped = ({ operation }: Known): boolean => operation.kind === SimOperationKind.HOST && operation.dropped
  const dropped = [...operations.values()].filter(isDropped).map(nameOf)
  const faults = dropped.length === 0 ? '' : `; a fault has dropped ${dropped.join(', ')}`
  return `the program waits, and these stand: ${fronts.map(nameOf).join(', ') || 'none'}${faults}`
}

function nameOf({ what, nth, stream }: Known): string {
  return `${what} ${nth} on ${stream}`
}
