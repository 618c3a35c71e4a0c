/** What the cells of one process share: memory of every kind, and a look at what it holds. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { type Device, DeviceBuffer, MemoryPool, PinnedBuffer, type SharedBuffer, type Stream } from 'cuda-streams'
import { fromDLPack, toDLPack } from 'cuda-streams/dlpack'
import type { Workbench } from '../helpers/workbench.js'
import type { MemoryKind } from './axes.js'

/** What an operand has: all of its words are alike. */
export const WORDS = 256
export const BYTES = 4 * WORDS
/** A slice has as much before it and behind it, which no call may touch. */
const AROUND = 3
/** More than a queue holds. */
const MOST_ENTRIES = 5000

export type Buffer = DeviceBuffer | PinnedBuffer

/** One operand of a call. */
export interface Piece {
  readonly kind: MemoryKind
  readonly buffer: Buffer
  /** What it is a slice of, or itself: to close it ends both. */
  readonly whole: Buffer
  /** Words of the whole before it. */
  readonly offset: number
  /** Gives all of it back. */
  dispose(): void
}

export class Lab {
  readonly bench: Workbench
  readonly device: Device
  readonly second: Device | undefined
  /** A stream on each device that the operands are written and read by. */
  readonly allocationStream: Stream
  readonly secondAllocationStream: Stream | undefined
  readonly #pool = new Map<string, Piece>()
  readonly #scratch: PinnedBuffer
  readonly #tokens: SharedBuffer[] = []
  readonly #made = new Map<string, unknown>()
  #room: number | undefined

  private constructor(bench: Workbench) {
    this.bench = bench
    this.device = bench.device
    this.second = bench.devices[1]
    this.allocationStream = bench.stream()
    this.secondAllocationStream = this.second === undefined ? undefined : bench.stream({ device: this.second })
    this.#scratch = bench.device.allocPinned(AROUND * BYTES)
  }

  static async open(bench: Workbench): Promise<Lab> {
    const lab = new Lab(bench)
    // The simulator shares nothing between threads.
    if (bench.name === 'cuda') lab.#tokens.push(...(await tokensOfAnotherThread()))
    return lab
  }

  /** Why there is no memory of this kind here, if there is none. */
  lacks(kind: MemoryKind): string | undefined {
    return kind === 'second device' && this.second === undefined ? 'this machine has only one device' : undefined
  }

