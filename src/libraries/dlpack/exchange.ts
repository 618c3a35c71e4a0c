/** Tensors by DLPack: memory that libraries of one process hand to each other, with the order of their streams. */

import { driverForHandle } from '../../core/default-driver.js'
import { Device, deviceOf, driverOf } from '../../core/device.js'
import { bufferImplOf } from '../../core/memory/buffer.js'
import type { DeviceBuffer } from '../../core/memory/device-buffer.js'
import type { PinnedBuffer } from '../../core/memory/pinned-buffer.js'
import type { Stream } from '../../core/stream.js'
import { currentStreamImpl, type StreamImpl, streamImplOf } from '../../core/streams/stream-impl.js'
import {
  checkArray,
  checkBoolean,
  checkInteger,
  checkPointer,
  isObject,
  readOptions,
} from '../../foundation/base/arguments.js'
import { invalidType, invalidValue, refuseReceiver, stateError } from '../../foundation/base/errors.js'
import { checkMade, construct, implementation, LibraryObject } from '../../foundation/base/library-object.js'
import { ExportedTensor, pointerTo, reclaimReleased } from './lent-memory.js'
import type { TensorFacts } from './structs.js'
import { addressOfBytes, DeviceType, ExportedStruct, ImportedStruct, MAJOR_VERSION } from './structs.js'
import type { ElementOptions, ProtocolStream, Tensor } from './tensor.js'
import { importTensor, layoutIn, numberOf, openOn, parseType, streamOfNumber } from './tensor.js'

/** A DLManagedTensorVersioned, or a DLManagedTensor, as a capsule of Python has it. */
export interface DLPackCapsule {
  /** The address of the struct. */
  readonly pointer: bigint | number
  /** Is it a DLManagedTensorVersioned, from a capsule named 'dltensor_versioned', and not 'dltensor'? */
  readonly versioned: boolean
}

/** The arguments of `__dlpack__`. */
export interface DLPackRequest {
  /** The stream that will use the memory: 1 is the null stream, 2 the per-thread one, -1 none; undefined for memory of the host. */
  readonly stream: number | undefined
  /** The latest version that is understood. */
  readonly max_version: readonly [major: number, minor: number]
}

/** An object with Python's protocol, which a JavaScript object that stands for a tensor of Python can have. */
export interface DLPackProducer {
  /**
   * Exports its memory; the caller has to call the deleter.
   * @param request The stream that will use it, and the latest version that is understood.
   */
  __dlpack__(request: DLPackRequest): DLPackCapsule
  /** A DLDeviceType, such as 2 for CUDA, and the ordinal of the device. */
  __dlpack_device__(): readonly [type: number, id: number]
}

/** How a buffer is exported. */
export interface ToDLPackOptions extends ElementOptions {
  /** The consumer is asked not to write it. Needs `maxVersion`. Default: false. */
  readonly readOnly?: boolean | undefined
  /**
   * The consumer's stream, or its number as the argument of `__dlpack__`: its later work is ordered after all work with the
   * buffer. null or -1: nothing waits. Default: the device's null stream.
   */
  readonly stream?: ProtocolStream | null | undefined
  /** The latest version that the consumer understands: a versioned struct from 1 on. Default: an unversioned one. */
  readonly maxVersion?: readonly [major: number, minor: number] | undefined
}

/** How a tensor is imported. */
export interface FromDLPackOptions {
  /**
   * The stream that will use it first: the producer makes it wait for its work; other streams wait for that. For a capsule,
   * the stream that was given to its producer. null: nothing waits. Default: the current stream of the device, and none for
   * a capsule.
   */
  readonly stream?: Stream | null | undefined
}

const TO_OPTIONS = ['dtype', 'shape', 'strides', 'readOnly', 'stream', 'maxVersion'] as const
/** The sources of `fromDLPack()`. */
const EXPECTED = 'a capsule ({ pointer, versioned }) or an object with __dlpack__() and __dlpack_device__()'

