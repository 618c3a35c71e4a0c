/** cuFFT as a C library: its functions, numbers and plans. A test compares them with cufft.h. */

import { type Device, driverOf } from '../../core/device.js'
import { allocateOn, type DeviceBuffer } from '../../core/memory/device-buffer.js'
import type { StreamImpl } from '../../core/streams/stream-impl.js'
import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { CudaError } from '../../foundation/base/errors.js'
import { CUresult } from '../../foundation/driver/cuda-results.js'
import { defaultStream } from '../../foundation/driver/handle-types.js'
import { HandleLibrary, LibraryHandle } from '../handle-library.js'
import { type FftShape, FORMS } from './fft-shape.js'

export const CUFFT_SIGNATURES = {
  cufftCreate: 'cufftResult cufftCreate(cufftHandle *handle)',
  cufftDestroy: 'cufftResult cufftDestroy(cufftHandle plan)',
  cufftSetAutoAllocation: 'cufftResult cufftSetAutoAllocation(cufftHandle plan, int autoAllocate)',
  cufftMakePlanMany64:
    'cufftResult cufftMakePlanMany64(cufftHandle plan, int rank, long long int *n, long long int *inembed, long long int istride, long long int idist, long long int *onembed, long long int ostride, long long int odist, cufftType type, long long int batch, size_t *workSize)',
  cufftSetStream: 'cufftResult cufftSetStream(cufftHandle plan, cudaStream_t stream)',
  cufftSetWorkArea: 'cufftResult cufftSetWorkArea(cufftHandle plan, void *workArea)',
  cufftExecC2C: 'cufftResult cufftExecC2C(cufftHandle plan, cufftComplex *idata, cufftComplex *odata, int direction)',
  cufftExecR2C: 'cufftResult cufftExecR2C(cufftHandle plan, cufftReal *idata, cufftComplex *odata)',
  cufftExecC2R: 'cufftResult cufftExecC2R(cufftHandle plan, cufftComplex *idata, cufftReal *odata)',
  cufftExecZ2Z:
    'cufftResult cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex *idata, cufftDoubleComplex *odata, int direction)',
  cufftExecD2Z: 'cufftResult cufftExecD2Z(cufftHandle plan, cufftDoubleReal *idata, cufftDoubleComplex *odata)',
  cufftExecZ2D: 'cufftResult cufftExecZ2D(cufftHandle plan, cufftDoubleComplex *idata, cufftDoubleReal *odata)',
} as const satisfies Readonly<Record<string, string>>

/** cufftResult. */
export const CUFFT_RESULT: Readonly<Record<string, number>> = {
  CUFFT_SUCCESS: 0,
  CUFFT_INVALID_PLAN: 1,
  CUFFT_ALLOC_FAILED: 2,
  CUFFT_INVALID_TYPE: 3,
  CUFFT_INVALID_VALUE: 4,
  CUFFT_INTERNAL_ERROR: 5,
  CUFFT_EXEC_FAILED: 6,
  CUFFT_SETUP_FAILED: 7,
  CUFFT_INVALID_SIZE: 8,
  CUFFT_UNALIGNED_DATA: 9,
  CUFFT_INVALID_DEVICE: 11,
  CUFFT_NO_WORKSPACE: 13,
  CUFFT_NOT_IMPLEMENTED: 14,
  CUFFT_NOT_SUPPORTED: 16,
}

/** CUFFT_FORWARD and CUFFT_INVERSE: the sign of the exponent. */
export const CUFFT_DIRECTION = { forward: -1, inverse: 1 } as const
export type Direction = keyof typeof CUFFT_DIRECTION

const cufft = new HandleLibrary({
  variable: VARIABLES.cufft,
  signatures: CUFFT_SIGNATURES,
  results: CUFFT_RESULT,
  explanations: {
    2: 'The device or the host is out of memory: close what is no longer used',
    5: 'cuFFT failed, or the driver did',
    6: 'The work could not be queued: the GPU may have faulted, or a capture does not allow it',
    7: 'CUDA is not started, or the device has no room left for cuFFT',
    8: 'cuFFT does not transform these sizes',
    16: 'cuFFT does not support these sizes',
  },
  made: { cufftCreate: ['cufftDestroy', 0, true] },
})

