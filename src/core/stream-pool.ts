/** Pools of streams: a bound on how much a server has on the GPU at once, with a queue of those who wait for a stream. */

import { checkFunction, checkInteger, checkSignal, type Given, readOptions } from '../foundation/base/arguments.js'
import { closedAt, noteClosed } from '../foundation/base/closing-places.js'
import { CudaError, refuseReceiver, reportedWhileWaiting, stateError } from '../foundation/base/errors.js'
import { destroyWhenUnreachable, NativeResource } from '../foundation/base/finalization.js'
import { ClosableObject, checkMade, construct, implementation, nextSerial } from '../foundation/base/library-object.js'
import { type WaitOptions, whenAborted } from '../foundation/driver/finished.js'
import type { Device } from './device.js'
import { Stream } from './stream.js'
import { NAMED_STREAM_OPTIONS, type StreamImpl, streamImplOf } from './streams/stream-impl.js'
import type { StreamOptions } from './streams/stream-options.js'

/** The bound of a pool, and how its streams are made. */
export interface StreamPoolOptions extends StreamOptions {
  /** The most streams that there are at once: an integer of at least 1. */
  readonly size: number
}

const POOL_OPTIONS = ['size', 'device', ...NAMED_STREAM_OPTIONS] as const
const WAIT_OPTIONS = ['signal'] as const

/** A promise of the program's that the pool settles: of `take()` or of `drain()`. */
interface Waiter<T> {
  readonly resolve: (value: T) => void
  readonly reject: (reason: unknown) => void
  /** Ends the listening to its signal. */
  forget?: () => void
}

interface Drainer extends Waiter<void> {
  /** The first error of work that the pool has met since the call. */
  error?: unknown
}

/** The implementation of a pool. It knows no lane, so that a lane which the program forgets becomes unreachable. */
class StreamPoolImpl {
  isClosed = false
  /** The streams that no lane has, and whose work is done. */
  readonly #idle: Stream[] = []
  /** The calls of `take()` that wait, in their order. */
  readonly #takers = new Set<Waiter<StreamLane>>()
  readonly #drainers = new Set<Drainer>()
  /** The number of streams that were made. */
  #made = 0
  /** The lanes that are taken, or whose work is not done. */
  #out = 0
  readonly device: Device

  constructor(
    readonly size: number,
    private readonly options: Given<StreamOptions, keyof StreamOptions>,
  ) {
    // The first stream is made at once: the constructor is the call that has the options, and so the one to refuse them.
    const first = this.#make(options)
    this.device = first.device
    this.#idle.push(first)
  }

  get idle(): number {
    return this.isClosed ? 0 : this.size - this.#out
  }

  get pending(): number {
    return this.#takers.size
  }

  checkOpen(): void {
    if (this.isClosed) throw stateError('ERR_CLOSED', `${this} cannot be used any more${closedAt(this)}`)
  }

  tryTake(): StreamLane | undefined {
    this.checkOpen()
    return this.idle === 0 ? undefined : this.#lend()
  }

