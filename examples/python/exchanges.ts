/**
 * The ways in which a stream, an event and memory pass between cuda-streams and another library, both ways. In each, one
 * side writes late, because its stream is busy, and the other reads. `waits: false` leaves out the one wait between them:
 * then the writer is held until the reader has read, which finds what was there before.
 */
import { type Device, DeviceBuffer, Event, ExternalStream, Stream } from 'cuda-streams'
import type { Held, Hold } from '../hold.js'
import type { Delay } from './delay.js'
import type { Ability, Library } from './library.js'

/** Numbers in each array: 4 MiB. */
export const COUNT = 1024 * 1024
/** What the arrays hold before each try. */
const POISON = -1
/** Longer than a reader could be late by accident. */
const DELAY_MS = 5

export interface Exchange {
  readonly title: string
  /** Not every library has the means. */
  readonly needs?: Ability
  /** Queues the writing and the reading. Returns where the reader has put what it read. */
  run(table: Table, value: number, waits: boolean): DeviceBuffer
}

/** What a pair has on the table: streams of both sides, arrays of both sides. */
export class Table {
  readonly library: Library
  readonly device: Device
  readonly ours: Stream
  /** A second stream of ours. */
  readonly reader: Stream
  /** Their stream, wrapped by its handle. */
  readonly theirs: Stream
  /** The same, from its `__cuda_stream__`. */
  readonly theirsByProtocol: Stream
  readonly buffer: DeviceBuffer
  readonly result: DeviceBuffer
  /** Their arrays, wrapped. */
  readonly theirBuffer: DeviceBuffer
  readonly theirResult: DeviceBuffer
  readonly #delay: Delay
  readonly #hold: Hold
  /** In a try without the wait: the stream that is held, and what holds it. */
  #held: { readonly stream: Stream; readonly by: Held } | undefined
  #waits = true

  constructor(device: Device, library: Library, delay: Delay, hold: Hold) {
    this.library = library
    this.device = device
    this.#delay = delay
    this.#hold = hold
    this.ours = new Stream({ device })
    this.reader = new Stream({ device })
    const { owner } = library
    // On a GPU the driver tells the device of a handle; a simulation has to be named.
    const where = device.driver === 'sim' ? { device, owner } : { owner }
    this.theirs = new ExternalStream(library.stream, where)
    this.theirsByProtocol = new ExternalStream(library.streamObject, where)
    if (this.theirs.device !== device) throw new Error(`${this.theirs} is on ${this.theirs.device}, not on ${device}`)
    if (!this.theirs.equals(this.theirsByProtocol)) {
      throw new Error(`by its handle it is ${this.theirs}, by __cuda_stream__ ${this.theirsByProtocol}`)
    }
    this.buffer = device.alloc(4 * COUNT, { stream: this.ours })
    this.result = device.alloc(4 * COUNT, { stream: this.ours })
    this.theirBuffer = DeviceBuffer.from(library.mine, 4 * COUNT, where)
    this.theirResult = DeviceBuffer.from(library.result, 4 * COUNT, where)
  }

  /** Makes what is queued next on this stream come late: after some time or, without the wait, after what is read. */
  late(stream: Stream): void {
    if (this.#waits) this.#delay(stream, DELAY_MS)
    else this.#held = { stream, by: this.#hold(stream) }
  }

  /**
   * One try from a clean start. Returns what is wrong with the numbers read; undefined if each is the value written or,
   * without the wait, none is.
   */
  async attempt(exchange: Exchange, value: number, waits: boolean): Promise<string | undefined> {
    for (const buffer of [this.buffer, this.result, this.theirBuffer, this.theirResult]) {
      this.ours.fill(buffer, POISON, { width: 4 })
    }
    await this.#done()
    this.#waits = waits
    this.#held = undefined
    const where = exchange.run(this, value, waits)
    if (!waits) await this.#readBefore()
    await this.#done()
    const bytes = await this.ours.download(where)
    const expected = waits ? value : POISON
    if (Buffer.compare(bytes, new Uint8Array(new Int32Array(COUNT).fill(expected).buffer)) === 0) return undefined
    const wrong = new Int32Array(bytes.buffer, bytes.byteOffset, COUNT).filter((number) => number !== expected)
    return `${wrong.length} of ${COUNT} numbers are not ${expected}: the first is ${wrong[0]}, the last ${wrong.at(-1)}`
  }

  /** Lets go of what is theirs, and gives back what is ours. */
  close(): void {
    for (const thing of [this.theirBuffer, this.theirResult, this.buffer, this.result]) thing.close()
    for (const stream of [this.theirs, this.theirsByProtocol, this.reader, this.ours]) stream.close()
  }

  async #done(streams: readonly Stream[] = [this.ours, this.reader, this.theirs]): Promise<void> {
    await Promise.all(streams.map((stream) => stream.finished()))
  }