  /** Makes something once for all cells. */
  once<T>(name: string, make: () => T): T {
    if (!this.#made.has(name)) this.#made.set(name, make())
    return this.#made.get(name) as T
  }

  forget(name: string): void {
    this.#made.delete(name)
  }

  /** Memory for the operand of this number, the same for all cells unless it belongs to the stream. */
  kept(kind: MemoryKind, operand: number, stream: Stream): Piece {
    if (kind === 'own') return this.make(kind, stream)
    const key = `${kind} ${operand}`
    let piece = this.#pool.get(key)
    if (piece === undefined) {
      piece = { ...this.make(kind, stream, operand), dispose: () => {} }
      this.#pool.set(key, piece)
    }
    return piece
  }

  make(kind: MemoryKind, stream: Stream, operand = 0): Piece {
    const { device, allocationStream, second, secondAllocationStream } = this
    const whole = (buffer: Buffer): Piece => ({ kind, buffer, whole: buffer, offset: 0, dispose: () => buffer.close() })
    const part = (all: Buffer): Piece => ({ ...whole(all), buffer: all.subarray(BYTES, 2 * BYTES), offset: WORDS })
    switch (kind) {
      case 'own':
        return whole(device.alloc(BYTES, { stream }))
      case 'device':
        return whole(device.alloc(BYTES, { stream: allocationStream }))
      case 'slice':
        return part(device.alloc(AROUND * BYTES, { stream: allocationStream }))
      case 'pinned':
        return whole(device.allocPinned(BYTES))
      case 'pinned slice':
        return part(device.allocPinned(AROUND * BYTES))
      case 'foreign': {
        const base = device.alloc(BYTES, { stream: allocationStream })
        allocationStream.synchronize()
        const wrapped = DeviceBuffer.from(base.pointer, BYTES, { device, owner: base })
        return { ...whole(wrapped), dispose: () => [wrapped, base].forEach((each) => void each.close()) }
      }
      case 'interprocess':
        return whole(device.alloc(BYTES, { interprocess: true }))
      case 'shared': {
        const token = this.#tokens[operand]
        if (token !== undefined) return whole(DeviceBuffer.from(token))
        const all = device.alloc(AROUND * BYTES, { stream: allocationStream })
        return { ...part(all), buffer: DeviceBuffer.from(all.subarray(BYTES, 2 * BYTES).share()) }
      }
      case 'registered': {
        const array = new Uint32Array(AROUND * WORDS)
        return whole(PinnedBuffer.from(array.subarray(WORDS, 2 * WORDS), { device }))
      }
      case 'registered shared':
        return whole(PinnedBuffer.from(new SharedArrayBuffer(BYTES), { device }))
      case 'pool': {
        const pool = this.once('a pool', () => new MemoryPool({ device }))
        return whole(device.alloc(BYTES, { stream: allocationStream, pool }))
      }
      case 'dlpack': {
        const base = device.alloc(BYTES, { stream: allocationStream })
        const tensor = toDLPack(base, { dtype: 'u32', shape: [WORDS], stream: allocationStream })
        const { buffer } = fromDLPack(tensor, { stream: allocationStream })
        return { ...whole(buffer), dispose: () => [buffer, base].forEach((each) => void each.close()) }
      }
      case 'second device': {
        assert.ok(second !== undefined && secondAllocationStream !== undefined, 'there is a second device')
        return whole(second.alloc(BYTES, { stream: secondAllocationStream }))
      }
    }
  }

  /** Writes a word over all of it, and over what lies around it. To be settled. */
  write({ whole }: Piece, word: number): void {
    if (whole instanceof PinnedBuffer) whole.view(Uint32Array).fill(word)
    else this.#allocationStreamOf(whole).fill(whole, word, { width: 4 })
  }

  /** Does every word of it hold this, and every word around it that? */
  check(what: string, piece: Piece, word: number, around: number): void {
    const words = this.#read(piece.whole)
    const isInside = (index: number): boolean => index >= piece.offset && index < piece.offset + WORDS
    const wrong = words.findIndex((found, index) => found !== (isInside(index) ? word : around))
    if (wrong === -1) return
    const where = isInside(wrong) ? what : `what lies beside ${what}`
    assert.fail(`${where} holds ${hex(words[wrong] ?? 0)} and not ${hex(isInside(wrong) ? word : around)}`)
  }

  /** Waits for all that is queued on all devices. */
  settle(): void {
    for (const device of this.bench.devices) device.synchronize()
  }

  /** How many fills a stream takes behind a host function before one finds the queue full. */
  get room(): number {
    this.#room ??= this.#measureRoom()
    return this.#room
  }

  #measureRoom(): number {
    const { bench, device } = this
    const stream = bench.stream()
    const buffer = device.alloc(BYTES, { stream })
    let ran = 0
    stream.launchHostFunc(() => {
      ran += 1
    })
    let accepted = 0
    while (ran === 0 && accepted < MOST_ENTRIES) {
      stream.fill(buffer, 1)
      accepted += 1
    }
    stream.synchronize()
    buffer.close()
    stream.close()
    assert.ok(accepted < MOST_ENTRIES, 'a stream takes any amount of work behind a host function')
    // The last one was the one that found it full.
    return accepted - 1
  }

  #read(whole: Buffer): Uint32Array {
    if (whole instanceof PinnedBuffer) return whole.view(Uint32Array).slice()
    const allocationStream = this.#allocationStreamOf(whole)
    const to = this.#scratch.subarray(0, whole.byteLength)
    allocationStream.copy(to, whole).synchronize()
    return to.view(Uint32Array).slice()
  }

  #allocationStreamOf({ device }: Buffer): Stream {
    return device === this.second && this.secondAllocationStream !== undefined
      ? this.secondAllocationStream
      : this.allocationStream
  }
}

const hex = (word: number): string => `0x${word.toString(16).padStart(8, '0')}`

async function tokensOfAnotherThread(): Promise<readonly SharedBuffer[]> {
  const worker = new Worker(fileURLToPath(new URL('./owner.js', import.meta.url)), { workerData: BYTES })
  const [tokens] = (await once(worker, 'message')) as [readonly SharedBuffer[]]
  // It has the memory open as long as the process lives.
  worker.unref()
  return tokens
}
