/**
 * Pinned memory through which ordinary arrays go to a GPU and come from it: for each stream and direction a ring of four
 * chunks of 4 MiB, made when they are needed, and a ring of small ones before it, so that a program that moves a few bytes
 * makes no large chunk. All copies are queued at once, in the order of the stream. If the rings are full, the stream waits for
 * JavaScript, not the caller: an internal helper stream waits for a host function that fills or empties a chunk.
 */
import { explained, invalidValue } from '../base/errors.js'
import { destroyWhenUnreachable } from '../base/finalization.js'
import { memoize } from '../base/memoize.js'
import { cudaError } from '../driver/cuda-results.js'
import { hostFunction } from '../streams/host-function.js'
import { StreamImpl } from '../streams/stream-impl.js'
import type { BufferImpl, OpenMemory } from './buffer.js'
import { allocatePinnedImpl } from './pinned-buffer.js'
import { queueCopy, reserveInAll } from './queue-with-memory.js'

const CHUNK_BYTES = 4 * 1024 * 1024
const CHUNKS = 4
/** Of the ring for what is small, as long as that has room. */
const SMALL_CHUNK_BYTES = 64 * 1024
const SMALL_CHUNKS = 2
/** Each place in a chunk begins at a multiple of this. */
const ALIGNMENT = 256
/** The most chunks that are reserved at a time: hardware queues may not have room for more. */
const MOST_AT_ONCE = 32

interface Chunk {
  readonly memory: BufferImpl
  used: number
  /** Is all work done that used it in the previous round? */
  ready: boolean
}

/** A place in a chunk. */
interface Place {
  readonly memory: BufferImpl
  readonly ready: boolean
}

class Ring {
  readonly #stream: StreamImpl
  readonly #chunkBytes: number
  readonly #count: number
  #chunks: Chunk[] = []
  #at = -1

  constructor(stream: StreamImpl, chunkBytes: number, count: number) {
    this.#stream = stream
    this.#chunkBytes = chunkBytes
    this.#count = count
  }

