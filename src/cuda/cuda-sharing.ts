/**
 * Memory that other processes see, and registrations that other threads see. Freeing and unmapping shared memory can wait for the whole device, and for
 * host functions that only this thread could run. So both happen when the devices are idle, and freed memory is kept for reuse.
 */

import { RecheckTimer } from '../foundation/base/polling.js'
import { AfterWork } from '../foundation/driver/after-work.js'
import { CUresult, cudaError, isContextLost } from '../foundation/driver/cuda-results.js'
import type { InternalEvent } from '../foundation/driver/event-driver.js'
import { notOpened, notShareable, ownMemory } from '../foundation/driver/handle-errors.js'
import type { ContextHandle, Pointer } from '../foundation/driver/handle-types.js'
import type {
  ExportedMemory,
  ImportedMemory,
  Registration,
  SharingDriver,
} from '../foundation/driver/sharing-driver.js'
import { own } from '../foundation/native/c-functions.js'
import { MemoryReader } from '../foundation/native/memory-reader.js'
import { NativeMemory } from '../foundation/native/native-memory.js'
import { type OwnedKind, ownerOfThread } from '../foundation/native/owned-handles.js'
import type { LibcudaParts } from './libcuda/driver-calls.js'
import { checkCleanup } from './libcuda/libcuda.js'
import { type Block, KeptBlocks, type KeptBlocksParts } from './memory/host-memory.js'

export const IPC_HANDLE_BYTES = 64
/**
 * The offset of a handle that a call takes by value, in the memory for out parameters: behind all words that calls write.
 */
export const HANDLE_AT = 64
const LAZY_ENABLE_PEER_ACCESS = 1
const POINTER_IS_LEGACY_CUDA_IPC_CAPABLE = 10
/** A smaller allocation may be in one block with other memory, all of which the other process would see. */
const GRANULE = 2 * 1024 * 1024

/** The words of a registration: its key, then its other words. */
const WORDS = 8

const leaveShared = (address: number): void => void own().leaveShared(ownerOfThread(), address)
const collected = new FinalizationRegistry(leaveShared)

/** A registration that was read once, and can be checked without a call. */
export class RegistrationWatch {
  readonly #words: Uint32Array
  readonly #low: number
  readonly #high: number
  #users = 0

  /** What is registered lives until every thread that uses it has left it, though the thread that shared it has ended. */
  constructor(
    private readonly address: number,
    key: number,
  ) {
    this.#words = new NativeMemory(8, address).uint32
    this.#low = key >>> 0
    this.#high = Math.floor(key / 2 ** 32)
    this.join()
  }

