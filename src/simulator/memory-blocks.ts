/** The memory behind simulated pointers. Freed memory reads as poison, and writes to it are lost. */

import type { Pointer } from '../foundation/driver/handle-types.js'
import type { FillWidth } from '../foundation/driver/queued-work.js'
import type * as Ptx from '../ptx/ptx.js'
import type { SimDevice, SimOperation } from './machine/machine-state.js'
import type { SimPool } from './machine/pools.js'

/** The byte that reads of freed memory return. */
const POISON = 0xdd
/** The byte of device memory that nothing has been written to: CUDA promises no zeros. */
const UNWRITTEN = 0xcd
/** The bytes of unwritten memory that are filled at a time: the process gives a large block no more pages than are used. */
const CHUNK = 2 ** 18

export abstract class MemoryBlock {
  /** The number of times that any block was prepared, read or written. */
  static uses = 0
  freed = false
  /** The memory of compiled code that contains this block; undefined as long as there is no compiled code. */
  #kernelMemory: Ptx.DeviceMemory | undefined

  constructor(
    readonly pointer: Pointer,
    readonly byteLength: number,
    readonly device: SimDevice,
  ) {}

  /** Makes sure that there are bytes, and returns what an operation must keep reachable. Throws a RangeError if the process has no more memory. */
  abstract prepare(pointer: Pointer, byteLength: number): unknown
  /** The buffer of the block; undefined if its bytes are gone. */
  protected abstract get buffer(): ArrayBufferLike | undefined
  protected abstract drop(): void
  /** The offset in the buffer at which the block begins. */
  protected get begin(): number {
    return 0
  }

  /** The offset in its buffer at which the block begins. */
  get beginInBuffer(): number {
    return this.begin
  }

  /** The object that queued work must keep reachable, though there need be no bytes yet. */
  get held(): unknown {
    return undefined
  }

  free(): void {
    this.freed = true
    this.#kernelMemory?.remove(this.pointer)
    this.drop()
  }

  /** Adds the block to the memory of compiled code, which may access it from now on. */
  showTo(memory: Ptx.DeviceMemory): void {
    if (this.freed || this.byteLength === 0) return
    this.#kernelMemory = memory
    this.addTo(memory)
  }

