/**
 * Streams, and what is known of the order of their work: written down a second time from CUDA's rules, so that a program knows when
 * it needs a wait, and every byte that it should read. A clock says, for each stream, how much of its work comes before.
 */
import type { Device, Event, Stream } from 'cuda-streams'

export type Clock = ReadonlyMap<Track, number>

export type Origin = 'own' | 'blocking' | 'foreign' | 'foreignBlocking' | 'null' | 'perThread'

/** One thing that a stream did with memory. */
export interface Use {
  readonly track: Track
  readonly at: number
}

/** An event, and what its latest record comes after. */
export interface Mark {
  readonly event: Event
  clock: Clock
}

/** The streams of a device that the null stream's rules are about, as far as this thread uses them. */
export class LegacyOrder {
  nullTrack: Track | undefined
  readonly blocking = new Set<Track>()
}

export class Track {
  readonly origin: Origin
  readonly device: Device
  /** How much was queued. */
  at = 0
  /** So much of it is done, as the host knows. */
  done = 0
  /** Host functions that were queued and have not returned, by their place; in the order of the stream. */
  readonly pending: number[] = []
  /** Actions that need it a while longer. */
  held = 0
  capturing = false
  /** Up to there so much is queued that a hardware queue may be full. */
  crowdedUpTo = 0
  /** Stands for all of its work where the stream cannot be asked: it is closed, or captures. */
  tail: Mark | undefined
  /** Another stream that has waited for all of it, and the place of that wait. */
  successor: Use | undefined
  #stream: Stream | undefined
  #name = ''
  readonly #legacy: LegacyOrder | undefined
  readonly #seen = new Map<Track, number>()
  /** What its latest work comes after, itself included: what the null stream's rules are about. */
  #work: Clock = new Map()

  constructor(stream: Stream, origin: Origin, legacy: LegacyOrder) {
    this.#stream = stream
    this.origin = origin
    this.device = stream.device
    const isOrdered = origin === 'null' || this.isBlocking
    this.#legacy = isOrdered ? legacy : undefined
    if (origin === 'null') legacy.nullTrack = this
    else if (isOrdered) legacy.blocking.add(this)
  }

  get stream(): Stream {
    if (this.#stream === undefined) throw new Error(`${this}`)
    return this.#stream
  }

  get isBlocking(): boolean {
    return this.origin === 'blocking' || this.origin === 'foreignBlocking' || this.origin === 'perThread'
  }

  /** Can work and waits be queued now? */
  get usable(): boolean {
    return this.#stream?.closed === false && !this.capturing
  }

  /** Would a host function of this stream that queues more on it be refused? */
  get crowded(): boolean {
    return this.crowdedUpTo > this.done
  }

  /** Does all that is queued from now on come after this? */
  sees({ track, at }: Use): boolean {
    return track === this || track.done >= at || (this.#seen.get(track) ?? 0) >= at
  }

  /** What a record made now comes after. */
  clock(): Clock {
    return new Map(this.#seen).set(this, this.at)
  }

  /** Work is about to be queued: by the null stream's rules it comes after what this stream did not wait for. */
  beforeWork(): void {
    const legacy = this.#legacy
    if (legacy === undefined) return
    const others = this.origin === 'null' ? legacy.blocking : [legacy.nullTrack]
    for (const track of others) if (track !== undefined) this.learn(track.#work)
  }

  /** Work was queued. */
  worked(): Use {
    this.at += 1
    if (this.#legacy !== undefined) this.#work = this.clock()
    return { track: this, at: this.at }
  }

  /** A wait was queued. On a blocking stream that is no work. */
  waited(clock: Clock): Use {
    this.learn(clock)
    this.at += 1
    return { track: this, at: this.at }
  }

  learn(clock: Clock): void {
    for (const [track, at] of clock) {
      if (track !== this && track.done < at && at > (this.#seen.get(track) ?? 0)) this.#seen.set(track, at)
    }
    for (const [track, at] of this.#seen) if (track.done >= at) this.#seen.delete(track)
  }

  /**
   * Nothing is queued there any more: the stream is to be closed, or left to the garbage collector. What the null stream
   * does with its work is relied on no longer.
   */
  letGo(): Stream {
    const { stream } = this
    this.#legacy?.blocking.delete(this)
    this.#name = `${stream}, which is gone`
    this.#stream = undefined
    return stream
  }

  /** All of its work is known to be done: what stands for it, and what it came after, need not be known any longer. */
  forget(): void {
    this.tail = undefined
    this.successor = undefined
    this.#seen.clear()
    this.#work = new Map()
  }

  toString(): string {
    return `${this.origin} ${this.#stream ?? this.#name}`
  }
}

/** The host has waited for all of this. Returns a host function that should have run and did not. */
export function reached(clock: Clock): string | undefined {
  let missing: string | undefined
  for (const [track, at] of clock) {
    missing ??= unrun(track, at)
    if (track.done < at) track.done = at
  }
  return missing
}

/** A host function up to this place that has not returned. */
export function unrun(track: Track, at: number): string | undefined {
  const [first] = track.pending
  return first !== undefined && first <= at ? `host function ${first} of ${track}` : undefined
}
