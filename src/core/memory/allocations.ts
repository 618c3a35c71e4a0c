/** Pieces of memory, to which buffers and their slices refer: the streams that used one, and how it is freed. */
import { NativeResource } from '../../foundation/base/finalization.js'
import { findForgotten, holdMemory, releaseMemory } from '../../foundation/base/heap.js'
import { giveBackEvent } from '../../foundation/driver/after-work.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { InternalEvent } from '../../foundation/driver/event-driver.js'
import type { EventHandle, Pointer } from '../../foundation/driver/handle-types.js'
import type { QueuedAllocation } from '../../foundation/driver/queued-work.js'
import type { ImportedMemory } from '../../foundation/driver/sharing-driver.js'
import { contextOf, type Device, driverOf } from '../device.js'
import type { WrappedLifetime } from '../streams/shared.js'
import type { StreamImpl } from '../streams/stream-impl.js'
import { type AllocationStream, allocationStreamOf, freeUnowned, isFinding, unlessLost } from './allocation-stream.js'
import type { PoolImpl } from './memory-pool.js'
import { allocateOnDevice, type Holder, holderOf, queueAllocation } from './out-of-memory.js'
import { type CommonEvent, internalEvent, internalStream, StreamUses } from './stream-uses.js'

export abstract class Allocation extends NativeResource {
  declare readonly device: Device
  declare readonly driver: Driver
  declare readonly pointer: Pointer
  declare readonly byteLength: number
  declare protected readonly uses: StreamUses
  /** The number of calls in which code of the program queues work with it: it is not freed during one of them. */
  declare users: number
  /** The owner of foreign memory. A weak reference, so that an owner that refers to the buffer can be collected. */
  declare owner: WeakRef<object> | undefined
  /** Is it memory of the host, which every device can access? */
  declare readonly isOfHost: boolean
  /** Are uses of the memory tracked, so that it is not freed before they are done? */
  declare readonly tracks: boolean
  /** The event that is done once the memory can be used; undefined if it can be used already. */
  declare readonly ready: EventHandle | undefined
  /** The serial number of the stream on which that event was recorded, so that its work need not wait for it. */
  declare protected readonly readyOn: number

  /** The fields are assigned and not defined, as those of `NativeResource`. */
  constructor(
    device: Device,
    driver: Driver,
    pointer: Pointer,
    byteLength: number,
    ready?: { readonly event: EventHandle; readonly serial: number },
  ) {
    super()
    this.device = device
    this.driver = driver
    this.pointer = pointer
    this.byteLength = byteLength
    this.uses = new StreamUses()
    this.users = 0
    this.owner = undefined
    this.isOfHost = false
    this.tracks = true
    this.ready = ready?.event
    this.readyOn = ready?.serial ?? 0
  }

  override get outlivesRefusal(): boolean {
    return true
  }

  /** Is it a CUDA array, whose copies are those of rows? */
  get isArray(): boolean {
    return false
  }

  /** Is it in the order of this stream, so that uses by the stream need not be tracked? */
  isOrderedOn(_use: StreamImpl): boolean {
    return false
  }

  /** Gives the stream's device access to the memory. False if the device cannot have it. */
  enablePeerAccess({ ordinal }: Pick<StreamImpl, 'ordinal'>): boolean {
    return (
      ordinal === this.device.ordinal ||
      this.byteLength === 0 ||
      this.driver.memory.enablePeerAccess(this.pointer, this.device.ordinal, ordinal)
    )
  }

  /** Called before work that uses the memory is queued on a stream that does not capture. */
  beforeUse(use: StreamImpl): void {
    if (this.isOrderedOn(use)) return
    if (!this.uses.has(use.serial)) this.waitUntilReady(use)
    this.uses.prepare(use)
  }

  /** Called after that work was queued. */
  afterUse(use: StreamImpl): void {
    if (!this.isOrderedOn(use)) this.uses.record(use)
  }

  /** Work that was queued on the stream earlier uses the memory. */
  usedOn(use: StreamImpl): void {
    if (this.isOrderedOn(use)) return
    this.uses.prepare(use)
    this.uses.record(use)
  }

  /** Orders the stream's later work after all tracked uses of the memory. */
  orderAfterUses(use: StreamImpl): void {
    this.uses.orderBefore(use)
  }

  /** Orders it after all tracked uses, and after the work of the allocation stream, whose uses are not tracked. */
  orderAfterAll(use: StreamImpl): void {
    this.waitUntilReady(use)
    this.orderAfterUses(use)
  }

  /** Need work of this stream not wait for the allocation? */
  isReadyOn({ serial }: StreamImpl): boolean {
    return this.ready === undefined || serial === this.readyOn
  }

