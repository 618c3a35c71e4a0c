/**
 * Pinned memory through which ordinary arrays go to a GPU and come from it: for each stream and direction a ring of four
 * chunks of 4 MiB, made as they are needed. All is queued at once, in the order of the stream. Where the ring is full the
 * stream, not the caller, waits for JavaScript: a second stream stands at a host function that fills or empties a chunk.
 */

import { cudaError } from './driver/cuda-results.js'
import { hostFunction } from './host-function.js'
import { type OpenMemory, openMemory } from './memory.js'
import { ownBytes, type PinnedBuffer } from './pinned-buffer.js'
import { queueCopy } from './queue-with-memory.js'
import { type OpenStream, openStream, Stream } from './stream.js'

const CHUNK_BYTES = 4 * 1024 * 1024
const CHUNKS = 4
/** What is put into a chunk begins at a multiple of this. */
const ALIGNMENT = 256

interface Chunk {
  readonly memory: PinnedBuffer
  used: number
  /** Is all the work done that used it before it was begun anew? */
  ready: boolean
}

/** A place in a chunk. */
interface Place {
  readonly memory: PinnedBuffer
  readonly ready: boolean
}

class Ring {
  readonly #chunks: Chunk[] = []
  #at = -1
  #helper: Stream | undefined

  /** Room for so many bytes, a chunk at most, in the chunk begun or in the next. */
  place(stream: Stream, byteLength: number): Place {
    let chunk = this.#chunks[this.#at]
    if (chunk === undefined || chunk.used + byteLength > CHUNK_BYTES) chunk = this.#begin(stream)
    else if (!chunk.ready) chunk.ready = isIdle(chunk)
    const memory = chunk.memory.slice(chunk.used, byteLength)
    chunk.used += Math.ceil(byteLength / ALIGNMENT) * ALIGNMENT
    return { memory, ready: chunk.ready }
  }

  /** The stream whose host functions fill and empty the chunks. */
  helper(stream: Stream): OpenStream {
    this.#helper ??= new Stream({ device: stream.device })
    return openStream(this.#helper)
  }

  #begin(stream: Stream): Chunk {
    this.#at = (this.#at + 1) % CHUNKS
    let chunk = this.#chunks[this.#at]
    if (chunk === undefined) {
      chunk = { memory: stream.device.allocPinned(CHUNK_BYTES), used: 0, ready: true }
      this.#chunks.push(chunk)
    }
    chunk.used = 0
    chunk.ready = isIdle(chunk)
    return chunk
  }
}

const uploads = new WeakMap<Stream, Ring>()
const downloads = new WeakMap<Stream, Ring>()

/** Queues the copy of these bytes. The promise is done when none of them is needed any more, in the ring or beside it. */
export function stageUpload(stream: Stream, to: OpenMemory, bytes: Uint8Array): Promise<void> {
  const ring = ringOf(uploads, stream)
  const use = openStream(stream)
  const pending = new Pending()
  for (let offset = 0; offset < bytes.length; offset += CHUNK_BYTES) {
    const part = bytes.subarray(offset, offset + CHUNK_BYTES)
    const { memory, ready } = ring.place(stream, part.length)
    if (ready) ownBytes(memory).set(part)
    else fillLater(ring.helper(stream), use, memory, part.slice(), pending)
    queueCopy(use, at(to, offset), openMemory(memory), part.length)
  }
  return pending.promise()
}

/** Queues the copy of these bytes to an array; the promise is done when they are there. */
export async function stageDownload(stream: Stream, from: OpenMemory, byteLength: number): Promise<Uint8Array> {
  const ring = ringOf(downloads, stream)
  const use = openStream(stream)
  const helper = ring.helper(stream)
  const result = new Uint8Array(byteLength)
  const pending = new Pending()
  for (let offset = 0; offset < byteLength; offset += CHUNK_BYTES) {
    const length = Math.min(CHUNK_BYTES, byteLength - offset)
    const { memory, ready } = ring.place(stream, length)
    const place = openMemory(memory)
    if (!ready) place.allocation.comeAfterUses(use)
    queueCopy(use, place, at(from, offset), length)
    helper.driver.streamWaitStream(helper.handle, use.handle, use.context)
    place.allocation.beforeUse(helper)
    queueHostFunction(helper, pending, () => result.set(ownBytes(memory), offset))
    place.allocation.afterUse(helper)
  }
  await pending.promise()
  return result
}

/** The helper fills the place once its earlier work is done; the stream waits for that. */
function fillLater(
  helper: OpenStream,
  use: OpenStream,
  memory: PinnedBuffer,
  bytes: Uint8Array,
  pending: Pending,
): void {
  const { allocation } = openMemory(memory)
  allocation.comeAfterUses(helper)
  queueHostFunction(helper, pending, () => ownBytes(memory).set(bytes))
  use.driver.streamWaitStream(use.handle, helper.handle, helper.context)
}

/** After a fault it runs nothing, but is over all the same. */
function queueHostFunction({ driver, handle, context }: OpenStream, pending: Pending, run: () => void): void {
  const host = hostFunction(
    (status) => {
      if (status === 0) run()
      pending.over(status === 0 ? undefined : cudaError('cuMemcpyAsync', status))
    },
    true,
    true,
  )
  driver.streamLaunchHostFunction(handle, context, host)
  pending.queued()
}

/** Host functions that have not run yet. */
class Pending {
  #count = 0
  #error: unknown
  #settle: (() => void) | undefined

  queued(): void {
    this.#count += 1
  }

  over(error?: unknown): void {
    this.#count -= 1
    this.#error ??= error
    if (this.#count === 0) this.#settle?.()
  }

  /** Done when all of them are over. */
  promise(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#settle = () => (this.#error === undefined ? resolve() : reject(this.#error))
      if (this.#count === 0) this.#settle()
    })
  }
}

function ringOf(rings: WeakMap<Stream, Ring>, stream: Stream): Ring {
  let ring = rings.get(stream)
  if (ring === undefined) {
    ring = new Ring()
    rings.set(stream, ring)
  }
  return ring
}

const isIdle = ({ memory }: Chunk): boolean => openMemory(memory).allocation.idle
const at = ({ allocation, pointer }: OpenMemory, offset: number): OpenMemory => ({
  allocation,
  pointer: (pointer + offset) as OpenMemory['pointer'],
})
