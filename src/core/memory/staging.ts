/**
 * Pinned memory through which ordinary arrays go to a GPU and come from it: for each stream and direction a ring of four
 * chunks of 4 MiB, made when they are needed, and a ring of small ones before it, so that a program that moves a few bytes
 * makes no large chunk. All copies are queued at once, in the order of the stream. What fits into a free chunk is copied from or to it
 * before and behind the stream's work, which then waits for nothing. If the rings are full, the stream waits for
 * JavaScript, not the caller: an internal helper stream waits for a host function that fills or empties a chunk.
 */

import { CudaError, explained, invalidValue } from '../../foundation/base/errors.js'
import { destroyWhenUnreachable } from '../../foundation/base/finalization.js'
import { memoize } from '../../foundation/base/memoize.js'
import { cudaError } from '../../foundation/driver/cuda-results.js'
import type { Driver } from '../../foundation/driver/driver.js'
import { hostFunction } from '../streams/host-function.js'
import { StreamImpl } from '../streams/stream-impl.js'
import type { BufferImpl, OpenMemory } from './buffer.js'
import { allocatePinnedImpl } from './pinned-buffer.js'
import { queueCopy, reserveInAll } from './queue-with-memory.js'

const CHUNK_BYTES = 4 * 1024 * 1024
const CHUNKS = 4
/**
 * The size and the number of the chunks of the ring for small arrays, which is used as long as it has room: many small arrays at
 * a time take more of these, and large chunks later.
 */
const SMALL_CHUNK_BYTES = 64 * 1024
const SMALL_CHUNKS = 8
/** Each place in a chunk begins at a multiple of this. */
const ALIGNMENT = 256
/** The most chunks that are reserved at a time: hardware queues may not have room for more. */
const MOST_AT_ONCE = 32
/** The entries that the copy of a chunk to or from a CUDA array can need: parts of rows, rows and planes, on both sides of whole planes. */
const ENTRIES_OF_ARRAY = 5

/** The chunks that are reserved at a time, and the entries of each. */
const atOnce = ({ allocation }: BufferImpl): { readonly most: number; readonly entries: number } =>
  allocation.isArray ? { most: MOST_AT_ONCE / 2, entries: ENTRIES_OF_ARRAY } : { most: MOST_AT_ONCE, entries: 1 }

interface Chunk {
  readonly memory: BufferImpl
  used: number
  /**
   * Whether all work that used the chunk is known to be done; for the current chunk, all work from before it was begun.
   */
  ready: boolean
  /** The downloads whose bytes are in it, or will be, and that take them from there without a host function. */
  readonly reads: Set<Read>
}

/** Takes the bytes of a download from its chunk, once the stream has copied them there. Does nothing if they were taken already. */
type Read = (error?: unknown) => void

/** A place in a chunk. */
interface Place extends Pick<Chunk, 'ready' | 'reads'> {
  readonly memory: BufferImpl
}

class Ring {
  #chunks: Chunk[] = []
  #at = -1

  constructor(
    private readonly chunkBytes: number,
    private readonly count: number,
    private readonly allocate: (byteLength: number) => BufferImpl,
  ) {}