  waitUntilReady(use: StreamImpl): void {
    if (this.ready !== undefined && !this.isReadyOn(use)) use.driver.streams.waitEvent(use.handle, this.ready, 0)
  }

  /** Takes over an event behind uses by other code: the memory is not freed before it is done. */
  addForeignUse(own: InternalEvent): void {
    if (this.tracks) this.uses.add(own, this.device)
    else giveBackEvent(this.driver, own)
  }

  /** Is it memory that the garbage collector has to be told of? Simulated and pinned memory are ArrayBuffers, which it knows. */
  protected get isWeighed(): boolean {
    return this.holdsMemory && this.driver.name === 'cuda'
  }

  override collected(): void {
    if (this.isWeighed) findForgotten(this.byteLength)
    super.collected()
  }

  /** Is all work done that used the memory? The query invalidates no capture. */
  get idle(): boolean {
    return this.uses.areDone(this.driver)
  }

  override destroy(): void {
    try {
      unlessLost(() => this.free())
    } catch (error) {
      if (isFinding(error)) this.isDisposed = true
      throw error
    }
  }

  protected override destroyUnowned(): void {
    freeUnowned(this.driver, () => this.destroy())
  }

  protected abstract free(): void
}

/** Memory from `cuMemAllocAsync`, allocated and freed in stream order. */
export class DeviceAllocation extends Allocation {
  /**
   * The stream on which the memory was allocated; undefined if another library owns the stream, which may be gone when the memory
   * is freed.
   */
  readonly #allocationStream: AllocationStream | undefined
  /** The event that was recorded behind the allocation. */
  readonly #allocated: InternalEvent
  readonly #holder: Holder
  readonly #pool: PoolImpl | undefined

  /** Allocates the memory. Without `pool` it comes from the device's own pool. */
  constructor(device: Device, stream: StreamImpl, byteLength: number, pool?: PoolImpl, isZeroed = false) {
    stream.checkOpen()
    const { driver, handle, context, serial } = stream
    const allocated = internalEvent(stream)
    const work: QueuedAllocation = {
      kind: 'allocate',
      stream: handle,
      context,
      byteLength,
      pool: pool?.handle,
      isZeroed,
      pointer: 0 as Pointer,
    }
    try {
      queueAllocation(driver, work, { device, byteLength, pool })
    } catch (error) {
      driver.events.recycle(context, allocated.event)
      throw error
    }
    const { pointer } = work
    super(device, driver, pointer, byteLength, { event: allocated.event, serial })
    this.#allocationStream = stream.isExternal ? undefined : allocationStreamOf(stream)
    this.#allocated = allocated
    try {
      driver.events.recordInternal(allocated.event, handle)
    } catch (error) {
      this.#freeUnusable(stream)
      driver.events.recycle(context, allocated.event)
      throw error
    }
    this.#allocationStream?.allocated()
    this.#holder = this.#allocationStream?.holder ?? holderOf(stream)
    this.#holder.add(pointer, byteLength)
    if (this.isWeighed) holdMemory(byteLength)
    this.#pool = pool
    pool?.pieceAllocated()
  }

  /** Frees memory that could not be made usable. The caller throws the reason. */
  #freeUnusable(stream: StreamImpl): void {
    const { driver, device, pointer } = this
    try {
      freeUnowned(driver, () => {
        const { handle } = stream.closed ? internalStream(device) : stream
        unlessLost(() => driver.work.queue({ kind: 'free', stream: handle, pointer, after: [] }))
      })
    } catch {
      // It is tried again later.
    }
  }

  override get holdsMemory(): boolean {
    return true
  }

  override isOrderedOn({ serial }: StreamImpl): boolean {
    return this.#allocationStream !== undefined && serial === this.readyOn
  }

  override orderAfterAll(use: StreamImpl): void {
    super.orderAfterAll(use)
    this.#allocationStream?.orderBefore(use)
  }

  protected override free(): void {
    if (this.#allocationStream === undefined) this.#freeOn(internalStream(this.device), undefined)
    else this.#allocationStream.free((last, end) => this.#freeOn(last, end))
  }

  /** The stream waits for nothing. What the free comes after besides, the driver waits for. */
  #freeOn(last: StreamImpl, end: CommonEvent | undefined): void {
    const { driver, handle } = last
    const uses = this.uses.notBefore(last)
    // All that is closed comes before the end of its stream, but not before that of a stream of another library.
    const other = this.#allocationStream === undefined ? this.#allocated : end?.share()
    const after = other === undefined ? uses : [...uses, other]
    let finding: unknown
    try {
      driver.work.queue({ kind: 'free', stream: handle, pointer: this.pointer, after })
    } catch (error) {
      if (!isFinding(error)) {
        if (end !== undefined) end.release()
        throw error
      }
      finding = error
    }
    this.#holder.remove(this.pointer, this.byteLength)
    if (this.isWeighed) releaseMemory(this.byteLength)
    if (this.#allocationStream !== undefined) giveBackEvent(driver, this.#allocated)
    this.uses.recycle(driver, uses)
    this.#pool?.pieceFreed()
    if (finding !== undefined) throw finding
  }
}

