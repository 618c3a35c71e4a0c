/** A simulated machine belongs to one thread of one process: nothing of it can be seen from outside. */
import { stateError } from '../../errors.js'
import type { ContextHandle } from '../driver.js'
import type { OwnEvent, Pointer } from '../memory-driver.js'
import type { ExportedMemory, ImportedMemory, SharingDriver } from '../sharing-driver.js'
import type { SimMemory } from './sim-memory.js'

export class SimSharing implements SharingDriver {
  readonly #memory: SimMemory
  readonly #marks = new Map<number, number>()
  #nextMark = 8

  constructor(memory: SimMemory) {
    this.#memory = memory
  }

  allocate(byteLength: number, context: ContextHandle): Pointer {
    return this.#memory.allocateAtOnce(byteLength, context)
  }

  free(pointer: Pointer, after: readonly OwnEvent[]): void {
    this.#memory.freeAfter(pointer, after)
  }

  exportMemory(): ExportedMemory {
    throw alone('share memory with')
  }

  importMemory(): ImportedMemory {
    throw alone('take memory from')
  }

  raiseMark(key: number): number {
    const mark = this.#nextMark
    this.#nextMark += 8
    this.#marks.set(mark, key)
    return mark
  }

  lowerMark(mark: number): void {
    this.#marks.delete(mark)
  }

  markStands(mark: number, key: number): boolean {
    return this.#marks.get(mark) === key
  }
}

const alone = (what: string): Error =>
  stateError('ERR_UNSUPPORTED', `The simulator has no other process to ${what}; use the cuda driver`)
