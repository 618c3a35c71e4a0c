/** What one cell is played with: a stream, a host function that stands, a capture, and memory. */
import assert from 'node:assert/strict'
import { CudaError, Event, ExternalStream, type Graph, LibraryError, Stream } from 'cuda-streams'
import type { Workbench } from '../helpers/workbench.js'
import { type Hold, isBehind, isPinned, type MemoryKind, type Situation, type StreamKind } from './axes.js'
import type { Call, EventOf, Operand } from './call.js'
import type { Buffer, Lab, Piece } from './lab.js'

/** What operands are full of before the call, by their number. */
const WORDS_BEFORE = [0x11111111, 0x22222222, 0x33333333]
/** What the host function writes into pinned memory that the call is to read. */
const LATE = 0x4a4a4a4a
/** Milliseconds in which what is pending must settle once nothing stands any more. */
const SETTLES_WITHIN = 15_000

export class Scene {
  readonly lab: Lab
  readonly bench: Workbench
  readonly situation: Situation
  readonly hold: Hold
  readonly stream: Stream
  readonly pieces: readonly Piece[]
  readonly #operands: readonly Operand[]
  /** What ran, in its order: 'hold' and what calls add. */
  readonly log: string[] = []
  /** How often the host function that stands has run. */
  ran = 0
  /** By the name of what can be closed while the call runs: how. */
  readonly closers = new Map<string, () => void>([['the stream', () => this.stream.close()]])
  /** What the call is about, where its entry says so. */
  subject: { readonly closed: boolean } | undefined
  /** Called by the host function when it runs. */
  #onHold: () => void = () => {}
  readonly event: Event
  readonly #eventOf: EventOf | undefined
  #late = false
  #comesBack = false
  #held: Promise<void> = Promise.resolve()
  /** The stream that captures: the call's, or another. */
  #capturing: Stream | undefined
  readonly #cleanups: (() => void)[] = []

  /** `fresh`: with memory of its own. `stream`: on this one. */
  constructor(
    lab: Lab,
    call: Call,
    situation: Situation,
    hold: Hold,
    kinds: readonly MemoryKind[],
    fresh = false,
    stream?: Stream,
  ) {
    this.lab = lab
    this.bench = lab.bench
    this.situation = situation
    this.hold = hold
    this.stream = stream ?? this.newStream(situation.stream)
    this.#operands = call.memory ?? []
    this.#eventOf = call.event
    this.event = this.keep(new Event({ device: lab.device, timing: call.event === 'before' }))
    if (call.event !== undefined) this.closers.set('the event', () => this.event.close())
    this.pieces = kinds.map((kind, index) => {
      const piece = fresh ? lab.make(kind, this.stream, index) : lab.kept(kind, index, this.stream)
      this.#cleanups.push(() => piece.dispose())
      this.closers.set(`the ${this.#operands[index]?.name}`, () => piece.whole.close())
      return piece
    })
    this.pieces.forEach((piece, index) => void lab.write(piece, this.wordBefore(index)))
    // What is asked only once can be answered during a capture.
    void [this.stream.id, this.stream.nonBlocking, this.stream.priority]
  }

  get device() {
    return this.lab.device
  }

  /** An operand, for the call. */
  buffer(index: number): Buffer {
    const piece = this.pieces[index]
    assert.ok(piece !== undefined, `the call has an operand ${index}`)
    return piece.buffer
  }

  wordBefore(index: number): number {
    return this.#operands[index]?.word ?? WORDS_BEFORE[index] ?? 0
  }

  /** What a call that comes when its turn is finds there. */
  wordRead(index: number): number {
    const piece = this.pieces[index]
    const isWritten = this.#late && piece !== undefined && isPinned(piece.kind) && this.#isOnlyRead(index)
    return isWritten ? LATE : this.wordBefore(index)
  }

  newStream(kind: StreamKind): Stream {
    const { device, bench } = this.lab
    switch (kind) {
      case 'null':
        return device.defaultStream
      case 'per-thread':
        return device.run(() => Stream.perThread)
      case 'external': {
        const handle = bench.foreignStream(device)
        this.#cleanups.push(() => bench.destroyForeignStream(handle))
        return this.keep(new ExternalStream(handle, { device }))
      }
      case 'green': {
        const [context] = this.lab.once('green contexts', () => device.split({ multiprocessors: [16] }))
        return this.keep(new Stream({ context }))
      }
      default:
        return this.keep(new Stream({ device, nonBlocking: kind === 'non-blocking' }))
    }
  }

  /** Closes it when the cell is over. */
  keep<T extends { close(): void }>(value: T): T {
    this.#cleanups.push(() => value.close())
    return value
  }

  /** Does what the call queues come after the host function? */
  get isBehind(): boolean {
    return isBehind(this.hold, this.situation.stream)
  }