/** Memory that another library owns. */
export class ForeignAllocation extends Allocation {
  constructor(
    device: Device,
    driver: Driver,
    pointer: Pointer,
    byteLength: number,
    override readonly isOfHost: boolean,
  ) {
    super(device, driver, pointer, byteLength)
  }

  override readonly tracks = false
  override isOrderedOn(use: StreamImpl): boolean {
    return use.ordinal === this.device.ordinal
  }
  override beforeUse(_use: StreamImpl): void {}
  override afterUse(_use: StreamImpl): void {}
  override usedOn(_use: StreamImpl): void {}
  protected override free(): void {}
}

/** Memory that another thread of this process owns. */
export class SharedAllocation extends ForeignAllocation {
  readonly #waited = new Set<number>()

  constructor(
    device: Device,
    pointer: Pointer,
    byteLength: number,
    override readonly ready: EventHandle | undefined,
    isOfHost: boolean,
    private readonly lifetime: WrappedLifetime | undefined,
  ) {
    super(device, driverOf(device), pointer, byteLength, isOfHost)
  }

  protected override free(): void {
    this.lifetime?.leave?.()
  }

  override isOrderedOn(use: StreamImpl): boolean {
    return super.isOrderedOn(use) && (this.ready === undefined || this.#waited.has(use.serial))
  }

  override beforeUse({ driver, handle, serial }: StreamImpl): void {
    if (this.ready === undefined || this.#waited.has(serial)) return
    driver.streams.waitEvent(handle, this.ready, 0)
    this.#waited.add(serial)
  }
}

/** Memory from `cuMemAlloc`, which other processes may see. */
export class InterprocessAllocation extends Allocation {
  constructor(device: Device, byteLength: number) {
    const driver = driverOf(device)
    const wanted = { device, byteLength, pool: undefined }
    const allocate = (): Pointer => driver.sharing.allocate(byteLength, contextOf(device))
    super(device, driver, allocateOnDevice(driver, wanted, allocate), byteLength)
    if (this.isWeighed) holdMemory(byteLength)
  }

  override get holdsMemory(): boolean {
    return true
  }

  protected override free(): void {
    this.uses.handOver(this.driver, (events) => this.driver.sharing.free(this.pointer, events))
    if (this.isWeighed) releaseMemory(this.byteLength)
  }
}

/** Memory that another process owns. */
export class ImportedAllocation extends Allocation {
  readonly #imported: ImportedMemory

  constructor(device: Device, imported: ImportedMemory, byteOffset: number, byteLength: number) {
    super(device, driverOf(device), (imported.pointer + byteOffset) as Pointer, byteLength)
    this.#imported = imported
  }

  protected override free(): void {
    this.uses.handOver(this.driver, (events) => this.#imported.close(events))
  }
}

/** Page-locked memory of the host. */
export class PinnedAllocation extends Allocation {
  /** The ArrayBuffer of its views, set when it is closed. */
  views: ArrayBuffer | undefined

  override readonly isOfHost = true

  constructor(
    device: Device,
    driver: Driver,
    pointer: Pointer,
    byteLength: number,
    /** Are its views detached when it is closed? Not if the program registered its own memory. */
    readonly detachesViews = true,
    /** The serial number of the stream whose uses are not tracked, since who made the memory knows when they are done. */
    private readonly untracked?: number,
  ) {
    super(device, driver, pointer, byteLength)
  }

  override isOrderedOn({ serial }: StreamImpl): boolean {
    return serial === this.untracked
  }

  override get holdsMemory(): boolean {
    return this.detachesViews
  }

  protected override get isWeighed(): boolean {
    return false
  }

  /** Every device can access it. */
  override enablePeerAccess(): boolean {
    return true
  }

  protected override ownerGone(): void {
    const { views } = this
    this.views = undefined
    if (views !== undefined) this.driver.memory.detachPinned(this.pointer, views)
  }

  protected override free(): void {
    const { views } = this
    this.views = undefined
    this.uses.handOver(this.driver, (events) => this.driver.memory.closePinned(this.pointer, views, events))
  }
}
