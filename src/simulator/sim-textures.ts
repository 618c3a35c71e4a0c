/**
 * CUDA arrays, textures and surfaces of the simulator. An array is memory of its device with its elements row after row; a texture is what launches find
 * behind its handle (src/ptx/textures.ts).
 */
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { DEVICE_ATTRIBUTES as A } from '../foundation/driver/device-attributes.js'
import type { InternalEvent } from '../foundation/driver/event-driver.js'
import type { ContextHandle, Pointer } from '../foundation/driver/handle-types.js'
import {
  type ArrayDescription,
  type Sampling,
  type TextureDriver,
  type TextureResource,
  texelBytes,
} from '../foundation/driver/texture-driver.js'
import type * as Ptx from '../ptx/ptx.js'
import type { Machine } from './machine/machine.js'
import { LaterEffect } from './memory-work.js'
import { simulatedAttribute } from './properties.js'
import type { Registry } from './registry.js'
import type { SimMemory } from './sim-memory.js'

/** Whether an array is beyond the limits of the device, which are those of textures or of surfaces of its kind. */
function isTooLarge({
  width,
  height,
  depth,
  isLayered,
  isCubemap,
  hasSurfaces,
  isGathered,
}: ArrayDescription): boolean {
  const limits = (...attributes: readonly number[]): readonly number[] =>
    attributes.map((each) => simulatedAttribute(each) ?? 0)
  const most = isCubemap
    ? limits(A.maximumTexturecubemapWidth, A.maximumTexturecubemapWidth)
    : height === 0
      ? isLayered
        ? [...limits(A.maximumTexture1dLayeredWidth), 0, ...limits(A.maximumTexture1dLayeredLayers)]
        : limits(hasSurfaces ? A.maximumSurface1dWidth : A.maximumTexture1dWidth)
      : isLayered
        ? limits(A.maximumTexture2dLayeredWidth, A.maximumTexture2dLayeredHeight, A.maximumTexture2dLayeredLayers)
        : depth > 0
          ? limits(A.maximumTexture3dWidth, A.maximumTexture3dHeight, A.maximumTexture3dDepth)
          : isGathered
            ? limits(A.maximumTexture2dGatherWidth, A.maximumTexture2dGatherHeight)
            : limits(A.maximumTexture2dWidth, A.maximumTexture2dHeight)
  return [width, height, depth].some((each, direction) => each > (most[direction] ?? each))
}

/** The extent and the elements of memory that a texture or a surface is made of. */
type Image = Omit<Ptx.BoundTexture, 'sampling'>

export class SimTextures implements TextureDriver, Ptx.TextureObjects {
  readonly #arrays = new Map<Pointer, ArrayDescription>()
  readonly #objects = new Map<number, Ptx.BoundTexture>()
  readonly #freeHandles: number[] = []
  /** The next handle. A GPU counts textures and surfaces together, from 1. */
  #next = 1

  constructor(
    private readonly machine: Machine,
    private readonly registry: Registry,
    private readonly memory: SimMemory,
  ) {}

  createArray(byteLength: number, array: ArrayDescription | undefined, context: ContextHandle): Pointer {
    if (array !== undefined && isTooLarge(array)) throw cudaError('cuArray3DCreate', CUresult.INVALID_VALUE)
    const pointer = this.memory.allocateAtOnce(byteLength, context)
    if (array !== undefined) this.#arrays.set(pointer, array)
    return pointer
  }

  destroyArray(pointer: Pointer, after: readonly InternalEvent[]): void {
    this.#arrays.delete(pointer)
    this.memory.freeAfter(pointer, after)
  }

  arrayHandle(pointer: Pointer): number {
    return pointer
  }

  createTexture(resource: TextureResource, sampling: Sampling, context: ContextHandle): number {
    this.registry.liveContextDevice(context, 'cuTexObjectCreate')
    return this.#add({ ...this.#imageOf(resource, 'cuTexObjectCreate'), sampling })
  }

  createSurface(pointer: Pointer, context: ContextHandle): number {
    this.registry.liveContextDevice(context, 'cuSurfObjectCreate')
    const image = this.#imageOf({ kind: 'array', pointer }, 'cuSurfObjectCreate')
    return this.#add({ ...image, sampling: undefined })
  }

  destroyTexture(texture: number, after: readonly InternalEvent[]): void {
    this.#remove(texture, after)
  }

  destroySurface(surface: number, after: readonly InternalEvent[]): void {
    this.#remove(surface, after)
  }

  object(handle: number): Ptx.BoundTexture | undefined {
    return this.#objects.get(handle)
  }

  #add(bound: Ptx.BoundTexture): number {
    this.machine.scheduler.tick()
    const handle = this.#freeHandles.pop() ?? this.#next++
    this.#objects.set(handle, bound)
    return handle
  }

  #remove(handle: number, after: readonly InternalEvent[]): void {
    const bound = this.#objects.get(handle)
    if (bound === undefined) {
      this.memory.takeOver(after)
      return
    }
    const records = after.map(({ event }) => this.registry.peekEvent(event)?.record)
    const block = this.memory.blockAt(bound.pointer, 1)
    const remove = (): void => {
      this.#objects.delete(handle)
      this.#freeHandles.push(handle)
    }
    if (block === undefined) remove()
    else this.machine.marker(block.device.nullStream, records, new LaterEffect('destroy', remove))
    this.memory.takeOver(after)
  }

  #imageOf(resource: TextureResource, call: string): Image {
    if (resource.kind === 'array') {
      const array = this.#arrays.get(resource.pointer)
      if (array === undefined) throw cudaError(call, CUresult.INVALID_VALUE)
      const { width, height, depth, format, channels, isLayered, isCubemap } = array
      const kind = isCubemap ? 'cube' : height === 0 ? '1d' : depth === 0 || isLayered ? '2d' : '3d'
      const rowPitch = width * texelBytes(array)
      return {
        ...{ kind, pointer: resource.pointer, width, height, depth, format, channels, isLayered },
        ...{ rowPitch, planePitch: rowPitch * Math.max(1, height) },
      }
    }
    const { kind, pointer, format, channels } = resource
    const size = texelBytes(resource)
    const width = kind === 'linear' ? Math.floor(resource.byteLength / size) : resource.width
    const [height, rowPitch] = kind === 'linear' ? [0, width * size] : [resource.height, resource.pitch]
    return {
      ...{ kind: kind === 'linear' ? 'buffer' : '2d', pointer, width, height, depth: 0, format, channels },
      ...{ isLayered: false, rowPitch, planePitch: rowPitch * Math.max(1, height) },
    }
  }
}
