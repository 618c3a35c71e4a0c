/**
 * Memory that other processes see. Freeing and unmapping it can wait for the whole device, host functions included, which
 * only this thread could run: so both happen when the devices are idle, and freed memory is kept for reuse.
 */

import { stateError } from '../../base/errors.js'
import { RecheckTimer } from '../../base/recheck-timer.js'
import { AfterWork } from '../after-work.js'
import { CUresult, cudaError, isContextLost } from '../cuda-results.js'
import type { ContextHandle, ExportedMemory, ImportedMemory, OwnEvent, Pointer, SharingDriver } from '../driver.js'
import { Marks, MarkWatch } from './handles/marks.js'
import { check } from './libcuda/library.js'
import type { LibcudaParts } from './libcuda/stream-calls.js'
import { type Block, KeptBlocks, type KeptBlocksParts } from './memory/kept-blocks.js'

export const IPC_HANDLE_BYTES = 64
/** Where a handle lies for a call that takes it by value: behind the words of the results, also those of contexts. */
export const HANDLE_AT = 64
const LAZY_ENABLE_PEER_ACCESS = 1
const POINTER_IS_LEGACY_CUDA_IPC_CAPABLE = 10
/** A smaller allocation may lie in one block with other memory, all of which the other process would see. */
const GRANULE = 2 * 1024 * 1024

export interface CudaSharingParts extends LibcudaParts, KeptBlocksParts {}

/** An allocation of another process, mapped into this one. Of several of the same memory CUDA keeps count. */
interface Mapping {
  readonly context: ContextHandle
  readonly pointer: Pointer
  readonly byteLength: number
  readonly handle: Uint8Array
}

export class CudaSharing implements SharingDriver {
  readonly #marks = new Marks()
  readonly #blocks = new Map<Pointer, Block>()
  readonly #kept: KeptBlocks
  /** Handles given away, by the allocation's address. */
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

  free(pointer: Pointer, after: readonly OwnEvent[]): void {
    const block = this.#blocks.get(pointer)
    if (block === undefined) return
    this.#blocks.delete(pointer)
    this.#kept.giveBack(block, after)
    this.#kept.sweep()
  }

  exportMemory(pointer: Pointer, context: ContextHandle): ExportedMemory {
    const { library, memory } = this.parts
    const mapping = this.#mappingAt(pointer)
    if (mapping !== undefined) return { handle: mapping.handle, byteOffset: pointer - mapping.pointer }
    return this.#in(context, () => {
      const { address } = memory
      const asked = library.cuPointerGetAttribute(address, POINTER_IS_LEGACY_CUDA_IPC_CAPABLE, pointer)
      if (asked === 0 && memory.bytes[0] === 0) throw notShareable(pointer)
      check('cuMemGetAddressRange', library.cuMemGetAddressRange_v2(address, address + 8, pointer))
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

  raiseMark(words: readonly [key: number, ...rest: number[]]): number {
    return this.#marks.raise(words)
  }

  lowerMark(mark: number): void {
    this.#marks.lower(mark)
  }

  readMark(mark: number, key: number): readonly number[] | undefined {
    return this.#marks.read(mark, key)
  }

  watchMark(mark: number, key: number): MarkWatch {
    return new MarkWatch(mark, key)
  }

  #allocate(byteLength: number, context: ContextHandle): Block {
    const { library, memory } = this.parts
    const attempt = (): number => this.#in(context, () => library.cuMemAlloc_v2(memory.address, byteLength))
    let result = attempt()
    if (result === CUresult.OUT_OF_MEMORY && this.#kept.freeAll()) result = attempt()
    check('cuMemAlloc', result)
    return { pointer: memory.pointerAt(0) as Pointer, byteLength, context }
  }

  #free({ pointer, context }: Block): void {
    this.#exported.delete(pointer)
    if (context !== undefined) this.#in(context, () => this.parts.library.cuMemFree_v2(pointer))
  }

  #map(handle: Uint8Array, context: ContextHandle): Mapping {
    const { library, memory } = this.parts
    return this.#in(context, () => {
      const { address } = memory
      memory.bytes.set(handle, HANDLE_AT)
      const opened = library.cuIpcOpenMemHandle_v2(address, address + HANDLE_AT, LAZY_ENABLE_PEER_ACCESS)
      if (opened !== 0) throw refusal(opened, 'cuIpcOpenMemHandle', notOpened)
      const pointer = memory.pointerAt(0) as Pointer
      const ranged = library.cuMemGetAddressRange_v2(address, address + 8, pointer)
      if (ranged !== 0) {
        library.cuIpcCloseMemHandle(pointer)
        throw cudaError('cuMemGetAddressRange', ranged)
      }
      const byteLength = memory.pointerAt(0) + memory.pointerAt(8) - pointer
      return { context, pointer, byteLength, handle: handle.slice() }
    })
  }

  #close(mapping: Mapping, after: readonly OwnEvent[]): void {
    this.#mappings.delete(mapping)
    this.#closed.add(mapping, after)
    this.#sweepMappings()
  }

  #unmap(mapping: Mapping): void {
    const { pointer, context } = mapping
    this.#in(context, () => this.parts.library.cuIpcCloseMemHandle(pointer))
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

  /** Runs calls with a context current, and without harm to a capture. */
  #in<R>(context: ContextHandle, calls: () => R): R {
    const { contexts, relaxed } = this.parts
    return contexts.within(context, () => relaxed.run(calls))
  }
}

const textOf = (handle: Uint8Array): string => Buffer.from(handle).toString('hex')

/** `explain` puts in words what the driver refuses about a call's argument; other results speak for themselves. */
function refusal(result: number, call: string, explain: (cause: Error) => Error): Error {
  const cause = cudaError(call, result)
  return result === CUresult.OUT_OF_MEMORY || isContextLost(result) ? cause : explain(cause)
}

function notShareable(pointer: Pointer, cause?: Error): Error {
  const what = `The memory at 0x${pointer.toString(16)} cannot be shared with other processes`
  const how = 'allocate it with device.alloc(byteLength, { interprocess: true }), or with cudaMalloc in another library'
  return stateError('ERR_UNSUPPORTED', `${what}: ${how}`, cause)
}

function ownMemory(cause?: Error): Error {
  const how = 'use the buffer itself here, and buffer.share() between threads'
  return stateError('ERR_INVALID_HANDLE', `These bytes are memory of this same process: ${how}`, cause)
}

function notOpened(cause: Error): Error {
  if ('number' in cause && cause.number === CUresult.INVALID_CONTEXT) return ownMemory(cause)
  const why = 'are they what ipcHandle() returned, in another process that still runs and has the memory open?'
  return stateError('ERR_INVALID_HANDLE', `These bytes open no memory: ${why}`, cause)
}
