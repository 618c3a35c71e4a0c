/** Memory that another library lent, as a piece of memory on which buffers stand. */
import type { Device } from '../../device.js'
import type { Driver, EventHandle, OwnEvent, Pointer } from '../../driver/driver.js'
import { Allocation } from '../../memory/allocations.js'
import type { StreamCore } from '../../streams/stream-core.js'
import { whenDone } from './when-done.js'

/** Its owner is told when all work is done that was queued with it here. */
export class LentAllocation extends Allocation {
  override readonly ready: EventHandle | undefined

  constructor(
    device: Device,
    driver: Driver,
    pointer: Pointer,
    byteLength: number,
    override readonly isOfHost: boolean,
    /** Recorded on the stream that its contents are there for; undefined where nothing need be waited for. */
    private readonly there: (OwnEvent & { readonly serial: number }) | undefined,
    private readonly handBack: () => void,
  ) {
    super(device, driver, pointer, byteLength)
    this.ready = there?.event
  }

  override admit(use: StreamCore): boolean {
    return this.isOfHost || super.admit(use)
  }

  override beforeUse(use: StreamCore): void {
    const { there } = this
    if (there !== undefined && use.serial !== there.serial && !this.uses.has(use.serial)) {
      use.driver.streamWaitEvent(use.handle, there.event, 0)
    }
    super.beforeUse(use)
  }

  override makeReady(use: StreamCore): void {
    const { there } = this
    if (there !== undefined && use.serial !== there.serial) use.driver.streamWaitEvent(use.handle, there.event, 0)
    super.makeReady(use)
  }

  protected override giveBack(): void {
    const { driver, there, handBack } = this
    this.uses.handOver((events) => whenDone(driver, there === undefined ? events : [...events, there], handBack))
  }
}
