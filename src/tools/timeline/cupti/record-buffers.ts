/**
 * Memory for CUPTI's records. CUPTI asks for it and hands it back on any thread that uses CUDA and on one of its own, also while
 * JavaScript waits for that thread, so both functions are C (native/libraries.c).
 */
import { own } from '../../../foundation/native/c-functions.js'
import { layer } from '../../../foundation/native/layer.js'
import { NativeMemory } from '../../../foundation/native/native-memory.js'

/** In front of the records: the buffer that was handed back next, and how many bytes are records. */
const HEAD_BYTES = 16

export interface RecordBuffer {
  readonly address: number
  readonly length: number
}

/** The process has one list of them, as CUPTI has one client in a process. */
export class RecordBuffers {
  /** A CUpti_BuffersCallbackRequestFunc and a CUpti_BuffersCallbackCompleteFunc. */
  readonly requested: number = layer().functions['recordsRequested'] ?? 0
  readonly completed: number = layer().functions['recordsCompleted'] ?? 0

  constructor(private readonly bufferBytes: number) {}

  /** Lets so many more buffers be asked for. */
  allow(count: number): void {
    own().allowRecords(count, this.bufferBytes)
  }

  /** Reads what was handed back since the last time, oldest first, and lets go of it. */
  drain(read: (buffer: RecordBuffer) => void): void {
    let next = own().takeRecords()
    while (next !== 0) {
      const address = next
      const head = new NativeMemory(HEAD_BYTES, address)
      next = head.pointerAt(0)
      read({ address: address + HEAD_BYTES, length: head.pointerAt(8) })
      own().release(address)
    }
  }
}
