/** A module, a graph or an instance of a graph as the rest of the library works on it: a handle of the driver's. */
import { stateError } from '../base/errors.js'
import { NativeResource } from '../base/finalization.js'
import { nextSerial } from '../base/identity.js'
import { contextOf, type Device, driverOf } from '../device.js'
import type { ContextHandle, Driver } from '../driver/driver.js'

export class HandleCore<H extends number> extends NativeResource {
  readonly driver: Driver
  readonly serial = nextSerial()

  constructor(
    readonly name: string,
    readonly device: Device,
    readonly handle: H,
    private readonly end: (core: HandleCore<H>) => void,
    readonly context: ContextHandle = contextOf(device),
  ) {
    super()
    this.driver = driverOf(device)
  }

  checkOpen(): this {
    if (this.gone) throw stateError('ERR_CLOSED', `${this} cannot be used any more`)
    return this
  }

  override destroy(): void {
    this.end(this)
  }

  override toString(): string {
    return `${this.name}(0x${this.handle.toString(16)}, ${this.device}${this.gone ? ', closed' : ''})`
  }
}
