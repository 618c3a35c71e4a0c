/** Texture and surface objects: the handles by which kernels read and write CUDA arrays, and read buffers as textures. */
import {
  checkArray,
  checkBoolean,
  checkChoice,
  checkInteger,
  checkIntegers,
  type Given,
  readOptions,
} from '../../foundation/base/arguments.js'
import { ELEMENT_TYPES } from '../../foundation/base/element-types.js'
import { invalidType, invalidValue, outOfRange, refuseReceiver } from '../../foundation/base/errors.js'
import { destroyWhenUnreachable } from '../../foundation/base/finalization.js'
import { ClosableObject, checkMade, construct, implementation } from '../../foundation/base/library-object.js'
import { DEVICE_ATTRIBUTES, type DeviceAttribute } from '../../foundation/driver/device-attributes.js'
import type { InternalEvent } from '../../foundation/driver/event-driver.js'
import {
  ADDRESS_MODES,
  type AddressMode,
  type ArrayFormat,
  type Sampling,
  type TexelFormat,
  type TextureResource,
  texelBytes,
} from '../../foundation/driver/texture-driver.js'
import type { Access } from '../../foundation/driver/touched-memory.js'
import { contextOf, type Device, driverOf, elsewhere } from '../device.js'
import type { StreamImpl } from '../streams/stream-impl.js'
import { Allocation } from './allocations.js'
import { BufferImpl, bufferImplOf } from './buffer.js'
import type { DeviceBuffer } from './device-buffer.js'
import { type ArrayImpl, arrayImplOf, checkElements, type OpaqueArray } from './opaque-array.js'

export type { AddressMode } from '../../foundation/driver/texture-driver.js'

/** How a texture is read. */
export interface TextureOptions {
  /**
   * What is read beside the image, for all directions or for x, y and z: its edge ('clamp'), `borderColor` ('border'), or the image again, as it is
   * ('wrap') or turned around ('mirror'). These two need `normalizedCoordinates`: without them they are 'clamp'. Default 'clamp'.
   */
  readonly addressMode?: AddressMode | readonly AddressMode[] | undefined
  /** The nearest element ('point'), or a mean of the elements around the coordinates ('linear'). Default 'point'. */
  readonly filterMode?: 'point' | 'linear' | undefined
  /**
   * What the kernel gets of integers: as they are ('element'), or of 8 and 16 bits as floats from 0 or -1 to 1 ('normalizedFloat'). Floats are read
   * as floats. Default 'element'.
   */
  readonly readMode?: 'element' | 'normalizedFloat' | undefined
  /** Whether coordinates go from 0 to 1 over the image, whatever its size. Default false. */
  readonly normalizedCoordinates?: boolean | undefined
  /** The four channels that 'border' reads. Default [0, 0, 0, 0]. */
  readonly borderColor?: readonly number[] | undefined
  /** Whether elements of 8 bits are sRGB, which become linear as they are read. Needs `readMode: 'normalizedFloat'`. Default false. */
  readonly sRGB?: boolean | undefined
  /** The type of a channel of a buffer's elements. */
  readonly format?: ArrayFormat | undefined
  /** The channels of a buffer's element. Default 1. */
  readonly channels?: 1 | 2 | 4 | undefined
  /** The extent of a buffer, [height, width] in elements, for a texture of two dimensions. Default: one dimension, read by integers (`tex1Dfetch`). */
  readonly shape?: readonly [height: number, width: number] | undefined
  /** The bytes of a buffer with `shape` from the beginning of one row to the next. Default: no gaps. */
  readonly pitch?: number | undefined
}

const OPTIONS = [
  'addressMode',
  'filterMode',
  'readMode',
  'normalizedCoordinates',
  'borderColor',
  'sRGB',
  'format',
  'channels',
  'shape',
  'pitch',
] as const
const OF_BUFFERS = ['format', 'channels', 'shape', 'pitch'] as const

/** A texture or surface of the driver, whose uses are uses of its memory, too. The memory lives as long. */
class ObjectAllocation extends Allocation {
  constructor(
    private readonly memory: Allocation,
    whole: Pick<BufferImpl, 'pointer' | 'byteLength'>,
    private readonly destroyObject: (after: readonly InternalEvent[]) => void,
  ) {
    super(memory.device, memory.driver, whole.pointer, whole.byteLength)
    memory.retain()
  }

