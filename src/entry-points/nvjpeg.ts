/** cuda-streams/nvjpeg: JPEG files decoded and encoded on streams. */
import '../core/shortcuts.js'

export { LibraryError } from '../foundation/base/errors.js'
export {
  type DecodeBatchOptions,
  type DecodeOptions,
  type EncodeOptions,
  type ImageToEncode,
  JpegCodec,
  type JpegCodecOptions,
} from '../libraries/nvjpeg/jpeg-codec.js'
export { type JpegInfo, type Orientation, readJpegInfo, type Subsampling } from '../libraries/nvjpeg/jpeg-info.js'
export type { JpegImage, PixelFormat, PixelOptions } from '../libraries/nvjpeg/pixels.js'
