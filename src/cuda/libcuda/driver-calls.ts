/** What every call of the driver needs: the functions, the context that must be current, and the capture mode of the thread. */

import { CUresult } from '../../foundation/driver/cuda-results.js'
import {
  type ContextHandle,
  cudaHandleOf,
  isDefaultStream,
  type StreamHandle,
} from '../../foundation/driver/handle-types.js'
import { own } from '../../foundation/native/c-functions.js'
import type { NativeMemory } from '../../foundation/native/native-memory.js'
import { ThreadMemory } from '../../foundation/native/thread-memory.js'
import type { StreamRecords } from '../handles/stream-records.js'
import type { CheckedLibrary, Library } from './libcuda.js'
import type { OwnedKinds } from './owned-handles.js'

export interface LibcudaParts {
  /** The functions, which return a CUresult. */
  readonly library: Library
  /** The same functions, which throw instead. */
  readonly must: CheckedLibrary
  /** The kinds of handles that are given back when the thread ends. */
  readonly kinds: OwnedKinds
  /** Takes the out parameters of calls. */
  readonly memory: NativeMemory
  readonly contexts: Contexts
  readonly relaxed: RelaxedCaptures
  readonly streams: StreamRecords
  readonly calls: StreamCalls
}

/**
 * The primary context of each device, retained once, and every other context that a stream was found in. The context that is current on
 * the thread belongs to other libraries too, so a change for one call is undone after it.
 */
export class Contexts {
  readonly #primaries: (ContextHandle | undefined)[] = []
  readonly #devices = new Map<ContextHandle, number>()

  constructor(
    private readonly library: Library,
    private readonly must: CheckedLibrary,
    private readonly memory: NativeMemory,
  ) {}

  /** The CUdevice of the device with this ordinal. */
  cudaDevice(device: number): number {
    this.must.cuDeviceGet(this.memory.address, device)
    return this.memory.int32[0] ?? 0
  }

  /** The primary context of a device. */
  primary(device: number): ContextHandle {
    const known = this.#primaries[device]
    if (known !== undefined) return known
    this.must.cuDevicePrimaryCtxRetain(this.memory.address, this.cudaDevice(device))
    const context = this.memory.pointerAt(0) as ContextHandle
    this.#primaries[device] = context
    this.#devices.set(context, device)
    own().noteContext(context, device)
    return context
  }

  /** The devices whose primary contexts are in use, by ordinal. */
  get primaries(): Iterable<readonly [number, ContextHandle | undefined]> {
    return this.#primaries.entries()
  }

  isPrimary(context: ContextHandle): boolean {
    return this.#primaries.includes(context)
  }

  /** Every context that was used so far. */
  get known(): Iterable<ContextHandle> {
    return this.#devices.keys()
  }

  /** The ordinal of the device that a context is on. */
  deviceOf(context: ContextHandle): number {
    const known = this.#devices.get(context)
    if (known !== undefined) return known
    this.within(context, () => this.must.cuCtxGetDevice(this.memory.address))
    const device = this.memory.int32[0] ?? 0
    // This makes the primary context known as its device's, so that it is not taken for another one.
    this.primary(device)
    this.#devices.set(context, device)
    return device
  }

  /** Runs calls with a context current. */
  within<R>(context: ContextHandle, calls: () => R): R {
    const { library, must, memory } = this
    const before = library.cuCtxGetCurrent(memory.address) === 0 ? memory.pointerAt(0) : 0
    if (before === context) return calls()
    must.cuCtxSetCurrent(context)
    try {
      return calls()
    } finally {
      // If no context was current, the new one stays, as in the CUDA runtime.
      if (before !== 0) library.cuCtxSetCurrent(before)
    }
  }
}

const CAPTURE_MODE_RELAXED = 2

/** Runs calls that CUDA refuses while any thread captures in global mode, and that would invalidate the capture, in relaxed mode. */
export class RelaxedCaptures {
  /** The mode to set, then the mode that the thread had. */
  readonly #mode = new ThreadMemory(8)
  #isRelaxed = false

  constructor(private readonly library: Pick<Library, 'cuThreadExchangeStreamCaptureMode'>) {}

  run<R>(calls: () => R): R {
    if (this.#isRelaxed) return calls()
    const { cuThreadExchangeStreamCaptureMode } = this.library
    this.#mode.int32[0] = CAPTURE_MODE_RELAXED
    cuThreadExchangeStreamCaptureMode(this.#mode.address)
    this.#isRelaxed = true
    try {
      return calls()
    } finally {
      this.#isRelaxed = false
      cuThreadExchangeStreamCaptureMode(this.#mode.address)
    }
  }
}

/** Makes calls on streams with the context current that they need. `call` gets CUDA's own handle of the stream. */
export class StreamCalls {
  constructor(private readonly parts: Pick<LibcudaParts, 'library' | 'memory' | 'contexts' | 'streams'>) {}

  /** Makes a call that needs a context only for a default stream: that of the device in its handle. */
  onStream<R>(stream: StreamHandle, call: (raw: number) => R): R {
    return isDefaultStream(stream) ? this.inContextOf(stream, call) : call(stream)
  }

  /** Makes a call that touches memory: which memory it may touch depends on the current context. */
  inContextOf<R>(stream: StreamHandle, call: (raw: number) => R): R {
    const { contexts, streams } = this.parts
    return contexts.within(streams.of(stream).context, () => call(cudaHandleOf(stream)))
  }

  /**
   * Does the stream capture? A null stream never does; for it the answer is whether a blocking stream of its device does. False when the
   * context is lost: the call that follows reports that.
   */
  captures(stream: StreamHandle): boolean {
    const { library, memory } = this.parts
    const result = this.onStream(stream, (raw) => library.cuStreamIsCapturing(raw, memory.address))
    return result === CUresult.STREAM_CAPTURE_IMPLICIT || (result === 0 && memory.int32[0] !== 0)
  }
}
