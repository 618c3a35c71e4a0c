/**
 * A communicator as NCCL has it: the ranks in this thread, how far its queued work is, and how it ends. NCCL's calls wait for
 * each other, so one thread has to make those of all its ranks together, which is checked before any is made.
 */
import { performance } from 'node:perf_hooks'
import { invalidValue, stateError } from '../../base/errors.js'
import { NativeResource } from '../../base/finalization.js'
import { seconds, warnAfter, warnOnce } from '../../base/warnings.js'
import type { Cancel, Driver, OwnEvent, Settle } from '../../driver/driver.js'
import { finished } from '../../driver/finished.js'
import { lookUntil } from '../../driver/look-until.js'
import { untilOver } from '../../driver/until-over.js'
import { unlessLost } from '../../memory/allocation-stream.js'
import { ownEvent } from '../../memory/stream-uses.js'
import type { StreamImpl } from '../../streams/stream-impl.js'
import type { EndCall, NcclBackend } from './nccl-library.js'

const MOST_NAMED = 8
const WHY =
  'Do all ranks make the same calls in the same order, those of create() with one id and size, and are their processes alive'

export class NcclHandle extends NativeResource {
  readonly address: number
  /** The work that was queued on streams and not waited for since. */
  readonly work = new QueuedWork()
  /** The reason why it was aborted. */
  failure: unknown
  /** It accepts no more work, and queued work completes. */
  closing = false
  readonly #memory: { free(): void }
  #ended: Promise<void> | undefined
  /** The beginning of the wait that was warned of. */
  #warnedOf: number | undefined

  /**
   * Begins to make the communicator. `done()` resolves when it exists.
   * @param timeout The longest time in milliseconds that a call may wait for other ranks.
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

  /** It accepts no more calls. */
  get ended(): boolean {
    return this.closing || this.#ended !== undefined
  }

  /**
   * Is NCCL done with the latest call of this communicator? Throws its LibraryError, or the reason why it was aborted
   * meanwhile.
   */
  isDone(call: string): boolean {
    if (this.failure !== undefined) throw this.failure
    // An ended communicator must not be passed to NCCL.
    if (this.#ended !== undefined) return true
    return this.library.isDone(this.address, call)
  }

  /** Resolves when NCCL is done, which it polls for. Rejects with its error, ERR_DEADLOCK or the signal's reason. */
  async done(call: string, signal: AbortSignal | undefined): Promise<void> {
    const since = performance.now()
    await lookUntil(() => {
      if (this.isDone(call)) return true
      if (signal?.aborted) throw signal.reason
      this.checkTime(since, call)
      return undefined
    })
  }

  /** Throws ERR_DEADLOCK if other ranks have been waited for too long, and warns long before. */
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
      missing.length === 0 ? 'all ranks are in this thread' : `${listRanks(missing)} must ${library.missing}`
    const which = `This thread has ${listRanks([...clique.ranks])}; ${others}`
    const what = `${call} of rank ${rank} of ${clique.size} has waited for the other ranks for ${seconds(warnAfter())}`
    warnOnce('CUDA_STREAMS_RANKS', `${what}, of at most ${seconds(timeout)} (options.timeout). ${which}. ${WHY}?`)
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
      this.work.forgetAll()
      this.#ended = this.library.callOnThread(how, this.address, this.clique.driver, this.device).finally(() => {
        this.#memory.free()
        this.dispose()
      })
      // Its error is for callers that await it, and no unhandled rejection otherwise.
      this.#ended.catch(() => {})
    }
    return this.#ended
  }

  /** It has become unreachable: no call can follow, and its work on the GPU still completes. */
  override destroy(): void {
    void this.end('ncclCommDestroy')
  }
}

const listRanks = (ranks: readonly number[]): string =>
  `${ranks.length === 1 ? 'rank' : 'ranks'} ${ranks.slice(0, MOST_NAMED).join(', ')}${ranks.length > MOST_NAMED ? ', ...' : ''}`

/** A call of a rank, as the other ranks must make it. */
export interface NcclRequest {
  readonly clique: Clique
  readonly rank: number
  /** The rank that it sends to or receives from; undefined for collective operations. */
  readonly peer: number | undefined
  readonly isSend: boolean
  /** The function, types and sizes. */
  describe(): string
}

let lastClique = 0
const cliques = new Map<string, Clique>()

/** The ranks of one communicator that are in this thread. */
export class Clique {
  /** Never reused. */
  readonly serial: number
  readonly #ranks = new Set<number>()

