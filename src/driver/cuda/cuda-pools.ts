/** Pools of stream-ordered memory. */
import { RecheckTimer } from '../../base/recheck-timer.js'
import {
  type ContextHandle,
  cudaHandleOf,
  defaultStream,
  type MemoryInfo,
  type PoolDriver,
  type PoolHandle,
  type PoolUsage,
  type StreamHandle,
} from '../driver.js'
import { releaseThreshold } from '../release-threshold.js'
import { check } from './libcuda/library.js'
import { NativeMemory } from './libcuda/native.js'
import type { LibcudaParts } from './libcuda/stream-calls.js'
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

/** After so many looks pools are destroyed as they are, which CUDA allows. */
const MOST_LOOKS = 250

/** Milliseconds for a record on an idle stream: it takes microseconds, unless another thread has queued work there since. */
const LONGEST_RECORD = 50

export interface CudaPoolsParts extends LibcudaParts {
  readonly pool: EventPool
}

interface OwnPool {
  readonly device: number
  /** The other devices that reach its memory. */
  readonly accesses: Set<number>
}

export class CudaPools implements PoolDriver {
  /** Those that this driver made. */
  readonly #own = new Map<PoolHandle, OwnPool>()
  readonly #devices = new Map<PoolHandle, number>()
  /** Of each device the pool that is never destroyed, and the devices that reach its memory. */
  readonly #defaults = new Map<number, { readonly pool: number; readonly accesses: Set<number> }>()
  /** To be destroyed, and how often they could not be. */
  readonly #leaving = new Map<PoolHandle, number>()
  readonly #again = new RecheckTimer(() => this.#sweep())
  /** The contexts whose device's pool was asked for its threshold. */
  readonly #ready = new Set<ContextHandle>()
  #lastReady = 0

  constructor(private readonly parts: CudaPoolsParts) {}

  info(device: number): MemoryInfo {
    const { library, memory } = this.parts
    const { address } = memory
    this.#in(device, 'cuMemGetInfo', () => library.cuMemGetInfo_v2(address, address + 8))
    return { free: memory.pointerAt(0), total: memory.pointerAt(8) }
  }

  current(device: number): PoolHandle {
    const pool = this.#poolOf(device, 'cuDeviceGetMemPool')
    this.#devices.set(pool, device)
    this.makeReady(this.parts.contexts.primary(device))
    return pool
  }

  create(device: number, maxBytes: number): PoolHandle {
    const { library, memory, contexts } = this.parts
    const properties = new NativeMemory(PROPERTIES_BYTES)
    properties.bytes.fill(0)
    properties.uint32.set([PINNED, 0, LOCATION_DEVICE, contexts.cudaDevice(device)])
    properties.uint64[MAX_SIZE] = BigInt(maxBytes)
    try {
      this.#in(device, 'cuMemPoolCreate', () => library.cuMemPoolCreate(memory.address, properties.address))
    } finally {
      properties.free()
    }
    const pool = memory.pointerAt(0) as PoolHandle
    this.#own.set(pool, { device, accesses: new Set() })
    this.#devices.set(pool, device)
    this.#sweep()
    return pool
  }

  /**
   * Put off until the last frees are done, for a while. CUDA allows it before, and yet a program that destroyed pools with frees in
   * flight, and the streams of these, has crashed in the driver (CUDA 13.0, two of twelve times).
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
   * 1 for 0, which amounts to the same: 0 is how CUDA begins, and this library in another thread, and others such as
   * cuda.core, take that for a pool whose threshold no program has chosen.
   */
  setThreshold(pool: PoolHandle, bytes: number): void {
    this.#set(pool, PoolAttribute.RELEASE_THRESHOLD, Number.isFinite(bytes) ? BigInt(Math.max(bytes, 1)) : EVERYTHING)
  }