  override enablePeerAccess(use: Pick<StreamImpl, 'ordinal'>): boolean {
    return use.ordinal === this.device.ordinal
  }

  override beforeUse(use: StreamImpl): void {
    this.memory.beforeUse(use)
    super.beforeUse(use)
  }

  override afterUse(use: StreamImpl): void {
    super.afterUse(use)
    this.memory.afterUse(use)
  }

  override usedOn(use: StreamImpl): void {
    super.usedOn(use)
    this.memory.usedOn(use)
  }

  override orderAfterAll(use: StreamImpl): void {
    super.orderAfterAll(use)
    this.memory.orderAfterAll(use)
  }

  protected override free(): void {
    try {
      this.uses.handOver(this.driver, this.destroyObject)
    } finally {
      this.memory.release()
    }
  }
}

/** The implementation of a texture or surface: as an argument of a kernel it is its memory, passed by the handle. */
export class ObjectImpl extends BufferImpl {
  constructor(
    memory: BufferImpl,
    readonly kind: 'TextureObject' | 'SurfaceObject',
    override readonly object: { readonly handle: number; readonly access: Access },
    destroy: (after: readonly InternalEvent[]) => void,
  ) {
    super(new ObjectAllocation(memory.allocation, memory, destroy))
  }

  override toString(): string {
    return `${this.kind}(${this.object.handle}, ${this.device}${this.isClosed ? ', closed' : ''})`
  }
}

/** `device.createTexture()`. */
export function createTexture(device: Device, source: unknown, options: TextureOptions | undefined): TextureObject {
  const given: GivenOptions = readOptions(options, OPTIONS)
  const array = arrayImplOf(source)
  const memory = array ?? bufferImplOf(source)
  if (memory === undefined || memory.isPinned) throw invalidType('source', 'an OpaqueArray or a DeviceBuffer', source)
  checkOn(device, memory)
  const elements = array?.array ?? checkElements(given)
  const sampling = readSampling(given, elements)
  const resource = array === undefined ? readResource(device, memory, elements, given) : arrayResource(array, given)
  const { textures } = driverOf(device)
  const handle = textures.createTexture(resource, sampling, contextOf(device))
  const impl = new ObjectImpl(memory, 'TextureObject', { handle, access: 'in' }, (after) =>
    textures.destroyTexture(handle, after),
  )
  return TextureObject[construct](impl, source as DeviceBuffer | OpaqueArray)
}

/** `device.createSurface()`. */
export function createSurface(device: Device, source: unknown): SurfaceObject {
  const array = arrayImplOf(source)
  if (array === undefined) throw invalidType('array', 'an OpaqueArray', source)
  checkOn(device, array)
  if (!array.array.hasSurfaces) {
    throw invalidValue(`${array} has no surfaces: make it by device.createArray({ …, surface: true })`)
  }
  const { textures } = driverOf(device)
  const handle = textures.createSurface(array.pointer, contextOf(device))
  const impl = new ObjectImpl(array, 'SurfaceObject', { handle, access: 'inout' }, (after) =>
    textures.destroySurface(handle, after),
  )
  return SurfaceObject[construct](impl, source as OpaqueArray)
}

function checkOn(device: Device, memory: BufferImpl): void {
  memory.openFor(driverOf(device))
  if (memory.device === device) return
  throw invalidValue(
    `${memory} is on ${elsewhere(memory.device, device)}, and textures are of memory of their own device`,
  )
}

type GivenOptions = Given<TextureOptions, (typeof OPTIONS)[number]>

function readSampling(given: GivenOptions, { format }: TexelFormat): Sampling {
  const readMode =
    given.readMode === undefined ? 'element' : checkChoice(given.readMode, 'options.readMode', READ_MODES)
  const filterMode =
    given.filterMode === undefined ? 'point' : checkChoice(given.filterMode, 'options.filterMode', FILTER_MODES)
  const isFloat = format === 'f16' || format === 'f32'
  const isSrgb = checkBoolean(given.sRGB, 'options.sRGB', false)
  const readsFloats = isFloat || (readMode === 'normalizedFloat' && ELEMENT_TYPES[format].bytes < 4)
  if (readMode === 'normalizedFloat' && !readsFloats) {
    throw invalidValue(
      `options.readMode 'normalizedFloat' is for integers of 8 and 16 bits, and the elements are ${format}`,
    )
  }
  if (filterMode === 'linear' && !readsFloats) {
    throw invalidValue(
      `options.filterMode 'linear' needs elements that are read as floats, and these are ${format}: add readMode: 'normalizedFloat', for 8 and 16 bits`,
    )
  }
  if (isSrgb && (format !== 'u8' || !readsFloats)) {
    throw invalidValue("options.sRGB is for elements of u8 with readMode: 'normalizedFloat'")
  }
  return {
    addressModes: readAddressModes(given.addressMode),
    isLinear: filterMode === 'linear',
    isNormalized: checkBoolean(given.normalizedCoordinates, 'options.normalizedCoordinates', false),
    readsIntegers: readMode === 'element',
    isSrgb,
    borderColor: readBorder(given.borderColor),
  }
}