/** A buffer that was exported: a DLManagedTensor for a consumer, or that a consumer has. */
export class DLPackTensor extends LibraryObject implements DLPackCapsule {
  /** The address of the struct, for a capsule. It is gone once the consumer has called the deleter. */
  readonly pointer: bigint
  /** Is it a DLManagedTensorVersioned? The capsule is then named 'dltensor_versioned', and 'dltensor' otherwise. */
  readonly versioned: boolean
  /** The result of `__dlpack_device__`: 2 (CUDA) or 1 (memory of the host), and the ordinal. */
  readonly device: readonly [type: number, id: number]
  /** @internal */
  declare readonly [implementation]: ExportedTensor

  /** Use `toDLPack()`. */
  private constructor(exported: ExportedTensor, versioned: boolean, device: readonly [number, number]) {
    super()
    checkMade(exported, ExportedTensor, 'DLPackTensor', 'toDLPack(buffer)')
    this.pointer = BigInt(exported.struct.address)
    this.versioned = versioned
    this.device = device
    this[implementation] = exported
  }

  /** @internal */
  static [construct](exported: ExportedTensor, versioned: boolean, device: readonly [number, number]): DLPackTensor {
    return new DLPackTensor(exported, versioned, device)
  }

  /** Has the consumer released the memory? */
  get released(): boolean {
    const exported = exportedOf(this)
    if (exported.memory !== undefined) reclaimReleased()
    return exported.memory === undefined
  }

  /**
   * Takes back a tensor that no consumer has. A consumer in another library would use freed memory; a tensor that
   * `fromDLPack()` has is not taken back. May be called twice.
   */
  release(): void {
    exportedOf(this).takeBack()
  }

  get [Symbol.toStringTag](): string {
    return 'DLPackTensor'
  }

  override toString(): string {
    if (!isTensor(this)) return super.toString()
    return `DLPackTensor(0x${this.pointer.toString(16)}${this[implementation].memory === undefined ? ', released' : ''})`
  }
}

const isTensor = (value: unknown): value is DLPackTensor =>
  value instanceof DLPackTensor && value[implementation] !== undefined

const exportedOf = (value: unknown): ExportedTensor =>
  isTensor(value) ? value[implementation] : refuseReceiver('a DLPackTensor', value)

/**
 * Exports a buffer, as `__dlpack__` does in Python. The memory is retained until the consumer calls the deleter, also if
 * the buffer is closed before; it is freed after the work that the consumer has queued until then. Nothing is copied. Memory
 * of the host is accessed without waiting, as `pinned.bytes` is.
 * @param buffer A DeviceBuffer, or a PinnedBuffer, which is exported as memory of the host.
 * @param options `dtype` and `shape` of its elements, `strides` in elements; `readOnly`; the consumer's `stream`;
 * `maxVersion` that it understands
 * @returns the struct: its `pointer` goes into a PyCapsule, or to another library of C
 * @throws {Error} ERR_OUT_OF_RANGE if elements lie outside the buffer; ERR_INVALID_ARG_VALUE for an unknown type, another
 * number of strides than of extents, memory that begins in the middle of an element, stream 0, and `readOnly` without `maxVersion`;
 * ERR_INVALID_ARG_TYPE, ERR_CLOSED; ERR_UNSUPPORTED while the buffer's stream or the consumer's captures;
 * ERR_DEVICE_MISMATCH for a stream of another device; as `new ExternalStream(handle)` for a number
 * @example
 * ```ts
 * import { toDLPack } from 'cuda-streams/dlpack'
 *
 * const tensor = toDLPack(buffer, { dtype: 'f32', shape: [32, 32], stream })
 * console.log(tensor.pointer, tensor.versioned) // into a PyCapsule, for torch.from_dlpack(capsule)
 * tensor.release() // only if no consumer took it
 * ```
 */
