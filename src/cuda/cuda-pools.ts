/** Pools of stream-ordered memory. */
import { monotonicTime } from '../foundation/base/event-loop.js'
import { RecheckTimer } from '../foundation/base/polling.js'
import { cudaError } from '../foundation/driver/cuda-results.js'
import { refusedHandle } from '../foundation/driver/handle-errors.js'
import { type ContextHandle, cudaHandleOf, defaultStream, type PoolHandle } from '../foundation/driver/handle-types.js'
import type { MemoryInfo, PoolDriver, PoolUsage } from '../foundation/driver/pool-driver.js'
import { releaseThreshold } from '../foundation/driver/release-threshold.js'
import { NativeMemory } from '../foundation/native/native-memory.js'
import type { HandleCheck } from './handles/handle-check.js'
import type { StreamRecord } from './handles/stream-records.js'
import type { LibcudaParts } from './libcuda/driver-calls.js'
import type { PutOffFrees } from './memory/put-off-frees.js'
import type { EventPool } from './waiting/event-pool.js'

/** CUmemPool_attribute. */
const PoolAttribute = {
  RELEASE_THRESHOLD: 4,
  RESERVED_CURRENT: 5,
  RESERVED_HIGH: 6,
  USED_CURRENT: 7,
  USED_HIGH: 8,
} as const
type PoolAttribute = (typeof PoolAttribute)[keyof typeof PoolAttribute]

/** CUmemPoolProps: CU_MEM_ALLOCATION_TYPE_PINNED, no handle types, CU_MEM_LOCATION_TYPE_DEVICE, the device, then the limit. */
const PROPERTIES_BYTES = 88
const PINNED = 1
const LOCATION_DEVICE = 1
const MAX_SIZE = 3

const EVERYTHING = 2n ** 64n - 1n

/** Bytes of an allocation for which a stream has its own memory again, not another's. The pool may grow by it for each stream. */
const SMALL = 2 ** 20

/** The number of checks after which a pool is destroyed as it is, which CUDA allows. */
const MOST_CHECKS = 250

/** Milliseconds for a record on an idle stream. It takes microseconds, unless another thread has queued work there since. */
const LONGEST_RECORD = 50

export interface CudaPoolsParts extends LibcudaParts {
  readonly handles: Pick<HandleCheck, 'checkThere'>
  readonly pool: EventPool
  readonly putOff: Pick<PutOffFrees, 'pending' | 'sweep'>
}

interface OwnPool {
  readonly device: number
  /** The other devices that can access its memory. */
  readonly accesses: Set<number>
}

interface DefaultPool {
  readonly pool: PoolHandle
  readonly accesses: Set<number>
}

export class CudaPools implements PoolDriver {
  /** The pools that this driver made. */
  readonly #own = new Map<PoolHandle, OwnPool>()
  /** The pool of each device that is never destroyed, and the devices that can access its memory. */
  readonly #defaults = new Map<number, DefaultPool>()
  /** The pools that are to be destroyed, and how often each could not be. */
  readonly #leaving = new Map<PoolHandle, number>()
  readonly #again = new RecheckTimer(() => this.#sweep())
  /** The contexts whose device's pool has had its threshold set, if it needed one. */
  readonly #ready = new Set<ContextHandle>()
  #lastReady = 0
  /** The context of the latest allocation, and the pool of its device that is never destroyed. */
  #lastContext = 0
  #lastDefault: PoolHandle | 0 = 0

  constructor(private readonly parts: CudaPoolsParts) {}

  info(device: number): MemoryInfo {
    const { must, memory, putOff } = this.parts
    const { address } = memory
    putOff.sweep()
    this.#in(device, () => must.cuMemGetInfo_v2(address, address + 8))
    return { free: memory.pointerAt(0), total: memory.pointerAt(8) }
  }

  current(device: number): PoolHandle {
    const pool = this.#poolOf(device, 'cuDeviceGetMemPool')
    this.makeReady(this.parts.contexts.primary(device))
    return pool
  }

  create(device: number, maxBytes: number): PoolHandle {
    const { must, memory, contexts } = this.parts
    const properties = new NativeMemory(PROPERTIES_BYTES)
    properties.bytes.fill(0)
    properties.uint32.set([PINNED, 0, LOCATION_DEVICE, contexts.cudaDevice(device)])
    properties.uint64[MAX_SIZE] = BigInt(maxBytes)
    try {
      this.#in(device, () => must.cuMemPoolCreate(memory.address, properties.address))
    } finally {
      properties.free()
    }
    const pool = memory.pointerAt(0) as PoolHandle
    this.#own.set(pool, { device, accesses: new Set() })
    this.#sweep()
    return pool
  }

