/**
 * NCCL for simulated devices: what ranks ask for together is computed in JavaScript, on the streams of all of them. A rank's
 * result comes after what the ranks have read that it is made of, and after nothing else of the others. All ranks have to
 * be in one thread.
 */

import { randomBytes } from 'node:crypto'
import type { OwnBytes } from '../../base/bytes.js'
import { stateError } from '../../base/errors.js'
import type { Driver, EventHandle, HostImplementation, OwnEvent } from '../../driver/driver.js'
import { recordedEvent } from '../../memory/stream-uses.js'
import type { StreamCore } from '../../streams/stream-core.js'
import type { UsedMemory } from '../library-memory.js'
import type { NcclRequest } from './clique.js'
import { type EndCall, type NcclBackend, UNIQUE_ID_BYTES } from './library.js'
import { type ComputedCall, combined, partFor } from './twin.js'

/** About what a link of 400 GB/s takes, and a start. */
const START_NS = 10_000
const BYTES_PER_NS = 400

/** Where the ranks of a simulated communicator find each other. */
class Meeting {
  readonly ranks = new Set<number>()

  constructor(
    readonly key: string,
    readonly size: number,
  ) {}

  get isComplete(): boolean {
    return this.ranks.size === this.size
  }
}

/** Ranks meet in this thread; nothing else is done here. */
export class SimulatedNccl implements NcclBackend {
  readonly come = 'be made in this thread, too: on the simulator all ranks are in one'
  /** Those that wait for more ranks, by their ids. */
  readonly #meetings = new Map<string, Meeting>()
  /** By the number that stands for the communicator's address. */
  readonly #places = new Map<number, { readonly meeting: Meeting; readonly rank: number }>()
  #lastAddress = 0

  version(): number {
    return 0
  }

  /** Looks as NCCL's own: random bytes, then an address. */
  uniqueId(): OwnBytes {
    const id = new Uint8Array(UNIQUE_ID_BYTES)
    id.set(randomBytes(8))
    id.set([2, 0, 0, 1, 127, 0, 0, 1], 8)
    return id
  }

  initRank(id: Uint8Array, rank: number, size: number): ReturnType<NcclBackend['initRank']> {
    const key = Buffer.from(id).toString('latin1')
    const meeting = this.#meetings.get(key) ?? new Meeting(key, size)
    meeting.ranks.add(rank)
    // A rank that comes with the same id later meets others.
    if (meeting.isComplete) this.#meetings.delete(key)
    else this.#meetings.set(key, meeting)
    this.#lastAddress += 1
    this.#places.set(this.#lastAddress, { meeting, rank })
    return { address: this.#lastAddress, memory: { free: () => {} } }
  }

  isDone(communicator: number): boolean {
    return this.#places.get(communicator)?.meeting.isComplete ?? true
  }

  call(): never {
    throw stateError('ERR_UNSUPPORTED', 'The simulator runs no code of NCCL')
  }

  finalize(): void {}

  async apart(call: EndCall, communicator: number, driver: Driver, device: number): Promise<void> {
    this.#leave(communicator)
    // It is given up whatever its work stands behind, which only the caller may let go on.
    if (call === 'ncclCommAbort') return
    // As NCCL waits for the device, unless that faulted or captures.
    await new Promise<void>((resolve) => driver.deviceFinished(device, () => resolve())).catch(() => {})
  }

  #leave(communicator: number): void {
    const place = this.#places.get(communicator)
    this.#places.delete(communicator)
    if (place === undefined || place.meeting.isComplete) return
    // The others wait for a rank in its place.
    const { meeting, rank } = place
    meeting.ranks.delete(rank)
    if (meeting.ranks.size === 0) this.#meetings.delete(meeting.key)
  }
}

/** One rank's part in what ranks do together. */
export interface SimulatedPart {
  readonly operation: NcclRequest & ComputedCall
  readonly use: StreamCore
  readonly memory: readonly UsedMemory[]
}

/**
 * Queues what ranks ask for, each request with those of the other ranks that belong to it. NCCL runs the calls of a group
 * side by side, so that no rank's reading waits for what it writes in another call.
 */
export function queueSimulated(parts: readonly SimulatedPart[]): void {
  const exchanges = matched(parts).map((together) => new Exchange(together))
  try {
    for (const exchange of exchanges) exchange.queueReads()
    for (const exchange of exchanges) exchange.queueWrites()
  } finally {
    for (const exchange of exchanges) exchange.recycle()
  }
}

/** What the ranks do together: what each has read, and an event behind that. */
class Exchange {
  readonly #parts: readonly SimulatedPart[]
  readonly #nanoseconds: number
  readonly #sources: Uint8Array[] = []
  readonly #events: (OwnEvent & { readonly use: StreamCore })[] = []
  #reduced: Uint8Array | undefined

  constructor(parts: readonly SimulatedPart[]) {
    this.#parts = [...parts].sort((a, b) => a.operation.rank - b.operation.rank)
    const bytes = parts.reduce((sum, { memory }) => memory.reduce((all, { byteLength }) => all + byteLength, sum), 0)
    this.#nanoseconds = Math.round(bytes / BYTES_PER_NS)
  }

  queueReads(): void {
    for (const part of this.#parts) {
      const memory = part.memory.filter(({ access }) => access === 'in')
      if (memory.length === 0) continue
      const at = this.#events.length
      queueTwin(part, memory, START_NS, ([source = new Uint8Array()]) => {
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
      queueTwin(part, memory, this.#nanoseconds, ([destination]) => {
        this.#reduced ??= combined(part.operation, this.#sources)
        destination?.set(partFor(part.operation, this.#reduced, this.#sources.length))
      })
    }
  }

  recycle(): void {
    for (const { context, event, use } of this.#events) use.driver.eventRecycle(context, event)
  }
}

function queueTwin(
  { operation: { name }, use: { driver, handle, context } }: SimulatedPart,
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

/** The first collectives of all ranks belong together, then the second ones; each send belongs to its receive. */
function matched(parts: readonly SimulatedPart[]): readonly (readonly SimulatedPart[])[] {
  const sets = new Map<string, SimulatedPart[]>()
  const counts = new Map<string, number>()
  for (const part of parts) {
    const { clique, rank, peer, isSend } = part.operation
    const pair = peer === undefined ? 'all' : isSend ? `${rank} to ${peer}` : `${peer} to ${rank}`
    const counter = `${clique.serial} ${pair} ${rank} ${isSend}`
    const index = counts.get(counter) ?? 0
    counts.set(counter, index + 1)
    const key = `${clique.serial} ${pair} ${index}`
    const set = sets.get(key)
    if (set === undefined) sets.set(key, [part])
    else set.push(part)
  }
  return [...sets.values()]
}