  /** Is there room for so many bytes in chunks whose work is all done? */
  isFree(byteLength: number): boolean {
    const begun = this.#chunks[this.#at]
    const size = this.#chunkBytes
    let left = byteLength
    if (begun !== undefined && begun.used + Math.min(left, size) <= size) {
      begun.ready ||= isIdle(begun)
      if (!begun.ready) return false
      left -= size
    }
    for (let next = 1; left > 0; next += 1, left -= size) {
      if (next >= this.#count) return false
      const chunk = this.#chunks[(this.#at + next) % this.#count]
      if (chunk !== undefined && !isIdle(chunk)) return false
    }
    return true
  }

  /** Takes room for so many bytes, at most a chunk, in the current chunk or in the next. */
  place(byteLength: number): Place {
    let chunk = this.#chunks[this.#at]
    if (chunk === undefined || chunk.used + byteLength > this.#chunkBytes) chunk = this.#begin()
    else if (!chunk.ready) chunk.ready = isIdle(chunk)
    const memory = chunk.memory.subarray(undefined, chunk.used, chunk.used + byteLength)
    chunk.used += Math.ceil(byteLength / ALIGNMENT) * ALIGNMENT
    return { memory, ready: chunk.ready }
  }

  /** The GPU may still use the chunks: their memory is freed when it is done with them. */
  release(): void {
    for (const { memory } of this.#chunks.splice(0)) memory.close()
  }

  #begin(): Chunk {
    const at = (this.#at + 1) % this.#count
    let chunk = this.#chunks[at]
    if (chunk === undefined) {
      chunk = { memory: allocatePinnedImpl(this.#stream.device, this.#chunkBytes), used: 0, ready: true }
      destroyWhenUnreachable(this, chunk.memory.allocation)
      this.#chunks.push(chunk)
    }
    this.#at = at
    chunk.used = 0
    chunk.ready = isIdle(chunk)
    return chunk
  }
}

/** The rings of a stream in one direction. */
class Rings {
  readonly #stream: StreamImpl
  readonly #small: Ring
  readonly #large: Ring
  #helper: StreamImpl | undefined
  /** The number of pending host functions that will use the chunks. */
  #pending = 0
  #closed = false

  constructor(stream: StreamImpl) {
    this.#stream = stream
    this.#small = new Ring(stream, SMALL_CHUNK_BYTES, SMALL_CHUNKS)
    this.#large = new Ring(stream, CHUNK_BYTES, CHUNKS)
    stream.whenClosing(() => this.#close())
  }

  /** The stream whose host functions fill and empty the chunks of both, in the order of the calls. */
  get helper(): StreamImpl {
    this.#helper ??= StreamImpl.makeFor(this, this.#stream.device)
    return this.#helper
  }

  /** The ring through which so many bytes go. */
  ringFor(byteLength: number): Ring {
    return byteLength <= SMALL_CHUNK_BYTES && this.#small.isFree(byteLength) ? this.#small : this.#large
  }

  hostFunctionQueued(): void {
    this.#pending += 1
  }

  hostFunctionDone(): void {
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

const uploadRingsOf = memoize((stream: StreamImpl) => new Rings(stream))
const downloadRingsOf = memoize((stream: StreamImpl) => new Rings(stream))

/**
 * Queues the copy of these bytes. The promise resolves when none of them is needed any more, in the ring or outside it. It
 * rejects if the GPU is known to have faulted by then, and if only a part could be queued.
 * @throws ERR_CLOSED, ERR_INVALID_ARG_VALUE if a host function that runs meanwhile closes the buffer or detaches the bytes
 */
export function stageUpload(stream: StreamImpl, buffer: BufferImpl, bytes: Uint8Array): Promise<void> {
  const rings = uploadRingsOf(stream)
  const { length } = bytes
  const ring = rings.ringFor(length)
  const pending = new Pending(rings)
  for (let begin = 0; begin < length; begin += MOST_AT_ONCE * CHUNK_BYTES) {
    const end = Math.min(length, begin + MOST_AT_ONCE * CHUNK_BYTES)
    try {
      reserveForUpload(stream, rings, ring, end - begin)
      buffer.checkOpen()
      if (bytes.length !== length) throw invalidValue('source was detached or shortened while the stream had no room')
    } catch (error) {
      if (begin === 0) throw error
      // A call that throws has queued nothing. No wait reports this error, so an unobserved promise is an unhandled rejection.
      return Promise.reject(error)
    }
    uploadPart(stream, rings, ring, buffer, bytes, { begin, end }, pending)
  }
  // The driver refuses a copy on a faulted GPU late, or never.
  const done = pending.promise(() => stream.driver.contextCheck(stream.context))
  // A caller need not observe it: the next wait reports the fault.
  done.catch(() => {})
  return done
}

function reserveForUpload(stream: StreamImpl, rings: Rings, ring: Ring, byteLength: number): void {
  const chunks = Math.ceil(byteLength / CHUNK_BYTES)
  if (ring.isFree(byteLength)) stream.reserve(chunks)
  else reserveInAll(new Set([stream, rings.helper]), chunks)
}

interface Part {
  readonly begin: number
  readonly end: number
}

/** Queues the copies of a part, whose entries are reserved. */
function uploadPart(
  stream: StreamImpl,
  rings: Rings,
  ring: Ring,
  buffer: BufferImpl,
  bytes: Uint8Array,
  { begin, end }: Part,
  pending: Pending,
): void {
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
export function stageDownload(stream: StreamImpl, buffer: BufferImpl, into: Uint8Array): Promise<void> {
  const rings = downloadRingsOf(stream)
  const { byteLength } = buffer
  const ring = rings.ringFor(byteLength)
  const pending = new Pending(rings)
  for (let begin = 0; begin < byteLength; begin += MOST_AT_ONCE * CHUNK_BYTES) {
    const end = Math.min(byteLength, begin + MOST_AT_ONCE * CHUNK_BYTES)
    const { helper } = rings
    reserveInAll(new Set([stream, helper]), Math.ceil((end - begin) / CHUNK_BYTES))
    buffer.checkOpen()
    for (let offset = begin; offset < end; offset += CHUNK_BYTES) {
      const length = Math.min(CHUNK_BYTES, end - offset)
      const { memory, ready } = ring.place(length)
      const { allocation } = memory
      if (!ready) allocation.orderAfterUses(stream)
      queueCopy(stream, memory, at(buffer, offset), length, 'download')
      helper.driver.streamWaitStream(helper.handle, stream.handle, stream.context)
      allocation.beforeUse(helper)
      queueHostFunction(helper, pending, () =>
        into.length === byteLength
          ? stream.driver.memory.copyBytes(into.subarray(offset, offset + length), memory.ownBytes())
          : invalidValue('into was detached or shortened before its download was done'),
      )
      allocation.afterUse(helper)
    }
  }
  return pending.promise()
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
  stream.driver.streamWaitStream(stream.handle, helper.handle, helper.context)
}

/** `run` returns an error, if there is one. It is not called after a fault, but counts as done nevertheless. */
function queueHostFunction({ driver, handle, context }: StreamImpl, pending: Pending, run: () => unknown): void {
  const faultError = (status: number): Error => {
    const error = cudaError('cuMemcpyAsync', status)
    const reason = driver.contextFault(context)
    return reason === undefined ? error : explained(error, reason)
  }
  const call = hostFunction((status) => pending.done(status === 0 ? run() : faultError(status)), true, true)
  driver.queue({ kind: 'hostFunction', stream: handle, context, call })
  pending.queued()
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
    this.#rings.hostFunctionQueued()
  }

  done(error?: unknown): void {
    this.#count -= 1
    this.#error ??= error
    this.#rings.hostFunctionDone()
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

const isIdle = ({ memory }: Chunk): boolean => memory.allocation.idle
const at = ({ allocation, pointer }: OpenMemory, offset: number): OpenMemory => ({
  allocation,
  pointer: (pointer + offset) as OpenMemory['pointer'],
})
