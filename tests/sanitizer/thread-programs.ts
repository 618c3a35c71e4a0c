/** Random programs of several threads, one step at a time: each step says which thread makes the call. */

import {
  type Device,
  DeviceBuffer,
  Event,
  ExternalStream,
  type SharedBuffer,
  type SharedEvent,
  type SharedStream,
  Stream,
} from 'cuda-streams'
import { declareAccess, type SanitizerReport } from 'cuda-streams/sanitizer'
import fc from 'fast-check'

export const THREADS = 3
/** Each thread shares one stream, one event and one buffer; another stream of it, and a blocking one, are its own. */
const STREAMS = ['shared 0', 'shared 1', 'shared 2', 'own', 'own', 'blocking', 'null'] as const
type StreamName = (typeof STREAMS)[number]
const PART = 64
const PARTS = 2

export type Step = { readonly thread: number } & (
  | {
      readonly what: 'access'
      readonly stream: StreamName
      readonly buffer: number
      readonly first: number
      readonly parts: number
      readonly writes: boolean
    }
  | { readonly what: 'record' | 'wait'; readonly stream: StreamName; readonly event: number }
  | { readonly what: 'waitForStream'; readonly stream: StreamName; readonly other: StreamName }
  | { readonly what: 'waitForDevice' | 'synchronize' | 'await'; readonly stream: StreamName }
  | { readonly what: 'synchronizeEvent'; readonly event: number }
  | { readonly what: 'synchronizeDevice' }
)

const thread = fc.nat(THREADS - 1)
const stream = fc.constantFrom(...STREAMS)
const event = fc.nat(THREADS - 1)

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      thread,
      what: fc.constant('access' as const),
      stream,
      buffer: fc.nat(THREADS - 1),
      first: fc.nat(PARTS - 1),
      parts: fc.integer({ min: 1, max: PARTS }),
      writes: fc.boolean(),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({ thread, what: fc.constantFrom('record' as const, 'wait' as const), stream, event }),
  },
  { weight: 2, arbitrary: fc.record({ thread, what: fc.constant('waitForStream' as const), stream, other: stream }) },
  {
    weight: 1,
    arbitrary: fc.record({
      thread,
      what: fc.constantFrom('waitForDevice' as const, 'synchronize' as const, 'await' as const),
      stream,
    }),
  },
  { weight: 1, arbitrary: fc.record({ thread, what: fc.constant('synchronizeEvent' as const), event }) },
  { weight: 1, arbitrary: fc.record({ thread, what: fc.constant('synchronizeDevice' as const) }) },
)

export const programs: fc.Arbitrary<readonly Step[]> = fc.array(step, { minLength: 2, maxLength: 40 })

export interface SharedOfThread {
  readonly stream: SharedStream
  readonly event: SharedEvent
  readonly buffer: SharedBuffer
}

interface Things {
  readonly stream: Stream
  readonly event: Event
  readonly buffer: DeviceBuffer
}

/** One thread's objects: those that it shares, those of the others, and its own. */
export class Player {
  readonly things: Things
  readonly #own: Stream
  readonly #blocking: Stream
  readonly #null: Stream
  /** By thread. */
  #all: readonly Things[] = []

  constructor(private readonly device: Device) {
    this.things = {
      stream: new Stream({ device }),
      event: device.createEvent(),
      buffer: device.alloc(PART * PARTS, { interprocess: true }),
    }
    this.#own = new Stream({ device })
    this.#blocking = new Stream({ device, nonBlocking: false })
    this.#null = new ExternalStream(0n, { device })
  }

  share(): SharedOfThread {
    const { stream, event: shared, buffer } = this.things
    return { stream: stream.share(), event: shared.share(), buffer: buffer.share() }
  }

  /** Takes in the objects of all threads: of its own, the token is that of `share()`. */
  receive(all: readonly SharedOfThread[]): void {
    this.take(
      all.map((each) => ({
        stream: Stream.from(each.stream),
        event: Event.from(each.event),
        buffer: DeviceBuffer.from(each.buffer),
      })),
    )
  }

  take(all: readonly Things[]): void {
    this.#all = all
  }

  async play(each: Step, number: number): Promise<void> {
    switch (each.what) {
      case 'access': {
        const length = PART * Math.min(each.parts, PARTS - each.first)
        const memory = [this.#of(each.buffer).buffer.subarray(PART * each.first, PART * each.first + length)]
        declareAccess(this.#stream(each.stream), each.writes ? { writes: memory } : { reads: memory }, `step ${number}`)
        break
      }
      case 'record':
        this.#stream(each.stream).record(this.#of(each.event).event)
        break
      case 'wait':
        this.#stream(each.stream).wait(this.#of(each.event).event)
        break
      case 'waitForStream':
        this.#stream(each.stream).wait(this.#stream(each.other))
        break
      case 'waitForDevice':
        this.#stream(each.stream).wait(this.device)
        break
      case 'synchronize':
        this.#stream(each.stream).synchronize()
        break
      case 'await':
        await this.#stream(each.stream).finished()
        break
      case 'synchronizeEvent':
        this.#of(each.event).event.synchronize()
        break
      case 'synchronizeDevice':
        this.device.synchronize()
        break
      default:
        each satisfies never
    }
  }

  /** Closes all but what this thread has shared. */
  release(): void {
    const theirs = this.#all.filter(({ stream: each }) => each !== this.things.stream)
    for (const each of theirs) for (const one of [each.stream, each.event, each.buffer]) one.close()
    for (const one of [this.#null, this.#blocking, this.#own]) one.close()
  }

  close(): void {
    for (const one of [this.things.buffer, this.things.event, this.things.stream]) one.close()
  }

  #of(index: number): Things {
    const things = this.#all[index]
    if (things === undefined) throw new Error('nothing was taken in')
    return things
  }

  #stream(name: StreamName): Stream {
    if (name === 'own') return this.#own
    if (name === 'blocking') return this.#blocking
    if (name === 'null') return this.#null
    return this.#of(Number(name.slice('shared '.length))).stream
  }
}

/** The pairs of steps that race, as text. */
export const racesIn = (reports: readonly SanitizerReport[]): readonly string[] =>
  reports.filter(({ kind }) => kind === 'race').map(({ first, second }) => `${first?.what}, ${second.what}`)
