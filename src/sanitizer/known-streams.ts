/** The streams of a driver by their handles: those that were seen being made, those that were wrapped, and those met on the way. */
import {
  type ContextHandle,
  canonicalStream,
  type Driver,
  defaultStream,
  deviceOfDefaultStream,
  isDefaultStream,
  isNullStream,
  StreamFlag,
  type StreamHandle,
} from '../driver/driver.js'
import { givenName, hasNames } from '../driver/stream-names.js'
import { isBefore, Strand, type Strands } from './clocks.js'
import { Latest } from './latest.js'
import type { TakenStack } from './stacks.js'
import { Capture, StreamStrand } from './streams.js'

/** Streams of a device that the null stream waits for, and the null stream, which they wait for. */
export interface BlockingStreams {
  readonly nullStream: StreamStrand
  readonly others: Set<Strand>
}

/** So many are there before those of others are looked through. */
const FIRST_LOOK = 64

type StreamFacts = Pick<StreamStrand, 'nonBlocking' | 'id' | 'foreign' | 'ours' | 'made'>

/** Of a stream that the driver was not asked about: it is taken for one that does not wait for the null stream. */
const UNASKED = { nonBlocking: true, id: undefined, ours: false }

export class KnownStreams {
  readonly #streams = new Map<StreamHandle, StreamStrand>()
  /** Found last: the next call is mostly about the same. */
  #last: StreamStrand | undefined
  /** Destroyed, with work that is not known to be done. */
  #leaving: StreamStrand[] = []
  readonly #blocking = new Map<number, BlockingStreams>()
  /** Of each device: what has left, which not every part of JavaScript need know to be done. */
  readonly #left = new Map<number, Strand>()
  readonly #contexts = new Map<ContextHandle, number>()
  /** Wrapped, and forgotten since all of it was done. */
  readonly #foreign = new Latest<StreamHandle>()
  #foreignCount = 0
  #nextLook = FIRST_LOOK

  /** `driver` is the next one behind the sanitizer. */
  constructor(
    private readonly driver: Driver,
    private readonly strands: Strands,
  ) {}

  /** How many of them another library owns. */
  get foreignCount(): number {
    return this.#foreignCount
  }

