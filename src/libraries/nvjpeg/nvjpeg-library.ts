/** nvJPEG as a C library: its functions and numbers, and what decoding and encoding need of it. A test compares them with nvjpeg.h. */

import type { Device } from '../../core/device.js'
import { StreamImpl } from '../../core/streams/stream-impl.js'
import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { invalidValue, LibraryError } from '../../foundation/base/errors.js'
import { memoize } from '../../foundation/base/memoize.js'
import { NativeMemory } from '../../foundation/native/native-memory.js'
import { HandleLibrary, LibraryHandle } from '../handle-library.js'
import { jpegJs } from './host-jpeg.js'
import type { Subsampling } from './jpeg-info.js'
import type { PixelLayout } from './pixels.js'

const DECODE = 'nvjpegHandle_t handle, nvjpegJpegState_t jpeg_handle'
const ENCODE = 'nvjpegHandle_t handle, nvjpegEncoderState_t encoder_state'
const IMAGE = 'const nvjpegEncoderParams_t encoder_params, const nvjpegImage_t *source'
const SET = 'nvjpegEncoderParams_t encoder_params'

export const NVJPEG_SIGNATURES = {
  nvjpegCreateSimple: 'nvjpegStatus_t nvjpegCreateSimple(nvjpegHandle_t *handle)',
  nvjpegCreateEx:
    'nvjpegStatus_t nvjpegCreateEx(nvjpegBackend_t backend, nvjpegDevAllocator_t *dev_allocator, nvjpegPinnedAllocator_t *pinned_allocator, unsigned int flags, nvjpegHandle_t *handle)',
  nvjpegDestroy: 'nvjpegStatus_t nvjpegDestroy(nvjpegHandle_t handle)',
  nvjpegJpegStateCreate: 'nvjpegStatus_t nvjpegJpegStateCreate(nvjpegHandle_t handle, nvjpegJpegState_t *jpeg_handle)',
  nvjpegJpegStateDestroy: 'nvjpegStatus_t nvjpegJpegStateDestroy(nvjpegJpegState_t jpeg_handle)',
  nvjpegGetImageInfo:
    'nvjpegStatus_t nvjpegGetImageInfo(nvjpegHandle_t handle, const unsigned char *data, size_t length, int *nComponents, nvjpegChromaSubsampling_t *subsampling, int *widths, int *heights)',
  nvjpegDecode: `nvjpegStatus_t nvjpegDecode(${DECODE}, const unsigned char *data, size_t length, nvjpegOutputFormat_t output_format, nvjpegImage_t *destination, cudaStream_t stream)`,
  nvjpegDecodeBatchedInitialize: `nvjpegStatus_t nvjpegDecodeBatchedInitialize(${DECODE}, int batch_size, int max_cpu_threads, nvjpegOutputFormat_t output_format)`,
  nvjpegDecodeBatched: `nvjpegStatus_t nvjpegDecodeBatched(${DECODE}, const unsigned char *const *data, const size_t *lengths, nvjpegImage_t *destinations, cudaStream_t stream)`,
  nvjpegEncoderStateCreate:
    'nvjpegStatus_t nvjpegEncoderStateCreate(nvjpegHandle_t handle, nvjpegEncoderState_t *encoder_state, cudaStream_t stream)',
  nvjpegEncoderStateDestroy: 'nvjpegStatus_t nvjpegEncoderStateDestroy(nvjpegEncoderState_t encoder_state)',
  nvjpegEncoderParamsCreate:
    'nvjpegStatus_t nvjpegEncoderParamsCreate(nvjpegHandle_t handle, nvjpegEncoderParams_t *encoder_params, cudaStream_t stream)',
  nvjpegEncoderParamsDestroy: 'nvjpegStatus_t nvjpegEncoderParamsDestroy(nvjpegEncoderParams_t encoder_params)',
  nvjpegEncoderParamsSetQuality: `nvjpegStatus_t nvjpegEncoderParamsSetQuality(${SET}, const int quality, cudaStream_t stream)`,
  nvjpegEncoderParamsSetSamplingFactors: `nvjpegStatus_t nvjpegEncoderParamsSetSamplingFactors(${SET}, const nvjpegChromaSubsampling_t chroma_subsampling, cudaStream_t stream)`,
  nvjpegEncodeYUV: `nvjpegStatus_t nvjpegEncodeYUV(${ENCODE}, ${IMAGE}, nvjpegChromaSubsampling_t chroma_subsampling, int image_width, int image_height, cudaStream_t stream)`,
  nvjpegEncodeImage: `nvjpegStatus_t nvjpegEncodeImage(${ENCODE}, ${IMAGE}, nvjpegInputFormat_t input_format, int image_width, int image_height, cudaStream_t stream)`,
  nvjpegEncodeRetrieveBitstream: `nvjpegStatus_t nvjpegEncodeRetrieveBitstream(${ENCODE}, unsigned char *data, size_t *length, cudaStream_t stream)`,
} as const satisfies Readonly<Record<string, string>>

