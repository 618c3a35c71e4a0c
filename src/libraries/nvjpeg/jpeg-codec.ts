/** JPEG files decoded and encoded by nvJPEG, in stream order. Importing this loads no library. */

import { type Device, resolveDevice } from '../../core/device.js'
import { allocateOn, type DeviceBuffer } from '../../core/memory/device-buffer.js'
import type { Stream } from '../../core/stream.js'
import { openStream, type StreamImpl } from '../../core/streams/stream-impl.js'
import {
  checkArray,
  checkChoice,
  checkInteger,
  checkThis,
  readOptions,
  readProperties,
} from '../../foundation/base/arguments.js'
import type { OwnBytes } from '../../foundation/base/bytes.js'
import { invalidValue, outOfRange } from '../../foundation/base/errors.js'
import { implementation } from '../../foundation/base/library-object.js'
import { LIBRARY_ENTRIES } from '../../foundation/driver/driver-constants.js'
import { finished } from '../../foundation/driver/finished.js'
import type { NativeMemory } from '../../foundation/native/native-memory.js'
import { checkHandleOpen, HandleOwner, queueCall, refuseCapture, streamOfCall } from '../handle-library.js'
import { checkDeviceBuffer, type GivenMemory } from '../library-call.js'
import { decodeOnHost, encodeOnHost } from './host-jpeg.js'
import { checkDecodable, checkFile, type Subsampling } from './jpeg-info.js'
import {
  callEncode,
  callRetrieve,
  DecodeFrame,
  type EncoderState,
  NvjpegHandle,
  retrievalStream,
} from './nvjpeg-library.js'
import {
  byteLengthOf,
  checkPixels,
  describePixels,
  type JpegImage,
  type PixelLayout,
  type PixelOptions,
  shapeOf,
} from './pixels.js'

/** The options of `new JpegCodec(options)`. */
export interface JpegCodecOptions {
  /** The device of the work. Default: the current device. */
  readonly device?: Device | number | undefined
}

/** The options of `codec.decode()`. */
export interface DecodeOptions extends PixelOptions {
  /** The memory of the image, from its first pixel on. It may be longer. Default: new memory, allocated in the order of the stream. */
  readonly into?: DeviceBuffer | undefined
}

/** The options of `codec.decodeBatch()`. */
export interface DecodeBatchOptions extends PixelOptions {
  /** The memory of each image, such as slices of one buffer. Default: new memory, allocated in the order of the stream. */
  readonly into?: readonly DeviceBuffer[] | undefined
}

/** An image to be encoded, such as one that was decoded. */
export interface ImageToEncode extends PixelOptions {
  /** The memory, one byte for each number, without gaps. It may be longer. */
  readonly buffer: DeviceBuffer
  /** Pixels of a row, from 1 to 65535. */
  readonly width: number
  /** Rows, from 1 to 65535. */
  readonly height: number
}

/** The options of `codec.encode()`. */
export interface EncodeOptions {
  /** The quality, from 1 to 100. Default 90. */
  readonly quality?: number | undefined
  /** The resolution of the colours. Default '444', all of it. The simulator has no other. */
  readonly subsampling?: Exclude<Subsampling, 'gray'> | undefined
}

const PIXEL_OPTIONS = ['format', 'layout'] as const
const SUBSAMPLINGS = ['444', '422', '420', '440', '411', '410'] as const
const MOST_PIXELS = 65_535
const DEFAULT_QUALITY = 90
/** What a capture refuses, and why. */
const WORK = 'work of nvJPEG'
const WAY_OUT = 'nvJPEG allocates, and works on this thread too: decode and encode before the capture begins'

/**
 * Decodes JPEG files into memory of the device, and encodes images there, by nvJPEG. The simulator does both by the package jpeg-js, at the
 * moment of virtual time at which a GPU would. An object that the program cannot reach any more is closed.
 * @example
 * ```ts
 * import { readFile, writeFile } from 'node:fs/promises'
 * import { JpegCodec } from 'cuda-streams/nvjpeg'
 *
 * using codec = new JpegCodec({ device })
 * const image = codec.decode(stream, await readFile('photo.jpg')) // image.buffer: RGB
 * await writeFile('again.jpg', await codec.encode(stream, image, { quality: 80 }))
 * ```
 */
export class JpegCodec extends HandleOwner {
  /** @internal */
  declare readonly [implementation]: NvjpegHandle

