/** The textures and surfaces that kernels find behind handles, as the machine keeps them. */

export type TexelType = 'u8' | 'u16' | 'u32' | 'i8' | 'i16' | 'i32' | 'f16' | 'f32'
export type EdgeMode = 'wrap' | 'clamp' | 'mirror' | 'border'

/** How a texture is read. */
export interface TextureSampling {
  readonly addressModes: readonly [EdgeMode, EdgeMode, EdgeMode]
  readonly isLinear: boolean
  readonly isNormalized: boolean
  /** Whether integers are read as they are, and not as floats from 0 or -1 to 1. */
  readonly readsIntegers: boolean
  readonly isSrgb: boolean
  readonly borderColor: readonly [number, number, number, number]
}

/** A texture or a surface: memory of the device with elements at equal distances. */
export interface BoundTexture {
  /** The directions of the image; 'buffer' for elements that integers choose. Layers are none of them. */
  readonly kind: '1d' | '2d' | '3d' | 'cube' | 'buffer'
  readonly pointer: number
  readonly width: number
  /** Rows; 0 for an image of one direction. */
  readonly height: number
  /** Planes or layers; 0 without them. */
  readonly depth: number
  readonly format: TexelType
  readonly channels: 1 | 2 | 4
  readonly isLayered: boolean
  /** Bytes from one row to the next, and from one plane or layer to the next. */
  readonly rowPitch: number
  readonly planePitch: number
  /** The way in which it is read; undefined for a surface. */
  readonly sampling: TextureSampling | undefined
}

/** The textures and surfaces of a machine. */
export interface TextureObjects {
  /** What has this handle: a texture as well as a surface, since a GPU takes either for the other. */
  object(handle: number): BoundTexture | undefined
}
