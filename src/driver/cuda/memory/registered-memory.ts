/** Memory of the process that the driver has page-locked, until the GPU is done with it and the devices are idle. */
import { RecheckTimer } from '../../../base/recheck-timer.js'
import { AfterWork, type AfterWorkDriver } from '../../after-work.js'
import type { ContextHandle, OwnEvent, Pointer } from '../../driver.js'
import { layer } from '../libcuda/layer.js'
import { check } from '../libcuda/library.js'
import type { LibcudaParts } from '../libcuda/stream-calls.js'
import type { IdleDevices } from '../waiting/idle-devices.js'

const PORTABLE_AND_MAPPED = 0x3

export interface RegisteredMemoryParts extends LibcudaParts {
  readonly driver: AfterWorkDriver
  readonly idleDevices: Pick<IdleDevices, 'whenIdle' | 'look'>
}

interface Registered {
  readonly context: ContextHandle
  /** Kept reachable as long as it is locked. */
  readonly bytes: Uint8Array
}

export class RegisteredMemory {
  readonly #registered = new Map<Pointer, Registered>()
  readonly #closed: AfterWork<Pointer>
  readonly #again = new RecheckTimer(() => this.#sweep())

  constructor(private readonly parts: RegisteredMemoryParts) {
    this.#closed = new AfterWork(parts.driver, (pointer) => parts.idleDevices.whenIdle(() => this.#unlock(pointer)))
  }

  register(bytes: Uint8Array, context: ContextHandle): Pointer {
    const { library, contexts, relaxed, idleDevices } = this.parts
    // What was closed may be the same memory.
    this.#sweep()
    idleDevices.look()
    const address = layer().addressOf(bytes) as Pointer
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
    if (!this.#registered.has(pointer)) return false
    this.#closed.add(pointer, after)
    this.#sweep()
    return true
  }

  #sweep(): void {
    this.#closed.sweep()
    if (this.#closed.pending) this.#again.later()
  }

  #unlock(pointer: Pointer): void {
    const { library, relaxed, contexts } = this.parts
    const registered = this.#registered.get(pointer)
    if (registered === undefined) return
    contexts.within(registered.context, () => relaxed.run(() => library.cuMemHostUnregister(pointer)))
    this.#registered.delete(pointer)
  }
}
