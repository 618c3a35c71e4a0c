/**
 * Host functions on a real GPU. CUDA would call them on a thread of its own, which JavaScript cannot serve while it waits for the stream. So
 * the stream itself waits at a semaphore in pinned memory: it writes "waiting", then waits until JavaScript, which has run the function,
 * writes "signalled".
 */

import { stateError } from '../../foundation/base/errors.js'
import { monotonicTime } from '../../foundation/base/event-loop.js'
import { shortCallSite } from '../../foundation/base/stack.js'
import { noteLoss } from '../../foundation/driver/cuda-results.js'
import type { ContextHandle, StreamHandle } from '../../foundation/driver/handle-types.js'
import type { HostFunction, QueuedPromiseWait } from '../../foundation/driver/queued-work.js'
import { own } from '../../foundation/native/c-functions.js'
import { NativeMemory } from '../../foundation/native/native-memory.js'
import { type OwnedKind, ownerOfThread } from '../../foundation/native/owned-handles.js'
import { ThreadMemory } from '../../foundation/native/thread-memory.js'
import { check, type Library } from '../libcuda/libcuda.js'
import { LABEL_BYTES, Label, type ProcessRegistry, singleThread } from './process-registry.js'

/** The semaphores that can be in use at one time: one for each stream with host functions pending, one for each in a graph. */
export const SEMAPHORES = 4096
/** A pair of words, and one that stands behind all pairs. */
const SEMAPHORE_BYTES = SEMAPHORES * (8 + 4)
/** sizeof(CUstreamBatchMemOpParams). */
const OPERATION_BYTES = 48
const MOST_OPERATIONS = 3

const WAIT_VALUE_32 = 1
const WRITE_VALUE_32 = 2
/** CUstreamWaitValue_flags: at least the value, counted cyclically; exactly the value. */
export const WaitUntil = { AT_LEAST: 0, EQUAL: 1 } as const

/** An operation of the stream on a semaphore's words. */
export type SemaphoreOperation =
  | { readonly write: 'waiting' | 'signalled' | 'held'; readonly value: number }
  | { readonly waitUntil: 0 | 1; readonly value: number }

/**
 * The pinned memory of semaphores. Each has a pair of words, "waiting" and "signalled". A stream that waits for something other than a host
 * function writes "held" instead of "waiting", behind all pairs, so that other threads and the watchdog do not take it for one that JavaScript
 * has to serve.
 */
export class SemaphoreMemory {
  readonly #operations = new ThreadMemory(MOST_OPERATIONS * OPERATION_BYTES)
  readonly #free: number[] = []
  #words: NativeMemory | undefined
  #labels: NativeMemory | undefined
  #sequences: Int32Array | undefined

  /** `made` gets the address of the pairs, and that of the labels. */
  constructor(
    private readonly source: SemaphoreSource,
    private readonly made: (address: number, count: number, labels: number) => void,
  ) {}

  /** The number of the latest call that was queued at each semaphore. */
  get sequences(): Int32Array {
    this.#prepared()
    this.#sequences ??= new Int32Array(SEMAPHORES)
    return this.#sequences
  }

  /** A semaphore that is not in use; undefined when all are. */
  take(): number | undefined {
    this.#prepared()
    return this.#free.pop()
  }

  release(semaphore: number): void {
    this.#free.push(semaphore)
  }

