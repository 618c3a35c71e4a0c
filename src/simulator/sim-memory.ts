/**
 * Memory of the simulated machine: ArrayBuffers behind pointers of its own. Bytes move when an operation ends in virtual time, so that a wait which
 * is missing shows as wrong bytes.
 */

import { loadPtx } from '#load-ptx'
import { explained, stateError } from '../foundation/base/errors.js'
import { upperBound } from '../foundation/base/interval-map.js'
import { isSharedMemory, newSharedMemory } from '../foundation/base/shared-memory.js'
import { shortCallSite } from '../foundation/base/stack.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import type { InternalEvent } from '../foundation/driver/event-driver.js'
import { eventIsNoMemory, notOpened, notShareable, ownMemory } from '../foundation/driver/handle-errors.js'
import type { ContextHandle, EventHandle, Pointer, StreamHandle } from '../foundation/driver/handle-types.js'
import type { MemoryDriver, MemoryPlace } from '../foundation/driver/memory-driver.js'
import type {
  FillWork,
  HostFunction,
  QueuedAllocation,
  QueuedCopy,
  QueuedFill,
  QueuedFree,
  QueuedValueWait,
  QueuedValueWrite,
} from '../foundation/driver/queued-work.js'
import type { ExportedMemory, ImportedMemory } from '../foundation/driver/sharing-driver.js'
import type { MemoryValue } from '../foundation/driver/touched-memory.js'
import { type CopiedBytes, extentOf } from '../foundation/driver/touched-memory.js'
import { Contents, MemoryFile } from '../foundation/native/memory-file.js'
import type * as Ptx from '../ptx/ptx.js'
import { pinnedMemory } from './limits.js'
import type { Machine } from './machine/machine.js'
import type { SimDevice, SimOperation } from './machine/machine-state.js'
import type { SimPool } from './machine/pools.js'
import { Queue } from './machine/queue.js'
import { Slice } from './machine/slice.js'
import { SimOperationKind, type Work } from './machine/work.js'
import { DeviceMemory, type MemoryBlock, PinnedMemory, RegisteredMemory, VariableMemory } from './memory-blocks.js'
import {
  CopyEffect,
  extentOfFill,
  FillEffect,
  FreeEffect,
  LaterEffect,
  RowsEffect,
  WaitValueEffect,
  WriteValueEffect,
} from './memory-work.js'
import type { Registry } from './registry.js'
import type { SimPools } from './sim-pools.js'
import type { SimQueue } from './sim-queue.js'

/** The multiple at which allocations begin and end. */
const GRANULE = 512
const HOST_ALIGNMENT = 16
const SLAB = 2 ** 29
/** The bytes per nanosecond: 50 GB/s between host and device, 2000 GB/s on the device. */
const HOST_BANDWIDTH = 50
const DEVICE_BANDWIDTH = 2000
const BATCH = 'cuStreamBatchMemOp'
const ROW_FILL_CALLS = { 1: 'cuMemsetD2D8Async', 2: 'cuMemsetD2D16Async', 4: 'cuMemsetD2D32Async' } as const
const FILL_CALLS = { 1: 'cuMemsetD8Async', 2: 'cuMemsetD16Async', 4: 'cuMemsetD32Async' } as const
/** The virtual nanoseconds that the shortest copy takes. */
const SHORTEST = 1000

/**
 * The host function by which the library copies within the host on a GPU, where CUDA's own calls would wait for the stream. The effect of the
 * operation moves the bytes.
 */
const HOST_COPY: HostFunction = { run() {}, runsAfterFault: false, internal: true }

/** The effect of an operation, and the virtual nanoseconds that it takes. */
export interface Queued {
  readonly nanoseconds: number
  readonly work: Work
}

