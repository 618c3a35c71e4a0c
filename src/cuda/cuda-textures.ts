/**
 * CUDA arrays, textures and surfaces of real GPUs. The rest of the library knows an array by addresses that no memory has, one for each byte of its
 * elements, so that copies of it are ordered and watched as those of buffers are.
 */
import { RecheckTimer } from '../foundation/base/polling.js'
import { AfterWork } from '../foundation/driver/after-work.js'
import type { InternalEvent } from '../foundation/driver/event-driver.js'
import type { ContextHandle, Pointer } from '../foundation/driver/handle-types.js'
import {
  ADDRESS_MODES,
  type ArrayDescription,
  type ArrayFormat,
  type Sampling,
  type TextureDriver,
  type TextureResource,
} from '../foundation/driver/texture-driver.js'
import { ThreadMemory } from '../foundation/native/thread-memory.js'
import type { LibcudaParts } from './libcuda/driver-calls.js'
import { checkCleanup } from './libcuda/libcuda.js'
import type { ArrayTable } from './memory/arrays.js'
import type { IdleDevices } from './waiting/idle-devices.js'

/** CUarray_format. */
const FORMATS: Readonly<Record<ArrayFormat, number>> = {
  u8: 1,
  u16: 2,
  u32: 3,
  i8: 8,
  i16: 9,
  i32: 10,
  f16: 16,
  f32: 32,
}
/** CUDA_ARRAY3D_LAYERED and the others. */
const ArrayFlag = { LAYERED: 1, SURFACE_LDST: 2, CUBEMAP: 4, TEXTURE_GATHER: 8 } as const
/** CUresourcetype. */
const ResourceType = { ARRAY: 0, LINEAR: 2, PITCH2D: 3 } as const
/** CU_TRSF_READ_AS_INTEGER and the others. */
const TextureFlag = { READ_AS_INTEGER: 1, NORMALIZED_COORDINATES: 2, SRGB: 16 } as const
/** The bytes of a CUDA_ARRAY3D_DESCRIPTOR, a CUDA_RESOURCE_DESC and a CUDA_TEXTURE_DESC, and where the latter two begin in the memory for both. */
const ARRAY_BYTES = 40
const RESOURCE_BYTES = 144
const TEXTURE_BYTES = 104

export interface CudaTexturesParts extends LibcudaParts {
  readonly idleDevices: Pick<IdleDevices, 'whenIdle'>
  readonly arrays: ArrayTable
  readonly driver: ConstructorParameters<typeof AfterWork>[0]
}

export class CudaTextures implements TextureDriver {
  readonly #array = new ThreadMemory(ARRAY_BYTES)
  readonly #description = new ThreadMemory(RESOURCE_BYTES + TEXTURE_BYTES)
  /** The contexts of textures and surfaces. */
  readonly #contexts = new Map<number, ContextHandle>()
  readonly #leaving: AfterWork<() => void>
  readonly #again = new RecheckTimer(() => this.#sweep())

  constructor(private readonly parts: CudaTexturesParts) {
    this.#leaving = new AfterWork(parts.driver, (destroy) => parts.idleDevices.whenIdle(destroy))
  }

  createArray(byteLength: number, array: ArrayDescription | undefined, context: ContextHandle): Pointer {
    if (array === undefined) throw new Error('An array has a description')
    this.#sweep()
    const { must, memory, arrays } = this.parts
    const { width, height, depth, format, channels, isLayered, isCubemap, hasSurfaces, isGathered } = array
    const { address, uint32 } = this.#array
    this.#array.setPointer(0, width)
    this.#array.setPointer(8, height)
    this.#array.setPointer(16, depth)
    uint32[6] = FORMATS[format]
    uint32[7] = channels
    uint32[8] =
      (isLayered ? ArrayFlag.LAYERED : 0) |
      (hasSurfaces ? ArrayFlag.SURFACE_LDST : 0) |
      (isCubemap ? ArrayFlag.CUBEMAP : 0) |
      (isGathered ? ArrayFlag.TEXTURE_GATHER : 0)
    this.#in(context, () => must.cuArray3DCreate_v2(memory.address, address))
    return arrays.add(memory.pointerAt(0), byteLength, array, context)
  }

