/** Collective communication between GPUs by NCCL, in stream order. Importing this loads no library. */

import { contextOf, Device, driverOf, elsewhere, resolveDevice } from '../../core/device.js'
import type { DeviceBuffer } from '../../core/memory/device-buffer.js'
import type { Stream } from '../../core/stream.js'
import { StreamImpl } from '../../core/streams/stream-impl.js'
import { checkArray, checkSignal, checkThis, readOptions } from '../../foundation/base/arguments.js'
import type { OwnBytes } from '../../foundation/base/bytes.js'
import { CudaError, invalidType, invalidValue, stateError } from '../../foundation/base/errors.js'
import { every, sleep } from '../../foundation/base/event-loop.js'
import { destroyWhenUnreachable } from '../../foundation/base/finalization.js'
import { checkMade, implementation, LibraryObject, nextSerial } from '../../foundation/base/library-object.js'
import { isContextLost } from '../../foundation/driver/cuda-results.js'
import { finished, type WaitOptions, whenAborted } from '../../foundation/driver/finished.js'
import { type GivenMemory, wholeOf } from '../library-call.js'
import { checkAlive } from './group.js'
import type {
  CallOption,
  CommunicatorOptions,
  PeerOptions,
  ReductionOptions,
  RootOptions,
  TransferOptions,
} from './nccl-call.js'
import { checkId, checkRank, checkSize, checkTimeout, NcclCall } from './nccl-call.js'
import { Clique, NcclHandle } from './nccl-handle.js'
import { type NcclBackend, openNccl } from './nccl-library.js'
import { SimulatedNccl } from './simulated-nccl.js'

const TURNS_FOR_HOST_FUNCTIONS = 1000
/** Milliseconds between two checks for errors while work runs. */
const ERROR_CHECK_INTERVAL = 50

let simulated: SimulatedNccl | undefined

/**
 * An id for a new communicator (`ncclGetUniqueId`): send it to every rank, by any means that the processes have. This
 * process must not end before all ranks have come, since they connect to it.
 * @returns 128 bytes
 * @throws {Error} ERR_UNSUPPORTED, with the places tried, if NCCL is not found (CUDA_STREAMS_NCCL names the file or
 * its folder) or is older than 2.14
 * @throws {LibraryError} if NCCL refuses
 */
export function uniqueId(): OwnBytes {
  return ncclOf(Device.current()).uniqueId()
}

/**
 * NCCL's own number, such as 22809 for 2.28.9 (`ncclGetVersion`); 0 on the simulator.
 * @throws {Error} as `uniqueId`
 */
export function ncclVersion(): number {
  return ncclOf(Device.current()).version()
}

/**
 * A rank among those that exchange data: a device of this process. Every rank has to make the same calls in the same order. Their
 * work is queued on a stream of the device, as kernels are; the buffers may be closed as soon as it is queued. A communicator
 * that the program cannot reach any more is destroyed.
 *
 * Not repeated at each call that exchanges data: wrong arguments are refused by name, and nothing is queued:
 * ERR_INVALID_ARG_TYPE; ERR_INVALID_ARG_VALUE for an unknown type or reduction, and a buffer that is no whole
 * number of elements or begins in the middle of one; ERR_OUT_OF_RANGE for buffers of other lengths, and a rank that does
 * not exist; ERR_CLOSED for a communicator that has ended, a closed buffer or stream; ERR_DEVICE_MISMATCH for those of
 * another device; ERR_UNSUPPORTED on a per-thread default stream; ERR_DEADLOCK if another rank of this thread does
 * not make the same call, and if the other ranks do not come in time (`timeout`). A refusal of NCCL is a
 * LibraryError. It ends the communicator, as a timeout does.
 *
 * The first call of a kind connects the ranks: it blocks until all of them have made it, and runs host functions that
 * become ready meanwhile. A thread that has several ranks must therefore make the calls of all of them inside `group()`.
 * @example
 * ```ts
 * import { Communicator } from 'cuda-streams/nccl'
 *
 * const communicator = await Communicator.create({ id: bytes, rank: 0, size: 2 })
 * communicator.allReduce(stream, x, y, { type: 'f32', op: 'sum' })
 * await communicator.close()
 * ```
 */
