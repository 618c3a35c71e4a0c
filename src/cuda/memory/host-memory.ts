/** Memory that was given back, or that is page-locked, until the GPU has completed its work with it; and pages for large new arrays. */
import { RecheckTimer } from '../../foundation/base/polling.js'
import { AfterWork, type AfterWorkDriver } from '../../foundation/driver/after-work.js'
import type { InternalEvent } from '../../foundation/driver/event-driver.js'
import type { ContextHandle, Pointer } from '../../foundation/driver/handle-types.js'
import { own } from '../../foundation/native/c-functions.js'
import { layer } from '../../foundation/native/layer.js'
import { ownerOfThread } from '../../foundation/native/owned-handles.js'
import { ThreadMemory } from '../../foundation/native/thread-memory.js'
import type { PendingHostFunctions } from '../host-functions/pending-host-functions.js'
import type { LibcudaParts } from '../libcuda/driver-calls.js'
import { checkCleanup } from '../libcuda/libcuda.js'
import { KEPT_PINNED } from '../libcuda/owned-handles.js'
import type { IdleDevices } from '../waiting/idle-devices.js'

/** CU_MEMHOSTALLOC_PORTABLE and _DEVICEMAP, and CU_MEMHOSTREGISTER_PORTABLE and _DEVICEMAP. */
export const PORTABLE_AND_MAPPED = 0x3

export interface Block {
  readonly pointer: Pointer
  readonly byteLength: number
  /** The context that the memory belongs to; undefined if it may be used for any. */
  readonly context?: ContextHandle
}

export interface KeptBlocksParts {
  readonly driver: AfterWorkDriver
  readonly hostFunctions: Pick<PendingHostFunctions, 'exclusivelyNow'>
  readonly idleDevices: Pick<IdleDevices, 'whenIdle'>
}

/** The most bytes that are kept of each context. */
const MOST_KEPT = KEPT_PINNED.bytes

/**
 * Memory that was given back, and is kept for the next request once the GPU has completed its work with it. To free it can wait for the whole
 * device, and for host functions that only this thread could run.
 */
export class KeptBlocks {
  #blocks: Block[] = []
  readonly #inUse: AfterWork<Block>

  /** `free` gives a block back to the driver. */
  constructor(
    private readonly parts: KeptBlocksParts,
    private readonly free: (block: Block) => void,
  ) {
    this.#inUse = new AfterWork(parts.driver, (block) => this.#keep(block))
  }

  /** Keeps or frees the block once the latest records of these events, which it takes over, have completed. */
  giveBack(block: Block, after: readonly InternalEvent[]): void {
    this.#inUse.add(block, after)
  }

  /** Keeps the blocks that the GPU has completed its work with. */
  sweep(): void {
    this.#inUse.sweep()
  }

  /** The smallest block that is large enough, and not so large that much is wasted. */
  take(wanted: number, context?: ContextHandle): Block | undefined {
    let best: Block | undefined
    for (const block of this.#of(context)) {
      if (block.byteLength < wanted || block.byteLength > 2 * wanted) continue
      if (best === undefined || block.byteLength < best.byteLength) best = block
    }
    if (best !== undefined) this.#blocks.splice(this.#blocks.indexOf(best), 1)
    return best
  }

  /** Frees all blocks when memory has run out. Returns false when none could be freed. */
  freeAll(): boolean {
    let any = false
    this.parts.hostFunctions.exclusivelyNow(() => {
      for (const block of this.#blocks.splice(0)) {
        this.free(block)
        any = true
      }
    })
    return any
  }

  #keep(block: Block): void {
    this.#blocks.push(block)
    if (this.#bytesOf(block.context) > MOST_KEPT) this.parts.idleDevices.whenIdle(() => this.#trim(block.context))
  }

  /** Frees the latest blocks until no more than the most bytes are kept. */
  #trim(context: ContextHandle | undefined): void {
    while (this.#bytesOf(context) > MOST_KEPT) {
      const index = this.#blocks.findLastIndex((block) => block.context === context)
      for (const block of this.#blocks.splice(index, 1)) this.free(block)
    }
  }

  #bytesOf(context: ContextHandle | undefined): number {
    return this.#of(context).reduce((sum, { byteLength }) => sum + byteLength, 0)
  }

  #of(context: ContextHandle | undefined): readonly Block[] {
    return this.#blocks.filter((block) => block.context === context)
  }
}

export interface PinnedBlocksParts extends LibcudaParts {
  readonly driver: AfterWorkDriver
  readonly hostFunctions: Pick<PendingHostFunctions, 'exclusivelyNow'>
  readonly idleDevices: Pick<IdleDevices, 'whenIdle'>
}

/**
 * Pinned memory that was given back, once the GPU has completed its work with it. The native layer keeps some of it, for all threads of the
 * process, and not for long: to free it can wait for the whole device, and to allocate it costs milliseconds.
 */
