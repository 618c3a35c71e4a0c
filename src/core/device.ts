/** Devices: GPUs, real or simulated; and what is common to the objects that belong to one. */

// All entry points import declarations from here, which name Disposable. The `lib` of a program may lack it.
/// <reference lib="esnext.disposable" preserve="true" />

import { Ambient } from '../foundation/base/ambient.js'
import { checkFunction, checkInteger, checkThis, type Given, readOptions } from '../foundation/base/arguments.js'
import { invalidType, invalidValue, reportedWhileWaiting, stateError } from '../foundation/base/errors.js'
import { destroyWhenUnreachable, NativeResource } from '../foundation/base/finalization.js'
import {
  ClosableObject,
  checkMade,
  construct,
  implementation,
  LibraryObject,
  nextSerial,
  notCloneable,
} from '../foundation/base/library-object.js'
import { memoize } from '../foundation/base/memoize.js'
import { DEVICE_ATTRIBUTES, type DeviceAttribute } from '../foundation/driver/device-attributes.js'
import type { DeviceUsage } from '../foundation/driver/device-driver.js'
import type { Driver, ShortCalls } from '../foundation/driver/driver.js'
import { finished, type WaitOptions } from '../foundation/driver/finished.js'
import type { ContextHandle, EventHandle } from '../foundation/driver/handle-types.js'
import { following, promisesOn, throwRejected } from '../foundation/driver/promise-waits.js'
import { isWrappable, type WrappableDriver } from '../foundation/driver/wrappable-driver.js'
import { defaultDriver, driverForHandle } from './default-driver.js'

/** The CUDA context that a stream or device works in. */
export interface Context {
  /** The CUcontext. */
  readonly handle: bigint
  /** The device it is on. */
  readonly device: Device
  /** The number of multiprocessors that kernels may run on there: all of the device, or those of a green context. */
  readonly multiprocessors: number
}

const devicesOf = memoize((_driver: WrappableDriver) => new Map<number, Device>())
const currentDevice = new Ambient<Device>()

/** The number of a PCI address: its domain, bus, device and function; undefined for what is none. */
function pciAddress(id: string): number | undefined {
  const [, domain = '0', bus = '', slot = '', fn = '0'] =
    /^(?:([\da-f]{1,8}):)?([\da-f]{1,2}):([\da-f]{1,2})(?:\.([0-7]))?$/i.exec(id) ?? []
  if (bus === '') return undefined
  const [a, b, c, d] = [domain, bus, slot, fn].map((digits) => Number.parseInt(digits, 16))
  return (((a ?? 0) * 256 + (b ?? 0)) * 32 + (c ?? 0)) * 8 + (d ?? 0)
}

/**
 * A GPU, real or simulated. There is one object for each ordinal of a driver.
 *
 * The first use of the default driver opens it: CUDA_STREAMS_DRIVER names it, 'cuda' or 'sim'; without it or with
 * 'auto' it is the NVIDIA driver and, on a machine that has none, the simulator with a warning. That first use throws
 * ERR_NO_DRIVER if the NVIDIA driver cannot be used, ERR_INVALID_ARG_VALUE for another name.
 */
export class Device extends LibraryObject {
  /** The device's number in the order of the driver, from 0. */
  readonly ordinal: number
  /** @internal Refuses to be copied to another thread, and is deep-equal to no device of another simulation. */
  protected readonly cloning: symbol = notCloneable()
  /** @internal */
  declare readonly [implementation]: WrappableDriver

  /** Use `Device.get()`. */
  private constructor(driver: WrappableDriver, ordinal: number) {
    super()
    if (!isWrappable(driver)) throw invalidType('Device', 'obtained from Device.get(ordinal)', 'new Device()')
    this[implementation] = driver
    this.ordinal = ordinal + 0 // never -0
  }

  /** @internal */
  static [construct](driver: WrappableDriver, ordinal: number): Device {
    return new Device(driver, ordinal)
  }

  /**
   * The device with this ordinal of the default driver: always the same object.
   * @param ordinal The device's number, from 0. Default: the current device.
   * @throws {Error} ERR_OUT_OF_RANGE if the driver has no such device; ERR_INVALID_ARG_TYPE
   */
  static get(ordinal?: number): Device {
    return ordinal === undefined ? Device.current() : deviceOf(defaultDriver(), ordinal)
  }