  destroyArray(pointer: Pointer, after: readonly InternalEvent[]): void {
    const { arrays, library } = this.parts
    const { handle, context } = arrays.at(pointer)
    this.#destroyAfter(after, () => {
      arrays.delete(pointer)
      checkCleanup(
        'cuArrayDestroy',
        handle,
        this.#in(context, () => library.cuArrayDestroy(handle)),
      )
    })
  }

  arrayHandle(pointer: Pointer): number {
    return this.parts.arrays.at(pointer).handle
  }

  createTexture(resource: TextureResource, sampling: Sampling, context: ContextHandle): number {
    this.#sweep()
    const { must, memory } = this.parts
    this.#describe(resource)
    this.#describeSampling(sampling)
    const { address } = this.#description
    this.#in(context, () => must.cuTexObjectCreate(memory.address, address, address + RESOURCE_BYTES, 0))
    return this.#made(context)
  }

  createSurface(pointer: Pointer, context: ContextHandle): number {
    this.#sweep()
    const { must, memory } = this.parts
    this.#describe({ kind: 'array', pointer })
    this.#in(context, () => must.cuSurfObjectCreate(memory.address, this.#description.address))
    return this.#made(context)
  }

  destroyTexture(texture: number, after: readonly InternalEvent[]): void {
    const { library } = this.parts
    this.#destroyObject(texture, after, 'cuTexObjectDestroy', () => library.cuTexObjectDestroy(texture))
  }

  destroySurface(surface: number, after: readonly InternalEvent[]): void {
    const { library } = this.parts
    this.#destroyObject(surface, after, 'cuSurfObjectDestroy', () => library.cuSurfObjectDestroy(surface))
  }

  #made(context: ContextHandle): number {
    const handle = this.parts.memory.pointerAt(0)
    this.#contexts.set(handle, context)
    return handle
  }

  #destroyObject(handle: number, after: readonly InternalEvent[], call: string, destroy: () => number): void {
    const context = this.#contexts.get(handle)
    if (context === undefined) return
    this.#contexts.delete(handle)
    this.#destroyAfter(after, () => checkCleanup(call, handle, this.#in(context, destroy)))
  }

  /** Destroys something at a time when nothing waits for that: once the records are done, and the devices idle. */
  #destroyAfter(after: readonly InternalEvent[], destroy: () => void): void {
    this.#leaving.add(destroy, after)
    this.#sweep()
  }

  #sweep(): void {
    this.#leaving.sweep()
    if (this.#leaving.pending) this.#again.later()
  }

  #describe(resource: TextureResource): void {
    const description = this.#description
    const { uint32, bytes } = description
    bytes.fill(0)
    if (resource.kind === 'array') {
      uint32[0] = ResourceType.ARRAY
      description.setPointer(8, this.arrayHandle(resource.pointer))
      return
    }
    uint32[0] = resource.kind === 'linear' ? ResourceType.LINEAR : ResourceType.PITCH2D
    description.setPointer(8, resource.pointer)
    uint32[4] = FORMATS[resource.format]
    uint32[5] = resource.channels
    if (resource.kind === 'linear') description.setPointer(24, resource.byteLength)
    else {
      description.setPointer(24, resource.width)
      description.setPointer(32, resource.height)
      description.setPointer(40, resource.pitch)
    }
  }

  #describeSampling({ addressModes, isLinear, isNormalized, readsIntegers, isSrgb, borderColor }: Sampling): void {
    const { uint32, float32 } = this.#description
    const at = RESOURCE_BYTES / 4
    for (const [index, mode] of addressModes.entries()) uint32[at + index] = ADDRESS_MODES.indexOf(mode)
    uint32[at + 3] = isLinear ? 1 : 0
    uint32[at + 4] =
      (readsIntegers ? TextureFlag.READ_AS_INTEGER : 0) |
      (isNormalized ? TextureFlag.NORMALIZED_COORDINATES : 0) |
      (isSrgb ? TextureFlag.SRGB : 0)
    for (const [index, each] of borderColor.entries()) float32[at + 10 + index] = each
  }

  /** Runs calls with a context current, and relaxed. */
  #in<R>(context: ContextHandle, calls: () => R): R {
    const { contexts, relaxed } = this.parts
    return contexts.within(context, () => relaxed.run(calls))
  }
}