  /** Lets the writer go on when all others are done, the one that reads among them. */
  async #readBefore(): Promise<void> {
    const held = this.#held
    if (held === undefined) throw new Error('an exchange has somebody who comes late')
    try {
      await this.#done([this.ours, this.reader, this.theirs].filter((stream) => !stream.equals(held.stream)))
    } finally {
      held.by.release()
    }
  }
}

/** They write late on their stream; ours, which `wait` made wait, reads. */
function theyWrite(
  table: Table,
  value: number,
  wait: () => void,
  write = (): void => table.library.fill(value),
): DeviceBuffer {
  table.late(table.theirs)
  write()
  wait()
  table.ours.copy(table.result, table.theirBuffer)
  return table.result
}

/** We write their array late on our stream; theirs, which `wait` made wait, reads. */
function weWriteTheirs(table: Table, value: number, wait: () => void): DeviceBuffer {
  table.late(table.ours)
  table.ours.fill(table.theirBuffer, value, { width: 4 })
  wait()
  table.library.readMine()
  return table.theirResult
}

/** We write our own memory late; they wrap it, wait as `wait` says, and read. */
function weWriteOurs(table: Table, value: number, wait: () => bigint | undefined): DeviceBuffer {
  table.late(table.ours)
  table.ours.fill(table.buffer, value, { width: 4 })
  table.library.wrapMemory(table.buffer.pointer, wait())
  table.library.readOurs()
  return table.theirResult
}

/** Their stream waits for ours, which they wrapped. */
function theyWaitForWrapped(table: Table, value: number, waits: boolean, by: 'handle' | 'protocol'): DeviceBuffer {
  table.library.wrapStream(table.ours, by)
  return weWriteOurs(table, value, () => {
    if (waits) table.library.waitForWrapped()
    return undefined
  })
}

/** They write on our stream, after work of ours that would undo it if it came too early; a second stream of ours reads. */
function theyWriteOnOurs(table: Table, value: number, waits: boolean, by: 'handle' | 'protocol'): DeviceBuffer {
  table.library.wrapStream(table.ours, by)
  table.library.wrapMemory(table.buffer.pointer, undefined)
  return writtenOnOurs(table, waits, () => table.library.fillOursOnWrapped(value))
}

function writtenOnOurs(table: Table, waits: boolean, write: () => void): DeviceBuffer {
  table.late(table.ours)
  table.ours.fill(table.buffer, POISON, { width: 4 })
  write()
  if (waits) table.reader.wait(table.ours)
  table.reader.copy(table.result, table.buffer)
  return table.result
}

/** Their graph that fills our memory or theirs, which holds what it held before. */
function theyCapture(table: Table, value: number, ours: boolean): void {
  table.library.captureFill(value, ours)
  table.theirs.fill(ours ? table.buffer : table.theirBuffer, POISON, { width: 4 })
  table.theirs.synchronize()
}

