/** Takes the place of memory-file.ts in a page, which has no other processes. */
import { stateError } from '../base/errors.js'

export const HANDLE_BYTES = 64

const unsupported = (): Error =>
  stateError('ERR_UNSUPPORTED', 'A page has no other processes to share memory with: run the program in Node')

export class MemoryFile {
  readonly buffer: ArrayBuffer = new ArrayBuffer(0)
  readonly handle: Uint8Array = new Uint8Array(HANDLE_BYTES)
  readonly byteLength: number = 0
  readonly isOfOther: boolean = false

  static make(_byteLength: number): MemoryFile {
    throw unsupported()
  }

  static open(_handle: Uint8Array): MemoryFile | undefined {
    return undefined
  }

  static isOwn(_handle: Uint8Array): boolean {
    return false
  }

  close(): void {}
}