/** nvjpegStatus_t. */
export const NVJPEG_STATUS: Readonly<Record<string, number>> = {
  NVJPEG_STATUS_SUCCESS: 0,
  NVJPEG_STATUS_NOT_INITIALIZED: 1,
  NVJPEG_STATUS_INVALID_PARAMETER: 2,
  NVJPEG_STATUS_BAD_JPEG: 3,
  NVJPEG_STATUS_JPEG_NOT_SUPPORTED: 4,
  NVJPEG_STATUS_ALLOCATOR_FAILURE: 5,
  NVJPEG_STATUS_EXECUTION_FAILED: 6,
  NVJPEG_STATUS_ARCH_MISMATCH: 7,
  NVJPEG_STATUS_INTERNAL_ERROR: 8,
  NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED: 9,
  NVJPEG_STATUS_INCOMPLETE_BITSTREAM: 10,
}

/** nvjpegOutputFormat_t and nvjpegInputFormat_t, which have the same numbers. */
export const NVJPEG_FORMATS = {
  'gray interleaved': 2,
  'gray planar': 2,
  'rgb planar': 3,
  'bgr planar': 4,
  'rgb interleaved': 5,
  'bgr interleaved': 6,
} as const

/** nvjpegChromaSubsampling_t. */
export const NVJPEG_SUBSAMPLINGS: Readonly<Record<Subsampling, number>> = {
  '444': 0,
  '422': 1,
  '420': 2,
  '440': 3,
  '411': 4,
  '410': 5,
  gray: 6,
}

const nvjpeg = new HandleLibrary({
  variable: VARIABLES.nvjpeg,
  signatures: NVJPEG_SIGNATURES,
  results: NVJPEG_STATUS,
  explanations: {
    1: 'CUDA is not started, or the device has no room left for nvJPEG',
    3: 'The file is damaged, or is no JPEG file',
    4: 'nvJPEG does not decode files of this kind',
    5: 'The device or the host is out of memory: close what is no longer used',
    6: 'The work could not be queued: the GPU may have faulted',
    7: 'This device does not support what is needed for the file',
    9: 'nvJPEG does not decode or encode in this way on this device',
    10: 'The file is truncated',
  },
  made: {
    nvjpegCreateSimple: ['nvjpegDestroy', 0],
    nvjpegCreateEx: ['nvjpegDestroy', 4],
    nvjpegJpegStateCreate: ['nvjpegJpegStateDestroy', 1],
    nvjpegEncoderStateCreate: ['nvjpegEncoderStateDestroy', 1],
    nvjpegEncoderParamsCreate: ['nvjpegEncoderParamsDestroy', 1],
  },
})

/** nvjpegImage_t: four pointers, then four lengths of rows. */
const IMAGE_BYTES = 64
const PITCHES = 32
/** The most threads of the host that decode one batch. */
const CPU_THREADS = 1
/** nvjpegBackend_t: the decoder that is hardware of its own. Other handles decode a file of a batch ten times slower than the file alone. */
export const HARDWARE = 3
/** The errors that a handle of another backend would meet again. */
const FAILS_EVERYWHERE: readonly unknown[] = ['NVJPEG_STATUS_NOT_INITIALIZED', 'NVJPEG_STATUS_ALLOCATOR_FAILURE']

/** States that decode on one stream. */
interface Decoders {
  single?: number
  batch?: number
}

export interface EncoderState {
  readonly state: number
  readonly params: number
}

interface States {
  /** Has the device a decoder in hardware? */
  readonly inHardware: boolean
  readonly decoders: Map<StreamImpl, Decoders>
  /** The states of encoders that no image is in. */
  readonly encoders: EncoderState[]
}

/** The states by the addresses of the handles that they belong to, and are destroyed with. */
const states = new Map<number, States>()

/** The stream of a device on which files come back: other streams may be blocked when an image is encoded. */
export const retrievalStream = memoize((device: Device) => StreamImpl.make(device))

