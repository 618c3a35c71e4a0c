/** Simulations, the faults injected into them, and the operations on their streams that no GPU offers. */
import type { Given } from '../foundation/base/arguments.js'
import {
  checkArray,
  checkChoice,
  checkFunction,
  checkInteger,
  checkNanoseconds,
  checkPointer,
  checkText,
  oneOf,
  readOptions,
} from '../foundation/base/arguments.js'
import { COMPUTE_CAPABILITIES, MOST_DEVICES, MOST_MEMORY } from '../foundation/base/environment-variables.js'
import { invalidType, invalidValue, outOfRange, stateError } from '../foundation/base/errors.js'
import { memoize } from '../foundation/base/memoize.js'
import { shortCallSite } from '../foundation/base/stack.js'
import { CUresult } from '../foundation/driver/cuda-results.js'
import type { StreamHandle } from '../foundation/driver/handle-types.js'
import type { KernelProfile } from '../foundation/driver/kernel-profile.js'
import { backendOf, driverIsMade, wrappableOf } from '../foundation/driver/wrappable-driver.js'
import { type ComputeCapability, parseComputeCapability } from '../simulator/compute-capability.js'
import { FAILING_CALLS, type FailingCall, type PlannedFault } from '../simulator/machine/fault-plan.js'
import { SimOperationKind } from '../simulator/machine/work.js'
import { SimDriver, simulatorOfHandle } from '../simulator/sim-driver.js'
import { type Device, deviceOf, driverOf, isDevice, readOptionsOn } from './device.js'
import { isStream, type Stream } from './stream.js'
import { openStream, STREAM_OPTIONS, StreamImpl } from './streams/stream-impl.js'
import type { StreamOptions } from './streams/stream-options.js'

export type { FailingCall } from '../simulator/machine/fault-plan.js'

interface WhichFail {
  /**
   * The first that fails, counted from 1 since the fault was injected: an integer. Internal calls and operations count too:
   * a download copies, records and waits. Default 1.
   */
  readonly nth?: number | undefined
  /** The number of those that fail from there on. Default 1, or all if there is a probability; `Infinity` is allowed. */
  readonly times?: number | undefined
  /** Each fails only with this probability, from 0 to 1. The simulation's seed decides. Default 1. */
  readonly probability?: number | undefined
}

/** A call that throws at once, and does nothing. */
export interface CallFault extends WhichFail {
  /** CUDA's name of the call, such as 'cuMemAllocAsync': one that calls of programs lead to. */
  readonly call: FailingCall
  /** A member that only an `OperationFault` has. */
  readonly operation?: undefined
  /**
   * The CUresult of the call, at least 1: 2 is out of memory. One after which CUDA's context is lost (700 to 799)
   * loses the devices too.
   */
  readonly result: number
}

/** Work that is queued as usual, and faults when it would end: every later call fails, and every wait rejects. */
export interface OperationFault extends WhichFail {
  /** The operations that count, on any stream of the machine. 'any' is one of the three. */
  readonly operation: 'kernel' | 'copy' | 'fill' | 'any'
  /** A member that only a `CallFault` has. */
  readonly call?: undefined
  /** The CUresult of the fault, at least 1. Default 700, an illegal address; 719 is a launch failure. */
  readonly result?: number | undefined
}

/** A failure in a simulation: a call fails at once, or an operation when it would end. */
export type Fault = CallFault | OperationFault