  /** Updates the memory of compiled code after the bytes have moved to another buffer. */
  protected showAgain(): void {
    if (this.#kernelMemory === undefined) return
    this.#kernelMemory.remove(this.pointer)
    this.showTo(this.#kernelMemory)
  }

  protected addTo(memory: Ptx.DeviceMemory): void {
    memory.addExternal(this.pointer, this.byteLength, () => this.read(this.pointer, this.byteLength))
  }

  /** Whether some of these bytes of JavaScript's lie in this block. */
  overlaps({ buffer, byteOffset, length }: Uint8Array): boolean {
    if (this.buffer !== buffer) return false
    return byteOffset < this.begin + this.byteLength && this.begin < byteOffset + length
  }

  /** The bytes themselves, not a copy. */
  read(pointer: Pointer, byteLength: number): Uint8Array {
    return this.#view(pointer, byteLength) ?? new Uint8Array(byteLength).fill(POISON)
  }

  write(pointer: Pointer, bytes: Uint8Array): void {
    this.#view(pointer, bytes.byteLength)?.set(bytes)
    this.wrote(pointer, bytes.byteLength)
  }

  /** Counts the whole block as written, since kernels may have used it and nothing has noted what they wrote. */
  countAsWritten(): void {
    if (this.#kernelMemory !== undefined) this.wrote(this.pointer, this.byteLength)
  }

  /** Notes that these bytes are written: reads of them by kernels are right from now on. */
  wrote(pointer: Pointer, byteLength: number): void {
    this.#kernelMemory?.markInitialised(pointer, byteLength)
  }

  /** Whether nothing has written this byte, as far as that is known: the accesses of kernels are recorded, and one has used the block. */
  isUnwritten(address: number): boolean {
    return this.#kernelMemory?.isUnwritten(address) === true
  }

  fill(pointer: Pointer, value: number, width: FillWidth, count: number): void {
    const bytes = this.#view(pointer, count * width)
    if (bytes === undefined) return
    this.wrote(pointer, count * width)
    const { buffer, byteOffset } = bytes
    if (width === 1) bytes.fill(value)
    else if (width === 2) new Uint16Array(buffer, byteOffset, count).fill(value)
    else new Uint32Array(buffer, byteOffset, count).fill(value)
  }

  #view(pointer: Pointer, byteLength: number): Uint8Array | undefined {
    MemoryBlock.uses += 1
    this.prepare(pointer, byteLength)
    const { buffer } = this
    return buffer && new Uint8Array(buffer, this.begin + pointer - this.pointer, byteLength)
  }
}

/** Memory of a device, whose bytes exist from the first access on. */
export class DeviceMemory extends MemoryBlock {
  #bytes: ArrayBuffer | undefined
  /** The memory with the bytes, if other threads or processes use them too. */
  #shared: ArrayBufferLike | undefined
  /** The callback for the time when the block is gone. */
  whenGone: (() => void) | undefined
  /** The memory of compiled code in which the bytes lie, once a kernel has used the block. */
  #allocator: Ptx.DeviceMemory | undefined
  /** Whether anything other than kernels has written to the block. */
  #isWritten = false
  /** Whether the bytes of each chunk have been accessed. */
  #touched = new Uint8Array(0)
  #untouched = 0

  /** The byte that reads return where nothing has been written. */
  #unwritten = UNWRITTEN

  /**
   * @param pool The pool of the memory; undefined for memory of `cuMemAlloc`
   * @param theirs The bytes, if another thread has shared them
   */
  constructor(
    pointer: Pointer,
    byteLength: number,
    device: SimDevice,
    readonly pool?: SimPool,
    private readonly theirs?: ArrayBufferLike,
  ) {
    super(pointer, byteLength, device)
    this.#shared = theirs
  }

  /** Moves the bytes to memory that others can use. */
  share<B extends ArrayBufferLike>(shared: B): B {
    this.#copyTo(new Uint8Array(shared, 0, this.byteLength))
    this.#shared = shared
    this.#bytes = undefined
    this.#allocator = undefined
    this.showAgain()
    return shared
  }

  /** The memory with the bytes, if others use them too. */
  get sharedBytes(): ArrayBufferLike | undefined {
    return this.#shared
  }

  override prepare(pointer: Pointer, byteLength: number): unknown {
    if (this.freed || (this.#shared ?? this.#allocator) !== undefined) return undefined
    MemoryBlock.uses += 1
    const bytes = this.#existing()
    if (this.#untouched === 0 || byteLength === 0) return undefined
    const from = pointer - this.pointer
    const last = Math.floor((from + byteLength - 1) / CHUNK)
    for (let chunk = Math.floor(from / CHUNK); chunk <= last; chunk += 1) {
      if (this.#touched[chunk] === 1) continue
      const begin = chunk * CHUNK
      new Uint8Array(bytes, begin, Math.min(CHUNK, this.byteLength - begin)).fill(this.#unwritten)
      this.#touched[chunk] = 1
      this.#untouched -= 1
    }
    return undefined
  }

  protected override get buffer(): ArrayBufferLike | undefined {
    return this.freed ? undefined : (this.#shared ?? this.#allocator?.memory.buffer ?? this.#bytes)
  }

  protected override get begin(): number {
    return this.#allocator?.contents(this.pointer, 1)?.byteOffset ?? 0
  }

  protected override addTo(memory: Ptx.DeviceMemory): void {
    if (this.#shared !== undefined) super.addTo(memory)
    else
      memory.add(this.pointer, this.byteLength, {
        load: (into) => this.#moveTo(memory, into),
        initialised: this.#isWritten,
      })
  }

  /** Makes the block read as zeros; must be called before it is used. */
  zero(): void {
    this.#unwritten = 0
    this.#isWritten = true
  }

  override countAsWritten(): void {
    if (this.#allocator !== undefined) super.countAsWritten()
  }

  override wrote(pointer: Pointer, byteLength: number): void {
    this.#isWritten = true
    super.wrote(pointer, byteLength)
  }

  protected override drop(): void {
    this.#bytes = undefined
    // The first byte tells other threads that still use the memory that it is gone.
    if (this.#shared !== undefined && this.theirs === undefined) new Uint8Array(this.#shared).fill(POISON)
    this.whenGone?.()
    this.whenGone = undefined
  }

  /** Moves the bytes into the memory of compiled code when a kernel uses the block for the first time. */
  #moveTo(memory: Ptx.DeviceMemory, into: Uint8Array): void {
    this.#copyTo(into)
    this.#bytes = undefined
    this.#allocator = memory
  }

  #copyTo(into: Uint8Array): void {
    const resident = this.#allocator?.contents(this.pointer, this.byteLength)
    if (resident !== undefined) {
      into.set(resident)
      return
    }
    into.fill(this.#unwritten)
    for (const [chunk, touched] of this.#bytes === undefined ? [] : this.#touched.entries()) {
      const begin = chunk * CHUNK
      const byteLength = Math.min(CHUNK, this.byteLength - begin)
      if (touched === 1 && this.#bytes !== undefined) into.set(new Uint8Array(this.#bytes, begin, byteLength), begin)
    }
  }

  /** The buffer of the block. A host implementation may have transferred its view to another thread, and with it the bytes of the memory. */
  #existing(): ArrayBuffer {
    if (this.#bytes !== undefined && this.#bytes.byteLength > 0) return this.#bytes
    this.#bytes = new ArrayBuffer(this.byteLength)
    this.#untouched = Math.ceil(this.byteLength / CHUNK)
    this.#touched = new Uint8Array(this.#untouched)
    return this.#bytes
  }
}

/**
 * Memory of the host. While it is open nothing here keeps its buffer reachable, so that the garbage collector can find that it is not used any more;
 * operations that are queued do keep it.
 */
export class PinnedMemory extends MemoryBlock {
  readonly #open: WeakRef<ArrayBuffer>
  /** The bytes of a closed block, taken away from the views. */
  #closed: ArrayBuffer | undefined

  constructor(pointer: Pointer, byteLength: number, device: SimDevice, buffer: ArrayBuffer) {
    super(pointer, byteLength, device)
    this.#open = new WeakRef(buffer)
  }

  override prepare(): unknown {
    return this.held
  }

  override get held(): unknown {
    return this.#closed ?? this.#open.deref()
  }

  /** Empties the views; queued work still has the bytes. */
  detach(buffer: ArrayBuffer | undefined): void {
    if (buffer !== undefined && buffer.byteLength > 0) this.#closed = structuredClone(buffer, { transfer: [buffer] })
  }

  protected override get buffer(): ArrayBuffer | undefined {
    const buffer = this.#closed ?? this.#open.deref()
    // The caller may have transferred the buffer to another thread.
    return this.freed || buffer?.byteLength === 0 ? undefined : buffer
  }

  protected override drop(): void {
    this.#closed = undefined
  }
}

/** Page-locked memory of the program's own, which this block keeps reachable. */
export class RegisteredMemory extends MemoryBlock {
  /** The operation that ends the registration, once it was closed. */
  end: SimOperation | undefined
  #bytes: Uint8Array | undefined

  constructor(pointer: Pointer, bytes: Uint8Array, device: SimDevice) {
    super(pointer, bytes.length, device)
    this.#bytes = bytes
  }

  override prepare(): unknown {
    return this.#bytes
  }

  protected override get buffer(): ArrayBufferLike | undefined {
    const buffer = this.#bytes?.buffer
    // The WebAssembly.Memory of the buffer may have grown: in Node 20 the buffer looks like any other.
    return buffer?.byteLength === 0 ? undefined : buffer
  }

  protected override get begin(): number {
    return this.#bytes?.byteOffset ?? 0
  }

  protected override drop(): void {
    this.#bytes = undefined
  }
}

/** A variable of a module, whose bytes are in the memory of compiled code from the beginning. */
export class VariableMemory extends MemoryBlock {
  constructor(
    pointer: Pointer,
    byteLength: number,
    device: SimDevice,
    private readonly allocator: Ptx.DeviceMemory,
  ) {
    super(pointer, byteLength, device)
  }

  override prepare(): unknown {
    return undefined
  }

  protected override get buffer(): ArrayBufferLike | undefined {
    return this.freed || this.allocator.use(this.pointer, 1) === undefined ? undefined : this.allocator.memory.buffer
  }

  protected override get begin(): number {
    return this.allocator.use(this.pointer, 1)?.byteOffset ?? 0
  }

  /** Does nothing, since the module has added the variable. */
  protected override addTo(): void {}
  protected override drop(): void {}
}