  /**
   * Loads nvJPEG the first time, and makes a handle (`nvjpegCreateEx`, for the decoder in hardware where there is one, else
   * `nvjpegCreateSimple`). Pending host functions run before, since that call may wait for
   * the device: make codecs when the program starts.
   * @param options `device`: see JpegCodecOptions
   * @throws {Error} ERR_UNSUPPORTED, with the places tried, if nvJPEG is not found (CUDA_STREAMS_NVJPEG names the file or its folder), and on
   * the simulator if jpeg-js is not installed; ERR_DEADLOCK inside a host function and while a stream waits for a promise;
   * ERR_INVALID_ARG_TYPE; ERR_OUT_OF_RANGE for a device that does not exist
   * @throws {LibraryError} if nvJPEG refuses
   */
  constructor(options?: JpegCodecOptions) {
    const { device } = readOptions(options, ['device'])
    super(new NvjpegHandle(resolveDevice(device)))
  }

  /**
   * Queues the decoding of a file (`nvjpegDecode`). A part of the work is done on this thread before the call returns, on the simulator all but
   * the writing. Each call may wait for the device, so pending host functions run before, on a GPU.
   * @param stream The stream in whose order the image is written.
   * @param file The bytes of the file, which may be changed as soon as this returns.
   * @param options `format`, `layout` and `into`: see DecodeOptions
   * @returns the image, whose buffer is yours to close
   * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_INVALID_ARG_VALUE for a file that is no JPEG file, or is truncated; ERR_UNSUPPORTED for
   * CMYK, 12 bits, RGB, and lossless, hierarchical or arithmetic coding, and while the stream captures, which does not invalidate the capture;
   * ERR_OUT_OF_RANGE for a buffer that is too short; ERR_CLOSED; ERR_DEVICE_MISMATCH for a stream or a buffer of another device;
   * ERR_DEADLOCK inside a host function and while a stream waits for a promise
   * @throws {CudaError} 2 if there is no memory for the image
   * @throws {LibraryError} if nvJPEG refuses, such as NVJPEG_STATUS_BAD_JPEG for a file that is damaged
   */
  decode(stream: Stream, file: Uint8Array, options?: DecodeOptions): JpegImage {
    const codec = checkThis(this, isCodec, 'a JpegCodec')
    const { into, ...pixels } = readOptions(options, [...PIXEL_OPTIONS, 'into'])
    const target = into === undefined ? [] : [{ buffer: into, name: 'options.into' }]
    const [image] = codec.#decode(stream, [{ file, name: 'file' }], pixels, target, false)
    if (image === undefined) throw new Error('No image was decoded')
    return image
  }

  /**
   * Queues the decoding of several files at once, whose sizes may differ, as `decode()` does for one: by the decoder in hardware where the device
   * has one that takes them all (`nvjpegDecodeBatched`), otherwise one after the other. If nvJPEG refuses one
   * of them, it may have decoded others.
   * @param stream The stream in whose order the images are written.
   * @param files The bytes of each file, which may be changed as soon as this returns.
   * @param options `format`, `layout` and `into`: see DecodeBatchOptions
   * @returns the images, in the order of the files, whose buffers are yours to close
   * @throws {Error} as `decode()`; ERR_INVALID_ARG_VALUE for another number of buffers than files, and buffers that overlap
   * @throws {CudaError} as `decode()`
   * @throws {LibraryError} as `decode()`
   */
  decodeBatch(stream: Stream, files: readonly Uint8Array[], options?: DecodeBatchOptions): JpegImage[] {
    const codec = checkThis(this, isCodec, 'a JpegCodec')
    const given = checkArray(files, 'files', 'an array of Uint8Arrays')
    const { into, ...pixels } = readOptions(options, [...PIXEL_OPTIONS, 'into'])
    const buffers = into === undefined ? [] : checkArray(into, 'options.into', 'an array of DeviceBuffers')
    if (into !== undefined && buffers.length !== given.length)
      throw invalidValue(`options.into has ${buffers.length} buffers for ${given.length} files`)
    const named = given.map((file, index) => ({ file, name: `files[${index}]` }))
    const targets = buffers.map((buffer, index) => ({ buffer, name: `options.into[${index}]` }))
    return codec.#decode(stream, named, pixels, targets, true)
  }

