/**
 * A communicator as NCCL has it: the ranks in this thread, how far its queued work is, and how it ends. NCCL's calls wait for
 * each other, so one thread has to make those of all its ranks together, which is checked before any is made.
 */

import { unlessLost } from '../../core/memory/allocation-stream.js'
import { StreamUses } from '../../core/memory/stream-uses.js'
import type { Stream } from '../../core/stream.js'
import type { StreamImpl } from '../../core/streams/stream-impl.js'
import { invalidValue, stateError } from '../../foundation/base/errors.js'
import { monotonicTime } from '../../foundation/base/event-loop.js'
import { NativeResource } from '../../foundation/base/finalization.js'
import { nextSerial } from '../../foundation/base/library-object.js'
import { pollUntil } from '../../foundation/base/polling.js'
import { seconds, warnAfter, warnOnce } from '../../foundation/base/warnings.js'
import type { Driver } from '../../foundation/driver/driver.js'
import { finished } from '../../foundation/driver/finished.js'
import type { ThreadedCalls } from '../../foundation/driver/library-driver.js'
import type { GivenMemory } from '../library-call.js'
import { type CallByNumbers, ConnectedCalls, OutstandingCalls } from './calls-of-half.js'
import type { EndCall, NcclBackend, NcclFunction, NewCommunicator, ThreadedCall } from './nccl-library.js'

const MOST_NAMED = 8
const WHY =
  'Do all ranks make the same calls in the same order, those of create() with one id and size, and are their processes alive'

/**
 * A rank's communicator is a pair where that is possible: one that never blocks, and its half, which does. The first makes the second, and is
 * only there to end it: a call that waits in the half for a rank that does not come is made on another thread, and returns when the first is aborted,
 * since both share what they have. Calls that need not wait for any rank are made in the half by JavaScript's thread: NCCL
 * starts a thread for every call of a communicator that does not block, which costs more than the call.
 */
export class NcclHandle extends NativeResource {
  readonly #made: NewCommunicator
  /** Events behind the last work on each stream, so that it can be waited for when the stream is closed or captures. */
  readonly #work = new StreamUses()
  /** Calls that another thread makes in the half. */
  #threaded: ThreadedCalls | undefined
  /** The calls that need not wait for other ranks; undefined without a half. */
  #connected: ConnectedCalls | undefined
  #outstanding: OutstandingCalls | undefined
  /** The reason why it was aborted. */
  failure: unknown
  /** `close()` was called: no more work is accepted, and queued work completes. */
  closing = false
  #ended: Promise<void> | undefined
  /** The beginning of the wait that was warned of. */
  #warnedOf: number | undefined

  /**
   * Begins to make the communicator. `made()` resolves when it exists.
   * @param timeout The longest time in milliseconds that a call may wait for other ranks.
   * @param waiting A stream on which `finished()` waits: CUDA may not make one while NCCL waits for other ranks.
   */
  constructor(
    readonly library: NcclBackend,
    private readonly id: Uint8Array,
    readonly clique: Clique,
    readonly rank: number,
    readonly timeout: number,
    private readonly waiting: StreamImpl,
  ) {
    super()
    this.#made = library.initRank(id, rank, clique.size)
  }

  /** The communicator that calls are made in. */
  get address(): number {
    return this.#connected === undefined ? this.#made.address : this.#made.half()
  }

  /** Is this communicator a pair, in whose half calls block? */
  get hasHalf(): boolean {
    return this.#connected !== undefined
  }

  /** Does the communicator accept no more calls? */
  get ended(): boolean {
    return this.closing || this.#ended !== undefined
  }

