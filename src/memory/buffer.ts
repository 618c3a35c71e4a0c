/** What a DeviceBuffer and a PinnedBuffer have in common: an address, a length, slices, and an end. */
import { constants } from 'node:buffer'
import { inspect } from 'node:util'
import { checkInteger, checkThis, isInstance } from '../base/arguments.js'
import { inspected, invalidType, printed, stateError } from '../base/errors.js'
import { destroyWhenUnreachable, release } from '../base/finalization.js'
import { nextSerial } from '../base/identity.js'
import { another, type Device } from '../device.js'
import type { Driver, Pointer } from '../driver/driver.js'
import { withdraw } from '../streams/shared.js'
import type { Allocation } from './allocations.js'

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
/** Runs code of the program that uses memory: closed in there, it is given back afterwards. */
export let keepAll: (memories: readonly Memory[], fn: () => void) => void
/** What it is a slice of, or itself. */
export let wholeOf: (memory: Memory) => Memory
/** A part of it, checked. */
export let partOf: (memory: Memory, byteOffset: number, byteLength: number) => Part
/** Tells the driver that JavaScript is about to look at it. Throws ERR_CLOSED. */
export let viewed: (memory: Memory) => void

/** What a kind of memory does about its end. */
export interface MemoryEnds {
  /** It is about to be given back, which may be refused. */
  before(whole: Memory, allocation: Allocation): void
  /** It has been. */
  after(whole: Memory): void
}

/** What device memory and pinned memory have in common. */
export abstract class Memory implements Disposable {
  /** The device it is on or, of pinned memory, that it was allocated for. */
  readonly device: Device
  /** Its length in bytes. */
  readonly byteLength: number
  /** Which object it is: no other of this thread has the number. Others may be of the same memory. */
  readonly serial: number = nextSerial()
  readonly #allocation: Allocation
  readonly #whole: Memory
  readonly #byteOffset: number
  readonly #ends: MemoryEnds
  #closed = false

  constructor(part: Part, made: string, ends: MemoryEnds) {
    if (!isInstance(part, Part)) throw invalidType('The buffer', made, 'new')
    this.device = part.allocation.device
    this.byteLength = part.byteLength
    this.#allocation = part.allocation
    this.#whole = part.whole ?? this
    this.#byteOffset = part.byteOffset
    this.#ends = ends
    if (part.whole === undefined) destroyWhenUnreachable(this, part.allocation)
  }

  /**
   * The address: the same for every GPU of the driver and, of pinned memory, for this process. It keeps nothing alive:
   * hold the buffer as long as others use it. It can still be read after `close()`, when it is nobody's.
   */
  get pointer(): bigint {
    const memory = checkThis(this, isMemory, 'a buffer')
    return BigInt(memory.#allocation.pointer + memory.#byteOffset)
  }

  /** Was it closed? True for a slice of what is closed, too. */
  get closed(): boolean {
    const memory = checkThis(this, isMemory, 'a buffer')
    return memory.#closed || memory.#whole.#closed
  }

  /**
   * Gives the memory back, when all work is done that this library queued with it, on any stream; this call does not
   * wait. Memory of `device.alloc()` is freed in the order of its stream (`cuMemFreeAsync`), whose later work waits for
   * those others too. Not counted is work that only had the address, and what a graph captured: let that stream wait
   * for theirs first, `stream.wait(theirs)`, then close; and keep buffers as long as the graph. Where the stream is
   * another library's it holds up no free: wait until that work is done. To close a slice only ends that slice. May be
   * called twice.
   */
  close(): void {
    const memory = checkThis(this, isMemory, 'a buffer')
    if (memory.#closed) return
    this.#closed = true
    if (this.#whole !== this) return
    if (this.#allocation.users === 0) this.#end()
  }

  #end(): void {
    try {
      this.#ends.before(this, this.#allocation)
      release(this, this.#allocation)
    } finally {
      // Where the driver has refused, it is as it was before.
      this.#closed = this.#allocation.gone
      if (this.#closed) {
        withdraw(this, this.device)
        this.#ends.after(this)
      }
    }
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    checkThis(this, isMemory, 'a buffer').close()
  }

  abstract get [Symbol.toStringTag](): string

  toString(): string {
    if (!isMemory(this)) return printed(this)
    const address = `0x${this.pointer.toString(16)}`
    const state = this.closed ? ', closed' : ''
    return `${this[Symbol.toStringTag]}(${address}, ${this.byteLength} bytes, ${this.device}${state})`
  }

  [inspect.custom](): string {
    return inspected(this)
  }

  static #checkOpen(memory: Memory): void {
    if (memory.#closed || memory.#whole.#closed) throw stateError('ERR_CLOSED', `${memory} cannot be used any more`)
  }

  static {
    isMemory = (value): value is Memory => typeof value === 'object' && value !== null && #allocation in value
    openMemory = (memory: Memory, driver) => {
      Memory.#checkOpen(memory)
      const allocation = memory.#allocation
      if (driver !== undefined && allocation.driver !== driver) {
        const owner = another(allocation.driver, driver)
        throw stateError('ERR_DEVICE_MISMATCH', `${memory} belongs to ${owner} than the stream it is used with`)
      }
      return { allocation, pointer: (allocation.pointer + memory.#byteOffset) as Pointer }
    }
    wholeOf = (memory) => memory.#whole
    keepAll = (memories, fn) => {
      const wholes = memories.map((memory) => memory.#whole)
      for (const whole of wholes) whole.#allocation.users += 1
      try {
        fn()
      } finally {
        for (const whole of wholes) {
          whole.#allocation.users -= 1
          if (whole.#allocation.users === 0 && whole.#closed && !whole.#allocation.gone) whole.#end()
        }
      }
    }
    partOf = (memory, byteOffset, byteLength) => {
      Memory.#checkOpen(memory)
      const all = memory.byteLength
      checkInteger(byteOffset, 'byteOffset', 0, all, () => `from 0 to ${all}, the length of ${memory}`)
      const most = all - byteOffset
      checkInteger(byteLength, 'byteLength', 0, most, () => `from 0 to ${most}: ${memory} ends there`)
      return new Part(memory.#allocation, memory.#whole, memory.#byteOffset + byteOffset, byteLength)
    }
    viewed = (memory) => {
      Memory.#checkOpen(memory)
      const { driver, pointer } = memory.#allocation
      driver.memory.viewed((pointer + memory.#byteOffset) as Pointer, memory.byteLength)
    }
  }
}

/** Elements that this Node lets a typed array have. */
const LONGEST_ARRAY = constants.MAX_LENGTH

/** Memory may be longer than an array can be. */
export function checkFitsArray(memory: Memory, elements: number): void {
  if (elements <= LONGEST_ARRAY) return
  const what = `${memory} has more elements than a typed array can have here, which is ${LONGEST_ARRAY}`
  throw stateError('ERR_UNSUPPORTED', `${what}: take slices of it`)
}

/** Addresses have 47 bits. */
const LONGEST = 2 ** 47 - 1

/** Can memory be so long? */
export function checkLength(byteLength: unknown): number {
  return checkInteger(byteLength, 'byteLength', 1, LONGEST)
}