export function toDLPack(buffer: DeviceBuffer | PinnedBuffer, options: ToDLPackOptions): DLPackTensor {
  const given = readOptions(options, TO_OPTIONS)
  const impl = bufferImplOf(buffer)
  if (impl === undefined) throw invalidType('buffer', 'a DeviceBuffer or a PinnedBuffer', buffer)
  const type = parseType(given.dtype)
  const readOnly = checkBoolean(given.readOnly, 'options.readOnly', false)
  const versioned = isVersioned(given.maxVersion)
  if (readOnly && !versioned) {
    throw invalidValue('options.readOnly needs options.maxVersion of 1.0 or later: older structs cannot say it')
  }
  impl.checkOpen()
  const layout = layoutIn(impl, type, given.shape, given.strides)
  const device = [impl.isPinned ? DeviceType.CPU : DeviceType.CUDA, impl.isPinned ? 0 : impl.device.ordinal] as const
  const use = consumerOf(impl.device, given.stream)
  if (impl.isPinned) impl.viewed()
  else if (use !== undefined)
    impl.openFor(openOn(impl.device, use, 'To export memory').driver).allocation.orderAfterAll(use)
  const [deviceType, deviceId] = device
  const pointer = impl.isPinned ? addressOfBytes(impl.ownBytes()) : impl.pointer
  const facts: TensorFacts = { ...layout, pointer, type, readOnly, deviceType, deviceId }
  return DLPackTensor[construct](
    new ExportedTensor(new ExportedStruct(facts, versioned), pointer, { impl, buffer }),
    versioned,
    device,
  )
}

/** The stream that is to be ordered after all work with the memory; undefined: none. */
function consumerOf(device: Device, given: ToDLPackOptions['stream']): StreamImpl | undefined {
  if (given === null || given === -1 || given === -1n) return undefined
  return streamOfNumber(given ?? 1, device, 'options.stream')
}

function isVersioned(given: unknown): boolean {
  if (given === undefined) return false
  const expected = 'two integers: [major, minor]'
  const [major, minor, ...rest] = checkArray(given, 'options.maxVersion', expected)
  if (rest.length > 0) throw invalidType('options.maxVersion', expected, given)
  checkInteger(minor, 'options.maxVersion[1]', 0)
  return checkInteger(major, 'options.maxVersion[0]', 0) >= MAJOR_VERSION
}

/**
 * Imports memory of another library, as `from_dlpack` does in Python. Its owner keeps it until `tensor.buffer` is closed
 * and all work is done that was queued with it; then its deleter is called, on this thread, while no host function is
 * pending.
 * @param source A capsule, which is taken over, or an object with the protocol.
 * @param options `stream`: the stream that will use it first
 * @returns the buffer, with the type, the shape and the strides of its elements
 * @throws {Error} ERR_UNSUPPORTED for memory that CUDA cannot use, such as pageable memory of the host, for another major
 * version of DLPack or other types, and while the stream captures; ERR_INVALID_HANDLE for a pointer to something else, and for memory that the driver does not know; ERR_DEVICE_MISMATCH for a
 * stream of another device; ERR_CLOSED for a stream, and a DLPackTensor that was imported before; ERR_INVALID_ARG_TYPE; any error of
 * the producer. A capsule is returned to its producer then
 * @example
 * ```ts
 * import { fromDLPack, toDLPack } from 'cuda-streams/dlpack'
 *
 * const lent = toDLPack(buffer, { dtype: 'f32', shape: [32, 32], stream }) // or a tensor of Python's
 * const tensor = fromDLPack(lent, { stream })
 * stream.fill(tensor.buffer, 0)
 * tensor.buffer.close() // the owner's deleter is called when the fill is done
 * ```
 */
export function fromDLPack(source: DLPackCapsule | DLPackProducer, options?: FromDLPackOptions): Tensor {
  const { stream } = readOptions(options, ['stream'])
  const use = stream === undefined || stream === null ? stream : streamImplOf(stream)
  if (use === undefined && stream !== undefined) throw invalidType('options.stream', 'a Stream or null', stream)
  reclaimReleased()
  if (isProducer(source)) return fromProducer(source, use)
  use?.checkOpen()
  if (isTensor(source)) exportedOf(source).take()
  return takeOver(source, use ?? undefined)
}

