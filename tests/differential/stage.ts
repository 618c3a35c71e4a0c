/** The streams, events and buffers that a program is played with: made before it, and gone after it. */
import {
  type Device,
  type DeviceBuffer,
  type Event,
  ExternalStream,
  type GreenContext,
  PinnedBuffer,
  Stream,
} from 'cuda-streams'
import type { Workbench } from '../helpers/workbench.js'
import { Pools } from './pool-steps.js'
import { isOrdinary } from './rules.js'
import { type BufferPlan, buffersOf, CELL_BYTES, CELLS, namedBy, type Program, pick } from './steps.js'

const WORDS = 32
const WORD_BYTES = 8

export type Memory = DeviceBuffer | PinnedBuffer

/** Made once for a device: it takes a GPU a millisecond. */
const greenContexts = new WeakMap<Device, GreenContext>()

function greenContextOf(device: Device): GreenContext {
  const known = greenContexts.get(device)
  if (known !== undefined) return known
  const [made] = device.split({ multiprocessors: [16] })
  greenContexts.set(device, made)
  return made
}

export class Stage {
  readonly bench: Workbench
  readonly devices: Workbench['devices']
  readonly pools = new Pools()
  readonly #buffers: Memory[]
  readonly #plans: readonly BufferPlan[]
  /** For each device: memory is allocated and freed there, where the program does nothing. */
  readonly #allocationStreams: readonly Stream[]
  readonly #program: Program
  readonly #streams: Stream[] = []
  readonly #events: Event[]
  /** Streams that another library made, by the place of the stream that wraps them. */
  readonly #foreign = new Map<number, bigint>()
  #words: PinnedBuffer | undefined
  #wordsGiven = 0

