/** Memory that several processes or threads use: there without a stream, and not known to be used by the others. */
import type {
  ContextHandle,
  ExportedMemory,
  ImportedMemory,
  OwnEvent,
  Pointer,
  SharingDriver,
} from '../driver/driver.js'
import type { SanitizerParts } from './parts.js'

export class SanitizerSharing implements SharingDriver {
  readonly #parts: SanitizerParts

  constructor(parts: SanitizerParts) {
    this.#parts = parts
  }

  allocate(byteLength: number, context: ContextHandle): Pointer {
    const pointer = this.#inner.allocate(byteLength, context)
    this.#parts.detector.regions.allocated(pointer, byteLength, 'device')
    return pointer
  }

  free(pointer: Pointer, after: readonly OwnEvent[]): void {
    this.#parts.detector.closing(pointer, after, () => this.#inner.free(pointer, after))
  }

  exportMemory(pointer: Pointer, context: ContextHandle): ExportedMemory {
    return this.#inner.exportMemory(pointer, context)
  }

  importMemory(handle: Uint8Array, context: ContextHandle): ImportedMemory {
    const imported = this.#inner.importMemory(handle, context)
    const close = (after: readonly OwnEvent[]): void => {
      imported.close(after)
      this.#parts.detector.takenOver(after)
    }
    return { ...imported, close }
  }

  raiseMark(words: readonly [key: number, ...rest: number[]]): number {
    return this.#inner.raiseMark(words)
  }

  lowerMark(mark: number): void {
    this.#inner.lowerMark(mark)
  }

  readMark(mark: number, key: number): readonly number[] | undefined {
    return this.#inner.readMark(mark, key)
  }

  get #inner(): SharingDriver {
    return this.#parts.inner().sharing
  }
}