  take(options: WaitOptions | undefined): Promise<StreamLane> {
    return waiting(this.#takers, options, () => {
      const lane = this.tryTake()
      return lane === undefined ? undefined : [lane]
    })
  }

  drain(options: WaitOptions | undefined): Promise<void> {
    return waiting(this.#drainers, options, () => (this.#isDrained ? [undefined] : undefined))
  }

  /** Takes a stream back once its work is done, without blocking. Resolves then, and never rejects. */
  takeBack(stream: Stream): Promise<void> {
    return new Promise((resolve) => {
      const settle = (error?: unknown): void => {
        this.#cameBack(stream, error)
        resolve()
      }
      try {
        const { driver, handle, context } = openImpl(stream)
        // A promise that the stream waited for and that was rejected is not asked about: the program has to hear of that.
        driver.streams.finished(handle, context, settle)
      } catch (error) {
        settle(error)
      }
    })
  }

  /** The lane was collected. Its stream is left to whoever still has it, and another one may take its place. */
  forgotten(): void {
    this.#out -= 1
    this.#serve()
  }

  close(): void {
    if (this.isClosed) return
    noteClosed(this)
    this.isClosed = true
    this.#dropIdle()
    const way = 'await pool.drain() before close(), or take no lane any more'
    const error = stateError('ERR_CLOSED', `${this} was closed while take() waited for a lane: ${way}`)
    for (const { reject, forget } of this.#takers) {
      forget?.()
      reject(error)
    }
    this.#takers.clear()
    this.#settleDrainers()
  }

  toString(): string {
    const state = this.isClosed ? 'closed' : `${this.idle} idle, ${this.pending} pending`
    return `StreamPool(${this.size} streams on ${this.device}, ${state})`
  }

  /** Nobody waits for a lane where none is out. */
  get #isDrained(): boolean {
    return this.#out === 0
  }

  #make(options: Given<StreamOptions, keyof StreamOptions>): Stream {
    this.#made += 1
    const { name } = options
    // What is no name is refused as it was given.
    return new Stream(typeof name === 'string' && name !== '' ? { ...options, name: `${name} ${this.#made}` } : options)
  }

  #lend(): StreamLane {
    const stream = this.#idle.pop() ?? this.#make({ ...this.options, device: this.device })
    this.#out += 1
    return StreamLane[construct](new StreamLaneImpl(this, stream))
  }

  #cameBack(stream: Stream, error: unknown): void {
    this.#out -= 1
    if (error instanceof CudaError) {
      // After a fault the driver refuses to make a stream, so that the next takers are told of the fault.
      this.#dropIdle()
      const reported = reportedWhileWaiting(error, `${stream}`)
      for (const drainer of this.#drainers) drainer.error ??= reported
    }
    if (this.isClosed || error !== undefined || isClosedOrRejected(stream)) drop(stream)
    else this.#idle.push(stream)
    this.#serve()
  }

  #serve(): void {
    for (const taker of this.#takers) {
      if (this.idle === 0) break
      this.#takers.delete(taker)
      taker.forget?.()
      try {
        taker.resolve(this.#lend())
      } catch (error) {
        taker.reject(error)
      }
    }
    this.#settleDrainers()
  }

  #settleDrainers(): void {
    if (!this.#isDrained) return
    for (const { resolve, reject, forget, error } of this.#drainers) {
      forget?.()
      if (error === undefined) resolve()
      else reject(error)
    }
    this.#drainers.clear()
  }

  #dropIdle(): void {
    for (const stream of this.#idle.splice(0)) drop(stream)
  }
}

/** A promise for what `now` returns, in an array, or for what the pool gives the waiter later, unless the signal is first. */
function waiting<T>(
  waiters: Set<Waiter<T>>,
  options: WaitOptions | undefined,
  now: () => readonly [T] | undefined,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const signal = checkSignal(readOptions(options, WAIT_OPTIONS).signal)
    if (signal?.aborted) throw signal.reason
    const found = now()
    if (found !== undefined) {
      resolve(found[0])
      return
    }
    const waiter: Waiter<T> = { resolve, reject }
    waiters.add(waiter)
    if (signal === undefined) return
    waiter.forget = whenAborted(signal, () => {
      waiters.delete(waiter)
      reject(signal.reason)
    })
  })
}

/**
 * Must no other lane get the stream, whose work is done? A rejected promise that it waited for, and that was told to nobody, is
 * not for the next one: once the stream is closed, it is an uncaught exception.
 */
const isClosedOrRejected = (stream: Stream): boolean =>
  stream.closed || openImpl(stream).promises.some(({ isUnreported }) => isUnreported)

const openImpl = (stream: Stream): StreamImpl =>
  (streamImplOf(stream) ?? refuseReceiver('a Stream', stream)).checkOpen()

function drop(stream: Stream): void {
  try {
    stream.close()
  } catch {
    // The context is lost, and the stream with it.
  }
}

/** The implementation of a lane: what the pool has lent, to be given back once. */
class StreamLaneImpl extends NativeResource {
  /** Resolves when the stream is back in the pool. */
  back: Promise<void> | undefined

  constructor(
    private readonly pool: StreamPoolImpl,
    readonly stream: Stream,
  ) {
    super()
  }

  override checkOpen(): this {
    if (!this.isClosed) return this
    const why = 'it was given back, and another may have its stream: use the stream before, or take another lane'
    throw stateError('ERR_CLOSED', `${this} cannot be used any more: ${why}`)
  }

  override destroy(): void {
    this.back = this.pool.takeBack(this.stream)
  }

  protected override destroyUnowned(): void {
    this.pool.forgotten()
  }