  /**
   * Queues the encoding of an image (`nvjpegEncodeImage`, for gray `nvjpegEncodeYUV`), and resolves with the bytes of the file, once the work
   * is done (`nvjpegEncodeRetrieveBitstream`). The buffer may be closed as soon as this returns. Each call may wait for the device, so pending host
   * functions run before, on a GPU.
   * @param stream The stream in whose order the image is read.
   * @param image `buffer`, `width`, `height`, `format` and `layout`, such as what `decode()` returns: see ImageToEncode
   * @param options `quality` and `subsampling`: see EncodeOptions
   * @throws {Error} (as a rejection) as `decode()`; ERR_OUT_OF_RANGE for a size or a quality that is out of range
   * @throws {CudaError} (as a rejection) as `stream.finished()`
   * @throws {LibraryError} (as a rejection) if nvJPEG refuses
   */
  async encode(stream: Stream, image: ImageToEncode, options?: EncodeOptions): Promise<OwnBytes> {
    const codec = checkThis(this, isCodec, 'a JpegCodec')
    const { buffer, width, height, ...pixels } = readProperties(
      image,
      ['buffer', 'width', 'height', ...PIXEL_OPTIONS],
      'image',
    )
    const layout: PixelLayout = {
      width: checkInteger(width, 'image.width', 1, MOST_PIXELS),
      height: checkInteger(height, 'image.height', 1, MOST_PIXELS),
      ...checkPixels(pixels, 'image'),
    }
    const given = readOptions(options, ['quality', 'subsampling'])
    const { quality: wanted = DEFAULT_QUALITY, subsampling: sampled = '444' } = given
    const quality = checkInteger(wanted, 'options.quality', 1, 100)
    const subsampling = checkChoice(sampled, 'options.subsampling', SUBSAMPLINGS)
    codec.#checkStream(stream)
    const memory = memoryOf(buffer, 'image.buffer', layout, 'in', stream)
    refuseCapture(stream, WORK, WAY_OUT)
    const handle = codec[implementation]
    let encoder: EncoderState | undefined
    let file: OwnBytes | undefined
    // The handle is not destroyed before the file has been taken out of it.
    handle.retain()
    const end = (): void => {
      if (encoder !== undefined) handle.giveBack(encoder)
      handle.release()
    }
    try {
      queueCall(codec, stream, {
        name: layout.format === 'gray' ? 'nvjpegEncodeYUV' : 'nvjpegEncodeImage',
        memory: [memory],
        call: ([used], raw) =>
          relaxed(stream, () => {
            encoder = handle.takeEncoder(raw)
            callEncode(handle, encoder, used?.pointer ?? 0, layout, { quality, subsampling }, raw)
          }),
        host: {
          nanoseconds: durationOf(memory.byteLength),
          run: ([pixels = NOTHING]) => {
            file = encodeOnHost(pixels, layout, quality)
          },
        },
      })
    } catch (error) {
      // Work that nvJPEG refuses may have been queued in part.
      stream.finished().then(end, end)
      throw error
    }
    try {
      await stream.finished()
      return file ?? (await retrieve(handle, encoder))
    } finally {
      end()
    }
  }

  get [Symbol.toStringTag](): string {
    return 'JpegCodec'
  }