export const EXCHANGES: readonly Exchange[] = [
  {
    title: 'ours waits for their stream, wrapped by handle',
    run: (table, value, waits) => theyWrite(table, value, () => void (waits && table.ours.wait(table.theirs))),
  },
  {
    title: 'ours waits for their stream, by __cuda_stream__',
    run: (table, value, waits) =>
      theyWrite(table, value, () => void (waits && table.ours.wait(table.library.streamObject))),
  },
  {
    title: 'their stream, wrapped by handle, waits for ours',
    run: (table, value, waits) => weWriteTheirs(table, value, () => void (waits && table.theirs.wait(table.ours))),
  },
  {
    title: 'their stream, by __cuda_stream__, waits for ours',
    run: (table, value, waits) =>
      weWriteTheirs(table, value, () => void (waits && table.theirsByProtocol.wait(table.ours))),
  },
  {
    title: 'ours waits for their event',
    run: (table, value, waits) =>
      theyWrite(table, value, () => {
        const { device } = table
        const event = Event.from(table.library.record(), { device, owner: table.library.owner })
        if (waits) table.ours.wait(event)
        event.close()
      }),
  },
  {
    title: 'their stream waits for our event',
    run: (table, value, waits) =>
      weWriteTheirs(table, value, () => {
        const event = table.ours.record()
        if (waits) table.theirs.wait(event)
        event.close()
      }),
  },
  {
    title: 'they wait for our event, by its handle',
    needs: 'waits for events',
    run: (table, value, waits) =>
      weWriteTheirs(table, value, () => {
        const event = table.ours.record()
        if (waits) table.library.waitForEvent(event.handle)
        event.close()
      }),
  },
  {
    title: 'they wait for our stream, wrapped by handle',
    run: (table, value, waits) => theyWaitForWrapped(table, value, waits, 'handle'),
  },
  {
    title: 'they wait for our stream, by __cuda_stream__',
    needs: 'wraps by protocol',
    run: (table, value, waits) => theyWaitForWrapped(table, value, waits, 'protocol'),
  },
  {
    title: 'they write on our stream, wrapped by handle',
    run: (table, value, waits) => theyWriteOnOurs(table, value, waits, 'handle'),
  },
  {
    title: 'they write on our stream, by __cuda_stream__',
    needs: 'wraps by protocol',
    run: (table, value, waits) => theyWriteOnOurs(table, value, waits, 'protocol'),
  },
  {
    title: 'ours waits for the stream that their array names',
    needs: 'names its stream',
    run: (table, value, waits) =>
      theyWrite(table, value, () => {
        const { pointer, stream } = table.library.arrayInterface()
        if (pointer !== table.theirBuffer.pointer) throw new Error(`the array is at 0x${pointer.toString(16)} now`)
        if (stream === undefined) throw new Error('__cuda_array_interface__ names no stream')
        if (waits) table.ours.wait(new ExternalStream(stream, { device: table.device }))
      }),
  },
  {
    title: 'they heed the stream that our memory names',
    needs: 'heeds our stream',
    run: (table, value, waits) => weWriteOurs(table, value, () => (waits ? table.ours.handle : undefined)),
  },
  {
    title: 'ours waits for a graph of theirs',
    needs: 'captures',
    run: (table, value, waits) => {
      theyCapture(table, value, false)
      const wait = (): void => void (waits && table.ours.wait(table.theirs))
      return theyWrite(table, value, wait, () => table.library.launchCaptured(false))
    },
  },
  {
    title: 'they launch their graph on our stream',
    needs: 'captures',
    run: (table, value, waits) => {
      table.library.wrapStream(table.ours, 'handle')
      table.library.wrapMemory(table.buffer.pointer, undefined)
      theyCapture(table, value, true)
      return writtenOnOurs(table, waits, () => table.library.launchCaptured(true))
    },
  },
  {
    title: 'our graph has their work',
    needs: 'captures',
    run: (table, value, waits) => {
      table.library.wrapStream(table.ours, 'handle')
      table.library.wrapMemory(table.buffer.pointer, undefined)
      using graph = table.ours.capture(() => table.library.fillOursOnWrapped(value), { mode: 'relaxed' })
      using exec = graph.instantiate()
      return writtenOnOurs(table, waits, () => void table.ours.launch(exec))
    },
  },
  {
    title: 'their stream launches our graph',
    run: (table, value, waits) => {
      using graph = table.ours.capture(() => table.ours.fill(table.theirBuffer, value, { width: 4 }))
      using exec = graph.instantiate()
      return theyWrite(
        table,
        value,
        () => void (waits && table.ours.wait(table.theirs)),
        () => void table.theirs.launch(exec),
      )
    },
  },
]

/** Those that this library has the means for. */
export function exchangesOf(library: Library): readonly Exchange[] {
  return EXCHANGES.filter(({ needs }) => needs === undefined || library.abilities.has(needs))
}

let lastValue = 0

/** A value that no earlier try has written. */
function nextValue(): number {
  lastValue += 1
  return lastValue
}

/** What was wrong in so many tries with the wait. */
export async function wrongTries(table: Table, exchange: Exchange, tries: number): Promise<readonly string[]> {
  // Once for nothing: libraries load code at first use, and CUDA may stop all streams for that.
  await table.attempt(exchange, nextValue(), true)
  const wrong: string[] = []
  for (let number = 1; number <= tries; number += 1) {
    const problem = await table.attempt(exchange, nextValue(), true)
    if (problem !== undefined) wrong.push(`try ${number}: ${problem}`)
  }
  return wrong
}

/** What was read without the wait, though nothing had been written yet; undefined if, as it has to be, nothing was. */
export function wrongWithout(table: Table, exchange: Exchange): Promise<string | undefined> {
  return table.attempt(exchange, nextValue(), false)
}