  join(): void {
    this.#users += 1
    if (this.#users > 1) return
    own().useShared(ownerOfThread(), this.address)
    collected.register(this, this.address, this)
  }

  leave(): void {
    this.#users -= 1
    if (this.#users !== 0) return
    collected.unregister(this)
    leaveShared(this.address)
  }

  /** Has the registration been removed, or its place taken by another? */
  get hasEnded(): boolean {
    return this.#words[0] !== this.#low || this.#words[1] !== this.#high
  }
}

/**
 * Words of native memory by which one thread shows the others that an object still exists, and which one. The other threads of a process have modules of
 * their own, but the same memory.
 */
export class Registrations {
  readonly #registered = new Map<number, NativeMemory>()
  /** Places for later registrations. They are never freed, since another thread may read them at any time. */
  readonly #free: NativeMemory[] = []
  #reader: MemoryReader | undefined

  /** Returns the address of the registration. */
  add([key, ...rest]: readonly [key: number, ...rest: number[]]): number {
    const memory = this.#free.pop() ?? new NativeMemory(8 * WORDS)
    const { uint64, address } = memory
    for (let word = 1; word < WORDS; word += 1) uint64[word] = BigInt(rest[word - 1] ?? 0)
    // The key is written last, so that a thread that sees it sees the words behind it.
    uint64[0] = BigInt(key)
    this.#registered.set(address, memory)
    return address
  }

  remove(address: number): void {
    const memory = this.#registered.get(address)
    if (memory === undefined) return
    this.#registered.delete(address)
    memory.uint64[0] = 0n
    this.#free.push(memory)
  }

  /** The words behind the key; undefined when no registration with this key is at the address. */
  read(address: number, key: number): readonly number[] | undefined {
    if (key === 0 || address % 8 !== 0) return undefined
    this.#reader ??= new MemoryReader()
    const reader = this.#reader
    if (reader.pointerAt(address) !== key) return undefined
    const rest = Array.from(reader.wordsAt(address + 8, WORDS - 1) ?? [], Number)
    // Another registration may have taken the place in the meantime.
    return reader.pointerAt(address) === key ? rest : undefined
  }
}

/** The kinds of memory that a thread can share. */
const SHARED_MEMORY = ['asyncMemory', 'memory', 'pinned', 'registered', 'mapping'] as const

export interface CudaSharingParts extends LibcudaParts, KeptBlocksParts {}

/** An allocation of another process, mapped into this one. CUDA counts the mappings of the same memory. */
interface Mapping {
  readonly context: ContextHandle
  readonly pointer: Pointer
  readonly byteLength: number
  readonly handle: Uint8Array
}

export class CudaSharing implements SharingDriver {
  readonly #registrations = new Registrations()
  readonly #blocks = new Map<Pointer, Block>()
  readonly #kept: KeptBlocks
  /** The handles that were exported, by the allocation's address. */
  readonly #exported = new Map<number, string>()
  readonly #mappings = new Set<Mapping>()
  readonly #closed: AfterWork<Mapping>
  readonly #again = new RecheckTimer(() => this.#sweepMappings())

  constructor(private readonly parts: CudaSharingParts) {
    this.#kept = new KeptBlocks(parts, (block) => this.#free(block))
    this.#closed = new AfterWork(parts.driver, (mapping) => parts.idleDevices.whenIdle(() => this.#unmap(mapping)))
  }

  allocate(byteLength: number, context: ContextHandle): Pointer {
    this.#kept.sweep()
    const wanted = Math.ceil(byteLength / GRANULE) * GRANULE
    const block = this.#kept.take(wanted, context) ?? this.#allocate(wanted, context)
    this.#blocks.set(block.pointer, block)
    return block.pointer
  }

  free(pointer: Pointer, after: readonly InternalEvent[]): void {
    const block = this.#blocks.get(pointer)
    if (block === undefined) return
    this.#blocks.delete(pointer)
    this.#kept.giveBack(block, after)
    this.#kept.sweep()
  }

  exportMemory(pointer: Pointer, context: ContextHandle): ExportedMemory {
    const { library, must, memory } = this.parts
    const mapping = this.#mappingAt(pointer)
    if (mapping !== undefined) return { handle: mapping.handle, byteOffset: pointer - mapping.pointer }
    return this.#in(context, () => {
      const { address } = memory
      const queried = library.cuPointerGetAttribute(address, POINTER_IS_LEGACY_CUDA_IPC_CAPABLE, pointer)
      if (queried === 0 && memory.bytes[0] === 0) throw notShareable(pointer)
      must.cuMemGetAddressRange_v2(address, address + 8, pointer)
      const base = memory.pointerAt(0)
      const result = library.cuIpcGetMemHandle(address, base)
      if (result !== 0) throw refusal(result, 'cuIpcGetMemHandle', (cause) => notShareable(pointer, cause))
      const handle = memory.bytes.slice(0, IPC_HANDLE_BYTES)
      this.#exported.set(base, textOf(handle))
      return { handle, byteOffset: pointer - base }
    })
  }

