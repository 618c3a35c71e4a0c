/** A simulated machine belongs to one thread of one process: other threads and processes see nothing of it. */
import { stateError } from '../../base/errors.js'
import type { ContextHandle, ExportedMemory, ImportedMemory, InternalEvent, Pointer, SharingDriver } from '../driver.js'
import type { SimMemory } from './sim-memory.js'

export class SimSharing implements SharingDriver {
  readonly #registrations = new Map<number, readonly number[]>()
  #nextRegistration = 8

  constructor(private readonly memory: SimMemory) {}

  allocate(byteLength: number, context: ContextHandle): Pointer {
    return this.memory.allocateAtOnce(byteLength, context)
  }

  free(pointer: Pointer, after: readonly InternalEvent[]): void {
    this.memory.freeAfter(pointer, after)
  }

  exportMemory(): ExportedMemory {
    throw noOtherProcess('share memory with')
  }

  importMemory(): ImportedMemory {
    throw noOtherProcess('take memory from')
  }

  register(words: readonly [key: number, ...rest: number[]]): number {
    const registration = this.#nextRegistration
    this.#nextRegistration += 8
    this.#registrations.set(registration, words)
    return registration
  }

  unregister(registration: number): void {
    this.#registrations.delete(registration)
  }

  readRegistration(registration: number, key: number): readonly number[] | undefined {
    const [found, ...rest] = this.#registrations.get(registration) ?? []
    return found === key ? rest : undefined
  }

  watchRegistration(): never {
    throw noOtherProcess('share objects with')
  }
}

export const noOtherProcess = (what: string): Error =>
  stateError('ERR_UNSUPPORTED', `The simulator has no other process to ${what}; use the cuda driver`)