/** The offsets in the host memory of the library of the sizes of a transform, and of what cuFFT answers. */
const SIZES = 0
const RESULT = 32

/** A plan, and memory for it to work in. */
export class FftPlan extends LibraryHandle {
  /** The bytes of memory that a transform works in. */
  readonly workBytes: number
  readonly #areas: Map<StreamImpl, DeviceBuffer>

  constructor(
    device: Device,
    readonly shape: FftShape,
  ) {
    // The simulator needs none. It has one all the same, so that two transforms that would share it on a GPU are found.
    let workBytes = shape.complexBytes
    super(cufft, device, {
      check: () => refuseBesideCapture(device),
      make() {
        const { memory } = cufft
        cufft.call('cufftCreate', memory.address + RESULT)
        const plan = memory.int32[RESULT / 4] ?? 0
        try {
          workBytes = planTransform(plan, shape)
        } catch (error) {
          cufft.call('cufftDestroy', plan)
          throw error
        }
        return plan
      },
      destroy: (plan) => cufft.call('cufftDestroy', plan),
    })
    this.workBytes = workBytes
    this.#areas = new Map()
  }

  /** Is there memory for transforms on the stream? */
  hasArea(stream: StreamImpl): boolean {
    return this.workBytes === 0 || this.#areas.has(stream)
  }

  /**
   * The memory for transforms on the stream. Each stream has its own, allocated in its order: transforms on two streams would overwrite
   * each other's, and no stream waits for another that the program has not told it to wait for.
   */
  areaOn(stream: StreamImpl): DeviceBuffer | undefined {
    if (this.workBytes === 0) return undefined
    const known = this.#areas.get(stream)
    if (known !== undefined) return known
    for (const [use, area] of this.#areas) if (use.closed) this.#end(use, area)
    const area = allocateOn(stream, this.device, this.workBytes)
    this.#areas.set(stream, area)
    return area
  }

  override destroy(): void {
    for (const [use, area] of this.#areas) this.#end(use, area)
    super.destroy()
  }

  #end(use: StreamImpl, area: DeviceBuffer): void {
    area.close()
    this.#areas.delete(use)
  }
}

/**
 * cuFFT works on the null stream while it makes a plan, and says no more than CUFFT_INTERNAL_ERROR where a blocking stream captures. To be told
 * of the null stream is refused then, too, and invalidates nothing.
 */
function refuseBesideCapture(device: Device): void {
  try {
    driverOf(device).streams.isCapturing(defaultStream(device.ordinal, 0))
  } catch (error) {
    if (!(error instanceof CudaError) || error.number !== CUresult.STREAM_CAPTURE_IMPLICIT) throw error
    throw new CudaError(error.call, error.number, error.code, BESIDE_CAPTURE)
  }
}

const BESIDE_CAPTURE =
  'cuFFT works on the null stream while it makes a plan, and a blocking stream captures: make the Fft before the capture begins, or capture on a non-blocking stream'

/** Makes the plan. Returns how many bytes it works in, which cuFFT does not allocate by itself. */
function planTransform(plan: number, { type, sizes, batch }: FftShape): number {
  const { memory } = cufft
  cufft.call('cufftSetAutoAllocation', plan, 0)
  for (const [index, size] of sizes.entries()) memory.setPointer(SIZES + 8 * index, size)
  const plain = [0, 1, 0] as const
  const answer = memory.address + RESULT
  const given = [plan, sizes.length, memory.address + SIZES, ...plain, ...plain, FORMS[type].cufft, batch] as const
  cufft.call('cufftMakePlanMany64', ...given, answer)
  return memory.pointerAt(RESULT)
}

/** Queues a transform on a stream, by CUDA's own handle. */
export function callFft(plan: FftPlan, direction: Direction, pointers: FftPointers, stream: number): void {
  const { address, shape } = plan
  const { input, output, area } = pointers
  const { call, isReal } = FORMS[shape.type]
  cufft.call('cufftSetStream', address, stream)
  if (area !== undefined) cufft.call('cufftSetWorkArea', address, area)
  const way = isReal ? [] : [CUFFT_DIRECTION[direction]]
  cufft.call(call, address, input, output, ...way)
}

export interface FftPointers {
  readonly input: number
  readonly output: number
  readonly area: number | undefined
}