const READ_MODES = ['element', 'normalizedFloat'] as const
const FILTER_MODES = ['point', 'linear'] as const

function readAddressModes(given: unknown): Sampling['addressModes'] {
  if (given === undefined) return ['clamp', 'clamp', 'clamp']
  if (typeof given === 'string') {
    const mode = checkChoice(given, 'options.addressMode', ADDRESS_MODES)
    return [mode, mode, mode]
  }
  const expected = `one of ${ADDRESS_MODES.join(', ')}, or an array with one for each direction`
  const modes = checkArray(given, 'options.addressMode', expected)
  if (modes.length < 1 || modes.length > 3) throw invalidValue(`options.addressMode must be ${expected}`)
  const check = (index: number): AddressMode =>
    checkChoice(modes[Math.min(index, modes.length - 1)], `options.addressMode[${index}]`, ADDRESS_MODES)
  return [check(0), check(1), check(2)]
}

function readBorder(given: unknown): Sampling['borderColor'] {
  if (given === undefined) return [0, 0, 0, 0]
  const colour = checkArray(given, 'options.borderColor', 'an array of four numbers')
  const [r, g, b, a] = colour.map((each, index) => {
    if (typeof each !== 'number') throw invalidType(`options.borderColor[${index}]`, 'a number', each)
    return each
  })
  if (colour.length !== 4) throw invalidValue(`options.borderColor must have four numbers, not ${colour.length}`)
  return [r ?? 0, g ?? 0, b ?? 0, a ?? 0]
}

function arrayResource(array: ArrayImpl, given: GivenOptions): TextureResource {
  const name = OF_BUFFERS.find((each) => given[each] !== undefined)
  if (name === undefined) return { kind: 'array', pointer: array.pointer }
  throw invalidValue(`options.${name} is for textures of buffers, and ${array} has its own: leave it out`)
}

function readResource(device: Device, memory: BufferImpl, elements: TexelFormat, given: GivenOptions): TextureResource {
  const { pointer, byteLength } = memory
  const attribute = (name: DeviceAttribute): number =>
    driverOf(device).devices.attribute(device.ordinal, DEVICE_ATTRIBUTES[name])
  const size = texelBytes(elements)
  const alignment = attribute('textureAlignment')
  if (pointer % alignment !== 0) {
    throw invalidValue(`${memory} does not begin at a multiple of ${alignment} bytes, as a texture must`)
  }
  if (given.shape === undefined) {
    if (given.pitch !== undefined) throw invalidValue('options.pitch needs options.shape, [height, width]')
    const count = Math.floor(byteLength / size)
    const most = attribute('maximumTexture1dLinearWidth')
    if (count >= 1 && count <= most) return { kind: 'linear', pointer, byteLength: count * size, ...elements }
    throw outOfRange('source', `1 to ${most} elements of ${size} bytes long`, count)
  }
  const [height = 0, width = 0, ...rest] = checkIntegers(given.shape, 'options.shape', '[height, width]', 1)
  if (rest.length > 0 || width === 0) throw invalidValue('options.shape of a buffer must be [height, width]')
  const rowBytes = width * size
  const pitch = given.pitch === undefined ? rowBytes : checkInteger(given.pitch, 'options.pitch', rowBytes)
  const step = attribute('texturePitchAlignment')
  if (pitch % step !== 0) {
    const what = given.pitch === undefined ? `Rows of ${rowBytes} bytes` : 'options.pitch'
    throw invalidValue(
      `${what} must be a multiple of ${step} bytes: give a pitch, and copy the rows to it by stream.copy(…, { shape, destinationStrides: [pitch] })`,
    )
  }
  const end = (height - 1) * pitch + rowBytes
  if (end > byteLength) throw outOfRange('source', `at least ${end} bytes long, where the last row ends`, byteLength)
  return { kind: 'pitched', pointer, width, height, pitch, ...elements }
}

