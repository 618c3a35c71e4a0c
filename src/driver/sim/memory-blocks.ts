/** What lies behind a simulated pointer. What is freed reads as poison, and what is written there is lost. */
import type { FillWidth, Pointer } from '../memory-driver.js'
import type { SimDevice } from './objects.js'

/** Reads of freed memory. */
export const POISON = 0xdd
/** Device memory that nothing has been written to: CUDA promises no zeros. */
const UNWRITTEN = 0xcd

export abstract class Block {
  readonly pointer: Pointer
  readonly byteLength: number
  readonly device: SimDevice
  freed = false

  constructor(pointer: Pointer, byteLength: number, device: SimDevice) {
    this.pointer = pointer
    this.byteLength = byteLength
    this.device = device
  }

  /** Makes sure that there are bytes, and returns what an operation must keep reachable. Throws a RangeError where the process has no more. */
  abstract prepare(): unknown
  protected abstract get bytes(): Uint8Array | undefined
  protected abstract drop(): void

  free(): void {
    this.freed = true
    this.drop()
  }

  /** The bytes themselves, not a copy. */
  read(pointer: Pointer, byteLength: number): Uint8Array {
    const from = pointer - this.pointer
    return this.bytes?.subarray(from, from + byteLength) ?? new Uint8Array(byteLength).fill(POISON)
  }

  write(pointer: Pointer, bytes: Uint8Array): void {
    this.bytes?.set(bytes, pointer - this.pointer)
  }

  fill(pointer: Pointer, value: number, width: FillWidth, count: number): void {
    const { bytes } = this
    if (bytes === undefined) return
    const at = bytes.byteOffset + pointer - this.pointer
    if (width === 1) new Uint8Array(bytes.buffer, at, count).fill(value)
    else if (width === 2) new Uint16Array(bytes.buffer, at, count).fill(value)
    else new Uint32Array(bytes.buffer, at, count).fill(value)
  }
}

/** Memory of a device: its bytes exist from the first touch on. */
export class DeviceMemory extends Block {
  #bytes: Uint8Array | undefined

  override prepare(): unknown {
    if (!this.freed) this.#bytes ??= new Uint8Array(this.byteLength).fill(UNWRITTEN)
    return undefined
  }

  protected override get bytes(): Uint8Array | undefined {
    return this.#bytes
  }

  protected override drop(): void {
    this.#bytes = undefined
  }
}

/**
 * Memory of the host. While it is open nothing here keeps its buffer reachable, so that the garbage collector can find
 * that nobody uses it; operations that are queued do keep it.
 */
export class PinnedMemory extends Block {
  readonly #open: WeakRef<ArrayBuffer>
  /** Once closed: the bytes, taken away from the views. */
  #closed: ArrayBuffer | undefined

  constructor(pointer: Pointer, byteLength: number, device: SimDevice, buffer: ArrayBuffer) {
    super(pointer, byteLength, device)
    this.#open = new WeakRef(buffer)
  }

  override prepare(): unknown {
    return this.#buffer
  }

  /** Empties the views; what is queued still has the bytes. */
  detach(buffer: ArrayBuffer | undefined): void {
    if (buffer !== undefined && buffer.byteLength > 0) this.#closed = structuredClone(buffer, { transfer: [buffer] })
  }

  get #buffer(): ArrayBuffer | undefined {
    return this.#closed ?? this.#open.deref()
  }

  protected override get bytes(): Uint8Array | undefined {
    const buffer = this.#buffer
    // The caller may have transferred it to somebody else.
    return this.freed || buffer === undefined || buffer.byteLength === 0 ? undefined : new Uint8Array(buffer)
  }

  protected override drop(): void {
    this.#closed = undefined
  }
}
