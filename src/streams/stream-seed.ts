/** What a stream is made from inside the library: a handle, whose it is, and what has to be destroyed with it. */
import { checkBoolean, readOptions } from '../base/arguments.js'
import { invalidType, stateError } from '../base/errors.js'
import type { NativeResource } from '../base/finalization.js'
import { contextOf, type Device, deviceOf, driverOf, elsewhere, resolveDevice } from '../device.js'
import { driverForHandle } from '../driver/default-driver.js'
import { type ContextHandle, type Driver, isDefaultStream, StreamFlag, type StreamHandle } from '../driver/driver.js'
import { checkFact, receive, type SharedStream } from './shared.js'
import type { StreamOptions } from './stream-options.js'

const STREAM_OPTIONS = ['device', 'priority', 'nonBlocking'] as const

export class StreamSeed {
  readonly device: Device
  readonly context: ContextHandle
  readonly handle: StreamHandle
  /** Ours to destroy, wrapped for another owner, or kept by the library for the caller. */
  readonly tenure: 'owned' | 'wrapped' | 'kept'
  /** What is kept reachable, the owner first. */
  readonly held: readonly (object | undefined)[]

  constructor(
    device: Device,
    context: ContextHandle,
    handle: StreamHandle,
    tenure: 'owned' | 'wrapped' | 'kept',
    held: readonly (object | undefined)[] = [],
  ) {
    this.device = device
    this.context = context
    this.handle = handle
    this.tenure = tenure
    this.held = held
  }
}

export class StreamResource implements NativeResource {
  readonly #driver: Driver
  readonly #handle: StreamHandle
  gone = false
  registered = false

  constructor(driver: Driver, handle: StreamHandle) {
    this.#driver = driver
    this.#handle = handle
  }

  destroy(): void {
    this.#driver.streamDestroy(this.#handle)
  }
}

export function seedOfNew(options: StreamOptions | undefined): StreamSeed {
  const given = readOptions(options, STREAM_OPTIONS)
  const device = resolveDevice(given.device)
  const priority = checkPriority(given.priority)
  const flags = checkBoolean(given.nonBlocking, 'options.nonBlocking', true) ? StreamFlag.NON_BLOCKING : 0
  const context = contextOf(device)
  return new StreamSeed(device, context, driverOf(device).streamCreate(context, flags, priority), 'owned')
}

/** An integer of any size: the driver clamps it to the device's range itself, but takes 32 bits. */
export function checkPriority(priority: number | undefined): number {
  if (priority === undefined) return 0
  if (!Number.isInteger(priority)) throw invalidType('options.priority', 'an integer', priority)
  return Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, priority)) + 0 // never -0
}

export function seedOfHandle(cudaHandle: number, wanted: Device | number | undefined): StreamSeed {
  const near = resolveDevice(wanted)
  const driver = wanted === undefined ? driverForHandle(cudaHandle, driverOf(near)) : driverOf(near)
  const { stream, context, device } = driver.streamAdopt(cudaHandle, near.ordinal)
  driver.streamHandedOut(stream)
  return new StreamSeed(deviceOf(driver, device), context, stream, 'wrapped')
}

/** What was shared: the object itself in this thread, else its handle and id on a device. */
export function receiveStream(shared: SharedStream): {
  readonly owner: object | undefined
  readonly device: Device
  readonly cudaHandle: number
  readonly id: bigint | undefined
} {
  const { owner, device, facts, said } = receive(shared, 'stream', ['handle', 'id'])
  const [cudaHandle = 0] = facts
  checkFact(said.handle, 'handle', BigInt(cudaHandle))
  return { owner, device, cudaHandle, id: said.id }
}

/** Of a stream that another thread has open, as far as this process can tell. */
export function seedOfShared(cudaHandle: number, id: bigint | undefined, device: Device): StreamSeed {
  const driver = driverOf(device)
  const seed = seedOfHandle(cudaHandle, device)
  // A capture would be spoilt by the question, and a stream that captures is one in use.
  if (isDefaultStream(seed.handle) || driver.streamIsCapturing(seed.handle)) return seed
  if (driver.streamGetId(seed.handle) === id) return seed
  const what = `The stream with handle 0x${cudaHandle.toString(16)} has been destroyed since it was shared`
  throw stateError('ERR_CLOSED', `${what}, and another made in its place`)
}

export function checkDevice(stream: { readonly device: Device }, wanted: Device | number | undefined): void {
  if (wanted === undefined || wanted === -1) return
  const device = resolveDevice(wanted)
  if (device !== stream.device) {
    throw stateError(
      'ERR_DEVICE_MISMATCH',
      `The stream is on ${stream.device}, not on ${elsewhere(device, stream.device)} as options.device says`,
    )
  }
}