export class Communicator extends LibraryObject implements AsyncDisposable {
  /** The device of this rank. */
  readonly device: Device
  /** The number of this rank, from 0. */
  readonly rank: number
  /** The number of ranks. */
  readonly size: number
  /** The number of this object: no other object of this thread has it. */
  readonly serial: number = nextSerial()
  /** @internal */
  declare readonly [implementation]: NcclHandle

  /** Use `await Communicator.create(options)`. */
  private constructor(handle: NcclHandle, device: Device) {
    super()
    checkMade(handle, NcclHandle, 'Communicator', 'Communicator.create(options)')
    this.device = device
    this.rank = handle.rank
    this.size = handle.clique.size
    this[implementation] = handle
    destroyWhenUnreachable(this, handle)
  }

  /**
   * Resolves when all ranks have come (`ncclCommInitRankConfig`, not blocking). The event loop turns meanwhile, so that
   * a process may make several ranks at once. On the simulator ranks of other threads and processes need Linux or Windows.
   * @param options `id` from `uniqueId()`, this `rank` and the `size`; `device` (default: the current device),
   * `timeout` and `signal`: see CommunicatorOptions
   * @throws {Error} (as a rejection) ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE; ERR_INVALID_ARG_VALUE for an id that
   * `uniqueId()` did not return, or for options that contradict those of another rank in this thread; ERR_UNSUPPORTED
   * as `uniqueId()`; ERR_DEADLOCK after the `timeout`; `signal.reason`
   * @throws {LibraryError} (as a rejection) if NCCL refuses
   */
  static async create(options: CommunicatorOptions): Promise<Communicator> {
    if (options === undefined) throw invalidType('options', 'an object such as { id, rank, size }', options)
    const given = readOptions(options, ['id', 'rank', 'size', 'device', 'timeout', 'signal'])
    const size = checkSize(given.size)
    const rank = checkRank(given.rank, 'options.rank', size)
    const id = checkId(given.id)
    const timeout = checkTimeout(given.timeout)
    const signal = checkSignal(given.signal)
    const device = resolveDevice(given.device)
    signal?.throwIfAborted()
    const library = ncclOf(device)
    const driver = driverOf(device)
    const { libraries } = driver
    const context = contextOf(device)
    const clique = Clique.enter(id, rank, size, driver)
    let handle: NcclHandle | undefined
    let waiting: StreamImpl | undefined
    try {
      // NCCL may wait for the device, so the event loop first runs the host functions that the device waits for. The call runs
      // those that are left.
      for (let left = TURNS_FOR_HOST_FUNCTIONS; left > 0 && libraries.hostFunctionsPending(); left -= 1) {
        signal?.throwIfAborted()
        await sleep(1)
      }
      const made = StreamImpl.make(device)
      waiting = made
      const begin = (): NcclHandle => new NcclHandle(library, id, clique, rank, timeout, made)
      handle = libraries.call(context, begin)
      await handle.made(signal)
      return new Communicator(handle, device)
    } catch (error) {
      if (handle !== undefined) handle.fail(error)
      else {
        clique.leave(rank)
        waiting?.close()
      }
      throw error
    }
  }

