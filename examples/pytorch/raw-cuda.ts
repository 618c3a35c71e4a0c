/**
 * Two operations of the CUDA driver, called as any native library would: it knows nothing of cuda-streams, only of a
 * stream's handle. It stands in for a codec, a solver, a driver of a camera, ...
 */
import koffi, { type LibraryHandle } from 'koffi'

const LIBRARY = 'libcuda.so.1'

/** Pointers have 47 bits, so numbers hold them exactly; koffi takes numbers quickest. */
function declare(cuda: LibraryHandle) {
  return {
    cuInit: cuda.func('int cuInit(unsigned int flags)') as (flags: number) => number,
    cuDeviceGet: cuda.func('int cuDeviceGet(_Out_ int *device, int ordinal)') as (
      device: [number],
      ordinal: number,
    ) => number,
    cuDevicePrimaryCtxRetain: cuda.func('int cuDevicePrimaryCtxRetain(_Out_ uintptr_t *context, int device)') as (
      context: [number],
      device: number,
    ) => number,
    cuCtxGetCurrent: cuda.func('int cuCtxGetCurrent(_Out_ uintptr_t *context)') as (context: [number]) => number,
    cuCtxSetCurrent: cuda.func('int cuCtxSetCurrent(uintptr_t context)') as (context: number) => number,
    cuMemcpyDtoDAsync_v2: cuda.func(
      'int cuMemcpyDtoDAsync_v2(uintptr_t destination, uintptr_t source, size_t byteLength, uintptr_t stream)',
    ) as (destination: number, source: number, byteLength: number, stream: number) => number,
    cuMemsetD32Async: cuda.func(
      'int cuMemsetD32Async(uintptr_t destination, uint32_t value, size_t count, uintptr_t stream)',
    ) as (destination: number, value: number, count: number, stream: number) => number,
  }
}

/** Work for a stream known by its handle, in the primary context of one device. Nothing here waits for the GPU. */
export class RawCuda {
  readonly #cuda: ReturnType<typeof declare>
  readonly #context: number

  constructor(ordinal: number) {
    this.#cuda = declare(koffi.load(LIBRARY))
    check('cuInit', this.#cuda.cuInit(0))
    const device: [number] = [0]
    check('cuDeviceGet', this.#cuda.cuDeviceGet(device, ordinal))
    // Retained for the life of the process, as PyTorch does too.
    const context: [number] = [0]
    check('cuDevicePrimaryCtxRetain', this.#cuda.cuDevicePrimaryCtxRetain(context, device[0]))
    this.#context = context[0]
  }

  /** Queues a copy from device memory to device memory. */
  copy(destination: bigint, source: bigint, byteLength: number, stream: bigint): void {
    this.#enter()
    const result = this.#cuda.cuMemcpyDtoDAsync_v2(Number(destination), Number(source), byteLength, Number(stream))
    check('cuMemcpyDtoDAsync', result)
  }

  /** Queues the writing of `count` times the same 32 bits. */
  fill32(destination: bigint, value: number, count: number, stream: bigint): void {
    this.#enter()
    check('cuMemsetD32Async', this.#cuda.cuMemsetD32Async(Number(destination), value, count, Number(stream)))
  }

  /** The device's primary context must be the current one of this thread. */
  #enter(): void {
    const current: [number] = [0]
    check('cuCtxGetCurrent', this.#cuda.cuCtxGetCurrent(current))
    if (Number(current[0]) !== this.#context) check('cuCtxSetCurrent', this.#cuda.cuCtxSetCurrent(this.#context))
  }
}

function check(call: string, result: number): void {
  if (result !== 0) throw new Error(`${call} failed with CUresult ${result}`)
}
