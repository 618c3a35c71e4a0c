/** Simulations, and the operations on their streams that no GPU offers. */
import { checkInteger, checkNanoseconds, checkPointer, readOptions } from '../base/arguments.js'
import { invalidType, stateError } from '../base/errors.js'
import { shortCallSite } from '../base/stack.js'
import { type Device, deviceOf, driverOf, isDevice, readOptionsOn } from '../device.js'
import { CUresult } from '../driver/cuda-results.js'
import type { StreamHandle } from '../driver/driver.js'
import { MOST_DEVICES, MOST_MEMORY } from '../driver/sim/limits.js'
import { SimOperationKind } from '../driver/sim/machine/work.js'
import { SimDriver, simulatorOfHandle } from '../driver/sim/sim-driver.js'
import { backendOf, wrappableOf } from '../driver/wrappable-driver.js'
import { isStream, type Stream } from '../stream.js'
import { openStream, STREAM_OPTIONS, StreamCore } from '../streams/stream-core.js'
import type { StreamOptions } from '../streams/stream-options.js'
import { checkFault, checkFaults, type Fault } from './faults.js'

/** The devices, the order and the faults of a simulated machine. */
export interface SimulationOptions {
  /** How many devices the machine has, from 1 to 64. Default 1. */
  readonly devices?: number | undefined
  /**
   * An integer: which of the allowed orders it takes, and which of the faults that have a probability come. Default 0:
   * operations take their time and no more, and what they do to memory is put off for as long as CUDA allows, so that a
   * wait which is missing shows as wrong bytes. With another seed operations start late at random.
   */
  readonly seed?: number | undefined
  /**
   * Bytes of memory of each device, from 1 to 2 ** 46. Default: half of this machine's memory, or of the limit of the
   * container that the program runs in, shared equally among the devices; at least 256 MiB, at most 141e9, as an H200 has.
   * The machine has to have what a program writes of it.
   */
  readonly memory?: number | undefined
  /** The calls and operations that are to fail. More can be asked for later, by `simulation.inject()`. */
  readonly faults?: readonly Fault[] | undefined
}

/** A simulated machine. It belongs to the thread that made it; its handles and addresses mean nothing in another. */
export interface Simulation extends Disposable {
  /** Its GPUs, in the order of their ordinals. */
  readonly devices: readonly Device[]
  /**
   * Virtual nanoseconds since it started: each call takes 100, and when the host blocks or the event loop turns, time
   * goes on with the work that is queued.
   */
  readonly now: number
  /** Which of the allowed orders it takes. */
  readonly seed: number
  /**
   * Lets a call or an operation fail, counted from now; takes that back when the result is disposed.
   * @param fault The call or operation that fails, and how.
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE, ERR_OUT_OF_RANGE for a fault that cannot be
   */
  inject(fault: Fault): Disposable
  /**
   * Destroys its contexts: pending promises reject, and all further use fails with CudaError 709,
   * CUDA_ERROR_CONTEXT_IS_DESTROYED; `close()` of its objects does not throw. May be called twice.
   */
  close(): void
}

const simulations = new WeakMap<SimDriver, Simulation>()
/** By simulator: a handle is a number for its owner, and keeps nothing alive. */
const foreignStreams = new WeakMap<SimDriver, Set<bigint>>()

/**
 * A private machine beside the default driver, which is not opened by this. Its devices are used as any: `new Stream({
 * device })`.
 * @param options `devices` (default 1), `seed` for the order of work (default 0), `memory` of each device in bytes
 * (default: an equal part of half of this machine's) and `faults` (default none)
 * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for a fault that is none; ERR_OUT_OF_RANGE for `devices`,
 * `memory` and numbers in a fault
 * @example
 * ```ts
 * import { simulate } from 'cuda-streams/sim'
 *
 * using simulation = simulate({ devices: 2 })
 * const stream = simulation.devices[1]?.createStream()
 * ```
 */
export function simulate(options?: SimulationOptions): Simulation {
  const given = readOptions(options, ['devices', 'seed', 'memory', 'faults'])
  const { devices = 1, seed = 0, memory, faults: wanted } = given
  checkInteger(devices, 'options.devices', 1, MOST_DEVICES)
  checkInteger(seed, 'options.seed')
  if (memory !== undefined) checkInteger(memory, 'options.memory', 1, MOST_MEMORY)
  const faults = checkFaults(wanted, 'options.faults')
  const driver = new SimDriver({ devices, seed, memory })
  for (const fault of faults) driver.machine.faults.add(fault)
  return simulationFor(driver)
}