  /** The number of devices of the default driver (`cuDeviceGetCount`). */
  static count(): number {
    return defaultDriver().devices.count()
  }

  /**
   * All devices of the default driver, by their ordinals.
   * @example
   * ```ts
   * const streams = Device.all().map((device) => device.createStream())
   * ```
   */
  static all(): readonly Device[] {
    return Array.from({ length: Device.count() }, (_, ordinal) => Device.get(ordinal))
  }

  /**
   * The device of the default driver at an address of the PCI bus (as `cuDeviceGetByPCIBusId`).
   * @param id Such as '0000:3b:00.0', with capital letters and more zeros, too, as nvidia-smi has it, or without the domain
   * if that is 0.
   * @throws {Error} ERR_INVALID_ARG_VALUE if no device is there, with the addresses of those that are; ERR_INVALID_ARG_TYPE
   */
  static fromPciBusId(id: string): Device {
    if (typeof id !== 'string') throw invalidType('id', "a string such as '0000:3b:00.0'", id)
    const wanted = pciAddress(id)
    const all = Device.all()
    const found = wanted === undefined ? undefined : all.find(({ pciBusId }) => pciAddress(pciBusId) === wanted)
    if (found !== undefined) return found
    throw invalidValue(
      `No device is at '${id}': ${all.map((device) => `${device} is at ${device.pciBusId}`).join(', ')}`,
    )
  }

  /** The device that this async context made current; until it made one current, device 0 of the default driver. */
  static current(): Device {
    return currentDevice.get() ?? deviceOf(defaultDriver(), 0)
  }

  /** The device's name, such as 'NVIDIA H200' (`cuDeviceGetName`). */
  get name(): string {
    return driverOf(this).devices.name(this.ordinal)
  }

  /** The device's UUID (`cuDeviceGetUuid`), as 'GPU-' and 8-4-4-4-12 hexadecimal digits. */
  get uuid(): string {
    return driverOf(this).devices.uuid(this.ordinal)
  }

  /**
   * The device's address on the PCI bus (`cuDeviceGetPCIBusId`), such as '0000:3b:00.0', as folders of /sys/bus/pci/devices are
   * named; nvidia-smi has it with capital letters and more zeros before it.
   */
  get pciBusId(): string {
    return driverOf(this).devices.pciBusId(this.ordinal)
  }

  /** The compute capability, such as 9.0 for an H200: two attributes of the device (`cuDeviceGetAttribute`). */
  get computeCapability(): { readonly major: number; readonly minor: number } {
    const driver = driverOf(this)
    const part = (name: DeviceAttribute): number => driver.devices.attribute(this.ordinal, DEVICE_ATTRIBUTES[name])
    return { major: part('computeCapabilityMajor'), minor: part('computeCapabilityMinor') }
  }

  /** The driver that the device belongs to: the NVIDIA driver, or the simulator. */
  get driver(): 'cuda' | 'sim' {
    return driverOf(this).name
  }

  /**
   * The device's memory in bytes (`cuMemGetInfo`): all of it, and what is free for all processes. Unused memory of pools is
   * not free, though allocations can get it.
   * @throws {CudaError} if the GPU has faulted
   */
  get memory(): { readonly free: number; readonly total: number } {
    const { free, total } = driverOf(this).pools.info(this.ordinal)
    return { free, total }
  }

  /**
   * How busy, full and warm the device is, and which processes use it, by NVIDIA's management library, NVML, as `nvidia-smi` prints them: for metrics and
   * admission. It costs some microseconds, waits for no work, and may be called at any time. On the simulator only the memory is known.
   * @returns see DeviceUsage; a figure that the device lacks is undefined. On a GPU that is divided (MIG) they are those of the whole GPU.
   * @throws {Error} ERR_UNSUPPORTED, with the places tried, if NVML is not found, which comes with the driver (CUDA_STREAMS_NVML names the
   * file or its folder)
   * @throws {LibraryError} if NVML refuses
   * @example
   * ```ts
   * const { utilization, memory, temperature } = device.usage()
   * console.log(`${utilization} %, ${memory.used} of ${memory.total} bytes, ${temperature} degrees`)
   * ```
   */
  usage(): DeviceUsage {
    return driverOf(this).devices.usage(this.ordinal)
  }

