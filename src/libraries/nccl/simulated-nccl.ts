/**
 * NCCL for simulated devices: the ranks' calls are computed together in JavaScript, on the streams of all of them. A rank's
 * result is ordered after the reads that it needs of other ranks, and after nothing else of theirs. Ranks of other threads and processes
 * give their bytes by files of memory.
 */
import { randomBytes } from 'node:crypto'
import { recordedEvent } from '../../core/memory/stream-uses.js'
import type { StreamImpl } from '../../core/streams/stream-impl.js'
import type { OwnBytes } from '../../foundation/base/bytes.js'
import {
  dataViewOf,
  ELEMENT_TYPES,
  type ElementAccess,
  FLOAT_ACCESS,
  integerAccess,
} from '../../foundation/base/element-types.js'
import { LibraryError, stateError } from '../../foundation/base/errors.js'
import { isGone, ownThread } from '../../foundation/base/system-threads.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { InternalEvent } from '../../foundation/driver/event-driver.js'
import type { EventHandle } from '../../foundation/driver/handle-types.js'
import type { HostImplementation } from '../../foundation/driver/library-driver.js'
import type { MemoryFile } from '../../foundation/native/memory-file.js'
import type { UsedMemory } from '../library-call.js'
import { type NcclOperation, pairOf } from './nccl-handle.js'
import {
  type EndCall,
  NCCL_RESULT,
  type NcclBackend,
  type NcclReduction,
  type NcclType,
  type NewCommunicator,
  UNIQUE_ID_BYTES,
} from './nccl-library.js'
import { type Gift, RankFile, writeMeetingPlace } from './rank-files.js'

/** The virtual time of a start, and of a link of 400 GB/s. */
const START_NS = 10_000
const BYTES_PER_NS = 400

/** A rank of a simulated communicator. */
class Member {
  /** The file of the ranks; undefined until the rank that came first has made it, and on systems without such files. */
  #file: RankFile | undefined
  /** Are all ranks there? */
  isComplete = false
  /** Whether the rank's work goes on without the others: it was aborted, or one of them has ended. */
  isAborted = false
  /** The error of NCCL when another rank has ended. */
  failure: LibraryError | undefined
  /** How many collective calls it has made, and messages to and from each rank. */
  readonly #counts = new Map<string, number>()

  constructor(
    private readonly id: Uint8Array,
    readonly rank: number,
    readonly size: number,
    /** The ranks in this thread, for systems without files. */
    private readonly inThread: Set<number>,
  ) {}

  get file(): RankFile {
    if (this.#file === undefined) throw new Error('its ranks have met')
    return this.#file
  }

  /** Looks which ranks have come. */
  meet(): boolean {
    if (this.isComplete) return true
    this.isComplete = this.inThread.size === this.size || this.#meetInFile()
    if (this.inThread.size === this.size) this.#close()
    return this.isComplete
  }

  #meetInFile(): boolean {
    if (this.#file === undefined) {
      this.#file = RankFile.of(this.id, this.size)
      this.#file?.enter(this.rank, ownThread())
    }
    if (this.isLost()) throw this.failure
    return this.#file?.threads.includes(0) === false
  }

  /** Has a rank ended that others wait for? Then their work goes on with incomplete results. */
  isLost(): boolean {
    const rank = this.#file?.threads.findIndex((thread) => isGone(thread)) ?? -1
    if (rank < 0) return false
    this.isAborted = true
    const why = `rank ${rank} has ended before it was done`
    this.failure ??= new LibraryError(
      'ncclCommGetAsyncError',
      NCCL_RESULT['ncclRemoteError'] ?? 0,
      'ncclRemoteError',
      why,
    )
    return true
  }

  leave(): void {
    this.isAborted = true
    this.inThread.delete(this.rank)
    if (!this.isComplete) this.#file?.leave(this.rank)
    this.#close()
  }

  #close(): void {
    this.#file?.close()
    this.#file = undefined
  }

  /** The number of the next call between these ranks. */
  next(between: string): number {
    const number = this.#counts.get(between) ?? 0
    this.#counts.set(between, number + 1)
    return number
  }
}

/** Lets ranks find each other, in this thread and in others. */
export class SimulatedNccl implements NcclBackend {
  readonly missing = 'come from this thread, or from other threads or processes'
  /** The ranks in this thread of communicators that wait for more, by their ids. */
  readonly #incomplete = new Map<string, Set<number>>()
  /** The members by the number that stands for the communicator's address. */
  readonly #members = new Map<number, Member>()
  #lastAddress = 0