export class PinnedBlocks {
  readonly #inUse: AfterWork<Block>
  readonly #found = new ThreadMemory(8)
  readonly #stale = new RecheckTimer(
    () => this.#freeStale(),
    () => KEPT_PINNED.milliseconds,
  )

  constructor(private readonly parts: PinnedBlocksParts) {
    this.#inUse = new AfterWork(parts.driver, (block) => this.#keep(block))
  }

  /** Keeps or frees the block once the latest records of these events, which it takes over, have completed. */
  giveBack(block: Block, after: readonly InternalEvent[]): void {
    this.#inUse.add(block, after)
    this.sweep()
  }

  /** Keeps the blocks that the GPU has completed its work with. */
  sweep(): void {
    this.#inUse.sweep()
  }

  /** The smallest block that is large enough, and not so large that much is wasted. */
  take(wanted: number): Block | undefined {
    const { number } = this.parts.kinds.pinned
    const byteLength = own().takeKeptPinned(ownerOfThread(), number, wanted, this.#found.address)
    return byteLength === 0 ? undefined : { pointer: this.#found.pointerAt(0) as Pointer, byteLength }
  }

  #keep({ pointer, byteLength }: Block): void {
    const { kinds, idleDevices } = this.parts
    if (own().keepPinned(ownerOfThread(), kinds.pinned.number, pointer, byteLength) === 0)
      idleDevices.whenIdle(() => this.#free(pointer))
    else this.#stale.later()
  }

  /** Frees all blocks when memory has run out. Returns false when none could be freed. */
  freeAll(): boolean {
    let any = false
    this.sweep()
    this.parts.hostFunctions.exclusivelyNow(() => {
      for (let pointer = this.#takeOlder(0); pointer !== undefined; pointer = this.#takeOlder(0)) {
        this.#free(pointer)
        any = true
      }
    })
    return any
  }

  #freeStale(): void {
    const take = (): Pointer | undefined => this.#takeOlder(KEPT_PINNED.milliseconds)
    for (let pointer = take(); pointer !== undefined; pointer = take()) {
      const stale = pointer
      this.parts.idleDevices.whenIdle(() => this.#free(stale))
    }
    if (own().bytesKept() > 0) this.#stale.later()
  }

  /** A block that was kept for so many milliseconds. It is this thread's from now on. */
  #takeOlder(milliseconds: number): Pointer | undefined {
    const { number } = this.parts.kinds.pinned
    const byteLength = own().takeStalePinned(ownerOfThread(), number, milliseconds, this.#found.address)
    return byteLength === 0 ? undefined : (this.#found.pointerAt(0) as Pointer)
  }

  #free(pointer: Pointer): void {
    const { library, relaxed, contexts } = this.parts
    const free = (): number => relaxed.run(() => library.cuMemFreeHost(pointer))
    checkCleanup('cuMemFreeHost', pointer, contexts.within(contexts.primary(0), free))
  }
}

export interface RegisteredMemoryParts extends LibcudaParts {
  readonly driver: AfterWorkDriver
  readonly idleDevices: Pick<IdleDevices, 'whenIdle' | 'check'>
}

interface Registered {
  readonly context: ContextHandle
  /** The memory, which is kept reachable as long as it is locked. */
  readonly bytes: Uint8Array
}

/** Memory of the process that the driver has page-locked, until the GPU has completed its work with it and the devices are idle. */
export class RegisteredMemory {
  readonly #registered = new Map<Pointer, Registered>()
  readonly #closed: AfterWork<Pointer>
  readonly #again = new RecheckTimer(() => this.#sweep())

  constructor(private readonly parts: RegisteredMemoryParts) {
    this.#closed = new AfterWork(parts.driver, (pointer) => parts.idleDevices.whenIdle(() => this.#unlock(pointer)))
  }

  register(bytes: Uint8Array, context: ContextHandle): Pointer {
    const { must, contexts, relaxed, idleDevices } = this.parts
    // Memory that was closed may be the same.
    this.#sweep()
    idleDevices.check()
    const address = layer().addressOf(bytes) as Pointer
    const register = (): void => must.cuMemHostRegister_v2(address, bytes.length, PORTABLE_AND_MAPPED)
    contexts.within(context, () => relaxed.run(register))
    this.#registered.set(address, { context, bytes })
    return address
  }

  /** Returns false for memory that was not registered here. Takes the events over. */
  unregister(pointer: Pointer, after: readonly InternalEvent[]): boolean {
    if (!this.#registered.has(pointer)) return false
    this.#closed.add(pointer, after)
    this.#sweep()
    return true
  }

  #sweep(): void {
    this.#closed.sweep()
    if (this.#closed.pending) this.#again.later()
  }

  #unlock(pointer: Pointer): void {
    const { library, relaxed, contexts } = this.parts
    const registered = this.#registered.get(pointer)
    if (registered === undefined) return
    const unregister = (): number => relaxed.run(() => library.cuMemHostUnregister(pointer))
    checkCleanup('cuMemHostUnregister', pointer, contexts.within(registered.context, unregister))
    this.#registered.delete(pointer)
  }
}

/**
 * The least number of bytes for which large pages are requested: for smaller arrays, the whole pages in them are not worth a
 * call.
 */
const LEAST_FOR_LARGE_PAGES = 8 * 1024 * 1024

/**
 * An ArrayBuffer of zeros that is about to be filled, in pages of 2 MiB if it is large and the system has them. In pages of 4 KiB, each of which the
 * system hands out when it is first written, filling 256 MiB takes five times as long.
 */
export function newArrayBuffer(byteLength: number): ArrayBuffer {
  const buffer = new ArrayBuffer(byteLength)
  if (byteLength >= LEAST_FOR_LARGE_PAGES) own().largePages(layer().addressOf(new Uint8Array(buffer)), byteLength)
  return buffer
}

/**
 * The least number of bytes that several threads copy. Below it one thread copies in C, too (native/copies.c), and the two calls
 * for the addresses cost more.
 */
const LEAST_FOR_THREADS = 1024 * 1024

/** Copies bytes to as many others: in native code where several threads do it together. */
export function copyBytes(to: Uint8Array, from: Uint8Array): void {
  if (from.length < LEAST_FOR_THREADS) to.set(from)
  else own().copy(layer().addressOf(to), layer().addressOf(from), from.length)
}
