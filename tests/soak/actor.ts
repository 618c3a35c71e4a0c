/** One of several that play at the same time in a thread: it has streams, events and memory of its own. */
import { type Device, DeviceBuffer, Event, Stream } from 'cuda-streams'
import type { Graphs } from './actions/graphs.js'
import { Aux } from './aux.js'
import { type Books, codeOf, told } from './books.js'
import { Lane, type Mark, type Origin, type Use } from './lanes.js'
import type { ForeignStream, Machine } from './machine.js'
import { type Part, Piece, type PieceKind } from './pieces.js'
import type { Random } from './random.js'
import type { TraceLane } from './trace.js'

export interface Action {
  readonly name: string
  /** How often it comes, beside the others. */
  readonly weight: number
  readonly play: (actor: Actor) => void | Promise<void>
}

/** What an action reads and writes. */
export interface Touched {
  readonly reads?: readonly Piece[]
  readonly writes?: readonly Piece[]
  /** There are no bytes in it: nothing is queued. */
  readonly empty?: boolean
}

const LANES = 5
const MARKS = 4
const PIECES = 9
const MOST_GONE = 20
/** Around each length at which the library or CUDA does something else. */
const LENGTHS = [1, 2, 15, 64, 256, 1000, 4096, 24_576, 32_769, 65_536, 65_537, 200_000]
const OWN_ORIGINS: readonly Origin[] = ['own', 'own', 'own', 'blocking', 'foreign', 'foreignBlocking']

export class Actor {
  readonly name: string
  readonly random: Random
  readonly machine: Machine
  readonly books: Books
  readonly trace: TraceLane
  lanes: Lane[]
  pieces: Piece[] = []
  marks: Mark[]
  readonly aux: Aux
  /** What it captured. */
  graphs: Graphs | undefined
  /** Things that were let go of without a close, for the garbage collector. */
  readonly dropped: WeakRef<object>[] = []
  /** The handles of streams that another library made. */
  readonly #foreign = new Map<Lane, ForeignStream>()
  /** Streams that are gone, of whose work not all is known to be done. */
  readonly #gone: Lane[] = []

  constructor(name: string, random: Random, machine: Machine, trace: TraceLane) {
    this.name = name
    this.random = random
    this.machine = machine
    this.books = machine.books
    this.trace = trace
    this.lanes = Array.from({ length: LANES }, () => this.newLane())
    this.marks = Array.from({ length: MARKS }, () => this.newMark())
    this.aux = new Aux(this)
    for (let left = PIECES; left > 0; left -= 1) this.pieces.push(this.newPiece())
  }

  fail(what: string): void {
    this.books.fail(`actor ${this.name}: ${what} (after ${this.trace.last})`)
  }

  follow<T>(what: string, promise: Promise<T>, check?: (value: T) => void): void {
    this.books.follow(`actor ${this.name}: ${what} (after ${this.trace.last})`, promise, check)
  }

  /** Expects a call to throw an error with this code. */
  refused(what: string, code: string, call: () => unknown): void {
    this.books.counts.mistakes += 1
    try {
      const value = call()
      this.fail(`${what} should be refused with ${code}, and gave ${String(value)}`)
    } catch (error) {
      if (codeOf(error) !== code) this.fail(`${what} should be refused with ${code}, and was with ${told(error)}`)
    }
  }

  /** The same of a promise. */
  rejected(what: string, code: string, promise: Promise<unknown>): void {
    this.books.counts.mistakes += 1
    const verdict = promise.then(
      () => `${what} should reject with ${code}, and was fulfilled`,
      (error: unknown) => (codeOf(error) === code ? undefined : `${what} should reject with ${code}: ${told(error)}`),
    )
    this.follow(what, verdict, (wrong) => {
      if (wrong !== undefined) this.fail(wrong)
    })
  }

  // Streams.

  newLane(origin: Origin = this.random.one(OWN_ORIGINS), device = this.#anyDevice()): Lane {
    const { random, machine } = this
    const priority = random.chance(0.3) ? -random.below(6) : 0
    const nonBlocking = origin === 'own' || origin === 'foreign'
    if (origin === 'foreign' || origin === 'foreignBlocking') {
      const foreign = machine.takeForeign(device, nonBlocking, priority)
      if (foreign === undefined) return this.newLane('own', device)
      const stream = Stream.from(foreign.handle, random.chance(0.5) ? {} : { device, owner: {} })
      const lane = new Lane(stream, origin, machine.legacyOf(device))
      this.#foreign.set(lane, foreign)
      return lane
    }
    const stream = random.one([
      () => new Stream({ device, priority, nonBlocking }),
      () => new Stream({ device: device.ordinal, priority, nonBlocking }),
      () => device.createStream({ priority, nonBlocking }),
      () => device.run(() => new Stream({ priority, nonBlocking })),
    ])()
    return new Lane(stream, origin, machine.legacyOf(device))
  }

