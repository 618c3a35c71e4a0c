/**
 * NCCL for simulated devices: what ranks ask for together is computed in JavaScript, on the stream of one of them, after
 * all of their earlier work and before all of their later work. All ranks have to be in one thread.
 */

import { randomBytes } from 'node:crypto'
import type { OwnBytes } from '../../base/bytes.js'
import { stateError } from '../../base/errors.js'
import type { Driver, LibraryWork } from '../../driver/driver.js'
import type { StreamCore } from '../../streams/stream-core.js'
import type { UsedMemory } from '../library-memory.js'
import type { NcclRequest } from './clique.js'
import { type NcclBackend, UNIQUE_ID_BYTES } from './library.js'
import { type ComputedCall, perform } from './twin.js'

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

  async apart(_call: string, communicator: number, driver: Driver, device: number): Promise<void> {
    this.#leave(communicator)
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

/** Queues what ranks ask for, each request with those of the other ranks that belong to it. */
export function queueSimulated(parts: readonly SimulatedPart[]): void {
  for (const together of matched(parts)) {
    const [leader, ...others] = together
    if (leader === undefined) continue
    const { driver, handle, context } = leader.use
    const elsewhere = others.filter(({ use }) => use.handle !== handle)
    for (const { use } of elsewhere) driver.streamWaitStream(handle, use.handle, use.context)
    const memory = together.flatMap((part) => part.memory)
    const bytes = memory.reduce((sum, { byteLength }) => sum + byteLength, 0)
    const run = (contents: readonly Uint8Array[]): void => {
      let at = 0
      perform(
        together.map(({ operation, memory: { length } }) => {
          at += length
          return { call: operation, bytes: contents.slice(at - length, at) }
        }),
      )
    }
    const { name } = leader.operation
    const twin = { nanoseconds: START_NS + Math.round(bytes / BYTES_PER_NS), run }
    const call = (): never => {
      throw stateError('ERR_UNSUPPORTED', `${name} is simulated`)
    }
    const work: LibraryWork = { name, stream: handle, context, memory, twin, call }
    driver.libraries.queue([work])
    for (const { use } of elsewhere) driver.streamWaitStream(use.handle, handle, context)
  }
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
