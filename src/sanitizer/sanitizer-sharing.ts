/** Memory that several processes or threads use: there without a stream, and not known to be used by the others. */
import type {
  ContextHandle,
  ExportedMemory,
  ImportedMemory,
  OwnEvent,
  Pointer,
  SharingDriver,
} from '../driver/driver.js'
import type { DriverWrapper } from '../driver/driver-wrapper.js'
import type { Detector } from './detector.js'

export class SanitizerSharing implements SharingDriver {
  constructor(
    private readonly wrapper: DriverWrapper,
    private readonly detector: Detector,
  ) {}

  get #inner(): SharingDriver {
    return this.wrapper.inner.sharing
  }

  allocate(byteLength: number, context: ContextHandle): Pointer {
    const pointer = this.#inner.allocate(byteLength, context)
    this.detector.allocatedApart(pointer, byteLength, 'device')
    return pointer
  }

  free(pointer: Pointer, after: readonly OwnEvent[]): void {
    this.detector.closing(pointer, after, () => this.#inner.free(pointer, after))
  }

  exportMemory(pointer: Pointer, context: ContextHandle): ExportedMemory {
    return this.#inner.exportMemory(pointer, context)
  }

  importMemory(handle: Uint8Array, context: ContextHandle): ImportedMemory {
    const imported = this.#inner.importMemory(handle, context)
    const close = (after: readonly OwnEvent[]): void => {
      imported.close(after)
      this.detector.takenOver(after)
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

  watchMark(mark: number, key: number): { readonly isOver: boolean } {
    return this.#inner.watchMark(mark, key)
  }
}
