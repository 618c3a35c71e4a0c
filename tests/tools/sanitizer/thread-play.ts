/** Programs of several threads, one step at a time, and how a thread plays its steps: each says which thread makes the call. */
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
import { stepsOfThreads, useOf } from '../../programs/generate.js'
import type { StepOf } from '../../programs/steps.js'

export const THREADS = 3
/** Each thread shares one stream, one event and one buffer; another stream of it, and a blocking one, are its own. */
const STREAMS = ['shared 0', 'shared 1', 'shared 2', 'own', 'own', 'blocking', 'null']
const PART = 64
const PARTS = 2

const WEIGHTS = {
  work: 36,
  record: 8,
  wait: 7,
  waitStream: 6,
  waitDevice: 1,
  synchronizeStream: 1,
  awaitStream: 1,
  synchronizeEvent: 3,
  synchronizeDevice: 3,
} as const
export type Step = StepOf<keyof typeof WEIGHTS> & { readonly thread: number }

export const programs: fc.Arbitrary<readonly Step[]> = stepsOfThreads<keyof typeof WEIGHTS>(
  THREADS,
  WEIGHTS,
  {
    stream: STREAMS.length,
    event: THREADS,
    device: 1,
    uses: useOf(fc.nat(THREADS - 1), PARTS).map((use) => [use]),
  },
  { minLength: 2, maxLength: 40 },
)

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
      case 'work':
        for (const { memory, start, end, writes } of each.uses) {
          const part = [this.#of(memory).buffer.subarray(PART * start, PART * end)]
          declareAccess(this.#stream(each.stream), writes ? { writes: part } : { reads: part }, `step ${number}`)
        }
        break
      case 'record':
        this.#stream(each.stream).record(this.#of(each.event).event)
        break
      case 'wait':
        this.#stream(each.stream).wait(this.#of(each.event).event)
        break
      case 'waitStream':
        this.#stream(each.stream).wait(this.#stream(each.other))
        break
      case 'waitDevice':
        this.#stream(each.stream).wait(this.device)
        break
      case 'synchronizeStream':
        this.#stream(each.stream).synchronize()
        break
      case 'awaitStream':
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

  #stream(index: number): Stream {
    const name = STREAMS[index]
    if (name === 'own') return this.#own
    if (name === 'blocking') return this.#blocking
    if (name === 'null') return this.#null
    return this.#of(index).stream
  }
}

/** The pairs of steps that race, as text. */
export const racesIn = (reports: readonly SanitizerReport[]): readonly string[] =>
  reports.filter(({ kind }) => kind === 'race').map(({ first, second }) => `${first?.what}, ${second.what}`)
