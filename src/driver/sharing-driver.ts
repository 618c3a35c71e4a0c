/** The wall's verbs for what several processes, or several threads of one process, use together. */
import type { ContextHandle, Pointer } from './handles.js'
import type { OwnEvent } from './memory-driver.js'

/** CUDA's own handle of a whole allocation, 64 bytes, and where in it the memory lies. */
export interface ExportedMemory {
  readonly handle: Uint8Array
  readonly byteOffset: number
}

/** A whole allocation of another process. */
export interface ImportedMemory {
  readonly pointer: Pointer
  readonly byteLength: number
  /** To be called once: gives it up when the latest records of these events are done, and takes the events over. */
  readonly close: (after: readonly OwnEvent[]) => void
}

export interface SharingDriver {
  /** `cuMemAlloc`: there at once. Spoils no capture. */
  allocate(byteLength: number, context: ContextHandle): Pointer
  /** Gives such memory back once the latest records of these events are done, and takes the events over. */
  free(pointer: Pointer, after: readonly OwnEvent[]): void
  /** `cuIpcGetMemHandle`. Throws ERR_UNSUPPORTED for memory that CUDA cannot share. */
  exportMemory(pointer: Pointer, context: ContextHandle): ExportedMemory
  /** `cuIpcOpenMemHandle`. Throws ERR_INVALID_HANDLE for bytes that are no memory of another process. */
  importMemory(handle: Uint8Array, context: ContextHandle): ImportedMemory

  /** Puts up a mark that every thread of the process sees: its key, then at most seven words. Returns its address. */
  raiseMark(words: readonly [key: number, ...rest: number[]]): number
  lowerMark(mark: number): void
  /** The words behind the key of a mark; undefined where none with this key stands. Any address may be asked about. */
  readMark(mark: number, key: number): readonly number[] | undefined
}