  get foreign(): StreamStrand[] {
    return [...this.#streams.values()].filter((stream) => stream.foreign)
  }

  /** Of every device, and those that are destroyed too. */
  get all(): Strand[] {
    return [...this.#streams.values(), ...this.#leaving, ...this.#left.values()]
  }

  /** Those that are destroyed too. */
  ofDevice(device: number): Strand[] {
    const streams: Strand[] = [...this.#streams.values(), ...this.#leaving].filter((one) => one.device === device)
    const left = this.#left.get(device)
    return left === undefined ? streams : [...streams, left]
  }

  contextSeen(context: ContextHandle, device: number): void {
    this.#contexts.set(context, device)
  }

  created(handle: StreamHandle, context: ContextHandle, flags: number, made: TakenStack | undefined): void {
    const device = this.#contexts.get(context) ?? this.driver.streamAdopt(handle, 0).device
    this.#foreign.delete(handle)
    const nonBlocking = (flags & StreamFlag.NON_BLOCKING) !== 0
    this.#start(handle, device, { id: undefined, foreign: false, ours: true, made, nonBlocking })
  }

  /** The handle may be known, and yet that of another stream: its owner may have destroyed the one that had it. */
  adopted(handle: StreamHandle, device: number, made: TakenStack | undefined): void {
    const known = this.known(handle)
    if (known === undefined) this.#add(handle, device, true, made)
    else if (!isDefaultStream(handle)) this.#lookAgain(known, true, made)
  }

  destroyed(handle: StreamHandle): void {
    const stream = this.#streams.get(handle)
    if (stream === undefined) return
    stream.closed = true
    this.#end(stream)
  }

  known(handle: StreamHandle): StreamStrand | undefined {
    if (this.#last?.handle === handle) return this.#last
    const stream = this.#streams.get(handle) ?? this.#streams.get(canonicalStream(handle))
    if (stream !== undefined) this.#last = stream
    return stream
  }

  at(handle: StreamHandle): StreamStrand {
    const stream = this.known(handle)
    if (stream === undefined) return this.#meet(handle)
    if (stream.capture !== undefined) this.#leaveIfOver(stream, stream.capture)
    if (!stream.unsure || stream.capture !== undefined) return stream
    return this.#lookAgain(stream, stream.foreign, undefined)
  }

  blockingOf(device: number): BlockingStreams {
    const known = this.#blocking.get(device)
    if (known !== undefined) return known
    const handle = defaultStream(device, 0)
    const nullStream = this.#streams.get(handle) ?? this.#meet(handle)
    const blocking = this.#blocking.get(device) ?? { nullStream, others: new Set<Strand>() }
    this.#blocking.set(device, blocking)
    return blocking
  }

  /** Some part of JavaScript knows more than before. */
  moreIsDone(): void {
    if (this.#leaving.length > 0) this.#leaving = this.#leaving.filter((stream) => !this.#hasLeft(stream))
  }

  /** Destroyed, and nothing of it is left to be waited for. */
  #hasLeft(stream: StreamStrand): boolean {
    if (!this.#isDone(stream)) return false
    const { device } = stream
    const left = this.#left.get(device) ?? new Strand(this.strands.begin())
    left.join(stream.point())
    this.#left.set(device, left)
    if (this.#blocking.get(device)?.others.delete(stream)) this.#blocking.get(device)?.others.add(left)
    return true
  }

  #isDone(stream: StreamStrand): boolean {
    const { all } = this.strands
    // Where nothing was ever queued there is nothing to be waited for.
    if (stream.tick === stream.since) all.join(stream.point())
    return isBefore(stream, all)
  }

  #end(stream: StreamStrand): void {
    this.#streams.delete(stream.handle)
    if (this.#last === stream) this.#last = undefined
    if (stream.foreign) this.#foreignCount -= 1
    stream.capture?.destroyed(stream)
    this.strands.end(stream)
    if (!this.#hasLeft(stream)) this.#leaving.push(stream)
  }

  /** Those that others destroy go unseen. One whose work the JavaScript thread knows to be done is as good as new. */
  #forgetSome(): void {
    for (const stream of this.#streams.values()) {
      const { ours, capture, handle, foreign } = stream
      if (ours || capture !== undefined || isDefaultStream(handle) || !this.#isDone(stream)) continue
      this.#end(stream)
      if (foreign) this.#foreign.add(handle)
    }
    this.#nextLook = Math.max(FIRST_LOOK, 2 * this.#streams.size)
  }

  /** A stream that was there before, or a default stream. */
  #meet(handle: StreamHandle): StreamStrand {
    const isDefault = isDefaultStream(handle)
    const device = isDefault ? deviceOfDefaultStream(handle) : this.driver.streamAdopt(handle, 0).device
    return this.#add(canonicalStream(handle), device, this.#foreign.has(handle), undefined)
  }

  /** A stream that was not seen being made. */
  #add(handle: StreamHandle, device: number, foreign: boolean, made: TakenStack | undefined): StreamStrand {
    if (isDefaultStream(handle)) {
      return this.#start(handle, device, { ...UNASKED, nonBlocking: false, foreign, made, ...this.#idOfNamed(handle) })
    }
    // Not for a null stream: it comes with a blocking one, which has had no time to be used.
    if (this.#streams.size >= this.#nextLook) this.#forgetSome()
    const answer = this.#ask(handle)
    const stream = this.#start(handle, device, { ...UNASKED, foreign, made, ...answer })
    if (answer === undefined) this.#cannotTell(stream)
    return stream
  }

  /** Is the stream still the one that is known? The result is that, or the one in its place. */
  #lookAgain(stream: StreamStrand, foreign: boolean, made: TakenStack | undefined): StreamStrand {
    const { handle, device } = stream
    const answer = this.#ask(handle)
    if (answer === undefined) {
      this.#cannotTell(stream)
      return stream
    }
    const { id, nonBlocking } = answer
    if (stream.id !== undefined && stream.id !== id) {
      this.#end(stream)
      return this.#start(handle, device, { ...UNASKED, ...answer, foreign, made })
    }
    stream.id = id
    stream.unsure = false
    if (stream.nonBlocking && !nonBlocking) this.#isBlocking(stream)
    return stream
  }

  /** Of a default stream the id is of use only where it may have a name. */
  #idOfNamed(handle: StreamHandle): { readonly id: bigint } | undefined {
    const { driver } = this
    if (!hasNames(driver)) return undefined
    try {
      return { id: driver.streamGetId(handle) }
    } catch {
      return undefined // a blocking stream captures
    }
  }

  /** Asking is refused where the stream captures, which does not invalidate the capture. */
  #ask(handle: StreamHandle): { readonly id: bigint; readonly nonBlocking: boolean } | undefined {
    try {
      const { driver } = this
      const id = driver.streamGetId(handle)
      return { id, nonBlocking: (driver.streamGetFlags(handle) & StreamFlag.NON_BLOCKING) !== 0 }
    } catch {
      return undefined
    }
  }

  #cannotTell(stream: StreamStrand): void {
    stream.unsure = true
    if (stream.capture === undefined && this.#captures(stream)) new Capture(stream, false)
  }

  /** Another library may end a capture that it began, or one of a stream whose handle it has. */
  #leaveIfOver(stream: StreamStrand, capture: Capture): void {
    if (capture.seen && !this.driver.isHandedOut(capture.origin.handle)) return
    if (!this.#captures(stream)) capture.leave(stream)
  }

  #captures({ handle }: StreamStrand): boolean {
    try {
      return this.driver.streamIsCapturing(handle)
    } catch {
      return true // the context is lost
    }
  }

  #isBlocking(stream: StreamStrand): void {
    stream.nonBlocking = false
    if (!isNullStream(stream.handle)) this.blockingOf(stream.device).others.add(stream)
  }

  #start(handle: StreamHandle, device: number, facts: StreamFacts): StreamStrand {
    const { nonBlocking, id, foreign, ours, made } = facts
    const begin = this.strands.begin()
    const stream = new StreamStrand(begin, handle, device, foreign, ours, made, id, nonBlocking)
    // Others that had the handle, and whose work is done, are in no report any more.
    const before = this.#leaving.findLast((one) => one.handle === handle)
    if (before !== undefined) stream.nth = before.nth + 1
    if (id !== undefined) stream.name = givenName(this.driver, handle, id)
    this.#streams.set(canonicalStream(handle), stream)
    this.#last = stream
    if (foreign) this.#foreignCount += 1
    if (!nonBlocking) this.#isBlocking(stream)
    return stream
  }
}