  wrap(handle: number): PoolHandle {
    const call = 'cuMemPoolGetAttribute'
    const { handles, library, memory, relaxed } = this.parts
    handles.checkThere('memory pool', handle, call)
    const used = PoolAttribute.USED_CURRENT
    const result = relaxed.run(() => library.cuMemPoolGetAttribute(handle, used, memory.address))
    if (result !== 0) throw refusedHandle('memory pool', handle, cudaError(call, result))
    return handle as PoolHandle
  }

  /**
   * The destruction is put off, for a while, until the last frees have completed. CUDA allows it before, but a program that destroyed pools with
   * frees in flight, and their streams, has crashed in the driver (CUDA 13.0, two of twelve times).
   */
  destroy(pool: PoolHandle): void {
    this.#leaving.set(pool, 0)
    this.#sweep()
  }

  threshold(pool: PoolHandle): number {
    const bytes = this.#get(pool, PoolAttribute.RELEASE_THRESHOLD)
    if (bytes > Number.MAX_SAFE_INTEGER) return Number.POSITIVE_INFINITY
    return bytes === 1n ? 0 : Number(bytes)
  }

  /**
   * Sets 1 instead of 0, which has the same effect. CUDA's default is 0, and this library in another thread, and others such as cuda.core, take that
   * for a pool whose threshold no program has chosen.
   */
  setThreshold(pool: PoolHandle, bytes: number): void {
    this.#set(pool, PoolAttribute.RELEASE_THRESHOLD, Number.isFinite(bytes) ? BigInt(Math.max(bytes, 1)) : EVERYTHING)
  }

