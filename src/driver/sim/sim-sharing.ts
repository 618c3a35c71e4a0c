/** A simulated machine belongs to one thread of one process: nothing of it can be seen from outside. */
import { stateError } from '../../base/errors.js'
import type { ContextHandle, ExportedMemory, ImportedMemory, OwnEvent, Pointer, SharingDriver } from '../driver.js'
import type { SimMemory } from './sim-memory.js'

export class SimSharing implements SharingDriver {
  readonly #memory: SimMemory
  readonly #marks = new Map<number, readonly number[]>()
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

  raiseMark(words: readonly [key: number, ...rest: number[]]): number {
    const mark = this.#nextMark
    this.#nextMark += 8
    this.#marks.set(mark, words)
    return mark
  }

  lowerMark(mark: number): void {
    this.#marks.delete(mark)
  }

  readMark(mark: number, key: number): readonly number[] | undefined {
    const [found, ...rest] = this.#marks.get(mark) ?? []
    return found === key ? rest : undefined
  }
}

const alone = (what: string): Error =>
  stateError('ERR_UNSUPPORTED', `The simulator has no other process to ${what}; use the cuda driver`)
