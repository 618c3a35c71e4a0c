/** Pieces of memory, on which buffers and their slices stand: the streams that used one, and how it is given back. */

import { NativeResource } from '../base/finalization.js'
import { contextOf, type Device, driverOf } from '../device.js'
import type { Driver, EventHandle, ImportedMemory, OwnEvent, Pointer } from '../driver/driver.js'
import type { StreamCore } from '../streams/stream-core.js'
import { type AllocationStream, allocationStreamOf, unlessLost } from './allocation-stream.js'
import { type Holder, holderOf } from './holders.js'
import { giveBackUnowned, isFinding } from './left-resources.js'
import type { PoolCore } from './memory-pool.js'
import { outOfMemory } from './out-of-memory.js'
import { hiddenStream, ownEvent, StreamUses } from './stream-uses.js'

export abstract class Allocation extends NativeResource {
  declare readonly device: Device
  declare readonly driver: Driver
  declare readonly pointer: Pointer
  declare readonly byteLength: number
  declare protected readonly uses: StreamUses
  /** Calls in which code of the program queues work with it: closed in one of them, it is given back when they are over. */
  declare users: number
  /** The owner of foreign memory. The garbage collector must be able to collect one that knows the buffer. */
  declare owner: WeakRef<object> | undefined
  /** Is the memory the host's, which every device reaches? */
  declare readonly isOfHost: boolean
  /** Are uses of the memory tracked, so that it is not given back before they are done? */
  declare readonly tracks: boolean
  /** Done once the memory can be used; undefined where it can be used already. */
  declare readonly ready: EventHandle | undefined

  /** Assigned, not defined, as those of `NativeResource`. */
  constructor(device: Device, driver: Driver, pointer: Pointer, byteLength: number) {
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
    this.ready = undefined
  }

  override get staysWhereRefused(): boolean {
    return true
  }

  /** Is the memory this stream's own, so that its uses there need not be tracked? */
  ownedBy(_use: StreamCore): boolean {
    return false
  }

  /** Lets the stream's device reach the memory. False where the device cannot. */
  admit({ ordinal }: Pick<StreamCore, 'ordinal'>): boolean {
    return ordinal === this.device.ordinal || this.driver.memory.admit(this.pointer, this.device.ordinal, ordinal)
  }

  /** To be called before work that uses the memory is queued on a stream that does not capture. */
  beforeUse(use: StreamCore): void {
    this.uses.prepare(use, this.device)
  }

  /** To be called after. */
  afterUse(use: StreamCore): void {
    this.uses.record(use)
  }

  /** Work that was queued on the stream before has used the memory. */
  usedOn(use: StreamCore): void {
    this.uses.prepare(use, this.device)
    this.uses.record(use)
  }

  /** Lets the stream's later work come after all work that used the memory. */
  comeAfterUses(use: StreamCore): void {
    this.uses.comeBefore(use)
  }

  /** The same, and after the work of the stream that the memory is allocated on, whose uses are not tracked. */
  makeReady(use: StreamCore): void {
    this.comeAfterUses(use)
  }

  /** Takes over an event behind uses by other code: the memory is not given back before it is done. */
  usedByOthers(own: OwnEvent): void {
    this.uses.add(own, this.driver, this.device)
  }

  /** Is all the work done that used the memory? The question invalidates no capture. */
  get idle(): boolean {
    return this.uses.areDone(this.driver)
  }

  override destroy(): void {
    try {
      unlessLost(() => this.giveBack())
    } catch (error) {
      if (isFinding(error)) this.gone = true
      throw error
    }
  }

  protected override destroyUnowned(): void {
    giveBackUnowned(this.driver, () => this.destroy())
  }

  protected abstract giveBack(): void
}

/** Memory from `cuMemAllocAsync`: there and gone in stream order. */
export class DeviceAllocation extends Allocation {
  /** Undefined where the stream may be gone when the memory is freed: another library owns it. */
  readonly #home: AllocationStream | undefined
  readonly #homeSerial: number
  /** Other streams cannot use the memory before this event is done. */
  readonly #allocated: OwnEvent
  override readonly ready: EventHandle

  readonly #holder: Holder
  readonly #pool: PoolCore | undefined

  /** `pool`: undefined for the device's own. */
  constructor(device: Device, stream: StreamCore, byteLength: number, pool?: PoolCore) {
    stream.checkOpen()
    const { driver, handle, context, serial } = stream
    const allocated = ownEvent(stream)
    let pointer: Pointer
    try {
      pointer = driver.memory.allocate(byteLength, handle, context, pool?.handle)
    } catch (error) {
      driver.eventRecycle(context, allocated.event)
      throw outOfMemory(error, driver, { device, byteLength, pool })
    }
    super(device, driver, pointer, byteLength)
    this.#home = stream.isExternal ? undefined : allocationStreamOf(stream)
    this.#homeSerial = serial
    this.#allocated = allocated
    this.ready = allocated.event
    try {
      driver.eventRecordOwn(allocated.event, handle)
    } catch (error) {
      this.#takeBack(stream)
      driver.eventRecycle(context, allocated.event)
      throw error
    }
    this.#home?.allocated()
    this.#holder = this.#home === undefined ? holderOf(stream) : this.#home.holder
    this.#holder.add(pointer, byteLength)
    this.#pool = pool
    pool?.allocated()
  }

