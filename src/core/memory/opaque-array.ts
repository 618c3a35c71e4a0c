/** CUDA arrays: memory in an order of the GPU's own, which kernels read as textures and access as surfaces. */
import { checkBoolean, checkChoice, checkIntegers, readOptions } from '../../foundation/base/arguments.js'
import { invalidValue, refuseReceiver, stateError } from '../../foundation/base/errors.js'
import { destroyWhenUnreachable } from '../../foundation/base/finalization.js'
import { holdMemory, releaseMemory } from '../../foundation/base/heap.js'
import { ClosableObject, checkMade, construct, implementation } from '../../foundation/base/library-object.js'
import {
  ARRAY_FORMATS,
  type ArrayDescription,
  type ArrayFormat,
  arrayBytes,
  type TexelFormat,
} from '../../foundation/driver/texture-driver.js'
import { contextOf, type Device, driverOf } from '../device.js'
import type { StreamImpl } from '../streams/stream-impl.js'
import { Allocation } from './allocations.js'
import { BufferImpl } from './buffer.js'
import { allocateOnDevice } from './out-of-memory.js'

export type { ArrayFormat } from '../../foundation/driver/texture-driver.js'

/** The extent and the elements of a CUDA array. */
export interface ArrayOptions {
  /**
   * The elements in each direction: [width], [height, width] or [depth, height, width]. Of a layered array the first number is that of its layers:
   * [layers, width] or [layers, height, width]. Of a cubemap it is the number of its faces: 6, and of a layered one a multiple of 6.
   */
  readonly shape: readonly [number] | readonly [number, number] | readonly [number, number, number]
  /** The type of a channel. */
  readonly format: ArrayFormat
  /** The channels of an element. Default 1. */
  readonly channels?: 1 | 2 | 4 | undefined
  /** Whether the array is made of layers, between which nothing is filtered. Default false. */
  readonly layered?: boolean | undefined
  /** Whether each six layers are the faces of a cube. Default false. */
  readonly cubemap?: boolean | undefined
  /** Whether surface objects can be made of the array, by which kernels write it. Default false. */
  readonly surface?: boolean | undefined
  /** Whether kernels can gather from its textures (`tex2Dgather`). Default false. */
  readonly gather?: boolean | undefined
}

const ARRAY_OPTIONS = ['shape', 'format', 'channels', 'layered', 'cubemap', 'surface', 'gather'] as const

/** The memory of an array, which is in the order of no stream. */
class ArrayAllocation extends Allocation {
  constructor(device: Device, array: ArrayDescription) {
    const driver = driverOf(device)
    const byteLength = arrayBytes(array)
    const create = () => driver.textures.createArray(byteLength, array, contextOf(device))
    super(device, driver, allocateOnDevice(driver, { device, byteLength, pool: undefined }, create), byteLength)
    if (this.isWeighed) holdMemory(byteLength)
  }

  override get holdsMemory(): boolean {
    return true
  }

  override get isArray(): boolean {
    return true
  }

  /** CUDA lets one device use arrays of another in no call. */
  override enablePeerAccess({ ordinal }: Pick<StreamImpl, 'ordinal'>): boolean {
    return ordinal === this.device.ordinal
  }

  protected override free(): void {
    this.uses.handOver(this.driver, (events) => this.driver.textures.destroyArray(this.pointer, events))
    if (this.isWeighed) releaseMemory(this.byteLength)
  }
}

/** The implementation of an array: copies take it as a buffer whose bytes are the elements, row after row. */
export class ArrayImpl extends BufferImpl {
  constructor(
    device: Device,
    readonly shape: readonly number[],
    readonly array: ArrayDescription,
  ) {
    super(new ArrayAllocation(device, array))
  }

  /** Throws ERR_DEVICE_MISMATCH unless the stream is on the device of the array. */
  checkDevice(stream: StreamImpl): void {
    if (stream.ordinal === this.device.ordinal) return
    throw stateError(
      'ERR_DEVICE_MISMATCH',
      `${this} cannot be copied by ${stream}, which is on ${stream.device}: CUDA copies arrays on their own device. Use a stream of that`,
    )
  }

  override toString(): string {
    const { format, channels } = this.array
    const elements = `${this.shape.join('×')} elements of ${channels === 1 ? format : `${channels} ${format}`}`
    return `OpaqueArray(${elements}, ${this.device}${this.isClosed ? ', closed' : ''})`
  }
}

