/** The streams of a driver by their handles: those that were seen being made, those that were wrapped, and those met on the way. */
import {
  type ContextHandle,
  canonicalStream,
  cudaHandleOf,
  type Driver,
  defaultStream,
  deviceOfDefaultStream,
  isDefaultStream,
  isNullStream,
  StreamFlag,
  type StreamHandle,
} from '../driver/driver.js'
import { givenName, hasNames } from '../driver/given-names.js'
import { isBefore, type Strands } from './clocks.js'
import type { TakenStack } from './stacks.js'
import { Capture, StreamStrand } from './streams.js'

/** Streams of a device that the null stream waits for, and the null stream, which they wait for. */
export interface BlockingStreams {
  readonly nullStream: StreamStrand
  readonly others: Set<StreamStrand>
}

export class KnownStreams {
  readonly #driver: () => Driver
  readonly #strands: Strands
  readonly #streams = new Map<StreamHandle, StreamStrand>()
  /** Destroyed, with work that nobody has waited for. */
  #leaving: StreamStrand[] = []
  readonly #blocking = new Map<number, BlockingStreams>()
  readonly #contexts = new Map<ContextHandle, number>()
  #foreignCount = 0

  constructor(driver: () => Driver, strands: Strands) {
    this.#driver = driver
    this.#strands = strands
  }

  /** How many of them another library owns. */
  get foreignCount(): number {
    return this.#foreignCount
  }

  get foreign(): StreamStrand[] {
    return [...this.#streams.values()].filter((stream) => stream.foreign)
  }

  /** Those that are destroyed too, as long as they have work. */
  ofDevice(device: number): StreamStrand[] {
    return [...this.#streams.values(), ...this.#leaving].filter((stream) => stream.device === device)
  }

  contextSeen(context: ContextHandle, device: number): void {
    this.#contexts.set(context, device)
  }

  created(handle: StreamHandle, context: ContextHandle, flags: number, made: TakenStack | undefined): void {
    const device = this.#contexts.get(context) ?? this.#driver().streamAdopt(handle, 0).device
    this.#add(handle, device, (flags & StreamFlag.NON_BLOCKING) !== 0, false, made)
  }

  adopted(handle: StreamHandle, device: number, made: TakenStack | undefined): void {
    if (this.#streams.has(canonicalStream(handle))) return
    this.#add(handle, device, this.#isNonBlocking(handle), true, made)
  }

  destroyed(handle: StreamHandle): void {
    const stream = this.#streams.get(handle)
    if (stream === undefined) return
    this.#streams.delete(handle)
    if (stream.foreign) this.#foreignCount -= 1
    stream.capture?.leave(stream)
    this.#leaving.push(stream)
    this.#strands.end(stream)
  }

  at(handle: StreamHandle): StreamStrand {
    return this.#streams.get(handle) ?? this.#streams.get(canonicalStream(handle)) ?? this.#meet(handle)
  }

  blockingOf(device: number): BlockingStreams {
    const known = this.#blocking.get(device)
    if (known !== undefined) return known
    const handle = defaultStream(device, 0)
    const nullStream = this.#streams.get(handle) ?? this.#meet(handle)
    const blocking = this.#blocking.get(device) ?? { nullStream, others: new Set<StreamStrand>() }
    this.#blocking.set(device, blocking)
    return blocking
  }

  /** The JavaScript thread knows more than before. */
  hostKnowsMore(): void {
    if (this.#leaving.length > 0) this.#leaving = this.#leaving.filter((stream) => !this.#hasLeft(stream))
  }

  /** Destroyed, and nothing of it is left to be waited for. */
  #hasLeft(stream: StreamStrand): boolean {
    if (!isBefore(stream, this.#strands.host)) return false
    this.#blocking.get(stream.device)?.others.delete(stream)
    return true
  }

  /** A stream that was there before, or a default stream. */
  #meet(handle: StreamHandle): StreamStrand {
    if (isDefaultStream(handle)) {
      return this.#add(canonicalStream(handle), deviceOfDefaultStream(handle), false, false, undefined)
    }
    const { device } = this.#driver().streamAdopt(handle, 0)
    const stream = this.#add(handle, device, this.#isNonBlocking(handle), false, undefined)
    if (this.#driver().streamIsCapturing(handle)) new Capture(stream)
    return stream
  }

  /** The name that a stream got before anybody looked. */
  #givenName(handle: StreamHandle, device: number): string | undefined {
    const driver = this.#driver()
    if (!hasNames(driver)) return undefined
    try {
      return givenName(driver, device, driver.streamGetId(handle))
    } catch {
      return undefined // it captures, and cannot be asked
    }
  }

  #isNonBlocking(handle: StreamHandle): boolean {
    if (isDefaultStream(handle)) return false
    try {
      return (this.#driver().streamGetFlags(handle) & StreamFlag.NON_BLOCKING) !== 0
    } catch {
      return true // it captures, and cannot be asked
    }
  }

  #add(
    handle: StreamHandle,
    device: number,
    nonBlocking: boolean,
    foreign: boolean,
    made: TakenStack | undefined,
  ): StreamStrand {
    const address = nameOf(handle)
    const about = { handle, device, nonBlocking, foreign, made, address }
    const stream = this.#strands.start((slot, tick, clock) => new StreamStrand({ slot, tick, clock }, about))
    if (made === undefined) stream.name = this.#givenName(handle, device)
    this.#streams.set(canonicalStream(handle), stream)
    if (foreign) this.#foreignCount += 1
    if (!nonBlocking && !isNullStream(handle)) this.blockingOf(device).others.add(stream)
    return stream
  }
}

function nameOf(handle: StreamHandle): string {
  if (!isDefaultStream(handle)) return `Stream(0x${cudaHandleOf(handle).toString(16)})`
  const device = deviceOfDefaultStream(handle)
  return `${cudaHandleOf(handle) === 2 ? 'Stream.perThread' : 'Stream.null'}${device === 0 ? '' : ` of device ${device}`}`
}