  override toString(): string {
    return `StreamLane(${this.isClosed ? 'closed' : this.stream})`
  }
}

/**
 * A stream of a pool that one taker has, until it gives it back: `using lane = await pool.take()`. `close()` never blocks: the
 * stream is back in the pool when the work that is queued on it now is done.
 * @example
 * ```ts
 * using lane = await streams.take({ signal }) // of new StreamPool({ size: 8 })
 * lane.stream.fill(buffer, 0) // nobody else queues work on this stream
 * ```
 */
export class StreamLane extends ClosableObject implements AsyncDisposable {
  /** The number of this object: no other object of this thread has it. */
  readonly serial: number
  /** @internal */
  declare readonly [implementation]: StreamLaneImpl

  /** Use `pool.take()`. */
  private constructor(impl: StreamLaneImpl) {
    super()
    checkMade(impl, StreamLaneImpl, 'StreamLane', 'pool.take()')
    this.serial = nextSerial()
    this[implementation] = impl
    destroyWhenUnreachable(this, impl)
  }

  /** @internal */
  static [construct](impl: StreamLaneImpl): StreamLane {
    return new StreamLane(impl)
  }

  /**
   * The stream, for this taker alone.
   * @throws {Error} ERR_CLOSED once the lane was given back
   */
  get stream(): Stream {
    return laneImpl(this).checkOpen().stream
  }

  /**
   * Gives the stream back, without blocking: the next taker gets it when the work that is queued on it now is done. May be called
   * twice.
   */
  close(): void {
    laneImpl(this).dispose()
  }

  /**
   * `lane.stream.finished()`, then `close()`, for `await using`: resolves when the stream is back in the pool. If `finished()`
   * rejects, the lane is given back too, and this rejects.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    const impl = laneImpl(this)
    try {
      if (!impl.isClosed) await impl.stream.finished()
    } finally {
      impl.dispose()
      await impl.back
    }
  }

  get [Symbol.toStringTag](): string {
    return 'StreamLane'
  }
}

const laneImpl = (lane: unknown): StreamLaneImpl => {
  const impl: StreamLaneImpl | undefined = lane instanceof StreamLane ? lane[implementation] : undefined
  return impl ?? refuseReceiver('a StreamLane', lane)
}

/**
 * A bound on the streams that a program has at once, for servers: each request takes one and gives it back, and those for which
 * there is none wait in the order in which they came. A stream that was given back goes to the next taker when its work is done,
 * so that the bound holds for the work on the GPU too. Streams are made when they are needed, the first one by the constructor.
 *
 * A stream whose work failed, that was closed, or that was given back while it captures is not lent again: another takes its place.
 * After a fault of the GPU that is refused, so `take()` rejects with its CudaError. A promise for which a lane's stream waits and
 * that rejects is an uncaught exception if no one who waits for that lane's work hears of it. A lane that is never given back is
 * lost until the garbage collector finds it, and `take()` may wait for it for ever: write `using`, and give a signal. A pending
 * `take()` does not keep the process alive; the work of the lanes does.
 *
 * Not repeated at each member: a closed pool is ERR_CLOSED, except for `device`, `size`, `idle`, `pending`, `closed`, `drain()` and
 * `close()`.
 * @example
 * ```ts
 * import { StreamPool } from 'cuda-streams'
 *
 * await using pool = new StreamPool({ size: 8 })
 * {
 *   using lane = await pool.take({ signal: AbortSignal.timeout(5000) })
 *   const data = lane.stream.bufferFrom(new Float32Array([1, 2, 3]))
 *   console.log(await lane.stream.download(data))
 * }
 * ```
 */
export class StreamPool extends ClosableObject implements AsyncDisposable {
  /** The device that its streams are on. */
  readonly device: Device
  /** The most streams that there are at once. */
  readonly size: number
  /** The number of this object: no other object of this thread has it. */
  readonly serial: number
  /** @internal */
  declare readonly [implementation]: StreamPoolImpl