  importMemory(handle: Uint8Array, context: ContextHandle): ImportedMemory {
    this.#sweepMappings()
    if (new Set(this.#exported.values()).has(textOf(handle))) throw ownMemory()
    const mapping = this.#map(handle, context)
    this.#mappings.add(mapping)
    const { pointer, byteLength } = mapping
    return { pointer, byteLength, close: (after) => this.#close(mapping, after) }
  }

  register(words: readonly [key: number, ...rest: number[]]): Registration {
    const registration = this.#registrations.add(words)
    const [, kind = 0, , handle = 0, , ready = 0] = words
    const { stream, event, ...others } = this.parts.kinds
    if (kind < 2) this.#share(registration, kind === 0 ? stream : event, handle, 0)
    else for (const memory of SHARED_MEMORY) if (this.#share(registration, others[memory], handle, ready)) break
    return { registration }
  }

  /** Returns false when this thread has no such handle: it has wrapped another library's. */
  #share(registration: number, { number }: OwnedKind, handle: number, ready: number): boolean {
    return own().shareOwned(registration, number, handle, this.parts.kinds.event.number, ready) !== 0
  }

  unregister(registration: number): void {
    own().unshareOwned(registration)
    this.#registrations.remove(registration)
  }

  readRegistration(registration: number, key: number): readonly number[] | undefined {
    return this.#registrations.read(registration, key)
  }

  watchRegistration(registration: number, key: number): RegistrationWatch {
    return new RegistrationWatch(registration, key)
  }

  watchShared(): undefined {
    return undefined
  }

  watchReceived(): boolean {
    return false
  }

  #allocate(byteLength: number, context: ContextHandle): Block {
    const { library, memory } = this.parts
    const attempt = (): number => this.#in(context, () => library.cuMemAlloc_v2(memory.address, byteLength))
    let result = attempt()
    if (result === CUresult.OUT_OF_MEMORY && this.#kept.freeAll()) result = attempt()
    if (result !== 0) throw cudaError('cuMemAlloc', result)
    return { pointer: memory.pointerAt(0) as Pointer, byteLength, context }
  }

  #free({ pointer, context }: Block): void {
    this.#exported.delete(pointer)
    if (context === undefined) return
    const result = this.#in(context, () => this.parts.library.cuMemFree_v2(pointer))
    checkCleanup('cuMemFree', pointer, result)
  }

  #map(handle: Uint8Array, context: ContextHandle): Mapping {
    const { library, memory } = this.parts
    return this.#in(context, () => {
      const { address } = memory
      memory.bytes.set(handle, HANDLE_AT)
      const opened = library.cuIpcOpenMemHandle_v2(address, address + HANDLE_AT, LAZY_ENABLE_PEER_ACCESS)
      if (opened !== 0) throw refusal(opened, 'cuIpcOpenMemHandle', whyNotOpened)
      const pointer = memory.pointerAt(0) as Pointer
      this.parts.kinds.mapping.add(pointer)
      const ranged = library.cuMemGetAddressRange_v2(address, address + 8, pointer)
      if (ranged !== 0) {
        checkCleanup('cuIpcCloseMemHandle', pointer, library.cuIpcCloseMemHandle(pointer))
        throw cudaError('cuMemGetAddressRange', ranged)
      }
      const byteLength = memory.pointerAt(0) + memory.pointerAt(8) - pointer
      return { context, pointer, byteLength, handle: handle.slice() }
    })
  }

  #close(mapping: Mapping, after: readonly InternalEvent[]): void {
    this.#mappings.delete(mapping)
    this.#closed.add(mapping, after)
    this.#sweepMappings()
  }

  #unmap(mapping: Mapping): void {
    const { pointer, context } = mapping
    const result = this.#in(context, () => this.parts.library.cuIpcCloseMemHandle(pointer))
    checkCleanup('cuIpcCloseMemHandle', pointer, result)
  }

  #sweepMappings(): void {
    this.#closed.sweep()
    if (this.#closed.pending) this.#again.later()
  }

  #mappingAt(pointer: Pointer): Mapping | undefined {
    for (const mapping of this.#mappings) {
      if (pointer >= mapping.pointer && pointer < mapping.pointer + mapping.byteLength) return mapping
    }
    return undefined
  }

  /** Runs calls with a context current, and relaxed. */
  #in<R>(context: ContextHandle, calls: () => R): R {
    const { contexts, relaxed } = this.parts
    return contexts.within(context, () => relaxed.run(calls))
  }
}

const textOf = (handle: Uint8Array): string => Buffer.from(handle).toString('hex')

/** `explain` describes what is wrong with a call's argument. Results that are about something else need no explanation. */
function refusal(result: number, call: string, explain: (cause: Error) => Error): Error {
  const cause = cudaError(call, result)
  return result === CUresult.OUT_OF_MEMORY || isContextLost(result) ? cause : explain(cause)
}

function whyNotOpened(cause: Error): Error {
  return 'number' in cause && cause.number === CUresult.INVALID_CONTEXT ? ownMemory(cause) : notOpened(cause)
}
