/**
 * Lets one device reach another's memory. What `cuMemAllocAsync` gave is reached through its pool's access, everything
 * else through the context's; both are opened once, when a stream of the one device first uses memory of the other.
 */
import { CUresult } from '../../cuda-results.js'
import type { Pointer } from '../../driver.js'
import type { Contexts } from '../libcuda/contexts.js'
import { check, type Library } from '../libcuda/library.js'
import { NativeMemory } from '../libcuda/native.js'
import type { RelaxedCaptures } from '../libcuda/relaxed-captures.js'

const POINTER_MEMPOOL_HANDLE = 17
/** CUmemAccessDesc: CU_MEM_LOCATION_TYPE_DEVICE, the device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE. */
const DESCRIPTION_BYTES = 16
const LOCATION_DEVICE = 1
const READ_AND_WRITE = 3

export class PeerAccess {
  readonly #library: Library
  readonly #memory: NativeMemory
  readonly #contexts: Contexts
  readonly #relaxed: RelaxedCaptures
  /** `owner:user` of devices, by whether they can reach each other; and of contexts and pools that are open. */
  readonly #reachable = new Map<string, boolean>()
  readonly #open = new Set<string>()

  constructor(parts: {
    readonly library: Library
    readonly memory: NativeMemory
    readonly contexts: Contexts
    readonly relaxed: RelaxedCaptures
  }) {
    this.#library = parts.library
    this.#memory = parts.memory
    this.#contexts = parts.contexts
    this.#relaxed = parts.relaxed
  }

  /** Lets the device `user` reach memory of the device `owner`. False where it cannot. */
  admit(pointer: Pointer, owner: number, user: number): boolean {
    if (!this.#canReach(owner, user)) return false
    this.#openContext(owner, user)
    const pool = this.#poolOf(pointer, owner)
    if (pool !== 0) this.#openPool(pool, user)
    return true
  }

  #canReach(owner: number, user: number): boolean {
    const key = `${owner}:${user}`
    const known = this.#reachable.get(key)
    if (known !== undefined) return known
    const { address, int32 } = this.#memory
    const [of, by] = [this.#contexts.cudaDevice(owner), this.#contexts.cudaDevice(user)]
    check('cuDeviceCanAccessPeer', this.#library.cuDeviceCanAccessPeer(address, by, of))
    const reachable = int32[0] !== 0
    this.#reachable.set(key, reachable)
    return reachable
  }

  #openContext(owner: number, user: number): void {
    const key = `context ${owner}:${user}`
    if (this.#open.has(key)) return
    const theirs = this.#contexts.primary(owner)
    const result = this.#contexts.within(this.#contexts.primary(user), () =>
      this.#relaxed.run(() => this.#library.cuCtxEnablePeerAccess(theirs, 0)),
    )
    if (result !== CUresult.PEER_ACCESS_ALREADY_ENABLED) check('cuCtxEnablePeerAccess', result)
    this.#open.add(key)
  }

  /** 0 for memory of no pool. */
  #poolOf(pointer: Pointer, owner: number): number {
    const result = this.#contexts.within(this.#contexts.primary(owner), () =>
      this.#library.cuPointerGetAttribute(this.#memory.address, POINTER_MEMPOOL_HANDLE, pointer),
    )
    return result === 0 ? this.#memory.pointerAt(0) : 0
  }

  #openPool(pool: number, user: number): void {
    const key = `pool ${pool}:${user}`
    if (this.#open.has(key)) return
    const description = new NativeMemory(DESCRIPTION_BYTES)
    description.uint32.set([LOCATION_DEVICE, this.#contexts.cudaDevice(user), READ_AND_WRITE, 0])
    const result = this.#relaxed.run(() => this.#library.cuMemPoolSetAccess(pool, description.address, 1))
    description.free()
    check('cuMemPoolSetAccess', result)
    this.#open.add(key)
  }
}