/** The devices, the order and the faults of a simulated machine. */
export interface SimulationOptions {
  /** How many devices the machine has, from 1 to 64. Default 1. */
  readonly devices?: number | undefined
  /**
   * An integer that selects one of the allowed orders of work, and which of the faults with a probability occur. Default 0:
   * operations take their time and no more, and their effects on memory are delayed for as long as CUDA allows, so that a
   * missing wait shows as wrong bytes. With another seed operations start late at random.
   */
  readonly seed?: number | undefined
  /**
   * Bytes of memory of each device, from 1 to 2 ** 46. Default: half of this machine's memory, or of the limit of the
   * container that the program runs in, shared equally among the devices; at least 256 MiB, at most 141e9, as an H200 has.
   * This machine must have the memory that a program actually writes.
   */
  readonly memory?: number | undefined
  /**
   * Instructions of all its threads after which the launch of a kernel ends with CUDA_ERROR_LAUNCH_TIMEOUT, and the line where
   * it is: from 1 on. Default: CUDA_STREAMS_SIM_INSTRUCTIONS, or 1e10 and 1e6 more for each thread,
   * which takes seconds.
   */
  readonly instructions?: number | undefined
  /**
   * The compute capability of the devices, such as '10.0', or as `device.computeCapability` has it: PTX for later ones is
   * refused, as a GPU does. Default: CUDA_STREAMS_SIM_COMPUTE_CAPABILITY, or '9.0'. All else stays that of an H200.
   */
  readonly computeCapability?: string | { readonly major: number; readonly minor: number } | undefined
  /**
   * The accesses before which lanes of a warp wait for those that are behind, as they go in step on a GPU: 'volatile' ones, or all of 'shared'
   * memory besides, for kernels that rely on it without `volatile` and `__syncwarp()`. Default: CUDA_STREAMS_SIM_IN_STEP, or 'volatile'.
   */
  readonly inStep?: 'volatile' | 'shared' | undefined
  /**
   * Whether inspectors, such as those of Chrome and VS Code, can stop in kernels and step through them, in the lines of the `.cu` file or else of the
   * PTX; such kernels take several times as long. A text is the folder that has the sources, itself or below. Default: CUDA_STREAMS_SIM_SOURCE_MAPS,
   * or false; `true` is the working directory.
   */
  readonly sourceMaps?: boolean | string | undefined
  /** The calls and operations that are to fail. `simulation.inject()` adds more. */
  readonly faults?: readonly Fault[] | undefined
}

/** A simulated machine. It belongs to the thread that made it; its handles and addresses mean nothing in another. */
export interface Simulation extends Disposable {
  /** The simulation's GPUs, in the order of their ordinals. */
  readonly devices: readonly Device[]
  /**
   * Virtual nanoseconds since it started: each call takes 100, and when the host blocks or the event loop turns, time
   * advances with the queued work.
   */
  readonly now: number
  /** The seed that selects one of the allowed orders of work. */
  readonly seed: number
  /**
   * Makes a call or an operation fail, counted from now, until the result is disposed.
   * @param fault The call or operation that fails, and how.
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE, ERR_OUT_OF_RANGE for an impossible fault
   */
  inject(fault: Fault): Disposable
  /**
   * Runs a function, and counts what the kernels that run meanwhile do: for each line the sectors of global memory, the conflicts of banks of shared
   * memory and the branches that divide warps, and the occupancy. It waits for all work that was queued before, and for all that the function has
   * queued; kernels take many times as long. Kernels that the simulator runs as JavaScript are not counted.
   * @param run Launches the kernels. A promise that it returns is awaited.
   * @returns the launches, in the order in which they ended
   * @throws {Error} ERR_INVALID_ARG_TYPE; what the function throws, and what the waits reject with
   * @example
   * ```ts
   * import { simulationOf } from 'cuda-streams/sim'
   *
   * const profiles = await simulationOf(device).profile(() => stream.launch(axpy, { threads: 1000 }, 2, x, y, 1000))
   * console.table(profiles[0]?.lines)
   * ```
   */
  profile(run: () => unknown): Promise<readonly KernelProfile[]>
  /**
   * Destroys its contexts: pending promises reject, and all further use fails with CudaError 709,
   * CUDA_ERROR_CONTEXT_IS_DESTROYED; `close()` of its objects does not throw. May be called twice.
   */
  close(): void
}

/** The foreign streams by simulator, since a handle is a number that keeps nothing alive. */
const foreignStreamsOf = memoize((_driver: SimDriver) => new Set<bigint>())

