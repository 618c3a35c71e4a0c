/**
 * Green contexts of a real GPU, which are shares of its multiprocessors. The work of a stream that was made in one runs on these, whichever context is
 * current when it is queued. The stream's events, memory and kernels are those of the primary context.
 */

import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { SPLITTING } from '../foundation/driver/deadlocks.js'
import type { GreenContextPart } from '../foundation/driver/device-driver.js'
import { StreamFlag } from '../foundation/driver/driver-constants.js'
import type { ContextHandle, StreamHandle } from '../foundation/driver/handle-types.js'
import { multiprocessorGroups } from '../foundation/driver/multiprocessor-groups.js'
import { NativeMemory } from '../foundation/native/native-memory.js'
import type { SpareStreams } from './handles/spare-streams.js'
import type { StreamRecord } from './handles/stream-records.js'
import type { PendingHostFunctions } from './host-functions/pending-host-functions.js'
import type { LibcudaParts } from './libcuda/driver-calls.js'
import { checkCleanup } from './libcuda/libcuda.js'
import type { Blocking } from './waiting/blocking.js'

/** A CUgreenCtx. */
type GreenHandle = number

/** A CUdevResource has its type, and from byte 96 on a CUdevSmResource, with these words. */
const RESOURCE_BYTES = 144
const MULTIPROCESSORS = 24
const LEAST = 25
const STEP = 26
const CU_DEV_RESOURCE_TYPE_SM = 1
const CU_GREEN_CTX_DEFAULT_STREAM = 1

/**
 * Streams that are made with a context, and that nothing is queued on. CUDA keeps the streams of each context in blocks of their own, and waits for the
 * device to begin another block. While a host function is pending, one of these is destroyed to make place for each stream that is wanted.
 */
const SPARE_STREAMS = 32
const LEFT_FOR_HOST_FUNCTIONS = 8

export interface CudaGreenContextsParts extends LibcudaParts {
  readonly hostFunctions: PendingHostFunctions
  readonly spares: SpareStreams
  readonly blocking: Blocking
}

interface OwnGreenContext extends GreenContextPart {
  readonly green: GreenHandle
  readonly device: number
  /** The contexts that were made by the same call, and the shape of that split. */
  readonly set: OwnGreenContext[]
  readonly shape: string
  /** The number of streams that are not destroyed. */
  streams: number
  isClosed: boolean
  readonly spare: StreamHandle[]
}

/** Green contexts. `undefined` is any of another library. */
export type Greens = ReadonlySet<OwnGreenContext | undefined>

export class CudaGreenContexts {
  readonly #own = new Map<ContextHandle, OwnGreenContext>()
  /**
   * The sets that no program uses any more, by their shape, to be given out again. None is destroyed: that would free no memory, and launching a graph
   * that was captured in one would crash.
   */
  readonly #unused = new Map<string, OwnGreenContext[][]>()
  /** Was any stream of a green context made here, or wrapped? */
  #anyStreams = false

  constructor(private readonly parts: CudaGreenContextsParts) {}

  split(device: number, multiprocessors: readonly number[]): readonly GreenContextPart[] {
    this.parts.contexts.primary(device)
    const shape = `${device}: ${multiprocessors.join(' ')}`
    return this.#exclusively(() => this.#useAgain(shape) ?? this.#makeParts(device, multiprocessors, shape), SPLITTING)
  }

