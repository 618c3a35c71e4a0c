/** Takes the place of memory-file.ts in a page, which has no other processes. */
import { stateError } from '../base/errors.js'

export const HANDLE_BYTES = 64

export const Contents = { MEMORY: 1, EVENT: 2, RANKS: 3 } as const

export type Contents = (typeof Contents)[keyof typeof Contents]

const unsupported = (): Error =>
  stateError('ERR_UNSUPPORTED', 'A page has no other processes to share memory with: run the program in Node')

export class MemoryFile {
  readonly buffer: ArrayBuffer = new ArrayBuffer(0)
  readonly handle: Uint8Array = new Uint8Array(HANDLE_BYTES)
  readonly byteLength: number = 0
  readonly isOfOther: boolean = false

  static make(_byteLength: number, _contents: Contents): MemoryFile {
    throw unsupported()
  }

  static open(_handle: Uint8Array, _contents: Contents): MemoryFile | undefined {
    return undefined
  }

  static isOwn(_handle: Uint8Array): boolean {
    return false
  }

  static contentsOf(_handle: Uint8Array): number | undefined {
    return undefined
  }

  close(): void {}
}