  version(): number {
    return 0
  }

  /** Makes an id in the form of NCCL's own: random bytes, then an address. */
  uniqueId(): OwnBytes {
    const id = new Uint8Array(UNIQUE_ID_BYTES)
    id.set(randomBytes(8))
    id.set([2, 0, 0, 1, 127, 0, 0, 1], 8)
    try {
      writeMeetingPlace(id)
    } catch (error) {
      // Without files the ranks of one thread still meet.
      if (!(error instanceof Error && 'code' in error && error.code === 'ERR_UNSUPPORTED')) throw error
    }
    return id
  }

  halves(): boolean {
    return false
  }

  initRank(id: Uint8Array, rank: number, size: number): NewCommunicator {
    const key = Buffer.from(id).toString('latin1')
    const inThread = this.#incomplete.get(key) ?? new Set()
    inThread.add(rank)
    // Later ranks with the same id form another communicator.
    if (inThread.size === size) this.#incomplete.delete(key)
    else this.#incomplete.set(key, inThread)
    this.#lastAddress += 1
    this.#members.set(this.#lastAddress, new Member(id.slice(), rank, size, inThread))
    return { address: this.#lastAddress, half: () => 0, split: [], free: () => {} }
  }

  isDone(communicator: number): boolean {
    const member = this.#members.get(communicator)
    if (member?.failure !== undefined) throw member.failure
    return member?.meet() ?? true
  }

  call(): never {
    throw stateError('ERR_UNSUPPORTED', 'The simulator runs no code of NCCL')
  }

  makeOnThread(): never {
    return this.call()
  }

  check(): void {}

  /** Does nothing: the files of the ranks show the others that a thread has ended. */
  own(): void {}

  disown(): void {}

  finalize(): void {}

  member(communicator: number): Member | undefined {
    return this.#members.get(communicator)
  }

  async callOnThread(call: EndCall, communicator: number, driver: Driver, device: number): Promise<void> {
    const member = this.#members.get(communicator)
    // It is aborted even if its work is blocked by something that only the caller can unblock.
    if (call === 'ncclCommAbort') {
      this.#leave(communicator, member)
      return
    }
    // NCCL waits for the device, unless that has faulted or captures.
    await new Promise<void>((resolve) => driver.devices.finished(device, () => resolve())).catch(() => {})
    this.#leave(communicator, member)
  }

  #leave(communicator: number, member: Member | undefined): void {
    this.#members.delete(communicator)
    member?.leave()
    for (const [key, ranks] of this.#incomplete) if (ranks.size === 0) this.#incomplete.delete(key)
  }
}

/** A call of a rank whose stream and memory were found to be open. */
export interface OpenOperation {
  readonly operation: NcclOperation
  readonly use: StreamImpl
  readonly memory: readonly UsedMemory[]
}

/**
 * Queues the calls of ranks, each with the calls of other ranks that belong to it. NCCL runs the calls of a group
 * concurrently, so no read of a rank waits for what the rank writes in another call.
 */
export function queueSimulated(parts: readonly OpenOperation[]): void {
  const exchanges: Exchange[] = []
  const shares: Share[] = []
  for (const together of matched(parts)) {
    if (isComplete(together)) exchanges.push(new Exchange(together))
    else shares.push(...together.map((part) => new Share(part)))
  }
  try {
    for (const exchange of exchanges) exchange.queueReads()
    for (const share of shares) share.queueReads()
    for (const exchange of exchanges) exchange.queueWrites()
    for (const share of shares) share.queueWrites()
    for (const share of shares) share.queueEnd()
  } finally {
    for (const exchange of exchanges) exchange.recycle()
  }
}

/** Are these the calls of all ranks that belong together? */
function isComplete(parts: readonly OpenOperation[]): boolean {
  const [first] = parts
  if (first === undefined) return true
  const { handle, peer } = first.operation
  return parts.length === (peer === undefined ? handle.clique.size : 2)
}

/** The part of one rank in an operation whose other ranks are in other threads or processes. */
class Share {
  readonly #part: OpenOperation
  readonly #member: Member
  /** What this rank gives, and what it gets, in the order of the ranks. */
  readonly #given: Gift | undefined
  readonly #taken: readonly Gift[]
  /** The number of ranks that take what this one gives. */
  readonly #takers: number
  #bytes: MemoryFile | undefined