  /**
   * Whether work of this device can use memory of another one (`cuDeviceCanAccessPeer`): its own always. Streams enable the access
   * themselves when they first need it, and copies between devices need none.
   * @param other A device of the same driver
   * @throws {Error} ERR_DEVICE_MISMATCH for a device of another driver; ERR_INVALID_ARG_TYPE
   * @example
   * ```ts
   * const reach = Device.all().filter((device) => device.canAccess(Device.get(0)))
   * ```
   */
  canAccess(other: Device): boolean {
    const driver = driverOf(this)
    if (!isDevice(other)) throw invalidType('other', 'a Device', other)
    if (driverOf(other) !== driver)
      throw stateError('ERR_DEVICE_MISMATCH', `${other} is of ${another(driverOf(other), driver)} than ${this}`)
    return other === this || driver.memory.canAccessPeer(other.ordinal, this.ordinal)
  }

  /** The device's primary context (`cuDevicePrimaryCtxRetain`), which is retained once for each device. */
  get context(): Context {
    return contextAt(checkThis(this, isDevice, 'a Device'))
  }

  /**
   * The priorities that streams may have (`cuCtxGetStreamPriorityRange`). Lower numbers go first, so `greatest` is at
   * most `least`.
   */
  get priorityRange(): { readonly least: number; readonly greatest: number } {
    return driverOf(this).devices.streamPriorityRange(this.ordinal)
  }

  /**
   * Lets the profiler that watches the process collect until the result is disposed of (`cuProfilerStart`, `cuProfilerStop`): what
   * `nsys profile --capture-range=cudaProfilerApi` and `ncu --profile-from-start off` wait for. Ranges of one device may be within each other, and the
   * last to end stops the profiler. Calls that come before the work has run do not wait for it: wait within the range for what is to be in it.
   * Does nothing on the simulator, and without a profiler.
   * @throws {CudaError} if the GPU has faulted
   * @example
   * ```ts
   * {
   *   using range = device.profilerRange()
   *   stream.launch(kernel, { grid: 64, block: 256 })
   *   await stream.finished()
   * }
   * ```
   */
  profilerRange(): Disposable {
    const { devices } = driverOf(this)
    const begun = profilerRanges(this)
    if (begun.count === 0) devices.profile(this.ordinal, true)
    begun.count += 1
    let isOver = false
    return {
      [Symbol.dispose]: () => {
        if (isOver) return
        isOver = true
        begun.count -= 1
        if (begun.count === 0) devices.profile(this.ordinal, false)
      },
    }
  }

  /**
   * Blocks until all work queued on the device is done (`cuCtxSynchronize`). Host functions that become ready meanwhile run
   * inside this call.
   * @throws {CudaError} if the GPU has faulted; 900 while a stream of the device captures, in any mode, which
   * invalidates the capture
   * @throws {Error} ERR_DEADLOCK inside a host function of the device, and on the simulator if only this thread
   * could open a latch
   */
  synchronize(): void {
    const driver = driverOf(this)
    try {
      driver.devices.synchronize(this.ordinal)
    } catch (error) {
      throw reportedWhileWaiting(error, `${this}`)
    }
    throwRejected(promisesOn(this))
  }

  /**
   * Resolves when all work that is queued on the device now is done (`cuCtxRecordEvent`), without blocking. A pending
   * promise keeps the process alive. The call itself never throws. While another thread captures, the wait begins when
   * that capture has ended, and covers what is queued then.
   * @param options `signal`: an AbortSignal that gives up the wait; the GPU's work goes on
   * @throws {CudaError} (as a rejection) if the GPU faults; 900 while a stream of the device captures in this thread, in
   * any mode, which does not invalidate the capture
   * @throws {Error} (as a rejection) `signal.reason` if aborted; ERR_INVALID_ARG_TYPE
   */
  finished(options?: WaitOptions): Promise<void> {
    return finished(
      options,
      () => `${this}`,
      (settle) => {
        const driver = driverOf(this)
        return following(promisesOn(this), settle, (settleWait) => driver.devices.finished(this.ordinal, settleWait))
      },
    )
  }