/**
 * Makes a private machine beside the default driver, which is not opened by this. Its devices are used as all others:
 * `new Stream({ device })`.
 * @param options `devices` (default 1), `seed` for the order of work (default 0), `memory` of each device in bytes
 * (default: an equal part of half of this machine's), `instructions` of a launch at most,
 * `computeCapability` (default '9.0'), `inStep` (default 'volatile'),
 * `sourceMaps` (default false), and `faults` (default none)
 * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for an impossible fault or compute capability; ERR_OUT_OF_RANGE for `devices`,
 * `memory`, `instructions` and numbers in a fault
 * @example
 * ```ts
 * import { simulate } from 'cuda-streams/sim'
 *
 * using simulation = simulate({ devices: 2 })
 * const stream = simulation.devices[1]?.createStream()
 * ```
 */
export function simulate(options?: SimulationOptions): Simulation {
  const given = readOptions(options, [
    'devices',
    'seed',
    'memory',
    'instructions',
    'computeCapability',
    'inStep',
    'sourceMaps',
    'faults',
  ])
  const { devices = 1, seed = 0, memory, instructions, faults: wanted } = given
  checkInteger(devices, 'options.devices', 1, MOST_DEVICES)
  checkInteger(seed, 'options.seed')
  if (memory !== undefined) checkInteger(memory, 'options.memory', 1, MOST_MEMORY)
  if (instructions !== undefined) checkInteger(instructions, 'options.instructions', 1)
  const faults = checkFaults(wanted, 'options.faults')
  const computeCapability = checkComputeCapability(given.computeCapability)
  const inStep = oneOf(given.inStep, { volatile: 'volatile', shared: 'shared' } as const, 'options.inStep')
  const sourceMaps = checkSourceMaps(given.sourceMaps)
  const driver = new SimDriver({ devices, seed, memory, instructions, computeCapability, inStep, sourceMaps })
  for (const fault of faults) driver.machine.faults.add(fault)
  driverIsMade(wrappableOf(driver))
  return simulationFor(driver)
}

/** The folder of the sources, which is empty for false. */
function checkSourceMaps(given: SimulationOptions['sourceMaps']): string | undefined {
  if (given === undefined) return undefined
  if (typeof given === 'boolean') return given ? '.' : ''
  const folder = checkText(given, 'options.sourceMaps', 'true, false or the folder of the sources')
  if (folder === '') throw invalidValue("options.sourceMaps is '', which is no folder: true is the working directory")
  return folder
}

function checkComputeCapability(given: SimulationOptions['computeCapability']): ComputeCapability | undefined {
  if (given === undefined) return undefined
  const isText = typeof given === 'string'
  if (!isText && (typeof given !== 'object' || given === null)) {
    throw invalidType('options.computeCapability', "a text such as '9.0', or { major, minor }", given)
  }
  const known = parseComputeCapability(isText ? given : `${given.major}.${given.minor}`)
  if (known !== undefined) return known
  throw invalidValue(
    `options.computeCapability is ${isText ? `'${given}'` : `${given.major}.${given.minor}`}: it must be one of ${COMPUTE_CAPABILITIES.join(', ')}`,
  )
}

/**
 * The machine of a simulated device, also of the default simulator: always the same object.
 * @param device A simulated device.
 * @throws {Error} ERR_UNSUPPORTED for a device of the NVIDIA driver; ERR_INVALID_ARG_TYPE
 */
export function simulationOf(device: Device): Simulation {
  return simulationFor(simDriverOf(device))
}

/**
 * Queues work that takes virtual time, as a kernel does. It can be captured.
 * @param stream A simulated stream.
 * @param nanoseconds Virtual nanoseconds, from 0 to 2 ** 53 - 1.
 * @throws {Error} ERR_UNSUPPORTED for a stream of the NVIDIA driver; ERR_OUT_OF_RANGE for another length;
 * ERR_INVALID_ARG_TYPE, ERR_CLOSED
 * @throws {CudaError} as a launch
 */
