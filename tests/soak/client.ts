/** One of several that play at the same time in a thread: it has streams, events and memory of its own. */
import { type Device, DeviceBuffer, Event, Stream } from 'cuda-streams'
import type { Graphs } from './actions/graphs.js'
import { Aux } from './aux.js'
import type { ForeignStream, Machine } from './machine.js'
import { type Part, Piece, type PieceKind } from './pieces.js'
import type { Random } from './random.js'
import type { TraceTrack } from './trace.js'
import { codeOf, type Tracker, told } from './tracker.js'
import { type Mark, type Origin, Track, type Use } from './tracks.js'

export interface Action {
  readonly name: string
  /** How often it comes, beside the others. */
  readonly weight: number
  readonly play: (client: Client) => void | Promise<void>
}

/** What an action reads and writes. */
export interface Touched {
  readonly reads?: readonly Piece[]
  readonly writes?: readonly Piece[]
  /** There are no bytes in it: nothing is queued. */
  readonly empty?: boolean
}

const TRACKS = 5
const MARKS = 4
const PIECES = 9
const MOST_GONE = 20
/** Around each length at which the library or CUDA does something else. */
const LENGTHS = [1, 2, 15, 64, 256, 1000, 4096, 24_576, 32_769, 65_536, 65_537, 200_000]
const OWN_ORIGINS: readonly Origin[] = ['own', 'own', 'own', 'blocking', 'foreign', 'foreignBlocking']

export class Client {
  readonly name: string
  readonly random: Random
  readonly machine: Machine
  readonly tracker: Tracker
  readonly trace: TraceTrack
  tracks: Track[]
  pieces: Piece[] = []
  marks: Mark[]
  readonly aux: Aux
  /** What it captured. */
  graphs: Graphs | undefined
  /** Things that were let go of without a close, for the garbage collector. */
  readonly dropped: WeakRef<object>[] = []
  /** The handles of streams that another library made. */
  readonly #foreign = new Map<Track, ForeignStream>()
  /** Streams that are gone, of whose work not all is known to be done. */
  readonly #gone: Track[] = []

  constructor(name: string, random: Random, machine: Machine, trace: TraceTrack) {
    this.name = name
    this.random = random
    this.machine = machine
    this.tracker = machine.tracker
    this.trace = trace
    this.tracks = Array.from({ length: TRACKS }, () => this.newTrack())
    this.marks = Array.from({ length: MARKS }, () => this.newMark())
    this.aux = new Aux(this)
    for (let left = PIECES; left > 0; left -= 1) this.pieces.push(this.newPiece())
  }

  fail(what: string): void {
    this.tracker.fail(`client ${this.name}: ${what} (after ${this.trace.last})`)
  }

  follow<T>(what: string, promise: Promise<T>, check?: (value: T) => void): void {
    this.tracker.follow(`client ${this.name}: ${what} (after ${this.trace.last})`, promise, check)
  }

  /** Expects a call to throw an error with this code. */
  refused(what: string, code: string, call: () => unknown): void {
    this.tracker.counts.mistakes += 1
    try {
      const value = call()
      this.fail(`${what} should be refused with ${code}, and gave ${String(value)}`)
    } catch (error) {
      if (codeOf(error) !== code) this.fail(`${what} should be refused with ${code}, and was with ${told(error)}`)
    }
  }

  /** The same of a promise. */
  rejected(what: string, code: string, promise: Promise<unknown>): void {
    this.tracker.counts.mistakes += 1
    const verdict = promise.then(
      () => `${what} should reject with ${code}, and was fulfilled`,
      (error: unknown) => (codeOf(error) === code ? undefined : `${what} should reject with ${code}: ${told(error)}`),
    )
    this.follow(what, verdict, (wrong) => {
      if (wrong !== undefined) this.fail(wrong)
    })
  }

  // Streams.

  newTrack(origin: Origin = this.random.one(OWN_ORIGINS), device = this.#anyDevice()): Track {
    const { random, machine } = this
    const priority = random.chance(0.3) ? -random.below(6) : 0
    const nonBlocking = origin === 'own' || origin === 'foreign'
    if (origin === 'foreign' || origin === 'foreignBlocking') {
      const foreign = machine.takeForeign(device, nonBlocking, priority)
      if (foreign === undefined) return this.newTrack('own', device)
      const stream = Stream.from(foreign.handle, random.chance(0.5) ? {} : { device, owner: {} })
      const track = new Track(stream, origin, machine.legacyOf(device))
      this.#foreign.set(track, foreign)
      return track
    }
    const stream = random.one([
      () => new Stream({ device, priority, nonBlocking }),
      () => new Stream({ device: device.ordinal, priority, nonBlocking }),
      () => device.createStream({ priority, nonBlocking }),
      () => device.run(() => new Stream({ priority, nonBlocking })),
    ])()
    return new Track(stream, origin, machine.legacyOf(device))
  }