  waiting(semaphore: number): number {
    return Atomics.load(this.#prepared(), 2 * semaphore)
  }

  held(semaphore: number): number {
    return Atomics.load(this.#prepared(), 2 * SEMAPHORES + semaphore)
  }

  setWaiting(semaphore: number, value: number): void {
    Atomics.store(this.#prepared(), 2 * semaphore, value)
  }

  signal(semaphore: number, value: number): void {
    Atomics.store(this.#prepared(), 2 * semaphore + 1, value)
  }

  /** Writes for the watchdog what waits at the semaphore, and where it was queued if that is known. */
  label(semaphore: number, stream: number, sequence: number, site: string | undefined): void {
    if (this.#labels === undefined) return
    const { uint32, bytes } = this.#labels
    const at = semaphore * LABEL_BYTES
    this.#labels.setPointer(at + 4 * Label.STREAM, stream)
    if (site === undefined) return
    const text = bytes.subarray(at + Label.TEXT, at + LABEL_BYTES)
    uint32[at / 4 + Label.LENGTH] = new TextEncoder().encodeInto(site, text).written
    uint32[at / 4 + Label.SEQUENCE] = sequence
  }

  /** Writes the operations as CUDA takes them. Returns their address, valid until the next call. */
  describe(semaphore: number, operations: readonly SemaphoreOperation[]): number {
    this.#prepared()
    const { uint32, address } = this.#operations
    let at = 0
    for (const operation of operations) {
      const waits = 'waitUntil' in operation
      const word = wordOf(waits ? 'signalled' : operation.write, semaphore)
      // The words in between stay zero.
      uint32[at / 4] = waits ? WAIT_VALUE_32 : WRITE_VALUE_32
      this.#operations.setPointer(at + 8, (this.#words?.address ?? 0) + 4 * word)
      uint32[at / 4 + 4] = operation.value
      uint32[at / 4 + 6] = waits ? operation.waitUntil : 0
      at += OPERATION_BYTES
    }
    return address
  }

  #prepared(): Int32Array {
    if (this.#words === undefined) {
      const { address, sequences, labels } = this.source.take() ?? this.#make()
      this.#words = new NativeMemory(SEMAPHORE_BYTES, address)
      this.#labels = new NativeMemory(SEMAPHORES * LABEL_BYTES, labels)
      // No stream comes to those of a graph any more that another thread had.
      if (sequences === 0) this.#words.bytes.fill(0)
      else this.#continue(new NativeMemory(4 * SEMAPHORES, sequences).int32)
      this.#operations.bytes.fill(0)
      this.made(address, SEMAPHORES, labels)
      for (let semaphore = SEMAPHORES - 1; semaphore >= 0; semaphore -= 1) this.#free.push(semaphore)
    }
    return this.#words.int32
  }

  #make(): SemaphoreAddresses {
    const address = this.source.allocate(SEMAPHORE_BYTES)
    new NativeMemory(SEMAPHORE_BYTES, address).bytes.fill(0)
    const labels = new NativeMemory(SEMAPHORES * LABEL_BYTES).address
    const made = { address, labels, sequences: this.source.areOfGraphs ? 0 : new NativeMemory(4 * SEMAPHORES).address }
    // A worker that is terminated runs no JavaScript any more, but its streams may wait at semaphores and block the whole device.
    this.source.signalAtEnd(made)
    return made
  }

  /** A stream may not have come past a wait of the thread that had the semaphores before, so that none is signalled less than it was. */
  #continue(sequences: Int32Array): void {
    this.#sequences = sequences
    for (const [semaphore, sequence] of sequences.entries())
      if (sequence !== 0) Atomics.store(this.#words?.int32 ?? sequences, 2 * semaphore + 1, sequence)
  }
}

/**
 * The addresses of the pairs of a thread's semaphores, of the latest sequence of each, which those of graphs lack, and of their
 * labels.
 */
export interface SemaphoreAddresses {
  readonly address: number
  readonly sequences: number
  readonly labels: number
}

/** The source of the memory of a thread's semaphores. */
export interface SemaphoreSource {
  readonly areOfGraphs: boolean
  /** Semaphores of a thread that has ended, which have been reached by all streams that were to. */
  take(): SemaphoreAddresses | undefined
  /** The address of pinned memory of a length, valid in every context. */
  allocate(bytes: number): number
  /** Lets streams pass the semaphores once the thread has ended, which then are for another. */
  signalAtEnd(addresses: SemaphoreAddresses): void
}

/** Semaphores in pinned memory of the process. */
export function semaphoreSource(
  pinned: OwnedKind,
  areOfGraphs: boolean,
  allocate: (bytes: number) => number,
): SemaphoreSource {
  return {
    areOfGraphs,
    allocate,
    take() {
      const into = new NativeMemory(24)
      const isTaken = own().takeSemaphores(ownerOfThread(), pinned.number, into.address, areOfGraphs ? 1 : 0) !== 0
      const [address, sequences, labels] = [0, 8, 16].map((offset) => into.pointerAt(offset))
      into.free()
      if (!isTaken || address === undefined || sequences === undefined || labels === undefined) return undefined
      return { address, sequences, labels }
    },
    signalAtEnd({ address, sequences, labels }) {
      own().noteSemaphores(pinned.number, address, sequences, labels)
    },
  }
}

function wordOf(which: 'waiting' | 'signalled' | 'held', semaphore: number): number {
  if (which === 'held') return 2 * SEMAPHORES + semaphore
  return 2 * semaphore + (which === 'signalled' ? 1 : 0)
}

/** What semaphores need of a stream's record. */
export interface SemaphoreStream {
  readonly handle: StreamHandle
  readonly context: ContextHandle
  semaphore: StreamSemaphore | undefined
}

/** A host function, or a wait for a promise, that is queued and has not completed. */
export interface PendingCall {
  readonly semaphore: Semaphore
  /** The stream that waits at the semaphore, or will. */
  readonly stream: SemaphoreStream
  /** The number of the call, counted for each semaphore. */
  readonly sequence: number
  readonly host: HostFunction
  /** The call site at which the call was queued, if that was looked up. */
  readonly site: string | undefined
  /** The wait, if no host function signals the semaphore. */
  readonly wait: PendingWait | undefined
}

/** A wait that JavaScript may end at any time, even before the stream comes to it. */
export class PendingWait {
  isEnded = false
  /** The time at which the wait was queued, by `monotonicTime()`. */
  readonly since = monotonicTime()
}

const NO_FUNCTION: HostFunction = { run() {}, runsAfterFault: false, internal: true }

/**
 * The number of first host functions whose call sites are all looked up; later ones are looked up ever more seldom, since that
 * costs more than queuing.
 */
const ALL_UP_TO = 4

/**
 * The call site at which the caller's host function is queued. Undefined when it is not looked up, or cannot be, as at the end of
 * the stack.
 */
export function siteOf(sequence: number, called?: QueuedPromiseWait['called']): string | undefined {
  if (sequence >>> 0 > ALL_UP_TO && (sequence & (sequence - 1)) !== 0) return undefined
  // The program's own function for stack traces must not run here.
  const { prepareStackTrace } = Error
  try {
    Reflect.set(Error, 'prepareStackTrace', undefined)
    return shortCallSite(called)
  } catch {
    return undefined
  } finally {
    Reflect.set(Error, 'prepareStackTrace', prepareStackTrace)
  }
}

/** The semaphore of one stream, or of one node of a graph. Its host functions run one after the other. */
export abstract class Semaphore {
  readonly calls: PendingCall[] = []
  /** The first call is running. No other call of this semaphore may run then. */
  isRunning = false

  /** `index` is that of the semaphore in `memory`. */
  constructor(
    readonly context: ContextHandle,
    protected readonly memory: SemaphoreMemory,
    readonly index: number,
  ) {}

  /** Does the GPU wait for this call? */
  abstract isWaitingFor(call: PendingCall): boolean
  abstract signal(call: PendingCall): void

  /** Describes the call that is the first one now, for the watchdog. */
  label({ stream, sequence, site }: PendingCall): void {
    this.memory.label(this.index, stream.handle, sequence, site)
  }

  /** The last call has completed. */
  abstract emptied(): void
}

/** The semaphores of this thread that have calls pending. */
export class Semaphores {
  #pending = 0
  /** The calls that JavaScript is inside of, the innermost one last. */
  readonly running: PendingCall[] = []
  /** The calls that no host function ends, and that have not ended. */
  readonly waits = new Set<PendingCall>()
  #active: Semaphore[] = []

  /**
   * `spinWait` is called with the milliseconds waited so far while another thread makes a call that waits for the device; what it throws ends
   * the wait. `beforeFirst` makes what cannot be made once a stream waits at a semaphore.
   */
  constructor(
    private readonly library: Library,
    private readonly memory: SemaphoreMemory,
    private readonly registry: ProcessRegistry = singleThread(),
    private readonly spinWait: (millisecondsWaited: number) => void = () => {},
    private readonly beforeFirst: () => void = () => {},
  ) {}

  /** The number of calls that are queued and have not completed. */
  get pending(): number {
    return this.#pending
  }

  /** The number of them that are host functions. */
  get functionsPending(): number {
    return this.#pending - this.waits.size
  }

  /** The semaphores with calls pending. */
  get active(): readonly Semaphore[] {
    return this.#active
  }

  /** Whether no more semaphores are available until one of these has no calls pending. */
  get areFull(): boolean {
    return this.#active.length >= SEMAPHORES / 2
  }

  /**
   * Announces to the other threads calls that are about to be queued. Waits while one of them makes a call that waits for the device, which would
   * wait for these too. That thread has no host functions pending itself, so its call ends.
   */
  announce(count: number): void {
    let begun: number | undefined
    for (;;) {
      if (this.#pending === 0) this.beforeFirst()
      if (this.registry.tryAnnounce(this.#pending + count)) return
      const now = monotonicTime()
      begun ??= now
      this.spinWait(now - begun)
    }
  }

  /** Queues a host function on `raw`, CUDA's own handle of the stream, whose context must be current for a default stream. */
  queue(stream: SemaphoreStream, raw: number, host: HostFunction): PendingCall {
    return this.#announced(() => this.#queue(stream, raw, host))
  }

  /** Queues a wait that `endWait` ends. `raw` is as for `queue`. */
  queueWait(stream: SemaphoreStream, raw: number, called: QueuedPromiseWait['called']): PendingCall {
    return this.#announced(() => this.#queue(stream, raw, NO_FUNCTION, new PendingWait(), called))
  }

  /** Ends a wait as soon as the calls before it in its stream have completed. */
  endWait(call: PendingCall): void {
    if (call.wait === undefined || !this.waits.has(call)) return
    call.wait.isEnded = true
    this.#passEndedWaits(call.semaphore)
  }

  #announced(queue: () => PendingCall): PendingCall {
    this.announce(1)
    try {
      return queue()
    } catch (error) {
      this.#count(0)
      throw error
    }
  }

  #queue(
    stream: SemaphoreStream,
    raw: number,
    host: HostFunction,
    wait?: PendingWait,
    called?: QueuedPromiseWait['called'],
  ): PendingCall {
    const semaphore = stream.semaphore ?? this.#open(stream)
    const { index } = semaphore
    const { sequences } = this.memory
    const sequence = ((sequences[index] ?? 0) + 1) | 0
    const site = siteOf(wait === undefined ? sequence : 1, called)
    const call = { semaphore, stream, sequence, host, site, wait }
    if (semaphore.calls.length === 0) semaphore.label(call)
    const operations = this.memory.describe(index, [
      { write: wait === undefined ? 'waiting' : 'held', value: sequence },
      { waitUntil: WaitUntil.AT_LEAST, value: sequence },
    ])
    const result = this.library.cuStreamBatchMemOp_v2(raw, 2, operations, 0)
    if (result !== 0 && semaphore.calls.length === 0) semaphore.emptied()
    check(wait === undefined ? 'cuLaunchHostFunc' : 'cuStreamBatchMemOp', result)
    sequences[index] = sequence
    this.add(call)
    return call
  }

  /** Adds a call whose operations are queued. */
  add(call: PendingCall): void {
    const { semaphore } = call
    if (semaphore.calls.length === 0) this.#active.push(semaphore)
    semaphore.calls.push(call)
    if (call.wait !== undefined) this.waits.add(call)
    this.#count(1)
  }

  /** Does the GPU wait for the first call of the semaphore? */
  isWaitingAt(semaphore: Semaphore): boolean {
    const [first] = semaphore.calls
    return first !== undefined && semaphore.isWaitingFor(first)
  }

  /** Runs one host function that the GPU waits for, of those that may run. Returns false when there is none. */
  runReady(mayRun?: (call: PendingCall) => boolean): boolean {
    const semaphore = this.#readySemaphore(mayRun)
    if (semaphore === undefined) return false
    // The semaphore that was served last goes to the end, so that one which is always ready cannot starve the others.
    if (this.#active.length > 1) {
      this.#active.splice(this.#active.indexOf(semaphore), 1)
      this.#active.push(semaphore)
    }
    this.#run(semaphore)
    return true
  }

  isReady(mayRun: (call: PendingCall) => boolean): boolean {
    return this.#readySemaphore(mayRun) !== undefined
  }

  /** A context is lost. Callbacks get the status, host functions are dropped, and the GPU comes to none of its semaphores. */
  fail(context: ContextHandle, status: number): void {
    noteLoss(status)
    for (const semaphore of [...this.#active]) {
      if (semaphore.context !== context) continue
      const calls = semaphore.calls.splice(semaphore.isRunning ? 1 : 0)
      for (const call of calls) this.waits.delete(call)
      this.#count(-calls.length)
      if (!semaphore.isRunning) this.#retire(semaphore)
      for (const { host } of calls) if (host.runsAfterFault) host.run(status)
    }
  }

  #count(more: number): void {
    this.#pending += more
    this.registry.publishPending(this.#pending)
  }

  #readySemaphore(mayRun?: (call: PendingCall) => boolean): Semaphore | undefined {
    this.registry.beat()
    for (const semaphore of this.#active) {
      const [first] = semaphore.calls
      if (semaphore.isRunning || first === undefined || first.wait !== undefined) continue
      if ((mayRun === undefined || mayRun(first)) && semaphore.isWaitingFor(first)) return semaphore
    }
    return undefined
  }

  #run(semaphore: Semaphore): void {
    const [call] = semaphore.calls
    if (call === undefined) return
    semaphore.isRunning = true
    this.running.push(call)
    try {
      call.host.run(0)
    } finally {
      this.running.splice(this.running.indexOf(call), 1)
      semaphore.isRunning = false
      this.#pass(semaphore, call)
      this.#passEndedWaits(semaphore)
    }
  }

  /** Lets the stream resume behind the first call of the semaphore. */
  #pass(semaphore: Semaphore, call: PendingCall): void {
    semaphore.calls.shift()
    const [next] = semaphore.calls
    if (next !== undefined) semaphore.label(next)
    semaphore.signal(call)
    this.#count(-1)
    if (semaphore.calls.length === 0) this.#retire(semaphore)
  }

  #passEndedWaits(semaphore: Semaphore): void {
    for (;;) {
      const [first] = semaphore.calls
      if (semaphore.isRunning || first?.wait?.isEnded !== true) return
      this.waits.delete(first)
      this.#pass(semaphore, first)
    }
  }

  #open(stream: SemaphoreStream): StreamSemaphore {
    const index = this.memory.take()
    if (index === undefined) {
      throw stateError(
        'ERR_UNSUPPORTED',
        `Host functions are pending on ${SEMAPHORES} streams: wait for some of them first`,
      )
    }
    stream.semaphore = new StreamSemaphore(stream, this.memory, index)
    return stream.semaphore
  }

  #retire(semaphore: Semaphore): void {
    this.#active = this.#active.filter((other) => other !== semaphore)
    semaphore.emptied()
  }
}

/** The semaphore of one stream. Each call waits for a higher value of "signalled" than the one before. */
export class StreamSemaphore extends Semaphore {
  constructor(
    private readonly stream: SemaphoreStream,
    memory: SemaphoreMemory,
    index: number,
  ) {
    super(stream.context, memory, index)
  }

  override isWaitingFor({ sequence, wait }: PendingCall): boolean {
    const latest = wait === undefined ? this.memory.waiting(this.index) : this.memory.held(this.index)
    return ((latest - sequence) | 0) >= 0
  }

  override signal({ sequence }: PendingCall): void {
    this.memory.signal(this.index, sequence)
  }

  /** The semaphore may be taken again at once: its sequence continues, so a call that was signalled stays signalled. */
  override emptied(): void {
    this.stream.semaphore = undefined
    this.memory.release(this.index)
  }
}
