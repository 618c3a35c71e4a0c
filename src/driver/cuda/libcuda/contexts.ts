/**
 * Contexts: the primary one of each device, retained once, and whichever else a stream lives in. The context that is
 * current on the thread is other libraries' too, so a change for one call is undone after it.
 */
import type { ContextHandle } from '../../driver.js'
import { check, type Library } from './library.js'
import type { NativeMemory } from './native.js'

export class Contexts {
  readonly #primaries: (ContextHandle | undefined)[] = []
  readonly #devices = new Map<ContextHandle, number>()

  constructor(
    private readonly library: Library,
    private readonly memory: NativeMemory,
  ) {}

  /** What CUDA calls the device of this ordinal: a CUdevice. */
  cudaDevice(device: number): number {
    check('cuDeviceGet', this.library.cuDeviceGet(this.memory.address, device))
    return this.memory.int32[0] ?? 0
  }

  /** The primary context of a device. */
  primary(device: number): ContextHandle {
    const known = this.#primaries[device]
    if (known !== undefined) return known
    const cudaDevice = this.cudaDevice(device)
    check('cuDevicePrimaryCtxRetain', this.library.cuDevicePrimaryCtxRetain(this.memory.address, cudaDevice))
    const context = this.memory.pointerAt(0) as ContextHandle
    this.#primaries[device] = context
    this.#devices.set(context, device)
    return context
  }

  /** The devices whose primary contexts are in use, by ordinal. */
  get primaries(): Iterable<readonly [number, ContextHandle | undefined]> {
    return this.#primaries.entries()
  }

  isPrimary(context: ContextHandle): boolean {
    return this.#primaries.includes(context)
  }

  /** The contexts that were ever used. */
  get known(): Iterable<ContextHandle> {
    return this.#devices.keys()
  }

  /** Which device a context is of. */
  deviceOf(context: ContextHandle): number {
    const known = this.#devices.get(context)
    if (known !== undefined) return known
    check(
      'cuCtxGetDevice',
      this.within(context, () => this.library.cuCtxGetDevice(this.memory.address)),
    )
    const device = this.memory.int32[0] ?? 0
    // A primary context has to be known as its device's, so that it is not taken for another one.
    this.primary(device)
    this.#devices.set(context, device)
    return device
  }

  /** Runs calls with a context current. */
  within<R>(context: ContextHandle, calls: () => R): R {
    const { library, memory } = this
    const before = library.cuCtxGetCurrent(memory.address) === 0 ? memory.pointerAt(0) : 0
    if (before === context) return calls()
    check('cuCtxSetCurrent', library.cuCtxSetCurrent(context))
    try {
      return calls()
    } finally {
      // Where no context was current the new one stays, as the CUDA runtime has it.
      if (before !== 0) library.cuCtxSetCurrent(before)
    }
  }
}