  /** A stream that work can be queued on; on this device, if one is given. */
  lane(device?: Device, wanted: (lane: Lane) => boolean = () => true): Lane {
    const { random, machine } = this
    const mine = this.lanes.filter((lane) => lane.usable && (device ?? lane.device) === lane.device && wanted(lane))
    if (random.chance(0.06) || mine.length === 0) {
      const where = device ?? this.#anyDevice()
      const shared = [
        ...(machine.ground.usesNullStream ? [machine.nullLane(where)] : []),
        machine.perThreadLane(where),
      ].filter((lane) => lane.usable && wanted(lane))
      if (shared.length > 0) return random.one(shared)
    }
    if (mine.length > 0) return random.one(mine)
    const fresh = this.newLane('own', device)
    this.lanes.push(fresh)
    return fresh
  }

  /** The stream itself, or another wrapper of it. Where `close` is true it has to be closed afterwards. */
  handOver({ stream, origin, device }: Lane): { readonly stream: Stream; readonly close: boolean } {
    const { random } = this
    if (random.chance(0.8) || origin === 'perThread') return { stream, close: false }
    const wrapped = random.one([
      () => device.createStream(stream),
      () => Stream.from({ __cuda_stream__: () => [0, stream.handle] as const }, { device }),
      () => Stream.from(stream.handle, { device, owner: stream }),
      () => Stream.from(Number(stream.handle), { device }),
    ])()
    if (!wrapped.equals(stream)) this.fail(`${wrapped} does not equal ${stream}`)
    return { stream: wrapped, close: true }
  }

  /** Lets a call queue work on a stream, by the object itself or another wrapper. */
  on<R>(lane: Lane, call: (stream: Stream) => R): R {
    const { stream, close } = this.handOver(lane)
    try {
      return call(stream)
    } finally {
      if (close) stream.close()
    }
  }

  /** The stream is not used any more, whatever is queued: it is closed, or left to the garbage collector. */
  async retire(lane: Lane, drop = false): Promise<void> {
    const { random } = this
    this.lanes = this.lanes.filter((other) => other !== lane)
    const heirs = this.lanes.filter((other) => other.usable)
    if (heirs.length > 0 && random.chance(0.4)) lane.heir = this.waitFor(random.one(heirs), lane)
    else this.keepTail(lane)
    const stream = lane.letGo()
    if (drop) this.dropped.push(new WeakRef(stream))
    else random.one([() => stream.close(), () => stream[Symbol.dispose]()])()
    const foreign = this.#foreign.get(lane)
    this.#foreign.delete(lane)
    if (foreign !== undefined) this.machine.giveBackForeign(foreign)
    this.#gone.push(lane)
    if (this.#gone.length > MOST_GONE) await this.#forgetGone()
  }

  /** Waits for the streams that are gone, and forgets them. */
  async #forgetGone(): Promise<void> {
    for (const lane of this.#gone.splice(0)) {
      await this.known({ lane, at: lane.at })
      lane.forget()
    }
  }

  /** An event that stands for all of the stream's work from now on. */
  keepTail(lane: Lane): void {
    lane.tail = { event: lane.stream.record(), clock: lane.clock() }
  }

  // Events.

  newMark(device = this.#anyDevice()): Mark {
    const { random } = this
    const options = random.one([{}, { timing: true }, { blockingSync: true }, { interprocess: true }])
    const event = random.one([() => new Event({ device, ...options }), () => device.createEvent(options)])()
    return { event, clock: new Map() }
  }

  record(lane: Lane, mark: Mark): void {
    const { random } = this
    const { stream } = lane
    random.one([
      () => void stream.record(mark.event),
      () => void mark.event.record(stream),
      () => void stream.run(() => mark.event.record()),
      () => void this.on(lane, (same) => same.record(mark.event, { external: false })),
    ])()
    mark.clock = lane.clock()
  }

  markFor(device: Device): Mark {
    const mine = this.marks.filter(({ event }) => event.device === device)
    if (mine.length > 0) return this.random.one(mine)
    const fresh = this.newMark(device)
    this.marks.push(fresh)
    return fresh
  }

