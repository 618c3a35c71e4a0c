/**
 * Memory of the process that the driver has page-locked. To unlock it waits for all work of the device, which may be work that
 * only this thread could let go on: so it happens when all is done that was queued before the close, and no host function is
 * pending.
 */
import { LookAgain } from '../../../base/look-again.js'
import type { AfterWorkDriver } from '../../after-work.js'
import { type ContextHandle, type Driver, EventFlag, type OwnEvent, type Pointer } from '../../driver.js'
import type { HostFunctions } from '../host-functions/host-functions.js'
import { check } from '../libcuda/library.js'
import { koffi } from '../libcuda/native.js'
import type { LibcudaParts } from '../libcuda/stream-calls.js'

const PORTABLE_AND_MAPPED = 0x3

export interface RegisteredMemoryParts extends LibcudaParts {
  readonly driver: AfterWorkDriver & Pick<Driver, 'eventCreate' | 'deviceRecordOwn'>
  readonly hostFunctions: Pick<HostFunctions, 'exclusivelyNow'>
}

interface Registered {
  readonly context: ContextHandle
  /** Kept reachable as long as it is locked. */
  readonly bytes: Uint8Array
}

interface Closed {
  readonly pointer: Pointer
  readonly context: ContextHandle
  readonly after: OwnEvent[]
  /** The last of them is behind all work of the device. */
  isBehindDevice: boolean
}

export class RegisteredMemory {
  readonly #registered = new Map<Pointer, Registered>()
  #closed: Closed[] = []
  readonly #again = new LookAgain(() => this.#sweep())

  constructor(private readonly parts: RegisteredMemoryParts) {}

  register(bytes: Uint8Array, context: ContextHandle): Pointer {
    // What was closed may be the same memory.
    this.#sweep()
    const { library, contexts, relaxed } = this.parts
    const address = Number(koffi().address(bytes)) as Pointer
    const { length } = bytes
    const result = contexts.within(context, () =>
      relaxed.run(() => library.cuMemHostRegister_v2(address, length, PORTABLE_AND_MAPPED)),
    )
    check('cuMemHostRegister', result)
    this.#registered.set(address, { context, bytes })
    return address
  }

  /** False where this was not registered here. Takes the events over. */
  unregister(pointer: Pointer, after: readonly OwnEvent[]): boolean {
    const registered = this.#registered.get(pointer)
    if (registered === undefined) return false
    this.#closed.push({ pointer, context: registered.context, after: [...after], isBehindDevice: false })
    this.#sweep()
    return true
  }

  #sweep(): void {
    const { library, relaxed, driver, contexts, hostFunctions } = this.parts
    this.#closed = this.#closed.filter((closed) => {
      const { pointer, context, after } = closed
      const unlock = (): number =>
        contexts.within(context, () => relaxed.run(() => library.cuMemHostUnregister(pointer)))
      const isOver = this.#isOver(closed) && hostFunctions.exclusivelyNow(unlock) !== undefined
      if (!isOver) return true
      for (const each of after) driver.eventRecycle(each.context, each.event)
      this.#registered.delete(pointer)
      return false
    })
    if (this.#closed.length > 0) this.#again.later()
  }

  /** Is all work done that was queued before the close, or before a capture was over that hid it? */
  #isOver(closed: Closed): boolean {
    const { driver, contexts } = this.parts
    const { context, after } = closed
    if (!closed.isBehindDevice) {
      const event = driver.eventCreate(context, EventFlag.DISABLE_TIMING, true)
      closed.isBehindDevice = driver.deviceRecordOwn(event, contexts.deviceOf(context))
      if (closed.isBehindDevice) after.push({ context, event })
      else driver.eventRecycle(context, event)
    }
    return closed.isBehindDevice && after.every(({ event }) => driver.memory.isDone(event))
  }
}
