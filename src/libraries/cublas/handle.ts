/**
 * cuBLAS's handles. To destroy one waits for the whole device, in native code where no host function of ours can run; so
 * they are kept for the next user of the device instead. There are as many as were ever in use at one time.
 */
import { NativeResource } from '../../base/finalization.js'
import { contextOf, type Device, driverOf } from '../../device.js'
import { NativeMemory } from '../../driver/cuda/libcuda/native-memory.js'
import { type CublasLibrary, checkCublas, openCublas } from './library.js'

const spare = new WeakMap<Device, number[]>()
/** In the place of a handle on the simulator, which calls nothing of cuBLAS. */
const SIMULATED = 0

export class CublasHandle extends NativeResource {
  readonly address: number

  /** Takes one that is kept, or makes one (`cublasCreate`). */
  constructor(private readonly device: Device) {
    super()
    this.address = spare.get(device)?.pop() ?? create(device)
  }

  get library(): CublasLibrary {
    return openCublas()
  }

  /** CUBLAS_VERSION, such as 130100; 0 on the simulator. */
  get version(): number {
    if (this.address === SIMULATED) return 0
    return withResult((memory) => {
      checkCublas('cublasGetVersion', this.library.cublasGetVersion_v2(this.address, memory.address))
      return memory.int32[0] ?? 0
    })
  }

  override destroy(): void {
    const kept = spare.get(this.device)
    if (kept === undefined) spare.set(this.device, [this.address])
    else kept.push(this.address)
  }
}

function create(device: Device): number {
  const { libraries } = driverOf(device)
  const context = contextOf(device)
  if (device.driver === 'sim') return libraries.call(context, () => SIMULATED)
  const library = openCublas()
  return withResult((memory) => {
    const status = libraries.call(context, () => library.cublasCreate_v2(memory.address))
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
