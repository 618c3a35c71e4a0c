/**
 * Memory of real GPUs. Pinned memory that was closed is kept for the next that wants some: freeing it can wait for the
 * whole device.
 */
import { CUresult } from '../cuda-results.js'
import {
  type BatchedCopy,
  type ContextHandle,
  type CopyRoute,
  cudaHandleOf,
  type EventHandle,
  type FillWidth,
  type MemoryDriver,
  type MemoryPlace,
  type MemoryRows,
  type OwnEvent,
  type PinnedMemory,
  type Pointer,
  type PoolHandle,
  type StreamHandle,
} from '../driver.js'
import { HandleMap } from '../handle-tables.js'
import type { Comparison, MemoryValue } from '../values.js'
import type { CudaPools } from './cuda-pools.js'
import type { StreamReserve } from './handles/stream-reserve.js'
import type { HostFunctions } from './host-functions/host-functions.js'
import { layer } from './libcuda/layer.js'
import { check } from './libcuda/library.js'
import { NativeMemory } from './libcuda/native.js'
import type { LibcudaParts } from './libcuda/stream-calls.js'
import { CopyBatches, type CopyBatchesParts } from './memory/copy-batches.js'
import { CopyOrder, type CopyOrderDriver } from './memory/copy-order.js'
import { HostCopies, type HostCopiesDriver } from './memory/host-copies.js'
import { newArrayBuffer } from './memory/huge-pages.js'
import { type Block, KeptBlocks, type KeptBlocksParts } from './memory/kept-blocks.js'
import { PeerAccess } from './memory/peer-access.js'
import { RegisteredMemory, type RegisteredMemoryParts } from './memory/registered-memory.js'
import { RowCopies } from './memory/row-copies.js'
import type { EventPool } from './waiting/event-pool.js'
import type { IdleDevices } from './waiting/idle-devices.js'
import type { ValueWaits } from './waiting/value-waits.js'

const PORTABLE_AND_MAPPED = 0x3
const POINTER_MEMORY_TYPE = 2
const POINTER_IS_MANAGED = 8
const POINTER_DEVICE_ORDINAL = 9
const MEMORY_TYPE_HOST = 1
/** CUstreamBatchMemOpType. */
const MemOp = { WAIT_32: 1, WRITE_32: 2, WAIT_64: 4, WRITE_64: 5 } as const
/** sizeof(CUstreamBatchMemOpParams). */
const MEM_OP_BYTES = 48
/** Pinned memory is handed out in multiples of this: a closed block fits the next request more often. */
const GRANULE = 65_536

interface GraphsDriver {
  readonly graphs: { noteValueWait(stream: StreamHandle): void }
}

export interface CudaMemoryParts extends LibcudaParts, KeptBlocksParts {
  readonly hostFunctions: Pick<HostFunctions, 'countEntries' | 'exclusivelyNow'>
  readonly idleDevices: IdleDevices
  readonly pool: EventPool
  readonly reserve: StreamReserve
  readonly valueWaits: ValueWaits
  readonly pools: CudaPools
  readonly green: CopyBatchesParts['green']
  readonly driver: RegisteredMemoryParts['driver'] & CopyOrderDriver & HostCopiesDriver & GraphsDriver
}

export class CudaMemory implements MemoryDriver {
  readonly #peers: PeerAccess
  readonly #copyOrder: CopyOrder
  readonly #hostCopies: HostCopies
  readonly #rowCopies: RowCopies
  readonly #copyBatches: CopyBatches
  readonly #pinned = new HandleMap<Pointer, Block>()
  readonly #kept: KeptBlocks
  readonly #registered: RegisteredMemory
  /** Of `#batch`: other calls have their parameters elsewhere. */
  #operation: NativeMemory | undefined

  constructor(private readonly parts: CudaMemoryParts) {
    this.#peers = new PeerAccess(parts)
    this.#copyOrder = new CopyOrder(parts)
    this.#hostCopies = new HostCopies(parts)
    this.#rowCopies = new RowCopies(parts, this.#copyOrder)
    this.#copyBatches = new CopyBatches(parts, this.#copyOrder)
    this.#registered = new RegisteredMemory(parts)
    const { library, relaxed } = parts
    this.#kept = new KeptBlocks(parts, (block) => relaxed.run(() => library.cuMemFreeHost(block.pointer)))
  }

