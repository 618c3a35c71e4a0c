/** What a DeviceBuffer and a PinnedBuffer have in common: an address, a length, slices, and an end. */
import { constants } from 'node:buffer'
import { inspect } from 'node:util'
import type { Allocation } from './allocations.js'
import { checkInteger } from './arguments.js'
import { another, type Device } from './device.js'
import type { Driver } from './driver/driver.js'
import type { Pointer } from './driver/memory-driver.js'
import { invalidType, outOfRange, stateError } from './errors.js'
import { destroyWhenUnreachable, release } from './remains.js'
import { withdraw } from './shared.js'

/** A piece of memory as its driver knows it. */
export interface OpenMemory {
  readonly allocation: Allocation
  readonly pointer: Pointer
}

/** What a buffer is made from inside the library: the whole of an allocation, or a part of another buffer. */
export class Part {
  readonly allocation: Allocation
  /** The whole that this is a part of; undefined for the whole. */
  readonly whole: Memory | undefined
  readonly byteOffset: number
  readonly byteLength: number

  constructor(allocation: Allocation, whole?: Memory, byteOffset = 0, byteLength = allocation.byteLength) {
    this.allocation = allocation
    this.whole = whole
    this.byteOffset = byteOffset
    this.byteLength = byteLength
  }
}

/** Is it a DeviceBuffer or a PinnedBuffer, and not merely an heir to one, as a proxy is? */
export let isMemory: (value: unknown) => value is Memory
/** For use with a driver. Throws ERR_CLOSED, or ERR_DEVICE_MISMATCH where it belongs to another than the one given. */
export let openMemory: (memory: Memory, driver?: Driver) => OpenMemory
/** What it is a slice of, or itself. */
export let wholeOf: (memory: Memory) => Memory

/** What device memory and pinned memory have in common. */
export abstract class Memory implements Disposable {
  /** The device it is on or, of pinned memory, that it was allocated for. */
  readonly device: Device
  /** Its length in bytes. */
  readonly byteLength: number
  readonly #allocation: Allocation
  readonly #whole: Memory
  readonly #byteOffset: number
  #closed = false

  constructor(part: Part, made: string) {
    if (!(part instanceof Part)) throw invalidType('The buffer', made, 'new')
    this.device = part.allocation.device
    this.byteLength = part.byteLength
    this.#allocation = part.allocation
    this.#whole = part.whole ?? this
    this.#byteOffset = part.byteOffset
    if (part.whole === undefined) destroyWhenUnreachable(this, part.allocation)
  }

  /**
   * The address: the same for every GPU of the driver and, of pinned memory, for this process. It keeps nothing alive:
   * hold the buffer as long as others use it. It can still be read after `close()`, when it is nobody's.
   */
  get pointer(): bigint {
    return BigInt(this.#allocation.pointer + this.#byteOffset)
  }

  /** Was it closed? True for a slice of what is closed, too. */
  get closed(): boolean {
    return this.#closed || this.#whole.#closed
  }

  /**
   * Gives the memory back, when all work is done that this library queued with it, on any stream; this call does not
   * wait. Memory of `device.alloc()` is freed in the order of its stream (`cuMemFreeAsync`), whose later work waits for
   * those others too. Not counted is work that only had the address, and what a graph captured: let that stream wait
   * for theirs first, `stream.wait(theirs)`, then close; and keep buffers as long as the graph. To close a slice only
   * ends that slice. May be called twice.
   */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    if (this.#whole !== this) return
    try {
      this.beforeClose(this.#allocation)
      release(this, this.#allocation)
    } finally {
      // Where the driver has refused, it is as it was before.
      this.#closed = this.#allocation.gone
      if (this.#closed) {
        withdraw(this, this.device)
        this.afterClose()
      }
    }
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    this.close()
  }

  abstract get [Symbol.toStringTag](): string
  protected beforeClose(_allocation: Allocation): void {}
  protected afterClose(): void {}

  toString(): string {
    const address = `0x${this.pointer.toString(16)}`
    const state = this.closed ? ', closed' : ''
    return `${this[Symbol.toStringTag]}(${address}, ${this.byteLength} bytes, ${this.device}${state})`
  }

  [inspect.custom](): string {
    return this.toString()
  }

  /** A part of this one, checked. */
  protected part(byteOffset: number, byteLength: number): Part {
    this.checkOpen()
    checkInteger(byteOffset, 'byteOffset')
    checkInteger(byteLength, 'byteLength')
    if (byteOffset < 0 || byteOffset > this.byteLength) {
      throw outOfRange('byteOffset', `from 0 to ${this.byteLength}, the length of ${this}`, byteOffset)
    }
    const most = this.byteLength - byteOffset
    if (byteLength < 0 || byteLength > most) {
      throw outOfRange('byteLength', `from 0 to ${most}: ${this} ends there`, byteLength)
    }
    return new Part(this.#allocation, this.#whole, this.#byteOffset + byteOffset, byteLength)
  }

  /** Tells the driver that JavaScript is about to look. */
  protected viewed(): void {
    this.checkOpen()
    const { driver, pointer } = this.#allocation
    driver.memory.viewed((pointer + this.#byteOffset) as Pointer, this.byteLength)
  }

  protected checkOpen(): void {
    if (this.closed) throw stateError('ERR_CLOSED', `${this} cannot be used any more`)
  }

  static {
    isMemory = (value): value is Memory => typeof value === 'object' && value !== null && #allocation in value
    openMemory = (memory: Memory, driver) => {
      memory.checkOpen()
      const allocation = memory.#allocation
      if (driver !== undefined && allocation.driver !== driver) {
        const owner = another(allocation.driver, driver)
        throw stateError('ERR_DEVICE_MISMATCH', `${memory} belongs to ${owner} than the stream it is used with`)
      }
      return { allocation, pointer: (allocation.pointer + memory.#byteOffset) as Pointer }
    }
    wholeOf = (memory) => memory.#whole
  }
}

/** Elements that this Node lets a typed array have. */
export const LONGEST_ARRAY = constants.MAX_LENGTH

/** Memory may be longer than an array can be. */
export function checkFitsArray(memory: Memory, elements: number): void {
  if (elements <= LONGEST_ARRAY) return
  const what = `${memory} has more elements than an array can have here, which is ${LONGEST_ARRAY}`
  throw stateError('ERR_UNSUPPORTED', `${what}: take slices of it`)
}

/** Can memory be so long? */
export function checkLength(byteLength: number): void {
  checkInteger(byteLength, 'byteLength')
  if (byteLength < 1 || byteLength >= 2 ** 47)
    throw outOfRange('byteLength', 'from 1 to what memory there is', byteLength)
}
