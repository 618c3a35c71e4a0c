/** Modules and kernels on a real GPU. */
import { invalidValue, stateError } from '../../errors.js'
import { CUresult, cudaError } from '../cuda-results.js'
import { isDefaultStream, type StreamHandle } from '../driver.js'
import type { ContextHandle, KernelHandle, ModuleHandle } from '../handles.js'
import { type KernelDriver, type LaunchShape, SCALAR_BYTES, type ScalarType } from '../kernel-driver.js'
import type { Contexts } from './contexts.js'
import { check, checkDestroyed, type Library } from './library.js'
import { NativeMemory } from './native.js'
import { compileCuda, compileCudaNow } from './nvrtc.js'

/** The rest of the driver, as far as kernels need it. */
export interface KernelSurroundings {
  /** Makes one call on a stream, with its context current where it is a default stream. */
  onStream(stream: StreamHandle, call: string, fn: (raw: number) => number): void
  /** Waits for room in the stream's hardware queue. */
  reserve(stream: StreamHandle): void
}

const ATTRIBUTE_COOPERATIVE = 2
const ATTRIBUTE_CLUSTER = 4
/** sizeof(CUlaunchAttribute), and where its value stands. */
const ATTRIBUTE_BYTES = 72
const ATTRIBUTE_VALUE = 8
const CONFIG_BYTES = 56
const FUNCTION_ATTRIBUTE_MAX_DYNAMIC_SHARED = 8
/** Dynamic shared memory that needs no leave. */
const SHARED_MEMORY_WITHOUT_LEAVE = 48 * 1024

export class CudaKernels implements KernelDriver {
  readonly #library: Library
  readonly #memory: NativeMemory
  readonly #contexts: Contexts
  readonly #around: KernelSurroundings
  readonly #parameters = new Map<KernelHandle, ParameterBlock>()
  readonly #names = new Map<KernelHandle, string>()
  readonly #sharedMemory = new Map<KernelHandle, number>()
  readonly #config = new NativeMemory(CONFIG_BYTES + 2 * ATTRIBUTE_BYTES)

  constructor(library: Library, memory: NativeMemory, contexts: Contexts, around: KernelSurroundings) {
    this.#library = library
    this.#memory = memory
    this.#contexts = contexts
    this.#around = around
  }

  launchTwin(): void {
    throw stateError('ERR_UNSUPPORTED', 'A real GPU runs the kernel itself, not its twin')
  }

  compileNow(source: string, name: string, options: readonly string[]): Uint8Array {
    return compileCudaNow(source, name, options)
  }

  compile(source: string, name: string, options: readonly string[]): Promise<Uint8Array> {
    return compileCuda(source, name, options)
  }

  load(image: Uint8Array, context: ContextHandle): ModuleHandle {
    const copy = new NativeMemory(Math.ceil((image.length + 1) / 8) * 8)
    copy.bytes.fill(0)
    copy.bytes.set(image)
    const before = this.#contexts.enter(context)
    const result = this.#library.cuModuleLoadData(this.#memory.address, copy.address)
    this.#contexts.leave(before)
    copy.free()
    check('cuModuleLoadData', result)
    return this.#memory.pointerAt(0) as ModuleHandle
  }

  unload(module: ModuleHandle, context: ContextHandle): void {
    const before = this.#contexts.enter(context)
    const result = this.#library.cuModuleUnload(module)
    this.#contexts.leave(before)
    checkDestroyed('cuModuleUnload', result)
  }

