/**
 * Pinned memory through which ordinary arrays go to a GPU and come from it: for each stream and direction a ring of four
 * chunks of 4 MiB, made as they are needed. All copies are queued at once, in the order of the stream. Where the ring is
 * full the stream, not the caller, waits for JavaScript: a second stream stands at a host function that fills or empties a
 * chunk.
 */

import { invalidValue } from '../base/errors.js'
import { destroyWhenUnreachable } from '../base/finalization.js'
import { cudaError } from '../driver/cuda-results.js'
import { hostFunction } from '../streams/host-function.js'
import { StreamCore } from '../streams/stream-core.js'
import type { BufferCore, OpenMemory } from './buffer-core.js'
import { pinnedCore } from './pinned-buffer.js'
import { makeRoomInAll, queueCopy } from './queue-with-memory.js'

const CHUNK_BYTES = 4 * 1024 * 1024
const CHUNKS = 4
/** Each place in a chunk begins at a multiple of this. */
const ALIGNMENT = 256
/** Room is made for this many chunks at a time: the streams need not take more. */
const MOST_AT_ONCE = 32

interface Chunk {
  readonly memory: BufferCore
  used: number
  /** Is all the work done that used it before it was begun anew? */
  ready: boolean
}

/** A place in a chunk. */
interface Place {
  readonly memory: BufferCore
  readonly ready: boolean
}

class Ring {
  readonly #stream: StreamCore
  #chunks: Chunk[] = []
  #at = -1
  #helper: StreamCore | undefined
  /** Host functions that will still use the chunks. */
  #pending = 0
  #closed = false