  usage(pool: PoolHandle): PoolUsage {
    this.parts.putOff.sweep()
    const bytesOf = (attribute: PoolAttribute): number => Number(this.#get(pool, attribute))
    return {
      used: bytesOf(PoolAttribute.USED_CURRENT),
      peakUsed: bytesOf(PoolAttribute.USED_HIGH),
      reserved: bytesOf(PoolAttribute.RESERVED_CURRENT),
      peakReserved: bytesOf(PoolAttribute.RESERVED_HIGH),
    }
  }

  resetPeaks(pool: PoolHandle): void {
    this.#set(pool, PoolAttribute.USED_HIGH, 0n)
    this.#set(pool, PoolAttribute.RESERVED_HIGH, 0n)
  }

  trim(pool: PoolHandle, device: number, bytesToKeep: number): void {
    this.parts.putOff.sweep()
    this.#learnOfFrees(device)
    this.#trim(pool, bytesToKeep)
  }

  /**
   * The devices for which access to a pool of the device `owner` is enabled, to which the caller adds; undefined for a pool that others may destroy
   * unseen.
   */
  accesses(pool: number, owner: number): Set<number> | undefined {
    const own = this.#own.get(pool as PoolHandle)
    if (own !== undefined) return own.accesses
    const known = this.#default(owner)
    return known.pool === pool ? known.accesses : undefined
  }

  /** Frees what is unused in the pools that may have memory for an allocation in the context. Returns false when that is nothing. */
  giveBackUnused(context: ContextHandle): boolean {
    const device = this.parts.contexts.deviceOf(context)
    this.#learnOfFrees(device)
    const pools = [this.#poolOf(device, 'cuDeviceGetMemPool')]
    for (const [pool, own] of this.#own) if (own.device === device) pools.push(pool)
    let any = false
    for (const pool of new Set(pools)) {
      const before = this.#get(pool, PoolAttribute.RESERVED_CURRENT)
      this.#trim(pool, 0)
      any ||= this.#get(pool, PoolAttribute.RESERVED_CURRENT) < before
    }
    return any
  }

  /**
   * Called before memory is allocated in the context. A pool without a threshold chosen by a program gets one, so that it keeps
   * its memory.
   */
  makeReady(context: ContextHandle): void {
    if (context === this.#lastReady) return
    this.#lastReady = context
    if (this.#ready.has(context)) return
    this.#ready.add(context)
    const wanted = releaseThreshold()
    if (wanted === 0) return
    const pool = this.#poolOf(this.parts.contexts.deviceOf(context), 'cuDeviceGetMemPool')
    if (this.#get(pool, PoolAttribute.RELEASE_THRESHOLD) === 0n) this.setThreshold(pool, wanted)
  }

  /**
   * The pool that is not to search for an allocation of this length, and 0 for none. Before CUDA gives a stream the memory that it has freed
   * itself, it asks all others that have freed some whether they are done, 0.7 µs each. What is small is allocated without that.
   */
  notSearched(pool: PoolHandle | undefined, context: ContextHandle, byteLength: number): PoolHandle | 0 {
    if (byteLength > SMALL) return 0
    if (pool !== undefined) return pool
    if (context !== this.#lastContext) {
      this.#lastContext = context
      this.#lastDefault = this.#default(this.parts.contexts.deviceOf(context)).pool
    }
    return this.#lastDefault
  }

  #trim(pool: PoolHandle, bytesToKeep: number): void {
    const { must, relaxed } = this.parts
    relaxed.run(() => must.cuMemPoolTrimTo(pool, bytesToKeep))
  }

  /**
   * A pool learns that a free has completed when the host waits for it, and from no query. So the host waits for events on the streams that are idle,
   * which have completed before, so that nothing is waited for.
   */
  #learnOfFrees(device: number): void {
    const { streams } = this.parts
    for (const which of [0, 2] as const) this.#waitWhereIdle(streams.of(defaultStream(device, which)))
    for (const stream of streams.own()) if (stream.device === device) this.#waitWhereIdle(stream)
  }

  #waitWhereIdle({ handle, context }: StreamRecord): void {
    const { library, memory, contexts, relaxed, pool } = this.parts
    const raw = cudaHandleOf(handle)
    const isIdle = (): boolean =>
      library.cuStreamIsCapturing(raw, memory.address) === 0 &&
      memory.int32[0] === 0 &&
      library.cuStreamQuery(raw) === 0
    const event = pool.take(context)
    contexts.within(context, () =>
      relaxed.run(() => {
        if (!isIdle() || library.cuEventRecord(event, raw) !== 0) return
        const end = monotonicTime() + LONGEST_RECORD
        while (library.cuEventQuery(event) !== 0) if (monotonicTime() > end) return
        library.cuEventSynchronize(event)
      }),
    )
    pool.giveBack(context, event)
  }

  #sweep(): void {
    const { must, relaxed, putOff } = this.parts
    for (const [pool, checks] of this.#leaving) {
      const device = this.#own.get(pool)?.device
      if (device !== undefined) this.trim(pool, device, 0)
      if (checks < MOST_CHECKS && this.#get(pool, PoolAttribute.RESERVED_CURRENT) > 0n) {
        // Where frees are put off, one of them may be of this pool.
        if (!putOff.pending) this.#leaving.set(pool, checks + 1)
        continue
      }
      this.#leaving.delete(pool)
      this.#own.delete(pool)
      relaxed.run(() => must.cuMemPoolDestroy(pool))
    }
    if (this.#leaving.size > 0) this.#again.later()
  }

  #default(device: number): DefaultPool {
    let known = this.#defaults.get(device)
    if (known === undefined) {
      known = { pool: this.#poolOf(device, 'cuDeviceGetDefaultMemPool'), accesses: new Set() }
      this.#defaults.set(device, known)
    }
    return known
  }

  #poolOf(device: number, call: 'cuDeviceGetMemPool' | 'cuDeviceGetDefaultMemPool'): PoolHandle {
    const { must, memory, contexts } = this.parts
    must[call](memory.address, contexts.cudaDevice(device))
    return memory.pointerAt(0) as PoolHandle
  }

  #get(pool: PoolHandle, attribute: PoolAttribute): bigint {
    const { must, memory, relaxed } = this.parts
    // Some attributes have 32 bits.
    memory.uint64[0] = 0n
    relaxed.run(() => must.cuMemPoolGetAttribute(pool, attribute, memory.address))
    return memory.uint64[0] ?? 0n
  }

  #set(pool: PoolHandle, attribute: PoolAttribute, value: bigint): void {
    const { must, memory, relaxed } = this.parts
    relaxed.run(() => {
      memory.uint64[0] = value
      must.cuMemPoolSetAttribute(pool, attribute, memory.address)
    })
  }

  #in(device: number, call: () => void): void {
    const { contexts, relaxed } = this.parts
    contexts.within(contexts.primary(device), () => relaxed.run(call))
  }
}