  #useAgain(shape: string): readonly GreenContextPart[] | undefined {
    const unused = this.#unused.get(shape)?.pop()
    for (const each of unused ?? []) each.isClosed = false
    return unused
  }

  #makeParts(device: number, multiprocessors: readonly number[], shape: string): readonly GreenContextPart[] {
    const { contexts } = this.parts
    const cudaDevice = contexts.cudaDevice(device)
    const primary = contexts.primary(device)
    const { resources, counts } = this.#split(cudaDevice, multiprocessors)
    const made: OwnGreenContext[] = []
    try {
      contexts.within(primary, () => {
        let at = resources.address
        for (const count of [...counts, 1]) {
          made.push(this.#make({ device, set: made, shape }, cudaDevice, at, count))
          at += count * RESOURCE_BYTES
        }
      })
    } catch (error) {
      for (const own of made) this.#undo(own)
      throw error
    } finally {
      resources.free()
    }
    for (const each of made) this.#own.set(each.context, each)
    return made
  }

  /** The device of a green context that this library made; undefined for any other context. */
  deviceOf(context: ContextHandle): number | undefined {
    return this.#own.get(context)?.device
  }

  /** Creates a stream in a green context that this library made. `streamGoes` must be called when it ends. */
  createStream(
    context: ContextHandle,
    priority: number,
  ): { readonly stream: StreamHandle; readonly green: GreenContextPart } {
    const own = this.#own.get(context)
    if (own === undefined) throw cudaError('cuGreenCtxStreamCreate', CUresult.INVALID_CONTEXT)
    // A host function that runs meanwhile may close the context.
    own.streams += 1
    try {
      const stream = this.#createIn(own, priority)
      this.#anyStreams = true
      return { stream, green: own }
    } catch (error) {
      this.#streamLeft(own)
      throw error
    }
  }

  #createIn(own: OwnGreenContext, priority: number): StreamHandle {
    const { hostFunctions, spares } = this.parts
    const make = (): StreamHandle => {
      this.#fill(own)
      return this.#makeStream(own, priority)
    }
    const inPlace = (): StreamHandle | undefined => {
      if (own.spare.length <= (hostFunctions.isInside ? 0 : LEFT_FOR_HOST_FUNCTIONS)) return undefined
      return spares.making(() => {
        const spare = own.spare.pop()
        if (spare !== undefined) this.#destroyStream(spare)
        return this.#makeStream(own, priority)
      })
    }
    return this.#exclusively(make, 'making one more stream, for which CUDA waits for the device,', inPlace)
  }

  /** The green contexts of streams. */
  of(streams: Iterable<StreamRecord>): Greens {
    const found = new Set<OwnGreenContext | undefined>()
    for (const { green } of streams) if (green !== undefined) found.add(this.#own.get(green.context))
    return found
  }

  /** Makes the spare streams of green contexts. */
  fill(greens: Greens): void {
    for (const own of greens) if (own !== undefined) this.#fill(own)
  }

  /** Has each green context places of spare streams for that many streams? */
  hasPlaces(greens: Greens, streams: number): boolean {
    const wanted = streams + (this.parts.hostFunctions.isInside ? 0 : LEFT_FOR_HOST_FUNCTIONS)
    for (const own of greens) if (own === undefined || own.spare.length < wanted) return false
    return true
  }

  makePlaces(greens: Greens, streams: number): void {
    for (const own of greens) for (const stream of own?.spare.splice(0, streams) ?? []) this.#destroyStream(stream)
  }

  #destroyStream(stream: StreamHandle): void {
    checkCleanup('cuStreamDestroy', stream, this.parts.library.cuStreamDestroy_v2(stream))
  }

  #fill(own: OwnGreenContext): void {
    while (own.spare.length < SPARE_STREAMS) own.spare.push(this.#makeStream(own, 0))
  }

  #makeStream({ green, device }: OwnGreenContext, priority: number): StreamHandle {
    const { must, memory, contexts } = this.parts
    const { address } = memory
    contexts.within(contexts.primary(device), () =>
      must.cuGreenCtxStreamCreate(address, green, StreamFlag.NON_BLOCKING, priority),
    )
    return memory.pointerAt(0) as StreamHandle
  }

  /** Makes a call that may wait for the device, while no other thread makes streams. `instead` is tried if it cannot be made at once. */
  #exclusively<R>(call: () => R, what: string, instead?: () => R | undefined): R {
    const { hostFunctions, spares, blocking } = this.parts
    const make = (): R => spares.making(call)
    const now = hostFunctions.exclusivelyNow(make)
    return now === undefined ? (instead?.() ?? blocking.exclusively(make, what)) : now.made
  }

  /**
   * The stream of the primary context on which the graphs of this stream alone are launched.
   * @throws ERR_UNSUPPORTED when none can be made, since host functions are pending
   */
  launchStreamOf(stream: StreamRecord): StreamHandle {
    const { spares, contexts } = this.parts
    const { device } = stream
    stream.launchStream ??= contexts.within(contexts.primary(device), () => spares.lend(device)) as StreamHandle
    return stream.launchStream
  }

  /** The stream is destroyed, or another has its handle. */
  streamGoes({ green, owner, device, launchStream }: StreamRecord): void {
    const { library, relaxed, spares } = this.parts
    if (launchStream !== undefined) {
      // The next user of a busy stream would have to wait for its work.
      if (relaxed.run(() => library.cuStreamQuery(launchStream)) === 0) spares.giveBack(device, launchStream)
      else this.#destroyStream(launchStream)
    }
    const own = green === undefined || owner !== 'library' ? undefined : this.#own.get(green.context)
    if (own !== undefined) this.#streamLeft(own)
  }

  #streamLeft(own: OwnGreenContext): void {
    own.streams -= 1
    this.#keepUnused(own)
  }

  /** Is the stream in a green context? Calls for the whole primary context leave a capture there alone. */
  isGreen(stream: StreamHandle): boolean {
    return this.#anyStreams && this.parts.streams.get(stream)?.green !== undefined
  }

  /** The green context that CUDA has just returned for a stream. `green` is 0 when the stream is in none. */
  found(green: GreenHandle): GreenContextPart | undefined {
    if (green === 0) return undefined
    this.#anyStreams = true
    return this.#part(green)
  }

  destroy(context: ContextHandle): void {
    const own = this.#own.get(context)
    if (own === undefined) return
    own.isClosed = true
    this.#keepUnused(own)
  }

  #keepUnused({ set, shape }: OwnGreenContext): void {
    if (set.some(({ isClosed, streams }) => !isClosed || streams > 0)) return
    const unused = this.#unused.get(shape)
    if (unused === undefined) this.#unused.set(shape, [set])
    else if (!unused.includes(set)) unused.push(set)
  }

  /** Destroys a green context of which the set could not be made. */
  #undo({ green, spare }: Pick<OwnGreenContext, 'green' | 'spare'>): void {
    for (const stream of spare.splice(0)) this.#destroyStream(stream)
    checkCleanup('cuGreenCtxDestroy', green, this.parts.library.cuGreenCtxDestroy(green))
  }

  /** Resources for the groups of all parts, one after the other, and behind them one resource of the rest. `counts` has the groups of each part. */
  #split(
    cudaDevice: number,
    multiprocessors: readonly number[],
  ): { readonly resources: NativeMemory; readonly counts: readonly number[] } {
    const { library, must, memory } = this.parts
    const all = memory.address + 8
    must.cuDeviceGetDevResource(cudaDevice, all, CU_DEV_RESOURCE_TYPE_SM)
    const [least = 1, step = 1] = [memory.uint32[2 + LEAST], memory.uint32[2 + STEP]]
    const { size, counts } = multiprocessorGroups(multiprocessors, least, step)
    const needed = counts.reduce((sum, count) => sum + count, 0)
    const resources = new NativeMemory((needed + 1) * RESOURCE_BYTES)
    const rest = needed * RESOURCE_BYTES
    resources.bytes.fill(0)
    memory.uint32[0] = needed
    const call = 'cuDevSmResourceSplitByCount'
    const result = library[call](resources.address, memory.address, all, resources.address + rest, 0, size)
    const isThere = (memory.uint32[0] ?? 0) >= needed && resources.uint32[rest / 4] === CU_DEV_RESOURCE_TYPE_SM
    if (result === 0 && isThere) return { resources, counts }
    resources.free()
    throw cudaError(call, result === 0 ? CUresult.INVALID_RESOURCE_CONFIGURATION : result)
  }

  /** Makes a green context of resources that lie one after the other. */
  #make(
    of: Pick<OwnGreenContext, 'device' | 'set' | 'shape'>,
    cudaDevice: number,
    resources: number,
    count: number,
  ): OwnGreenContext {
    const { must, memory } = this.parts
    const { address } = memory
    must.cuDevResourceGenerateDesc(address, resources, count)
    must.cuGreenCtxCreate(address, memory.pointerAt(0), cudaDevice, CU_GREEN_CTX_DEFAULT_STREAM)
    const green = memory.pointerAt(0)
    const spare: StreamHandle[] = []
    try {
      const own = { ...this.#part(green), ...of, green, streams: 0, isClosed: false, spare }
      this.#fill(own)
      return own
    } catch (error) {
      this.#undo({ green, spare })
      throw error
    }
  }

  #part(green: GreenHandle): GreenContextPart {
    const { must, memory } = this.parts
    must.cuCtxFromGreenCtx(memory.address, green)
    const context = memory.pointerAt(0) as ContextHandle
    const known = this.#own.get(context)
    if (known !== undefined) return known
    must.cuGreenCtxGetDevResource(green, memory.address, CU_DEV_RESOURCE_TYPE_SM)
    return { context, multiprocessors: memory.uint32[MULTIPROCESSORS] ?? 0 }
  }
}