export class SimMemory implements MemoryDriver {
  /** All blocks in the order of their addresses; freed ones are kept until their addresses are used again. */
  readonly #blocks: MemoryBlock[] = []
  readonly #freeAddresses = { device: new Map<number, Queue<number>>(), host: new Map<number, Queue<number>>() }
  /**
   * The address ranges that new blocks come from. Memory of the host is apart from that of devices, so that a kernel that goes far beyond its buffer
   * is noticed.
   */
  readonly #slabs = { device: { next: 0, end: 0 }, host: { next: 0, end: 0 } }
  /** The memory of compiled kernels; undefined before the first. */
  #kernelMemory: Ptx.DeviceMemory | undefined
  /** Whether the bytes are recorded that kernels access. */
  #isRecorded = false
  /** The bytes of pinned memory that are allocated and not freed. */
  #pinned = 0
  /** The files of memory that this process has exported to others. */
  readonly #files = new Map<DeviceMemory, MemoryFile>()
  /** The memory of other processes; keys are its handles. `users` counts how often it is open, `after` is what has to be done before it is closed. */
  readonly #imported = new Map<
    string,
    { readonly block: DeviceMemory; users: number; readonly after: InternalEvent[] }
  >()

  constructor(
    private readonly machine: Machine,
    private readonly registry: Registry,
    private readonly queue: SimQueue,
    private readonly pools: SimPools,
    /** Returns the first of so many addresses that no other simulation has. */
    private readonly takeAddresses: (byteLength: number) => number,
  ) {}

  allocate(work: QueuedAllocation): void {
    const { byteLength, pool: from } = work
    const call = from === undefined ? 'cuMemAllocAsync' : 'cuMemAllocFromPoolAsync'
    const live = this.registry.liveStream(work.stream, call)
    const pool = from === undefined ? live.device.pools.current : this.pools.of(from, call)
    if (!pool.allocate(byteLength, live)) throw cudaError(call, CUresult.OUT_OF_MEMORY)
    const block = this.#newBlock(live.device, byteLength, pool)
    if (work.isZeroed) block.zero()
    work.pointer = block.pointer
  }

  /** The bytes of the devices that are allocated and not freed. */
  get bytesUsed(): number {
    return this.machine.devices.reduce((sum, { pools }) => sum + pools.used, 0)
  }

  /** Allocates memory as `cuMemAlloc` does: no stream comes before it. */
  allocateAtOnce(byteLength: number, context: ContextHandle): Pointer {
    const call = 'cuMemAlloc'
    const device = this.registry.liveContextDevice(context, call)
    this.machine.scheduler.tick()
    const size = rounded(byteLength)
    if (!device.pools.has(size)) throw cudaError(call, CUresult.OUT_OF_MEMORY)
    device.pools.apart += size
    return this.#newBlock(device, byteLength).pointer
  }

  /** Frees memory when the latest records of these events are done. */
  freeAfter(pointer: Pointer, after: readonly InternalEvent[]): void {
    const block = this.blockAt(pointer, 1)
    if (!(block instanceof DeviceMemory)) return
    this.#freeBlockAfter(block, after, rounded(block.byteLength))
  }

  free({ pointer, stream, after }: QueuedFree): void {
    const block = this.blockAt(pointer, 1)
    if (!(block instanceof DeviceMemory) || block.pointer !== pointer || block.freed) {
      throw cudaError('cuMemFreeAsync', CUresult.INVALID_VALUE)
    }
    const call = 'cuMemFreeAsync'
    const on = this.registry.peekStream(stream)
    if (on === undefined) throw cudaError(call, CUresult.INVALID_HANDLE)
    const { pool, byteLength } = block
    const uses = after.flatMap(({ event }) => this.registry.peekEvent(event)?.record ?? [])
    // As on a GPU: if all that it comes after is done, it is a free in the order of the stream, which waits for what the stream waits for.
    if (uses.some(({ over }) => !over)) {
      this.#freeBeside(block, stream, after, call)
      return
    }
    const work = new FreeEffect(block, (freed) => {
      this.#giveBack(freed)
      pool?.left(byteLength, on)
    })
    // The pool is notified before the free is queued, since on an idle stream the free is over at once.
    pool?.free(byteLength, on)
    try {
      // The effects of uses that are over may be put off: they come before.
      this.queue.enqueue(stream, SimOperationKind.INSTANT, 0, call, work, uses)
    } catch (error) {
      pool?.notFreed(byteLength, on)
      throw error
    }
    this.takeOver(after)
  }