  constructor(part: OpenOperation) {
    const { operation, use } = part
    const { handle, name, peer, root } = operation
    if (!(handle.library instanceof SimulatedNccl)) throw new Error('it is simulated')
    const member = handle.library.member(handle.address)
    if (member === undefined) throw stateError('ERR_CLOSED', 'The communicator cannot be used any more')
    if (member.failure !== undefined) {
      handle.fail(member.failure)
      throw member.failure
    }
    if (use.driver.streams.isCapturing(use.handle)) {
      const why = 'On the simulator a call to ranks of other threads or processes cannot be captured'
      throw stateError('ERR_UNSUPPORTED', `${why}: call ${name} outside of the capture`)
    }
    this.#part = part
    this.#member = member
    const { file, rank, size } = member
    if (peer !== undefined) {
      const [from, to] = name === 'ncclSend' ? [rank, peer] : [peer, rank]
      const message = file.message(from, to, member.next(`${from} to ${to}`))
      this.#given = from === rank ? message : undefined
      this.#taken = to === rank ? [message] : []
      this.#takers = 1
      return
    }
    const number = member.next('all')
    const givers = name === 'ncclBroadcast' ? [root ?? 0] : Array.from({ length: size }, (_, each) => each)
    const isTaker = name !== 'ncclReduce' || root === rank
    this.#given = givers.includes(rank) ? file.collective(rank, number) : undefined
    this.#taken = isTaker ? givers.map((each) => file.collective(each, number)) : []
    this.#takers = name === 'ncclReduce' ? 1 : size
  }

  /**
   * Returns whether work can begin: once `isReady` is true, or when it never will be, since the communicator has ended.
   */
  #when(isReady: () => boolean): () => boolean {
    return () => this.#member.isAborted || isReady() || this.#member.isLost()
  }

