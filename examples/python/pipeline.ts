/**
 * One buffer of ours that goes through every library, each on a stream of its own, a hundred rounds and more. Events
 * keep the order; the host queues all of it and waits for nothing. A library that computes triples the first part and
 * adds a number; one that only copies passes the last part on to the next. Ours begins each round, and ends it by
 * writing the last part to a page of its own and back to the first.
 */
import { type Device, type DeviceBuffer, ExternalStream, Stream } from 'cuda-streams'
import type { Hold } from '../hold.js'
import type { Delay } from './delay.js'
import type { Library } from './library.js'
import { TRIPLE, tripleConfig } from './triple.js'

/** Numbers in each part. */
const LENGTH = 4096
const BYTES = 4 * LENGTH

interface Stage {
  readonly name: string
  readonly stream: Stream
  readonly queue: (value: number) => void
}

export interface Run {
  readonly rounds: number
  /** Rounds after which every number was right. */
  readonly right: number
  /** The first round that was not, and what it left. */
  readonly firstWrong: string | undefined
  /** Was the first stage still held when everything was queued? Then nothing in between has waited for the GPU. */
  readonly heldToTheEnd: boolean
  readonly queuedIn: number
}

/** What makes the first stage late. */
export interface Late {
  readonly delay: Delay
  readonly hold: Hold
}

export class Pipeline {
  readonly #device: Device
  readonly #late: Late
  readonly #ours: Stream
  readonly #shared: DeviceBuffer
  readonly #stages: readonly Stage[]
  /** How many parts are in use: the first, and one for each stage that copies. */
  readonly #parts: number
  readonly #computing: number

  /** `count` is how many numbers the libraries take our memory to have. */
  constructor(device: Device, libraries: readonly Library[], late: Late, count: number) {
    this.#device = device
    this.#late = late
    this.#ours = new Stream({ device })
    this.#shared = device.alloc(4 * count, { stream: this.#ours })
    this.#ours.synchronize()
    const computing = libraries.filter((library) => library.abilities.has('computes'))
    const copying = libraries.filter((library) => !library.abilities.has('computes'))
    this.#parts = 1 + copying.length
    this.#computing = 1 + computing.length
    for (const library of libraries) library.wrapMemory(this.#shared.pointer, undefined)
    const stage = (library: Library, queue: (value: number) => void): Stage => ({
      name: library.name,
      stream: new ExternalStream(library.stream, device.driver === 'sim' ? { device } : { owner: library.owner }),
      queue,
    })
    this.#stages = [
      { name: 'ours', stream: this.#ours, queue: (value) => this.#launch(value) },
      ...computing.map((library) => stage(library, (value) => library.transform(value, LENGTH))),
      ...copying.map((library, part) => stage(library, () => library.copyPart(part, LENGTH))),
    ]
  }

  get stages(): readonly string[] {
    return this.#stages.map(({ name }) => name)
  }

  /**
   * Queues so many rounds behind `heldFor` milliseconds of other work on the first stream, then looks at what each has
   * left.
   */
  async run(rounds: number, heldFor: number): Promise<Run> {
    const pages = await this.#start(rounds)
    const start = performance.now()
    this.#late.delay(this.#ours, heldFor)
    const held = this.#ours.record()
    this.#queueAll(rounds, pages, true)
    const heldToTheEnd = !held.query()
    const queuedIn = performance.now() - start
    await Promise.all(this.#stages.map(({ stream }) => stream.finished()))
    return { rounds, ...(await this.#judgePages(pages, rounds)), heldToTheEnd, queuedIn }
  }

  /** The same where the stages do not wait for each other: the first is held until the others are done with all rounds. */
  async runWithoutWaits(rounds: number): Promise<Pick<Run, 'right'>> {
    const pages = await this.#start(rounds)
    const held = this.#late.hold(this.#ours)
    try {
      this.#queueAll(rounds, pages, false)
      await Promise.all(this.#stages.slice(1).map(({ stream }) => stream.finished()))
    } finally {
      held.release()
    }
    return this.#judgePages(pages, rounds)
  }

  close(): void {
    this.#shared.close()
    for (const { stream } of this.#stages) stream.close()
  }

  async #start(rounds: number): Promise<DeviceBuffer> {
    await TRIPLE.prepare(this.#device)
    const pages = this.#device.alloc(BYTES * rounds, { stream: this.#ours })
    this.#ours.fill(this.#shared, 0).fill(pages, 0)
    await this.#ours.finished()
    return pages
  }

  #queueAll(rounds: number, pages: DeviceBuffer, waits: boolean): void {
    for (let round = 0; round < rounds; round += 1)
      this.#queue(round, pages.subarray(BYTES * round, BYTES * (round + 1)), waits)
  }

  async #judgePages(pages: DeviceBuffer, rounds: number): Promise<Pick<Run, 'right' | 'firstWrong'>> {
    const bytes = await this.#ours.download(pages)
    pages.close()
    return this.#judge(new Int32Array(bytes.buffer, bytes.byteOffset, LENGTH * rounds), rounds)
  }

  #queue(round: number, page: DeviceBuffer, waits: boolean): void {
    let before: Stream | undefined
    for (const [index, { stream, queue }] of this.#stages.entries()) {
      if (waits && before !== undefined) stream.wait(before)
      queue(addend(round, index))
      before = stream
    }
    if (waits && before !== undefined) this.#ours.wait(before)
    const [first, last] = [0, this.#parts - 1].map((part) => this.#shared.subarray(BYTES * part, BYTES * (part + 1)))
    if (first === undefined || last === undefined) throw new Error('a pipeline has a part')
    this.#ours.copy(page, last)
    if (this.#parts > 1) this.#ours.copy(first, last)
  }

  #launch(value: number): void {
    this.#ours.launch(TRIPLE, tripleConfig(LENGTH), this.#shared, value, LENGTH)
  }

  #judge(numbers: Int32Array, rounds: number): Pick<Run, 'right' | 'firstWrong'> {
    let right = 0
    let firstWrong: string | undefined
    let expected = 0
    for (let round = 0; round < rounds; round += 1) {
      for (let index = 0; index < this.#computing; index += 1) {
        expected = (Math.imul(expected, 3) + addend(round, index)) | 0
      }
      const wrong = numbers.subarray(LENGTH * round, LENGTH * (round + 1)).filter((number) => number !== expected)
      if (wrong.length === 0) right += 1
      else {
        firstWrong ??= `round ${round}: ${wrong.length} of ${LENGTH} numbers are not ${expected}, the first is ${wrong[0]}`
      }
    }
    return { right, firstWrong }
  }
}

/** Another in each stage of each round. */
const addend = (round: number, stage: number): number => 1 + 17 * round + stage