  /** Frees what could not be made usable. The caller throws why. */
  #takeBack(stream: StreamCore): void {
    const { driver, device, pointer } = this
    try {
      giveBackUnowned(driver, () => {
        const { handle } = stream.closed ? hiddenStream(device) : stream
        unlessLost(() => driver.memory.free(pointer, handle))
      })
    } catch {
      // It is tried again later.
    }
  }

  override ownedBy({ serial }: StreamCore): boolean {
    return this.#home !== undefined && serial === this.#homeSerial
  }

  override beforeUse(use: StreamCore): void {
    const { driver, handle, serial } = use
    if (this.ownedBy(use)) return
    if (serial !== this.#homeSerial && !this.uses.has(serial)) {
      driver.streamWaitEvent(handle, this.#allocated.event, 0)
    }
    super.beforeUse(use)
  }

  override afterUse(use: StreamCore): void {
    if (!this.ownedBy(use)) super.afterUse(use)
  }

  override makeReady(use: StreamCore): void {
    if (use.serial !== this.#homeSerial) use.driver.streamWaitEvent(use.handle, this.#allocated.event, 0)
    super.makeReady(use)
    this.#home?.comeBefore(use)
  }

  override usedOn(use: StreamCore): void {
    if (!this.ownedBy(use)) super.usedOn(use)
  }

  protected override giveBack(): void {
    if (this.#home === undefined) this.#free(hiddenStream(this.device))
    else this.#home.free((last) => this.#free(last))
  }

  #free(last: StreamCore): void {
    const { driver, handle, serial } = last
    if (serial !== this.#homeSerial) driver.streamWaitEvent(handle, this.#allocated.event, 0)
    this.uses.comeBefore(last)
    let finding: unknown
    try {
      driver.memory.free(this.pointer, handle)
    } catch (error) {
      if (!isFinding(error)) throw error
      finding = error
    }
    this.#holder.remove(this.pointer, this.byteLength)
    driver.eventRecycle(this.#allocated.context, this.#allocated.event)
    this.uses.recycle(driver)
    this.#pool?.freed()
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
  override ownedBy(use: StreamCore): boolean {
    return use.ordinal === this.device.ordinal
  }
  override beforeUse(_use: StreamCore): void {}
  override afterUse(_use: StreamCore): void {}
  override usedOn(_use: StreamCore): void {}
  protected override giveBack(): void {}
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
  ) {
    super(device, driverOf(device), pointer, byteLength, isOfHost)
  }

  override ownedBy(use: StreamCore): boolean {
    return super.ownedBy(use) && (this.ready === undefined || this.#waited.has(use.serial))
  }

  override beforeUse({ driver, handle, serial }: StreamCore): void {
    if (this.ready === undefined || this.#waited.has(serial)) return
    driver.streamWaitEvent(handle, this.ready, 0)
    this.#waited.add(serial)
  }
}

/** Memory from `cuMemAlloc`, which other processes may see. */
export class InterprocessAllocation extends Allocation {
  constructor(device: Device, byteLength: number) {
    const driver = driverOf(device)
    super(device, driver, driver.sharing.allocate(byteLength, contextOf(device)), byteLength)
  }

  protected override giveBack(): void {
    this.uses.handOver((events) => this.driver.sharing.free(this.pointer, events))
  }
}

/** Memory that another process owns. */
export class ImportedAllocation extends Allocation {
  readonly #imported: ImportedMemory

  constructor(device: Device, imported: ImportedMemory, byteOffset: number, byteLength: number) {
    super(device, driverOf(device), (imported.pointer + byteOffset) as Pointer, byteLength)
    this.#imported = imported
  }

  protected override giveBack(): void {
    this.uses.handOver((events) => this.#imported.close(events))
  }
}

/** Page-locked memory of the host. */
export class PinnedAllocation extends Allocation {
  /** Set at the close: the ArrayBuffer of its views. */
  views: ArrayBuffer | undefined

  override readonly isOfHost = true

  constructor(
    device: Device,
    driver: Driver,
    pointer: Pointer,
    byteLength: number,
    /** Are its views to be emptied at the close? Not where the memory is the program's own. */
    readonly emptiesViews = true,
  ) {
    super(device, driver, pointer, byteLength)
  }

  /** Every device reaches it. */
  override admit(): boolean {
    return true
  }

  protected override left(): void {
    const { views } = this
    this.views = undefined
    if (views !== undefined) this.driver.memory.detachPinned(this.pointer, views)
  }

  protected override giveBack(): void {
    const { views } = this
    this.views = undefined
    this.uses.handOver((events) => this.driver.memory.closePinned(this.pointer, views, events))
  }
}
