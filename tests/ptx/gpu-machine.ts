/** A machine for kernels of the tests that is a GPU: by the driver's own functions, so that only the PTX and the GPU are tried. */
import { createRequire } from 'node:module'
import type * as Koffi from 'koffi'
import type { PtxModule } from '../../src/ptx/ptx.js'
import { isFakeDriver } from '../fake-driver/fake-cuda.js'
import { DRIVER_FILE } from '../helpers/driver-file.js'
import { Machine, type NumericArray, parameterBytes, type TestLaunch, triple } from './machine.js'

const MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
const STATIC_SHARED_LIMIT = 48 * 1024
/** What the driver of CUDA 13.0 reads; NVRTC and Triton may write a newer version and use nothing of it. */
const NEWEST_VERSION = '9.0'

type Call = (...values: unknown[]) => number

class LoadedModule {
  readonly #layouts: PtxModule

  constructor(
    readonly gpu: GpuMachine,
    readonly handle: bigint,
    text: string,
  ) {
    this.#layouts = new Machine().load(text)
  }

  get kernels(): readonly string[] {
    return this.#layouts.kernels
  }

  global(name: string): { readonly address: number; readonly byteLength: number } | undefined {
    const known = this.#layouts.global(name)
    return known === undefined ? undefined : { ...known, address: this.gpu.globalOf(this.handle, name) }
  }

  /** The bytes of the parameters, and where each begins. */
  parameters(name: string, values: readonly (number | bigint | NumericArray)[]) {
    const { parameters } = this.#layouts.code(name).program
    return { bytes: parameterBytes(name, parameters, values), offsets: [...parameters.offsets.values()] }
  }
}

export class GpuMachine {
  readonly name: string
  readonly #calls: Readonly<Record<string, Call>>

  private constructor(readonly koffi: typeof Koffi) {
    const library = koffi.load(DRIVER_FILE)
    const names = {
      cuInit: ['uint'],
      cuDeviceGet: ['void *', 'int'],
      cuDeviceGetName: ['void *', 'int', 'int'],
      cuDevicePrimaryCtxRetain: ['void *', 'int'],
      cuCtxSetCurrent: ['uint64'],
      cuCtxSynchronize: [],
      cuMemAlloc_v2: ['void *', 'size_t'],
      cuMemcpyHtoD_v2: ['uint64', 'void *', 'size_t'],
      cuMemcpyDtoH_v2: ['void *', 'uint64', 'size_t'],
      cuModuleLoadData: ['void *', 'void *'],
      cuModuleGetFunction: ['void *', 'uint64', 'str'],
      cuModuleGetGlobal_v2: ['void *', 'void *', 'uint64', 'str'],
      cuFuncSetAttribute: ['uint64', 'int', 'int'],
      cuLaunchKernel: ['uint64', ...new Array<string>(7).fill('uint'), 'uint64', 'void *', 'void *'],
      cuLaunchCooperativeKernel: ['uint64', ...new Array<string>(7).fill('uint'), 'uint64', 'void *'],
    }
    this.#calls = Object.fromEntries(
      Object.entries(names).map(([name, types]) => [name, library.func(name, 'int', types) as Call]),
    )
    this.#call('cuInit', 0)
    const device = new Int32Array(1)
    this.#call('cuDeviceGet', device, 0)
    const name = Buffer.alloc(256)
    this.#call('cuDeviceGetName', name, name.length, device[0])
    this.name = name.toString('utf8').replaceAll('\0', '')
    this.#call('cuCtxSetCurrent', this.#result('cuDevicePrimaryCtxRetain', device[0]))
  }

  /** The machine, or why there is none. */
  static open(): GpuMachine | string {
    if (process.env['CUDA_STREAMS_DRIVER'] === 'sim') return 'CUDA_STREAMS_DRIVER=sim'
    if (isFakeDriver()) return 'the driver is a fake one'
    try {
      return new GpuMachine(createRequire(import.meta.url)('koffi'))
    } catch (error) {
      return String(error)
    }
  }

  #call(name: string, ...values: unknown[]): void {
    const result = this.#calls[name]?.(...values)
    if (result !== 0) throw new Error(`${name} returned ${result}`)
  }

  #result(name: string, ...values: unknown[]): bigint {
    const out = new BigUint64Array(1)
    this.#call(name, out, ...values)
    return out[0] ?? 0n
  }

  put(array: NumericArray): number {
    const address = Number(this.#result('cuMemAlloc_v2', Math.max(1, array.byteLength)))
    this.set(address, array)
    return address
  }

  set(address: number, array: NumericArray): void {
    if (array.byteLength > 0) this.#call('cuMemcpyHtoD_v2', address, array, array.byteLength)
  }

  get<T extends NumericArray>(address: number, like: T): T {
    const copy = like.slice() as T
    if (like.byteLength > 0) this.#call('cuMemcpyDtoH_v2', copy, address, like.byteLength)
    return copy
  }

  load(text: string): LoadedModule {
    const read = text.replace(/^\.version 9\.[1-9]/m, `.version ${NEWEST_VERSION}`)
    return new LoadedModule(this, this.#result('cuModuleLoadData', Buffer.from(`${read}\0`)), text)
  }

  globalOf(module: bigint, name: string): number {
    const size = new BigUint64Array(1)
    return Number(this.#result('cuModuleGetGlobal_v2', size, module, name))
  }

  run(
    module: LoadedModule,
    name: string,
    options: TestLaunch,
    parameters: readonly (number | bigint | NumericArray)[],
  ): void {
    const fn = this.#result('cuModuleGetFunction', module.handle, name)
    const { shared = 0, cooperative = false } = options
    const [grid, block] = [triple(options.grid), triple(options.block)]
    if (shared > STATIC_SHARED_LIMIT) this.#call('cuFuncSetAttribute', fn, MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
    const { bytes, offsets } = module.parameters(name, parameters)
    const begin = this.koffi.address(bytes)
    const pointers = BigUint64Array.from(offsets, (offset) => begin + BigInt(offset))
    const shape = [...grid, ...block, shared, 0]
    if (cooperative) this.#call('cuLaunchCooperativeKernel', fn, ...shape, pointers)
    else this.#call('cuLaunchKernel', fn, ...shape, pointers, null)
    this.#call('cuCtxSynchronize')
  }
}