  /** A mark that was recorded there now. */
  #marked(lane: Lane): Mark {
    const mark = this.markFor(lane.device)
    this.record(lane, mark)
    return mark
  }

  // Order.

  /** Lets a stream wait for all that another holds. Returns the place of the wait. */
  waitFor(lane: Lane, other: Lane): Use {
    const { random } = this
    const { stream } = lane
    if (!other.usable) return this.#waitForTail(lane, other)
    const clock = other.clock()
    random.one([
      () => void stream.wait(other.stream),
      () => void this.on(lane, (same) => this.on(other, (theirs) => same.wait(theirs))),
      () => {
        const event = other.stream.record({ timing: random.chance(0.3) })
        stream.wait(event)
        event.close()
      },
      () => void stream.wait(other.stream, { event: other.stream.cachedEvent }),
      () => void stream.wait(other.stream, { external: true }),
      () => {
        const mark = this.#marked(other)
        random.one([
          () => void stream.wait(mark.event),
          () => void mark.event.wait(stream, { external: random.chance(0.5) }),
          // By default it is the current stream of the event's device that waits.
          () => void (lane.device === other.device ? stream.run(() => mark.event.wait()) : stream.wait(mark.event)),
          () => {
            using theirs = Event.fromHandle(mark.event.handle, { device: other.device, owner: mark })
            stream.wait(theirs)
          },
        ])()
      },
    ])()
    return lane.waited(clock)
  }

  #waitForTail(lane: Lane, other: Lane): Use {
    const { tail, heir } = other
    if (tail !== undefined) {
      lane.stream.wait(tail.event)
      return lane.waited(tail.clock)
    }
    if (heir === undefined) throw new Error(`${other} is gone, and nothing stands for it`)
    return lane.sees(heir) ? heir : this.waitFor(lane, heir.lane)
  }

  /** Lets all that is queued on the stream from now on come after a use. */
  order(lane: Lane, use: Use): void {
    if (lane.sees(use)) return
    if (use.lane.usable && this.random.chance(0.05)) this.synchronize(use.lane)
    else this.waitFor(lane, use.lane)
    if (!lane.sees(use)) throw new Error(`${lane} should come after ${use.at} of ${use.lane} now`)
  }

  synchronize(lane: Lane): void {
    const { random } = this
    const clock = lane.clock()
    random.one([
      () => this.on(lane, (stream) => stream.synchronize()),
      () => this.#marked(lane).event.synchronize(),
      () => {
        using event = lane.stream.record({ blockingSync: true })
        event.synchronize()
      },
    ])()
    this.machine.reached(clock, 'the end of a blocking wait')
  }

  /** Returns when the host knows that a use is done: by blocking, by a promise, or by asking again and again. */
  async known(use: Use): Promise<void> {
    const { lane } = use
    if (lane.done >= use.at) return
    if (!lane.usable) {
      if (lane.tail === undefined) {
        if (lane.heir === undefined) throw new Error(`${lane} is gone, and nothing stands for it`)
        await this.known(lane.heir)
        this.machine.reached(new Map([[lane, use.at]]), 'the end of a wait for an heir')
        return
      }
      const { event, clock } = lane.tail
      await event.finished()
      this.machine.reached(clock, 'finished() of an event')
      return
    }
    const clock = lane.clock()
    await this.random.one([
      () => this.synchronize(lane),
      () => lane.stream.finished(),
      () => this.#marked(lane).event.finished(),
      () => this.#poll(() => lane.stream.query()),
      () => {
        const { event } = this.#marked(lane)
        return this.#poll(() => event.query())
      },
      () => this.#waitForDevice(lane),
    ])()
    this.machine.reached(clock, 'the end of a wait')
  }

  async #poll(isDone: () => boolean): Promise<void> {
    // While another actor's capture spans turns, it is relaxed: to ask is allowed.
    while (!isDone()) await turn()
  }

  async #waitForDevice({ device, stream }: Lane): Promise<void> {
    let finished: Promise<void> | undefined
    this.machine.ground.waitForDevice(() => {
      if (this.random.chance(0.3)) device.synchronize()
      else finished = device.finished()
    })
    await finished
    // Where a stream captured there was no wait, and after one this costs nothing.
    await stream.finished()
  }

  // Memory.

  newPiece(kind: PieceKind = this.#anyKind(), length = this.random.one(LENGTHS)): Piece {
    const { random } = this
    const lane = this.lane()
    const { device, stream } = lane
    const make = (): { buffer: Piece['buffer']; owner?: DeviceBuffer; home?: Lane } => {
      switch (kind) {
        case 'pinned':
          return { buffer: device.allocPinned(length) }
        case 'interprocess':
          return { buffer: device.alloc(length, { interprocess: true }) }
        case 'device': {
          const given = random.chance(0.7)
          return {
            buffer: given ? device.alloc(length, { stream }) : stream.run(() => device.alloc(length)),
            home: lane,
          }
        }
        case 'foreign': {
          const owner = device.alloc(length, { stream })
          // Who owns it says that it is there.
          stream.fill(owner, 0xee)
          return { buffer: wrapped(owner, random.chance(0.5)), owner, home: lane }
        }
      }
    }
    const piece = new Piece({ kind, ...make() }, { lane, at: lane.at })
    lane.beforeWork()
    stream.fill(piece.buffer, 0)
    piece.writtenBy(lane.worked())
    return piece
  }

  /** One of its pieces, or a new one where it has none of those. */
  piece(wanted: (piece: Piece) => boolean = () => true, make: () => Piece = () => this.newPiece()): Piece {
    const found = this.pieces.filter(wanted)
    if (found.length > 0) return this.random.one(found)
    const fresh = make()
    this.pieces.push(fresh)
    return fresh
  }

  anyPart(piece = this.piece()): Part {
    const { random } = this
    if (random.chance(0.35)) return { piece, from: 0, length: piece.length }
    const from = random.below(piece.length + 1)
    return { piece, from, length: random.below(piece.length - from + 1) }
  }

  /** The buffer of a part: a slice, a slice of a slice, or the whole itself. */
  slice({ piece: { buffer, length: whole }, from, length }: Part): Piece['buffer'] {
    const { random } = this
    if (from === 0 && length === whole && random.chance(0.7)) return buffer
    if (random.chance(0.8)) return buffer.slice(from, length)
    const first = random.below(from + 1)
    return buffer.slice(first, whole - first).slice(from - first, length)
  }

  /**
   * Queues work that touches pieces: first come the waits that it needs. Where the call throws nothing is queued, and the
   * models stay as they are.
   */
  use(lane: Lane, { reads = [], writes = [], empty = false }: Touched, queue: (stream: Stream) => void): void {
    if (empty) {
      this.on(lane, queue)
      return
    }
    lane.beforeWork()
    for (const piece of reads) this.order(lane, piece.written)
    for (const piece of writes) for (const use of piece.uses) this.order(lane, use)
    this.on(lane, queue)
    const use = lane.worked()
    for (const piece of reads) piece.readBy(use)
    for (const piece of writes) piece.writtenBy(use)
  }

  /** The piece is not used any more; its memory is given back, whatever is queued with it. */
  async giveBack(piece: Piece): Promise<void> {
    this.pieces = this.pieces.filter((other) => other !== piece)
    const { buffer, owner, home, untracked, uses } = piece
    if (untracked) {
      // A stream that another library owns is no home: what waits there holds up no free.
      if (home?.usable && !this.#foreign.has(home)) for (const use of uses) this.order(home, use)
      else for (const use of uses) await this.known(use)
    }
    this.random.one([() => buffer.close(), () => buffer[Symbol.dispose]()])()
    this.books.same('closed of a buffer', buffer.closed, true)
    this.books.same('the length of a view of a closed buffer', piece.view.length, 0)
    owner?.close()
  }

  /** Nothing refers to it any more: the garbage collector does what close() does. */
  dropPiece(piece: Piece): void {
    this.pieces = this.pieces.filter((other) => other !== piece)
    this.dropped.push(new WeakRef(piece.buffer))
  }

  #anyKind(): PieceKind {
    return this.random.one<PieceKind>(['device', 'device', 'device', 'pinned', 'pinned', 'foreign', 'interprocess'])
  }

  #anyDevice(): Device {
    const { devices, device } = this.machine
    return this.random.chance(0.75) ? device : this.random.one(devices)
  }
}

/** One turn of the event loop. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** The same memory, as the buffer of somebody who has only the address. */
function wrapped(owner: DeviceBuffer, isOwnerKept: boolean): DeviceBuffer {
  const { pointer, byteLength, device } = owner
  return DeviceBuffer.from(pointer, byteLength, isOwnerKept ? { device, owner } : {})
}
