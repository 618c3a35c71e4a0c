/** The common base of DeviceBuffer and PinnedBuffer: an address, a length, slices, and an end. */
import { inspectAsPrinted, invalidType, printed, refuseReceiver } from '../base/errors.js'
import { destroyWhenUnreachable } from '../base/finalization.js'
import type { Device } from '../device.js'
import type { Driver } from '../driver/driver.js'
import { BufferCore } from './buffer-core.js'

/**
 * The core of a buffer; undefined for any other value, also for a proxy of a buffer or an object that inherits from
 * one.
 */
export let bufferCoreOf: (value: unknown) => BufferCore | undefined

/** Device memory or pinned memory. */
export abstract class Memory implements Disposable {
  /** The device that the memory is on or, of pinned memory, that it was allocated for. */
  readonly device: Device
  /** The length in bytes. */
  readonly byteLength: number
  /** The number of this object: no other object of this thread has it. Others may be of the same memory. */
  readonly serial: number
  readonly #core: BufferCore

  protected constructor(core: BufferCore, made: string) {
    if (!(core instanceof BufferCore)) throw invalidType('The buffer', made, 'new')
    this.device = core.device
    this.byteLength = core.byteLength
    this.serial = core.serial
    this.#core = core
    if (core.whole === core) destroyWhenUnreachable(this, core.allocation)
  }

  /**
   * The address: the same for every GPU of the driver and, of pinned memory, for this process. It keeps nothing alive:
   * hold the buffer as long as others use it. It can still be read after `close()`, when it may be another buffer's.
   */
  get pointer(): bigint {
    return BigInt(coreOf(this).pointer)
  }

  /** Was the buffer closed? True for a slice of a closed buffer, too. */
  get closed(): boolean {
    return coreOf(this).closed
  }

  /**
   * Gives the memory back when all work is done that this library queued with it, on any stream; this call does not
   * wait. Memory of `device.alloc()` is freed in the order of its stream (`cuMemFreeAsync`), whose later work waits for
   * those others too. Where the stream is another library's it holds up no free: wait until that work is done. To close
   * a slice only ends that slice. May be called twice.
   *
   * A graph that uses the buffer keeps the memory: it is given back when the graph, its instances and their launches are
   * over. Not counted is work that only had the address: let the buffer's stream wait for theirs first,
   * `stream.wait(theirs)`, then close.
   */
  close(): void {
    coreOf(this).close()
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    coreOf(this)
    this.close()
  }

  abstract get [Symbol.toStringTag](): string

  toString(): string {
    return bufferCoreOf(this)?.toString() ?? printed(this)
  }

  static {
    bufferCoreOf = (value) => (typeof value === 'object' && value !== null && #core in value ? value.#core : undefined)
  }
}
inspectAsPrinted(Memory)

export const isMemory = (value: unknown): value is Memory => bufferCoreOf(value) !== undefined

/**
 * The core, for use with a driver. Throws ERR_CLOSED, or ERR_DEVICE_MISMATCH where the buffer belongs to another
 * driver.
 */
export function openMemory(memory: Memory, driver: Driver): BufferCore {
  return coreOf(memory).openFor(driver)
}

function coreOf(memory: unknown): BufferCore {
  return bufferCoreOf(memory) ?? refuseReceiver('a buffer', memory)
}
