/**
 * CUDA keeps streams in blocks of a few dozen, and to begin another block it waits for the whole device: while a stream
 * stands at a host function that is forever (docs/cuda-facts.md). So before the first host function some streams are
 * made that nothing is queued on; while any is pending, one of them makes place for each stream that is wanted.
 */
import type { Contexts } from './contexts.js'
import { check, type Library } from './library.js'
import type { NativeMemory } from './native.js'
import type { Threads } from './thread-table.js'

/** Streams that are kept for each device, by all threads of the process together. */
export const MOST_KEPT = 64
const LEFT_FOR_HOST_FUNCTIONS = 16
/** Places that are left for streams which other libraries make. */
const PLACES_FOR_OTHERS = 36
const NON_BLOCKING = 1

export interface StreamReserveParts {
  readonly library: Library
  /** Where out parameters go. */
  readonly memory: NativeMemory
  readonly contexts: Contexts
  readonly threads: Threads
}

export class StreamReserve {
  readonly #parts: StreamReserveParts
  readonly #madePlaces = new Set<number>()

  constructor(parts: StreamReserveParts) {
    this.#parts = parts
  }

  /** To be called while no host function of any thread is pending. */
  fill(): void {
    const { contexts, threads } = this.#parts
    for (const [device, context] of contexts.primaries) {
      if (context === undefined || threads.streamsKept(device) >= MOST_KEPT) continue
      contexts.within(context, () => this.#fillOf(device))
    }
  }

  /**
   * Lets so many streams be made at once on this device, though host functions are pending. False where they cannot. Some
   * are left for those who are inside a host function: they cannot wait for it.
   */
  makePlaces(device: number, streams: number, insideHostFunction: boolean): boolean {
    const { threads, library } = this.#parts
    if (threads.streamsKept(device) < streams + (insideHostFunction ? 0 : LEFT_FOR_HOST_FUNCTIONS)) return false
    for (let left = streams; left > 0; left -= 1) {
      const kept = threads.takeStream(device)
      if (kept === undefined) return false
      library.cuStreamDestroy_v2(kept)
    }
    return true
  }

  /** Keeps a stream that is not wanted any more, and that no work is on. False where enough are kept. */
  keep(device: number, stream: number): boolean {
    return this.#parts.threads.keepStream(device, stream)
  }

  /** A non-blocking stream for the library itself, in the device's primary context, which is current: the caller's to destroy. */
  take(device: number): number {
    const kept = this.#parts.threads.takeStream(device)
    if (kept !== undefined) this.#parts.library.cuStreamDestroy_v2(kept)
    return this.#make()
  }

  #fillOf(device: number): void {
    const { threads, library } = this.#parts
    const places: number[] = []
    if (!this.#madePlaces.has(device)) {
      this.#madePlaces.add(device)
      while (places.length < PLACES_FOR_OTHERS) places.push(this.#make())
    }
    for (let left = MOST_KEPT - threads.streamsKept(device); left > 0; left -= 1) {
      const stream = this.#make()
      if (!threads.keepStream(device, stream)) places.push(stream)
    }
    for (const stream of places) library.cuStreamDestroy_v2(stream)
  }

  #make(): number {
    const { library, memory } = this.#parts
    check('cuStreamCreateWithPriority', library.cuStreamCreateWithPriority(memory.address, NON_BLOCKING, 0))
    return memory.pointerAt(0)
  }
}