  #decode(
    stream: Stream,
    sources: readonly { readonly file: unknown; readonly name: string }[],
    pixels: PixelOptions,
    targets: readonly { readonly buffer: unknown; readonly name: string }[],
    isBatch: boolean,
  ): JpegImage[] {
    const checked = checkPixels(pixels, 'options')
    const files = sources.map(({ file, name }) => checkFile(file, name))
    const layouts = files.map((file, index): PixelLayout => {
      const { width, height } = checkDecodable(file, sources[index]?.name ?? 'file')
      return { width, height, ...checked }
    })
    this.#checkStream(stream)
    const given = layouts.map((layout, index): DeviceBuffer | undefined => {
      const target = targets[index]
      return target && memoryOf(target.buffer, target.name, layout, 'out', stream).buffer
    })
    checkHandleOpen(this)
    refuseCapture(stream, WORK, WAY_OUT)
    if (files.length === 0) return []
    const own: DeviceBuffer[] = []
    try {
      const images = layouts.map((layout, index): JpegImage => {
        const target = given[index]
        const buffer = target ?? allocateOn(openStream(stream), this.device, byteLengthOf(layout))
        if (target === undefined) own.push(buffer)
        return { buffer, ...layout, shape: shapeOf(layout) }
      })
      this.#queueDecode(stream, files, images, isBatch)
      return images
    } catch (error) {
      for (const buffer of own) buffer.close()
      throw error
    }
  }

  #queueDecode(stream: Stream, files: readonly Uint8Array[], images: readonly JpegImage[], isBatch: boolean): void {
    const handle = this[implementation]
    const memory = images.map((image): GivenMemory => {
      return { buffer: image.buffer, access: 'out', byteLength: byteLengthOf(image), rows: undefined }
    })
    const name = isBatch ? 'nvjpegDecodeBatched' : 'nvjpegDecode'
    let frame: DecodeFrame | undefined
    let decoded: readonly Uint8Array[] = []
    try {
      queueCall(this, stream, {
        name,
        memory,
        entries: LIBRARY_ENTRIES * files.length,
        begin: () => {
          if (handle.isSimulated)
            decoded = images.map((image, index) => decodeOnHost(files[index] ?? NOTHING, image, name))
          else frame = new DecodeFrame(files, images)
        },
        check: isBatch ? checkApart : () => {},
        call: (used, raw) =>
          relaxed(stream, (use) => {
            const pointers = used.map(({ pointer }) => pointer)
            frame?.call(handle, pointers, use, raw, isBatch)
          }),
        host: {
          nanoseconds: durationOf(memory.reduce((sum, { byteLength }) => sum + byteLength, 0)),
          run: (contents) => {
            for (const [index, bytes] of contents.entries()) bytes.set(decoded[index] ?? NOTHING)
          },
        },
      })
    } finally {
      const used = frame
      // The work may read the files until it is done, or the GPU has faulted.
      if (used !== undefined)
        stream.finished().then(
          () => used.free(),
          () => used.free(),
        )
    }
  }

  #checkStream(stream: Stream): void {
    openStream(streamOfCall(this, stream))
  }
}

const NOTHING = new Uint8Array()

const isCodec = (value: unknown): value is JpegCodec =>
  value instanceof JpegCodec && value[implementation] !== undefined

/** The part of a buffer that an image takes. */
function memoryOf(
  buffer: unknown,
  name: string,
  layout: PixelLayout,
  access: 'in' | 'out',
  stream: Stream,
): GivenMemory {
  const memory = checkDeviceBuffer(buffer, name, 1, stream)
  const byteLength = byteLengthOf(layout)
  if (memory.byteLength >= byteLength) return { buffer: memory, access, byteLength, rows: undefined }
  throw outOfRange(name, `${byteLength} bytes long or longer, for ${describePixels(layout)}`, memory.byteLength)
}

/** Throws ERR_INVALID_ARG_VALUE if images of a batch have bytes in common. */
function checkApart(memory: readonly { readonly pointer: number; readonly byteLength: number }[]): void {
  const sorted = memory.toSorted((a, b) => a.pointer - b.pointer)
  for (const [index, { pointer }] of sorted.entries()) {
    const before = sorted[index - 1]
    if (before !== undefined && before.pointer + before.byteLength > pointer)
      throw invalidValue('The buffers of two images in options.into overlap')
  }
}

/** nvJPEG allocates, which a strict capture of any thread forbids. */
const relaxed = <R>(stream: Stream, call: (use: StreamImpl) => R): R => {
  const use = openStream(stream)
  return use.driver.devices.relaxed(() => call(use))
}

/** Takes a file out of the state that has encoded it, without blocking. Later work of the stream is not waited for. */
async function retrieve(handle: NvjpegHandle, encoder: EncoderState | undefined): Promise<OwnBytes> {
  if (encoder === undefined) throw new Error('Nothing was encoded')
  const { driver, handle: stream, context } = retrievalStream(handle.device)
  const name = 'nvjpegEncodeRetrieveBitstream'
  let file: NativeMemory | undefined
  const call = (raw: number): void => {
    file = driver.devices.relaxed(() => callRetrieve(handle, encoder, raw))
  }
  driver.work.queue({ kind: 'library', calls: [{ name, stream, context, memory: [], call, host: undefined }] })
  try {
    await finished(
      undefined,
      () => name,
      (settle) => driver.streams.finished(stream, context, settle),
    )
    const length = file?.pointerAt(0) ?? 0
    return file?.bytes.slice(8, 8 + length) ?? new Uint8Array()
  } finally {
    file?.free()
  }
}

/** The virtual nanoseconds of an image: about the time of a GPU that decodes 1 GB/s. */
const durationOf = (byteLength: number): number => 20_000 + byteLength