export function busy(stream: Stream, nanoseconds: number): void {
  checkNanoseconds(nanoseconds, 'nanoseconds')
  const { driver, handle } = simulated(stream)
  driver.queue.enqueue(handle, SimOperationKind.KERNEL, nanoseconds)
  openStream(stream).lastWork = 'busy()'
}

/** What `latch()` returns. */
export interface Latch extends Disposable {
  /** Opens the latch: the stream goes on. May be called twice. */
  open(): void
  /** Opens the latch, for `using`: a test that fails leaves no stream behind that stands. */
  [Symbol.dispose](): void
}

/**
 * Blocks the stream at this point until the latch is opened. To block for work behind it is ERR_DEADLOCK, unless a host
 * function opens it meanwhile: await `finished()`.
 * @param stream A simulated stream.
 * @returns the latch; opening it twice does nothing more
 * @throws {Error} ERR_UNSUPPORTED for a stream of the NVIDIA driver, and while the stream captures;
 * ERR_INVALID_ARG_TYPE, ERR_CLOSED
 * @throws {CudaError} as a launch
 * @example
 * ```ts
 * import { latch } from 'cuda-streams/sim'
 *
 * const stream = new Stream()
 * const latched = latch(stream)
 * stream.query() // false
 * latched.open()
 * await stream.finished()
 * ```
 */
export function latch(stream: Stream): Latch {
  const { driver, handle } = simulated(stream)
  const site = shortCallSite()
  const operation = driver.queue.enqueue(handle, SimOperationKind.LATCH, 0)
  operation.site = site
  const open = (): void => driver.machine.open(operation)
  return { open, [Symbol.dispose]: open }
}

/**
 * Queues work that faults when it is done. All devices of the machine are lost then, as those of a process are. It can be
 * captured.
 * @param stream A simulated stream.
 * @param number The CUresult of the fault. Default 700, an illegal address.
 * @throws {Error} ERR_UNSUPPORTED for a stream of the NVIDIA driver; ERR_OUT_OF_RANGE for a number less than 1;
 * ERR_INVALID_ARG_TYPE, ERR_CLOSED
 * @throws {CudaError} as a launch
 */
export function fault(stream: Stream, number: number = CUresult.ILLEGAL_ADDRESS): void {
  checkInteger(number, 'number', 1, undefined, () => 'a CUresult that is not success')
  const { driver, handle } = simulated(stream)
  driver.queue.enqueue(handle, SimOperationKind.FAULT, number)
  openStream(stream).lastWork = 'fault()'
}

/**
 * Makes a stream that another library of the simulation owns, and returns its handle: wrap it with
 * `new ExternalStream(handle, { device })`. The stream exists until `destroyForeignStream(handle)`, and no longer than its
 * simulation, which a handle does not keep alive.
 * @param device A simulated device.
 * @param options `priority` (default 0), `nonBlocking` (default true) and `context` (default none); no name, which its
 * wrapper can have
 * @throws {Error} ERR_UNSUPPORTED for a device of the NVIDIA driver; ERR_INVALID_ARG_TYPE; ERR_DEVICE_MISMATCH if
 * `options.device` is another one
 */
export function foreignStream(device: Device, options?: Omit<StreamOptions, 'name'>): bigint {
  const driver = simDriverOf(device)
  // Made behind the back of the driver's wrappers: the sanitizer would take it for a stream of this library.
  const { handle: made } = StreamImpl.make(device, readOptionsOn(device, options, STREAM_OPTIONS), driver)
  const handle = BigInt(made)
  foreignStreamsOf(driver).add(handle)
  return handle
}

/**
 * Destroys a stream of `foreignStream()`, as its owner would. Queued work still completes; wrappers of it get CudaError 400
 * from then on.
 * @param handle A handle from `foreignStream()`.
 * @throws {Error} ERR_INVALID_HANDLE for a handle that `foreignStream()` did not return, or that is destroyed;
 * ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE
 */
