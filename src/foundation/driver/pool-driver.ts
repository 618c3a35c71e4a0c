/** The driver interface for memory pools. */

import type { PoolHandle } from './handle-types.js'

/** The memory of a device, in bytes. */
export interface MemoryInfo {
  readonly free: number
  readonly total: number
}

/** Bytes of a pool: in use, and taken from the device; now, and at most since the peaks were reset. */
export interface PoolUsage {
  readonly used: number
  readonly peakUsed: number
  readonly reserved: number
  readonly peakReserved: number
}

/** Pools that stream-ordered memory comes from. No method invalidates a capture, or waits for a stream. */
export interface PoolDriver {
  /** `cuMemGetInfo` */
  info(device: number): MemoryInfo
  /** `cuDeviceGetMemPool`: the pool that `allocate` takes memory from where none is given. */
  current(device: number): PoolHandle
  /** `cuMemPoolCreate`. `maxBytes`: the most that it takes from the device; 0: as much as there is. */
  create(device: number, maxBytes: number): PoolHandle
  /** The pool of another library on this device, which that library destroys. Throws ERR_INVALID_HANDLE where it is none, as far as that can be told. */
  wrap(handle: number, device: number): PoolHandle
  /** `cuMemPoolDestroy`: no memory of it is in use, but frees may be in flight. */
  destroy(pool: PoolHandle): void
  /** `cuMemPoolGetAttribute`: the release threshold; Infinity where nothing is given back. */
  threshold(pool: PoolHandle): number
  /** `cuMemPoolSetAttribute` */
  setThreshold(pool: PoolHandle, bytes: number): void
  /** `cuMemPoolGetAttribute` */
  usage(pool: PoolHandle): PoolUsage
  /** `cuMemPoolSetAttribute`: the peaks are what is used and reserved now. */
  resetPeaks(pool: PoolHandle): void
  /** `cuMemPoolTrimTo`: gives back to its device what is not in use, but for so many bytes. */
  trim(pool: PoolHandle, device: number, bytesToKeep: number): void
}
