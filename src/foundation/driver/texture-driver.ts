/** The driver interface for CUDA arrays, and for the texture and surface objects by which kernels use them. */

import { ELEMENT_TYPES } from '../base/element-types.js'
import type { InternalEvent } from './event-driver.js'
import type { ContextHandle, Pointer } from './handle-types.js'

/** The elements that a texture reads: the type of a channel, and the number of channels. */
export interface TexelFormat {
  readonly format: ArrayFormat
  readonly channels: 1 | 2 | 4
}

/** CUDA_ARRAY3D_DESCRIPTOR. */
export interface ArrayDescription extends TexelFormat {
  readonly width: number
  /** Rows; 0 for an array of one dimension. */
  readonly height: number
  /** Planes, or layers; 0 for an array of one or two dimensions that has no layers. */
  readonly depth: number
  readonly isLayered: boolean
  readonly isCubemap: boolean
  /** Whether surface objects can be made of it. */
  readonly hasSurfaces: boolean
  /** Whether textures of it can be gathered from. */
  readonly isGathered: boolean
}

/** CUDA_RESOURCE_DESC. The elements of an array are those of its description. */
export type TextureResource =
  | { readonly kind: 'array'; readonly pointer: Pointer }
  | ({ readonly kind: 'linear'; readonly pointer: Pointer; readonly byteLength: number } & TexelFormat)
  | ({
      readonly kind: 'pitched'
      readonly pointer: Pointer
      readonly width: number
      readonly height: number
      /** Bytes from one row to the next. */
      readonly pitch: number
    } & TexelFormat)

/** CUaddress_mode, in its order. */
export const ADDRESS_MODES = ['wrap', 'clamp', 'mirror', 'border'] as const
/** What a texture reads at coordinates outside of its memory: an element within it, or 0 by `border` (`CUaddress_mode`). */
export type AddressMode = (typeof ADDRESS_MODES)[number]

/** CUDA_TEXTURE_DESC. */
export interface Sampling {
  readonly addressModes: readonly [AddressMode, AddressMode, AddressMode]
  readonly isLinear: boolean
  readonly isNormalized: boolean
  /** CU_TRSF_READ_AS_INTEGER: integers are not made floats from 0 or -1 to 1. */
  readonly readsIntegers: boolean
  readonly isSrgb: boolean
  readonly borderColor: readonly [number, number, number, number]
}

export const ARRAY_FORMATS = ['u8', 'u16', 'u32', 'i8', 'i16', 'i32', 'f16', 'f32'] as const
/** The type of one channel of an element, as CUarray_format has them. */
export type ArrayFormat = (typeof ARRAY_FORMATS)[number]

/** The bytes of an element. */
export const texelBytes = ({ format, channels }: TexelFormat): number => ELEMENT_TYPES[format].bytes * channels

/** The bytes of all elements of an array, one directly behind the other. */
export const arrayBytes = (array: ArrayDescription): number =>
  array.width * Math.max(1, array.height) * Math.max(1, array.depth) * texelBytes(array)

export interface TextureDriver {
  /**
   * `cuArray3DCreate`: there at once. Invalidates no capture. The address that it returns names the array in work, one byte for each byte of its
   * elements, row after row; no kernel can use it. `array` is undefined where only the order of work counts, as when a recording is played.
   */
  createArray(byteLength: number, array: ArrayDescription | undefined, context: ContextHandle): Pointer
  /** `cuArrayDestroy`, once the latest records of these events are done; takes the events over. */
  destroyArray(pointer: Pointer, after: readonly InternalEvent[]): void
  /** The CUarray of an array. */
  arrayHandle(pointer: Pointer): number
  /** `cuTexObjectCreate`. Invalidates no capture. */
  createTexture(resource: TextureResource, sampling: Sampling, context: ContextHandle): number
  /** `cuTexObjectDestroy`, once the latest records of these events are done; takes the events over. */
  destroyTexture(texture: number, after: readonly InternalEvent[]): void
  /** `cuSurfObjectCreate`, of an array. Invalidates no capture. */
  createSurface(pointer: Pointer, context: ContextHandle): number
  /** `cuSurfObjectDestroy`, once the latest records of these events are done; takes the events over. */
  destroySurface(surface: number, after: readonly InternalEvent[]): void
}