  allocate(byteLength: number, stream: StreamHandle, context: ContextHandle, pool?: PoolHandle): Pointer {
    const { library, memory, contexts, relaxed, pools } = this.parts
    const raw = cudaHandleOf(stream)
    const { address } = memory
    pools.makeReady(context)
    const attempt =
      pool === undefined
        ? (): number => library.cuMemAllocAsync(address, byteLength, raw)
        : (): number => library.cuMemAllocFromPoolAsync(address, byteLength, pool, raw)
    let result = contexts.within(context, () => relaxed.run(attempt))
    if (result === CUresult.OUT_OF_MEMORY && pools.giveBackUnused(context)) {
      result = contexts.within(context, () => relaxed.run(attempt))
    }
    if (result !== 0) check(pool === undefined ? 'cuMemAllocAsync' : 'cuMemAllocFromPoolAsync', result)
    return memory.pointerAt(0) as Pointer
  }

  free(pointer: Pointer, stream: StreamHandle): void {
    const { library, relaxed, calls } = this.parts
    calls.inContextOf(stream, 'cuMemFreeAsync', (raw) => relaxed.run(() => library.cuMemFreeAsync(pointer, raw)))
  }

  allocatePinned(byteLength: number, context: ContextHandle): PinnedMemory {
    this.#kept.sweep()
    const wanted = Math.ceil(byteLength / GRANULE) * GRANULE
    const block = this.#kept.take(wanted) ?? this.#allocatePinned(wanted, context)
    this.#pinned.set(block.pointer, block)
    return { pointer: block.pointer, bytes: layer().view(block.pointer, byteLength) }
  }

  registerPinned(bytes: Uint8Array, context: ContextHandle): Pointer {
    return this.#registered.register(bytes, context)
  }