  constructor(stream: StreamCore) {
    this.#stream = stream
    stream.whenClosing(() => this.#close())
  }

  /** The stream whose host functions fill and empty the chunks. */
  get helper(): StreamCore {
    this.#helper ??= StreamCore.makeFor(this, this.#stream.device)
    return this.#helper
  }

  /** Will so many bytes find room in chunks whose work is all done? */
  isFree(byteLength: number): boolean {
    const begun = this.#chunks[this.#at]
    let left = byteLength
    if (begun !== undefined && begun.used + Math.min(left, CHUNK_BYTES) <= CHUNK_BYTES) {
      begun.ready ||= isIdle(begun)
      if (!begun.ready) return false
      left -= CHUNK_BYTES
    }
    for (let next = 1; left > 0; next += 1, left -= CHUNK_BYTES) {
      if (next >= CHUNKS) return false
      const chunk = this.#chunks[(this.#at + next) % CHUNKS]
      if (chunk !== undefined && !isIdle(chunk)) return false
    }
    return true
  }

  /** Room for so many bytes, a chunk at most, in the chunk begun or in the next. */
  place(byteLength: number): Place {
    let chunk = this.#chunks[this.#at]
    if (chunk === undefined || chunk.used + byteLength > CHUNK_BYTES) chunk = this.#begin()
    else if (!chunk.ready) chunk.ready = isIdle(chunk)
    const memory = chunk.memory.slice(undefined, chunk.used, byteLength)
    chunk.used += Math.ceil(byteLength / ALIGNMENT) * ALIGNMENT
    return { memory, ready: chunk.ready }
  }

  hostFunctionQueued(): void {
    this.#pending += 1
  }

  hostFunctionOver(): void {
    this.#pending -= 1
    if (this.#closed) this.#release()
  }

  #begin(): Chunk {
    const at = (this.#at + 1) % CHUNKS
    let chunk = this.#chunks[at]
    if (chunk === undefined) {
      chunk = { memory: pinnedCore(this.#stream.device, CHUNK_BYTES), used: 0, ready: true }
      destroyWhenUnreachable(this, chunk.memory.allocation)
      this.#chunks.push(chunk)
    }
    this.#at = at
    chunk.used = 0
    chunk.ready = isIdle(chunk)
    return chunk
  }

  #close(): void {
    this.#closed = true
    this.#release()
  }

  /** The GPU may use the chunks still: their memory is given back when it has. */
  #release(): void {
    if (this.#pending > 0) return
    for (const { memory } of this.#chunks.splice(0)) memory.close()
    this.#helper?.close()
  }
}

const uploads = new WeakMap<StreamCore, Ring>()
const downloads = new WeakMap<StreamCore, Ring>()

/**
 * Queues the copy of these bytes. The promise is done when none of them is needed any more, in the ring or beside it. It
 * rejects where the GPU is known to have faulted by then, and where only a part could be queued.
 * @throws ERR_CLOSED, ERR_INVALID_ARG_VALUE where a host function that runs meanwhile has closed the buffer or detached the bytes
 */
export function stageUpload(stream: StreamCore, buffer: BufferCore, bytes: Uint8Array): Promise<void> {
  const ring = ringOf(uploads, stream)
  const { length } = bytes
  const pending = new Pending(ring)
  for (let begin = 0; begin < length; begin += MOST_AT_ONCE * CHUNK_BYTES) {
    const end = Math.min(length, begin + MOST_AT_ONCE * CHUNK_BYTES)
    try {
      makeRoomToUpload(stream, ring, end - begin)
      buffer.checkOpen()
      if (bytes.length !== length) throw invalidValue('source was detached or shortened while the stream had no room')
    } catch (error) {
      if (begin === 0) throw error
      // A call that throws has queued nothing. This no wait reports: a caller who does not look hears of an unhandled rejection.
      return Promise.reject(error)
    }
    uploadPart(stream, ring, buffer, bytes, { begin, end }, pending)
  }
  // A copy that is queued on a GPU which has faulted is refused late, or never.
  const done = pending.promise(() => stream.driver.contextCheck(stream.context))
  // A caller need not look at it: the next wait reports the fault.
  done.catch(() => {})
  return done
}

function makeRoomToUpload(stream: StreamCore, ring: Ring, byteLength: number): void {
  const chunks = Math.ceil(byteLength / CHUNK_BYTES)
  if (ring.isFree(byteLength)) stream.makeRoom(chunks)
  else makeRoomInAll(new Set([stream, ring.helper]), chunks)
}

interface Part {
  readonly begin: number
  readonly end: number
}

/** Queues the copies of a part, for which there is room. */
function uploadPart(
  stream: StreamCore,
  ring: Ring,
  buffer: BufferCore,
  bytes: Uint8Array,
  { begin, end }: Part,
  pending: Pending,
): void {
  /** What finds no place in the ring yet, and may be changed by the caller at once. */
  let kept: { readonly begin: number; readonly bytes: Uint8Array } | undefined
  for (let offset = begin; offset < end; offset += CHUNK_BYTES) {
    const part = bytes.subarray(offset, Math.min(end, offset + CHUNK_BYTES))
    const { memory, ready } = ring.place(part.length)
    if (ready) memory.ownBytes().set(part)
    else {
      kept ??= { begin: offset, bytes: new Uint8Array(stream.driver.memory.newArrayBuffer(end - offset)) }
      kept.bytes.set(part, offset - kept.begin)
      const copy = kept.bytes.subarray(offset - kept.begin, offset - kept.begin + part.length)
      fillLater(ring.helper, stream, memory, copy, pending)
    }
    queueCopy(stream, at(buffer, offset), memory, part.length, 'upload')
  }
}

/**
 * Queues the copy of these bytes to an array of their length; the promise is done when they are there. It rejects with
 * ERR_INVALID_ARG_VALUE where the array has been detached or shortened by then.
 */
export function stageDownload(stream: StreamCore, buffer: BufferCore, into: Uint8Array): Promise<void> {
  const ring = ringOf(downloads, stream)
  const { byteLength } = buffer
  const pending = new Pending(ring)
  for (let begin = 0; begin < byteLength; begin += MOST_AT_ONCE * CHUNK_BYTES) {
    const end = Math.min(byteLength, begin + MOST_AT_ONCE * CHUNK_BYTES)
    const { helper } = ring
    makeRoomInAll(new Set([stream, helper]), Math.ceil((end - begin) / CHUNK_BYTES))
    buffer.checkOpen()
    for (let offset = begin; offset < end; offset += CHUNK_BYTES) {
      const length = Math.min(CHUNK_BYTES, end - offset)
      const { memory, ready } = ring.place(length)
      const { allocation } = memory
      if (!ready) allocation.comeAfterUses(stream)
      queueCopy(stream, memory, at(buffer, offset), length, 'download')
      helper.driver.streamWaitStream(helper.handle, stream.handle, stream.context)
      allocation.beforeUse(helper)
      queueHostFunction(helper, pending, () =>
        into.length === byteLength
          ? into.set(memory.ownBytes(), offset)
          : invalidValue('into was detached or shortened before its download was done'),
      )
      allocation.afterUse(helper)
    }
  }
  return pending.promise()
}

/** The helper fills the place once its earlier work is done; the stream waits for that. */
function fillLater(
  helper: StreamCore,
  stream: StreamCore,
  memory: BufferCore,
  bytes: Uint8Array,
  pending: Pending,
): void {
  memory.allocation.comeAfterUses(helper)
  queueHostFunction(helper, pending, () => memory.ownBytes().set(bytes))
  stream.driver.streamWaitStream(stream.handle, helper.handle, helper.context)
}

/** An error is what `run` returns, if anything. After a fault it is not run, but is over all the same. */
function queueHostFunction({ driver, handle, context }: StreamCore, pending: Pending, run: () => unknown): void {
  const call = hostFunction(
    (status) => pending.over(status === 0 ? run() : cudaError('cuMemcpyAsync', status)),
    true,
    true,
  )
  driver.queue({ kind: 'hostFunction', stream: handle, context, call })
  pending.queued()
}

/** Host functions that have not run yet. */
class Pending {
  readonly #ring: Ring
  #count = 0
  #error: unknown
  #settle: (() => void) | undefined

  constructor(ring: Ring) {
    this.#ring = ring
  }

  queued(): void {
    this.#count += 1
    this.#ring.hostFunctionQueued()
  }

  over(error?: unknown): void {
    this.#count -= 1
    this.#error ??= error
    this.#ring.hostFunctionOver()
    if (this.#count === 0) this.#settle?.()
  }

  /** Done when all of them are over; where there are none, rejected with what `check` throws. */
  promise(check = (): void => {}): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#settle = () => (this.#error === undefined ? resolve() : reject(this.#error))
      if (this.#count > 0) return
      check()
      this.#settle()
    })
  }
}

function ringOf(rings: WeakMap<StreamCore, Ring>, stream: StreamCore): Ring {
  let ring = rings.get(stream)
  if (ring === undefined) {
    ring = new Ring(stream)
    rings.set(stream, ring)
  }
  return ring
}

const isIdle = ({ memory }: Chunk): boolean => memory.allocation.idle
const at = ({ allocation, pointer }: OpenMemory, offset: number): OpenMemory => ({
  allocation,
  pointer: (pointer + offset) as OpenMemory['pointer'],
})
