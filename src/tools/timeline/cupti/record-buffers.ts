/**
 * Memory for CUPTI's records. CUPTI asks for it and hands it back on any thread that uses CUDA and on one of its own, also while
 * JavaScript waits for that thread, so both functions are C (native/libraries.c).
 */
import { own } from '../../../foundation/native/c-functions.js'
import { layer } from '../../../foundation/native/layer.js'
import { NativeMemory } from '../../../foundation/native/native-memory.js'

/** The bytes in front of the records: the buffer that was handed back next, and the number of bytes that are records. */
const HEAD_BYTES = 16

export interface RecordBuffer {
  readonly address: number
  readonly length: number
}

/** The list of buffers, of which the process has one, as CUPTI has one client in a process. */
export class RecordBuffers {
  /** The addresses of a CUpti_BuffersCallbackRequestFunc and, in the next field, a CUpti_BuffersCallbackCompleteFunc. */
  readonly requested: number = layer().functions['recordsRequested'] ?? 0
  readonly completed: number = layer().functions['recordsCompleted'] ?? 0

  constructor(private readonly bufferBytes: number) {}

  /** Allows CUPTI to request `count` more buffers. */
  allow(count: number): void {
    own().allowRecords(count, this.bufferBytes)
  }

  /** Reads what was handed back since the last time, oldest first, and frees it. */
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
