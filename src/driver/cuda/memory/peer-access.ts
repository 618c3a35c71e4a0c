/**
 * Lets one device reach another's memory. What `cuMemAllocAsync` gave is reached through its pool's access, everything
 * else through the context's; both are opened once, when a stream of the one device first uses memory of the other.
 */
import { CUresult } from '../../cuda-results.js'
import type { Pointer } from '../../driver.js'
import type { CudaPools } from '../cuda-pools.js'
import { check } from '../libcuda/library.js'
import { NativeMemory } from '../libcuda/native.js'
import type { LibcudaParts } from '../libcuda/stream-calls.js'

const POINTER_MEMPOOL_HANDLE = 17
/** CUmemAccessDesc: CU_MEM_LOCATION_TYPE_DEVICE, the device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE. */
const DESCRIPTION_BYTES = 16
const LOCATION_DEVICE = 1
const READ_AND_WRITE = 3

export interface PeerAccessParts extends LibcudaParts {
  readonly pools: Pick<CudaPools, 'accesses'>
}

export class PeerAccess {
  /** `owner:user` of devices, by whether they can reach each other; and of contexts that are open. */
  readonly #reachable = new Map<string, boolean>()
  readonly #open = new Set<string>()

  constructor(private readonly parts: PeerAccessParts) {}

  /** Lets the device `user` reach memory of the device `owner`. False where it cannot. */
  admit(pointer: Pointer, owner: number, user: number): boolean {
    if (!this.#canReach(owner, user)) return false
    this.#openContext(owner, user)
    const pool = this.#poolOf(pointer, owner)
    if (pool !== 0) this.#openPool(pool, owner, user)
    return true
  }

  #canReach(owner: number, user: number): boolean {
    const key = `${owner}:${user}`
    const known = this.#reachable.get(key)
    if (known !== undefined) return known
    const { address, int32 } = this.parts.memory
    const [of, by] = [this.parts.contexts.cudaDevice(owner), this.parts.contexts.cudaDevice(user)]
    check('cuDeviceCanAccessPeer', this.parts.library.cuDeviceCanAccessPeer(address, by, of))
    const reachable = int32[0] !== 0
    this.#reachable.set(key, reachable)
    return reachable
  }

  #openContext(owner: number, user: number): void {
    const key = `context ${owner}:${user}`
    if (this.#open.has(key)) return
    const theirs = this.parts.contexts.primary(owner)
    const result = this.parts.contexts.within(this.parts.contexts.primary(user), () =>
      this.parts.relaxed.run(() => this.parts.library.cuCtxEnablePeerAccess(theirs, 0)),
    )
    if (result !== CUresult.PEER_ACCESS_ALREADY_ENABLED) check('cuCtxEnablePeerAccess', result)
    this.#open.add(key)
  }

  /** 0 for memory of no pool. */
  #poolOf(pointer: Pointer, owner: number): number {
    const result = this.parts.contexts.within(this.parts.contexts.primary(owner), () =>
      this.parts.library.cuPointerGetAttribute(this.parts.memory.address, POINTER_MEMPOOL_HANDLE, pointer),
    )
    return result === 0 ? this.parts.memory.pointerAt(0) : 0
  }

  /** Another thread or library may destroy its pool, and make one with the same handle: there it is asked for each time. */
  #openPool(pool: number, owner: number, user: number): void {
    const open = this.parts.pools.accesses(pool, owner)
    if (open?.has(user)) return
    const description = new NativeMemory(DESCRIPTION_BYTES)
    description.uint32.set([LOCATION_DEVICE, this.parts.contexts.cudaDevice(user), READ_AND_WRITE, 0])
    const result = this.parts.relaxed.run(() => this.parts.library.cuMemPoolSetAccess(pool, description.address, 1))
    description.free()
    check('cuMemPoolSetAccess', result)
    open?.add(user)
  }
}