function isProducer(source: unknown): source is DLPackProducer {
  const given: Partial<DLPackProducer & DLPackCapsule> = isObject(source) ? source : {}
  if (typeof given.__dlpack__ === 'function' && typeof given.__dlpack_device__ === 'function') return true
  if (typeof given.__dlpack__ !== 'function' && given.versioned !== undefined) return false
  throw invalidType('source', EXPECTED, source)
}

function fromProducer(source: DLPackProducer, wanted: StreamImpl | null | undefined): Tensor {
  const expected = '[type, id]: a DLDeviceType and an ordinal'
  const what = 'The result of __dlpack_device__()'
  const [deviceType, id] = checkArray(source.__dlpack_device__(), what, expected)
  const type = checkInteger(deviceType, what)
  const isOnDevice = checkDeviceType(type)
  const near = deviceAt(type, checkInteger(id, what), wanted?.device ?? Device.current())
  const use = wanted === null ? undefined : openOn(near, wanted ?? currentStreamImpl(near), 'To import memory')
  const number = use === undefined ? -1 : numberOf(use)
  const request = { stream: isOnDevice ? number : undefined, max_version: [MAJOR_VERSION, 1] } as const
  const capsule: unknown = source.__dlpack__(request)
  if (typeof capsule === 'object' && capsule !== null) return takeOver(capsule, use)
  throw invalidType('The result of __dlpack__()', 'a capsule ({ pointer, versioned })', capsule)
}

/** Takes a capsule over. Without `use` its contents are assumed to be ready. */
function takeOver(capsule: Partial<DLPackCapsule>, use: StreamImpl | undefined): Tensor {
  const pointer = checkPointer(capsule.pointer, 'capsule.pointer', 'the address of a struct')
  const struct = new ImportedStruct(pointer, checkBoolean(capsule.versioned, 'capsule.versioned', false))
  try {
    const read = struct.read()
    const isOnDevice = checkDeviceType(read.deviceType)
    const facts = isOnDevice ? read : { ...read, pointer: pointerTo(read.pointer) }
    const driver = use === undefined ? driverForHandle(facts.pointer, driverOf(Device.current())) : driverOf(use.device)
    const near = deviceAt(facts.deviceType, facts.deviceId, use?.device ?? deviceOf(driver, 0))
    const take = (): Tensor => importTensor(facts, near, use, undefined, () => struct.delete())
    return isOnDevice ? take() : pinnedOnly(take)
  } catch (error) {
    struct.delete()
    throw error
  }
}

/** Is it memory of a device? Throws ERR_UNSUPPORTED for devices that CUDA does not know. */
function checkDeviceType(type: number): boolean {
  if (type === DeviceType.CUDA || type === DeviceType.CUDA_MANAGED) return true
  if (type === DeviceType.CPU || type === DeviceType.CUDA_HOST) return false
  const known = Object.entries(DeviceType).map(([name, each]) => `${each} (${name})`)
  throw stateError('ERR_UNSUPPORTED', `The tensor is on a device of type ${type}; CUDA has ${known.join(', ')}`)
}

/** Memory of the host is used by the device `near`. */
const deviceAt = (type: number, id: number, near: Device): Device =>
  type === DeviceType.CUDA ? deviceOf(driverOf(near), id) : near

/** Explains the error for memory of the host that the driver does not know: it is pageable. */
function pinnedOnly(take: () => Tensor): Tensor {
  try {
    return take()
  } catch (error) {
    if (!isUnknownMemory(error)) throw error
    const way = 'upload() its bytes, or let its owner pin it'
    throw stateError(
      'ERR_UNSUPPORTED',
      `The tensor is in pageable memory of the host, which CUDA copies only while the program waits: ${way}`,
      error,
    )
  }
}

const isUnknownMemory = (error: unknown): boolean =>
  error instanceof Error && Reflect.get(error, 'code') === 'ERR_INVALID_HANDLE'