  private constructor(
    private readonly key: string,
    readonly size: number,
    readonly driver: Driver,
  ) {
    lastClique += 1
    this.serial = lastClique
  }

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
export function checkTogether(requests: readonly NcclRequest[]): void {
  for (const clique of new Set(requests.map((request) => request.clique))) {
    const own = requests.filter((request) => request.clique === clique)
    checkCollectives(clique, own)
    checkPairs(clique, own)
  }
}

function checkCollectives({ ranks }: Clique, requests: readonly NcclRequest[]): void {
  if (ranks.size === 1) return
  const collectives = requests.filter(({ peer }) => peer === undefined)
  const first = collectives[0]
  if (first === undefined) return
  const callsOf = (rank: number): string =>
    collectives.flatMap((request) => (request.rank === rank ? [request.describe()] : [])).join(', then ')
  const expected = callsOf(first.rank)
  for (const rank of ranks) {
    if (callsOf(rank) === expected) continue
    const other = callsOf(rank) || 'nothing'
    const which = `rank ${rank}, which is in this thread too`
    throw deadlock(`rank ${first.rank} calls ${expected}, and ${which}, calls ${other}`)
  }
}

function checkPairs({ ranks }: Clique, requests: readonly NcclRequest[]): void {
  const sent = new Map<string, string[]>()
  const received = new Map<string, string[]>()
  for (const request of requests) {
    const { rank, peer, isSend } = request
    if (peer === undefined || !ranks.has(peer)) continue
    const pair = isSend ? `${rank} to ${peer}` : `${peer} to ${rank}`
    const side = isSend ? sent : received
    side.set(pair, [...(side.get(pair) ?? []), request.describe()])
  }
  for (const pair of new Set([...sent.keys(), ...received.keys()])) {
    const [sends, receives] = [sent.get(pair) ?? [], received.get(pair) ?? []]
    if (String(sends) === String(receives)) continue
    const [has, lacks] = [sends.join(', then ') || 'nothing', receives.join(', then ') || 'nothing']
    throw deadlock(`from rank ${pair}, which are both in this thread, ${has} is sent and ${lacks} received`)
  }
}

function deadlock(why: string): Error {
  return stateError('ERR_DEADLOCK', `This would wait forever: ${why}. Make the calls of all ranks inside one group()`)
}

/** An event behind the last work of a communicator on one stream. */
interface QueuedPoint extends OwnEvent {
  /** The serial number of the stream. */
  readonly serial: number
  readonly driver: Driver
  /** The number of promises that wait for it: it is not recorded again meanwhile. */
  waits: number
}

/** So many points are kept before those that are done are removed. */
const FEW_POINTS = 16

/**
 * How far a communicator's work is: an event behind the last of it on each stream. So it can be waited for when the stream is
 * closed or captures, and no stream is kept reachable.
 */
export class QueuedWork {
  /** By the serial numbers of the streams. */
  readonly #last = new Map<number, QueuedPoint>()
  #nextSweep = FEW_POINTS

  /** Work was queued on the stream. Captured work does not run, and is not waited for. */
  record(use: StreamImpl): void {
    const { driver, handle, serial } = use
    if (driver.streamIsCapturing(handle)) return
    let point = this.#last.get(serial)
    if (point === undefined || point.waits > 0) {
      if (this.#last.size >= this.#nextSweep) this.#forgetDone()
      point = { serial, driver, ...ownEvent(use), waits: 0 }
      this.#last.set(serial, point)
    }
    driver.eventRecordOwn(point.event, handle)
  }

  /** Resolves when all work is done that was recorded until now. Rejects with a fault, a refusal or the signal's reason. */
  async finished(signal: AbortSignal): Promise<void> {
    const points = [...this.#last.values()]
    if (points.length === 0) return
    const whom = (): string => 'the calls of a communicator'
    await finished({ signal }, whom, (settle) => {
      let left = points.length
      const cancels: Cancel[] = []
      const cancel = (): void => {
        for (const each of cancels) each()
      }
      const settleOne: Settle = (error) => {
        left -= 1
        if (error !== undefined) cancel()
        if (error !== undefined || left === 0) settle(error)
      }
      try {
        for (const point of points) cancels.push(this.#waitFor(point, settleOne))
      } catch (error) {
        cancel()
        throw error
      }
      return cancel
    })
  }

  /** No more promises will be made. */
  forgetAll(): void {
    const points = [...this.#last.values()]
    this.#last.clear()
    for (const point of points) recycle(point)
  }

  #waitFor(point: QueuedPoint, settle: Settle): Cancel {
    let isOver = false
    const end = (): void => {
      if (isOver) return
      isOver = true
      point.waits -= 1
      if (this.#last.get(point.serial) !== point) recycle(point)
    }
    point.waits += 1
    const start = (settleWait: Settle): Cancel =>
      point.driver.eventFinished(point.event, (error) => {
        if (error === undefined) this.#forget(point)
        settleWait(error)
      })
    return untilOver(start, settle, end)
  }

  #forget(point: QueuedPoint): void {
    if (this.#last.get(point.serial) === point) this.#last.delete(point.serial)
  }

  #forgetDone(): void {
    for (const point of [...this.#last.values()]) {
      if (!point.driver.memory.isDone(point.event)) continue
      this.#forget(point)
      recycle(point)
    }
    this.#nextSweep = Math.max(FEW_POINTS, 2 * this.#last.size)
  }
}

/** Recycles the event, unless promises still wait for it. */
function recycle({ driver, context, event, waits }: QueuedPoint): void {
  if (waits === 0) unlessLost(() => driver.eventRecycle(context, event))
}
