/** Memory of real GPUs. Pinned memory that was closed is kept for the next request, since freeing it can wait for the whole device. */

import { CudaError } from '../foundation/base/errors.js'
import { giveBackEvent } from '../foundation/driver/after-work.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import type { Comparison } from '../foundation/driver/driver-constants.js'
import type { InternalEvent } from '../foundation/driver/event-driver.js'
import { HandleMap } from '../foundation/driver/handle-tables.js'
import {
  type ContextHandle,
  cudaHandleOf,
  type EventHandle,
  type Pointer,
  type StreamHandle,
} from '../foundation/driver/handle-types.js'
import type { MemoryDriver, MemoryPlace, PinnedMemory } from '../foundation/driver/memory-driver.js'
import type { QueuedAllocation, QueuedFill, QueuedFree } from '../foundation/driver/queued-work.js'
import type { CopiedBytes, CopyRoute, MemoryRows, MemoryValue } from '../foundation/driver/touched-memory.js'
import { own } from '../foundation/native/c-functions.js'
import { layer } from '../foundation/native/layer.js'
import { ownerOfThread } from '../foundation/native/owned-handles.js'
import { ThreadMemory } from '../foundation/native/thread-memory.js'
import type { CudaPools } from './cuda-pools.js'
import type { PendingHostFunctions } from './host-functions/pending-host-functions.js'
import type { LibcudaParts } from './libcuda/driver-calls.js'
import { check } from './libcuda/libcuda.js'
import { Copies, type CopiesParts } from './memory/copies.js'
import {
  type Block,
  copyBytes,
  newArrayBuffer,
  PinnedBlocks,
  PORTABLE_AND_MAPPED,
  RegisteredMemory,
  type RegisteredMemoryParts,
} from './memory/host-memory.js'
import { PeerAccess } from './memory/peer-access.js'
import type { PutOffFrees } from './memory/put-off-frees.js'
import type { IdleDevices } from './waiting/idle-devices.js'
import type { ValueWaits } from './waiting/value-waits.js'

const POINTER_MEMORY_TYPE = 2
const POINTER_IS_MANAGED = 8
const POINTER_DEVICE_ORDINAL = 9
const MEMORY_TYPE_HOST = 1
/** CUstreamBatchMemOpType. */
const MemOp = { WAIT_32: 1, WRITE_32: 2, WAIT_64: 4, WRITE_64: 5 } as const
/** sizeof(CUstreamBatchMemOpParams). */
const MEM_OP_BYTES = 48
/** Pinned memory is allocated in multiples of this, so that a closed block fits the next request more often. */
const GRANULE = 65_536

interface GraphsDriver {
  readonly graphs: { noteValueWait(stream: StreamHandle): void }
}

export interface CudaMemoryParts extends CopiesParts {
  readonly hostFunctions: Pick<PendingHostFunctions, 'countEntries' | 'exclusivelyNow'>
  readonly idleDevices: IdleDevices
  readonly valueWaits: ValueWaits
  readonly pools: CudaPools
  readonly putOff: PutOffFrees
  readonly driver: RegisteredMemoryParts['driver'] & CopiesParts['driver'] & GraphsDriver
}

export class CudaMemory implements MemoryDriver {
  readonly #peers: PeerAccess
  readonly #copies: Copies
  readonly #pinned = new HandleMap<Pointer, Block>()
  readonly #kept: PinnedBlocks
  readonly #registered: RegisteredMemory
  readonly #operation = new ThreadMemory(MEM_OP_BYTES)
  /** The functions are in fields, since the native layer has more functions than V8 finds without a hash table. */
  readonly #allocateInOrder = own().allocateInOrder
  readonly #free = own().freeInOrder
  readonly #owner = ownerOfThread()
  /** Memory that is freed in the order of a stream, among the kinds of handles. */
  readonly #kind: number

  constructor(private readonly parts: CudaMemoryParts) {
    this.#kind = parts.kinds.asyncMemory.number
    this.#peers = new PeerAccess(parts)
    this.#copies = new Copies(parts)
    this.#registered = new RegisteredMemory(parts)
    this.#kept = new PinnedBlocks(parts)
  }