  queueReads(): void {
    const given = this.#given
    if (given === undefined) return
    const memory = this.#part.memory.filter(({ access }) => access === 'in')
    const isReady = this.#when(() => given.isFree(this.#takers))
    queueOnHost(
      this.#part,
      memory,
      START_NS,
      ([source = new Uint8Array()]) => {
        if (!this.#member.isAborted) this.#bytes = given.give(source)
      },
      isReady,
    )
  }

  queueWrites(): void {
    if (this.#taken.length === 0) return
    const { operation, memory } = this.#part
    const written = memory.filter(({ access }) => access === 'out')
    const bytes = memory.reduce((sum, { byteLength }) => sum + byteLength, 0)
    queueOnHost(
      this.#part,
      written,
      Math.round(bytes / BYTES_PER_NS),
      ([destination]) => {
        if (this.#member.isAborted) return
        const sources = this.#taken.map((gift) => gift.take())
        destination?.set(partFor(operation, combined(operation, sources), sources.length))
      },
      this.#when(() => this.#taken.every(({ isGiven }) => isGiven)),
    )
  }

  /** The work of this rank is done when the others have what it gives: its process may end then. */
  queueEnd(): void {
    const given = this.#given
    if (given === undefined) return
    const isReady = this.#when(() => given.isTaken(this.#takers))
    queueOnHost(this.#part, [], 0, () => this.#bytes?.close(), isReady)
  }
}

/** An operation of several ranks: what each has read, and an event behind that. */
class Exchange {
  readonly #parts: readonly OpenOperation[]
  readonly #nanoseconds: number
  readonly #sources: Uint8Array[] = []
  readonly #events: (InternalEvent & { readonly use: StreamImpl })[] = []
  #reduced: Uint8Array | undefined

  constructor(parts: readonly OpenOperation[]) {
    this.#parts = [...parts].sort((a, b) => a.operation.handle.rank - b.operation.handle.rank)
    const bytes = parts.reduce((sum, { memory }) => memory.reduce((all, { byteLength }) => all + byteLength, sum), 0)
    this.#nanoseconds = Math.round(bytes / BYTES_PER_NS)
  }

  queueReads(): void {
    for (const part of this.#parts) {
      const memory = part.memory.filter(({ access }) => access === 'in')
      if (memory.length === 0) continue
      const at = this.#events.length
      queueOnHost(part, memory, START_NS, ([source = new Uint8Array()]) => {
        this.#sources[at] = source.slice()
        this.#reduced = undefined
      })
      const { use } = part
      const record = (event: EventHandle): void => use.driver.events.record(event, use.handle, 0)
      this.#events.push({ ...recordedEvent(use, record), use })
    }
  }

  queueWrites(): void {
    for (const part of this.#parts) {
      const memory = part.memory.filter(({ access }) => access === 'out')
      if (memory.length === 0) continue
      const { driver, handle } = part.use
      for (const { event, use } of this.#events) if (use.handle !== handle) driver.streams.waitEvent(handle, event, 0)
      queueOnHost(part, memory, this.#nanoseconds, ([destination]) => {
        this.#reduced ??= combined(part.operation, this.#sources)
        destination?.set(partFor(part.operation, this.#reduced, this.#sources.length))
      })
    }
  }

  recycle(): void {
    for (const { context, event, use } of this.#events) use.driver.events.recycle(context, event)
  }
}

function queueOnHost(
  { operation: { name }, use: { driver, handle, context } }: OpenOperation,
  memory: readonly UsedMemory[],
  nanoseconds: number,
  run: HostImplementation['run'],
  isReady?: () => boolean,
): void {
  const call = (): never => {
    throw stateError('ERR_UNSUPPORTED', `${name} is simulated`)
  }
  const queued = { name, stream: handle, context, memory, host: { nanoseconds, run, isReady }, call }
  driver.work.queue({ kind: 'library', calls: [queued] })
}

/** The first collectives of all ranks belong together, then the second ones, and each send belongs to its receive. */
function matched(parts: readonly OpenOperation[]): readonly (readonly OpenOperation[])[] {
  const sets = new Map<string, OpenOperation[]>()
  const counts = new Map<string, number>()
  for (const part of parts) {
    const { handle, name } = part.operation
    const pair = `${handle.clique.serial} ${pairOf(part.operation)}`
    const counter = `${pair} ${handle.rank} ${name === 'ncclSend'}`
    const index = counts.get(counter) ?? 0
    counts.set(counter, index + 1)
    const key = `${pair} ${index}`
    sets.set(key, [...(sets.get(key) ?? []), part])
  }
  return [...sets.values()]
}

type Value = number | bigint

/** The common result, from the bytes that each contributing rank has read, in the order of the ranks. */
function combined({ name, type, op }: NcclOperation, sources: readonly Uint8Array[]): Uint8Array {
  switch (name) {
    case 'ncclAllReduce':
    case 'ncclReduce':
    case 'ncclReduceScatter':
      return reduced(type, op, sources)
    case 'ncclAllGather':
      return new Uint8Array(Buffer.concat(sources))
    default:
      return sources[0] ?? new Uint8Array()
  }
}

/** The part of the result that one of so many ranks gets. */
function partFor({ name, handle: { rank } }: NcclOperation, whole: Uint8Array, ranks: number): Uint8Array {
  const length = whole.length / ranks
  return name === 'ncclReduceScatter' ? whole.subarray(rank * length, (rank + 1) * length) : whole
}

function reduced(type: NcclType, op: NcclReduction, sources: readonly Uint8Array[]): Uint8Array {
  const result = sources[0]?.slice() ?? new Uint8Array()
  const { get, set } = accessOf(type)
  const views = sources.map(dataViewOf)
  const target = dataViewOf(result)
  for (let at = 0; at < result.length; at += ELEMENT_TYPES[type].bytes) {
    const values = views.map((view) => get(view, at))
    set(target, at, joined(op, values))
  }
  return result
}

function joined(op: NcclReduction, values: readonly Value[]): Value {
  const join = (a: Value, b: Value): Value => {
    if (op === 'max') return a > b ? a : b
    if (op === 'min') return a < b ? a : b
    if (typeof a === 'bigint') return op === 'prod' ? a * BigInt(b) : a + BigInt(b)
    return op === 'prod' ? a * Number(b) : a + Number(b)
  }
  const result = values.reduce(join)
  if (op !== 'avg') return result
  return typeof result === 'bigint' ? result / BigInt(values.length) : result / values.length
}

function accessOf(type: NcclType): ElementAccess<Value> {
  if (type !== 'f16' && type !== 'bf16' && type !== 'f32' && type !== 'f64') {
    const { get, set } = integerAccess(type)
    return { get, set: (view, at, value) => set(view, at, BigInt(value)) }
  }
  const { get, set } = FLOAT_ACCESS[type]
  return { get, set: (view, at, value) => set(view, at, Number(value)) }
}