/** A handle of nvJPEG, with the states that work with it. On the simulator it has none. */
export class NvjpegHandle extends LibraryHandle {
  constructor(device: Device) {
    super(nvjpeg, device, {
      check() {
        if (device.driver === 'sim') jpegJs()
      },
      make() {
        retrievalStream(device)
        const { memory } = nvjpeg
        const inHardware = makesInHardware(memory.address)
        if (!inHardware) nvjpeg.call('nvjpegCreateSimple', memory.address)
        const handle = memory.pointerAt(0)
        states.set(handle, { inHardware, decoders: new Map(), encoders: [] })
        return handle
      },
      destroy(handle) {
        const { decoders, encoders } = statesOf(handle)
        for (const each of decoders.values()) destroyDecoders(each)
        for (const { state, params } of encoders) {
          nvjpeg.call('nvjpegEncoderParamsDestroy', params)
          nvjpeg.call('nvjpegEncoderStateDestroy', state)
        }
        states.delete(handle)
        nvjpeg.call('nvjpegDestroy', handle)
      },
    })
  }

  get inHardware(): boolean {
    return statesOf(this.address).inHardware
  }

  /** The state that decodes files one by one, or in batches, on a stream: its memory is used in the order of that stream. */
  decoderOn(stream: StreamImpl, kind: keyof Decoders): number {
    const { decoders } = statesOf(this.address)
    for (const [use, ended] of decoders) {
      if (!use.closed) continue
      decoders.delete(use)
      destroyDecoders(ended)
    }
    const known = decoders.get(stream) ?? {}
    decoders.set(stream, known)
    const { memory } = nvjpeg
    if (known[kind] === undefined) {
      nvjpeg.call('nvjpegJpegStateCreate', this.address, memory.address)
      known[kind] = memory.pointerAt(0)
    }
    return known[kind]
  }

  /** A state that encodes one image, and is given back when the file has been taken out of it. */
  takeEncoder(stream: number): EncoderState {
    const free = statesOf(this.address).encoders.pop()
    if (free !== undefined) return free
    const { memory } = nvjpeg
    nvjpeg.call('nvjpegEncoderStateCreate', this.address, memory.address, stream)
    const state = memory.pointerAt(0)
    try {
      nvjpeg.call('nvjpegEncoderParamsCreate', this.address, memory.address, stream)
    } catch (error) {
      nvjpeg.call('nvjpegEncoderStateDestroy', state)
      throw error
    }
    return { state, params: memory.pointerAt(0) }
  }

  giveBack(encoder: EncoderState): void {
    statesOf(this.address).encoders.push(encoder)
  }
}

/** Writes a handle whose batches are decoded by hardware to this address, or returns false where the device has none. */
function makesInHardware(handle: number): boolean {
  try {
    nvjpeg.call('nvjpegCreateEx', HARDWARE, 0, 0, 0, handle)
    return true
  } catch (error) {
    if (!(error instanceof LibraryError) || FAILS_EVERYWHERE.includes(error.code)) throw error
    return false
  }
}

function statesOf(handle: number): States {
  const found = states.get(handle)
  if (found === undefined) throw new Error('The handle of nvJPEG has been destroyed')
  return found
}

function destroyDecoders({ single, batch }: Decoders): void {
  for (const state of [single, batch]) if (state !== undefined) nvjpeg.call('nvjpegJpegStateDestroy', state)
}

/** Writes an nvjpegImage_t. */
function writeImage(memory: NativeMemory, offset: number, pointer: number, layout: PixelLayout): void {
  const { width, height, channels } = layout
  const isPlanar = layout.layout === 'planar'
  for (let plane = 0; plane < (isPlanar ? channels : 1); plane += 1) {
    memory.setPointer(offset + 8 * plane, pointer + plane * width * height)
    memory.setPointer(offset + PITCHES + 8 * plane, isPlanar ? width : width * channels)
  }
}

const numberOf = ({ format, layout }: PixelLayout): number => NVJPEG_FORMATS[`${format} ${layout}`]

/** The offsets in the host memory of the library of the widths and the heights of a file's components. */
const WIDTHS = 16
const HEIGHTS = 32

/** nvJPEG writes as many pixels as it reads in the file. Throws ERR_INVALID_ARG_VALUE if those are not as many as there is memory for. */
function checkSize({ address }: NvjpegHandle, file: number, length: number, { width, height }: PixelLayout): void {
  const { memory } = nvjpeg
  const [components, subsampling] = [memory.address, memory.address + 4]
  const sizes = [memory.address + WIDTHS, memory.address + HEIGHTS] as const
  nvjpeg.call('nvjpegGetImageInfo', address, file, length, components, subsampling, ...sizes)
  const found = [memory.int32[WIDTHS / 4], memory.int32[HEIGHTS / 4]] as const
  if (found[0] === width && found[1] === height) return
  throw invalidValue(
    `nvJPEG reads ${found.join(' x ')} pixels in a file whose header says ${width} x ${height}: it is damaged`,
  )
}

