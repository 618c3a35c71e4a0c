/**
 * Green contexts of a real GPU: shares of its multiprocessors. A stream that was made in one keeps to them, whichever
 * context is current when work is queued there; its events, memory and kernels are those of the primary context.
 */
import { CUresult, cudaError } from '../cuda-results.js'
import { SPLITTING } from '../deadlocks.js'
import type { ContextHandle, GreenContextPart, StreamHandle } from '../driver.js'
import { multiprocessorGroups } from '../multiprocessor-groups.js'
import type { StreamReserve } from './handles/stream-reserve.js'
import type { HostFunctions } from './host-functions/host-functions.js'
import { check } from './libcuda/library.js'
import { NativeMemory } from './libcuda/native.js'
import type { LibcudaParts } from './libcuda/stream-calls.js'
import type { StreamRecord } from './stream-records.js'
import type { Blocking } from './waiting/blocking.js'

/** A CUgreenCtx. */
type GreenHandle = number

/** CUdevResource: its type, and from byte 96 on a CUdevSmResource. */
const RESOURCE_BYTES = 144
const MULTIPROCESSORS = 24
const LEAST = 25
const STEP = 26
const CU_DEV_RESOURCE_TYPE_SM = 1
const CU_GREEN_CTX_DEFAULT_STREAM = 1
const CU_STREAM_NON_BLOCKING = 1

/**
 * Streams that are made with a context, and that nothing is queued on: a block of streams is of one context, and where
 * another one has to be begun CUDA waits for the device. While a host function is pending, one of them makes place for each
 * stream that is wanted.
 */
const SPARE_STREAMS = 32
const LEFT_FOR_HOST_FUNCTIONS = 8

export interface CudaGreenContextsParts extends LibcudaParts {
  readonly hostFunctions: HostFunctions
  readonly reserve: StreamReserve
  readonly blocking: Blocking
}

interface OwnGreenContext extends GreenContextPart {
  readonly green: GreenHandle
  readonly device: number
  /** All that were made with it by one call, and the shape of that. */
  readonly set: OwnGreenContext[]
  readonly shape: string
  /** Streams that are not destroyed. */
  streams: number
  isClosed: boolean
  readonly spare: StreamHandle[]
}

/** Green contexts; undefined stands for another library's. */
export type Greens = ReadonlySet<OwnGreenContext | undefined>

export class CudaGreenContexts {
  readonly #own = new Map<ContextHandle, OwnGreenContext>()
  /**
   * Sets that no program uses any more, by their shape: to be given out again. None is destroyed: CUDA gives no memory back by
   * that, and to launch a graph that was captured in one is a segmentation fault then.
   */
  readonly #unused = new Map<string, OwnGreenContext[][]>()
  /** Was any stream of a green context made here, or handed over? */
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

  /** The device of one that this library made; undefined for any other context. */
  deviceOf(context: ContextHandle): number | undefined {
    return this.#own.get(context)?.device
  }

