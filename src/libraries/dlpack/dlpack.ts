/** Tensors by DLPack: memory that libraries of one process hand to each other, with the order of their streams. */
import { checkArray, checkBoolean, checkInteger, checkPointer, isObject, readOptions } from '../../base/arguments.js'
import { inspectAsPrinted, invalidType, invalidValue, printed, refuseReceiver, stateError } from '../../base/errors.js'
import { Device, deviceOf, driverOf } from '../../device.js'
import { driverForHandle } from '../../driver/default-driver.js'
import { bufferCoreOf } from '../../memory/buffer.js'
import type { DeviceBuffer } from '../../memory/device-buffer.js'
import type { PinnedBuffer } from '../../memory/pinned-buffer.js'
import type { Stream } from '../../stream.js'
import { currentCore } from '../../streams/current.js'
import { type StreamCore, streamCoreOf } from '../../streams/stream-core.js'
import { numberOf, openOn, type ProtocolStream, streamOfNumber } from './consumer-stream.js'
import { parseType } from './dtype.js'
import { HandedOut, lookForReturns, pointerTo } from './handed-out.js'
import { addressOfBytes, DeviceType, HandedOutStruct, MAJOR_VERSION, TakenStruct, type TensorFacts } from './structs.js'
import { type ElementOptions, layoutIn, type Tensor, takeIn } from './tensor.js'

/** A DLManagedTensorVersioned, or a DLManagedTensor: what a capsule of Python's holds. */
export interface DLPackCapsule {
  /** The address of the struct. */
  readonly pointer: bigint | number
  /** Is it a DLManagedTensorVersioned, from a capsule named 'dltensor_versioned', and not 'dltensor'? */
  readonly versioned: boolean
}

/** The arguments of `__dlpack__`. */
export interface DLPackRequest {
  /** The stream on which the memory is wanted: 1 is the null stream, 2 the per-thread one, -1 none; undefined for the host's memory. */
  readonly stream: number | undefined
  /** The latest version that is understood. */
  readonly max_version: readonly [major: number, minor: number]
}

/** An object with Python's protocol: what a JavaScript object that stands for a tensor of Python's has. */
export interface DLPackProducer {
  /**
   * Hands its memory out; the caller has to call the deleter.
   * @param request The stream on which it is wanted, and the latest version that is understood.
   */
  __dlpack__(request: DLPackRequest): DLPackCapsule
  /** A DLDeviceType, such as 2 for CUDA, and the ordinal of the device. */
  __dlpack_device__(): readonly [type: number, id: number]
}

/** How a buffer is handed out. */
export interface ToDLPackOptions extends ElementOptions {
  /** The consumer is asked not to write it. Needs `maxVersion`. Default: false. */
  readonly readOnly?: boolean | undefined
  /**
   * The consumer's stream, or its number as `__dlpack__` is given it: its later work comes after all work with the buffer.
   * null or -1: nothing waits. Default: the device's null stream.
   */
  readonly stream?: ProtocolStream | null | undefined
  /** The latest version that the consumer understands: a versioned struct from 1 on. Default: an unversioned one. */
  readonly maxVersion?: readonly [major: number, minor: number] | undefined
}

/** How a tensor is taken in. */
export interface FromDLPackOptions {
  /**
   * The stream that will use it first: the producer makes it wait for its work; other streams wait for that. Of a capsule,
   * the stream that its producer was told. null: nothing waits. Default: the current stream of the device, and none for a
   * capsule.
   */
  readonly stream?: Stream | null | undefined
}

const TO_OPTIONS = ['dtype', 'shape', 'strides', 'readOnly', 'stream', 'maxVersion'] as const
/** What `fromDLPack()` takes. */
const EXPECTED = 'a capsule ({ pointer, versioned }) or an object with __dlpack__() and __dlpack_device__()'

let makeTensor: (out: HandedOut, versioned: boolean, device: readonly [number, number]) => DLPackTensor
let isTensor: (value: unknown) => value is DLPackTensor
let outOf: (value: unknown) => HandedOut

/** A buffer that was handed out: a DLManagedTensor that waits for its consumer, or that a consumer has. */
export class DLPackTensor implements DLPackCapsule {
  /** The address of the struct, for a capsule. It is gone once the consumer has called the deleter. */
  readonly pointer: bigint
  /** Is it a DLManagedTensorVersioned? The capsule is then named 'dltensor_versioned', and 'dltensor' otherwise. */
  readonly versioned: boolean
  /** What `__dlpack_device__` returns: 2 (CUDA) or 1 (memory of the host), and the ordinal. */
  readonly device: readonly [type: number, id: number]
  readonly #out: HandedOut

  /** Use `toDLPack()`. */
  private constructor(out: HandedOut, versioned: boolean, device: readonly [number, number]) {
    if (!HandedOut.is(out)) throw invalidType('The tensor', 'obtained from toDLPack(buffer)', 'new')
    this.pointer = BigInt(out.struct.address)
    this.versioned = versioned
    this.device = device
    this.#out = out
  }