  kernel(module: ModuleHandle, name: string, parameters: readonly ScalarType[]): KernelHandle {
    const { address, bytes } = this.#memory
    bytes.set(Buffer.from(`${name}\0`), 8)
    check('cuModuleGetFunction', this.#library.cuModuleGetFunction(address, module, address + 8))
    const kernel = this.#memory.pointerAt(0) as KernelHandle
    this.#checkParameters(kernel, name, parameters)
    this.#parameters.get(kernel)?.free()
    this.#parameters.set(kernel, new ParameterBlock(parameters))
    this.#names.set(kernel, name)
    return kernel
  }

  nameOf(kernel: KernelHandle): string {
    return this.#names.get(kernel) ?? `kernel 0x${kernel.toString(16)}`
  }

  launch(kernel: KernelHandle, stream: StreamHandle, shape: LaunchShape, values: readonly (number | bigint)[]): void {
    const block = this.#parameters.get(kernel)
    if (block === undefined) throw cudaError('cuLaunchKernel', CUresult.INVALID_HANDLE)
    const { sharedMemory, cooperative, cluster } = shape
    if (sharedMemory > SHARED_MEMORY_WITHOUT_LEAVE) this.#allowSharedMemory(kernel, sharedMemory)
    this.#around.reserve(stream)
    const parameters = block.write(values)
    if (cooperative || cluster !== undefined) {
      this.#around.onStream(stream, 'cuLaunchKernelEx', (raw) =>
        this.#library.cuLaunchKernelEx(this.#configure(raw, shape), kernel, parameters, 0),
      )
      return
    }
    const [gridX, gridY, gridZ] = shape.grid
    const [x, y, z] = shape.block
    if (!isDefaultStream(stream)) {
      const { cuLaunchKernel } = this.#library
      const result = cuLaunchKernel(kernel, gridX, gridY, gridZ, x, y, z, sharedMemory, stream, parameters, 0)
      if (result !== 0) throw cudaError('cuLaunchKernel', result)
      return
    }
    this.#around.onStream(stream, 'cuLaunchKernel', (raw) =>
      this.#library.cuLaunchKernel(kernel, gridX, gridY, gridZ, x, y, z, sharedMemory, raw, parameters, 0),
    )
  }

  activeBlocks(kernel: KernelHandle, blockSize: number, sharedMemory: number): number {
    const call = 'cuOccupancyMaxActiveBlocksPerMultiprocessor'
    const { address } = this.#memory
    check(call, this.#library.cuOccupancyMaxActiveBlocksPerMultiprocessor(address, kernel, blockSize, sharedMemory))
    return this.#memory.int32[0] ?? 0
  }

  /** Holds the signature against what the driver knows of the kernel: the size of each parameter. */
  #checkParameters(kernel: KernelHandle, name: string, parameters: readonly ScalarType[]): void {
    const sizes: number[] = []
    const { address } = this.#memory
    while (this.#library.cuFuncGetParamInfo(kernel, sizes.length, address, address + 8) === 0) {
      sizes.push(this.#memory.pointerAt(8))
    }
    const given = parameters.map((type) => SCALAR_BYTES[type])
    if (String(sizes) === String(given)) return
    throw invalidValue(
      `The signature of kernel '${name}' has parameters of ${given.join(', ') || 'no'} bytes, but the kernel's have ${sizes.join(', ') || 'no'}`,
    )
  }

  #allowSharedMemory(kernel: KernelHandle, bytes: number): void {
    if ((this.#sharedMemory.get(kernel) ?? 0) >= bytes) return
    check('cuFuncSetAttribute', this.#library.cuFuncSetAttribute(kernel, FUNCTION_ATTRIBUTE_MAX_DYNAMIC_SHARED, bytes))
    this.#sharedMemory.set(kernel, bytes)
  }

  /** Writes a CUlaunchConfig down. Returns its address. */
  #configure(raw: number, { grid, block, sharedMemory, cooperative, cluster }: LaunchShape): number {
    const { address, uint32, uint64, bytes } = this.#config
    bytes.fill(0)
    uint32.set([...grid, ...block, sharedMemory])
    uint64[4] = BigInt(raw)
    uint64[5] = BigInt(address + CONFIG_BYTES)
    let count = 0
    const attribute = (id: number, values: readonly number[]): void => {
      const at = (CONFIG_BYTES + count * ATTRIBUTE_BYTES) / 4
      uint32[at] = id
      uint32.set(values, at + ATTRIBUTE_VALUE / 4)
      count += 1
    }
    if (cooperative) attribute(ATTRIBUTE_COOPERATIVE, [1])
    if (cluster !== undefined) attribute(ATTRIBUTE_CLUSTER, cluster)
    uint32[12] = count
    return address
  }
}

/** The values of one kernel's parameters, and the array of pointers to them that a launch takes. CUDA copies them. */
class ParameterBlock {
  readonly #types: readonly ScalarType[]
  readonly #memory: NativeMemory
  readonly #view: DataView

  constructor(types: readonly ScalarType[]) {
    this.#types = types
    this.#memory = new NativeMemory(Math.max(16, 16 * types.length))
    this.#view = new DataView(this.#memory.bytes.buffer)
    for (const index of types.keys()) {
      this.#memory.uint64[types.length + index] = BigInt(this.#memory.address + 8 * index)
    }
  }

  free(): void {
    this.#memory.free()
  }

  write(values: readonly (number | bigint)[]): number {
    const types = this.#types
    for (let index = 0; index < types.length; index += 1) this.#writeOne(8 * index, types[index], values[index] ?? 0)
    return this.#memory.address + 8 * types.length
  }

  #writeOne(offset: number, type: ScalarType | undefined, value: number | bigint): void {
    const view = this.#view
    switch (type) {
      case 'f32':
        view.setFloat32(offset, Number(value), true)
        break
      case 'f64':
        view.setFloat64(offset, Number(value), true)
        break
      case 'i64':
      case 'u64':
        if (typeof value === 'bigint') view.setBigUint64(offset, BigInt.asUintN(64, value), true)
        else {
          view.setUint32(offset, value, true)
          view.setInt32(offset + 4, Math.floor(value / 4294967296), true)
        }
        break
      default:
        view.setInt32(offset, Number(value), true)
    }
  }
}
