/**
 * NCCL for simulated devices: the ranks' calls are computed together in JavaScript, on the streams of all of them. A rank's
 * result is ordered after the reads that it needs of other ranks, and after nothing else of theirs. All ranks have to be in
 * one thread.
 */
import { randomBytes } from 'node:crypto'
import type { OwnBytes } from '../../base/bytes.js'
import { dataViewOf, ELEMENT_TYPES, type ElementAccess, FLOAT_ACCESS, integerAccess } from '../../base/element-types.js'
import { stateError } from '../../base/errors.js'
import type { Driver, EventHandle, HostImplementation, InternalEvent } from '../../driver/driver.js'
import { recordedEvent } from '../../memory/stream-uses.js'
import type { StreamImpl } from '../../streams/stream-impl.js'
import type { UsedMemory } from '../library-call.js'
import { type NcclOperation, pairOf } from './nccl-handle.js'
import type { EndCall, NcclBackend, NcclReduction, NcclType } from './nccl-library.js'
import { UNIQUE_ID_BYTES } from './nccl-library.js'

/** The virtual time of a start, and of a link of 400 GB/s. */
const START_NS = 10_000
const BYTES_PER_NS = 400

/** The ranks of a simulated communicator that have come. */
class Rendezvous {
  readonly ranks = new Set<number>()

  constructor(
    readonly key: string,
    readonly size: number,
  ) {}

  get isComplete(): boolean {
    return this.ranks.size === this.size
  }
}

/** Lets ranks find each other in this thread. */
export class SimulatedNccl implements NcclBackend {
  readonly missing = 'be made in this thread, too: on the simulator all ranks are in one'
  /** Communicators that wait for more ranks, by their ids. */
  readonly #incomplete = new Map<string, Rendezvous>()
  /** By the number that stands for the communicator's address. */
  readonly #places = new Map<number, { readonly rendezvous: Rendezvous; readonly rank: number }>()
  #lastAddress = 0

  version(): number {
    return 0
  }

  /** Has the form of NCCL's own: random bytes, then an address. */
  uniqueId(): OwnBytes {
    const id = new Uint8Array(UNIQUE_ID_BYTES)
    id.set(randomBytes(8))
    id.set([2, 0, 0, 1, 127, 0, 0, 1], 8)
    return id
  }

  initRank(id: Uint8Array, rank: number, size: number): ReturnType<NcclBackend['initRank']> {
    const key = Buffer.from(id).toString('latin1')
    const rendezvous = this.#incomplete.get(key) ?? new Rendezvous(key, size)
    rendezvous.ranks.add(rank)
    // Later ranks with the same id form another communicator.
    if (rendezvous.isComplete) this.#incomplete.delete(key)
    else this.#incomplete.set(key, rendezvous)
    this.#lastAddress += 1
    this.#places.set(this.#lastAddress, { rendezvous, rank })
    return { address: this.#lastAddress, memory: { free: () => {} } }
  }

  isDone(communicator: number): boolean {
    return this.#places.get(communicator)?.rendezvous.isComplete ?? true
  }

  call(): never {
    throw stateError('ERR_UNSUPPORTED', 'The simulator runs no code of NCCL')
  }

  finalize(): void {}

  async callOnThread(call: EndCall, communicator: number, driver: Driver, device: number): Promise<void> {
    this.#leave(communicator)
    // It is aborted even if its work is blocked by something that only the caller can unblock.
    if (call === 'ncclCommAbort') return
    // NCCL waits for the device, unless that has faulted or captures.
    await new Promise<void>((resolve) => driver.deviceFinished(device, () => resolve())).catch(() => {})
  }

  #leave(communicator: number): void {
    const place = this.#places.get(communicator)
    this.#places.delete(communicator)
    if (place === undefined || place.rendezvous.isComplete) return
    // The others wait for another rank in its place.
    const { rendezvous, rank } = place
    rendezvous.ranks.delete(rank)
    if (rendezvous.ranks.size === 0) this.#incomplete.delete(rendezvous.key)
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
  const exchanges = matched(parts).map((together) => new Exchange(together))
  try {
    for (const exchange of exchanges) exchange.queueReads()
    for (const exchange of exchanges) exchange.queueWrites()
  } finally {
    for (const exchange of exchanges) exchange.recycle()
  }
}

/** One operation of several ranks: what each has read, and an event behind that. */
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
      const record = (event: EventHandle): void => use.driver.eventRecord(event, use.handle, 0)
      this.#events.push({ ...recordedEvent(use, record), use })
    }
  }

  queueWrites(): void {
    for (const part of this.#parts) {
      const memory = part.memory.filter(({ access }) => access === 'out')
      if (memory.length === 0) continue
      const { driver, handle } = part.use
      for (const { event, use } of this.#events) if (use.handle !== handle) driver.streamWaitEvent(handle, event, 0)
      queueOnHost(part, memory, this.#nanoseconds, ([destination]) => {
        this.#reduced ??= combined(part.operation, this.#sources)
        destination?.set(partFor(part.operation, this.#reduced, this.#sources.length))
      })
    }
  }

  recycle(): void {
    for (const { context, event, use } of this.#events) use.driver.eventRecycle(context, event)
  }
}

function queueOnHost(
  { operation: { name }, use: { driver, handle, context } }: OpenOperation,
  memory: readonly UsedMemory[],
  nanoseconds: number,
  run: HostImplementation['run'],
): void {
  const call = (): never => {
    throw stateError('ERR_UNSUPPORTED', `${name} is simulated`)
  }
  const queued = { name, stream: handle, context, memory, host: { nanoseconds, run }, call }
  driver.queue({ kind: 'library', calls: [queued] })
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
