/**
 * The files of memory through which simulated ranks of several threads and processes meet: in them each rank writes that it is
 * there, and the address of the bytes that it gives to the others.
 */
import { Contents, HANDLE_BYTES, MemoryFile } from '../../foundation/native/memory-file.js'

/**
 * The slots in the file of a process. For each id that the process has made there is one, with whether ranks have come, and the
 * handle of their file.
 */
const SLOTS = 512
const SLOT_BYTES = 128
const FREE = 0
const CLAIMED = 1
const READY = 2
/** The offsets in an id of the handle of the file of slots, without its zeros, and of the slot's number. */
const HANDLE_AT = 32
const SLOT_AT = 80

const MOST_RANKS = 1024

let slots: MemoryFile | undefined
let lastSlot = 0

/** Writes into an id the place at which its ranks meet. */
export function writeMeetingPlace(id: Uint8Array): void {
  slots ??= MemoryFile.make(SLOTS * SLOT_BYTES, Contents.RANKS)
  lastSlot = (lastSlot + 1) % SLOTS
  new Uint8Array(slots.buffer, lastSlot * SLOT_BYTES, SLOT_BYTES).fill(0)
  id.set(slots.handle.subarray(0, SLOT_AT - HANDLE_AT), HANDLE_AT)
  new DataView(id.buffer, id.byteOffset).setUint32(SLOT_AT, lastSlot, true)
}

/** The entries of one collective call after the other, and of one message of a pair after the other. */
const COLLECTIVES = 16
const MESSAGES = 8
const ENTRY_WORDS = 32
const NUMBER = 0
const CONSUMED = 1
const LENGTH = 2
/** The offset of the handle of the file with the rank's bytes, in bytes from the beginning of the entry. */
const ENTRY_HANDLE = 16

/** Bytes that a rank gives to others. */
export class Gift {
  constructor(
    private readonly words: Int32Array,
    private readonly at: number,
    private readonly number: number,
  ) {}

  get isGiven(): boolean {
    return Atomics.load(this.words, this.at + NUMBER) === this.number
  }

  /** Is the place free, since all takers have taken what was there before? */
  isFree(takers: number): boolean {
    return Atomics.load(this.words, this.at + NUMBER) === 0 || this.isTaken(takers)
  }

  isTaken(takers: number): boolean {
    return Atomics.load(this.words, this.at + CONSUMED) >= takers
  }

  /** Returns the file with the bytes, to be closed once all have taken them. */
  give(bytes: Uint8Array): MemoryFile {
    const file = MemoryFile.make(Math.max(1, bytes.length), Contents.RANKS)
    new Uint8Array(file.buffer).set(bytes)
    this.words[this.at + LENGTH] = bytes.length
    new Uint8Array(this.words.buffer, 4 * this.at + ENTRY_HANDLE, HANDLE_BYTES).set(file.handle)
    Atomics.store(this.words, this.at + CONSUMED, 0)
    Atomics.store(this.words, this.at + NUMBER, this.number)
    return file
  }

  take(): Uint8Array {
    const handle = new Uint8Array(this.words.buffer, 4 * this.at + ENTRY_HANDLE, HANDLE_BYTES).slice()
    const file = MemoryFile.open(handle, Contents.RANKS)
    if (file === undefined) throw new Error('A rank has ended before the others had what it gave them')
    const bytes = new Uint8Array(file.buffer, 0, this.words[this.at + LENGTH]).slice()
    file.close()
    Atomics.add(this.words, this.at + CONSUMED, 1)
    return bytes
  }
}

/** The ranks of one communicator. */
export class RankFile {
  readonly #file: MemoryFile
  readonly #words: Int32Array

  private constructor(
    file: MemoryFile,
    private readonly size: number,
  ) {
    this.#file = file
    this.#words = new Int32Array(file.buffer)
  }

  /**
   * The file of an id, which the first rank makes. Undefined while another rank makes it, and if the process is gone that made
   * the id.
   */
  static of(id: Uint8Array, size: number): RankFile | undefined {
    if (size > MOST_RANKS) throw new RangeError(`On the simulator a communicator has at most ${MOST_RANKS} ranks`)
    const place = id.slice(HANDLE_AT, HANDLE_AT + HANDLE_BYTES)
    place.fill(0, SLOT_AT - HANDLE_AT)
    const meeting = MemoryFile.open(place, Contents.RANKS)
    if (meeting === undefined) return undefined
    const offset = new DataView(id.buffer, id.byteOffset).getUint32(SLOT_AT, true) * SLOT_BYTES
    const slot = new Int32Array(meeting.buffer, offset, 1)
    const handle = new Uint8Array(meeting.buffer, offset + HANDLE_BYTES, HANDLE_BYTES)
    try {
      if (Atomics.compareExchange(slot, 0, FREE, CLAIMED) === FREE) {
        const file = MemoryFile.make(bytesFor(size), Contents.RANKS)
        handle.set(file.handle)
        Atomics.store(slot, 0, READY)
        return new RankFile(file, size)
      }
      const file = Atomics.load(slot, 0) === READY ? MemoryFile.open(handle.slice(), Contents.RANKS) : undefined
      return file === undefined ? undefined : new RankFile(file, size)
    } finally {
      meeting.close()
    }
  }

  enter(rank: number, thread: number): void {
    Atomics.store(this.#words, rank, thread)
  }

  leave(rank: number): void {
    Atomics.store(this.#words, rank, 0)
  }

  /** The threads of the ranks; 0 for one that is missing. */
  get threads(): readonly number[] {
    return Array.from({ length: this.size }, (_, rank) => Atomics.load(this.#words, rank))
  }

  /** What the rank gives in the collective call of this number, from 0. */
  collective(rank: number, number: number): Gift {
    return this.#gift(this.size + (rank * COLLECTIVES + (number % COLLECTIVES)) * ENTRY_WORDS, number)
  }

  /** What is in the message of this number between two ranks. */
  message(from: number, to: number, number: number): Gift {
    const pairs = this.size + this.size * COLLECTIVES * ENTRY_WORDS
    return this.#gift(pairs + ((from * this.size + to) * MESSAGES + (number % MESSAGES)) * ENTRY_WORDS, number)
  }

  close(): void {
    this.#file.close()
  }

  #gift(at: number, number: number): Gift {
    // Aligned, for handles of whole words.
    return new Gift(this.#words, Math.ceil(at / 4) * 4, number + 1)
  }
}

const bytesFor = (size: number): number => 4 * (size + 4 + ENTRY_WORDS * (size * COLLECTIVES + size * size * MESSAGES))