  /** A stream of one that this library made; `streamGoes` is to be told of its end. */
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
    const { hostFunctions, reserve, library } = this.parts
    const make = (): StreamHandle => {
      this.#fill(own)
      return this.#makeStream(own, priority)
    }
    const inPlace = (): StreamHandle | undefined => {
      if (own.spare.length <= (hostFunctions.isInside ? 0 : LEFT_FOR_HOST_FUNCTIONS)) return undefined
      return reserve.making(() => {
        const spare = own.spare.pop()
        if (spare !== undefined) library.cuStreamDestroy_v2(spare)
        return this.#makeStream(own, priority)
      })
    }
    return this.#exclusively(make, 'making one more stream, for which CUDA waits for the device,', inPlace)
  }

  /** Those of these streams. */
  of(streams: Iterable<StreamRecord>): Greens {
    const found = new Set<OwnGreenContext | undefined>()
    for (const { green } of streams) if (green !== undefined) found.add(this.#own.get(green.context))
    return found
  }

  /** Makes all the spare streams of these. */
  fill(greens: Greens): void {
    for (const own of greens) if (own !== undefined) this.#fill(own)
  }

  /** Can so many streams have the places of spare ones in each? */
  hasPlaces(greens: Greens, streams: number): boolean {
    const wanted = streams + (this.parts.hostFunctions.isInside ? 0 : LEFT_FOR_HOST_FUNCTIONS)
    for (const own of greens) if (own === undefined || own.spare.length < wanted) return false
    return true
  }

  makePlaces(greens: Greens, streams: number): void {
    for (const own of greens)
      for (const stream of own?.spare.splice(0, streams) ?? []) this.parts.library.cuStreamDestroy_v2(stream)
  }

  #fill(own: OwnGreenContext): void {
    while (own.spare.length < SPARE_STREAMS) own.spare.push(this.#makeStream(own, 0))
  }

  #makeStream({ green, device }: OwnGreenContext, priority: number): StreamHandle {
    const { library, memory, calls, contexts } = this.parts
    calls.inContext(contexts.primary(device), 'cuGreenCtxStreamCreate', () =>
      library.cuGreenCtxStreamCreate(memory.address, green, CU_STREAM_NON_BLOCKING, priority),
    )
    return memory.pointerAt(0) as StreamHandle
  }

  /**
   * Makes a call that waits for the device, or may; no other thread makes streams meanwhile. `instead` is tried where it
   * cannot be made at once.
   */
  #exclusively<R>(call: () => R, what: string, instead?: () => R | undefined): R {
    const { hostFunctions, reserve, blocking } = this.parts
    const make = (): R => reserve.making(call)
    const now = hostFunctions.exclusivelyNow(make)
    return now === undefined ? (instead?.() ?? blocking.exclusively(make, what)) : now.made
  }

  /**
   * The stream of the primary context for this one alone, on which its graphs are launched.
   * @throws ERR_UNSUPPORTED where none can be made, since host functions are pending
   */
  beside(stream: StreamRecord): StreamHandle {
    const { reserve, contexts } = this.parts
    const { device } = stream
    stream.beside ??= contexts.within(contexts.primary(device), () => reserve.lend(device)) as StreamHandle
    return stream.beside
  }

  /** The stream is destroyed, or another has its handle. */
  streamGoes({ green, owner, device, beside }: StreamRecord): void {
    const { library, relaxed, reserve } = this.parts
    if (beside !== undefined) {
      // Another would have to wait for what is on it.
      if (relaxed.run(() => library.cuStreamQuery(beside)) === 0) reserve.giveBack(device, beside)
      else library.cuStreamDestroy_v2(beside)
    }
    const own = green === undefined || owner !== 'library' ? undefined : this.#own.get(green.context)
    if (own !== undefined) this.#streamLeft(own)
  }

  #streamLeft(own: OwnGreenContext): void {
    own.streams -= 1
    this.#keepUnused(own)
  }

  /** Is the stream in a green context? Calls about the whole primary context take no notice of a capture there. */
  isGreen(stream: StreamHandle): boolean {
    return this.#anyStreams && this.parts.streams.get(stream)?.green !== undefined
  }

  /** The green context of a stream that is handed over, which CUDA has just told; 0 where it is in none. */
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

  /** One that could not be made, or is of a set that could not. */
  #undo({ green, spare }: Pick<OwnGreenContext, 'green' | 'spare'>): void {
    const { library } = this.parts
    for (const stream of spare.splice(0)) library.cuStreamDestroy_v2(stream)
    library.cuGreenCtxDestroy(green)
  }

  /** Groups, one after the other, of which each part takes so many, and behind them one resource of all that is left. */
  #split(
    cudaDevice: number,
    multiprocessors: readonly number[],
  ): { readonly resources: NativeMemory; readonly counts: readonly number[] } {
    const { library, memory } = this.parts
    const all = memory.address + 8
    const got = library.cuDeviceGetDevResource(cudaDevice, all, CU_DEV_RESOURCE_TYPE_SM)
    check('cuDeviceGetDevResource', got)
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

  /** Of so many resources that stand there one after the other. */
  #make(
    of: Pick<OwnGreenContext, 'device' | 'set' | 'shape'>,
    cudaDevice: number,
    resources: number,
    count: number,
  ): OwnGreenContext {
    const { library, memory } = this.parts
    const { address } = memory
    check('cuDevResourceGenerateDesc', library.cuDevResourceGenerateDesc(address, resources, count))
    const description = memory.pointerAt(0)
    check('cuGreenCtxCreate', library.cuGreenCtxCreate(address, description, cudaDevice, CU_GREEN_CTX_DEFAULT_STREAM))
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
    const { library, memory } = this.parts
    check('cuCtxFromGreenCtx', library.cuCtxFromGreenCtx(memory.address, green))
    const context = memory.pointerAt(0) as ContextHandle
    const known = this.#own.get(context)
    if (known !== undefined) return known
    const got = library.cuGreenCtxGetDevResource(green, memory.address, CU_DEV_RESOURCE_TYPE_SM)
    check('cuGreenCtxGetDevResource', got)
    return { context, multiprocessors: memory.uint32[MULTIPROCESSORS] ?? 0 }
  }
}