  recordBefore(): void {
    if (this.#eventOf === 'before') this.stream.record(this.event)
  }

  /** Queues the host function that stands from now on. */
  holdUp(): void {
    if (this.hold === 'nothing') return
    const { hold } = this
    const held =
      hold === 'own' ? this.stream : this.newStream(hold === 'null' || hold === 'blocking' ? hold : 'non-blocking')
    // Only where the call comes after it for sure, and does not say itself what it reads.
    this.#late = this.isBehind && this.#operands.every(({ word }) => word === undefined)
    const writes = this.#late ? this.pieces.flatMap((_, index) => (this.#isOnlyRead(index) ? [index] : [])) : []
    this.#held = new Promise((resolve) => {
      held.launchHostFunc(() => {
        this.ran += 1
        this.log.push('hold')
        for (const index of writes) this.#writeLate(index)
        this.#onHold()
        resolve()
      })
    })
  }

  /** What closes something of that name. */
  closer(target: string): () => void {
    const close = this.closers.get(target)
    assert.ok(close !== undefined, `the call uses ${target}`)
    return close
  }

  /** The host function is to close something when it runs. */
  closeInside(target: string): void {
    this.#onHold = this.closer(target)
  }

  /** Begins the capture of the situation. */
  beginCapture(): void {
    const { capture } = this.situation
    // A null stream takes no record any more while a blocking stream captures.
    if (capture?.of !== 'the stream') this.#recordBehind()
    if (capture === undefined) return
    const { of, mode, invalidated = false } = capture
    const kind = of === 'a blocking stream' ? 'blocking' : 'non-blocking'
    this.#capturing = of === 'the stream' ? this.stream : this.newStream(kind)
    this.#capturing.beginCapture(mode)
    if (of === 'the stream') this.#recordBehind()
    if (!invalidated) return
    assert.equal(outcomeOf(() => this.stream.query()).outcome, '900', 'to ask a stream that captures')
  }

  /** Ends the capture of the situation. Undefined where there is none to be ended. */
  endCapture(): Graph | string | undefined {
    const capturing = this.#capturing
    this.#capturing = undefined
    if (capturing === undefined || capturing.closed || !capturing.isCapturing) return undefined
    const { outcome, value } = outcomeOf(() => capturing.endCapture())
    return outcome === 'returns' ? this.keep(value as Graph) : outcome
  }

  /** Resolves when the host function has run and all work that was queued on the stream is done. */
  async settled(...promises: readonly Promise<unknown>[]): Promise<void> {
    const { stream } = this
    await inTime('the host function that stood', this.#held)
    await inTime('the promise of the call', Promise.allSettled(promises))
    if (stream.closed) await inTime('device.finished()', this.device.finished())
    else {
      await inTime('stream.finished()', stream.finished())
      // A null stream waits for blocking streams, too, on which what other cells have lent may come back at a time of its own.
      const mayComeBack = this.#comesBack || this.situation.stream === 'null'
      if (mayComeBack) await inTime('the stream once memory came back', this.#quiet())
      assert.equal(stream.query(), true, 'the stream has nothing left to do')
    }
  }

  /** The call lends memory, which is freed on the stream when it comes back: later, at a time of its own. */
  lends(): void {
    this.#comesBack = true
  }

  async #quiet(): Promise<void> {
    while (!this.stream.query()) await this.stream.finished()
  }

  /** Are all operands as they must be, after so many calls that were taken? */
  checkMemory(times: number): void {
    for (const [index, piece] of this.pieces.entries()) {
      if (piece.whole.closed) continue
      const { name, becomes } = this.#operands[index] ?? { name: '' }
      const before = this.wordRead(index)
      this.lab.check(`the ${name}`, piece, becomes !== undefined && times > 0 ? becomes(this, times) : before, before)
    }
  }

  /** Leaves nothing behind, whatever has happened. */
  dispose(): void {
    for (const stream of new Set([this.#capturing, this.stream])) endQuietly(stream)
    for (const cleanup of this.#cleanups.reverse()) quietly(cleanup)
  }

  #isOnlyRead(index: number): boolean {
    return this.#operands[index]?.becomes === undefined
  }

  #recordBehind(): void {
    if (this.#eventOf === 'behind') this.stream.record(this.event)
  }

  #writeLate(index: number): void {
    const piece = this.pieces[index]
    if (piece !== undefined && isPinned(piece.kind) && !piece.whole.closed) this.lab.write(piece, LATE)
  }
}

/** What came of a call, as the rules say it: 'returns', a CUresult, or a code. */
export interface Outcome {
  readonly outcome: string
  readonly value?: unknown
  readonly error?: unknown
}

export function outcomeOf(call: () => unknown): Outcome {
  try {
    return { outcome: 'returns', value: call() }
  } catch (error) {
    return { outcome: nameOf(error), error }
  }
}

/** The same of a promise, where the call returned one. */
export async function outcomeWithin(first: Outcome): Promise<Outcome> {
  if (!(first.value instanceof Promise)) return first
  try {
    return { outcome: 'returns', value: await inTime('the promise of the call', first.value) }
  } catch (error) {
    return { outcome: nameOf(error), error }
  }
}

function nameOf(error: unknown): string {
  if (error instanceof CudaError) return String(error.number)
  if (error instanceof LibraryError) return 'LibraryError'
  const { code } = error as { readonly code?: unknown }
  return typeof code === 'string' ? code : `an error without a code: ${error}`
}

export async function inTime<T>(what: string, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not settle within ${SETTLES_WITHIN} ms`)), SETTLES_WITHIN)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

function quietly(act: () => void): void {
  try {
    act()
  } catch {
    // What went wrong before has been told.
  }
}

function endQuietly(stream: Stream | undefined): void {
  quietly(() => {
    if (stream !== undefined && !stream.closed && stream.isCapturing) stream.endCapture().close()
  })
}