  /** Has the consumer let go of the memory? */
  get released(): boolean {
    const out = outOf(this)
    if (out.memory !== undefined) lookForReturns()
    return out.memory === undefined
  }

  /**
   * Takes back a tensor that no consumer has. Where another library has it, that will use memory that is freed; where
   * `fromDLPack()` has it, this does nothing. May be called twice.
   */
  release(): void {
    outOf(this).takeBack()
  }

  get [Symbol.toStringTag](): string {
    return 'DLPackTensor'
  }

  toString(): string {
    return isTensor(this)
      ? `DLPackTensor(0x${this.pointer.toString(16)}${this.#out.memory === undefined ? ', released' : ''})`
      : printed(this)
  }

  static {
    makeTensor = (out, versioned, device) => new DLPackTensor(out, versioned, device)
    isTensor = (value): value is DLPackTensor => typeof value === 'object' && value !== null && #out in value
    outOf = (value) => (isTensor(value) ? value.#out : refuseReceiver('a DLPackTensor', value))
  }
}
inspectAsPrinted(DLPackTensor)

/**
 * Hands a buffer out, as `__dlpack__` does in Python. The memory is kept until the consumer calls the deleter, also where
 * the buffer is closed before; work that the consumer has queued until then is waited for before the memory is freed. Nothing is copied. Memory of the host is looked
 * at without waiting, as `pinned.bytes` is.
 * @param buffer A DeviceBuffer, or a PinnedBuffer, which is handed out as memory of the host.
 * @param options `dtype` and `shape` of its elements, `strides` in elements; `readOnly`; the consumer's `stream`;
 * `maxVersion` that it understands
 * @returns the struct: its `pointer` goes into a PyCapsule, or to another library of C
 * @throws {Error} ERR_OUT_OF_RANGE where elements lie outside of the buffer; ERR_INVALID_ARG_VALUE for no type, other
 * strides than extents, memory that begins in the middle of an element, stream 0, and `readOnly` without `maxVersion`;
 * ERR_INVALID_ARG_TYPE, ERR_CLOSED; ERR_UNSUPPORTED while the buffer's stream or the consumer's captures;
 * ERR_DEVICE_MISMATCH for a stream of another device; as `new ExternalStream(handle)` for a number
 * @example
 * ```ts
 * import { toDLPack } from 'cuda-streams/dlpack'
 *
 * const tensor = toDLPack(buffer, { dtype: 'f32', shape: [32, 32], stream })
 * console.log(tensor.pointer, tensor.versioned) // into a PyCapsule, for torch.from_dlpack(capsule)
 * tensor.release() // only where no consumer took it
 * ```
 */
export function toDLPack(buffer: DeviceBuffer | PinnedBuffer, options: ToDLPackOptions): DLPackTensor {
  const given = readOptions(options, TO_OPTIONS)
  const core = bufferCoreOf(buffer)
  if (core === undefined) throw invalidType('buffer', 'a DeviceBuffer or a PinnedBuffer', buffer)
  const type = parseType(given.dtype)
  const readOnly = checkBoolean(given.readOnly, 'options.readOnly', false)
  const versioned = isVersioned(given.maxVersion)
  if (readOnly && !versioned) {
    throw invalidValue('options.readOnly needs options.maxVersion of 1.0 or later: older structs cannot say it')
  }
  core.checkOpen()
  const layout = layoutIn(core, type, given.shape, given.strides)
  const device = [core.isPinned ? DeviceType.CPU : DeviceType.CUDA, core.isPinned ? 0 : core.device.ordinal] as const
  const use = consumerOf(core.device, given.stream)
  if (core.isPinned) core.viewed()
  else if (use !== undefined)
    core.openFor(openOn(core.device, use, 'To hand memory out').driver).allocation.makeReady(use)
  const [deviceType, deviceId] = device
  const pointer = core.isPinned ? addressOfBytes(core.ownBytes()) : core.pointer
  const facts: TensorFacts = { ...layout, pointer, type, readOnly, deviceType, deviceId }
  return makeTensor(new HandedOut(new HandedOutStruct(facts, versioned), pointer, { core, buffer }), versioned, device)
}

/** The stream that is to come after all work with the memory; undefined where none is. */
function consumerOf(device: Device, given: ToDLPackOptions['stream']): StreamCore | undefined {
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
 * Takes in memory of another library, as `from_dlpack` does in Python. Its owner keeps it until `tensor.buffer` is closed
 * and all work is done that was queued with it; then its deleter is called, on this thread, while no host function is
 * pending.
 * @param source A capsule, which is taken over, or an object with the protocol.
 * @param options `stream`: the stream that will use it first
 * @returns the buffer, with the type, the shape and the strides of its elements
 * @throws {Error} ERR_UNSUPPORTED for memory that CUDA cannot use, such as pageable memory of the host, for another major
 * version of DLPack or other types, and while the stream captures; ERR_INVALID_ARG_VALUE for a tensor without elements;
 * ERR_INVALID_HANDLE for a pointer to something else, and for memory that the driver does not know; ERR_DEVICE_MISMATCH for a
 * stream of another device; ERR_CLOSED for a stream, and a DLPackTensor that was taken before; ERR_INVALID_ARG_TYPE; any error of
 * the producer. What was taken over is given back then
 * @example
 * ```ts
 * import { fromDLPack, toDLPack } from 'cuda-streams/dlpack'
 *
 * const lent = toDLPack(buffer, { dtype: 'f32', shape: [32, 32], stream }) // or a tensor of Python's
 * const tensor = fromDLPack(lent, { stream })
 * stream.fill(tensor.buffer, 0)
 * tensor.buffer.close() // the owner is told when the fill is done
 * ```
 */
export function fromDLPack(source: DLPackCapsule | DLPackProducer, options?: FromDLPackOptions): Tensor {
  const { stream } = readOptions(options, ['stream'])
  const use = stream === undefined || stream === null ? stream : streamCoreOf(stream)
  if (use === undefined && stream !== undefined) throw invalidType('options.stream', 'a Stream or null', stream)
  lookForReturns()
  if (isProducer(source)) return fromProducer(source, use)
  use?.checkOpen()
  if (isTensor(source)) outOf(source).take()
  return takeOver(source, use ?? undefined)
}

function isProducer(source: unknown): source is DLPackProducer {
  const given: Partial<DLPackProducer & DLPackCapsule> = isObject(source) ? source : {}
  if (typeof given.__dlpack__ === 'function' && typeof given.__dlpack_device__ === 'function') return true
  if (typeof given.__dlpack__ !== 'function' && given.versioned !== undefined) return false
  throw invalidType('source', EXPECTED, source)
}

function fromProducer(source: DLPackProducer, wanted: StreamCore | null | undefined): Tensor {
  const expected = '[type, id]: a DLDeviceType and an ordinal'
  const what = 'The result of __dlpack_device__()'
  const [deviceType, id] = checkArray(source.__dlpack_device__(), what, expected)
  const type = checkInteger(deviceType, what)
  const isOnDevice = checkDeviceType(type)
  const near = deviceAt(type, checkInteger(id, what), wanted?.device ?? Device.current)
  const use = wanted === null ? undefined : openOn(near, wanted ?? currentCore(near), 'To take memory in')
  const number = use === undefined ? -1 : numberOf(use)
  const request = { stream: isOnDevice ? number : undefined, max_version: [MAJOR_VERSION, 1] } as const
  const capsule: unknown = source.__dlpack__(request)
  if (typeof capsule === 'object' && capsule !== null) return takeOver(capsule, use)
  throw invalidType('The result of __dlpack__()', 'a capsule ({ pointer, versioned })', capsule)
}

/** Undefined: its contents are there, as far as is known. */
function takeOver(capsule: Partial<DLPackCapsule>, use: StreamCore | undefined): Tensor {
  const pointer = checkPointer(capsule.pointer, 'capsule.pointer', 'the address of a struct')
  const struct = new TakenStruct(pointer, checkBoolean(capsule.versioned, 'capsule.versioned', false))
  try {
    const told = struct.read()
    const isOnDevice = checkDeviceType(told.deviceType)
    const facts = isOnDevice ? told : { ...told, pointer: pointerTo(told.pointer) }
    const driver = use === undefined ? driverForHandle(facts.pointer, driverOf(Device.current)) : driverOf(use.device)
    const near = deviceAt(facts.deviceType, facts.deviceId, use?.device ?? deviceOf(driver, 0))
    const take = (): Tensor => takeIn(facts, near, use, undefined, () => struct.delete())
    return isOnDevice ? take() : pinnedOnly(take)
  } catch (error) {
    struct.delete()
    throw error
  }
}

/** Is it memory of a device? Throws ERR_UNSUPPORTED for what CUDA does not know. */
function checkDeviceType(type: number): boolean {
  if (type === DeviceType.CUDA || type === DeviceType.CUDA_MANAGED) return true
  if (type === DeviceType.CPU || type === DeviceType.CUDA_HOST) return false
  const known = Object.entries(DeviceType).map(([name, each]) => `${each} (${name})`)
  throw stateError('ERR_UNSUPPORTED', `The tensor is on a device of type ${type}; CUDA has ${known.join(', ')}`)
}

/** The host's memory is used by a device near. */
const deviceAt = (type: number, id: number, near: Device): Device =>
  type === DeviceType.CUDA ? deviceOf(driverOf(near), id) : near

/** Memory of the host that the driver does not know is pageable. */
function pinnedOnly(takeMemoryIn: () => Tensor): Tensor {
  try {
    return takeMemoryIn()
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