/**
 * The machine that a simulated device belongs to, always the same object; that of the default simulator too.
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
  driver.enqueue(handle, SimOperationKind.KERNEL, nanoseconds)
  openStream(stream).last = 'busy()'
}

/**
 * Holds the stream at this point until it is opened. To block for work behind it is ERR_DEADLOCK, unless a host
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
 * const gate = latch(stream)
 * stream.query() // false
 * gate.open()
 * await stream.finished()
 * ```
 */
export function latch(stream: Stream): { open(): void } {
  const { driver, handle } = simulated(stream)
  const site = shortCallSite()
  const operation = driver.enqueue(handle, SimOperationKind.LATCH, 0)
  operation.site = site
  return { open: () => driver.machine.open(operation) }
}

/**
 * Queues work that faults when it is done. All devices of the machine are lost by that, as those of a process are. It
 * can be captured.
 * @param stream A simulated stream.
 * @param number The CUresult of the fault. Default 700, an illegal address.
 * @throws {Error} ERR_UNSUPPORTED for a stream of the NVIDIA driver; ERR_OUT_OF_RANGE for a number less than 1;
 * ERR_INVALID_ARG_TYPE, ERR_CLOSED
 * @throws {CudaError} as a launch
 */
export function fault(stream: Stream, number: number = CUresult.ILLEGAL_ADDRESS): void {
  checkInteger(number, 'number', 1, undefined, () => 'a CUresult that is not success')
  const { driver, handle } = simulated(stream)
  driver.enqueue(handle, SimOperationKind.FAULT, number)
  openStream(stream).last = 'fault()'
}

/**
 * The handle of a stream that another library of the simulation owns: wrap it with `new ExternalStream(handle, { device
 * })`. The stream lives until `destroyForeignStream(handle)`, and no longer than its simulation, which a handle does
 * not keep alive.
 * @param device A simulated device.
 * @param options `priority` (default 0), `nonBlocking` (default true) and `context` (default none)
 * @throws {Error} ERR_UNSUPPORTED for a device of the NVIDIA driver; ERR_INVALID_ARG_TYPE; ERR_DEVICE_MISMATCH where
 * `options.device` is another one
 */
export function foreignStream(device: Device, options?: StreamOptions): bigint {
  const driver = simDriverOf(device)
  // What wraps the driver must not see it being made: to the sanitizer it would be a stream of this library.
  const { handle: made } = StreamCore.make(device, readOptionsOn(device, options, STREAM_OPTIONS), driver)
  const handle = BigInt(made)
  const known = foreignStreams.get(driver) ?? new Set<bigint>()
  foreignStreams.set(driver, known.add(handle))
  return handle
}

/**
 * Destroys such a stream, as its owner would. Queued work still completes; wrappers of it get CudaError 400 from then
 * on.
 * @param handle A handle from `foreignStream()`.
 * @throws {Error} ERR_INVALID_HANDLE for a handle that `foreignStream()` did not return, or that is destroyed;
 * ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE
 */
export function destroyForeignStream(handle: bigint): void {
  const address = checkPointer(handle, 'handle', 'a handle that foreignStream() returned')
  const driver = simulatorOfHandle(address)
  if (driver === undefined || !foreignStreams.get(driver)?.delete(BigInt(address))) {
    const what = `0x${handle.toString(16)} is no stream that foreignStream() made, or it is destroyed`
    throw stateError('ERR_INVALID_HANDLE', what)
  }
  driver.foreignStreamDestroy(address as StreamHandle)
}

/** The simulation of a simulator: always the same object. */
export function simulationFor(driver: SimDriver): Simulation {
  const known = simulations.get(driver)
  if (known !== undefined) return known
  const simulation: Simulation = {
    devices: Array.from({ length: driver.deviceCount() }, (_, ordinal) => deviceOf(wrappableOf(driver), ordinal)),
    seed: driver.seed,
    get now() {
      return driver.machine.scheduler.now
    },
    inject: (fault) => ({ [Symbol.dispose]: driver.machine.faults.add(checkFault(fault)) }),
    close: () => driver.close(),
    [Symbol.dispose]: () => driver.close(),
  }
  simulations.set(driver, simulation)
  return simulation
}

function simDriverOf(device: Device): SimDriver {
  if (!isDevice(device)) throw invalidType('device', 'a Device', device)
  const driver = backendOf(driverOf(device))
  if (driver instanceof SimDriver) return driver
  throw stateError('ERR_UNSUPPORTED', `${device} is real: only the simulator can do this. Take a device of simulate()`)
}

function simulated(stream: Stream): { readonly driver: SimDriver; readonly handle: StreamHandle } {
  if (!isStream(stream)) throw invalidType('stream', 'a Stream', stream)
  const core = openStream(stream)
  core.makeRoom(1)
  const { handle } = core
  const driver = simDriverOf(stream.device)
  // Work that is queued here passes none of the library's own verbs, as another library's does.
  driver.streamHandedOut(handle)
  return { driver, handle }
}