/** Files that are decoded together into images of one format. */
export class DecodeFrame {
  readonly #memory: NativeMemory
  readonly #files: number
  readonly #lengths: number
  readonly #images: number

  /** Copies the files into memory that C reads. */
  constructor(
    files: readonly Uint8Array[],
    private readonly layouts: readonly PixelLayout[],
  ) {
    const count = files.length
    this.#files = 0
    this.#lengths = 8 * count
    this.#images = 16 * count
    let end = this.#images + IMAGE_BYTES * count
    const memory = new NativeMemory(end + Math.ceil(files.reduce((sum, { length }) => sum + length, 0) / 8) * 8)
    for (const [index, file] of files.entries()) {
      memory.setPointer(this.#files + 8 * index, memory.address + end)
      memory.setPointer(this.#lengths + 8 * index, file.length)
      memory.bytes.set(file, end)
      end += file.length
    }
    this.#memory = memory
  }

  /** Decodes on a stream, by CUDA's own handle: a batch at once where hardware does it, and what hardware does not decode file by file. */
  call(handle: NvjpegHandle, pointers: readonly number[], use: StreamImpl, stream: number, isBatch: boolean): void {
    const memory = this.#memory
    for (const [index, layout] of this.layouts.entries()) {
      checkSize(handle, memory.pointerAt(this.#files + 8 * index), memory.pointerAt(this.#lengths + 8 * index), layout)
      writeImage(memory, this.#images + IMAGE_BYTES * index, pointers[index] ?? 0, layout)
    }
    if (isBatch && handle.inHardware && this.#callBatch(handle, use, stream)) return
    const state = handle.decoderOn(use, 'single')
    for (const [index, layout] of this.layouts.entries()) {
      const file = [this.#files, this.#lengths].map((begin) => memory.pointerAt(begin + 8 * index))
      const image = memory.address + this.#images + IMAGE_BYTES * index
      nvjpeg.call('nvjpegDecode', handle.address, state, ...file, numberOf(layout), image, stream)
    }
  }

  /** Returns false where a file is none that hardware decodes. */
  #callBatch(handle: NvjpegHandle, use: StreamImpl, stream: number): boolean {
    const [first] = this.layouts
    if (first === undefined) return true
    const { address } = this.#memory
    const state = handle.decoderOn(use, 'batch')
    const size = [this.layouts.length, CPU_THREADS] as const
    const given = [this.#files, this.#lengths, this.#images].map((begin) => address + begin)
    try {
      nvjpeg.call('nvjpegDecodeBatchedInitialize', handle.address, state, ...size, numberOf(first))
      nvjpeg.call('nvjpegDecodeBatched', handle.address, state, ...given, stream)
      return true
    } catch (error) {
      if (!(error instanceof LibraryError)) throw error
      return false
    }
  }

  /** Frees the memory; called when the work is done, which may read the files until then. */
  free(): void {
    this.#memory.free()
  }
}

export interface EncodeChoices {
  readonly quality: number
  readonly subsampling: Subsampling
}

/** Encodes an image on a stream, by CUDA's own handle. */
export function callEncode(
  { address }: NvjpegHandle,
  { state, params }: EncoderState,
  pointer: number,
  layout: PixelLayout,
  { quality, subsampling }: EncodeChoices,
  stream: number,
): void {
  const { width, height, format } = layout
  const image = nvjpeg.memory
  image.bytes.fill(0)
  writeImage(image, 0, pointer, layout)
  const sampled = NVJPEG_SUBSAMPLINGS[format === 'gray' ? 'gray' : subsampling]
  nvjpeg.call('nvjpegEncoderParamsSetQuality', params, quality, stream)
  nvjpeg.call('nvjpegEncoderParamsSetSamplingFactors', params, sampled, stream)
  const given = [address, state, params, image.address] as const
  if (format === 'gray') nvjpeg.call('nvjpegEncodeYUV', ...given, sampled, width, height, stream)
  else nvjpeg.call('nvjpegEncodeImage', ...given, numberOf(layout), width, height, stream)
}

/** Queues the copy of an encoded file to the host, whose memory the caller frees. */
export function callRetrieve({ address }: NvjpegHandle, { state }: EncoderState, stream: number): NativeMemory {
  const { memory } = nvjpeg
  memory.setPointer(0, 0)
  nvjpeg.call('nvjpegEncodeRetrieveBitstream', address, state, 0, memory.address, stream)
  const length = memory.pointerAt(0)
  const file = new NativeMemory(8 + Math.ceil(length / 8) * 8)
  try {
    file.setPointer(0, length)
    nvjpeg.call('nvjpegEncodeRetrieveBitstream', address, state, file.address + 8, file.address, stream)
    return file
  } catch (error) {
    file.free()
    throw error
  }
}