export function destroyForeignStream(handle: bigint): void {
  const address = checkPointer(handle, 'handle', 'a handle that foreignStream() returned')
  const driver = simulatorOfHandle(address)
  if (driver === undefined || !foreignStreamsOf(driver).delete(BigInt(address))) {
    const what = `0x${handle.toString(16)} is not a stream that foreignStream() made, or it has been destroyed`
    throw stateError('ERR_INVALID_HANDLE', what)
  }
  driver.streams.foreignDestroy(address as StreamHandle)
}

const devicesOf = (driver: SimDriver): readonly Device[] =>
  Array.from({ length: driver.devices.count() }, (_, ordinal) => deviceOf(wrappableOf(driver), ordinal))

/** The simulation of a simulator: always the same object. */
export const simulationFor = memoize(
  (driver: SimDriver): Simulation => ({
    devices: devicesOf(driver),
    seed: driver.seed,
    get now() {
      return driver.machine.scheduler.now
    },
    inject: (fault) => ({ [Symbol.dispose]: driver.machine.faults.add(checkFault(fault)) }),
    async profile(run) {
      checkFunction(run, 'run')
      const finished = (): Promise<unknown> => Promise.all(devicesOf(driver).map((device) => device.finished()))
      const profiles: KernelProfile[] = []
      const profiler = (profile: KernelProfile): void => void profiles.push(profile)
      await finished()
      driver.kernels.profilers.add(profiler)
      try {
        await run()
        await finished()
      } finally {
        driver.kernels.profilers.delete(profiler)
      }
      return profiles
    },
    close: () => driver.close(),
    [Symbol.dispose]: () => driver.close(),
  }),
)

function simDriverOf(device: Device): SimDriver {
  if (!isDevice(device)) throw invalidType('device', 'a Device', device)
  const driver = backendOf(driverOf(device))
  if (driver instanceof SimDriver) return driver
  throw stateError('ERR_UNSUPPORTED', `${device} is real: only the simulator can do this. Take a device of simulate()`)
}

function simulated(stream: Stream): { readonly driver: SimDriver; readonly handle: StreamHandle } {
  if (!isStream(stream)) throw invalidType('stream', 'a Stream', stream)
  const impl = openStream(stream)
  impl.reserve(1)
  const { handle } = impl
  const driver = simDriverOf(stream.device)
  // Like work of another library, this work is not queued by methods of the driver interface.
  driver.streams.escaped(handle)
  return { driver, handle }
}

const OPERATIONS = ['kernel', 'copy', 'fill', 'any'] as const
const FAULT = ['call', 'operation', 'nth', 'times', 'probability', 'result'] as const

function checkFault(fault: Fault, name = 'fault'): PlannedFault {
  if (fault === undefined) throw invalidType(name, 'a fault', fault)
  const given: Given<Fault, (typeof FAULT)[number]> = readOptions(fault, FAULT, name)
  const { call, operation, nth = 1, probability } = given
  const { times = probability === undefined ? 1 : Number.POSITIVE_INFINITY } = given
  if ((call === undefined) === (operation === undefined)) {
    throw invalidValue(`${name} must name either a call or an operation`)
  }
  if (call !== undefined) checkChoice(call, `${name}.call`, FAILING_CALLS)
  if (operation !== undefined) checkChoice(operation, `${name}.operation`, OPERATIONS)
  checkInteger(nth, `${name}.nth`, 1)
  // There is no default for the result of a call.
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

const checkTimes = (times: number, name: string): number =>
  times === Number.POSITIVE_INFINITY ? times : checkInteger(times, `${name}.times`, 1)

function checkProbability(probability: number | undefined, name: string): number {
  if (probability === undefined) return 1
  if (typeof probability !== 'number') throw invalidType(`${name}.probability`, 'a number', probability)
  if (!(probability >= 0 && probability <= 1)) throw outOfRange(`${name}.probability`, 'from 0 to 1', probability)
  return probability
}