  /**
   * A communicator for each of these devices of this process, in their order: `create` for each, all at once. Make the
   * calls of all of them inside `group()`.
   * @param devices Devices of one driver, or ordinals; at least one.
   * @param options `timeout` and `signal`, as for `create`
   * @throws {Error} (as a rejection) ERR_INVALID_ARG_TYPE, also for no devices; ERR_INVALID_ARG_VALUE for a device that
   * is named twice; ERR_DEVICE_MISMATCH for those of two drivers; as `create` for any of them: then all are aborted
   */
  static async createAll(
    devices: readonly (Device | number)[],
    options?: Pick<CommunicatorOptions, 'timeout' | 'signal'>,
  ): Promise<Communicator[]> {
    const { timeout, signal } = readOptions(options, ['timeout', 'signal'])
    const expected = 'an array of one device or more'
    const given = checkArray(devices, 'devices', expected)
    if (given.length === 0) throw invalidType('devices', expected, devices)
    const resolved = given.map((device) => {
      if (device === undefined) throw invalidType('devices', expected, devices)
      return resolveDevice(device as Device | number, 'devices')
    })
    if (new Set(resolved).size < resolved.length) throw invalidValue('devices must not name a device twice')
    const [first = Device.current()] = resolved
    const foreign = resolved.find((device) => driverOf(device) !== driverOf(first))
    if (foreign !== undefined) {
      const what = `devices must all be of one driver, not ${first} and ${elsewhere(foreign, first)}`
      throw stateError('ERR_DEVICE_MISMATCH', what)
    }
    checkTimeout(timeout)
    checkSignal(signal)
    const id = ncclOf(first).uniqueId()
    const size = resolved.length
    const made = await Promise.allSettled(
      resolved.map((device, rank) => Communicator.create({ id, rank, size, device, timeout, signal })),
    )
    const failed = made.find((result) => result.status === 'rejected')
    const communicators = made.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
    if (failed === undefined) return communicators
    await Promise.all(communicators.map((communicator) => communicator.abort()))
    throw failed.reason
  }

  /** Was the communicator closed, or aborted, also because of an error? */
  get closed(): boolean {
    return handleOf(this).ended
  }

  /**
   * Writes the reduction of the `source` of all ranks to every rank's `destination` (`ncclAllReduce`).
   * @param stream The stream of the work, no per-thread default stream.
   * @param source This rank's elements.
   * @param destination The buffer to write, of the same length; may be the same bytes.
   * @param options `type` of the elements, and `op` (default 'sum')
   */
  allReduce(stream: Stream, source: DeviceBuffer, destination: DeviceBuffer, options: ReductionOptions): this {
    const call = Communicator.#call(this, stream, options, 'op')
    const count = call.elements(destination, 'destination')
    call.checkBuffersApart(call.expect(source, 'source', count), destination, 0)
    call.enqueue('ncclAllReduce', count, [read(source), written(destination)])
    return this
  }

  /**
   * Writes the root's `source` to every rank's `destination` (`ncclBroadcast`).
   * @param stream The stream of the work, no per-thread default stream.
   * @param source The root's elements; other ranks need none.
   * @param destination The buffer to write, of the same length; at the root it may be the same buffer.
   * @param options `type` of the elements, and `root`
   */
  broadcast(
    stream: Stream,
    source: DeviceBuffer | undefined,
    destination: DeviceBuffer,
    options: TransferOptions & RootOptions,
  ): this {
    const call = Communicator.#call(this, stream, options, 'root')
    const count = call.elements(destination, 'destination')
    const given = this.rank === call.root ? [read(call.expect(source, 'source', count))] : []
    for (const { buffer } of given) call.checkBuffersApart(buffer, destination, 0)
    call.enqueue('ncclBroadcast', count, [written(destination), ...given], ([to = 0, from = to]) => [from, to])
    return this
  }

  /**
   * Writes the reduction of the `source` of all ranks to the root's `destination` (`ncclReduce`).
   * @param stream The stream of the work, no per-thread default stream.
   * @param source This rank's elements.
   * @param destination The root's buffer to write, of the same length; may be the same buffer. Other ranks need none.
   * @param options `type` of the elements, `op` and `root`
   */
  reduce(
    stream: Stream,
    source: DeviceBuffer,
    destination: DeviceBuffer | undefined,
    options: ReductionOptions & RootOptions,
  ): this {
    const call = Communicator.#call(this, stream, options, 'op', 'root')
    const count = call.elements(source, 'source')
    const given = this.rank === call.root ? [written(call.expect(destination, 'destination', count))] : []
    for (const { buffer } of given) call.checkBuffersApart(source, buffer, 0)
    call.enqueue('ncclReduce', count, [read(source), ...given], ([from = 0, to = 0]) => [from, to])
    return this
  }