/** `device.createArray()`. */
export function createArray(device: Device, options: ArrayOptions): OpaqueArray {
  const given = readOptions(options, ARRAY_OPTIONS)
  const shape = checkIntegers(given.shape, 'options.shape', '[width], [height, width] or [depth, height, width]', 1)
  const elements = checkElements(given)
  const isCubemap = checkBoolean(given.cubemap, 'options.cubemap', false)
  const hasSurfaces = checkBoolean(given.surface, 'options.surface', false)
  const isGathered = checkBoolean(given.gather, 'options.gather', false)
  const isLayered = checkBoolean(given.layered, 'options.layered', false)
  checkShape(shape, isLayered, isCubemap)
  if (isGathered && (shape.length !== 2 || isCubemap)) {
    throw invalidValue('options.gather is for an array of [height, width], and options.shape has another length')
  }
  const [width = 1, height = 0, depth = 0] = [...shape].reverse()
  // The layers of a one-dimensional array stand in the place of the depth, and there is no height.
  const extent = isLayered && shape.length === 2 ? { width, height: 0, depth: height } : { width, height, depth }
  const array = { ...extent, ...elements, isLayered, isCubemap, hasSurfaces, isGathered }
  return OpaqueArray[construct](new ArrayImpl(device, shape, array))
}

function checkShape(shape: readonly number[], isLayered: boolean, isCubemap: boolean): void {
  const [first = 0, height = 0, width = 0] = shape
  if (shape.length === 0 || shape.length > 3) {
    throw invalidValue(`options.shape must have one to three numbers, not ${shape.length}`)
  }
  if (isLayered && shape.length < 2) {
    throw invalidValue('options.shape of a layered array must be [layers, width] or [layers, height, width]')
  }
  if (!isCubemap) return
  const hasFaces = isLayered ? first % 6 === 0 : first === 6
  if (shape.length === 3 && hasFaces && height === width) return
  const expected = isLayered ? '[6 * layers, size, size]' : '[6, size, size]'
  throw invalidValue(`options.shape of a cubemap must be ${expected}, not [${shape.join(', ')}]`)
}

/** Reads the elements of an array, or of a buffer that is read as a texture. */
export function checkElements(given: { readonly format?: unknown; readonly channels?: unknown }): TexelFormat {
  const format = checkChoice(given.format, 'options.format', ARRAY_FORMATS)
  const { channels = 1 } = given
  if (channels === 1 || channels === 2 || channels === 4) return { format, channels }
  throw invalidValue(`options.channels must be 1, 2 or 4, not ${String(channels)}`)
}

/**
 * A CUDA array: elements of one, two or three dimensions in an order of the GPU's own, made for textures and surfaces. Kernels use it by the objects
 * that `device.createTexture()` and `device.createSurface()` make of it. `stream.copy()`, `upload()` and `download()` take it like a buffer
 * that has its elements row after row, without gaps. A closed array is ERR_CLOSED for each call that uses it.
 * @example
 * ```ts
 * import { Device, Stream } from 'cuda-streams'
 *
 * using stream = new Stream()
 * using array = stream.device.createArray({ shape: [2, 4], format: 'f32' })
 * await stream.upload(array, new Float32Array([1, 2, 3, 4, 5, 6, 7, 8]))
 * using texture = stream.device.createTexture(array, { filterMode: 'linear' })
 * console.log(await stream.download(array, Float32Array))
 * ```
 */
export class OpaqueArray extends ClosableObject {
  /** The device that the array is on. */
  readonly device: Device
  /** The elements in each direction, as they were given. */
  readonly shape: readonly number[]
  /** The type of a channel. */
  readonly format: ArrayFormat
  /** The channels of an element. */
  readonly channels: 1 | 2 | 4
  /** The bytes of all elements. The GPU may take more for them. */
  readonly byteLength: number
  /** The number of this object: no other object of this thread has it. */
  readonly serial: number
  /** @internal */
  declare readonly [implementation]: ArrayImpl

  /** Use `device.createArray()`. */
  private constructor(impl: ArrayImpl) {
    super()
    checkMade(impl, ArrayImpl, 'OpaqueArray', 'device.createArray({ shape, format })')
    this.device = impl.device
    this.shape = Object.freeze([...impl.shape])
    this.format = impl.array.format
    this.channels = impl.array.channels
    this.byteLength = impl.byteLength
    this.serial = impl.serial
    this[implementation] = impl
    destroyWhenUnreachable(this, impl.allocation)
  }

  /** @internal */
  static [construct](impl: ArrayImpl): OpaqueArray {
    return new OpaqueArray(impl)
  }

  /**
   * The CUarray, for other libraries; on the simulator a number. It keeps nothing alive: hold the array as long as others use it.
   * @throws {Error} ERR_CLOSED
   */
  get handle(): bigint {
    const { allocation, pointer } = implOf(this).checkOpen()
    return BigInt(allocation.driver.textures.arrayHandle(pointer))
  }

  /**
   * Destroys the array (`cuArrayDestroy`) when all work is done that this library queued with it, on any stream, and the textures and surfaces of it
   * are closed. Neither this call nor any stream waits for that. May be called twice.
   */
  close(): void {
    implOf(this).close()
  }

  override get [Symbol.toStringTag](): string {
    return 'OpaqueArray'
  }
}

/** The implementation of an array; undefined for any other value. */
export const arrayImplOf = (value: unknown): ArrayImpl | undefined =>
  value instanceof OpaqueArray ? value[implementation] : undefined

const implOf = (array: unknown): ArrayImpl => arrayImplOf(array) ?? refuseReceiver('an OpaqueArray', array)
