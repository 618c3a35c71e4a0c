/** Ranges of memory that the run time itself accesses for a thread: checked as a whole, recorded, and held against the races that are looked for. */

import type { SharedPlace } from './cluster-memory.js'
import type { Decoded } from './decoding.js'
import { type DeviceBlock, OutOfMachineMemory, PAGE_BITS } from './device-memory.js'
import type { KernelCode } from './kernel-code.js'
import { align, SHADOW, SHARED_WINDOW } from './layout.js'
import type { MemoryRange } from './unfinished-copies.js'

/** The bytes of a range that are held against races at once. */
const PIECE = 16
const PAGE = 2 ** PAGE_BITS

export interface RangeAccess {
  readonly at: Decoded
  readonly thread: number
  /** Bits of SHADOW. */
  readonly access: number
}

/** The part of a launch's run time that finds memory and checks accesses. */
export interface MemoryRunTime {
  sharedRange(address: number, bytes: number, access: number, at: Decoded | undefined, thread: number): SharedPlace
  outside(address: number, bytes: number, access: number, at: Decoded | undefined, thread: number): Error
  globalAccess(
    block: DeviceBlock,
    address: number,
    bytes: number,
    access: number,
    thread: number,
    at: Decoded | undefined,
  ): void
  foundUninitialised(at: Decoded | undefined, address: number, bytes: number, thread: number): void
  bytesAt(address: number, byteLength: number, at: Decoded, frame: number, thread: number): Uint8Array
}

export class MemoryRanges {
  constructor(
    private readonly code: KernelCode,
    private readonly runTime: MemoryRunTime,
  ) {}

  /**
   * Finds the bytes at a generic address of shared or global memory.
   * @throws KernelFault, as an access of a thread there does
   */
  locate(address: number, byteLength: number, how: RangeAccess): MemoryRange {
    return address >= Number(SHARED_WINDOW)
      ? this.#inShared(address, byteLength, how)
      : this.#inGlobal(address, byteLength, how)
  }

  #inShared(address: number, byteLength: number, { at, thread, access }: RangeAccess): MemoryRange {
    const { location, owner, offset } = this.runTime.sharedRange(address, byteLength, access, at, thread)
    return { bytes: () => this.code.memory.bytes.subarray(location, location + byteLength), owner, offset }
  }

  #inGlobal(address: number, byteLength: number, { at, thread, access }: RangeAccess): MemoryRange {
    const { memory, options } = this.code
    const block = memory.find(address)
    if (block === undefined || address + byteLength > block.begin + block.byteLength) {
      throw this.runTime.outside(address, byteLength, access, at, thread)
    }
    const offset = address - block.begin
    if (options.recorded) this.#record(block, offset, byteLength, { at, thread, access })
    for (let from = 0; from < byteLength; from += PIECE) {
      this.runTime.globalAccess(block, address + from, Math.min(PIECE, byteLength - from), access, thread, at)
    }
    if (block.external !== undefined) {
      const { external } = block
      return { bytes: () => external().subarray(offset, offset + byteLength), owner: undefined, offset }
    }
    if (!memory.makeResident(block)) throw new OutOfMachineMemory(`the block at 0x${block.begin.toString(16)}`)
    memory.updateTable()
    const bytes = (): Uint8Array => {
      const from = (block.base ?? 0) + offset
      return memory.bytes.subarray(from, from + byteLength)
    }
    return { bytes, owner: undefined, offset }
  }

  #record(block: DeviceBlock, offset: number, byteLength: number, { at, thread, access }: RangeAccess): void {
    const { memory } = this.code
    if (block.external !== undefined) {
      block.marks ??= new Uint8Array(align(block.byteLength, 4))
      for (let from = offset; from < offset + byteLength; from += PAGE)
        memory.marksTouched(block, from, Math.min(PAGE, offset + byteLength - from))
      for (let index = offset; index < offset + byteLength; index++)
        block.marks[index] = (block.marks[index] ?? 0) | access
      return
    }
    if (!memory.makeResident(block)) throw new OutOfMachineMemory(`the block at 0x${block.begin.toString(16)}`)
    const { shadow } = block
    if (shadow === undefined) return
    const marks = access & SHADOW.written ? access | SHADOW.initialised : access
    const all = memory.bytes
    for (let from = offset; from < offset + byteLength; from += PAGE)
      memory.shadowTouched(shadow + from, Math.min(PAGE, offset + byteLength - from))
    let [unwritten, first] = [0, 0]
    for (let index = shadow + offset; index < shadow + offset + byteLength; index++) {
      if (((all[index] ?? 0) & SHADOW.initialised) === 0) {
        if (unwritten === 0) first = index - shadow
        unwritten++
      }
      all[index] = (all[index] ?? 0) | marks
    }
    if (unwritten > 0 && (access & SHADOW.read) !== 0)
      this.runTime.foundUninitialised(at, block.begin + first, unwritten, thread)
  }
}