  /** Frees memory beside the streams. It is in use until then, as on a GPU, and no stream waits for that. */
  #freeBeside(block: DeviceMemory, stream: StreamHandle, after: readonly InternalEvent[], call: string): void {
    const { pool, byteLength } = block
    const records = after.map(({ event }) => this.registry.peekEvent(event)?.record)
    pool?.freesBeside(byteLength)
    try {
      const work = new FreeEffect(block, this.#giveBack)
      this.queue.enqueueBeside(stream, records, call, work, () => pool?.freedBeside(byteLength))
    } catch (error) {
      pool?.notFreedBeside(byteLength)
      throw error
    }
    this.takeOver(after)
  }

  allocatePinned(byteLength: number, context: ContextHandle): ReturnType<MemoryDriver['allocatePinned']> {
    const device = this.registry.liveContextDevice(context, 'cuMemHostAlloc')
    this.machine.scheduler.tick()
    if (this.#pinned + byteLength > pinnedMemory()) throw outOfPinnedMemory(this.#pinned)
    const bytes = orOutOfMemory('cuMemHostAlloc', () => new ArrayBuffer(byteLength))
    const block = new PinnedMemory(this.#address(rounded(byteLength), 'host'), byteLength, device, bytes)
    this.#insert(block)
    this.#pinned += byteLength
    return { pointer: block.pointer, bytes }
  }

  registerPinned(bytes: Uint8Array, context: ContextHandle): Pointer {
    const call = 'cuMemHostRegister'
    const device = this.registry.liveContextDevice(context, call)
    this.machine.scheduler.tick()
    for (const block of this.#blocks) {
      if (!block.overlaps(bytes)) continue
      // Memory that was allocated page-locked is refused with another code than memory that was registered.
      if (!(block instanceof RegisteredMemory)) throw cudaError(call, CUresult.INVALID_VALUE)
      this.machine.look([block.end])
      if (block.end === undefined || !block.end.over) throw cudaError(call, CUresult.HOST_MEMORY_ALREADY_REGISTERED)
    }
    // The memory of an ArrayBuffer begins at a multiple of 16, and of no more.
    const skipped = (bytes.byteOffset + HOST_ALIGNMENT) % GRANULE
    const address = this.#address(rounded(skipped + bytes.length), 'host')
    const block = new RegisteredMemory((address + skipped) as Pointer, bytes, device)
    this.#insert(block)
    // The program reads its array without a call.
    this.viewed(block.pointer, block.byteLength)
    return block.pointer
  }

  closePinned(pointer: Pointer, bytes: ArrayBuffer | undefined, after: readonly InternalEvent[]): void {
    const block = this.blockAt(pointer, 1)
    if (block instanceof RegisteredMemory) block.end = this.#freeBlockAfter(block, after)
    if (!(block instanceof PinnedMemory)) return
    block.detach(bytes)
    this.#freeBlockAfter(block, after)
  }

  detachPinned(pointer: Pointer, bytes: ArrayBuffer): void {
    const block = this.blockAt(pointer, 1)
    if (block instanceof PinnedMemory) block.detach(bytes)
  }

  /** Does nothing, as every simulated device reaches all memory. */
  enablePeerAccess(): boolean {
    return true
  }

  canAccessPeer(): boolean {
    return true
  }

  copy(copied: CopiedBytes & Partial<Pick<QueuedCopy, 'reads'>>, stream: StreamHandle): void {
    const call = copied.rows === undefined ? 'cuMemcpyAsync' : 'cuMemcpy3DAsync'
    const { nanoseconds, work } = this.copyWork(copied, call)
    const isCaptured = this.registry.peekStream(stream)?.capture !== undefined
    if (copied.route === 'withinHost' && (copied.rows !== undefined || isCaptured))
      this.queue.enqueueHostFunction(stream, 'cuLaunchHostFunc', HOST_COPY, work)
    else this.queue.enqueue(stream, SimOperationKind.COPY, nanoseconds, call, work)
  }

  /** The work of a copy, and the virtual nanoseconds that it takes. */
  copyWork(
    { destination, source, byteLength, rows, reads }: CopiedBytes & Partial<Pick<QueuedCopy, 'reads'>>,
    call: string,
  ): Queued {
    const to = this.#live(destination, rows === undefined ? byteLength : extentOf(rows.to), call)
    const from = this.#live(source, rows === undefined ? byteLength : extentOf(rows.from), call)
    const { engine, bandwidth } = route(to, from)
    const work = orOutOfMemory(call, () => {
      if (rows === undefined)
        return Object.assign(new CopyEffect(to, destination, from, source, byteLength, engine), { reads })
      const there = { block: to, pointer: destination, rows: rows.to }
      return new RowsEffect(there, { block: from, pointer: source, rows: rows.from }, engine)
    })
    return { nanoseconds: Math.max(SHORTEST, byteLength / bandwidth), work }
  }

  fill(work: QueuedFill): void {
    const call = (work.rows === undefined ? FILL_CALLS : ROW_FILL_CALLS)[work.width]
    const { nanoseconds, work: effect } = this.fillWork(work, call)
    this.queue.enqueue(work.stream, SimOperationKind.COPY, nanoseconds, call, effect)
  }

  /** The work of a fill, and the virtual nanoseconds that it takes. */
  fillWork(fill: FillWork, call: string): Queued {
    const block = this.#live(fill.pointer, extentOfFill(fill), call)
    const work = orOutOfMemory(call, () => new FillEffect(block, fill))
    return { nanoseconds: Math.max(SHORTEST, (fill.count * fill.width) / DEVICE_BANDWIDTH), work }
  }

  waitForValue({ word, compare, stream }: QueuedValueWait): void {
    const work = new WaitValueEffect(this.#wordBlock(word), word, compare)
    const operation = this.queue.enqueue(stream, SimOperationKind.LATCH, 0, BATCH, work)
    operation.site = shortCallSite()
    this.machine.passValues()
  }

  writeValue({ word, stream }: QueuedValueWrite): void {
    const work = new WriteValueEffect(this.#wordBlock(word), word)
    this.queue.enqueue(stream, SimOperationKind.COPY, SHORTEST, BATCH, work)
  }

  /** The block of a word that is written or waited for. CUDA accepts no memory of a pool for this. */
  #wordBlock({ pointer, bits }: MemoryValue): MemoryBlock {
    const block = this.#live(pointer as Pointer, bits / 8, BATCH)
    if (block instanceof DeviceMemory && block.pool !== undefined) throw cudaError(BATCH, CUresult.INVALID_VALUE)
    return block
  }

  placeOf(pointer: Pointer, byteLength: number): MemoryPlace {
    const block = this.blockAt(pointer, byteLength)
    if (block === undefined || block.freed) throw cudaError('cuPointerGetAttribute', CUresult.INVALID_VALUE)
    return { device: block.device.ordinal, isOfHost: !(block instanceof DeviceMemory) }
  }

  viewed(pointer: Pointer, byteLength: number): void {
    this.machine.scheduler.look({ operations: undefined, memory: { pointer, byteLength, writes: true } })
  }

  newArrayBuffer(byteLength: number): ArrayBuffer {
    return new ArrayBuffer(byteLength)
  }

  copyBytes(to: Uint8Array, from: Uint8Array): void {
    to.set(from)
  }

  isDone(event: EventHandle): boolean {
    this.machine.scheduler.tick()
    const found = this.registry.peekEvent(event)
    if (!this.machine.look([found?.record], new Slice())) return false
    return found !== undefined && found.device.fault === 0 && (found.record === undefined || found.record.over)
  }

  /** The memory in which a pointer lies, for other threads. */
  share(pointer: Pointer): { readonly begin: number; readonly bytes: ArrayBufferLike; readonly isOfPool: boolean } {
    const block = this.#ofDevice(pointer)
    const bytes = block.sharedBytes ?? block.share(newSharedMemory(block.byteLength))
    if (!isSharedMemory(bytes)) throw sharedOtherwise('processes', 'threads')
    return { begin: block.pointer, bytes, isOfPool: block.pool !== undefined }
  }

  /** Adds memory that another thread has shared. */
  receive(pointer: Pointer, bytes: ArrayBufferLike, device: SimDevice, isOfPool: boolean): void {
    const known = this.blockAt(pointer, 1)
    if (known instanceof DeviceMemory && known.sharedBytes === bytes) return
    this.#insert(
      new DeviceMemory(pointer, bytes.byteLength, device, isOfPool ? device.pools.current : undefined, bytes),
    )
  }

  /** The memory in which a pointer lies, for other processes. */
  exportMemory(pointer: Pointer): ExportedMemory {
    const block = this.#ofDevice(pointer)
    const byteOffset = pointer - block.pointer
    const known = this.#files.get(block)
    if (known !== undefined) return { handle: known.handle, byteOffset }
    if (block.pool !== undefined) throw notShareable(pointer)
    if (block.sharedBytes !== undefined) throw sharedOtherwise('threads', 'processes')
    const file = orOutOfMemory('cuIpcGetMemHandle', () => MemoryFile.make(block.byteLength, Contents.MEMORY))
    block.share(file.buffer)
    this.#keepFile(block, file)
    return { handle: file.handle, byteOffset }
  }

  /** Opens memory of another process. It is mapped once, however often it is opened. */
  importMemory(handle: Uint8Array, context: ContextHandle): ImportedMemory {
    if (MemoryFile.contentsOf(handle) === Contents.EVENT) throw eventIsNoMemory()
    if (MemoryFile.isOwn(handle)) throw ownMemory()
    const device = this.registry.liveContextDevice(context, 'cuIpcOpenMemHandle')
    const name = handle.join()
    const known = this.#imported.get(name)
    const opened = known ?? { block: this.#mapFile(handle, device), users: 0, after: [] }
    this.#imported.set(name, opened)
    opened.users += 1
    const { pointer, byteLength } = opened.block
    const close = (after: readonly InternalEvent[]): void => {
      opened.users -= 1
      opened.after.push(...after)
      if (opened.users > 0) return
      this.#imported.delete(name)
      this.#freeBlockAfter(opened.block, opened.after)
    }
    return { pointer, byteLength, close }
  }

  #mapFile(handle: Uint8Array, device: SimDevice): DeviceMemory {
    const file = orOutOfMemory('cuIpcOpenMemHandle', () => MemoryFile.open(handle, Contents.MEMORY))
    if (file === undefined) throw notOpened()
    const pointer = this.#address(rounded(file.byteLength))
    const block = new DeviceMemory(pointer, file.byteLength, device, undefined, file.buffer)
    this.#insert(block)
    this.#keepFile(block, file)
    return block
  }

  #keepFile(block: DeviceMemory, file: MemoryFile): void {
    this.#files.set(block, file)
    block.whenGone = () => {
      this.#files.delete(block)
      file.close()
    }
  }

  #ofDevice(pointer: Pointer): DeviceMemory {
    const block = this.blockAt(pointer, 1)
    if (block instanceof DeviceMemory) return block
    const what = `The memory at 0x${pointer.toString(16)} is the host's`
    throw stateError('ERR_UNSUPPORTED', `${what}: on the simulator threads and processes share memory of a device`)
  }