  /** A stream that work can be queued on; on this device, if one is given. */
  track(device?: Device, wanted: (track: Track) => boolean = () => true): Track {
    const { random, machine } = this
    const mine = this.tracks.filter(
      (track) => track.usable && (device ?? track.device) === track.device && wanted(track),
    )
    if (random.chance(0.06) || mine.length === 0) {
      const where = device ?? this.#anyDevice()
      const shared = [
        ...(machine.fixture.usesNullStream ? [machine.nullTrack(where)] : []),
        machine.perThreadTrack(where),
      ].filter((track) => track.usable && wanted(track))
      if (shared.length > 0) return random.one(shared)
    }
    if (mine.length > 0) return random.one(mine)
    const fresh = this.newTrack('own', device)
    this.tracks.push(fresh)
    return fresh
  }

  /** The stream itself, or another wrapper of it. Where `close` is true it has to be closed afterwards. */
  handOver({ stream, origin, device }: Track): { readonly stream: Stream; readonly close: boolean } {
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
  on<R>(track: Track, call: (stream: Stream) => R): R {
    const { stream, close } = this.handOver(track)
    try {
      return call(stream)
    } finally {
      if (close) stream.close()
    }
  }

  /** The stream is not used any more, whatever is queued: it is closed, or left to the garbage collector. */
  async retire(track: Track, drop = false): Promise<void> {
    const { random } = this
    this.tracks = this.tracks.filter((other) => other !== track)
    const successors = this.tracks.filter((other) => other.usable)
    if (successors.length > 0 && random.chance(0.4)) track.successor = this.waitFor(random.one(successors), track)
    else this.keepTail(track)
    const stream = track.letGo()
    if (drop) this.dropped.push(new WeakRef(stream))
    else random.one([() => stream.close(), () => stream[Symbol.dispose]()])()
    const foreign = this.#foreign.get(track)
    this.#foreign.delete(track)
    if (foreign !== undefined) this.machine.giveBackForeign(foreign)
    this.#gone.push(track)
    if (this.#gone.length > MOST_GONE) await this.#forgetGone()
  }

  /** Waits for the streams that are gone, and forgets them. */
  async #forgetGone(): Promise<void> {
    for (const track of this.#gone.splice(0)) {
      await this.known({ track, at: track.at })
      track.forget()
    }
  }

  /** An event that stands for all of the stream's work from now on. */
  keepTail(track: Track): void {
    track.tail = { event: track.stream.record(), clock: track.clock() }
  }

  // Events.

  newMark(device = this.#anyDevice()): Mark {
    const { random } = this
    const options = random.one([{}, { timing: true }, { blockingSync: true }, { interprocess: true }])
    const event = random.one([() => new Event({ device, ...options }), () => device.createEvent(options)])()
    return { event, clock: new Map() }
  }

  record(track: Track, mark: Mark): void {
    const { random } = this
    const { stream } = track
    random.one([
      () => void stream.record(mark.event),
      () => void mark.event.record(stream),
      () => void stream.run(() => mark.event.record()),
      () => void this.on(track, (same) => same.record(mark.event, { external: false })),
    ])()
    mark.clock = track.clock()
  }

  markFor(device: Device): Mark {
    const mine = this.marks.filter(({ event }) => event.device === device)
    if (mine.length > 0) return this.random.one(mine)
    const fresh = this.newMark(device)
    this.marks.push(fresh)
    return fresh
  }

  /** A mark that was recorded there now. */
  #marked(track: Track): Mark {
    const mark = this.markFor(track.device)
    this.record(track, mark)
    return mark
  }

  // Order.