/**
 * A texture object: memory as kernels read it by `tex2D()` and the like, with its coordinates, filter and edges. It keeps its array or buffer.
 * A launch with it reads the whole memory, for what waits and for the sanitizer. A closed one is ERR_CLOSED as an argument.
 */
export class TextureObject extends ClosableObject {
  /** The array or buffer that it reads. */
  readonly source: DeviceBuffer | OpaqueArray
  /** The device that the object is of. */
  readonly device: Device
  /**
   * The handle, a `cudaTextureObject_t`. Kernels get it for a parameter of the type 'u64', for which `stream.launch()` takes this object. As a number it
   * keeps nothing alive, and its memory does not count as used.
   */
  readonly handle: bigint
  /** The number of this object: no other object of this thread has it. */
  readonly serial: number
  /** @internal */
  declare readonly [implementation]: ObjectImpl

  /** Use `device.createTexture()`. */
  private constructor(impl: ObjectImpl, source: DeviceBuffer | OpaqueArray) {
    super()
    checkMade(impl, ObjectImpl, 'TextureObject', 'device.createTexture(source, options)')
    this.source = source
    this.device = impl.device
    this.handle = BigInt(impl.object.handle)
    this.serial = impl.serial
    this[implementation] = impl
    destroyWhenUnreachable(this, impl.allocation)
  }

  /** @internal */
  static [construct](impl: ObjectImpl, source: DeviceBuffer | OpaqueArray): TextureObject {
    return new TextureObject(impl, source)
  }

  /**
   * Destroys the object (`cuTexObjectDestroy`) when all work is done that this library queued with it, on any stream. Neither this call nor any stream
   * waits for that. Its memory, if that was closed, is freed then, too. May be called twice.
   */
  close(): void {
    const impl = this instanceof TextureObject ? this[implementation] : undefined
    if (impl === undefined) refuseReceiver('a TextureObject', this)
    impl.close()
  }

  override get [Symbol.toStringTag](): string {
    return 'TextureObject'
  }
}

/**
 * A surface object: an array as kernels read and write it by `surf2Dread()`, `surf2Dwrite()` and the like. It keeps its array. A launch with it
 * reads and writes the whole array, for what waits and for the sanitizer. A closed one is ERR_CLOSED as an argument.
 */
export class SurfaceObject extends ClosableObject {
  /** The array that it reads and writes. */
  readonly source: OpaqueArray
  /** The device that the object is of. */
  readonly device: Device
  /**
   * The handle, a `cudaSurfaceObject_t`. Kernels get it for a parameter of the type 'u64', for which `stream.launch()` takes this object. As a number it
   * keeps nothing alive, and its memory does not count as used.
   */
  readonly handle: bigint
  /** The number of this object: no other object of this thread has it. */
  readonly serial: number
  /** @internal */
  declare readonly [implementation]: ObjectImpl

  /** Use `device.createSurface()`. */
  private constructor(impl: ObjectImpl, source: OpaqueArray) {
    super()
    checkMade(impl, ObjectImpl, 'SurfaceObject', 'device.createSurface(array)')
    this.source = source
    this.device = impl.device
    this.handle = BigInt(impl.object.handle)
    this.serial = impl.serial
    this[implementation] = impl
    destroyWhenUnreachable(this, impl.allocation)
  }

  /** @internal */
  static [construct](impl: ObjectImpl, source: OpaqueArray): SurfaceObject {
    return new SurfaceObject(impl, source)
  }

  /**
   * Destroys the object (`cuSurfObjectDestroy`) when all work is done that this library queued with it, on any stream. Neither this call nor any stream
   * waits for that. Its memory, if that was closed, is freed then, too. May be called twice.
   */
  close(): void {
    const impl = this instanceof SurfaceObject ? this[implementation] : undefined
    if (impl === undefined) refuseReceiver('a SurfaceObject', this)
    impl.close()
  }

  override get [Symbol.toStringTag](): string {
    return 'SurfaceObject'
  }
}

/** The implementation of a texture or surface; undefined for any other value. */
export const objectImplOf = (value: unknown): ObjectImpl | undefined =>
  value instanceof TextureObject || value instanceof SurfaceObject ? value[implementation] : undefined