  constructor(program: Program, bench: Workbench) {
    this.#program = program
    this.bench = bench
    this.devices = bench.devices.slice(0, program.devices)
    this.#allocationStreams = this.devices.map((device) => bench.stream({ device }))
    for (const index of program.streams.keys()) this.#streams[index] = this.#makeStream(index)
    this.#events = program.events.map((_, index) => this.#makeEvent(index))
    this.#plans = buffersOf(program)
    this.#buffers = this.#plans.map(({ pinned, registered, device }) => {
      const where = pick(this.devices, device)
      if (registered) return PinnedBuffer.from(new Uint8Array(CELLS * CELL_BYTES), { device: where })
      if (pinned) return where.allocPinned(CELLS * CELL_BYTES)
      return where.alloc(CELLS * CELL_BYTES, { stream: pick(this.#allocationStreams, device) })
    })
    for (const [index, buffer] of this.#buffers.entries()) {
      if (this.#plans[index]?.pinned) (buffer as PinnedBuffer).bytes.fill(index + 1)
      else
        this.#allocationStreamOf(buffer)
          .fill(buffer, index + 1)
          .synchronize()
    }
  }

  /** Memory for words that streams wait for. */
  get words(): PinnedBuffer {
    if (this.#words === undefined) {
      this.#words = this.bench.device.allocPinned(WORDS * WORD_BYTES)
      this.#words.bytes.fill(0)
    }
    return this.#words
  }

  /** Where there is a word that was never written; undefined where there is none any more. */
  word(): number | undefined {
    if (this.#wordsGiven === WORDS) return undefined
    this.#wordsGiven += 1
    return (this.#wordsGiven - 1) * WORD_BYTES
  }

  write(word: number, value: number): void {
    this.words.view(BigInt64Array)[word / WORD_BYTES] = BigInt(value)
  }

  get streams(): readonly Stream[] {
    return this.#streams
  }

  stream(index: number): Stream {
    return pick(this.#streams, index)
  }

  event(index: number): Event {
    return pick(this.#events, index)
  }

  /** Is it a second name for another stream of the program? */
  isAlias(stream: number): boolean {
    return pick(this.#program.streams, stream).origin === 'alias'
  }

  /** Can a stream be destroyed, and another be made in its place? Default streams can not. */
  isOrdinary(stream: number): boolean {
    return isOrdinary(pick(this.#program.streams, stream).origin)
  }

  /** Was it made by this library, so that closing it destroys it? */
  isOwn(stream: number): boolean {
    const { origin } = pick(this.#program.streams, stream)
    return origin === 'own' || origin === 'ownBlocking' || origin === 'green'
  }

  /** What has a second name loses that first, since nobody may use it afterwards. */
  closeStream(index: number): void {
    for (const alias of this.#aliasesOf(index)) this.stream(alias).close()
    this.stream(index).close()
  }

  renewStream(index: number): void {
    this.closeStream(index)
    this.#destroyForeign(index)
    for (const renewed of [index, ...this.#aliasesOf(index)]) this.#streams[renewed] = this.#makeStream(renewed)
  }

  #aliasesOf(index: number): number[] {
    const { streams } = this.#program
    return [...streams.keys()].filter((alias) => alias !== index && namedBy(streams, alias) === index)
  }

  /** Another event takes the place of this one. */
  replaceEvent(index: number, event: Event): void {
    this.event(index).close()
    this.#events[index] = event
  }

  renewEvent(index: number): void {
    this.replaceEvent(index, this.#makeEvent(index))
  }

  buffer(index: number): Memory {
    return pick(this.#buffers, index)
  }

  closeBuffer(index: number, freesSurely: boolean): void {
    const buffer = this.buffer(index)
    buffer.close()
    this.pools.freed(buffer, freesSurely)
  }

  /** Of the pool, or of the device's own. Throws where nothing is allocated, and the buffer stays. */
  renewBuffer(index: number, stream: number, pool: number, freesSurely: boolean): void {
    const allocationStream = this.stream(stream)
    const made = this.pools.alloc(allocationStream, CELLS * CELL_BYTES, pool, this.isOwn(stream))
    this.closeBuffer(index, freesSurely)
    this.#buffers[index] = made
  }

  pinned(index: number): PinnedBuffer | undefined {
    return this.#plans[index]?.pinned === true ? (this.buffer(index) as PinnedBuffer) : undefined
  }

  /** Can work of this stream reach that buffer for sure? */
  isNear(stream: number, buffer: number): boolean {
    return this.pinned(buffer) !== undefined || this.buffer(buffer).device === this.stream(stream).device
  }

  /** The bytes of every buffer, where nothing is under way; undefined for one that is closed. */
  contents(): (Uint8Array | undefined)[] {
    using pinned = this.bench.device.allocPinned(CELLS * CELL_BYTES)
    return this.#buffers.map((buffer, index) => {
      if (buffer.closed) return undefined
      const own = this.pinned(index)
      if (own === undefined) this.#allocationStreamOf(buffer).copy(pinned, buffer).synchronize()
      return (own ?? pinned).bytes.slice()
    })
  }

  /** Where the device is lost, nothing of another library's can be destroyed. */
  close(isLost: boolean): void {
    for (const event of this.#events) event.close()
    for (const buffer of this.#buffers) buffer.close()
    this.#words?.close()
    this.pools.close()
    for (const stream of this.#streams) stream.close()
    if (!isLost) for (const index of [...this.#foreign.keys()]) this.#destroyForeign(index)
    for (const allocationStream of this.#allocationStreams) allocationStream.close()
  }

  #makeEvent(index: number): Event {
    const { timing, device } = pick(this.#program.events, index)
    return pick(this.devices, device).createEvent({ timing })
  }

  #destroyForeign(index: number): void {
    const handle = this.#foreign.get(index)
    if (handle === undefined) return
    this.#foreign.delete(index)
    this.bench.destroyForeignStream(handle)
  }

  #makeStream(index: number): Stream {
    const { origin, priority, device: on } = pick(this.#program.streams, index)
    const device = pick(this.devices, on)
    switch (origin) {
      case 'own':
      case 'ownBlocking':
        return new Stream({ device, priority, nonBlocking: origin === 'own' })
      case 'foreign':
      case 'foreignBlocking': {
        const handle = this.bench.foreignStream(device, { priority, nonBlocking: origin === 'foreign' })
        this.#foreign.set(index, handle)
        return new ExternalStream(handle, { device })
      }
      case 'green':
        return new Stream({ context: greenContextOf(device), priority })
      case 'foreignGreen': {
        const handle = this.bench.foreignStream(device, { priority, context: greenContextOf(device) })
        this.#foreign.set(index, handle)
        return new ExternalStream(handle, { device })
      }
      case 'null':
        return known(device.defaultStream)
      case 'wrappedNull':
        return new ExternalStream(0n, { device })
      case 'alias': {
        const named = this.stream(namedBy(this.#program.streams, index))
        return new ExternalStream(named.handle, { device: named.device })
      }
      case 'perThread':
        return known(device.run(() => Stream.perThread))
    }
  }

  #allocationStreamOf(buffer: Memory): Stream {
    return pick(this.#allocationStreams, this.devices.indexOf(buffer.device))
  }
}

/** A default stream outlives programs, and remembers what it was once asked: so it is asked before each. */
function known(stream: Stream): Stream {
  void [stream.id, stream.nonBlocking, stream.priority]
  return stream
}