  /** Lets a stream wait for all that another holds. Returns the place of the wait. */
  waitFor(track: Track, other: Track): Use {
    const { random } = this
    const { stream } = track
    if (!other.usable) return this.#waitForTail(track, other)
    const clock = other.clock()
    random.one([
      () => void stream.wait(other.stream),
      () => void this.on(track, (same) => this.on(other, (theirs) => same.wait(theirs))),
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
          () => void (track.device === other.device ? stream.run(() => mark.event.wait()) : stream.wait(mark.event)),
          () => {
            using theirs = Event.from(mark.event.handle, { device: other.device, owner: mark })
            stream.wait(theirs)
          },
        ])()
      },
    ])()
    return track.waited(clock)
  }

  #waitForTail(track: Track, other: Track): Use {
    const { tail, successor } = other
    if (tail !== undefined) {
      track.stream.wait(tail.event)
      return track.waited(tail.clock)
    }
    if (successor === undefined) throw new Error(`${other} is gone, and nothing stands for it`)
    return track.sees(successor) ? successor : this.waitFor(track, successor.track)
  }

  /** Lets all that is queued on the stream from now on come after a use. */
  order(track: Track, use: Use): void {
    if (track.sees(use)) return
    if (use.track.usable && this.random.chance(0.05)) this.synchronize(use.track)
    else this.waitFor(track, use.track)
    if (!track.sees(use)) throw new Error(`${track} should come after ${use.at} of ${use.track} now`)
  }

  synchronize(track: Track): void {
    const { random } = this
    const clock = track.clock()
    random.one([
      () => this.on(track, (stream) => stream.synchronize()),
      () => this.#marked(track).event.synchronize(),
      () => {
        using event = track.stream.record({ blockingSync: true })
        event.synchronize()
      },
    ])()
    this.machine.reached(clock, 'the end of a blocking wait')
  }

  /** Returns when the host knows that a use is done: by blocking, by a promise, or by asking again and again. */
  async known(use: Use): Promise<void> {
    const { track } = use
    if (track.done >= use.at) return
    if (!track.usable) {
      if (track.tail === undefined) {
        if (track.successor === undefined) throw new Error(`${track} is gone, and nothing stands for it`)
        await this.known(track.successor)
        this.machine.reached(new Map([[track, use.at]]), 'the end of a wait for an successor')
        return
      }
      const { event, clock } = track.tail
      await event.finished()
      this.machine.reached(clock, 'finished() of an event')
      return
    }
    const clock = track.clock()
    await this.random.one([
      () => this.synchronize(track),
      () => track.stream.finished(),
      () => this.#marked(track).event.finished(),
      () => this.#poll(() => track.stream.query()),
      () => {
        const { event } = this.#marked(track)
        return this.#poll(() => event.query())
      },
      () => this.#waitForDevice(track),
    ])()
    this.machine.reached(clock, 'the end of a wait')
  }

  async #poll(isDone: () => boolean): Promise<void> {
    // While another client's capture spans turns, it is relaxed: to ask is allowed.
    while (!isDone()) await turn()
  }

  async #waitForDevice({ device, stream }: Track): Promise<void> {
    let finished: Promise<void> | undefined
    this.machine.fixture.waitForDevice(() => {
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
    const track = this.track()
    const { device, stream } = track
    const make = (): { buffer: Piece['buffer']; owner?: DeviceBuffer; allocationStream?: Track } => {
      switch (kind) {
        case 'pinned':
          return { buffer: device.allocPinned(length) }
        case 'interprocess':
          return { buffer: device.alloc(length, { interprocess: true }) }
        case 'device': {
          const given = random.chance(0.7)
          return {
            buffer: given ? device.alloc(length, { stream }) : stream.run(() => device.alloc(length)),
            allocationStream: track,
          }
        }
        case 'foreign': {
          const owner = device.alloc(length, { stream })
          // Who owns it says that it is there.
          stream.fill(owner, 0xee)
          return { buffer: wrapped(owner, random.chance(0.5)), owner, allocationStream: track }
        }
      }
    }
    const piece = new Piece({ kind, ...make() }, { track, at: track.at })
    track.beforeWork()
    stream.fill(piece.buffer, 0)
    piece.writtenBy(track.worked())
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
    if (random.chance(0.8)) return buffer.subarray(from, from + length)
    const first = random.below(from + 1)
    return buffer.subarray(first, whole).subarray(from - first, from - first + length)
  }

  /**
   * Queues work that touches pieces: first come the waits that it needs. Where the call throws nothing is queued, and the
   * models stay as they are.
   */
  use(track: Track, { reads = [], writes = [], empty = false }: Touched, queue: (stream: Stream) => void): void {
    if (empty) {
      this.on(track, queue)
      return
    }
    track.beforeWork()
    for (const piece of reads) this.order(track, piece.written)
    for (const piece of writes) for (const use of piece.uses) this.order(track, use)
    this.on(track, queue)
    const use = track.worked()
    for (const piece of reads) piece.readBy(use)
    for (const piece of writes) piece.writtenBy(use)
  }

  /** The piece is not used any more; its memory is given back, whatever is queued with it. */
  async giveBack(piece: Piece): Promise<void> {
    this.pieces = this.pieces.filter((other) => other !== piece)
    const { buffer, owner, allocationStream, untracked, uses } = piece
    if (untracked) {
      // A stream that another library owns is no allocationStream: what waits there holds up no free.
      if (allocationStream?.usable && !this.#foreign.has(allocationStream))
        for (const use of uses) this.order(allocationStream, use)
      else for (const use of uses) await this.known(use)
    }
    this.random.one([() => buffer.close(), () => buffer[Symbol.dispose]()])()
    this.tracker.same('closed of a buffer', buffer.closed, true)
    this.tracker.same('the length of a view of a closed buffer', piece.view.length, 0)
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