  usage(pool: PoolHandle): PoolUsage {
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

  trim(pool: PoolHandle, bytesToKeep: number): void {
    const device = this.#devices.get(pool)
    if (device !== undefined) this.#learnOfFrees(device)
    this.#trim(pool, bytesToKeep)
  }

  /**
   * The devices that were given access to the memory of a pool of the device `owner`, to be added to; undefined for a pool
   * that others may destroy unseen.
   */
  accesses(pool: number, owner: number): Set<number> | undefined {
    const own = this.#own.get(pool as PoolHandle)
    if (own !== undefined) return own.accesses
    let known = this.#defaults.get(owner)
    if (known === undefined) {
      known = { pool: this.#poolOf(owner, 'cuDeviceGetDefaultMemPool'), accesses: new Set() }
      this.#defaults.set(owner, known)
    }
    return known.pool === pool ? known.accesses : undefined
  }

  /** Gives back what the pools that an allocation in the context may be about do not use. False where that is nothing. */
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

  /** To be called before memory is allocated there: a pool without a threshold of a program keeps what it has. */
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

  #trim(pool: PoolHandle, bytesToKeep: number): void {
    const { library, relaxed } = this.parts
    check(
      'cuMemPoolTrimTo',
      relaxed.run(() => library.cuMemPoolTrimTo(pool, bytesToKeep)),
    )
  }

  /**
   * A pool learns that a free is done where the host waits for it, and from no query. So the host waits for events on the
   * streams that are idle: each is done before, so that this waits for nothing.
   */
  #learnOfFrees(device: number): void {
    const { contexts, calls } = this.parts
    const primary = contexts.primary(device)
    for (const which of [0, 2] as const) this.#waitWhereIdle(defaultStream(device, which), primary)
    for (const [stream, context] of calls.own) {
      if (contexts.deviceOf(context) === device) this.#waitWhereIdle(stream, context)
    }
  }

  #waitWhereIdle(stream: StreamHandle, context: ContextHandle): void {
    const { library, memory, contexts, relaxed, pool } = this.parts
    const raw = cudaHandleOf(stream)
    const isIdle = (): boolean =>
      library.cuStreamIsCapturing(raw, memory.address) === 0 &&
      memory.int32[0] === 0 &&
      library.cuStreamQuery(raw) === 0
    const event = pool.take(context)
    contexts.within(context, () =>
      relaxed.run(() => {
        if (!isIdle() || library.cuEventRecord(event, raw) !== 0) return
        const end = performance.now() + LONGEST_RECORD
        while (library.cuEventQuery(event) !== 0) if (performance.now() > end) return
        library.cuEventSynchronize(event)
      }),
    )
    pool.giveBack(context, event)
  }

  #sweep(): void {
    const { library, relaxed } = this.parts
    for (const [pool, looks] of this.#leaving) {
      this.trim(pool, 0)
      if (looks < MOST_LOOKS && this.#get(pool, PoolAttribute.RESERVED_CURRENT) > 0n) {
        this.#leaving.set(pool, looks + 1)
        continue
      }
      this.#leaving.delete(pool)
      this.#own.delete(pool)
      this.#devices.delete(pool)
      check(
        'cuMemPoolDestroy',
        relaxed.run(() => library.cuMemPoolDestroy(pool)),
      )
    }
    if (this.#leaving.size > 0) this.#again.later()
  }

  #poolOf(device: number, call: 'cuDeviceGetMemPool' | 'cuDeviceGetDefaultMemPool'): PoolHandle {
    const { library, memory, contexts } = this.parts
    const cudaDevice = contexts.cudaDevice(device)
    check(call, library[call](memory.address, cudaDevice))
    return memory.pointerAt(0) as PoolHandle
  }

  #get(pool: PoolHandle, attribute: PoolAttribute): bigint {
    const { library, memory, relaxed } = this.parts
    const result = relaxed.run(() => library.cuMemPoolGetAttribute(pool, attribute, memory.address))
    check('cuMemPoolGetAttribute', result)
    return memory.uint64[0] ?? 0n
  }

  #set(pool: PoolHandle, attribute: PoolAttribute, value: bigint): void {
    const { library, memory, relaxed } = this.parts
    const result = relaxed.run(() => {
      memory.uint64[0] = value
      return library.cuMemPoolSetAttribute(pool, attribute, memory.address)
    })
    check('cuMemPoolSetAttribute', result)
  }

  #in(device: number, call: string, fn: () => number): void {
    const { contexts, relaxed } = this.parts
    check(
      call,
      contexts.within(contexts.primary(device), () => relaxed.run(fn)),
    )
  }
}
