/** A buffer as the rest of the library works on it: the whole of an allocation, or a slice. The nouns are above it. */
import { LONGEST_ARRAY } from '#platform'
import { checkInteger } from '../base/arguments.js'
import type { OwnBytes } from '../base/bytes.js'
import { invalidValue, stateError } from '../base/errors.js'
import { nextSerial } from '../base/identity.js'
import { another, type Device } from '../device.js'
import type { Driver, Pointer } from '../driver/driver.js'
import { withdraw } from '../streams/shared.js'
import { type Allocation, PinnedAllocation } from './allocations.js'
import { retryRefused } from './left-resources.js'

/** Addresses have 47 bits. */
const LONGEST = 2 ** 47 - 1

/** A piece of memory that was found to be open. */
export interface OpenMemory {
  readonly allocation: Allocation
  readonly pointer: Pointer
}

export class BufferCore implements OpenMemory {
  readonly device: Device
  readonly pointer: Pointer
  readonly serial = nextSerial()
  /** This core, or the one of which it is a slice. */
  readonly whole: BufferCore
  /** Of the whole: the owner of foreign memory, while a buffer or slice of it lives. */
  owner: object | undefined
  /** Of the whole: the ArrayBuffer of the views of pinned memory. */
  bytes: ArrayBuffer | undefined
  /** Of the whole: where it begins in that one. */
  bytesBegin = 0
  #closed = false
  #view: OwnBytes | undefined

  /** `keeps` is the buffer that a slice keeps reachable: its end would be the slice's. */
  constructor(
    readonly allocation: Allocation,
    whole?: BufferCore,
    readonly keeps?: object,
    readonly byteOffset = 0,
    readonly byteLength = allocation.byteLength,
  ) {
    this.device = allocation.device
    this.whole = whole ?? this
    this.pointer = (allocation.pointer + byteOffset) as Pointer
  }

  get isPinned(): boolean {
    return this.allocation instanceof PinnedAllocation
  }

  get closed(): boolean {
    return this.#closed || this.whole.#closed
  }

  checkOpen(): this {
    if (this.closed) throw stateError('ERR_CLOSED', `${this} cannot be used any more`)
    return this
  }

  /** This core, for use with a driver. Throws ERR_CLOSED, or ERR_DEVICE_MISMATCH where it belongs to another driver. */
  openFor(driver: Driver): this {
    this.checkOpen()
    if (this.allocation.driver === driver) return this
    const owner = another(this.allocation.driver, driver)
    throw stateError('ERR_DEVICE_MISMATCH', `${this} belongs to ${owner} than the stream it is used with`)
  }

  /** A part of it, checked. `noun` is the buffer that stands on this. */
  slice(noun: object | undefined, byteOffset: number, byteLength: number): BufferCore {
    this.checkOpen()
    const all = this.byteLength
    checkInteger(byteOffset, 'byteOffset', 0, all, () => `from 0 to ${all}, the length of ${this}`)
    const most = all - byteOffset
    checkInteger(byteLength, 'byteLength', 0, most, () => `from 0 to ${most}: ${this} ends there`)
    return new BufferCore(this.allocation, this.whole, this.keeps ?? noun, this.byteOffset + byteOffset, byteLength)
  }

  /** Tells the driver that JavaScript is about to look at the memory. Throws ERR_CLOSED. */
  viewed(): void {
    this.checkOpen()
    this.allocation.driver.memory.viewed(this.pointer, this.byteLength)
  }

  /** The bytes of pinned memory. The driver is not told: it is where programs look at them. */
  ownBytes(): OwnBytes {
    this.checkFitsArray(this.byteLength)
    const buffer = this.ownBuffer()
    this.#view ??= new Uint8Array(buffer, this.viewOffset, this.byteLength)
    return this.#view
  }

  /** Where it begins in `ownBuffer()`. */
  get viewOffset(): number {
    return this.whole.bytesBegin + this.byteOffset
  }

  ownBuffer(): ArrayBuffer {
    const { bytes } = this.whole
    if (bytes === undefined) throw stateError('ERR_CLOSED', `${this} cannot be used any more`)
    if (bytes.byteLength === 0)
      throw invalidValue(`The ArrayBuffer of ${this} has been detached: its bytes are somewhere else`)
    return bytes
  }

  /** Memory may be longer than an array can be. */
  checkFitsArray(elements: number): void {
    if (elements <= LONGEST_ARRAY) return
    const what = `${this} has more elements than a typed array can have here, which is ${LONGEST_ARRAY}`
    throw stateError('ERR_UNSUPPORTED', `${what}: take slices of it`)
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    if (this.whole !== this) return
    if (this.allocation.users === 0) this.#end()
    else this.#emptyViews()
  }

  /** Runs code of the program that uses memory: closed in there, it is given back afterwards. */
  static keepAll(cores: readonly BufferCore[], fn: () => void): void {
    for (const core of cores) core.lend()
    try {
      fn()
    } finally {
      for (const core of cores) core.takeBack()
    }
  }

  /** Lends the memory to other code: closed meanwhile, it is given back when it has been taken back as often. */
  lend(): void {
    this.allocation.users += 1
  }

  takeBack(): void {
    const { allocation, whole } = this
    allocation.users -= 1
    if (allocation.users === 0 && whole.#closed && !allocation.gone) whole.#end()
  }

  /** The memory stays, for those whom it is lent to. */
  #emptyViews(): void {
    const { allocation, bytes } = this
    if (bytes === undefined || !(allocation instanceof PinnedAllocation && allocation.emptiesViews)) return
    allocation.driver.memory.detachPinned(this.pointer, bytes)
  }

  #end(): void {
    const { allocation } = this
    try {
      if (allocation instanceof PinnedAllocation && allocation.emptiesViews) allocation.views = this.bytes
      allocation.release()
      retryRefused(allocation.driver)
    } finally {
      // Where the driver has refused, it is as it was before.
      this.#closed = allocation.gone
      if (this.#closed) {
        withdraw(this)
        this.owner = undefined
        this.bytes = undefined
      }
    }
  }

  toString(): string {
    const name = this.isPinned ? 'PinnedBuffer' : 'DeviceBuffer'
    const address = `0x${this.pointer.toString(16)}`
    return `${name}(${address}, ${this.byteLength} bytes, ${this.device}${this.closed ? ', closed' : ''})`
  }
}

/** A length that memory can have. */
export function checkLength(byteLength: unknown): number {
  return checkInteger(byteLength, 'byteLength', 1, LONGEST)
}