  /**
   * Writes the `source` of all ranks, one after the other, to every rank's `destination` (`ncclAllGather`).
   * @param stream The stream of the work, no per-thread default stream.
   * @param source This rank's elements.
   * @param destination The buffer to write, `size` times as long.
   * @param options `type` of the elements
   */
  allGather(stream: Stream, source: DeviceBuffer, destination: DeviceBuffer, options: TransferOptions): this {
    const call = Communicator.#call(this, stream, options)
    const count = call.elements(source, 'source')
    call.expect(destination, 'destination', count * this.size)
    call.checkBuffersApart(source, destination, this.rank * source.byteLength)
    call.enqueue('ncclAllGather', count, [read(source), written(destination)])
    return this
  }

  /**
   * Reduces the `source` of all ranks and writes to each rank's `destination` its part of the result (`ncclReduceScatter`).
   * @param stream The stream of the work, no per-thread default stream.
   * @param source This rank's elements, `size` times as long as the destination.
   * @param destination The buffer to write.
   * @param options `type` of the elements, and `op`
   */
  reduceScatter(stream: Stream, source: DeviceBuffer, destination: DeviceBuffer, options: ReductionOptions): this {
    const call = Communicator.#call(this, stream, options, 'op')
    const count = call.elements(destination, 'destination')
    call.expect(source, 'source', count * this.size)
    call.checkBuffersApart(source, destination, -this.rank * destination.byteLength)
    call.enqueue('ncclReduceScatter', count, [read(source), written(destination)])
    return this
  }

  /**
   * Sends a buffer to another rank, which has to receive as much (`ncclSend`). Messages that go both ways, or to
   * several ranks at once, belong in one `group()`.
   * @param stream The stream of the work, no per-thread default stream.
   * @param source The elements to send.
   * @param options `type` of the elements, and `peer`: the other rank
   */
  send(stream: Stream, source: DeviceBuffer, options: PeerOptions): this {
    const call = Communicator.#call(this, stream, options, 'peer')
    call.enqueue('ncclSend', call.elements(source, 'source'), [read(source)])
    return this
  }

  /**
   * Receives the elements that another rank sends, which has to send as many (`ncclRecv`).
   * @param stream The stream of the work, no per-thread default stream.
   * @param destination The buffer to write.
   * @param options `type` of the elements, and `peer`: the other rank
   */
  recv(stream: Stream, destination: DeviceBuffer, options: PeerOptions): this {
    const call = Communicator.#call(this, stream, options, 'peer')
    call.enqueue('ncclRecv', call.elements(destination, 'destination'), [written(destination)])
    return this
  }

  /**
   * Resolves when all work is done that was queued through this communicator until now, on closed streams too; captured
   * work is not waited for. A network reports a rank that died, but NVLink does not: the GPU waits forever then, so
   * give a `signal` with a time limit if that can happen. When it is aborted, or NCCL reports an error
   * (`ncclCommGetAsyncError`), the communicator is aborted as by `abort()`, and the streams resume. The promise
   * rejects with the reason at once; await `abort()` to know that NCCL has released everything.
   * @param options `signal`: an AbortSignal that aborts the communicator
   * @throws {Error} (as a rejection) ERR_CLOSED, also if it is aborted meanwhile; ERR_INVALID_ARG_TYPE;
   * `signal.reason`
   * @throws {LibraryError} (as a rejection) if NCCL reports an error
   * @throws {CudaError} (as a rejection) if the GPU faults
   */
  async finished(options?: WaitOptions): Promise<void> {
    const handle = handleOf(this)
    const signal = checkSignal(readOptions(options, ['signal']).signal)
    checkAlive(handle)
    const giveUp = new AbortController()
    const onAbort = (): void => giveUp.abort(signal?.reason)
    const forget = signal === undefined ? undefined : whenAborted(signal, onAbort)
    if (signal?.aborted) onAbort()
    const stopChecks = every(ERROR_CHECK_INTERVAL, () => {
      try {
        handle.isDone('ncclCommGetAsyncError')
      } catch (error) {
        giveUp.abort(error)
      }
    })
    try {
      await handle.finished(giveUp.signal)
      // Work that goes on without a rank that has ended is over, too.
      handle.isDone('ncclCommGetAsyncError')
    } catch (error) {
      // A query that the driver refuses is no fault of the communicator.
      if (!(error instanceof CudaError) || isContextLost(error.number)) handle.fail(error)
      throw error
    } finally {
      stopChecks()
      forget?.()
    }
  }

