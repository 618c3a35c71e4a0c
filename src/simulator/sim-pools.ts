/** Pools of stream-ordered memory of simulated devices. */
import { stateError } from '../foundation/base/errors.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { refusedHandle } from '../foundation/driver/handle-errors.js'
import type { PoolHandle } from '../foundation/driver/handle-types.js'
import type { MemoryInfo, PoolDriver, PoolUsage } from '../foundation/driver/pool-driver.js'
import type { SimDevice } from './machine/machine-state.js'
import type { SimPool } from './machine/pools.js'
import type { Registry } from './registry.js'

interface OwnPool {
  readonly pool: SimPool
  readonly device: SimDevice
}

export class SimPools implements PoolDriver {
  readonly #pools = new Map<PoolHandle, OwnPool>()
  readonly #current = new Map<SimDevice, PoolHandle>()

  constructor(private readonly registry: Registry) {}

  info(device: number): MemoryInfo {
    const { free, total } = this.registry.entered(this.registry.device(device), 'cuMemGetInfo').pools
    return { free, total }
  }

  current(device: number): PoolHandle {
    const of = this.registry.device(device)
    const known = this.#current.get(of)
    if (known !== undefined) return known
    const handle = this.#add(of, of.pools.current)
    this.#current.set(of, handle)
    return handle
  }

  create(device: number, maxBytes: number): PoolHandle {
    const of = this.registry.device(device)
    return this.#add(of, of.pools.add(maxBytes))
  }

  wrap(handle: number, device: number): PoolHandle {
    const pool = handle as PoolHandle
    const found = this.#pools.get(pool)
    const call = 'cuMemPoolGetAttribute'
    if (found === undefined) throw refusedHandle('memory pool', handle, cudaError(call, CUresult.INVALID_VALUE))
    if (found.device.ordinal === device) return pool
    throw stateError(
      'ERR_DEVICE_MISMATCH',
      `The memory pool is of device ${found.device.ordinal}, not of device ${device}`,
    )
  }

  destroy(handle: PoolHandle): void {
    const { pool, device } = this.#open(handle, 'cuMemPoolDestroy')
    device.pools.all.delete(pool)
    this.#pools.delete(handle)
    this.registry.handles.giveBack('pool', handle)
  }

  threshold(pool: PoolHandle): number {
    return this.of(pool, 'cuMemPoolGetAttribute').threshold
  }

  setThreshold(pool: PoolHandle, bytes: number): void {
    this.of(pool, 'cuMemPoolSetAttribute').threshold = bytes
  }

  usage(pool: PoolHandle): PoolUsage {
    const { used, peakUsed, reserved, peakReserved } = this.of(pool, 'cuMemPoolGetAttribute')
    return { used, peakUsed, reserved, peakReserved }
  }

  resetPeaks(pool: PoolHandle): void {
    this.of(pool, 'cuMemPoolSetAttribute').resetPeaks()
  }

  trim(pool: PoolHandle, _device: number, bytesToKeep: number): void {
    this.of(pool, 'cuMemPoolTrimTo').trim(bytesToKeep)
  }

  /** The pool behind a handle. */
  of(handle: PoolHandle, call: string): SimPool {
    return this.#open(handle, call).pool
  }

  #open(handle: PoolHandle, call: string): OwnPool {
    const found = this.#pools.get(handle)
    if (found === undefined) throw cudaError(call, CUresult.INVALID_VALUE)
    return found
  }

  #add(device: SimDevice, pool: SimPool): PoolHandle {
    const handle = this.registry.handles.take('pool') as PoolHandle
    this.#pools.set(handle, { pool, device })
    return handle
  }
}
