/** Faults on request: the calls and operations that a simulation is asked to let fail. */
import { checkArray, checkInteger, type Given, readOptions } from '../base/arguments.js'
import { describe, invalidType, invalidValue, outOfRange } from '../base/errors.js'
import { CUresult } from '../driver/cuda-results.js'
import { FAILING_CALLS, type FailingCall, type PlannedFault } from '../driver/sim/machine/fault-plan.js'

export type { FailingCall } from '../driver/sim/machine/fault-plan.js'

interface WhichFail {
  /**
   * The first that fails, counted from 1, from when the fault was asked for: an integer. Those that the library makes
   * for itself count too: a download copies, records and waits. Default 1.
   */
  readonly nth?: number | undefined
  /** How many fail from there on. Default 1, or all where there is a probability; `Infinity` is allowed. */
  readonly times?: number | undefined
  /** Each fails only with this probability, from 0 to 1. The simulation's seed decides. Default 1. */
  readonly probability?: number | undefined
}

/** A call that throws at once, and does nothing. */
export interface CallFault extends WhichFail {
  /** CUDA's name of it, such as 'cuMemAllocAsync': one that a program's own calls lead to. */
  readonly call: FailingCall
  /** That would be an `OperationFault`. */
  readonly operation?: undefined
  /**
   * The CUresult that it gives, at least 1: 2 is out of memory. One after which CUDA's context is lost (700 to 799)
   * loses the devices too.
   */
  readonly result: number
}

/** Work that is queued as ever, and faults when it would end: every later call fails, and every wait rejects. */
export interface OperationFault extends WhichFail {
  /** Which operations count, on any stream of the machine. 'any' is one of the three. */
  readonly operation: 'kernel' | 'copy' | 'fill' | 'any'
  /** That would be a `CallFault`. */
  readonly call?: undefined
  /** The CUresult of the fault, at least 1. Default 700, an illegal address; 719 is a launch failure. */
  readonly result?: number | undefined
}

/** Something that is to fail in a simulation: a call at once, or an operation when it would end. */
export type Fault = CallFault | OperationFault

const OPERATIONS: readonly unknown[] = ['kernel', 'copy', 'fill', 'any']
const FAULT = ['call', 'operation', 'nth', 'times', 'probability', 'result'] as const

export function checkFault(fault: Fault, name = 'fault'): PlannedFault {
  if (fault === undefined) throw invalidType(name, 'a fault', fault)
  const given: Given<Fault, (typeof FAULT)[number]> = readOptions(fault, FAULT, name)
  const { call, operation, nth = 1, probability } = given
  const { times = probability === undefined ? 1 : Number.POSITIVE_INFINITY } = given
  if ((call === undefined) === (operation === undefined)) {
    throw invalidValue(`${name} must name either a call or an operation`)
  }
  if (call !== undefined && !FAILING_CALLS.includes(call)) {
    throw invalidValue(`${name}.call must be one of ${FAILING_CALLS.join(', ')}, not ${describe(call)}`)
  }
  if (operation !== undefined && !OPERATIONS.includes(operation)) {
    throw invalidValue(`${name}.operation must be one of ${OPERATIONS.join(', ')}, not ${describe(operation)}`)
  }
  checkInteger(nth, `${name}.nth`, 1)
  // A call has no result that is usual.
  const { result = call === undefined ? CUresult.ILLEGAL_ADDRESS : undefined } = given
  return {
    call,
    operation,
    after: nth - 1,
    times: checkTimes(times, name),
    probability: checkProbability(probability, name),
    result: checkInteger(result, `${name}.result`, 1, undefined, () => 'a CUresult that is not success'),
  }
}

export function checkFaults(faults: readonly Fault[] | undefined, name: string): readonly PlannedFault[] {
  if (faults === undefined) return []
  const given = checkArray(faults, name, 'an array of faults')
  return given.map((each, index) => checkFault(each as Fault, `${name}[${index}]`))
}

function checkTimes(times: number, name: string): number {
  return times === Number.POSITIVE_INFINITY ? times : checkInteger(times, `${name}.times`, 1)
}

function checkProbability(probability: number | undefined, name: string): number {
  if (probability === undefined) return 1
  if (typeof probability !== 'number') throw invalidType(`${name}.probability`, 'a number', probability)
  if (!(probability >= 0 && probability <= 1)) throw outOfRange(`${name}.probability`, 'from 0 to 1', probability)
  return probability
}