  closePinned(pointer: Pointer, bytes: ArrayBuffer | undefined, after: readonly OwnEvent[]): void {
    if (this.#registered.unregister(pointer, after)) return
    const block = this.#pinned.get(pointer)
    if (block === undefined) return
    this.#pinned.delete(pointer)
    if (bytes !== undefined) layer().detach(bytes)
    this.#kept.giveBack(block, after)
    this.#kept.sweep()
  }

  detachPinned(_pointer: Pointer, bytes: ArrayBuffer): void {
    layer().detach(bytes)
  }

  admit(pointer: Pointer, owner: number, user: number): boolean {
    return this.#peers.admit(pointer, owner, user)
  }

  copy(destination: Pointer, source: Pointer, byteLength: number, stream: StreamHandle, route?: CopyRoute): void {
    const { library, contexts, hostFunctions, calls } = this.parts
    hostFunctions.countEntries(stream, 1)
    if (route === 'withinHost') {
      this.#hostCopies.copy(destination, source, byteLength, stream)
      return
    }
    if (route === undefined) {
      calls.inContextOf(
        stream,
        'cuMemcpyAsync',
        (raw) =>
          this.#copyOrder.before(stream, raw, byteLength) ||
          library.cuMemcpyAsync(destination, source, byteLength, raw),
      )
      return
    }
    const to = contexts.primary(route.to)
    const from = contexts.primary(route.from)
    calls.inContextOf(stream, 'cuMemcpyPeerAsync', (raw) =>
      library.cuMemcpyPeerAsync(destination, to, source, from, byteLength, raw),
    )
  }

  copyRows(
    destination: Pointer,
    source: Pointer,
    to: MemoryRows,
    from: MemoryRows,
    stream: StreamHandle,
    route?: 'withinHost',
  ): void {
    this.parts.hostFunctions.countEntries(stream, 1)
    if (route === 'withinHost') this.#hostCopies.copyRows(destination, source, to, from, stream)
    else this.#rowCopies.copy(destination, source, to, from, stream)
  }

  copyBatch(copies: readonly BatchedCopy[], stream: StreamHandle): void {
    if (this.#copyBatches.copy(copies, stream)) this.parts.hostFunctions.countEntries(stream, copies.length)
    else
      for (const { destination, source, byteLength, route } of copies)
        this.copy(destination, source, byteLength, stream, route)
  }

  fill(pointer: Pointer, value: number, width: FillWidth, count: number, stream: StreamHandle): void {
    const { library, hostFunctions, calls } = this.parts
    hostFunctions.countEntries(stream, 1)
    if (width === 1) {
      calls.inContextOf(stream, 'cuMemsetD8Async', (raw) => library.cuMemsetD8Async(pointer, value, count, raw))
    } else if (width === 2) {
      calls.inContextOf(stream, 'cuMemsetD16Async', (raw) => library.cuMemsetD16Async(pointer, value, count, raw))
    } else {
      calls.inContextOf(stream, 'cuMemsetD32Async', (raw) => library.cuMemsetD32Async(pointer, value, count, raw))
    }
  }

  waitForValue(at: MemoryValue, compare: Comparison, stream: StreamHandle): void {
    const { valueWaits, driver } = this.parts
    const stands = valueWaits.aboutToStand(stream)
    this.#batch(at.bits === 32 ? MemOp.WAIT_32 : MemOp.WAIT_64, at, compare, stream)
    if (stands) valueWaits.queued(stream)
    else driver.graphs.noteValueWait(stream)
  }

  writeValue(at: MemoryValue, stream: StreamHandle): void {
    this.#batch(at.bits === 32 ? MemOp.WRITE_32 : MemOp.WRITE_64, at, 0, stream)
  }

  /** One operation, as cuStreamWaitValue32 and its like are. */
  #batch(operation: number, { pointer, value }: MemoryValue, flags: number, stream: StreamHandle): void {
    const { library, hostFunctions, calls } = this.parts
    hostFunctions.countEntries(stream, 1)
    this.#operation ??= new NativeMemory(MEM_OP_BYTES)
    const { uint32, uint64, address } = this.#operation
    uint64.fill(0n)
    uint32[0] = operation
    uint64[1] = BigInt(pointer)
    uint64[2] = value
    uint32[6] = flags
    calls.inContextOf(stream, 'cuStreamBatchMemOp', (raw) => library.cuStreamBatchMemOp_v2(raw, 1, address, 0))
  }

  placeOf(pointer: Pointer, _byteLength: number, near: number): MemoryPlace {
    const { library, memory, contexts } = this.parts
    const { address } = memory
    memory.uint64.fill(0n, 0, 3)
    const ask = (attribute: number, at: number): number =>
      library.cuPointerGetAttribute(address + at, attribute, pointer)
    const result = contexts.within(
      contexts.primary(near),
      () => ask(POINTER_DEVICE_ORDINAL, 0) || ask(POINTER_MEMORY_TYPE, 8) || ask(POINTER_IS_MANAGED, 16),
    )
    check('cuPointerGetAttribute', result)
    const isOfHost = memory.uint32[2] === MEMORY_TYPE_HOST || memory.uint32[4] !== 0
    return { device: memory.int32[0] ?? 0, isOfHost }
  }

  viewed(): void {}

  newArrayBuffer(byteLength: number): ArrayBuffer {
    return newArrayBuffer(byteLength)
  }

  isDone(event: EventHandle): boolean {
    return this.parts.relaxed.run(() => this.parts.library.cuEventQuery(event)) === 0
  }

  #allocatePinned(byteLength: number, context: ContextHandle): Block {
    return { pointer: allocatePinned(this.parts, byteLength, context), byteLength }
  }
}

/** Pinned memory from the driver, which streams of every context can write and JavaScript can read. */
export function allocatePinned(parts: LibcudaParts, byteLength: number, context: ContextHandle): Pointer {
  const { library, memory, contexts, relaxed } = parts
  const result = contexts.within(context, () =>
    relaxed.run(() => library.cuMemHostAlloc(memory.address, byteLength, PORTABLE_AND_MAPPED)),
  )
  check('cuMemHostAlloc', result)
  return memory.pointerAt(0) as Pointer
}
