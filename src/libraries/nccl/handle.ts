/** A communicator as NCCL knows it, and how it ends. */
import { performance } from 'node:perf_hooks'
import { stateError } from '../../base/errors.js'
import { NativeResource } from '../../base/finalization.js'
import { seconds, warnAfter, warnOnce } from '../../base/warnings.js'
import { lookUntil } from '../../driver/look-until.js'
import type { Clique } from './clique.js'
import type { EndCall, NcclBackend } from './library.js'
import { QueuedWork } from './queued-work.js'

const MOST_NAMED = 8
const WHY =
  'Do all ranks make the same calls in the same order, those of create() with one id and size, and are their processes alive'

export class NcclHandle extends NativeResource {
  readonly address: number
  /** The work that has been put into streams and was not waited for since. */
  readonly work = new QueuedWork()
  /** Why it was given up. */
  failure: unknown
  /** No more work is taken, and what there is completes. */
  closing = false
  readonly #memory: { free(): void }
  #ended: Promise<void> | undefined
  /** When the wait began that a warning told of. */
  #warnedOf: number | undefined

  /**
   * Calls NCCL, which goes on on a thread of its own: `done` tells when the communicator is there.
   * @param timeout milliseconds that a call may wait for other ranks
   */
  constructor(
    readonly library: NcclBackend,
    id: Uint8Array,
    readonly clique: Clique,
    readonly rank: number,
    readonly timeout: number,
    readonly device: number,
  ) {
    super()
    const { address, memory } = library.initRank(id, rank, clique.size)
    this.address = address
    this.#memory = memory
  }

  /** It takes no calls any more. */
  get ended(): boolean {
    return this.closing || this.#ended !== undefined
  }

  /**
   * Is NCCL done with what this communicator asked for last? Throws the LibraryError that it ran into, or why it was given
   * up meanwhile.
   */
  isDone(call: string): boolean {
    if (this.failure !== undefined) throw this.failure
    // It may not be asked about any more.
    if (this.#ended !== undefined) return true
    return this.library.isDone(this.address, call)
  }

  /** Resolves when NCCL is done, looking now and then. Rejects with its error, ERR_DEADLOCK or the signal's reason. */
  async done(call: string, signal: AbortSignal | undefined): Promise<void> {
    const since = performance.now()
    await lookUntil(() => {
      if (this.isDone(call)) return true
      if (signal?.aborted) throw signal.reason
      this.checkTime(since, call)
      return undefined
    })
  }

  /** Throws ERR_DEADLOCK where other ranks have been waited for too long, and warns long before. */
  checkTime(since: number, call: string): void {
    const waited = performance.now() - since
    if (waited > warnAfter() && this.#warnedOf !== since) {
      this.#warnedOf = since
      this.#warn(call)
    }
    if (waited <= this.timeout) return
    throw stateError('ERR_DEADLOCK', `${call} has waited for the other ranks for ${this.timeout} ms. ${WHY}?`)
  }

  #warn(call: string): void {
    const { rank, clique, library, timeout } = this
    const missing = Array.from({ length: clique.size }, (_, other) => other).filter((other) => !clique.ranks.has(other))
    const others =
      missing.length === 0 ? 'all ranks are in this thread' : `${ranksInWords(missing)} must ${library.come}`
    const which = `This thread has ${ranksInWords([...clique.ranks])}; ${others}`
    const what = `${call} of rank ${rank} of ${clique.size} has waited for the other ranks for ${seconds(warnAfter())}`
    warnOnce('CUDA_STREAMS_RANKS', `${what}, of at most ${seconds(timeout)} (options.timeout). ${which}. ${WHY}?`)
  }

  /**
   * Gives it up for this failure, which the caller reports: its work on the GPU goes on, with whatever bytes are there.
   * The end is not waited for, because NCCL waits for the device, and so for host functions that the caller may let go on.
   */
  fail(failure: unknown): void {
    this.failure ??= failure
    void this.end('ncclCommAbort')
  }

  /** On a thread of its own, because NCCL waits for the device in it. Only the first call counts. */
  end(how: EndCall): Promise<void> {
    if (this.#ended === undefined) {
      this.clique.leave(this.rank)
      this.work.forgetAll()
      this.#ended = this.library.apart(how, this.address, this.clique.driver, this.device).finally(() => {
        this.#memory.free()
        this.release()
      })
      // A caller that waits for it is told; without one it is not uncaught.
      this.#ended.catch(() => {})
    }
    return this.#ended
  }

  /** It has become unreachable: no call can come any more, and its work on the GPU still completes. */
  override destroy(): void {
    void this.end('ncclCommDestroy')
  }
}

const ranksInWords = (ranks: readonly number[]): string =>
  `${ranks.length === 1 ? 'rank' : 'ranks'} ${ranks.slice(0, MOST_NAMED).join(', ')}${ranks.length > MOST_NAMED ? ', ...' : ''}`