  /** Resolves when all ranks have come. Rejects as `done()`. */
  async made(signal: AbortSignal | undefined): Promise<void> {
    const { library, id, clique } = this
    await this.done('ncclCommInitRankConfig', signal)
    this.#own()
    if (!library.halves(id, clique.size)) return
    this.makeOnThread([this.threaded('ncclCommSplit', this.#made.split)])
    await this.done('ncclCommSplit', signal)
    this.#connected = new ConnectedCalls()
    this.#outstanding = new OutstandingCalls(this.waiting)
  }

  /** A call of NCCL for `makeOnThread()`. */
  threaded(name: ThreadedCall['name'], args: readonly number[]): ThreadedCall {
    return { name, args, context: this.waiting.context }
  }

  /** Makes calls on another thread. `isDone()` is false until they have returned. */
  makeOnThread(calls: readonly ThreadedCall[]): ThreadedCalls {
    this.#disown()
    this.#threaded = this.library.makeOnThread(this.clique.driver, calls)
    return this.#threaded
  }

  /** Has it be aborted if this thread ends: not while another thread makes calls in it. */
  #own(): void {
    if (this.#ended === undefined) this.library.own(this.#made.address, this.#made.half())
  }

  #disown(): void {
    this.library.disown(this.#made.address, this.#made.half())
  }

  /** Called when another rank of this thread has begun calls that this one is part of, too. */
  joinThread(calls: ThreadedCalls): void {
    this.#disown()
    this.#threaded = calls
  }

  /**
   * Is NCCL done with the latest call of this communicator? Throws its LibraryError, or the reason why it was aborted
   * meanwhile.
   */
  isDone(call: string): boolean {
    if (this.failure !== undefined) throw this.failure
    // An ended communicator must not be passed to NCCL.
    if (this.#ended !== undefined) return true
    if (this.#threaded !== undefined) {
      const { result } = this.#threaded
      if (result === undefined) return false
      this.#threaded = undefined
      this.#own()
      this.library.check(call, result)
    }
    return this.library.isDone(this.address, call)
  }

  /** Are these calls of this rank, which are made together, such that NCCL waits for no other rank, nor for the GPU, before it returns? */
  waitsForNobody(calls: readonly NcclOperation[]): boolean {
    if (this.#connected === undefined || this.#outstanding === undefined) return false
    return this.#connected.has(calls) && this.#outstanding.hasRoomFor(calls.length)
  }

  /** Resolves when NCCL is done, which it polls for. Rejects with its error, ERR_DEADLOCK or the signal's reason. */
  async done(call: string, signal: AbortSignal | undefined): Promise<void> {
    const since = monotonicTime()
    await pollUntil(() => {
      if (this.isDone(call)) return true
      if (signal?.aborted) throw signal.reason
      this.checkTime(since, call)
      return undefined
    })
  }

  /** Throws ERR_DEADLOCK if other ranks have been waited for too long, and warns long before. */
  checkTime(since: number, call: string): void {
    const waited = monotonicTime() - since
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
      missing.length === 0 ? 'all ranks are in this thread' : `${listRanks(missing)} must ${library.missing}`
    const which = `This thread has ${listRanks([...clique.ranks])}; ${others}`
    const what = `${call} of rank ${rank} of ${clique.size} has waited for the other ranks for ${seconds(warnAfter())}`
    warnOnce('CUDA_STREAMS_RANKS', `${what}, of at most ${seconds(timeout)} (options.timeout). ${which}. ${WHY}?`)
  }

  /** A call was queued on the stream, which does not capture: captured work does not run, and is not waited for. */
  queuedOn(use: StreamImpl, calls: number): void {
    this.#work.prepare(use)
    this.#work.record(use)
    this.#outstanding?.queued(calls, use)
  }

  /** Called when these calls were queued together, and none was captured. */
  queued(calls: readonly NcclOperation[]): void {
    this.#connected?.add(calls)
  }

  /** Resolves when all work is done that was queued until now. Rejects with a fault, a refusal or the signal's reason. */
  async finished(signal: AbortSignal): Promise<void> {
    const { driver, handle, context } = this.waiting
    this.waiting.reserve(this.#work.count + 1)
    this.#work.orderBefore(this.waiting)
    const what = (): string => 'the calls of a communicator'
    await finished({ signal }, what, (settle) => driver.streams.finished(handle, context, settle))
  }

  /** Begins to complete its work, for `done()`. */
  finalize(): void {
    if (this.hasHalf) this.makeOnThread([this.threaded('ncclCommFinalize', [this.address])])
    else this.library.finalize(this.address)
  }

  /**
   * Aborts it because of this failure, which the caller reports. The end is not waited for, because NCCL waits for the
   * device, and so for host functions that may only run after the caller returns.
   */
  fail(failure: unknown): void {
    this.failure ??= failure
    void this.end('ncclCommAbort')
  }

  /** Ends it on another thread, because NCCL waits for the device then. Only the first call counts. */
  end(how: EndCall): Promise<void> {
    if (this.#ended === undefined) {
      this.clique.leave(this.rank)
      const { driver } = this.clique
      unlessLost(() => this.#work.recycle(driver))
      unlessLost(() => this.#outstanding?.forget())
      unlessLost(() => this.waiting.close())
      this.#ended = this.#endBoth(how).finally(() => {
        this.#made.free()
        this.dispose()
      })
      // Its error is for callers that await it, and no unhandled rejection otherwise.
      this.#ended.catch(() => {})
    }
    return this.#ended
  }

  async #endBoth(how: EndCall): Promise<void> {
    const { library, clique, waiting } = this
    const { address, half } = this.#made
    this.#disown()
    const end = (which: number): Promise<void> =>
      which === 0 ? Promise.resolve() : library.callOnThread(how, which, clique.driver, waiting.ordinal)
    const threaded = this.#threaded
    const returned = async (): Promise<void> => {
      if (threaded !== undefined) await pollUntil(() => threaded.result)
    }
    // The call that makes the half is one of the whole, and returns at once.
    if (!this.hasHalf) await returned()
    if (how === 'ncclCommDestroy') await end(half())
    await end(address)
    if (how === 'ncclCommDestroy') return
    // Whatever a call in the half has waited for, it returns now.
    await returned()
    await end(half())
  }

  /** The communicator has become unreachable: no call can follow, and its work on the GPU still completes. */
  override destroy(): void {
    void this.end('ncclCommDestroy')
  }
}

const listRanks = (ranks: readonly number[]): string =>
  `${ranks.length === 1 ? 'rank' : 'ranks'} ${ranks.slice(0, MOST_NAMED).join(', ')}${ranks.length > MOST_NAMED ? ', ...' : ''}`

/** A call of a rank. */
export interface NcclOperation extends CallByNumbers {
  readonly handle: NcclHandle
  readonly stream: Stream
  readonly memory: readonly GivenMemory[]
  /** The function, types and sizes, as the other ranks must call it. */
  describe(): string
  /** NCCL's arguments, given the memory when it is open, in its order, and CUDA's handle of the stream. */
  argumentsFor(memory: readonly { readonly pointer: number }[], stream: number): readonly number[]
}

const cliques = new Map<string, Clique>()

/** The ranks of one communicator that are in this thread. */
export class Clique {
  /** The clique's number, which is never reused. */
  readonly serial = nextSerial()
  readonly #ranks = new Set<number>()

  private constructor(
    private readonly key: string,
    readonly size: number,
    readonly driver: Driver,
  ) {}

  /**
   * Adds a rank. Throws ERR_INVALID_ARG_VALUE if that exists already, or if another rank stated another size, and
   * ERR_DEVICE_MISMATCH for a device of another driver than that of the other ranks.
   */
  static enter(id: Uint8Array, rank: number, size: number, driver: Driver): Clique {
    const key = Buffer.from(id).toString('latin1')
    const clique = cliques.get(key) ?? new Clique(key, size, driver)
    if (clique.driver !== driver) {
      const what = 'options.device belongs to another driver than the other ranks of this id'
      throw stateError('ERR_DEVICE_MISMATCH', what)
    }
    if (clique.size !== size) {
      throw invalidValue(`options.size is ${size}, but ${clique.size} for other ranks of the same id`)
    }
    if (clique.#ranks.has(rank)) throw invalidValue(`options.rank: this process has rank ${rank} of this id already`)
    clique.#ranks.add(rank)
    cliques.set(key, clique)
    return clique
  }

  get ranks(): ReadonlySet<number> {
    return this.#ranks
  }

  leave(rank: number): void {
    this.#ranks.delete(rank)
    if (this.#ranks.size === 0 && cliques.get(this.key) === this) cliques.delete(this.key)
  }
}

/** Throws ERR_DEADLOCK if the calls that are made together leave out a rank of this thread. */
export function checkTogether(operations: readonly NcclOperation[]): void {
  const [first] = operations
  if (first === undefined) return
  const { clique } = first.handle
  if (operations.every(({ handle }) => handle.clique === clique)) {
    checkCollectives(clique, operations)
    checkPairs(clique, operations)
    return
  }
  for (const each of new Set(operations.map(({ handle }) => handle.clique))) {
    checkTogether(operations.filter(({ handle }) => handle.clique === each))
  }
}

function checkCollectives({ ranks }: Clique, operations: readonly NcclOperation[]): void {
  if (ranks.size === 1) return
  const collectives = operations.filter(({ peer }) => peer === undefined)
  const [first] = collectives
  if (first === undefined) return
  const callsOf = (rank: number): readonly NcclOperation[] => collectives.filter(({ handle }) => handle.rank === rank)
  const expected = callsOf(first.handle.rank)
  for (const rank of ranks) {
    const other = callsOf(rank)
    if (areAlike(other, expected)) continue
    const which = `rank ${rank}, which is in this thread too`
    throw deadlock(`rank ${first.handle.rank} calls ${listed(expected)}, and ${which}, calls ${listed(other)}`)
  }
}

function checkPairs({ ranks }: Clique, operations: readonly NcclOperation[]): void {
  const pairs = operations.filter(({ peer }) => peer !== undefined && ranks.has(peer))
  if (pairs.length === 0) return
  const callsOf = (pair: string, name: NcclFunction): readonly NcclOperation[] =>
    pairs.filter((each) => each.name === name && pairOf(each) === pair)
  for (const pair of new Set(pairs.map(pairOf))) {
    const [sent, received] = [callsOf(pair, 'ncclSend'), callsOf(pair, 'ncclRecv')]
    if (areAlike(sent, received)) continue
    const which = `from rank ${pair}, which are both in this thread`
    throw deadlock(`${which}, ${listed(sent)} is sent and ${listed(received)} received`)
  }
}

/** Are the operations alike? The comparison makes no texts, which cost more than the calls. */
const areAlike = (some: readonly NcclOperation[], others: readonly NcclOperation[]): boolean =>
  some.length === others.length && some.every((each, index) => isAlike(each, others[index]))

const isAlike = (a: NcclOperation, b: NcclOperation | undefined): boolean =>
  b !== undefined &&
  a.count === b.count &&
  a.type === b.type &&
  a.op === b.op &&
  a.root === b.root &&
  (a.name === b.name || a.peer !== undefined)

const listed = (operations: readonly NcclOperation[]): string =>
  operations.map((each) => each.describe()).join(', then ') || 'nothing'

/** The ranks that an operation is between, the sender first; 'all' for a collective operation. */
export function pairOf({ handle: { rank }, name, peer }: NcclOperation): string {
  if (peer === undefined) return 'all'
  return name === 'ncclSend' ? `${rank} to ${peer}` : `${peer} to ${rank}`
}

const deadlock = (why: string): Error =>
  stateError('ERR_DEADLOCK', `This would wait forever: ${why}. Make the calls of all ranks inside one group()`)
