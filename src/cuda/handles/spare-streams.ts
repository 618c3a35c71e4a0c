/** Streams without work: those that were closed, and are given out again, and those that make room for others. */
import { isMainThread } from 'node:worker_threads'
import { stateError } from '../../foundation/base/errors.js'
import { hasLostContext } from '../../foundation/driver/cuda-results.js'
import { StreamFlag } from '../../foundation/driver/driver-constants.js'
import type { ContextHandle, StreamHandle } from '../../foundation/driver/handle-types.js'
import { type ProcessRegistry, SPARE_DEVICES, SPARE_STREAMS } from '../host-functions/process-registry.js'
import type { LibcudaParts } from '../libcuda/driver-calls.js'
import { checkCleanup } from '../libcuda/libcuda.js'
import type { StreamRecord } from './stream-records.js'

/** The most closed streams that are kept, of all sorts together. A worker keeps none, since they would outlive it. */
const MOST_CLOSED = isMainThread ? 64 : 0

/** Streams that were closed while idle, and whose handle no other code has. CUDA takes microseconds to make one. */
export class ClosedStreams {
  /** The streams by context, then by flags and priority. */
  readonly #sorts = new Map<ContextHandle, Map<number, StreamHandle[]>>()
  #count = 0

  take(context: ContextHandle, flags: number, priority: number): StreamHandle | undefined {
    if (this.#count === 0 || hasLostContext()) return undefined
    const stream = this.listOf(context, flags, priority).pop()
    if (stream !== undefined) this.#count -= 1
    return stream
  }

  wants({ reuse }: StreamRecord): boolean {
    return this.#count < MOST_CLOSED && reuse !== undefined
  }

  add({ handle, reuse }: StreamRecord): void {
    reuse?.push(handle)
    this.#count += 1
  }

  /** Removes a stream whose handle is read after it was closed. Returns false when it is not here. */
  remove(stream: StreamHandle): boolean {
    for (const list of [...this.#sorts.values()].flatMap((sorts) => [...sorts.values()])) {
      const at = list.indexOf(stream)
      if (at < 0) continue
      list.splice(at, 1)
      this.#count -= 1
      return true
    }
    return false
  }

  /** The list that a stream of this sort joins when it is closed while idle. */
  listOf(context: ContextHandle, flags: number, priority: number): StreamHandle[] {
    const sorts = this.#sorts.get(context) ?? new Map<number, StreamHandle[]>()
    this.#sorts.set(context, sorts)
    // Flags are 0 or 1.
    const sort = 2 * priority + flags
    const list = sorts.get(sort) ?? []
    sorts.set(sort, list)
    return list
  }
}

const LEFT_FOR_HOST_FUNCTIONS = 16
/** The number of spare streams below which more are made, while no host function is pending. */
const FEW = SPARE_STREAMS / 2
/** Places that are left for streams which other libraries make. */
const PLACES_FOR_OTHERS = 36

export interface SpareStreamsParts extends Pick<LibcudaParts, 'library' | 'must' | 'kinds' | 'memory' | 'contexts'> {
  readonly registry: ProcessRegistry
  readonly exclusivelyNow: <R>(call: () => R) => { readonly made: R } | undefined
  readonly spinWait: (nanosecondsWaited: number) => void
}

/**
 * CUDA keeps streams in blocks of a few dozen, and to begin another block it waits for the whole device. While a stream waits at a host
 * function, that is forever (docs/internals/cuda-facts.md). So some streams are made before the first host function, and nothing is queued on them. While
 * any host function is pending, one of them is destroyed to make place for each stream that is wanted.
 */
export class SpareStreams {
  /** Streams for the library itself that are not in use, by device. */
  readonly #lent = new Map<number, number[]>()

  constructor(private readonly parts: SpareStreamsParts) {}

  /**
   * Makes the streams of devices that are new, or have few left, unless host functions are pending. The device may be blocked by something that
   * only the program ends, so this is done early and seldom.
   */
  fillWhereNeeded(): void {
    const { contexts, registry, exclusivelyNow } = this.parts
    for (const [device, context] of contexts.primaries) {
      if (context === undefined || device >= SPARE_DEVICES || registry.spareStreams.count(device) >= FEW) continue
      if (exclusivelyNow(() => this.fill(device)) === undefined) return
    }
  }

  /** Makes the streams of a device. To be called by a thread that has the lock for calls which wait for the device. */
  fill(device: number): void {
    const { contexts, registry } = this.parts
    if (registry.spareStreams.count(device) >= SPARE_STREAMS) return
    this.making(() => contexts.within(contexts.primary(device), () => this.#fillOf(device)))
  }

  /** Makes a call that makes streams, while no other thread makes any. */
  making<R>(call: () => R): R {
    const { registry, spinWait } = this.parts
    while (!registry.makingStreams.tryTake()) spinWait(Number.POSITIVE_INFINITY)
    return registry.makingStreams.during(call)
  }

  /**
   * Makes a call that makes streams on a device although host functions are pending, in the places of spare ones. Returns undefined without the
   * call when there are too few. Some are left for calls inside a host function, which cannot wait for it.
   */
  inPlaces<R>(
    device: number,
    streams: number,
    isInsideHostFunction: boolean,
    call: () => R,
  ): { readonly made: R } | undefined {
    const { spareStreams } = this.parts.registry
    const wanted = streams + (isInsideHostFunction ? 0 : LEFT_FOR_HOST_FUNCTIONS)
    return this.making(() => {
      if (spareStreams.count(device) < wanted) return undefined
      for (let left = streams; left > 0; left -= 1) {
        const spare = spareStreams.take(device)
        if (spare !== undefined) this.#destroy(spare)
      }
      return { made: call() }
    })
  }

  wants(device: number): boolean {
    return this.parts.registry.spareStreams.count(device) < SPARE_STREAMS
  }

  /** Keeps an idle stream that is not needed any more. Returns false when there are enough. */
  keep(device: number, stream: number): boolean {
    return this.#giveToAll(device, stream)
  }

  /**
   * A non-blocking stream for the library itself, in the device's primary context, which must be current. It is given back when its work has
   * completed.
   * @throws ERR_UNSUPPORTED when none can be made, since host functions are pending
   */
  lend(device: number): number {
    const found = this.lendAtOnce(device)
    if (found !== undefined) return found
    const made = this.parts.exclusivelyNow(() => this.making(() => this.#make()))
    if (made === undefined) throw noneLeft()
    return made.made
  }

  /** The same, or undefined where CUDA might wait for the device. */
  lendAtOnce(device: number): number | undefined {
    return this.#lent.get(device)?.pop() ?? this.inPlaces(device, 1, true, () => this.#make())?.made
  }

  giveBack(device: number, stream: number): void {
    const lent = this.#lent.get(device)
    if (lent === undefined) this.#lent.set(device, [stream])
    else lent.push(stream)
  }

  #fillOf(device: number): void {
    const { spareStreams } = this.parts.registry
    const places: number[] = []
    if (spareStreams.begins(device)) while (places.length < PLACES_FOR_OTHERS) places.push(this.#make())
    for (let left = SPARE_STREAMS - spareStreams.count(device); left > 0; left -= 1) {
      const stream = this.#make()
      if (!this.#giveToAll(device, stream)) places.push(stream)
    }
    for (const stream of places) this.#destroy(stream)
  }

  #destroy(stream: number): void {
    checkCleanup('cuStreamDestroy', stream, this.parts.library.cuStreamDestroy_v2(stream))
  }

  /** A thread that ends leaves it to the others. */
  #giveToAll(device: number, stream: number): boolean {
    const { registry, kinds } = this.parts
    // In this order, since another thread may destroy it at once, and make another with the same handle.
    kinds.stream.giveToProcess(stream)
    const isKept = registry.spareStreams.add(device, stream)
    if (!isKept) kinds.stream.add(stream, StreamFlag.NON_BLOCKING)
    return isKept
  }

  #make(): number {
    const { must, memory } = this.parts
    must.cuStreamCreateWithPriority(memory.address, StreamFlag.NON_BLOCKING, 0)
    return memory.pointerAt(0)
  }
}

const noneLeft = (): Error =>
  stateError(
    'ERR_UNSUPPORTED',
    `Cannot create an internal stream: CUDA would block while host functions or value waits are pending, and all ${SPARE_STREAMS} preallocated streams are in use. Let pending host functions run, or write the awaited value, then retry`,
  )