  /**
   * Aborts the communicator at once (`ncclCommAbort`): its work on the GPU ends, with undefined bytes in the
   * destinations, and the streams resume. Abort the other ranks too. Resolves when NCCL has released everything, for
   * which it waits for the device: unblock streams that wait for something else. On the simulator it waits for
   * nothing. Later calls are ERR_CLOSED. May be called twice.
   * @throws {LibraryError} (as a rejection) if NCCL refuses
   */
  async abort(): Promise<void> {
    const handle = handleOf(this)
    if (!handle.ended) handle.failure = stateError('ERR_CLOSED', 'abort() was called')
    await handle.end('ncclCommAbort')
  }

  /**
   * Completes its work, then frees it (`ncclCommFinalize`, `ncclCommDestroy`). All ranks have to close, those of
   * one thread at the same time: `await Promise.all(communicators.map((each) => each.close()))`. Close graphs that captured
   * its work before. May be called twice.
   * @param options `signal`: when it is aborted the promise rejects, and the communicator is aborted as by `abort()`,
   * unless NCCL is freeing it by then, which continues; await `abort()` to know that NCCL has released everything
   * @throws {Error} (as a rejection) ERR_INVALID_ARG_TYPE, `signal.reason`; ERR_DEADLOCK after the `timeout`
   * @throws {LibraryError} (as a rejection) if NCCL refuses
   */
  async close(options?: WaitOptions): Promise<void> {
    const handle = handleOf(this)
    const signal = checkSignal(readOptions(options, ['signal']).signal)
    if (handle.ended || handle.closing) return
    handle.closing = true
    try {
      signal?.throwIfAborted()
      handle.finalize()
      await handle.done('ncclCommFinalize', signal)
    } catch (error) {
      handle.fail(error)
      throw error
    }
    const ended = handle.end('ncclCommDestroy')
    // NCCL completes a free that it has begun, whether or not it is waited for.
    await finished(
      { signal },
      () => 'close() of a communicator',
      (settle) => {
        ended.then(() => settle(undefined), settle)
        return () => {}
      },
    )
  }

  /** `close()`, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await checkThis(this, isCommunicator, 'a Communicator').close()
  }

  get [Symbol.toStringTag](): string {
    return 'Communicator'
  }

  override toString(): string {
    if (!isCommunicator(this)) return super.toString()
    return `Communicator(rank ${this.rank} of ${this.size}, ${this.device}${this.closed ? ', closed' : ''})`
  }

  static #call(value: Communicator, stream: Stream, options: TransferOptions, ...takes: CallOption[]): NcclCall {
    const communicator = checkThis(value, isCommunicator, 'a Communicator')
    return new NcclCall(communicator[implementation], communicator.device, stream, options, takes)
  }
}

const isCommunicator = (value: unknown): value is Communicator =>
  value instanceof Communicator && value[implementation] !== undefined

const handleOf = (value: unknown): NcclHandle => checkThis(value, isCommunicator, 'a Communicator')[implementation]

/** NCCL itself, or its simulation. */
function ncclOf(device: Device): NcclBackend {
  if (device.driver !== 'sim') return openNccl()
  simulated ??= new SimulatedNccl()
  return simulated
}

const read = (buffer: DeviceBuffer): GivenMemory => wholeOf(buffer, 'in')
const written = (buffer: DeviceBuffer): GivenMemory => wholeOf(buffer, 'out')