  allocate(work: QueuedAllocation): void {
    const { memory, pools, putOff } = this.parts
    putOff.sweepFew()
    pools.makeReady(work.context)
    const result = this.#allocate(work)
    if (result !== 0) this.#allocateAgain(work, result)
    // The pools use what is before.
    work.pointer = memory.pointerAt(8) as Pointer
    if (work.isZeroed) this.#fillWithZeros(work)
  }

  #allocate({ byteLength, stream, context, pool }: QueuedAllocation): number {
    const notSearched = this.parts.pools.notSearched(pool, context, byteLength)
    const into = this.parts.memory.address + 8
    return this.#allocateInOrder(
      this.#owner,
      this.#kind,
      context,
      cudaHandleOf(stream),
      byteLength,
      pool ?? 0,
      notSearched,
      into,
    )
  }

  /** Gives back what is not used, and makes the allocation again. */
  #allocateAgain(work: QueuedAllocation, refused: number): void {
    const { contexts, pools, putOff } = this.parts
    const { context, pool } = work
    let result = refused
    if (result === CUresult.OUT_OF_MEMORY && putOff.pending) {
      putOff.sweep()
      result = this.#allocate(work)
    }
    if (result === CUresult.OUT_OF_MEMORY && pools.giveBackUnused(context)) result = this.#allocate(work)
    if (result === CUresult.OUT_OF_MEMORY && putOff.waitForUses(contexts.deviceOf(context)))
      result = this.#allocate(work)
    check(pool === undefined ? 'cuMemAllocAsync' : 'cuMemAllocFromPoolAsync', result)
  }

  #fillWithZeros({ pointer, byteLength: count, stream }: QueuedAllocation): void {
    try {
      this.fill({ kind: 'fill', pointer, value: 0, width: 1, count, rows: undefined, stream })
    } catch (error) {
      this.#freeInOrder(pointer, stream)
      throw error
    }
  }

  free({ pointer, stream, after }: QueuedFree): void {
    const { putOff, driver } = this.parts
    if (after.length > 0 && putOff.add(pointer, stream, after)) return
    this.#freeInOrder(pointer, stream)
    if (after.length > 0) for (const each of after) giveBackEvent(driver, each)
    putOff.sweepFew()
  }

  #freeInOrder(pointer: Pointer, stream: StreamHandle): void {
    const { context } = this.parts.streams.of(stream)
    const result = this.#free(this.#owner, this.#kind, context, cudaHandleOf(stream), pointer)
    if (result !== 0) throw cudaError('cuMemFreeAsync', result)
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

  closePinned(pointer: Pointer, bytes: ArrayBuffer | undefined, after: readonly InternalEvent[]): void {
    if (this.#registered.unregister(pointer, after)) return
    const block = this.#pinned.get(pointer)
    if (block === undefined) return
    this.#pinned.delete(pointer)
    if (bytes !== undefined) layer().detach(bytes)
    this.#kept.giveBack(block, after)
  }

  detachPinned(_pointer: Pointer, bytes: ArrayBuffer): void {
    layer().detach(bytes)
  }

  enablePeerAccess(pointer: Pointer, owner: number, user: number): boolean {
    return this.#peers.enable(pointer, owner, user)
  }

  canAccessPeer(owner: number, user: number): boolean {
    return this.#peers.canReach(owner, user)
  }

  copy(destination: Pointer, source: Pointer, byteLength: number, stream: StreamHandle, route?: CopyRoute): void {
    this.parts.hostFunctions.countEntries(stream, this.#copies.entriesOf(destination, source, byteLength))
    this.#copies.copy(destination, source, byteLength, stream, route)
  }

  copyRows(
    destination: Pointer,
    source: Pointer,
    to: MemoryRows,
    from: MemoryRows,
    stream: StreamHandle,
    route?: CopyRoute,
  ): void {
    this.parts.hostFunctions.countEntries(stream, 1)
    this.#copies.copyRows(destination, source, to, from, stream, route)
  }

  copyBatch(copies: readonly CopiedBytes[], stream: StreamHandle): void {
    if (this.#copies.copyBatch(copies, stream)) this.parts.hostFunctions.countEntries(stream, copies.length)
    else
      for (const { destination, source, byteLength, route } of copies)
        this.copy(destination, source, byteLength, stream, route)
  }

  fill({ pointer, value, width, count, rows, stream }: QueuedFill): void {
    const { must, hostFunctions, calls } = this.parts
    hostFunctions.countEntries(stream, 1)
    if (rows === undefined) {
      const fill = width === 1 ? must.cuMemsetD8Async : width === 2 ? must.cuMemsetD16Async : must.cuMemsetD32Async
      calls.inContextOf(stream, (raw) => fill(pointer, value, count, raw))
      return
    }
    const fill = width === 1 ? must.cuMemsetD2D8Async : width === 2 ? must.cuMemsetD2D16Async : must.cuMemsetD2D32Async
    const { rowDistance, rowLength } = rows
    calls.inContextOf(stream, (raw) => fill(pointer, rowDistance, value, rowLength / width, rows.rows, raw))
  }

  waitForValue(at: MemoryValue, compare: Comparison, stream: StreamHandle): void {
    const { valueWaits, driver } = this.parts
    const mayBlock = valueWaits.beforeWait(stream)
    this.#batch(at.bits === 32 ? MemOp.WAIT_32 : MemOp.WAIT_64, at, compare, stream)
    if (mayBlock) valueWaits.queued(stream)
    else driver.graphs.noteValueWait(stream)
  }

  writeValue(at: MemoryValue, stream: StreamHandle): void {
    this.#batch(at.bits === 32 ? MemOp.WRITE_32 : MemOp.WRITE_64, at, 0, stream)
  }

  /** Queues one operation, as cuStreamWaitValue32 and the similar functions do. */
  #batch(operation: number, { pointer, value }: MemoryValue, flags: number, stream: StreamHandle): void {
    const { must, hostFunctions, calls } = this.parts
    hostFunctions.countEntries(stream, 1)
    const { uint32, uint64, address } = this.#operation
    uint64.fill(0n)
    uint32[0] = operation
    this.#operation.setPointer(8, pointer)
    uint64[2] = value
    uint32[6] = flags
    calls.inContextOf(stream, (raw) => must.cuStreamBatchMemOp_v2(raw, 1, address, 0))
  }

  placeOf(pointer: Pointer, _byteLength: number, near: number): MemoryPlace {
    const { must, memory, contexts } = this.parts
    const { address } = memory
    memory.uint64.fill(0n, 0, 3)
    contexts.within(contexts.primary(near), () => {
      must.cuPointerGetAttribute(address, POINTER_DEVICE_ORDINAL, pointer)
      must.cuPointerGetAttribute(address + 8, POINTER_MEMORY_TYPE, pointer)
      must.cuPointerGetAttribute(address + 16, POINTER_IS_MANAGED, pointer)
    })
    const isOfHost = memory.uint32[2] === MEMORY_TYPE_HOST || memory.uint32[4] !== 0
    return { device: memory.int32[0] ?? 0, isOfHost }
  }

  viewed(): void {}

  newArrayBuffer(byteLength: number): ArrayBuffer {
    return newArrayBuffer(byteLength)
  }

  copyBytes(to: Uint8Array, from: Uint8Array): void {
    copyBytes(to, from)
  }

  isDone(event: EventHandle): boolean {
    return this.parts.relaxed.run(() => this.parts.library.cuEventQuery(event)) === 0
  }

  #allocatePinned(byteLength: number, context: ContextHandle): Block {
    const allocate = (): Block => ({ pointer: allocatePinned(this.parts, byteLength, context), byteLength })
    try {
      return allocate()
    } catch (error) {
      const isOutOfMemory = error instanceof CudaError && error.number === CUresult.OUT_OF_MEMORY
      if (!isOutOfMemory || !this.#kept.freeAll()) throw error
      return allocate()
    }
  }
}

/** Allocates pinned memory, which streams of every context can write and JavaScript can read. */
export function allocatePinned(parts: LibcudaParts, byteLength: number, context: ContextHandle): Pointer {
  const { must, memory, contexts, relaxed } = parts
  const allocate = (): void => must.cuMemHostAlloc(memory.address, byteLength, PORTABLE_AND_MAPPED)
  contexts.within(context, () => relaxed.run(allocate))
  return memory.pointerAt(0) as Pointer
}
