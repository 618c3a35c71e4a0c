/**
 * Enables the access of one device to another's memory. Memory of `cuMemAllocAsync` is accessed through its pool, all other memory through its context.
 * Both are enabled once, when a stream of the one device first uses memory of the other.
 */

import { CUresult } from '../../foundation/driver/cuda-results.js'
import type { Pointer } from '../../foundation/driver/handle-types.js'
import { NativeMemory } from '../../foundation/native/native-memory.js'
import type { CudaPools } from '../cuda-pools.js'
import type { LibcudaParts } from '../libcuda/driver-calls.js'
import { check } from '../libcuda/libcuda.js'

const POINTER_MEMPOOL_HANDLE = 17
/** CUmemAccessDesc: CU_MEM_LOCATION_TYPE_DEVICE, the device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE. */
const DESCRIPTION_BYTES = 16
const LOCATION_DEVICE = 1
const READ_AND_WRITE = 3

export interface PeerAccessParts extends LibcudaParts {
  readonly pools: Pick<CudaPools, 'accesses'>
}

export class PeerAccess {
  /** Whether one device can access another's memory, by `owner:user`. */
  readonly #reachable = new Map<string, boolean>()
  /** The same pairs, for which the access to contexts is enabled. */
  readonly #enabled = new Set<string>()

  constructor(private readonly parts: PeerAccessParts) {}

  /** Enables the access of the device `user` to memory of the device `owner`. Returns false when it has none. */
  enable(pointer: Pointer, owner: number, user: number): boolean {
    if (!this.canReach(owner, user)) return false
    this.#enableContext(owner, user)
    const pool = this.#poolOf(pointer, owner)
    if (pool !== 0) this.#enablePool(pool, owner, user)
    return true
  }

  /** Whether the device `user` can reach memory of the device `owner`. */
  canReach(owner: number, user: number): boolean {
    const key = `${owner}:${user}`
    const known = this.#reachable.get(key)
    if (known !== undefined) return known
    const { must, contexts, memory } = this.parts
    const [of, by] = [contexts.cudaDevice(owner), contexts.cudaDevice(user)]
    must.cuDeviceCanAccessPeer(memory.address, by, of)
    const reachable = memory.int32[0] !== 0
    this.#reachable.set(key, reachable)
    return reachable
  }

  #enableContext(owner: number, user: number): void {
    const key = `${owner}:${user}`
    if (this.#enabled.has(key)) return
    const { library, contexts, relaxed } = this.parts
    const theirs = contexts.primary(owner)
    const enable = (): number => relaxed.run(() => library.cuCtxEnablePeerAccess(theirs, 0))
    const result = contexts.within(contexts.primary(user), enable)
    if (result !== CUresult.PEER_ACCESS_ALREADY_ENABLED) check('cuCtxEnablePeerAccess', result)
    this.#enabled.add(key)
  }

  /** 0 for memory of no pool. */
  #poolOf(pointer: Pointer, owner: number): number {
    const { library, contexts, memory } = this.parts
    const query = (): number => library.cuPointerGetAttribute(memory.address, POINTER_MEMPOOL_HANDLE, pointer)
    return contexts.within(contexts.primary(owner), query) === 0 ? memory.pointerAt(0) : 0
  }

  /**
   * Enables access to a pool, each time: another thread or library may destroy its pool, and make one with the same handle.
   */
  #enablePool(pool: number, owner: number, user: number): void {
    const { must, contexts, relaxed, pools } = this.parts
    const enabled = pools.accesses(pool, owner)
    if (enabled?.has(user)) return
    const description = new NativeMemory(DESCRIPTION_BYTES)
    description.uint32.set([LOCATION_DEVICE, contexts.cudaDevice(user), READ_AND_WRITE, 0])
    try {
      relaxed.run(() => must.cuMemPoolSetAccess(pool, description.address, 1))
    } finally {
      description.free()
    }
    enabled?.add(user)
  }
}