  /** Forgets memory that the thread which shared it has closed. */
  forget(pointer: Pointer, bytes: ArrayBufferLike): void {
    const at = this.#indexAfter(pointer) - 1
    const block = this.#blocks[at]
    // Other memory may have the address since.
    if (!(block instanceof DeviceMemory) || block.sharedBytes !== bytes) return
    block.free()
    this.#blocks.splice(at, 1)
  }

  /** Makes sure that there are bytes at a pointer, and returns what must be kept reachable while they are in use. */
  prepareAt(pointer: Pointer, byteLength: number, call: string): unknown {
    return orOutOfMemory(call, () => this.#live(pointer, byteLength, call).prepare(pointer, byteLength))
  }

  /** Notes that a host implementation wrote to this memory. */
  writtenAt(pointer: Pointer, byteLength: number): void {
    this.blockAt(pointer, byteLength)?.wrote(pointer, byteLength)
  }

  /** The object that must be kept reachable while work that uses the memory there is queued. */
  heldAt(pointer: Pointer): unknown {
    return this.blockAt(pointer, 1)?.held
  }

  /** The range that the block at a pointer has in its buffer. */
  spanAt(pointer: Pointer, call: string): { readonly begin: number; readonly end: number } {
    const { beginInBuffer, byteLength } = this.#live(pointer, 1, call)
    return { begin: beginInBuffer, end: beginInBuffer + byteLength }
  }

  /** The memory of compiled kernels: blocks are brought there when a kernel uses them. */
  kernelMemory(): Ptx.DeviceMemory {
    if (this.#kernelMemory === undefined) {
      this.#kernelMemory = new (loadPtx().DeviceMemory)()
      for (const block of this.#blocks) block.showTo(this.#kernelMemory)
    }
    return this.#kernelMemory
  }

  /** Starts recording, since kernels whose launches are observed will run: what has been used until now counts as written. */
  recordKernels(): void {
    if (this.#isRecorded) return
    this.#isRecorded = true
    this.kernelMemory().record()
    for (const block of this.#blocks) block.countAsWritten()
  }

  /** Runs `effect` once all work that is queued on a device now has been done. */
  whenDone(device: SimDevice, what: string, effect: () => void): void {
    this.machine.marker(device.nullStream, device.tails(), new LaterEffect(what, effect))
  }

  /** Adds a variable of a module, whose bytes the module provides. */
  allocateVariable(byteLength: number, device: SimDevice): { readonly pointer: Pointer; readonly free: () => void } {
    const block = new VariableMemory(this.#address(rounded(byteLength)), byteLength, device, this.kernelMemory())
    this.#insert(block)
    const free = (): void => {
      block.free()
      this.#giveBack(block)
    }
    return { pointer: block.pointer, free }
  }

  /** The present bytes at a pointer, for host implementations of kernels. */
  bytesAt(pointer: Pointer, byteLength: number, call: string): Uint8Array {
    return this.#live(pointer, byteLength, call).read(pointer, byteLength)
  }

  /** The number of bytes from an address to the end of the memory there. */
  bytesFrom(pointer: Pointer, call: string): number {
    const block = this.#live(pointer, 1, call)
    return block.pointer + block.byteLength - pointer
  }

  /** The number of bytes as `bytesFrom` returns it; 0 if there is no memory. */
  bytesBehind(pointer: Pointer): number {
    const block = this.blockAt(pointer, 1)
    return block === undefined || block.freed ? 0 : block.pointer + block.byteLength - pointer
  }

  #newBlock(device: SimDevice, byteLength: number, pool?: SimPool): DeviceMemory {
    const block = new DeviceMemory(this.#address(rounded(byteLength)), byteLength, device, pool)
    this.#insert(block)
    return block
  }

  #freeBlockAfter(block: MemoryBlock, after: readonly InternalEvent[], size = 0): SimOperation {
    const records = after.map(({ event }) => this.registry.peekEvent(event)?.record)
    const free = this.machine.marker(block.device.nullStream, records, new FreeEffect(block, this.#giveBack))
    block.device.pools.apart -= size
    this.takeOver(after)
    return free
  }

  /** Gives back events that were taken over, whose records nothing waits for any more. */
  takeOver(events: readonly InternalEvent[]): void {
    for (const { event, release } of events) {
      if (release === undefined) this.registry.destroyEvent(event)
      else release()
    }
  }

  #live(pointer: Pointer, byteLength: number, call: string): MemoryBlock {
    const block = this.blockAt(pointer, byteLength)
    if (block === undefined) throw cudaError(call, CUresult.INVALID_VALUE)
    return block
  }

  /** The block in which so many bytes lie. */
  blockAt(pointer: number, byteLength: number): MemoryBlock | undefined {
    const block = this.#blocks[this.#indexAfter(pointer) - 1]
    return block !== undefined && pointer + byteLength <= block.pointer + block.byteLength ? block : undefined
  }

  /** The number of blocks that begin at or before an address. */
  #indexAfter(address: number): number {
    return upperBound(this.#blocks.length, (at) => this.#blocks[at]?.pointer ?? 0, address)
  }

  #insert(block: MemoryBlock): void {
    const at = this.#indexAfter(beginOf(block) - 1)
    // A block that was there before began within the same granule.
    const replaces = this.#indexAfter(beginOf(block) + GRANULE - 1) > at
    this.#blocks.splice(at, replaces ? 1 : 0, block)
    if (this.#kernelMemory !== undefined) block.showTo(this.#kernelMemory)
  }

  #address(size: number, kind: 'device' | 'host' = 'device'): Pointer {
    // An exploration needs the same addresses in all orders, whether something is freed by then or not.
    const free = this.machine.scheduler.explores ? undefined : this.#freeAddresses[kind].get(size)?.shift()
    if (free !== undefined) return free as Pointer
    const slab = this.#slabs[kind]
    if (slab.next + size > slab.end) {
      const length = Math.max(SLAB, size)
      slab.next = this.takeAddresses(length)
      slab.end = slab.next + length
    }
    const address = slab.next
    // A gap behind each block makes sure that a kernel that goes beyond its end is noticed.
    slab.next += size + GRANULE
    return address as Pointer
  }

  readonly #giveBack = (block: MemoryBlock): void => {
    if (block instanceof PinnedMemory) this.#pinned -= block.byteLength
    const begin = beginOf(block)
    const size = rounded(block.pointer - begin + block.byteLength)
    const addresses =
      this.#freeAddresses[block instanceof DeviceMemory || block instanceof VariableMemory ? 'device' : 'host']
    const free = addresses.get(size) ?? new Queue()
    addresses.set(size, free)
    free.push(begin)
  }
}

const rounded = (byteLength: number): number => Math.ceil(byteLength / GRANULE) * GRANULE
/** The address at which the granules of a block begin. */
const beginOf = ({ pointer }: MemoryBlock): number => Math.floor(pointer / GRANULE) * GRANULE

/** The engine that a copy needs, and its bandwidth. Between devices the sending one copies. */
function route(
  to: MemoryBlock,
  from: MemoryBlock,
): { readonly engine: number | undefined; readonly bandwidth: number } {
  const toDevice = to instanceof DeviceMemory
  if (from instanceof DeviceMemory) {
    if (toDevice && to.device === from.device) return { engine: undefined, bandwidth: DEVICE_BANDWIDTH }
    return { engine: from.device.engineToHost, bandwidth: HOST_BANDWIDTH }
  }
  return { engine: toDevice ? to.device.engineToDevice : undefined, bandwidth: HOST_BANDWIDTH }
}

export const sharedOtherwise = (been: string, wanted: string): Error =>
  stateError(
    'ERR_UNSUPPORTED',
    `On the simulator an object is shared with threads or with processes. This one has been shared with ${been}: make another for ${wanted}`,
  )

function outOfPinnedMemory(used: number): Error {
  const limit = `A simulation has a quarter of this machine's memory to pin, ${pinnedMemory()} bytes`
  const error = cudaError('cuMemHostAlloc', CUresult.OUT_OF_MEMORY)
  return explained(error, `${limit}, and ${used} of them are in use. Close what is no longer used, and try again`)
}

/** Runs `fn`. The simulator's memory is this process's: if that has no more, the device is out of memory. */
function orOutOfMemory<R>(call: string, fn: () => R): R {
  try {
    return fn()
  } catch (error) {
    if (error instanceof RangeError) throw cudaError(call, CUresult.OUT_OF_MEMORY)
    throw error
  }
}