  /**
   * Blocks until no host function of this JavaScript thread is pending on any stream of any device of this driver, and
   * runs them meanwhile, with those that they queue. Call it before a blocking call of another library in this thread,
   * such as `torch.cuda.synchronize()`: that would wait forever for a stream that waits for JavaScript. Long
   * uploads and downloads have host functions too. Work that precedes no host function is not waited for.
   * @throws {Error} ERR_DEADLOCK inside a host function, which is pending itself until it returns, and on the simulator
   * if a host function is behind a latch that only this thread could open
   */
  drainHostFunctions(): void {
    driverOf(this).work.drainHostFunctions()
  }

  /** Makes the device current for the rest of this async context. */
  use(): this {
    currentDevice.set(checkThis(this, isDevice, 'a Device'))
    return this
  }

  /**
   * Makes the device current until the result is disposed, which makes the one current again that was current before.
   * In an async function prefer `run`, for the reason that `stream.enter()` gives.
   * @example
   * ```ts
   * using scope = Device.get(1).enter()
   * const stream = new Stream() // on device 1
   * ```
   */
  enter(): Disposable {
    return currentDevice.enter(checkThis(this, isDevice, 'a Device'))
  }

  /**
   * Makes the device current for the function and for all that it awaits.
   * @param fn A function, sync or async.
   * @returns the function's result
   * @throws {Error} ERR_INVALID_ARG_TYPE; any error of the function
   * @example
   * ```ts
   * await Device.get(1).run(async () => {
   *   const stream = new Stream() // on device 1
   *   await stream.finished()
   * })
   * ```
   */
  run<R>(fn: () => R): R {
    const device = checkThis(this, isDevice, 'a Device')
    checkFunction(fn, 'fn')
    return currentDevice.run(device, fn)
  }

  /**
   * An attribute of the device (`cuDeviceGetAttribute`).
   * @param name CUDA's name in camelCase, such as 'multiprocessorCount'
   * @throws {Error} ERR_INVALID_ARG_VALUE for a name that CUDA does not have, ERR_INVALID_ARG_TYPE
   * @throws {CudaError} if the driver is too old for it
   */
  attribute(name: DeviceAttribute): number {
    const driver = driverOf(this)
    if (typeof name !== 'string') throw invalidType('name', 'the name of a device attribute', name)
    if (!Object.hasOwn(DEVICE_ATTRIBUTES, name)) {
      throw invalidValue(
        `'${name}' is no device attribute: use CUDA's name in camelCase, such as 'multiprocessorCount'`,
      )
    }
    return driver.devices.attribute(this.ordinal, DEVICE_ATTRIBUTES[name])
  }

  get [Symbol.toStringTag](): string {
    return 'Device'
  }

  override toString(): string {
    return isDevice(this) ? `Device(${this.ordinal}, ${this[implementation].name})` : super.toString()
  }
}

export const isDevice = (value: unknown): value is Device =>
  value instanceof Device && value[implementation] !== undefined

/** The driver behind a device. */
export const driverOf = (device: Device): WrappableDriver => checkThis(device, isDevice, 'a Device')[implementation]

/** How messages name the driver of an object that belongs to another one. */
export const another = (driver: Driver, other: Driver): string =>
  driver.name === 'sim' && other.name === 'sim' ? 'another simulation' : 'another driver'

/** How messages name a device where another one was expected. Devices of two simulations have the same name. */
export function elsewhere(device: Device, expected: Device): string {
  const [driver, other] = [driverOf(device), driverOf(expected)]
  return driver === other ? `${device}` : `${device} of ${another(driver, other)}`
}

/** The one Device object for an ordinal of a driver. */
export function deviceOf(driver: WrappableDriver, ordinal: number): Device {
  const devices = devicesOf(driver)
  const known = devices.get(ordinal)
  if (known !== undefined) return known
  const count = driver.devices.count()
  const way = driver.name === 'sim' ? ' (CUDA_STREAMS_SIM_DEVICES, or simulate({ devices }), gives it more)' : ''
  const expected = (): string => `from 0 to ${count - 1}: driver '${driver.name}' has ${count} device(s)${way}`
  const device = Device[construct](driver, checkInteger(ordinal, 'ordinal', 0, count - 1, expected))
  devices.set(ordinal, device)
  return device
}

/** The device of an option: a Device, an ordinal of the current device's driver, or by default the current device. */
export function resolveDevice(device: Device | number | undefined, name = 'options.device'): Device {
  if (device === undefined) return Device.current()
  if (isDevice(device)) return device
  if (typeof device !== 'number' || !Number.isInteger(device)) throw invalidType(name, 'a Device or an ordinal', device)
  return deviceOf(driverOf(Device.current()), device)
}

