/**
 * cuBLAS's handles. To destroy one waits for the whole device, in native code where no host function of ours can run; so
 * they are kept for the next user of the device instead. There are as many as were ever in use at one time.
 */
import { NativeResource } from '../../base/finalization.js'
import { NativeMemory } from '../../driver/cuda/libcuda/native.js'
import type { ContextHandle, Driver } from '../../driver/driver.js'
import { type CublasLibrary, checkCublas, openCublas } from './library.js'

/** By context, of which each belongs to one driver. */
const spare = new Map<ContextHandle, number[]>()

export class CublasHandle extends NativeResource {
  readonly library: CublasLibrary = openCublas()
  readonly address: number

  /** Takes one that is kept, or makes one (`cublasCreate`). */
  constructor(
    driver: Driver,
    private readonly context: ContextHandle,
  ) {
    super()
    this.address = spare.get(context)?.pop() ?? create(this.library, driver, context)
  }

  /** CUBLAS_VERSION, such as 130100. */
  get version(): number {
    return withResult((memory) => {
      checkCublas('cublasGetVersion', this.library.cublasGetVersion_v2(this.address, memory.address))
      return memory.int32[0] ?? 0
    })
  }

  override destroy(): void {
    const kept = spare.get(this.context)
    if (kept === undefined) spare.set(this.context, [this.address])
    else kept.push(this.address)
  }
}

function create(library: CublasLibrary, driver: Driver, context: ContextHandle): number {
  return withResult((memory) => {
    const status = driver.libraries.call(context, () => library.cublasCreate_v2(memory.address))
    checkCublas('cublasCreate', status)
    return memory.pointerAt(0)
  })
}

/** Memory for what a call writes down. */
function withResult<R>(call: (memory: NativeMemory) => R): R {
  const memory = new NativeMemory(8)
  try {
    return call(memory)
  } finally {
    memory.free()
  }
}
