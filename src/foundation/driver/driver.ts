/**
 * Internal driver interface, in eleven parts. Public classes call it; each method corresponds to a CUDA driver function and takes raw
 * handles. The backends are src/cuda (libcuda) and src/simulator (a simulated GPU); interceptors may stand in front of
 * them. All work that a stream is given goes through one method, `work.queue()`. A method throws `CudaError` where the GPU
 * refuses, and does not check again what public classes have checked.
 *
 * The comment of each method names the function of cuda.h that it corresponds to. Methods without such a name exist
 * only in this library.
 */

import type { DeviceDriver } from './device-driver.js'
import type { EventDriver } from './event-driver.js'
import type { GraphDriver } from './graph-driver.js'
import type { ContextHandle, EventHandle, StreamHandle } from './handle-types.js'
import type { KernelDriver } from './kernel-driver.js'
import type { LibraryDriver } from './library-driver.js'
import type { MemoryDriver } from './memory-driver.js'
import type { PoolDriver } from './pool-driver.js'
import type { WorkDriver } from './queued-work.js'
import type { SharingDriver } from './sharing-driver.js'
import type { StreamDriver } from './stream-driver.js'
import type { TextureDriver } from './texture-driver.js'

/** The parts of a driver. */
export interface DriverParts {
  readonly devices: DeviceDriver
  readonly streams: StreamDriver
  readonly events: EventDriver
  readonly work: WorkDriver
  readonly memory: MemoryDriver
  readonly pools: PoolDriver
  readonly kernels: KernelDriver
  readonly graphs: GraphDriver
  readonly libraries: LibraryDriver
  readonly sharing: SharingDriver
  readonly textures: TextureDriver
}

export interface Driver extends DriverParts {
  readonly name: 'cuda' | 'sim'
  /** Only of a backend for which records and waits can be made without its parts. */
  readonly short?: ShortCalls
}

/**
 * Records and waits as C makes them, for streams and events that this library has made, without timing. A backend need not know of them while nothing stands in
 * their way (`isShortWayOpen()`). Each returns a CUresult.
 */
export interface ShortCalls {
  readonly cuEventRecord: (event: EventHandle, stream: StreamHandle) => number
  readonly cuStreamWaitEvent: (stream: StreamHandle, event: EventHandle, flags: 0) => number
  /** Records the event on the other stream, and waits for it. Returns less than 0 for the result of a record that was refused. */
  readonly waitForStream: (stream: StreamHandle, other: StreamHandle, between: EventHandle) => number
  /** The event between two streams of which the second has this context. */
  between(context: ContextHandle): EventHandle
}