interface DeviceOption {
  readonly device?: Device | number | undefined
}

/** Reads options for something on this device. `options.device` must be this one. */
export function readOptionsOn<T extends object, K extends keyof T>(
  device: Device,
  options: T | undefined,
  names: readonly K[],
): Given<T, K> {
  if (options === undefined) return readOptions<T, K>(options, names)
  const given = readOptions(options as T & DeviceOption, [...names, 'device'])
  const named: Device | number | undefined = given.device
  if (named === undefined) return given
  const found = typeof named === 'number' ? deviceOf(driverOf(device), named) : resolveDevice(named)
  if (found === device) return given
  const where = elsewhere(found, device)
  throw stateError('ERR_DEVICE_MISMATCH', `options.device is ${where}, but this is ${device}; leave it out`)
}

/** The short way of records and waits on one device: streams and events that have the same object may go by it. */
export class ShortWay {
  #between: EventHandle | undefined

  constructor(
    readonly calls: ShortCalls,
    readonly context: ContextHandle,
  ) {}

  /** The event between two streams of the device. */
  get between(): EventHandle {
    this.#between ??= this.calls.between(this.context)
    return this.#between
  }
}

/** The short way on a device; undefined if its driver has none. */
export const shortWayOf = memoize((device: Device): ShortWay | undefined => {
  const { short } = driverOf(device).backend
  return short && new ShortWay(short, contextOf(device))
})

export const contextOf = (device: Device): ContextHandle => driverOf(device).devices.context(device.ordinal)

/** The public object of a context that is not a green context. */
export const contextAt = (device: Device, handle = contextOf(device)): Context => ({
  handle: BigInt(handle),
  device,
  get multiprocessors() {
    return device.attribute('multiprocessorCount')
  },
})

/** The implementation of an object that is a handle of the driver. */
export abstract class HandleImpl<H extends number> extends NativeResource {
  declare readonly device: Device
  declare readonly driver: Driver
  declare readonly handle: H
  declare readonly context: ContextHandle
  declare readonly serial: number
  declare private readonly name: string

  /** `name` is that of the public class. */
  constructor(name: string, device: Device, handle: H, context: ContextHandle = contextOf(device)) {
    super()
    this.name = name
    this.device = device
    this.driver = driverOf(device)
    this.handle = handle
    this.context = context
    this.serial = nextSerial()
  }

  close(): void {
    this.dispose()
  }

  /** What `toString()` prints behind the handle. */
  protected get details(): string {
    return `${this.device}`
  }

  override toString(): string {
    return `${this.name}(0x${this.handle.toString(16)}, ${this.details}${this.isClosed ? ', closed' : ''})`
  }
}

/** The base of the public classes whose objects are handles of the driver, and are not made often. */
export abstract class HandleObject extends ClosableObject {
  /** The device that it is on. */
  declare readonly device: Device
  /** The number of this object: no other object of this thread has it. */
  declare readonly serial: number
  /** @internal */
  declare readonly [implementation]: HandleImpl<number>

  /** @internal `type`, `name` and `way` are for programs that call the constructor: its class, and how to get an object. */
  protected constructor(
    impl: HandleImpl<number>,
    type: abstract new (...args: never[]) => HandleImpl<number>,
    name: string,
    way: string,
  ) {
    super()
    checkMade(impl, type, name, way)
    this.device = impl.device
    this.serial = impl.serial
    this[implementation] = impl
    destroyWhenUnreachable(this, impl)
  }
}

/**
 * The device of a handle of another library: the one that is wanted, or else the current one, or that of the simulation that the handle is of.
 * @param wanted The device as a program gives it; undefined or -1: not known.
 */
export function deviceForHandle(handle: number, wanted: Device | number | undefined): Device {
  if (wanted !== undefined && wanted !== -1) return resolveDevice(wanted)
  const near = resolveDevice(undefined)
  return deviceOf(driverForHandle(handle, driverOf(near)), near.ordinal)
}

/** How many ranges of a device the program has begun and not ended, in which a profiler collects. */
const profilerRanges = memoize((_device: Device) => ({ count: 0 }))