  /** Is there room for so many bytes in chunks whose work is all done? */
  isFree(byteLength: number): boolean {
    const begun = this.#chunks[this.#at]
    const size = this.chunkBytes
    let left = byteLength
    if (begun !== undefined && begun.used + Math.min(left, size) <= size) {
      if (!isReady(begun)) return false
      left -= size
    }
    left -= (this.count - this.#chunks.length) * size
    for (const chunk of this.#chunks) if (left > 0 && chunk !== begun && isReady(chunk)) left -= size
    return left <= 0
  }

  /** Takes room for so many bytes, at most a chunk, in the current chunk or in another. */
  place(byteLength: number): Place {
    let chunk = this.#chunks[this.#at]
    if (chunk === undefined || chunk.used + byteLength > this.chunkBytes) chunk = this.#begin(chunk)
    const memory = chunk.memory.subarray(undefined, chunk.used, chunk.used + byteLength)
    chunk.used += Math.ceil(byteLength / ALIGNMENT) * ALIGNMENT
    return { memory, ready: isReady(chunk), reads: chunk.reads }
  }

  /** The GPU may still use the chunks: their memory is freed when it is done with them. */
  release(): void {
    for (const { memory } of this.#chunks.splice(0)) memory.close()
  }

  /** Begins a chunk whose work is done, and whose bytes are likely in a cache of the processor still; else a new one; else the next. */
  #begin(current: Chunk | undefined): Chunk {
    const { length } = this.#chunks
    let at = this.#chunks.findIndex((chunk) => chunk !== current && isReady(chunk))
    if (at < 0) at = length < this.count ? length : (this.#at + 1) % length
    let chunk = this.#chunks[at]
    if (chunk === undefined) {
      const memory = this.allocate(this.chunkBytes)
      chunk = { memory, used: 0, ready: true, reads: new Set() }
      destroyWhenUnreachable(this, memory.allocation)
      this.#chunks.push(chunk)
    }
    if (current !== undefined) current.ready = false
    this.#at = at
    chunk.used = 0
    return chunk
  }
}

/** The rings of a stream in one direction. */
class Rings {
  readonly #stream: StreamImpl
  readonly #small: Ring
  readonly #large: Ring
  #helper: StreamImpl | undefined
  /** The number of copies between the chunks and arrays that JavaScript will make. */
  #pending = 0
  #closed = false

  /** `allocate` makes a chunk. */
  constructor(stream: StreamImpl, allocate: (byteLength: number) => BufferImpl) {
    this.#stream = stream
    this.#small = new Ring(SMALL_CHUNK_BYTES, SMALL_CHUNKS, allocate)
    this.#large = new Ring(CHUNK_BYTES, CHUNKS, allocate)
    stream.whenClosing(() => this.#close())
  }

  /** The stream whose host functions fill and empty the chunks of both that are not free, in the order of the calls. */
  get helper(): StreamImpl {
    this.#helper ??= StreamImpl.makeFor(this, this.#stream.device)
    return this.#helper
  }

  /** The ring through which so many bytes go. */
  ringFor(byteLength: number): Ring {
    return byteLength <= SMALL_CHUNK_BYTES && this.#small.isFree(byteLength) ? this.#small : this.#large
  }

  copyQueued(): void {
    this.#pending += 1
  }

  copyDone(): void {
    this.#pending -= 1
    if (this.#closed) this.#release()
  }

  #close(): void {
    this.#closed = true
    this.#release()
  }

  #release(): void {
    if (this.#pending > 0) return
    this.#small.release()
    this.#large.release()
    this.#helper?.close()
  }
}

const uploadRingsOf = memoize(
  (stream: StreamImpl) => new Rings(stream, (byteLength) => allocatePinnedImpl(stream.device, byteLength)),
)
/** What is downloaded is read before its chunk is used again or freed, and so the stream's copies to it are done by then. */
const downloadRingsOf = memoize(
  (stream: StreamImpl) =>
    new Rings(stream, (byteLength) => allocatePinnedImpl(stream.device, byteLength, stream.serial)),
)

/**
 * Queues the copy of these bytes. The promise resolves when none of them is needed any more, in the ring or outside it. It
 * rejects if the GPU is known to have faulted by then, and if only a part could be queued. `checksFaults` is false where nobody
 * gets the promise: the next wait reports a fault, and the query costs as much as the copy.
 * @throws ERR_CLOSED, ERR_INVALID_ARG_VALUE if a host function that runs meanwhile closes the buffer or detaches the bytes
 */
export function stageUpload(
  stream: StreamImpl,
  buffer: BufferImpl,
  bytes: Uint8Array,
  checksFaults: boolean,
): Promise<void> {
  const rings = uploadRingsOf(stream)
  const { length } = bytes
  const ring = rings.ringFor(length)
  const pending = new Pending(rings)
  const upload = { stream, buffer, bytes, rings, ring, pending }
  const { most, entries } = atOnce(buffer)
  for (let begin = 0; begin < length; begin += most * CHUNK_BYTES) {
    const end = Math.min(length, begin + most * CHUNK_BYTES)
    try {
      reserveForUpload(stream, rings, ring, end - begin, entries)
      buffer.checkOpen()
      if (bytes.length !== length) throw invalidValue('source was detached or shortened while the stream had no room')
    } catch (error) {
      if (begin === 0) throw error
      // A call that throws has queued nothing. No wait reports this error, so an unobserved promise is an unhandled rejection.
      return Promise.reject(error)
    }
    uploadPart(upload, begin, end)
  }
  // The driver refuses a copy on a faulted GPU late, or never.
  const done = pending.promise(checksFaults ? () => stream.driver.devices.contextCheck(stream.context) : undefined)
  // A caller need not observe it: the next wait reports the fault.
  done.catch(() => {})
  return done
}

function reserveForUpload(stream: StreamImpl, rings: Rings, ring: Ring, byteLength: number, entries: number): void {
  const chunks = entries * Math.ceil(byteLength / CHUNK_BYTES)
  if (ring.isFree(byteLength)) stream.reserve(chunks)
  else reserveInAll(new Set([stream, rings.helper]), chunks)
}

/** An upload, of which parts are queued one after the other. */
interface Upload {
  readonly stream: StreamImpl
  readonly buffer: BufferImpl
  readonly bytes: Uint8Array
  readonly rings: Rings
  readonly ring: Ring
  readonly pending: Pending
}

/** Queues the copies of a part of an upload, whose entries are reserved. */
function uploadPart({ stream, buffer, bytes, rings, ring, pending }: Upload, begin: number, end: number): void {
  /** Copies of the bytes for which the ring has no room yet: the caller may change the array at once. */
  let kept: { readonly begin: number; readonly bytes: Uint8Array } | undefined
  for (let offset = begin; offset < end; offset += CHUNK_BYTES) {
    const part = bytes.subarray(offset, Math.min(end, offset + CHUNK_BYTES))
    const { memory, ready } = ring.place(part.length)
    if (ready) stream.driver.memory.copyBytes(memory.ownBytes(), part)
    else {
      kept ??= { begin: offset, bytes: new Uint8Array(stream.driver.memory.newArrayBuffer(end - offset)) }
      const copy = kept.bytes.subarray(offset - kept.begin, offset - kept.begin + part.length)
      stream.driver.memory.copyBytes(copy, part)
      fillLater(rings.helper, stream, memory, copy, pending)
    }
    queueCopy(stream, at(buffer, offset), memory, part.length, 'upload')
  }
}

/**
 * Queues the copy of these bytes to an array of their length; the promise resolves when the array has them. It rejects with
 * ERR_INVALID_ARG_VALUE if the array has been detached or shortened by then.
 */
export function stageDownload(stream: StreamImpl, buffer: BufferImpl, target: Target): Promise<void> {
  const rings = downloadRingsOf(stream)
  const { byteLength } = buffer
  const ring = rings.ringFor(byteLength)
  if (byteLength > 0 && byteLength <= CHUNK_BYTES && ring.isFree(byteLength)) {
    stream.reserve(1)
    buffer.checkOpen()
    // Host functions that ran while the stream had no room may have begun downloads.
    if (ring.isFree(byteLength)) return downloadDirectly(stream, rings, ring.place(byteLength), buffer, target)
  }
  const pending = new Pending(rings)
  const { most, entries } = atOnce(buffer)
  for (let begin = 0; begin < byteLength; begin += most * CHUNK_BYTES) {
    const end = Math.min(byteLength, begin + most * CHUNK_BYTES)
    const { helper } = rings
    // In the helper a chunk is emptied before, and behind the copy.
    reserveInAll(new Set([stream, helper]), (1 + entries) * Math.ceil((end - begin) / CHUNK_BYTES))
    buffer.checkOpen()
    for (let offset = begin; offset < end; offset += CHUNK_BYTES) {
      const length = Math.min(CHUNK_BYTES, end - offset)
      const { memory, ready, reads } = ring.place(length)
      const { allocation } = memory
      if (!ready) {
        if (reads.size > 0) readInHelper(helper, stream, memory, reads, pending)
        allocation.orderAfterUses(stream)
      }
      queueCopy(stream, memory, at(buffer, offset), length, 'download')
      inHelper(helper, stream, memory, pending, () =>
        take(stream.driver, target, byteLength, offset, memory.ownBytes()),
      )
    }
  }
  return pending.promise()
}

/** Queues the copy to a place of a free chunk. JavaScript takes the bytes when it learns that the stream has come past the copy. */
function downloadDirectly(
  stream: StreamImpl,
  rings: Rings,
  { memory, reads }: Place,
  buffer: BufferImpl,
  target: Target,
): Promise<void> {
  const { driver, handle, context } = stream
  const { byteLength } = memory
  queueCopy(stream, memory, buffer, byteLength, 'download')
  return new Promise((resolve, reject) => {
    const read: Read = (error) => {
      if (!reads.delete(read)) return
      // Whoever calls this settles others behind it.
      try {
        if (error !== undefined) throw error instanceof CudaError ? faultError(stream, error.number) : error
        const mistake = take(driver, target, byteLength, 0, memory.ownBytes())
        if (mistake !== undefined) throw mistake
        resolve()
      } catch (reason) {
        reject(reason)
      } finally {
        rings.copyDone()
      }
    }
    // Before a call that may be refused: the copy is queued, so that its place must not be used again then.
    reads.add(read)
    rings.copyQueued()
    driver.streams.finished(handle, context, read)
  })
}

/** The array that a download writes, until the program gives it up. */
export interface Target {
  readonly into: Uint8Array
  isGivenUp: boolean
}

/** Writes what has arrived in pinned memory to its place in the array. Returns the error of an array that is not as it was. */
function take(
  driver: Driver,
  { into, isGivenUp }: Target,
  byteLength: number,
  offset: number,
  arrived: Uint8Array,
): Error | undefined {
  if (isGivenUp) return undefined
  if (into.length !== byteLength) return shortened()
  driver.memory.copyBytes(into.subarray(offset, offset + arrived.length), arrived)
  return undefined
}

const shortened = (): Error => invalidValue('into was detached or shortened before its download was done')

/** The helper stream takes the bytes of these downloads, which the stream has queued, and whatever comes after uses of the chunk waits for that. */
function readInHelper(
  helper: StreamImpl,
  stream: StreamImpl,
  memory: BufferImpl,
  reads: Set<Read>,
  pending: Pending,
): void {
  const queued = [...reads]
  inHelper(helper, stream, memory, pending, () => {
    for (const read of queued) read()
  })
}

/** Queues a host function in the helper stream that uses the chunk behind what the stream has queued. */
function inHelper(
  helper: StreamImpl,
  stream: StreamImpl,
  { allocation }: BufferImpl,
  pending: Pending,
  run: () => unknown,
): void {
  helper.driver.streams.waitStream(helper.handle, stream.handle, stream.context)
  allocation.beforeUse(helper)
  queueHostFunction(helper, pending, run)
  allocation.afterUse(helper)
}

/** The helper stream fills the place once earlier work with it is done, and the stream waits for that. */
function fillLater(
  helper: StreamImpl,
  stream: StreamImpl,
  memory: BufferImpl,
  bytes: Uint8Array,
  pending: Pending,
): void {
  memory.allocation.orderAfterUses(helper)
  queueHostFunction(helper, pending, () => helper.driver.memory.copyBytes(memory.ownBytes(), bytes))
  stream.driver.streams.waitStream(stream.handle, helper.handle, helper.context)
}

/** `run` returns an error, if there is one. It is not called after a fault, but counts as done nevertheless. */
function queueHostFunction(stream: StreamImpl, pending: Pending, run: () => unknown): void {
  const { driver, handle, context } = stream
  const call = hostFunction((status) => pending.done(status === 0 ? run() : faultError(stream, status)), true, true)
  driver.work.queue({ kind: 'hostFunction', stream: handle, context, call })
  pending.queued()
}

/** The error of a copy that the GPU did not come to. */
function faultError({ driver, context }: StreamImpl, status: number): Error {
  const error = cudaError('cuMemcpyAsync', status)
  const reason = driver.devices.contextFault(context)
  return reason === undefined ? error : explained(error, reason.text, reason.culprit)
}

/** Pending host functions of an upload or download. */
class Pending {
  readonly #rings: Rings
  #count = 0
  #error: unknown
  #settle: (() => void) | undefined

  constructor(rings: Rings) {
    this.#rings = rings
  }

  queued(): void {
    this.#count += 1
    this.#rings.copyQueued()
  }

  done(error?: unknown): void {
    this.#count -= 1
    this.#error ??= error
    this.#rings.copyDone()
    if (this.#count === 0) this.#settle?.()
  }

  /** Settles when all of them are done. If there are none, it rejects with what `check` throws. */
  promise(check = (): void => {}): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#settle = () => (this.#error === undefined ? resolve() : reject(this.#error))
      if (this.#count > 0) return
      check()
      this.#settle()
    })
  }
}

function isReady(chunk: Chunk): boolean {
  chunk.ready ||= chunk.reads.size === 0 && chunk.memory.allocation.idle
  return chunk.ready
}

const at = ({ allocation, pointer }: OpenMemory, offset: number): OpenMemory => ({
  allocation,
  pointer: (pointer + offset) as OpenMemory['pointer'],
})