  /**
   * Makes a pool, and the first of its streams.
   * @param options `size`: the most streams at once. The others as for `new Stream(options)`: `device` (default: the current
   * one), `priority`, `nonBlocking`, `context`, `memorySyncDomain`; of `name: 'encoder'` the streams are called 'encoder 1',
   * 'encoder 2' and so on.
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for a size of less than 1; as `new Stream(options)` does
   * @throws {CudaError} if the driver refuses to make a stream
   */
  constructor(options: StreamPoolOptions) {
    super()
    const { size, ...ofStreams } = readOptions(options, POOL_OPTIONS)
    const impl = new StreamPoolImpl(checkInteger(size, 'options.size', 1), ofStreams)
    this[implementation] = impl
    this.device = impl.device
    this.size = impl.size
    this.serial = nextSerial()
  }

  /** The lanes that could be taken now: all but those that are taken, and those given back whose work is not done. */
  get idle(): number {
    return poolImpl(this).idle
  }

  /** The number of calls of `take()` that wait for a lane. */
  get pending(): number {
    return poolImpl(this).pending
  }

  /**
   * A stream for the caller alone, as soon as there is one. Callers get theirs in the order of their calls. The call itself never
   * throws.
   * @param options `signal`: an AbortSignal that gives up the wait, and so leaves the queue
   * @throws {Error} (as a rejection) `signal.reason` if aborted; ERR_CLOSED, also if the pool is closed meanwhile;
   * ERR_INVALID_ARG_TYPE
   * @throws {CudaError} (as a rejection) if the driver refuses to make a stream, as it does after a fault
   * @example
   * ```ts
   * using lane = await streams.take({ signal: AbortSignal.timeout(5000) })
   * await lane.stream.upload(buffer, float32Array)
   * ```
   */
  async take(options?: WaitOptions): Promise<StreamLane> {
    return poolImpl(this).take(options)
  }

  /**
   * A stream for the caller alone, if there is one now; otherwise undefined, for servers that rather refuse than wait.
   * @throws {Error} ERR_CLOSED
   * @throws {CudaError} if the driver refuses to make a stream
   */
  tryTake(): StreamLane | undefined {
    return poolImpl(this).tryTake()
  }

  /**
   * Takes a lane for a function, in which its stream is current on the pool's device, as in `stream.run(fn)`, and gives it back
   * when the function is done.
   * @param fn A function, sync or async, that gets the stream. It must not wait for another lane of the pool: if all that have one
   * do so, none comes back.
   * @param options `signal`: an AbortSignal that gives up the wait for a lane, and does not end the function
   * @returns the function's result, which does not wait for the work that it queued
   * @throws {Error} (as a rejection) as `take()`; any error of the function
   * @throws {CudaError} (as a rejection) as `take()`
   * @example
   * ```ts
   * const bytes = await streams.run((stream) => stream.fill(buffer, 0).download(buffer), { signal })
   * ```
   */
  async run<R>(fn: (stream: Stream) => R | Promise<R>, options?: WaitOptions): Promise<R> {
    const impl = poolImpl(this)
    checkFunction(fn, 'fn')
    const lane = await impl.take(options)
    try {
      const { stream } = lane
      return await stream.run(() => fn(stream))
    } finally {
      lane.close()
    }
  }

  /**
   * Resolves when all lanes are back, their work is done, and nobody waits for one; at once if that is so. Lanes can be taken
   * meanwhile, and are waited for too. Called by who has a lane, it would wait for that.
   * @param options `signal`: an AbortSignal that gives up the wait
   * @throws {CudaError} (as a rejection, when all are back) the first error of work of a lane that came back meanwhile
   * @throws {Error} (as a rejection) `signal.reason` if aborted; ERR_INVALID_ARG_TYPE
   */
  async drain(options?: WaitOptions): Promise<void> {
    return poolImpl(this).drain(options)
  }

  /**
   * Ends the pool, without blocking: no more lanes can be taken, and each `take()` that waits rejects with ERR_CLOSED. Streams
   * that are lent are closed when they are given back and their work is done, the others now. May be called twice.
   */
  close(): void {
    poolImpl(this).close()
  }

  /** `close()`, then `drain()`, for `await using`: resolves when all lanes are back and their work is done. */
  async [Symbol.asyncDispose](): Promise<void> {
    const impl = poolImpl(this)
    impl.close()
    await impl.drain(undefined)
  }

  get [Symbol.toStringTag](): string {
    return 'StreamPool'
  }
}

const poolImpl = (pool: unknown): StreamPoolImpl => {
  const impl: StreamPoolImpl | undefined = pool instanceof StreamPool ? pool[implementation] : undefined
  return impl ?? refuseReceiver('a StreamPool', pool)
}
